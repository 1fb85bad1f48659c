/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The states of tasks, and the policy's part in each change of state. Everything here runs with
 * the lock held.
 *
 *            enable          join           pick
 *     OUT ───────► BLOCKED ───────► WAITING ─────► RUNNING
 *      ▲             ▲  ▲              │ ▲            │
 *      └───disable───┘  └──────part────┘ └────end─────┘
 *                    │
 *                    └ AWAY: blocked for the policy, but running a quantum outside it
 *
 * Of who blocks or leaves the policy is told by the next decision (news.h). Until a task wakes first it does
 * not know it.
 *
 * A task that may not run where it is picked has its turn, and runs it later (paid.h): it is WAITING and
 * then RUNNING here, while it waits for its next turn in the policy.
 *
 * Worked example: a task that must stay on cpu 0 for a moment, whatever its mask, is picked by cpu 1. Its
 * quantum is charged and it parts from the policy (send_away); cpu 0 runs it for a quantum beside its own
 * task; then it joins again. It got the quantum that it was picked for, on the cpu where it may run.
 *
 * Rescue: a task that has waited `rescue_ns` is run out of turn for a 32nd of a quantum, at most every
 * second decision of a cpu, and keeps its place in the policy. Shares stay exact unless a task's is
 * below a quantum in `rescue_ns`; each rescue adds as much to the error of others, and thousands of such
 * tasks take a few hundredths of a cpu.
 */
#ifndef PRORATA_QUEUE_H
#define PRORATA_QUEUE_H

static u64 now_ns(void)
{
	return shared->now_ns;
}

static u64 quantum_ns(void)
{
	return quantum;
}

u32 policy_broken(u32 line)
{
	scx_bpf_error("the policy's invariant in line %u does not hold", line);
	return 0;
}

/* --- the list of waiting tasks by age ------------------------------------------------------- */

static void age_append(struct slot __arena *slot, u32 id)
{
	slot->since_ns = shared->now_ns;
	MASK(slot->bound.mask)->waiting++;
	pay_debt(slot);
	if (slot->paid_ns)
		paid_append(slot, id);
	slot->newer = NIL;
	slot->older = shared->newest;
	if (shared->newest == NIL)
		shared->oldest = id;
	else
		slots[shared->newest].newer = id;
	shared->newest = id;
}

static void age_remove(struct slot __arena *slot)
{
	slot->waited_ns += shared->now_ns - slot->since_ns;
	MASK(slot->bound.mask)->waiting--;
	if (slot->paid_ns)
		paid_remove(slot);
	if (slot->older == NIL)
		shared->oldest = slot->newer;
	else
		slots[slot->older].newer = slot->newer;
	if (slot->newer == NIL)
		shared->newest = slot->older;
	else
		slots[slot->newer].older = slot->older;
}

static void note_wait(struct slot __arena *slot)
{
	u64 waited_ns = shared->now_ns - slot->since_ns;

	if (waited_ns > shared->stats.longest_wait_ns)
		shared->stats.longest_wait_ns = waited_ns;
}

/* --- which cpus idle -------------------------------------------------------------------------- */

/* Cpus that have asked, got nothing, and have not been woken since. */
static void set_idle(u32 cpu, bool idle)
{
	u64 bit = 1ULL << (cpu & 63), before = shared->idle[(cpu / 64) & 7];

	if (idle == !!(before & bit))
		return;
	shared->idle[(cpu / 64) & 7] = before ^ bit;
	shared->idle_cpus += idle ? 1 : -1;
	if (smt)
		note_core(cpu, idle);
}

static bool is_idle(u32 cpu)
{
	return shared->idle[(cpu / 64) & 7] >> (cpu & 63) & 1;
}

/* --- changes of state ------------------------------------------------------------------------ */

global_fn u32 join(u32 id)
{
	struct slot __arena *slot = &slots[id];

	slot->state = TASK_WAITING;
	age_append(slot, id);
	if (joins_aside(slot)) {
		slot->aside = true;
		return 0;
	}
	/* What it was paid may just have paid its debts, or it was sent away while aside. */
	if (corrects_turns())
		turns_joined(id);
	record(EVENT_WAKE, id, 0, 0, 0);
	turns_wake(id);
	if (turns_is_ready(id) && !may_burst(id))
		forfeit(id);
	return 0;
}

/* A task, which `waits` or has just run, sleeps for the policy. */
global_fn u32 part(u32 id, u32 waits)
{
	struct slot __arena *slot = &slots[id];

	if (waits)
		age_remove(slot);
	stop_sharing(id);
	slot->state = TASK_BLOCKED;
	if (slot->aside) {
		slot->aside = false;
		/* Who sleeps is paid. */
		if (!keeps_turns() && !turns_is_aside(id))
			return 0;
		wake_turn(id);
	}
	record(EVENT_BLOCK, id, 0, 0, 0);
	turns_block(id);
	return 0;
}

/* A run for turns that were paid is over. A task that blocks keeps what it has not run. */
static __always_inline void end_paid(struct slot __arena *slot, u32 id, bool cut_short)
{
	if (cut_short && slot->owed_ns > 0 && !slot->yielded) {
		slot->paid_ns += slot->owed_ns;
		slot->owed_ns = 0;
	}
	slot->yielded = slot->runs_paid = false;
	shared->runs_paid--;
	record(EVENT_PAID, id, slot->cpu, 0, slot->used_ns);
	slot->used_ns = 0;
}

static __always_inline void begin_to_wait(struct slot __arena *slot, u32 id, bool waits)
{
	if (waits)
		age_append(slot, id);
	else
		pay_debt(slot);
}

/*
 * Why the run of a task is over (the first two are false and true): it has run for so long; the task ended it
 * itself, or somebody is to run at once; it sleeps, and does not wait before it parts.
 */
enum run_end { RUN_OVER, RUN_CUT_SHORT, RUN_ASLEEP };

global_fn u32 end_quantum(u32 id, u32 why)
{
	bool cut_short = why != RUN_OVER, waits = why != RUN_ASLEEP;
	struct slot __arena *slot = &slots[id];
	u64 charged_ns, used_ns;

	shared->cpu[slot->cpu].task = NIL;
	slot->state = TASK_WAITING;
	if (slot->runs_paid) {
		end_paid(slot, id, cut_short);
		begin_to_wait(slot, id, waits);
		if (!slot->paid_ns)
			rejoin(slot, id);
		return 0;
	}
	charged_ns = ledger_used(slot, cut_short);
	use_spare(id, charged_ns);
	begin_to_wait(slot, id, waits);
	used_ns = slot->used_ns;
	slot->used_ns = 0;
	record(EVENT_CHARGE, id, slot->cpu, charged_ns, used_ns);
	turns_charge(id, charged_ns, used_ns);
	return 0;
}

/*
 * A task was picked whose debt takes the run: it is charged for it and waits on. Its waiting time
 * goes on too, or a task that is seldom picked would pay its debt for longer than the kernel lets a
 * task wait.
 */
static void overdraw(struct slot __arena *slot, u32 id, u32 cpu)
{
	shared->stats.overdrafts++;
	slot->cpu = cpu;
	charge(id, cpu, slot->run_ns, 0);
}

/* A waiting task runs on a cpu from now on. */
static __always_inline void start(struct slot __arena *slot, u32 id, u32 cpu)
{
	note_wait(slot);
	count_move(slot->home, cpu);
	age_remove(slot);
	slot->state = TASK_RUNNING;
	slot->since_ns = shared->now_ns;
	slot->cpu = cpu;
	shared->cpu[cpu].task = id;
	if (id != CROWD)
		return;
	slot->exec_ns = shared->now_ns;
	shared->crowd_between_ns = shared->now_ns - shared->crowd_began_ns;
	shared->crowd_began_ns = shared->now_ns;
}

/* Who is to run a turn here that was paid, nobody who is far unless `far`; NIL if there is nobody. */
static __always_inline u32 next_paid(u32 cpu, bool far)
{
	u32 id = shared->paid.first, first = NIL + unknown_zero(cpu), i;
	u64 first_ns = ~unknown_zero(cpu);

	bpf_for(i, 0, PAID_LOOKS) {
		if (id == NIL)
			break;
		if (bound_belongs(slots[id].bound.mask, cpu) && (far || is_near(&slots[id], cpu)) &&
		    paid_order(&slots[id]) < first_ns) {
			first_ns = paid_order(&slots[id]);
			first = id;
		}
		id = slots[id].paid_next;
	}
	return first;
}

/*
 * The cpu of a task that has just woken, or been paid for a run on credit, where another has a turn that can
 * be split: that is to stop there. NIL if it waits.
 */
global_fn u32 split_for(u32 id)
{
	u32 cpu = some_cpu_of(&slots[id]), current = shared->cpu[cpu & (MAX_CPUS - 1)].task;

	if (current == NIL || current == CROWD || slots[current].run_ns <= turns_share_ns() ||
	    bound_fills_cpu(&slots[current].bound) || next_paid(cpu, false) != id)
		return NIL;
	/* Before what is left of the turn. */
	slots[id].paid_at_ns = 0;
	shared->split[cpu & (MAX_CPUS - 1)] = current + 1;
	return cpu;
}

/* What is left of a run, which is charged whole, counts as paid. */
static __always_inline void run_rest_later(struct slot __arena *slot)
{
	slot->paid_last_ns = shared->now_ns;
	slot->paid_ns += slot->owed_ns;
	slot->owed_ns = 0;
}

/* True if the turn of the task that runs on a cpu was split: it has had the turn, and runs the rest later. */
static __always_inline bool splits_turn(struct slot __arena *slot, u32 id, u32 cpu)
{
	if (shared->split[cpu & (MAX_CPUS - 1)] != id + 1)
		return false;
	shared->split[cpu & (MAX_CPUS - 1)] = 0;
	if (!slot->paid_ns)
		slot->paid_at_ns = 0;
	run_rest_later(slot);
	return true;
}

/*
 * A task yields. On several cpus it has its turn, whole, and runs the rest later, after those whom its cpu
 * paid before; where nobody else waits for that cpu it goes on. If it lost the rest, others would have a turn
 * each time that it yields, every few microseconds: more turns than there is time for, granted or paid to
 * those who run elsewhere. True if its turn is split.
 */
global_fn u32 yield_turn(u32 id, u32 cpu)
{
	struct slot __arena *slot = &slots[id];

	if (TURNS->cpus == 1 || id == CROWD || slot->owed_ns <= 0 || turns_is_between(id))
		return false;
	slot->yielded = false;
	if (!bound_waits_for(cpu))
		return false;
	slot->paid_at_ns = shared->now_ns;
	run_rest_later(slot);
	return true;
}

/* A task that was paid for a run on credit, and waits elsewhere, is to have it now. */
static __always_inline void note_split(u32 id)
{
	u32 cpu = split_for(id);

	if (cpu != NIL)
		shared->splits = cpu + 1;
}

/* Where that is; or NIL. */
static __always_inline u32 take_split(void)
{
	u32 cpu = shared->splits - 1;

	shared->splits = 0;
	return cpu;
}

/* In place of a task: one was picked that is in debt, or that must not run here. */
#define OVERDRAWN (NIL - 1)
#define ELSEWHERE (NIL - 2)

/* Whose turn it is. */
static __always_inline u32 ask_policy(u32 seat)
{
	u64 before = STATE->counts.choices, choices;
	u32 id = turns_pick(seat);

	choices = STATE->counts.choices - before;
	if (choices > shared->stats.most_choices)
		shared->stats.most_choices = choices;
	shared->stats.picks++;
	record(EVENT_PICK, id, seat, 0, 0);
	return id;
}

/* True if a task that was picked between its turns runs. Nobody is charged for it: it is not to be paid. */
static __always_inline bool may_run_between(const struct slot __arena *slot, u32 id, u32 cpu,
					    u32 debtors_too)
{
	return slot->state == TASK_WAITING && bound_belongs(slot->bound.mask, cpu) &&
	       (debtors_too || slot->owed_ns + (s64)turns_run_ns(id) > 0);
}

/*
 * The cpu's next task, now running; NIL if there is none; OVERDRAWN for a debtor who will not do, and
 * ELSEWHERE for who must not run here.
 */
global_fn u32 pick(u32 cpu, u32 debtors_too)
{
	u32 seat = seat_of(cpu), id;
	struct slot __arena *slot;

	if (TURNS->ready.first != NIL && !may_burst(TURNS->ready.first))
		end_bursts();
	id = ask_policy(seat);
	if (id == NIL) {
		shared->stats.idle_picks++;
		return NIL;
	}
	if (id >= FIRST_IDLER) {
		seat_idler(cpu, id);
		return ELSEWHERE;
	}
	slot = &slots[id];
	slot->seat = seat;
	if (turns_is_between(id) && !may_run_between(slot, id, cpu, debtors_too)) {
		charge(id, cpu, 0, 0);
		return ELSEWHERE;
	}
	ledger_grant(slot, turns_run_ns(id));
	if (slot->state == TASK_WAITING && slot->owed_ns <= 0 && !debtors_too) {
		overdraw(slot, id, cpu);
		return OVERDRAWN;
	}
	if (slot->state == TASK_RUNNING || !bound_belongs(slot->bound.mask, cpu) ||
	    stays_away(slot, id, cpu)) {
		pay(cpu, id);
		if (slot->bound.mask && slot->run_ns < quantum && slot->state == TASK_WAITING)
			note_split(id);
		return ELSEWHERE;
	}
	start(slot, id, cpu);
	return id;
}

/* True if tasks may run anywhere, and none that waits for the policy runs already. */
static __always_inline bool runs_anywhere(void)
{
	return !shared->idlers && !BOUND->competing && !shared->runs_paid;
}

/*
 * The same where a task that woke is known to be the next, and may run here: much less to verify. A debtor
 * will do, for a moment.
 */
static __always_inline void pick_woken(u32 cpu, u32 id)
{
	u32 seat = seat_of(cpu);

	turns_pick_ready(seat);
	record(EVENT_PICK, id, seat, 0, 0);
	shared->stats.picks++;
	slots[id].seat = seat;
	ledger_grant(&slots[id], turns_run_ns(id));
	start(&slots[id], id, cpu);
}

/* A cpu that has, or is sent, a task to run outside the policy does not idle, whatever it asked. */
static __always_inline void begin_away(struct slot __arena *slot)
{
	slot->away_on = slot->home;
	shared->cpu[slot->away_on].away++;
	set_idle(slot->away_on, false);
}

static __always_inline void end_away(struct slot __arena *slot)
{
	shared->cpu[slot->away_on].away--;
}

/* A waiting task runs a turn that it has had. */
static __always_inline void start_paid(u32 id, u32 cpu)
{
	struct slot __arena *slot = &slots[id];
	u64 run_ns = slot->paid_ns < quantum ? slot->paid_ns : quantum;

	ledger_grant(slot, run_ns);
	start(slot, id, cpu);
	slot->paid_ns -= run_ns;
	if (!is_paid_enough(id))
		rejoin(slot, id);
	slot->runs_paid = true;
	shared->runs_paid++;
	note_paid_due(slot);
	next_was_paid(slot);
}

/*
 * The next task that has had a turn which it can run here, now running; NIL if there is none. After one
 * that is due a whole cpu, which could not make up for what it waits, nobody else is.
 */
global_fn u32 pick_paid(u32 cpu, u32 previous)
{
	u32 id = previous;

	if (previous == NIL || slots[previous].state != TASK_WAITING ||
	    !bound_fills_cpu(&slots[previous].bound) || !bound_belongs(slots[previous].bound.mask, cpu))
		id = next_paid(cpu, false);
	else if (!slots[previous].paid_ns)
		return NIL;
	/* It yields, and whom it yields to has not been paid. */
	if (id != NIL && id == previous && slots[id].paid_at_ns == shared->now_ns)
		return NIL;
	if (id != NIL)
		start_paid(id, cpu);
	return id;
}

/* The same where a cpu would idle else: of any domain, and though it yields. */
global_fn u32 pick_far(u32 cpu)
{
	u32 id = next_paid(cpu, true);

	if (id != NIL)
		start_paid(id, cpu);
	return id;
}

/* A waiting task runs outside the policy for a quantum. */
global_fn u32 send_away(u32 id, u32 why)
{
	struct slot __arena *slot = &slots[id];

	/* That it leaves is told of one who waits. */
	if (slot->aside)
		end_aside(slot, id);
	record(EVENT_AWAY, id, slot->home, why, 0);
	part(id, true);
	slot->state = TASK_AWAY;
	begin_away(slot);
	return 0;
}

/* A quantum outside the policy is over; `blocked` if the task ended it itself. */
global_fn u32 return_from_away(u32 id, u32 blocked)
{
	struct slot __arena *slot = &slots[id];

	record(EVENT_RETURN, id, slot->cpu, blocked, slot->used_ns);
	slot->used_ns = 0;
	slot->yielded = false;
	slot->state = TASK_BLOCKED;
	end_away(slot);
	return 0;
}

/*
 * A task that was picked for a cpu on which it must not run, or that a cpu cannot run now. It has not slept:
 * an ideal goes on to serve it. In a turn that was paid the policy has it on no cpu.
 */
global_fn u32 give_back(u32 id)
{
	bool is_free = slots[id].runs_paid;

	end_quantum(id, RUN_OVER);
	if (is_free)
		return 0;
	/* Only a task that blocks is free of the cpu at once: see the trait's `pick`. */
	if (corrects_turns()) {
		record(EVENT_ASIDE, id, 0, 0, 0);
		turns_stand_aside(id);
		wake_turn(id);
	} else {
		part(id, true);
		join(id);
	}
	return 0;
}

/* A task that the policy does not know is told to it, blocked. */
static __always_inline void introduce(struct slot __arena *slot, u32 id, u32 weight)
{
	slot->known = slot->was_known = true;
	slot->weight = weight;
	record(EVENT_ADD, id, 0, weight, slot->pid);
	turns_add(id, weight);
}

/* A task that the policy knows leaves it, for whatever reason. */
static __always_inline void forget(struct slot __arena *slot, u32 id)
{
	if (slot->state == TASK_RUNNING)
		end_quantum(id, RUN_CUT_SHORT);
	if (slot->state == TASK_WAITING)
		age_remove(slot);
	if (slot->state == TASK_AWAY)
		return_from_away(id, true);
	stop_sharing(id);
	slot->aside = slot->known = false;
	slot->paid_ns = 0;
	slot->state = TASK_OUT;
	record(EVENT_REMOVE, id, 0, 0, 0);
	turns_remove(id);
}

/* A cpu that is to stop what it runs, for a task that woke with credit; NIL if there is none. */
global_fn u32 interrupt(void)
{
	u32 seat = turns_interrupt();

	record(EVENT_INTERRUPT, NIL, seat, 0, 0);
	return seat == NIL ? NIL : cpu_at(seat);
}

/* --- cpus for tasks -------------------------------------------------------------------------- */

/* find_idle where some cpu idles: one of a core that idles before others. */
global_fn u32 find_among_idle(u32 home, u32 mask)
{
	bool home_will_do = is_idle(home) && (mask == NIL || mask_has(mask, home));
	u32 word, core;

	if (smt && !mask && !(home_will_do && core_idles(home))) {
		core = find_idle_core(home);
		if (core != NIL)
			return core;
	}
	if (home_will_do)
		return home;
	if (mask == NIL)
		return NIL;
	bpf_for(word, 0, (cpus_end + 63) / 64) {
		u64 bits = shared->idle[word & 7] & MASK(mask)->cpus[word & (BOUND_WORDS - 1)];

		if (bits)
			return word * 64 + ilog2(bits);
	}
	return NIL;
}

/* An idle cpu of a mask, `home` if it is; NIL if there is none. If the mask is NIL, only `home` will do. */
static __always_inline u32 find_idle(u32 home, u32 mask)
{
	return shared->idle_cpus ? find_among_idle(home, mask) : NIL;
}

/* Who has waited longest of those whom the policy may pick, of the first WAITERS; NIL if there is none. */
#define WAITERS 16

static __always_inline u32 first_to_pick(void)
{
	u32 id = shared->oldest, i;

	bpf_for(i, 0, WAITERS) {
		if (id == NIL || !slots[id].aside)
			break;
		id = slots[id].newer;
	}
	return id == NIL || slots[id].aside ? NIL : id;
}

/*
 * An idle cpu, for which the policy has just had nobody, since it keeps who waits for another seat, takes
 * that seat from a cpu which does not ask: it idles too, or runs turns that were paid. `cpu` if it is to ask
 * again; NIL if it is not. It would be NIL the next time, too: then it has that seat.
 */
global_fn u32 take_seat_of_waiter(u32 cpu)
{
	u32 id = first_to_pick(), other;

	if (id == NIL || !bound_belongs(slots[id].bound.mask, cpu))
		return NIL;
	other = cpu_at(slots[id].seat);
	if (other == cpu || !is_at_rest(other))
		return NIL;
	/* One that was woken is about to ask. */
	if (shared->cpu[other & (MAX_CPUS - 1)].task == NIL && !is_idle(other))
		return NIL;
	exchange_seats(cpu, other);
	return cpu;
}

/*
 * A cpu, idle until now, that somebody who waits may want: that of an idle core which has just been given a
 * task of `home`, if there is one; NIL if nobody waits, or none is. If `home`, which has decided, idles
 * itself, it is that or none: it would find itself, and ask again and again.
 */
static __always_inline u32 rouse(u32 home)
{
	u32 cpu = smt ? shared->left_for[home & (MAX_CPUS - 1)] - 1 : NIL;

	if (cpu == NIL && shared->oldest != NIL)
		cpu = is_idle(home) ? take_seat_of_waiter(home) : find_idle(home, 0);
	if (cpu == NIL || (BOUND->competing && !bound_waits_for(cpu)))
		return NIL;
	set_idle(cpu, false);
	return cpu;
}

/* The weight of the task that the policy runs on a cpu; 0 if there is none. */
static u32 weight_on(u32 cpu)
{
	u32 id = shared->cpu[cpu & (MAX_CPUS - 1)].task;

	return id == NIL ? 0 : slots[id].weight;
}

/* The cpu whose task weighs least, `home` if none weighs less than the one there. */
global_fn u32 find_lightest(u32 home)
{
	u32 cpu, lightest = home, least = weight_on(home);

	bpf_for(cpu, 0, cpus_end) {
		u32 weight = weight_on(cpu);

		if (weight < least && is_in_use(cpu)) {
			least = weight;
			lightest = cpu;
		}
	}
	return lightest;
}

#endif

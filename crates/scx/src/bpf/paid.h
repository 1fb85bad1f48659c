/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Turns of tasks that must not run on the cpu whose turn it is.
 *
 * The policy knows of no masks: it picks a task for one cpu that may run on others only. As if the task
 * was running there (GR3MP's frontlog, under any policy), it has had its turn, runs it where it may, and
 * the cpu picks again. Three hogs a, b, f on two cpus; a and b are bound to cpu 1:
 *
 *   cpu 0  picks a: charged, and paid a quantum; picks f
 *   cpu 1  a has been paid: runs a, and does not ask the policy; then it picks b
 *   cpu 0  picks b, which runs: charged, and paid a quantum; picks f
 *
 * A cpu runs turns that were paid, in the order in which they were, before it asks for another. Since no
 * task counts for more than its cpus can give (bound.h), tasks are not paid more than these run, but for
 * what the policy is off by, and what changes. A task that was paid enough leaves the policy's queue until
 * it has run some. Where masks change all the time all of them come to that: so what is enough goes by
 * weight, and with it what they run then. Who is due less than one turn in that time may have one, too; that
 * is due as long after the one before as its weight says, and waits for those that are due earlier.
 *
 * Where turns are corrected, who has left the queue is served by the ideal as before, if he may run
 * anywhere: he is short of time only since others, and the kernel, have the cpus that are left to him. Who
 * has a mask is asleep there: what his cpus cannot give nobody owes him. And who is behind the ideal has been
 * paid enough only with so much more, who is ahead with less. Where turns are kept, who has left the queue
 * loses what would have been his: so what is enough is some turns, but where many wait for such turns, and
 * for who is restless. But it goes by weight, for all alike: where most cpus run nothing but such turns,
 * since few ask the policy, who has more to come runs more. Nobody is paid for a run between turns, which no
 * policy is charged for: the cpu declines it.
 *
 * Seats. Policies keep a task for the cpu that ran it until that asks again, and a cpu that runs paid
 * turns does not ask. So what the policy takes for a cpu is a seat: when a cpu picks a task that it must
 * not run, it exchanges seats with a cpu that may, unless that one runs what its own seat has. And one for
 * which the policy has nobody, though somebody waits, takes the seat that he had from a cpu that does not ask
 * (queue.h).
 *
 * Idlers. Where a cpu is left idle since nobody may use it, the policy would share out too many. A task
 * of our own, heavier than any other, stands for it: whoever picks it leaves his seat to that cpu, and
 * it runs there, for the policy, until the cpu has something to do.
 *
 * Its turns are a quantum long, as anybody's: policies that go by service would take one that is never
 * charged for one that receives nothing, and the others for as far ahead. Nobody decides on that cpu; so
 * another one's decision charges the idler, once a quantum, and has the policy pick once for its seat. If it
 * picks somebody else, that one is paid, and the idler waits, as for any other seat: to pick until the idler
 * comes would hand out more turns than there is time for.
 *
 * Who naps where it may not be picked is paid when it wakes, a run before others. What it has not used of
 * that it uses when it wakes next, before it asks the policy again.
 *
 * Split turns. Nor does it wait until somebody's quantum ends. A napper n and a hog a, bound to cpu 1, quanta
 * of 5 ms:
 *
 *   n wakes, and has been paid     a has run for 2 ms: it has had its turn, whole, and is paid 3 ms
 *   cpu 1  runs n for .1 ms        then a for 3 ms: the policy is not asked
 *
 * Nor does the policy know: what a runs later was its own, as for any turn that was paid.
 *
 * Known limits: who wakes while a task that is due all of a cpu, or another one for a moment, runs there
 * waits for that. A cpu looks at PAID_LOOKS paid tasks. Decisions see to at most IDLE_SEATS
 * idlers each: where few cpus decide and hundreds stand idle beside them, idlers' turns are longer than a
 * quantum.
 */
#ifndef PRORATA_PAID_H
#define PRORATA_PAID_H

/* Enough is this many quanta for a task that is due a cpu, such a part of it, nearly, for others, … */
#define PAID_QUANTA 15
/* … or this many, where who stands aside loses turns, … */
#define PAID_QUANTA_KEPT 30
/* … but no less than this; or this, where who stands aside loses such turns, and few wait. */
#define PAID_QUANTA_LEAST 1
#define PAID_QUANTA_LEAST_KEPT 3
#define PAID_WAITING_FEW 4
/* More changes than so many make a task restless, of which each counts for so long. */
#define RESTLESS_CHANGES 4
#define RESTLESS_QUANTA 512
/* So much for a calm one whose turn goes on for what others left (spare.h). */
#define PAID_GOES_ON_QUANTA 16
/* For whom that is too much, turns are due no further apart than this. */
#define PAID_APART_QUANTA 512
/* Turns that are not due come after all others. */
#define PAID_LATER_NS (1ULL << 62)
#define PAID_LOOKS 256
/* Seats of idle cpus that a decision sees to. */
#define IDLE_SEATS 64
#define IDLER_WEIGHT (POLICY_WEIGHT_MAX / 2)

static u64 due_within(const struct slot __arena *slot, u64 time_ns);

static u32 seat_of(u32 cpu)
{
	return shared->cpu[cpu & (MAX_CPUS - 1)].seat;
}

static u32 cpu_at(u32 seat)
{
	return shared->cpu[seat & (MAX_CPUS - 1)].at_seat;
}

static void take_seat(u32 cpu, u32 seat)
{
	shared->cpu[cpu & (MAX_CPUS - 1)].seat = seat;
	shared->cpu[seat & (MAX_CPUS - 1)].at_seat = cpu;
}

static void exchange_seats(u32 one, u32 other)
{
	u32 seat = seat_of(one);

	take_seat(one, seat_of(other));
	take_seat(other, seat);
}

static u32 idler_of(u32 cpu)
{
	return FIRST_IDLER + (cpu & (MAX_CPUS - 1));
}

/* True if the policy runs nothing in the cpu's seat. */
static bool is_at_rest(u32 cpu)
{
	u32 id = shared->cpu[cpu & (MAX_CPUS - 1)].task;

	if (slots[idler_of(cpu)].state == TASK_RUNNING)
		return false;
	return id == NIL || slots[id].runs_paid;
}

/* A cpu that may run a task: the one that it was on, if it still may. */
static u32 some_cpu_of(const struct slot __arena *slot)
{
	u32 mask = slot->bound.mask, word;

	if (mask_has(mask, slot->home))
		return slot->home;
	bpf_for(word, 0, BOUND_WORDS) {
		u64 bits = MASK(mask)->cpus[word & (BOUND_WORDS - 1)];

		if (bits)
			return word * 64 + ilog2(bits);
	}
	return slot->home;
}

/* --- the list of paid tasks that wait --------------------------------------------------------- */

static u32 __arena *paid_waiting_on(u32 cpu)
{
	return &shared->cpu[cpu & (MAX_CPUS - 1)].paid_waiting;
}

static void paid_append(struct slot __arena *slot, u32 id)
{
	slot->paid_next = NIL;
	slot->paid_previous = shared->paid.last;
	if (shared->paid.last == NIL)
		shared->paid.first = id;
	else
		slots[shared->paid.last].paid_next = id;
	shared->paid.last = id;
	slot->paid_on = some_cpu_of(slot);
	(*paid_waiting_on(slot->paid_on))++;
	domain_awaits(slot);
}

static void paid_remove(struct slot __arena *slot)
{
	policy_assert(*paid_waiting_on(slot->paid_on));
	(*paid_waiting_on(slot->paid_on))--;
	domain_has(slot);
	if (slot->paid_previous == NIL)
		shared->paid.first = slot->paid_next;
	else
		slots[slot->paid_previous].paid_next = slot->paid_next;
	if (slot->paid_next == NIL)
		shared->paid.last = slot->paid_previous;
	else
		slots[slot->paid_next].paid_previous = slot->paid_previous;
}

/* --- paying ---------------------------------------------------------------------------------- */

/* Turns that it was paid pay a task's debts first. */
static __always_inline void pay_debt(struct slot __arena *slot)
{
	u64 part_ns = -slot->owed_ns;

	if (slot->owed_ns >= 0 || !slot->paid_ns)
		return;
	if (part_ns > slot->paid_ns)
		part_ns = slot->paid_ns;
	slot->paid_ns -= part_ns;
	slot->owed_ns += part_ns;
}

/* The policy takes a task, which has its turn, to have used so much of it. */
global_fn u32 charge(u32 id, u32 cpu, u64 charged_ns, u64 used_ns)
{
	record(EVENT_CHARGE, id, cpu, charged_ns, used_ns);
	turns_charge(id, charged_ns, used_ns);
	return 0;
}

/* The policy has been asked for enough. */
static void stand_aside(struct slot __arena *slot, u32 id)
{
	slot->aside = true;
	if (corrects_turns() && slot->bound.mask) {
		record(EVENT_BLOCK, id, 0, 0, 0);
		turns_block(id);
	} else {
		record(EVENT_ASIDE, id, 0, 0, 0);
		turns_stand_aside(id);
	}
}

/* A task wakes for the policy alone. */
global_fn u32 wake_turn(u32 id)
{
	record(EVENT_WAKE, id, 0, 0, 0);
	turns_wake(id);
	return 0;
}

/* What it had no use for of turns is spare in its cgroup. */
static __always_inline void share_lapsed(u32 id)
{
	if (turns_may_lapse())
		make_spare(spare_node_of(id), turns_take_lapsed(id));
}

/* True if a task that wakes need not ask the policy: it has been paid enough for a run before others. */
static bool joins_aside(const struct slot __arena *slot)
{
	return slot->bound.mask && uses_turns() && slot->paid_ns >= turns_share_ns();
}

/* A task that stood aside asks the policy again, at once. */
static __always_inline void end_aside(struct slot __arena *slot, u32 id)
{
	slot->aside = false;
	share_lapsed(id);
	wake_turn(id);
}

/*
 * A task waits for the policy again. Where turns are corrected it counts in its cgroup from then on, too, as
 * news (news.h): before, the ideal does not serve it, and its cgroup would have less.
 */
static __always_inline void rejoin(struct slot __arena *slot, u32 id)
{
	if (!slot->aside)
		return;
	if (corrects_turns()) {
		note_news(id, NEWS_REJOINS);
		return;
	}
	end_aside(slot, id);
}

/*
 * A task that sleeps keeps one of such turns: who naps where it is not picked would have another one each
 * time, and use none. What it forgoes is spare in its cgroup. Where turns are corrected they are in the
 * ideal, and it asks for no more than enough.
 */
static __always_inline void forgo_paid(struct slot __arena *slot, u32 id)
{
	u64 ns = slot->paid_ns - quantum;

	if (corrects_turns() || slot->paid_ns <= quantum)
		return;
	record(EVENT_FORGO, id, 0, ns, 0);
	make_spare(spare_node_of(id), ns);
	slot->paid_ns = quantum;
}

/* How far a task is ahead of the ideal, or behind, where that makes a difference to what is enough. */
static __always_inline s64 paid_error_ns(const struct slot __arena *slot, u32 id)
{
	s64 most_ns, error_ns;

	if (!corrects_turns() || slot->bound.mask)
		return 0;
	most_ns = online_aside_ns(id);
	error_ns = online_error_ns(id);
	return error_ns < -most_ns ? -most_ns : error_ns;
}

/* A task has other cpus, or another cgroup. */
static __always_inline void note_moved(struct slot __arena *slot)
{
	u64 most_ns = shared->now_ns + 2 * RESTLESS_CHANGES * RESTLESS_QUANTA * quantum;

	if (slot->changes_until_ns < shared->now_ns)
		slot->changes_until_ns = shared->now_ns;
	slot->changes_until_ns += RESTLESS_QUANTA * quantum;
	if (slot->changes_until_ns > most_ns)
		slot->changes_until_ns = most_ns;
}

/* True of a task that had others often of late. */
static __always_inline bool is_restless(const struct slot __arena *slot)
{
	u64 calm_ns = shared->now_ns + RESTLESS_CHANGES * RESTLESS_QUANTA * quantum;

	return slot->changes_until_ns > calm_ns;
}

/*
 * What is enough for a task at the least. Cpus run what they have paid before they ask the policy: many, or
 * those who are restless, each paid here and there, would keep them from others.
 */
static __always_inline u64 least_paid_ns(const struct slot __arena *slot)
{
	bool many = *paid_waiting_on(slot->paid_on) > PAID_WAITING_FEW;

	if (corrects_turns() || many || is_restless(slot))
		return PAID_QUANTA_LEAST * quantum;
	return PAID_QUANTA_LEAST_KEPT * quantum;
}

/* Quanta that are enough for who is due a whole cpu. */
static __always_inline u64 paid_quanta(void)
{
	return corrects_turns() ? PAID_QUANTA : PAID_QUANTA_KEPT;
}

/* Called, so that picks have stack left. */
global_fn u32 is_paid_enough(u32 id)
{
	const struct slot __arena *slot = &slots[id];

	/* Who leaves loses the rest of that. */
	if (turns_goes_on(id) && !is_restless(slot) && slot->paid_ns < PAID_GOES_ON_QUANTA * quantum)
		return false;
	/* Of 1.6 turns: one, or two, on average so many; rounded, it would be two each time. */
	s64 enough_ns = due_within(slot, paid_quanta() * quantum) - shared->now_ns % quantum;

	/* The one turn that its domain is to run. */
	if (domains > 1 && !slot->bound.mask && slot->paid_ns <= quantum)
		return false;
	if (slot->paid_ns < least_paid_ns(slot))
		return false;
	/* Who is restless takes along what he was paid, to cpus whose tasks then wait for it. */
	return is_restless(slot) || (s64)slot->paid_ns + paid_error_ns(slot, id) >= enough_ns;
}

/*
 * How long after the one before a task's turn is due that it was paid: of who is due less than one in
 * paid_quanta(). Else light tasks, who may have one each, had the more the more they are.
 */
static __always_inline u64 paid_apart_ns(const struct slot __arena *slot)
{
	u64 apart_ns = PAID_APART_QUANTA * quantum;
	u64 due_ns = due_within(slot, apart_ns) / PAID_APART_QUANTA;

	if (due_ns * paid_quanta() >= quantum)
		return 0;
	return due_ns * PAID_APART_QUANTA > quantum ? quantum * quantum / due_ns : apart_ns;
}

/*
 * Of two tasks' turns that were paid the one with less of this comes first: the older one, if both are due,
 * or neither. By what they weigh now: a task may be light for a moment only, so that no date is kept.
 */
static __always_inline u64 paid_order(const struct slot __arena *slot)
{
	u64 is_early = slot->paid_before_ns + paid_apart_ns(slot) > shared->now_ns;

	return slot->paid_at_ns + (is_early & !!slot->paid_at_ns) * PAID_LATER_NS;
}

/* A turn that was paid begins: when it was due, no sooner than it was paid. */
static __always_inline void note_paid_due(struct slot __arena *slot)
{
	u64 due_ns = slot->paid_before_ns + paid_apart_ns(slot);

	if (due_ns < slot->paid_at_ns)
		due_ns = slot->paid_at_ns;
	slot->paid_before_ns = due_ns < shared->now_ns ? due_ns : shared->now_ns;
}

/* When the next of a task's turns was paid, as the one before begins: as if they had been evenly. */
static __always_inline void next_was_paid(struct slot __arena *slot)
{
	u64 left = slot->paid_ns / quantum;

	slot->paid_at_ns += (slot->paid_last_ns - slot->paid_at_ns) / (left ? left : 1);
}

/* A task has its turn on a cpu where it must not run, or while it runs elsewhere. */
static __always_inline void pay(u32 cpu, u32 id)
{
	struct slot __arena *slot = &slots[id];
	u32 other = slot->state == TASK_RUNNING ? slot->cpu : some_cpu_of(slot);
	bool was_paid = slot->paid_ns;

	shared->stats.confined++;
	slot->owed_ns -= slot->run_ns;
	slot->paid_ns += slot->run_ns;
	slot->paid_last_ns = shared->now_ns;
	/* What it is to use before others, here too. */
	if (!was_paid)
		slot->paid_at_ns = slot->run_ns < quantum ? 0 : shared->now_ns;
	use_spare(id, slot->run_ns);
	charge(id, cpu, slot->run_ns, 0);
	pay_debt(slot);
	if (slot->state == TASK_WAITING && !was_paid && slot->paid_ns)
		paid_append(slot, id);
	if (is_paid_enough(id))
		stand_aside(slot, id);
	if (other != cpu && is_at_rest(other))
		exchange_seats(cpu, other);
}

/* --- idlers ---------------------------------------------------------------------------------- */

global_fn u32 remove_idler(u32 id)
{
	slots[id].state = TASK_OUT;
	record(EVENT_REMOVE, id, 0, 0, 0);
	turns_remove(id);
	shared->idlers--;
	return 0;
}

/* The cpu that an idler stands for has something to do, or none is to stand for it. */
static __always_inline void dismiss_idler(u32 cpu)
{
	u32 id = idler_of(cpu);
	struct slot __arena *slot = &slots[id];

	if (slot->state == TASK_OUT)
		return;
	if (slot->state == TASK_RUNNING)
		charge(id, cpu, quantum, shared->now_ns - slot->since_ns);
	remove_idler(id);
}

global_fn u32 send_idler(u32 cpu)
{
	u32 id = idler_of(cpu);

	slots[id].state = TASK_WAITING;
	record(EVENT_ADD, id, 0, IDLER_WEIGHT, 0);
	turns_add(id, IDLER_WEIGHT);
	wake_turn(id);
	shared->idlers++;
	return 0;
}

/* A cpu has picked the idler of another: it leaves its seat to that. */
static __always_inline void seat_idler(u32 cpu, u32 id)
{
	u32 idle = id - FIRST_IDLER;

	slots[id].state = TASK_RUNNING;
	slots[id].since_ns = shared->now_ns;
	if (shared->cpu[idle & (MAX_CPUS - 1)].task == NIL)
		exchange_seats(cpu, idle);
	else
		dismiss_idler(idle);
}

/* True if the idler's cpu has nothing in its seat, now that the idler has had its quantum. */
static __always_inline bool idler_rests(u32 id)
{
	struct slot __arena *slot = &slots[id];
	bool over = shared->now_ns / quantum != slot->since_ns / quantum;

	if (slot->state == TASK_RUNNING && over) {
		charge(id, id - FIRST_IDLER, quantum, quantum);
		slot->state = TASK_WAITING;
	}
	return slot->state == TASK_WAITING;
}

/* The next cpu in whose seat somebody is to have a turn, since its idler has had one, or waits; or NIL. */
global_fn u32 next_idle_seat(void)
{
	u32 cpu;

	bpf_for(cpu, shared->idle_seat, cpus_end) {
		if (idler_rests(idler_of(cpu)) && !bound_waits_for(cpu)) {
			shared->idle_seat = cpu + 1;
			return cpu;
		}
	}
	shared->idle_seat = 0;
	return NIL;
}

/* The policy has as many seats as cpus are in use. */
static void begin_seats(u32 cpus_in_use)
{
	u32 taken = unknown_zero(shared->now_ns), cpu;

	bpf_for(cpu, 0, MAX_CPUS) {
		bool in_use = is_in_use(cpu);

		take_seat(cpu, in_use ? taken : cpus_in_use + cpu - taken);
		taken += in_use;
	}
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Getting tasks to cpus.
 *
 * Waiting tasks are in the policy only, in none of the kernel's queues. A cpu that needs work
 * asks the policy (decide) and the task that it names goes into the cpu's local queue.
 *
 * A task whose quantum is over is in transit for a moment: charged in ops.dispatch, put back into
 * our custody by the kernel only afterwards, in ops.enqueue. Another cpu may pick it meanwhile. Two
 * hogs a, b and a third, c, on two cpus whose ticks coincide:
 *
 *   cpu 0  dispatch: a is over, picks c         ...  enqueue(a): a was picked for cpu 1: goes there
 *   cpu 1                    dispatch: b is over, picks a; the kernel ignores the insertion
 *
 * So: the policy's decision stands, and whoever next has the task in hand (ops.enqueue, with its
 * run queue locked) sends it where it was picked for. The same rule catches tasks that are
 * reniced, or bound to other cpus, between the pick and their run. A task that must not run where
 * it was picked for goes away (queue.h), sent by whoever finds it first: when the other does, it may have
 * run, and wait again; one whose mask says so was not picked for there (paid.h).
 *
 * What the kernel ignores has an effect all the same: an insertion renews the task's slice. Cpu 0 would see
 * that a may run on, and do so for a whole quantum, with c in its local queue and cpu 1 idle. So a task in
 * transit is marked, and who picks it does not insert it.
 *
 * Where nobody has picked it, who makes room is in our custody and that is all: ops.enqueue sees that without
 * the lock. It cannot miss a pick: it takes the mark away before it looks, and another cpu has noted the pick
 * before it looks at the mark, each with a barrier between. So either ops.enqueue sees the pick, or the other
 * cpu that the task is in our custody, or will be in a moment, for which its insertion waits.
 *
 * A kick is lost when the cpu that was woken for a task runs another:
 *
 *   cpu 0 idles             c wakes: cpu 0 is kicked
 *   cpu 1  dispatch: picks b, which may run on cpu 0 only and goes there
 *   cpu 0  runs b, without a decision; c waits, and cpu 2 idles
 *
 * So: a cpu with a task outside the policy is not idle, from when the task is sent there; and whoever has
 * decided, and leaves somebody waiting, wakes another idle cpu. tests/transit_model.rs tries all ways in
 * which three cpus, three tasks and a change of a task's cpus can meet here.
 *
 * A task that wakes with credit often interrupts who woke it. To kick one's own cpu is an interrupt, and then
 * the kernel asks whom to run, 900 instructions in all. So the cpu decides when the task wakes:
 *
 *   a wakes b, on its cpu     a's turn is interrupted, b is picked, and goes before a; a is in transit
 *   the kernel switches       a is in our custody; nobody has been asked
 *
 * a may run on for a moment, and even sleep before it is in our custody: what is told of it then is as ever.
 * Where another one than b may be the next, the cpu is kicked: with corrected turns, where others wait too.
 *
 * Inserting a task into the local queue of a cpu where it must not run aborts the scheduler. It
 * cannot happen: ops.enqueue looks at its cpus with its run queue locked, and ops.dispatch after it
 * has inserted it. A change of its cpus afterwards takes it out of our custody, and the kernel
 * ignores what was inserted before.
 */
#ifndef PRORATA_DISPATCH_H
#define PRORATA_DISPATCH_H

/* What a cpu shall do, in the upper half of a decision; a task is in the lower half. */
enum verb {
	/* Idle, or wait for a task that is on its way. */
	VERB_NOTHING,
	/* Go on with the task that ran before. */
	VERB_KEEP,
	VERB_RUN,
	/* Run it outside the policy. */
	VERB_RUN_AWAY,
	/* Decide again. */
	VERB_AGAIN,
};

/* A task that has waited too long runs for such a part of a quantum, but for no less than this. */
#define RESCUE_PART 32
#define RESCUE_LEAST_NS 100000ULL

/* Picks for others until a cpu lets go of the lock. */
#define PICKS_ELSEWHERE 64

#define DECISION(verb, id) ((u64)(verb) << 32 | (id))

/* Brings the task that ran on the cpu up to date. True if its quantum goes on; else it is in transit. */
global_fn u32 settle_previous(u32 cpu, u32 id, u64 exec_ns)
{
	struct slot __arena *slot = &slots[id];

	/* The crowd's clock is the time of day. */
	if (id == CROWD)
		exec_ns = shared->now_ns;
	if (slot->state == TASK_RUNNING && slot->cpu == cpu) {
		bool stopping = turns_is_stopping(seat_of(cpu)), splits;

		ledger_settle(slot, exec_ns);
		splits = slot->yielded && yield_turn(id, cpu);
		if (ledger_goes_on(slot) && !stopping && !splits_turn(slot, id, cpu))
			return true;
		end_quantum(id, stopping);
		if (splits && !slot->aside && is_paid_enough(id))
			stand_aside(slot, id);
	} else if (slot->state == TASK_AWAY) {
		if (is_owed_after(slot, exec_ns))
			return true;
		return_from_away(id, false);
		join(id);
	}
	slot->in_transit = true;
	return false;
}

/* How long a task is run out of turn. Nobody is charged, so it is short: the kernel is to see it run. */
static u64 rescue_run_ns(void)
{
	u64 run_ns = quantum / RESCUE_PART;

	return run_ns > RESCUE_LEAST_NS ? run_ns : RESCUE_LEAST_NS;
}

/* A task that has waited too long, unless the last decision was a rescue too; else NIL. */
static u32 rescue(u32 cpu)
{
	u32 id = shared->oldest;
	struct slot __arena *slot;

	if (id == NIL || id == CROWD || shared->cpu[cpu].rescued) {
		shared->cpu[cpu].rescued = 0;
		return NIL;
	}
	slot = &slots[id];
	if (shared->now_ns - slot->since_ns < rescue_ns)
		return NIL;
	note_wait(slot);
	shared->stats.rescues++;
	shared->cpu[cpu].rescued = 1;
	if (!slot->confined)
		slot->home = cpu;
	send_away(id, AWAY_RESCUE);
	return id;
}

/* The picked task that the cpu still waits for; NIL if there is none. */
static u32 awaited(u32 cpu)
{
	u32 id = shared->cpu[cpu].task;

	if (id == NIL)
		return NIL;
	if (shared->now_ns - slots[id].since_ns < LOST_NS)
		return id;
	shared->stats.lost++;
	give_back(id);
	return NIL;
}

/*
 * Picks until a task is found that may run here and is not overdrawn; the cpu takes a debtor rather than
 * idle.
 */
static __always_inline u64 decide_next(u32 cpu)
{
	u32 attempt, id = pick(cpu, false), overdrafts = unknown_zero(cpu);

	/* Nearly never; and to begin a loop takes half as long as a pick. */
	if (id == OVERDRAWN || id == ELSEWHERE) {
		bpf_for(attempt, 1, PICKS_ELSEWHERE) {
			if (id == OVERDRAWN)
				overdrafts++;
			else if (id != ELSEWHERE)
				break;
			id = pick(cpu, overdrafts >= 2 * DEBT_QUANTA);
		}
	}
	if (id == OVERDRAWN || id == ELSEWHERE)
		return DECISION(VERB_AGAIN, NIL);
	if (id == NIL && shared->paid.first != NIL)
		id = pick_far(cpu);
	set_idle(cpu, id == NIL && !shared->cpu[cpu].away);
	return id == NIL ? DECISION(VERB_NOTHING, NIL) : DECISION(VERB_RUN, id);
}

/* Once a quantum, somebody has a turn in the seat of each cpu that nobody may use. */
static __always_inline void turn_idle_seats(void)
{
	u64 quanta = shared->now_ns / quantum;
	u32 seats;

	if (shared->idled_quanta == quanta)
		return;
	bpf_for(seats, 0, IDLE_SEATS) {
		u32 cpu = next_idle_seat();

		if (cpu == NIL) {
			shared->idled_quanta = quanta;
			break;
		}
		pick(cpu, false);
	}
}

/* What to do for the cpu's task to go on: the crowd does so with the next who waits. */
global_fn u32 goes_on_as(u32 id)
{
	return id == CROWD && crowd_queues() ? VERB_RUN : VERB_KEEP;
}

/* True if this cpu, which shall stop what it runs for a task that woke, may do so without being asked. */
static __always_inline bool can_stop_at_once(u32 cpu, u32 current)
{
	return current != NIL && shared->cpu[cpu & (MAX_CPUS - 1)].task == current &&
	       !slots[current].news && !slots[current].blocked_on && runs_anywhere();
}

/* It has stopped, and picks who woke. False if another one may be the next. */
global_fn u32 take_over(u32 cpu, u32 woken)
{
	if (!turns_is_next(seat_of(cpu), woken))
		return false;
	pick_woken(cpu & (MAX_CPUS - 1), woken);
	return true;
}

/* What the cpu does next; `previous` is the task that ran here and still could, or NIL. */
static u64 decide(u32 cpu, u32 previous, u64 exec_ns)
{
	u64 decision;
	u32 id;

	if (smt)
		shared->left_for[cpu] = 0;
	if (previous != NIL && settle_previous(cpu, previous, exec_ns)) {
		shared->stats.resumed++;
		return DECISION(goes_on_as(previous), previous);
	}
	if (slots[CROWD].state == TASK_BLOCKED && crowd_retries(cpu))
		crowd_wake(cpu);
	id = awaited(cpu);
	/* It sleeps where it was in transit, and has kicked us to look for another. */
	if (id != NIL && slots[id].blocked_on) {
		note_block(id);
		return DECISION(VERB_AGAIN, NIL);
	}
	if (id != NIL)
		return DECISION(VERB_NOTHING, NIL);
	id = rescue(cpu);
	if (id != NIL) {
		ledger_grant(&slots[id], rescue_run_ns());
		slots[id].cpu = cpu;
		return DECISION(id == previous ? VERB_KEEP : VERB_RUN_AWAY, id);
	}
	if (smt && shared->idle_cpus && previous != NIL && previous != CROWD &&
	    leaves_core(cpu, &slots[previous])) {
		set_idle(cpu, true);
		return DECISION(VERB_NOTHING, NIL);
	}
	/* Nobody may use it: the policy is not to be asked for others. */
	if (BOUND->competing && !bound_waits_for(cpu)) {
		set_idle(cpu, true);
		return DECISION(VERB_NOTHING, NIL);
	}
	if (shared->idlers) {
		dismiss_idler(cpu);
		turn_idle_seats();
	}
	id = shared->paid.first == NIL || turns_is_stopping(seat_of(cpu)) ? NIL : pick_paid(cpu, previous);
	if (id == NIL) {
		decision = decide_next(cpu);
	} else {
		/* It may count as idle since it was told that the task it waited for sleeps. */
		set_idle(cpu, false);
		decision = DECISION(VERB_RUN, id);
	}
	if (previous != NIL && (u32)decision == previous) {
		shared->stats.keeps++;
		return DECISION(goes_on_as(previous), previous);
	}
	return decision;
}

/*
 * Sends the task that was picked for `cpu`, where it must not run, to its own cpu. False if it is not to go
 * there: somebody else had it in hand, and it waits again.
 */
static __always_inline bool redirect(u32 cpu, u32 id)
{
	struct slot __arena *slot = &slots[id];
	bool is_away;

	if (!lock())
		return false;
	if (slot->state == TASK_RUNNING && slot->cpu == cpu) {
		end_quantum(id, RUN_OVER);
		send_away(id, AWAY_CONFINED);
		shared->stats.confined++;
	}
	/* Also where cpus have come or gone since it was picked. If it has gone home, the kernel ignores us. */
	is_away = slot->state == TASK_AWAY;
	unlock();
	return is_away;
}

/* A task that runs on credit runs at once. */
static u64 urgency(const struct slot __arena *slot)
{
	return slot->run_ns < quantum ? SCX_ENQ_PREEMPT : 0;
}

/* Carries a decision out. True if the cpu has to decide again. */
static bool carry_out(u64 decision, s32 cpu, struct task_struct *previous)
{
	u32 id = (u32)decision;
	struct task_struct *p;

	if (decision >> 32 == VERB_NOTHING) {
		look_for_lost(cpu, false);
		return false;
	}
	if (decision >> 32 == VERB_AGAIN)
		return true;
	if (decision >> 32 == VERB_KEEP) {
		slots[id].in_transit = false;
		if (previous) {
			scx_bpf_task_set_slice(previous, ledger_slice_ns(&slots[id]));
			slice_begins(cpu, ledger_slice_ns(&slots[id]));
		}
		return false;
	}
	if (id == CROWD)
		return !run_crowd(cpu, previous ? slot_of(previous) : 0,
				  previous && previous->scx.flags & SCX_TASK_QUEUED);
	/* It slept when it was picked: the policy is told before all else. */
	if (slots[id].blocked_on) {
		tell_sleeper(id);
		return true;
	}
	p = task_of(id);
	if (!p)
		return true;
	/* We have passed a barrier, with the lock. */
	if (word_look(&slots[id].in_transit)) {
		/* It waits there for a moment to read on, behind a whole turn: it has that moment at once. */
		if (word_look(&slots[id].in_transit) == READS_IN_TRANSIT)
			scx_bpf_kick_cpu(slots[id].home, SCX_KICK_PREEMPT);
		slice_begins(cpu, ledger_slice_ns(&slots[id]));
		return false;
	}
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, ledger_slice_ns(&slots[id]), 0);
	/* The kernel brings what it is now: if it has slept since, and woken, it waits for others too. */
	if (slots[id].cpu != (u32)cpu || slots[id].state < TASK_RUNNING) {
		scx_bpf_dispatch_cancel();
		return true;
	}
	if (slots[id].confined && !can_run_on(p, cpu)) {
		scx_bpf_dispatch_cancel();
		if (decision >> 32 == VERB_RUN_AWAY || redirect(cpu, id))
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | slots[id].home,
					   ledger_slice_ns(&slots[id]), urgency(&slots[id]));
		return true;
	}
	slice_begins(cpu, ledger_slice_ns(&slots[id]));
	return false;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What tasks were due of the policy and it did not serve, where turns are kept (turns.h).
 *
 * A policy serves who comes late: GR3 counts him from his first turn on, for which he may wait for a round;
 * or he has that at once, where nobody is beside him. The others of his cgroup count for less as soon as he
 * wakes. So a cgroup whose tasks come and go within a round would have less than it is due, or more. Hence it
 * is reckoned, of each, what he is due of all that is received since he joined the policy, less what that was
 * charged: by his weight, and anew as that changes. A process of a quarter of two cpus, quanta of 5 ms:
 *
 *   it joins, and others run for 10 ms      it is due 5 ms
 *   it has two turns in the next 10 ms      it was due 10 ms, and had 10
 *   it ends 4 ms later, without another     2 ms are its estate's (estate.h)
 *
 * Of who sleeps and wakes it is spare in the cgroup (spare.h); if he had more than he was due, less of
 * what he had no use for is. It goes by what all receive, not by time: what cpus run beside the scheduler
 * nobody is due.
 *
 * Known limits: of who may not run on every cpu nothing is reckoned: what his weight gives him his cpus
 * may be too short for. What all count for is taken as it is when a task's weight changes, or it leaves,
 * for the time since it last did. Nobody is late by more than LATE_QUANTA, nor early, nor is it known of
 * who was not looked at while all received LATE_LONGEST_NS.
 */
#ifndef PRORATA_LATE_H
#define PRORATA_LATE_H

#define LATE_QUANTA 8
/* Over an hour of a cpu. */
#define LATE_LONGEST_NS (1ULL << 42)

static void note_received(u64 ns)
{
	if (turns_tells_due())
		TURNS->received_ns += ns;
}

/* What a task, which the policy serves, is due of so much that all receive. */
static __always_inline u64 due_of(u32 id, u64 ns)
{
#if POLICY_TELLS_DUE
	u64 weight = slots[id].weight, feasible = POLICY_CAPS->cap_feasible, cap_cpus = POLICY_CAPS->cap_cpus;
	u64 cpus = POLICY_CAPS->count < POLICY_CAPS->cpus ? POLICY_CAPS->count : POLICY_CAPS->cpus;

	if (feasible != CAP_NONE && weight * cap_cpus > feasible)
		return ns / cpus;
	if (feasible != CAP_NONE)
		return (weight * cap_cpus << PART_DIGITS) / (feasible * cpus) * ns >> PART_DIGITS;
#endif
	return due_within(&slots[id], ns / MASK(0)->count);
}

/* What a task is late by is known now. */
global_fn u32 reckon_late(u32 id)
{
	struct turn __arena *turn = TURN(id);
	u64 ns = TURNS->received_ns - turn->late_at_ns;
	s64 most_ns = LATE_QUANTA * quantum;

	if (!turns_is_queued(id))
		return 0;
	turn->late_at_ns = TURNS->received_ns;
	if (slots[id].bound.mask || ns >= LATE_LONGEST_NS) {
		turn->late_ns = 0;
		return 0;
	}
	turn->late_ns += due_of(id, ns);
	if (turn->late_ns > most_ns)
		turn->late_ns = most_ns;
	if (turn->late_ns < -most_ns)
		turn->late_ns = -most_ns;
	return 0;
}

/* The policy is about to serve it no longer. */
static void turns_leaves(u32 id)
{
	if (turns_tells_due())
		reckon_late(id);
}

/* A task is about to wake that had no use for so much of its turns: what others may have of that. */
static __always_inline u64 settle_late(u32 id, u64 lapsed_ns)
{
	struct turn __arena *turn = TURN(id);
	s64 ns = lapsed_ns;

	if (!turns_tells_due())
		return lapsed_ns;
	reckon_late(id);
	if (turn->late_ns > 0)
		record(EVENT_LEAVE, id, 0, turn->late_ns, 0);
	ns += turn->late_ns;
	turn->late_ns = ns < 0 ? ns : 0;
	return ns > 0 ? ns : 0;
}

/* A task has ended: what it leaves of that. */
static __always_inline s64 take_late(u32 id)
{
	s64 ns = TURN(id)->late_ns;

	TURN(id)->late_ns = 0;
	return turns_tells_due() ? ns : 0;
}

#endif

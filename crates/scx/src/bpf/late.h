/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What tasks were due, and a policy that counts them late did not serve, where turns are kept (turns.h).
 *
 * GR3 counts who comes from its first turn on, for which it may wait for a round; or it has that at once, where
 * nobody is beside it. The others of its cgroup count for less as soon as it wakes. So a cgroup whose tasks come
 * and go within a round would have less than it is due, or more. Hence it is reckoned, of each, what it is due
 * of all that is received since it joined the policy, less its turns: by its weight, and anew as that changes. A
 * process of a quarter of two cpus, quanta of 5 ms:
 *
 *   it joins, and others run for 10 ms      it is due 5 ms
 *   it has two turns in the next 10 ms      it was due 10 ms, and had 10
 *   it ends 4 ms later, without another     2 ms are its estate's (estate.h)
 *
 * Of who sleeps and wakes it is spare in the cgroup (spare.h), less what he had no use for if he had more than
 * he was due. It goes by what all receive, not by time: what cpus run beside the scheduler nobody is due.
 *
 * Known limits: of who may not run on every cpu nothing is reckoned: what his weight gives him his cpus may be
 * too short for. Where weights change and what all count for does too, it is taken as it is then for all the
 * time since the last such change. It is LATE_QUANTA at most, and nothing of who was not looked at while all
 * received LATE_LONGEST_NS.
 */
#ifndef PRORATA_LATE_H
#define PRORATA_LATE_H

#define LATE_QUANTA 8
/* Over an hour of a cpu. */
#define LATE_LONGEST_NS (1ULL << 42)

static void note_received(u64 ns)
{
	if (turns_counts_late())
		TURNS->received_ns += ns;
}

/* What a task, which the policy serves, is due of so much that all receive. */
static __always_inline u64 due_of(u32 id, u64 ns)
{
#if POLICY_COUNTS_LATE
	if (policy_caps())
		return policy_due_ns(id, ns);
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
	if (turns_counts_late())
		reckon_late(id);
}

/* A task is about to wake that had no use for so much of its turns: what others may have of that. */
static __always_inline u64 settle_late(u32 id, u64 lapsed_ns)
{
	struct turn __arena *turn = TURN(id);
	s64 ns = lapsed_ns;

	if (!turns_counts_late())
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
	return turns_counts_late() ? ns : 0;
}

#endif

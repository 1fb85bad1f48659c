/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tasks of a cgroup that wake at once may use together of what they were paid while they slept,
 * where turns are kept (turns.h).
 *
 * A task that sleeps keeps some quanta, and a hundred of them that wake at once would keep everybody else
 * waiting for as many each, whatever their cgroup weighs. So a child of the root has a burst: what the tasks
 * in it used on credit less what they were paid since, at least 0. Where that is at its most, who would run
 * on credit forfeits his, and waits for his turn.
 *
 * A hundred tasks with 15 ms each wake, quanta of 5 ms:
 *
 *   64 of them run for 1.25 ms each              the burst is 80 ms, its most
 *   the others, and those that would run again   wait for their turns, as tasks do that never sleep
 *   one sleeps, and the policy picks it          the burst is 75 ms: when it wakes, it runs at once
 *
 * So over any time the tasks below a child of the root receive together at most what the policy charged them
 * for, that most once and again in each 256 quanta, and a run for each cpu: not some quanta for each of them.
 *
 * Known limits: in the root, and with `--groups off`, each task is for itself. Children of a child of the
 * root have one burst. Before a pick no more than BURST_LOOKS forfeit theirs; the next one runs all the same.
 */
#ifndef PRORATA_BURST_H
#define PRORATA_BURST_H

/* So much, or so much for each cpu, if that is more. */
#ifndef BURST_QUANTA
#define BURST_QUANTA 16
#define BURST_QUANTA_OF_CPU 4
#endif
/* As much is forgiven in so many quanta: what it lets them use was paid, if long ago. */
#define FORGIVEN_IN_QUANTA 256
/* So many forfeit theirs before a pick. */
#define BURST_LOOKS 16

/* The child of the root that a task is in; the root if that is none. */
static __always_inline u32 top_of(u32 id)
{
	u32 n = tree->members[id].parent;

	return n == NIL || n == GROUP_ROOT ? GROUP_ROOT : NODE(n)->top;
}

static void turns_spent(u32 id, u64 ns)
{
	u32 top = top_of(id);

	if (top != GROUP_ROOT)
		NODE(top)->burst_ns += ns;
}

static void turns_gained(u32 id, u64 ns)
{
	u32 top = top_of(id);

	if (top != GROUP_ROOT)
		NODE(top)->burst_ns -= ns < NODE(top)->burst_ns ? ns : NODE(top)->burst_ns;
}

static bool may_burst(u32 id)
{
	u32 top = keeps_turns() ? top_of(id) : GROUP_ROOT;
	u64 most = BURST_QUANTA_OF_CPU * TURNS->cpus, forgiven_ns;

	if (top == GROUP_ROOT)
		return true;
	if (most < BURST_QUANTA)
		most = BURST_QUANTA;
	forgiven_ns = (shared->now_ns - NODE(top)->forgiven_at_ns) * most / FORGIVEN_IN_QUANTA;
	NODE(top)->forgiven_at_ns = shared->now_ns;
	NODE(top)->burst_ns -= forgiven_ns < NODE(top)->burst_ns ? forgiven_ns : NODE(top)->burst_ns;
	return NODE(top)->burst_ns < most * quantum;
}

/* A task that is ready waits for its turn. */
global_fn u32 forfeit(u32 id)
{
	u64 lost_ns = turns_forfeit(id);

	record(EVENT_FORFEIT, id, 0, lost_ns, 0);
	return 0;
}

/* Before a cpu picks: whose cgroups have no more left wait for their turns. */
static void end_bursts(void)
{
	u32 i;

	bpf_for(i, 0, BURST_LOOKS) {
		u32 id = TURNS->ready.first;

		if (id == NIL || may_burst(id))
			break;
		forfeit(id);
	}
}

#endif

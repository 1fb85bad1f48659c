/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a cgroup's tasks were due of the policy and it did not serve, where turns are kept (turns.h).
 *
 * A policy serves who comes late: GR3 counts him from his first turn on, for which he may wait for a round;
 * or he has that at once, where nobody is beside him. The others of his cgroup count for less as soon as he
 * wakes. So a cgroup whose tasks come and go within a round would have less than it is due, or more. Hence it
 * is reckoned what each is due of all that is charged, by his weight, less what he is charged himself. A hog
 * of one cpu, and of another a process p and a hog h in a cgroup; p and h are due half a cpu each, quanta of
 * 5 ms:
 *
 *   p joins, the hog and h have two turns     p is late by 5 ms, h is early by that
 *   the hog and p have one turn               p is late by 2.5 ms
 *   p ends                                    2.5 ms are its estate's (estate.h)
 *
 * Of who sleeps and wakes it is spare in the cgroup (spare.h); if he is early, less of what he had no use for
 * is. A hog, whose turns come later, is late and early for himself, by up to LATE_HELD_QUANTA; what is more
 * is his cgroup's, and settled with who wakes there or ends next.
 *
 * What is settled counts as charged: somebody has it without a turn, or has not what he was charged. In the
 * root, and where nobody of a cgroup has what is spare, who wakes forgoes what he is late by: the others are
 * due it. So does who may not run on every cpu: what his weight gives him his cpus may be too short for. It
 * goes by what turns are charged, not by time: what cpus run beside the scheduler nobody is due.
 *
 * Known limits: no cgroup is late by more than LATE_QUANTA, nor early, nor is it known of who was not looked
 * at while cpus served LATE_LONGEST_NS each. While nobody is in a cgroup nothing is reckoned.
 */
#ifndef PRORATA_LATE_H
#define PRORATA_LATE_H

#define LATE_QUANTA 8
#define LATE_HELD_QUANTA 4
/* Over eight seconds. */
#define LATE_LONGEST_NS (1ULL << 33)
/* Binary digits of what a unit of weight is served. */
#define LATE_DIGITS 30
/* Who leaves others less of the cpus than this forgoes nothing. */
#define LATE_LEAST_PARTS (GROUP_CPU / 64)

/* True if it matters what tasks are due: some are in cgroups, and there is not a cpu for each. */
static bool somebody_is_late(void)
{
	return turns_may_lapse() && tree->below && tree->runnable > MASK(0)->count;
}

/* The node whose tasks' lateness a task's is added to. */
static __always_inline struct group_node __arena *late_node_of(u32 id)
{
	u32 n = MEMBER(id)->parent;

	return NODE(n < GROUP_NODES ? n : GROUP_ROOT);
}

static __always_inline u64 magnitude_of(s64 ns)
{
	return ns < 0 ? -(u64)ns : (u64)ns;
}

static __always_inline s64 with_sign_of(s64 ns, u64 magnitude)
{
	return ns < 0 ? -(s64)magnitude : (s64)magnitude;
}

static __always_inline s64 within_quanta(s64 ns, u64 quanta)
{
	u64 most_ns = quanta * quantum;

	return magnitude_of(ns) < most_ns ? ns : with_sign_of(ns, most_ns);
}

/* What a cpu is worth, as weights in the policy. */
static __always_inline u64 worth_of_cpu(void)
{
	return tree->per_cpu >> (GROUP_FRACTION - tree->scale) | 1;
}

/* What a unit of weight has of so much that so many parts of cpus serve. */
static __always_inline s64 per_weight_of(s64 ns, u64 parts)
{
	u64 weight = worth_of_cpu() * parts / GROUP_CPU | 1;

	return with_sign_of(ns, (magnitude_of(ns) << LATE_DIGITS) / weight);
}

/* So much that was charged, or settled, is shared among those whom the policy serves. */
static __always_inline void share_charged(s64 ns)
{
	u64 cpus = MASK(0)->count | !MASK(0)->count;

	TURNS->per_cpu_ns += ns / (s64)cpus;
	TURNS->per_weight += per_weight_of(ns, cpus * GROUP_CPU);
}

/* What a cpu is worth is known again, and so is who shares what was charged since it was not. */
static __always_inline void refresh_worth(void)
{
	if (!TURNS->charged_ns)
		return;
	refresh_shares(GROUP_ROOT);
	share_charged(TURNS->charged_ns);
	TURNS->charged_ns = 0;
}

/*
 * So much was charged, or settled. As a turn is charged there are too few frames of stack to find what a cpu
 * is worth, if somebody has just left who was served while he slept.
 */
static __always_inline void count_charged(s64 ns)
{
	if (NODE(GROUP_ROOT)->found == tree->changes)
		share_charged(ns);
	else
		TURNS->charged_ns += ns;
}

static void turns_charged(u32 id, u64 ns)
{
	if (!somebody_is_late())
		return;
	TURN(id)->late_ns -= ns;
	count_charged(ns);
}

static void see_served(u32 id)
{
	TURN(id)->seen_per_cpu_ns = TURNS->per_cpu_ns;
	TURN(id)->seen_per_weight = TURNS->per_weight;
}

/* What a task, which is in the tree, is late by with what it is due since it was reckoned last. */
static __always_inline s64 late_now(u32 id)
{
	struct turn __arena *turn = TURN(id);
	s64 per_cpu_ns = TURNS->per_cpu_ns - turn->seen_per_cpu_ns;
	s64 per_weight = TURNS->per_weight - turn->seen_per_weight;
	u64 weight = slots[id].weight, worth = worth_of_cpu();

	if (magnitude_of(per_cpu_ns) >= LATE_LONGEST_NS ||
	    magnitude_of(per_weight) >= (LATE_LONGEST_NS << LATE_DIGITS) / worth)
		return 0;
	/* A cpu at most. */
	if (weight >= worth)
		return turn->late_ns + per_cpu_ns;
	return turn->late_ns + with_sign_of(per_weight, magnitude_of(per_weight) * weight >> LATE_DIGITS);
}

/* What a task is late by the others are due. */
static __always_inline void forgo(u32 id, s64 late_ns)
{
	u64 others = MASK(0)->count * GROUP_CPU, parts = 0;

	if (MEMBER(id)->at)
		parts = (u64)slots[id].weight * GROUP_CPU / worth_of_cpu();
	others -= parts < GROUP_CPU ? parts : GROUP_CPU;
	if (others >= LATE_LEAST_PARTS)
		TURNS->per_weight += per_weight_of(late_ns, others);
}

/* What a task is late by is known now: it holds so much of that at most, and its cgroup the rest. */
global_fn u32 reckon_late(u32 id, u32 held_quanta)
{
	struct turn __arena *turn = TURN(id);
	struct group_node __arena *node = late_node_of(id);
	s64 held_ns;

	if (MEMBER(id)->at)
		turn->late_ns = late_now(id);
	see_served(id);
	if (slots[id].bound.mask) {
		forgo(id, turn->late_ns);
		turn->late_ns = 0;
	}
	held_ns = within_quanta(turn->late_ns, held_quanta);
	node->late_ns = within_quanta(node->late_ns + turn->late_ns - held_ns, LATE_QUANTA);
	turn->late_ns = held_ns;
	return 0;
}

/* A task is about to have another weight, to move, or to leave the tree. */
static void tell_late(u32 id)
{
	if (somebody_is_late())
		reckon_late(id, LATE_HELD_QUANTA);
}

/*
 * A task of a cgroup is about to wake that had no use for so much of its turns: what others there may have of
 * that, and of what its cgroup is late by.
 */
static __always_inline u64 settle_late(u32 id, u64 lapsed_ns)
{
	struct group_node __arena *node = late_node_of(id);
	s64 ns, left_ns;

	reckon_late(id, 0);
	ns = node->late_ns;
	left_ns = ns + (s64)lapsed_ns < 0 ? ns + (s64)lapsed_ns : 0;
	if (ns > 0)
		record(EVENT_LEAVE, id, 0, ns, 0);
	node->late_ns = left_ns;
	count_charged(ns - left_ns);
	return lapsed_ns + ns - left_ns;
}

/* A task is about to wake where nobody has what is spare. */
static __always_inline void forgo_late(u32 id)
{
	struct group_node __arena *node = late_node_of(id);

	if (!somebody_is_late())
		return;
	reckon_late(id, 0);
	forgo(id, node->late_ns);
	node->late_ns = 0;
}

/* A task has ended: what it leaves of that. */
static __always_inline s64 take_late(u32 id)
{
	struct group_node __arena *node = late_node_of(id);
	s64 ns;

	reckon_late(id, 0);
	ns = node->late_ns;
	node->late_ns = 0;
	count_charged(ns);
	return ns;
}

#endif

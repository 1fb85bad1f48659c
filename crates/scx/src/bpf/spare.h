/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tasks of a cgroup that sleep have no use for of their turns, for others of it, where turns are
 * kept and counted (turns.h).
 *
 * A turn is charged whole, and who naps keeps what there is room for of it. The rest would be everybody's,
 * and the cgroup, whose turn it was, would have less than its weight says. So it is spare there, and whoever
 * of the cgroup uses up a turn next goes on for as long. A cgroup of a hog h and one that naps, n, quanta of
 * 5 ms:
 *
 *   the policy picks n, which sleeps     n has room for 1 ms
 *   n wakes                              4 ms are spare
 *   h's turn is over                     it goes on for 4 ms, if need be interrupted, as any turn
 *
 * Those of a cgroup who use up turns share what is spare by weight, so that nobody in another cgroup waits
 * for longer than if nobody napped. The part of one who sleeps or ends before his next turn is the others'.
 * Where nobody of a cgroup uses up turns, those in the child of the root share it; else it is everybody's.
 * Who naps where it is shared is kept in the policy's queue for some turns that it has no use for: the policy
 * would follow late as those who are a large part of a cgroup come and go. The core library does the same for
 * nodes of a tree: crates/core/src/hierarchy/spare.rs.
 *
 * The same goes for turns that a task was paid and forgoes as it sleeps (paid.h); and one that is paid is a
 * turn that somebody may use up, though it is run later.
 *
 * Known limits: in the root, and with `--groups off`, it is everybody's.
 */
#ifndef PRORATA_SPARE_H
#define PRORATA_SPARE_H

/* A turn goes on for no longer than so many quanta; what is more of a task's part is shared again. */
#define SPARE_QUANTA 64
/* What is shared at once, and a task's part, is no more than so many. */
#define SPARE_KEPT_QUANTA 128
/* Binary digits of what is spare for each unit of weight. */
#define SPARE_FRACTION 24
/* Who naps is kept where they are at most so many times as many as those who use up turns. */
#define SPARE_FEW 16

static bool is_child(u32 n)
{
	return n < GROUP_NODES && n != GROUP_ROOT;
}

/* The node where a task's spare time is shared; the root if it is everybody's. */
static u32 spare_node_of(u32 id)
{
	u32 n = MEMBER(id)->parent;

	if (!is_child(n))
		return GROUP_ROOT;
	if (!NODE(n)->spare_tasks)
		n = NODE(n)->top;
	return is_child(n) && NODE(n)->spare_tasks ? n : GROUP_ROOT;
}

/* So much is spare in a node; in the root it is everybody's. */
static void make_spare(u32 n, u64 ns)
{
	struct group_node __arena *node = NODE(n);

	if (ns > SPARE_KEPT_QUANTA * quantum)
		ns = SPARE_KEPT_QUANTA * quantum;
	if (n != GROUP_ROOT && node->spare_weight)
		node->spare_per_weight += (ns << SPARE_FRACTION) / node->spare_weight;
}

/* A task is about to wake: what it had no use for is known. (Where turns end, stack is short.) */
global_fn u32 settle_spare(u32 id)
{
	u32 n = spare_node_of(id);
	u64 few = (u64)SPARE_FEW * NODE(n)->spare_tasks;
	bool kept = n != GROUP_ROOT && MEMBER(GROUP_MEMBER(n))->parts / GROUP_CPU <= few;
	u64 lapsed_ns = turns_take_lapsed(id);

	if (n != GROUP_ROOT)
		make_spare(n, settle_late(id, lapsed_ns));
	else
		forgo_late(id);
	if (turns_keep(id, kept))
		record(EVENT_KEEP, id, 0, kept, 0);
	return 0;
}

static void tell_spare(u32 id)
{
	if (turns_may_lapse())
		settle_spare(id);
}

/* A task shares what is spare in a node from now on, or no longer. */
static __always_inline void count_sharing(u32 n, u32 weight, bool shares)
{
	struct group_node __arena *node = NODE(n);

	node->spare_tasks += shares ? 1 : -1;
	node->spare_weight += shares ? (u64)weight : -(u64)weight;
}

/* So does a task, in its cgroup and in the child of the root. */
static __always_inline void share_spare(u32 id, u32 weight, bool shares)
{
	u32 n = MEMBER(id)->parent, top;

	if (!is_child(n))
		return;
	top = NODE(n)->top;
	count_sharing(n, weight, shares);
	if (top != n)
		count_sharing(top, weight, shares);
}

/* What is spare in a node for a task that shares it, since it has seen so much. */
static __always_inline u64 spare_since(u32 n, u32 weight, u64 seen)
{
	u64 more = NODE(n)->spare_per_weight - seen, most_ns = SPARE_KEPT_QUANTA * quantum;

	if (!weight || more > (most_ns << SPARE_FRACTION) / weight)
		return weight ? most_ns : 0;
	return more * weight >> SPARE_FRACTION;
}

/* A task has seen all that is spare now. */
static __always_inline void see_spare(struct slot __arena *slot, u32 n)
{
	slot->spare_seen[0] = NODE(n)->spare_per_weight;
	slot->spare_seen[1] = NODE(NODE(n)->top)->spare_per_weight;
}

/* A task sleeps, moves or goes: its part is the others'. */
global_fn u32 end_sharing(u32 id)
{
	struct slot __arena *slot = &slots[id];
	u32 n = MEMBER(id)->parent, weight = slot->spare_weight, top;
	u64 left_ns, top_left_ns = 0;

	slot->spare_weight = 0;
	if (!is_child(n))
		return 0;
	top = NODE(n)->top;
	left_ns = spare_since(n, weight, slot->spare_seen[0]);
	if (top != n)
		top_left_ns = spare_since(top, weight, slot->spare_seen[1]);
	share_spare(id, weight, false);
	make_spare(n, left_ns);
	make_spare(top, top_left_ns);
	return 0;
}

static void stop_sharing(u32 id)
{
	if (slots[id].spare_weight)
		end_sharing(id);
}

/* A task, about to be charged, uses up a turn: that goes on for its part of what is spare. */
global_fn u32 lengthen(u32 id, u64 used_ns)
{
	struct slot __arena *slot = &slots[id];
	u32 n = MEMBER(id)->parent, weight = slot->spare_weight, top;
	u64 part_ns, top_part_ns = 0, by_ns;

	if (!is_child(n))
		return 0;
	top = NODE(n)->top;
	part_ns = spare_since(n, weight, slot->spare_seen[0]);
	if (top != n)
		top_part_ns = spare_since(top, weight, slot->spare_seen[1]);
	by_ns = part_ns + top_part_ns;
	if (by_ns > SPARE_QUANTA * quantum)
		by_ns = SPARE_QUANTA * quantum;
	if (weight && !turns_lengthen(id, used_ns, by_ns))
		return 0;
	if (weight) {
		shared->rates_changed_ns = shared->now_ns;
		record(EVENT_LENGTHEN, id, 0, used_ns, by_ns);
	}
	see_spare(slot, n);
	stop_sharing(id);
	slot->spare_weight = slot->weight;
	share_spare(id, slot->weight, true);
	make_spare(n, part_ns > by_ns ? part_ns - by_ns : 0);
	return 0;
}

/* A task is about to be charged: if it uses up a turn, that goes on. */
static void use_spare(u32 id, u64 used_ns)
{
	if (turns_uses_up(id, used_ns))
		lengthen(id, used_ns);
}

#endif

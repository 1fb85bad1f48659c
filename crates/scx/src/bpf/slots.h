/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What slots hold where one lock guards all (task.h): a place in the tree of cgroups, a mask of cpus, and
 * what the policy is yet to be told. With the lock held.
 */
#ifndef PRORATA_SLOTS_H
#define PRORATA_SLOTS_H

static __always_inline void slot_begins(u32 id, u32 node)
{
	struct slot __arena *slot = &slots[id];

	slot->state = TASK_OUT;
	slot->known = false;
	slot->news = 0;
	slot->paid_ns = 0;
	slot->changes_until_ns = 0;
	slot->weight = 0;
	group_place(id, node);
}

/* A task moves to another cgroup. */
static __always_inline void move_to(u32 id, u32 node)
{
	stop_sharing(id);
	tell_late(id);
	group_place(id, node);
	note_moved(&slots[id]);
	note_weight(id);
}

/* The policy does not know the task. */
static __always_inline void release_slot(u32 id)
{
	group_place(id, NIL);
	bound_set_mask(&slots[id].bound, 0, false);
	free_slot(id);
}

static __always_inline void slot_ends(u32 id)
{
	if (slots[id].news & NEWS_LEAVES)
		slots[id].news |= NEWS_ENDS;
	else
		release_slot(id);
}

global_fn u32 give_mask(u32 id, u32 mask)
{
	bound_set_mask(&slots[id].bound, mask, slots[id].state == TASK_WAITING);
	return 0;
}

struct cpu_set {
	u64 words[BOUND_WORDS];
};

/* A task may run on these cpus only. */
global_fn u32 limit_to(u32 id, const struct cpu_set *cpus __arg_nonnull)
{
	u64 some = unknown_zero(shared->now_ns);
	u32 i;

	bpf_for(i, 0, BOUND_WORDS) {
		u64 word = cpus->words[i & (BOUND_WORDS - 1)] & MASK(0)->cpus[i & (BOUND_WORDS - 1)];

		bound->wanted[i & (BOUND_WORDS - 1)] = word;
		some |= word;
	}
	return give_mask(id, some ? bound_find() : 0);
}

/*
 * Notes which cpus a task may run on, whether or not it must stay on one for a moment. One that may run on
 * none but a cpu that is going may run nowhere until the kernel has found it another: whoever picks it sends
 * it home, where the kernel takes it.
 */
static __noinline void note_mask(const struct task_struct *p, u32 id)
{
	struct cpu_set cpus = {};

	if (is_limited(p)) {
		bpf_probe_read_kernel(&cpus, sizeof(cpus), &p->cpus_mask);
		limit_to(id, &cpus);
	} else {
		give_mask(id, 0);
	}
}

#endif

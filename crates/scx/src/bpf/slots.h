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
	slot->weight = 0;
	group_place(id, node);
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

/*
 * Notes which cpus a task may run on, whether or not it must stay on one for a moment. One that may run on
 * none but a cpu that is going may run nowhere until the kernel has found it another: whoever picks it sends
 * it home, where the kernel takes it.
 */
static void note_mask(const struct task_struct *p, u32 id)
{
	struct slot __arena *slot = &slots[id];
	u64 words[BOUND_WORDS] = {}, some = unknown_zero(shared->now_ns);
	u32 mask = 0, i;

	if (is_limited(p)) {
		bpf_probe_read_kernel(words, sizeof(words), &p->cpus_mask);
		bpf_for(i, 0, BOUND_WORDS) {
			u64 word = words[i & (BOUND_WORDS - 1)] & MASK(0)->cpus[i & (BOUND_WORDS - 1)];

			bound->wanted[i & (BOUND_WORDS - 1)] = word;
			some |= word;
		}
		if (some)
			mask = bound_find();
	}
	bound_set_mask(&slot->bound, mask, slot->state == TASK_WAITING);
}

#endif

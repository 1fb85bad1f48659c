/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A task's weight among its siblings: that of its nice value by the kernel's table, unless `weight set`
 * chose one. What that counts for in the policy is its cgroup's matter (group.h).
 *
 * Two hogs of nice 0 and 5 weigh 1024 and 335: on one cpu they get 75 % and 25 %. A chosen weight
 * is inherited by the task's children and survives exec.
 */
#ifndef PRORATA_WEIGHT_H
#define PRORATA_WEIGHT_H

#define NICE_LEVELS 40
/* The static priority of nice -20. */
#define PRIO_OF_NICE_MIN 100
#define POLICY_SCHED_IDLE 5
#define WEIGHT_SCHED_IDLE 3

/* Each level is 1.25 times the next; nice 0 is 1024 (the kernel's sched_prio_to_weight). */
static const u32 weight_of_nice[NICE_LEVELS] = {
	88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
	 9548,  7620,  6100,  4904,  3906,  3121,  2501,  1991,  1586,  1277,
	 1024,   820,   655,   526,   423,   335,   272,   215,   172,   137,
	  110,    87,    70,    56,    45,    36,    29,    23,    18,    15,
};

/* What is kept with a task itself. */
struct task_memory {
	/* The number of its slot plus one; 0 if it has none. */
	u32 slot;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_memory);
} task_memories SEC(".maps");

static struct task_memory *memory_of(struct task_struct *p, bool create)
{
	return bpf_task_storage_get(&task_memories, p, NULL,
				    create ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
}

static u32 nice_weight(const struct task_struct *p)
{
	u32 level = p->static_prio - PRIO_OF_NICE_MIN;

	if (p->policy == POLICY_SCHED_IDLE)
		return WEIGHT_SCHED_IDLE;
	if (level >= NICE_LEVELS)
		level = NICE_LEVELS / 2;
	return weight_of_nice[level];
}

static u32 task_weight(const struct slot __arena *slot, const struct task_struct *p)
{
	return slot->chosen_weight ? slot->chosen_weight : nice_weight(p);
}

#endif

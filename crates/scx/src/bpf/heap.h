/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a heap of tasks keeps; what it means is in heaps.h.
 */
#ifndef PRORATA_HEAP_H
#define PRORATA_HEAP_H

/* A heap of POLICY_TASKS has no more levels. */
#define HEAP_LEVELS 16

struct heap {
	u32 count;
	/* During a change: the place that is free. */
	u32 at;
	/* Each comes before those at twice its place plus 1 and 2. */
	u32 task[POLICY_TASKS];
};

#endif

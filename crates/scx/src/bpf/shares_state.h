/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What GDQ, however its queues are locked, can be told, and what it keeps of its shares; what that means is
 * in shares.h.
 */
#ifndef PRORATA_SHARES_STATE_H
#define PRORATA_SHARES_STATE_H

enum gdq_option {
	/* Quanta after which a cpu looks around, at least one. */
	GDQ_T,
	/* Rounds that a queue may be behind another of its group. */
	GDQ_DELTA,
};

#define GROUPS 32
/* "Every weight is feasible" as a cap. */
#define CAP_NONE (~0ULL)
/* Room for the tasks that one change makes count for something else. */
#define CHANGED (4 * POLICY_CPUS)

/* A task that counts for something else since the last change, and for what it did before. */
struct change {
	u64 parts;
	u32 of;
	u32 task;
};

/* Members of struct group … */
#define GROUP_ACCOUNT \
	/* The account of MFQ. Time of competing cpus since the weights changed, plus the error then. */ \
	s64 service_ns; \
	/* Of the tasks that are not capped; the number of the others. */ \
	u64 weight; \
	u32 capped; \
	/* Cpus that it is always worth; the rest, in parts of what a cpu counts for. */ \
	u32 floor; \
	u64 rest; \
	/* Cpus that it has, and those of them that are dedicated to it. */ \
	u32 cpus, dedicated;

/* … and of struct policy_state. */
#define SHARES_ACCOUNTS \
	/* Groups with tasks in their account; those that had some since the queues were dealt out. */ \
	u32 present, touched; \
	/* Those whose account changed since what they are worth was computed. */ \
	u32 unsettled; \
	/* The divisor of what a cpu counted for when the accounts were settled. */ \
	u64 settled_of; \
	/* Time of competing cpus since then. */ \
	s64 served_ns;

#define SHARES_CLASSES \
	/* The runnable tasks by order of weight. */ \
	u32 class_count[GROUPS], class_head[GROUPS]; \
	u64 class_weight[GROUPS]; \
	u32 class_present, count; \
	u64 load; \
	/* No weight counts for more than cap_feasible / cap_cpus. */ \
	u64 cap_feasible, cap_cpus; \
	u32 capped_count, changed_count; \
	u32 capped[CHANGED]; \
	struct change changed[CHANGED];

#endif

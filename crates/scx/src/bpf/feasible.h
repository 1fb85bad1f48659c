/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The runnable tasks by weight, and what their weights may count for on P cpus: no task can use
 * more than one, so that no weight counts for more than 1/P of the resulting total.
 *
 * Worked example: weights 5, 1, 1 on two cpus. The others weigh 2 on the cpu that is left, so that
 * 5 counts as 2/1: cap_feasible / cap_cpus. With no more tasks than cpus all count the same, 1/1.
 *
 * Included after POLICY_MEMORY by a policy whose struct policy_task has a `struct rank rank` and
 * whose struct policy_state has a `struct feasible set` (ranked.h).
 *
 * Known limit: a wake-up looks for its place in the list, O(number of heavier tasks).
 */
#ifndef PRORATA_FEASIBLE_H
#define PRORATA_FEASIBLE_H

#define SET (&STATE->set)
#define RANK(id) (&TASK(id)->rank)

static __always_inline bool exceeds(u64 weight, u64 feasible, u64 cpus)
{
	return weight * cpus > feasible;
}

/* Water-filling (SFS, OSDI 2000, figure 1) along the list by weight. True if the cap changed. */
static __always_inline bool find_cap(void)
{
	u64 total = SET->load, feasible = CAP_NONE, cap_cpus = 1;
	u32 infeasible = unknown_zero(total), id = SET->heaviest, i;
	bool changed;

	if (SET->count <= SET->cpus) {
		feasible = 1;
	} else {
		bpf_for(i, 0, POLICY_CPUS) {
			if (!exceeds(RANK(id)->weight, total, SET->cpus - infeasible))
				break;
			infeasible++;
			total -= RANK(id)->weight;
			id = RANK(id)->lighter;
		}
		if (infeasible) {
			feasible = total;
			cap_cpus = SET->cpus - infeasible;
		}
	}
	changed = feasible != SET->cap_feasible || cap_cpus != SET->cap_cpus;
	SET->cap_feasible = feasible;
	SET->cap_cpus = cap_cpus;
	return changed;
}

policy_fn u32 list_insert(u32 id)
{
	struct rank __arena *task = RANK(id);
	u32 after = SET->heaviest, before = NIL, weight = task->weight, i;

	bpf_for(i, 0, POLICY_TASKS) {
		if (after == NIL || RANK(after)->weight <= weight)
			break;
		before = after;
		after = RANK(after)->lighter;
	}
	task->heavier = before;
	task->lighter = after;
	if (before == NIL)
		SET->heaviest = id;
	else
		RANK(before)->lighter = id;
	if (after != NIL)
		RANK(after)->heavier = id;
	SET->count++;
	SET->load += weight;
	return 0;
}

static __always_inline void list_remove(u32 id)
{
	struct rank __arena *task = RANK(id);

	if (task->heavier == NIL)
		SET->heaviest = task->lighter;
	else
		RANK(task->heavier)->lighter = task->lighter;
	if (task->lighter != NIL)
		RANK(task->lighter)->heavier = task->heavier;
	SET->count--;
	SET->load -= task->weight;
}

static __always_inline void feasible_init(u32 cpus)
{
	SET->cpus = cpus;
	SET->cap_feasible = SET->cap_cpus = 1;
	SET->heaviest = NIL;
}

#endif

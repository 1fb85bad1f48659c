/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks that may not run on every cpu, and what they count for in the policy, which knows of no masks.
 *
 * The ideal is max-min by weight under the masks: nobody receives more than a cpu, and nobody's service
 * for a unit of weight can grow but at the cost of somebody who has no more of it. It is found by
 * filling: the cpus of a mask that have the most weight to serve for each of them, of tasks that may run
 * nowhere else, are short. They serve those tasks only, by weight, and the rest is filled without them.
 *
 * Worked example: on cpus 0 and 1, tasks of weights 3, 2, 1 may run on cpu 1 only, two of weight 1
 * everywhere:
 *
 *   cpu 1 has 6 to serve, both cpus 8, which is 4 for each    cpu 1 is short: a cpu there is worth 6
 *   cpu 0 is left for the two of weight 1                     a cpu at large is worth 2
 *   told: 3, 2, 1 times 2/6, and 1, 1                         so each gets what it should of 2 cpus
 *
 * Where fewer tasks are left than cpus, each counts for a cpu, and the cpus that idle are told to the
 * policy as tasks of their own (paid.h): else it would take a task that is due .8 of the only cpu that
 * it may run on, of two, for one that is due more than its part.
 *
 * A mask's tasks are those of the masks within it, too. So the result is exact where of any two masks
 * one is within the other, or they have no cpu in common: as taskset to one cpu, cpusets and isolcpus=
 * make them. Tests compare it with the ideal found by other means (tests/bound.rs).
 *
 * Calls no kernel function. The includer defines BOUND_TASK(id), and has included mask.h and group.h, which
 * lists the tasks that compete.
 *
 * In a tree of cgroups, which cpus are short, and who has how much of those, goes by what tasks would count
 * for if all could use any number of cpus. What they have less than that is their siblings' (group.h): in a
 * cgroup of weight 200 beside one of 100, on 4 cpus, four hogs bound to one cpu have that, and a fifth hog,
 * who is free, a whole cpu.
 *
 * Known limits: BOUND_MASKS masks at a time, of tasks that compete; tasks with another count as if they could
 * run everywhere. Who has another mask than when cpus were filled, or wakes and has one again, counts by the
 * cpus that are shortest until they are filled: two quanta.
 * Where masks overlap and none is within the other, cpus that only together are short are not found to
 * be; nor are those that are only since siblings cannot use what they are due.
 */
#ifndef PRORATA_BOUND_H
#define PRORATA_BOUND_H

enum {
	/* Searches for those who are worth a whole cpu of a mask: each finds one more, or is the last. */
	BOUND_CAPS = 32,
	/* What a cpu counts for where nobody says: a task that is due one can count for more. */
	BOUND_PER_CPU_MAX = POLICY_WEIGHT_MAX / 4,
};

/* --- who competes ---------------------------------------------------------------------------- */

/* A task competes for the cpus of its mask, or does no longer. */
static __always_inline void bound_count_in(struct bound_task __arena *task, bool competes)
{
	struct bound_mask __arena *mask = MASK(task->mask);
	s64 more = competes ? 1 : -1;

	mask->load += more * task->plain;
	mask->competing += more;
	if (task->mask)
		BOUND->competing += more;
	BOUND->changed = true;
}

/* A task's weight, before it changes, counts no longer; after, it does. */
static __always_inline void bound_uncount(struct bound_task __arena *task)
{
	if (task->competes)
		bound_count_in(task, false);
}

static __always_inline void bound_count(struct bound_task __arena *task)
{
	if (task->competes)
		bound_count_in(task, true);
}

static __always_inline void bound_compete(struct bound_task __arena *task, bool competes)
{
	if (task->competes == competes)
		return;
	task->competes = competes;
	bound_count_in(task, competes);
}

static __always_inline void bound_set_counts(struct bound_task __arena *task, u32 counts, u32 plain)
{
	task->counts = counts;
	if (task->plain == plain)
		return;
	bound_uncount(task);
	task->plain = plain;
	bound_count(task);
}

/* A task has another mask. */
static __always_inline void bound_set_mask(struct bound_task __arena *task, u32 mask, bool waits)
{
	if (task->mask == mask)
		return;
	task->changed_at = BOUND->fills;
	bound_uncount(task);
	MASK(task->mask)->waiting -= waits;
	if (task->mask)
		MASK(task->mask)->refs--;
	task->mask = mask;
	if (mask)
		MASK(mask)->refs++;
	MASK(mask)->waiting += waits;
	bound_count(task);
}

/* A task that competes no more, and does not wait, leaves the number of its mask to others. */
static __always_inline void bound_forgo_mask(struct bound_task __arena *task)
{
	if (task->mask)
		MASK(task->mask)->refs--;
	task->mask = 0;
}

/* --- filling --------------------------------------------------------------------------------- */

/* How many tasks of these masks count for more than a level; their weight is left in `above`. */
policy_fn u32 count_above(u64 masks, u64 level)
{
	u32 count = unknown_zero(level), i;

	BOUND->above = 0;
	bpf_for(i, 0, POLICY_TASKS) {
		struct bound_task __arena *task;

		if (i >= TREE->runnable)
			break;
		task = BOUND_TASK(TREE->list[i & (POLICY_TASKS - 1)]);
		if (!(masks >> (task->mask & 63) & 1) || task->plain <= level)
			continue;
		BOUND->above += task->plain;
		count++;
	}
	return count;
}

/*
 * What each cpu of a mask that is left is worth if it serves nobody but the mask's tasks: no task counts
 * for more than that. 0 if there is a cpu for each of them.
 */
policy_fn u32 find_level(u32 k)
{
	u64 masks = MASK(k)->parts & ~BOUND->gone, load = unknown_zero(masks);
	u32 tasks = unknown_zero(masks), cpus = MASK(k)->left, i;

	bpf_for(i, 0, BOUND_MASKS) {
		if (masks >> i & 1) {
			load += MASK(i)->load;
			tasks += MASK(i)->competing;
		}
	}
	BOUND->tasks = tasks;
	BOUND->level = 0;
	if (!cpus || tasks <= cpus)
		return 0;
	BOUND->level = load / cpus;
	bpf_for(i, 0, BOUND_CAPS) {
		u32 above = cpus > 1 ? count_above(masks, BOUND->level) : 0;
		u64 level;

		if (!above || above >= cpus)
			break;
		level = (load - BOUND->above) / (cpus - above);
		if (level == BOUND->level)
			break;
		BOUND->level = level;
	}
	return 0;
}

/* The mask, of several the least, whose cpus are shortest, if shorter than all that are left; else NIL. */
policy_fn u32 find_shortest(void)
{
	u32 shortest = NIL, k;
	u64 most;

	find_level(0);
	most = BOUND->level;
	bpf_for(k, 1, BOUND_MASKS) {
		if (!MASK(k)->competing || BOUND->gone >> k & 1)
			continue;
		find_level(k);
		if (BOUND->level > most || (BOUND->level == most && shortest != NIL &&
					    MASK(k)->left < MASK(shortest)->left)) {
			most = BOUND->level;
			shortest = k;
		}
	}
	return shortest;
}

/* The cpus of a mask serve its tasks and no others. */
policy_fn u32 take_mask(u32 k)
{
	u64 masks = MASK(k)->parts & ~BOUND->gone;
	u32 i, word;

	find_level(k);
	BOUND->gone |= masks;
	bpf_for(word, 0, BOUND_WORDS)
		BOUND->taken[word & (BOUND_WORDS - 1)] |= MASK(k)->cpus[word & (BOUND_WORDS - 1)];
	bpf_for(i, 0, BOUND_MASKS) {
		u32 left = unknown_zero(masks);

		bpf_for(word, 0, BOUND_WORDS)
			left += bits_of(MASK(i)->cpus[word & (BOUND_WORDS - 1)] &
					~BOUND->taken[word & (BOUND_WORDS - 1)]);
		MASK(i)->left = left;
		if (masks >> i & 1) {
			MASK(i)->kind = BOUND_SHORT;
			MASK(i)->level = BOUND->level;
			MASK(i)->filled_load = MASK(i)->load;
		}
	}
	BOUND->per_cpu = BOUND->level;
	return 0;
}

/* Finds the masks whose cpus are short. */
policy_fn u32 bound_find_short(void)
{
	u32 i, k;

	BOUND->changed = false;
	BOUND->fills++;
	BOUND->gone = BOUND->idle = 0;
	bpf_for(i, 0, BOUND_WORDS)
		BOUND->taken[i & (BOUND_WORDS - 1)] = 0;
	bpf_for(i, 0, BOUND_MASKS) {
		MASK(i)->kind = BOUND_AT_LARGE;
		MASK(i)->left = MASK(i)->count;
	}
	bpf_for(i, 0, BOUND_MASKS) {
		k = find_shortest();
		if (k == NIL)
			break;
		take_mask(k);
		if (!i)
			BOUND->shortest = BOUND->level;
	}
	return 0;
}

/* Parts of a cpu that a task has, if those of its mask are short; else 0. */
static __always_inline u32 bound_fixed(struct bound_task __arena *task)
{
	struct bound_mask __arena *mask = MASK(task->mask);
	u64 level = mask->level;

	if (mask->kind != BOUND_SHORT)
		return 0;
	if (task->plain >= level)
		return GROUP_CPU;
	return ((u64)task->plain * GROUP_CPU + level / 2) / level ?: 1;
}

/* What tasks cannot use is their siblings' in the tree, not everybody's. */
policy_fn u32 bound_tell_tree(void)
{
	u32 i;

	bpf_for(i, 0, POLICY_TASKS) {
		u32 id = TREE->list[i & (POLICY_TASKS - 1)];

		if (i >= TREE->runnable)
			break;
		group_set_fixed(id, bound_fixed(BOUND_TASK(id)));
	}
	return 0;
}

/* What cpus are worth, from what competes for them. True if tasks are to be told. */
policy_fn u32 bound_fill(void)
{
	u64 was_gone = BOUND->gone;
	u32 i;

	bound_find_short();
	if (!BOUND->gone && !was_gone)
		return false;
	bound_tell_tree();
	find_level(0);
	if (!BOUND->gone || BOUND->level)
		return true;
	if (MASK(0)->left > BOUND->tasks)
		BOUND->idle = MASK(0)->left - BOUND->tasks;
	bpf_for(i, 0, BOUND_MASKS) {
		if (!(BOUND->gone >> i & 1))
			MASK(i)->kind = BOUND_ALONE;
	}
	return true;
}

/* Finds what a whole cpu counts for in the policy: at large as in the tree, or as those that are short. */
static __always_inline void bound_find_per_cpu(void)
{
	if (MASK(0)->kind == BOUND_AT_LARGE) {
		refresh_shares(GROUP_ROOT);
		BOUND->per_cpu = TREE->per_cpu >> (GROUP_FRACTION - TREE->scale);
	} else if (BOUND->per_cpu > BOUND_PER_CPU_MAX) {
		BOUND->per_cpu = BOUND_PER_CPU_MAX;
	}
}

/* What a task counts for beside others on cpus of which each is worth so much. */
static __always_inline u32 weight_on_short(u64 plain, u64 level)
{
	if (plain > level)
		plain = level;
	return as_weight((plain * BOUND->per_cpu + level / 2) / level);
}

/*
 * What each cpu of a mask is worth, if it is short: more than was found where tasks have come since, of which
 * each might else count for a cpu.
 */
static __always_inline u64 level_now(const struct bound_mask __arena *mask)
{
	u64 more = mask->load > mask->filled_load ? mask->load - mask->filled_load : 0;

	return mask->level + more / mask->count;
}

/*
 * What a task counts for in the policy, which was told `told`. Where cpus are short, nobody knows yet what is
 * due to one whose mask was another when they were filled: no less than on those that are shortest.
 */
static __always_inline u32 bound_weight(struct bound_task __arena *task, u32 told)
{
	struct bound_mask __arena *mask = MASK(task->mask);
	u64 per_cpu = BOUND->per_cpu;

	if (BOUND->gone && task->changed_at == BOUND->fills)
		return weight_on_short(task->plain, BOUND->shortest);
	if (mask->kind == BOUND_AT_LARGE)
		return task->counts;
	if (mask->kind == BOUND_SHORT)
		return weight_on_short(task->plain, level_now(mask));
	/* Anything above a cpu will do, so that it need not change with it. */
	if (told > per_cpu && told <= 2 * per_cpu)
		return told;
	return as_weight(per_cpu + per_cpu / 4 + 1);
}

#endif

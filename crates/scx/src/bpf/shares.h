/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * GDQ's shares: what tasks count for, and which group is worth how many cpus (MFQ).
 *
 * The tasks of the set are known by order of weight; a weight that is infeasible counts for what a whole
 * cpu does. Groups of tasks that count for 2^k up to 2^(k+1) have accounts, of which crates/core's
 * policies/gdq/allocator.rs tells the rules.
 *
 * Included after POLICY_MEMORY by a policy whose struct policy_task has `weight`, `class_next` and
 * `class_prev`, whose struct policy_state has what shares_state.h lists, and that says with may_serve(k)
 * whether group k has a task for one more cpu. While there is a cpu for each task, any cap would do: all
 * count for what they weigh then, so that none changes when others come and go.
 */
#ifndef PRORATA_SHARES_H
#define PRORATA_SHARES_H

#define GROUP(k) (&STATE->groups[(k) & (GROUPS - 1)])

static __always_inline bool may_serve(u32 k);

/* --- what tasks count for ------------------------------------------------------------------ */

static __always_inline bool has_cpu_for_each(void)
{
	return STATE->count <= STATE->cpus;
}

static __always_inline bool exceeds(u64 weight, u64 feasible, u64 cpus)
{
	return weight * cpus > feasible;
}

static __always_inline bool above_cap(u32 id)
{
	return exceeds(TASK(id)->weight, STATE->cap_feasible, STATE->cap_cpus);
}

/* What a whole cpu counts for: cpu_parts() / cpu_divisor(). */
static __always_inline u64 cpu_parts(void)
{
	if (!STATE->count)
		return 1;
	return STATE->cap_feasible == CAP_NONE ? STATE->load : STATE->cap_feasible;
}

static __always_inline u64 cpu_divisor(void)
{
	if (!STATE->count)
		return 1;
	return STATE->cap_feasible == CAP_NONE ? STATE->cpus : STATE->cap_cpus;
}

static __always_inline u32 order_of(u64 weight)
{
	return ilog2(weight) & (GROUPS - 1);
}

/* The group of a runnable task. */
static __always_inline u32 group_of(u32 id)
{
	if (above_cap(id))
		return order_of(STATE->cap_feasible / STATE->cap_cpus);
	return order_of(TASK(id)->weight);
}

/* The largest weight below `below` of an order; 0 if there is none. */
policy_fn u32 largest_below(u32 order, u64 below)
{
	u32 first = STATE->class_head[order & (GROUPS - 1)], id = first;
	u32 largest = unknown_zero(id), i;

	bpf_for(i, 0, 4 * POLICY_CPUS) {
		u32 weight = TASK(id)->weight;

		if (weight < below && weight > largest)
			largest = weight;
		id = TASK(id)->class_next;
		if (id == first)
			break;
	}
	return largest;
}

/* How many tasks of an order have this weight. */
policy_fn u32 count_equal(u32 order, u32 weight)
{
	u32 first = STATE->class_head[order & (GROUPS - 1)], id = first;
	u32 count = unknown_zero(id), i;

	bpf_for(i, 0, 4 * POLICY_CPUS) {
		count += TASK(id)->weight == weight;
		id = TASK(id)->class_next;
		if (id == first)
			break;
	}
	return count;
}

/* How many of an order are infeasible on `cpus` cpus; they and all lighter tasks weigh `total`. */
policy_fn u32 count_infeasible(u32 order, u32 cpus, u64 total)
{
	u64 below = ~0ULL;
	u32 infeasible = unknown_zero(total), i, j;

	bpf_for(i, 0, 2 * POLICY_CPUS) {
		u32 weight = largest_below(order, below);
		u32 copies = weight ? count_equal(order, weight) : 0;

		if (!copies)
			break;
		bpf_for(j, 0, copies) {
			if (infeasible >= cpus || !exceeds(weight, total, cpus - infeasible))
				return infeasible;
			infeasible++;
			total -= weight;
		}
		below = weight;
	}
	return infeasible;
}

/* The total weight of the `count` heaviest tasks of an order. */
policy_fn u64 heaviest_weight(u32 order, u32 count)
{
	u64 below = ~0ULL, sum = unknown_zero(count);
	u32 left = count, i;

	bpf_for(i, 0, 2 * POLICY_CPUS) {
		u32 weight, copies;

		if (!left)
			break;
		weight = largest_below(order, below);
		copies = count_equal(order, weight);
		if (copies > left)
			copies = left;
		sum += (u64)weight * copies;
		left -= copies;
		below = weight;
	}
	return sum;
}

static __always_inline bool set_cap(u64 feasible, u64 cpus)
{
	bool changed = feasible != STATE->cap_feasible || cpus != STATE->cap_cpus;

	STATE->cap_feasible = feasible;
	STATE->cap_cpus = cpus;
	return changed;
}

/* The cap by groups (GR3, USENIX 2005, section 3.3). True if it changed. */
static __always_inline bool find_cap(void)
{
	u64 total = STATE->load;
	u32 infeasible = unknown_zero(total), present = STATE->class_present, i;

	/* On one cpu every weight is feasible. */
	if (has_cpu_for_each() || STATE->cpus == 1)
		return set_cap(CAP_NONE, 1);
	bpf_for(i, 0, GROUPS) {
		u32 order = order_of(present), left = STATE->cpus - infeasible, more;
		u32 count = STATE->class_count[order];
		u64 weight = STATE->class_weight[order];

		if (!present)
			break;
		if (count >= left || !exceeds(1ULL << order, total - weight, left - count)) {
			if (count < 2 * left && exceeds((2ULL << order) - 1, total, left)) {
				more = count_infeasible(order, left, total);
				infeasible += more;
				total -= heaviest_weight(order, more);
			}
			break;
		}
		infeasible += count;
		total -= weight;
		present &= ~(1u << order);
	}
	if (!infeasible)
		return set_cap(CAP_NONE, 1);
	return set_cap(total, STATE->cpus - infeasible);
}

/* Notes a task that counted for something else under the cap before. */
static __always_inline void note_change(u32 id, u64 feasible, u64 cpus)
{
	struct change __arena *change = &STATE->changed[STATE->changed_count & (CHANGED - 1)];
	u32 weight = TASK(id)->weight;
	bool was = exceeds(weight, feasible, cpus), is = above_cap(id);

	if (!was && !is)
		return;
	if (was && is && feasible == STATE->cap_feasible && cpus == STATE->cap_cpus)
		return;
	change->task = id;
	change->parts = was ? feasible : weight;
	change->of = was ? cpus : 1;
	STATE->changed_count++;
}

/* The lightest of a set of groups, which is not empty. */
static __always_inline u32 lightest_of(u32 groups)
{
	return lowest_bit(groups) & (GROUPS - 1);
}

/* Finds the tasks above the cap. */
policy_fn u32 collect_capped(void)
{
	u32 found = unknown_zero(STATE->count), i, j;

	if (STATE->cap_feasible != CAP_NONE) {
		u32 lowest = order_of(STATE->cap_feasible / STATE->cap_cpus);
		u32 left = STATE->class_present >> lowest << lowest;

		bpf_for(j, 0, GROUPS) {
			u32 first, id;

			if (!left)
				break;
			id = first = STATE->class_head[lightest_of(left)];
			left &= left - 1;
			bpf_for(i, 0, POLICY_TASKS) {
				if (above_cap(id)) {
					STATE->capped[found & (CHANGED - 1)] = id;
					found++;
				}
				id = TASK(id)->class_next;
				if (id == first)
					break;
			}
		}
	}
	STATE->capped_count = found;
	return 0;
}

/* The set of runnable tasks has changed, perhaps by a newcomer: lists the others that changed. */
policy_fn u32 find_changed(u32 newcomer)
{
	u64 feasible = STATE->cap_feasible, cpus = STATE->cap_cpus;
	u32 i;

	STATE->changed_count = 0;
	if (!find_cap()) {
		if (newcomer != NIL && above_cap(newcomer)) {
			STATE->capped[STATE->capped_count & (CHANGED - 1)] = newcomer;
			STATE->capped_count++;
		}
		return 0;
	}
	STATE->counts.readjustments++;
	bpf_for(i, 0, STATE->capped_count)
		note_change(STATE->capped[i & (CHANGED - 1)], feasible, cpus);
	collect_capped();
	bpf_for(i, 0, STATE->capped_count) {
		u32 id = STATE->capped[i & (CHANGED - 1)];

		if (id != newcomer && !exceeds(TASK(id)->weight, feasible, cpus))
			note_change(id, feasible, cpus);
	}
	return 0;
}

static __always_inline void enter_class(u32 id)
{
	struct policy_task __arena *task = TASK(id);
	u32 order = order_of(task->weight), head = STATE->class_head[order];

	if (STATE->class_present >> order & 1) {
		task->class_next = head;
		task->class_prev = TASK(head)->class_prev;
		TASK(task->class_prev)->class_next = id;
		TASK(head)->class_prev = id;
	} else {
		STATE->class_head[order] = task->class_next = task->class_prev = id;
	}
	STATE->class_present |= 1u << order;
	STATE->class_count[order]++;
	STATE->class_weight[order] += task->weight;
	STATE->count++;
	STATE->load += task->weight;
}

static __always_inline void leave_class(u32 id)
{
	struct policy_task __arena *task = TASK(id);
	u32 order = order_of(task->weight);

	TASK(task->class_prev)->class_next = task->class_next;
	TASK(task->class_next)->class_prev = task->class_prev;
	if (STATE->class_head[order] == id)
		STATE->class_head[order] = task->class_next;
	STATE->class_count[order]--;
	if (!STATE->class_count[order])
		STATE->class_present &= ~(1u << order);
	STATE->class_weight[order] -= task->weight;
	STATE->count--;
	STATE->load -= task->weight;
}

policy_fn u32 forget_capped(u32 id)
{
	u32 kept = unknown_zero(id), i;

	bpf_for(i, 0, STATE->capped_count) {
		u32 other = STATE->capped[i & (CHANGED - 1)];

		if (other != id) {
			STATE->capped[kept & (CHANGED - 1)] = other;
			kept++;
		}
	}
	STATE->capped_count = kept;
	return 0;
}

/* --- between groups: MFQ ------------------------------------------------------------------- */

/* floor(n / divisor) */
static __always_inline s64 divide_down(s64 n, u64 divisor)
{
	u64 sign = n >> 63;

	return (((u64)n ^ sign) / divisor) ^ sign;
}

/* floor(a * b / c) */
policy_fn u64 proportion(u64 a, u64 b, u64 c)
{
	return mul_div(a, b, c ? c : 1);
}

/* A task that counts for parts/of joins its group's account, or leaves it (sign = -1). */
static __always_inline void account_task(u32 weight, u64 parts, u64 of, s64 sign)
{
	bool capped = parts != weight * of;
	u32 k = order_of(capped ? parts / of : weight);
	struct group __arena *group = GROUP(k);

	if (capped)
		group->capped += sign;
	else
		group->weight += sign * weight;
	STATE->touched |= 1u << k;
	STATE->unsettled |= 1u << k;
	if (group->weight || group->capped)
		STATE->present |= 1u << k;
	else
		STATE->present &= ~(1u << k);
}

static __always_inline void account_now(u32 id, s64 sign)
{
	bool capped = above_cap(id);
	u32 weight = TASK(id)->weight;

	account_task(weight, capped ? STATE->cap_feasible : weight, capped ? STATE->cap_cpus : 1,
		     sign);
}

policy_fn u32 account_changed(void)
{
	u32 i;

	bpf_for(i, 0, STATE->changed_count) {
		struct change __arena *change = &STATE->changed[i & (CHANGED - 1)];

		account_task(TASK(change->task)->weight, change->parts, change->of, -1);
		account_now(change->task, 1);
	}
	return 0;
}

/* What is remembered of the error of a group without tasks. */
static __always_inline s64 within_bounds(s64 error_ns)
{
	s64 limit_ns = STATE->interval_ns;

	if (error_ns > GROUPS * limit_ns)
		return GROUPS * limit_ns;
	return error_ns < -limit_ns ? -limit_ns : error_ns;
}

/* Virtual time starts from 0 again; every group keeps its error. */
static __always_inline void restart_virtual_time(void)
{
	u64 rests = unknown_zero(STATE->count), of = STATE->settled_of, part;
	s64 services = STATE->served_ns * of, whole;
	u32 left = STATE->touched, i;

	bpf_for(i, 0, GROUPS) {
		if (!left)
			break;
		rests += GROUP(lightest_of(left))->rest;
		left &= left - 1;
	}
	/* The virtual time of the competition is whole + part/rests. */
	if (!rests)
		rests = 1;
	whole = divide_down(services, rests);
	part = services - whole * rests;
	left = STATE->touched;
	bpf_for(i, 0, GROUPS) {
		struct group __arena *group;
		u64 rest;

		if (!left)
			break;
		group = GROUP(lightest_of(left));
		left &= left - 1;
		rest = group->rest;
		if (rest)
			group->service_ns -= divide_down(
				whole * (s64)rest + (s64)proportion(rest, part, rests), of);
	}
	STATE->served_ns = 0;
}

/* Computes anew what a group is worth, if a cpu counts for parts/of. */
static __always_inline void settle_group(u32 k, u64 parts, u64 of)
{
	struct group __arena *group = GROUP(k);
	u64 worth = group->weight * of, floor;
	bool each = has_cpu_for_each();

	if (!(STATE->present >> k & 1))
		group->service_ns = within_bounds(group->service_ns);
	floor = each ? STATE->class_count[k] : worth / parts;
	group->floor = group->capped + floor;
	group->rest = each ? 0 : worth - floor * parts;
}

/* Computes anew what every group is worth. No cpu moves. */
policy_fn u32 settle(void)
{
	u64 parts = cpu_parts(), of = cpu_divisor();
	u32 left = STATE->present | STATE->unsettled, i;

	if (STATE->served_ns)
		restart_virtual_time();
	STATE->unsettled = 0;
	STATE->settled_of = of;
	/* Mostly there is one; to begin a loop takes longer than to settle it. */
	if (!(left & (left - 1))) {
		if (left)
			settle_group(lightest_of(left), parts, of);
		return 0;
	}
	bpf_for(i, 0, GROUPS) {
		if (!left)
			break;
		settle_group(lightest_of(left), parts, of);
		left &= left - 1;
	}
	return 0;
}

/* A cpu of the group, which competes, becomes dedicated if the group is worth it. */
static __always_inline bool dedicate(struct group __arena *group)
{
	if (group->dedicated >= group->floor)
		return false;
	group->dedicated++;
	return true;
}

static __always_inline void depart(struct group __arena *group, bool dedicated)
{
	group->cpus--;
	group->dedicated -= dedicated;
}

/* True if group a's virtual finishing time is below group b's. */
static __always_inline bool finishes_first(struct group __arena *a, struct group __arena *b)
{
	s64 finish_a = a->service_ns + STATE->interval_ns;
	s64 finish_b = b->service_ns + STATE->interval_ns;

	return wide_less(wide_product(finish_a, b->rest), wide_product(finish_b, a->rest));
}

/* The group that a free cpu should go to, which has a task for it; NIL if there is none. */
policy_fn u32 needy_group(void)
{
	u32 best = NIL ^ unknown_zero(STATE->count), left = STATE->present, i, k;

	bpf_for(i, 0, GROUPS) {
		struct group __arena *group;

		if (!left)
			break;
		k = lightest_of(left);
		left &= left - 1;
		group = GROUP(k);
		if (group->cpus > group->floor || !may_serve(k))
			continue;
		if (group->cpus < group->floor)
			return k;
		if (group->rest && (best == NIL || finishes_first(group, GROUP(best))))
			best = k;
	}
	return best;
}

/*
 * A group had so much of what groups compete for; of a dedicated cpu less than nothing if its tasks were
 * charged with less than its time.
 */
static __always_inline void charge_group(u32 k, s64 beyond_ns)
{
	STATE->touched |= 1u << (k & (GROUPS - 1));
	STATE->unsettled |= 1u << (k & (GROUPS - 1));
	GROUP(k)->service_ns += beyond_ns;
	STATE->served_ns += beyond_ns;
}

/* A cpu, dedicated to group k or not, was charged for so much. True if it is dedicated from now on. */
static __always_inline bool pass(u32 k, bool dedicated, s64 beyond_ns)
{
	struct group __arena *group = GROUP(k);

	if (beyond_ns)
		charge_group(k, beyond_ns);
	if (!dedicated)
		return dedicate(group);
	if (group->dedicated <= group->floor)
		return true;
	group->dedicated--;
	return false;
}

#endif

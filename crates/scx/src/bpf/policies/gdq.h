/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * GDQ, grouped distributed queues (Caprita, Nieh, Stein, Columbia University 2005).
 *
 * The rules and their reasons are in crates/core/src/policies/gdq, whose decisions this file takes
 * one by one. In short: tasks of one order (2^k <= weight < 2^(k+1)) form a group, with a queue for
 * each cpu that it may have. Cpus move between groups: one that is not dedicated to its group looks
 * around every T quanta and goes to the group of least virtual finishing time (MFQ). Within a group
 * each cpu goes round robin through its own queue; when that is more than delta rounds ahead of
 * another queue of the group, it steals a task from it.
 *
 * Worked example: weights 2, 2, 3, 4, 4, 4, 4, 6, 6, 9 on 4 cpus make groups of weight 7, 28 and 9,
 * worth 0.64, 2.55 and 0.82 cpus. Two cpus are dedicated to the second; the other two are shared out
 * by the rests 7, 6 and 9.
 *
 * Known limits: the paper's queues have locks of their own. Here the framework holds its one lock
 * in every call, so that GDQ keeps its locality (a pick touches its own queue) but not its
 * parallelism. A group that 200 days of
 * cpu time have gone to without any task coming or going would overflow its account. An arrival that
 * makes tasks infeasible searches one group of fewer than 2P tasks by repeated scans, O(P^2).
 */
#ifndef PRORATA_GDQ_H
#define PRORATA_GDQ_H

#define POLICY_NAME "gdq"
#define POLICY_CREDIT_QUANTA 2
#define POLICY_PAYS_WHOLE 0

#include "../wide.h"

enum gdq_option {
	/* Quanta after which a cpu looks around, at least one. */
	GDQ_T,
	/* Rounds that a queue may be behind another of its group. */
	GDQ_DELTA,
};

#define GROUPS 32
/* Queues: one a cpu and group, and as many that are stalled. */
#define QUEUES (2 * POLICY_CPUS + 2 * GROUPS)
/* "Every weight is feasible" as a cap. */
#define CAP_NONE (~0ULL)
/* Room for the tasks that one change makes count for something else. */
#define CHANGED (4 * POLICY_CPUS)

enum gdq_state { GDQ_BLOCKED, GDQ_WAITING, GDQ_RUNNING };

struct policy_task {
	/* nv = whole + part/weight rounds; if it is capped, in parts of the cap's numerator. */
	s64 whole;
	u64 part;
	/* What it was charged with and did not use: below a quantum. */
	u64 credit_ns;
	/* Its queue, or NIL, and its neighbours there. */
	u32 queue, next, prev;
	/* What it adds to the weight of its queue; if capped, the cap rounded down. */
	u32 load;
	u32 weight;
	/* While it runs: its weight from the end of the quantum on; 0 if that stays. */
	u32 next_weight;
	/* The ring of the runnable tasks of its order. */
	u32 class_next, class_prev;
	/* The task that woke next, until the first pick. */
	u32 fresh_next;
	u8 state;
	/* In its queue it counts as the cap. */
	bool capped;
	/* It runs in the queue of a group to which it does not belong any more. */
	bool misplaced;
	bool fresh;
};

struct queue {
	/* The number of the round. */
	s64 nv;
	/* Of all its tasks. */
	u64 weight;
	/* The task that runs or ran last; NIL if the queue is empty. */
	u32 current;
	u32 tasks;
	/* Neighbours among the queues of the group; `next` links free queues. */
	u32 next, prev;
	u32 group;
	/* A cpu works on it; else it is stalled. */
	bool active;
};

struct group {
	u32 first, last;
	/* Queues, and tasks in all of them. */
	u32 queues, tasks;
	/* Where its queues resume after it was empty. */
	s64 nv;
	/* The account of MFQ. Time of competing cpus since the weights changed, plus the error then. */
	s64 service_ns;
	/* Of the tasks that are not capped; the number of the others. */
	u64 weight;
	u32 capped;
	/* Cpus that it is always worth; the rest, in parts of what a cpu counts for. */
	u32 floor;
	u64 rest;
	/* Cpus that it has, and those of them that are dedicated to it. */
	u32 cpus, dedicated;
};

struct gdq_cpu {
	/* The queue that it works on, or NIL. */
	u32 queue;
	bool dedicated;
	/* Since when it has been with the group, or when it looked around last. */
	u64 since_ns;
	u64 look_ns;
};

/* A task that counts for something else since the last change, and for what it did before. */
struct change {
	u64 parts;
	u32 of;
	u32 task;
};

struct policy_state {
	struct policy_counts counts;
	u64 interval_ns;
	s64 delta;
	u32 cpus;
	/* Nothing was picked since nothing was runnable: there are no queues. */
	bool is_fresh;
	/* A task woke in a group without a cpu: the next competing cpu that picks looks around. */
	bool is_wanted;
	u32 fresh_first, fresh_last;
	/* Stalled queues that hold a task. */
	u32 stalled;
	u32 free_queue;
	/* Groups with tasks in their account; those that had some since the queues were dealt out. */
	u32 present, touched;
	/* The divisor of what a cpu counted for when the accounts were settled. */
	u64 settled_of;
	/* Time of competing cpus since then. */
	s64 served_ns;
	/* What a cpu counts for, as the queues know it. */
	u64 cap_parts, cap_of;
	/* The runnable tasks by order of weight. */
	u32 class_count[GROUPS], class_head[GROUPS];
	u64 class_weight[GROUPS];
	u32 class_present, count;
	u64 load;
	/* No weight counts for more than cap_feasible / cap_cpus. */
	u64 cap_feasible, cap_cpus;
	u32 capped_count, changed_count;
	u32 capped[CHANGED];
	struct change changed[CHANGED];
	struct group groups[GROUPS];
	struct gdq_cpu cpu[POLICY_CPUS];
	struct queue queues[QUEUES];
};

POLICY_MEMORY

#define QUEUE(id) (&STATE->queues[id])
#define GROUP(k) (&STATE->groups[(k) & (GROUPS - 1)])

/* --- what tasks count for ------------------------------------------------------------------ */

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

	if (STATE->count <= STATE->cpus)
		return set_cap(1, 1);
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

/* Finds the tasks above the cap. */
policy_fn u32 collect_capped(void)
{
	u32 found = unknown_zero(STATE->count), i, order;

	if (STATE->cap_feasible != CAP_NONE) {
		u32 lowest = order_of(STATE->cap_feasible / STATE->cap_cpus);

		bpf_for(order, lowest, GROUPS) {
			u32 first = STATE->class_head[order & (GROUPS - 1)], id = first;

			if (!(STATE->class_present >> order & 1))
				continue;
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

/* The lightest of a set of groups, which is not empty. */
static __always_inline u32 lightest_of(u32 groups)
{
	return order_of(groups & -groups);
}

/* What is remembered of the error of a group without tasks. */
static __always_inline s64 within_interval(s64 error_ns)
{
	s64 limit_ns = STATE->interval_ns;

	if (error_ns > limit_ns)
		return limit_ns;
	return error_ns < -limit_ns ? -limit_ns : error_ns;
}

/*
 * Computes anew what every group is worth. No cpu moves; every group keeps its error, and virtual
 * time starts from 0 again.
 */
policy_fn u32 settle(void)
{
	u64 rests = unknown_zero(STATE->count), old_of = STATE->settled_of;
	u64 parts = cpu_parts(), of = cpu_divisor(), part;
	s64 services = STATE->served_ns, whole;
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
	services *= old_of;
	whole = divide_down(services, rests);
	part = services - whole * rests;
	left = STATE->touched;
	bpf_for(i, 0, GROUPS) {
		struct group __arena *group;
		u64 rest, worth;
		u32 k;

		if (!left)
			break;
		k = lightest_of(left);
		left &= left - 1;
		group = GROUP(k);
		rest = group->rest;
		worth = group->weight * of;
		if (rest)
			group->service_ns -= divide_down(
				whole * (s64)rest + (s64)proportion(rest, part, rests), old_of);
		if (!(STATE->present >> k & 1))
			group->service_ns = within_interval(group->service_ns);
		group->floor = group->capped + worth / parts;
		group->rest = worth % parts;
	}
	STATE->settled_of = of;
	STATE->served_ns = 0;
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
		if (group->cpus > group->floor || group->tasks <= group->cpus)
			continue;
		if (group->cpus < group->floor)
			return k;
		if (group->rest && (best == NIL || finishes_first(group, GROUP(best))))
			best = k;
	}
	return best;
}

/* Any group that has more tasks than cpus; NIL if there is none. */
policy_fn u32 any_group(void)
{
	u32 left = STATE->present, i, k;

	bpf_for(i, 0, GROUPS) {
		if (!left)
			break;
		k = lightest_of(left);
		left &= left - 1;
		if (GROUP(k)->tasks > GROUP(k)->cpus)
			return k;
	}
	return NIL;
}

/* --- the queues of a group ----------------------------------------------------------------- */

enum wanted {
	/* The lightest queue. */
	LIGHTEST,
	/* The queue furthest behind, whatever it holds. */
	FURTHEST,
	/* The one furthest behind among the stalled ones that hold a task. */
	STALLED,
	/* Among those that can give a task away: stalled ones, and active ones with two tasks. */
	DONOR,
};

/* The first of the wanted queues of a group; NIL if there is none. */
policy_fn u32 find_queue(u32 k, u32 wanted)
{
	u32 id = GROUP(k)->first, best = NIL ^ unknown_zero(id), i;
	s64 least = 0;

	bpf_for(i, 0, QUEUES) {
		struct queue __arena *queue;
		s64 key;

		if (id == NIL)
			break;
		queue = QUEUE(id);
		key = wanted == LIGHTEST ? (s64)queue->weight : queue->nv;
		if ((wanted != STALLED || (!queue->active && queue->tasks)) &&
		    (wanted != DONOR || queue->tasks > queue->active) &&
		    (best == NIL || key < least)) {
			best = id;
			least = key;
		}
		id = queue->next;
	}
	return best;
}

/* A new, stalled queue of a group; NIL if there are too many. */
static __always_inline u32 open_queue(u32 k, s64 nv)
{
	u32 id = STATE->free_queue;
	struct group __arena *group = GROUP(k);
	struct queue __arena *queue;

	if (id == NIL)
		return NIL;
	queue = QUEUE(id);
	STATE->free_queue = queue->next;
	queue->nv = nv;
	queue->weight = 0;
	queue->current = NIL;
	queue->tasks = 0;
	queue->next = NIL;
	queue->prev = group->last;
	queue->group = k;
	queue->active = false;
	if (group->last == NIL)
		group->first = id;
	else
		QUEUE(group->last)->next = id;
	group->last = id;
	group->queues++;
	return id;
}

/* Gives back an empty queue. */
policy_fn u32 close_queue(u32 id)
{
	struct queue __arena *queue = QUEUE(id);
	struct group __arena *group = GROUP(queue->group);

	group->queues--;
	if (group->nv < queue->nv)
		group->nv = queue->nv;
	if (queue->prev == NIL)
		group->first = queue->next;
	else
		QUEUE(queue->prev)->next = queue->next;
	if (queue->next == NIL)
		group->last = queue->prev;
	else
		QUEUE(queue->next)->prev = queue->prev;
	queue->next = STATE->free_queue;
	STATE->free_queue = id;
	return 0;
}

static __always_inline void set_active(struct queue __arena *queue, bool active)
{
	if (queue->tasks)
		STATE->stalled += active ? -1 : 1;
	queue->active = active;
}

/* Whether one more queue may be without a cpu. */
static __always_inline bool may_stall(void)
{
	return STATE->stalled < STATE->cpus + GROUPS;
}

/* Puts a task into a queue before another, or before the current one. */
policy_fn u32 put(u32 queue_id, u32 id, u32 before)
{
	struct queue __arena *queue = QUEUE(queue_id);
	struct policy_task __arena *task = TASK(id);

	if (queue->current == NIL) {
		STATE->stalled += !queue->active;
		queue->current = task->next = task->prev = id;
	} else {
		u32 at = before == NIL ? queue->current : before;

		task->next = at;
		task->prev = TASK(at)->prev;
		TASK(task->prev)->next = id;
		TASK(at)->prev = id;
	}
	queue->tasks++;
	queue->weight += task->load;
	GROUP(queue->group)->tasks++;
	task->queue = queue_id;
	return 0;
}

/* Takes a task out of its queue. */
policy_fn u32 take(u32 id)
{
	struct policy_task __arena *task = TASK(id);
	struct queue __arena *queue = QUEUE(task->queue);
	u32 prev = task->prev;

	TASK(prev)->next = task->next;
	TASK(task->next)->prev = prev;
	queue->tasks--;
	queue->weight -= task->load;
	/* The task before has had its turn: the next pick goes on from there. */
	if (queue->current == id)
		queue->current = queue->tasks ? prev : NIL;
	STATE->stalled -= !queue->tasks && !queue->active;
	GROUP(queue->group)->tasks--;
	task->queue = NIL;
	return 0;
}

/* The task that a queue can give away. */
static __always_inline u32 spare(struct queue __arena *queue)
{
	return queue->active ? TASK(queue->current)->next : queue->current;
}

/* What the cap says of a task that is queued. */
static __always_inline void set_load(struct policy_task __arena *task, bool capped)
{
	task->capped = capped;
	task->load = capped ? STATE->cap_parts / STATE->cap_of : task->weight;
}

/* What a quantum adds to the nv of a task of group k: step/divisor. */
static __always_inline u64 step_of(struct policy_task __arena *task, u32 k)
{
	return (task->capped ? STATE->cap_of : 1) << (k & (GROUPS - 1));
}

static __always_inline u64 divisor_of(struct policy_task __arena *task)
{
	return task->capped ? STATE->cap_parts : task->load;
}

/* A queue for one more cpu of a group; NIL if there is none. */
policy_fn u32 queue_for_cpu(u32 k)
{
	u32 id = find_queue(k, STALLED), donor, task;

	if (id != NIL)
		return id;
	donor = find_queue(k, DONOR);
	if (donor == NIL)
		return NIL;
	id = open_queue(k, QUEUE(donor)->nv);
	if (id == NIL)
		return NIL;
	task = spare(QUEUE(donor));
	take(task);
	put(id, task, NIL);
	return id;
}

/* A queue at the end of a round: steals a task, or begins the next round with this one. */
policy_fn u32 end_round(u32 queue_id, u32 id)
{
	struct queue __arena *queue = QUEUE(queue_id);
	u32 donor = find_queue(queue->group, DONOR), task;

	if (donor == NIL || donor == queue_id || queue->nv <= QUEUE(donor)->nv + STATE->delta) {
		queue->nv++;
		return id;
	}
	task = spare(QUEUE(donor));
	take(task);
	put(queue_id, task, id);
	if (!QUEUE(donor)->tasks)
		close_queue(donor);
	return task;
}

/* The task of a queue that runs next; it is charged a quantum. */
static __always_inline u32 next_task(u32 queue_id)
{
	struct queue __arena *queue = QUEUE(queue_id);
	struct policy_task __arena *task;
	u32 id = queue->current;
	u64 divisor;

	if (TASK(id)->whole >= queue->nv) {
		id = TASK(id)->next;
		if (TASK(id)->whole >= queue->nv)
			id = end_round(queue_id, id);
	}
	queue->current = id;
	task = TASK(id);
	divisor = divisor_of(task);
	task->part += step_of(task, queue->group);
	if (task->part >= divisor) {
		task->part -= divisor;
		task->whole++;
	}
	STATE->counts.choices++;
	return id;
}

/* --- tasks among groups -------------------------------------------------------------------- */

/* Queues a waiting task in its group; its turn of this round is to come, or it has had it. */
policy_fn u32 place(u32 id, u32 to_come)
{
	struct policy_task __arena *task = TASK(id);
	u32 k = group_of(id), lightest = find_queue(k, LIGHTEST), queue = lightest;
	struct group __arena *group = GROUP(k);

	if (lightest == NIL ||
	    (group->queues < group->floor + (group->rest > 0) && may_stall())) {
		u32 furthest = find_queue(k, FURTHEST);

		queue = open_queue(k, furthest == NIL ? group->nv : QUEUE(furthest)->nv);
		if (queue == NIL)
			queue = lightest;
	}
	policy_assert(queue != NIL);
	set_load(task, above_cap(id));
	task->whole = QUEUE(queue)->nv - (to_come || !QUEUE(queue)->tasks);
	task->part = 0;
	put(queue, id, NIL);
	return 0;
}

/* Takes a waiting task out of its queue. */
policy_fn u32 unplace(u32 id)
{
	u32 queue = TASK(id)->queue;

	if (queue == NIL)
		return 0;
	take(id);
	if (!QUEUE(queue)->tasks && !QUEUE(queue)->active)
		close_queue(queue);
	return 0;
}

/* A queued task counts for something else, in the same group; the cap's numerator was `parts`. */
static __always_inline void reload(u32 id, u64 parts)
{
	struct policy_task __arena *task = TASK(id);
	struct queue __arena *queue = QUEUE(task->queue);
	u64 before = task->capped ? parts : task->load, now, part;

	queue->weight -= task->load;
	set_load(task, above_cap(id));
	queue->weight += task->load;
	now = divisor_of(task);
	part = proportion(task->part, now, before);
	task->part = part < now ? part : now - 1;
}

/* What a task counts for has changed: puts it where it belongs. If it runs, that has to wait. */
static __always_inline void replace(u32 id, u64 parts)
{
	struct policy_task __arena *task = TASK(id);
	bool elsewhere, to_come;

	if (task->queue == NIL)
		return;
	elsewhere = QUEUE(task->queue)->group != group_of(id);
	task->misplaced = elsewhere && task->state == GDQ_RUNNING;
	if (!elsewhere) {
		reload(id, parts);
	} else if (!task->misplaced) {
		to_come = task->whole < QUEUE(task->queue)->nv;
		unplace(id);
		place(id, to_come);
	}
}

/* The tasks that count for something else go where they belong. */
policy_fn u32 replace_changed(void)
{
	u64 parts = STATE->cap_parts;
	u32 i;

	account_changed();
	if (STATE->is_fresh)
		return 0;
	STATE->cap_parts = cpu_parts();
	STATE->cap_of = cpu_divisor();
	settle();
	bpf_for(i, 0, STATE->changed_count)
		replace(STATE->changed[i & (CHANGED - 1)].task, parts);
	return 0;
}

static __always_inline void join_set(u32 id)
{
	enter_class(id);
	find_changed(id);
	account_now(id, 1);
	replace_changed();
}

static __always_inline void leave_set(u32 id)
{
	account_now(id, -1);
	leave_class(id);
	if (above_cap(id))
		forget_capped(id);
	find_changed(NIL);
	replace_changed();
}

/* A waiting task has another weight from now on. */
policy_fn u32 reweigh(u32 id, u32 weight)
{
	u64 parts = cpu_parts();

	leave_set(id);
	TASK(id)->weight = weight;
	join_set(id);
	replace(id, parts);
	return 0;
}

/* --- cpus ---------------------------------------------------------------------------------- */

/* The cpu works on a queue of a group from now on. */
static __always_inline void adopt(struct gdq_cpu __arena *cpu, u32 queue)
{
	set_active(QUEUE(queue), true);
	cpu->queue = queue;
}

static __always_inline void abandon(u32 queue)
{
	set_active(QUEUE(queue), false);
	if (!QUEUE(queue)->tasks)
		close_queue(queue);
}

/* The cpu comes to a group. */
static __always_inline void arrive(struct gdq_cpu __arena *cpu, u32 k)
{
	GROUP(k)->cpus++;
	cpu->dedicated = dedicate(GROUP(k));
}

/* A competing cpu was the group's for so long. */
static __always_inline void charge_group(u32 k, s64 elapsed_ns)
{
	GROUP(k)->service_ns += elapsed_ns;
	STATE->served_ns += elapsed_ns;
}

/* MFQ: a cpu whose time has come finds out whether another group needs it more. */
policy_fn u32 look_around(u32 index)
{
	struct gdq_cpu __arena *cpu = &STATE->cpu[index & (POLICY_CPUS - 1)];
	u32 old = cpu->queue, k, goal, queue;
	struct group __arena *group;
	u64 elapsed_ns;

	if (old == NIL)
		return 0;
	if (now_ns() >= cpu->look_ns)
		cpu->look_ns += ((now_ns() - cpu->look_ns) / STATE->interval_ns + 1) *
				STATE->interval_ns;
	else if (!STATE->is_wanted || cpu->dedicated)
		return 0;
	STATE->is_wanted = false;
	elapsed_ns = now_ns() - cpu->since_ns;
	cpu->since_ns = now_ns();
	k = QUEUE(old)->group;
	group = GROUP(k);
	if (!cpu->dedicated) {
		charge_group(k, elapsed_ns);
		cpu->dedicated = dedicate(group);
	} else if (group->dedicated > group->floor) {
		group->dedicated--;
		cpu->dedicated = false;
	}
	if (cpu->dedicated)
		return 0;
	depart(group, false);
	goal = needy_group();
	if (goal == NIL || goal == k || !may_stall()) {
		arrive(cpu, k);
		return 0;
	}
	queue = queue_for_cpu(goal);
	policy_assert(queue != NIL);
	if (queue == NIL)
		return 0;
	abandon(old);
	adopt(cpu, queue);
	arrive(cpu, goal);
	return 0;
}

/* Gives a cpu whose queue is empty another one; NIL if no task waits. */
policy_fn u32 find_work(u32 index)
{
	struct gdq_cpu __arena *cpu = &STATE->cpu[index & (POLICY_CPUS - 1)];
	u32 old = cpu->queue, k, queue;

	if (old != NIL) {
		k = QUEUE(old)->group;
		queue = queue_for_cpu(k);
		abandon(old);
		cpu->queue = NIL;
		if (queue != NIL) {
			adopt(cpu, queue);
			return queue;
		}
		if (!cpu->dedicated)
			charge_group(k, now_ns() - cpu->since_ns);
		depart(GROUP(k), cpu->dedicated);
	}
	k = needy_group();
	if (k == NIL)
		k = any_group();
	if (k == NIL)
		return NIL;
	queue = queue_for_cpu(k);
	if (queue == NIL)
		return NIL;
	adopt(cpu, queue);
	arrive(cpu, k);
	cpu->since_ns = now_ns();
	return queue;
}

/* Forgets who ran: no queue, virtual times from 0. */
static __always_inline void restart(void)
{
	u32 left = STATE->touched, i;

	STATE->stalled = 0;
	STATE->served_ns = 0;
	bpf_for(i, 0, GROUPS) {
		struct group __arena *group;

		if (!left)
			break;
		group = GROUP(lightest_of(left));
		left &= left - 1;
		if (group->last != NIL) {
			QUEUE(group->last)->next = STATE->free_queue;
			STATE->free_queue = group->first;
		}
		group->first = group->last = NIL;
		group->queues = group->tasks = 0;
		group->nv = 1;
		group->service_ns = 0;
		group->rest = 0;
		group->floor = group->cpus = group->dedicated = 0;
	}
	STATE->touched = STATE->present;
	bpf_for(i, 0, STATE->cpus) {
		struct gdq_cpu __arena *cpu = &STATE->cpu[i & (POLICY_CPUS - 1)];

		cpu->queue = NIL;
		cpu->dedicated = false;
		cpu->since_ns = 0;
		cpu->look_ns = now_ns() + STATE->interval_ns * (i + 1) / STATE->cpus;
	}
}

/* Deals the fresh tasks to queues: cpus look around from now on. */
policy_fn u32 begin_queues(void)
{
	u32 id = STATE->fresh_first, i;

	STATE->is_fresh = STATE->is_wanted = false;
	restart();
	STATE->cap_parts = cpu_parts();
	STATE->cap_of = cpu_divisor();
	settle();
	bpf_for(i, 0, POLICY_TASKS) {
		if (id == NIL)
			break;
		TASK(id)->fresh = false;
		if (TASK(id)->state == GDQ_WAITING)
			place(id, true);
		id = TASK(id)->fresh_next;
	}
	STATE->fresh_first = STATE->fresh_last = NIL;
	return 0;
}

/* --- the contract -------------------------------------------------------------------------- */

policy_fn u32 policy_pick(u32 cpu)
{
	u32 queue, id;

	if (STATE->is_fresh) {
		if (!STATE->count)
			return NIL;
		begin_queues();
	}
	look_around(cpu);
	queue = STATE->cpu[cpu & (POLICY_CPUS - 1)].queue;
	if (queue == NIL || !QUEUE(queue)->tasks)
		queue = find_work(cpu);
	if (queue == NIL)
		return NIL;
	id = next_task(queue);
	TASK(id)->state = GDQ_RUNNING;
	return id;
}

policy_fn u32 policy_init(u32 cpus)
{
	u32 i;

	STATE->cpus = cpus;
	STATE->interval_ns = quantum_ns() * policy_option(GDQ_T);
	STATE->delta = policy_option(GDQ_DELTA);
	STATE->touched = ~0u;
	bpf_for(i, 0, GROUPS)
		GROUP(i)->last = NIL;
	STATE->free_queue = NIL;
	bpf_for(i, 0, 2 * cpus + 2 * GROUPS) {
		QUEUE(i)->next = STATE->free_queue;
		STATE->free_queue = i;
	}
	STATE->is_fresh = true;
	STATE->fresh_first = STATE->fresh_last = NIL;
	STATE->cap_feasible = STATE->cap_cpus = 1;
	STATE->cap_parts = STATE->cap_of = STATE->settled_of = 1;
	return 0;
}

policy_fn u32 policy_add(u32 id, u32 weight)
{
	struct policy_task __arena *task = TASK(id);

	task->weight = weight;
	task->next_weight = 0;
	task->credit_ns = 0;
	task->state = GDQ_BLOCKED;
	task->queue = NIL;
	task->misplaced = false;
	return 0;
}

policy_fn u32 policy_wake(u32 id)
{
	struct policy_task __arena *task = TASK(id);

	join_set(id);
	task->state = GDQ_WAITING;
	if (!STATE->is_fresh) {
		place(id, false);
		if (!GROUP(QUEUE(task->queue)->group)->cpus)
			STATE->is_wanted = true;
	} else if (!task->fresh) {
		task->fresh = true;
		task->fresh_next = NIL;
		if (STATE->fresh_last == NIL)
			STATE->fresh_first = id;
		else
			TASK(STATE->fresh_last)->fresh_next = id;
		STATE->fresh_last = id;
	}
	return 0;
}

policy_fn u32 policy_block(u32 id)
{
	unplace(id);
	TASK(id)->state = GDQ_BLOCKED;
	leave_set(id);
	if (!STATE->count)
		STATE->is_fresh = true;
	return 0;
}

policy_fn u32 policy_remove(u32 id)
{
	if (TASK(id)->state == GDQ_WAITING)
		policy_block(id);
	return 0;
}

policy_fn u32 policy_set_weight(u32 id, u32 weight)
{
	struct policy_task __arena *task = TASK(id);

	if (task->state == GDQ_WAITING)
		reweigh(id, weight);
	else if (task->state == GDQ_BLOCKED)
		task->weight = weight;
	else
		task->next_weight = weight;
	return 0;
}

policy_fn u32 policy_charge(u32 id, u64 used_ns)
{
	struct policy_task __arena *task = TASK(id);
	u64 step;

	task->state = GDQ_WAITING;
	if (task->next_weight) {
		u32 weight = task->next_weight;

		task->next_weight = 0;
		reweigh(id, weight);
	} else if (task->misplaced) {
		replace(id, STATE->cap_parts);
	}
	task->credit_ns += quantum_ns() - used_ns;
	if (task->credit_ns < quantum_ns())
		return 0;
	task->credit_ns -= quantum_ns();
	/* A quantum that it was charged with and did not use. */
	step = step_of(task, QUEUE(task->queue)->group);
	if (task->part < step) {
		task->part += divisor_of(task);
		task->whole--;
	}
	task->part -= step;
	return 0;
}

#endif

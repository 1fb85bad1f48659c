/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * GR3 and GR3MP, Group Ratio Round-Robin (Caprita, Chan, Nieh, Stein, Zheng, USENIX 2005).
 *
 * The rules and their reasons are in crates/core/src/policies/gr3, whose decisions this file
 * takes one by one, with lists instead of slots. In short: tasks of one order (2^order <= weight <
 * 2^(order+1)) form a group. Between groups: serve the group after the current one if the current
 * one is ahead of it, else the heaviest. Within a group: round robin, with a deficit that carries
 * fractions of a quantum. A choice that falls on a task running elsewhere gives it a frontlog, a
 * quantum that it will run on its own cpu without asking.
 *
 * Worked example: weights 5, 2, 1 make three groups and run 1 1 2 1 1 1 2 3, then repeat. On two
 * cpus weights 2, 3, 1 run as (1,2) (1,2) (3,2), then repeat.
 *
 * Known limits: a pick is O(1) amortised, but an arrival or departure that makes tasks infeasible
 * searches one group of fewer than 2P tasks by repeated scans, O(P^2), with the lock held. A newcomer that is
 * the heaviest comes first: where turns are kept, processes that follow each other, each gone after about a
 * quantum, take up to a tenth from hogs whose cgroup is due as much (on one cpu; measured/hostile.md).
 */
#ifndef PRORATA_GR3_H
#define PRORATA_GR3_H

#define POLICY_NAME "gr3"
#define POLICY_CREDIT_QUANTA 3
#define POLICY_PAYS_WHOLE 1
#define POLICY_KEEPS_CPUS 0

#include "../wide.h"

#define ORDERS 32
/* The sentinel before and after the group list; it weighs nothing. */
#define OUTSIDE 32
/* A round, where times are in 1/2^16 of one. */
#define ROUND (1 << 16)
/* Choices for each cpu that a pick makes at most. */
#define MOST_CHOICES 1024
/* No task is short of more quanta when its weight changes. */
#define MOST_LAG 16
/* "Every weight is feasible" and "every weight counts as 1" as caps. */
#define CAP_NONE (~0ULL)

struct policy_task {
	/* When its last turn was due, by the time of its group, if it has moved. */
	u64 since;
	/* Quanta that the task may still run in this round, times 2^order (times Q if capped). */
	u64 deficit;
	/* The ring of its group. */
	u32 next, prev;
	u32 weight;
	/* The cpu that holds it: from the pick that returned it until that cpu's next pick. */
	u32 holder;
	/* When it was queued, among the tasks of a fresh queue. */
	u32 arrival;
	/* Quanta that it was granted, the cpu that will run them, its place among that cpu's. */
	u32 frontlog, home, log_next, log_prev;
	bool queued;
	/* Queued, but to leave when its turn comes. */
	bool blocked;
	/* Queued, but no part of its group before its turn; not current, capped or blocked. */
	bool pending;
	bool held;
	/* Counts as the cap, and stands in the cap's group. */
	bool capped;
	/* Its group has counted it from its first turn on only, not while it waited for that. */
	bool late;
	/* It has another weight than when it came to the queue, and its turns are counted. */
	bool moved;
	/* Its last turn was one more than its ring gave it, if it has moved. */
	bool ran_twice;
};

struct group {
	/* V*weight(next) - V(next)*weight with the next group of the list; -1 for the last. */
	struct s128 lead;
	/* Effective weight times the cap's denominator. Decreases along the list. */
	u64 weight;
	/* V = W + 1: quanta received plus one; only ratios matter. */
	u64 work;
	/* What rescaling has left of a quantum beside W, in 1/2^16. */
	u64 part;
	/* Total weight of the tasks that are not capped. */
	u64 plain;
	u32 capped;
	/* The current task of the ring. */
	u32 current;
};

struct gr3_cpu {
	u32 task;
	/* The task at home here whose frontlog is served next. */
	u32 log_head;
};

struct policy_state {
	struct policy_counts counts;
	struct group groups[ORDERS + 1];
	/* Orders of the groups, heaviest first, ties in increasing order: list[1..=len]. */
	u8 list[ORDERS + 2];
	/* Where each order stands in the list; 0 for nowhere. */
	u8 place[ORDERS + 1];
	u32 len, at;
	/* Nothing was chosen since the queue was last empty. */
	bool fresh;
	/* The groups have changed since the last choice: `at` is to be found anew. */
	bool changed;
	/* No pair is violated but perhaps the one before the current group. */
	bool steady;
	/* A weight changes: no task comes or goes. */
	bool reweighs;
	/* Work is rescaled to parts of a quantum: the turns of those who come or go are counted. */
	bool keeps_parts;
	/* make_room() was called. */
	bool has_room;
	/* Groups may be further behind or ahead than choices make them: the one furthest behind is next. */
	bool uneven;
	/* The first task in this choice that was ahead and let its turn pass. */
	u32 passed;
	/* What the task that moves is short of, in 1/2^16 of a quantum: of what it is due of all, and of what
	 * its group received; and the sums before, of what was served. */
	s64 lag_of_all, lag_of_group;
	u64 was_work, was_part, was_weight;
	/* Sums before the change at hand. */
	u64 total_work, total_part, total_weight, unit, old_unit;
	/* Of the work, what was run: without what tasks were granted. */
	u64 served_work;
	/* Frontlogs of all tasks. */
	u64 granted;
	/* The cap before it changed is old_feasible / old_unit; what groups received more, in 1/2^16 of a
	 * quantum, for tasks that were behind and left them, or less for those that joined them. */
	u64 old_feasible;
	s64 received[ORDERS];
	u32 cpus;
	/* Queued tasks that are not blocked, pending ones included; those of them that a cpu holds
	 * (several cpus only). */
	u32 runnable, held;
	/* Queued tasks by order of raw weight. */
	u32 class_count[ORDERS];
	u64 class_weight[ORDERS];
	u32 class_present, count;
	u64 load;
	/* The cap: no weight counts for more than cap_feasible / cap_cpus. */
	u64 cap_feasible, cap_cpus;
	/* The order of the group of the tasks that count as the cap. */
	u32 cap_order;
	/* Queued tasks above the cap, in the order in which they came to be. */
	u32 capped_count;
	u32 capped[POLICY_CPUS + 2];
	u32 arrivals;
	/* Groups taken out of the list during an update of all. */
	bool out[ORDERS];
	u64 old_weight[ORDERS];
	struct gr3_cpu cpu[POLICY_CPUS];
};

POLICY_MEMORY

/* mul_div, which would be large in so many places. */
policy_fn u64 proportion(u64 a, u64 b, u64 c)
{
	return mul_div(a, b, c);
}

/* --- the cap ------------------------------------------------------------------------------- */

static __always_inline bool above_cap(u64 weight)
{
	return weight * STATE->cap_cpus > STATE->cap_feasible;
}

static __always_inline void set_cap(u64 feasible, u64 cpus)
{
	STATE->cap_feasible = feasible;
	STATE->cap_cpus = cpus;
	STATE->cap_order = ilog2(feasible / cpus) & 31;
}

/* The order of the group that a task is in. */
static __always_inline u32 group_of(struct policy_task __arena *task)
{
	if (task->capped)
		return STATE->cap_order;
	return ilog2(task->weight) & 31;
}

/* A quantum in the units of the task's deficit, and the allotment of a round. */
static __always_inline u64 one_quantum(struct policy_task __arena *task, u32 order)
{
	return (task->capped ? STATE->cap_cpus : 1) << (order & 31);
}

static __always_inline u64 allotment(struct policy_task __arena *task)
{
	return task->capped ? STATE->cap_feasible : task->weight;
}

/* --- the group list ------------------------------------------------------------------------ */

static __always_inline struct group __arena *group_at(u32 place)
{
	return &STATE->groups[STATE->list[place] & 63];
}

static __always_inline void renumber(u32 first)
{
	u32 i;

	bpf_for(i, first, STATE->len + 1)
		STATE->place[STATE->list[i] & 63] = i;
}

/* True if a group of this weight and order stands before the group at a place. */
static __always_inline bool precedes(u64 weight, u32 order, u32 place)
{
	u64 other = group_at(place)->weight;

	return other < weight || (other == weight && order < STATE->list[place]);
}

/* Computes the leads of the places first..=last anew. */
static __always_inline void relead(u32 first, u32 last)
{
	u32 i;

	bpf_for(i, first ? first : 1, last + 1) {
		struct group __arena *group = group_at(i), *next = group_at(i + 1);

		if (i < STATE->len) {
			wide_cross(&group->lead, group->work, next->weight, next->work,
				   group->weight);
		} else {
			group->lead.low = ~0ULL;
			group->lead.high = -1;
		}
	}
}

static __always_inline void weigh(struct group __arena *group)
{
	group->weight = group->plain * STATE->cap_cpus;
	if (group->capped)
		group->weight += group->capped * STATE->cap_feasible;
}

static __always_inline void take_out(u32 place)
{
	u32 i;

	STATE->place[STATE->list[place] & 63] = 0;
	bpf_for(i, place, STATE->len + 1)
		STATE->list[i & 63] = STATE->list[(i + 1) & 63];
	STATE->len--;
	renumber(place);
	if (place > 1)
		relead(place - 1, place - 1);
}

/*
 * Before a change: the work of all groups, and their weight. Weights now are in units of 1 / unit,
 * those before in units of 1 / old_unit: in other units an old weight may be no whole number, and
 * rounding it would make the group lose or gain a part of all its work.
 */
policy_fn u32 sum_groups(u64 unit, u64 old_unit)
{
	u32 i;

	STATE->unit = unit;
	STATE->old_unit = old_unit;
	STATE->total_work = STATE->total_part = STATE->total_weight = 0;
	bpf_for(i, 1, STATE->len + 1) {
		STATE->total_work += group_at(i)->work - 1;
		STATE->total_part += group_at(i)->part;
		STATE->total_weight += group_at(i)->weight;
	}
	STATE->total_work += STATE->total_part >> 16;
	STATE->total_part &= 0xffff;
	STATE->served_work = STATE->total_work > STATE->granted ? STATE->total_work - STATE->granted : 0;
	return 0;
}

/*
 * Sets the work of the group at a place in proportion to its weight, which was `old`: to its work
 * before, or to that of all groups if it is new (old = 0). Where a weight changes, what is no whole quantum
 * is kept beside: were it dropped, a group whose tasks come one by one would have gained half a quantum with
 * each. Else a task that comes, has a turn and goes pays for exactly that if it is rounded down, then up.
 */
static __always_inline void rescale(u32 place, u64 old)
{
	struct group __arena *group = group_at(place);
	u64 work = old ? group->work - 1 : STATE->total_work, part = old ? group->part : STATE->total_part;
	u64 base = (old ? old : STATE->total_weight) * STATE->unit;
	u64 weight = group->weight * STATE->old_unit, scaled;

	if (!STATE->fresh && base && weight != old * STATE->unit) {
		scaled = proportion(work, weight, base);
		/* A remainder is below 2^64, so the lower halves of the products tell it. */
		part = proportion(part, weight, base) + proportion(work * weight - scaled * base, 1 << 16, base);
		if (!STATE->keeps_parts)
			part = (part + (weight < old * STATE->unit ? 0xffff : 0)) & ~0xffffULL;
		group->work = scaled + (part >> 16) + 1;
		group->part = part & 0xffff;
	}
	relead(place - 1, place);
}

policy_fn u32 put_back(u32 order, u64 old)
{
	u64 weight = STATE->groups[order & 63].weight;
	u32 place = STATE->len + 1, i;

	bpf_for(i, 0, ORDERS) {
		if (place <= 1 || !precedes(weight, order, place - 1))
			break;
		STATE->list[place & 63] = STATE->list[(place - 1) & 63];
		place--;
	}
	STATE->list[place & 63] = order;
	STATE->len++;
	STATE->list[(STATE->len + 1) & 63] = OUTSIDE;
	renumber(place);
	rescale(place, old);
	return 0;
}

/* The place after the last violated pair; the first place if there is none. */
policy_fn u32 after_last_violated(void)
{
	u32 at = 1 + unknown_zero(STATE->len), i;

	bpf_for(i, 1, STATE->len + 1) {
		if (is_positive(&group_at(i)->lead))
			at = i + 1;
	}
	return at;
}

/* Goes to the group of least V / weight, the first of them. */
policy_fn u32 go_to_furthest_behind(void)
{
	u32 i;

	STATE->at = 1;
	bpf_for(i, 2, STATE->len + 1) {
		struct group __arena *least = group_at(STATE->at & 63), *other = group_at(i);
		u64 high = mul_high(other->work, least->weight);
		u64 least_high = mul_high(least->work, other->weight);

		if (high < least_high || (high == least_high &&
		    other->work * least->weight < least->work * other->weight))
			STATE->at = i;
	}
	return 0;
}

/* The groups have changed: the next choice looks where to go on. */
static __always_inline void resume(void)
{
	STATE->changed = true;
	STATE->steady = false;
	if (!STATE->len) {
		STATE->fresh = true;
		STATE->has_room = STATE->uneven = false;
	}
}

/* The tasks of the group of this order have changed: moves it to its place and rescales it. */
policy_fn u32 update_group(u32 order)
{
	struct group __arena *group = &STATE->groups[order & 63];
	u32 place = STATE->place[order & 63];
	u64 old = group->weight;

	weigh(group);
	if ((place == 1 || !precedes(group->weight, order, place - 1)) &&
	    (place == STATE->len || precedes(group->weight, order, place + 1))) {
		rescale(place, old);
	} else {
		take_out(place);
		put_back(order, old);
	}
	resume();
	return 0;
}

static __always_inline void insert_group(u32 order)
{
	sum_groups(1, 1);
	weigh(&STATE->groups[order & 63]);
	put_back(order, 0);
	resume();
}

static __always_inline void delete_group(u32 order)
{
	take_out(STATE->place[order & 63]);
	resume();
}

/*
 * The cap has changed, and tasks have moved; the sums are of before. Takes the groups whose share changed
 * out of the list and puts those that hold tasks back, in decreasing order. What is no whole quantum is kept:
 * caps change as often as tasks sleep.
 */
static __always_inline void update_all_groups(void)
{
	u32 i, order, kept = unknown_zero(STATE->unit);

	bpf_for(i, 1, STATE->len + 1) {
		struct group __arena *group = group_at(i);
		u64 old_weight = group->weight;

		order = STATE->list[i & 63] & 31;
		weigh(group);
		STATE->place[order] = 0;
		STATE->out[order] = !group->weight ||
				    old_weight * STATE->unit != group->weight * STATE->old_unit;
		STATE->old_weight[order] = old_weight;
		if (!STATE->out[order]) {
			kept++;
			STATE->list[kept & 63] = order;
		}
	}
	STATE->len = kept;
	STATE->list[(kept + 1) & 63] = OUTSIDE;
	renumber(1);
	relead(1, kept);
	STATE->keeps_parts = true;
	bpf_for(i, 0, ORDERS) {
		order = ORDERS - 1 - i;
		if (STATE->out[order] && STATE->groups[order].weight)
			put_back(order, STATE->old_weight[order]);
		STATE->out[order] = false;
	}
	STATE->keeps_parts = STATE->reweighs;
	STATE->unit = STATE->old_unit = 1;
	resume();
}

/* The current group was chosen: counts its quantum and moves on. */
static __always_inline void advance(void)
{
	u32 at = STATE->at;
	struct group __arena *group = group_at(at), *previous = group_at(at - 1);

	wide_add(&group->lead, group_at(at + 1)->weight);
	group->work++;
	wide_sub(&previous->lead, previous->weight);
	STATE->at = is_positive(&group->lead) ? at + 1 : 1;
	if (STATE->steady)
		return;
	STATE->fresh = false;
	if (STATE->uneven) {
		go_to_furthest_behind();
		STATE->uneven = after_last_violated() > 1;
		STATE->steady = !STATE->uneven;
		return;
	}
	/* After a change the round starts over only when no pair is violated. */
	if (STATE->at == 1)
		STATE->at = after_last_violated();
	STATE->steady = STATE->at == 1;
}

/* --- who is behind --------------------------------------------------------------------------- */

/*
 * The time at which so much is due to so much weight, modulo 2^48, in rounds in which what weighs `one`
 * receives a quantum.
 */
static __always_inline u64 time_at(u64 work, u64 part, u64 weight, u64 one)
{
	return work / weight * (one << 16) + proportion((work % weight << 16) + part, one, weight);
}

/* What weighs so much receives a quantum in a round of a group of an order. */
static __always_inline u64 weight_of_quantum(u32 order)
{
	return STATE->cap_cpus << (order & 31);
}

/* The time of all, by what they have run. */
policy_fn u64 time_of_all(u32 order)
{
	return time_at(STATE->served_work, STATE->total_part, STATE->total_weight, weight_of_quantum(order));
}

policy_fn u64 time_of(u32 order)
{
	struct group __arena *group = &STATE->groups[order & 63];

	return time_at(group->work - 1, group->part, group->weight, weight_of_quantum(order));
}

/*
 * From now on the turns of a task are counted. The last one counts as just over by the time of its group.
 */
static __always_inline void count_turns(struct policy_task __arena *task, u64 own)
{
	task->moved = true;
	task->since = own;
	task->ran_twice = false;
	task->late = false;
}

/* How long the last turn of a task, which has moved, was due. */
static __always_inline s64 waited(u32 id)
{
	return time_of(group_of(TASK(id))) - TASK(id)->since;
}

/*
 * True if a task, which has moved, is ahead of its group by half a round. (Where tasks came one after the
 * other all are by a little.)
 */
static __always_inline bool is_far_ahead(u32 id)
{
	return waited(id) < -(s64)ROUND / 2;
}

/* number * by / of, towards 0 */
static __always_inline s64 signed_proportion(s64 number, u64 by, u64 of)
{
	u64 size = proportion(magnitude(number), by, of), sign = number >> 63;

	if (size > 1ULL << 62)
		size = 1ULL << 62;
	return (size ^ sign) - sign;
}

policy_fn s64 times(s64 number, u64 by, u64 of)
{
	return signed_proportion(number, by, of);
}

/*
 * From now on a group may have received less than nothing since the beginning, by what MOST_LAG is. No
 * decision changes: leads and proportions stay.
 */
policy_fn u32 make_room(void)
{
	u32 i;

	if (STATE->has_room)
		return 0;
	STATE->has_room = true;
	bpf_for(i, 1, STATE->len + 1)
		group_at(i)->work += group_at(i)->weight * MOST_LAG;
	return 0;
}

/* What a task is short of by a time of its group's, in 1/2^16 of a quantum. */
policy_fn s64 lag_at(u32 id, u64 now)
{
	struct policy_task __arena *task = TASK(id);
	u32 order = group_of(task);
	u64 one = one_quantum(task, order);
	u64 since = task->moved ? task->since : time_of(order);

	return times(now - since, allotment(task), one) + proportion(task->deficit, 1 << 16, one);
}

/* The tasks of a group have received so much more, in 1/2^16 of a quantum. */
policy_fn u32 receive(u32 order, s64 more)
{
	struct group __arena *group = &STATE->groups[order & 63];
	u32 place = STATE->place[order & 63];
	s64 parts = (s64)group->part + more, work = (s64)group->work + (parts >> 16);

	group->work = work < 1 ? 1 : work;
	group->part = work < 1 ? 0 : parts & 0xffff;
	relead(place - 1, place);
	resume();
	STATE->uneven = true;
	return 0;
}

/* --- rings --------------------------------------------------------------------------------- */

static __always_inline void link_before(u32 id, u32 at)
{
	struct policy_task __arena *task = TASK(id), *after = TASK(at);

	task->next = at;
	task->prev = after->prev;
	TASK(after->prev)->next = id;
	after->prev = id;
}

/*
 * Puts a task into the ring of its group, before the task `at`, or before the current one if `at`
 * is NIL. True if the group is new; it is not in the list then.
 */
static __always_inline bool enter_ring(u32 id, u32 at)
{
	struct policy_task __arena *task = TASK(id);
	u32 order;
	struct group __arena *group;
	bool new = false;

	task->queued = true;
	task->capped = above_cap(task->weight);
	order = group_of(task);
	group = &STATE->groups[order];
	if (group->plain || group->capped) {
		task->deficit = 0;
		link_before(id, at == NIL ? group->current : at);
	} else {
		task->deficit = allotment(task);
		task->next = task->prev = id;
		group->current = id;
		if (!STATE->place[order]) {
			group->work = 1;
			group->part = 0;
			group->weight = 0;
			new = true;
		}
	}
	if (task->capped)
		group->capped++;
	else
		group->plain += task->weight;
	return new;
}

/* Makes a task the first one of a ring that nothing was chosen from. */
static __always_inline void start_ring(u32 order, u32 id)
{
	STATE->groups[order & 63].current = id;
	TASK(id)->deficit = allotment(TASK(id));
}

/* A pending task is a part of its group from now on. */
static __always_inline void count_in(struct group __arena *group, u32 id)
{
	TASK(id)->pending = false;
	TASK(id)->late = true;
	group->plain += TASK(id)->weight;
}

/* A task becomes current in the ring of its group. */
static __always_inline void make_current(struct group __arena *group, u32 id)
{
	if (TASK(id)->pending)
		count_in(group, id);
	group->current = id;
}

/* Takes a task out of the ring of the group of this order. False if that is empty now. */
static __always_inline bool leave_ring(u32 id, u32 order)
{
	struct policy_task __arena *task = TASK(id);
	struct group __arena *group = &STATE->groups[order & 63];
	u32 next = task->next, prev = task->prev;
	bool left = next != id;

	TASK(prev)->next = next;
	TASK(next)->prev = prev;
	task->queued = false;
	if (task->pending)
		task->pending = false;
	else if (task->capped)
		group->capped--;
	else
		group->plain -= task->weight;
	if (group->current == id && left) {
		make_current(group, prev);
		if (STATE->fresh)
			start_ring(order, next);
	}
	return left;
}

/* --- frontlogs ----------------------------------------------------------------------------- */

static __always_inline void grant(u32 id, u32 cpu, u32 quanta)
{
	struct policy_task __arena *task = TASK(id), *after;

	if (!task->frontlog) {
		u32 head = STATE->cpu[cpu & (POLICY_CPUS - 1)].log_head;

		task->home = cpu;
		if (head == NIL) {
			task->log_next = task->log_prev = id;
			STATE->cpu[cpu & (POLICY_CPUS - 1)].log_head = id;
		} else {
			after = TASK(head);
			task->log_next = head;
			task->log_prev = after->log_prev;
			TASK(after->log_prev)->log_next = id;
			after->log_prev = id;
		}
	}
	task->frontlog += quanta;
	STATE->granted += quanta;
	STATE->counts.frontlogs += quanta;
}

/* Takes a task off the queue of its frontlog's home. */
static __always_inline void retire(struct policy_task __arena *task, u32 id)
{
	struct gr3_cpu __arena *home = &STATE->cpu[task->home & (POLICY_CPUS - 1)];

	TASK(task->log_prev)->log_next = task->log_next;
	TASK(task->log_next)->log_prev = task->log_prev;
	if (home->log_head == id)
		home->log_head = task->log_next == id ? NIL : task->log_next;
	task->frontlog = 0;
}

/* Drops the frontlog of a task but for so many quanta of it. */
static __always_inline void keep_granted(u32 id, u32 quanta)
{
	struct policy_task __arena *task = TASK(id);

	if (task->frontlog <= quanta)
		return;
	STATE->granted -= task->frontlog - quanta;
	task->frontlog = quanta;
	if (!quanta)
		retire(task, id);
}

/*
 * A task is short of so much beside its frontlog, in 1/2^16 of a quantum; or is ahead without that, and drops
 * as much of it, by whole quanta. What it is short of then.
 */
policy_fn s64 drop_granted(u32 id, s64 lag)
{
	s64 granted = TASK(id)->frontlog, kept = granted + (lag >> 16);

	if (kept >= granted)
		return lag;
	if (kept < 0)
		kept = 0;
	keep_granted(id, kept);
	return lag + ((granted - kept) << 16);
}

/* The task that a cpu runs for its frontlog, if one could run now; a quantum less is left of it. */
policy_fn u32 serve(u32 cpu)
{
	struct gr3_cpu __arena *home = &STATE->cpu[cpu & (POLICY_CPUS - 1)];
	u32 head = home->log_head, id = head, i;
	struct policy_task __arena *task;

	if (head == NIL)
		return NIL;
	bpf_for(i, 0, POLICY_TASKS) {
		task = TASK(id);
		if (!task->blocked && !task->held)
			goto found;
		id = task->log_next;
		if (id == head)
			break;
	}
	return NIL;
found:
	task = TASK(id);
	home->log_head = task->log_next;
	task->frontlog--;
	STATE->granted--;
	if (!task->frontlog)
		retire(task, id);
	return id;
}

/* --- readjustment -------------------------------------------------------------------------- */

/* The largest weight below `below` in the class of an order; 0 if there is none. */
policy_fn u32 largest_below(u32 order, u64 below)
{
	struct group __arena *group = &STATE->groups[order & 31];
	u32 id = group->current, first = id, largest = unknown_zero(id), i;

	if (STATE->place[order & 31]) {
		bpf_for(i, 0, 4 * POLICY_CPUS) {
			struct policy_task __arena *task = TASK(id);

			if (!task->capped && task->weight < below && task->weight > largest)
				largest = task->weight;
			id = task->next;
			if (id == first)
				break;
		}
	}
	bpf_for(i, 0, STATE->capped_count) {
		u32 weight = TASK(STATE->capped[i & 1023])->weight;

		if (weight < below && weight > largest && (ilog2(weight) & 31) == (order & 31))
			largest = weight;
	}
	return largest;
}

/* How many tasks of the class of an order have this weight. */
policy_fn u32 count_equal(u32 order, u32 weight)
{
	struct group __arena *group = &STATE->groups[order & 31];
	u32 id = group->current, first = id, count = unknown_zero(id), i;

	if (STATE->place[order & 31]) {
		bpf_for(i, 0, 4 * POLICY_CPUS) {
			struct policy_task __arena *task = TASK(id);

			count += !task->capped && task->weight == weight;
			id = task->next;
			if (id == first)
				break;
		}
	}
	bpf_for(i, 0, STATE->capped_count)
		count += TASK(STATE->capped[i & 1023])->weight == weight;
	return count;
}

/* GR3 section 3.3. Sets the cap; true if it changed. */
policy_fn u32 find_cap(void)
{
	u64 total = STATE->load, feasible = CAP_NONE, below = ~0ULL, cap_cpus = 1;
	u32 infeasible = unknown_zero(total), order = 0, present = STATE->class_present, cpus = STATE->cpus;
	bool search = false, changed;
	u32 i, j;

	if (STATE->count <= cpus) {
		feasible = 1;
		goto set;
	}
	bpf_for(i, 0, ORDERS) {
		u32 left, count;
		u64 weight;

		if (!present)
			break;
		order = ilog2(present) & 31;
		count = STATE->class_count[order];
		weight = STATE->class_weight[order];
		left = cpus - infeasible;
		if (count >= left || (1ULL << order) * (left - count) <= total - weight) {
			search = count < 2 * left && ((2ULL << order) - 1) * left > total;
			break;
		}
		infeasible += count;
		total -= weight;
		present &= ~(1u << order);
	}
	bpf_for(i, 0, 2 * POLICY_CPUS) {
		u32 weight, copies;

		if (!search)
			break;
		weight = largest_below(order, below);
		copies = weight ? count_equal(order, weight) : 0;
		if (!copies)
			break;
		bpf_for(j, 0, copies) {
			if (infeasible == cpus || (u64)weight * (cpus - infeasible) <= total) {
				search = false;
				break;
			}
			infeasible++;
			total -= weight;
		}
		below = weight;
	}
	if (infeasible) {
		feasible = total;
		cap_cpus = cpus - infeasible;
	}
set:
	changed = feasible != STATE->cap_feasible || cap_cpus != STATE->cap_cpus;
	set_cap(feasible, cap_cpus);
	return changed;
}

/* Puts a task into the ring of its group, which counts from the update of all groups on if it is new. */
static __always_inline void join_ring(u32 id, u32 at)
{
	if (enter_ring(id, at)) {
		u32 new = group_of(TASK(id));

		STATE->len++;
		STATE->list[STATE->len & 63] = new;
		STATE->list[(STATE->len + 1) & 63] = OUTSIDE;
		STATE->place[new & 31] = STATE->len;
	}
}

/* Where a task comes in a group. */
struct ring_place {
	/* Before this one; before the current task if it is NIL. */
	u32 at;
	bool has_turn;
	u64 since;
	/* What the group has received more with it, in 1/2^16 of a quantum. */
	s64 received;
};

/*
 * Where a task, which is in no ring and short of so much by `now`, comes in its group, whose time is `own`.
 * Its turn is the next one if it has waited for a round, or else the last one; who is alone has its allotment
 * at once, unless it is ahead.
 */
static __always_inline struct ring_place place_behind(u32 id, s64 lag, u64 now, u64 own)
{
	struct policy_task __arena *task = TASK(id);
	u32 order = group_of(task) & 31;
	struct group __arena *group = &STATE->groups[order];
	bool alone = !group->plain && !group->capped;
	u64 one = one_quantum(task, order);
	struct ring_place place = { .at = NIL, .has_turn = alone && lag >= 0 };
	s64 behind;

	place.since = now - signed_proportion(lag, one, allotment(task));
	behind = own - place.since;
	place.received = -signed_proportion(behind, allotment(task), one);
	if (!alone && behind >= ROUND)
		place.at = TASK(group->current)->next;
	if (place.has_turn)
		place.since += ROUND;
	return place;
}

/* A task has come to its place in a ring, and its turns are counted. */
static __always_inline void take_place(u32 id, struct ring_place *place)
{
	count_turns(TASK(id), place->since);
	if (!place->has_turn)
		TASK(id)->deficit = 0;
}

/* While the cap changes: the time of all. (Called, as what follows, it would be too deep in the stack.) */
static __always_inline u64 all_before(u64 work, u32 order)
{
	return time_at(work, STATE->total_part, STATE->total_weight, STATE->old_unit << (order & 31));
}

/* The same of the group of an order, or of all if it is new. */
static __always_inline u64 group_before(u32 order)
{
	struct group __arena *group = &STATE->groups[order & 31];

	if (!STATE->place[order & 31] || !group->weight)
		return all_before(STATE->total_work, order);
	return time_at(group->work - 1, group->part, group->weight,
		       STATE->old_unit << (order & 31));
}

/*
 * While the cap changes, a task is short of so much beside its frontlog. What of that it keeps: who stays
 * capped keeps its frontlog, too, of which it would else be granted as much again, choice by choice.
 */
static __always_inline s64 lag_beside_granted(u32 id, s64 lag)
{
	struct policy_task __arena *task = TASK(id);
	s64 most = MOST_LAG << 16, granted = 0;

	if (task->capped && above_cap(task->weight)) {
		granted = (s64)task->frontlog << 16;
		lag += granted;
	} else {
		lag = drop_granted(id, lag);
	}
	lag = lag > most ? most : lag;
	return (lag < -most ? -most : lag) - granted;
}

/*
 * What a task of the group of an order was short of before the cap changed. The others of the group have had
 * what it was short of there.
 */
static __always_inline s64 lag_before(u32 id, u32 order)
{
	struct policy_task __arena *task = TASK(id);
	u64 one = (task->capped ? STATE->old_unit : 1) << (order & 31);
	u64 allotted = task->capped ? STATE->old_feasible : task->weight;
	u64 own = group_before(order), since = task->moved ? task->since : own;
	s64 kept = proportion(task->deficit, 1 << 16, one);

	if (task->pending)
		return 0;
	STATE->received[order & 31] += signed_proportion(own - since, allotted, one) + kept;
	return lag_beside_granted(id, signed_proportion(all_before(STATE->served_work, order) - since,
							allotted, one) + kept);
}

/* A group that all tasks have left: who comes to it comes to a new one. */
static __always_inline void forget_group(u32 order)
{
	struct group __arena *group = &STATE->groups[order & 31];

	group->weight = group->part = 0;
	group->work = 1;
	STATE->received[order & 31] = 0;
}

/* A task, which is in no ring and short of so much, enters that of its effective weight. */
static __always_inline void enter_short_of(u32 id, s64 lag)
{
	struct ring_place place;
	u32 order;

	TASK(id)->capped = above_cap(TASK(id)->weight);
	order = group_of(TASK(id)) & 31;
	place = place_behind(id, lag, all_before(STATE->served_work, order), group_before(order));
	STATE->received[order] += place.received;
	join_ring(id, place.at);
	take_place(id, &place);
}

/*
 * Moves a task from the group of this order to that of its effective weight, as far behind all as it was; as
 * an arrival where nothing was chosen before.
 */
policy_fn u32 shift(u32 id, u32 order)
{
	s64 lag;

	if (STATE->fresh) {
		TASK(id)->moved = false;
		leave_ring(id, order);
		join_ring(id, NIL);
		return 0;
	}
	lag = lag_before(id, order);
	if (!leave_ring(id, order))
		forget_group(order);
	enter_short_of(id, lag);
	return 0;
}

/* Appends the tasks of a group that are above the cap and not in `capped`. */
policy_fn u32 find_exceeding_in(u32 order)
{
	u32 first = STATE->groups[order & 31].current, id = first, i;

	bpf_for(i, 0, 4 * POLICY_CPUS) {
		struct policy_task __arena *task = TASK(id);

		if (!task->capped && above_cap(task->weight)) {
			STATE->capped[STATE->capped_count & 1023] = id;
			STATE->capped_count++;
		}
		id = task->next;
		if (id == first)
			break;
	}
	return 0;
}

/* Appends the tasks above the cap that are not in `capped`. */
policy_fn u32 find_exceeding(void)
{
	u32 all = STATE->count, i;

	if (STATE->cap_feasible == CAP_NONE)
		return 0;
	if (STATE->count > STATE->cpus)
		all = STATE->cpus - STATE->cap_cpus;
	bpf_for(i, 0, ORDERS) {
		u32 order = ORDERS - 1 - i;

		if (STATE->capped_count >= all ||
		    order < STATE->cap_order)
			break;
		if (STATE->place[order])
			find_exceeding_in(order);
	}
	return 0;
}

/* Sorts capped[from..] by id, or by arrival. */
policy_fn u32 sort_capped(u32 from, u32 by_arrival)
{
	u32 i, j;

	bpf_for(i, from + 1, STATE->capped_count) {
		u32 id = STATE->capped[i & 1023], at = i;
		u32 key = by_arrival ? TASK(id)->arrival : id;

		bpf_for(j, 0, POLICY_CPUS) {
			u32 before;

			if (at <= from)
				break;
			before = STATE->capped[(at - 1) & 1023];
			if ((by_arrival ? TASK(before)->arrival : before) <= key)
				break;
			STATE->capped[at & 1023] = before;
			at--;
		}
		STATE->capped[at & 1023] = id;
	}
	return 0;
}

/* Moves the tasks that the new cap no longer concerns to the groups of their own weights. */
static __always_inline u32 uncap(u32 old_order)
{
	u32 staying = unknown_zero(old_order), i;

	bpf_for(i, 0, STATE->capped_count) {
		u32 id = STATE->capped[i & 1023];

		if (above_cap(TASK(id)->weight)) {
			STATE->capped[staying & 1023] = id;
			staying++;
		} else {
			shift(id, old_order);
		}
	}
	STATE->capped_count = staying;
	return staying;
}

/* The tasks that stay capped count as the new cap. */
static __always_inline void recap(u32 staying, u32 old_order, u64 old_cpus)
{
	bool moves = !STATE->fresh || old_order != STATE->cap_order;
	u32 i;

	bpf_for(i, 0, staying) {
		u32 id = STATE->capped[i & 1023];
		struct policy_task __arena *task = TASK(id);

		if (moves)
			shift(id, old_order);
		else
			task->deficit = proportion(task->deficit, STATE->cap_cpus, old_cpus);
	}
}

/* The first task of a ring, from `from` on, that arrived after a task; `first` if none did. */
policy_fn u32 later_arrival(u32 id, u32 first, u32 from)
{
	u32 arrival = TASK(id)->arrival, at = from == NIL ? first : from, i;

	bpf_for(i, 0, POLICY_TASKS) {
		if (TASK(at)->arrival >= arrival)
			break;
		at = TASK(at)->next;
		if (at == first)
			break;
	}
	return at;
}

/* Moves the newly capped tasks of a fresh queue into the cap's ring in order of arrival. */
policy_fn u32 merge(u32 staying)
{
	u32 order = STATE->cap_order, last = NIL, i;
	struct group __arena *group = &STATE->groups[order];

	bpf_for(i, staying, STATE->capped_count) {
		u32 id = STATE->capped[i & 1023], first = NIL, at = NIL;

		leave_ring(id, ilog2(TASK(id)->weight) & 31);
		if (group->plain || group->capped) {
			first = group->current;
			at = later_arrival(id, first, last);
		}
		join_ring(id, at);
		if (at != NIL && at == first && TASK(at)->arrival > TASK(id)->arrival) {
			TASK(at)->deficit = 0;
			start_ring(order, id);
		}
		last = id;
	}
	return 0;
}

policy_fn u32 readjust(void)
{
	u64 old_feasible = STATE->cap_feasible, old_cpus = STATE->cap_cpus;
	u32 old_order = STATE->cap_order, staying, i;

	if (!find_cap())
		return 0;
	STATE->counts.readjustments++;
	STATE->old_feasible = old_feasible;
	if (!STATE->fresh)
		make_room();
	sum_groups(STATE->cap_cpus, old_cpus);
	staying = uncap(old_order);
	find_exceeding();
	sort_capped(staying, STATE->fresh);
	if (STATE->fresh) {
		merge(staying);
	} else {
		bpf_for(i, staying, STATE->capped_count) {
			u32 id = STATE->capped[i & 1023];

			shift(id, ilog2(TASK(id)->weight) & 31);
		}
	}
	if (old_feasible != CAP_NONE)
		recap(staying, old_order, old_cpus);
	update_all_groups();
	bpf_for(i, 0, ORDERS) {
		s64 more = STATE->received[i];

		STATE->received[i] = 0;
		if (more && STATE->place[i])
			receive(i, more);
	}
	return 0;
}

/* --- arrival and departure ----------------------------------------------------------------- */

/* A task of this weight is queued now. */
static __always_inline void count_weight(u32 weight)
{
	u32 class = ilog2(weight) & 31;

	STATE->class_count[class]++;
	STATE->class_weight[class] += weight;
	STATE->class_present |= 1u << class;
	STATE->count++;
	STATE->load += weight;
}

/* A task of this weight is queued no longer. */
static __always_inline void uncount_weight(u32 weight)
{
	u32 class = ilog2(weight) & 31;

	STATE->class_count[class]--;
	STATE->class_weight[class] -= weight;
	if (!STATE->class_count[class])
		STATE->class_present &= ~(1u << class);
	STATE->count--;
	STATE->load -= weight;
}

/* A task is queued from now on. */
static __always_inline void count_arrival(u32 id)
{
	struct policy_task __arena *task = TASK(id);

	count_weight(task->weight);
	task->arrival = STATE->arrivals++;
	task->capped = above_cap(task->weight);
	task->late = task->moved = false;
}

/* A task is a part of its group, and stands before the task `at`, or before the current one. */
static __always_inline void enter(u32 id, u32 at)
{
	if (enter_ring(id, at))
		insert_group(group_of(TASK(id)));
	else
		update_group(group_of(TASK(id)));
}

/* A task is in the queue. */
static __always_inline void finish_arrival(u32 id)
{
	if (TASK(id)->capped) {
		STATE->capped[STATE->capped_count & 1023] = id;
		STATE->capped_count++;
	}
	if (STATE->cpus > 1 && !STATE->fresh) {
		if (STATE->count > STATE->cpus)
			readjust();
	}
}

/* A task enters its group as far behind as it was. */
static __always_inline void enter_behind(u32 id)
{
	u32 order = group_of(TASK(id)) & 31;
	struct ring_place place;
	u64 now, own;

	now = time_at(STATE->was_work, STATE->was_part, STATE->was_weight, weight_of_quantum(order));
	if (STATE->place[order]) {
		own = time_of(order);
	} else {
		sum_groups(1, 1);
		own = time_at(STATE->total_work, STATE->total_part, STATE->total_weight,
			      weight_of_quantum(order));
	}
	place = place_behind(id, STATE->lag_of_all, now, own);
	enter(id, place.at);
	receive(order, place.received);
	take_place(id, &place);
}

/* A task that arrives enters its group at once, neither behind nor ahead. */
static __always_inline void enter_level(u32 id)
{
	make_room();
	sum_groups(1, 1);
	STATE->was_work = STATE->served_work;
	STATE->was_part = STATE->total_part;
	STATE->was_weight = STATE->total_weight;
	STATE->lag_of_all = 0;
	STATE->keeps_parts = true;
	enter_behind(id);
	STATE->keeps_parts = false;
}

/* A task is queued. Its group counts it from its turn on. */
static __always_inline void arrive(u32 id)
{
	struct policy_task __arena *task = TASK(id);
	u32 class = ilog2(task->weight) & 31;

	count_arrival(id);
	if (STATE->cap_feasible != CAP_NONE && !STATE->fresh) {
		enter_level(id);
	} else if (STATE->fresh || !STATE->place[class]) {
		enter(id, NIL);
	} else {
		task->queued = true;
		task->pending = true;
		task->deficit = 0;
		link_before(id, STATE->groups[class].current);
	}
	finish_arrival(id);
}

policy_fn u32 uncount_capped(u32 id)
{
	u32 kept = unknown_zero(id), i;

	bpf_for(i, 0, STATE->capped_count) {
		u32 other = STATE->capped[i & 1023];

		if (other != id) {
			STATE->capped[kept & 1023] = other;
			kept++;
		}
	}
	STATE->capped_count = kept;
	return 0;
}

/*
 * If a task, which is about to leave, is current in its ring, the next one is from now on, and has its turn
 * unless it has moved and is ahead.
 */
static __always_inline void pass_turn(u32 id, u32 order)
{
	struct group __arena *group = &STATE->groups[order & 63];
	u32 next = TASK(id)->next;

	if (group->current == id && next != id) {
		make_current(group, next);
		if (TASK(next)->moved) {
			if (is_far_ahead(next))
				return;
			TASK(next)->since += ROUND;
			TASK(next)->ran_twice = false;
		}
		TASK(next)->deficit += allotment(TASK(next));
	}
}

/*
 * A task that is about to leave is no longer counted for the round that it has just been charged
 * for, if its turn was the last one or it still runs: the round in which it waited for its first turn was
 * not counted. If that was, it has paid for its turns.
 */
policy_fn u32 refund(u32 id)
{
	struct policy_task __arena *task = TASK(id);
	u32 order = group_of(task), place = STATE->place[order & 63];
	struct group __arena *group = &STATE->groups[order & 63];

	if (task->pending || !task->late || STATE->fresh || (group->current != id && !task->held))
		return 0;
	if (group->work > 1) {
		group->work--;
		relead(place - 1, place);
	}
	return 0;
}

/* True if a task that is about to leave, or has just left, does so only for another weight. */
static __always_inline bool comes_back(struct policy_task __arena *task)
{
	return STATE->reweighs && !task->blocked;
}

/* The task is queued no longer. If a cpu holds it, it still does. */
policy_fn u32 leave(u32 id)
{
	struct policy_task __arena *task = TASK(id);
	u32 order = group_of(task);
	bool counted = !task->pending, has_lag = task->moved && !comes_back(task), left;
	s64 lag = has_lag ? lag_at(id, time_of(order)) : 0;

	if (!comes_back(task))
		keep_granted(id, 0);
	uncount_weight(task->weight);
	if (task->capped)
		uncount_capped(id);
	if (!STATE->reweighs || STATE->fresh)
		pass_turn(id, order);
	left = leave_ring(id, order);
	STATE->keeps_parts |= has_lag;
	if (counted && left)
		update_group(order);
	else if (counted)
		delete_group(order);
	if (has_lag && left)
		receive(order, lag);
	STATE->keeps_parts = STATE->reweighs;
	if (!STATE->count) {
		set_cap(CAP_NONE, 1);
		STATE->arrivals = 0;
	} else if (STATE->cpus > 1 && !STATE->fresh && !comes_back(task) &&
		   STATE->count > STATE->cpus) {
		readjust();
	}
	return 0;
}

/* The turn of a pending task has come. */
policy_fn u32 join_group(u32 id)
{
	u32 order = group_of(TASK(id));

	count_in(&STATE->groups[order & 63], id);
	update_group(order);
	return 0;
}

/* The turn of a task has come that is blocked or pending. */
static __always_inline void make_ready(u32 id)
{
	struct policy_task __arena *task = TASK(id);

	if (task->pending) {
		join_group(id);
	} else {
		task->blocked = false;
		leave(id);
		/* The cap of a queue that nothing was chosen from counted the task. */
		if (STATE->fresh && STATE->cpus > 1)
			readjust();
	}
}

/* --- picking ------------------------------------------------------------------------------- */

/*
 * The turn of a task has come that has moved. False if it is far ahead of its group and lets it pass; if all
 * are, the first takes it.
 */
static __always_inline bool take_turn(u32 id)
{
	if (id != STATE->passed && is_far_ahead(id)) {
		if (STATE->passed == NIL)
			STATE->passed = id;
		return false;
	}
	TASK(id)->since += ROUND;
	TASK(id)->ran_twice = false;
	return true;
}

/*
 * The turn of a task has come because others that have moved let theirs pass. Its turns are counted from
 * this one on: it would else have all that they pass, for as long as they do.
 */
static __always_inline void take_passed_turn(u32 id, u32 order)
{
	count_turns(TASK(id), time_of(order));
	TASK(id)->since += ROUND;
}

/*
 * True if a task that has moved, and is current, has another turn at once: it has waited for a round. Only
 * one: those who come are counted from their first turns on, so that while they wait for these the time of
 * their group stands still for who is alone in it, as far behind after each turn as before.
 */
static __always_inline bool take_another_turn(u32 id)
{
	struct policy_task __arena *task = TASK(id);

	if (!task->moved || task->blocked || task->ran_twice || waited(id) < ROUND)
		return false;
	task->ran_twice = true;
	TASK(id)->since += ROUND;
	TASK(id)->deficit += allotment(TASK(id));
	return true;
}

/* One decision of the uniprocessor algorithm. A runnable task is queued. */
static __always_inline u32 choose(void)
{
	u32 i;

	STATE->passed = NIL;
	bpf_for(i, 0, POLICY_TASKS) {
		struct policy_task __arena *task;
		struct group __arena *group;
		u32 order, id;
		bool stays;

		if (STATE->changed) {
			STATE->changed = false;
			if (STATE->uneven)
				go_to_furthest_behind();
			else
				STATE->at = after_last_violated();
		}
		order = STATE->list[STATE->at & 63] & 31;
		group = &STATE->groups[order];
		id = group->current;
		task = TASK(id);
		stays = task->deficit >= one_quantum(task, order);
		if (!stays && take_another_turn(id))
			stays = true;
		if (!stays) {
			id = task->next;
			task = TASK(id);
		}
		if (task->blocked || task->pending) {
			make_ready(id);
			STATE->passed = NIL;
			continue;
		}
		if (!stays && task->moved && !take_turn(id)) {
			group->current = id;
			continue;
		}
		if (!stays && !task->moved && STATE->passed != NIL)
			take_passed_turn(id, order);
		if (!stays)
			task->deficit += allotment(task);
		task->deficit -= one_quantum(task, order);
		policy_assert(task->deficit < 2 * one_quantum(task, order));
		group->current = id;
		advance();
		STATE->counts.choices++;
		return id;
	}
	return NIL;
}

static __always_inline u32 hold(u32 cpu, u32 id)
{
	struct policy_task __arena *task = TASK(id);

	task->held = true;
	task->holder = cpu;
	STATE->cpu[cpu & (POLICY_CPUS - 1)].task = id;
	STATE->held++;
	return id;
}

/* The task that a cpu held, which it holds no longer. */
static __always_inline u32 release_cpu(u32 cpu)
{
	u32 id = STATE->cpu[cpu & (POLICY_CPUS - 1)].task;

	if (id == NIL)
		return NIL;
	STATE->cpu[cpu & (POLICY_CPUS - 1)].task = NIL;
	TASK(id)->held = false;
	STATE->held--;
	return id;
}

/* The first task of the queue that no cpu holds; it may be blocked or pending. */
policy_fn u32 first_free(void)
{
	u32 place, i;

	bpf_for(place, 1, STATE->len + 1) {
		u32 first = group_at(place)->current, id = first;

		bpf_for(i, 0, POLICY_TASKS) {
			if (!TASK(id)->held)
				return id;
			id = TASK(id)->next;
			if (id == first)
				break;
		}
	}
	return NIL;
}

/*
 * A runnable task that no cpu holds, if nobody competes with it: none is chosen, for it might be
 * the lightest by far. Those on the way that are not ready join or leave.
 */
static __always_inline u32 any_free(void)
{
	u32 i;

	bpf_for(i, 0, POLICY_TASKS) {
		u32 id = first_free();

		if (id == NIL || (!TASK(id)->blocked && !TASK(id)->pending))
			return id;
		make_ready(id);
	}
	return NIL;
}

policy_fn u32 policy_pick(u32 cpu)
{
	u32 previous, id, i;

	if (STATE->cpus == 1)
		return STATE->runnable ? choose() : NIL;
	previous = release_cpu(cpu);
	id = serve(cpu);
	if (id != NIL)
		return hold(cpu, id);
	if (STATE->runnable == STATE->held)
		return NIL;
	if (STATE->fresh)
		readjust();
	if (STATE->runnable <= STATE->cpus) {
		STATE->fresh = false;
		if (previous != NIL)
			return hold(cpu, previous);
	} else {
		bpf_for(i, 0, MOST_CHOICES * STATE->cpus) {
			struct policy_task __arena *task;

			id = choose();
			if (id == NIL)
				return NIL;
			task = TASK(id);
			if (!task->held)
				return hold(cpu, id);
			grant(id, task->holder, 1);
		}
	}
	return hold(cpu, any_free());
}

/* --- the rest of the contract -------------------------------------------------------------- */

policy_fn u32 policy_init(u32 cpus)
{
	u32 i;

	STATE->cpus = cpus;
	STATE->fresh = true;
	STATE->unit = STATE->old_unit = 1;
	STATE->at = 1;
	set_cap(CAP_NONE, 1);
	STATE->list[0] = STATE->list[1] = OUTSIDE;
	bpf_for(i, 0, POLICY_CPUS) {
		STATE->cpu[i].task = NIL;
		STATE->cpu[i].log_head = NIL;
	}
	return 0;
}

policy_fn u32 policy_add(u32 id, u32 weight)
{
	struct policy_task __arena *task = TASK(id);

	task->weight = weight;
	task->holder = NIL;
	task->frontlog = 0;
	task->queued = task->blocked = task->pending = task->held = task->capped = false;
	task->late = task->moved = false;
	return 0;
}

policy_fn u32 policy_remove(u32 id)
{
	struct policy_task __arena *task = TASK(id);

	if (!task->queued)
		return 0;
	refund(id);
	if (task->held)
		release_cpu(task->holder);
	if (!task->blocked)
		STATE->runnable--;
	task->blocked = false;
	leave(id);
	return 0;
}

/* True if the task, which is queued, stays in its group with another weight. */
static __always_inline bool stays_in_group(struct policy_task __arena *task, u32 weight)
{
	if (task->capped)
		return above_cap(weight);
	return !above_cap(weight) && ilog2(task->weight) == ilog2(weight);
}

/*
 * The weight of a task is about to change within its group: it is as far behind all as before. What else the
 * group has received for that.
 */
policy_fn s64 keep_lag(u32 id, u32 weight)
{
	struct policy_task __arena *task = TASK(id);
	u32 order = group_of(task);
	u64 now, own;
	s64 behind, lag, dropped;

	make_room();
	sum_groups(1, 1);
	now = time_of_all(order);
	own = time_of(order);
	if (!task->moved)
		count_turns(task, own);
	behind = now - task->since;
	lag = times(behind, task->weight, 1ULL << order);
	dropped = drop_granted(id, lag) - lag;
	task->since = now - times(behind, task->weight, weight) - times(dropped, 1ULL << order, weight);
	behind = now - own;
	return times(behind, weight, 1ULL << order) - times(behind, task->weight, 1ULL << order) - dropped;
}

/* The weight of a task that is queued changes within its group. */
policy_fn u32 reweigh_in_place(u32 id, u32 weight)
{
	struct policy_task __arena *task = TASK(id);
	u32 order = group_of(task), old = task->weight;
	bool counted = !task->capped && !task->pending, keeps_lag = counted && !STATE->fresh;
	s64 more = keeps_lag ? keep_lag(id, weight) : 0;

	uncount_weight(old);
	task->weight = weight;
	count_weight(weight);
	if (counted) {
		STATE->groups[order & 63].plain += (u64)weight - old;
		update_group(order);
	}
	if (keeps_lag)
		receive(order, more);
	if (STATE->cpus > 1 && !STATE->fresh && STATE->count > STATE->cpus)
		readjust();
	return 0;
}

/* What a task, which is about to move, is short of. */
policy_fn u32 measure_lag(u32 id)
{
	struct policy_task __arena *task = TASK(id);
	u32 order = group_of(task);
	s64 lag, most = MOST_LAG << 16;

	make_room();
	sum_groups(1, 1);
	STATE->was_work = STATE->served_work;
	STATE->was_part = STATE->total_part;
	STATE->was_weight = STATE->total_weight;
	STATE->lag_of_all = STATE->lag_of_group = 0;
	if (task->pending)
		return 0;
	lag = drop_granted(id, lag_at(id, time_of_all(order)));
	lag = lag > most ? most : lag;
	STATE->lag_of_all = lag < -most ? -most : lag;
	STATE->lag_of_group = lag_at(id, time_of(order));
	return 0;
}

/* The same where a weight changes: once in the program. */
policy_fn u32 come_back(u32 id)
{
	enter_behind(id);
	return 0;
}

/* A task enters its group as the last of the round. */
policy_fn u32 enter_last(u32 id)
{
	enter(id, NIL);
	return 0;
}

/* A task that was blocked, or is queued no longer, waits. */
policy_fn u32 policy_wake(u32 id)
{
	struct policy_task __arena *task = TASK(id);

	if (task->queued)
		task->blocked = false;
	else
		arrive(id);
	STATE->runnable++;
	return 0;
}

/* A task gets a weight for which it stands in another group. */
static __always_inline void move(u32 id, u32 weight)
{
	struct policy_task __arena *task = TASK(id);
	u32 order = group_of(task);
	bool keeps_lag = !STATE->fresh;

	if (keeps_lag)
		measure_lag(id);
	refund(id);
	leave(id);
	task->weight = weight;
	if (task->blocked) {
		task->blocked = false;
		return;
	}
	if (keeps_lag && STATE->place[order & 31])
		receive(order, STATE->lag_of_group);
	count_arrival(id);
	if (keeps_lag && !STATE->fresh)
		come_back(id);
	else
		enter_last(id);
	finish_arrival(id);
}

policy_fn u32 policy_set_weight(u32 id, u32 weight)
{
	struct policy_task __arena *task = TASK(id);

	if (weight == task->weight)
		return 0;
	if (!task->queued) {
		task->weight = weight;
		return 0;
	}
	STATE->reweighs = STATE->keeps_parts = true;
	if (stays_in_group(task, weight))
		reweigh_in_place(id, weight);
	else
		move(id, weight);
	STATE->reweighs = STATE->keeps_parts = false;
	return 0;
}

/*
 * Lazy: the task stays queued until its turn, with at most one quantum of credit; if it is pending,
 * it leaves at once.
 */
policy_fn u32 policy_block(u32 id)
{
	struct policy_task __arena *task = TASK(id);
	u64 one = one_quantum(task, group_of(task));

	if (task->held)
		release_cpu(task->holder);
	STATE->runnable--;
	if (task->pending) {
		leave(id);
		return 0;
	}
	task->blocked = true;
	if (task->deficit > one) {
		u64 lost = task->deficit - one;

		task->deficit = one;
		if (task->moved)
			receive(group_of(task), proportion(lost, 1 << 16, one));
	}
	return 0;
}

/* A quantum that was granted is used up: the group was charged when the task was chosen. */
policy_fn u32 policy_charge(u32 id, u64 used_ns)
{
	(void)id;
	(void)used_ns;
	return 0;
}

#endif

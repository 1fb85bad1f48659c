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
#define POLICY_KEEPS_CPUS 1

#include "../wide.h"
#include "../shares_state.h"

/* Queues: one a cpu and group, and as many that are stalled. */
#define QUEUES (2 * POLICY_CPUS + 2 * GROUPS)

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
	/* The cpu that picked it last. */
	u16 cpu;
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
	GROUP_ACCOUNT
};

struct gdq_cpu {
	/* The queue that it works on, or NIL. */
	u32 queue;
	bool dedicated;
	/* Since when it has been with the group, or when it looked around last. */
	u64 since_ns;
	/* What the tasks that it picked since then were charged with. */
	u64 charged_ns;
	u64 look_ns;
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
	SHARES_ACCOUNTS
	/* What a cpu counts for, as the queues know it. */
	u64 cap_parts, cap_of;
	SHARES_CLASSES
	struct group groups[GROUPS];
	struct gdq_cpu cpu[POLICY_CPUS];
	struct queue queues[QUEUES];
};

POLICY_MEMORY

#define QUEUE(id) (&STATE->queues[id])

#include "../shares.h"

/* The group has a task for one more cpu. */
static __always_inline bool may_serve(u32 k)
{
	return GROUP(k)->tasks > GROUP(k)->cpus;
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

/* The lightest queue of a group, or the one furthest behind; NIL if it has none. */
static __always_inline u32 extreme_queue(u32 k, u32 wanted)
{
	return GROUP(k)->queues > 1 ? find_queue(k, wanted) : GROUP(k)->first;
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
	u32 donor = NIL, task;

	if (GROUP(queue->group)->queues > 1)
		donor = find_queue(queue->group, DONOR);
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
	u32 k = group_of(id), lightest = extreme_queue(k, LIGHTEST), queue = lightest;
	struct group __arena *group = GROUP(k);

	if (lightest == NIL ||
	    (group->queues < group->floor + (group->rest > 0) && may_stall())) {
		u32 furthest = extreme_queue(k, FURTHEST);

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

	if (STATE->changed_count)
		account_changed();
	if (STATE->is_fresh)
		return 0;
	STATE->cap_parts = cpu_parts();
	STATE->cap_of = cpu_divisor();
	settle();
	if (!STATE->changed_count)
		return 0;
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

/*
 * What its group competed for with a cpu: what its tasks were charged with, but for what it is entitled to
 * of a dedicated one.
 */
static __always_inline s64 charged_beyond(const struct gdq_cpu __arena *cpu)
{
	return cpu->charged_ns - (cpu->dedicated ? now_ns() - cpu->since_ns : 0);
}

static __always_inline void charge_from_now(struct gdq_cpu __arena *cpu)
{
	cpu->since_ns = now_ns();
	cpu->charged_ns = 0;
}

/* MFQ: a cpu whose time has come finds out whether another group needs it more. */
policy_fn u32 look_around(u32 index)
{
	struct gdq_cpu __arena *cpu = &STATE->cpu[index & (POLICY_CPUS - 1)];
	u32 old = cpu->queue, k, goal, queue;
	struct group __arena *group;
	s64 beyond_ns;

	if (old == NIL)
		return 0;
	if (now_ns() >= cpu->look_ns)
		cpu->look_ns += ((now_ns() - cpu->look_ns) / STATE->interval_ns + 1) *
				STATE->interval_ns;
	else if (!STATE->is_wanted || cpu->dedicated)
		return 0;
	STATE->is_wanted = false;
	beyond_ns = charged_beyond(cpu);
	charge_from_now(cpu);
	k = QUEUE(old)->group;
	group = GROUP(k);
	cpu->dedicated = pass(k, cpu->dedicated, beyond_ns);
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
		charge_group(k, charged_beyond(cpu));
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
	charge_from_now(cpu);
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
		cpu->since_ns = cpu->charged_ns = 0;
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
	TASK(id)->cpu = cpu;
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
	STATE->cap_feasible = CAP_NONE;
	STATE->cap_cpus = 1;
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
	STATE->cpu[task->cpu & (POLICY_CPUS - 1)].charged_ns += used_ns;
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

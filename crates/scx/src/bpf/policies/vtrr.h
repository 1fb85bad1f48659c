/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * VTRR, virtual-time round robin (Nieh, Vaill, Zhong, USENIX 2001).
 *
 * The rules and their reasons are in crates/core/src/policies/vtrr.rs, whose decisions this file
 * takes one by one on one cpu. In short: tasks stand in a queue by decreasing share, each with the
 * quanta that are still due to it in this cycle, its counter, and a virtual time. Round robin, but
 * back to the first task when the next one has had enough: when its counter is not above that of
 * the task that just ran, and its virtual time is not behind.
 *
 * Worked example: shares 3, 2, 1 run 1 2 3 1 2 1; then all counters are 0 and become the shares.
 *
 * Several cpus
 * ============
 *
 * The paper has one cpu. What must not be lost is the count: in each cycle of Φ decisions every
 * task is chosen as often as its share says. So there is one central queue and one sequence of
 * decisions, each charged as it is made, and the cpus execute it as GR3MP's do: a decision for a
 * task that another cpu runs is kept as a quantum that the task runs there later, without asking
 * (a frontlog), and the next decision is taken. Weights are made feasible first, or frontlogs would
 * grow for ever (feasible.h); the cap is rounded down to a whole number, since counters count it.
 * The paper's bound holds for the count of decisions: error 0 after every Φ quanta; the frontlogs
 * that are still to be run come on top.
 *
 * Known limits: a wake-up looks for its place in the queue, O(N): the paper's list. VTRR chooses a
 * heavy task many times in a row when light ones are not due, so that a pick may take some P * N
 * decisions, though one a quantum in the mean. With several cpus a task that blocks within its
 * quantum is charged all of it, and loses its frontlog. A cap below 100 is rounded by more than 1 %.
 * A user can have all that is left of a cycle be due to tasks that run elsewhere: after so many decisions
 * (CHOICES) the heaviest task that no cpu has runs for a quantum that is not counted.
 */
#ifndef PRORATA_VTRR_H
#define PRORATA_VTRR_H

#define POLICY_NAME "vtrr"
#define POLICY_CREDIT_QUANTA 3
#define POLICY_PAYS_WHOLE 1
#define POLICY_KEEPS_CPUS 0

#include "../ranked.h"
#include "../vtime.h"

/* For each quantum that tasks may have to come, a pick makes so many choices for each cpu at most. */
#define CHOICES 2
/* And so many in all: a loop may have 2^23 turns. */
#define CHOICES_MAX (1 << 20)
/* The most quanta that a task may have to come, if no more tasks are runnable: crates/core/src/central.rs. */
#define FRONTLOG 32

struct policy_task {
	/* Its weight as it was given, among all runnable tasks. */
	struct rank rank;
	/* Virtual time, in parts of the share. */
	struct vtag tag;
	/* The cycle that the counter belongs to; in later ones it stands for the share. */
	u64 cycle;
	/* Quanta due to it before the cycle ends. */
	u32 counter;
	/* What the weight counts for. */
	u32 share;
	/* Neighbours in the queue. */
	u32 next, prev;
	/* Quanta that it was granted on the cpu that holds it. */
	u32 frontlog;
	/* The cpu that holds it: from the pick that returned it until that cpu's next pick. */
	u32 holder;
	bool queued, held;
};

struct policy_state {
	struct policy_counts counts;
	struct feasible set;
	struct vclock clock;
	u64 cycle;
	/* The sum of all counters; at 0, the next decision starts a cycle. */
	u64 left_in_cycle;
	u32 first;
	/* Where the walk stands: a task, its share then, its counter without that quantum. */
	u32 current, current_share, current_counter;
	u32 held;
	/* The task that each cpu holds (several cpus only). */
	u32 holds[POLICY_CPUS];
};

POLICY_MEMORY

#include "../feasible.h"

/* --- one cpu: the paper's algorithm -------------------------------------------------------- */

static __always_inline u32 counter_of(u32 id)
{
	struct policy_task __arena *task = TASK(id);

	return task->cycle == STATE->cycle ? task->counter : task->share;
}

/* True if a task of this share and number stands before another. */
static __always_inline bool stands_before(u32 share, u32 id, u32 other_share, u32 other)
{
	return share > other_share || (share == other_share && id < other);
}

/* The last task that stands before one of this share and number; NIL if none does. */
static __always_inline u32 last_before(u32 share, u32 id)
{
	u32 at = STATE->first, last = NIL ^ unknown_zero(at), i;

	bpf_for(i, 0, POLICY_TASKS) {
		if (at == NIL || !stands_before(TASK(at)->share, at, share, id))
			break;
		last = at;
		at = TASK(at)->next;
	}
	return last;
}

/* The task behind another; the first behind none. */
static __always_inline u32 task_behind(u32 id)
{
	return id == NIL ? STATE->first : TASK(id)->next;
}

static __always_inline void link_task(u32 id)
{
	struct policy_task __arena *task = TASK(id);
	u32 prev = last_before(task->share, id), next = task_behind(prev);

	task->next = next;
	task->prev = prev;
	if (prev == NIL)
		STATE->first = id;
	else
		TASK(prev)->next = id;
	if (next != NIL)
		TASK(next)->prev = id;
}

static __always_inline void unlink_task(u32 id)
{
	struct policy_task __arena *task = TASK(id);

	if (task->prev == NIL)
		STATE->first = task->next;
	else
		TASK(task->prev)->next = task->next;
	if (task->next != NIL)
		TASK(task->next)->prev = task->prev;
}

/*
 * The counter of a task that was linked, between those of its neighbours. They may be out of order
 * by one where the walk stands; then the task joins the side that it is on.
 */
static __always_inline u32 between_neighbours(u32 id, u32 counter)
{
	struct policy_task __arena *task = TASK(id);
	u32 most = task->prev == NIL ? ~0u : counter_of(task->prev);
	u32 least = task->next == NIL ? 0 : counter_of(task->next);

	if (most < least) {
		if (STATE->current == NIL)
			return most;
		return stands_before(STATE->current_share, STATE->current, task->share, id) ? least
											    : most;
	}
	if (counter > most)
		return most;
	return counter < least ? least : counter;
}

/* Puts a task in, with the counter that equation 9 of the paper gives it; no more than `most`. */
policy_fn u32 enqueue(u32 id, u32 most)
{
	struct policy_task __arena *task = TASK(id);
	u64 counter = task->share;

	if (STATE->first == NIL) {
		STATE->cycle++;
	} else {
		counter = counter * STATE->left_in_cycle / STATE->clock.total;
		if (counter > most)
			counter = most;
	}
	link_task(id);
	task->counter = between_neighbours(id, counter);
	task->cycle = STATE->cycle;
	task->queued = true;
	STATE->left_in_cycle += task->counter;
	set_total(&STATE->clock, STATE->clock.total + task->share);
	return 0;
}

policy_fn u32 dequeue(u32 id)
{
	struct policy_task __arena *task = TASK(id);

	if (!task->queued)
		return 0;
	unlink_task(id);
	task->counter = counter_of(id);
	task->cycle = STATE->cycle;
	task->queued = false;
	STATE->left_in_cycle -= task->counter;
	set_total(&STATE->clock, STATE->clock.total - task->share);
	return 0;
}

policy_fn u32 set_share(u32 id, u32 share)
{
	struct policy_task __arena *task = TASK(id);
	bool was_queued = task->queued;

	dequeue(id);
	reweigh_tag(&STATE->clock, &task->tag, task->share, share);
	task->share = share;
	if (was_queued)
		enqueue(id, share);
	else
		/* What was left of another share says nothing: with a share of 1, it may be nothing. */
		task->cycle = 0;
	return 0;
}

static __always_inline void join_queue(u32 id)
{
	struct policy_task __arena *task = TASK(id);
	struct vtag now = clock_tag(&STATE->clock, task->share);

	if (task->tag.whole < now.whole ||
	    (task->tag.whole == now.whole && task->tag.part < now.part)) {
		task->tag.whole = now.whole;
		task->tag.part = now.part;
	}
	enqueue(id, counter_of(id));
}

/* The task to look at next; NIL past the end of the queue, and at the start of a cycle. */
static __always_inline u32 next_task(void)
{
	u32 id = STATE->current;

	if (id == NIL)
		return NIL;
	if (!TASK(id)->queued || TASK(id)->share != STATE->current_share)
		id = last_before(STATE->current_share, id);
	return task_behind(id);
}

/* The two rules by which the next task runs rather than the first. */
static __always_inline bool is_due(u32 id)
{
	struct policy_task __arena *task = TASK(id);
	u32 counter = counter_of(id);

	if (counter > STATE->current_counter)
		return true;
	return counter && passes_tag(&STATE->clock, &task->tag, task->share);
}

/* The task that runs next, which takes one off its counter; NIL if there is none. */
policy_fn u32 choose(void)
{
	struct policy_task __arena *task;
	u32 id, due;

	if (!STATE->left_in_cycle) {
		/* All counters are 0: they become the shares. */
		STATE->cycle++;
		STATE->left_in_cycle = STATE->clock.total;
		STATE->current = NIL;
	}
	id = next_task();
	if (id == NIL || !is_due(id))
		id = STATE->first;
	if (id == NIL)
		return NIL;
	task = TASK(id);
	due = counter_of(id);
	policy_assert(due);
	task->counter = due - 1;
	task->cycle = STATE->cycle;
	STATE->left_in_cycle--;
	STATE->current = id;
	STATE->current_share = task->share;
	STATE->current_counter = task->counter;
	STATE->counts.choices++;
	return id;
}

policy_fn u32 account(u32 id, u64 used_ns)
{
	struct vclock __arena *clock = &STATE->clock;

	if (used_ns == quantum_ns())
		advance_clock(clock, clock->quantum_whole, clock->quantum_part);
	else
		advance_clock(clock, used_ns / clock->total, used_ns % clock->total);
	move_tag(&TASK(id)->tag, TASK(id)->share, used_ns);
	return 0;
}

/* --- several cpus -------------------------------------------------------------------------- */

static __always_inline u32 feasible_share(u32 id)
{
	u64 cap = SET->cap_feasible / SET->cap_cpus;
	u32 weight = RANK(id)->weight;

	if (!exceeds(weight, SET->cap_feasible, SET->cap_cpus))
		return weight;
	return cap ? cap : 1;
}

/* The set has changed: gives every queued task the share that it counts for now. */
policy_fn u32 readjust(void)
{
	u64 old_feasible = SET->cap_feasible, old_cpus = SET->cap_cpus;
	u32 id, i;

	if (SET->cpus == 1 || !find_cap())
		return 0;
	STATE->counts.readjustments++;
	id = SET->heaviest;
	bpf_for(i, 0, POLICY_TASKS) {
		u32 weight;

		if (id == NIL)
			break;
		weight = RANK(id)->weight;
		if (!exceeds(weight, SET->cap_feasible, SET->cap_cpus) &&
		    !exceeds(weight, old_feasible, old_cpus))
			break;
		if (TASK(id)->queued && TASK(id)->share != feasible_share(id))
			set_share(id, feasible_share(id));
		id = RANK(id)->lighter;
	}
	return 0;
}

static __always_inline u32 hold(u32 cpu, u32 id)
{
	struct policy_task __arena *task = TASK(id);

	task->held = true;
	task->holder = cpu;
	STATE->holds[cpu & (POLICY_CPUS - 1)] = id;
	STATE->held++;
	return id;
}

/* The task that a cpu held, which it holds no longer; NIL if it held none. */
static __always_inline u32 release_cpu(u32 cpu)
{
	u32 id = STATE->holds[cpu & (POLICY_CPUS - 1)];

	if (id == NIL)
		return NIL;
	STATE->holds[cpu & (POLICY_CPUS - 1)] = NIL;
	TASK(id)->held = false;
	STATE->held--;
	return id;
}

/* The heaviest runnable task that no cpu holds; there is one. */
policy_fn u32 heaviest_free(void)
{
	u32 id = SET->heaviest, i;

	bpf_for(i, 0, POLICY_CPUS) {
		if (!TASK(id)->held)
			break;
		id = RANK(id)->lighter;
	}
	return id;
}

policy_fn u32 pick_among_cpus(u32 cpu)
{
	bool crowded = SET->count > SET->cpus;
	u32 most = SET->count > FRONTLOG ? SET->count : FRONTLOG;
	u32 choices = CHOICES * SET->cpus * most;
	u32 id = release_cpu(cpu), i;

	if (id != NIL && TASK(id)->frontlog) {
		TASK(id)->frontlog--;
		return hold(cpu, id);
	}
	if (id != NIL && !crowded)
		return hold(cpu, id);
	if (SET->count == STATE->held)
		return NIL;
	bpf_for(i, 0, choices < CHOICES_MAX ? choices : CHOICES_MAX) {
		id = choose();
		account(id, quantum_ns());
		if (!TASK(id)->held)
			return hold(cpu, id);
		if (crowded && TASK(id)->frontlog < most) {
			TASK(id)->frontlog++;
			STATE->counts.frontlogs++;
		}
	}
	return hold(cpu, heaviest_free());
}

/* --- the contract -------------------------------------------------------------------------- */

policy_fn u32 policy_pick(u32 cpu)
{
	return SET->cpus == 1 ? choose() : pick_among_cpus(cpu);
}

policy_fn u32 policy_init(u32 cpus)
{
	u32 i;

	feasible_init(cpus);
	/* On one cpu every weight is feasible. */
	if (cpus == 1)
		SET->cap_feasible = CAP_NONE;
	STATE->cycle = 1;
	STATE->first = STATE->current = NIL;
	bpf_for(i, 0, POLICY_CPUS)
		STATE->holds[i] = NIL;
	return 0;
}

policy_fn u32 policy_add(u32 id, u32 weight)
{
	struct policy_task __arena *task = TASK(id);

	RANK(id)->weight = task->share = weight;
	task->tag.whole = task->tag.part = 0;
	task->cycle = 0;
	task->counter = 0;
	task->frontlog = 0;
	task->queued = task->held = false;
	return 0;
}

policy_fn u32 policy_wake(u32 id)
{
	list_insert(id);
	readjust();
	if (TASK(id)->share != feasible_share(id))
		set_share(id, feasible_share(id));
	join_queue(id);
	return 0;
}

policy_fn u32 policy_block(u32 id)
{
	struct policy_task __arena *task = TASK(id);

	if (task->held)
		release_cpu(task->holder);
	task->frontlog = 0;
	dequeue(id);
	list_remove(id);
	readjust();
	return 0;
}

policy_fn u32 policy_remove(u32 id)
{
	if (TASK(id)->queued)
		policy_block(id);
	return 0;
}

policy_fn u32 policy_set_weight(u32 id, u32 weight)
{
	bool queued = TASK(id)->queued;

	if (queued)
		list_remove(id);
	RANK(id)->weight = weight;
	if (!queued) {
		/* What it counts for is settled when it wakes. */
		if (SET->cpus == 1)
			set_share(id, weight);
		return 0;
	}
	list_insert(id);
	readjust();
	if (SET->cpus == 1 || TASK(id)->share != feasible_share(id))
		set_share(id, feasible_share(id));
	return 0;
}

policy_fn u32 policy_charge(u32 id, u64 used_ns)
{
	/* With several cpus a decision is charged when it is made. */
	if (SET->cpus == 1)
		account(id, used_ns);
	return 0;
}

#endif

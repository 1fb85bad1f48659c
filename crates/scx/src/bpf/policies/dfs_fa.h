/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * DFS-FA, deadline fair scheduling with fair airport (Chandra, Adler, Shenoy, RTAS 2001).
 *
 * The rules and their reasons are in crates/core/src/policies/{dfs,dfs_fa}.rs, whose decisions this
 * file takes one by one. In short: the quanta of a task fall due in windows, one after another, as
 * long as its weight says. A task is eligible when its window is open; the eligible task whose
 * window closes first runs. If none is eligible, the task of least surplus runs, weight * (start
 * tag - least start tag): no cpu idles while a task waits.
 *
 * Three queues, as the paper has them: the runnable tasks by weight (tags.h), the eligible ones by
 * deadline, the others by when their window opens.
 *
 * Worked example: weights 2, 1, 1 on two cpus; the first is due a whole cpu, the others a half
 * each. Windows open at quanta 0, 1, 2 … and 0, 2, 4 …: they run (1,2) (1,3), then repeat.
 *
 * Cost: O(log N) a decision; the last two queues are heaps, where the paper's kernel had lists.
 *
 * Known limit: the least surplus is found by a search, O(N).
 */
#ifndef PRORATA_DFS_FA_H
#define PRORATA_DFS_FA_H

#define POLICY_NAME "dfs_fa"
#define POLICY_CREDIT_QUANTA 2
#define POLICY_PAYS_WHOLE 0
#define POLICY_KEEPS_CPUS 0

#include "../heap.h"
#include "../tagged.h"

enum dfs_queue { ELIGIBLE, INELIGIBLE, DFS_QUEUES };

struct policy_task {
	struct rank rank;
	struct tagged tag;
	/* When its window opens, while it is ineligible. */
	struct instant window;
	/* Slots in which its window and the next one close, while it is eligible. */
	s64 deadline, next_deadline;
	/* Service received in this window, below a quantum. */
	u64 used_ns;
	/* Its place in its queue, plus one; 0 if it is in none. */
	u32 place;
	u8 queue;
	/* The deadline was not rounded up to a slot. */
	u8 exact;
};

struct policy_state {
	struct policy_counts counts;
	struct feasible set;
	struct tags tags;
	/* A virtual time x is slot (x * cpu_parts + slot_offset) / (quantum * cpu_divisor). */
	struct s128 slot_offset;
	struct instant horizon;
	/* The least start tag of the runnable tasks, by which surpluses are compared; never back. */
	struct instant least;
	/* Result of find_least(). */
	struct instant found;
	/* Results of find_slot(): a slot, and whether the time is inside it. */
	s64 slot;
	u64 inside;
	struct heap queue[DFS_QUEUES];
	/* The task that each cpu ran last. */
	u32 ran[POLICY_CPUS];
};

POLICY_MEMORY

#include "../tags.h"

/* --- slots --------------------------------------------------------------------------------- */

/* Leaves the slot in which the time TAGS->start lies in STATE. */
policy_fn u32 find_slot(void)
{
	u64 per_cpu = cpu_parts(), part = TAGS->start.part, slot_length = quantum_ns() * cpu_divisor();
	u64 rest;
	struct s128 place;

	divide(mul_high(part, per_cpu), part * per_cpu, TAGS->start.of);
	rest = TAGS->remainder;
	place = wide_times(wide(TAGS->start.whole), per_cpu);
	place = wide_plus(place, wide(TAGS->quotient.low));
	place = wide_plus(place, wide_load(&STATE->slot_offset));
	divide(place.high, place.low, slot_length);
	STATE->slot = TAGS->quotient.low;
	STATE->inside = rest != 0 || TAGS->remainder != 0;
	return 0;
}

/* The task's deadline: of its window, then of the one after it. */
static __always_inline void set_deadline(u32 id)
{
	struct policy_task __arena *task = TASK(id);
	s64 window_ns = quantum_ns() - task->used_ns;

	start_after(&TAGS->start, id, window_ns);
	find_slot();
	task->deadline = STATE->slot + STATE->inside;
	task->exact = !STATE->inside;
	start_after(&TAGS->start, id, window_ns + quantum_ns());
	find_slot();
	task->next_deadline = STATE->slot + STATE->inside;
}

/* --- queues -------------------------------------------------------------------------------- */

/* True if task a, eligible, runs before task b. */
static __always_inline bool is_due_first(u32 a, u32 b)
{
	struct policy_task __arena *left = TASK(a), *right = TASK(b);

	if (left->deadline != right->deadline)
		return left->deadline < right->deadline;
	if (left->exact != right->exact)
		return left->exact < right->exact;
	if (left->next_deadline != right->next_deadline)
		return left->next_deadline < right->next_deadline;
	return a < b;
}

/* True if the window of task a opens before that of task b. */
static __always_inline bool opens_first(u32 a, u32 b)
{
	if (is_earlier(&TASK(a)->window, &TASK(b)->window))
		return true;
	return a < b && !is_earlier(&TASK(b)->window, &TASK(a)->window);
}

static __always_inline bool goes_first(u32 queue, u32 a, u32 b)
{
	return queue == ELIGIBLE ? is_due_first(a, b) : opens_first(a, b);
}

#define HEAP(verb) queue_##verb
#define HEAPS DFS_QUEUES
#define HEAP_OF(heap) (&STATE->queue[heap])
#define HEAP_PLACE(heap, id) (TASK(id)->place)
#define HEAP_BEFORE(heap, a, b) goes_first(heap, a, b)
#include "../heaps.h"

/* The task leaves its queue, if it is in one. */
policy_fn u32 leave_queue(u32 id)
{
	queue_remove(TASK(id)->queue & 1, id);
	return 0;
}

/* The task's window has opened: it waits for its deadline. */
policy_fn u32 enter_eligible(u32 id)
{
	set_deadline(id);
	TASK(id)->queue = ELIGIBLE;
	queue_insert(ELIGIBLE, id);
	return 0;
}

/* The task waits for its window to open. */
policy_fn u32 enter_ineligible(u32 id)
{
	start_after(&TASK(id)->window, id, -(s64)TASK(id)->used_ns);
	TASK(id)->queue = INELIGIBLE;
	queue_insert(INELIGIBLE, id);
	return 0;
}

/* Tasks whose window opens within a slot become eligible. */
policy_fn u32 admit(void)
{
	u32 i;

	mean_after(&STATE->horizon, quantum_ns() * busy_cpus());
	bpf_for(i, 0, POLICY_TASKS) {
		u32 id = queue_first(INELIGIBLE);

		if (id == NIL || !is_earlier(&TASK(id)->window, &STATE->horizon))
			break;
		leave_queue(id);
		enter_eligible(id);
	}
	return 0;
}

/* --- the auxiliary queue ------------------------------------------------------------------- */

/*
 * True if the surplus of task a, service - weight * least, is below that of task b, or equal and
 * a < b. The whole ns of `least` go first: what they leave undecided is less than the weights.
 */
static __always_inline bool has_less_surplus(u32 a, u32 b)
{
	struct tagged __arena *left = TAG(a), *right = TAG(b);
	u64 of = left->of == right->of ? 1 : left->of * right->of;
	u64 scale = left->of == right->of ? left->of : of;
	s64 slope = of == 1 ? left->parts - right->parts :
			      left->parts * right->of - right->parts * left->of;
	struct s128 service = wide_minus(wide_load(&left->service), wide_load(&right->service));
	struct s128 rest = wide_minus(wide_times(service, scale),
				      wide_product(STATE->least.whole, slope));
	struct s128 fall = wide_product(slope, STATE->least.part);

	if (rest.high == (s64)rest.low >> 63 && magnitude(rest.low) <= magnitude(slope))
		rest = wide_product(rest.low, STATE->least.of);
	else
		fall = wide(0);
	if (wide_less(rest, fall))
		return true;
	return a < b && !wide_less(fall, rest);
}

/* Brings `least` up to date. */
policy_fn u32 find_least(void)
{
	u32 id = SET->heaviest, i;

	bpf_for(i, 0, POLICY_TASKS) {
		if (id == NIL)
			break;
		start_after(&TAGS->start, id, 0);
		if (!i || is_earlier(&TAGS->start, &STATE->found))
			copy_instant(&STATE->found, &TAGS->start);
		id = RANK(id)->lighter;
	}
	if (SET->count && is_earlier(&STATE->least, &STATE->found))
		copy_instant(&STATE->least, &STATE->found);
	return 0;
}

/* The waiting task of least surplus. */
policy_fn u32 least_surplus(void)
{
	u32 id = SET->heaviest, best = NIL ^ unknown_zero(id), i;

	find_least();
	bpf_for(i, 0, POLICY_TASKS) {
		if (id == NIL)
			break;
		if (TAG(id)->state == TAG_WAITING && (best == NIL || has_less_surplus(id, best)))
			best = id;
		id = RANK(id)->lighter;
	}
	return best;
}

/* --- changes of the set -------------------------------------------------------------------- */

/* Where the mean is in units of slots, before the set changes. */
static __always_inline struct s128 place_of_now(void)
{
	return wide_plus(service_at(&TAGS->now, cpu_parts(), 1), wide_load(&STATE->slot_offset));
}

/* The set has changed: slots go on from where they are, moved tasks are queued anew. */
policy_fn u32 settle(u64 old_of, u64 place_high, u64 place_low)
{
	struct s128 place = { .low = place_low, .high = place_high };
	u32 i;

	place = wide_times(place, cpu_divisor());
	divide(place.high, place.low, old_of);
	place = wide_load(&TAGS->quotient);
	place = wide_minus(place, service_at(&TAGS->now, cpu_parts(), 1));
	wide_store(&STATE->slot_offset, place);
	bpf_for(i, 0, TAGS->moved_count) {
		u32 id = TAGS->moved[i & (TAGS_MOVED - 1)];

		if (TAG(id)->state != TAG_WAITING)
			continue;
		leave_queue(id);
		enter_ineligible(id);
	}
	return 0;
}

/* --- the contract -------------------------------------------------------------------------- */

/* The waiting task that the cpu ran last; NIL if there is none. */
static __always_inline u32 own_task(u32 cpu)
{
	u32 id = STATE->ran[cpu & (POLICY_CPUS - 1)];

	return id != NIL && TAG(id)->state == TAG_WAITING ? id : NIL;
}

policy_fn u32 policy_pick(u32 cpu)
{
	u32 id = NIL;

	admit();
	if (SET->count <= SET->cpus)
		id = own_task(cpu);
	if (id == NIL)
		id = queue_first(ELIGIBLE);
	if (id == NIL && SET->count <= SET->cpus)
		id = queue_first(INELIGIBLE);
	if (id == NIL)
		id = least_surplus();
	if (id == NIL)
		return NIL;
	leave_queue(id);
	TAG(id)->state = TAG_RUNNING;
	STATE->ran[cpu & (POLICY_CPUS - 1)] = id;
	STATE->counts.choices++;
	return id;
}

policy_fn u32 policy_init(u32 cpus)
{
	u32 i;

	tags_init(cpus);
	STATE->least.of = 1;
	bpf_for(i, 0, POLICY_CPUS)
		STATE->ran[i] = NIL;
	return 0;
}

policy_fn u32 policy_add(u32 id, u32 weight)
{
	tags_add(id, weight);
	TASK(id)->used_ns = 0;
	return 0;
}

policy_fn u32 policy_wake(u32 id)
{
	u64 old_of = cpu_divisor();
	struct s128 place;

	mean_after(&TAGS->now, 0);
	place = place_of_now();
	if (!tags_wake(id))
		TASK(id)->used_ns = 0;
	settle(old_of, place.high, place.low);
	enter_ineligible(id);
	return 0;
}

policy_fn u32 policy_block(u32 id)
{
	u64 old_of = cpu_divisor();
	struct s128 place;

	leave_queue(id);
	mean_after(&TAGS->now, 0);
	place = place_of_now();
	tags_leave(id);
	settle(old_of, place.high, place.low);
	return 0;
}

policy_fn u32 policy_remove(u32 id)
{
	if (TAG(id)->state == TAG_WAITING)
		policy_block(id);
	return 0;
}

policy_fn u32 policy_set_weight(u32 id, u32 weight)
{
	u64 old_of = cpu_divisor();
	struct s128 place;

	mean_after(&TAGS->now, 0);
	place = place_of_now();
	tags_set_weight(id, weight);
	settle(old_of, place.high, place.low);
	return 0;
}

policy_fn u32 policy_charge(u32 id, u64 used_ns)
{
	struct policy_task __arena *task = TASK(id);

	tags_charge(id, used_ns);
	task->used_ns += used_ns;
	if (task->used_ns >= quantum_ns())
		task->used_ns -= quantum_ns();
	enter_ineligible(id);
	return 0;
}

#endif

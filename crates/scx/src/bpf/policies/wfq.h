/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * WFQ, weighted fair queueing (Demers, Keshav, Shenker 1989): the task of least virtual finishing time
 * runs next. Kernels searched a list for it in the papers' measurements; here it is the first of a heap.
 *
 * WFQ itself serves one machine. On several cpus this is its form for them, multiprocessor fair
 * queueing (Caprita, Nieh, Stein: Grouped Distributed Queues, 2005, section 2.2.1): the least
 * finishing time among the tasks that no cpu runs, weights made feasible. The rules are those of
 * crates/core/src/policies/mfq.rs, decision for decision; on one cpu with whole quanta they make
 * the schedule of crates/core/src/policies/wfq.rs but for ties, which here go to the lower number.
 *
 * Worked example: weights 3, 2, 1 on one cpu have finishing times 1/3, 1/2, 1/1 and run
 * 1 2 1 | 1 2 3 (the bar: all three tie at 1).
 *
 * Cost: O(log N) a decision.
 *
 * Known limits: those of tags.h and feasible.h.
 */
#ifndef PRORATA_WFQ_H
#define PRORATA_WFQ_H

#define POLICY_NAME "wfq"
#define POLICY_CREDIT_QUANTA 2
#define POLICY_PAYS_WHOLE 0
#define POLICY_KEEPS_CPUS 0

#include "../heap.h"
#include "../tagged.h"

enum wfq_queue { WFQ_QUEUE, WFQ_QUEUES };

struct policy_task {
	struct rank rank;
	struct tagged tag;
	/* The virtual finishing time of its next quantum; kept up to date while it waits. */
	struct instant finish;
	/* Its place among those that wait, plus one; 0 if it does not. */
	u32 place;
};

struct policy_state {
	struct policy_counts counts;
	struct feasible set;
	struct tags tags;
	/* Tasks that wait, by virtual finishing time. */
	struct heap queue[WFQ_QUEUES];
	/* The task that each cpu ran last. */
	u32 last[POLICY_CPUS];
};

POLICY_MEMORY

#include "../tags.h"

/* True if task a goes before task b. */
static __always_inline bool goes_first(u32 a, u32 b)
{
	if (is_earlier(&TASK(a)->finish, &TASK(b)->finish))
		return true;
	return a < b && !is_earlier(&TASK(b)->finish, &TASK(a)->finish);
}

#define HEAP(verb) queue_##verb
#define HEAPS WFQ_QUEUES
#define HEAP_OF(heap) (&STATE->queue[heap])
#define HEAP_PLACE(heap, id) (TASK(id)->place)
#define HEAP_BEFORE(heap, a, b) goes_first(a, b)
#include "../heaps.h"

/* A task waits from now on. */
policy_fn u32 enter_queue(u32 id)
{
	start_after(&TASK(id)->finish, id, quantum_ns());
	queue_insert(WFQ_QUEUE, id);
	return 0;
}

/* Tasks that wait, whose tags moved, have other places. */
policy_fn u32 refresh_moved(void)
{
	u32 i;

	bpf_for(i, 0, TAGS->moved_count) {
		u32 id = TAGS->moved[i & (TAGS_MOVED - 1)];

		if (TAG(id)->state != TAG_WAITING)
			continue;
		queue_remove(WFQ_QUEUE, id);
		enter_queue(id);
	}
	return 0;
}

/* The task that ran last on the cpu, if it waits and is worth a whole cpu. */
static __always_inline u32 dedicated(u32 cpu)
{
	u32 id = STATE->last[cpu & (POLICY_CPUS - 1)];
	struct tagged __arena *task;

	if (id == NIL)
		return NIL;
	task = TAG(id);
	if (task->state != TAG_WAITING || task->parts * cpu_divisor() != cpu_parts() * task->of)
		return NIL;
	return id;
}

policy_fn u32 policy_pick(u32 cpu)
{
	u32 id = dedicated(cpu);

	if (id == NIL)
		id = queue_first(WFQ_QUEUE);
	if (id == NIL)
		return NIL;
	queue_remove(WFQ_QUEUE, id);
	STATE->counts.choices++;
	TAG(id)->state = TAG_RUNNING;
	STATE->last[cpu & (POLICY_CPUS - 1)] = id;
	return id;
}

policy_fn u32 policy_init(u32 cpus)
{
	u32 i;

	tags_init(cpus);
	bpf_for(i, 0, POLICY_CPUS)
		STATE->last[i] = NIL;
	return 0;
}

policy_fn u32 policy_add(u32 id, u32 weight)
{
	tags_add(id, weight);
	return 0;
}

policy_fn u32 policy_wake(u32 id)
{
	tags_wake(id);
	refresh_moved();
	enter_queue(id);
	return 0;
}

policy_fn u32 policy_block(u32 id)
{
	queue_remove(WFQ_QUEUE, id);
	tags_leave(id);
	refresh_moved();
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
	tags_set_weight(id, weight);
	refresh_moved();
	return 0;
}

policy_fn u32 policy_charge(u32 id, u64 used_ns)
{
	tags_charge(id, used_ns);
	enter_queue(id);
	return 0;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A policy header that several cpus call at a time, driven by a thread for each cpu: for the thread
 * sanitizer, which reports whatever two threads touch without a latch between them.
 *
 *   threads_apart EVENTS SEED
 *
 * Each task is woken, blocked and reweighed by one thread at a time, as the kernel has it; everything else
 * meets as it may. Now and then all threads stop, and what must hold when nobody is in a call is checked:
 *
 *   - a task is in one queue, or blocked; its cpu runs it, or nobody does;
 *   - no cpu idles that has not been kicked while a task waits that no kicked one is about to take;
 *   - what the shares count is what runs and waits, but for changes that cpus have noted.
 *
 * With -DRECORDED it prints what each did (step.h), with -DIN_TURN one event comes after the other.
 * With -DFLAW_UNLATCHED nobody takes a latch; with -DFLAW_DEAF who leaves a task to wait kicks nobody.
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "../src/bpf/policy.h"
#include "random.h"

enum { CPUS = 4, TASKS = 24 };
/* Events of a thread between two checks. */
#define BETWEEN_CHECKS 500

static u64 quantum_ns(void) { return 5000000; }
static u32 policy_option(u32 index) { return index == 0 ? 4 : 1; }

static __thread u32 cpu_of_thread;
static __thread u64 clock_of_thread_ns;
static u32 policy_cpu(void) { return cpu_of_thread; }
static u64 now_ns(void) { return clock_of_thread_ns; }
static void policy_kick(u32 cpu);

#define TASK(id) (&threads_tasks[id])
#define STATE (&threads_state)
#define POLICY_MEMORY \
	static struct policy_task threads_tasks[POLICY_TASKS]; \
	static struct policy_state threads_state;

#ifdef RECORDED
#include "steps.h"
#endif
#ifdef FLAW_UNLATCHED
#include "../src/bpf/latch.h"
#define latch_try(latch) true
#define latch_take(latch) ((void)(latch))
#define latch_release(latch) ((void)(latch))
#endif
#include POLICY_HEADER

/* Kicked since it picked last. */
static u32 kicked[CPUS];
/* Which task a cpu runs, or NIL. Its own. */
static u32 running[CPUS];

static void policy_kick(u32 cpu)
{
#ifdef FLAW_DEAF
	(void)cpu;
#else
	word_put(&kicked[cpu], 1);
#endif
}

/* --- tasks: one thread at a time changes one -------------------------------------------------- */

enum life { UNKNOWN, BLOCKED, RUNNABLE };

static struct {
	pthread_mutex_t mutex;
	enum life life;
} tasks[TASKS];

static u64 seed, events_each, thieves;
static pthread_barrier_t stop;
#ifdef IN_TURN
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static u64 clock_ns;
#endif

static void check(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s\n", what);
	exit(1);
}

/* The cpu's quantum ends, its task blocks or not, and it picks. */
static void decide(u32 cpu, bool blocks, u64 used_ns)
{
	u32 task = running[cpu], waits;

	/* An idle cpu picks when it is kicked. */
	if (task == NIL && !word_exchange(&kicked[cpu], 0))
		return;
	if (task != NIL && blocks) {
		pthread_mutex_lock(&tasks[task].mutex);
		waits = policy_stop(task, used_ns);
		running[cpu] = NIL;
		/* Then somebody may steal and pick it: it is not ours to block. */
		if (!waits || !policy_block(task))
			tasks[task].life = BLOCKED;
		pthread_mutex_unlock(&tasks[task].mutex);
	} else if (task != NIL) {
		policy_charge(task, used_ns);
	}
	running[cpu] = policy_pick(cpu);
	__atomic_fetch_add(&thieves, STATE->cpu[cpu].victim != NIL, __ATOMIC_RELAXED);
}

static void change(u32 task, u32 weight)
{
	pthread_mutex_lock(&tasks[task].mutex);
	switch (tasks[task].life) {
	case UNKNOWN:
		policy_add(task, weight);
		tasks[task].life = BLOCKED;
		break;
	case BLOCKED:
		policy_wake(task);
		tasks[task].life = RUNNABLE;
		break;
	case RUNNABLE:
		if (weight % 3 == 0)
			policy_set_weight(task, weight);
		else if (weight % 3 == 1 && !policy_block(task))
			tasks[task].life = BLOCKED;
		else if (weight % 3 == 2 && !policy_remove(task))
			tasks[task].life = UNKNOWN;
	}
	pthread_mutex_unlock(&tasks[task].mutex);
}

/* --- what must hold when nobody is in a call ------------------------------------------------- */

static u32 cpu_that_runs(u32 task)
{
	u32 cpu, found = NIL;

	for (cpu = 0; cpu < CPUS; cpu++) {
		if (running[cpu] != task)
			continue;
		check(found == NIL, "a task runs on two cpus");
		found = cpu;
	}
	return found;
}

static void check_task(u32 id)
{
	struct policy_task *task = TASK(id);
	u32 cpu = cpu_that_runs(id), state = task->state;
	bool queued = task->place != NIL && task->place & QUEUED;

	if (tasks[id].life != RUNNABLE) {
		check(cpu == NIL, "a task runs that is blocked");
		check(tasks[id].life == UNKNOWN || !queued, "a blocked task is in a queue");
		return;
	}
	check(queued, "a runnable task is in no queue");
	check((state == GDQ_RUNNING) == (cpu != NIL), "a task is told to run, or runs untold");
	check(state != GDQ_BLOCKED, "a runnable task is taken for blocked");
	if (cpu != NIL)
		check(STATE->cpu[cpu].queue == (task->place & ~QUEUED), "a cpu runs from another queue");
	check(task->noted || (task->is_shared && task->weight == task->wanted_weight),
	      "the shares do not know a task, nor will they be told");
}

static void check_queue(u32 id, u32 *in_queues)
{
	struct queue *queue = QUEUE(id);
	u32 task = queue->current, count;
	u32 k = queue->group;

	check(!queue->latch, "a latch is held");
	if (k == NIL)
		return;
	check(OPENING(k)->set[id / 64] >> (id & 63) & 1, "an open queue is in no set");
	check(OPENING(k)->words >> (id / 64) & 1, "nobody looks at the word of an open queue");
	for (count = 0; count < queue->tasks; count++) {
		check(TASK(task)->place == (id | QUEUED), "a task does not know its queue");
		check(TASK(TASK(task)->next)->prev == task, "a ring is broken");
		task = TASK(task)->next;
	}
	check(!count || task == queue->current, "a queue has lost count");
	*in_queues += count;
}

static void check_all(void)
{
	u32 id, in_queues = 0, runnable = 0, idle = 0, awaited = 0, waiting = 0, cpus = 0;

	for (id = 0; id < TASKS; id++) {
		check_task(id);
		runnable += tasks[id].life == RUNNABLE;
		waiting += tasks[id].life == RUNNABLE && cpu_that_runs(id) == NIL;
	}
	for (id = 0; id < 3 * CPUS + 2 * GROUPS; id++)
		check_queue(id, &in_queues);
	check(in_queues == runnable, "tasks are in queues that are not runnable");
	for (id = 0; id < CPUS; id++) {
		idle += running[id] == NIL && !kicked[id];
		/* About to pick. */
		awaited += running[id] == NIL && kicked[id];
	}
	check(!idle || waiting <= awaited, "a cpu idles while a task waits, and was not kicked");
	for (id = 0; id < GROUPS; id++)
		cpus += GROUP(id)->cpus;
	for (id = 0; id < CPUS; id++)
		cpus -= STATE->cpu[id].queue != NIL;
	check(!cpus, "groups have other cpus than work in them");
}

/* --- threads --------------------------------------------------------------------------------- */

/* Most are of one group, so that its cpus steal from each other. */
static u32 weight_of(u64 draw)
{
	return draw % 8 ? 64 + (draw >> 8) % 64 : 1 + (draw >> 8) % 1000;
}

static void *run(void *argument)
{
	u32 cpu = cpu_of_thread = (u32)(uintptr_t)argument;
	u64 random = seed + cpu, i, draw;

	for (i = 0; i < events_each; i++) {
		draw = random_next(&random);
		clock_of_thread_ns += 1000000 + draw % 1024;
#ifdef IN_TURN
		pthread_mutex_lock(&turn);
		clock_ns += 1000000;
		clock_of_thread_ns = clock_ns;
#endif
		if (draw % 8)
			decide(cpu, draw % 64 == 1, quantum_ns() / 16 * (1 + (draw >> 40) % 16));
		else
			change((draw >> 8) % TASKS, weight_of(draw >> 16));
#ifdef IN_TURN
		pthread_mutex_unlock(&turn);
#endif
		if (i % BETWEEN_CHECKS)
			continue;
		if (pthread_barrier_wait(&stop) == PTHREAD_BARRIER_SERIAL_THREAD)
			check_all();
		pthread_barrier_wait(&stop);
	}
	return NULL;
}

int main(int count, char **arguments)
{
	pthread_t threads[CPUS];
	u64 cpu, id;

	if (count != 3)
		return 2;
	events_each = strtoull(arguments[1], NULL, 10) / CPUS;
	seed = strtoull(arguments[2], NULL, 10);
	policy_init(CPUS);
	pthread_barrier_init(&stop, NULL, CPUS);
	for (id = 0; id < TASKS; id++)
		pthread_mutex_init(&tasks[id].mutex, NULL);
	for (cpu = 0; cpu < CPUS; cpu++) {
		running[cpu] = NIL;
		kicked[cpu] = 1;
	}
	for (cpu = 0; cpu < CPUS; cpu++)
		pthread_create(&threads[cpu], NULL, run, (void *)(uintptr_t)cpu);
	for (cpu = 0; cpu < CPUS; cpu++)
		pthread_join(threads[cpu], NULL);
	check(thieves, "nobody has stolen anything");
#ifdef RECORDED
	print_steps();
#endif
	printf("%" PRIu64 "\n", events_each * CPUS);
	return 0;
}

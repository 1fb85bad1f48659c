/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A policy header under the scheduler's lock, driven by a thread for each cpu: for the thread
 * sanitizer, which reports whatever two threads touch without the lock between them.
 *
 *   threads EVENTS SEED
 *
 * With -DUNLOCKED nobody locks: the sanitizer must report it.
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "../src/bpf/policy.h"
#include "random.h"

enum { CPUS = 4, TASKS = 24 };

static u64 quantum_ns(void) { return 5000000; }
static u32 policy_option(u32 index) { return index == 0 ? 1 : 4; }

static __thread u32 cpu_of_thread;
static u32 this_cpu(void) { return cpu_of_thread; }

static void scx_bpf_error(const char *why)
{
	fprintf(stderr, "%s\n", why);
	abort();
}

#include "../src/bpf/lock.h"

/* All of it is touched with the lock held only. */
static u64 clock_ns, events_done;
static enum { UNKNOWN, BLOCKED, WAITING, RUNNING } states[TASKS];
static u32 running[CPUS];

static u64 now_ns(void) { return clock_ns; }

#define TASK(id) (&threads_tasks[id])
#define STATE (&threads_state)
#define POLICY_MEMORY \
	static struct policy_task threads_tasks[POLICY_TASKS]; \
	static struct policy_state threads_state;

#include POLICY_HEADER

static u64 events_each;
static u64 seed;

/* The cpu's quantum ends, and it picks. */
static void decide(u32 cpu, bool blocks)
{
	u32 task = running[cpu];

	if (task != NIL) {
		policy_charge(task, quantum_ns());
		states[task] = WAITING;
		if (blocks) {
			policy_block(task);
			states[task] = BLOCKED;
		}
	}
	task = policy_pick(cpu);
	running[cpu] = task;
	if (task != NIL)
		states[task] = RUNNING;
}

static void change(u32 task, u32 weight)
{
	switch (states[task]) {
	case UNKNOWN:
		policy_add(task, weight);
		states[task] = BLOCKED;
		break;
	case BLOCKED:
		policy_wake(task);
		states[task] = WAITING;
		break;
	case WAITING:
		if (weight % 2) {
			policy_block(task);
			states[task] = BLOCKED;
		} else {
			policy_remove(task);
			states[task] = UNKNOWN;
		}
		break;
	case RUNNING:
		policy_set_weight(task, weight);
	}
}

static void *run(void *argument)
{
	u32 cpu = cpu_of_thread = (u32)(uintptr_t)argument;
	u64 random = seed + cpu, i, draw;

	for (i = 0; i < events_each; i++) {
		draw = random_next(&random);
#ifndef UNLOCKED
		lock();
#endif
		clock_ns += 1000;
		events_done++;
		if (draw % 4)
			decide(cpu, draw % 16 == 1);
		else
			change((draw >> 8) % TASKS, 1 + (draw >> 16) % 1000);
#ifndef UNLOCKED
		unlock();
#endif
	}
	return NULL;
}

int main(int count, char **arguments)
{
	pthread_t threads[CPUS];
	u64 cpu;

	if (count != 3)
		return 2;
	events_each = strtoull(arguments[1], NULL, 10) / CPUS;
	seed = strtoull(arguments[2], NULL, 10);
	policy_init(CPUS);
	for (cpu = 0; cpu < CPUS; cpu++)
		running[cpu] = NIL;
	for (cpu = 0; cpu < CPUS; cpu++)
		pthread_create(&threads[cpu], NULL, run, (void *)(uintptr_t)cpu);
	for (cpu = 0; cpu < CPUS; cpu++)
		pthread_join(threads[cpu], NULL);
	printf("%" PRIu64 "\n", events_done);
	return events_done == events_each * CPUS ? 0 : 1;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A policy header alone on a simulated machine of many cpus, to see which memory it touches: without the
 * framework, which is in scaling.c, so that policies with one lock and with locks of their own are side by
 * side.
 *
 *   scaling_alone CPUS HOGS SLEEPERS NICES DECISIONS SEED QUANTUM_NS [OPTION …]
 *
 * As there: so many tasks in all, of so many nice values around 0; a cpu decides DECISIONS times on average
 * before what it does is counted, and as often afterwards; events come one after the other. A policy with
 * one lock takes it for a charge with the pick behind it, and for a wake. For the others the locks that are
 * noted are those that all cpus share: not a queue's.
 *
 * Built with -fsanitize=thread and accesses.c it writes what was touched (see there). Built with
 * -DCOUNT_INSTRUCTIONS valgrind's callgrind counts what is executed with a noted lock held, with -DCOUNT_ALL
 * in addition all else that the policy executes.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

#include "accesses.h"
#include "../src/bpf/policy.h"
#include "random.h"

#ifdef COUNT_INSTRUCTIONS
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_TOGGLE_COLLECT ((void)0)
#endif

enum { NICES = 40 };
/* No event comes. */
#define NEVER UINT64_MAX

struct alone_cpu {
	u32 task;
	u64 ends_ns;
	bool kicked;
};

static struct {
	u64 now_ns, quantum_ns, random, decisions;
	u32 cpus, cpu, tasks, options[POLICY_OPTIONS];
	/* Counted from then on. */
	bool counting;
	struct alone_cpu cpu_of[POLICY_CPUS];
	/* When it wakes; what it wants to run, and how long it sleeps then. A hog wants no end. */
	u64 wakes_ns[POLICY_TASKS], left_ns[POLICY_TASKS], burst_ns[POLICY_TASKS];
	u32 runs_on[POLICY_TASKS];
} machine;

static u64 now_ns(void) { return machine.now_ns; }
static u64 quantum_ns(void) { return machine.quantum_ns; }
static u32 policy_option(u32 index) { return machine.options[index]; }
static u32 this_cpu(void) { return machine.cpu; }
static u32 policy_cpu(void) { return machine.cpu; }
static void policy_kick(u32 cpu) { machine.cpu_of[cpu].kicked = true; }

static void scx_bpf_error(const char *why)
{
	fprintf(stderr, "%s\n", why);
	exit(1);
}

#define TASK(id) (&alone_tasks[id])
#define STATE (&alone_state)
#define POLICY_MEMORY \
	static struct policy_task alone_tasks[POLICY_TASKS] __attribute__((aligned(64))); \
	static struct policy_state alone_state __attribute__((aligned(64)));

static void toggle(void)
{
	if (machine.counting)
		CALLGRIND_TOGGLE_COLLECT;
}

/* The lock that all share is taken, or let go. */
static void note_shared(enum note what)
{
	note(what, 0);
#ifndef COUNT_ALL
	toggle();
#endif
}

#include "../src/bpf/latch.h"
static bool is_shared(const void *latch);

static void noted_take(u32 *latch)
{
	latch_take(latch);
	if (is_shared(latch))
		note_shared(NOTE_LOCK);
}

static void noted_release(u32 *latch)
{
	if (is_shared(latch))
		note_shared(NOTE_UNLOCK);
	latch_release(latch);
}

#define latch_take(latch) noted_take(latch)
#define latch_release(latch) noted_release(latch)
#include POLICY_HEADER

#ifdef PRORATA_GDQ_DISTRIBUTED_H
#define lock()
#define unlock()
static bool is_shared(const void *latch)
{
	const char *queues = (const char *)STATE->queues;

	return (const char *)latch < queues || (const char *)latch >= queues + sizeof(STATE->queues);
}
static void watch_locks(void) {}
static void name_parts(void)
{
	name_lines("words for all", STATE);
	name_lines("closed queues", &STATE->pool_latch);
	name_lines("shares", &STATE->shares_latch);
	name_lines("sets of queues", STATE->openings);
	name_lines("cpus", STATE->cpu);
	name_lines("queues", STATE->queues);
}
#else
#include "../src/bpf/lock.h"
static bool is_shared(const void *latch) { return latch; }

static void held(void)
{
	lock();
	note_shared(NOTE_LOCK);
}

static void let_go(void)
{
	note_shared(NOTE_UNLOCK);
	unlock();
}

#define lock() held()
#define unlock() let_go()
static void watch_locks(void)
{
	watch(lock_nodes, sizeof(lock_nodes));
	watch(&lock_word, sizeof(lock_word));
}
static void name_parts(void)
{
	name_lines("lock", &lock_word);
	name_lines("lock's nodes", lock_nodes);
	name_lines("policy", STATE);
}
#endif

/* --- the machine ----------------------------------------------------------------------------- */

static void act_on(u32 cpu)
{
	machine.cpu = cpu;
	note(NOTE_CPU, cpu);
#ifdef COUNT_ALL
	toggle();
#endif
}

static void acted(void)
{
#ifdef COUNT_ALL
	toggle();
#endif
}

/* A quantum is over, or the task sleeps, or the cpu idled; it picks. */
static void decide(u32 index, u64 ran_ns)
{
	struct alone_cpu *cpu = &machine.cpu_of[index];
	u32 task = cpu->task;
	bool sleeps = false;

	if (task != NIL && machine.burst_ns[task]) {
		machine.left_ns[task] -= ran_ns;
		sleeps = !machine.left_ns[task];
	}
	note(NOTE_DECISION, 0);
	machine.decisions++;
	cpu->kicked = false;
	act_on(index);
	lock();
	if (task != NIL) {
		policy_charge(task, ran_ns);
		if (sleeps)
			policy_block(task);
	}
	cpu->task = policy_pick(index);
	unlock();
	acted();
	if (sleeps) {
		machine.wakes_ns[task] = machine.now_ns + random_about(&machine.random, 2 * quantum_ns());
		machine.left_ns[task] = random_about(&machine.random, machine.burst_ns[task]);
	}
	cpu->ends_ns = NEVER;
	task = cpu->task;
	if (task == NIL)
		return;
	machine.runs_on[task] = index;
	cpu->ends_ns = machine.now_ns + quantum_ns();
	if (machine.burst_ns[task] && machine.left_ns[task] < quantum_ns())
		cpu->ends_ns = machine.now_ns + machine.left_ns[task];
}

static void wake(u32 task)
{
	u32 i;

	machine.wakes_ns[task] = NEVER;
	act_on(machine.runs_on[task]);
	lock();
	policy_wake(task);
	unlock();
	acted();
	/* Whoever idles picks, whether or not the policy knows who does. */
	for (i = 0; i < machine.cpus; i++) {
		u32 cpu = (machine.runs_on[task] + i) % machine.cpus;

		if (machine.cpu_of[cpu].task == NIL && !machine.cpu_of[cpu].kicked) {
			machine.cpu_of[cpu].kicked = true;
			return;
		}
	}
}

static void follow_kicks(void)
{
	u32 cpu;

	for (cpu = 0; cpu < machine.cpus; cpu++) {
		if (machine.cpu_of[cpu].kicked && machine.cpu_of[cpu].task == NIL)
			decide(cpu, 0);
		machine.cpu_of[cpu].kicked = false;
	}
}

/* Something happens: a task wakes, or a run ends. */
static void step(void)
{
	u32 i, first = 0;
	u64 at_ns = NEVER;

	for (i = 0; i < machine.tasks; i++) {
		if (machine.wakes_ns[i] < at_ns) {
			at_ns = machine.wakes_ns[i];
			first = i;
		}
	}
	for (i = 0; i < machine.cpus; i++) {
		if (machine.cpu_of[i].ends_ns < at_ns) {
			at_ns = machine.cpu_of[i].ends_ns;
			first = machine.tasks + i;
		}
	}
	if (first < machine.tasks) {
		machine.now_ns = at_ns;
		wake(first);
	} else {
		struct alone_cpu *cpu = &machine.cpu_of[first - machine.tasks];
		u32 task = cpu->task;
		u64 ran_ns = quantum_ns();

		if (machine.burst_ns[task] && machine.left_ns[task] < ran_ns)
			ran_ns = machine.left_ns[task];
		machine.now_ns = at_ns;
		decide(first - machine.tasks, ran_ns);
	}
	follow_kicks();
}

static u32 weight_of_nice(u64 nices)
{
	s64 nice = (s64)(random_next(&machine.random) % nices) - (s64)nices / 3;
	u64 weight = 1024;

	for (; nice > 0; nice--)
		weight = weight * 4 / 5;
	for (; nice < 0; nice++)
		weight = weight * 5 / 4;
	return (u32)weight;
}

static void begin_task(u32 id, u64 nices, bool sleeps)
{
	machine.runs_on[id] = id % machine.cpus;
	machine.wakes_ns[id] = random_next(&machine.random) % quantum_ns();
	if (sleeps) {
		machine.burst_ns[id] = quantum_ns() / 10;
		machine.left_ns[id] = random_about(&machine.random, machine.burst_ns[id]);
	}
	machine.cpu = id % machine.cpus;
	policy_add(id, weight_of_nice(nices));
}

static u64 number(char **arguments, u32 index)
{
	return strtoull(arguments[index], NULL, 10);
}

int main(int count, char **arguments)
{
	u64 decisions, begin, begin_ns, sleepers;
	u32 i, hogs;

	if (count < 8)
		return 2;
	machine.cpus = (u32)number(arguments, 1);
	hogs = (u32)number(arguments, 2);
	sleepers = number(arguments, 3);
	machine.tasks = hogs + (u32)sleepers;
	decisions = number(arguments, 5) * machine.cpus;
	machine.random = number(arguments, 6);
	machine.quantum_ns = number(arguments, 7);
	if (!machine.cpus || machine.cpus > POLICY_CPUS || machine.tasks > POLICY_TASKS)
		return 2;
	for (i = 0; i < POLICY_OPTIONS && i + 8 < (u32)count; i++)
		machine.options[i] = (u32)number(arguments, 8 + i);
	watch(alone_tasks, sizeof(alone_tasks));
	watch(&alone_state, sizeof(alone_state));
	watch_locks();
	policy_init(machine.cpus);
	for (i = 0; i < machine.cpus; i++) {
		machine.cpu_of[i].task = NIL;
		machine.cpu_of[i].ends_ns = NEVER;
	}
	for (i = 0; i < machine.tasks; i++)
		begin_task(i, number(arguments, 4), i >= hogs);
	while (machine.decisions < decisions)
		step();
	name_lines("tasks", alone_tasks);
	name_parts();
	note(NOTE_COUNT, 0);
	machine.counting = true;
	begin = machine.decisions;
	begin_ns = machine.now_ns;
	while (machine.decisions < begin + decisions)
		step();
	/* On one cpu. */
	fprintf(stderr, "ns between decisions %" PRIu64 "\n",
		(machine.now_ns - begin_ns) * machine.cpus / (machine.decisions - begin));
	return 0;
}

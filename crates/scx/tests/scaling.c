/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scx_prorata's callbacks on a simulated machine of many cpus, to see which memory they touch.
 *
 *   scaling CPUS HOGS SLEEPERS NICES DECISIONS SEED QUANTUM_NS [OPTION …]
 *
 * There are so many tasks in all, of so many nice values around 0, and a cpu decides DECISIONS times on
 * average before what it does is counted, and as often afterwards.
 * Everything happens in logical time, one callback after the other. Quanta end where they began a quantum
 * before: cpus are apart by random parts of one.
 *
 * Built with -DAPART the callbacks are those for policies whose queues have locks of their own; of these the
 * locks that all cpus share are noted, not a queue's.
 *
 * Built with -fsanitize=thread and accesses.c it writes what was touched (see there). Built with
 * -DCOUNT_INSTRUCTIONS valgrind's callgrind counts what is executed with the lock held.
 *
 * What is not here: the kernel's own part of a switch, and waiting for the lock.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accesses.h"
#ifdef APART
#define MACHINE_HAS_QUEUES
#endif
#include <scx/common.bpf.h>

#ifdef COUNT_INSTRUCTIONS
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_TOGGLE_COLLECT ((void)0)
#endif

/* What is constant for a BPF program is set by its loader: by us. */
#define const

#include "../src/bpf/policy.h"
#include "../src/bpf/lock.h"
#include "random.h"

/* Counted from then on. */
static bool counting;

/* Of locks that are held one within the other the outermost counts. */
static u32 depth;

static void note_taken(void)
{
	note(NOTE_LOCK, 0);
	if (!depth++ && counting)
		CALLGRIND_TOGGLE_COLLECT;
}

static void note_released(void)
{
	if (--depth)
		return;
	note(NOTE_UNLOCK, 0);
	if (counting)
		CALLGRIND_TOGGLE_COLLECT;
}

static bool held(void)
{
	bool is_held = lock();

	note_taken();
	return is_held;
}

static void let_go(void)
{
	note_released();
	unlock();
}

#define lock() held()
#define unlock() let_go()
#ifdef APART
#include "../src/bpf/latch.h"
static bool is_shared(void *latch);

static void noted_take(u32 *latch)
{
	latch_take(latch);
	if (is_shared(latch))
		note_taken();
}

static void noted_release(u32 *latch)
{
	if (is_shared(latch))
		note_released();
	latch_release(latch);
}

#define latch_take(latch) noted_take(latch)
#define latch_release(latch) noted_release(latch)
#include "../src/bpf/apart.bpf.c"

static bool is_shared(void *latch)
{
	char *queues = (char *)STATE->queues;

	return (char *)latch < queues || (char *)latch >= queues + sizeof(STATE->queues);
}
#else
#include "../src/bpf/main.bpf.c"
#endif
#undef lock
#undef unlock
#undef const

/* --- memory ---------------------------------------------------------------------------------- */

#define PAGE 4096
#define ARENA_PAGES 8192
#define MAPS 8

/* Arenas and maps. */
static char arena_memory[ARENA_PAGES * PAGE] __attribute__((aligned(PAGE)));
static u64 arena_used;
static struct {
	void *map, *memory;
} maps[MAPS];

void *machine_pages(u64 pages)
{
	void *memory = arena_memory + arena_used * PAGE;

	arena_used += pages;
	if (arena_used > ARENA_PAGES)
		machine_broken("the arena is too small");
	return memory;
}

void *machine_map(void *map, u64 entries, u64 bytes, u64 key)
{
	u32 i;

	for (i = 0; i < MAPS; i++) {
		if (!maps[i].map) {
			maps[i].map = map;
			maps[i].memory = machine_pages((entries * bytes + PAGE - 1) / PAGE);
		}
		if (maps[i].map == map)
			return (char *)maps[i].memory + key % entries * bytes;
	}
	machine_broken("too many maps");
	return NULL;
}

/* --- the machine ----------------------------------------------------------------------------- */

/* No event comes. */
#define NEVER UINT64_MAX
/* Tasks that wait in a queue at a time. */
#define QUEUE_ROOM 8

struct machine_queue {
	struct task_struct *tasks[QUEUE_ROOM];
	u32 count;
};

struct machine_cpu {
	struct task_struct *current;
	/* When the slice of what runs is over, or its work is done. */
	u64 ends_ns;
	struct machine_queue local;
	bool kicked;
};

static struct {
	u64 now_ns, random;
	u32 cpus, cpu, tasks;
	struct machine_cpu cpu_of[MAX_CPUS];
#ifdef MACHINE_HAS_QUEUES
	/* The callbacks' own: for all, and for each cpu. */
	struct machine_queue queues[MAX_CPUS + 1];
#endif
	struct task_struct task[MAX_TASKS];
	/* When tasks that sleep wake. */
	u64 wakes_ns[MAX_TASKS];
	u64 decisions;
} machine;

u32 this_cpu(void)
{
	return machine.cpu;
}

u64 scx_bpf_now(void)
{
	return machine.now_ns;
}

struct task_struct *bpf_get_current_task_btf(void)
{
	static struct task_struct idle;
	struct task_struct *current = machine.cpu_of[machine.cpu].current;

	return current ? current : &idle;
}

void machine_broken(const char *why, ...)
{
	va_list arguments;

	va_start(arguments, why);
	vfprintf(stderr, why, arguments);
	va_end(arguments);
	exit(1);
}

s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle)
{
	u32 i;

	(void)p;
	(void)wake_flags;
	for (i = 0; i < machine.cpus; i++) {
		u32 cpu = (prev_cpu + i) % machine.cpus;

		*is_idle = !machine.cpu_of[cpu].current && !machine.cpu_of[cpu].local.count;
		if (*is_idle)
			return cpu;
	}
	return prev_cpu;
}

static void put_into(struct machine_queue *queue, struct task_struct *p, bool first)
{
	if (queue->count == QUEUE_ROOM)
		machine_broken("too many tasks are in a queue");
	if (first)
		memmove(queue->tasks + 1, queue->tasks, queue->count * sizeof(*queue->tasks));
	queue->tasks[first ? 0 : queue->count] = p;
	queue->count++;
}

static struct task_struct *take_first(struct machine_queue *queue)
{
	struct task_struct *p = queue->tasks[0];

	queue->count--;
	memmove(queue->tasks, queue->tasks + 1, queue->count * sizeof(*queue->tasks));
	return p;
}

#ifdef MACHINE_HAS_QUEUES
u32 scx_bpf_dsq_nr_queued(u64 dsq)
{
	return machine.queues[dsq].count;
}

bool scx_bpf_dsq_move_to_local(u64 dsq, u64 flags)
{
	struct task_struct *p = take_first(&machine.queues[dsq]);

	(void)flags;
	p->cpu = machine.cpu;
	put_into(&machine.cpu_of[machine.cpu].local, p, false);
	return true;
}
#endif

void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq, u64 slice_ns, u64 flags)
{
	u32 cpu = machine.cpu;
	struct machine_cpu *to;

	if (dsq == SCX_DSQ_GLOBAL)
		machine_broken("a task runs beside the policy");
#ifdef MACHINE_HAS_QUEUES
	if (dsq <= MAX_CPUS) {
		p->scx.slice = slice_ns;
		put_into(&machine.queues[dsq], p, false);
		return;
	}
#endif
	if ((dsq & SCX_DSQ_LOCAL_ON) == SCX_DSQ_LOCAL_ON)
		cpu = (u32)dsq;
	to = &machine.cpu_of[cpu];
	p->scx.slice = slice_ns;
	p->cpu = cpu;
	put_into(&to->local, p, flags & (SCX_ENQ_HEAD | SCX_ENQ_PREEMPT));
	to->kicked |= cpu != machine.cpu;
	if (flags & SCX_ENQ_PREEMPT && to->current) {
		to->current->scx.slice = 0;
		to->kicked = true;
	}
}

void scx_bpf_kick_cpu(s32 cpu, u64 flags)
{
	struct machine_cpu *kicked = &machine.cpu_of[cpu];

	if (flags & SCX_KICK_PREEMPT && kicked->current)
		kicked->current->scx.slice = 0;
	else if (kicked->current)
		return;
	kicked->kicked = true;
}

static void machine_act_on(u32 cpu)
{
	machine.cpu = cpu;
	note(NOTE_CPU, cpu);
}

/* What ran on a cpu has run until now. */
static void machine_settle(struct task_struct *p)
{
	u64 ran_ns = machine.now_ns - p->se.exec_start;

	p->se.sum_exec_runtime += ran_ns;
	p->se.exec_start = machine.now_ns;
	p->scx.slice -= ran_ns < p->scx.slice ? ran_ns : p->scx.slice;
	if (p->burst_ns)
		p->left_ns -= ran_ns;
}

static void fall_asleep(struct task_struct *p)
{
	p->scx.flags &= ~SCX_TASK_QUEUED;
	prorata_quiescent(p, SCX_DEQ_SLEEP);
	machine.wakes_ns[p - machine.task] = machine.now_ns + random_about(&machine.random, p->sleep_ns);
	p->left_ns = random_about(&machine.random, p->burst_ns);
}

static void machine_run(struct machine_cpu *cpu, struct task_struct *p)
{
	u64 runs_ns = p->scx.slice;

	if (p->burst_ns && p->left_ns < runs_ns)
		runs_ns = p->left_ns;
	p->cpu = machine.cpu;
	p->se.exec_start = machine.now_ns;
	cpu->current = p;
	cpu->ends_ns = machine.now_ns + runs_ns;
}

/* As the kernel's __schedule() for tasks of sched_ext. */
static void machine_schedule(u32 index)
{
	struct machine_cpu *cpu = &machine.cpu_of[index];
	struct task_struct *prev = cpu->current;

	machine_act_on(index);
	cpu->kicked = false;
	if (prev) {
		machine_settle(prev);
		if (prev->burst_ns && !prev->left_ns) {
			fall_asleep(prev);
			cpu->current = prev = NULL;
		}
	}
	if (!cpu->local.count && !(prev && prev->scx.slice)) {
		note(NOTE_DECISION, 0);
		machine.decisions++;
		prorata_dispatch(index, prev);
	}
	if (prev && cpu->local.count && !prev->scx.slice)
		prorata_enqueue(prev, 0);
	else if (prev && cpu->local.count)
		machine_broken("a task is interrupted that has a slice");
	cpu->current = NULL;
	cpu->ends_ns = NEVER;
	if (cpu->local.count)
		machine_run(cpu, take_first(&cpu->local));
	else if (prev && prev->scx.slice)
		machine_run(cpu, prev);
	else if (prev)
		machine_broken("a task goes on that was not told to");
}

/* The cpus that were kicked since the last event. */
static void follow_kicks(void)
{
	u32 cpu;
	bool again;

	do {
		again = false;
		for (cpu = 0; cpu < machine.cpus; cpu++) {
			if (!machine.cpu_of[cpu].kicked)
				continue;
			again = true;
			machine_schedule(cpu);
		}
	} while (again);
}

static void machine_wake(struct task_struct *p)
{
	machine.wakes_ns[p - machine.task] = NEVER;
	machine_act_on(p->cpu);
	p->cpu = prorata_select_cpu(p, p->cpu, 0);
	p->scx.flags |= SCX_TASK_QUEUED;
	prorata_enqueue(p, SCX_ENQ_WAKEUP);
	/* The kernel's idle task makes room for whoever is put into its run queue. */
	machine.cpu_of[p->cpu].kicked |= !machine.cpu_of[p->cpu].current;
}

/* Something happens: a task wakes, or a slice ends. */
static void machine_step(void)
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
	if (at_ns == NEVER)
		machine_broken("all sleep for ever");
	machine.now_ns = at_ns;
	if (first < machine.tasks)
		machine_wake(&machine.task[first]);
	else
		machine_schedule(first - machine.tasks);
	follow_kicks();
}

/* --- what runs there ------------------------------------------------------------------------- */

/* Each sleeper wants a twentieth of a cpu. */
#define BURST_PART 10
#define SLEEP_QUANTA 2

static void begin_task(u32 id, u32 nices, bool sleeps)
{
	struct task_struct *p = &machine.task[id];
	struct scx_init_task_args args = {};

	p->pid = p->tgid = id + 1;
	p->nr_cpus_allowed = machine.cpus;
	p->static_prio = PRIO_OF_NICE_MIN + 20 + random_next(&machine.random) % nices - nices / 3;
	p->cpu = id % machine.cpus;
	if (sleeps) {
		p->burst_ns = quantum / BURST_PART;
		p->sleep_ns = quantum * SLEEP_QUANTA;
		p->left_ns = random_about(&machine.random, p->burst_ns);
	}
	machine.wakes_ns[id] = random_next(&machine.random) % quantum;
	machine_act_on(p->cpu);
	if (prorata_init_task(p, &args))
		machine_broken("a task cannot be made");
	prorata_enable(p);
}

static void machine_boot(u32 cpus)
{
	u32 i;

	watch(arena_memory, sizeof(arena_memory));
	watch(lock_nodes, sizeof(lock_nodes));
	watch(&lock_word, sizeof(lock_word));
	machine.cpus = cpus_end = cpus_possible = cpus;
	for (i = 0; i < cpus; i++)
		machine.cpu_of[i].ends_ns = NEVER;
	if (prorata_init())
		machine_broken("the scheduler cannot begin");
}

/* Where lines belong. */
static void name_memory(void)
{
	name_lines("lock", &lock_word);
	name_lines("lock's nodes", lock_nodes);
#ifdef APART
	name_lines("counters and lists", shared);
	name_lines("words for all", state);
	name_lines("closed queues", &state->pool_latch);
	name_lines("shares", &state->shares_latch);
	name_lines("sets of queues", state->openings);
	name_lines("cpus of the policy", state->cpu);
	name_lines("queues", state->queues);
	name_lines("cpus", desks);
	name_lines("seats", seats);
	name_lines("maps", (char *)seats + (sizeof(*seats) + PAGE - 1) / PAGE * PAGE);
	name_lines("tasks", slots);
#else
	name_lines("counters and lists", shared);
	name_lines("idle cpus", &shared->idle_cpus);
	name_lines("cpus", shared->cpu);
	name_lines("turns", &shared->turns);
	name_lines("turns of cpus", shared->turns.cpu);
	name_lines("policy", state);
	name_lines("tasks", slots);
	name_lines("cgroups", tree);
	name_lines("masks", bound);
#endif
}

/* Up to the options. */
#define ARGUMENTS 8

static u64 number(char **arguments, u32 index)
{
	return strtoull(arguments[index], NULL, 10);
}

int main(int count, char **arguments)
{
	u64 decisions, begin, begin_ns;
	u32 hogs, cpus, i;

	if (count < ARGUMENTS)
		return 2;
	cpus = number(arguments, 1);
	hogs = number(arguments, 2);
	machine.tasks = hogs + number(arguments, 3);
	decisions = number(arguments, 5) * cpus;
	machine.random = number(arguments, 6);
	quantum = number(arguments, 7);
	if (!cpus || cpus > MAX_CPUS || machine.tasks > MAX_TASKS)
		machine_broken("the machine is too large, or has no cpu");
	for (i = 0; i < POLICY_OPTIONS && i + ARGUMENTS < (u32)count; i++)
		policy_options[i] = number(arguments, ARGUMENTS + i);
	machine_boot(cpus);
	for (i = 0; i < machine.tasks; i++)
		begin_task(i, number(arguments, 4), i >= hogs);
	while (machine.decisions < decisions)
		machine_step();
	name_memory();
	note(NOTE_COUNT, 0);
	counting = true;
	begin = machine.decisions;
	begin_ns = machine.now_ns;
	while (machine.decisions < begin + decisions)
		machine_step();
	/* On one cpu. */
	fprintf(stderr, "ns between decisions %" PRIu64 "\n",
		(machine.now_ns - begin_ns) * cpus / (machine.decisions - begin));
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scx_prorata's callbacks on a machine whose cpus come and go, with tasks that may not run everywhere.
 *
 *   cpus SLEEPERS CPUS TASKS STEPS SEED
 *   cpus SLEEPERS CPUS TASKS QUANTA SEED bind
 *   cpus SLEEPERS CPUS TASKS QUANTA SEED masks
 *   cpus SLEEPERS CPUS TASKS QUANTA SEED owner
 *   cpus SLEEPERS CPUS TASKS QUANTA SEED yields
 *   cpus SLEEPERS CPUS TASKS QUANTA SEED beside
 *   cpus SLEEPERS CPUS TASKS QUANTA SEED unlike
 *   cpus SLEEPERS CPUS TASKS QUANTA SEED within
 *   cpus SLEEPERS CPUS TASKS QUANTA SEED loaded
 *   cpus SLEEPERS CPUS TASKS QUANTA SEED loaded-here
 *   cpus SLEEPERS CPUS TASKS QUANTA SEED pinned
 *   cpus SLEEPERS CPUS TASKS QUANTA SEED narrow
 *   cpus SLEEPERS CPUS TASKS QUANTA SEED heavy
 *   cpus SLEEPERS CPUS TASKS QUANTA SEED script:ABOVE,X,Y,OTHERS:SHELL,PROCESS,SLEEP,REST
 *   cpus SLEEPERS CPUS TASKS QUANTA SEED sways
 *   cpus SLEEPERS CPUS TASKS QUANTA SEED idle
 *   cpus SLEEPERS CPUS TASKS 0 SEED lost
 *   cpus SLEEPERS CPUS TASKS QUANTA SEED script:... record
 *
 * Each step is random: some time passes, and a cpu looks for something to run, a task wakes, sleeps, ends, is
 * bound to other cpus or has another weight, or a cpu comes or goes. Prints what the policy was told and what
 * it decided, in the words of `scx_prorata --record`. That no task is put where it must not run, and that
 * none waits for long, is looked at here.
 *
 * With `bind` somebody binds light tasks, which nap, to one cpu and another all the time; what two hogs that
 * may run on any receive at least of what their weights give them, in any 2000 quanta, is looked at and
 * printed, in percent, and how many quanta they are apart at most in 200. With `masks` light tasks are bound
 * to one of three random sets of cpus. With `owner` they are in four cgroups, below one of twice the weight
 * of that of the hogs, and somebody moves them, binds them and the four, and gives those other weights. With
 * `yields` one of them or two, who weigh as much as all the others, are bound to one cpu and another, where
 * they yield every 10 microseconds now and then, up to 2000 times.
 *
 * With `beside` three hogs are bound to one cpu, in a cgroup that is due all of it, and six are not, in two
 * cgroups of the same weight; the other tasks are nappers, bound to one cpu each, which run for moments. How
 * far a hog is off its share in any 1000 quanta is printed, in thousandths of a quantum, and how many of a
 * hundred runs of nappers waited for more than a quarter of one.
 *
 * With `unlike` three hogs of weights 3, 2, 1 are bound to one cpu, and two of weight 1 are not; the other
 * tasks nap, are not bound, and weigh the most. How far a hog is off is printed again.
 *
 * With `within` two hogs are in one cgroup and four in another of the same weight, and the other tasks nap in
 * the first, for longer. How far that is off its half in any 1000 quanta is printed, and late runs again.
 * With `loaded` the last task is in no cgroup, weighs the most, and wakes 160 times a second for a moment,
 * with `loaded-here` on one cpu only. With `pinned` those two hogs may run on one cpu each. With `narrow` all
 * of their cgroup may run on one, and it has half of the other's weight. With `heavy` those who nap weigh the
 * most, and may run on one cpu each.
 *
 * With `script` there are a cgroup, in it x, of one hog, and y, of one and a shell that runs one process
 * after the other; and one of the other hogs. Their weights are given, and for how many microseconds the
 * shell runs, and a process runs, sleeps and runs again, or up to a tenth longer. How far y is off what it is
 * due in any 1000 quanta is printed, and what it receives of that in all, in thousandths.
 *
 * With `gives` a task that weighs the most, in a cgroup, is bound to the first of three cpus, which is all
 * its own by its weight, and yields it every 150 microseconds to light ones that are bound there; the others
 * of the cgroup may run everywhere, or on the other cpus. The least and the most that one of two hogs of
 * another cgroup receives in any 400 quanta is printed, in thousandths of its due.
 *
 * With `sways` there are a cgroup of two hogs and one of the others, of the same weight and of twice that in
 * turn, for a quantum and a half each; the last task, which is in none, wakes to change it. How far that
 * cgroup is off what it is due in any 1000 quanta is printed.
 *
 * With `idle` there is what `beside` has on more cpus, which schedule when they are kicked only. Printed is
 * for how much of the time cpus idled while a task waited that may run there, in thousandths of a cpu.
 *
 * With `lost` a task wakes, is picked, and never comes; nothing else happens. Printed is after how many
 * milliseconds it runs.
 *
 * With `record` what the policy was told in such a scene and what it decided follows, as without one.
 *
 * Everything happens in one thread, one callback after the other: how cpus meet between two of them is
 * tests/transit_model.rs's matter.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <scx/common.bpf.h>

/* What is constant for a BPF program is set by its loader: by us. */
#define const

#include "../src/bpf/policy.h"
#include "random.h"
/* So that tasks come to the end of it, though there are few; but for those that nap in a cgroup. */
static unsigned long long burst_quanta = 1, burst_quanta_of_cpu;
#define BURST_QUANTA burst_quanta
#define BURST_QUANTA_OF_CPU burst_quanta_of_cpu
#include "../src/bpf/main.bpf.c"
#undef const

/* --- the machine ----------------------------------------------------------------------------- */

#define CPUS 16
#define TASKS 64
#define MAPS 8
/* Bits of all cpus, whether they are there or not. */
#define ALL ((1ULL << machine.cpus) - 1)
/* One of so many tasks that go to sleep does so for good. */
#define LIVES 8
/* What a callback may hand to cpus. */
#define HANDED 16
/* Tries of a cpu to find something to run, as the kernel has it. */
#define TRIES 32
/* Times that a kick may be followed by another while nothing happens. */
#define KICKS 64
/* Decisions of a policy's inner algorithm in one pick: some for each task and cpu. */
#define LONGEST_PICK 1000
/* Above the rescue time and what is owed then. */
#define LONGEST_WAIT_NS 3000000000ULL
#define RESCUE_NS 200000000ULL

enum whereabouts { ASLEEP, IN_CUSTODY, LOCAL, CURRENT };

struct machine_task {
	struct task_struct p;
	enum whereabouts place;
	/* Since when it waits, and for how long it has since it woke. */
	u64 since_ns, waited_ns;
	/* Its place in a cpu's local queue. */
	u64 order;
};

struct handed {
	struct machine_task *task;
	u32 cpu;
	u64 slice_ns;
};

static struct {
	u64 now_ns, random, order;
	/* Who goes to sleep wakes again; what is handed to a cpu next does not come there. */
	bool lasts, loses;
	u32 cpus, cpu, tasks, pids, handed_count;
	/* Bit per cpu: the kernel is about to take it offline. */
	u64 going;
	struct cpumask online;
	struct machine_task *current[CPUS];
	bool kicked[CPUS];
	struct machine_task task[TASKS];
	struct handed handed[HANDED];
} machine;

void machine_broken(const char *why, ...)
{
	va_list arguments;

	va_start(arguments, why);
	vfprintf(stderr, why, arguments);
	va_end(arguments);
	fprintf(stderr, "\n");
	abort();
}

void *machine_pages(u64 pages)
{
	return calloc(pages, 4096);
}

void *machine_map(void *map, u64 entries, u64 bytes, u64 key)
{
	static struct {
		void *map, *memory;
	} maps[MAPS];
	u32 i;

	for (i = 0; i < MAPS; i++) {
		if (!maps[i].map) {
			maps[i].map = map;
			maps[i].memory = calloc(entries, bytes);
		}
		if (maps[i].map == map)
			return (char *)maps[i].memory + key % entries * bytes;
	}
	machine_broken("too many maps");
	return NULL;
}

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
	struct machine_task *current = machine.current[machine.cpu];

	return current ? &current->p : &idle;
}

bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask)
{
	return mask->words[cpu / 64] >> (cpu & 63) & 1;
}

bool bpf_cpumask_subset(const struct cpumask *part, const struct cpumask *whole)
{
	return !(part->words[0] & ~whole->words[0]);
}

bool machine_is_going(u32 cpu)
{
	return machine.going >> cpu & 1;
}

void machine_set_timer(struct bpf_timer *timer, u64 in_ns)
{
	timer->fires_ns = machine.now_ns + in_ns;
}

struct cpumask *scx_bpf_get_online_cpumask(void)
{
	return &machine.online;
}

static u32 below(u32 limit)
{
	return random_next(&machine.random) % limit;
}

static bool is_up(u32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, &machine.online);
}

static bool may_run(const struct machine_task *task, u32 cpu)
{
	return is_up(cpu) && bpf_cpumask_test_cpu(cpu, &task->p.cpus_mask);
}

/* A cpu for a task that cannot stay where it is. */
static u32 fallback(const struct machine_task *task)
{
	u32 first = below(machine.cpus), i;

	if (may_run(task, task->p.cpu))
		return task->p.cpu;
	for (i = 0; i < machine.cpus; i++) {
		if (may_run(task, (first + i) % machine.cpus))
			return (first + i) % machine.cpus;
	}
	machine_broken("task %d may run nowhere", task->p.pid);
	return 0;
}

s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle)
{
	u32 i;

	(void)wake_flags;
	for (i = 0; i < machine.cpus; i++) {
		u32 cpu = (prev_cpu + i) % machine.cpus;

		*is_idle = may_run((struct machine_task *)p, cpu) && !machine.current[cpu];
		if (*is_idle)
			return cpu;
	}
	return prev_cpu;
}

void scx_bpf_kick_cpu(s32 cpu, u64 flags)
{
	if (!is_up(cpu) || (flags & SCX_KICK_IDLE && machine.current[cpu]))
		return;
	if (flags & SCX_KICK_PREEMPT && machine.current[cpu])
		machine.current[cpu]->p.scx.slice = 0;
	machine.kicked[cpu] = true;
}

void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq, u64 slice_ns, u64 flags)
{
	u32 cpu = (dsq & SCX_DSQ_LOCAL_ON) == SCX_DSQ_LOCAL_ON ? (u32)dsq : NIL;

	if (flags & SCX_ENQ_PREEMPT && machine.current[p->cpu]) {
		machine.current[p->cpu]->p.scx.slice = 0;
		machine.kicked[p->cpu] = true;
	}
	if (dsq == SCX_DSQ_GLOBAL || dsq == CROWD_QUEUE)
		machine_broken("task %d runs beside the policy", p->pid);
	if (machine.handed_count == HANDED)
		machine_broken("cpus are sent too many tasks");
	machine.handed[machine.handed_count++] =
		(struct handed) { (struct machine_task *)p, cpu, slice_ns };
}

void scx_bpf_dispatch_cancel(void)
{
	machine.handed_count--;
}

/* The tasks that the callback handed to cpus go there; those that were not in its custody do not. */
static bool hand_over(u32 own)
{
	bool any = machine.handed_count;
	u32 i;

	for (i = 0; i < machine.handed_count; i++) {
		struct handed *it = &machine.handed[i];
		u32 cpu = it->cpu == NIL ? own : it->cpu;

		if (it->task->place != IN_CUSTODY || machine.loses) {
			machine.loses = false;
			continue;
		}
		if (is_up(cpu) && cpu != it->task->p.cpu && !may_run(it->task, cpu))
			machine_broken("task %d must not run on cpu %u", it->task->p.pid, cpu);
		if (!is_up(cpu))
			cpu = fallback(it->task);
		it->task->place = LOCAL;
		it->task->order = machine.order++;
		it->task->p.cpu = cpu;
		it->task->p.scx.slice = it->slice_ns;
		machine.kicked[cpu] |= cpu != own || !machine.current[cpu];
	}
	machine.handed_count = 0;
	return any;
}

static void act_on(u32 cpu)
{
	machine.cpu = cpu;
}

static void hand_back(struct machine_task *task, u64 flags)
{
	task->place = IN_CUSTODY;
	task->since_ns = machine.now_ns;
	prorata_enqueue(&task->p, flags);
	hand_over(task->p.cpu);
	machine.kicked[task->p.cpu] |= !machine.current[task->p.cpu];
}

/* A task that runs nowhere is to run on a cpu of its own. */
static void migrate(struct machine_task *task)
{
	task->p.cpu = fallback(task);
	hand_back(task, 0);
}

static struct machine_task *next_local(u32 cpu)
{
	struct machine_task *first = NULL;
	u32 i;

	for (i = 0; i < machine.tasks; i++) {
		struct machine_task *task = &machine.task[i];

		if (task->place == LOCAL && task->p.cpu == cpu && (!first || task->order < first->order))
			first = task;
	}
	return first;
}

/* What runs on a cpu has run until now. */
static void run_until_now(struct machine_task *task)
{
	u64 ran_ns = machine.now_ns - task->p.se.exec_start;

	task->p.se.sum_exec_runtime += ran_ns;
	task->p.se.exec_start = machine.now_ns;
	task->p.scx.slice -= ran_ns < task->p.scx.slice ? ran_ns : task->p.scx.slice;
}

static void run(u32 cpu, struct machine_task *task)
{
	if (!may_run(task, cpu))
		machine_broken("task %d runs on cpu %u", task->p.pid, cpu);
	task->place = CURRENT;
	task->waited_ns += machine.now_ns - task->since_ns;
	task->p.cpu = cpu;
	task->p.se.exec_start = machine.now_ns;
	machine.current[cpu] = task;
}

/* The task that ran makes room for another, if there is one. */
static void make_way(struct machine_task *task, bool is_last)
{
	if (task->p.scx.slice) {
		task->since_ns = machine.now_ns;
		task->place = LOCAL;
		task->order = 0;
	} else {
		hand_back(task, is_last ? SCX_ENQ_LAST : 0);
	}
}

static void fall_asleep(struct machine_task *task)
{
	task->place = ASLEEP;
	task->p.scx.flags &= ~SCX_TASK_QUEUED;
	if (!machine.lasts && !below(LIVES))
		task->p.__state = TASK_DEAD;
	prorata_quiescent(&task->p, SCX_DEQ_SLEEP);
}

/* As the kernel's __schedule() for tasks of sched_ext. */
static void schedule(u32 cpu, bool sleeps)
{
	struct machine_task *prev = machine.current[cpu];
	bool stays;
	u32 i;

	act_on(cpu);
	machine.kicked[cpu] = false;
	if (prev) {
		run_until_now(prev);
		if (sleeps)
			fall_asleep(prev);
	}
	stays = prev && !sleeps;
	for (i = 0; i < TRIES && !next_local(cpu) && !(stays && prev->p.scx.slice); i++) {
		prorata_dispatch(cpu, prev ? &prev->p : NULL);
		if (!hand_over(cpu))
			break;
	}
	if (stays && !next_local(cpu) && prev->p.scx.slice)
		return;
	machine.current[cpu] = NULL;
	if (stays)
		make_way(prev, !next_local(cpu));
	if (next_local(cpu))
		run(cpu, next_local(cpu));
}

/* Cpus that were kicked schedule, until none is any more. */
static void follow_kicks(void)
{
	u32 cpu, round;
	bool any = true;

	for (round = 0; any; round++) {
		if (round == KICKS)
			machine_broken("cpus kick themselves or each other for ever");
		any = false;
		for (cpu = 0; cpu < machine.cpus; cpu++) {
			if (machine.kicked[cpu] && is_up(cpu)) {
				schedule(cpu, false);
				any = true;
			}
		}
	}
}

/* --- what happens ---------------------------------------------------------------------------- */

static void wake(struct machine_task *task)
{
	task->waited_ns = 0;
	act_on(task->p.cpu);
	task->p.cpu = prorata_select_cpu(&task->p, task->p.cpu, 0);
	task->p.cpu = fallback(task);
	task->p.scx.flags |= SCX_TASK_QUEUED;
	hand_back(task, SCX_ENQ_WAKEUP);
}

static void set_mask(struct machine_task *task, u64 mask)
{
	enum whereabouts place = task->place;
	u32 cpu = task->p.cpu;

	if (!(mask & machine.online.words[0]))
		mask = ALL;
	act_on(cpu);
	if (place == CURRENT)
		run_until_now(task);
	if (place != ASLEEP)
		prorata_quiescent(&task->p, 0);
	task->p.cpus_mask.words[0] = mask;
	task->p.nr_cpus_allowed = __builtin_popcountll(mask);
	prorata_set_cpumask(&task->p, &task->p.cpus_mask);
	if (place == LOCAL || place == IN_CUSTODY)
		hand_back(task, 0);
	if (place == ASLEEP || may_run(task, task->p.cpu))
		return;
	if (place == CURRENT) {
		machine.current[cpu] = NULL;
		machine.kicked[cpu] = true;
	}
	migrate(task);
}

static void change_mask(struct machine_task *task)
{
	switch (below(4)) {
	case 0: set_mask(task, ALL); break;
	case 1: set_mask(task, random_next(&machine.random) & ALL); break;
	default: set_mask(task, 1ULL << below(machine.cpus)); break;
	}
}

static void change_nice(struct machine_task *task)
{
	task->p.static_prio = PRIO_OF_NICE_MIN + below(NICE_LEVELS);
	act_on(task->p.cpu);
	prorata_set_weight(&task->p, 0);
}

static void begin_task(struct machine_task *task)
{
	struct scx_init_task_args args = {};

	memset(task, 0, sizeof(*task));
	task->p.pid = task->p.tgid = ++machine.pids;
	task->p.static_prio = PRIO_OF_NICE_MIN + below(NICE_LEVELS);
	task->p.cpus_mask.words[0] = ALL;
	task->p.cpus_ptr = &task->p.cpus_mask;
	task->p.nr_cpus_allowed = machine.cpus;
	task->p.cpu = fallback(task);
	act_on(task->p.cpu);
	if (prorata_init_task(&task->p, &args))
		machine_broken("a task cannot be made");
	prorata_enable(&task->p);
}

/* A task that sleeps ends, and another begins. */
static void replace_task(struct machine_task *task)
{
	struct scx_exit_task_args args = {};

	act_on(task->p.cpu);
	prorata_disable(&task->p);
	task->p.flags |= PF_EXITING;
	prorata_exit_task(&task->p, &args);
	begin_task(task);
}

static void go_down(u32 cpu)
{
	u64 online = machine.online.words[0] & ~(1ULL << cpu);
	u32 i;

	if (!online)
		return;
	act_on(ilog2(online));
	machine.online.words[0] = online;
	machine.going &= online;
	prorata_cpu_offline(cpu);
	/* What runs there may sleep before it is put elsewhere; the cpu is not asked any more. */
	if (machine.current[cpu] && !below(2)) {
		act_on(cpu);
		run_until_now(machine.current[cpu]);
		fall_asleep(machine.current[cpu]);
	}
	machine.kicked[cpu] = false;
	machine.current[cpu] = NULL;
	for (i = 0; i < machine.tasks; i++) {
		struct machine_task *task = &machine.task[i];
		bool is_there = task->p.cpu == cpu && (task->place == CURRENT || task->place == LOCAL);

		if (task->place == CURRENT && is_there)
			run_until_now(task);
		/* The kernel gives it others when none is left. */
		if (!(task->p.cpus_mask.words[0] & online))
			set_mask(task, 0);
		else if (is_there)
			migrate(task);
	}
}

static void come_up(u32 cpu)
{
	machine.online.words[0] |= 1ULL << cpu;
	act_on(cpu);
	prorata_cpu_online(cpu);
	machine.kicked[cpu] = true;
}

static void look_at_waits(void)
{
	u32 i;

	for (i = 0; i < machine.tasks; i++) {
		const struct machine_task *task = &machine.task[i];

		if (task->place == IN_CUSTODY && machine.now_ns - task->since_ns > LONGEST_WAIT_NS)
			machine_broken("task %d waits and waits", task->p.pid);
	}
}

/* The number of a mask is had by those who may need it only, and counted. */
static void look_at_masks(void)
{
	u32 refs[BOUND_MASKS] = {}, waiting[BOUND_MASKS] = {}, i;

	/* Some have ended, of which the policy has not been told. */
	for (i = 0; i < 3 * TASKS; i++) {
		const struct slot *slot = &slots[i];

		if (slot->bound.mask && slot->state <= TASK_BLOCKED && !slot->bound.competes)
			machine_broken("task %u sleeps, and keeps a mask", slot->pid);
		refs[slot->bound.mask]++;
		waiting[slot->bound.mask] += slot->state == TASK_WAITING;
	}
	for (i = 1; i < BOUND_MASKS; i++) {
		if (refs[i] != MASK(i)->refs || waiting[i] != MASK(i)->waiting)
			machine_broken("mask %u has %u tasks, and %u wait", i, refs[i], waiting[i]);
	}
}

/* Who went to sleep on a cpu that has gone is not left for its next decision. */
static void look_at_sleepers(void)
{
	u32 cpu;

	for (cpu = 0; cpu < machine.cpus; cpu++) {
		if (!is_up(cpu) && shared->cpu[cpu].blocked)
			machine_broken("slot %u slept on a cpu that has gone", shared->cpu[cpu].blocked - 1);
	}
}

static void step(void)
{
	struct machine_task *task = &machine.task[below(machine.tasks)];
	u32 cpu = below(machine.cpus);

	machine.now_ns += random_next(&machine.random) % (2 * quantum / machine.cpus);
	switch (below(64)) {
	case 0: is_up(cpu) ? go_down(cpu) : come_up(cpu); break;
	/* Or stay. */
	case 13: machine.going ^= machine.online.words[0] & 1ULL << cpu; break;
	case 1: change_mask(task); break;
	case 2: change_nice(task); break;
	case 3:
		if (task->place == ASLEEP)
			replace_task(task);
		break;
	case 4 ... 9:
		if (task->place != ASLEEP)
			break;
		task->p.__state ? replace_task(task) : wake(task);
		break;
	case 10 ... 12:
		if (is_up(cpu))
			schedule(cpu, true);
		break;
	default:
		if (is_up(cpu))
			schedule(cpu, false);
	}
	if (below(8))
		follow_kicks();
	look_at_waits();
	look_at_masks();
	look_at_sleepers();
}

/* --- cores ----------------------------------------------------------------------------------- */

/* Quanta in which hogs that share cores find others. */
#define QUANTA_TO_SETTLE 64

/* Half of four cpus or more share a cache, and the other half another; two cpus are a core. */
static void lay_out(void)
{
	u32 i;

	domains = machine.cpus < 4 ? 1 : 2;
	smt = machine.cpus >= 4;
	for (i = 0; i < machine.cpus; i++) {
		u32 domain = domains * i / machine.cpus, core = smt ? i & ~1u : i;

		domain_of_cpu[i] = domain;
		cpus_of_domain[domain]++;
		domain_cpus[domain][0] |= 1ULL << i;
		core_of_cpu[i] = core;
		cpus_of_core[core]++;
	}
}

/* Every cpu decides once more, a quantum later; tasks from `first` on go to sleep. */
static void next_quantum(u32 first)
{
	u32 cpu;

	machine.now_ns += quantum;
	for (cpu = 0; cpu < machine.cpus; cpu++) {
		const struct machine_task *current = machine.current[cpu];

		schedule(cpu, current && current >= &machine.task[first]);
	}
	follow_kicks();
}

/*
 * All cpus come, and as many hogs as there are cores, or fewer, are left: none shares one. The others, bound
 * to one cpu each, sleep, and the policy goes on serving them for a while, or until a cpu asks.
 */
static void look_at_cores(void)
{
	u32 hogs = machine.cpus / 2 < machine.tasks ? machine.cpus / 2 : machine.tasks, i;
	u64 cores = 0;

	if (!smt)
		return;
	machine.going = 0;
	for (i = 0; i < machine.cpus; i++) {
		if (!is_up(i))
			come_up(i);
	}
	follow_kicks();
	for (i = 0; i < machine.tasks; i++) {
		struct machine_task *task = &machine.task[i];

		if (i < hogs && task->place == ASLEEP) {
			if (task->p.__state)
				replace_task(task);
			wake(task);
		}
		set_mask(task, i < hogs ? ALL : 1ULL << i % machine.cpus);
	}
	for (i = 0; i < 8 * machine.tasks; i++)
		next_quantum(hogs);
	for (i = 0; i < QUANTA_TO_SETTLE; i++)
		next_quantum(machine.tasks);
	for (i = 0; i < machine.cpus; i++) {
		if (machine.current[i])
			cores |= 1ULL << core_of(i);
	}
	if (__builtin_popcountll(cores) != hogs)
		machine_broken("%u hogs are on %d cores", hogs, __builtin_popcountll(cores));
}

/* --- weights --------------------------------------------------------------------------------- */

#define HOGS 2
#define HOGS_NICE -2
#define BOUND_NICE 10

static u32 weight_of(struct machine_task *task)
{
	return nice_weight(&task->p);
}

static void begin_with_nice(struct machine_task *task, s32 nice)
{
	task->p.static_prio = PRIO_OF_NICE_MIN + 20 + nice;
	act_on(task->p.cpu);
	prorata_set_weight(&task->p, 0);
	wake(task);
}

/*
 * Half of the light tasks are bound to one cpu, so often, or all to one of three sets of cpus; one falls
 * asleep or wakes.
 */
#define HERD_QUANTA 20
#define HERDS 3
#define NAP_QUANTA 4
/* It is looked at so often, over so many looks. */
#define LOOK_QUANTA 200
#define LOOKS 10

static struct machine_task *light_task(void)
{
	return &machine.task[HOGS + below(machine.tasks - HOGS)];
}

static void bind_herd(void)
{
	u64 mask = 1ULL << below(machine.cpus);
	u32 i;

	for (i = HOGS; i < machine.tasks; i++) {
		if (below(2))
			set_mask(&machine.task[i], mask);
	}
}

static void bind_herds(void)
{
	u64 masks[HERDS];
	u32 i;

	for (i = 0; i < HERDS; i++)
		masks[i] = 1 + below(ALL);
	for (i = HOGS; i < machine.tasks; i++)
		set_mask(&machine.task[i], masks[i % HERDS]);
}

static void put_into(struct machine_task *task, u32 node)
{
	u32 id = kept_slot(&task->p);

	begin();
	move_to(id, node);
	unlock();
}

/* What somebody does with a cgroup of his own, at a time; with so many tasks, as threads of a process. */
#define ACTS 3
#define THREADS 12
#define LEAVES 4
#define LEAF_WEIGHTS 5

/* Below it, cgroups and the cpus that their tasks may have; where a task is, and what it is bound to. */
static struct {
	u32 leaf[LEAVES], in[TASKS];
	u64 cpus[LEAVES], own_cpus[TASKS];
} owned;

static void begin_owner(void)
{
	u32 of_hogs = add_cgroup(GROUP_ROOT, WEIGHT_OF_NICE_0, 1);
	u32 root = add_cgroup(GROUP_ROOT, 2 * WEIGHT_OF_NICE_0, 2), i;

	for (i = 0; i < LEAVES; i++) {
		owned.leaf[i] = add_cgroup(root, WEIGHT_OF_NICE_0, 3 + i);
		owned.cpus[i] = ALL;
	}
	for (i = 0; i < machine.tasks; i++) {
		owned.own_cpus[i] = ALL;
		put_into(&machine.task[i], i < HOGS ? of_hogs : owned.leaf[0]);
	}
}

static void bind_owned(u32 i)
{
	u64 cpus = owned.cpus[owned.in[i]], mask = owned.own_cpus[i] & cpus;

	set_mask(&machine.task[i], mask ? mask : cpus);
}

static void move_owned(u32 i, u32 leaf)
{
	struct machine_task *task = &machine.task[i];

	owned.in[i] = leaf;
	act_on(task->p.cpu);
	if (task->place == CURRENT)
		run_until_now(task);
	if (task->place != ASLEEP)
		prorata_quiescent(&task->p, 0);
	put_into(task, owned.leaf[leaf]);
	if (task->place == LOCAL || task->place == IN_CUSTODY)
		hand_back(task, 0);
	bind_owned(i);
}

/* A cgroup has another weight, and other cpus. */
static void change_leaf(u32 leaf)
{
	static const u32 weights[LEAF_WEIGHTS] = { 10, 100, 1000, 10000, 100000 };
	u32 i;

	begin();
	group_set_node_weight(owned.leaf[leaf], weights[below(LEAF_WEIGHTS)]);
	make_room_for(owned.leaf[leaf]);
	unlock();
	owned.cpus[leaf] = below(2) ? 1ULL << below(machine.cpus) | 1ULL << below(machine.cpus) : ALL;
	for (i = HOGS; i < machine.tasks; i++) {
		if (owned.in[i] == leaf)
			bind_owned(i);
	}
}

static void act_as_owner(void)
{
	u32 first = HOGS + below(machine.tasks - HOGS), end = first + 1 + below(THREADS), i;
	u32 leaf = below(LEAVES), kind = below(6);
	u64 mask = 1 + below(ALL);

	if (!kind)
		change_leaf(leaf);
	for (i = first; kind && i < end && i < machine.tasks; i++) {
		if (kind <= 2) {
			move_owned(i, leaf);
		} else {
			owned.own_cpus[i] = mask;
			bind_owned(i);
		}
	}
}

static void act_some_times(void)
{
	u32 i;

	for (i = 0; i < ACTS; i++)
		act_as_owner();
}

/* Who yields does so after so long, so many times at most, once in so many times that somebody could act. */
#define YIELD_NS 10000ULL
#define YIELDS 2000
#define YIELD_TIMES 20

static struct {
	u32 cpu, left;
} yields;

/* Others may not run on the cpu of those who yield, but for some. */
static void begin_to_yield(void)
{
	u32 others = HOGS + 1 + below(2), i;

	if (below(YIELD_TIMES))
		return;
	yields.cpu = below(machine.cpus);
	yields.left = below(YIELDS);
	for (i = HOGS; i < machine.tasks; i++) {
		u64 only = 1ULL << yields.cpu;

		owned.own_cpus[i] = i < others ? only : below(4) ? ALL & ~only : 1 + below(ALL);
		move_owned(i, i >= others);
	}
}

/* Time passes for all, but for a cpu where somebody yields. */
static void let_pass(u64 ns)
{
	u64 end_ns = machine.now_ns + ns;

	for (; yields.left && machine.now_ns + YIELD_NS < end_ns; yields.left--) {
		struct machine_task *current = machine.current[yields.cpu];

		if (!current || current < &machine.task[HOGS])
			break;
		machine.now_ns += YIELD_NS;
		act_on(yields.cpu);
		prorata_yield(&current->p, NULL);
		schedule(yields.cpu, false);
		follow_kicks();
	}
	machine.now_ns = end_ns;
}

static void nap_or_wake(struct machine_task *task)
{
	if (task->place == ASLEEP)
		wake(task);
	else if (task->place == CURRENT)
		schedule(task->p.cpu, true);
}

/* Cpus take turns to decide, each a quantum after it has. */
static void bind_for(u64 quanta, void (*bind)(void))
{
	u64 i;

	for (i = 0; i < quanta * machine.cpus; i++) {
		let_pass(quantum / machine.cpus);
		if (!(i % machine.cpus)) {
			if (!below(HERD_QUANTA))
				bind();
			if (!below(NAP_QUANTA))
				nap_or_wake(light_task());
		}
		schedule(i % machine.cpus, false);
		follow_kicks();
	}
}

static u64 received_until_now(struct machine_task *task)
{
	if (task->place == CURRENT)
		run_until_now(task);
	return task->p.se.sum_exec_runtime;
}

/* What was received in the last looks, of what was when. */
static u64 in_window(u64 received_ns[LOOKS], u64 look, u64 now_ns)
{
	u64 window_ns = now_ns - received_ns[look % LOOKS];

	received_ns[look % LOOKS] = now_ns;
	return window_ns;
}

/* Quanta that hogs, who are alike, are apart in since the last look. */
static u64 hogs_apart(u64 received_ns[HOGS])
{
	u64 since_ns[HOGS];
	u32 i;

	for (i = 0; i < HOGS; i++) {
		since_ns[i] = received_until_now(&machine.task[i]) - received_ns[i];
		received_ns[i] += since_ns[i];
	}
	return magnitude((s64)(since_ns[0] - since_ns[1])) / quantum;
}

/* Hogs are due what they weigh of the cpus, or half of a third of what all receive. */
static void look_at_weights(u64 quanta, void (*bind)(void), bool beside_owner)
{
	u64 hogs_ns[HOGS][LOOKS] = {}, all_ns[LOOKS] = {}, all_weight = 0, least = ~0ULL, look, due_ns;
	u64 looked_ns[HOGS] = {}, apart, furthest = 0;
	u32 i;

	machine.lasts = true;
	if (beside_owner)
		begin_owner();
	for (i = 0; i < machine.tasks; i++) {
		begin_with_nice(&machine.task[i], i < HOGS ? HOGS_NICE : BOUND_NICE);
		all_weight += weight_of(&machine.task[i]);
	}
	due_ns = LOOKS * LOOK_QUANTA * quantum * machine.cpus * weight_of(machine.task) / all_weight;
	for (look = 0; look < quanta / LOOK_QUANTA; look++) {
		u64 received_ns = 0;

		bind_for(LOOK_QUANTA, bind);
		for (i = 0; i < machine.tasks; i++)
			received_ns += received_until_now(&machine.task[i]);
		received_ns = in_window(all_ns, look, received_ns);
		apart = hogs_apart(looked_ns);
		if (look >= LOOKS && apart > furthest)
			furthest = apart;
		if (beside_owner)
			due_ns = received_ns / 3 / HOGS;
		for (i = 0; i < HOGS; i++) {
			u64 hog_ns = in_window(hogs_ns[i], look, received_until_now(&machine.task[i]));

			if (look >= LOOKS && hog_ns * 100 / due_ns < least)
				least = hog_ns * 100 / due_ns;
		}
	}
	printf("%" PRIu64 " %" PRIu64 "\n", least, furthest);
}

/* --- hogs that are bound, beside nappers ------------------------------------------------------- */

#define BOUND_CPU 1
#define SPAN_QUANTA 1000
/* Hogs have begun, and have used what they slept through. */
#define BEGUN_QUANTA 100
/* How long who naps runs, and sleeps, and how much longer it may be: among bound hogs, and in a cgroup. */
static const struct naps {
	u64 run_ns, run_more_ns, apart_ns, apart_more_ns;
} short_naps = { 20000, 200000, 1000000, 100000000 }, long_naps = { 1000000, 200000, 18000000, 4000000 },
  even_naps = { 3000000, 2000000, 3000000, 8000000 }, rare_naps = { 100000, 200000, 50000000, 900000000 },
  frequent_naps = { 50000, 100000, 2000000, 8000000 }, regular_naps = { 1000, 1, 7499000, 1 };

#define LATE_PART 4

/* A cgroup with hogs in it, and what each of them is due in a span, in thousandths. */
static const struct {
	u32 hogs, weight, due;
	bool bound;
} cgroups_with_hogs[] = {
	{ 3, 3 * WEIGHT_OF_NICE_0, 333, true },
	{ 2, WEIGHT_OF_NICE_0, 250, false },
	{ 4, WEIGHT_OF_NICE_0, 125, false },
};

static struct {
	u32 hogs;
	u64 due[TASKS], received_ns[TASKS];
	/* When a napper sleeps or wakes next, if it runs or sleeps. */
	u64 next_ns[TASKS];
	struct naps naps;
	/* Runs of nappers, and those that waited for long. */
	u64 runs, late;
	/* Cpus that idle look for something to run whenever something happens. */
	bool looks;
	/* The last task naps for less, and is in no cgroup. */
	bool has_loader;
	/* Processes come and go, in place of naps. */
	bool runs_script;
	/* Who yields his cpu, or nobody. */
	struct machine_task *giver;
	/* A cgroup that has another weight whenever somebody naps, and what it weighs; or nothing. */
	u32 swaying, weight;
	/* For how long cpus idled beside somebody who waits. */
	u64 idle_ns;
} scene;

static void begin_hogs(void)
{
	u32 i, hog;

	for (i = 0; i < sizeof(cgroups_with_hogs) / sizeof(*cgroups_with_hogs); i++) {
		u32 node = add_cgroup(GROUP_ROOT, cgroups_with_hogs[i].weight, i + 1);

		for (hog = 0; hog < cgroups_with_hogs[i].hogs; hog++) {
			struct machine_task *task = &machine.task[scene.hogs];

			put_into(task, node);
			set_mask(task, cgroups_with_hogs[i].bound ? 1 << BOUND_CPU : ALL);
			scene.due[scene.hogs++] = cgroups_with_hogs[i].due;
		}
	}
}

static bool is_loader(u32 task)
{
	return scene.has_loader && task == machine.tasks - 1;
}

static const struct naps *naps_of(u32 task)
{
	return is_loader(task) ? &frequent_naps : &scene.naps;
}

/* As who is about to nap writes cpu.weight. */
static void sway(void)
{
	scene.weight = scene.weight == WEIGHT_OF_NICE_0 ? 2 * WEIGHT_OF_NICE_0 : WEIGHT_OF_NICE_0;
	begin();
	group_set_node_weight(scene.swaying, scene.weight);
	unlock();
}

static void nap(struct machine_task *napper)
{
	u32 i = napper - machine.task;

	if (scene.swaying)
		sway();
	scene.next_ns[i] = machine.now_ns + naps_of(i)->apart_ns + below(naps_of(i)->apart_more_ns);
	scene.runs++;
	scene.late += napper->waited_ns > quantum / LATE_PART;
}

static bool somebody_waits_for(u32 cpu)
{
	u32 i;

	for (i = 0; i < machine.tasks; i++) {
		if (machine.task[i].place == IN_CUSTODY && may_run(&machine.task[i], cpu))
			return true;
	}
	return false;
}

static void move_on(u64 now_ns)
{
	u32 cpu;

	if (now_ns <= machine.now_ns)
		return;
	for (cpu = 0; cpu < machine.cpus; cpu++) {
		if (!machine.current[cpu] && somebody_waits_for(cpu))
			scene.idle_ns += now_ns - machine.now_ns;
	}
	machine.now_ns = now_ns;
}

/* The napper who wakes or sleeps next before a time, which becomes that; else NULL. */
static struct machine_task *next_napper(u64 *end_ns)
{
	struct machine_task *napper = NULL;
	u32 i;

	for (i = scene.hogs; i < machine.tasks; i++) {
		struct machine_task *task = &machine.task[i];
		u64 at_ns = scene.next_ns[i];

		if (task->place == CURRENT)
			at_ns = task->p.se.exec_start + naps_of(i)->run_ns + at_ns % naps_of(i)->run_more_ns;
		if ((task->place == CURRENT || task->place == ASLEEP) && at_ns < *end_ns) {
			*end_ns = at_ns;
			napper = task;
		}
	}
	return napper;
}

/* --- a script, which runs one process after the other ------------------------------------------ */

/* Who the tasks are: of cgroup x, of cgroup y, which is like it, and of another. */
enum { HOG_OF_X, HOG_OF_Y, SHELL, PROCESS, SCRIPT_HOGS };

#define SCRIPT_ACTS 4
/* An act lasts for up to a tenth longer. */
#define SCRIPT_SWAY 10

/* What the shell and its process do in turn, for so long. */
struct act {
	u32 who;
	bool sleeps;
	u64 lasts_ns;
};

static struct {
	struct act acts[SCRIPT_ACTS];
	u32 act, of_y;
	/* When the act ends: of the day if somebody sleeps, else of the time that he has run. */
	u64 end_ns;
	/* What processes that have ended received. */
	u64 ended_ns;
} script;

/* Who acts next before a time, which becomes that; else NULL. */
static struct machine_task *next_of_script(u64 *end_ns)
{
	struct machine_task *task = &machine.task[script.acts[script.act].who];
	u64 at_ns = script.end_ns;

	if (!script.acts[script.act].sleeps)
		at_ns = task->place == CURRENT ?
			task->p.se.exec_start + at_ns - task->p.se.sum_exec_runtime : ~0ULL;
	if (at_ns >= *end_ns)
		return NULL;
	*end_ns = at_ns;
	return task;
}

static void begin_act(u32 act)
{
	const struct machine_task *task = &machine.task[script.acts[act].who];
	u64 now_ns = script.acts[act].sleeps ? machine.now_ns : task->p.se.sum_exec_runtime;

	script.act = act;
	script.end_ns = now_ns + script.acts[act].lasts_ns + below(script.acts[act].lasts_ns / SCRIPT_SWAY + 1);
}

/* A shell, which runs, has a child that begins. */
static void fork_from(struct machine_task *shell, struct machine_task *process)
{
	run_until_now(shell);
	script.ended_ns += process->p.se.sum_exec_runtime;
	replace_task(process);
	put_into(process, script.of_y);
	process->p.static_prio = shell->p.static_prio;
	prorata_set_weight(&process->p, 0);
	process->p.cpu = shell->p.cpu;
	wake(process);
}

/* An act is over, and the next begins. */
static void go_on_with_script(struct machine_task *task)
{
	struct machine_task *shell = &machine.task[SHELL], *process = &machine.task[PROCESS];
	u32 next = (script.act + 1) % SCRIPT_ACTS;

	if (script.acts[script.act].sleeps) {
		wake(task);
	} else {
		if (task == shell)
			fork_from(shell, process);
		else if (!next)
			wake(shell);
		task->p.__state = !next ? TASK_DEAD : 0;
		schedule(task->p.cpu, true);
	}
	begin_act(next);
}

/* --- a cpu that is given up --------------------------------------------------------------------- */

/* Who the tasks are: two hogs, who gives up his cpu, light ones that have it then, and others. */
enum { GIVER = 2, LIGHT, OTHERS = LIGHT + 4 };

#define GIVEN_CPU 0
#define GIVES_NS 150000
#define GIVEN_QUANTA 400
/* The hogs' cgroup, and that of all others. */
#define KEEPERS_WEIGHT 460
#define GIVERS_WEIGHT 1000

/* The one who yields before a time, which becomes that; else NULL. */
static struct machine_task *next_giver(u64 *end_ns)
{
	struct machine_task *giver = scene.giver;

	if (!giver || giver->place != CURRENT || giver->p.se.exec_start + GIVES_NS >= *end_ns)
		return NULL;
	*end_ns = giver->p.se.exec_start + GIVES_NS;
	return giver;
}

static void give_up_cpu(struct machine_task *giver)
{
	act_on(giver->p.cpu);
	prorata_yield(&giver->p, NULL);
	schedule(giver->p.cpu, false);
}

/* --- what happens next ------------------------------------------------------------------------- */

/* Before a time: a slice ends, or somebody wakes or sleeps. False if nothing does. */
static bool happens_before(u64 end_ns)
{
	struct machine_task *actor, *giver;
	u32 cpu, ending = NIL;

	for (cpu = 0; cpu < machine.cpus; cpu++) {
		const struct machine_task *current = machine.current[cpu];

		if (current && current->p.se.exec_start + current->p.scx.slice < end_ns) {
			end_ns = current->p.se.exec_start + current->p.scx.slice;
			ending = cpu;
		}
	}
	actor = scene.runs_script ? next_of_script(&end_ns) : next_napper(&end_ns);
	giver = next_giver(&end_ns);
	move_on(end_ns);
	if (giver) {
		give_up_cpu(giver);
	} else if (actor && scene.runs_script) {
		go_on_with_script(actor);
	} else if (actor) {
		if (actor->place == CURRENT)
			nap(actor);
		nap_or_wake(actor);
	} else if (ending != NIL) {
		schedule(ending, false);
	}
	follow_kicks();
	return giver || actor || ending != NIL;
}

static void pass_quanta(u64 quanta)
{
	u64 end_ns = machine.now_ns + quanta * quantum;
	u32 cpu;

	while (happens_before(end_ns)) {
		for (cpu = 0; cpu < machine.cpus; cpu++) {
			if (scene.looks && !machine.current[cpu])
				schedule(cpu, false);
		}
	}
}

/* The furthest that a hog is off what it is due since the last look. */
static u64 furthest_hog(void)
{
	u64 furthest = 0;
	u32 i;

	for (i = 0; i < scene.hogs; i++) {
		u64 now_ns = received_until_now(&machine.task[i]);
		s64 error = (now_ns - scene.received_ns[i]) * 1000 / quantum - scene.due[i] * SPAN_QUANTA;

		scene.received_ns[i] = now_ns;
		if (magnitude(error) > furthest)
			furthest = magnitude(error);
	}
	return furthest;
}

/* The furthest that what some have received is off what is due in any span, in thousandths of a quantum. */
static u64 furthest_off(u64 quanta, u64 due_ns, u64 (*received_ns)(void))
{
	u64 furthest = 0, before_ns, look, error;

	pass_quanta(BEGUN_QUANTA);
	before_ns = received_ns();
	for (look = 0; look < quanta / SPAN_QUANTA; look++) {
		pass_quanta(SPAN_QUANTA);
		error = magnitude(received_ns() - before_ns - due_ns);
		before_ns = received_ns();
		if (error > furthest)
			furthest = error;
	}
	return furthest * 1000 / quantum;
}

/* Who naps has no more to come than is enough for anybody. */
static void look_at_nappers(void)
{
	u32 i;

	for (i = scene.hogs; i < machine.tasks; i++) {
		u64 quanta = slots[kept_slot(&machine.task[i].p)].paid_ns / quantum;

		if (quanta > paid_quanta())
			machine_broken("napper %u has %" PRIu64 " quanta to come", i, quanta);
	}
}

static void begin_scene(void)
{
	u32 i;

	machine.lasts = true;
	scene.naps = short_naps;
	begin_hogs();
	for (i = scene.hogs; i < machine.tasks; i++)
		set_mask(&machine.task[i], 1 << i % machine.cpus);
	for (i = 0; i < machine.tasks; i++)
		begin_with_nice(&machine.task[i], 0);
	follow_kicks();
	pass_quanta(BEGUN_QUANTA);
}

static void look_at_idle_cpus(u64 quanta)
{
	begin_scene();
	scene.idle_ns = 0;
	pass_quanta(quanta);
	printf("%" PRIu64 "\n", scene.idle_ns * 1000 / (quanta * quantum));
}

/* The furthest in any span of so many quanta. */
static u64 furthest_hog_within(u64 quanta)
{
	u64 furthest = 0, look, error;

	furthest_hog();
	for (look = 0; look < quanta / SPAN_QUANTA; look++) {
		pass_quanta(SPAN_QUANTA);
		look_at_nappers();
		error = furthest_hog();
		if (error > furthest)
			furthest = error;
	}
	return furthest;
}

static void look_at_bound_hogs(u64 quanta)
{
	u64 furthest;

	scene.looks = true;
	begin_scene();
	furthest = furthest_hog_within(quanta);
	printf("%" PRIu64 " %" PRIu64 "\n", furthest, 100 * scene.late / scene.runs);
}

/* --- hogs of different weights, some of them bound, beside who weighs the most ------------------- */

#define MOST_NICE -20

/* What each of them is due in a span, in thousandths. */
static const struct {
	u32 weight, due;
	bool bound;
} unlike_hogs[] = {
	{ 3, 500, true }, { 2, 333, true }, { 1, 167, true }, { 1, 500, false }, { 1, 500, false },
};

static void begin_unlike(void)
{
	u32 i;

	machine.lasts = scene.looks = true;
	scene.naps = rare_naps;
	scene.hogs = sizeof(unlike_hogs) / sizeof(*unlike_hogs);
	for (i = 0; i < machine.tasks; i++) {
		struct machine_task *task = &machine.task[i];

		set_mask(task, i < scene.hogs && unlike_hogs[i].bound ? 1 << BOUND_CPU : ALL);
		begin_with_nice(task, MOST_NICE);
		if (i < scene.hogs) {
			scene.due[i] = unlike_hogs[i].due;
			begin();
			choose_weight(&task->p, kept_slot(&task->p), unlike_hogs[i].weight, true);
			unlock();
		}
	}
	follow_kicks();
	pass_quanta(BEGUN_QUANTA);
}

static void look_at_unlike_hogs(u64 quanta)
{
	begin_unlike();
	printf("%" PRIu64 "\n", furthest_hog_within(quanta));
}

/* --- nappers in a cgroup of hogs ---------------------------------------------------------------- */

#define HOGS_WITH_NAPPERS 2
#define HOGS_ALONE 4

/*
 * Who of the cgroup with nappers is bound: nobody, each hog to a cpu, all to one, or nappers, then heavy; or
 * nobody, but perhaps the loader that there is beside.
 */
enum cgroup_is { FREE, PINNED, NARROW, HEAVY, LOADED, LOADED_HERE };
#define HEAVY_NICE -20

static bool is_alone(u32 task)
{
	return task >= HOGS_WITH_NAPPERS && task < scene.hogs;
}

static u64 mask_in_cgroup(u32 task, enum cgroup_is is)
{
	if (is == LOADED_HERE && is_loader(task))
		return 1;
	if (is == NARROW && !is_alone(task))
		return 1;
	if (is == HEAVY && task >= scene.hogs)
		return 1 << task % machine.cpus;
	return is == PINNED && task < HOGS_WITH_NAPPERS ? 1 << task : ALL;
}

static void begin_cgroups(enum cgroup_is is)
{
	u32 with_nappers = add_cgroup(GROUP_ROOT, WEIGHT_OF_NICE_0, 1);
	u32 alone = add_cgroup(GROUP_ROOT, (1 + (is == NARROW)) * WEIGHT_OF_NICE_0, 2), i;

	scene.looks = true;
	scene.hogs = HOGS_WITH_NAPPERS + HOGS_ALONE;
	for (i = 0; i < machine.tasks; i++) {
		put_into(&machine.task[i], is_loader(i) ? GROUP_ROOT : is_alone(i) ? alone : with_nappers);
		set_mask(&machine.task[i], mask_in_cgroup(i, is));
		begin_with_nice(&machine.task[i], (is == HEAVY && i >= scene.hogs) || is_loader(i) ? HEAVY_NICE : 0);
	}
	follow_kicks();
}

static u64 received_with_nappers(void)
{
	u64 received_ns = 0;
	u32 i;

	for (i = 0; i < machine.tasks; i++)
		received_ns += is_alone(i) || is_loader(i) ? 0 : received_until_now(&machine.task[i]);
	return received_ns;
}

static void look_at_cgroup(u64 quanta, enum cgroup_is is)
{
	u64 due_ns = SPAN_QUANTA * quantum * machine.cpus / (2 + (is == NARROW)), furthest;

	machine.lasts = true;
	scene.naps = is == HEAVY ? even_naps : long_naps;
	burst_quanta = 16;
	burst_quanta_of_cpu = 4;
	scene.has_loader = is == LOADED || is == LOADED_HERE;
	begin_cgroups(is);
	furthest = furthest_off(quanta, due_ns, received_with_nappers);
	printf("%" PRIu64 " %" PRIu64 "\n", furthest, 100 * scene.late / scene.runs);
}

/* Weights of the cgroups: of that of x and y, of x and y in it, and of the others. */
struct script_tree {
	u32 above, of_x, of_y, others;
};

static void begin_script(const struct script_tree *weights)
{
	u32 above = add_cgroup(GROUP_ROOT, weights->above, 1);
	u32 of_x = add_cgroup(above, weights->of_x, 2);
	u32 others = add_cgroup(GROUP_ROOT, weights->others, 3), i;

	script.of_y = add_cgroup(above, weights->of_y, 4);
	scene.looks = scene.runs_script = true;
	for (i = 0; i < machine.tasks; i++) {
		put_into(&machine.task[i], i == HOG_OF_X ? of_x : i < SCRIPT_HOGS ? script.of_y : others);
		if (i != PROCESS)
			begin_with_nice(&machine.task[i], 0);
	}
	follow_kicks();
	begin_act(0);
}

static u64 received_in_y(void)
{
	return received_until_now(&machine.task[HOG_OF_Y]) + received_until_now(&machine.task[SHELL]) +
	       received_until_now(&machine.task[PROCESS]) + script.ended_ns;
}

/* `what` is script, weights and microseconds, as it is said at the head of this file. */
static void look_at_script(u64 quanta, const char *what)
{
	struct script_tree weights;
	u64 due_ns = SPAN_QUANTA * quantum * machine.cpus, us[SCRIPT_ACTS];
	u32 i;

	if (sscanf(what, "script:%u,%u,%u,%u:%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",%" SCNu64, &weights.above,
		   &weights.of_x, &weights.of_y, &weights.others, &us[0], &us[1], &us[2], &us[3]) != 8)
		machine_broken("no script: %s", what);
	due_ns = due_ns * weights.above / (weights.above + weights.others);
	due_ns = due_ns * weights.of_y / (weights.of_x + weights.of_y);
	for (i = 0; i < SCRIPT_ACTS; i++)
		script.acts[i] = (struct act) { i ? PROCESS : SHELL, i == 2, us[i] * 1000 };
	machine.lasts = true;
	burst_quanta = 16;
	burst_quanta_of_cpu = 4;
	begin_script(&weights);
	printf("%" PRIu64, furthest_off(quanta, due_ns, received_in_y));
	printf(" %" PRIu64 "\n", received_in_y() * 1000 * SPAN_QUANTA / (due_ns * (BEGUN_QUANTA + quanta)));
}

/* --- hogs beside a cpu that is given up ---------------------------------------------------------- */

#define HEAVIEST_NICE -20
#define LIGHT_NICE 5

static u64 mask_beside_giver(u32 task)
{
	if (task >= GIVER && task < OTHERS)
		return 1 << GIVEN_CPU;
	return task < GIVER || below(2) ? ALL : ALL & ~(1 << GIVEN_CPU);
}

static s32 nice_beside_giver(u32 task)
{
	if (task == GIVER)
		return HEAVIEST_NICE;
	return task >= LIGHT && task < OTHERS ? LIGHT_NICE + (s32)(task - LIGHT) : 0;
}

static void begin_to_give(void)
{
	u32 keepers = add_cgroup(GROUP_ROOT, KEEPERS_WEIGHT, 1);
	u32 givers = add_cgroup(GROUP_ROOT, GIVERS_WEIGHT, 2), i;

	machine.lasts = scene.looks = true;
	scene.hogs = machine.tasks;
	scene.giver = &machine.task[GIVER];
	for (i = 0; i < machine.tasks; i++) {
		put_into(&machine.task[i], i < GIVER ? keepers : givers);
		set_mask(&machine.task[i], mask_beside_giver(i));
		begin_with_nice(&machine.task[i], nice_beside_giver(i));
	}
	follow_kicks();
	pass_quanta(GIVEN_QUANTA);
}

static void look_at_giver(u64 quanta)
{
	u64 due_ns = GIVEN_QUANTA * quantum * machine.cpus * KEEPERS_WEIGHT /
		     (KEEPERS_WEIGHT + GIVERS_WEIGHT) / GIVER;
	u64 least = ~0ULL, most = 0, look;
	u32 i;

	begin_to_give();
	for (look = 0; look < quanta / GIVEN_QUANTA; look++) {
		for (i = 0; i < GIVER; i++)
			scene.received_ns[i] = received_until_now(&machine.task[i]);
		pass_quanta(GIVEN_QUANTA);
		for (i = 0; i < GIVER; i++) {
			u64 ns = received_until_now(&machine.task[i]) - scene.received_ns[i];
			u64 share = ns * 1000 / due_ns;

			least = share < least ? share : least;
			most = share > most ? share : most;
		}
	}
	printf("%" PRIu64 " %" PRIu64 "\n", least, most);
}

/* --- a cgroup whose weight changes in the middle of quanta --------------------------------------- */

#define HOGS_BESIDE_SWAYING 2

static u64 received_in_swaying(void)
{
	u64 received_ns = 0;
	u32 i;

	for (i = HOGS_BESIDE_SWAYING; i < scene.hogs; i++)
		received_ns += received_until_now(&machine.task[i]);
	return received_ns;
}

static void look_at_swaying(u64 quanta)
{
	u32 steady = add_cgroup(GROUP_ROOT, WEIGHT_OF_NICE_0, 1), i;
	/* Two thirds, and half. */
	u64 due_ns = SPAN_QUANTA * quantum * machine.cpus * 7 / 12;

	machine.lasts = scene.looks = true;
	scene.naps = regular_naps;
	scene.weight = WEIGHT_OF_NICE_0;
	scene.swaying = add_cgroup(GROUP_ROOT, scene.weight, 2);
	scene.hogs = machine.tasks - 1;
	for (i = 0; i < machine.tasks; i++) {
		if (i < scene.hogs)
			put_into(&machine.task[i], i < HOGS_BESIDE_SWAYING ? steady : scene.swaying);
		begin_with_nice(&machine.task[i], 0);
	}
	follow_kicks();
	printf("%" PRIu64 "\n", furthest_off(quanta, due_ns, received_in_swaying));
}

/* --- a task that is picked, and does not come -------------------------------------------------- */

#define STEP_NS 1000000
#define LONGEST_LOSS_MS 1000

static void fire_timers(void)
{
	u32 cpu;

	for (cpu = 0; cpu < machine.cpus; cpu++) {
		struct slice_timer *this = bpf_map_lookup_elem(&slice_timers, &cpu);

		if (!this->timer.fires_ns || this->timer.fires_ns > machine.now_ns)
			continue;
		this->timer.fires_ns = 0;
		act_on(cpu);
		slice_timer_fires(&slice_timers, &cpu, this);
	}
}

static void look_at_lost(void)
{
	u32 ms;

	machine.lasts = machine.loses = true;
	begin_with_nice(machine.task, 0);
	follow_kicks();
	if (machine.loses || machine.task->place == CURRENT)
		machine_broken("nothing is lost");
	for (ms = 0; machine.task->place != CURRENT; ms++) {
		if (ms == LONGEST_LOSS_MS)
			machine_broken("a task that was lost is not found");
		machine.now_ns += STEP_NS;
		fire_timers();
		follow_kicks();
	}
	printf("%u\n", ms);
}

/* --- what the policy saw --------------------------------------------------------------------- */

static void print_number(const char *verb, u64 now_ns, u32 number)
{
	if (number == NIL || number == (u16)NIL)
		printf("%" PRIu64 " %s -\n", now_ns, verb);
	else
		printf("%" PRIu64 " %s %u\n", now_ns, verb, number);
}

static void print_credit(const char *verb, const struct event *it)
{
	printf("%" PRIu64 " %s %u %" PRIu64 "\n", it->now_ns, verb, it->task, it->value);
}

static void print_event(const struct event *it)
{
	u64 now = it->now_ns;

	switch (it->kind) {
	case EVENT_ADD: printf("%" PRIu64 " add %u %" PRIu64 " 0\n", now, it->task, it->value); break;
	case EVENT_REMOVE: print_number("remove", now, it->task); break;
	case EVENT_WEIGHT: printf("%" PRIu64 " weight %u %" PRIu64 "\n", now, it->task, it->value); break;
	case EVENT_WAKE: print_number("wake", now, it->task); break;
	case EVENT_BLOCK: print_number("block", now, it->task); break;
	case EVENT_ASIDE: print_number("aside", now, it->task); break;
	case EVENT_PICK:
		printf("%" PRIu64 " pick %u ", now, it->cpu);
		printf(it->task == NIL ? "-\n" : "%u\n", it->task);
		break;
	case EVENT_CHARGE:
		printf("%" PRIu64 " charge %u %" PRIu64 " %" PRIu64 "\n", now, it->task, it->value, it->extra);
		break;
	case EVENT_INTERRUPT: print_number("interrupt", now, it->cpu); break;
	case EVENT_ENDOW: print_credit("endow", it); break;
	case EVENT_TAKE: print_credit("take", it); break;
	case EVENT_RETIRE:
		printf("%" PRIu64 " retire %u %" PRId64 "\n", now, it->task, (s64)it->value);
		break;
	case EVENT_FORFEIT: print_credit("forfeit", it); break;
	case EVENT_AWAY:
		/* Who ran when cpus came or went is not known to the policy. */
		if (it->value != AWAY_CPUS)
			print_number("away", now, it->task);
		break;
	case EVENT_PASS: printf("%" PRIu64 " pass\n", now); break;
	case EVENT_FORGO: print_credit("forgo", it); break;
	case EVENT_LEAVE: print_credit("leave", it); break;
	case EVENT_KEEP: print_credit("keep", it); break;
	case EVENT_LENGTHEN:
		printf("%" PRIu64 " lengthen %u %" PRIu64 " %" PRIu64 "\n", now, it->task, it->value, it->extra);
		break;
	case EVENT_CPUS: printf("%" PRIu64 " cpus %" PRIu64 "\n", now, it->value); break;
	}
}

static void print_events(void)
{
	u64 i;

	if (shared->recorded > RECORD_EVENTS)
		machine_broken("too many steps");
	for (i = 0; i < shared->recorded; i++)
		print_event(&events[i]);
}

/* All tasks begin in a cgroup, which is all that the kernel knows of here. */
static void make_cgroup(void)
{
	u64 number = number_of(NULL);

	*(u32 *)bpf_map_lookup_elem(&cgroup_nodes, &number) =
		add_cgroup(GROUP_ROOT, WEIGHT_OF_NICE_0, number);
}

int main(int count, char **arguments)
{
	u64 i, steps;

	if (count < 6 || count > 8)
		return 2;
	sleepers = atoi(arguments[1]);
	machine.cpus = cpus_end = cpus_possible = atoi(arguments[2]);
	lay_out();
	machine.tasks = atoi(arguments[3]);
	steps = atoll(arguments[4]);
	machine.random = atoll(arguments[5]);
	if (!machine.cpus || machine.cpus > CPUS || !machine.tasks || machine.tasks > TASKS)
		return 2;
	machine.online.words[0] = ALL;
	recording = true;
	/* GDQ's. */
	policy_options[0] = policy_options[1] = 1;
	rescue_ns = count > 6 ? LONGEST_WAIT_NS : RESCUE_NS;
	if (prorata_init())
		machine_broken("the scheduler cannot begin");
	if (machine.random & 2)
		make_cgroup();
	for (i = 0; i < machine.tasks; i++)
		begin_task(&machine.task[i]);
	if (count > 6) {
		recording = count == 8;
		if (!strcmp(arguments[6], "bind"))
			look_at_weights(steps, bind_herd, false);
		else if (!strcmp(arguments[6], "masks"))
			look_at_weights(steps, bind_herds, false);
		else if (!strcmp(arguments[6], "owner"))
			look_at_weights(steps, act_some_times, true);
		else if (!strcmp(arguments[6], "yields"))
			look_at_weights(steps, begin_to_yield, true);
		else if (!strcmp(arguments[6], "unlike"))
			look_at_unlike_hogs(steps);
		else if (!strcmp(arguments[6], "within"))
			look_at_cgroup(steps, FREE);
		else if (!strcmp(arguments[6], "loaded"))
			look_at_cgroup(steps, LOADED);
		else if (!strcmp(arguments[6], "loaded-here"))
			look_at_cgroup(steps, LOADED_HERE);
		else if (!strcmp(arguments[6], "pinned"))
			look_at_cgroup(steps, PINNED);
		else if (!strcmp(arguments[6], "narrow"))
			look_at_cgroup(steps, NARROW);
		else if (!strcmp(arguments[6], "heavy"))
			look_at_cgroup(steps, HEAVY);
		else if (!strcmp(arguments[6], "lost"))
			look_at_lost();
		else if (!strncmp(arguments[6], "script", strlen("script")))
			look_at_script(steps, arguments[6]);
		else if (!strcmp(arguments[6], "gives"))
			look_at_giver(steps);
		else if (!strcmp(arguments[6], "sways"))
			look_at_swaying(steps);
		else if (!strcmp(arguments[6], "idle"))
			look_at_idle_cpus(steps);
		else
			look_at_bound_hogs(steps);
		print_events();
		return 0;
	}
	for (i = 0; i < steps; i++)
		step();
	look_at_cores();
	if (shared->stats.most_choices > LONGEST_PICK)
		machine_broken("a pick took long");
	print_events();
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A policy header without a kernel, with turns.h before it: reads calls from stdin, one a line, and
 * prints every decision.
 *
 *   o INDEX VALUE          policy_option, before all others
 *   u 1, u 2               tasks that sleep use their turns; turns are corrected; before all others but that
 *   i CPUS QUANTUM_NS      init, before all others but these
 *   a TASK WEIGHT          add          r TASK           remove
 *   s TASK WEIGHT          set_weight   w TASK           wake
 *   b TASK                 block        j TASK           stand aside
 *   c TASK USED_NS RAN_NS  charge, and how long it ran
 *   p CPU                  pick: prints the task, or -1, and how long it may run, or 0
 *   x 0                    interrupt: prints the cpu, or -1, and 0
 *   e TASK NS              endow        d TASK NS        take credit: prints how much, and 0
 *   q TASK                 retire: prints what it leaves, and 0; f TASK, forfeit: its credit
 *   k TASK KEPT            keep           n 0               pass
 *   l TASK                 take lapsed: prints how much, and 0
 *   m TASK NS              lengthen its turn if a whole run uses it up: prints by how much, and 0
 *   h CPUS                 cpus come or go: all tasks are forgotten
 *   t NOW_NS               the time of the calls that follow
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

#include "../src/bpf/policy.h"
#include "../src/bpf/turn.h"

static u64 replay_now_ns, replay_quantum_ns;
static u32 replay_options[POLICY_OPTIONS];
static u32 replay_sleepers = SLEEPERS_PAPER;

static inline u64 now_ns(void) { return replay_now_ns; }
static inline u64 quantum_ns(void) { return replay_quantum_ns; }
static inline bool uses_turns(void) { return replay_sleepers != SLEEPERS_PAPER; }
static inline bool corrects_turns(void) { return replay_sleepers == SLEEPERS_CORRECTED; }
static inline void turns_left(u32 task) { (void)task; }
static inline void turns_joined(u32 task) { (void)task; }
static inline void turns_charged(u32 task, u64 ns) { (void)task, (void)ns; }
static inline void turns_gained(u32 task, u64 ns) { (void)task, (void)ns; }
static inline void turns_spent(u32 task, u64 ns) { (void)task, (void)ns; }
static inline u32 policy_option(u32 index) { return replay_options[index]; }

/* For a policy that several cpus call: the one that the policy has heard of last, and nobody to kick. */
static u32 replay_cpu, replay_runs_on[POLICY_TASKS];
static inline u32 policy_cpu(void) { return replay_cpu; }
static inline void policy_kick(u32 cpu) { (void)cpu; }

#define TASK(id) (&replay_tasks[id])
#define STATE (&replay_state)
#define POLICY_MEMORY \
	static struct policy_task replay_tasks[POLICY_TASKS]; \
	static struct policy_state replay_state;

#include POLICY_HEADER

static u32 replay_pick(u32 cpu)
{
	u32 task;

	replay_cpu = cpu;
	task = policy_pick(cpu);
	if (task != NIL)
		replay_runs_on[task] = cpu;
	return task;
}

static u32 replay_charge(u32 task, u64 used_ns)
{
	replay_cpu = replay_runs_on[task];
	return policy_charge(task, used_ns);
}

#define policy_pick replay_pick
#define policy_charge replay_charge

static struct turn replay_turn[POLICY_TASKS];
static struct turns replay_turns_state;
#define TURN(id) (&replay_turn[id])
#define TURNS (&replay_turns_state)
#define ONLINE (&replay_online)
#define ONLINE_MEMORY static struct online replay_online;
#define CORRECTED (&replay_corrected)
#define CORRECTED_MEMORY static struct corrected replay_corrected;

#include "../src/bpf/turns.h"
#include "../src/bpf/restart.h"

static bool replay_was_known[POLICY_TASKS];

static void change_cpus(u32 cpus)
{
	u32 task;

	replay_cpu = 0;
	turns_restart(cpus);
	for (task = 0; task < POLICY_TASKS; task++) {
		if (replay_was_known[task])
			turns_forget(task);
		replay_was_known[task] = false;
	}
}

static void print(u32 number, u64 run_ns)
{
	printf("%" PRId64 " %" PRIu64 "\n", number == NIL ? -1 : (int64_t)number, run_ns);
}

/* Of turns that tasks keep; or what they are behind. */
static void move_credit(char verb, u32 task, u64 ns)
{
	s64 taken_ns;

	if (verb == 'e') {
		turns_endow(task, ns);
		return;
	}
	if (verb == 'q')
		taken_ns = turns_retire(task);
	else
		taken_ns = verb == 'd' ? turns_take(task, ns) : turns_forfeit(task);
	printf("%" PRId64 " 0\n", taken_ns);
}

/* By 0 if it does not go on, or not end. */
static void lengthen(u32 task, u64 used_ns, u64 by_ns)
{
	if (!turns_uses_up(task, used_ns) || !turns_lengthen(task, used_ns, by_ns))
		by_ns = 0;
	printf("%" PRIu64 " 0\n", by_ns);
}

/* True if the framework would have a cpu pick at once: it has stopped for a task that is ready. */
static bool is_known(u32 cpu)
{
	u32 ready = TURNS->ready.first;

	return uses_turns() && turn_cpu(cpu)->stopping && ready != NIL && turns_is_next(cpu, ready);
}

static void call(char verb, u64 first, u64 second, u64 third)
{
	u32 task = (u32)first, picked;

	switch (verb) {
	case 'o':
		if (first < POLICY_OPTIONS)
			replay_options[first] = (u32)second;
		break;
	case 'i':
		replay_quantum_ns = second;
		turns_init((u32)first);
		break;
	case 'u': replay_sleepers = (u32)first; break;
	case 'a':
		replay_was_known[task] = true;
		turns_add(task, (u32)second);
		break;
	case 'r': turns_remove(task); break;
	case 'h': change_cpus((u32)first); break;
	case 's': turns_set_weight(task, (u32)second); break;
	case 'w': turns_wake(task); break;
	case 'b': turns_block(task); break;
	case 'j': turns_stand_aside(task); break;
	case 'c': turns_charge(task, second, third); break;
	case 't': replay_now_ns = first; break;
	case 'p':
		picked = is_known(task) ? turns_pick_ready(task) : turns_pick(task);
		print(picked, picked == NIL ? 0 : turns_run_ns(picked));
		break;
	case 'x': print(turns_interrupt(), 0); break;
	case 'k': turns_keep(task, second); break;
	case 'n':
		if (turns_may_pass())
			turns_pass();
		break;
	case 'm': lengthen(task, turns_run_ns(task), second); break;
	case 'l': printf("%" PRIu64 " 0\n", turns_take_lapsed(task)); break;
	case 'e': case 'd': case 'q': case 'f': move_credit(verb, task, second); break;
	default:
		fprintf(stderr, "no call '%c'\n", verb);
		exit(2);
	}
}

int main(void)
{
	char verb;
	u64 first, second, third;

	for (;;) {
		char line[80];

		if (!fgets(line, sizeof(line), stdin))
			break;
		second = third = 0;
		if (sscanf(line, "%c %" SCNu64 " %" SCNu64 " %" SCNu64, &verb, &first, &second, &third) < 2) {
			fprintf(stderr, "not a call: %s", line);
			return 2;
		}
		call(verb, first, second, third);
	}
	/* Used by policies that show their work; silences the compiler for those that do not. */
	fprintf(stderr, "choices %" PRIu64 "\n", STATE->counts.choices);
	(void)now_ns;
	(void)quantum_ns;
	(void)policy_option;
	return 0;
}

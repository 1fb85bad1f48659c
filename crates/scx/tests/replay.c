/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A policy header without a kernel: reads calls from stdin, one a line, and prints every decision.
 *
 *   o INDEX VALUE          policy_option, before all others
 *   i CPUS QUANTUM_NS      policy_init, before all others but that
 *   a TASK WEIGHT          policy_add          r TASK   policy_remove
 *   s TASK WEIGHT          policy_set_weight   w TASK   policy_wake
 *   b TASK                 policy_block        c TASK USED_NS   policy_charge
 *   p CPU                  policy_pick: prints the task, or -1
 *   t NOW_NS               the time of the calls that follow
 */
#include <inttypes.h>
#include <stdio.h>

#include "../src/bpf/policy.h"

static u64 replay_now_ns, replay_quantum_ns;
static u32 replay_options[POLICY_OPTIONS];

static inline u64 now_ns(void) { return replay_now_ns; }
static inline u64 quantum_ns(void) { return replay_quantum_ns; }
static inline u32 policy_option(u32 index) { return replay_options[index]; }

#define TASK(id) (&replay_tasks[id])
#define STATE (&replay_state)
#define POLICY_MEMORY \
	static struct policy_task replay_tasks[POLICY_TASKS]; \
	static struct policy_state replay_state;

#include POLICY_HEADER

static void call(char verb, u64 first, u64 second)
{
	u32 task = (u32)first, picked;

	switch (verb) {
	case 'o':
		if (first < POLICY_OPTIONS)
			replay_options[first] = (u32)second;
		break;
	case 'i':
		replay_quantum_ns = second;
		policy_init((u32)first);
		break;
	case 'a': policy_add(task, (u32)second); break;
	case 'r': policy_remove(task); break;
	case 's': policy_set_weight(task, (u32)second); break;
	case 'w': policy_wake(task); break;
	case 'b': policy_block(task); break;
	case 'c': policy_charge(task, second); break;
	case 't': replay_now_ns = first; break;
	case 'p':
		picked = policy_pick(task);
		printf("%" PRId64 "\n", picked == NIL ? -1 : (int64_t)picked);
		break;
	default:
		fprintf(stderr, "no call '%c'\n", verb);
		exit(2);
	}
}

int main(void)
{
	char verb;
	u64 first, second;

	for (;;) {
		char line[80];

		if (!fgets(line, sizeof(line), stdin))
			break;
		second = 0;
		if (sscanf(line, "%c %" SCNu64 " %" SCNu64, &verb, &first, &second) < 2) {
			fprintf(stderr, "not a call: %s", line);
			return 2;
		}
		call(verb, first, second);
	}
	/* Used by policies that show their work; silences the compiler for those that do not. */
	fprintf(stderr, "choices %" PRIu64 "\n", STATE->counts.choices);
	(void)now_ns;
	(void)quantum_ns;
	(void)policy_option;
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/* Steps (step.h) of threads, each of which is a cpu, printed as the loader writes them; kinds as numbers. */
#ifndef STEPS_H
#define STEPS_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../src/bpf/policy.h"
#include "../src/bpf/step.h"

#define RECORDS_STEPS true

static u32 policy_cpu(void);

static struct step *steps_of[POLICY_CPUS];
static u64 steps_count[POLICY_CPUS];

static struct step *step_begin(u32 cpu)
{
	u64 count = steps_count[cpu];

	/* Room for twice as many. */
	if (!(count & (count - 1)))
		steps_of[cpu] = realloc(steps_of[cpu], (2 * count + 1) * sizeof(struct step));
	if (!steps_of[cpu])
		abort();
	return &steps_of[cpu][count];
}

static void step_end(void)
{
	steps_count[policy_cpu()]++;
}

static void print_latch(u32 latch, u32 count)
{
	static const char *const names[] = { "", "q", "g", "s" };
	u32 number = latch & ~LATCH_KIND;

	if (latch == LATCH_SHARES)
		printf(" s:%u", count);
	else if (latch)
		printf(" %s%u:%u", names[latch / LATCH_QUEUE], number, count);
}

static void print_step(const struct step *step)
{
	printf("%" PRIu64 " %u %u ", step->now_ns, step->kind, step->cpu);
	if (step->task == NIL)
		printf("-");
	else
		printf("%u", step->task);
	printf(" %" PRIu64 " %" PRIu64 " %u", step->value, step->extra, step->count);
	print_latch(step->latches[0], step->latch_counts[0]);
	print_latch(step->latches[1], step->latch_counts[1]);
	printf("\n");
}

static void print_steps(void)
{
	u64 cpu, i;

	for (cpu = 0; cpu < POLICY_CPUS; cpu++) {
		for (i = 0; i < steps_count[cpu]; i++)
			print_step(&steps_of[cpu][i]);
	}
}

#endif

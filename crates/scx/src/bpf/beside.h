/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What runs beside the policy, and its budget.
 *
 * Kernel threads and our loader serve everybody: when they wake they do not queue, since a task that
 * comes and goes fifty times a second disturbs the shares of a few others. They take the cpu away where
 * that does the least harm, from the lightest task: others make up for it later, but not a task that is
 * entitled to a whole cpu.
 *
 * But nobody shall wait for them for long. On each cpu they may run for a quarter of the time, and for
 * 50 ms at once:
 *
 *   0 ms      a thread wakes: 50 ms are left         it runs
 *   30 ms     it sleeps: 20 ms are left
 *   34 ms     it wakes: 21 ms are left               it runs
 *   74 ms     it sleeps: -9 ms are left
 *   78 ms     it wakes: -8 ms are left               it waits for its turn, as a task of its weight
 *
 * One that runs on and on, until its slice is over, does queue.
 *
 * What is kept of a cpu is touched with its run queue locked only, and needs no other lock.
 */
#ifndef PRORATA_BESIDE_H
#define PRORATA_BESIDE_H

#define BESIDE_PART 4
#define BESIDE_MOST_NS 50000000LL

static bool serves_everybody(const struct task_struct *p)
{
	return (p->flags & PF_KTHREAD) || p->tgid == loader;
}

/* What may still be run beside the policy on a cpu. */
static s64 beside_left_ns(struct cpu_state __arena *cpu, u64 now)
{
	u64 since_ns = now > cpu->beside_at_ns ? now - cpu->beside_at_ns : 0;
	s64 left_ns = cpu->beside_left_ns;

	cpu->beside_at_ns = now;
	if (since_ns > BESIDE_PART * BESIDE_MOST_NS * 2)
		left_ns = BESIDE_MOST_NS;
	else
		left_ns += since_ns / BESIDE_PART;
	cpu->beside_left_ns = left_ns < BESIDE_MOST_NS ? left_ns : BESIDE_MOST_NS;
	return cpu->beside_left_ns;
}

/* True if a task that wakes goes beside the policy. */
static bool begin_beside(struct task_struct *p, u32 id, u32 home, u64 now)
{
	if (beside_left_ns(CPU_STATE(home), now) <= 0) {
		__sync_fetch_and_add(&STATS(home)->over_budget, id != NIL);
		return id == NIL;
	}
	if (id != NIL)
		slots[id].exec_ns = p->se.sum_exec_runtime;
	__sync_fetch_and_add(&STATS(home)->bypassed, 1);
	return true;
}

/* It has run until now, when its run time is exec_ns. */
static void end_beside(u32 id, u32 home, u64 now, u64 exec_ns)
{
	u64 used_ns = exec_ns - slots[id].exec_ns;

	slots[id].exec_ns = exec_ns;
	beside_left_ns(CPU_STATE(home), now);
	CPU_STATE(home)->beside_left_ns -= used_ns;
	__sync_fetch_and_add(&STATS(home)->beside_ns, used_ns);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Cores of several cpus, and tasks that do not share one while another core idles.
 *
 * Which core a task that wakes goes to the kernel says, but then any cpu that asks may have it; and tasks
 * that shared a core while there was nothing better go on there when others end. So a cpu whose task's
 * quantum is over, whose sibling is busy, and beside which nobody waits, leaves its seat (paid.h), and with
 * it the task, to a core that idles:
 *
 *   cpus 0, 1: a core        a runs on 0, b on 1
 *   cpus 2, 3: another       both idle
 *   cpu 0                    a's quantum is over: its seat becomes cpu 2's, which is woken; it idles itself
 *   cpu 2                    the policy picks a, in the seat where it was
 *
 * Where no core has several cpus, nothing of this is verified. Known limits: a cpu that was offline when the
 * scheduler was loaded is taken for a core. Tasks with a mask stay where they are.
 */
#ifndef PRORATA_SIBLINGS_H
#define PRORATA_SIBLINGS_H

static __always_inline u32 core_of(u32 cpu)
{
	return core_of_cpu[cpu & (MAX_CPUS - 1)] & (MAX_CPUS - 1);
}

/* A cpu begins to idle, or ends it. */
static __always_inline void note_core(u32 cpu, bool idle)
{
	u32 core = core_of(cpu);
	u64 bit = 1ULL << (core & 63);

	shared->idle_of_core[core] += idle ? 1 : -1;
	if (shared->idle_of_core[core] == cpus_of_core[core])
		shared->idle_cores[core / 64] |= bit;
	else
		shared->idle_cores[core / 64] &= ~bit;
}

/* True if a cpu's whole core idles. */
static __always_inline bool core_idles(u32 cpu)
{
	u32 core = core_of(cpu);

	return shared->idle_of_core[core] == cpus_of_core[core];
}

/* True if another cpu of its core does not idle, besides this one. */
static __always_inline bool shares_core(u32 cpu)
{
	u32 core = core_of(cpu);

	return shared->idle_of_core[core] + 1 < cpus_of_core[core];
}

/* The first cpu of an idle core, of the same domain if there is one; NIL if there is none. */
global_fn u32 find_idle_core(u32 home)
{
	u32 word, far = NIL;

	bpf_for(word, 0, (cpus_end + 63) / 64) {
		u64 bits = shared->idle_cores[word & 7] & MASK(0)->cpus[word & (BOUND_WORDS - 1)];
		u64 near = bits & domain_cpus[domain_of(home)][word & 7];

		if (near)
			return word * 64 + ilog2(near);
		if (bits)
			far = word * 64 + ilog2(bits);
	}
	return far;
}

/*
 * The task that has just had its quantum on a cpu waits, and nobody else does: it leaves for a core that
 * idles. False if it stays.
 */
static __always_inline bool leaves_core(u32 cpu, const struct slot __arena *slot)
{
	u32 other;

	if (slot->state != TASK_WAITING || slot->bound.mask || slot->confined || slot->blocked_on)
		return false;
	/* One waits, and nobody else. */
	if (shared->oldest == NIL || shared->oldest != shared->newest)
		return false;
	if (shared->cpu[cpu & (MAX_CPUS - 1)].away || shared->idlers || !shares_core(cpu))
		return false;
	other = find_idle_core(cpu);
	if (other == NIL || shared->cpu[other & (MAX_CPUS - 1)].task != NIL)
		return false;
	exchange_seats(cpu, other);
	shared->left_for[cpu & (MAX_CPUS - 1)] = other + 1;
	shared->core_moves++;
	return true;
}

/* True, once, if the task that ran on a cpu has left it for a core that idles. */
static __always_inline bool was_left(u32 cpu)
{
	bool left = smt && shared->left_for[cpu & (MAX_CPUS - 1)];

	if (left)
		shared->left_for[cpu & (MAX_CPUS - 1)] = 0;
	return left;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The scheduler's lock: a queue, in which each cpu waits at a word of its own (Mellor-Crummey and
 * Scott, 1991). First come, first served.
 *
 *   cpu 2 holds it, cpu 0 and then cpu 1 wait:
 *
 *   tail = cpu 1     node 2.next = 0, node 0.next = 1: each knows who comes next
 *
 *   cpu 2 unlocks: it sets node 0.granted, where nobody but cpu 0 looks
 *   cpu 1 unlocks with nobody behind: tail goes from 1 to none, unless somebody has come meanwhile
 *
 * A cpu that does not wait touches the tail only, twice: outside, its node is all zero.
 *
 * The kernel has a spin lock for BPF programs, but a program that holds it must not call a global
 * function, and its library has one like ours, which cannot be compiled natively: there the policies
 * run under it in threads (tests/threads.c). Global functions are what keeps verification fast: the
 * verifier looks at each of them once, and at everything else once for every way that leads there.
 *
 * Ordering: an atomic operation that returns the old value is a full barrier in BPF, on every
 * machine. A waiter passes one when it takes back what was granted; so does who grants it.
 *
 * Nobody ever enters without the lock. A cpu that has waited for about a minute ends the scheduler;
 * lock() fails there and, from then on, everywhere: the callback does nothing, and the kernel takes
 * all tasks back.
 *
 * Whoever holds it has interrupts off: nearly all callbacks are called with the run queue locked,
 * so they are off already; the others turn them off. So a cpu needs one node.
 *
 * Known limit: a virtual cpu that the hypervisor stops while it waits stops those behind it.
 *
 * tests/lock_model.rs tries all ways in which three cpus can meet here.
 */
#ifndef PRORATA_LOCK_H
#define PRORATA_LOCK_H

#include "word.h"

#ifdef __bpf__
static u32 this_cpu(void)
{
	return bpf_get_smp_processor_id();
}
#endif

/* More than any kernel has, since a cpu that we have no room for comes here before we are unloaded for it. */
#define LOCK_CPUS 8192

/* Cpus are their numbers plus 1; 0 is none. */
struct lock_node {
	/* Who waits behind this cpu. */
	u32 next;
	/* The cpu before has unlocked. */
	u32 granted;
} __attribute__((aligned(64)));

static struct lock_node lock_nodes[LOCK_CPUS];

static struct {
	/* Who came last. */
	u32 tail;
	/* Somebody has waited in vain; the tail is never 0 again, since it is still in the queue. */
	u32 broken;
} lock_word __attribute__((aligned(64)));

static __always_inline struct lock_node *lock_node(u32 cpu)
{
	return &lock_nodes[cpu & (LOCK_CPUS - 1)];
}

/* The end of all locking. */
static void lock_fails(void)
{
	if (!word_exchange(&lock_word.broken, 1))
		scx_bpf_error("the scheduler's lock does not come free");
}

/* Waits behind another cpu. False if the lock does not come free. */
policy_fn u32 lock_wait(u32 cpu, u32 before)
{
	struct lock_node *node = lock_node(cpu);
	u32 round, spin;

	word_put(&lock_node(before)->next, cpu + 1);
	bpf_for(round, 0, LOCK_ROUNDS) {
		if (word_look(&lock_word.broken))
			return false;
		bpf_for(spin, 0, LOCK_SPINS) {
			if (word_look(&node->granted)) {
				word_exchange(&node->granted, 0);
				return true;
			}
			relax();
		}
	}
	lock_fails();
	return false;
}

/* Hands the lock to who waits behind this cpu, and may not have said so yet. */
policy_fn u32 lock_pass(u32 cpu)
{
	struct lock_node *node = lock_node(cpu);
	u32 round, spin, next;

	bpf_for(round, 0, LOCK_ROUNDS) {
		bpf_for(spin, 0, LOCK_SPINS) {
			next = word_look(&node->next);
			if (next) {
				word_put(&node->next, 0);
				word_exchange(&lock_node(next - 1)->granted, 1);
				return 0;
			}
			relax();
		}
		if (word_look(&lock_word.broken))
			return 0;
	}
	lock_fails();
	return 0;
}

/* False if the scheduler is at its end: nothing may be touched then. */
static __always_inline bool lock(void)
{
	u32 cpu = this_cpu(), before = word_exchange(&lock_word.tail, cpu + 1);

	return !before || lock_wait(cpu, before - 1);
}

static __always_inline void unlock(void)
{
	u32 cpu = this_cpu();

	if (!word_replace(&lock_word.tail, cpu + 1, 0))
		lock_pass(cpu);
}

#endif

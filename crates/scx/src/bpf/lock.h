/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The scheduler's lock: a word that says who holds it, and a queue, in which each cpu waits at a word of its
 * own (Mellor-Crummey and Scott, 1991). The first in the queue, and who comes while it is free, compete.
 *
 *   cpu 2 holds it, cpu 0 and then cpu 1 wait:
 *
 *   holder = cpu 2    tail = cpu 1    node 0.next = 1: each knows who comes next
 *
 *   cpu 2 unlocks: nobody holds it; cpu 0, the first, sees that, and takes it
 *   cpu 0 leaves the queue: it sets node 1.granted, where nobody but cpu 1 looks; cpu 1 is the first now
 *   cpu 1 takes it with nobody behind: tail goes from 1 to none, unless somebody has come meanwhile
 *
 * Where cpus are virtual, the hypervisor stops some of them at any time. A lock that is handed from one cpu
 * to the next stands still then until the next one runs again: with eight on a machine of two, tens of
 * milliseconds at each lock, until the kernel's watchdog ends the scheduler. Here it is free as soon as it is
 * unlocked, and who comes then takes it. A cpu that is stopped while it holds it stops all, as with any lock;
 * one that is stopped while it waits stops those that wait behind it, and nobody else.
 *
 * One that has waited as the first for a round of looks claims the lock, and who comes queues: nobody is
 * before it then but who had it already.
 *
 * A cpu that does not wait touches one line, twice: outside, its node is all zero.
 *
 * The kernel has a spin lock for BPF programs, but a program that holds it must not call a global
 * function, and its library has one like ours, which cannot be compiled natively: there the policies
 * run under it in threads (tests/threads.c). Global functions are what keeps verification fast: the
 * verifier looks at each of them once, and at everything else once for every way that leads there.
 *
 * Ordering: an atomic operation that returns the old value is a full barrier in BPF, on every
 * machine. Who takes the lock passes one, and so does who unlocks it.
 *
 * Nobody ever enters without the lock. A cpu that has waited for about a minute ends the scheduler;
 * lock() fails there and, from then on, everywhere: the callback does nothing, and the kernel takes
 * all tasks back.
 *
 * Whoever holds it has interrupts off: nearly all callbacks are called with the run queue locked,
 * so they are off already; the others turn them off. So a cpu needs one node.
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
	/* This cpu is the first in the queue. */
	u32 granted;
} __attribute__((aligned(64)));

static struct lock_node lock_nodes[LOCK_CPUS];

/* In `holder`, beside the cpu that holds it: who comes shall queue; or nobody shall have it again. */
#define LOCK_CLAIMED (1u << 30)
#define LOCK_BROKEN (1u << 31)

static struct {
	u32 holder;
	/* Who came last of those that wait. */
	u32 tail;
} lock_word __attribute__((aligned(64)));

static __always_inline struct lock_node *lock_node(u32 cpu)
{
	return &lock_nodes[cpu & (LOCK_CPUS - 1)];
}

static __always_inline bool lock_is_broken(void)
{
	return word_look(&lock_word.holder) & LOCK_BROKEN;
}

/* The end of all locking. */
static void lock_fails(void)
{
	if (!(word_set(&lock_word.holder, LOCK_BROKEN) & LOCK_BROKEN))
		scx_bpf_error("the scheduler's lock does not come free");
}

/* Waits behind another cpu until it is the first. False if it does not become that. */
policy_fn u32 lock_queue(u32 cpu, u32 before)
{
	struct lock_node *node = lock_node(cpu);
	u32 round, spin;

	word_put(&lock_node(before)->next, cpu + 1);
	bpf_for(round, 0, LOCK_ROUNDS) {
		if (lock_is_broken())
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

/* Takes the lock as the first in the queue; its claim ends with that. False if it does not come free. */
policy_fn u32 lock_compete(u32 cpu)
{
	u32 round, spin, holder;

	bpf_for(round, 0, LOCK_ROUNDS) {
		if (lock_is_broken())
			return false;
		bpf_for(spin, 0, LOCK_SPINS) {
			holder = word_look(&lock_word.holder);
			if (!(holder & ~LOCK_CLAIMED) && word_replace(&lock_word.holder, holder, cpu + 1))
				return true;
			relax();
		}
		word_set(&lock_word.holder, LOCK_CLAIMED);
	}
	lock_fails();
	return false;
}

/* Lets who waits behind this cpu, and may not have said so yet, be the first. */
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
				return true;
			}
			relax();
		}
		if (lock_is_broken())
			return false;
	}
	lock_fails();
	return false;
}

/* Goes through the queue, and out of it with the lock. */
policy_fn u32 lock_wait(u32 cpu)
{
	u32 before = word_exchange(&lock_word.tail, cpu + 1);

	if (before && !lock_queue(cpu, before - 1))
		return false;
	if (!lock_compete(cpu))
		return false;
	return word_replace(&lock_word.tail, cpu + 1, 0) || lock_pass(cpu);
}

/* False if the scheduler is at its end: nothing may be touched then. */
static __always_inline bool lock(void)
{
	u32 cpu = this_cpu();

	return word_replace(&lock_word.holder, 0, cpu + 1) || lock_wait(cpu);
}

/* Unlocks what others have claimed. */
policy_fn u32 lock_leave(u32 cpu)
{
	return word_add(&lock_word.holder, -(cpu + 1));
}

static __always_inline void unlock(void)
{
	u32 cpu = this_cpu();

	if (!word_replace(&lock_word.holder, cpu + 1, 0))
		lock_leave(cpu);
}

#endif

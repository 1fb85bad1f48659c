/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A lock of one word, for what is held for some tens of instructions and seldom wanted by two cpus: a queue
 * of tasks, which its cpu takes at each pick and a thief only if it is free. Who waits here is not in a
 * queue as in lock.h: it goes in as soon as it finds it free.
 *
 * Nobody waits for ever: after about a minute the policy is broken, and the scheduler ends.
 *
 * Order: who holds one may wait for another only in this order: the shares', a group's, a queue's. Of two
 * queues the one of the lower number comes first; in any other case the second one is only tried.
 */
#ifndef PRORATA_LATCH_H
#define PRORATA_LATCH_H

#include "word.h"

/* True if it was free, and is ours. */
static __always_inline bool latch_try(u32 __arena *latch)
{
	return !word_look(latch) && word_replace(latch, 0, 1);
}

static __always_inline void latch_take(u32 __arena *latch)
{
	u32 round, spin;

	/* A loop costs more than what is done under a latch. */
	if (word_replace(latch, 0, 1))
		return;
	bpf_for(round, 0, LOCK_ROUNDS) {
		bpf_for(spin, 0, LOCK_SPINS) {
			if (word_replace(latch, 0, 1))
				return;
			relax();
		}
	}
	policy_assert(false);
}

static __always_inline void latch_release(u32 __arena *latch)
{
	word_exchange(latch, 0);
}

#endif

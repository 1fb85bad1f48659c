/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The policy and turns.h begin anew with another number of cpus, knowing no task: as if everything had just
 * been made, but what was counted goes on. Who asks for it forgets all tasks, and adds them again.
 *
 * A policy's state depends on its cpus in ways of its own: caps, queues for each cpu, which cpu holds whom.
 * Beginning anew needs no operation that a policy would have to have, and is what the core library does when
 * it replays it.
 */
#ifndef PRORATA_RESTART_H
#define PRORATA_RESTART_H

#include "zero.h"

_Static_assert(!(sizeof(struct policy_task) & 7 || sizeof(struct turn) & 7), "cleared by words of 8 bytes");

static __always_inline void turns_restart(u32 cpus)
{
	u32 counts = sizeof(struct policy_counts), counted = __builtin_offsetof(struct turns, awake_weight), i;

	zero_out((char __arena *)STATE + counts, sizeof(struct policy_state) - counts);
	zero_out((char __arena *)TURNS + counted, sizeof(struct turns) - counted);
	if (corrects_turns()) {
		zero_out(ONLINE, __builtin_offsetof(struct online, heap));
		bpf_for(i, 0, ONLINE_HEAPS)
			ONLINE->heap[i].count = 0;
		zero_out(CORRECTED, __builtin_offsetof(struct corrected, list));
	}
	turns_init(cpus);
}

/* A number under which a task was known since the policy began. */
static __always_inline void turns_forget(u32 id)
{
	zero_out(TASK(id), sizeof(struct policy_task));
	zero_out(TURN(id), sizeof(struct turn));
	if (corrects_turns())
		zero_out(ONLINE_TASK(id), sizeof(struct online_task));
}

#endif

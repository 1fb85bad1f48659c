/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where everything is kept under a policy whose queues have locks of their own (apart.bpf.c).
 *
 *   shared  ──  the list of free slots             (struct shared), under the lock of lock.h
 *   state   ──  the policy's                       (struct policy_state), under latches of its own
 *   slots   ──  one per task, numbered 0, 1, 2 …   (struct slot), each its owner's (custody.h)
 *   desks   ──  one per cpu                        (struct desk), that cpu's
 *   seats   ──  which cpu the policy has as which  (struct seats), written while nobody decides (reopen.h)
 *   steps   ──  what each cpu did, if recorded     (struct step), a ring for each
 */
#ifndef PRORATA_APART_MEMORY_H
#define PRORATA_APART_MEMORY_H

#include "load.h"

#define POLICY_MEMORY \
	static struct policy_state __arena *state; \
	struct slot { \
		struct policy_task policy; \
		/* Whose the task is (custody.h). */ \
		u32 custody; \
		/* The cpu of the run queue that it was last put on. */ \
		u32 home; \
		/* If it waits, a cpu has it still: in transit, or reading. */ \
		u32 in_transit; \
		/* Time granted minus time used. Above 0 while a run is not over. */ \
		s64 owed_ns; \
		/* What it was granted for this run. */ \
		u64 run_ns; \
		/* p->se.sum_exec_runtime when the ledger was brought up to date. */ \
		u64 exec_ns; \
		/* Time used since the last charge, and by all that had the slot. */ \
		u64 used_ns, received_ns; \
		/* A word: what it was paid and has not used (credit.h). */ \
		u64 credit_ns; \
		/* When it began to wait, or was picked. */ \
		u64 since_ns; \
		u32 pid; \
		/* Set by `weight set`; 0 if the nice value decides. */ \
		u32 chosen_weight; \
		/* A word: it has another weight, and the policy has not been told (reopen.h). */ \
		u32 reweighed; \
		/* Links free slots. */ \
		u32 newer; \
		/* The cpu that counts it among those outside the policy. */ \
		u16 away_on; \
		/* What it runs outside the policy is its credit. */ \
		u8 on_credit; \
		/* It must not run on every cpu. */ \
		u8 confined; \
		u8 yielded; \
		/* Its task has ended, and is the policy's still; written with the lock held. */ \
		u8 has_ended; \
	}; \
	static struct slot __arena *slots; \
	/* Nobody watches cgroups here: the loader reads no slot. */ \
	const volatile struct slot_layout slot_layout = { .size = sizeof(struct slot) };

struct seats {
	/* Of a cpu; NIL if it was not online when the policy began. */
	u32 seat_of[MAX_CPUS];
	/* Words: not 0 if a cpu is online now. One that has gone has its seat until the policy begins anew. */
	u32 is_up[MAX_CPUS];
	u32 cpu_at[MAX_CPUS];
	u32 count;
	/* Of the ring of a cpu: a power of two. */
	u32 steps;
};

static struct shared __arena *shared;
static struct desk __arena *desks;
static struct seats __arena *seats;
static struct step __arena *steps;

#define DESK(index) (&desks[(index) & (MAX_CPUS - 1)])
#define CPU_STATE(index) (&DESK(index)->cpu)
#define STATS(index) (&DESK(index)->stats)
#define STATE state
#define TASK(id) (&slots[id].policy)

/* --- what the policy asks for ------------------------------------------------------------------ */

static u64 now_ns(void)
{
	return DESK(this_cpu())->now_ns;
}

static u64 quantum_ns(void)
{
	return quantum;
}

static u32 policy_cpu(void)
{
	return seats->seat_of[this_cpu() & (MAX_CPUS - 1)];
}

static void policy_kick(u32 seat)
{
	scx_bpf_kick_cpu(seats->cpu_at[seat & (MAX_CPUS - 1)], SCX_KICK_IDLE);
}

static void policy_broken(u32 line)
{
	scx_bpf_error("the policy's invariant in line %u does not hold", line);
}

/* --- recording (step.h) ------------------------------------------------------------------------ */

#define RECORDS_STEPS recording

/* Where the next step of this cpu goes, which the policy takes for `seat`. */
static __always_inline struct step __arena *step_begin(u32 seat)
{
	u32 in_ring = DESK(this_cpu())->recorded & (seats->steps - 1);

	return &steps[(seat * seats->steps + in_ring) & (RECORD_EVENTS - 1)];
}

static __always_inline void step_end(void)
{
	u64 __arena *recorded = &DESK(this_cpu())->recorded;

	/* The loader sees neither the count before the step, nor the next step, in its place, before the count. */
	word_exchange(recorded, *recorded + 1);
}

/* False for a cpu that has come or gone since the policy began: the kernel has its threads run there. */
static bool is_online(u32 cpu)
{
	u32 index = cpu & (MAX_CPUS - 1);

	return seats->seat_of[index] != NIL && word_look(&seats->is_up[index]);
}

/* While the policy begins anew. */
static u32 is_closed;

/* True if this cpu may use the policy. */
static bool is_open(void)
{
	return !word_look(&is_closed) && policy_cpu() != NIL;
}

#endif

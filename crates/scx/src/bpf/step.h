/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Recording where no lock is held by all who decide: what a cpu does while it holds a latch or two is a step.
 * Each latch counts its steps, and so does each task; each cpu writes its own down in a ring of its own,
 * with the counts. `prorata verify` puts them into an order in which each latch has its own, and tells them
 * to the core library's policy (crates/core, policies/gdq/distributed/steps.rs, which explains the lines):
 *
 *   cpu 0   wakes a          place a in queue 3    the 7th step of queue 3, the 2nd of a
 *   cpu 1   its round ends   steal a from queue 3  the 8th of queue 3, the 20th of queue 5, the 3rd of a
 *
 * A step is counted with all its latches held, so that there is such an order. What a cpu sees without a
 * latch is not in it: which queue it chose is told by what it did there.
 *
 * Whoever records defines, before it includes the policy, RECORDS_STEPS (true if it does now),
 * step_begin(cpu) (where this cpu's next step goes) and step_end() (it is there). Else nothing is recorded.
 */
#ifndef PRORATA_STEP_H
#define PRORATA_STEP_H

/* The latches, the value, and what is beside it are told in steps.rs, which has the same order. */
enum step_kind {
	STEP_ADD,
	STEP_WEIGHT,
	STEP_WAKE,
	STEP_CHARGE,
	STEP_PLACE,
	STEP_RECOUNT,
	STEP_TAKE,
	STEP_BLOCK,
	STEP_REFUND,
	STEP_ROUND,
	STEP_PICK,
	STEP_STEAL,
	STEP_REFILL,
	STEP_CLAIM,
	STEP_ABANDON,
	STEP_OPEN,
	STEP_CLOSE,
	STEP_LOOK,
	STEP_TELL,
	STEP_TOLD,
	STEP_SETTLE,
	STEP_PASS,
	STEP_LEAVE,
	STEP_SEEK,
	STEP_TRIED,
	STEP_ARRIVE,
	STEP_IDLE,
};

/* A latch: its kind, and which of them. */
enum step_latch {
	LATCH_NONE,
	LATCH_QUEUE = 0x4000,
	LATCH_GROUP = 0x8000,
	LATCH_SHARES = 0xc000,
	LATCH_KIND = 0xc000,
};

struct step {
	u64 now_ns, value, extra;
	/* Or NIL. */
	u32 task;
	/* How many steps the task had before, and each latch. */
	u32 count, latch_counts[2];
	u16 latches[2];
	/* As the policy numbers it. */
	u16 cpu;
	u16 kind;
};

#endif

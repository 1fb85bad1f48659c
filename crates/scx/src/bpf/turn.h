/* SPDX-License-Identifier: GPL-2.0-only */
/* What is kept of turns (turns.h): of each task, and of all. */
#ifndef PRORATA_TURN_H
#define PRORATA_TURN_H

/* What becomes of tasks that sleep. */
enum sleepers {
	/* What the policy's paper says. */
	SLEEPERS_PAPER,
	/* They use their turns when they wake (turns.h). */
	SLEEPERS_TURNS,
	/* They are held to the ideal, as everybody (corrected.h). */
	SLEEPERS_CORRECTED,
};

enum turn_state {
	TURN_ASLEEP,
	TURN_WAITING,
	/* It waits with credit: in the list of ready tasks. */
	TURN_READY,
	TURN_ON_CREDIT,
	/* It runs between its turns. */
	TURN_ENTITLED,
	TURN_ON,
	/* It waits for the rest of its turn: in the list of interrupted ones. */
	TURN_INTERRUPTED,
	/* Where turns are corrected: asleep for the policy, and awake in the ideal. */
	TURN_ASIDE,
};

/* What a task is for the policy. */
enum turn_place {
	/* Blocked: its credit has no room, or it has never waited. */
	TURN_OUT,
	/* Blocked, as long as what it had in advance is not used up. */
	TURN_ADVANCED,
	/* Waiting. */
	TURN_QUEUED,
	/* Running. */
	TURN_PICKED,
};

struct turn {
	/*
	 * Time that was paid and not used, at most the cap; what a run on credit may use is not in it. Where
	 * turns are corrected: what it may still receive before others.
	 */
	u64 credit_ns;
	/* How long it may run, or might when it was picked last. */
	u64 run_ns;
	/* What is left of its turn, if it is picked. */
	u64 turn_ns;
	/* What it had no use for of turns that were charged, and nobody has taken. */
	u64 lapsed_ns;
	/* What it was due, less what it was charged since; what each cpu and unit of weight had served then. */
	s64 late_ns;
	u64 seen_per_cpu_ns, seen_per_weight;
	/* Where turns are corrected: until when it lingers in the policy's queue. */
	u64 lingers_until_ns;
	u32 weight;
	/* The cpu that runs it, or whose slot has it while it is interrupted. */
	u32 cpu;
	/* Neighbours in one of the two lists. */
	u32 next, previous;
	/* Where turns are corrected (corrected.h): the cpu in whose slot the policy runs it, or NIL. */
	u32 held_by;
	/* The cpu that ran it last, or NIL. */
	u32 home;
	/* Its place among the runnable tasks, plus one. */
	u32 listed;
	u8 state, place;
	/* It has never slept since it was added. */
	u8 is_new;
	/* It sleeps, and the policy is not told yet; it was not, as it woke last. */
	u8 lingers, lingered;
	/* Its place among those that are known to be behind, plus one. */
	u8 candidate;
	/* What others had no use for was added to its turn. */
	u8 lengthened;
	/* It stays in the queue when it sleeps without room; turns that it had since it slept. */
	u8 kept, kept_turns;
};

/* Tasks in the order in which they came. */
struct turn_list {
	u32 first, last;
};

struct turn_cpu {
	/* What the policy takes it for. */
	u32 slot;
	/* The task that the policy runs in this slot, or NIL. */
	u32 held;
	/* The task that runs, or NIL. */
	u32 running;
	/*
	 * The task that used up a turn here last, or one before, if that waits and is heavier; or, where turns
	 * are corrected, that ran last; or NIL.
	 */
	u32 last;
	/* It was asked to stop what it runs, and has not picked since. */
	u32 stopping;
	/* Where turns are corrected: it runs before others, not in the turn. */
	u32 early;
	/* What is left of the turn. */
	u64 turn_ns;
	/* Since when its task runs, or errors are kept, and how long it ran before. */
	u64 since_ns, before_ns;
};

/*
 * What runs on a cpu: the task's weight, which is below these; 0 if nothing does. So a weight on its own is
 * that of a task on its turn, and of a cpu that was not asked to stop.
 */
enum turn_runs {
	TURN_RUNS_STOPPING = 1 << 29,
	TURN_RUNS_ON_CREDIT = 1 << 30,
	TURN_RUNS_WEIGHT = TURN_RUNS_STOPPING - 1,
};

struct turns {
	/* Runs on credit, turns that added to a credit, cpus asked to stop. */
	u64 on_credit, consumed, interruptions;
	/* The weight of all tasks that are awake. */
	u64 awake_weight;
	/*
	 * What each cpu and each unit of weight served; of the latter, 2 to the LATE_DIGITS a ns; they wrap. What
	 * was charged and is not in these yet (late.h).
	 */
	u64 per_cpu_ns, per_weight;
	s64 charged_ns;
	u32 cpus;
	struct turn_list ready, interrupted;
	/* How many tasks are ready, and cpus stopping. */
	u32 ready_count, stopping;
	/* Of all cpus, for who looks for one: 16 to a cache line, without looking at tasks. */
	u32 runs[POLICY_CPUS];
	struct turn_cpu cpu[POLICY_CPUS];
};

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where everything is kept: in one arena, memory that BPF and the loader share.
 *
 *   shared  ──  counters, cpus, list heads        (struct shared)
 *   state   ──  the policy's                       (struct policy_state)
 *   slots   ──  one per task, numbered 0, 1, 2 …   (struct slot)
 *   bound   ──  the masks of cpus that tasks have  (struct bound)
 *   online, corrected  ──  the ideal, who is behind it; only where turns are corrected
 *   events  ──  the ring of recorded events        (struct event), only with --record
 *
 * A task's number is kept, plus one, in p->scx.dsq_vtime, which the kernel leaves to us as long as
 * no task is put into a queue ordered by virtual time: finding a slot costs one load. The other
 * way, from a slot to the task_struct, goes through an array of references (task_refs), which costs
 * a bounds check, where looking a pid up would cost 200 instructions and fail for exiting tasks. What a
 * reference keeps from being freed keeps its slot (task.h).
 *
 * One lock guards all of it (lock.h). Known limit: on machines with many cpus and short quanta it is
 * the bottleneck (the README tells from where on).
 */
#ifndef PRORATA_MEMORY_H
#define PRORATA_MEMORY_H

#include "load.h"

/* What the policy is to be told of a task (news.h). */
enum news {
	/* What it counts for. */
	NEWS_WEIGHT = 1,
	/* It is no longer ours … */
	NEWS_LEAVES = 2,
	/* … and then is again, or ends: the slot is free then. */
	NEWS_RETURNS = 4,
	NEWS_ENDS = 8,
	/* It has gone to sleep. */
	NEWS_BLOCKS = 16,
	/* … for good. */
	NEWS_DIES = 32,
	/* It stood aside (paid.h), and waits for the policy again. */
	NEWS_REJOINS = 64,
};

/* It blocks, dies, leaves, or rejoins and is told of its weight. */
#define NEWS_OF_A_TASK 4

/* The policy's memory; the macros are the contract's. */
#define POLICY_MEMORY \
	static struct policy_state __arena *state; \
	struct slot { \
		struct policy_task policy; \
		struct turn turn; \
		struct bound_task bound; \
		/* Time granted minus time used. Above 0 while a run is not over. */ \
		s64 owed_ns; \
		/* What it was granted for this run. */ \
		u64 run_ns; \
		/* p->se.sum_exec_runtime when the ledger was brought up to date. */ \
		u64 exec_ns; \
		/* Time used since the last charge. */ \
		u64 used_ns; \
		/* Time used, and waited for a cpu, by all that had the slot. */ \
		u64 received_ns, waited_ns; \
		/* Its run time when it went to sleep; the policy has not been told of that. */ \
		u64 blocked_exec_ns; \
		/* When it began to wait, or was picked. */ \
		u64 since_ns; \
		/* Turns that it had where it could not run, and that it has not run yet (paid.h). */ \
		u64 paid_ns; \
		/* When the first of them was paid, nearly, and when the last was. */ \
		u64 paid_at_ns, paid_last_ns; \
		/* When the one before was due. */ \
		u64 paid_before_ns; \
		/* Until when what it has changed counts: its cpus, its cgroup (paid.h). */ \
		u64 changes_until_ns; \
		/* Neighbours in the list of waiting tasks that have such turns. */ \
		u32 paid_next, paid_previous; \
		/* Neighbours in the list of waiting tasks, by age; `newer` links free slots. */ \
		u32 older, newer; \
		/* The next task in the list of changes. */ \
		u32 next_with_news; \
		u32 pid; \
		u32 weight; \
		/* As which it shares what is spare in its cgroup; 0 if it does not (spare.h). */ \
		u32 spare_weight; \
		/* What it has seen of that, there and in the child of the root. */ \
		u64 spare_seen[2]; \
		/* Set by `weight set`; 0 if the nice value decides. */ \
		u32 chosen_weight; \
		/* The cpu that it is on or was picked for. */ \
		u16 cpu; \
		/* The cpu that has noted that it went to sleep, plus one. */ \
		u16 blocked_on; \
		/* The cpu of the run queue that it was last put on. */ \
		u32 home; \
		/* A cpu that it leaves has it still: 1 until it has switched, READS_IN_TRANSIT while it reads on. */ \
		u32 in_transit; \
		/* The cpu that counts it among those outside the policy. */ \
		u16 away_on; \
		/* The cpu that counts it among those that wait to run turns that they were paid. */ \
		u16 paid_on; \
		/* The cpu where it went to sleep last. */ \
		u16 slept_on; \
		/* The seat in which the policy gave it a turn last. */ \
		u16 seat; \
		u8 state; \
		/* Whose cpus are to run the turns that it was paid, while it waits for that. */ \
		u8 domain; \
		/* It must not run on every cpu. */ \
		u8 confined; \
		u8 yielded; \
		/* It runs for turns that it has had. */ \
		u8 runs_paid; \
		/* It waits, but not for the policy: it has had turns enough. */ \
		u8 aside; \
		/* The policy knows it: it has woken since it became ours. */ \
		u8 known; \
		/* It, or one that had the slot before, was known since the policy began. */ \
		u8 was_known; \
		/* What the policy has not been told of it: enum news. */ \
		u8 news; \
	}; \
	static struct slot __arena *slots; \
	const volatile struct slot_layout slot_layout = { \
		.size = sizeof(struct slot), \
		.state = offsetof(struct slot, state), \
		.since_ns = offsetof(struct slot, since_ns), \
		.used_ns = offsetof(struct slot, used_ns), \
		.received_ns = offsetof(struct slot, received_ns), \
		.waited_ns = offsetof(struct slot, waited_ns), \
	};

#define CPU_STATE(index) (&shared->cpu[index])
#define STATS(index) (&shared->stats)
#define STATE state
#define TASK(id) (&slots[id].policy)
#define TURN(id) (&slots[id].turn)
#define TURNS (&shared->turns)
#define ONLINE online
#define ONLINE_MEMORY static struct online __arena *online;
#define CORRECTED corrected
#define CORRECTED_MEMORY static struct corrected __arena *corrected;
#define BOUND bound
#define BOUND_MEMORY static struct bound __arena *bound;
#define BOUND_TASK(id) (&slots[id].bound)

static struct shared __arena *shared;
static struct event __arena *events;

static u64 now_ns(void);
static u64 quantum_ns(void);
global_fn u32 policy_broken(u32 line);
static void note_news(u32 id, u32 news);
static bool crowd_is_awaited(void);
static void tell_news(u32 sleeper);
static __always_inline void turns_left(u32 id);
static void turns_joined(u32 id);
static void turns_gained(u32 id, u64 ns);
static void turns_spent(u32 id, u64 ns);
static void use_spare(u32 id, u64 used_ns);
static void tell_spare(u32 id);
static u32 spare_node_of(u32 id);
static void make_spare(u32 n, u64 ns);
static void stop_sharing(u32 id);
static void turns_charged(u32 id, u64 ns);
static void tell_late(u32 id);
static void see_served(u32 id);
static bool may_burst(u32 id);
static void end_bursts(void);
global_fn u32 forfeit(u32 id);

/* Each object has one of the two rules: the kernel need not verify the other. */
static bool corrects_turns(void)
{
#ifdef __bpf__
	return CORRECTS_TURNS;
#else
	return sleepers == SLEEPERS_CORRECTED;
#endif
}

/* Tasks use their turns when they wake, and nothing is corrected. */
static bool keeps_turns(void)
{
	return sleepers == SLEEPERS_TURNS;
}

static bool uses_turns(void)
{
	return corrects_turns() || sleepers != SLEEPERS_PAPER;
}

#include "mask.h"

/* The kernel gives it tasks: the policy may have to be told of it, or that it has gone. */
static bool is_online(u32 cpu)
{
	return shared->online[(cpu / 64) & (BOUND_WORDS - 1)] >> (cpu & 63) & 1;
}

/* Mask 0 is that of all cpus that are in use. */
static bool is_in_use(u32 cpu)
{
	return mask_has(0, cpu);
}

#endif

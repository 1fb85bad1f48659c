/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroups, as the kernel tells of them, and when tasks learn what they count for (group.h).
 *
 * A cgroup is known by its number in the kernel: one that has no cpu controller is none to us, and its
 * tasks are in the nearest that has one. Weights are cpu.weight's on the scale of nice values: 100 is
 * 1024. In cgroup v1, cpu.shares are told on the same scale.
 *
 * A task is runnable in the tree from its enqueue until it sleeps and the policy serves it no longer
 * (turns.h): what a sleeper is paid is its cgroup's. It is told what it counts for before it joins the
 * policy, and after a change within a few picks: each looks at PATROL tasks.
 *
 * Known limits: a change of cpu.idle is seen at once where the kernel has ops.cgroup_set_idle (from 6.19
 * on), else when the scheduler is loaded. cpu.max is not enforced.
 */
#ifndef PRORATA_CGROUP_H
#define PRORATA_CGROUP_H

static u64 received_ns(u32 id)
{
	return slots[id].received_ns;
}

static u64 waited_ns(u32 id)
{
	return slots[id].waited_ns;
}

#define TREE tree
#define GROUP_MEMORY static struct group_tree __arena *tree;
#include "group.h"
#include "bound.h"

#define PATROL 16
/*
 * Quanta from a change until it is looked at what cpus are worth: tasks whose weights change too often lose
 * turns. Who naps for less, and has gone to sleep again, has changed nothing.
 */
#define FILL_QUANTA 2
/* cpu.weight of a cgroup that counts as nice 0. */
#define CGROUP_WEIGHT_DEFAULT 100
#define WEIGHT_OF_NICE_0 1024

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	/* Those that are parts of others, for want of nodes, are here too. */
	__uint(max_entries, 4 * GROUP_NODES);
	__type(key, u64);
	__type(value, u32);
} cgroup_nodes SEC(".maps");

static u64 number_of(struct cgroup *cgroup)
{
	return BPF_CORE_READ(cgroup, kn, id);
}

/* The node that a cgroup is or is in. */
static u32 node_of(u64 number)
{
	u32 *node = bpf_map_lookup_elem(&cgroup_nodes, &number);

	return node ? *node : GROUP_ROOT;
}

static u32 group_weight_of(u32 cgroup_weight)
{
	u32 weight = (cgroup_weight * WEIGHT_OF_NICE_0 + CGROUP_WEIGHT_DEFAULT / 2) /
		     CGROUP_WEIGHT_DEFAULT;

	if (weight > GROUP_WEIGHT_MAX)
		weight = GROUP_WEIGHT_MAX;
	return weight ? weight : 1;
}

/* The kernel's task group of a cgroup says cpu.idle. */
static bool is_idle_cgroup(struct cgroup *cgroup)
{
	u32 controller = bpf_core_enum_value(enum cgroup_subsys_id, cpu_cgrp_id);
	struct cgroup_subsys_state **states, *state = NULL;
	struct task_group *group = NULL;

	if (!bpf_core_field_exists(group->idle))
		return false;
	states = (void *)cgroup + bpf_core_field_offset(struct cgroup, subsys);
	bpf_probe_read_kernel(&state, sizeof(state), states + controller);
	group = (void *)state - bpf_core_field_offset(struct task_group, css);
	return state && BPF_CORE_READ(group, idle) > 0;
}

/* --- telling tasks, with the lock held ------------------------------------------------------- */

/* Tells the policy that a task counts for another weight. */
global_fn u32 reweight(u32 id, u32 weight)
{
	tell_late(id);
	slots[id].weight = weight;
	shared->rates_changed_ns = shared->now_ns;
	record(EVENT_WEIGHT, id, 0, weight, 0);
	turns_set_weight(id, weight);
	return 0;
}

/* Tells the policy what a task counts for now. */
static __always_inline void tell(u32 id)
{
	struct slot __arena *slot = &slots[id];
	u32 counts = group_weight(id, slot->bound.counts), weight;

	bound_set_counts(&slot->bound, counts, BOUND->competing ? group_plain_weight(id) : counts);
	if (BOUND->gone)
		bound_find_per_cpu();
	weight = bound_weight(&slot->bound, slot->weight);
	if (weight != slot->weight)
		reweight(id, weight);
}

/* A task is runnable in the tree. */
static __always_inline void begin_competing(u32 id)
{
	if (!MEMBER(id)->at) {
		see_served(id);
		MEMBER(id)->fixed = bound_fixed(&slots[id].bound);
		group_join(id);
	}
	bound_compete(&slots[id].bound, true);
}

/*
 * A task needs none of the cpus that are short. One that sleeps is given a number for its mask when it wakes
 * (slots.h).
 */
static __always_inline void forgo_cpus(u32 id)
{
	bound_compete(&slots[id].bound, false);
	bound_forgo_mask(&slots[id].bound);
}

static __always_inline void end_competing(u32 id)
{
	tell_late(id);
	group_part(id);
	forgo_cpus(id);
}

/*
 * A task sleeps, and has nearly all the turns that it may keep. What it is paid from now on counts as its
 * cgroup's as long as others of that use it (spare.h); else it would count for both.
 */
static __always_inline void stop_needing_cpus(u32 id)
{
	if (spare_node_of(id) != GROUP_ROOT)
		forgo_cpus(id);
	else
		end_competing(id);
}

/* Everybody who is runnable, at once: others are told when they wake. */
static __always_inline void tell_everybody(void)
{
	shared->news_of_all = true;
	tell_news(NIL);
}

/* True if a task, which slept, is in the tree still and knows what it counts for. */
static __always_inline bool is_told(u32 id)
{
	return MEMBER(id)->at && slots[id].bound.competes && !tree->unseen && !BOUND->gone;
}

/* A task wakes: before it joins the policy. */
static __always_inline void group_wake(u32 id)
{
	tell_spare(id);
	if (is_told(id) || !turns_is_to_queue(id))
		return;
	begin_competing(id);
	if (makes_coarser(id))
		tell_everybody();
	tell(id);
}

static void turns_joined(u32 id)
{
	begin_competing(id);
}

/*
 * The policy serves a task that sleeps no longer. One that runs outside the policy does not sleep; but where
 * turns are corrected it counts in its cgroup no more than in the ideal, until it waits for the policy again.
 */
static __always_inline void turns_left(u32 id)
{
	if (slots[id].state == TASK_BLOCKED)
		end_competing(id);
	else if (corrects_turns() && slots[id].aside)
		group_part(id);
}

/* Sends as many idlers as there are cpus that nobody may use, or calls some back. */
global_fn u32 settle_idlers(void)
{
	u32 cpu;

	bpf_for(cpu, 0, cpus_end) {
		bool idles = is_idle(cpu) && shared->cpu[cpu & (MAX_CPUS - 1)].task == NIL;

		if (shared->idlers > BOUND->idle)
			dismiss_idler(cpu);
		else if (shared->idlers < BOUND->idle && idles &&
			 slots[idler_of(cpu)].state == TASK_OUT)
			send_idler(cpu);
	}
	return 0;
}

/*
 * What a task is due in some time, of at most DEBT_LASTS_NS, but for what it is capped to. Where turns are
 * corrected, as if no cpus were short: what is enough to pay was found by that (paid.h).
 */
static u64 due_within(const struct slot __arena *slot, u64 time_ns)
{
	u64 total = NODE(GROUP_ROOT)->competing << tree->scale, part;
	/* No branch: the verifier of 6.18 has a bug ("unexpected regs") that one here meets. */
	u64 is_short = !!BOUND->gone & !corrects_turns();

	total += is_short * (BOUND->per_cpu * MASK(0)->count - total);
	part = ((u64)slot->weight * MASK(0)->count << 10) / (total | 1);
	return part < 1 << 10 ? part * time_ns >> 10 : time_ns;
}

static u64 debt_limit_ns(const struct slot __arena *slot)
{
	u64 least_ns = DEBT_QUANTA * quantum, due_ns;

	/* The ideal knows of no longer ones (online.h). */
	if (corrects_turns())
		return least_ns;
	due_ns = due_within(slot, DEBT_LASTS_NS);
	return due_ns > least_ns ? due_ns : least_ns;
}

/* Finds what cpus are worth where some are short. */
static __always_inline void fill_cpus(void)
{
	if (!BOUND->competing && !BOUND->gone)
		return;
	if (!BOUND->changed) {
		shared->filled_ns = shared->now_ns;
	} else if (shared->now_ns - shared->filled_ns >= FILL_QUANTA * quantum) {
		shared->filled_ns = shared->now_ns;
		if (bound_fill())
			tree->unseen = tree->runnable;
	}
	if (shared->idlers != BOUND->idle)
		settle_idlers();
}

/* Some of the tasks that have not seen the last change are told next. */
global_fn u32 note_unseen(void)
{
	u32 i;

	bpf_for(i, 0, PATROL) {
		u32 id = BOUND->gone ? group_next_unseen() : group_unseen();

		if (id == NIL)
			break;
		note_news(id, NEWS_WEIGHT);
	}
	return 0;
}

/* Some of the tasks that have not seen the last change do. */
static __always_inline void group_patrol(void)
{
	fill_cpus();
	if (turns_may_pass()) {
		record(EVENT_PASS, NIL, 0, 0, 0);
		turns_pass();
	}
	if (!tree->unseen)
		return;
	note_unseen();
	tell_news(NIL);
}

/* A task has another weight among its siblings, or is in another cgroup. */
static __always_inline void note_weight(u32 id)
{
	if (makes_coarser(id))
		shared->news_of_all = true;
	note_news(id, NEWS_WEIGHT);
}

#endif

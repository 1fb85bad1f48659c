/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Cpus that come and go.
 *
 *   cpu 1 goes   that is noted (news.h); the kernel puts what runs there elsewhere
 *   cpu 0        ops.dispatch tells the policy: it begins anew on fewer cpus, with all that are runnable
 *
 * Until then the policy knows the cpus that there were. Nobody is picked for one that has gone, which does
 * not ask. A cpu that comes tells the policy by its own first decision, before it is given anything.
 *
 * What a task is for the policy then:
 *
 *   waits     it is added, and wakes in its turn: who has waited longest comes first
 *   runs      it runs the rest of its quantum outside the policy (TASK_AWAY), wherever the kernel puts it
 *   sleeps    it is added when it wakes
 *
 * So nobody is picked who is on its way to a cpu, and no cpu has to be stopped. Debts (ledger.h), turns that
 * were paid (paid.h), and how long somebody has waited stay; what the policy, turns.h and corrected.h knew
 * of who is ahead and behind is lost, some quanta at most.
 *
 * Known limits: all slots are looked at, and all runnable tasks told, with the lock held.
 */
#ifndef PRORATA_HOTPLUG_H
#define PRORATA_HOTPLUG_H

#include "restart.h"

static __always_inline u32 cpus_online(void)
{
	u32 cpus = unknown_zero(shared->now_ns), i;

	bpf_for(i, 0, BOUND_WORDS)
		cpus += bits_of(shared->online[i & (BOUND_WORDS - 1)]);
	return cpus;
}

/* All cpus that are online are in use from now on; masks are to be noted anew. */
static __always_inline void use_cpus(u32 cpus)
{
	u32 i;

	bpf_for(i, 0, BOUND_WORDS)
		bound->wanted[i & (BOUND_WORDS - 1)] = shared->online[i & (BOUND_WORDS - 1)];
	bound_init();
	begin_seats(cpus);
}

static __always_inline s32 hotplug_init(void)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	u32 cpu;

	bpf_for(cpu, 0, cpus_end) {
		if (bpf_cpumask_test_cpu(cpu, online))
			shared->online[(cpu / 64) & (BOUND_WORDS - 1)] |= 1ULL << (cpu & 63);
	}
	scx_bpf_put_cpumask(online);
	cpus_at_first = cpus_online();
	use_cpus(cpus_at_first);
	group_init(cpus_at_first);
	turns_init(cpus_at_first);
	return 0;
}

/* Who runs is where the kernel has it; a cpu that still waits for it has to look for another. */
static __always_inline void leave_running(struct slot __arena *slot, u32 id, struct task_struct *p)
{
	shared->cpu[slot->cpu].task = NIL;
	shared->runs_paid -= slot->runs_paid;
	slot->runs_paid = false;
	if (id == CROWD) {
		slot->state = TASK_WAITING;
		age_append(slot, id);
		return;
	}
	slot->home = p ? scx_bpf_task_cpu(p) : slot->cpu;
	if (slot->home != slot->cpu && is_in_use(slot->cpu))
		set_idle(slot->cpu, true);
	slot->state = TASK_AWAY;
	/* When that is over it waits for the policy, as all who were away. */
	slot->aside = false;
	begin_away(slot);
}

/* The policy is to know a task, blocked. It has counted for something: so it does until it is told. */
static __always_inline void add_again(struct slot __arena *slot, u32 id)
{
	u32 counts = group_weight(id, slot->bound.counts);

	bound_set_counts(&slot->bound, counts, counts);
	introduce(slot, id, counts);
}

/* What is kept of a task besides the policy. */
static __always_inline void settle_again(struct slot __arena *slot, u32 id)
{
	struct task_struct *p = id == CROWD ? NULL : task_of(id);

	if (slot->state == TASK_RUNNING)
		leave_running(slot, id, p);
	else if (slot->state == TASK_WAITING)
		MASK(0)->waiting++;
	if (p) {
		note_mask(p, id);
		if (is_limited(p) && is_bound(p))
			slot->confined = true;
	}
	begin_competing(id);
	if (makes_coarser(id))
		shared->news_of_all = true;
}

/* A task that was known. The crowd, which does not come anew when it wakes, stays so. */
static __always_inline void readmit(struct slot __arena *slot, u32 id)
{
	slot->known = false;
	if (slot->state > TASK_BLOCKED)
		settle_again(slot, id);
	else
		group_part(id);
	if (slot->state == TASK_AWAY || (slot->state == TASK_BLOCKED && id == CROWD))
		add_again(slot, id);
	if (slot->state == TASK_AWAY)
		record(EVENT_AWAY, id, 0, AWAY_CPUS, 0);
}

static __always_inline void readmit_all(void)
{
	u32 id;

	bpf_for(id, 0, CROWD + 1) {
		struct slot __arena *slot = &slots[id];

		slot->bound.mask = 0;
		slot->bound.competes = false;
		slot->bound.changed_at = 0;
		group_set_fixed(id, 0);
		if (slot->was_known)
			turns_forget(id);
		slot->was_known = false;
		if (slot->known)
			readmit(slot, id);
	}
	bpf_for(id, FIRST_IDLER, MAX_TASKS) {
		turns_forget(id);
		slots[id].state = TASK_OUT;
	}
	shared->idlers = 0;
}

static __always_inline void wake_all(void)
{
	u32 id = shared->oldest, i;

	bpf_for(i, 0, MAX_TASKS) {
		struct slot __arena *slot;

		if (id == NIL)
			break;
		slot = &slots[id];
		add_again(slot, id);
		if (!slot->aside)
			wake_turn(id);
		id = slot->newer;
	}
}

/* With the lock held, when the policy has been told all else. */
global_fn u32 change_cpus(void)
{
	u32 cpus = cpus_online();

	shared->cpus_changed = false;
	record(EVENT_CPUS, NIL, 0, cpus, 0);
	zero_out(bound, sizeof(*bound));
	use_cpus(cpus);
	group_set_cpus(cpus);
	turns_restart(cpus);
	readmit_all();
	wake_all();
	shared->filled_ns = 0;
	return 0;
}

#endif

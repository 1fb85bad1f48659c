/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Cpus that come and go where no lock keeps all others out of the policy while it begins anew.
 *
 *   a cpu goes       nobody is given to it any more, and the loader is told: is_outdated
 *   prorata_close    who comes to the policy from here on leaves it alone; who is in there goes on
 *   prorata_visit    runs on each cpu: who uses the policy has interrupts off, so that nobody does any more
 *   prorata_reopen   the policy begins anew on the cpus that are online, and is open again
 *
 * Meanwhile, some milliseconds if the loader gets the cpu, the kernel has tasks run that come to a run queue,
 * and nobody is picked. What a task is for the policy then:
 *
 *   waits    it wakes there, and waits on                               WAITING
 *   runs     it runs on, and comes to the policy when that is over      BLOCKED
 *   sleeps   it comes when it wakes                                     BLOCKED
 *
 * No word changes while it is closed but that of a task that waits, and read meanwhile (reader.h): if it
 * falls asleep it says ASLEEP (custody.h), which the policy may or may not know yet. Who comes while it is
 * closed, and is not done when it is open again, looks once more: others may have picked the task. Only
 * ops.enqueue does not: whoever has picked it waits for it in vain, and finds that out in a while (slice.h).
 *
 * Debts (ledger.h), credit, and how long somebody has waited stay; what the policy knew of who is ahead and
 * behind is lost, some quanta at most.
 *
 * Known limits: tasks wake in the order of their slots. A cpu that is kicked for one of them, and has
 * somebody to run who came meanwhile, runs him first, and another one idles for that quantum. As long as the
 * loader is kept from running, a cpu that has come runs what the kernel's queue for all has, and who waits in
 * the queue of one that has gone waits on, until he is stolen or rescued (overdue.h).
 */
#ifndef PRORATA_REOPEN_H
#define PRORATA_REOPEN_H

#include "zero.h"

_Static_assert(!(sizeof(struct policy_task) & 7), "cleared by words of 8 bytes");

static __always_inline void cpu_changes(u32 cpu, bool comes)
{
	word_exchange(&seats->is_up[cpu & (MAX_CPUS - 1)], comes);
	is_outdated = true;
}

/* Somebody who waits on credit for a cpu that has gone runs on this one. */
static __always_inline bool serve_left(u32 cpu)
{
	u32 other;

	if (!is_outdated)
		return false;
	bpf_for(other, 0, cpus_end) {
		if (is_online(other) || !serve_credit(other))
			continue;
		occupy(cpu);
		return true;
	}
	return false;
}

/* --- who comes while it is closed ------------------------------------------------------------------ */

/* A task that may wait in the policy sleeps, or is of another class now. True if the policy is open again. */
global_fn u32 sleep_outside(u32 id)
{
	u32 i;

	bpf_for(i, 0, LOCK_SPINS) {
		if (await_custody(id) != TASK_WAITING ||
		    word_replace(&slots[id].custody, TASK_WAITING, ASLEEP))
			break;
	}
	return is_open();
}

/* A task comes to a run queue. The kernel has it run, unless it waits in the policy. */
static __always_inline void enqueue_outside(struct task_struct *p, u32 id, u32 home, u64 enq_flags)
{
	bool reads = !(enq_flags & SCX_ENQ_WAKEUP) && goes_on_reading(p, home);

	if (id != NIL) {
		slots[id].confined = is_confined(p);
		slots[id].in_transit = reads;
		/* A barrier. */
		word_exchange(&slots[id].home, home);
		if (await_custody(id) == TASK_WAITING) {
			if (reads)
				scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, READER_NS, SCX_ENQ_HEAD);
			return;
		}
	}
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, quantum, enq_flags);
}

/* --- beginning anew -------------------------------------------------------------------------------- */

/* The cpus that are online are the policy's. */
static __always_inline void take_seats(void)
{
	u32 cpu, count;

	seats->count = 0;
	bpf_for(cpu, 0, MAX_CPUS) {
		DESK(cpu)->cpu.task = NIL;
		DESK(cpu)->overdue = DESK(cpu)->away = DESK(cpu)->on_credit = 0;
		DESK(cpu)->recorded = 0;
		if (cpu >= cpus_end || !word_look(&seats->is_up[cpu])) {
			seats->seat_of[cpu] = NIL;
			continue;
		}
		count = seats->count;
		seats->seat_of[cpu] = DESK(cpu)->cpu.seat = count;
		seats->cpu_at[count & (MAX_CPUS - 1)] = cpu;
		seats->count = count + 1;
	}
	cpus_at_first = seats->count;
	seats->steps = RECORD_EVENTS >> ilog2(2 * seats->count - 1);
	policy_init(seats->count);
}

static __always_inline void seats_init(void)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	u32 cpu;

	bpf_for(cpu, 0, cpus_end)
		seats->is_up[cpu & (MAX_CPUS - 1)] = bpf_cpumask_test_cpu(cpu, online);
	scx_bpf_put_cpumask(online);
	take_seats();
}

/* 0 if the slot's task is dead, or of another class. */
static __always_inline u32 weight_of_slot(u32 id)
{
	struct task_struct *p;
	u32 weight;

	bpf_rcu_read_lock();
	p = task_of(id);
	weight = p ? task_weight(&slots[id], p) : 0;
	bpf_rcu_read_unlock();
	return weight;
}

/* A task is no longer the policy's. */
static __always_inline void expel(struct slot __arena *slot, u32 id)
{
	unsigned long flags;

	bpf_local_irq_save(&flags);
	if (lock()) {
		word_put(&slot->custody, TASK_OUT);
		if (slot->has_ended)
			free_slot(id);
		slot->has_ended = false;
		unlock();
	}
	bpf_local_irq_restore(&flags);
}

/* A task that waits wakes in the policy; false if it sleeps by now. On this cpu nobody comes in between. */
static __always_inline bool wakes_again(struct slot __arena *slot, u32 id)
{
	unsigned long flags;
	bool waits;

	bpf_local_irq_save(&flags);
	waits = word_replace(&slot->custody, TASK_WAITING, CLAIMED);
	if (waits) {
		policy_wake(id);
		word_exchange(&slot->custody, TASK_WAITING);
	}
	bpf_local_irq_restore(&flags);
	return waits;
}

/* What a slot's task was for the policy is forgotten; it is known again, and wakes if it waited. */
static __always_inline void readmit(u32 id)
{
	struct slot __arena *slot = &slots[id];
	u32 weight;

	zero_out(&slot->policy, sizeof(slot->policy));
	if (look_custody(id) == TASK_OUT)
		return;
	weight = weight_of_slot(id);
	if (!weight) {
		expel(slot, id);
		return;
	}
	policy_add(id, weight);
	if (wakes_again(slot, id))
		return;
	slot->used_ns = 0;
	slot->on_credit = false;
	if (slot->owed_ns > 0)
		slot->owed_ns = 0;
	word_exchange(&slot->custody, TASK_BLOCKED);
}

/* What became of a task while the policy was closed, and known already, now that it is open. */
static __always_inline void make_up_for(struct slot __arena *slot, u32 id)
{
	u32 weight = weight_of_slot(id);
	unsigned long flags;

	bpf_local_irq_save(&flags);
	if (is_open() && look_custody(id) != TASK_OUT) {
		if (weight)
			policy_set_weight(id, weight);
		else if (word_look(&slot->has_ended))
			withdraw(id, TASK_BLOCKED);
	}
	bpf_local_irq_restore(&flags);
	if (!weight && word_look(&slot->has_ended))
		expel(slot, id);
}

static __always_inline void catch_up(u32 id)
{
	struct slot __arena *slot = &slots[id];
	bool is_reweighed = word_look(&slot->reweighed) && word_exchange(&slot->reweighed, 0);

	if (is_reweighed || word_look(&slot->has_ended))
		make_up_for(slot, id);
}

/* True if somebody waits on credit for a cpu that has gone. */
static __always_inline bool is_anybody_left(void)
{
	u32 cpu, left = unknown_zero(seats->count);

	bpf_for(cpu, 0, cpus_end)
		left |= !is_online(cpu) && scx_bpf_dsq_nr_queued(CREDIT_QUEUE(cpu));
	return left;
}

/* --- the loader's programs ------------------------------------------------------------------------- */

SEC("syscall")
int prorata_close(void *context)
{
	word_exchange(&is_closed, 1);
	return 0;
}

SEC("raw_tp")
int prorata_visit(void *context)
{
	return 0;
}

/* Outdated afterwards if it has to be done again. */
SEC("syscall")
int prorata_reopen(void *context)
{
	u32 counts = sizeof(struct policy_counts), id;

	use_arena();
	word_exchange(&is_outdated, false);
	zero_out((char __arena *)STATE + counts, sizeof(struct policy_state) - counts);
	take_seats();
	/* This cpu has come, and we have not been told yet. */
	if (policy_cpu() == NIL) {
		is_outdated = true;
		return 0;
	}
	DESK(this_cpu())->now_ns = scx_bpf_now();
	bpf_for(id, 0, slots_end)
		readmit(id);
	word_exchange(&is_closed, 0);
	bpf_for(id, 0, slots_end)
		catch_up(id);
	if (is_anybody_left())
		is_outdated = true;
	kick_idle_cpus();
	return 0;
}

#endif

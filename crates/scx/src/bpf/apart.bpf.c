/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scx_prorata for a policy whose queues have locks of their own: the callbacks of sched_ext without a lock
 * that all cpus share.
 *
 *   select_cpu   the cpu where the task ran: whoever idles is kicked for it
 *   enqueue      blocked -> waiting
 *   dispatch     the cpu's quantum is over, and it picks
 *   quiescent    running -> blocked
 *
 * What is known of a task is its owner's (custody.h), of a cpu that cpu's. One lock (lock.h) is left for the
 * list of free slots and for `weight set`: no decision takes it.
 *
 * What main.bpf.c has and this has not: turns that are kept for sleepers, cgroups, masks (a
 * task that may not run on every cpu has its turns, but runs them outside the policy), and cpus that come
 * or go, for which the kernel unloads us and the loader loads again (until then: task_ops.h).
 *
 * Tasks without a slot wait in a queue of the kernel's, which each cpu serves at one in CROWD_PART decisions,
 * and before it idles.
 *
 * POLICY_HEADER names the policy's file.
 */
#include <scx/common.bpf.h>
#include "intf.h"
#include "policy.h"
#include "lock.h"
#include "apart_memory.h"
#include POLICY_HEADER
#include "ledger.h"

static u64 debt_limit_ns(const struct slot __arena *slot)
{
	return DEBT_QUANTA * quantum;
}

#include "custody.h"
#include "beside.h"
#include "weight.h"
#include "task.h"
#include "permission.h"
#include "slice.h"
#include "reader.h"
#include "overdue.h"
#include "cores.h"
#include "task_ops.h"

#define CROWD_QUEUE 0
#define CROWD_PART 16
/* Picks of debtors until a cpu takes one rather than decide again. */
#define PICKS_OF_DEBTORS (2 * DEBT_QUANTA)

char _license[] SEC("license") = "GPL";

static __always_inline bool begin(void)
{
	use_arena();
	return lock();
}

/* --- slots ------------------------------------------------------------------------------------- */

static __always_inline void slot_begins(u32 id, u32 node)
{
	slots[id].custody = TASK_OUT;
	note_slot(id);
}

static __always_inline void slot_ends(u32 id)
{
	free_slot(id);
}

/* --- cpus -------------------------------------------------------------------------------------- */

/* True if the task's slice is none of ours. */
static bool is_beside(const struct task_struct *p, u32 cpu)
{
	u32 id = slot_of(p);

	return id != NIL && look_custody(id) == TASK_BLOCKED;
}

s32 BPF_STRUCT_OPS(prorata_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;

	use_arena();
	/* Others are picked by whoever idles. */
	if (!serves_everybody(p) && !is_limited(p))
		return prev_cpu;
	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
}

/* --- ops.enqueue ------------------------------------------------------------------------------- */

/* A task of the crowd waits. */
static __always_inline void enqueue_crowd(struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, CROWD_QUEUE, quantum, enq_flags);
	policy_offer();
}

/* A task that was picked for a cpu, and goes there, or on there. False if it waits again. */
static __always_inline bool goes_to(struct task_struct *p, u32 id, u32 cpu, u32 home, bool thrown_out)
{
	struct slot __arena *slot = &slots[id];

	if (thrown_out || !is_owed_after(slot, p->se.sum_exec_runtime))
		return false;
	if (slot->confined && !can_run_on(p, cpu))
		return false;
	if (cpu != home) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, ledger_slice_ns(slot), 0);
		return true;
	}
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, ledger_slice_ns(slot), 0);
	/* It goes on after what ran beside the policy. */
	if (bpf_get_smp_processor_id() == home)
		slice_begins(home, ledger_slice_ns(slot));
	return true;
}

/* A run is over, or cannot begin. */
static __always_inline void come_back(struct slot __arena *slot, u32 id, u32 cpu, u32 home, u64 now)
{
	if (cpu != home) {
		/* Only a task that blocks is free of the cpu that picked it. */
		cpu = withdraw(id, TASK_BLOCKED);
		join(slot, id, now);
	} else if (word_replace(&slot->custody, running_on(cpu), CLAIMED)) {
		end_run(slot, id, false, now);
		policy_offer();
	}
	/* It may wait for the task, also where another had picked it meanwhile. */
	if (cpu != NIL && cpu != bpf_get_smp_processor_id())
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* True if a task that is outside the policy goes on there; else it is the policy's again. */
static __always_inline bool goes_on_away(struct task_struct *p, u32 id, u32 home, u64 now)
{
	struct slot __arena *slot = &slots[id];
	bool is_owed = is_owed_after(slot, p->se.sum_exec_runtime);

	end_away(slot);
	if (!is_owed) {
		join(slot, id, now);
		/* It may count on the task, and idle. */
		scx_bpf_kick_cpu(slot->away_on, SCX_KICK_IDLE);
		return false;
	}
	begin_away(slot, home);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, ledger_slice_ns(slot), 0);
	return true;
}

void BPF_STRUCT_OPS(prorata_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 id = slot_of(p), home = scx_bpf_task_cpu(p), custody, cpu;
	u64 now = scx_bpf_now();
	struct slot __arena *slot;
	bool reads;

	use_arena();
	if (policy_cpu() == NIL || !is_online(home)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, quantum, enq_flags);
		return;
	}
	if (id == NIL) {
		enqueue_crowd(p, enq_flags);
		return;
	}
	slot = &slots[id];
	if (serves_everybody(p)) {
		if (!(enq_flags & SCX_ENQ_WAKEUP)) {
			if (look_custody(id) == TASK_BLOCKED)
				end_beside(id, home, now, p->se.sum_exec_runtime);
		} else if (look_custody(id) == TASK_BLOCKED && begin_beside(p, id, home, now)) {
			occupy(home);
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL,
					   enq_flags | SCX_ENQ_PREEMPT);
			return;
		}
	}
	reads = !(enq_flags & SCX_ENQ_WAKEUP) && goes_on_reading(p, home);
	slot->confined = is_confined(p);
	slot->in_transit = reads;
	/* A barrier. */
	word_exchange(&slot->home, home);
	custody = look_custody(id);
	if (custody == TASK_BLOCKED) {
		ledger_wake(slot, p->se.sum_exec_runtime);
		join(slot, id, now);
	} else if (custody == TASK_AWAY) {
		if (goes_on_away(p, id, home, now))
			return;
	} else if (is_running(custody)) {
		cpu = custody_cpu(custody);
		if (goes_to(p, id, cpu, home, enq_flags & SCX_ENQ_REENQ))
			return;
		come_back(slot, id, cpu, home, now);
	}
	/* Whoever picks it leaves the insertion to us. */
	if (reads)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, READER_NS, SCX_ENQ_HEAD);
}

/* --- ops.dispatch ------------------------------------------------------------------------------ */

/* True if the task that was picked for this cpu, and has not come, is still on its way. */
static __always_inline bool is_awaited(u32 cpu, u64 now)
{
	u32 id = DESK(cpu)->cpu.task;
	struct slot __arena *slot = &slots[id];

	if (id == NIL || await_custody(id) != running_on(cpu))
		return false;
	if (now - slot->since_ns < LOST_NS)
		return true;
	if (word_replace(&slot->custody, running_on(cpu), CLAIMED)) {
		STATS(cpu)->lost++;
		end_run(slot, id, false, now);
	}
	return false;
}

/* A task that is neither the policy's nor the kernel's runs a quantum where it was put last. */
static __always_inline void send_away(struct task_struct *p, u32 id)
{
	struct slot __arena *slot = &slots[id];

	begin_away(slot, slot->home);
	ledger_grant(slot, quantum);
	word_exchange(&slot->custody, TASK_AWAY);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | slot->home, ledger_slice_ns(slot), 0);
}

/* The task that has waited too long, and this cpu was left with, if it still waits. */
static __always_inline void rescue(u32 cpu, u64 now)
{
	u32 id = DESK(cpu)->overdue - 1;
	struct slot __arena *slot = &slots[id];
	struct task_struct *p;

	word_exchange(&DESK(cpu)->overdue, 0);
	/* It may have run since. */
	if (now - slot->since_ns < LOST_NS || !take_out(slot, id, CLAIMED))
		return;
	p = task_of(id);
	if (!p) {
		join(slot, id, now);
		return;
	}
	STATS(cpu)->rescues++;
	send_away(p, id);
}

/* The task was picked for a cpu where it must not run: it has its turn on its own. */
static __always_inline void redirect(struct task_struct *p, u32 id, u32 cpu, u64 now)
{
	struct slot __arena *slot = &slots[id];

	if (!word_replace(&slot->custody, running_on(cpu), CLAIMED))
		return;
	slot->owed_ns -= slot->run_ns;
	policy_charge(id, slot->run_ns);
	/* Whoever has picked it since waits for the word. */
	if (policy_block(id)) {
		word_exchange(&slot->custody, TASK_WAITING);
		return;
	}
	STATS(cpu)->confined++;
	send_away(p, id);
}

/* The policy has picked a task for this cpu. False if its debts take the run. */
static __always_inline bool grant(struct slot __arena *slot, u32 id, u32 cpu, bool debtors_too, u64 now)
{
	ledger_grant(slot, quantum);
	if (slot->owed_ns <= 0 && !debtors_too) {
		STATS(cpu)->overdrafts++;
		policy_charge(id, quantum);
		return false;
	}
	if (now - slot->since_ns > STATS(cpu)->longest_wait_ns && now > slot->since_ns)
		STATS(cpu)->longest_wait_ns = now - slot->since_ns;
	slot->since_ns = now;
	begin_run(slot, cpu);
	DESK(cpu)->cpu.task = id;
	return true;
}

/* The task that this cpu runs next; NIL if none waits. */
static __always_inline u32 pick_next(u32 cpu, u32 seat, u64 now)
{
	u32 i, id = NIL;

	bpf_for(i, 0, PICKS_OF_DEBTORS + 1) {
		id = policy_pick(seat);
		STATS(cpu)->picks++;
		if (id == NIL || grant(&slots[id], id, cpu, i == PICKS_OF_DEBTORS, now))
			break;
	}
	if (id != NIL)
		return id;
	STATS(cpu)->idle_picks++;
	word_exchange(&DESK(cpu)->cpu.task, NIL);
	/* Somebody may have been sent here for a quantum before we said that we idle. */
	if (word_look(&DESK(cpu)->away))
		occupy(cpu);
	return NIL;
}

/* Somebody of the crowd has this decision. */
static __always_inline bool serve_crowd(u32 cpu)
{
	if (!scx_bpf_dsq_nr_queued(CROWD_QUEUE) || !scx_bpf_dsq_move_to_local(CROWD_QUEUE, 0))
		return false;
	DESK(cpu)->until_crowd = CROWD_PART;
	slice_begins(cpu, quantum);
	return true;
}

static __always_inline bool crowd_comes(u32 cpu)
{
	if (DESK(cpu)->until_crowd) {
		DESK(cpu)->until_crowd--;
		return false;
	}
	return serve_crowd(cpu);
}

/* True if the task that ran here goes on; else it waits, in transit (dispatch.h). */
static __always_inline bool goes_on(struct task_struct *prev, u32 id, u32 cpu, u64 now)
{
	struct slot __arena *slot = &slots[id];
	u32 custody = look_custody(id);

	slot->in_transit = true;
	if (custody == TASK_AWAY) {
		if (is_owed_after(slot, prev->se.sum_exec_runtime))
			return true;
		end_away(slot);
		join(slot, id, now);
		return false;
	}
	if (custody != running_on(cpu))
		return false;
	ledger_settle(slot, prev->se.sum_exec_runtime);
	if (ledger_goes_on(slot)) {
		STATS(cpu)->resumed++;
		return true;
	}
	end_run(slot, id, false, now);
	return false;
}

static __always_inline void keep(struct task_struct *prev, u32 id, u32 cpu)
{
	slots[id].in_transit = false;
	scx_bpf_task_set_slice(prev, ledger_slice_ns(&slots[id]));
	slice_begins(cpu, ledger_slice_ns(&slots[id]));
}

void BPF_STRUCT_OPS(prorata_dispatch, s32 cpu, struct task_struct *prev)
{
	u64 now = scx_bpf_now();
	u32 id, previous = NIL, seat;
	struct task_struct *p;

	/* The kernel is about to unload us for it. */
	if (cpu >= MAX_CPUS)
		return;
	use_arena();
	seat = policy_cpu();
	if (seat == NIL)
		return;
	DESK(cpu)->now_ns = now;
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
		if (goes_on_reading(prev, cpu)) {
			scx_bpf_task_set_slice(prev, READER_NS);
			slice_begins(cpu, READER_NS);
			return;
		}
		previous = slot_of(prev);
	}
	if (previous != NIL && goes_on(prev, previous, cpu, now)) {
		keep(prev, previous, cpu);
		return;
	}
	if (is_awaited(cpu, now)) {
		look_for_lost(cpu, false);
		return;
	}
	if (DESK(cpu)->overdue)
		rescue(cpu, now);
	if (crowd_comes(cpu))
		return;
	id = pick_next(cpu, seat, now);
	if (id == NIL) {
		serve_crowd(cpu);
		return;
	}
	if (id == previous) {
		STATS(cpu)->keeps++;
		keep(prev, id, cpu);
		return;
	}
	p = task_of(id);
	if (!p)
		return;
	/* We have passed a barrier, where the word says that we picked it. */
	if (word_look(&slots[id].in_transit)) {
		slice_begins(cpu, ledger_slice_ns(&slots[id]));
		return;
	}
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, ledger_slice_ns(&slots[id]), 0);
	if (slots[id].confined && !can_run_on(p, cpu)) {
		scx_bpf_dispatch_cancel();
		redirect(p, id, cpu, now);
		return;
	}
	slice_begins(cpu, ledger_slice_ns(&slots[id]));
}

/* --- other changes ----------------------------------------------------------------------------- */

/* The task is out of the policy, to be in state `then`; its run queue is locked. */
static __always_inline void leave(struct task_struct *p, u32 id, u64 exec_ns, u32 then)
{
	struct slot __arena *slot = &slots[id];
	u32 custody = look_custody(id), cpu;

	if (custody == TASK_BLOCKED || custody == TASK_OUT) {
		word_put(&slot->custody, then);
		return;
	}
	ledger_settle(slot, exec_ns);
	cpu = withdraw(id, then);
	/* It has to look for another. */
	if (cpu != NIL && cpu != scx_bpf_task_cpu(p))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

void BPF_STRUCT_OPS(prorata_quiescent, struct task_struct *p, u64 deq_flags)
{
	u32 id = slot_of(p), cpu = scx_bpf_task_cpu(p);

	/* Being reniced, moved or bound is no reason to leave. */
	if (!(deq_flags & SCX_DEQ_SLEEP) || id == NIL)
		return;
	use_arena();
	if (policy_cpu() == NIL)
		return;
	if (p->__state & TASK_DEAD)
		forget_task(id);
	if (look_custody(id) != TASK_BLOCKED)
		leave(p, id, run_time_ns(p), TASK_BLOCKED);
	else if (serves_everybody(p))
		end_beside(id, cpu, scx_bpf_now(), run_time_ns(p));
}

bool BPF_STRUCT_OPS(prorata_yield, struct task_struct *from, struct task_struct *to)
{
	u32 id = slot_of(from);

	use_arena();
	if (id != NIL)
		slots[id].yielded = true;
	scx_bpf_task_set_slice(from, 0);
	return false;
}

static __always_inline void change_weight(u32 id, u32 weight)
{
	if (policy_cpu() != NIL)
		policy_set_weight(id, weight);
}

void BPF_STRUCT_OPS(prorata_set_weight, struct task_struct *p, u32 cgroup_weight)
{
	u32 id = slot_of(p);

	use_arena();
	if (id != NIL)
		change_weight(id, task_weight(&slots[id], p));
}

void BPF_STRUCT_OPS(prorata_enable, struct task_struct *p)
{
	u32 id = kept_slot(p);

	use_arena();
	scx_bpf_task_set_dsq_vtime(p, ((u64)id + 1) & 0xffffffff);
	if (id == NIL)
		return;
	refer_to_task(id, p);
	slots[id].exec_ns = p->se.sum_exec_runtime;
	policy_add(id, task_weight(&slots[id], p));
	word_exchange(&slots[id].custody, TASK_BLOCKED);
}

void BPF_STRUCT_OPS(prorata_disable, struct task_struct *p)
{
	u32 id = slot_of(p);

	use_arena();
	if (id == NIL || policy_cpu() == NIL)
		return;
	forget_task(id);
	leave(p, id, p->se.sum_exec_runtime, TASK_OUT);
}

s32 BPF_STRUCT_OPS(prorata_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return refuses(p, args) ? -EBUSY : task_begin(p, args->fork, 0);
}

#define NEW(pointer, count) ({ \
	(pointer) = bpf_arena_alloc_pages(&arena, NULL, pages_of(sizeof(*(pointer)) * (count)), \
					  NUMA_NO_NODE, 0); \
	!(pointer); \
})

/* The cpus that are online are the policy's. */
static __always_inline void take_seats(void)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	u32 cpu, count;

	seats->count = 0;
	bpf_for(cpu, 0, MAX_CPUS) {
		DESK(cpu)->cpu.task = NIL;
		seats->seat_of[cpu] = NIL;
		if (cpu >= cpus_end || !bpf_cpumask_test_cpu(cpu, online))
			continue;
		count = seats->count;
		seats->seat_of[cpu] = DESK(cpu)->cpu.seat = count;
		seats->cpu_at[count & (MAX_CPUS - 1)] = cpu;
		seats->count = count + 1;
	}
	scx_bpf_put_cpumask(online);
	cpus_at_first = seats->count;
	seats->steps = RECORD_EVENTS >> ilog2(2 * seats->count - 1);
	policy_init(seats->count);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(prorata_init)
{
	s32 err;
	u32 i;

	if (NEW(shared, 1) || NEW(state, 1) || NEW(slots, MAX_TASKS) || NEW(desks, MAX_CPUS) ||
	    NEW(seats, 1))
		return -ENOMEM;
	if (recording) {
		if (NEW(steps, RECORD_EVENTS))
			return -ENOMEM;
		events_address = (u64)steps;
	}
	shared_address = (u64)shared;
	slots_address = (u64)slots;
	desks_address = (u64)desks;
	counts_address = (u64)&state->counts;
	shared->free_slot = NIL;
	err = scx_bpf_create_dsq(CROWD_QUEUE, NUMA_NO_NODE);
	if (err)
		return err;
	bpf_for(i, 0, max_tasks)
		free_slot(max_tasks - 1 - i);
	take_seats();
	slice_init();
	overdue_init();
	return 0;
}

#include "weight_call.h"

SCX_OPS_DEFINE(prorata_ops,
	       .select_cpu	= (void *)prorata_select_cpu,
	       .enqueue		= (void *)prorata_enqueue,
	       .dispatch	= (void *)prorata_dispatch,
	       .quiescent	= (void *)prorata_quiescent,
	       .tick		= (void *)prorata_tick,
	       .yield		= (void *)prorata_yield,
	       .set_weight	= (void *)prorata_set_weight,
	       .enable		= (void *)prorata_enable,
	       .disable		= (void *)prorata_disable,
	       .init_task	= (void *)prorata_init_task,
	       .exit_task	= (void *)prorata_exit_task,
	       .init		= (void *)prorata_init,
	       .exit		= (void *)prorata_exit,
	       .timeout_ms	= 30000,
	       .name		= "prorata_gdq_distributed");

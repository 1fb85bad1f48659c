/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scx_prorata for a policy whose queues have locks of their own: the callbacks of sched_ext without a lock
 * that all cpus share.
 *
 *   select_cpu   the cpu where the task ran: whoever idles is kicked for it
 *   enqueue      blocked -> waiting
 *   dispatch     the cpu's quantum is over, and it picks
 *   quiescent    running -> blocked, or asleep in the policy (credit.h)
 *
 * What is known of a task is its owner's (custody.h), of a cpu that cpu's. One lock (lock.h) is left for the
 * list of free slots and for `weight set`: no decision takes it.
 *
 * What main.bpf.c has and this has not: corrected turns, cgroups, masks (a task that may not run on every cpu
 * has its turns, but runs them outside the policy). Where cpus come or go the loader helps (reopen.h).
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
#include "credit.h"
#include "permission.h"
#include "slice.h"
#include "reader.h"
#include "overdue.h"
#include "cores.h"
#include "task_ops.h"
#include "reopen.h"

/* The others are those of cpus (credit.h). */
#define CROWD_QUEUE 0
#define CROWD_PART 16
/* Picks of debtors until a cpu takes one rather than decide again. */
#define PICKS_OF_DEBTORS (2 * DEBT_QUANTA)
/* Picks, also of those who sleep, until a cpu lets the kernel ask again. */
#define MOST_PICKS 64

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
	slots[id].credit_ns = 0;
	slots[id].has_ended = false;
	note_slot(id);
}

/* A task that ended while the policy was closed may be in there still. */
static __always_inline void slot_ends(u32 id)
{
	if (look_custody(id) == TASK_OUT)
		free_slot(id);
	else
		slots[id].has_ended = true;
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
	u32 id = slot_of(p);
	bool is_idle = false, on_credit;
	s32 cpu;

	use_arena();
	on_credit = id != NIL && has_credit(&slots[id]);
	/* Others are picked by whoever idles. */
	if (!serves_everybody(p) && !is_limited(p) && !on_credit)
		return prev_cpu;
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	return is_idle || !on_credit ? cpu : find_cpu_for_credit(p, cpu, scx_bpf_now());
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
	if ((slot->confined && !can_run_on(p, cpu)) || !is_online(cpu))
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

/* A task runs outside the policy on its own cpu, now that its word says so. */
static __always_inline void run_here(struct task_struct *p, struct slot __arena *slot, u32 home, u64 flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, ledger_slice_ns(slot), flags);
	if (flags != SCX_ENQ_HEAD && bpf_get_smp_processor_id() == home)
		slice_begins(home, ledger_slice_ns(slot));
}

/* A task runs on credit on its own cpu, after so many others. */
static __always_inline void run_on_credit(struct task_struct *p, struct slot __arena *slot, u32 home,
					  u32 others)
{
	if (others < CREDIT_DEPTH) {
		run_here(p, slot, home, others ? SCX_ENQ_HEAD : SCX_ENQ_PREEMPT);
		return;
	}
	scx_bpf_dsq_insert(p, CREDIT_QUEUE(home), ledger_slice_ns(slot), 0);
	/* They may be done by now. */
	scx_bpf_kick_cpu(home, SCX_KICK_IDLE);
}

/* A task's run outside the policy is over: it waits for its turn. */
static __always_inline void return_from_away(struct slot __arena *slot, u32 id, u64 now)
{
	end_away(slot);
	slot->since_ns = now;
	if (change_custody(id, ON_CREDIT, TASK_WAITING) == TASK_AWAY)
		join(slot, id, now);
}

/* True if a task that is outside the policy goes on there; else it is the policy's again. */
static __always_inline bool goes_on_away(struct task_struct *p, u32 id, u32 home, u64 now)
{
	struct slot __arena *slot = &slots[id];

	if (is_owed_after(slot, p->se.sum_exec_runtime)) {
		end_away(slot);
		begin_away(slot, home);
		run_here(p, slot, home, 0);
		return true;
	}
	return_from_away(slot, id, now);
	policy_offer();
	/* It may count on the task, and idle. */
	scx_bpf_kick_cpu(slot->away_on, SCX_KICK_IDLE);
	return false;
}

/* A task that is asleep for the policy, or blocked, wakes. False if it waits for its turn. */
static __always_inline bool runs_at_once(struct task_struct *p, u32 id, u32 home, u64 now)
{
	struct slot __arena *slot = &slots[id];
	bool at_once = has_credit(slot) && takes_credit(home, now);
	u32 custody;

	ledger_wake(slot, p->se.sum_exec_runtime);
	custody = change_custody(id, ASLEEP, at_once ? ON_CREDIT : TASK_WAITING);
	if (custody == TASK_WAITING) {
		slot->since_ns = now;
		policy_offer();
		return false;
	}
	if (custody == TASK_BLOCKED && !at_once) {
		join(slot, id, now);
		return false;
	}
	if (custody == TASK_BLOCKED)
		word_exchange(&slot->custody, TASK_AWAY);
	run_on_credit(p, slot, home, begin_credit(slot, home, now));
	return true;
}

/* A task that is ours now is the policy's, blocked. */
static __always_inline void admit(struct task_struct *p, u32 id)
{
	policy_add(id, task_weight(&slots[id], p));
	word_exchange(&slots[id].custody, TASK_BLOCKED);
}

void BPF_STRUCT_OPS(prorata_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 id = slot_of(p), home = scx_bpf_task_cpu(p), custody, cpu;
	u64 now = scx_bpf_now();
	struct slot __arena *slot;
	bool reads;

	use_arena();
	if (!is_open() || !is_online(home)) {
		enqueue_outside(p, id, home, enq_flags);
		return;
	}
	if (id == NIL) {
		enqueue_crowd(p, enq_flags);
		return;
	}
	slot = &slots[id];
	/* It became ours while the policy was closed. */
	if (look_custody(id) == TASK_OUT)
		admit(p, id);
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
	if (custody == PAID)
		custody = change_custody(id, NIL, NIL);
	if (custody == TASK_BLOCKED || custody == ASLEEP) {
		if (runs_at_once(p, id, home, now))
			return;
	} else if (custody == TASK_AWAY || custody == ON_CREDIT) {
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

	slot->on_credit = false;
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
	if (now - slot->since_ns < LOST_NS || !take_out(slot, id, TASK_WAITING, CLAIMED))
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

/* What comes of a task that the policy has picked for a cpu. */
enum given {
	/* It runs. */
	GIVEN_RUNS,
	/* Its debts take the run. */
	GIVEN_OWES,
	/* It fell asleep, or somebody claimed it, as we looked. */
	GIVEN_CHANGED,
	/* It sleeps, or runs on credit, and has been paid. */
	GIVEN_PAID,
};

/* The policy has picked a task that waits for this cpu. */
static __always_inline enum given grant(struct slot __arena *slot, u32 id, u32 cpu, bool debtors_too, u64 now)
{
	u64 waited_ns = now > slot->since_ns ? now - slot->since_ns : 0;

	ledger_grant(slot, quantum);
	if (slot->owed_ns <= 0 && !debtors_too) {
		STATS(cpu)->overdrafts++;
		policy_charge(id, quantum);
		return GIVEN_OWES;
	}
	if (!begin_run(slot, cpu)) {
		slot->owed_ns -= quantum;
		return GIVEN_CHANGED;
	}
	if (waited_ns > STATS(cpu)->longest_wait_ns)
		STATS(cpu)->longest_wait_ns = waited_ns;
	slot->since_ns = now;
	DESK(cpu)->cpu.task = id;
	return GIVEN_RUNS;
}

/* The policy has picked a task for this cpu. */
static __always_inline enum given take_given(u32 id, u32 cpu, bool debtors_too, u64 now)
{
	enum given given = GIVEN_CHANGED;
	u32 custody = TASK_WAITING, i;

	bpf_for(i, 0, LOCK_SPINS) {
		custody = custody_of_given(id);
		if (custody != TASK_WAITING)
			break;
		given = grant(&slots[id], id, cpu, debtors_too, now);
		if (given != GIVEN_CHANGED)
			return given;
	}
	pay(id, custody);
	return GIVEN_PAID;
}

/* The task that this cpu runs next; NIL if none waits. */
static __always_inline u32 pick_next(u32 cpu, u32 seat, u64 now)
{
	u32 i, id = NIL, debtors = unknown_zero(seat);

	bpf_for(i, 0, MOST_PICKS) {
		enum given given;

		id = policy_pick(seat);
		STATS(cpu)->picks++;
		if (id == NIL)
			break;
		given = take_given(id, cpu, debtors >= PICKS_OF_DEBTORS, now);
		if (given == GIVEN_RUNS)
			return id;
		debtors += given == GIVEN_OWES;
	}
	/* The kernel asks again: there are many who sleep. */
	if (id != NIL)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	else
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
	if (custody == TASK_AWAY || custody == ON_CREDIT || custody == PAID) {
		if (is_owed_after(slot, prev->se.sum_exec_runtime))
			return true;
		return_from_away(slot, id, now);
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
	if (!is_open() || !is_online(cpu))
		return;
	seat = policy_cpu();
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
	if (credit_comes(cpu, now) || serve_left(cpu))
		return;
	if (is_awaited(cpu, now)) {
		look_for_lost(cpu, false);
		return;
	}
	if (DESK(cpu)->overdue)
		rescue(cpu, now);
	word_put(&DESK(cpu)->decided_ns, now);
	if (crowd_comes(cpu))
		return;
	id = pick_next(cpu, seat, now);
	if (id == NIL) {
		if (!serve_any_credit(cpu))
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

	if (custody == TASK_OUT)
		return;
	if (custody == TASK_BLOCKED) {
		word_put(&slot->custody, then);
		return;
	}
	ledger_settle(slot, exec_ns);
	cpu = withdraw(id, then);
	/* It has to look for another. */
	if (cpu != NIL && cpu != scx_bpf_task_cpu(p))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* A task that is ours goes to sleep, and is no longer in the policy, or waits in it for what it may keep. */
static __always_inline void go_to_sleep(struct task_struct *p, u32 id, u64 exec_ns)
{
	struct slot __arena *slot = &slots[id];
	bool keeps = keeps_turns() && !serves_everybody(p) && !(p->__state & TASK_DEAD);
	u32 cpu;

	if (!keeps || policy_idles() || !credit_room_ns(slot)) {
		leave(p, id, exec_ns, TASK_BLOCKED);
		if (keeps)
			fill_credit(slot);
		return;
	}
	ledger_settle(slot, exec_ns);
	cpu = sleep_in_place(id);
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
	if (p->__state & TASK_DEAD)
		forget_task(id);
	if (!is_open() && !sleep_outside(id))
		return;
	if (look_custody(id) != TASK_BLOCKED)
		go_to_sleep(p, id, run_time_ns(p));
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
	if (!is_open()) {
		/* It may be opened meanwhile. */
		word_exchange(&slots[id].reweighed, true);
		if (!is_open())
			return;
	}
	if (look_custody(id) != TASK_OUT)
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
	/* It was disabled while the policy was closed, and is there still; or that is closed. */
	if (look_custody(id) == TASK_OUT && is_open())
		admit(p, id);
	else
		change_weight(id, task_weight(&slots[id], p));
}

void BPF_STRUCT_OPS(prorata_disable, struct task_struct *p)
{
	u32 id = slot_of(p);

	use_arena();
	if (id == NIL)
		return;
	forget_task(id);
	if (is_open() || sleep_outside(id))
		leave(p, id, p->se.sum_exec_runtime, TASK_OUT);
}

s32 BPF_STRUCT_OPS(prorata_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return refuses(p, args) ? -EBUSY : task_begin(p, args->fork, 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(prorata_init)
{
	s32 err;
	u32 i;

	if (NEW(shared, 1) || NEW(state, 1) || NEW(slots, MAX_TASKS) || NEW(desks, MAX_CPUS) || NEW(seats, 1))
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
	bpf_for(i, 0, cpus_end)
		err = err ?: scx_bpf_create_dsq(CREDIT_QUEUE(i), NUMA_NO_NODE);
	if (err)
		return err;
	bpf_for(i, 0, max_tasks)
		free_slot(max_tasks - 1 - i);
	seats_init();
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
	       .cpu_online	= (void *)prorata_cpu_online,
	       .cpu_offline	= (void *)prorata_cpu_offline,
	       .init		= (void *)prorata_init,
	       .exit		= (void *)prorata_exit,
	       .timeout_ms	= 30000,
	       .name		= "prorata_gdq_distributed");

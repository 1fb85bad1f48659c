/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scx_prorata: the callbacks of sched_ext, in terms of the policy.
 *
 * A switch of a task that sleeps and is woken, as the kernel calls us:
 *
 *   select_cpu   an idle cpu if there is one
 *   enqueue      blocked -> waiting; kick an idle cpu, or run before who runs here (dispatch.h)
 *   dispatch     the cpu asks: waiting -> running
 *   quiescent    running -> blocked, as the next decision says (news.h)
 *
 * ops.running and ops.stopping are not needed: run time is read where the ledger needs it. And
 * ops.running would do harm. The kernel calls it when the task before has been handed to us, but is
 * still the cpu's current one; a BPF program counts as a migration-disabled section of the current
 * task, so that another cpu which takes that task meanwhile finds it bound to its cpu, and the
 * kernel ends the scheduler ("cannot move migration disabled").
 *
 * POLICY_HEADER names the policy's file; CORRECTS_TURNS is 1 for corrected turns, else 0. There is an object
 * for each of both.
 */
#include <scx/common.bpf.h>
#include "intf.h"
#include "policy.h"
#include "memory.h"
#include "lock.h"
#include POLICY_HEADER
#include "turns.h"
#include "record.h"
#include "ledger.h"
#include "domains.h"
#include "paid.h"
#include "siblings.h"
#include "queue.h"
#include "beside.h"
#include "weight.h"
#include "cgroup.h"
#include "task.h"
#include "slots.h"
#include "hotplug.h"
#include "late.h"
#include "estate.h"
#include "burst.h"
#include "spare.h"
#include "news.h"
#include "permission.h"
#include "slice.h"
#include "reader.h"
#include "crowd.h"
#include "dispatch.h"
#include "cores.h"
#include "task_ops.h"

char _license[] SEC("license") = "GPL";

/* Takes the lock. False if the scheduler is at its end. */
static __always_inline bool begin(void)
{
	use_arena();
	return lock();
}

/* The same at a time at which the policy is called: it is told first of what has changed, and who slept. */
static __always_inline bool begin_telling(u32 sleeper, u64 now)
{
	if (!begin())
		return false;
	/* Clocks of different cpus may be a little apart; policies see no time go back. */
	if (now > shared->now_ns)
		shared->now_ns = now;
	refresh_worth();
	if (sleeper != NIL || has_news())
		tell_news(sleeper);
	return true;
}

/*
 * Which of the idle cpus is best the kernel knows: one of a whole idle core, of the same cache and the
 * same node as the one before. That there is none we know without a call.
 */
s32 BPF_STRUCT_OPS(prorata_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false, confined = is_confined(p);
	u32 found = NIL;
	s32 cpu;

	use_arena();
	if (shared->idle_cpus) {
		cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, 0, &is_idle);
		if (is_idle)
			return cpu;
		found = find_idle(prev_cpu, confined ? NIL : 0);
	}
	if (found == NIL && !confined && serves_everybody(p))
		found = find_lightest(prev_cpu);
	return found == NIL ? prev_cpu : found;
}

/*
 * Where a task that is in our custody now goes: a cpu that it was picked for, its own cpu (a
 * quantum outside the policy), or nowhere (it waits, and an idle cpu may want it).
 *
 * A cpu is not asked to decide as long as there are tasks in its local queue, or in the global one.
 * So quanta have to end here too: two tasks that went on and on would hand the cpu to each other for
 * ever.
 */
enum place { PLACE_QUEUE, PLACE_PICKED, PLACE_HERE };

static u32 place_of(struct slot __arena *slot, u32 id, u64 exec_ns, bool thrown_out)
{
	bool stopping;

	switch (slot->state) {
	case TASK_BLOCKED:
		ledger_wake(slot, exec_ns);
		join(id);
		return PLACE_QUEUE;
	case TASK_RUNNING:
		stopping = turns_is_stopping(seat_of(slot->cpu));
		if (is_owed_after(slot, exec_ns) && !thrown_out && !stopping)
			return PLACE_PICKED;
		/* Another cpu that it was picked for may be gone for good. */
		if (thrown_out || (slot->cpu != slot->home && !stopping))
			give_back(id);
		else
			end_quantum(id, stopping);
		return PLACE_QUEUE;
	case TASK_AWAY:
		if (is_owed_after(slot, exec_ns)) {
			end_away(slot);
			begin_away(slot);
			return PLACE_HERE;
		}
		return_from_away(id, false);
		tell_spare(id);
		join(id);
		return PLACE_QUEUE;
	default:
		return PLACE_QUEUE;
	}
}

/*
 * True if a task that is in our custody now, and may run wherever a cpu comes, waits, and no cpu for it: its
 * quantum ended in ops.dispatch, which has looked for an idle one. The lock is not needed: who picks it
 * meanwhile finds it in our custody, or is seen here (dispatch.h).
 */
static __always_inline bool makes_room(struct slot __arena *slot, u32 home, bool reads)
{
	slot->confined = false;
	slot->in_transit = reads ? READS_IN_TRANSIT : 0;
	/* A barrier. */
	return word_exchange(&slot->home, home) != NIL && word_look(&slot->state) == TASK_WAITING &&
	       !slot->news && !shared->idle_cpus;
}

static __always_inline void enqueue_crowd(struct task_struct *p, u32 home, u64 enq_flags)
{
	bool goes_on = false;
	u32 idle = NIL;
	u64 slice_ns;

	if (!begin_telling(untold_sleeper(CROWD), scx_bpf_now()))
		return;
	if (!(enq_flags & (SCX_ENQ_WAKEUP | SCX_ENQ_REENQ)))
		goes_on = crowd_goes_on(home);
	if (!goes_on)
		idle = crowd_wake(home);
	if (idle != NIL)
		set_idle(idle, false);
	slice_ns = ledger_slice_ns(&slots[CROWD]);
	unlock();
	if (goes_on)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	else
		scx_bpf_dsq_insert(p, CROWD_QUEUE, quantum, enq_flags);
	if (idle != NIL)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

/* Stops what runs here, for a task that woke, without an interrupt. One that reads goes on for a moment. */
static __always_inline bool stop_at_once(u32 cpu)
{
	struct task_struct *p = bpf_get_current_task_btf();
	u32 id = slot_of(p);

	if (bpf_get_smp_processor_id() != cpu || !(p->scx.flags & SCX_TASK_QUEUED) ||
	    is_reading(p) || !can_stop_at_once(cpu, id))
		return false;
	settle_previous(cpu, id, run_time_ns(p));
	return true;
}

void BPF_STRUCT_OPS(prorata_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 id = slot_of(p), home = scx_bpf_task_cpu(p), place, picked_for, idle = NIL;
	u32 victim = NIL;
	u64 now = scx_bpf_now(), exec_ns = p->se.sum_exec_runtime, slice_ns, flags = 0;
	bool limited = is_limited(p), confined = limited || is_kept(p), was_picked, reads, has_left;
	struct slot __arena *slot;

	use_arena();
	if (serves_everybody(p)) {
		if (!(enq_flags & SCX_ENQ_WAKEUP)) {
			if (id != NIL && slots[id].state == TASK_BLOCKED)
				end_beside(id, home, now, exec_ns);
		} else if (!is_untold(id) && begin_beside(p, id, home, now)) {
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL,
					   enq_flags | SCX_ENQ_PREEMPT);
			return;
		}
	}
	if (is_of_crowd(id)) {
		enqueue_crowd(p, home, enq_flags);
		return;
	}
	slot = &slots[id];
	reads = !(enq_flags & SCX_ENQ_WAKEUP) && goes_on_reading(p, home);
	has_left = !(enq_flags & SCX_ENQ_WAKEUP) && was_left(home);
	if (!(enq_flags & (SCX_ENQ_WAKEUP | SCX_ENQ_REENQ)) && !confined &&
	    makes_room(slot, home, reads)) {
		if (reads)
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, READER_NS, SCX_ENQ_HEAD);
		return;
	}
	if (!begin_telling(untold_sleeper(id), now))
		return;
	picked_for = slot->cpu;
	was_picked = slot->state == TASK_RUNNING;
	/* A cpu that comes meanwhile is not used before we have let go of the lock. */
	if (limited)
		confined = is_confined(p);
	slot->home = home;
	slot->confined = confined;
	slot->in_transit = reads ? READS_IN_TRANSIT : 0;
	if (slot->state == TASK_BLOCKED) {
		if (!slot->known) {
			slot->exec_ns = exec_ns;
			introduce_task(slot, id);
			if (!exec_ns && uses_turns())
				begin_in_advance(id);
		}
		if (limited || slot->bound.mask)
			note_mask(p, id);
		if (!corrects_turns() || !joins_aside(slot))
			group_wake(id);
	}
	place = place_of(slot, id, exec_ns, enq_flags & SCX_ENQ_REENQ);
	/* The cpu that waits for it has to look for another; one that it left its own for has been woken. */
	if (place == PLACE_QUEUE && !has_left)
		idle = was_picked && picked_for != home ?
			picked_for : find_idle(home, is_kept(p) ? NIL : slot->bound.mask);
	if (idle != NIL)
		set_idle(idle, false);
	else if (place == PLACE_QUEUE && (enq_flags & SCX_ENQ_WAKEUP))
		victim = slot->aside ? split_for(id) : turns_is_ready(id) ? interrupt() : NIL;
	if (victim == home && !slot->aside && stop_at_once(home) && take_over(home, id)) {
		place = PLACE_PICKED;
		picked_for = home;
		flags = SCX_ENQ_PREEMPT;
		victim = NIL;
		idle = rouse(home);
	}
	slice_ns = ledger_slice_ns(slot);
	unlock();

	if (place == PLACE_PICKED && confined && !can_run_on(p, picked_for)) {
		redirect(picked_for, id);
		idle = picked_for;
		place = PLACE_HERE;
		flags = urgency(slot);
	}
	if (place == PLACE_PICKED && picked_for != home)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | picked_for, slice_ns, 0);
	else if (place != PLACE_QUEUE)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, flags);
	else if (reads)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, READER_NS, SCX_ENQ_HEAD);
	/* It goes on after what ran beside the policy. */
	if (place == PLACE_PICKED && picked_for == home &&
	    bpf_get_smp_processor_id() == home)
		slice_begins(home, slice_ns);
	if (idle != NIL)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	if (victim != NIL)
		scx_bpf_kick_cpu(victim, SCX_KICK_PREEMPT);
}

void BPF_STRUCT_OPS(prorata_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 previous = NIL, other, victim;
	u64 now = scx_bpf_now(), exec_ns = 0, decision;

	/* The kernel is about to unload us for it. */
	if (cpu >= MAX_CPUS)
		return;
	use_arena();
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
		if (goes_on_reading(prev, cpu)) {
			scx_bpf_task_set_slice(prev, READER_NS);
			slice_begins(cpu, READER_NS);
			return;
		}
		previous = crowd_or(slot_of(prev), cpu);
		exec_ns = prev->se.sum_exec_runtime;
	}
	if (!begin_telling(shared->cpu[cpu].blocked - 1, now))
		return;
	note_cpus(cpu);
	if (shared->cpus_changed)
		change_cpus();
	group_patrol();
	decision = decide(cpu, previous, exec_ns);
	other = rouse(cpu);
	victim = take_split();
	unlock();
	if (other != NIL)
		scx_bpf_kick_cpu(other, SCX_KICK_IDLE);
	if (victim != NIL)
		scx_bpf_kick_cpu(victim, SCX_KICK_PREEMPT);
	/* The kernel asks again: others wait for the lock, and the verifier goes round a loop many times. */
	if (carry_out(decision, cpu, prev))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* The policy is told by the cpu's next decision, which follows at once as a rule (news.h). */
void BPF_STRUCT_OPS(prorata_quiescent, struct task_struct *p, u64 deq_flags)
{
	u32 id = slot_of(p), cpu = scx_bpf_task_cpu(p);

	/* Being reniced, moved or bound is no reason to leave. */
	if (!(deq_flags & SCX_DEQ_SLEEP))
		return;
	use_arena();
	if (is_of_crowd(id)) {
		if (runs_crowd(cpu))
			hand_over_block(cpu, CROWD, 0);
		return;
	}
	if (p->__state & TASK_DEAD) {
		forget_task(id);
		if (uses_turns() && is_untold(id)) {
			note_death(cpu, id, run_time_ns(p));
			return;
		}
	}
	if (slots[id].state != TASK_BLOCKED) {
		hand_over_block(cpu, id, run_time_ns(p));
		/* It has been picked meanwhile: who waits for it has to look for another. */
		if (slots[id].state == TASK_RUNNING && slots[id].cpu != cpu)
			scx_bpf_kick_cpu(slots[id].cpu, SCX_KICK_IDLE);
	} else if (serves_everybody(p)) {
		end_beside(id, cpu, scx_bpf_now(), run_time_ns(p));
	}
}

bool BPF_STRUCT_OPS(prorata_yield, struct task_struct *from, struct task_struct *to)
{
	u32 id = slot_of(from);

	use_arena();
	if (is_of_crowd(id))
		id = runs_crowd(scx_bpf_task_cpu(from)) ? CROWD : NIL;
	if (id != NIL)
		slots[id].yielded = true;
	scx_bpf_task_set_slice(from, 0);
	return false;
}

void BPF_STRUCT_OPS(prorata_set_weight, struct task_struct *p, u32 cgroup_weight)
{
	u32 id = slot_of(p), weight;

	if (id == NIL)
		return;
	weight = task_weight(&slots[id], p);
	if (!begin())
		return;
	group_set_weight(id, weight);
	note_weight(id);
	unlock();
}

void BPF_STRUCT_OPS(prorata_set_cpumask, struct task_struct *p, const struct cpumask *cpumask)
{
	u32 id = slot_of(p);

	if (id == NIL || !begin())
		return;
	if (!is_kept(p))
		note_moved(&slots[id]);
	/* A task that sleeps is looked at when it wakes. */
	if (slots[id].state > TASK_BLOCKED) {
		/* One that runs alone is not enqueued for long. */
		if (!is_limited(p))
			slots[id].confined = is_kept(p);
		note_mask(p, id);
	}
	unlock();
}

void BPF_STRUCT_OPS(prorata_enable, struct task_struct *p)
{
	u32 id = kept_slot(p), weight;

	scx_bpf_task_set_dsq_vtime(p, ((u64)id + 1) & 0xffffffff);
	if (id == NIL)
		return;
	refer_to_task(id, p);
	weight = task_weight(&slots[id], p);
	if (!begin())
		return;
	group_set_weight(id, weight);
	slots[id].exec_ns = p->se.sum_exec_runtime;
	note_return(id);
	unlock();
}

void BPF_STRUCT_OPS(prorata_disable, struct task_struct *p)
{
	u32 id = slot_of(p), waiting = NIL;

	if (id == NIL)
		return;
	forget_task(id);
	if (!begin())
		return;
	/* The cpu that it was picked for has to look for another. */
	if (slots[id].state == TASK_RUNNING)
		waiting = slots[id].cpu;
	if (slots[id].state == TASK_RUNNING || slots[id].state == TASK_AWAY)
		ledger_settle(&slots[id], p->se.sum_exec_runtime);
	note_leave(id);
	unlock();
	if (waiting != NIL)
		scx_bpf_kick_cpu(waiting, SCX_KICK_IDLE);
}

s32 BPF_STRUCT_OPS(prorata_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return refuses(p, args) ? -EBUSY : task_begin(p, args->fork, node_of(number_of(args->cgroup)));
}

static __always_inline void cpu_changes(u32 cpu, bool comes)
{
	unsigned long flags;

	bpf_local_irq_save(&flags);
	if (lock()) {
		note_cpu(cpu, comes);
		unlock();
	}
	bpf_local_irq_restore(&flags);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(prorata_init)
{
	s32 err;
	u32 i;

	if (NEW(shared, 1) || NEW(state, 1) || NEW(slots, MAX_TASKS) || NEW(tree, 1) || NEW(bound, 1))
		return -ENOMEM;
	if (corrects_turns() && (NEW(online, 1) || NEW(corrected, 1)))
		return -ENOMEM;
	if (recording) {
		if (NEW(events, RECORD_EVENTS))
			return -ENOMEM;
		events_address = (u64)events;
	}
	shared_address = (u64)shared;
	slots_address = (u64)slots;
	tree_address = (u64)tree;
	counts_address = (u64)&state->counts;
	shared->news = shared->oldest = shared->newest = NIL;
	bpf_for(i, 0, MAX_CPUS)
		shared->cpu[i].task = NIL;
	shared->free_slot = NIL;
	err = scx_bpf_create_dsq(CROWD_QUEUE, NUMA_NO_NODE);
	if (err)
		return err;
	bpf_for(i, 0, max_tasks)
		free_slot(max_tasks - 1 - i);
	shared->crowd_refused = NIL;
	shared->paid.first = shared->paid.last = NIL;
	slice_init();
	return hotplug_init();
}

/* With the lock held. */
static __always_inline void change_weight(u32 id, u32 weight)
{
	group_set_weight(id, weight);
	note_weight(id);
}

#include "weight_call.h"
#include "cgroup_ops.h"

SCX_OPS_DEFINE(prorata_ops,
	       .select_cpu	= (void *)prorata_select_cpu,
	       .enqueue		= (void *)prorata_enqueue,
	       .dispatch	= (void *)prorata_dispatch,
	       .quiescent	= (void *)prorata_quiescent,
	       .tick		= (void *)prorata_tick,
	       .yield		= (void *)prorata_yield,
	       .set_weight	= (void *)prorata_set_weight,
	       .set_cpumask	= (void *)prorata_set_cpumask,
	       .enable		= (void *)prorata_enable,
	       .disable		= (void *)prorata_disable,
	       .init_task	= (void *)prorata_init_task,
	       .exit_task	= (void *)prorata_exit_task,
	       .cpu_online	= (void *)prorata_cpu_online,
	       .cpu_offline	= (void *)prorata_cpu_offline,
	       .cgroup_init	= (void *)prorata_cgroup_init,
	       .cgroup_exit	= (void *)prorata_cgroup_exit,
	       .cgroup_move	= (void *)prorata_cgroup_move,
	       .cgroup_set_weight = (void *)prorata_cgroup_set_weight,
	       .cgroup_set_idle	= (void *)prorata_cgroup_set_idle,
	       .init		= (void *)prorata_init,
	       .exit		= (void *)prorata_exit,
	       .timeout_ms	= 30000,
	       .name		= "prorata_" POLICY_NAME);

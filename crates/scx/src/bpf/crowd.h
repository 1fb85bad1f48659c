/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The crowd: tasks for which there is no slot are one more task of the policy, of nice 0. They wait in a
 * queue of the kernel's, and who comes first has the crowd's next turn.
 *
 *   255 hogs with slots and 145 without on 2 cpus: each with a slot gets 1/256 of them, and so does the
 *   crowd, whose members have a turn each in 145 of its turns
 *
 * With a long queue that would take longer than the kernel lets a task wait. So its turns are divided, into
 * as many slices as let everybody have one within the rescue time (CROWD_SLICE_NS is the least): here, with
 * quanta of 5 ms, .6 s between two turns and 10 s, into ten.
 *
 * The crowd has a slot, CROWD. Its clock is the time of day: what runs beside the policy while a member of
 * it has a cpu counts as the crowd's.
 *
 * Known limits: the crowd has one cpu at a time. A member that may not run on the cpu where the crowd has
 * its turn makes it lose that.
 */
#ifndef PRORATA_CROWD_H
#define PRORATA_CROWD_H

#define CROWD_QUEUE 0
#define CROWD_SLICE_NS 100000ULL
/*
 * The kernel puts a member into the queue when ops.enqueue has returned. So often a cpu may look in vain
 * until it takes the member for one that has gone.
 */
#define CROWD_LOOKS 1000

/* True if this cpu runs the crowd's turn. */
static bool runs_crowd(u32 cpu)
{
	return shared->cpu[cpu & (MAX_CPUS - 1)].task == CROWD;
}

/* True if a task is of the crowd: it has no slot, or one that the policy does not know. */
static bool is_of_crowd(u32 id)
{
	return id == NIL || slots[id].state == TASK_OUT;
}

/* The slot of a task that ran on a cpu: if it has none, the crowd's, whose turn it was. */
static __always_inline u32 crowd_or(u32 id, u32 cpu)
{
	return runs_crowd(cpu) && is_of_crowd(id) ? CROWD : id;
}

/* True if the task runs beside the policy: its slice is none of ours. */
static bool is_beside(const struct task_struct *p, u32 cpu)
{
	u32 id = slot_of(p);

	if (shared->cpu[cpu & (MAX_CPUS - 1)].task == CROWD)
		return id != NIL && slots[id].state == TASK_BLOCKED;
	return id == NIL || slots[id].state == TASK_BLOCKED || slots[id].state == TASK_OUT;
}

static bool crowd_queues(void)
{
	return scx_bpf_dsq_nr_queued(CROWD_QUEUE) > 0;
}

/* True if somebody waits for the crowd's next turn, or is about to. */
static bool crowd_is_awaited(void)
{
	return crowd_queues() || shared->crowd_coming;
}

/* --- with the lock held ---------------------------------------------------------------------- */

/* The first member has come. */
static __always_inline void crowd_begin(void)
{
	struct slot __arena *slot = &slots[CROWD];
	u32 weight;

	group_place(CROWD, GROUP_ROOT);
	group_set_weight(CROWD, WEIGHT_OF_NICE_0);
	weight = group_weight(CROWD, 0);
	bound_set_counts(&slot->bound, weight, weight);
	slot->state = TASK_BLOCKED;
	introduce(slot, CROWD, weight);
}

/* Somebody is about to wait. An idle cpu that is to look; NIL if there is none, or no need. */
global_fn u32 crowd_wake(u32 home)
{
	if (slots[CROWD].state == TASK_OUT)
		crowd_begin();
	shared->crowd_coming = CROWD_LOOKS;
	shared->crowd_refused = NIL;
	if (slots[CROWD].state != TASK_BLOCKED)
		return NIL;
	if (turns_is_to_queue(CROWD)) {
		begin_competing(CROWD);
		tell(CROWD);
	}
	join(CROWD);
	return find_idle(home, 0);
}

static __always_inline void crowd_part(void)
{
	part(CROWD, true);
	if (!turns_is_queued(CROWD))
		end_competing(CROWD);
}

/* The crowd's turn on a cpu is over. Where its queue is empty, nobody waits for another. */
global_fn u32 crowd_end(u32 cut_short)
{
	ledger_settle(&slots[CROWD], shared->now_ns);
	end_quantum(CROWD, cut_short);
	if (!crowd_is_awaited())
		crowd_part();
	return 0;
}

/* Nobody waits who may run here. If somebody waits, another cpu is to look. */
static __always_inline void crowd_refuse(u32 cpu)
{
	slots[CROWD].owed_ns -= slots[CROWD].run_ns;
	end_quantum(CROWD, RUN_OVER);
	if (crowd_queues()) {
		shared->crowd_refused = cpu;
		crowd_part();
	} else if (shared->crowd_coming) {
		shared->crowd_coming--;
	} else {
		crowd_part();
	}
}

/* True if somebody waits, whom a cpu has refused, and another one decides. */
global_fn u32 crowd_retries(u32 cpu)
{
	return shared->crowd_refused != cpu && crowd_queues();
}

/* --- without the lock ------------------------------------------------------------------------ */

/* How long a member may run, so that all have had a slice within the rescue time. */
static u64 crowd_slice_ns(u64 now)
{
	u64 turn_ns = ledger_slice_ns(&slots[CROWD]), between_ns = shared->crowd_between_ns;
	u64 round_ns = (scx_bpf_dsq_nr_queued(CROWD_QUEUE) + 1) * between_ns;
	u64 slice_ns = round_ns > rescue_ns ? quantum / (round_ns / rescue_ns + 1) : turn_ns;

	if (slice_ns < CROWD_SLICE_NS)
		slice_ns = CROWD_SLICE_NS;
	return slice_ns < turn_ns ? slice_ns : turn_ns;
}

/*
 * The crowd has its turn, or goes on with it; task `previous`, if it is `queued`, makes room. False if
 * nobody of it may run here.
 */
global_fn u32 run_crowd(u32 cpu, u32 previous, u32 queued)
{
	u64 now = scx_bpf_now(), slice_ns;

	if (!scx_bpf_dsq_move_to_local(CROWD_QUEUE, 0)) {
		if (!lock())
			return true;
		if (runs_crowd(cpu))
			crowd_refuse(cpu);
		unlock();
		return false;
	}
	shared->crowd_coming = 0;
	shared->cpu[cpu].rotates = queued && is_of_crowd(previous);
	slice_ns = crowd_slice_ns(now);
	slice_begins(cpu, slice_ns);
	return true;
}

/* Where a member goes that the kernel has handed to us. True: into its cpu's queue, to go on. */
static __always_inline bool crowd_goes_on(u32 home)
{
	if (!runs_crowd(home))
		return false;
	/* It has made room for another one. */
	if (shared->cpu[home & (MAX_CPUS - 1)].rotates) {
		shared->cpu[home & (MAX_CPUS - 1)].rotates = false;
		return false;
	}
	if (is_owed_after(&slots[CROWD], shared->now_ns))
		return true;
	crowd_end(false);
	return false;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the policy is told of later, by whoever calls it next, before all else.
 *
 * Each program that calls the policy has a copy of it, thousands of instructions that the kernel verifies
 * and moves about when it loads us. So only two do, ops.enqueue and ops.dispatch. The others, which the
 * kernel calls when a task comes, leaves, sleeps, has another weight or another cgroup, only note that:
 *
 *   cpu 0  set_weight(a)   the tree of cgroups has it; a is in the list of news
 *   cpu 1  dispatch        a's weight is told; then the policy picks
 *
 * For the policy the change is then, and so it is in recordings. Nothing that it decides comes between.
 *
 *   a task comes       noted in its slot alone: the policy is told when it wakes
 *   it leaves          its state stays as it is, and its slot its own, until that is told; a cpu that
 *                      waits for it is woken
 *   it comes again     noted beside: it is a new one then
 *
 * That a task that stood aside (paid.h) waits for the policy again is news where turns are corrected: those
 * of its cgroup count for less from then on, and the same decision tells them.
 *
 * Cpus that come or go are told by the next ops.dispatch (hotplug.h).
 *
 * A slot is in the list once, as long as it has news. The list is touched with the lock held only.
 *
 * Tasks sleep often, and the next decision as a rule is the same cpu's, at once. So that is noted with the
 * cpu, without the lock, which a cpu then takes once for both:
 *
 *   cpu 0  quiescent(a)   a is noted with cpu 0, whose run queue is locked
 *   cpu 0  dispatch       a has blocked, b is picked
 *
 * Until then a runs there for the policy. What else may come first:
 *
 *   a wakes, on whatever cpu    it is told that a slept, then that it wakes
 *   a leaves                    as one that runs
 *   cpu 0 has a task in its queue, does not decide, and that one sleeps too    it goes into the list
 *   cpu 0 has gone, or goes, as a sleeps       a goes into the list: it might be told when cpu 0 comes again
 *
 * Known limit: while something of real time keeps a cpu that has not decided since (from Linux 7.0 on), who
 * slept there runs there for the policy.
 */
#ifndef PRORATA_NEWS_H
#define PRORATA_NEWS_H

/* The task, if a cpu has noted that it went to sleep; else NIL. */
static u32 untold_sleeper(u32 id)
{
	return slots[id].blocked_on ? id : NIL;
}

/* True if the policy takes a task that sleeps for one that does not. */
static bool is_untold(u32 id)
{
	return id != NIL && slots[id].state > TASK_BLOCKED;
}

static bool has_news(void)
{
	return shared->news != NIL || shared->news_of_all;
}

/* Of a task that the policy knows; others are told when they wake. */
static void note_news(u32 id, u32 news)
{
	struct slot __arena *slot = &slots[id];

	if (!slot->known)
		return;
	if (!slot->news) {
		slot->next_with_news = shared->news;
		shared->news = id;
	}
	slot->news |= news;
}

/* The same of one that went to sleep, if a cpu has noted that. */
static void note_block(u32 id)
{
	struct cpu_state __arena *cpu = &shared->cpu[(slots[id].blocked_on - 1) & (MAX_CPUS - 1)];

	if (!slots[id].blocked_on || cpu->blocked != id + 1)
		return;
	cpu->blocked = slots[id].blocked_on = 0;
	note_news(id, NEWS_BLOCKS);
}

/* A task leaves the policy. */
static void note_leave(u32 id)
{
	note_block(id);
	if (!slots[id].known)
		slots[id].state = TASK_OUT;
	note_news(id, NEWS_LEAVES);
	slots[id].news &= ~NEWS_RETURNS;
}

/* A task is ours, and sleeps. */
static void note_return(u32 id)
{
	if (slots[id].news & NEWS_LEAVES)
		slots[id].news |= NEWS_RETURNS;
	else
		slots[id].state = TASK_BLOCKED;
}

/* A cpu comes, or goes: who went to sleep there is not told by its next decision. */
static __always_inline void note_cpu(u32 cpu, bool comes)
{
	u64 __arena *word = &shared->online[(cpu / 64) & (BOUND_WORDS - 1)];
	u64 bit = 1ULL << (cpu & 63);

	if (is_online(cpu) == comes)
		return;
	if (comes) {
		*word |= bit;
	} else {
		/* A barrier: who goes to sleep there is seen below, or sees this. */
		word_exchange(word, *word & ~bit);
		set_idle(cpu, false);
		if (shared->cpu[cpu].blocked)
			note_block(shared->cpu[cpu].blocked - 1);
	}
	shared->cpus_changed = true;
}

/* Decisions between two looks at which cpus go. */
#define LOOKS_AT_CPUS 64

#ifdef __bpf__
/* What the kernel is about to do with cpus. */
extern const struct cpuhp_cpu_state cpuhp_state __ksym __weak;

static __always_inline bool is_going(u32 cpu)
{
	const struct cpuhp_cpu_state *state;

	if (!&cpuhp_state)
		return false;
	state = bpf_per_cpu_ptr(&cpuhp_state, cpu);
	return state && state->target < bpf_core_enum_value(enum cpuhp_state, CPUHP_AP_ACTIVE);
}
#else
static bool is_going(u32 cpu)
{
	return machine_is_going(cpu);
}
#endif

/*
 * A cpu that goes decides nothing from early on. ops.cpu_offline comes later: when cpusets have been changed,
 * for which the kernel waits for processes that may want a cpu themselves, and may be bound to that one.
 * The one that decides is in use for that long.
 */
global_fn u32 note_going_cpus(u32 decides)
{
	u32 cpu;

	bpf_for(cpu, 0, cpus_end) {
		if (cpu != decides && is_online(cpu) && is_going(cpu))
			note_cpu(cpu, false);
	}
	return 0;
}

/* As `cpu` is about to decide. One that does so is in use: it may have been about to go, and have stayed. */
static __always_inline void note_cpus(u32 cpu)
{
	if (!is_online(cpu))
		note_cpu(cpu, true);
	if (shared->stats.picks % LOOKS_AT_CPUS == 0)
		note_going_cpus(cpu);
}

/* A task went to sleep, and the cpu that has noted that is not the one to tell. */
static __always_inline void tell_sleeper(u32 id)
{
	if (!lock())
		return;
	note_block(id);
	unlock();
}

/*
 * A task goes to sleep on this cpu, whose run queue is locked; the lock is not held, but where the task
 * that did so before is still to be told of, or the cpu decides nothing more, since it goes.
 */
static __always_inline void hand_over_block(u32 cpu, u32 id, u64 exec_ns)
{
	struct cpu_state __arena *this = &shared->cpu[cpu & (MAX_CPUS - 1)];

	slots[id].blocked_exec_ns = exec_ns;
	slots[id].slept_on = cpu;
	if (!word_look(&this->blocked)) {
		slots[id].blocked_on = cpu + 1;
		/* Whoever sees it sees what stands in the slot. */
		word_exchange(&this->blocked, id + 1);
		if (!is_online(cpu))
			tell_sleeper(id);
	} else if (lock()) {
		note_news(id, NEWS_BLOCKS);
		unlock();
	}
}

/* A task goes to sleep for good: what it leaves is told with that. */
static __always_inline void note_death(u32 cpu, u32 id, u64 exec_ns)
{
	slots[id].blocked_exec_ns = exec_ns;
	slots[id].slept_on = cpu;
	if (!lock())
		return;
	note_news(id, NEWS_BLOCKS | NEWS_DIES);
	unlock();
}

/* Of all that are runnable. */
global_fn u32 note_everybody(void)
{
	u32 i;

	shared->news_of_all = false;
	bpf_for(i, 0, MAX_TASKS) {
		if (i >= tree->runnable)
			break;
		note_news(tree->list[i], NEWS_WEIGHT);
	}
	return 0;
}

/* A task went to sleep. */
static __always_inline void tell_block(struct slot __arena *slot, u32 id)
{
	bool was_waiting = slot->state == TASK_WAITING || id == CROWD;

	if (slot->state <= TASK_BLOCKED || (id == CROWD && slot->state != TASK_RUNNING))
		return;
	/* The crowd's clock is the time of day. */
	ledger_settle(slot, id == CROWD ? shared->now_ns : slot->blocked_exec_ns);
	if (slot->state == TASK_RUNNING) {
		/* It slept elsewhere when it was picked: the cpu that waits for it has to look for another. */
		if (slot->cpu != slot->slept_on && !shared->cpu[slot->cpu].away && is_online(slot->cpu))
			set_idle(slot->cpu, true);
		end_quantum(id, id == CROWD ? RUN_CUT_SHORT : RUN_ASLEEP);
	}
	if (slot->state == TASK_AWAY)
		return_from_away(id, true);
	if (id == CROWD && crowd_is_awaited())
		return;
	if (slot->state == TASK_WAITING)
		part(id, was_waiting);
	forgo_paid(slot, id);
	if (!turns_is_queued(id))
		end_competing(id);
	else if (BOUND->competing && turns_is_nearly_paid(id))
		stop_needing_cpus(id);
	slot->yielded = false;
	if (slot->owed_ns > 0)
		slot->owed_ns = 0;
}

static __always_inline void tell_leave(struct slot __arena *slot, u32 id, u32 news)
{
	forget(slot, id);
	end_competing(id);
	if (news & NEWS_RETURNS)
		slot->state = TASK_BLOCKED;
	if (news & NEWS_ENDS)
		release_slot(id);
}

/*
 * If it has not gone to sleep since. (As group_wake, which tells news itself.) Its siblings are told with it:
 * it may run and sleep before anything is decided, and its cgroup would have had the more of the ideal.
 */
static __always_inline void tell_rejoin(struct slot __arena *slot, u32 id)
{
	if (!slot->aside)
		return;
	slot->aside = false;
	begin_competing(id);
	if (makes_coarser(id))
		shared->news_of_all = true;
	tell(id);
	wake_turn(id);
	note_unseen();
}

/*
 * The first that there is to tell of a task; what is left then. One at a time: the verifier would go all
 * ways through one for each way through the other.
 */
static __always_inline u32 tell_first(struct slot __arena *slot, u32 id, u32 news)
{
	if (news & NEWS_BLOCKS) {
		tell_block(slot, id);
		return news & ~NEWS_BLOCKS;
	}
	if (news & NEWS_DIES) {
		bequeath(id);
		end_competing(id);
		return news & ~NEWS_DIES;
	}
	if (corrects_turns() && (news & (NEWS_REJOINS | NEWS_LEAVES)) == NEWS_REJOINS) {
		tell_rejoin(slot, id);
		return news & ~NEWS_REJOINS;
	}
	if (news & NEWS_LEAVES)
		tell_leave(slot, id, news);
	else if (news & NEWS_WEIGHT)
		tell(id);
	return 0;
}

/* The policy is told the first that has changed. True if there is more. */
global_fn u32 tell_next(void)
{
	u32 id = shared->news, news, left;
	struct slot __arena *slot;

	if (id == NIL)
		return false;
	slot = &slots[id];
	shared->news = slot->next_with_news;
	news = slot->news;
	slot->news = 0;
	left = tell_first(slot, id, news);
	if (left)
		note_news(id, left);
	return shared->news != NIL;
}

/* The policy is told of all that has changed, and that a task slept, which a cpu has noted; NIL for none. */
static __always_inline void tell_news(u32 sleeper)
{
	u32 i;

	if (sleeper != NIL)
		note_block(sleeper);
	if (shared->news_of_all)
		note_everybody();
	/* There is one as a rule; and to begin a loop takes half as long as to tell it. */
	if (!tell_next())
		return;
	bpf_for(i, 1, NEWS_OF_A_TASK * MAX_TASKS) {
		if (!tell_next())
			break;
	}
}

/* A task wakes for the first time since it is ours: its weight is known, and it is told. */
static __always_inline void introduce_task(struct slot __arena *slot, u32 id)
{
	u32 weight = group_newborn_weight(id);

	bound_set_counts(&slot->bound, weight, weight);
	introduce(slot, id, weight);
}

#endif

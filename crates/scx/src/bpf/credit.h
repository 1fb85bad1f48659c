/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Turns that are kept for tasks that sleep (crates/core/src/turns.rs), without a lock for all who decide.
 *
 * A task that sleeps goes on waiting in the policy as long as it may keep more, at most POLICY_CREDIT_QUANTA:
 *
 *   it sleeps                     its run is charged for what it used; the word says ASLEEP
 *   a cpu is given it             it is paid the quantum, and charged for it; the cpu picks again
 *   it has as much as it may      it is out of the policy, BLOCKED
 *   it wakes, and was ASLEEP      ON_CREDIT: it runs at once, and what it waits for in the policy it is paid
 *   it wakes, and was BLOCKED     AWAY: it runs at once; the policy is told when it has used its credit
 *
 * It runs on an idle cpu, or on one of a few where nobody runs on credit, its own if it can be. What runs
 * there is interrupted, and goes on then with the rest of its turn. While a cpu idles nobody has to wait, so
 * that who sleeps then has at once what he may have.
 *
 * A cpu is not asked to decide as long as there are tasks in its local queue, and many who wake each other on
 * credit would keep it so, while others wait for their turns. So two on credit are in a cpu's local queue at
 * a time, and more in another one, which it serves before the policy, and others do before they idle. They
 * begin within some quanta of the cpu's last decision; who wakes there later waits for his turn, and keeps
 * his credit.
 *
 * What is paid is what the task is charged for: it receives no more than that, and what it may keep.
 *
 * Known limits. Nobody looks where an interruption does the least harm; who is worth a whole cpu cannot make
 * up for it. Who was interrupted goes on on his cpu, though another one may idle meanwhile, for as long as
 * those on credit have any: CREDIT_DEPTH times what one may keep. In a queue of GDQ whose tasks sleep but for
 * one, each is paid in every round: tasks that sleep and wake each other may be paid more than their share.
 */
#ifndef PRORATA_CREDIT_H
#define PRORATA_CREDIT_H

/* Less than this part of a quantum is not worth a run. */
#define CREDIT_LEAST_PART 64
/* Cpus at which a task looks for one where nobody runs on credit. */
#define CREDIT_LOOKS 8
/* So many on credit are in a cpu's local queue at a time: one runs, and one is the next. */
#define CREDIT_DEPTH 2
/* The queue of a cpu for others on credit. */
#define CREDIT_QUEUE(cpu) (1 + (cpu))
/* From the policy's decision on a cpu on, tasks begin to run on credit there for so many quanta. */
#define CREDIT_SPELL_QUANTA 4

static bool keeps_turns(void)
{
	return sleepers == SLEEPERS_TURNS;
}

static u64 credit_room_ns(const struct slot __arena *slot)
{
	u64 most_ns = POLICY_CREDIT_QUANTA * quantum, credit_ns = word_look(&slot->credit_ns);

	return credit_ns < most_ns ? most_ns - credit_ns : 0;
}

/* A task is paid so much, or what there is room for: how much. (Two who pay at once may pass that.) */
static u64 give_credit(struct slot __arena *slot, u64 pay_ns)
{
	u64 room_ns = credit_room_ns(slot);

	if (pay_ns > room_ns)
		pay_ns = room_ns;
	word_add(&slot->credit_ns, pay_ns);
	return pay_ns;
}

/* A task that has left the policy keeps as much as it may, and is owed nothing else. */
static __always_inline void fill_credit(struct slot __arena *slot)
{
	give_credit(slot, credit_room_ns(slot));
	if (slot->owed_ns > 0)
		slot->owed_ns = 0;
}

/* True if a task runs at once when it wakes. */
static bool has_credit(const struct slot __arena *slot)
{
	return keeps_turns() &&
	       (s64)word_look(&slot->credit_ns) + slot->owed_ns >= (s64)(quantum / CREDIT_LEAST_PART);
}

/* --- the picker -------------------------------------------------------------------------------- */

/* It has all that it may keep: it leaves the policy, unless that gave it away, or its word has changed. */
static __always_inline bool leaves_paid(struct slot __arena *slot, u32 id, u32 custody, u64 paid_ns)
{
	bool is_out;

	if (!word_replace(&slot->custody, custody, PAID))
		return false;
	is_out = !policy_stop(id, paid_ns) || !policy_block(id);
	if (is_out)
		custody = custody == ON_CREDIT ? TASK_AWAY : TASK_BLOCKED;
	word_exchange(&slot->custody, custody);
	return true;
}

/* The policy has given this cpu a task that sleeps, or runs on credit, as the word says. */
global_fn u32 pay(u32 id, u32 custody)
{
	struct slot __arena *slot = &slots[id];
	u64 paid_ns = give_credit(slot, quantum);

	if (credit_room_ns(slot) || !leaves_paid(slot, id, custody, paid_ns))
		policy_charge(id, paid_ns);
	return 0;
}

/* --- the kernel -------------------------------------------------------------------------------- */

static __always_inline bool runs_nobody(u32 cpu)
{
	return word_look(&DESK(cpu)->cpu.task) == NIL && !word_look(&DESK(cpu)->away);
}

/* True if a task may begin to run on credit on a cpu. */
static __always_inline bool takes_credit(u32 cpu, u64 now)
{
	s64 since_ns = now - word_look(&DESK(cpu)->decided_ns);

	return runs_nobody(cpu) || since_ns < (s64)(CREDIT_SPELL_QUANTA * quantum);
}

/* A cpu where a task may run, and nobody else runs on credit, if there is one among the next; else `cpu`. */
static __always_inline s32 find_cpu_for_credit(const struct task_struct *p, s32 cpu, u64 now)
{
	u32 i;

	bpf_for(i, 0, CREDIT_LOOKS) {
		u32 other = (cpu + i) % cpus_end;

		if (!word_look(&DESK(other)->on_credit) && takes_credit(other, now) && is_online(other) &&
		    can_run_on(p, other))
			return other;
	}
	return cpu;
}

/* A task begins to run on credit on a cpu. It waits for others who do, so many, and for nobody else. */
static __always_inline u32 begin_credit(struct slot __arena *slot, u32 cpu, u64 now)
{
	u32 others = word_look(&DESK(cpu)->on_credit);

	if (runs_nobody(cpu))
		word_put(&DESK(cpu)->decided_ns, now);
	ledger_grant(slot, word_exchange(&slot->credit_ns, 0));
	slot->on_credit = true;
	begin_away(slot, cpu);
	return others;
}

/* Somebody who waits in a cpu's queue of those on credit runs on this cpu. */
static __always_inline bool serve_credit(u32 cpu)
{
	u64 queue = CREDIT_QUEUE(cpu);

	return scx_bpf_dsq_nr_queued(queue) && scx_bpf_dsq_move_to_local(queue, 0);
}

/* The same, before the policy is asked, unless it has waited long enough. */
static __always_inline bool credit_comes(u32 cpu, u64 now)
{
	return keeps_turns() && takes_credit(cpu, now) && serve_credit(cpu);
}

/* The same, on a cpu that would idle: its own, and those of the next cpus. */
static __always_inline bool serve_any_credit(u32 cpu)
{
	u32 i;

	if (!keeps_turns())
		return false;
	bpf_for(i, 0, CREDIT_LOOKS) {
		if (!serve_credit((cpu + i) % cpus_end))
			continue;
		occupy(cpu);
		return true;
	}
	return false;
}

/* What a task has not used of such a run is its credit again. */
static __always_inline void end_credit(struct slot __arena *slot)
{
	end_away(slot);
	if (slot->owed_ns > 0) {
		give_credit(slot, slot->owed_ns);
		slot->owed_ns = 0;
	}
}

/* A run of a task that sleeps is over, for which it is charged; it keeps its place in the policy. */
static __always_inline bool stays_asleep(struct slot __arena *slot, u32 id, u32 custody)
{
	if (!word_replace(&slot->custody, custody, CLAIMED))
		return false;
	policy_charge(id, ledger_used(slot, true));
	slot->used_ns = 0;
	word_exchange(&slot->custody, ASLEEP);
	return true;
}

/*
 * A task goes to sleep, and keeps its place in the policy. Returns the cpu for which it was picked, or where
 * it ran: it has to look for another. NIL if it waited.
 */
global_fn u32 sleep_in_place(u32 id)
{
	struct slot __arena *slot = &slots[id];
	u32 round, spin, custody;

	bpf_for(round, 0, LOCK_ROUNDS) {
		bpf_for(spin, 0, LOCK_SPINS) {
			custody = look_custody(id);
			if (is_running(custody)) {
				if (stays_asleep(slot, id, custody))
					return custody_cpu(custody);
			} else if (custody == TASK_AWAY) {
				end_credit(slot);
				join_as(slot, id, ASLEEP);
				return slot->away_on;
			} else if (word_replace(&slot->custody, ON_CREDIT, ASLEEP)) {
				end_credit(slot);
				return slot->away_on;
			} else if (word_replace(&slot->custody, TASK_WAITING, ASLEEP)) {
				return NIL;
			} else if (custody == ASLEEP || custody <= TASK_BLOCKED) {
				/* The kernel, about to unload us, had it wake without asking. */
				return NIL;
			}
			relax();
		}
	}
	policy_assert(false);
	return NIL;
}

/*
 * The word of a task, when nobody who has paid it is about to take it out of the policy. Where it says `from`
 * it is made to say `then`.
 */
global_fn u32 change_custody(u32 id, u32 from, u32 then)
{
	u32 round, spin, custody;

	bpf_for(round, 0, LOCK_ROUNDS) {
		bpf_for(spin, 0, LOCK_SPINS) {
			custody = look_custody(id);
			if (custody != from && custody != PAID)
				return custody;
			if (custody == from && word_replace(&slots[id].custody, from, then))
				return then;
			relax();
		}
	}
	policy_assert(false);
	return NIL;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whose a task is, where no lock is held by all who decide.
 *
 * Two may want a task at a time: who has its run queue locked, since the kernel has it in hand (ops.enqueue,
 * ops.quiescent, ops.disable: the kernel), and a cpu that picks it for itself, which has locked only its own
 * (the picker). A word in its slot says how it stands:
 *
 *            enable           wake            pick
 *     OUT ───────► BLOCKED ─────────► WAITING ─────► RUNNING on a cpu
 *      ▲             ▲ ▲ ▲               │ ▲                │  │
 *      └───disable───┘ │ └───withdraw────┘ └───end_quantum──┘  │
 *                      └────── AWAY ◄────────── send_away ─────┘
 *
 *   WAITING      it is the policy's, and the picker's that the policy gives it to
 *   RUNNING      it is that cpu's, and on its way there or there; if the kernel has it in hand, the kernel's
 *   AWAY         blocked for the policy, and runs outside it, for a quantum or its credit
 *   CLAIMED      somebody is about to take it out of the policy, or to put it in: for a moment
 *
 * Where turns are kept for tasks that sleep (credit.h), one may wait in the policy and do something else:
 *
 *   RUNNING, AWAY ──sleep──► ASLEEP ──wake──► ON_CREDIT ──credit used──► WAITING
 *                            │ ▲  │             │    │
 *               paid in full │ └──│──sleep──────┘    └──paid in full──► AWAY
 *                            ▼    └──wake──► WAITING
 *                         BLOCKED ──wake──► AWAY, WAITING
 *
 *   ASLEEP       it is the policy's, and sleeps; whoever is given it pays it, and picks again
 *   ON_CREDIT    likewise, but it runs outside the policy meanwhile
 *   PAID         whoever has paid it is about to take it out of the policy: for a moment
 *
 * The policy gives a task to a picker before the word says so. Who wants it out of the policy meanwhile is
 * told that it "was picked", and waits for the word:
 *
 *   cpu 0  pick: the policy gives it a        ...                        a is RUNNING on 0
 *   cpu 1  quiescent(a): claims it, block says "picked", a is WAITING again ...  takes a from cpu 0
 *
 * Cpu 0 then has a task on its way that does not come: it is kicked, finds that the word says otherwise, and
 * decides again; but not while it is CLAIMED, since the policy may have the task there still. What it
 * inserted the kernel ignores, or, if a has woken since, takes: then a runs there as somebody else's, until
 * whoever has it in hand sends it where it belongs.
 *
 * A task in transit (dispatch.h) is picked as any other, but not inserted. Neither ops.enqueue nor the picker
 * misses the other: ops.enqueue takes the mark of transit away before it looks at the word, and the picker
 * writes the word before it looks at the mark, each with a barrier between.
 *
 * tests/custody_model.rs tries all ways in which two cpus, and the kernel with either, can meet here.
 */
#ifndef PRORATA_CUSTODY_H
#define PRORATA_CUSTODY_H

/* In the word beside enum task_state. */
#define ASLEEP 5
#define ON_CREDIT 6
#define CLAIMED 7
#define PAID 8
#define CUSTODY_STATE 0xff

static __always_inline u32 running_on(u32 cpu)
{
	return TASK_RUNNING | cpu << 8;
}

static __always_inline bool is_running(u32 custody)
{
	return (custody & CUSTODY_STATE) == TASK_RUNNING;
}

/* Whoever is given it by the policy has it: it waits, sleeps, or runs on credit. */
static __always_inline bool waits_in_policy(u32 custody)
{
	return custody == TASK_WAITING || custody == ASLEEP || custody == ON_CREDIT;
}

static __always_inline u32 custody_cpu(u32 custody)
{
	return (custody >> 8) & (MAX_CPUS - 1);
}

static __always_inline u32 look_custody(u32 id)
{
	return word_look(&slots[id].custody);
}

/* A task that is ours, and blocked for the policy, is the policy's, and has the word say `then`. */
static __always_inline void join_as(struct slot __arena *slot, u32 id, u32 then)
{
	/* Nobody takes it out before it is in. */
	word_put(&slot->custody, CLAIMED);
	policy_wake(id);
	word_exchange(&slot->custody, then);
}

static __always_inline void join(struct slot __arena *slot, u32 id, u64 now)
{
	slot->since_ns = now;
	join_as(slot, id, TASK_WAITING);
}

/*
 * The word of the task that a cpu picked last, which is not CLAIMED: who has claimed it may not have told the
 * policy yet that its run is over, and a cpu has one at a time there.
 */
global_fn u32 await_custody(u32 id)
{
	u32 round, spin, custody = look_custody(id);

	if (custody != CLAIMED)
		return custody;
	bpf_for(round, 0, LOCK_ROUNDS) {
		bpf_for(spin, 0, LOCK_SPINS) {
			custody = look_custody(id);
			if (custody != CLAIMED)
				return custody;
			relax();
		}
	}
	policy_assert(false);
	return custody;
}

/* --- quanta outside the policy ------------------------------------------------------------------ */

/*
 * A cpu is given something to run outside the policy: it does not idle, and if it was kicked for a task that
 * waits, another one shall be.
 */
static __always_inline void occupy(u32 cpu)
{
	if (word_look(&DESK(cpu)->cpu.task) == NIL)
		policy_occupy(seats->seat_of[cpu & (MAX_CPUS - 1)]);
}

/* One more task runs outside the policy on a cpu, or one less: -1. */
static __always_inline void count_away(const struct slot __arena *slot, u32 cpu, u32 by)
{
	word_add(&DESK(cpu)->away, by);
	if (slot->on_credit)
		word_add(&DESK(cpu)->on_credit, by);
}

static __always_inline void begin_away(struct slot __arena *slot, u32 home)
{
	slot->away_on = home;
	count_away(slot, home, 1);
	occupy(home);
}

/* The task is ours from here on. */
static __always_inline void end_away(struct slot __arena *slot)
{
	slot->used_ns = 0;
	slot->yielded = false;
	count_away(slot, slot->away_on, -1);
}

/* --- the picker -------------------------------------------------------------------------------- */

/*
 * The word of a task that the policy has given to this cpu: WAITING, or it sleeps, or runs on credit.
 * Somebody may have claimed it, to find that it was given away.
 */
global_fn u32 custody_of_given(u32 id)
{
	u32 round, spin, custody = look_custody(id);

	if (custody == TASK_WAITING)
		return custody;
	bpf_for(round, 0, LOCK_ROUNDS) {
		bpf_for(spin, 0, LOCK_SPINS) {
			custody = look_custody(id);
			if (custody <= TASK_BLOCKED || waits_in_policy(custody)) {
				policy_assert(custody > TASK_BLOCKED);
				return custody;
			}
			relax();
		}
	}
	policy_assert(false);
	return custody;
}

/* The policy has given this cpu a task that waits: it says so, unless somebody claims it, or it sleeps. */
static __always_inline bool begin_run(struct slot __arena *slot, u32 cpu)
{
	return word_replace(&slot->custody, TASK_WAITING, running_on(cpu));
}

/* The run of a task that is ours is over, and it waits. */
static __always_inline void end_run(struct slot __arena *slot, u32 id, bool cut_short, u64 now)
{
	u64 charged_ns = ledger_used(slot, cut_short);

	slot->used_ns = 0;
	slot->since_ns = now;
	/* Who picks it from here on waits for the word. Its cpu must not pick while the policy has it there. */
	policy_charge(id, charged_ns);
	word_put(&slot->custody, TASK_WAITING);
}

/*
 * The run of a task is over, which is out of the policy then, to have the word say `then`. False if its
 * word is not `custody` any more, or it only waits, for whoever picks it.
 */
static __always_inline bool stop_run(struct slot __arena *slot, u32 id, u32 custody, u32 then)
{
	bool is_out;

	if (!word_replace(&slot->custody, custody, CLAIMED))
		return false;
	is_out = !policy_stop(id, ledger_used(slot, true));
	slot->used_ns = 0;
	word_exchange(&slot->custody, is_out ? then : TASK_WAITING);
	/* It has to look for another. */
	if (!is_out)
		scx_bpf_kick_cpu(custody_cpu(custody), SCX_KICK_IDLE);
	return is_out;
}

/*
 * Takes a task that waits, asleep or not, out of the policy, to have the word say `then`. False if its word
 * is not `custody` any more, or it was picked meanwhile.
 */
static __always_inline bool take_out(struct slot __arena *slot, u32 id, u32 custody, u32 then)
{
	bool is_out;

	if (!word_replace(&slot->custody, custody, CLAIMED))
		return false;
	is_out = !policy_block(id);
	word_exchange(&slot->custody, is_out ? then : custody);
	return is_out;
}

/* --- the kernel -------------------------------------------------------------------------------- */

/*
 * Takes a task out of the policy, to be in state `then`. Returns the cpu to which it was on its way, or where
 * it ran: it has to look for another. NIL if the task waited. It may be picked, or sent away, while we look.
 */
global_fn u32 withdraw(u32 id, u32 then)
{
	struct slot __arena *slot = &slots[id];
	u32 round, spin, custody = look_custody(id);

	/* Nearly always. */
	if (is_running(custody) && stop_run(slot, id, custody, then))
		return custody_cpu(custody);
	bpf_for(round, 0, LOCK_ROUNDS) {
		bpf_for(spin, 0, LOCK_SPINS) {
			custody = look_custody(id);
			if (is_running(custody)) {
				if (stop_run(slot, id, custody, then))
					return custody_cpu(custody);
			} else if (custody == TASK_AWAY) {
				end_away(slot);
				word_exchange(&slot->custody, then);
				return slot->away_on;
			} else if (custody == TASK_BLOCKED) {
				/* It slept, and was paid in full meanwhile. */
				word_put(&slot->custody, then);
				return NIL;
			} else if (waits_in_policy(custody) && take_out(slot, id, custody, then)) {
				if (custody != ON_CREDIT)
					return NIL;
				end_away(slot);
				return slot->away_on;
			}
			relax();
		}
	}
	policy_assert(false);
	return NIL;
}

#endif

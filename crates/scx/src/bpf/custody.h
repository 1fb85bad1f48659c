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
 *   AWAY         blocked for the policy, and runs a quantum outside it
 *   CLAIMED      somebody is about to take it out of the policy, or to put it in: for a moment
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
#define CLAIMED 7
#define CUSTODY_STATE 0xff

static __always_inline u32 running_on(u32 cpu)
{
	return TASK_RUNNING | cpu << 8;
}

static __always_inline bool is_running(u32 custody)
{
	return (custody & CUSTODY_STATE) == TASK_RUNNING;
}

static __always_inline u32 custody_cpu(u32 custody)
{
	return (custody >> 8) & (MAX_CPUS - 1);
}

static __always_inline u32 look_custody(u32 id)
{
	return word_look(&slots[id].custody);
}

/* A task that is ours, and blocked for the policy, is the policy's. */
static __always_inline void join(struct slot __arena *slot, u32 id, u64 now)
{
	slot->since_ns = now;
	/* Nobody takes it out before it is in. */
	word_put(&slot->custody, CLAIMED);
	policy_wake(id);
	word_exchange(&slot->custody, TASK_WAITING);
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

static __always_inline void begin_away(struct slot __arena *slot, u32 home)
{
	slot->away_on = home;
	__atomic_fetch_add(&DESK(home)->away, 1, __ATOMIC_SEQ_CST);
	occupy(home);
}

/* The task is ours from here on. */
static __always_inline void end_away(struct slot __arena *slot)
{
	slot->used_ns = 0;
	slot->yielded = false;
	__atomic_fetch_add(&DESK(slot->away_on)->away, -1, __ATOMIC_SEQ_CST);
}

/* --- the picker -------------------------------------------------------------------------------- */

/* The policy has given this cpu a task: it says so. */
static __always_inline void begin_run(struct slot __arena *slot, u32 cpu)
{
	u32 round, spin;

	if (word_replace(&slot->custody, TASK_WAITING, running_on(cpu)))
		return;
	bpf_for(round, 0, LOCK_ROUNDS) {
		bpf_for(spin, 0, LOCK_SPINS) {
			if (word_replace(&slot->custody, TASK_WAITING, running_on(cpu)))
				return;
			relax();
		}
	}
	policy_assert(false);
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

/* Takes a waiting task out of the policy, to have the word say `then`. False if it was picked meanwhile. */
static __always_inline bool take_out(struct slot __arena *slot, u32 id, u32 then)
{
	bool is_out;

	if (!word_replace(&slot->custody, TASK_WAITING, CLAIMED))
		return false;
	is_out = !policy_block(id);
	word_exchange(&slot->custody, is_out ? then : TASK_WAITING);
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
			} else if (take_out(slot, id, then)) {
				return NIL;
			}
			relax();
		}
	}
	policy_assert(false);
	return NIL;
}

#endif

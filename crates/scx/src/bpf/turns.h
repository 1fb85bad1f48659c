/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Deferrable turns: tasks that sleep get their whole share, and at once, under any policy.
 *
 * The policy decides when a task is paid; a task that sleeps may use its pay when it wakes. The rule,
 * its states and what is proven of it are in crates/core/src/turns.rs, decision for decision: tests
 * compare the two (tests/equals_core.rs), and so does `prorata verify`.
 *
 * An editor of weight 1 beside 9 hogs of weight 1, on one cpu, quanta of 5 ms:
 *
 *   it sleeps, in the policy's queue   the policy picks it: nobody runs, its credit is 5 ms
 *   a key is pressed                   READY: it interrupts a hog and runs for .5 ms, credit 4.5 ms
 *   it sleeps                          the hog goes on with the rest of its turn
 *
 * This stands between the framework, which calls turns_* instead of policy_*, and the policy, which
 * says how its turns are paid:
 *
 *   POLICY_CREDIT_QUANTA   the most credit
 *   POLICY_PAYS_WHOLE      a turn is charged as a whole quantum, what was not used of it is credit;
 *                          else as what was used
 *
 * Like a policy it knows no task_struct, no clock and no helper, and is called with the lock held.
 * `uses_turns()` is what the user chose; without, tasks that sleep are treated as in the papers.
 * `turns_left(id)` is told of a task that the policy served while it slept, and does no longer;
 * `turns_joined(id)` of one that ran while it did not, and is served from now on; `turns_charged(id, ns)` of
 * what it is charged for a task.
 *
 * On several cpus, hogs h, worth a whole cpu, and i; many that sleep have credit:
 *
 *   h's turn on cpu 1 is over        the policy gives the next one there to i, after the ready tasks
 *   the cpus run ready tasks         no turn ends, so that h's does not come
 *   cpu 1 picks                      h runs between its turns
 *
 * What tasks that end leave and new ones begin with is the includer's affair (estate.h): turns_endow,
 * turns_take and turns_retire move credit, or what tasks are behind, and make none. So is what many that
 * wake may use together (burst.h): `turns_gained(id, ns)` and `turns_spent(id, ns)` tell of a task's
 * credit, turns_forfeit ends it. And what a task had no use for of turns, and another may have (spare.h):
 * turns_take_lapsed, turns_lengthen.
 *
 * Known limits: a cpu with nobody waiting gives turns to all that sleep with room in their credit
 * before it idles: for thousands of tasks that have just gone to sleep a millisecond or more. Whom to
 * interrupt is found by looking at all cpus.
 */
#ifndef PRORATA_TURNS_H
#define PRORATA_TURNS_H

/* Less than this part of a quantum is not worth a run: it stays on the account. */
#define TURN_LEAST_PART 64
/* A run on credit lasts at most this part of a quantum; then it is the next one's turn. */
#define TURN_RUN_PART 4
/* A task that is kept leaves the queue after so many turns since it slept, if it has no room. */
#define TURN_KEPT_TURNS 4
/* What is nearly a whole cpu: so many parts of so many. */
#define NEARLY_PARTS 3
#define NEARLY_OF 4
/* Picks until somebody is found: each gives a quantum to a task that has room, or is kept, or is the last. */
#define TURN_PICKS ((POLICY_CREDIT_QUANTA + 1 + TURN_KEPT_TURNS) * POLICY_TASKS)

#define turns_fn static __attribute__((unused, always_inline)) inline

turns_fn u64 turns_cap_ns(void)
{
	return POLICY_CREDIT_QUANTA * quantum_ns();
}

turns_fn u64 turns_least_ns(void)
{
	u64 least_ns = quantum_ns() / TURN_LEAST_PART;

	return least_ns ? least_ns : 1;
}

/* The longest run on credit. */
turns_fn u64 turns_share_ns(void)
{
	u64 share_ns = quantum_ns() / TURN_RUN_PART;

	return share_ns ? share_ns : 1;
}

turns_fn struct turn_cpu __arena *turn_cpu(u32 cpu)
{
	return &TURNS->cpu[cpu & (POLICY_CPUS - 1)];
}

turns_fn u32 __arena *turn_runs(u32 cpu)
{
	return &TURNS->runs[cpu & (POLICY_CPUS - 1)];
}

/* --- lists ----------------------------------------------------------------------------------- */

turns_fn void turn_append(struct turn_list __arena *list, u32 id)
{
	struct turn __arena *turn = TURN(id);

	turn->next = NIL;
	turn->previous = list->last;
	if (list->last == NIL)
		list->first = id;
	else
		TURN(list->last)->next = id;
	list->last = id;
}

turns_fn void turn_take_out(struct turn_list __arena *list, u32 id)
{
	struct turn __arena *turn = TURN(id);

	if (turn->previous == NIL)
		list->first = turn->next;
	else
		TURN(turn->previous)->next = turn->next;
	if (turn->next == NIL)
		list->last = turn->previous;
	else
		TURN(turn->next)->previous = turn->previous;
}

turns_fn void turns_make_ready(u32 id)
{
	TURN(id)->state = TURN_READY;
	turn_append(&TURNS->ready, id);
	TURNS->ready_count++;
}

turns_fn void turns_unready(u32 id)
{
	turn_take_out(&TURNS->ready, id);
	TURNS->ready_count--;
}

/* --- payments -------------------------------------------------------------------------------- */

/* A task is paid so much, or what there is room for: how much. */
turns_fn u64 turns_give(struct turn __arena *turn, u32 id, u64 pay_ns)
{
	u64 room_ns = turns_cap_ns() - turn->credit_ns;

	if (pay_ns > room_ns)
		pay_ns = room_ns;
	turn->credit_ns += pay_ns;
	turns_gained(id, pay_ns);
	return pay_ns;
}

/*
 * A task that sleeps stays out of the policy's queue until there is room for a whole turn in its
 * credit, so that one that sleeps and wakes often and runs for moments costs the policy nothing.
 */
turns_fn bool turns_stay_out(void)
{
	return POLICY_PAYS_WHOLE && TURNS->cpus == 1;
}

/* True if there is room for pay in a task's credit. */
turns_fn bool turns_has_room(const struct turn __arena *turn)
{
	return turn->credit_ns + (turns_stay_out() ? quantum_ns() : 1) <= turns_cap_ns();
}

/* True if a task has credit for a run. */
turns_fn bool turns_has_credit(const struct turn __arena *turn)
{
	return turn->credit_ns >= turns_least_ns();
}

/* True if the policy does not serve a task. */
turns_fn bool turns_is_out(const struct turn __arena *turn)
{
	return turn->place <= TURN_ADVANCED;
}

/* True if a task still uses what it had in advance. */
turns_fn bool turns_is_ahead(const struct turn __arena *turn)
{
	return turn->place == TURN_ADVANCED && turns_has_credit(turn);
}

/* True if the policy, which does not serve a task yet, does so when it wakes. */
turns_fn bool turns_joins(const struct turn __arena *turn)
{
	return (!turns_stay_out() || turn->kept || turns_has_room(turn)) && !turns_is_ahead(turn);
}

turns_fn void turns_join(struct turn __arena *turn, u32 id)
{
	policy_assert(turns_is_out(turn));
	turn->place = TURN_QUEUED;
	policy_wake(id);
}

turns_fn void turns_leave(struct turn __arena *turn, u32 id)
{
	policy_assert(turn->place == TURN_QUEUED);
	turn->place = TURN_OUT;
	policy_block(id);
}

/* A task gets what there is room for of what is left of a turn that is charged whole. */
turns_fn void turns_give_turn(struct turn __arena *turn, u32 id, u64 left_ns)
{
	turn->lapsed_ns += left_ns - turns_give(turn, id, left_ns);
}

/* The policy is charged for a turn of a task, for so much of it. */
turns_fn void turns_pay(u32 id, u64 ns)
{
	turns_charged(id, ns);
	policy_charge(id, ns);
}

/* The turn of a task, which does not run, is over: the policy is charged for it. */
turns_fn void turns_end(struct turn __arena *turn, u32 id)
{
	u64 left_ns = turn->turn_ns;

	policy_assert(turn->place == TURN_PICKED && turn_cpu(turn->cpu)->held == id);
	turn->place = TURN_QUEUED;
	turn->turn_ns = 0;
	turn_cpu(turn->cpu)->held = NIL;
	if (POLICY_PAYS_WHOLE || turn->lengthened) {
		turns_give_turn(turn, id, left_ns);
		left_ns = 0;
	}
	turns_pay(id, quantum_ns() - left_ns);
}

/* A task that sleeps has a turn, which adds to its credit: what it is charged for. */
policy_fn u64 turns_pay_asleep(u32 id)
{
	struct turn __arena *turn = TURN(id);

	TURNS->consumed++;
	if (!POLICY_PAYS_WHOLE && !turn->kept)
		return turns_give(turn, id, quantum_ns());
	turns_give_turn(turn, id, quantum_ns());
	return quantum_ns();
}

/* True if that is the last one for now. */
turns_fn bool turns_was_last(struct turn __arena *turn)
{
	if (turns_has_room(turn))
		return false;
	turn->kept_turns++;
	return !turn->kept || turn->kept_turns >= TURN_KEPT_TURNS;
}

turns_fn void turns_consume(struct turn __arena *turn, u32 id)
{
	turns_pay(id, turns_pay_asleep(id));
	if (turns_was_last(turn)) {
		turns_leave(turn, id);
		turns_left(id);
	}
}

/* --- cpus and their slots -------------------------------------------------------------------- */

/* The turn of a task, which `cpu`'s slot has, is to go on later. */
turns_fn void turns_suspend(u32 cpu, u32 id)
{
	policy_assert(TURN(id)->place == TURN_PICKED && turn_cpu(cpu)->held == id);
	TURN(id)->state = TURN_INTERRUPTED;
	turn_append(&TURNS->interrupted, id);
}

turns_fn void turns_moved(u32 cpu)
{
	u32 held = turn_cpu(cpu)->held;

	if (held != NIL)
		TURN(held)->cpu = cpu;
}

/* Two cpus exchange their slots, and the turns that are interrupted there. */
turns_fn void turns_exchange(u32 one, u32 other)
{
	u32 slot = turn_cpu(one)->slot, held = turn_cpu(one)->held;

	turn_cpu(one)->slot = turn_cpu(other)->slot;
	turn_cpu(one)->held = turn_cpu(other)->held;
	turn_cpu(other)->slot = slot;
	turn_cpu(other)->held = held;
	turns_moved(one);
	turns_moved(other);
}

/* The interrupted task that `cpu`'s slot has, if it has one, goes on. */
turns_fn u32 turns_take_back(u32 cpu)
{
	u32 held = turn_cpu(cpu)->held;

	if (held == NIL)
		return NIL;
	policy_assert(TURN(held)->state == TURN_INTERRUPTED);
	turn_take_out(&TURNS->interrupted, held);
	return held;
}

/* The task that was interrupted longest goes on on `cpu`. */
turns_fn u32 turns_adopt(u32 cpu)
{
	u32 id = TURNS->interrupted.first;

	if (id == NIL)
		return NIL;
	if (TURN(id)->cpu != cpu)
		turns_exchange(cpu, TURN(id)->cpu);
	return turns_take_back(cpu);
}

/* True if a task is worth so many parts of so many of a cpu. (Heavier ones that run have one each.) */
policy_fn u32 turns_is_worth(u32 id, u32 parts, u32 of)
{
	u64 own = TURN(id)->weight, others = TURNS->awake_weight, heavier = unknown_zero(own);
	u32 cpus_left = TURNS->cpus, i;

	if (cpus_left == 1)
		return false;
	bpf_for(i, 0, TURNS->cpus) {
		u32 weight = *turn_runs(i) & TURN_RUNS_WEIGHT;

		if (weight > own) {
			heavier += weight;
			cpus_left--;
		}
	}
	others = others > heavier ? others - heavier : 0;
	return own * cpus_left * of >= others * parts;
}

/* True if a task is worth nearly a whole cpu: it could not make up for an interruption. */
turns_fn bool turns_needs_cpu(u32 id)
{
	return TURNS->cpus > 1 && turns_is_worth(id, NEARLY_PARTS, NEARLY_OF);
}

/* True if a task waits for a turn, and nothing else. */
turns_fn bool turns_waits(const struct turn __arena *turn)
{
	return turn->state == TURN_WAITING && turn->place == TURN_QUEUED;
}

/* A task has used up a turn on a cpu. */
turns_fn void turns_note_used_up(u32 cpu, u32 id)
{
	u32 last = turn_cpu(cpu)->last;

	if (last == NIL || !turns_waits(TURN(last)) || TURN(last)->weight <= TURN(id)->weight)
		turn_cpu(cpu)->last = id;
}

/* The task that used up a turn on a cpu, if it waits for the next one, and is worth a whole cpu; else NIL. */
turns_fn u32 turns_entitled(u32 cpu)
{
	u32 last = turn_cpu(cpu)->last;

	if (last == NIL || !turns_waits(TURN(last)) || !turns_is_worth(last, 1, 1))
		return NIL;
	return last;
}

/* --- picks ----------------------------------------------------------------------------------- */

turns_fn u32 turns_start_on_credit(u32 cpu, u32 id)
{
	struct turn __arena *turn = TURN(id);
	u64 share_ns = turns_share_ns();

	turns_unready(id);
	turn->run_ns = turn->credit_ns < share_ns ? turn->credit_ns : share_ns;
	turn->credit_ns -= turn->run_ns;
	turns_spent(id, turn->run_ns);
	turn->state = TURN_ON_CREDIT;
	turn->cpu = cpu;
	turn_cpu(cpu)->running = id;
	*turn_runs(cpu) = turn->weight | TURN_RUNS_ON_CREDIT;
	TURNS->on_credit++;
	return id;
}

/* A task that waits for its next turn runs before it. */
turns_fn u32 turns_start_between(u32 cpu, u32 id)
{
	struct turn __arena *turn = TURN(id);

	turn->run_ns = turns_share_ns();
	turn->state = TURN_ENTITLED;
	turn->cpu = cpu;
	turn_cpu(cpu)->running = id;
	*turn_runs(cpu) = turn->weight | TURN_RUNS_ON_CREDIT;
	return id;
}

turns_fn u32 turns_start(u32 cpu, u32 id)
{
	struct turn __arena *turn = TURN(id);

	policy_assert(turn->place == TURN_PICKED && turn->cpu == cpu);
	turn->run_ns = turn->turn_ns < quantum_ns() ? turn->turn_ns : quantum_ns();
	turn->state = TURN_ON;
	turn_cpu(cpu)->running = id;
	*turn_runs(cpu) = turn->weight;
	return id;
}

/* A turn of a task begins, wherever it runs or waits. */
turns_fn void turns_have(struct turn __arena *turn)
{
	turn->place = TURN_PICKED;
	turn->turn_ns = quantum_ns();
	turn->lengthened = false;
}

/* A task that waits has its turn. */
turns_fn void turns_begin(struct turn __arena *turn, u32 cpu, u32 id)
{
	if (turn->state == TURN_READY)
		turns_unready(id);
	else
		policy_assert(turn->state == TURN_WAITING);
	turn->state = TURN_WAITING;
	turns_have(turn);
	turn->cpu = cpu;
	turn_cpu(cpu)->held = id;
}

/* In place of a task: the policy is to be asked again. */
#define TURNS_AGAIN (NIL - 2)

/* A task that runs on credit has its turn where it runs; what was interrupted there goes on here. */
turns_fn u32 turns_continue(struct turn __arena *turn, u32 cpu, u32 id)
{
	u32 there = turn->cpu, interrupted;

	turns_have(turn);
	turn_cpu(cpu)->held = id;
	if (there == cpu)
		return NIL;
	turns_exchange(cpu, there);
	interrupted = turns_take_back(cpu);
	return interrupted == NIL ? TURNS_AGAIN : interrupted;
}

/* The next task whose turn it is on `cpu`, whose slot has no task: it waits, or was interrupted. */
policy_fn u32 turns_next(u32 cpu)
{
	struct turn __arena *turn;
	u32 id, i;

	bpf_for(i, 0, TURN_PICKS) {
		id = policy_pick(turn_cpu(cpu)->slot);
		if (id == NIL)
			return NIL;
		turn = TURN(id);
		policy_assert(turn->place == TURN_QUEUED);
		if (turn->state == TURN_ASLEEP) {
			turns_consume(turn, id);
			continue;
		}
		if (turn->state != TURN_ON_CREDIT && turn->state != TURN_ENTITLED) {
			turns_begin(turn, cpu, id);
			return id;
		}
		id = turns_continue(turn, cpu, id);
		if (id != TURNS_AGAIN)
			return id;
	}
	return NIL;
}

/* A ready task is passed over, may be for ever: it waits for its turns, whatever it has in advance. */
policy_fn u32 turns_pass_over(u32 id)
{
	if (turns_is_out(TURN(id))) {
		turns_join(TURN(id), id);
		turns_joined(id);
	}
	return 0;
}

/* A pick where tasks are ready or interrupted, on several cpus. */
turns_fn u32 turns_pick_amid_others(u32 cpu)
{
	bool begun = turn_cpu(cpu)->held != NIL, stays;
	u32 id;

	if (!begun) {
		id = turns_next(cpu);
		if (id != NIL)
			turns_suspend(cpu, id);
	}
	id = turn_cpu(cpu)->held;
	stays = id != NIL && turns_needs_cpu(id);
	if (stays && TURNS->ready.first != NIL)
		turns_pass_over(TURNS->ready.first);
	if (!stays) {
		id = turns_entitled(cpu);
		if (id != NIL)
			return turns_start_between(cpu, id);
		if (TURNS->ready.first != NIL)
			return turns_start_on_credit(cpu, TURNS->ready.first);
	}
	id = begun || stays ? turns_take_back(cpu) : turns_adopt(cpu);
	return id == NIL ? NIL : turns_start(cpu, id);
}

/* A cpu that may have been asked to stop what it ran has. */
turns_fn void turns_stopped(u32 cpu)
{
	TURNS->stopping -= turn_cpu(cpu)->stopping;
	turn_cpu(cpu)->stopping = 0;
}

#include "corrected.h"

/* --- what the framework calls ---------------------------------------------------------------- */

turns_fn void turns_init(u32 cpus)
{
	u32 i;

	TURNS->cpus = cpus;
	TURNS->ready.first = TURNS->ready.last = NIL;
	TURNS->interrupted.first = TURNS->interrupted.last = NIL;
	bpf_for(i, 0, POLICY_CPUS) {
		turn_cpu(i)->slot = i;
		turn_cpu(i)->held = turn_cpu(i)->running = turn_cpu(i)->last = NIL;
	}
	if (corrects_turns()) {
		online_init(cpus);
		CORRECTED->lingering.first = CORRECTED->lingering.last = NIL;
	}
	policy_init(cpus);
}

turns_fn void turns_add(u32 id, u32 weight)
{
	struct turn __arena *turn = TURN(id);

	turn->credit_ns = turn->run_ns = turn->turn_ns = turn->lapsed_ns = 0;
	turn->late_ns = 0;
	turn->kept = false;
	turn->weight = weight;
	turn->state = TURN_ASLEEP;
	turn->place = TURN_OUT;
	if (corrects_turns())
		corrected_add(id, weight);
	policy_add(id, weight);
}

/* A task waits no longer, and is in the policy's queue or out of it. */
turns_fn void turns_withdraw(struct turn __arena *turn, u32 id)
{
	if (turn->state == TURN_ASLEEP)
		return;
	if (turn->state == TURN_READY) {
		turns_unready(id);
	} else if (turn->state == TURN_INTERRUPTED) {
		turn_take_out(&TURNS->interrupted, id);
		turns_end(turn, id);
	} else {
		policy_assert(turn->state == TURN_WAITING);
	}
	turn->state = TURN_ASLEEP;
	TURNS->awake_weight -= turn->weight;
}

turns_fn void turns_remove(u32 id)
{
	struct turn __arena *turn = TURN(id);

	if (corrects_turns()) {
		corrected_remove(id);
	} else if (uses_turns()) {
		turns_withdraw(turn, id);
		turn->place = TURN_OUT;
	}
	policy_remove(id);
}

turns_fn void turns_set_weight(u32 id, u32 weight)
{
	struct turn __arena *turn = TURN(id);

	if (corrects_turns() && !corrected_set_weight(id, weight))
		return;
	if (uses_turns() && turn->state != TURN_ASLEEP)
		TURNS->awake_weight += (u64)weight - turn->weight;
	if (*turn_runs(turn->cpu) && turn_cpu(turn->cpu)->running == id)
		*turn_runs(turn->cpu) += weight - turn->weight;
	turn->weight = weight;
	policy_set_weight(id, weight);
}

turns_fn void turns_wake(u32 id)
{
	struct turn __arena *turn = TURN(id);

	if (!uses_turns() || corrects_turns()) {
		if (!corrects_turns() || corrected_wake(id))
			policy_wake(id);
		return;
	}
	policy_assert(turn->state == TURN_ASLEEP);
	turn->state = TURN_WAITING;
	turn->kept_turns = 0;
	TURNS->awake_weight += turn->weight;
	if (turns_is_out(turn) && turns_joins(turn))
		turns_join(turn, id);
	if (turns_has_credit(turn))
		turns_make_ready(id);
}

turns_fn void turns_block(u32 id)
{
	struct turn __arena *turn = TURN(id);

	if (corrects_turns()) {
		corrected_block(id);
		return;
	}
	if (!uses_turns()) {
		policy_block(id);
		return;
	}
	turns_withdraw(turn, id);
	policy_assert(turn->credit_ns <= turns_cap_ns());
	if (turn->place == TURN_QUEUED && !turn->kept && !turns_has_room(turn))
		turns_leave(turn, id);
}

/*
 * A task, which waits, is not to be picked before it wakes: the policy serves others. It does not sleep, and
 * is not paid.
 */
turns_fn void turns_stand_aside(u32 id)
{
	struct turn __arena *turn = TURN(id);

	if (corrects_turns())
		corrected_stand_aside(id);
	if (!uses_turns() || corrects_turns()) {
		policy_block(id);
		return;
	}
	turns_withdraw(turn, id);
	if (turn->place == TURN_QUEUED)
		turns_leave(turn, id);
}

/* True if a task stands aside, and is served by the ideal. */
turns_fn bool turns_is_aside(u32 id)
{
	return corrects_turns() && TURN(id)->state == TURN_ASIDE;
}

turns_fn u32 turns_pick(u32 cpu)
{
	u32 id;

	if (!uses_turns())
		return policy_pick(cpu);
	if (corrects_turns())
		return corrected_pick(cpu);
	turns_stopped(cpu);
	if (TURNS->cpus > 1 && (TURNS->ready.first != NIL || TURNS->interrupted.first != NIL))
		return turns_pick_amid_others(cpu);
	if (TURNS->ready.first != NIL)
		return turns_start_on_credit(cpu, TURNS->ready.first);
	id = turns_take_back(cpu);
	if (id == NIL)
		id = turns_next(cpu);
	return id == NIL ? NIL : turns_start(cpu, id);
}

/* True if a task, which is ready, is the next on a cpu, whose task has stopped. (False may mean: perhaps.) */
turns_fn bool turns_is_next(u32 cpu, u32 id)
{
	u32 held = turn_cpu(cpu)->held;

	if (corrects_turns())
		return corrected_is_next(cpu, id);
	if (TURNS->ready.first != id)
		return false;
	return TURNS->cpus == 1 ||
	       (held != NIL && !turns_needs_cpu(held) && turns_entitled(cpu) == NIL);
}

/* As turns_pick, then. */
turns_fn u32 turns_pick_ready(u32 cpu)
{
	if (corrects_turns())
		return corrected_pick_ready(cpu);
	turns_stopped(cpu);
	return turns_start_on_credit(cpu, TURNS->ready.first);
}

/* A run on credit, or between turns, is over. */
turns_fn void turns_charge_credit(struct turn __arena *turn, u32 id, u64 used_ns)
{
	u64 left_ns = used_ns < turn->run_ns ? turn->run_ns - used_ns : 0;

	if (turn->state == TURN_ON_CREDIT)
		turns_give(turn, id, left_ns);
	turn->state = TURN_WAITING;
	if (turns_is_out(turn) && turns_has_room(turn) && !turns_is_ahead(turn)) {
		turns_join(turn, id);
		turns_joined(id);
	}
	/* One that yields and is out of the queue would else wait for nothing. */
	bool goes_on = !left_ns || turns_is_out(turn);

	if (turn->place == TURN_PICKED) {
		if (left_ns)
			turns_end(turn, id);
		else
			turns_suspend(turn->cpu, id);
	} else if (goes_on && turns_has_credit(turn)) {
		turns_make_ready(id);
	}
}

/* A task is charged for so much, and ran for as long as that. */
turns_fn void turns_charge(u32 id, u64 used_ns, u64 ran_ns)
{
	struct turn __arena *turn = TURN(id);

	if (!uses_turns()) {
		policy_charge(id, used_ns);
		return;
	}
	if (corrects_turns()) {
		corrected_charge(id, used_ns, ran_ns);
		return;
	}
	policy_assert(turn_cpu(turn->cpu)->running == id);
	turn_cpu(turn->cpu)->running = NIL;
	*turn_runs(turn->cpu) = 0;
	if (turn->state == TURN_ENTITLED && !used_ns)
		turn_cpu(turn->cpu)->last = NIL;
	if (turn->state == TURN_ON_CREDIT || turn->state == TURN_ENTITLED) {
		turns_charge_credit(turn, id, used_ns);
		return;
	}
	policy_assert(turn->state == TURN_ON);
	turn->turn_ns = used_ns < turn->turn_ns ? turn->turn_ns - used_ns : 0;
	turn->state = TURN_WAITING;
	if ((POLICY_PAYS_WHOLE || turn->lengthened) && turn->turn_ns >= turns_least_ns() &&
	    (turn_cpu(turn->cpu)->stopping || used_ns >= turn->run_ns)) {
		turns_suspend(turn->cpu, id);
		return;
	}
	if (!turn->turn_ns)
		turns_note_used_up(turn->cpu, id);
	turns_end(turn, id);
}

/* True if a task may be charged for turns that it has no use for. */
turns_fn bool turns_may_lapse(void)
{
	return uses_turns() && !corrects_turns();
}

/* True if a task runs between its turns, which nobody is charged for. */
turns_fn bool turns_is_between(u32 id)
{
	return turns_may_lapse() && TURN(id)->state == TURN_ENTITLED;
}

/* What a task was charged for and had no use for, and nobody else has had. */
turns_fn u64 turns_take_lapsed(u32 id)
{
	u64 lapsed_ns = TURN(id)->lapsed_ns;

	TURN(id)->lapsed_ns = 0;
	return lapsed_ns;
}

/* A task, which is about to wake, is kept in the queue from now on, or not. True if that is new. */
turns_fn bool turns_keep(u32 id, bool kept)
{
	struct turn __arena *turn = TURN(id);

	if (!turns_may_lapse() || turn->kept == kept)
		return false;
	turn->kept = kept;
	return true;
}

/* True if a task, about to be charged, uses up a turn of its own. */
turns_fn bool turns_uses_up(u32 id, u64 used_ns)
{
	struct turn __arena *turn = TURN(id);

	return turns_may_lapse() && turn->state == TURN_ON && !turn->lengthened &&
	       used_ns >= turn->turn_ns;
}

/* True if a task's turn goes on for what others had no use for. */
turns_fn bool turns_goes_on(u32 id)
{
	return turns_may_lapse() && TURN(id)->lengthened && TURN(id)->turn_ns;
}

/* That turn goes on for so long, if it is worth a run: true if it does. */
turns_fn bool turns_lengthen(u32 id, u64 used_ns, u64 by_ns)
{
	struct turn __arena *turn = TURN(id);

	policy_assert(turns_uses_up(id, used_ns));
	if (by_ns < turns_least_ns())
		return false;
	turn->turn_ns = used_ns + by_ns;
	turn->lengthened = true;
	return true;
}

/* A task that was just added may use so much before the policy serves it. */
turns_fn void turns_endow(u32 id, u64 advance_ns)
{
	struct turn __arena *turn = TURN(id);

	if (corrects_turns()) {
		corrected_endow(id, advance_ns);
		return;
	}
	policy_assert(turn->state == TURN_ASLEEP && turn->place == TURN_OUT);
	turns_give(turn, id, advance_ns);
	turn->place = TURN_ADVANCED;
}

/* So much of a task's credit is taken from it, or all: how much. */
turns_fn u64 turns_take(u32 id, u64 most_ns)
{
	struct turn __arena *turn = TURN(id);
	u64 taken_ns = turn->credit_ns < most_ns ? turn->credit_ns : most_ns;

	turn->credit_ns -= taken_ns;
	return taken_ns;
}

/* A task, which waits, loses its credit, and waits for its turn: how much it had. */
turns_fn u64 turns_forfeit(u32 id)
{
	struct turn __arena *turn = TURN(id);

	if (turn->state == TURN_READY) {
		turns_unready(id);
		turn->state = TURN_WAITING;
	}
	if (turns_is_out(turn)) {
		turns_join(turn, id);
		turns_joined(id);
	}
	return turns_take(id, turn->credit_ns);
}

/*
 * A task, which sleeps, ends: the policy serves it no longer. What it was paid and has not used, or by how
 * much it is behind, below 0 if it is ahead.
 */
turns_fn s64 turns_retire(u32 id)
{
	struct turn __arena *turn = TURN(id);

	if (corrects_turns())
		return corrected_retire(id);
	policy_assert(turn->state == TURN_ASLEEP);
	if (turn->place == TURN_QUEUED)
		turns_leave(turn, id);
	turn->place = TURN_OUT;
	return turns_take(id, turn->credit_ns);
}

/* How long a task that was picked may run. */
turns_fn u64 turns_run_ns(u32 id)
{
	return uses_turns() ? TURN(id)->run_ns : quantum_ns();
}

/* True if the policy serves others than it said last, until turns_pass. */
turns_fn bool turns_may_pass(void)
{
	return corrects_turns() && corrected_has_ends();
}

/* It is another time: tasks that are served no longer are told of. */
turns_fn void turns_pass(void)
{
	if (corrects_turns())
		online_end_all();
}

/* True if a task waits with credit. */
turns_fn bool turns_is_ready(u32 id)
{
	return uses_turns() && TURN(id)->state == TURN_READY;
}

/* True if the policy serves a task when it wakes. */
turns_fn bool turns_is_to_queue(u32 id)
{
	return !uses_turns() || corrects_turns() || !turns_is_out(TURN(id)) || turns_joins(TURN(id));
}

/* True if the policy, or the ideal, serves a task, which may be asleep. */
turns_fn bool turns_is_queued(u32 id)
{
	if (corrects_turns())
		return ONLINE_TASK(id)->mode != ONLINE_ASLEEP;
	return uses_turns() && !turns_is_out(TURN(id));
}

/* True if a task, which sleeps, lacks less than a turn of all that it may be paid. */
turns_fn bool turns_is_nearly_paid(u32 id)
{
	return uses_turns() && !corrects_turns() && TURN(id)->credit_ns + quantum_ns() > turns_cap_ns();
}

/* True if a cpu was asked to stop what it runs. */
turns_fn bool turns_is_stopping(u32 cpu)
{
	return turn_cpu(cpu)->stopping;
}

/* The cpu with the lightest task on a turn, unless it was asked to stop that; NIL if there is none. */
turns_fn u32 turns_lightest(void)
{
	u32 lightest = NIL, least = TURN_RUNS_STOPPING, i;

	/* Without what it takes to begin a loop. */
	if (TURNS->cpus == 1)
		return *turn_runs(0) && *turn_runs(0) < least ? 0 : NIL;
	bpf_for(i, 0, TURNS->cpus) {
		u32 runs = *turn_runs(i);

		if (!runs || runs >= least)
			continue;
		least = runs;
		lightest = i;
	}
	return lightest;
}

/*
 * A cpu that shall stop what it runs, so that a task that woke can have it: the one with the lightest
 * task on a turn, unless that is worth nearly a whole cpu. NIL if there is none, or no need.
 */
turns_fn u32 turns_interrupt(void)
{
	u32 victim;

	if (corrects_turns())
		return corrected_interrupt();
	if (!uses_turns() || TURNS->ready_count <= TURNS->stopping)
		return NIL;
	victim = turns_lightest();
	if (victim == NIL || turns_needs_cpu(turn_cpu(victim)->running))
		return NIL;
	turn_cpu(victim)->stopping = 1;
	*turn_runs(victim) |= TURN_RUNS_STOPPING;
	TURNS->stopping++;
	TURNS->interruptions++;
	return victim;
}

#endif

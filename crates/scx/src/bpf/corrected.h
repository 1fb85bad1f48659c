/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Corrected turns: tasks may sleep, wake, come, go and change weight, and everybody keeps to the fluid
 * ideal, under any policy, on any number of cpus.
 *
 * The rule, its states and what holds are in crates/core/src/corrected.rs, decision for decision: tests
 * compare the two (tests/equals_core.rs), and so does `prorata verify`. In short: whose turn it is says the
 * policy; who is furthest behind the ideal (online.h) runs in it, if he is so by more than a quantum; who
 * slept and wakes runs early, a quarter of a quantum each, until he has had a quantum or is ahead; of who
 * sleeps for a moment only the policy is not told.
 *
 * 111 hogs wake at once in one cgroup, beside a hog in another; one cpu, quanta of 5 ms:
 *
 *   the hog's weight becomes 111 times that of the others      from now on errors are kept
 *   the policy lets the 111 run, one after the other           the hog is behind by 10 ms
 *   the 5th of them has its turn                               the hog runs in it
 *
 * Until a task sleeps, wakes late or changes weight nothing is counted and nothing is corrected.
 *
 * Included by turns.h, with whose lists and cpus it works: of a task `credit_ns` is what it may still receive
 * before others, of a cpu `held` the task whose turn it is. What turns.h calls is inline, and calls one
 * thing after the other; functions tell whose turn is over, for the policy to be told by who called them:
 * so calls nest less. Only those that tell of who lingers tell it themselves.
 *
 * The includer defines CORRECTED, a pointer to struct corrected, all memory zero, and CORRECTED_MEMORY,
 * which declares it.
 */
#ifndef PRORATA_CORRECTED_H
#define PRORATA_CORRECTED_H

#include "online.h"

/* Who is behind whose turn it is by more than so many quanta may use the turn. */
#define CORRECTED_ROOM_QUANTA 1
/* A task that woke runs before others until it has received so many quanta, and is so much further behind. */
#define CORRECTED_ADVANCE_QUANTA 1
/*
 * A task that woke interrupts the cpu where it ran last unless another's task is further ahead than that
 * one's by more than so many quanta.
 */
#define CORRECTED_SPARES_QUANTA 1
/* Tasks that are known to be behind. */
#define CORRECTED_CANDIDATES 2
/* Tasks that are looked at in a pick. */
#define CORRECTED_PATROL 2
/* A task that sleeps lingers in the policy's queue for this part of a quantum, until somebody picks. */
#define CORRECTED_LINGER_PART 64

struct corrected {
	/* Somebody slept, woke late or changed weight: errors are kept. */
	u32 open;
	/* A task was picked. */
	u32 started;
	/* Cpus that run a task, and those of them that do so before others. */
	u32 running, early;
	/* Tasks that stand aside. */
	u32 aside;
	/* Where the patrol is in the list of runnable tasks. */
	u32 patrol;
	/* Tasks that wait. At most CORRECTED_CANDIDATES, none twice. */
	u32 candidates;
	u32 candidate[CORRECTED_CANDIDATES];
	/* Tasks that sleep, and of which the policy is not told yet, in the order in which they went to sleep. */
	struct turn_list lingering;
	/* What was used of the turn that is over. */
	u64 over_ns;
	u32 runnable;
	u32 list[POLICY_TASKS];
};

CORRECTED_MEMORY

turns_fn u64 corrected_advance_ns(void)
{
	return CORRECTED_ADVANCE_QUANTA * quantum_ns();
}

/* True if a task waits for a cpu. */
turns_fn bool corrected_waits(const struct turn __arena *turn)
{
	return turn->listed && turn->cpu == NIL;
}

/* --- the list of runnable tasks -------------------------------------------------------------- */

turns_fn u32 corrected_at(u32 place)
{
	return CORRECTED->list[place & (POLICY_TASKS - 1)];
}

turns_fn void corrected_list(u32 id)
{
	CORRECTED->list[CORRECTED->runnable & (POLICY_TASKS - 1)] = id;
	TURN(id)->listed = ++CORRECTED->runnable;
}

turns_fn void corrected_unlist(u32 id)
{
	u32 place = TURN(id)->listed - 1, last = corrected_at(--CORRECTED->runnable);

	CORRECTED->list[place & (POLICY_TASKS - 1)] = last;
	TURN(last)->listed = place + 1;
	TURN(id)->listed = 0;
}

/* --- errors ---------------------------------------------------------------------------------- */

/* The errors of all tasks are kept from now on. */
policy_fn u32 corrected_open(void)
{
	u32 i, id;

	CORRECTED->open = true;
	ONLINE->now_ns = ONLINE->since_ns = now_ns();
	bpf_for(i, 0, POLICY_TASKS) {
		if (i >= CORRECTED->runnable)
			break;
		id = corrected_at(i);
		TURN(id)->held_by = TURN(id)->cpu;
		online_wake(id);
	}
	bpf_for(i, 0, TURNS->cpus) {
		turn_cpu(i)->held = turn_cpu(i)->running;
		turn_cpu(i)->turn_ns = quantum_ns();
		turn_cpu(i)->before_ns = now_ns() - turn_cpu(i)->since_ns;
		turn_cpu(i)->since_ns = now_ns();
	}
	return 0;
}

/* Cpus that run nothing though somebody waits, or stands aside, for each. */
turns_fn u32 corrected_wasting(u32 awake)
{
	u32 cpus = TURNS->cpus - CORRECTED->running, tasks = awake - CORRECTED->running;

	return cpus < tasks ? cpus : tasks;
}

/* Time passes, and nobody is asleep for it yet. */
turns_fn void corrected_pass(void)
{
	u32 awake = CORRECTED->runnable + CORRECTED->aside;

	if (now_ns() != ONLINE->now_ns)
		online_pass(now_ns(), awake, corrected_wasting(awake));
}

/* Errors, which are kept, are known now. */
turns_fn void corrected_advance(void)
{
	corrected_pass();
	online_advance();
}

/* Errors are known now, and from now on. */
turns_fn void corrected_need_errors(void)
{
	if (!CORRECTED->open)
		corrected_open();
	corrected_advance();
}

/* What decides who is further behind: a task's error, less if it woke. */
policy_fn s64 corrected_key(u32 id)
{
	struct turn __arena *turn = TURN(id);
	s64 key = online_error_ns(id);

	if (turn->cpu != NIL)
		key += now_ns() - turn_cpu(turn->cpu)->since_ns;
	if (turn->credit_ns)
		key -= corrected_advance_ns();
	return key;
}

/* --- candidates ------------------------------------------------------------------------------ */

turns_fn u32 __arena *corrected_candidate(u32 at)
{
	return &CORRECTED->candidate[at & (CORRECTED_CANDIDATES - 1)];
}

turns_fn void corrected_put_candidate(u32 at, u32 id)
{
	*corrected_candidate(at) = id;
	TURN(id)->candidate = at + 1;
}

turns_fn void corrected_forget(u32 id)
{
	struct turn __arena *turn = TURN(id);

	if (!turn->candidate)
		return;
	corrected_put_candidate(turn->candidate - 1, *corrected_candidate(--CORRECTED->candidates));
	turn->candidate = 0;
}

/* The candidate that is least behind, if it is less so than this; NIL if there is none. */
turns_fn u32 corrected_least_behind(s64 key)
{
	u32 id = NIL, at;

	for (at = 0; at < CORRECTED_CANDIDATES; at++) {
		s64 other = corrected_key(*corrected_candidate(at));

		if (other > key || (other == key && id != NIL)) {
			id = *corrected_candidate(at);
			key = other;
		}
	}
	return id;
}

/* The task, which waits and is no candidate, may be one of those that are furthest behind. */
policy_fn u32 corrected_become_candidate(u32 id)
{
	s64 key = corrected_key(id);
	u32 other;

	/* On one cpu somebody who waits is behind if anybody is ahead. */
	if (key >= 0 && TURNS->cpus == 1)
		return 0;
	if (CORRECTED->candidates == CORRECTED_CANDIDATES) {
		other = corrected_least_behind(key);
		if (other == NIL)
			return 0;
		corrected_forget(other);
	}
	corrected_put_candidate(CORRECTED->candidates++, id);
	return 0;
}

/* The task may be one of those that are furthest behind, if it waits. */
turns_fn void corrected_consider(u32 id)
{
	const struct turn __arena *turn = TURN(id);

	if (corrected_waits(turn) && !turn->candidate)
		corrected_become_candidate(id);
}

/* True if more than one task waits. */
turns_fn bool corrected_has_choice(void)
{
	return CORRECTED->runnable > CORRECTED->running + 1;
}

/* The task that a cpu ran last is looked at, and some of the runnable ones, of which there are as many. */
turns_fn void corrected_look(u32 cpu)
{
	u32 last = turn_cpu(cpu)->last, i;

	if (last != NIL)
		corrected_consider(last);
	for (i = 0; i < CORRECTED_PATROL; i++) {
		CORRECTED->patrol++;
		if (CORRECTED->patrol >= CORRECTED->runnable)
			CORRECTED->patrol = 0;
		corrected_consider(corrected_at(CORRECTED->patrol));
	}
}

/* True if a task is entitled to a whole cpu, of several, and behind: it could not make up for more. */
turns_fn bool corrected_needs_cpu(u32 id)
{
	return ONLINE_TASK(id)->mode == ONLINE_CAPPED && corrected_key(id) <= -(s64)turns_share_ns();
}

/* Who runs in the turn of a task. */
turns_fn u32 corrected_choose(u32 turn)
{
	u32 least = turn, i;
	s64 least_key;

	if ((!corrected_has_choice() && !TURN(turn)->lingers) || corrected_needs_cpu(turn))
		return turn;
	least_key = corrected_key(turn) - (s64)(CORRECTED_ROOM_QUANTA * quantum_ns());
	for (i = 0; i < CORRECTED_CANDIDATES; i++) {
		u32 id = *corrected_candidate(i);
		s64 key;

		if (i >= CORRECTED->candidates)
			break;
		key = corrected_key(id);
		if (key < least_key || (key == least_key && least != turn && id < least)) {
			least = id;
			least_key = key;
		}
	}
	return least;
}

/* --- turns ----------------------------------------------------------------------------------- */

/* The turn of a cpu is over: whose it was. */
turns_fn u32 corrected_end_turn(u32 cpu)
{
	u32 held = turn_cpu(cpu)->held;

	policy_assert(held != NIL && TURN(held)->held_by == cpu);
	turn_cpu(cpu)->held = NIL;
	TURN(held)->held_by = NIL;
	CORRECTED->over_ns = quantum_ns() - turn_cpu(cpu)->turn_ns;
	return held;
}

/* So much of the turn of a cpu, if it has one, was used. Whose is over; the rest goes on if the cpu stops. */
turns_fn u32 corrected_use_turn(u32 cpu, u64 used_ns)
{
	struct turn_cpu __arena *this = turn_cpu(cpu);

	if (this->held == NIL)
		return NIL;
	this->turn_ns = used_ns < this->turn_ns ? this->turn_ns - used_ns : 0;
	if (this->stopping && this->turn_ns >= turns_least_ns())
		return NIL;
	return corrected_end_turn(cpu);
}

/* The turn of a task, if it has one, is over. */
turns_fn void corrected_give_up_turn(u32 id)
{
	if (TURN(id)->held_by == NIL)
		return;
	corrected_end_turn(TURN(id)->held_by);
	policy_charge(id, CORRECTED->over_ns);
}

/* --- tasks that sleep, and linger in the policy's queue ---------------------------------------- */

/* A task, which is runnable no longer, lingers. */
turns_fn void corrected_linger(u32 id)
{
	TURN(id)->lingers = true;
	TURN(id)->lingers_until_ns = now_ns() + quantum_ns() / CORRECTED_LINGER_PART;
	turn_append(&CORRECTED->lingering, id);
}

turns_fn void corrected_linger_no_more(u32 id)
{
	TURN(id)->lingers = false;
	turn_take_out(&CORRECTED->lingering, id);
}

/* True if a task, which lingers, has done so for long enough. */
turns_fn bool corrected_has_lingered(u32 id)
{
	return TURN(id)->lingers_until_ns <= now_ns();
}

/* True if somebody has lingered for long enough. */
turns_fn bool corrected_is_departure(void)
{
	return CORRECTED->lingering.first != NIL && corrected_has_lingered(CORRECTED->lingering.first);
}

/* The policy is told that a task, which lingers, sleeps. */
turns_fn void corrected_leave(u32 id)
{
	corrected_linger_no_more(id);
	corrected_give_up_turn(id);
	policy_block(id);
}

/* The same; called, since it is told in a loop, in which the policy picks. */
policy_fn u32 corrected_depart(u32 id)
{
	corrected_leave(id);
	return 0;
}

/* The policy is told of those who have lingered for long enough. */
policy_fn u32 corrected_end_lingering(void)
{
	u32 i;

	bpf_for(i, 0, POLICY_TASKS) {
		if (!corrected_is_departure())
			break;
		corrected_leave(CORRECTED->lingering.first);
	}
	return 0;
}

turns_fn void corrected_moved(u32 cpu)
{
	u32 held = turn_cpu(cpu)->held;

	if (held != NIL)
		TURN(held)->held_by = cpu;
}

/* Two cpus exchange their slots, and the turns there. */
turns_fn void corrected_exchange(u32 one, u32 other)
{
	struct turn_cpu __arena *a = turn_cpu(one), *b = turn_cpu(other);
	u32 slot = a->slot, held = a->held;
	u64 turn_ns = a->turn_ns;

	a->slot = b->slot;
	a->held = b->held;
	a->turn_ns = b->turn_ns;
	b->slot = slot;
	b->held = held;
	b->turn_ns = turn_ns;
	corrected_moved(one);
	corrected_moved(other);
}

/* The task whose turn it is on a cpu, begun or not; NIL if there is none. */
turns_fn u32 corrected_hold(u32 cpu)
{
	u32 held = turn_cpu(cpu)->held;

	if (held != NIL)
		return held;
	held = policy_pick(turn_cpu(cpu)->slot);
	if (held == NIL)
		return NIL;
	turn_cpu(cpu)->held = held;
	turn_cpu(cpu)->turn_ns = quantum_ns();
	TURN(held)->held_by = cpu;
	return held;
}

/*
 * The task whose turn it is on a cpu runs already: it has its turn there, and here comes another that waits.
 * NIL if there is none. Each cpu is at most once where a task runs that has its turn here.
 */
policy_fn u32 corrected_trade(u32 cpu)
{
	u32 i, held;

	bpf_for(i, 0, POLICY_CPUS) {
		held = corrected_hold(cpu);
		if (held == NIL || TURN(held)->cpu == NIL)
			return held;
		corrected_exchange(cpu, TURN(held)->cpu);
	}
	return NIL;
}

/* The task whose turn it is on a cpu, begun or not; it does not run. NIL if there is none. */
turns_fn u32 corrected_turn(u32 cpu)
{
	u32 held = corrected_hold(cpu);

	return held == NIL || TURN(held)->cpu == NIL ? held : corrected_trade(cpu);
}

/* The same; but where that task lingers, and nobody is ready, another has the turn. */
turns_fn u32 corrected_awake_turn(u32 cpu)
{
	u32 held = corrected_turn(cpu), i;

	if (held == NIL || !TURN(held)->lingers || TURNS->ready.first != NIL)
		return held;
	bpf_for(i, 0, POLICY_TASKS) {
		corrected_depart(held);
		held = corrected_turn(cpu);
		if (held == NIL || !TURN(held)->lingers)
			break;
	}
	return held;
}

/* A turn that nobody uses goes on on a cpu, which has none. */
policy_fn u32 corrected_adopt(u32 cpu)
{
	u32 i;

	bpf_for(i, 0, TURNS->cpus) {
		u32 held = turn_cpu(i)->held;

		if (held != NIL && corrected_waits(TURN(held))) {
			corrected_exchange(cpu, i);
			return held;
		}
	}
	return NIL;
}

/* --- runs ------------------------------------------------------------------------------------ */

/* A task, which waits, runs so long. */
turns_fn void corrected_start(u32 cpu, u32 id, u64 run_ns, bool early)
{
	struct turn_cpu __arena *this = turn_cpu(cpu);
	struct turn __arena *turn = TURN(id);

	corrected_forget(id);
	if (turn->state == TURN_READY)
		turns_unready(id);
	else
		policy_assert(turn->state == TURN_WAITING);
	turn->state = TURN_ON;
	turn->cpu = cpu;
	turn->run_ns = run_ns;
	CORRECTED->running++;
	CORRECTED->early += early;
	this->running = id;
	this->early = early;
	this->since_ns = now_ns();
	this->before_ns = 0;
	TURNS->on_credit += early;
}

turns_fn void corrected_start_early(u32 cpu, u32 id)
{
	u64 run_ns = TURN(id)->credit_ns, share_ns = turns_share_ns();

	corrected_start(cpu, id, run_ns < share_ns ? run_ns : share_ns, true);
}

/* True if a task that is ready runs before one that could run in a turn, and may have stopped for it. */
turns_fn bool corrected_goes_first(u32 ready, u32 id, bool gives_way)
{
	return !corrected_needs_cpu(id) &&
	       (gives_way || ready == id || corrected_key(ready) <= corrected_key(id));
}

/* Who runs on a cpu, where it is a task's turn, or nobody's; it may have stopped for who is ready. */
policy_fn u32 corrected_decide(u32 cpu, u32 turn, u32 stopped)
{
	u32 ready = TURNS->ready.first, id = turn == NIL ? NIL : corrected_choose(turn);

	if (ready == NIL && id == NIL)
		return NIL;
	if (id == NIL || TURN(id)->lingers ||
	    (ready != NIL && corrected_goes_first(ready, id, stopped && id == turn))) {
		corrected_start_early(cpu, ready);
		return ready;
	}
	if (TURN(id)->lingered)
		TURN(id)->credit_ns = 0;
	corrected_start(cpu, id, turn_cpu(cpu)->turn_ns, false);
	return id;
}

turns_fn u32 corrected_pick_as_policy(u32 cpu)
{
	u32 id = policy_pick(cpu);

	if (id == NIL)
		return NIL;
	TURN(id)->cpu = cpu;
	TURN(id)->run_ns = quantum_ns();
	TURN(id)->state = TURN_ON;
	CORRECTED->running++;
	turn_cpu(cpu)->running = id;
	turn_cpu(cpu)->since_ns = now_ns();
	return id;
}

/* What a run took since errors are kept. */
static __always_inline u64 corrected_since_open(const struct turn_cpu __arena *this, u64 ns)
{
	return ns > this->before_ns ? ns - this->before_ns : 0;
}

/* The run of a task is over, in which it ran for so long: whose turn is. */
turns_fn u32 corrected_settle(u32 id, u64 used_ns, u64 ran_ns)
{
	struct turn __arena *turn = TURN(id);
	struct turn_cpu __arena *this = turn_cpu(turn->cpu);
	u32 cpu = turn->cpu;

	policy_assert(this->running == id);
	this->running = turn->cpu = NIL;
	this->last = id;
	turn->home = cpu;
	CORRECTED->running--;
	CORRECTED->early -= this->early;
	turn->state = TURN_WAITING;
	CORRECTED->over_ns = used_ns;
	if (!CORRECTED->open)
		return id;
	online_charge(id, corrected_since_open(this, used_ns), corrected_since_open(this, ran_ns),
		      now_ns() - this->since_ns);
	turn->credit_ns = used_ns < turn->credit_ns ? turn->credit_ns - used_ns : 0;
	if (turn->credit_ns < turns_least_ns())
		turn->credit_ns = 0;
	if (this->early && turn->credit_ns)
		turns_make_ready(id);
	return this->early ? NIL : corrected_use_turn(cpu, used_ns);
}

/* A task, which waits, is runnable no longer. */
turns_fn void corrected_withdraw(u32 id)
{
	struct turn __arena *turn = TURN(id);

	if (turn->state == TURN_READY)
		turns_unready(id);
	turn->state = TURN_ASLEEP;
	turn->is_new = false;
	corrected_unlist(id);
	corrected_forget(id);
}

/* A task wakes. If it `goes_on` with its turn it does not run early. */
turns_fn void corrected_begin(u32 id, bool goes_on)
{
	struct turn __arena *turn = TURN(id);
	u64 advance_ns = turn->is_new ? turn->credit_ns : corrected_advance_ns();
	bool was_aside = turn->state == TURN_ASIDE;
	s64 error_ns;

	policy_assert(was_aside || turn->state == TURN_ASLEEP);
	corrected_list(id);
	turn->state = TURN_WAITING;
	if (!CORRECTED->open)
		return;
	if (was_aside) {
		CORRECTED->aside--;
		online_forgo(id);
		return;
	}
	error_ns = online_wake(id);
	if (goes_on)
		return;
	turn->credit_ns = advance_ns;
	if (error_ns < (s64)advance_ns)
		turns_make_ready(id);
}

/* True if a cpu runs a task in a turn that may be interrupted. */
turns_fn bool corrected_may_stop(const struct turn_cpu __arena *this)
{
	return !this->stopping && !this->early && this->running != NIL &&
	       !corrected_needs_cpu(this->running);
}

/*
 * The cpu of several whose task is furthest ahead, and further than who is ready; or where that one ran last,
 * if the task there is ahead nearly as far: where its timer is, and its memory. NIL if there is none.
 */
turns_fn u32 corrected_furthest(u32 home, s64 own)
{
	s64 most = own, at_home = own;
	u32 furthest = NIL, i;

	bpf_for(i, 0, TURNS->cpus) {
		s64 key;

		if (!corrected_may_stop(turn_cpu(i)))
			continue;
		key = corrected_key(turn_cpu(i)->running);
		if (key > most || (key == most && furthest != NIL)) {
			most = key;
			furthest = i;
		}
		if (i == home)
			at_home = key;
	}
	if (furthest == NIL)
		return NIL;
	return at_home > own && at_home >= most - (s64)(CORRECTED_SPARES_QUANTA * quantum_ns()) ? home : furthest;
}

/* A cpu that shall stop what it runs, for who is ready. */
policy_fn u32 corrected_victim(void)
{
	u32 ready = TURNS->ready.first, victim = 0;
	s64 own = corrected_key(ready);

	/* Without what it takes to begin a loop. */
	if (TURNS->cpus > 1)
		victim = corrected_furthest(TURN(ready)->home, own);
	else if (!corrected_may_stop(turn_cpu(0)) || corrected_key(turn_cpu(0)->running) <= own)
		victim = NIL;
	if (victim == NIL)
		return NIL;
	turn_cpu(victim)->stopping = 1;
	TURNS->stopping++;
	TURNS->interruptions++;
	return victim;
}

/* --- what turns.h calls ---------------------------------------------------------------------- */

turns_fn void corrected_add(u32 id, u32 weight)
{
	struct turn __arena *turn = TURN(id);

	turn->cpu = turn->home = turn->held_by = NIL;
	turn->listed = turn->candidate = 0;
	turn->lingers = turn->lingered = false;
	turn->credit_ns = 0;
	turn->is_new = true;
	online_add(id, weight);
}

/* A task, which was just added, is behind by so much, which others were. */
turns_fn void corrected_endow(u32 id, u64 behind_ns)
{
	if (!CORRECTED->open)
		return;
	TURN(id)->credit_ns = behind_ns;
	online_endow(id, behind_ns);
}

/* A task, which sleeps, ends: by how much it is behind, or, below 0, ahead, which is others' then. */
turns_fn s64 corrected_retire(u32 id)
{
	s64 behind_ns;

	if (!CORRECTED->open)
		return 0;
	corrected_advance();
	if (TURN(id)->state != TURN_ASLEEP)
		return 0;
	online_remove(id);
	behind_ns = -online_error_ns(id);
	online_add_ns(ONLINE_TASK(id), behind_ns);
	return behind_ns;
}

/* A task, which waits, sleeps. */
turns_fn void corrected_block(u32 id)
{
	corrected_need_errors();
	corrected_withdraw(id);
	online_block(id);
	corrected_linger(id);
}

/* A task, which waits, was picked often enough: the policy serves it no longer, but the ideal does. */
turns_fn void corrected_stand_aside(u32 id)
{
	corrected_need_errors();
	corrected_withdraw(id);
	corrected_give_up_turn(id);
	TURN(id)->state = TURN_ASIDE;
	CORRECTED->aside++;
}

turns_fn void corrected_remove(u32 id)
{
	bool listed = TURN(id)->listed;

	if (listed || CORRECTED->open)
		corrected_need_errors();
	if (TURN(id)->lingers)
		corrected_linger_no_more(id);
	if (listed)
		corrected_withdraw(id);
	corrected_give_up_turn(id);
	CORRECTED->aside -= TURN(id)->state == TURN_ASIDE;
	if (listed || TURN(id)->state == TURN_ASIDE)
		online_block(id);
	online_remove(id);
}

/* False if a task has this weight already. */
turns_fn bool corrected_set_weight(u32 id, u32 weight)
{
	struct turn __arena *turn = TURN(id);

	if (ONLINE_TASK(id)->weight == weight)
		return false;
	if (turn->listed || CORRECTED->open)
		corrected_need_errors();
	online_set_weight(id, weight);
	if (CORRECTED->open)
		corrected_consider(id);
	return true;
}

/* True if the policy is to be told. */
turns_fn bool corrected_wake(u32 id)
{
	struct turn __arena *turn = TURN(id);

	if (CORRECTED->started || CORRECTED->open)
		corrected_need_errors();
	turn->lingered = turn->lingers;
	if (turn->lingers)
		corrected_linger_no_more(id);
	corrected_begin(id, turn->lingered && turn->held_by != NIL);
	return !turn->lingered;
}

/* True if somebody sleeps and is ahead no longer: before a decision, so that it can be told to others. */
turns_fn bool corrected_has_ends(void)
{
	if (!CORRECTED->open || !online_expects_ends())
		return false;
	corrected_pass();
	online_look();
	return online_next_end() != NIL;
}

turns_fn u32 corrected_pick(u32 cpu)
{
	u32 turn, stopped = turn_cpu(cpu)->stopping;

	CORRECTED->started = true;
	if (!CORRECTED->open)
		return corrected_pick_as_policy(cpu);
	corrected_advance();
	if (corrected_is_departure())
		corrected_end_lingering();
	turns_stopped(cpu);
	/* Unless only one waits, or two and it has stopped for one of them. */
	if (CORRECTED->runnable > CORRECTED->running + 1 + stopped)
		corrected_look(cpu);
	turn = corrected_awake_turn(cpu);
	if (turn == NIL)
		turn = corrected_adopt(cpu);
	return corrected_decide(cpu, turn, stopped);
}

/*
 * True if a task, which is ready, is the next on a cpu, whose task has stopped for it: it and whose turn it
 * is there are all who wait. (False may mean: perhaps.)
 */
turns_fn bool corrected_is_next(u32 cpu, u32 id)
{
	u32 held = turn_cpu(cpu)->held;

	if (held == NIL || held == id || TURN(held)->cpu != NIL || TURNS->ready.first != id ||
	    CORRECTED->runnable + TURN(held)->lingers != CORRECTED->running + 2 || corrected_is_departure())
		return false;
	return !corrected_has_ends() && !corrected_needs_cpu(id) &&
	       (TURN(held)->lingers || !corrected_needs_cpu(held));
}

/* As corrected_pick, then. */
turns_fn u32 corrected_pick_ready(u32 cpu)
{
	u32 id = TURNS->ready.first;

	turns_stopped(cpu);
	corrected_start_early(cpu, id);
	return id;
}

turns_fn void corrected_charge(u32 id, u64 used_ns, u64 ran_ns)
{
	u32 over;

	if (CORRECTED->open)
		corrected_pass();
	over = corrected_settle(id, used_ns, ran_ns);
	if (over != NIL)
		policy_charge(over, CORRECTED->over_ns);
}

turns_fn u32 corrected_interrupt(void)
{
	if (TURNS->ready_count <= TURNS->stopping || CORRECTED->running == CORRECTED->early)
		return NIL;
	corrected_advance();
	return corrected_victim();
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ideal that can be known while tasks run: fluid GMS of what they have asked for so far.
 *
 * The rule is that of crates/core/src/online.rs, to the last bit; tests compare the decisions that are
 * founded on it (tests/equals_core.rs). A task that is awake asks for all it can get. One that sleeps and
 * is ahead of the ideal is served on until that has caught up; one that is behind keeps a part of it:
 *
 *              wake                    block, behind: what is too much is shared
 *   (asleep) -------> AWAKE ------------------------------------------------> (asleep)
 *      ^                | ^
 *      | caught up      | | wake
 *      +------ AHEAD <--+ |     block, ahead
 *                +--------+
 *
 * That the ideal has caught up with a task is found out when time is asked for next; the task is behind by
 * what it was given since.
 *
 * Who is served and not entitled to a whole cpu receives its weight times V, virtual time, which passes at
 * shared_cpus / shared_weight; the others receive a cpu. The error of a task, its service less that, is a
 * line less what the ideal gives it from now on, so that passing time changes nothing of a task. Worked
 * example: weights 3 and 1 on one cpu, the first runs for 4 ms:
 *
 *   V is 1 ms, the errors are 4 - 3 = 1 ms and 0 - 1 = -1 ms
 *
 * What all are behind together is missing, for tasks that went away ahead or began behind; what a task has no
 * use for makes up for that, before others share it.
 *
 * All is in units of 2^-64 ns, in 128 bits that may wrap around: only differences count. Who is entitled
 * to a whole cpu is told by two heaps by weight: the lightest of those who are, the heaviest of those who
 * are not.
 *
 * Like a policy it calls no helper and is called with the lock held. The includer defines ONLINE, a pointer
 * to struct online, all memory zero, and ONLINE_MEMORY, which declares it. `turns_left(id)` is told of a
 * task that slept ahead, when it is caught up with.
 *
 * Known limits: where as many tasks are awake as there are cpus, and one more comes, everybody's right to
 * a cpu is looked at anew, O(P log P). Weights as in policy.h; a runnable set that does not change for
 * 2^63 ns / P would be too old.
 */
#ifndef PRORATA_ONLINE_H
#define PRORATA_ONLINE_H

#include "heap.h"
#include "wide.h"

/* A task that sleeps is behind by at most so many quanta: more it does not want. */
#define ONLINE_KEPT_QUANTA 2
/* One that stood aside is behind by at most what it receives in so many: nobody waits for it for longer. */
#define ONLINE_ASIDE_QUANTA 64
/* The framework's debts are no longer (ledger.h). */
#define ONLINE_DEBT_QUANTA 8
/* What tasks were charged for before they run it counts so for so many. */
#define ONLINE_PREPAID_QUANTA 64
/* No time that is reckoned with is longer: a century and a half. */
#define ONLINE_LONGEST_NS (1ULL << 62)
/* Room for the tasks that one change entitles to a whole cpu, or to none: at most 2P + 2. */
#define ONLINE_MOVED (4 * POLICY_CPUS)

enum online_mode { ONLINE_ASLEEP, ONLINE_SHARED, ONLINE_CAPPED };

enum online_heap_of {
	/* Tasks that share cpus, the heaviest first; on several cpus only. */
	HEAP_SHARED,
	/* Tasks that are entitled to a whole cpu, the lightest first. */
	HEAP_CAPPED,
	/* Tasks that sleep ahead and share cpus, by the V at which they are caught up with. */
	HEAP_ENDS,
	ONLINE_HEAPS,
};

struct online_task {
	struct s128 line;
	struct s128 end;
	/* What it was credited with beyond what it ran: at most ONLINE_DEBT_QUANTA. */
	u64 credited_ns;
	/* What it has run on beyond what it was charged for, and will be charged for later: at most as much. */
	u64 ran_on_ns;
	/* Since when it is entitled to a whole cpu, if it is. */
	u64 capped_since_ns;
	u32 weight;
	/* Its place in each heap, plus one; 0 if it is not there. */
	u32 place[ONLINE_HEAPS];
	u8 mode;
	u8 ahead;
	/* During a change: its mode may have changed, and was this. */
	u8 moved, was;
};

struct online {
	u64 now_ns;
	/* The last change, and V at that time; V now. */
	u64 since_ns;
	struct s128 virtual_since, virtual_now;
	/* What errors those who are not entitled to a cpu were to share since. */
	s64 shared_ns;
	/* V now is to be found anew before it is asked for. */
	u32 stale;
	/* What those who are not entitled to a cpu share. */
	u64 shared_cpus, shared_weight;
	/* What tasks were charged for that they are to run later: at most ONLINE_PREPAID_QUANTA; 0 on one cpu. */
	u64 prepaid_ns;
	/*
	 * What all are behind together for tasks that went away ahead, or began behind, and for what the ideal
	 * gave to tasks that are ahead while nobody was awake.
	 */
	u64 missing_ns;
	/* The weight of all tasks that are served, and of those entitled to a cpu. */
	u64 total, capped;
	u32 cpus;
	/* Tasks that sleep ahead and are entitled to a whole cpu. */
	u32 capped_ahead;
	/* How long a task had no use for its cpu, by the shares before; what is left of that. */
	u64 lasted_ns, lasted_cpus, lasted_weight;
	s64 rest_ns;
	u32 moved_count;
	u32 moved[ONLINE_MOVED];
	struct heap heap[ONLINE_HEAPS];
	struct online_task task[POLICY_TASKS];
};

ONLINE_MEMORY

#define ONLINE_TASK(id) (&ONLINE->task[(id) & (POLICY_TASKS - 1)])

/* --- numbers --------------------------------------------------------------------------------- */

/* n / divisor in units of 2^-64, for divisors below 2^35. */
static __always_inline struct s128 wide_quotient(u64 n, u64 divisor, bool rounds_up)
{
	u64 high = n / divisor, rest, low = divide_part(n - high * divisor, divisor, &rest);
	u64 up = rounds_up & (rest != 0);

	return (struct s128) { .low = low + up, .high = high + (up & !(low + up)) };
}

/* floor(a * b / c), at most ONLINE_LONGEST_NS */
policy_fn u64 online_scaled(u64 a, u64 b, u64 c)
{
	u64 scaled = mul_div(a, b, c ? c : 1);

	return scaled < ONLINE_LONGEST_NS ? scaled : ONLINE_LONGEST_NS;
}

/* --- heaps ----------------------------------------------------------------------------------- */

static __always_inline bool online_before(u32 heap, u32 id, u32 other)
{
	struct online_task __arena *one = ONLINE_TASK(id), *two = ONLINE_TASK(other);

	if (heap == HEAP_SHARED)
		return one->weight > two->weight;
	if (heap == HEAP_CAPPED)
		return one->weight < two->weight;
	if (one->end.high != two->end.high)
		return one->end.high < two->end.high;
	if (one->end.low != two->end.low)
		return one->end.low < two->end.low;
	return id < other;
}

#define HEAP(verb) heap_##verb
#define HEAPS ONLINE_HEAPS
#define HEAP_OF(kind) (&ONLINE->heap[kind])
#define HEAP_PLACE(kind, id) (ONLINE_TASK(id)->place[kind])
#define HEAP_BEFORE(kind, one, two) online_before(kind, one, two)
#include "heaps.h"

/* --- errors ---------------------------------------------------------------------------------- */

static __always_inline u64 online_kept_ns(void)
{
	return ONLINE_KEPT_QUANTA * quantum_ns();
}

/* What the ideal has given a task since its line was 0. */
static __always_inline struct s128 online_given(struct online_task __arena *task)
{
	if (task->mode == ONLINE_SHARED)
		return wide_times_short(wide_load(&ONLINE->virtual_now), task->weight);
	return (struct s128) { .low = 0, .high = task->mode == ONLINE_CAPPED ? ONLINE->now_ns : 0 };
}

static __always_inline struct s128 online_error(struct online_task __arena *task)
{
	return wide_minus(wide_load(&task->line), online_given(task));
}

static __always_inline bool online_is_ahead(u32 id)
{
	return wide_is_positive(online_error(ONLINE_TASK(id)));
}

/* Sets its error, in its mode. */
static __always_inline void online_set_error(struct online_task __arena *task, struct s128 error)
{
	wide_store(&task->line, wide_plus(error, online_given(task)));
}

static __always_inline void online_add_ns(struct online_task __arena *task, s64 ns)
{
	task->line.high = (u64)task->line.high + (u64)ns;
}

/* Service less ideal service, rounded down. What it received since it was charged is not in it. */
static __always_inline s64 online_error_ns(u32 id)
{
	return online_error(ONLINE_TASK(id)).high;
}

/* Finds V now: what was to be shared is as so much less time. Between changes nothing accumulates. */
static __always_inline void online_find_virtual(void)
{
	u64 elapsed_ns = (ONLINE->now_ns - ONLINE->since_ns) * ONLINE->shared_cpus;
	s64 passed_ns = elapsed_ns - (u64)ONLINE->shared_ns;
	struct s128 passed = wide_quotient(magnitude(passed_ns), ONLINE->shared_weight, false);
	struct s128 since = wide_load(&ONLINE->virtual_since);

	wide_store(&ONLINE->virtual_now, passed_ns < 0 ? wide_minus(since, passed) : wide_plus(since, passed));
	ONLINE->stale = false;
}

/* Errors are known now. */
static __always_inline void online_look(void)
{
	if (ONLINE->stale)
		online_find_virtual();
}

/* What follows has other rates. */
static __always_inline void online_begin_anew(void)
{
	policy_assert(!ONLINE->stale);
	ONLINE->since_ns = ONLINE->now_ns;
	wide_store(&ONLINE->virtual_since, wide_load(&ONLINE->virtual_now));
	ONLINE->shared_ns = 0;
}

/* Those who share cpus, if there are any, share an error in proportion to their weights. */
static __always_inline void online_share(s64 error_ns)
{
	if (!ONLINE->shared_cpus)
		return;
	ONLINE->shared_ns = (u64)ONLINE->shared_ns + (u64)error_ns;
	ONLINE->stale = true;
}

/* What a task is behind and has no use for makes up for what is missing, and is shared if it is more. */
static __always_inline void online_give_up(s64 behind_ns)
{
	u64 made_up_ns = behind_ns > 0 ? behind_ns : 0;

	if (made_up_ns > ONLINE->missing_ns)
		made_up_ns = ONLINE->missing_ns;
	ONLINE->missing_ns -= made_up_ns;
	online_share(made_up_ns - (u64)behind_ns);
	online_look();
}

/* True if somebody sleeps ahead. */
static __always_inline bool online_expects_ends(void)
{
	return ONLINE->heap[HEAP_ENDS].count || ONLINE->capped_ahead;
}

/* Nobody is awake, and the ideal serves those who are ahead. */
policy_fn u32 online_pass_asleep(u64 elapsed_ns)
{
	u32 ahead = ONLINE->heap[HEAP_ENDS].count + ONLINE->capped_ahead;

	ONLINE->missing_ns += elapsed_ns * (ahead < ONLINE->cpus ? ahead : ONLINE->cpus);
	return 0;
}

/*
 * Moves time on, while so many tasks were awake, and so many cpus were wasting it. There runs what was
 * charged before, and what is left all share. Nobody is asleep for it before errors are asked for.
 */
static __always_inline void online_pass(u64 now_ns, u32 awake, u32 wasting)
{
	u64 elapsed_ns = now_ns - ONLINE->now_ns, wasted_ns = elapsed_ns * wasting, run_ns;

	ONLINE->now_ns = now_ns;
	ONLINE->stale = true;
	if (!awake && online_expects_ends())
		online_pass_asleep(elapsed_ns);
	if (!wasted_ns)
		return;
	run_ns = wasted_ns < ONLINE->prepaid_ns ? wasted_ns : ONLINE->prepaid_ns;
	ONLINE->prepaid_ns -= run_ns;
	online_share(wasted_ns - run_ns);
}

/* --- who is entitled to a whole cpu ---------------------------------------------------------- */

static __always_inline void online_set_mode(u32 id, u32 mode)
{
	struct online_task __arena *task = ONLINE_TASK(id);
	struct s128 error = online_error(task);

	task->mode = mode;
	online_set_error(task, error);
}

/* It is or was entitled to a whole cpu: it moves from one heap by weight to the other. */
static __always_inline void online_entitle(u32 id, bool entitled)
{
	struct online_task __arena *task = ONLINE_TASK(id);
	u32 from = entitled ? HEAP_SHARED : HEAP_CAPPED, to = entitled ? HEAP_CAPPED : HEAP_SHARED;

	if (!task->moved) {
		task->moved = true;
		task->was = task->mode;
		ONLINE->moved[ONLINE->moved_count++ & (ONLINE_MOVED - 1)] = id;
	}
	heap_remove(from, id);
	heap_insert(to, id);
	ONLINE->capped += entitled ? (u64)task->weight : -(u64)task->weight;
	online_set_mode(id, entitled ? ONLINE_CAPPED : ONLINE_SHARED);
}

/* True if a task is entitled to a whole cpu, where it and all lighter ones share the others' rest. */
static __always_inline bool online_exceeds(u32 id, u32 capped, u64 capped_weight)
{
	u32 count = ONLINE->heap[HEAP_SHARED].count + ONLINE->heap[HEAP_CAPPED].count;

	if (count <= ONLINE->cpus)
		return true;
	return (u64)ONLINE_TASK(id)->weight * (ONLINE->cpus - capped) > ONLINE->total - capped_weight;
}

/* A task that is entitled to a whole cpu, and should not be; NIL if there is none. */
static __always_inline u32 online_too_light(void)
{
	u32 id = heap_first(HEAP_CAPPED), others = ONLINE->heap[HEAP_CAPPED].count - 1;

	if (id != NIL && online_exceeds(id, others, ONLINE->capped - ONLINE_TASK(id)->weight))
		return NIL;
	return id;
}

/* A task that is not entitled to a whole cpu, and should be; NIL if there is none. */
static __always_inline u32 online_too_heavy(void)
{
	u32 id = heap_first(HEAP_SHARED);

	if (id != NIL && !online_exceeds(id, ONLINE->heap[HEAP_CAPPED].count, ONLINE->capped))
		return NIL;
	return id;
}

/* Entitles all those to a whole cpu who should be (water-filling), and nobody else. */
static __always_inline void online_find_capped(void)
{
	u32 i, id;

	bpf_for(i, 0, POLICY_CPUS + 1) {
		id = online_too_light();
		if (id == NIL)
			break;
		online_entitle(id, false);
	}
	bpf_for(i, 0, POLICY_CPUS + 1) {
		id = online_too_heavy();
		if (id == NIL)
			break;
		online_entitle(id, true);
	}
}

/* A task has this error, which may be below 0 by now: V may go back to before its end. */
static __always_inline void online_insert_end(struct online_task __arena *task, u32 id, struct s128 error)
{
	struct s128 end = wide_load(&ONLINE->virtual_now), apart;
	s64 error_ns = error.high + (error.low != 0);

	apart = wide_quotient(magnitude(error_ns), task->weight, error_ns > 0);
	end = error_ns < 0 ? wide_minus(end, apart) : wide_plus(end, apart);
	wide_store(&task->end, end);
	heap_insert(HEAP_ENDS, id);
}

/* A task, which has this error, sleeps ahead from now on. */
static __always_inline void online_expect_end(u32 id, struct s128 error)
{
	struct online_task __arena *task = ONLINE_TASK(id);

	if (task->mode == ONLINE_CAPPED)
		ONLINE->capped_ahead++;
	else
		online_insert_end(task, id, error);
}

/* A task, which sleeps ahead, does no longer. */
static __always_inline void online_expect_no_end(u32 id)
{
	if (ONLINE_TASK(id)->mode == ONLINE_CAPPED)
		ONLINE->capped_ahead--;
	else
		heap_remove(HEAP_ENDS, id);
}

/* A task's mode has changed; if that is since another one left, it has had more from then on. */
static __always_inline void online_moved(u32 id)
{
	struct online_task __arena *task = ONLINE_TASK(id);
	bool capped = task->mode == ONLINE_CAPPED;

	if (capped)
		task->capped_since_ns = ONLINE->now_ns;
	if (ONLINE->lasted_ns && capped) {
		u64 had_ns = online_scaled(ONLINE->lasted_ns, task->weight * ONLINE->lasted_cpus,
					   ONLINE->lasted_weight);
		s64 more_ns = ONLINE->lasted_ns - had_ns;

		online_add_ns(task, -more_ns);
		ONLINE->rest_ns -= more_ns;
	}
	if (!task->ahead)
		return;
	if (capped) {
		heap_remove(HEAP_ENDS, id);
		ONLINE->capped_ahead++;
	} else {
		ONLINE->capped_ahead--;
		online_insert_end(task, id, online_error(task));
	}
}

/* Those who are served on several cpus have changed. */
policy_fn u32 online_readjust_cpus(void)
{
	u32 i;

	ONLINE->moved_count = 0;
	if (online_too_light() != NIL || online_too_heavy() != NIL)
		online_find_capped();
	if (ONLINE->heap[HEAP_SHARED].count) {
		ONLINE->shared_cpus = ONLINE->cpus - ONLINE->heap[HEAP_CAPPED].count;
		ONLINE->shared_weight = ONLINE->total - ONLINE->capped;
	} else {
		ONLINE->shared_cpus = 0;
		ONLINE->shared_weight = 1;
	}
	if (!ONLINE->moved_count)
		return 0;
	bpf_for(i, 0, ONLINE_MOVED) {
		u32 id;

		if (i >= ONLINE->moved_count)
			break;
		id = ONLINE->moved[i & (ONLINE_MOVED - 1)];
		ONLINE_TASK(id)->moved = false;
		if (ONLINE_TASK(id)->mode != ONLINE_TASK(id)->was)
			online_moved(id);
	}
	return 0;
}

/* Those who are served have changed. */
static __always_inline void online_readjust(void)
{
	if (ONLINE->cpus > 1)
		online_readjust_cpus();
	else
		ONLINE->shared_weight = ONLINE->total ? ONLINE->total : 1;
}

/* --- changes, at the time that was asked for last -------------------------------------------- */

/* A task, which is asleep, is served. */
static __always_inline void online_enter(u32 id)
{
	online_set_mode(id, ONLINE_SHARED);
	ONLINE->total += ONLINE_TASK(id)->weight;
	if (ONLINE->cpus > 1)
		heap_insert(HEAP_SHARED, id);
}

/* A task, which is served and has this error, is asleep. */
static __always_inline void online_withdraw(u32 id, struct s128 error)
{
	if (ONLINE_TASK(id)->mode == ONLINE_CAPPED)
		ONLINE->capped -= ONLINE_TASK(id)->weight;
	ONLINE->total -= ONLINE_TASK(id)->weight;
	heap_remove(HEAP_CAPPED, id);
	heap_remove(HEAP_SHARED, id);
	ONLINE_TASK(id)->mode = ONLINE_ASLEEP;
	wide_store(&ONLINE_TASK(id)->line, error);
}

/* A task, which is served, has had no use for so much: for how long it received that, and by which shares. */
static __always_inline void online_note_lasted(struct online_task __arena *task, s64 excess_ns)
{
	ONLINE->rest_ns = excess_ns;
	ONLINE->lasted_cpus = ONLINE->shared_cpus;
	ONLINE->lasted_weight = ONLINE->shared_weight;
	ONLINE->lasted_ns = excess_ns;
	if (ONLINE->cpus > 1 && task->mode == ONLINE_SHARED)
		ONLINE->lasted_ns = online_scaled(excess_ns, ONLINE->shared_weight,
						  task->weight * ONLINE->shared_cpus);
}

/* What is left of it when those have theirs who are entitled to a whole cpu since. */
static __always_inline void online_share_rest(void)
{
	ONLINE->lasted_ns = 0;
	online_give_up(ONLINE->rest_ns);
}

/*
 * A task is served no longer, and is behind by at most so much: it had no use for the rest. Those
 * have it who would have received more without the task while that lasted.
 */
static __always_inline void online_leave(u32 id, struct s128 error, u64 kept_ns)
{
	s64 excess_ns = -(s64)kept_ns - error.high - (error.low != 0);

	online_begin_anew();
	if (excess_ns > 0)
		online_note_lasted(ONLINE_TASK(id), excess_ns);
	online_withdraw(id, error);
	online_readjust();
	if (excess_ns <= 0)
		return;
	online_add_ns(ONLINE_TASK(id), excess_ns);
	online_share_rest();
}

/* A task that is entitled to a whole cpu, sleeps, and is ahead no longer; NIL if there is none. */
policy_fn u32 online_capped_end(void)
{
	u32 id = NIL + unknown_zero(ONLINE->capped_ahead), i;

	bpf_for(i, 0, POLICY_CPUS) {
		u32 other = heap_at(HEAP_CAPPED, i);

		if (i >= ONLINE->heap[HEAP_CAPPED].count)
			break;
		if (ONLINE_TASK(other)->ahead && other < id && !online_is_ahead(other))
			id = other;
	}
	return id;
}

/* A task that is ahead no longer, though it was when it went to sleep; NIL if there is none. */
static __always_inline u32 online_next_end(void)
{
	u32 id = heap_first(HEAP_ENDS);

	if (id != NIL && !wide_less(wide_load(&ONLINE->virtual_now), wide_load(&ONLINE_TASK(id)->end)))
		return id;
	return ONLINE->capped_ahead ? online_capped_end() : NIL;
}

/* A task, which was ahead, is asleep. What the ideal gave it since it caught up is the others'. */
static __always_inline void online_end(u32 id)
{
	online_expect_no_end(id);
	ONLINE_TASK(id)->ahead = false;
	online_leave(id, online_error(ONLINE_TASK(id)), online_kept_ns());
}

/* Tasks that the ideal has caught up with are asleep from now on. */
policy_fn u32 online_end_all(void)
{
	u32 i;

	bpf_for(i, 0, POLICY_TASKS) {
		u32 id = online_next_end();

		if (id == NIL)
			break;
		online_end(id);
		turns_left(id);
	}
	return 0;
}

policy_fn u32 online_look_and_end(void)
{
	online_look();
	if (online_next_end() != NIL)
		online_end_all();
	return 0;
}

/* Errors are known now, and who was caught up with is asleep. */
static __always_inline void online_advance(void)
{
	if (ONLINE->stale || online_next_end() != NIL)
		online_look_and_end();
}

static __always_inline void online_init(u32 cpus)
{
	ONLINE->cpus = cpus;
	ONLINE->shared_cpus = cpus == 1;
	ONLINE->shared_weight = 1;
}

/* A task is known, asleep. */
static __always_inline void online_add(u32 id, u32 weight)
{
	struct online_task __arena *task = ONLINE_TASK(id);

	policy_assert(!task->ahead);
	task->line.low = 0;
	task->line.high = 0;
	task->credited_ns = task->ran_on_ns = 0;
	task->mode = ONLINE_ASLEEP;
	task->weight = weight;
}

/* A task, which is asleep, goes away. What it is ahead is missing in the errors of the others. */
policy_fn u32 online_remove(u32 id)
{
	s64 error_ns;

	if (ONLINE_TASK(id)->ahead)
		online_end(id);
	error_ns = online_error_ns(id);
	if (error_ns > 0)
		ONLINE->missing_ns += error_ns;
	else if (error_ns)
		online_give_up(-error_ns);
	return 0;
}

/* A task, which is asleep, is behind by so much more from now on. */
static __always_inline void online_endow(u32 id, u64 behind_ns)
{
	ONLINE->missing_ns += behind_ns;
	online_add_ns(ONLINE_TASK(id), -(s64)behind_ns);
}

/* A task wants to run from now on: its error, as online_error_ns tells it. */
policy_fn s64 online_wake(u32 id)
{
	struct s128 error = online_error(ONLINE_TASK(id));

	if (ONLINE_TASK(id)->ahead) {
		online_expect_no_end(id);
		ONLINE_TASK(id)->ahead = false;
		return error.high;
	}
	online_begin_anew();
	online_enter(id);
	online_readjust();
	return error.high;
}

/* A task sleeps from now on. */
policy_fn u32 online_block(u32 id)
{
	struct s128 error = online_error(ONLINE_TASK(id));

	if (wide_is_positive(error)) {
		ONLINE_TASK(id)->ahead = true;
		online_expect_end(id, error);
		return 0;
	}
	online_leave(id, error, online_kept_ns());
	return 0;
}

/* By how much a task at most is behind that is awake and stood aside: what it receives in a time. */
policy_fn u64 online_aside_ns(u32 id)
{
	struct online_task __arena *task = ONLINE_TASK(id);
	u64 most_ns = ONLINE_ASIDE_QUANTA * quantum_ns();

	if (task->mode != ONLINE_CAPPED)
		most_ns = online_scaled(most_ns, task->weight * ONLINE->shared_cpus, ONLINE->shared_weight);
	return most_ns > online_kept_ns() ? most_ns : online_kept_ns();
}

/* A task, which is awake and stood aside, is behind by no more than that: it had no use for the rest. */
policy_fn u32 online_forgo(u32 id)
{
	struct s128 error = online_error(ONLINE_TASK(id));
	u64 most_ns = online_aside_ns(id);

	if ((s64)error.high >= -(s64)most_ns)
		return 0;
	online_leave(id, error, most_ns);
	/* Whom that lets the ideal catch up with is asleep before rates change again. */
	online_end_all();
	online_begin_anew();
	online_enter(id);
	online_readjust();
	return 0;
}

policy_fn u32 online_set_weight(u32 id, u32 weight)
{
	struct online_task __arena *task = ONLINE_TASK(id);
	bool was_ahead = task->ahead;

	if (task->mode == ONLINE_ASLEEP) {
		task->weight = weight;
		return 0;
	}
	if (was_ahead)
		online_expect_no_end(id);
	task->ahead = false;
	online_begin_anew();
	online_withdraw(id, online_error(task));
	task->weight = weight;
	online_enter(id);
	online_readjust();
	if (was_ahead)
		online_expect_end(id, online_error(task));
	task->ahead = was_ahead;
	return 0;
}

/* Brings what a task ran on up to date; what else it is charged for. */
static __always_inline u64 online_settle(struct online_task __arena *task, u64 charged_ns, u64 ran_ns)
{
	u64 most_ns = ONLINE_DEBT_QUANTA * quantum_ns(), owed_ns = task->ran_on_ns + ran_ns;

	if (owed_ns < charged_ns) {
		task->ran_on_ns = 0;
		return charged_ns - owed_ns;
	}
	owed_ns -= charged_ns;
	task->ran_on_ns = owed_ns < most_ns ? owed_ns : most_ns;
	return 0;
}

/*
 * What a task is credited with: what it lost since it is entitled to a whole cpu nobody can give it. What it
 * ran beyond the time that passed seemed to be lost before, by itself or by who ran there before it.
 */
static __always_inline s64 online_credit(struct online_task __arena *task, s64 lost_ns)
{
	u64 most_ns = ONLINE_DEBT_QUANTA * quantum_ns();
	s64 capped_ns = 0, by_ns;

	if (task->mode == ONLINE_CAPPED)
		capped_ns = ONLINE->now_ns - task->capped_since_ns;
	else if (!task->credited_ns)
		return 0;
	by_ns = lost_ns < capped_ns ? lost_ns : capped_ns;
	if (by_ns < -(s64)task->credited_ns)
		by_ns = -(s64)task->credited_ns;
	task->credited_ns += by_ns;
	if (task->credited_ns > most_ns)
		task->credited_ns = most_ns;
	return by_ns;
}

/* A task was charged for what it is to run later. */
static __always_inline void online_prepay(u64 more_ns)
{
	u64 room_ns = 0;

	/* One cpu runs nobody elsewhere. */
	if (ONLINE->cpus > 1)
		room_ns = ONLINE_PREPAID_QUANTA * quantum_ns() - ONLINE->prepaid_ns;
	if (more_ns <= room_ns) {
		ONLINE->prepaid_ns += more_ns;
		return;
	}
	ONLINE->prepaid_ns += room_ns;
	online_share(-(s64)(more_ns - room_ns));
}

/*
 * A task ran for ran_ns of elapsed_ns, and is charged for charged_ns: the ledger settles the difference with
 * later runs. What it is charged for and did not run, now or before, it is to run later (paid.h). All share
 * what was lost, but for what it is credited with.
 */
policy_fn u32 online_charge(u32 id, u64 charged_ns, u64 ran_ns, u64 elapsed_ns)
{
	struct online_task __arena *task = ONLINE_TASK(id);
	s64 lost_ns = elapsed_ns - ran_ns, credited_ns;
	u64 prepaid_ns;

	prepaid_ns = online_settle(task, charged_ns, ran_ns);
	credited_ns = online_credit(task, lost_ns);
	online_add_ns(task, ran_ns + prepaid_ns + credited_ns);
	if (lost_ns != credited_ns)
		online_share(lost_ns - credited_ns);
	if (prepaid_ns)
		online_prepay(prepaid_ns);
	return 0;
}

#endif

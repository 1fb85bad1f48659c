/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Start tags and feasible weights of the runnable tasks, for policies that order tasks by service
 * per unit of weight (crates/core/src/tags.rs and effective.rs, whose numbers these are exactly).
 *
 * A task keeps its service = tag * weight, a whole number of ns, so that running for u ns adds u.
 * Virtual time is the mean of the tags: the sum of all service over the sum of all weights, which
 * are made feasible first (feasible.h); where one that was ahead has left, it goes on from what it
 * was. Worked example, on two cpus:
 *
 *   weights 5, 1, 1:  the others weigh 2 on the cpu that is left, so that 5 counts as 2
 *   each has run 4 ms: tags 2, 4, 4 ms; mean (4 + 4 + 4) / (2 + 1 + 1) = 3 ms
 *
 * A task whose weight or count changes keeps its distance from the mean as service.
 *
 * Included after POLICY_MEMORY by a policy whose struct policy_task has a `struct tagged tag` and
 * whose struct policy_state has a `struct tags tags` (tagged.h), beside what feasible.h asks for.
 *
 * Known limit: the divisions are exact for divisors below 2^48; 512 cpus times all weights together are
 * below 2^44.
 */
#ifndef PRORATA_TAGS_H
#define PRORATA_TAGS_H

#include "feasible.h"

#define TAGS (&STATE->tags)
#define TAG(id) (&TASK(id)->tag)

/* --- numbers ------------------------------------------------------------------------------- */

/*
 * Rounds n / divisor down; leaves the quotient and the remainder, which is not negative, in
 * TAGS. 0 < divisor < 2^48.
 */
policy_fn u32 divide(u64 high, u64 low, u64 divisor)
{
	/* For n < 0: floor(n / d) = ~floor(~n / d). */
	u64 sign = (u64)((s64)high >> 63), rest = unknown_zero(low);
	u64 quotient_high = unknown_zero(low), quotient_low;
	u32 i;

	high ^= sign;
	low ^= sign;
	quotient_low = low / divisor;
	if (high) {
		quotient_low = unknown_zero(low);
		bpf_for(i, 0, 8) {
			rest = rest << 16 | high >> 48;
			high = high << 16 | low >> 48;
			low <<= 16;
			quotient_high = quotient_high << 16 | quotient_low >> 48;
			quotient_low = quotient_low << 16 | rest / divisor;
			rest %= divisor;
		}
	} else {
		rest = low % divisor;
	}
	TAGS->quotient.low = quotient_low ^ sign;
	TAGS->quotient.high = quotient_high ^ sign;
	TAGS->remainder = sign ? divisor - 1 - rest : rest;
	return 0;
}

/* to = n / divisor, as a point of virtual time */
static __always_inline void set_ratio(struct instant __arena *to, struct s128 n, u64 divisor)
{
	divide(n.high, n.low, divisor);
	to->whole = TAGS->quotient.low;
	to->part = TAGS->remainder;
	to->of = divisor;
}

static __always_inline void copy_instant(struct instant __arena *to, struct instant __arena *from)
{
	to->whole = from->whole;
	to->part = from->part;
	to->of = from->of;
}

static __always_inline bool is_earlier(struct instant __arena *a, struct instant __arena *b)
{
	u64 left, right;

	if (a->whole != b->whole)
		return a->whole < b->whole;
	left = mul_high(a->part, b->of);
	right = mul_high(b->part, a->of);
	return left < right || (left == right && a->part * b->of < b->part * a->of);
}

/* Service of a task of weight parts/of whose tag is v, rounded down to a ns. */
static __always_inline struct s128 service_at(struct instant __arena *v, u64 parts, u64 of)
{
	struct s128 n;

	divide(mul_high(parts, v->part), parts * v->part, v->of);
	n = wide_plus(wide_times(wide(v->whole), parts), wide(TAGS->quotient.low));
	divide(n.high, n.low, of);
	return wide_load(&TAGS->quotient);
}

/* to = the task's tag after more_ns of service */
static __always_inline void start_after(struct instant __arena *to, u32 id, s64 more_ns)
{
	struct tagged __arena *task = TAG(id);
	struct s128 service = wide_plus(wide_load(&task->service), wide(more_ns));

	set_ratio(to, wide_times(service, task->of), task->parts);
}

/* --- what tasks count for ------------------------------------------------------------------ */

/* What a whole cpu counts for: cpu_parts() / cpu_divisor(). */
static __always_inline u64 cpu_parts(void)
{
	if (!SET->count)
		return 1;
	return SET->cap_feasible == CAP_NONE ? SET->load : SET->cap_feasible;
}

static __always_inline u64 cpu_divisor(void)
{
	if (!SET->count)
		return 1;
	return SET->cap_feasible == CAP_NONE ? SET->cpus : SET->cap_cpus;
}

static __always_inline u64 busy_cpus(void)
{
	return SET->count < SET->cpus ? SET->count : SET->cpus;
}

/* to = the mean of all tags when all tasks together have received more_ns */
static __always_inline void mean_after(struct instant __arena *to, u64 more_ns)
{
	struct s128 total = wide_load(&TAGS->total), floor = wide_load(&TAGS->floor);

	if (!SET->count) {
		copy_instant(to, &TAGS->idle);
		return;
	}
	total = wide_plus(wide_less(total, floor) ? floor : total, wide(more_ns));
	if (SET->cap_feasible == CAP_NONE)
		set_ratio(to, total, SET->load);
	else
		set_ratio(to, wide_times(total, SET->cap_cpus),
			  busy_cpus() * SET->cap_feasible);
}

/* Gives a task what it counts for under the cap. */
static __always_inline void set_effective(u32 id)
{
	struct tagged __arena *task = TAG(id);
	u32 weight = RANK(id)->weight;
	bool capped = exceeds(weight, SET->cap_feasible, SET->cap_cpus);

	task->parts = capped ? SET->cap_feasible : weight;
	task->of = capped ? SET->cap_cpus : 1;
}

/* The task counts for what the cap says now; its distance from TAGS->now stays. */
policy_fn u32 carry(u32 id)
{
	struct tagged __arena *task = TAG(id);
	u64 old_parts = task->parts, old_of = task->of;
	struct s128 old = wide_load(&task->service), new;

	set_effective(id);
	TAGS->moved[TAGS->moved_count & (TAGS_MOVED - 1)] = id;
	TAGS->moved_count++;
	if (task->parts * old_of == old_parts * task->of)
		return 0;
	new = wide_minus(old, service_at(&TAGS->now, old_parts, old_of));
	new = wide_plus(new, service_at(&TAGS->now, task->parts, task->of));
	wide_store(&task->service, new);
	wide_store(&TAGS->total,
		   wide_plus(wide_load(&TAGS->total), wide_minus(new, old)));
	return 0;
}

/* The set changed. All tasks but the newcomer keep their distance from TAGS->now. */
policy_fn u32 readjust(u32 newcomer)
{
	u64 old_feasible = SET->cap_feasible, old_cpus = SET->cap_cpus;
	u32 id, i;

	if (!find_cap())
		return 0;
	STATE->counts.readjustments++;
	id = SET->heaviest;
	bpf_for(i, 0, POLICY_TASKS) {
		struct tagged __arena *task;
		u64 weight, of;
		bool capped;

		if (id == NIL)
			break;
		task = TAG(id);
		weight = RANK(id)->weight;
		capped = exceeds(weight, SET->cap_feasible, SET->cap_cpus);
		if (!capped && !exceeds(weight, old_feasible, old_cpus))
			break;
		of = capped ? SET->cap_cpus : 1;
		if (id != newcomer &&
		    (task->of != of || task->parts != (capped ? SET->cap_feasible : weight)))
			carry(id);
		id = RANK(id)->lighter;
	}
	return 0;
}

/* --- changes of state ---------------------------------------------------------------------- */

/*
 * The mean does not go back from TAGS->now, but for a ns on each cpu, and tags_charge() moves this floor
 * on: it passes with all that is served, also while tasks make up for what one that left had taken.
 */
static __always_inline void hold_mean(void)
{
	struct s128 per_cpu = service_at(&TAGS->now, cpu_parts(), cpu_divisor());

	wide_store(&TAGS->floor, wide_times(per_cpu, busy_cpus()));
}

static __always_inline void tags_init(u32 cpus)
{
	feasible_init(cpus);
	TAGS->idle.of = 1;
}

static __always_inline void tags_add(u32 id, u32 weight)
{
	struct tagged __arena *task = TAG(id);

	RANK(id)->weight = task->parts = weight;
	task->of = 1;
	wide_store(&task->service, wide(0));
	task->state = TAG_BLOCKED;
}

/* The task's tag is at least the mean. True if it was ahead of it, or at it. */
static __always_inline bool tags_wake(u32 id)
{
	struct tagged __arena *task = TAG(id);
	bool ahead;

	mean_after(&TAGS->now, 0);
	start_after(&TAGS->start, id, 0);
	ahead = !is_earlier(&TAGS->start, &TAGS->now);
	TAGS->moved_count = 0;
	list_insert(id);
	readjust(id);
	if (ahead) {
		wide_store(&TAGS->total, wide_plus(wide_load(&TAGS->total),
						   wide_load(&task->service)));
		carry(id);
		TAGS->moved_count--;
	} else {
		set_effective(id);
		wide_store(&task->service, service_at(&TAGS->now, task->parts, task->of));
		wide_store(&TAGS->total, wide_plus(wide_load(&TAGS->total),
						   wide_load(&task->service)));
	}
	task->state = TAG_WAITING;
	hold_mean();
	return ahead;
}

static __always_inline void tags_leave(u32 id)
{
	struct tagged __arena *task = TAG(id);

	mean_after(&TAGS->now, 0);
	start_after(&TAGS->start, id, 0);
	TAGS->moved_count = 0;
	task->state = TAG_BLOCKED;
	wide_store(&TAGS->total,
		   wide_minus(wide_load(&TAGS->total), wide_load(&task->service)));
	list_remove(id);
	readjust(NIL);
	if (!SET->count) {
		if (is_earlier(&TAGS->start, &TAGS->now))
			copy_instant(&TAGS->idle, &TAGS->now);
		else
			copy_instant(&TAGS->idle, &TAGS->start);
	}
	hold_mean();
}

/* A runnable task is among the moved ones then. */
static __always_inline void tags_set_weight(u32 id, u32 weight)
{
	struct tagged __arena *task = TAG(id);

	TAGS->moved_count = 0;
	if (task->state == TAG_BLOCKED) {
		RANK(id)->weight = weight;
		return;
	}
	mean_after(&TAGS->now, 0);
	list_remove(id);
	readjust(NIL);
	RANK(id)->weight = weight;
	list_insert(id);
	readjust(id);
	carry(id);
	hold_mean();
}

static __always_inline void tags_charge(u32 id, u64 used_ns)
{
	struct tagged __arena *task = TAG(id);

	wide_add(&task->service, used_ns);
	wide_add(&TAGS->total, used_ns);
	wide_add(&TAGS->floor, used_ns);
	task->state = TAG_WAITING;
}

#endif

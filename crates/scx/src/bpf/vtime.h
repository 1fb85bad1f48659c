/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Virtual time for policies of one queue: the tags of tasks, and a clock that all of them share
 * (crates/core/src/virtual_time.rs, whose numbers these are exactly).
 *
 * A tag is whole + part/weight ns per unit of weight, and moves by used/weight when its task runs.
 * The clock moves by used/total, total being the weight of the runnable tasks. Worked example:
 *
 *   weights 3, 2, 1; the first runs 6 ms:  its tag is 2 ms, the clock is 1 ms
 *
 * When the total changes, the clock keeps what its part was in 2^-64 ns.
 *
 * Known limits: weights below 2^27 and totals below 2^35, so that products fit in 64 bits. A
 * distance from the clock counts for no more than 2^62 ns of service, a century and a half.
 */
#ifndef PRORATA_VTIME_H
#define PRORATA_VTIME_H

#include "wide.h"

#define DISTANCE_MAX_NS (1LL << 62)

/* whole + part/weight; part < weight, which is kept elsewhere. */
struct vtag {
	u64 whole, part;
};

/* whole + part/total + fraction/2^64; part < total. */
struct vclock {
	u64 whole, part, fraction, total;
	/* What a quantum adds to whole and part. */
	u64 quantum_whole, quantum_part;
};

/* whole + (fraction + rest/total)/2^64 */
struct reading {
	u64 whole, fraction, rest;
};

static __always_inline struct reading read_clock(struct vclock __arena *clock)
{
	u64 total = clock->total ? clock->total : 1, rest, quotient, fraction;

	quotient = divide_part(clock->part, total, &rest);
	fraction = quotient + clock->fraction;
	return (struct reading) {
		.whole = clock->whole + carry_of(quotient, clock->fraction, fraction),
		.fraction = fraction,
		.rest = rest,
	};
}

static __always_inline void set_total(struct vclock __arena *clock, u64 total)
{
	struct reading now = read_clock(clock);
	u64 divisor = total ? total : 1;

	clock->whole = now.whole;
	clock->part = 0;
	clock->fraction = now.fraction;
	clock->total = total;
	clock->quantum_whole = quantum_ns() / divisor;
	clock->quantum_part = quantum_ns() % divisor;
}

static __always_inline void advance_clock(struct vclock __arena *clock, u64 whole, u64 part)
{
	u64 carry;

	part += clock->part;
	carry = 1 ^ is_below(part, clock->total);
	clock->part = part - (clock->total & -carry);
	clock->whole += whole + carry;
}

/* True if a tag of this weight is earlier than the clock will be after a quantum. */
static __always_inline bool passes_tag(struct vclock __arena *clock, struct vtag __arena *tag,
				       u32 weight)
{
	u64 part = clock->part + clock->quantum_part, total = clock->total;
	u64 carry = 1 ^ is_below(part, total), whole = clock->whole + clock->quantum_whole + carry;
	u64 quotient, fraction, rest, tag_fraction, tag_rest;

	part -= total & -carry;
	if (!clock->fraction) {
		if (tag->whole != whole)
			return tag->whole < whole;
		return tag->part * total < part * weight;
	}
	quotient = divide_part(part, total, &rest);
	fraction = quotient + clock->fraction;
	whole += carry_of(quotient, clock->fraction, fraction);
	if (tag->whole != whole)
		return tag->whole < whole;
	tag_fraction = divide_part(tag->part, weight, &tag_rest);
	if (tag_fraction != fraction)
		return tag_fraction < fraction;
	return tag_rest * total < rest * weight;
}

/* The clock as a tag of this weight, rounded up. */
static __always_inline struct vtag clock_tag(struct vclock __arena *clock, u32 weight)
{
	struct reading now = read_clock(clock);
	u64 part = mul_high(now.fraction, weight);
	u64 carry;

	part += (now.fraction * weight | now.rest) != 0;
	carry = part == weight;
	return (struct vtag) { .whole = now.whole + carry, .part = carry ? 0 : part };
}

static __always_inline void move_tag(struct vtag __arena *tag, u32 weight, u64 used_ns)
{
	u64 part = tag->part + used_ns % weight;
	u64 carry = 1 ^ is_below(part, weight);

	tag->part = part - (weight & -carry);
	tag->whole += used_ns / weight + carry;
}

/* The tag of a task whose weight changes: its distance from the clock stays, as service. */
static __always_inline void reweigh_tag(struct vclock __arena *clock, struct vtag __arena *tag,
					u32 old_weight, u32 weight)
{
	struct vtag before = clock_tag(clock, old_weight), after = clock_tag(clock, weight);
	s64 distance = tag->whole - before.whole, ahead_ns, whole;
	s64 furthest = (u64)DISTANCE_MAX_NS / old_weight;
	u64 sign, rest;

	if (distance > furthest)
		distance = furthest;
	if (distance < -furthest)
		distance = -furthest;
	ahead_ns = distance * (s64)old_weight + (s64)tag->part - (s64)before.part;
	/* Rounded down: floor(n / d) = ~floor(~n / d) for n < 0. */
	sign = ahead_ns >> 63;
	rest = ((u64)ahead_ns ^ sign) % weight;
	whole = (s64)((((u64)ahead_ns ^ sign) / weight) ^ sign);
	rest = (sign ? weight - 1 - rest : rest) + after.part;
	if (rest >= weight) {
		rest -= weight;
		whole++;
	}
	whole += after.whole;
	tag->whole = whole < 0 ? 0 : whole;
	tag->part = whole < 0 ? 0 : rest;
}

#endif

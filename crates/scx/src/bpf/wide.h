/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Numbers of 128 bits, which BPF has no instructions for.
 *
 * Nothing here branches: the verifier would follow both sides of every carry. The carry of
 * sum = a + b is the top bit of (a & b) | ((a | b) & ~sum): of two top bits that are set, or of one
 * that the sum has lost.
 */
#ifndef PRORATA_WIDE_H
#define PRORATA_WIDE_H

/* A signed number, two's complement. */
struct s128 {
	u64 low;
	s64 high;
};

static __always_inline u64 carry_of(u64 a, u64 b, u64 sum)
{
	return ((a & b) | ((a | b) & ~sum)) >> 63;
}

/* 1 if a < b, else 0. */
static __always_inline u64 is_below(u64 a, u64 b)
{
	return ((~a & b) | ((~a | b) & (a - b))) >> 63;
}

static __always_inline void wide_add(struct s128 __arena *to, u64 n)
{
	u64 low = to->low, sum = low + n;

	to->high += carry_of(low, n, sum);
	to->low = sum;
}

static __always_inline void wide_sub(struct s128 __arena *from, u64 n)
{
	u64 low = from->low;

	from->high -= is_below(low, n);
	from->low = low - n;
}

static __always_inline bool is_positive(struct s128 __arena *n)
{
	return n->high > 0 || (!n->high && n->low);
}

/* The upper 64 bits of a * b. */
static __always_inline u64 mul_high(u64 a, u64 b)
{
	u64 a_low = a & 0xffffffff, a_high = a >> 32;
	u64 b_low = b & 0xffffffff, b_high = b >> 32;
	u64 low = a_low * b_low;
	u64 middle = a_high * b_low + (low >> 32);
	u64 cross = a_low * b_high + (middle & 0xffffffff);

	return a_high * b_high + (middle >> 32) + (cross >> 32);
}

/* to = a * b - c * d */
static __always_inline void wide_cross(struct s128 __arena *to, u64 a, u64 b, u64 c, u64 d)
{
	u64 plus = a * b, minus = c * d;

	to->low = plus - minus;
	to->high = mul_high(a, b) - mul_high(c, d) - is_below(plus, minus);
}

static __always_inline struct s128 wide(s64 n)
{
	return (struct s128) { .low = n, .high = n >> 63 };
}

/* The lower 128 bits. */
static __always_inline struct s128 wide_times(struct s128 a, u64 b)
{
	u64 high = (u64)a.high * b + mul_high(a.low, b);

	return (struct s128) { .low = a.low * b, .high = high };
}

/* The same for a factor of 32 bits. */
static __always_inline struct s128 wide_times_short(struct s128 a, u32 b)
{
	u64 middle = (a.low >> 32) * b + ((a.low & 0xffffffff) * b >> 32);

	return (struct s128) { .low = a.low * b, .high = (u64)a.high * b + (middle >> 32) };
}

static __always_inline struct s128 wide_load(struct s128 __arena *from)
{
	return (struct s128) { .low = from->low, .high = from->high };
}

static __always_inline void wide_store(struct s128 __arena *to, struct s128 n)
{
	to->low = n.low;
	to->high = n.high;
}

static __always_inline struct s128 wide_plus(struct s128 a, struct s128 b)
{
	u64 low = a.low + b.low;
	u64 high = (u64)a.high + (u64)b.high + carry_of(a.low, b.low, low);

	return (struct s128) { .low = low, .high = high };
}

static __always_inline struct s128 wide_minus(struct s128 a, struct s128 b)
{
	u64 high = (u64)a.high - (u64)b.high - is_below(a.low, b.low);

	return (struct s128) { .low = a.low - b.low, .high = high };
}

static __always_inline u64 magnitude(s64 n)
{
	u64 sign = n >> 63;

	return ((u64)n ^ sign) - sign;
}

/* a * b, signed; either may be a u64 below 2^63 */
static __always_inline struct s128 wide_product(s64 a, s64 b)
{
	u64 sign = (a ^ b) >> 63;
	u64 low = magnitude(a) * magnitude(b), high = mul_high(magnitude(a), magnitude(b));

	low ^= sign;
	high ^= sign;
	/* Two's complement: the inverse plus one. */
	return wide_plus((struct s128) { .low = low, .high = high }, wide(sign & 1));
}

static __always_inline bool wide_is_positive(struct s128 n)
{
	return n.high > 0 || (!n.high && n.low);
}

static __always_inline bool wide_less(struct s128 a, struct s128 b)
{
	return a.high < b.high || (a.high == b.high && a.low < b.low);
}

/* floor(a * b / c), or U64_MAX if that is above it; c is not 0. */
static __always_inline u64 mul_div(u64 a, u64 b, u64 c)
{
	u64 high = mul_high(a, b), low = a * b, quotient = unknown_zero(low);
	u32 bit;

	if (!high)
		return low / c;
	if (high >= c)
		return ~0ULL;
	/* Long division, a bit at a time: rare, since products rarely exceed 64 bits. */
	bpf_for(bit, 0, 64) {
		u64 carry = high >> 63, fits;

		high = high << 1 | low >> 63;
		low <<= 1;
		fits = carry | (1 ^ is_below(high, c));
		high -= c & -fits;
		quotient = quotient << 1 | fits;
	}
	return quotient;
}

/* floor(part * 2^64 / divisor) for part < divisor < 2^35 */
static __always_inline u64 divide_part(u64 part, u64 divisor, u64 *rest)
{
	u64 high, middle, low;

	/* A division takes ten instructions, a product one. */
	if (!(divisor >> 32)) {
		high = (part << 32) / divisor;
		part = (part << 32) - high * divisor;
		low = (part << 32) / divisor;
		*rest = (part << 32) - low * divisor;
		return high << 32 | low;
	}
	high = (part << 29) / divisor;
	part = (part << 29) - high * divisor;
	middle = (part << 29) / divisor;
	part = (part << 29) - middle * divisor;
	low = (part << 6) / divisor;
	*rest = (part << 6) - low * divisor;
	return high << 35 | middle << 6 | low;
}

static const u8 log_of_hash[64] = {
	 0, 47,  1, 56, 48, 27,  2, 60, 57, 49, 41, 37, 28, 16,  3, 61,
	54, 58, 35, 52, 50, 42, 21, 44, 38, 32, 29, 23, 17, 11,  4, 62,
	46, 55, 26, 59, 40, 36, 15, 53, 34, 51, 20, 43, 31, 22, 10, 45,
	25, 39, 14, 33, 19, 30,  9, 24, 13, 18,  8, 12,  7,  6,  5, 63,
};

/* The position of the highest set bit, below which all are set. */
static __always_inline u32 log_of_ones(u64 n)
{
	/* A de Bruijn sequence: each of the 64 possible n has another product in the top 6 bits. */
	return log_of_hash[(n * 0x03f79d71b4cb0a89ULL) >> 58];
}

/* The position of the highest set bit; n is not 0. */
static __always_inline u32 ilog2(u64 n)
{
	n |= n >> 1;
	n |= n >> 2;
	n |= n >> 4;
	n |= n >> 8;
	n |= n >> 16;
	n |= n >> 32;
	return log_of_ones(n);
}

/* The position of the lowest set bit; n is not 0. */
static __always_inline u32 lowest_bit(u64 n)
{
	return log_of_ones(n ^ (n - 1));
}

#endif

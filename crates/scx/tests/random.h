/* SPDX-License-Identifier: GPL-2.0-only */
/* Random numbers that a seed repeats. */
#ifndef PRORATA_TESTS_RANDOM_H
#define PRORATA_TESTS_RANDOM_H

/* splitmix64 */
static inline u64 random_next(u64 *random)
{
	u64 z = *random += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

/* From half of `mean` to one and a half. */
static inline u64 random_about(u64 *random, u64 mean)
{
	return mean / 2 + random_next(random) % (mean + 1);
}

#endif

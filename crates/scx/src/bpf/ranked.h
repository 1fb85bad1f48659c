/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What policies for several cpus keep of weights; what it means is in feasible.h.
 */
#ifndef PRORATA_RANKED_H
#define PRORATA_RANKED_H

/* "Every weight is feasible" as a cap. */
#define CAP_NONE (~0ULL)

struct rank {
	/* Neighbours in the list of runnable tasks by weight. */
	u32 heavier, lighter;
	u32 weight;
};

struct feasible {
	/* The total weight of the runnable tasks. */
	u64 load;
	/* No weight counts for more than cap_feasible / cap_cpus. */
	u64 cap_feasible, cap_cpus;
	u32 count, cpus;
	u32 heaviest;
};

#endif

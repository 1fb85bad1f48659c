/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What policies with start tags keep; what it means is in tags.h.
 */
#ifndef PRORATA_TAGGED_H
#define PRORATA_TAGGED_H

#include "ranked.h"
#include "wide.h"

/* Room for the tasks that one change moves: at most 4P + 2. */
#define TAGS_MOVED (8 * POLICY_CPUS)

/* A point of virtual time: whole + part/of ns per unit of weight; part < of. */
struct instant {
	s64 whole;
	u64 part, of;
};

enum tag_state { TAG_BLOCKED, TAG_WAITING, TAG_RUNNING };

struct tagged {
	/* Tag times weight, in ns. */
	struct s128 service;
	/* It counts for parts/of: its weight, or the cap. While it is blocked, what it was. */
	u64 parts, of;
	u32 state;
};

struct tags {
	/* The sum of the service of the runnable tasks; the mean times all weights is at least floor. */
	struct s128 total, floor;
	/* Results of divide(). */
	struct s128 quotient;
	u64 remainder;
	/* The mean before the change in hand; a task's tag; the mean while nothing is runnable. */
	struct instant now, start, idle;
	/* The tasks whose tag the last change moved, but for one that woke or left. */
	u32 moved_count;
	u32 moved[TAGS_MOVED];
};

#endif

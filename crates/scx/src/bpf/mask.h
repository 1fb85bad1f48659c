/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Masks: the sets of cpus that tasks may run on, numbered; 0 is all cpus. What they are for is told in
 * bound.h and paid.h.
 *
 * Calls no kernel function. The includer defines BOUND, a pointer to struct bound, all memory zero, and
 * BOUND_MEMORY, which declares what it needs.
 */
#ifndef PRORATA_MASK_H
#define PRORATA_MASK_H

enum bound_limits {
	BOUND_MASKS = 64,
	BOUND_WORDS = POLICY_CPUS / 64,
};

enum bound_kind {
	/* Its tasks count for their weights. */
	BOUND_AT_LARGE,
	/* They share cpus that are short. */
	BOUND_SHORT,
	/* There is a cpu for each. */
	BOUND_ALONE,
};

struct bound_task {
	/* What it counts for in the tree if it may run on all cpus; for others, of any number of them. */
	u32 counts, plain;
	/* The number of its mask; 0 is all cpus. */
	u8 mask;
	bool competes;
	/* How often cpus had been filled when its mask changed last. */
	u32 changed_at;
};

struct bound_mask {
	u64 cpus[BOUND_WORDS];
	/* Bit per mask: the masks within it, itself among them. */
	u64 parts;
	/* What its own tasks that compete count for. */
	u64 load;
	/* What each of its cpus is worth, if it is short, and the load then. */
	u64 level, filled_load;
	/* Cpus; those that are not known to be short. */
	u32 count, left;
	/* Tasks that have it (none that sleeps and competes no more), compete, and wait. */
	u32 refs, competing, waiting;
	u8 kind;
};

struct bound {
	/* The mask looked for. */
	u64 wanted[BOUND_WORDS];
	/* While filling: cpus that are short, and bit per mask: whose tasks have found theirs. */
	u64 taken[BOUND_WORDS], gone;
	/* What was found for a mask. */
	u64 level, above;
	u32 tasks;
	/* What a whole cpu counts for in the policy, where any is short; the level of those that are shortest. */
	u64 per_cpu, shortest;
	/* Cpus that nobody may use who is not served already. */
	u32 idle;
	/* Tasks that compete and may not run everywhere. */
	u32 competing;
	/* Something has changed since cpus were filled; how often they were. */
	bool changed;
	u32 fills;
	struct bound_mask masks[BOUND_MASKS];
};

BOUND_MEMORY

#define MASK(k) (&BOUND->masks[(k) & (BOUND_MASKS - 1)])

/* --- masks ----------------------------------------------------------------------------------- */

static __always_inline u32 bits_of(u64 word)
{
	word -= word >> 1 & 0x5555555555555555ULL;
	word = (word & 0x3333333333333333ULL) + (word >> 2 & 0x3333333333333333ULL);
	word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return word * 0x0101010101010101ULL >> 56;
}

static __always_inline bool mask_has(u32 k, u32 cpu)
{
	return MASK(k)->cpus[(cpu / 64) & (BOUND_WORDS - 1)] >> (cpu & 63) & 1;
}

static __always_inline bool is_wanted(u32 k)
{
	u64 other = unknown_zero(BOUND->wanted[0]);
	u32 i;

	bpf_for(i, 0, BOUND_WORDS)
		other |= MASK(k)->cpus[i & (BOUND_WORDS - 1)] ^
			 BOUND->wanted[i & (BOUND_WORDS - 1)];
	return !other;
}

/* True if all cpus of one mask are cpus of another. */
static __always_inline bool is_within(u32 one, u32 other)
{
	u64 outside = unknown_zero(MASK(one)->cpus[0]);
	u32 i;

	bpf_for(i, 0, BOUND_WORDS)
		outside |= MASK(one)->cpus[i & (BOUND_WORDS - 1)] &
			   ~MASK(other)->cpus[i & (BOUND_WORDS - 1)];
	return !outside;
}

/* Makes a free number that of the mask looked for. */
policy_fn u32 bound_begin(u32 k)
{
	struct bound_mask __arena *mask = MASK(k);
	u32 i;

	mask->count = 0;
	mask->kind = BOUND_AT_LARGE;
	bpf_for(i, 0, BOUND_WORDS) {
		mask->cpus[i & (BOUND_WORDS - 1)] = BOUND->wanted[i & (BOUND_WORDS - 1)];
		mask->count += bits_of(BOUND->wanted[i & (BOUND_WORDS - 1)]);
	}
	mask->parts = 0;
	bpf_for(i, 0, BOUND_MASKS) {
		u64 other = 1ULL << i, own = 1ULL << (k & 63);

		if (is_within(i, k))
			mask->parts |= other;
		if (is_within(k, i))
			MASK(i)->parts |= own;
		else
			MASK(i)->parts &= ~own;
	}
	return 0;
}

/*
 * The number of the mask looked for; 0 if there is none for it. One that no task has stays the mask's until
 * it is needed for another: who had it may wake.
 */
policy_fn u32 bound_find(void)
{
	u32 spare = unknown_zero(BOUND->wanted[0]), i;

	bpf_for(i, 0, BOUND_MASKS) {
		if (is_wanted(i))
			return i;
		/* Those that never were a mask's first. */
		if (!MASK(i)->refs && (!spare || (MASK(spare)->count && !MASK(i)->count)))
			spare = i;
	}
	if (spare)
		bound_begin(spare);
	return spare;
}

/* Mask 0 is the one looked for: all cpus. */
static __always_inline void bound_init(void)
{
	MASK(0)->refs = 1;
	bound_begin(0);
}

/* True if a task is due a whole cpu, where some are short. */
static __always_inline bool bound_fills_cpu(const struct bound_task __arena *task)
{
	const struct bound_mask __arena *mask = MASK(task->mask);

	if (mask->kind == BOUND_SHORT)
		return task->plain >= mask->level;
	return mask->kind == BOUND_ALONE || (BOUND->gone && task->counts >= BOUND->per_cpu);
}

/* True unless a cpu is short, and has tasks to serve before those of a mask. */
policy_fn u32 bound_is_spared(u32 mask, u32 cpu)
{
	u32 k;

	if (MASK(mask)->kind == BOUND_SHORT ||
	    !(BOUND->taken[(cpu / 64) & (BOUND_WORDS - 1)] >> (cpu & 63) & 1))
		return true;
	bpf_for(k, 1, BOUND_MASKS) {
		if (MASK(k)->kind == BOUND_SHORT && MASK(k)->waiting && mask_has(k, cpu))
			return false;
	}
	return true;
}

/*
 * True if a task of some mask may run on a cpu, and should: one that is short serves its own tasks first,
 * or a policy that keeps a task for the cpu where it ran might keep it there.
 */
static __always_inline bool bound_belongs(u32 mask, u32 cpu)
{
	return mask_has(mask, cpu) && (!BOUND->gone || bound_is_spared(mask, cpu));
}

/* True if somebody waits who may run on a cpu. */
policy_fn u32 bound_waits_for(u32 cpu)
{
	bool waits = MASK(0)->waiting;
	u32 k;

	if (waits)
		return true;
	bpf_for(k, 1, BOUND_MASKS) {
		if (MASK(k)->waiting && mask_has(k, cpu))
			return true;
	}
	return false;
}

#endif

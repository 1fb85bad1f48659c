/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Binary heaps of tasks that find any of them (crates/core/src/queue/heap.rs): O(log N) to put a task in, to
 * take it out wherever it is, and to move one whose key has changed. Worked example, numbers for keys:
 *
 *   2 5 3 9      take out 2: the last, 9, is to go to its place; 3, the lesser of those below, goes before
 *   3 5 9        insert 4: its place is the fourth, and 5 above it comes later, so they change places
 *   3 4 9 5
 *
 * There is no guard: it is included once for each family of heaps, after the definitions of
 *
 *   HEAP(verb)               what the functions are called, as #define HEAP(verb) queue_##verb
 *   HEAPS                    how many heaps there are
 *   HEAP_OF(heap)            one of them, a struct heap
 *   HEAP_PLACE(heap, id)     where a task keeps its place in it, plus one; 0 if it is not in
 *   HEAP_BEFORE(heap, a, b)  true if task a comes before task b; equal keys by number
 */

static __always_inline u32 HEAP(first)(u32 heap)
{
	return HEAP_OF(heap)->count ? HEAP_OF(heap)->task[0] : NIL;
}

static __always_inline void HEAP(put)(u32 heap, u32 at, u32 id)
{
	HEAP_OF(heap)->task[at & (POLICY_TASKS - 1)] = id;
	HEAP_PLACE(heap, id) = at + 1;
}

static __always_inline u32 HEAP(at)(u32 heap, u32 at)
{
	return HEAP_OF(heap)->task[at & (POLICY_TASKS - 1)];
}

/* The first of the two places below a place; they may be beyond the end. */
static __always_inline u32 HEAP(first_below)(u32 heap, u32 at)
{
	u32 left = 2 * at + 1, right = left + 1;
	bool is_right = right < HEAP_OF(heap)->count &&
			HEAP_BEFORE(heap, HEAP(at)(heap, right), HEAP(at)(heap, left));

	return left + is_right;
}

/* True if a task belongs above the place that is free. */
static __always_inline bool HEAP(rises)(u32 heap, u32 id)
{
	u32 at = HEAP_OF(heap)->at;

	return at && HEAP_BEFORE(heap, id, HEAP(at)(heap, (at - 1) / 2));
}

/*
 * Puts a task where it belongs; the place is free, and its neighbours are in order. (The place is kept in
 * memory: the verifier would follow a variable through every level.)
 */
policy_fn u32 HEAP(settle)(u32 heap, u32 place, u32 id)
{
	u32 i;

	if (heap >= HEAPS)
		return 0;
	HEAP_OF(heap)->at = place;
	if (HEAP(rises)(heap, id)) {
		bpf_for(i, 0, HEAP_LEVELS) {
			u32 at = HEAP_OF(heap)->at;

			if (!HEAP(rises)(heap, id))
				break;
			HEAP(put)(heap, at, HEAP(at)(heap, (at - 1) / 2));
			HEAP_OF(heap)->at = (at - 1) / 2;
		}
	} else if (2 * place + 1 < HEAP_OF(heap)->count) {
		bpf_for(i, 0, HEAP_LEVELS) {
			u32 at = HEAP_OF(heap)->at, below = HEAP(first_below)(heap, at);

			if (below >= HEAP_OF(heap)->count ||
			    !HEAP_BEFORE(heap, HEAP(at)(heap, below), id))
				break;
			HEAP(put)(heap, at, HEAP(at)(heap, below));
			HEAP_OF(heap)->at = below;
		}
	}
	HEAP(put)(heap, HEAP_OF(heap)->at, id);
	return 0;
}

static __always_inline void HEAP(insert)(u32 heap, u32 id)
{
	u32 place = HEAP_OF(heap)->count++;

	/* The first has no neighbours. */
	if (place)
		HEAP(settle)(heap, place, id);
	else
		HEAP(put)(heap, 0, id);
}

/* Takes a task out, if it is in. */
static __always_inline void HEAP(remove)(u32 heap, u32 id)
{
	u32 place = HEAP_PLACE(heap, id), last;

	if (!place)
		return;
	HEAP_PLACE(heap, id) = 0;
	last = HEAP(at)(heap, --HEAP_OF(heap)->count);
	if (last != id)
		HEAP(settle)(heap, place - 1, last);
}

#undef HEAP
#undef HEAPS
#undef HEAP_OF
#undef HEAP_PLACE
#undef HEAP_BEFORE

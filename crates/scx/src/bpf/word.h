/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Words that several cpus touch at a time, and how long one waits for another.
 */
#ifndef PRORATA_WORD_H
#define PRORATA_WORD_H

#ifdef __bpf__
#define word_look(word) READ_ONCE(*(word))
#define word_put(word, value) WRITE_ONCE(*(word), value)
#define relax()
#else
#define relax() sched_yield()
#define barrier_var(variable)
#define word_look(word) __atomic_load_n(word, __ATOMIC_RELAXED)
#define word_put(word, value) __atomic_store_n(word, value, __ATOMIC_RELAXED)
#endif

/* Full barriers. All return the old value, but `word_replace` returns whether it was `old`. */
#define word_exchange(word, value) __atomic_exchange_n(word, value, __ATOMIC_SEQ_CST)
#define word_set(word, bits) __atomic_fetch_or(word, bits, __ATOMIC_SEQ_CST)
#define word_add(word, value) __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST)
#define word_replace(word, old, value) ({ \
	u32 __seen = __sync_val_compare_and_swap(word, old, value); \
	/* Compared by one jump: without this clang makes a boolean first. */ \
	barrier_var(__seen); \
	__seen == (old); \
})

/* Turns in which the lock must come free: about a minute. The verifier wants loops to end. */
#define LOCK_ROUNDS 256
#define LOCK_SPINS (1 << 20)

#endif

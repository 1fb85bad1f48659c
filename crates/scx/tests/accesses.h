/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which cache lines a program touches, of the memory that it owns up to be watched.
 *
 * What is compiled with -fsanitize=thread calls accesses.c for each load and store, in place of the
 * sanitizer's own library. With -DTRACED it writes numbers of 32 bits to stdout, in the machine's order:
 *
 *   line << 2 | 0    a load          line << 2 | 1    a store, or an atomic operation
 *   n << 8 | what << 2 | 2           a note
 *
 * A line that is touched several times in a row is told once. On stderr it writes "line FIRST NAME" where
 * lines have names. Without -DTRACED all of this does nothing.
 */
#ifndef ACCESSES_H
#define ACCESSES_H

#include <stddef.h>
#include <stdint.h>

enum note {
	/* Cpu n acts from now on. */
	NOTE_CPU,
	NOTE_LOCK,
	NOTE_UNLOCK,
	/* A cpu asks for a task. */
	NOTE_DECISION,
	/* What was before does not count. */
	NOTE_COUNT,
};

void note(enum note what, uint32_t n);

/* Memory that is watched: its lines follow those of what was watched before. */
void watch(const void *from, size_t bytes);

/* Lines from this address on are called so, up to the next that have a name. */
void name_lines(const char *name, const void *from);

#endif

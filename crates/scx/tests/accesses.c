/* SPDX-License-Identifier: GPL-2.0-only */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accesses.h"

#define LINE 64
#define RANGES 4

enum { LOAD, STORE, NOTE };

static struct range {
	uintptr_t from;
	size_t bytes;
	uint32_t first;
} ranges[RANGES];
static uint32_t watched, next_line;
/* What was touched last, since the last note. */
static uint32_t last;

static void put(uint32_t number)
{
#ifdef TRACED
	fwrite_unlocked(&number, sizeof(number), 1, stdout);
#else
	(void)number;
#endif
}

void note(enum note what, uint32_t n)
{
	last = n << 8 | what << 2 | NOTE;
	put(last);
}

void watch(const void *from, size_t bytes)
{
	if (watched == RANGES || (uintptr_t)from % LINE)
		abort();
	ranges[watched++] = (struct range){ (uintptr_t)from, bytes, next_line };
	next_line += (bytes + LINE - 1) / LINE;
}

static const struct range *range_of(uintptr_t address)
{
	uint32_t i;

	for (i = 0; i < watched; i++) {
		if (address - ranges[i].from < ranges[i].bytes)
			return &ranges[i];
	}
	return NULL;
}

/* The same line again changes nothing in any cache, unless it is stored to for the first time. */
static void touch_line(uint32_t line, uint32_t kind)
{
	if (last == (line << 2 | STORE) || last == (line << 2 | kind))
		return;
	last = line << 2 | kind;
	put(last);
}

static void touch(const void *address, size_t bytes, uint32_t kind)
{
	uintptr_t first = (uintptr_t)address, at;
	const struct range *range = range_of(first);

	if (!range)
		return;
	for (at = first / LINE; at <= (first + bytes - 1) / LINE; at++)
		touch_line(range->first + at - range->from / LINE, kind);
}

void name_lines(const char *name, const void *from)
{
	const struct range *range = range_of((uintptr_t)from);

	if (!range)
		abort();
#ifdef TRACED
	fprintf(stderr, "line %u %s\n",
		(uint32_t)(range->first + ((uintptr_t)from - range->from) / LINE), name);
#else
	(void)name;
#endif
}

/* --- what the compiler calls ------------------------------------------------------------------- */

void __tsan_init(void) {}
void __tsan_func_entry(void *caller) { (void)caller; }
void __tsan_func_exit(void) {}
void __tsan_read_range(void *address, size_t bytes) { touch(address, bytes, LOAD); }
void __tsan_write_range(void *address, size_t bytes) { touch(address, bytes, STORE); }

void *__tsan_memset(void *to, int value, size_t bytes)
{
	touch(to, bytes, STORE);
	return memset(to, value, bytes);
}

void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
	touch(from, bytes, LOAD);
	touch(to, bytes, STORE);
	return memcpy(to, from, bytes);
}

void *__tsan_memmove(void *to, const void *from, size_t bytes)
{
	touch(from, bytes, LOAD);
	touch(to, bytes, STORE);
	return memmove(to, from, bytes);
}

#define ACCESS(bytes) \
	void __tsan_read##bytes(void *address) { touch(address, bytes, LOAD); } \
	void __tsan_write##bytes(void *address) { touch(address, bytes, STORE); } \
	void __tsan_unaligned_read##bytes(void *address) { touch(address, bytes, LOAD); } \
	void __tsan_unaligned_write##bytes(void *address) { touch(address, bytes, STORE); }

ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

#define ATOMIC(bits, type) \
	type __tsan_atomic##bits##_load(type *word, int order) \
	{ \
		(void)order; \
		touch(word, sizeof(type), LOAD); \
		return *word; \
	} \
	void __tsan_atomic##bits##_store(type *word, type value, int order) \
	{ \
		(void)order; \
		touch(word, sizeof(type), STORE); \
		*word = value; \
	} \
	type __tsan_atomic##bits##_exchange(type *word, type value, int order) \
	{ \
		type old = *word; \
		(void)order; \
		touch(word, sizeof(type), STORE); \
		*word = value; \
		return old; \
	} \
	type __tsan_atomic##bits##_fetch_add(type *word, type value, int order) \
	{ \
		type old = *word; \
		(void)order; \
		touch(word, sizeof(type), STORE); \
		*word += value; \
		return old; \
	} \
	type __tsan_atomic##bits##_fetch_or(type *word, type value, int order) \
	{ \
		type old = *word; \
		(void)order; \
		touch(word, sizeof(type), STORE); \
		*word |= value; \
		return old; \
	} \
	type __tsan_atomic##bits##_compare_exchange_val(type *word, type old, type value, int order, \
							int failed) \
	{ \
		type seen = *word; \
		(void)order; \
		(void)failed; \
		touch(word, sizeof(type), STORE); \
		if (seen == old) \
			*word = value; \
		return seen; \
	} \
	bool __tsan_atomic##bits##_compare_exchange_strong(type *word, type *old, type value, \
							   int order, int failed) \
	{ \
		type wanted = *old; \
		*old = __tsan_atomic##bits##_compare_exchange_val(word, wanted, value, order, failed); \
		return *old == wanted; \
	}

ATOMIC(8, uint8_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

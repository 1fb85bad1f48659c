/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory that begins anew.
 */
#ifndef PRORATA_ZERO_H
#define PRORATA_ZERO_H

#ifdef __bpf__
/* Loops, since a memset would lose the address space; a round of one costs as much as ten words. */
global_fn u32 zero_out(void __arena *memory __arg_arena, u32 bytes)
{
	u64 __arena *words = memory;
	u32 i;

	bpf_for(i, 0, bytes / 64) {
		u64 __arena *line = &words[8 * i];

		line[0] = line[1] = line[2] = line[3] = line[4] = line[5] = line[6] = line[7] = 0;
	}
	bpf_for(i, bytes / 64 * 8, (bytes + 7) / 8)
		words[i] = 0;
	return 0;
}
#else
#include <string.h>
#define zero_out(memory, bytes) memset(memory, 0, bytes)
#endif

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory that begins anew.
 */
#ifndef PRORATA_ZERO_H
#define PRORATA_ZERO_H

#ifdef __bpf__
/* A loop, since a memset would lose the address space. */
global_fn u32 zero_out(void __arena *memory __arg_arena, u32 bytes)
{
	u64 __arena *words = memory;
	u32 i;

	bpf_for(i, 0, (bytes + 7) / 8)
		words[i] = 0;
	return 0;
}
#else
#include <string.h>
#define zero_out(memory, bytes) memset(memory, 0, bytes)
#endif

#endif

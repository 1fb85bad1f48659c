/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a load of the scheduler begins with: maps, what the loader chooses, and what it is told.
 */
#ifndef PRORATA_LOAD_H
#define PRORATA_LOAD_H

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1 << 14);
	__ulong(map_extra, 1ULL << 44);
} arena SEC(".maps");

struct task_ref {
	struct task_struct __kptr *task;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_TASKS);
	__type(key, u32);
	__type(value, struct task_ref);
} task_refs SEC(".maps");

/* A function that is verified once, whatever calls it: its arguments are numbers. */
#define global_fn __noinline

/*
 * The verifier lets a program use the arena only if it mentions it. Every callback does so, here or
 * in begin().
 */
#define use_arena() asm volatile("" :: "r"(&arena))

/* A picked task that has not come for so long is given back. */
#define LOST_NS 50000000ULL

/* For the loader: where they are in its memory. */
u64 shared_address, counts_address, events_address, slots_address, tree_address, desks_address;
/* The process that loaded us, as the first pid namespace numbers it: the loader may be in another. */
s32 loader;
/* With how many cpus the policy began; and some have come or gone since: it is to begin anew (reopen.h). */
u32 cpus_at_first, is_outdated;

/* One quantum, in ns. */
const volatile u64 quantum = 5000000;
/* A task that waits longer is run out of turn. */
const volatile u64 rescue_ns = 10000000000ULL;
const volatile u32 policy_options[POLICY_OPTIONS];
const volatile bool recording;
/* Slots for tasks. */
const volatile u32 max_tasks = CROWD;
/* What becomes of tasks that sleep: enum sleepers. */
const volatile u32 sleepers = SLEEPERS_TURNS;
/* Cpus that could be plugged in: a task that is bound to none of them is allowed on so many. */
const volatile u32 cpus_possible = 1;
/* The numbers of all cpus that may ever come are below; those of cpus online, below MAX_CPUS. */
const volatile u32 cpus_end = 1;
/* Sets of cpus that share their last cache (domains.h). */
const volatile u32 domains = 1;
/* Tasks have their turns in the domain where they ran last, if that can be. */
const volatile bool stays_near = true;
const volatile u8 domain_of_cpu[MAX_CPUS];
const volatile u16 cpus_of_domain[MAX_DOMAINS];
const volatile u64 domain_cpus[MAX_DOMAINS][MAX_CPUS / 64];
/* Some cores have several cpus (siblings.h): the first cpu of each cpu's, and by first cpu how many. */
const volatile bool smt;
const volatile u16 core_of_cpu[MAX_CPUS];
const volatile u16 cpus_of_core[MAX_CPUS];

static u32 policy_option(u32 index)
{
	return policy_options[index];
}

static u32 pages_of(u64 bytes)
{
	return (bytes + 4095) / 4096;
}

/* So many of what a pointer points to, all zero. True if there is no memory for them. */
#define NEW(pointer, count) ({ \
	(pointer) = bpf_arena_alloc_pages(&arena, NULL, pages_of(sizeof(*(pointer)) * (count)), \
					  NUMA_NO_NODE, 0); \
	!(pointer); \
})

#endif

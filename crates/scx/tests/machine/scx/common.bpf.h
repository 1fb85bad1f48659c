/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * As much of the kernel as scx_prorata's callbacks call, for a machine that is simulated in one process
 * (scaling.c, cpus.c): what stands here are declarations and what does nothing; the machine defines the rest.
 *
 * There are no cgroups but the root. Only with -DMACHINE_HAS_MASKS tasks are bound to cpus, these come and
 * go, and timers fire, if the machine has them do so; only with -DMACHINE_HAS_QUEUES the callbacks have
 * queues.
 */
#ifndef MACHINE_COMMON_BPF_H
#define MACHINE_COMMON_BPF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The types come from policy.h. */
#define __VMLINUX_H__
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;

/* --- the language of BPF programs -------------------------------------------------------------- */

#define SEC(name)
#define __uint(name, value) char (*name)[value]
#define __ulong(name, value) char name
#define __type(name, type) __typeof__(type) *name
#define __kptr
#define __arg_nonnull
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#define __noinline __attribute__((noinline))
#define preserve_access_index
#define BPF_STRUCT_OPS(name, ...) name(__VA_ARGS__)
#define BPF_STRUCT_OPS_SLEEPABLE(name, ...) name(__VA_ARGS__)
#define BPF_PROG(name, ...) name(__VA_ARGS__)
#define SCX_OPS_DEFINE(name, ...) extern int name
#define UEI_DEFINE(name) extern int name
#define UEI_RECORD(name, info) ((void)(info))

/* Everything that differs between kernels is missing in this one. */
#define BPF_CORE_READ(...) 0
#define bpf_core_field_exists(...) 0
#define bpf_core_field_offset(...) 0
#define bpf_core_enum_value(...) 0
#define bpf_core_read(...) ((void)0)
#ifdef MACHINE_HAS_MASKS
#define bpf_probe_read_kernel(to, bytes, from) memcpy(to, from, bytes)
#else
#define bpf_probe_read_kernel(...) ((void)0)
#endif

/* --- the kernel's structures, as far as we look at them ---------------------------------------- */

struct cgroup;
struct cpumask;

#ifdef MACHINE_HAS_MASKS
struct cpumask {
	u64 words[8];
};
#endif

struct task_struct {
	s32 pid, tgid;
	u32 flags, policy, __state;
	s32 static_prio;
	s32 nr_cpus_allowed;
	u16 migration_disabled;
	s32 rcu_read_lock_nesting;
	struct {
		u64 sum_exec_runtime, exec_start;
	} se;
	struct {
		u32 flags;
		u64 dsq_vtime, slice;
	} scx;
	const struct cpumask *cpus_ptr;
#ifdef MACHINE_HAS_MASKS
	struct cpumask cpus_mask;
#endif
	/* What a map keeps with the task. */
	u64 storage;
	/* The machine's: where it is, what it computes at a time and how long it sleeps then. */
	u32 cpu;
	u64 burst_ns, sleep_ns, left_ns;
};

struct scx_init_task_args {
	bool fork;
	struct cgroup *cgroup;
};

struct scx_exit_task_args {
	bool cancelled;
};

struct scx_cgroup_init_args {
	u32 weight;
};

struct scx_exit_info;

struct bpf_timer {
	/* 0 if it is not set. */
	u64 fires_ns;
};

enum {
	PF_EXITING = 0x4,
	PF_KTHREAD = 0x00200000,
	EPERM = 1,
	ESRCH = 3,
	ENOMEM = 12,
	EACCES = 13,
	EBUSY = 16,
	CLOCK_OF_TIMERS = 1,
	NUMA_NO_NODE = -1,
	BPF_ANY = 0,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	/* Lengths of arrays in map definitions: not 0. */
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
	BPF_MAP_TYPE_ARENA = 33,
	BPF_F_NO_PREALLOC = 1,
	BPF_F_MMAPABLE = 1024,
};
#define CLOCK_MONOTONIC CLOCK_OF_TIMERS

#define SCX_TASK_QUEUED 1u
#define SCX_DEQ_SLEEP 1ULL
#define SCX_ENQ_WAKEUP 1ULL
#define SCX_ENQ_LAST (1ULL << 41)
#define SCX_ENQ_HEAD (1ULL << 4)
#define SCX_ENQ_PREEMPT (1ULL << 32)
#define SCX_ENQ_REENQ (1ULL << 40)
#define SCX_KICK_IDLE 1ULL
#define SCX_KICK_PREEMPT 2ULL
#define SCX_SLICE_DFL 20000000ULL
#define SCX_DSQ_GLOBAL (1ULL << 63 | 1)
#define SCX_DSQ_LOCAL (1ULL << 63 | 2)
#define SCX_DSQ_LOCAL_ON (1ULL << 63 | 1ULL << 62)

static const bool __scx_prolog_disables_migration;

/* --- what the machine defines ------------------------------------------------------------------ */

u32 this_cpu(void);
u64 scx_bpf_now(void);
struct task_struct *bpf_get_current_task_btf(void);
s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle);
void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq, u64 slice_ns, u64 flags);
void scx_bpf_kick_cpu(s32 cpu, u64 flags);
#ifdef MACHINE_HAS_QUEUES
u32 scx_bpf_dsq_nr_queued(u64 dsq);
bool scx_bpf_dsq_move_to_local(u64 dsq, u64 flags);
#endif
#ifdef MACHINE_HAS_MASKS
void scx_bpf_dispatch_cancel(void);
struct cpumask *scx_bpf_get_online_cpumask(void);
bool bpf_cpumask_subset(const struct cpumask *part, const struct cpumask *whole);
bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask);
/* True if a cpu that is online is about to go. */
bool machine_is_going(u32 cpu);
void machine_set_timer(struct bpf_timer *timer, u64 in_ns);
#endif
void machine_broken(const char *why, ...);
/* Memory of maps and arenas: zero, and the same for the same map. */
void *machine_pages(u64 pages);
void *machine_map(void *map, u64 entries, u64 bytes, u64 key);

/* --- what needs no machine --------------------------------------------------------------------- */

#define bpf_get_smp_processor_id() this_cpu()
#define bpf_ktime_get_ns() scx_bpf_now()
#define scx_clock_task(cpu) ((void)(cpu), scx_bpf_now())
#define scx_bpf_error(...) machine_broken(__VA_ARGS__)
#define scx_bpf_task_cpu(p) ((s32)(p)->cpu)
#define scx_bpf_task_set_slice(p, ns) ((void)((p)->scx.slice = (ns)))
#define scx_bpf_task_set_dsq_vtime(p, vtime) ((void)((p)->scx.dsq_vtime = (vtime)))
#define scx_bpf_create_dsq(dsq, node) ((void)(dsq), 0)
#ifndef MACHINE_HAS_QUEUES
/* Queues beside those of cpus stay empty: every task has a slot. */
#define scx_bpf_dsq_nr_queued(dsq) ((void)(dsq), 0)
#define scx_bpf_dsq_move_to_local(dsq, flags) ((void)(dsq), false)
#endif
#define scx_bpf_put_cpumask(mask) ((void)(mask))
#ifndef MACHINE_HAS_MASKS
#define scx_bpf_dispatch_cancel() machine_broken("no task is bound to cpus")
#define scx_bpf_get_online_cpumask() NULL
#define machine_is_going(cpu) ((void)(cpu), false)
#define machine_set_timer(timer, in_ns) ((void)(timer))
#define bpf_cpumask_subset(part, whole) ((void)(part), (void)(whole), true)
#define bpf_cpumask_test_cpu(cpu, mask) ((void)(cpu), (void)(mask), true)
#endif
#define bpf_task_acquire(p) (p)
#define bpf_task_release(p) ((void)(p))
#define bpf_task_from_vpid(pid) ((void)(pid), (struct task_struct *)NULL)
#define bpf_kptr_xchg(place, value) ({ \
	__typeof__(*(place)) __old = *(place); \
	*(place) = (value); \
	__old; \
})
#define bpf_local_irq_save(flags) ((void)(flags))
#define bpf_local_irq_restore(flags) ((void)(flags))
#define bpf_rcu_read_lock()
#define bpf_rcu_read_unlock()
#define bpf_timer_init(timer, map, clock) ((void)(timer))
#define bpf_timer_set_callback(timer, callback) ((void)(callback))
#define bpf_timer_start(timer, ns, flags) machine_set_timer(timer, ns)
#define bpf_arena_alloc_pages(arena, address, pages, node, flags) machine_pages(pages)
#define bpf_task_storage_get(map, p, value, flags) ((void *)&(p)->storage)
#define bpf_map_lookup_elem(map, key) \
	machine_map(map, sizeof(*(map)->max_entries), sizeof(*(map)->value), *(key))
#define bpf_map_update_elem(map, key, value, flags) ((void)(value), 0)
#define bpf_map_delete_elem(map, key) ((void)(key))

#endif

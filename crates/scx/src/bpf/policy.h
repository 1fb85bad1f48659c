/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The contract between the framework and a policy.
 *
 * A policy is one header, policies/NAME.h, chosen when the object is compiled. It decides which
 * task runs next on a cpu, and nothing else: it reads no clock, calls no BPF helper and no kernel
 * function, and never sees a task_struct. Tasks are small dense numbers. All calls come from the
 * framework with the one lock of the scheduler held, so that a policy needs no locking (policies whose
 * queues have locks of their own are called without: see policies/gdq_distributed.h).
 *
 * The same file compiles natively, where tests compare it decision by decision with the policy of
 * the same name in the core library (tests/equals_core.rs).
 *
 * What a policy defines
 * =====================
 *
 *   struct policy_task   what it keeps of a task; TASK(id) gives it
 *   struct policy_state  everything else; STATE gives it; its first member is
 *                        `struct policy_counts counts`
 *   POLICY_MEMORY        this word, on a line of its own after the two structs
 *   POLICY_CREDIT_QUANTA, POLICY_PAYS_WHOLE   how its turns are paid (turns.h)
 *   POLICY_KEEPS_CPUS    1 if tasks have cpus of their own in it: it is not for others to keep them there
 *
 *   policy_fn u32 policy_init(u32 cpus)              once, all memory zero
 *   policy_fn u32 policy_add(u32 task, u32 weight)   known from now on, blocked
 *   policy_fn u32 policy_remove(u32 task)            blocked or waiting; may be added again
 *   policy_fn u32 policy_set_weight(u32 task, u32 weight)  any state; a running one keeps its cpu
 *   policy_fn u32 policy_wake(u32 task)              blocked -> waiting
 *   policy_fn u32 policy_block(u32 task)             waiting -> blocked
 *   policy_fn u32 policy_pick(u32 cpu)               waiting -> running: the task; NIL to idle
 *   policy_fn u32 policy_charge(u32 task, u64 used_ns)  running -> waiting
 *
 * All but policy_pick return 0.
 *
 * The states and the legal sequences are those of the trait `Policy` (crates/core/src/policy.rs);
 * every function does what its namesake there does, decision for decision. The framework adds:
 *
 *   - A task whose quantum ends is charged and its cpu picks at once, within one locked section.
 *   - charge never tells more than a quantum. What a task really used is in the framework's ledger
 *     (ledger.h), which lengthens or shortens its next runs.
 *   - What is waiting, running or blocked for the policy is a task's turn, not always the task: one
 *     that sleeps waits for the turns that it will use later (turns.h).
 *   - A task that has to run outside the policy for a quantum (bound to other cpus than the one
 *     that picked it) is charged, blocked, and woken when the quantum is over; one that is rescued is not
 *     charged.
 *
 * `now_ns()` is the time of the event being handled; `quantum_ns()` the length of a quantum;
 * `policy_option(i)` what the user chose, in the order of src/policies.rs.
 *
 * What a policy must keep to, so that the verifier accepts it
 * ===========================================================
 *
 *   - Every loop is a bpf_for with a constant or clearly bounded end; no while, no recursion.
 *   - A loop that changes a local variable in each turn starts it from unknown_zero. One that ends
 *     when a variable has come down or up to a bound keeps it in STATE.
 *   - Arithmetic that would branch on every bit or carry is written without branches (wide.h).
 *   - A function with a loop that is called from several places is a policy_fn: it takes numbers
 *     and returns a u32, and is verified once, whatever calls it. Others are static.
 *   - Calls nest at most four deep below the contract's functions (the kernel allows eight in all);
 *     mark small functions __always_inline.
 *   - Pointers into TASK and STATE carry __arena. Local variables must not be addressed (&x).
 *   - Members are copied one by one: a copied struct becomes a memcpy, which loses the address
 *     space.
 *
 * A new policy: policies/NAME.h, NAME in build.rs, two lines in src/policies.rs.
 */
#ifndef PRORATA_POLICY_H
#define PRORATA_POLICY_H

/* No task, no cpu. */
#define NIL 0xffffffffu
/* Cpus that a policy must be able to serve. */
#define POLICY_CPUS 512
/* Numbers of tasks are below this. */
#define POLICY_TASKS 32768
/* Weights are below 2 to this, and those of all runnable tasks together below 2^35. */
#define POLICY_WEIGHT_ORDER 27
#define POLICY_WEIGHT_MAX ((1u << POLICY_WEIGHT_ORDER) - 1)

enum policy_limits {
	/* Options that a policy can have. */
	POLICY_OPTIONS = 2,
};

struct policy_task;
struct policy_state;

#ifdef __bpf__
/* bpf_for, __arena and the types come from the framework's headers. */
#define policy_fn __noinline
#else
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;
#define __arena
#define policy_fn static __attribute__((unused))
#define bpf_for(i, start, end) for ((i) = (start); (i) < (end); (i)++)
#endif

/*
 * 0, but the verifier does not know. It follows a loop for as long as a known variable changes from
 * turn to turn; one that starts like this is unknown from the first turn on. `seed` is any value
 * that the verifier does not know.
 */
#ifdef __bpf__
#define unknown_zero(seed) ({ u64 __mirror = (seed); barrier_var(__mirror); __mirror ^ (seed); })
#else
#define unknown_zero(seed) ((u64)(seed) & 0)
#endif

/* Counted by the policy, shown by --stats. */
struct policy_counts {
	/* Decisions of the policy's inner algorithm; at least one a pick. */
	u64 choices;
	/* Quanta granted to tasks that were running elsewhere (GR3MP). */
	u64 frontlogs;
	/* Times that infeasible weights were readjusted to a new cap. */
	u64 readjustments;
};

/*
 * An invariant. If it does not hold, the framework unloads the scheduler and names the line
 * (natively: abort).
 */
#ifdef __bpf__
#define policy_assert(condition) do { if (!(condition)) policy_broken(__LINE__); } while (0)
#else
#define policy_assert(condition) do { if (!(condition)) abort(); } while (0)
#endif

#endif

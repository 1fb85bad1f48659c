/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The scheduler's lock: a ticket lock, first come, first served.
 *
 * The kernel has a spin lock for BPF programs, but a program that holds it must not call a global
 * function. Global functions are what keeps verification fast: the verifier looks at each of them
 * once, and at everything else once for every way that leads there. So the lock is our own.
 *
 *   next = 7, owner = 5: somebody holds ticket 5, somebody waits with 6; we get 7 and wait.
 *
 * Whoever holds it has interrupts off: nearly all callbacks are called with the run queue locked,
 * so they are off already; the others use lock_irq.
 */
#ifndef PRORATA_LOCK_H
#define PRORATA_LOCK_H

static struct {
	u32 next, owner;
} ticket __attribute__((aligned(64)));

/* Turns in which the lock must come free: about a minute. The verifier wants loops to end. */
#define LOCK_ROUNDS 256
#define LOCK_SPINS (1 << 20)

__noinline u32 lock_wait(u32 mine)
{
	u32 round, spin;

	bpf_for(round, 0, LOCK_ROUNDS) {
		bpf_for(spin, 0, LOCK_SPINS) {
			if (READ_ONCE(ticket.owner) == mine)
				return 0;
		}
	}
	scx_bpf_error("the scheduler's lock does not come free");
	return 0;
}

static __always_inline void lock(void)
{
	u32 mine = __sync_fetch_and_add(&ticket.next, 1);

	if (READ_ONCE(ticket.owner) != mine)
		lock_wait(mine);
}

static __always_inline void unlock(void)
{
	/* A full barrier, so that what was written is seen before the lock is. */
	__sync_fetch_and_add(&ticket.owner, 1);
}

/* For callers that may be interrupted. */
#define lock_irq(flags) do { bpf_local_irq_save(&(flags)); lock(); } while (0)
#define unlock_irq(flags) do { unlock(); bpf_local_irq_restore(&(flags)); } while (0)

#endif

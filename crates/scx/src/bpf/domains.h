/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Domains: the cpus that share their last cache, and tasks that stay near to theirs.
 *
 * A policy says whose turn it is, not where. If a cpu picks a task whose cache is elsewhere, that task has
 * had its turn, and runs it where it ran last, as one that must not run here does (paid.h); and the cpu picks
 * again:
 *
 *   cpu 0 (domain 0)   picks a, which ran on cpu 3: charged, and paid a quantum; picks b, and runs it
 *   cpu 2 (domain 1)   a has been paid: runs a, and does not ask the policy
 *   cpu 0              picks c, which ran on cpu 2, but two tasks wait for the two cpus there: runs c
 *
 * So a domain whose tasks are due more than its cpus give loses some to the others, and one that has nothing
 * to run takes what waits for another. What it costs: a turn is run by the time as many have ended as the
 * domain has cpus, a quantum later or so; if tasks keep their cpus there, others take it in FAR_QUANTA.
 *
 * While tasks nap in a cgroup of hogs, what the hogs are due changes from quantum to quantum, and turns that
 * are run later are run at another rate: such cgroups were up to 12 % behind. So for RATES_QUANTA after a
 * change tasks run where they are picked.
 *
 * Nor are they paid for it until they have been paid enough, and leave the queue: under GR3 they lose the
 * turns that it has put aside for who runs (its frontlog). Beside bound tasks hogs were up to 7 % behind.
 *
 * Where all cpus are in one domain, nothing of this but the count is verified. Known limits: a cpu that was
 * offline when the scheduler was loaded is taken to be in domain 0. Who wakes with credit runs wherever a
 * cpu may be interrupted; which one that is goes by errors and weights, not by domains. Tasks with a mask
 * stay out of it.
 */
#ifndef PRORATA_DOMAINS_H
#define PRORATA_DOMAINS_H

/* A task whose turn was paid for its domain is run by any cpu after so many quanta. */
#define FAR_QUANTA 2
/* One that was paid so much has its turn wherever it is picked: it would soon leave the queue (paid.h). */
#define NEAR_QUANTA 4
/* Tasks have their turns wherever they are picked until no rate has changed for so many quanta. */
#define RATES_QUANTA 64

static u32 domain_of(u32 cpu)
{
	return domain_of_cpu[cpu & (MAX_CPUS - 1)] & (MAX_DOMAINS - 1);
}

/* A task goes from one cpu to another. */
static __always_inline void count_move(u32 from, u32 to)
{
	if (from == to)
		return;
	shared->stats.moves++;
	if (domains > 1)
		shared->stats.far_moves += domain_of(from) != domain_of(to);
}

/* A task begins to wait for a turn that it was paid, or does no longer. */
static __always_inline void domain_awaits(struct slot __arena *slot)
{
	if (domains == 1)
		return;
	slot->domain = domain_of(slot->home);
	shared->far_waiting[slot->domain & (MAX_DOMAINS - 1)]++;
}

static __always_inline void domain_has(struct slot __arena *slot)
{
	if (domains > 1)
		shared->far_waiting[slot->domain & (MAX_DOMAINS - 1)]--;
}

/* True if the turn of a task that this cpu has picked is for the domain where it ran. */
static __always_inline bool stays_away(const struct slot __arena *slot, u32 id, u32 cpu)
{
	u32 domain;

	/* One that woke is to run at once. */
	if (domains == 1 || POLICY_KEEPS_CPUS || !stays_near || slot->bound.mask || id == CROWD ||
	    slot->run_ns < quantum || slot->paid_ns >= NEAR_QUANTA * quantum ||
	    shared->now_ns - shared->rates_changed_ns < RATES_QUANTA * quantum)
		return false;
	domain = domain_of(slot->home);
	return domain != domain_of(cpu) && shared->far_waiting[domain] < cpus_of_domain[domain];
}

/* True if a paid task that waits, and may run on this cpu, is not for cpus of another domain. */
static __always_inline bool is_near(const struct slot __arena *slot, u32 cpu)
{
	return domains == 1 || slot->bound.mask || slot->domain == domain_of(cpu) ||
	       shared->now_ns > slot->paid_at_ns + FAR_QUANTA * quantum;
}

#endif

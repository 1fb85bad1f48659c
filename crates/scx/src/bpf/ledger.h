/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ledger: what a task was granted against what it used.
 *
 * Slices are ended by a timer (slice.h), but not to the microsecond, and sometimes by the tick, so
 * that a quantum of 5 ms lasts 8 ms where ticks are 4 ms apart. Policies count whole quanta. The
 * ledger makes both true over time:
 *
 *   picked:  owed += 5 ms  ->  5 ms    runs 8 ms:  owed = -3 ms
 *   picked:  owed += 5 ms  ->  2 ms    runs 4 ms:  owed = -2 ms
 *   picked:  owed += 5 ms  ->  3 ms    runs 4 ms:  owed = -1 ms
 *
 * A run that something interrupted is not over while more than a quarter of it is owed. A task that
 * blocks, or yields on the only cpu (queue.h), is owed nothing more here, but keeps its debts: what it was
 * granted and did not use is not charged for, and may be its credit (turns.h). A debt of a whole run is an
 * overdraft: the next pick is over at once.
 *
 * Known limit: a debt of more than a task is due in DEBT_LASTS_NS (and of DEBT_QUANTA quanta at least) is cut
 * to that, so that one long overrun, as of a cpu that the hypervisor keeps, cannot lock it out for longer.
 */
#ifndef PRORATA_LEDGER_H
#define PRORATA_LEDGER_H

#define DEBT_QUANTA 8
#define DEBT_LASTS_NS 4000000000ULL

/* The most that a task may owe; the includer's, who knows its share. */
static u64 debt_limit_ns(const struct slot __arena *slot);

/*
 * How long a task that blocks has run. The kernel brings sum_exec_runtime up to date before
 * ops.quiescent only for schedulers that have ops.stopping, a call in every switch; without that, a
 * task that sleeps between two ticks would seem not to have run at all.
 */
static u64 run_time_ns(const struct task_struct *p)
{
	s64 since_ns = scx_clock_task(bpf_get_smp_processor_id()) - p->se.exec_start;

	return p->se.sum_exec_runtime + (since_ns > 0 ? since_ns : 0);
}

/*
 * A task wakes. What it ran since we were told that it sleeps, until the cpu had another, is its own too: of
 * who sleeps again and again it would be much.
 */
static void ledger_wake(struct slot __arena *slot, u64 exec_ns)
{
	/* By the clock of another cpu it had run longer. */
	if (exec_ns < slot->exec_ns)
		slot->exec_ns = exec_ns;
}

static void ledger_grant(struct slot __arena *slot, u64 run_ns)
{
	slot->run_ns = run_ns;
	slot->owed_ns += run_ns;
}

/* Brings the ledger up to date with the task's run time. */
static void ledger_settle(struct slot __arena *slot, u64 exec_ns)
{
	u64 used_ns = exec_ns - slot->exec_ns;

	slot->exec_ns = exec_ns;
	slot->used_ns += used_ns;
	slot->received_ns += used_ns;
	slot->owed_ns -= used_ns;
	if (slot->owed_ns < -(s64)(DEBT_QUANTA * quantum)) {
		s64 floor_ns = -(s64)debt_limit_ns(slot);

		if (slot->owed_ns < floor_ns)
			slot->owed_ns = floor_ns;
	}
}

/* Brings the ledger up to date. True if the task is owed time still. */
static bool is_owed_after(struct slot __arena *slot, u64 exec_ns)
{
	ledger_settle(slot, exec_ns);
	return !slot->yielded && slot->owed_ns > 0;
}

/* True if the run goes on. */
static bool ledger_goes_on(struct slot __arena *slot)
{
	return !slot->yielded && slot->owed_ns > (s64)(slot->run_ns / 4);
}

/* What the policy shall account for the run that ends now: all of it unless it was cut short. */
static u64 ledger_used(struct slot __arena *slot, bool cut_short)
{
	u64 charged_ns = slot->run_ns;

	if (cut_short || slot->yielded) {
		if (slot->owed_ns > 0) {
			charged_ns = slot->owed_ns < (s64)slot->run_ns ?
				     slot->run_ns - slot->owed_ns : 0;
			slot->owed_ns = 0;
		}
	}
	slot->yielded = false;
	return charged_ns;
}

/* The length of the slice that the kernel is told. */
static u64 ledger_slice_ns(struct slot __arena *slot)
{
	return slot->owed_ns > 1000 ? slot->owed_ns : 1000;
}

#endif

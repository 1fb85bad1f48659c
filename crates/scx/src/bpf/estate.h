/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What processes leave when they end, and new ones begin with, where turns are kept (turns.h).
 *
 * A cgroup whose work is short processes would get a fraction of its share: each waits for its first turn,
 * uses a part of it, and ends. So a cgroup has an estate. Who ends leaves it what he was paid and did not
 * use, and his debts. Who begins has half a quantum in advance, with which he runs at once; the policy serves
 * him when that is used up. In most there is nothing left to serve.
 *
 * A shell in the middle of its turn, quanta of 5 ms, the estate holds .5 ms:
 *
 *   it forks            the child has 2.5 ms: the estate's, and 2 of what the shell has left
 *   it waits            the child runs at once, and ends after 1 ms: the estate holds 1.5 ms
 *   it forks again      the child has 2.5 ms: the estate's, and 1 of the shell's
 *
 * What parents are short of is the estate's debt, until they fork again. All estates below one child of
 * the root may owe ESTATE_DEBT_QUANTA together, so that more cgroups bring nobody more. Nothing else is
 * given that was not paid for: over any time the tasks below it receive together no more by this rule than
 * those quanta, so that who forks and dies gains nothing. (The core library's tests have families that try:
 * crates/core/tests/conformance/families.rs.)
 *
 * A cgroup that goes leaves its estate to the one above.
 *
 * Known limits: in the root, and with `--groups off`, an estate is everybody's. A cgroup that owes all that
 * those below one child of the root may leaves the others what they and parents have. More than
 * ESTATE_QUANTA lapse, and debts of more than ESTATE_OWED_QUANTA: who ended with them had run on for long
 * while something else kept the cpu.
 */
#ifndef PRORATA_ESTATE_H
#define PRORATA_ESTATE_H

/* The most that an estate holds. */
#define ESTATE_QUANTA 8
/* The most that who ended leave in debts. */
#define ESTATE_OWED_QUANTA 64
/* The most that all below a child of the root owe. */
#define ESTATE_DEBT_QUANTA 4
/* A new task has such a part of a quantum; what is less than half of that is not worth a run. */
#define ESTATE_PART 2

static void slice_begins(u32 cpu, u64 slice_ns);

/* The task that forks, if it lends to a child; else NIL. */
static __always_inline u32 lender_of(u32 child)
{
	u32 id = slot_of(bpf_get_current_task_btf());

	if (id >= CROWD || slots[id].state != TASK_RUNNING || slots[id].runs_paid ||
	    slots[id].cpu != this_cpu() || tree->members[id].parent != tree->members[child].parent)
		return NIL;
	return id;
}

/* A task lends what the estate is short of: of its credit, and of what is left of its run. How much. */
static __always_inline s64 lend(u32 id, s64 wanted_ns)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct slot __arena *slot = &slots[id];
	s64 taken_ns = turns_take(id, wanted_ns), left_ns;

	if (taken_ns)
		record(EVENT_TAKE, id, 0, taken_ns, 0);
	wanted_ns -= taken_ns;
	ledger_settle(slot, run_time_ns(current));
	left_ns = slot->owed_ns < wanted_ns ? slot->owed_ns : wanted_ns;
	if (left_ns <= 0)
		return taken_ns;
	slot->owed_ns -= left_ns;
	scx_bpf_task_set_slice(current, ledger_slice_ns(slot));
	slice_begins(slot->cpu, ledger_slice_ns(slot));
	return taken_ns + left_ns;
}

/* A task that its parent has just forked, and that the policy has heard of, begins. */
global_fn u32 begin_in_advance(u32 id)
{
	u32 n = tree->members[id].parent, lender = lender_of(id);
	struct group_node __arena *node = NODE(n);
	s64 advance_ns = quantum / ESTATE_PART, most_ns;

	if (lender != NIL && node->estate_ns < advance_ns)
		group_change_estate(n, lend(lender, advance_ns - node->estate_ns));
	most_ns = (s64)(ESTATE_DEBT_QUANTA * quantum) - NODE(node->top)->owed_ns;
	if (node->estate_ns > 0)
		most_ns += node->estate_ns;
	if (advance_ns > most_ns)
		advance_ns = most_ns;
	if (advance_ns < (s64)(quantum / ESTATE_PART / 2))
		return 0;
	group_change_estate(n, -advance_ns);
	record(EVENT_ENDOW, id, 0, advance_ns, 0);
	turns_endow(id, advance_ns);
	return 0;
}

/* A task has ended. */
global_fn u32 bequeath(u32 id)
{
	struct slot __arena *slot = &slots[id];
	u32 n = tree->members[id].parent;
	s64 most_ns = ESTATE_QUANTA * quantum, least_ns = -(s64)(ESTATE_OWED_QUANTA * quantum);
	s64 left_ns, estate_ns;

	if (!slot->known || slot->state != TASK_BLOCKED || n == NIL)
		return 0;
	left_ns = turns_retire(id);
	record(EVENT_RETIRE, id, 0, left_ns, 0);
	estate_ns = NODE(n)->estate_ns + left_ns + slot->paid_ns + slot->owed_ns;
	slot->paid_ns = slot->owed_ns = 0;
	if (estate_ns > most_ns)
		estate_ns = most_ns;
	if (estate_ns < least_ns)
		estate_ns = least_ns;
	group_change_estate(n, estate_ns - NODE(n)->estate_ns);
	return 0;
}

#endif

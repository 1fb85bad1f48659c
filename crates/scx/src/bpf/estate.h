/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What processes leave when they end, and new ones begin with (turns.h, corrected.h).
 *
 * A cgroup whose work is short processes would get a fraction of its share: each waits for its first turn,
 * uses a part of it, and ends. So a cgroup has an estate.
 *
 * Where turns are corrected, who ends leaves it what he was behind, less what others were ahead, and who
 * begins is behind by that, or by a quantum of it.
 *
 * Where turns are kept, who ends leaves it what he was paid and did not use, and his debts. Who begins has
 * half a quantum in advance, with which he runs at once; the policy serves him when that is used up. In most
 * there is nothing left to serve.
 *
 * A shell in the middle of its turn, quanta of 5 ms, the estate holds .5 ms:
 *
 *   it forks            the child has 2.5 ms: the estate's, and 2 of what the shell has left
 *   it waits            the child runs at once, and ends after 1 ms: the estate holds 1.5 ms
 *   it forks again      the child has 2.5 ms: the estate's, and 1 of the shell's
 *
 * An estate holds ESTATE_QUANTA; what is more is spare for others of the cgroup (spare.h).
 * Who ends leaves what he was due and had no turns for, too (late.h).
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
 * those below one child of the root may leaves the others what they and parents have. Debts of more than
 * ESTATE_OWED_QUANTA lapse: who ended with them had run on for long while something else kept the cpu. Where
 * turns are corrected, what an estate cannot hold stays with those who compete (online.h).
 */
#ifndef PRORATA_ESTATE_H
#define PRORATA_ESTATE_H

/* The most that an estate holds. */
#define ESTATE_QUANTA 8
/* The most that who ended leave in debts, or were ahead. */
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

/* What a new task has in advance where turns are kept: the estate's, or its parent's, or a debt. */
static __always_inline s64 advance_of(u32 n, u32 lender)
{
	struct group_node __arena *node = NODE(n);
	s64 advance_ns = quantum / ESTATE_PART, most_ns;

	if (lender != NIL && node->estate_ns < advance_ns)
		group_change_estate(n, lend(lender, advance_ns - node->estate_ns));
	most_ns = (s64)(ESTATE_DEBT_QUANTA * quantum) - NODE(node->top)->owed_ns;
	if (node->estate_ns > 0)
		most_ns += node->estate_ns;
	if (advance_ns > most_ns)
		advance_ns = most_ns;
	return advance_ns < (s64)(quantum / ESTATE_PART / 2) ? 0 : advance_ns;
}

/* The same where they are corrected: what others were behind. */
static __always_inline s64 behind_from(u32 n)
{
	s64 estate_ns = NODE(n)->estate_ns;

	return estate_ns < (s64)quantum ? estate_ns : (s64)quantum;
}

/* A task that its parent has just forked, and that the policy has heard of, begins. */
global_fn u32 begin_in_advance(u32 id)
{
	u32 n = tree->members[id].parent;
	s64 advance_ns = corrects_turns() ? behind_from(n) : advance_of(n, lender_of(id));

	if (advance_ns <= 0)
		return 0;
	group_change_estate(n, -advance_ns);
	record(EVENT_ENDOW, id, 0, advance_ns, 0);
	turns_endow(id, advance_ns);
	return 0;
}

/* What an estate does not hold of what a task leaves is for others there. */
static __always_inline void leave_spare(u32 id, u64 ns)
{
	record(EVENT_LEAVE, id, 0, ns, 0);
	make_spare(spare_node_of(id), ns);
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
	estate_ns = NODE(n)->estate_ns + left_ns;
	/* The ideal goes by what tasks ran. */
	if (keeps_turns())
		estate_ns += slot->paid_ns + slot->owed_ns + take_late(id);
	slot->paid_ns = slot->owed_ns = 0;
	if (estate_ns > most_ns) {
		if (keeps_turns())
			leave_spare(id, estate_ns - most_ns);
		estate_ns = most_ns;
	}
	if (estate_ns < least_ns)
		estate_ns = least_ns;
	group_change_estate(n, estate_ns - NODE(n)->estate_ns);
	return 0;
}

#endif

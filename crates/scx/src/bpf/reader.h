/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks that the kernel waits for.
 *
 * A task that is taken off its cpu while it reads what RCU protects keeps grace periods waiting until its
 * next turn and further. Whoever gives tasks of theirs tiny weights, and has others that compute, could keep
 * the kernel waiting for longer than it lets anybody (21 s: then it ends the scheduler), and with it all who
 * free memory, open files or change cpus:
 *
 *   a task of weight 1 unmaps memory     its quantum ends: its next turn comes in 5 s
 *   cpu 1 is to come online              waits for a grace period
 *
 * So: a reader goes on, for moments, until it reads no longer, or has had enough of them. What it runs too
 * long is a debt, as ever (ledger.h).
 *
 * Who is to leave when he has had them has as many once more, each behind the turn of whoever is next there.
 * So a cpu that picks him meanwhile, and waits for him, has him read on at once (dispatch.h).
 *
 * Our programs read, too, and the depth is counted in the current task.
 */
#ifndef PRORATA_READER_H
#define PRORATA_READER_H

#define READER_NS 100000ULL
#define READER_MOMENTS 20
/* Of a slot: it leaves a cpu, and reads on there. */
#define READS_IN_TRANSIT 2

static bool is_reading(const struct task_struct *p)
{
	s32 own = p == bpf_get_current_task_btf();

	return bpf_core_field_exists(p->rcu_read_lock_nesting) && p->rcu_read_lock_nesting > own;
}

/* True if a task that is to leave this cpu, with its run queue locked, shall go on for a moment. */
static bool goes_on_reading(const struct task_struct *p, u32 index)
{
	struct cpu_state __arena *cpu = CPU_STATE(index);

	if (!is_reading(p) || cpu->moments >= READER_MOMENTS) {
		cpu->moments = 0;
		return false;
	}
	cpu->moments++;
	return true;
}

#endif

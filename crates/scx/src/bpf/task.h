/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Slots: a task has one from init_task to exit_task, numbered from 0 in the order of allocation,
 * freed ones first.
 *
 * Tasks beyond `max_tasks` have none; they are one more task of the policy together (crowd.h), and are
 * counted (crowded_out).
 */
#ifndef PRORATA_TASK_H
#define PRORATA_TASK_H

/* In p->__state; a macro of the kernel's. Such a task has only to switch away. */
#ifndef TASK_DEAD
#define TASK_DEAD 0x80
#endif

/* What else is kept in a slot; with the lock held. */
static void slot_begins(u32 id, u32 node);
static void slot_ends(u32 id);

/* The number of an enabled task's slot; NIL if it has none. */
static u32 slot_of(const struct task_struct *p)
{
	/* 0 becomes NIL. */
	return (u32)p->scx.dsq_vtime - 1;
}

/*
 * The same of any task, from a map. Newer kernels (7.2 does, 6.18 does not) let dsq_vtime be set
 * only when the task is ours, which it is not yet in init_task.
 */
static u32 kept_slot(struct task_struct *p)
{
	struct task_memory *memory = memory_of(p, false);

	return memory ? memory->slot - 1 : NIL;
}

/* Takes a slot off the free list, with the lock held; NIL if there is none. */
static u32 take_slot(void)
{
	u32 id = shared->free_slot;

	if (id == NIL)
		STATS(this_cpu())->crowded_out++;
	else
		shared->free_slot = slots[id].newer;
	return id;
}

static void free_slot(u32 id)
{
	slots[id].newer = shared->free_slot;
	shared->free_slot = id;
}

/* The task of a slot, valid until the program returns; NULL if it is dead, or of another class. */
static struct task_struct *task_of(u32 id)
{
	struct task_ref *ref = bpf_map_lookup_elem(&task_refs, &id);

	return ref ? ref->task : NULL;
}

/*
 * Until Linux 6.18 ops.exit_task is called when nobody refers to a task any more: we do so from ops.enable
 * until it is dead, or ops.disable, and no longer.
 */
static void refer_to_task(u32 id, struct task_struct *p)
{
	struct task_ref *ref = bpf_map_lookup_elem(&task_refs, &id);
	struct task_struct *own, *before;

	if (!ref)
		return;
	own = bpf_task_acquire(p);
	/* It is dead already; all it has to do is to switch away. */
	if (!own)
		return;
	before = bpf_kptr_xchg(&ref->task, own);
	if (before)
		bpf_task_release(before);
}

static void forget_task(u32 id)
{
	struct task_ref *ref = bpf_map_lookup_elem(&task_refs, &id);
	struct task_struct *before;

	if (!ref)
		return;
	before = bpf_kptr_xchg(&ref->task, NULL);
	if (before)
		bpf_task_release(before);
}

/*
 * True unless the task is allowed on every online cpu. A number says nothing: where a possible cpu
 * is offline, a task may be allowed on as many cpus as are online, but not on these. A cpu that comes is
 * online before it is in use, and one that goes is in use no longer before it is offline.
 */
static bool is_bound(const struct task_struct *p)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	bool bound = !bpf_cpumask_subset(online, p->cpus_ptr);

	scx_bpf_put_cpumask(online);
	return bound;
}

/*
 * True if the task must stay on its cpu for a moment. A BPF program may itself keep the current
 * task there, as scx's probe has found out; then a depth of 1 means nothing for that task.
 *
 * scx has a function for this too. But before it asks the probe, it asks for the kernel's version and
 * configuration, which libbpf does not find everywhere: no program of ours may need them.
 */
static bool is_kept(const struct task_struct *p)
{
	if (p->migration_disabled == 1 && __scx_prolog_disables_migration)
		return p != bpf_get_current_task_btf();
	return p->migration_disabled;
}

/* True if there could be a cpu on which the task may not run. */
static bool is_limited(const struct task_struct *p)
{
	return p->nr_cpus_allowed < cpus_possible;
}

/* True unless the task is allowed on every cpu right now. */
static bool is_confined(const struct task_struct *p)
{
	return (is_limited(p) && is_bound(p)) || is_kept(p);
}

static bool can_run_on(const struct task_struct *p, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) &&
	       (!is_kept(p) || scx_bpf_task_cpu(p) == cpu);
}

/* The slot of a new task; NIL if there is none. Its weight is its parent's, if that one's was chosen. */
static u32 begin_slot(u32 pid, u32 parent, u32 node)
{
	struct slot __arena *slot;
	u32 id;

	if (!lock())
		return NIL;
	id = take_slot();
	if (id != NIL) {
		slot = &slots[id];
		slot->owed_ns = 0;
		slot->used_ns = 0;
		slot->pid = pid;
		slot->chosen_weight = parent == NIL ? 0 : slots[parent].chosen_weight;
		slot_begins(id, node);
	}
	unlock();
	return id;
}

static s32 task_begin(struct task_struct *p, bool forked, u32 node)
{
	struct task_memory *memory = memory_of(p, true);
	u32 id, parent;
	unsigned long flags;

	use_arena();
	if (!memory)
		return -ENOMEM;
	memory->slot = 0;
	parent = forked ? kept_slot(bpf_get_current_task_btf()) : NIL;
	bpf_local_irq_save(&flags);
	id = begin_slot(p->pid, parent, node);
	bpf_local_irq_restore(&flags);
	memory->slot = id + 1;
	return 0;
}

static void task_end(struct task_struct *p)
{
	struct task_memory *memory = memory_of(p, false);
	unsigned long flags;
	u32 id;

	use_arena();
	if (!memory || !memory->slot)
		return;
	id = memory->slot - 1;
	memory->slot = 0;
	bpf_local_irq_save(&flags);
	if (lock()) {
		slot_ends(id);
		unlock();
	}
	bpf_local_irq_restore(&flags);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The callbacks of sched_ext about cgroups.
 *
 *   cgroup_init   a cgroup comes, or was there when we were loaded: parents first
 *   cgroup_move   a task moves, out of the run queue: quiescent, move, enqueue
 *   cgroup_exit   a cgroup goes; tasks that are dying in it may still run
 *
 * A move is not prepared: nothing of it can fail.
 */
#ifndef PRORATA_CGROUP_OPS_H
#define PRORATA_CGROUP_OPS_H

/* A node has come, or its weight has changed. */
static __always_inline void make_room_for(u32 node)
{
	if (makes_coarser(GROUP_MEMBER(node & (GROUP_NODES - 1))))
		shared->news_of_all = true;
}

/* False for a cgroup that is a part of another, for want of nodes. */
static bool is_node_of(u32 node, u64 number)
{
	return node != GROUP_ROOT && NODE(node)->cgroup == number;
}

/* The node of a new cgroup; `parent` if there is none for it. */
static __always_inline u32 add_cgroup(u32 parent, u32 weight, u64 number)
{
	u32 node;

	if (!lock())
		return parent;
	node = group_add_node(parent, weight, number);
	if (node == NIL)
		node = parent;
	make_room_for(node);
	unlock();
	return node;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(prorata_cgroup_init, struct cgroup *cgroup,
			     struct scx_cgroup_init_args *args)
{
	struct cgroup *above = (void *)BPF_CORE_READ(cgroup, self.parent);
	u64 number = number_of(cgroup);
	u32 weight = group_weight_of(args->weight), node = GROUP_ROOT, parent;
	unsigned long flags;

	use_arena();
	if (above) {
		if (is_idle_cgroup(cgroup))
			weight = WEIGHT_SCHED_IDLE;
		parent = node_of(number_of(above));
		bpf_local_irq_save(&flags);
		node = add_cgroup(parent, weight, number);
		bpf_local_irq_restore(&flags);
	}
	bpf_map_update_elem(&cgroup_nodes, &number, &node, BPF_ANY);
	return 0;
}

void BPF_STRUCT_OPS_SLEEPABLE(prorata_cgroup_exit, struct cgroup *cgroup)
{
	u64 number = number_of(cgroup);
	u32 node = node_of(number);
	unsigned long flags;

	use_arena();
	bpf_map_delete_elem(&cgroup_nodes, &number);
	bpf_local_irq_save(&flags);
	if (lock()) {
		if (is_node_of(node, number))
			group_release(node);
		unlock();
	}
	bpf_local_irq_restore(&flags);
}

void BPF_STRUCT_OPS(prorata_cgroup_move, struct task_struct *p, struct cgroup *from,
		    struct cgroup *to)
{
	u32 id = kept_slot(p), node = node_of(number_of(to));

	if (id == NIL)
		return;
	if (!begin())
		return;
	move_to(id, node);
	unlock();
}

static __always_inline void weigh_cgroup(struct cgroup *cgroup, u32 weight)
{
	u64 number = number_of(cgroup);
	u32 node = node_of(number);
	unsigned long flags;

	use_arena();
	bpf_local_irq_save(&flags);
	if (lock()) {
		if (is_node_of(node, number)) {
			group_set_node_weight(node, weight);
			make_room_for(node);
		}
		unlock();
	}
	bpf_local_irq_restore(&flags);
}

void BPF_STRUCT_OPS(prorata_cgroup_set_weight, struct cgroup *cgroup, u32 weight)
{
	weigh_cgroup(cgroup, group_weight_of(weight));
}

/* The kernel gives one that is idle no longer the usual weight. */
void BPF_STRUCT_OPS(prorata_cgroup_set_idle, struct cgroup *cgroup, bool idle)
{
	weigh_cgroup(cgroup, idle ? WEIGHT_SCHED_IDLE : WEIGHT_OF_NICE_0);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* What is kept of the tree of cgroups (group.h): of each task and node, and of all. */
#ifndef PRORATA_NODE_H
#define PRORATA_NODE_H

enum group_limits {
	GROUP_NODES = 16384,
	/* Levels of nodes below the root. */
	GROUP_DEPTH = 16,
	/* Own weights are 1 .. 2^20. */
	GROUP_WEIGHT_MAX = 1 << 20,
	/* Binary digits of a fraction. */
	GROUP_FRACTION = 40,
	/* A unit of weight in the root is at most 2 to this in the policy … */
	GROUP_SCALE = 10,
	/* … and all that compete in the root are below 2 to this together. */
	GROUP_TOTAL_ORDER = 35,
	/* Orders of weight for each task of a child: 2^-15 .. 2^20. */
	GROUP_ORDERS = 36,
	GROUP_ORDER_OF_ONE = 15,
	/* Tasks that a search for the capped may look at: 16 for each cpu are enough. */
	GROUP_SEARCH = 16 * POLICY_CPUS,
	/* Changes that the loader may be behind with. */
	GROUP_CHANGES = 16384,
	/* Parts of a cpu. */
	GROUP_CPU = 1 << 16,
};

/* A task or a node. */
struct group_member {
	/* A node; NIL for the root, and for a task that is nowhere. */
	u32 parent;
	u32 weight;
	/* Parts of cpus that the runnable tasks of it and below it can use. */
	u32 parts;
	/* Of a task: what it has of cpus that are short, whatever its siblings have; 0 if it is at large. */
	u32 fixed;
	/* Neighbours among the siblings of its order that compete, and are at large. */
	u32 next, previous;
	/* The last search that found it capped. */
	u32 capped;
	/* Of a task: its place among the runnable ones plus one, or 0. */
	u32 at;
	u8 order;
};

struct group_node {
	u64 cgroup;
	/* The weight of the children that have parts; and of those, tasks, that are not at large. */
	u64 competing, fixed_weight;
	/* What the latter have. */
	u32 fixed;
	/* Bit per order: there are such children that are at large. */
	u64 orders;
	/* What a child counts for, for each unit of its weight, unless it is capped. */
	u64 per_weight;
	/* The same if none is capped, here and above. */
	u64 plain;
	/* TREE->changes when this was found. */
	u64 found;
	/* The cgroup itself if it is online, its tasks and the nodes in it; free if 0. */
	u32 refs;
	u32 depth;
	/* By order; links free nodes. */
	u32 first[GROUP_ORDERS];
	/* What processes in it left, less what new ones began with (estate.h). */
	s64 estate_ns;
	/* What tasks in it were due of the policy, all in all, less what they were served (late.h). */
	s64 late_ns;
	/* What the estates in it owe; of a child of the root, and the root. */
	s64 owed_ns;
	/*
	 * What tasks in it had no use for of their turns, all in all, for each unit of the weight of those who
	 * share it; that weight, and how many they are (spare.h).
	 */
	u64 spare_per_weight, spare_weight;
	u32 spare_tasks;
	/* Of a child of the root: what tasks in it used of their credit less what they were paid (burst.h). */
	u64 burst_ns, forgiven_at_ns;
	/* The child of the root that it is or is in; of the root, itself. */
	u32 top;
	/* All below are worth a cpu each. */
	u8 saturated;
};

/* A member, as it is from a change on, for who watches. */
struct group_change {
	u64 now_ns;
	/* Of a task, until then: how long it ran, and waited. */
	u64 received_ns, waited_ns;
	u32 id;
	/* NIL if it is gone, or is the root. */
	u32 parent;
	u32 weight;
	/* It is a task, and runnable. */
	u32 runnable;
};

struct group_tree {
	u64 cpus;
	/* Counts the changes of the tree, from 1 on. */
	u64 changes;
	/* What a whole cpu counts for; as old as the root's share. */
	u64 per_cpu;
	/* What a search has left to share, and the weight that shares it. */
	u64 rest, rest_weight;
	/* Numbers searches. */
	u32 search;
	/* Children that this search may still look at. */
	u32 patience;
	/* A unit of weight in the root counts for 2 to this in the policy. */
	u32 scale;
	/* Nodes that were never used begin here. */
	u32 unused;
	u32 free_node;
	/* Runnable tasks; the next to be told, and how many are to be since the last change. */
	u32 runnable, next, unseen;
	/* Runnable tasks that are not at large, and those that are in a cgroup below the root. */
	u32 fixed, below;
	/* Nodes from a task up whose shares are old. */
	u32 old[GROUP_DEPTH + 2];
	u32 list[POLICY_TASKS];
	struct group_member members[POLICY_TASKS + GROUP_NODES];
	struct group_node nodes[GROUP_NODES];
	/* Somebody watches: changes are written to the ring. */
	u32 watched;
	/* Changes written since the start. */
	u64 written;
	struct group_change ring[GROUP_CHANGES];
};

#endif

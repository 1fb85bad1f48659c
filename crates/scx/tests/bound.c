/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What tasks with masks count for, without a kernel: reads changes from stdin, one a line, and prints what
 * tasks are told.
 *
 *   i CPUS                before all others
 *   n NODE ABOVE WEIGHT   a node of the tree comes; 0 is the root
 *   a TASK WEIGHT NODE    a task comes, which may run everywhere
 *   m TASK MASK           it may run on the cpus whose bits are set
 *   j TASK, p TASK        it is runnable, or no longer: then its mask has no number
 *   q                     prints the runnable tasks and what they count for: TASK WEIGHT; then "idle" and
 *                         how many cpus are left idle
 */
#include <inttypes.h>
#include <stdio.h>

#include "../src/bpf/policy.h"

/* Nobody watches. */
static u64 now_ns(void) { return 0; }
static u64 received_ns(u32 id) { return id; }
static u64 waited_ns(u32 id) { return id; }

#define TREE (&the_tree)
#define GROUP_MEMORY static struct group_tree the_tree;
#include "../src/bpf/group.h"

#define BOUND (&the_bound)
#define BOUND_MEMORY static struct bound the_bound;
#include "../src/bpf/mask.h"

static struct bound_task tasks[POLICY_TASKS];
static u32 told[POLICY_TASKS], masks[POLICY_TASKS];
static u32 nodes[GROUP_NODES];
#define BOUND_TASK(id) (&tasks[id])
#include "../src/bpf/bound.h"

/* The cpus of two words. */
#define FIRST_CPU 61

static void want(u32 mask)
{
	BOUND->wanted[0] = (u64)mask << FIRST_CPU;
	BOUND->wanted[1] = (u64)mask >> (64 - FIRST_CPU);
}

static void set_mask(u32 id)
{
	want(masks[id]);
	bound_set_mask(&tasks[id], bound_find(), false);
}

static void tell(u32 id)
{
	bound_set_counts(&tasks[id], group_weight(id, tasks[id].counts), group_plain_weight(id));
	if (BOUND->gone)
		bound_find_per_cpu();
	told[id] = bound_weight(&tasks[id], told[id]);
}

static void print(void)
{
	u32 i;

	for (i = 0; i < TREE->runnable; i++)
		tell(TREE->list[i]);
	bound_fill();
	for (i = 0; i < TREE->runnable; i++) {
		u32 id = TREE->list[i];

		tell(id);
		printf("%u %u\n", id, told[id]);
	}
	printf("idle %u\n", BOUND->idle);
}

static void add(u32 id, u32 weight, u32 node)
{
	TREE->members[id].parent = NIL;
	group_place(id, nodes[node]);
	group_set_weight(id, weight);
	bound_set_counts(&tasks[id], group_weight(id, 0), group_plain_weight(id));
}

static void join(u32 id)
{
	if (masks[id])
		set_mask(id);
	MEMBER(id)->fixed = bound_fixed(&tasks[id]);
	group_join(id);
	bound_compete(&tasks[id], true);
	tell(id);
}

static void change(char verb, u32 first, u32 second, u32 third)
{
	switch (verb) {
	case 'i':
		group_init(first);
		want((1u << first) - 1);
		bound_init();
		break;
	case 'n': nodes[first] = group_add_node(nodes[second], third, first); break;
	case 'a': add(first, second, third); break;
	case 'm':
		masks[first] = second;
		if (tasks[first].competes)
			set_mask(first);
		break;
	case 'j': join(first); break;
	case 'p':
		group_part(first);
		bound_compete(&tasks[first], false);
		bound_forgo_mask(&tasks[first]);
		break;
	case 'q': print(); break;
	}
}

int main(void)
{
	char line[80], verb;
	u32 numbers[3];

	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "%c %u %u %u", &verb, &numbers[0], &numbers[1], &numbers[2]) < 1)
			return 2;
		change(verb, numbers[0], numbers[1], numbers[2]);
	}
	return 0;
}

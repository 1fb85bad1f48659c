/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The tree of cgroups without a kernel: reads changes from stdin, one a line, as the framework would make
 * them, and prints what tasks count for.
 *
 *   i CPUS                  before all others
 *   n NODE PARENT WEIGHT    a node comes; 0 is the root
 *   x NODE                  it goes
 *   u NODE WEIGHT           its weight
 *   a TASK NODE WEIGHT      a task comes
 *   r TASK                  it goes, blocked
 *   j TASK, p TASK          it is runnable, or no longer
 *   m TASK NODE             it moves
 *   s TASK WEIGHT           its weight
 *   k CPUS                  how many cpus there are now
 *   q                       tells everybody who has not seen the last change, and prints what the
 *                           runnable tasks were told: TASK WEIGHT; then a line "end"
 *   t NS                    so much time passes
 *   v TASK NS NS            a task has run, and waited, so much in all
 *   w                       somebody watches from now on; prints what there is:
 *                           "node" NODE CGROUP PARENT WEIGHT, "task" TASK NODE WEIGHT RUNNABLE
 *   c                       prints the changes since, or since the last time: "change" TIME MEMBER CGROUP
 *                           PARENT WEIGHT RUNNABLE RAN WAITED; then a line "end"
 */
#include <inttypes.h>
#include <stdio.h>

#include "../src/bpf/policy.h"

static u64 the_time, ran[POLICY_TASKS], waited[POLICY_TASKS];

static u64 now_ns(void)
{
	return the_time;
}

static u64 received_ns(u32 id)
{
	return ran[id];
}

static u64 waited_ns(u32 id)
{
	return waited[id];
}

#define TREE (&the_tree)
#define GROUP_MEMORY static struct group_tree the_tree;

#include "../src/bpf/group.h"

static u32 told[POLICY_TASKS], nodes[GROUP_NODES];

static void tell(u32 task)
{
	told[task] = group_weight(task, told[task]);
}

static void tell_all(void)
{
	u32 i;

	for (i = 0; i < TREE->runnable; i++)
		tell(TREE->list[i]);
}

/* After a change of a member. */
static void make_room(u32 member)
{
	if (makes_coarser(member))
		tell_all();
}

/* The runnable tasks that are in a cgroup are counted right. */
static void count_below_root(void)
{
	u32 below = 0, i;

	for (i = 0; i < TREE->runnable; i++)
		below += MEMBER(TREE->list[i])->parent != GROUP_ROOT;
	policy_assert(TREE->below == below);
}

static void print(void)
{
	u32 task, i;

	count_below_root();
	while ((task = group_unseen()) != NIL)
		tell(task);
	for (i = 0; i < TREE->runnable; i++)
		printf("%u %u\n", TREE->list[i], told[TREE->list[i]]);
	printf("end\n");
}

/* The child of the root that a node is or is in. */
static u32 top_of(u32 n)
{
	u32 parent = GROUP_ROOT;

	while (n != GROUP_ROOT && (parent = MEMBER(GROUP_MEMBER(n))->parent) != GROUP_ROOT)
		n = parent;
	return n;
}

/* Estates rise and fall (estate.h); what is owed below each child of the root is the sum of their debts. */
static void change_estates(void)
{
	static s64 owed_ns[GROUP_NODES], by_ns = 1;
	u32 n;

	for (n = 0; n < TREE->unused; n++)
		owed_ns[n] = 0;
	for (n = 0; n < TREE->unused; n++) {
		if (!NODE(n)->refs)
			continue;
		by_ns = by_ns * 48271 % 2147483647;
		group_change_estate(n, by_ns % 20001 - 10000);
		owed_ns[top_of(n)] += group_debt_ns(n);
	}
	for (n = 0; n < TREE->unused; n++)
		policy_assert(!NODE(n)->refs || NODE(n)->owed_ns == owed_ns[n]);
}

static void add_node(u32 id, u32 parent, u32 weight)
{
	nodes[id] = group_add_node(nodes[parent], weight, id);
	policy_assert(nodes[id] != NIL);
	make_room(GROUP_MEMBER(nodes[id]));
}

static void print_tree(void)
{
	u32 n, id;

	for (n = 1; n < TREE->unused; n++) {
		struct group_member *member = MEMBER(GROUP_MEMBER(n));

		if (NODE(n)->refs)
			printf("node %u %" PRIu64 " %u %u\n", n, NODE(n)->cgroup, member->parent,
			       member->weight);
	}
	for (id = 0; id < POLICY_TASKS; id++) {
		struct group_member *member = MEMBER(id);

		/* Of those that never came all is 0. */
		if (member->weight && member->parent != NIL)
			printf("task %u %u %u %d\n", id, member->parent, member->weight, member->at != 0);
	}
	printf("end\n");
}

static void print_changes(void)
{
	static u64 read;

	for (; read < TREE->written; read++) {
		struct group_change *it = &TREE->ring[read % GROUP_CHANGES];
		u64 cgroup = it->id < POLICY_TASKS ? 0 : NODE(it->id - POLICY_TASKS)->cgroup;

		printf("change %" PRIu64 " %u %" PRIu64 " %u %u %u %" PRIu64 " %" PRIu64 "\n", it->now_ns,
		       it->id, cgroup, it->parent, it->weight, it->runnable, it->received_ns,
		       it->waited_ns);
	}
	printf("end\n");
}

static void change_task(char verb, u32 task, u32 second, u32 third)
{
	switch (verb) {
	case 'a':
		TREE->members[task].parent = NIL;
		group_place(task, nodes[second]);
		group_set_weight(task, third);
		break;
	case 'r': group_place(task, NIL); break;
	case 'j': group_join(task); break;
	case 'p': group_part(task); break;
	case 'm': group_place(task, nodes[second]); break;
	case 's': group_set_weight(task, second); break;
	}
	make_room(task);
	tell(task);
}

static void change(char verb, u32 first, u32 second, u32 third)
{
	switch (verb) {
	case 'i':
		group_init(first);
		break;
	case 'n': add_node(first, second, third); break;
	case 'k': group_set_cpus(first); break;
	case 'x': group_release(nodes[first]); break;
	case 'u':
		group_set_node_weight(nodes[first], second);
		make_room(GROUP_MEMBER(nodes[first]));
		break;
	case 'q':
		change_estates();
		print();
		break;
	case 't': the_time += first; break;
	case 'v':
		ran[first] = second;
		waited[first] = third;
		break;
	case 'w':
		TREE->watched = true;
		print_tree();
		break;
	case 'c': print_changes(); break;
	default: change_task(verb, first, second, third);
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

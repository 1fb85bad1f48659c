/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The tree of cgroups, and what a task counts for in it (crates/core/src/hierarchy/flat.rs, in 64
 * bits): siblings share what their parent counts for in proportion to their weights, but none counts
 * for more than c for each of its runnable tasks, c being what a whole cpu counts for. A task of the
 * root counts for its weight. Tasks are siblings of the cgroups beside them. A task that may not run on all
 * cpus, and has less than one since others need those too (bound.h), is taken for what it has: its siblings
 * share the rest.
 *
 * Worked example, on one cpu; all weigh 1024 but cgroup A, which weighs 2048:
 *
 *   root ── task 0             counts for 1024
 *        ├─ A ── tasks 1, 2    1024 each
 *        └─ B ── task 3        512
 *             └─ C ── task 4   512
 *
 * On three cpus 4096 are shared by three: c = 1365 1/3, and A has 2048 for two tasks, B the same, and
 * nobody is capped. With task 2 asleep A is worth 2048 for one task, which is more than a cpu: the
 * others weigh 2048 on two cpus, so that c = 1024. All of them are worth a cpu each then.
 *
 * A change is counted at once along the path to the root; what it makes of others is found when
 * somebody asks (group_weight), once for each node and state of the tree. No more children are capped
 * than there are cpus, and they are the heaviest for each of their tasks: children are listed by the
 * order of that (log2 of weight less log2 of tasks), and the search ends at the first order where
 * nobody can be capped. So its cost does not grow with the number of children.
 *
 * Fractions have 40 binary digits, and the policy is told whole numbers: 1024 is told as 2^20, unless a
 * weight of 2^17 or more in the root, or thousands of tasks there, leave less room.
 *
 * Calls no kernel function: the file compiles natively, and tests/groups.rs compares it with the core
 * library's exact rates. The includer defines TREE, a pointer to struct group_tree, all memory zero, and
 * GROUP_MEMORY, which declares what TREE needs; now_ns(), and received_ns(id) and waited_ns(id), what a
 * task ran and waited for.
 *
 * While somebody watches, each change of a member is written to a ring, with the time: the loader finds
 * from it what each cgroup is due (due.rs). A change says all that counts of the member, so that a copy of
 * the tree that was made meanwhile is right once all changes since it was begun are known.
 *
 * Known limits: GROUP_NODES cgroups, GROUP_DEPTH levels; a cgroup beyond them counts as a part of the
 * one that it is in.
 */
#ifndef PRORATA_GROUP_H
#define PRORATA_GROUP_H

#include "wide.h"
#include "node.h"
#include "word.h"

/* The number of a node as a member: tasks come first. */
#define GROUP_MEMBER(node) (POLICY_TASKS + (node))
#define GROUP_ROOT 0u
/* What nobody exceeds. */
#define GROUP_NO_CAP (1ULL << 62)

GROUP_MEMORY

#define MEMBER(id) (&TREE->members[id])
#define NODE(n) (&TREE->nodes[(n) & (GROUP_NODES - 1)])

/* --- who watches ----------------------------------------------------------------------------- */

/*
 * After each change that shares may depend on: what a member is now, in `parent`. The loader reads behind us.
 * (Whether anybody watches is asked in here: the verifier would follow both answers on from each caller. Only
 * who is called at each sleep asks before, since a call costs more.)
 */
policy_fn u32 note_member(u32 id, u32 parent)
{
	struct group_change __arena *change = &TREE->ring[TREE->written & (GROUP_CHANGES - 1)];
	bool is_task = id < POLICY_TASKS;

	if (!TREE->watched)
		return 0;
	change->now_ns = now_ns();
	change->received_ns = is_task ? received_ns(id) : 0;
	change->waited_ns = is_task ? waited_ns(id) : 0;
	change->id = id;
	change->parent = parent;
	change->weight = MEMBER(id)->weight;
	change->runnable = is_task && MEMBER(id)->at;
	/* The loader sees neither the count before the change, nor the next one, in its place, before the count. */
	word_exchange(&TREE->written, TREE->written + 1);
	return 0;
}

/* --- children by order ----------------------------------------------------------------------- */

static __always_inline u32 order_of_member(struct group_member __arena *member)
{
	u32 order = ilog2(member->weight) + GROUP_ORDER_OF_ONE;

	/* As most have: tasks. */
	if (member->parts == GROUP_CPU)
		return order & 63;
	return (order + ilog2(GROUP_CPU) - ilog2(member->parts)) & 63;
}

static __always_inline void list_member(struct group_node __arena *parent, u32 id)
{
	struct group_member __arena *member = MEMBER(id);
	u32 order = order_of_member(member), second = NIL;

	if (member->fixed) {
		parent->fixed_weight += member->weight;
		parent->fixed += member->parts;
		TREE->fixed++;
		return;
	}
	if (order >= GROUP_ORDERS)
		order = GROUP_ORDERS - 1;
	if (parent->orders >> order & 1)
		second = parent->first[order];
	member->order = order;
	member->previous = NIL;
	member->next = second;
	if (second != NIL)
		MEMBER(second)->previous = id;
	parent->first[order] = id;
	parent->orders |= 1ULL << order;
}

static __always_inline void unlist_member(struct group_node __arena *parent, u32 id)
{
	struct group_member __arena *member = MEMBER(id);
	u32 order = member->order & 63, next = member->next, previous = member->previous;

	if (member->fixed) {
		parent->fixed_weight -= member->weight;
		parent->fixed -= member->parts;
		TREE->fixed--;
		return;
	}
	if (order >= GROUP_ORDERS)
		return;
	if (next != NIL)
		MEMBER(next)->previous = previous;
	if (previous != NIL)
		MEMBER(previous)->next = next;
	else if (next != NIL)
		parent->first[order] = next;
	else
		parent->orders &= ~(1ULL << order);
}

/* --- who competes ---------------------------------------------------------------------------- */

/* In the root all count for their weights, whoever else competes, where no cpus are short. */
static __always_inline void tree_changed(void)
{
	TREE->changes++;
	if (TREE->below || TREE->fixed)
		TREE->unseen = TREE->runnable;
}

static __always_inline bool is_below_root(u32 task)
{
	return MEMBER(task)->parent != GROUP_ROOT;
}

/* A member can use `more` parts of its parent's, or fewer: two's complement. */
static __always_inline void count_own_parts(u32 id, u32 more)
{
	struct group_member __arena *member = MEMBER(id);
	struct group_node __arena *parent = NODE(member->parent);

	if (member->parts) {
		unlist_member(parent, id);
		parent->competing -= member->weight;
	}
	member->parts += more;
	if (member->parts) {
		list_member(parent, id);
		parent->competing += member->weight;
	}
}

/* A member and so all above it can use `more` parts, or fewer. */
policy_fn u32 count_parts(u32 id, u32 more)
{
	u32 i;

	/* Without what it takes to begin a loop. */
	if (MEMBER(id)->parent == GROUP_ROOT) {
		count_own_parts(id, more);
		MEMBER(GROUP_MEMBER(GROUP_ROOT))->parts += more;
		return 0;
	}
	bpf_for(i, 0, GROUP_DEPTH + 2) {
		u32 parent = MEMBER(id)->parent;

		if (parent == NIL) {
			MEMBER(id)->parts += more;
			break;
		}
		count_own_parts(id, more);
		id = GROUP_MEMBER(parent & (GROUP_NODES - 1));
	}
	return 0;
}

static __always_inline void set_member_weight(u32 id, u32 weight)
{
	struct group_member __arena *member = MEMBER(id);
	struct group_node __arena *parent = NODE(member->parent);
	bool competes = member->parts && member->parent != NIL;

	if (competes) {
		unlist_member(parent, id);
		parent->competing -= member->weight;
	}
	member->weight = weight;
	if (competes) {
		list_member(parent, id);
		parent->competing += weight;
	}
	note_member(id, member->parent);
}

static __always_inline u32 scale_for(u64 weight, u32 order)
{
	u32 own = ilog2(weight | 1) + 1;

	return own >= order ? 0 : order - own;
}

/*
 * After a change of a member: true if weights must become coarser, so that its own and those of all that
 * compete in the root can be told. Then every task has to be told anew.
 */
static __always_inline bool makes_coarser(u32 id)
{
	u32 scale = TREE->scale, fits;
	u64 competing = NODE(GROUP_ROOT)->competing;

	/* As nearly always: both have digits to spare. */
	if (!scale || !(competing >> (GROUP_TOTAL_ORDER - scale) |
			MEMBER(id)->weight >> (POLICY_WEIGHT_ORDER - scale)))
		return false;
	if (MEMBER(id)->parent == GROUP_ROOT) {
		fits = scale_for(MEMBER(id)->weight, POLICY_WEIGHT_ORDER);
		if (fits < scale)
			scale = fits;
	}
	fits = scale_for(competing, GROUP_TOTAL_ORDER);
	if (fits < scale)
		scale = fits;
	if (scale == TREE->scale)
		return false;
	TREE->scale = scale;
	tree_changed();
	return true;
}

/* --- shares ---------------------------------------------------------------------------------- */

/* What a weight counts for. Where heavy siblings are capped, that may be more than 64 bits hold. */
static __always_inline u64 counts_for(u32 weight, u64 per_weight)
{
	if (per_weight > GROUP_NO_CAP / GROUP_WEIGHT_MAX && per_weight > GROUP_NO_CAP / weight)
		return GROUP_NO_CAP;
	return weight * per_weight;
}

/* What members with so many parts of cpus can use together, if a cpu is worth `unit`. */
static __always_inline u64 usable(u64 unit, u32 parts)
{
	u32 cpus = parts / GROUP_CPU;

	if (cpus && unit > GROUP_NO_CAP / cpus)
		return GROUP_NO_CAP;
	return unit * cpus + unit / GROUP_CPU * (parts % GROUP_CPU);
}

static __always_inline u64 rest_per_weight(void)
{
	return TREE->rest_weight ? TREE->rest / TREE->rest_weight : 0;
}

/*
 * Takes out the children of an order who would receive more than `unit` for each of their cpus; the
 * rest gives more to a weight each time, so that nobody who was taken out would come back.
 */
policy_fn u32 take_capped(u32 id, u64 unit)
{
	u64 per_weight = rest_per_weight();
	u32 taken = unknown_zero(per_weight), i;

	bpf_for(i, 0, GROUP_SEARCH) {
		struct group_member __arena *member;

		if (id == NIL || !TREE->patience)
			break;
		member = MEMBER(id);
		TREE->patience--;
		if (member->capped != TREE->search &&
		    counts_for(member->weight, per_weight) > usable(unit, member->parts)) {
			member->capped = TREE->search;
			TREE->rest -= usable(unit, member->parts);
			TREE->rest_weight -= member->weight;
			per_weight = rest_per_weight();
			taken++;
		}
		id = member->next;
	}
	return taken;
}

/* The capped children of a node, the heaviest orders first: how many there are more of. */
policy_fn u32 search_orders(u32 n, u64 unit)
{
	u64 orders = NODE(n)->orders;
	u32 taken = unknown_zero(orders), i;

	bpf_for(i, 0, GROUP_ORDERS) {
		u32 order;

		if (!orders)
			break;
		order = ilog2(orders);
		orders ^= 1ULL << order;
		/* Nobody of this order weighs 2^(order + 1) for each of its cpus, but of the last. */
		if (order < GROUP_ORDERS - 1 &&
		    ilog2(rest_per_weight() | 1) + 1 + order + 1 <= ilog2(unit) + GROUP_ORDER_OF_ONE)
			break;
		if (order < GROUP_ORDERS)
			taken += take_capped(NODE(n)->first[order], unit);
	}
	return taken;
}

/*
 * The children of a node share `all`, but none receives more than `unit` for each of its cpus, and tasks
 * that are not at large have what they have. Leaves what the others share who are not capped in TREE->rest,
 * and their weight in TREE->rest_weight.
 */
policy_fn u32 fill(u32 n, u64 all, u64 unit)
{
	u64 fixed = usable(unit, NODE(n)->fixed);
	u32 i;

	TREE->rest = all > fixed ? all - fixed : 0;
	TREE->rest_weight = NODE(n)->competing - NODE(n)->fixed_weight;
	TREE->search++;
	TREE->patience = GROUP_SEARCH;
	/* Within an order, somebody who came early may exceed what is left by those behind. */
	bpf_for(i, 0, POLICY_CPUS) {
		if (!search_orders(n, unit))
			break;
	}
	return 0;
}

/* a / b with as many binary digits; b is below 2^44. */
static __always_inline u64 fraction(u64 a, u64 b)
{
	u32 half = GROUP_FRACTION / 2;
	u64 rest = a % b << half;

	return (a / b << GROUP_FRACTION) + (rest / b << half) + (rest % b << half) / b;
}

static __always_inline void find_root(void)
{
	u64 weight, parts;

	fill(GROUP_ROOT, TREE->cpus << GROUP_FRACTION, 1ULL << GROUP_FRACTION);
	weight = TREE->rest_weight * GROUP_CPU;
	parts = TREE->rest / ((1ULL << GROUP_FRACTION) / GROUP_CPU);
	if (!parts || weight / parts >= 1ULL << (62 - GROUP_FRACTION))
		TREE->per_cpu = GROUP_NO_CAP;
	else
		TREE->per_cpu = fraction(weight, parts);
	NODE(GROUP_ROOT)->per_weight = NODE(GROUP_ROOT)->plain = 1ULL << GROUP_FRACTION;
}

/* What the children of a node share, from what those of its parent do. */
policy_fn u32 find_share(u32 n)
{
	struct group_node __arena *node = NODE(n), *parent;
	struct group_member __arena *member = MEMBER(GROUP_MEMBER(n & (GROUP_NODES - 1)));
	u64 counts;

	node->found = TREE->changes;
	if (member->parent == NIL) {
		find_root();
		return 0;
	}
	parent = NODE(member->parent);
	if (node->competing)
		node->plain = member->weight * parent->plain / node->competing;
	counts = counts_for(member->weight, parent->per_weight);
	node->saturated = parent->saturated || counts >= usable(TREE->per_cpu, member->parts);
	if (node->saturated)
		return 0;
	TREE->rest = counts;
	TREE->rest_weight = node->competing;
	if (counts > TREE->per_cpu || TREE->fixed)
		fill(n, counts, TREE->per_cpu);
	node->per_weight = rest_per_weight();
	return 0;
}

/* Brings the shares of a node and all above it up to date. */
policy_fn u32 refresh_shares(u32 n)
{
	u32 count = unknown_zero(n), i;

	bpf_for(i, 0, GROUP_DEPTH + 1) {
		if (n == NIL || NODE(n)->found == TREE->changes)
			break;
		TREE->old[i] = n;
		count++;
		n = MEMBER(GROUP_MEMBER(n & (GROUP_NODES - 1)))->parent;
	}
	bpf_for(i, 0, GROUP_DEPTH + 1) {
		if (!count)
			break;
		count--;
		if (count <= GROUP_DEPTH)
			find_share(TREE->old[count]);
	}
	return 0;
}

static __always_inline u32 as_weight(u64 counts)
{
	if (counts > POLICY_WEIGHT_MAX)
		return POLICY_WEIGHT_MAX;
	return counts ? counts : 1;
}

/* What a task counts for in the policy, which was told `told`. */
policy_fn u32 group_weight(u32 task, u32 told)
{
	struct group_member __arena *member = MEMBER(task);
	struct group_node __arena *parent = NODE(member->parent);
	u32 digits = GROUP_FRACTION - TREE->scale;
	u64 counts, least;

	if (member->parent == GROUP_ROOT || !member->parts)
		return as_weight((u64)member->weight << TREE->scale);
	/* Nobody competes while there is a cpu for each. */
	if (TREE->runnable <= TREE->cpus)
		return told;
	refresh_shares(member->parent);
	counts = counts_for(member->weight, parent->per_weight);
	if (!parent->saturated && counts <= TREE->per_cpu)
		return as_weight((counts + (1ULL << digits >> 1)) >> digits);
	/* Anything above c will do, so that it need not change with c. */
	least = (TREE->per_cpu >> digits) + 1;
	if (told >= least && told <= 2 * least)
		return told;
	return as_weight(least + least / 4);
}

/* What a task that is not runnable yet counts for, as its siblings do that are. */
static __always_inline u32 group_newborn_weight(u32 task)
{
	struct group_member __arena *member = MEMBER(task);
	u32 digits = GROUP_FRACTION - TREE->scale;

	if (member->parent == GROUP_ROOT || member->parts || !NODE(member->parent)->competing)
		return group_weight(task, 0);
	refresh_shares(member->parent);
	return as_weight((counts_for(member->weight, NODE(member->parent)->per_weight) +
			  (1ULL << digits >> 1)) >> digits);
}

/* What a task would count for if it and all beside and above it could use any number of cpus. */
policy_fn u32 group_plain_weight(u32 task)
{
	struct group_member __arena *member = MEMBER(task);
	u32 digits = GROUP_FRACTION - TREE->scale;

	if (member->parent == GROUP_ROOT || !member->parts)
		return as_weight((u64)member->weight << TREE->scale);
	refresh_shares(member->parent);
	return as_weight((member->weight * NODE(member->parent)->plain + (1ULL << digits >> 1)) >> digits);
}

/* --- changes --------------------------------------------------------------------------------- */

static __always_inline void group_init(u32 cpus)
{
	TREE->cpus = cpus;
	TREE->scale = GROUP_SCALE;
	TREE->changes = 1;
	TREE->free_node = NIL;
	TREE->unused = 1;
	NODE(GROUP_ROOT)->refs = 1;
	MEMBER(GROUP_MEMBER(GROUP_ROOT))->parent = NIL;
}

static __always_inline void group_set_cpus(u32 cpus)
{
	TREE->cpus = cpus;
	tree_changed();
}

/* Unless it is counted already, a task is runnable. */
policy_fn u32 group_join(u32 task)
{
	struct group_member __arena *member = MEMBER(task);

	if (member->at || member->parent == NIL)
		return 0;
	TREE->list[TREE->runnable & (POLICY_TASKS - 1)] = task;
	member->at = ++TREE->runnable;
	TREE->below += is_below_root(task);
	count_parts(task, member->fixed ?: GROUP_CPU);
	tree_changed();
	if (TREE->watched)
		note_member(task, member->parent);
	return 0;
}

policy_fn u32 group_part(u32 task)
{
	struct group_member __arena *member = MEMBER(task);
	u32 at = member->at, last;

	if (!at)
		return 0;
	last = TREE->list[--TREE->runnable & (POLICY_TASKS - 1)];
	TREE->list[(at - 1) & (POLICY_TASKS - 1)] = last;
	MEMBER(last)->at = at;
	member->at = 0;
	TREE->below -= is_below_root(task);
	count_parts(task, -member->parts);
	tree_changed();
	if (TREE->watched)
		note_member(task, member->parent);
	return 0;
}

/* A runnable task that has not been told what the last change made of it; NIL if there is none. */
static __always_inline u32 group_next_unseen(void)
{
	if (!TREE->unseen)
		return NIL;
	TREE->unseen--;
	TREE->next++;
	if (TREE->next >= TREE->runnable)
		TREE->next = 0;
	return TREE->list[TREE->next & (POLICY_TASKS - 1)];
}

/* The same unless nobody competes. */
static __always_inline u32 group_unseen(void)
{
	return TREE->runnable <= TREE->cpus ? NIL : group_next_unseen();
}

static __always_inline s64 group_debt_ns(u32 n)
{
	return NODE(n)->estate_ns < 0 ? -NODE(n)->estate_ns : 0;
}

static __always_inline void group_change_estate(u32 n, s64 by_ns)
{
	s64 debt_ns = group_debt_ns(n);

	NODE(n)->estate_ns += by_ns;
	NODE(NODE(n)->top)->owed_ns += group_debt_ns(n) - debt_ns;
}

/* Gives up one of the references of a node; it is free after the last. */
policy_fn u32 group_release(u32 n)
{
	u32 i;

	bpf_for(i, 0, GROUP_DEPTH + 1) {
		struct group_member __arena *member = MEMBER(GROUP_MEMBER(n & (GROUP_NODES - 1)));
		s64 estate_ns = NODE(n)->estate_ns;

		if (--NODE(n)->refs || n == GROUP_ROOT)
			break;
		group_change_estate(n, -estate_ns);
		NODE(n)->first[0] = TREE->free_node;
		TREE->free_node = n;
		note_member(GROUP_MEMBER(n & (GROUP_NODES - 1)), NIL);
		n = member->parent;
		group_change_estate(n, estate_ns);
	}
	return 0;
}

/* A new node with nothing to run; NIL if there can be none. */
policy_fn u32 group_add_node(u32 above, u32 weight, u64 cgroup)
{
	u32 n = TREE->free_node;
	struct group_member __arena *member;
	struct group_node __arena *node;

	if (NODE(above)->depth >= GROUP_DEPTH)
		return NIL;
	if (n != NIL)
		TREE->free_node = NODE(n)->first[0];
	else if (TREE->unused < GROUP_NODES)
		n = TREE->unused++;
	else
		return NIL;
	node = NODE(n);
	node->cgroup = cgroup;
	node->competing = node->fixed_weight = node->orders = node->found = 0;
	node->fixed = 0;
	node->estate_ns = node->owed_ns = node->late_ns = 0;
	node->burst_ns = node->forgiven_at_ns = 0;
	node->top = above == GROUP_ROOT ? n : NODE(above)->top;
	node->refs = 1;
	node->depth = NODE(above)->depth + 1;
	NODE(above)->refs++;
	member = MEMBER(GROUP_MEMBER(n & (GROUP_NODES - 1)));
	member->parent = above;
	member->weight = weight;
	member->parts = 0;
	note_member(GROUP_MEMBER(n & (GROUP_NODES - 1)), above);
	return n;
}

/* A task has so many parts of cpus that are short; none if it is at large. */
policy_fn u32 group_set_fixed(u32 task, u32 fixed)
{
	struct group_member __arena *member = MEMBER(task);
	u32 parts = member->parts;

	if (member->fixed == fixed)
		return 0;
	if (parts)
		count_parts(task, -parts);
	member->fixed = fixed;
	if (parts)
		count_parts(task, fixed ?: GROUP_CPU);
	tree_changed();
	return 0;
}

static __always_inline void group_set_node_weight(u32 n, u32 weight)
{
	set_member_weight(GROUP_MEMBER(n & (GROUP_NODES - 1)), weight);
	tree_changed();
}

static __always_inline void group_set_weight(u32 task, u32 weight)
{
	set_member_weight(task, weight);
	tree_changed();
}

/* A task, in whatever state, is in this node from now on; nowhere if that is NIL. */
policy_fn u32 group_place(u32 task, u32 n)
{
	struct group_member __arena *member = MEMBER(task);
	u32 before = member->parent, parts = member->parts;

	if (before == n)
		return 0;
	if (parts)
		count_parts(task, -parts);
	if (member->at)
		TREE->below += (n != GROUP_ROOT) - is_below_root(task);
	member->parent = n;
	if (n != NIL)
		NODE(n)->refs++;
	if (parts)
		count_parts(task, parts);
	note_member(task, n);
	if (before != NIL)
		group_release(before);
	tree_changed();
	return 0;
}

#endif

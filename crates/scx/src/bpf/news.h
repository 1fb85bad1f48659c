/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What changes seldom, and when the policy is told of it.
 *
 * Each program that calls the policy has a copy of it, thousands of instructions that the kernel verifies
 * and moves about when it loads us. So there are few of them, and the others, which the kernel calls when
 * a task comes, leaves, has another weight or another cgroup, only note that. Whoever calls the policy next
 * tells it before all else:
 *
 *   cpu 0  set_weight(a)   the tree of cgroups has it; a is in the list of news
 *   cpu 1  dispatch        a's weight is told; then the policy picks
 *
 * For the policy the change is then, and so it is in recordings. Nothing that it decides comes between.
 *
 *   a task comes       noted in its slot alone: the policy is told when it wakes
 *   it leaves          its state stays as it is, and its slot its own, until that is told; a cpu that
 *                      waits for it is woken
 *   it comes again     noted beside: it is a new one then
 *
 * A slot is in the list once, as long as it has news. All of this with the lock held.
 */
#ifndef PRORATA_NEWS_H
#define PRORATA_NEWS_H

static bool has_news(void)
{
	return shared->news != NIL || shared->news_of_all;
}

/* Of a task that the policy knows; others are told when they wake. */
static void note_news(u32 id, u32 news)
{
	struct slot __arena *slot = &slots[id];

	if (!slot->known)
		return;
	if (!slot->news) {
		slot->next_with_news = shared->news;
		shared->news = id;
	}
	slot->news |= news;
}

/* A task leaves the policy. */
static void note_leave(u32 id)
{
	if (!slots[id].known)
		slots[id].state = TASK_OUT;
	note_news(id, NEWS_LEAVES);
	slots[id].news &= ~NEWS_RETURNS;
}

/* A task is ours, and sleeps. */
static void note_return(u32 id)
{
	if (slots[id].news & NEWS_LEAVES)
		slots[id].news |= NEWS_RETURNS;
	else
		slots[id].state = TASK_BLOCKED;
}

/* Of all that are runnable; if cgroups have just come, they are counted from now on. */
static __always_inline void note_everybody(void)
{
	u32 i;

	shared->news_of_all = false;
	if (!tree->grown)
		group_grow();
	bpf_for(i, 0, MAX_TASKS) {
		if (i >= tree->runnable)
			break;
		note_news(tree->list[i], NEWS_WEIGHT);
	}
}

static __always_inline void tell_leave(struct slot __arena *slot, u32 id, u32 news)
{
	forget(slot, id);
	end_competing(id);
	if (news & NEWS_RETURNS)
		slot->state = TASK_BLOCKED;
	if (news & NEWS_ENDS)
		release_slot(id);
}

/* The policy is told of all that has changed. */
global_fn u32 tell_news(void)
{
	u32 i;

	if (shared->news_of_all)
		note_everybody();
	bpf_for(i, 0, MAX_TASKS) {
		u32 id = shared->news, news;
		struct slot __arena *slot;

		if (id == NIL)
			break;
		slot = &slots[id];
		shared->news = slot->next_with_news;
		news = slot->news;
		slot->news = 0;
		if (news & NEWS_LEAVES)
			tell_leave(slot, id, news);
		else
			tell(id);
	}
	return 0;
}

/* A task wakes for the first time since it is ours: its weight is known, and it is told. */
static __always_inline void introduce_task(struct slot __arena *slot, u32 id)
{
	u32 weight = group_weight(id, 0);

	bound_set_counts(&slot->bound, weight, weight);
	introduce(slot, id, weight);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * GDQ with locks of their own for its queues: cpus that seldom meet.
 *
 * The rules, what each lock guards and the bound are in crates/core/src/policies/gdq/distributed. When events
 * come one after the other, this file decides as that does. In short: a cpu picks from its own queue under
 * that queue's latch. At the end of a round it looks at one other queue of its group, without a latch, and
 * steals from it if it is far behind and its latch free. When its queue is empty it looks for a task in its
 * group. Once in T quanta, and when there is none, it takes the shares' latch: it tells them of the tasks
 * that have woken, blocked or changed weight here since, and does what MFQ says.
 *
 * In the kernel it has callbacks of its own, without the one lock (apart.bpf.c). What differs from the
 * contract of policy.h, beside that all of it may be called by several cpus at a time:
 *
 *   - policy_cpu() is the cpu that calls, in the policy's numbers; now_ns() is its time.
 *   - policy_kick(cpu) is called for an idle cpu that shall pick. A cpu whose pick found nothing is idle.
 *     Nobody idles, and has not been kicked, while a task waits, once all calls have returned.
 *   - policy_block and policy_remove of a waiting task return 1, and have done nothing, if it was picked
 *     meanwhile.
 *   - A task is woken, blocked or removed by one cpu at a time, and charged by one that has it.
 *   - policy_stop(task, used) charges and blocks a task that runs, so that nobody picks it in between. If it
 *     returns 1, the task was charged, and is still to be blocked.
 *   - policy_offer() is for who has left a task to wait otherwise, policy_occupy(cpu) for a cpu that is given
 *     something else to run; policy_idles() is true if some cpu is idle.
 *
 * Worked example: cpus 0 and 1 work in a group with queues 3 = { a, b, c } and 5 = { d }, both in round 1.
 * Cpu 1 runs d again and again, and each time is at the end of a round: it looks at queue 3. When its own is
 * in round 6, that is more than delta = 4 ahead; it takes b, which waits there, and runs it until b has had
 * as many rounds; then c. So the group's queues stay together, and cpu 0 has noticed nothing but that its
 * round was short.
 */
#ifndef PRORATA_GDQ_DISTRIBUTED_H
#define PRORATA_GDQ_DISTRIBUTED_H

#define POLICY_NAME "gdq-distributed"
#define POLICY_CREDIT_QUANTA 2
#define POLICY_PAYS_WHOLE 0

#include "../latch.h"
#include "../shares_state.h"
#include "../step.h"
#include "../wide.h"

#define QUEUES (3 * POLICY_CPUS + 2 * GROUPS)
#define SET_WORDS (QUEUES / 64)
/* Times that somebody else may be faster. */
#define TRIES 1024

enum gdq_state { GDQ_BLOCKED, GDQ_WAITING, GDQ_RUNNING };

/* In a task's `place`: it is in this queue; if not set, it was. */
#define QUEUED 0x80000000u

struct policy_task {
	/* Under its queue's latch: nv = whole + part/counts_parts(counts) rounds. */
	s64 whole;
	u64 part;
	u32 next, prev;
	/* Its cpu's: what it was charged with and did not use, below a quantum. */
	u64 credit_ns;
	/* Words: what it counts for in its queue, and since the shares were written last. */
	u64 counts, told;
	/* Words: where it is, its state, and its weight as it was said last. */
	u32 place;
	u32 state;
	u32 wanted_weight;
	/* The shares are to be told of it, by the cpu that has it in its list. */
	u32 noted, noted_next;
	/* How many were recorded (step.h). */
	u32 steps;
	/* The shares', on a cache line of their own: its weight there, and the ring of its order. */
	u32 weight __attribute__((aligned(64)));
	u32 class_next, class_prev;
	bool is_shared;
} __attribute__((aligned(64)));

/* Under its latch; group, nv, tasks and active are words at which others look. */
struct queue {
	u32 latch;
	/* The group, or NIL if it is closed. */
	u32 group;
	/* The number of the round. */
	s64 nv;
	/* The task that runs or ran last; NIL if the queue is empty. */
	u32 current;
	u32 tasks;
	/* A cpu works on it; else it is stalled. */
	u32 active;
	u32 steps;
} __attribute__((aligned(64)));

/* The queues of a group, under its latch; others look at the words of the set. */
struct opening {
	u32 latch;
	/* The words of the set that are not 0. */
	u32 words;
	/* Where its queues resume after it had none. */
	s64 nv;
	u64 set[SET_WORDS];
	u32 steps;
} __attribute__((aligned(64)));

/* The account of a group. The shares'. */
struct group {
	GROUP_ACCOUNT
};

/* All but `idle`: that cpu's. */
struct gdq_cpu {
	/* The queue that it works on, or NIL. */
	u32 queue;
	bool dedicated;
	/* Something waits that an idle cpu could run. */
	bool offers;
	/* The queue at which it looks next in turn; the one that gave it a task last, or NIL; if it was its last. */
	u32 look_next, victim;
	bool drained;
	/* Since when it has been with the group, or when it looked around last. */
	u64 since_ns;
	u64 look_ns;
	/* Tasks of which it is to tell the shares. */
	u32 noted_first, noted_last;
	/* A word. */
	u32 idle __attribute__((aligned(64)));
} __attribute__((aligned(64)));

struct policy_state {
	/* Only `readjustments`. */
	struct policy_counts counts;
	u64 interval_ns;
	s64 delta;
	u32 cpus;
	/* A task woke in a group without a cpu: the next competing cpu that picks looks around. */
	u32 is_wanted;
	/* Groups that have cpus. */
	u32 served;
	/* Cpus that idle. */
	u32 idle_cpus;
	/* Queues that are closed. */
	u32 pool_latch __attribute__((aligned(64)));
	u32 pool_count;
	u64 pool[SET_WORDS];
	u32 shares_latch __attribute__((aligned(64)));
	/* Groups in which no queue was to be had. */
	u32 tried;
	SHARES_ACCOUNTS
	SHARES_CLASSES
	struct group groups[GROUPS];
	struct opening openings[GROUPS];
	struct gdq_cpu cpu[POLICY_CPUS];
	struct queue queues[QUEUES];
	/* With the shares. */
	u32 shares_steps;
};

POLICY_MEMORY

#define QUEUE(id) (&STATE->queues[(id) % QUEUES])
#define OPENING(k) (&STATE->openings[(k) & (GROUPS - 1)])
#define CPU(index) (&STATE->cpu[(index) & (POLICY_CPUS - 1)])

#include "../shares.h"

/* --- recording (step.h) ---------------------------------------------------------------------- */

#ifndef RECORDS_STEPS
#define RECORDS_STEPS false
#define step_begin(cpu) ((struct step __arena *)0)
#define step_end()
#endif
#define OF_QUEUE(id) (LATCH_QUEUE | (id) % QUEUES)
#define OF_GROUP(k) (LATCH_GROUP | ((k) & (GROUPS - 1)))
#define OF_SHARES LATCH_SHARES

/* The latch is held. How many steps it had before. */
static __always_inline u32 count_of_latch(u32 latch)
{
	switch (latch & LATCH_KIND) {
	case LATCH_QUEUE:
		return QUEUE(latch & ~LATCH_KIND)->steps++;
	case LATCH_GROUP:
		return OPENING(latch)->steps++;
	case LATCH_SHARES:
		return STATE->shares_steps++;
	default:
		return 0;
	}
}

/*
 * With both latches held, of which there may be none. A function of its own, which has next to nothing on the
 * stack: those who record have no room left there.
 */
policy_fn u32 write_step(u64 what, u64 latches, u64 value, u64 extra)
{
	u32 cpu = policy_cpu(), id = what;
	struct step __arena *step;

	if (cpu == NIL)
		return 0;
	step = step_begin(cpu);
	step->value = value;
	step->extra = extra;
	step->task = id;
	step->kind = what >> 32;
	step->latches[0] = latches;
	step->latches[1] = latches >> 16;
	step->cpu = cpu;
	step->count = id == NIL ? 0 : __atomic_fetch_add(&TASK(id)->steps, 1, __ATOMIC_SEQ_CST);
	step->latch_counts[0] = count_of_latch(step->latches[0]);
	step->latch_counts[1] = count_of_latch(step->latches[1]);
	step->now_ns = now_ns();
	step_end();
	return 0;
}

static __always_inline void record_step(u32 kind, u32 id, u32 a, u32 b, u64 value, u64 extra)
{
	if (RECORDS_STEPS)
		write_step((u64)kind << 32 | id, a | b << 16, value, extra);
}

static __always_inline bool may_serve(u32 k)
{
	return !(STATE->tried >> k & 1);
}

/* --- what tasks count for, in one word ------------------------------------------------------- */

static __always_inline u64 counts_of(u64 parts, u64 of)
{
	return parts << 16 | of;
}

static __always_inline u64 counts_parts(u64 counts)
{
	return counts >> 16;
}

static __always_inline u64 counts_divisor(u64 counts)
{
	return counts & 0xffff;
}

static __always_inline u32 group_of_counts(u64 counts)
{
	return order_of(counts_parts(counts) / counts_divisor(counts));
}

/* --- sets of queues -------------------------------------------------------------------------- */

/* The first queue of a group from `start` on; NIL if there is none. */
policy_fn u32 next_queue(u32 k, u32 start)
{
	struct opening __arena *opening = OPENING(k);
	u64 mask = ~0ULL << (start & 63);
	u32 word = start / 64, words, i;

	if (word >= SET_WORDS)
		return NIL;
	words = word_look(&opening->words) & ~0u << word;
	/* Nearly always all are in one word. */
	if (words == 1u << word) {
		u64 bits = word_look(&opening->set[word]) & mask;

		return bits ? word * 64 + lowest_bit(bits) : NIL;
	}
	bpf_for(i, 0, SET_WORDS) {
		u32 next = lowest_bit(words);
		u64 bits;

		if (!words)
			break;
		bits = word_look(&opening->set[next % SET_WORDS]);
		if (next == word)
			bits &= mask;
		if (bits)
			return next * 64 + lowest_bit(bits);
		words &= words - 1;
	}
	return NIL;
}

/* True if a group has no other queue. */
static __always_inline bool is_alone(u32 k, u32 id)
{
	struct opening __arena *opening = OPENING(k);
	u32 word = (id / 64) % SET_WORDS;

	return word_look(&opening->words) == 1u << word &&
	       word_look(&opening->set[word]) == 1ULL << (id & 63);
}

/* A stalled queue can give all its tasks away, an active one all but the one that runs. */
static __always_inline bool can_give(struct queue __arena *queue)
{
	return word_look(&queue->tasks) > word_look(&queue->active);
}

enum wanted {
	/* A stalled queue that holds a task. */
	STALLED,
	/* One that can give a task away. */
	DONOR,
};

/* Of the wanted queues of a group that of least nv, the first of them; NIL if there is none. */
policy_fn u32 find_queue(u32 k, u32 wanted)
{
	u32 best = NIL, id = next_queue(k, 0), i;
	s64 least = 0;

	bpf_for(i, 0, QUEUES) {
		struct queue __arena *queue;
		s64 nv;

		if (id == NIL)
			break;
		queue = QUEUE(id);
		nv = word_look(&queue->nv);
		if (can_give(queue) && (wanted == DONOR || !word_look(&queue->active)) &&
		    (best == NIL || nv < least)) {
			best = id;
			least = nv;
		}
		id = next_queue(k, id + 1);
	}
	return best;
}

/* A closed queue that is to be opened, if more than `left` of them remain; NIL if not. */
static __always_inline u32 take_closed(u32 left)
{
	u32 id = NIL, word;

	latch_take(&STATE->pool_latch);
	if (STATE->pool_count > left) {
		bpf_for(word, 0, SET_WORDS) {
			u64 bits = STATE->pool[word];

			if (!bits)
				continue;
			id = word * 64 + lowest_bit(bits);
			STATE->pool[word] = bits & (bits - 1);
			STATE->pool_count--;
			break;
		}
	}
	latch_release(&STATE->pool_latch);
	return id;
}

static __always_inline void put_closed(u32 id)
{
	latch_take(&STATE->pool_latch);
	STATE->pool[(id / 64) % SET_WORDS] |= 1ULL << (id & 63);
	STATE->pool_count++;
	latch_release(&STATE->pool_latch);
}

static __always_inline void flip_in_set(struct opening __arena *opening, u32 id)
{
	u32 word = (id / 64) % SET_WORDS;
	u64 bits = opening->set[word] ^ 1ULL << (id & 63);
	u32 others = opening->words & ~(1u << word);

	word_put(&opening->set[word], bits);
	word_put(&opening->words, bits ? others | 1u << word : others);
}

/* A new queue of a group, with or without a cpu; NIL if there are too many. */
policy_fn u32 open_queue(u32 k, u32 active)
{
	struct opening __arena *opening = OPENING(k);
	/* Tasks that wake find one for each group. */
	u32 id = take_closed(active ? GROUPS : 0);
	struct queue __arena *queue;

	if (id == NIL)
		return NIL;
	queue = QUEUE(id);
	latch_take(&opening->latch);
	latch_take(&queue->latch);
	word_put(&queue->group, k);
	word_put(&queue->nv, opening->nv);
	queue->current = NIL;
	word_put(&queue->tasks, 0);
	word_put(&queue->active, active);
	record_step(STEP_OPEN, NIL, OF_QUEUE(id), OF_GROUP(k), active, 0);
	latch_release(&queue->latch);
	flip_in_set(opening, id);
	latch_release(&opening->latch);
	return id;
}

/* Closes a queue if it is empty and stalled. */
policy_fn u32 close_if_done(u32 id)
{
	struct queue __arena *queue = QUEUE(id);
	u32 k = word_look(&queue->group);
	struct opening __arena *opening = OPENING(k);
	bool done;

	if (k == NIL)
		return 0;
	latch_take(&opening->latch);
	latch_take(&queue->latch);
	done = queue->group == k && !queue->tasks && !queue->active;
	if (done) {
		if (opening->nv < queue->nv)
			opening->nv = queue->nv;
		word_put(&queue->group, NIL);
		record_step(STEP_CLOSE, NIL, OF_QUEUE(id), OF_GROUP(k), 0, 0);
		/* Whoever finds it closed looks for another, and must not find this one again. */
		flip_in_set(opening, id);
	}
	latch_release(&queue->latch);
	latch_release(&opening->latch);
	if (done)
		put_closed(id);
	return 0;
}

/* --- cpus that idle -------------------------------------------------------------------------- */

/* True if the cpu was idle; now it is not. */
static __always_inline bool end_idling(u32 index)
{
	if (!word_look(&CPU(index)->idle) || !word_exchange(&CPU(index)->idle, 0))
		return false;
	__atomic_fetch_add(&STATE->idle_cpus, -1, __ATOMIC_SEQ_CST);
	return true;
}

/* Some task waits: an idle cpu, if there is one, shall pick. */
policy_fn u32 offer(void)
{
	u32 i;

	if (!word_look(&STATE->idle_cpus))
		return 0;
	bpf_for(i, 0, STATE->cpus) {
		if (!end_idling(i))
			continue;
		policy_kick(i);
		break;
	}
	return 0;
}

/* --- tasks in queues. With the queue's latch held -------------------------------------------- */

/* Puts a task before another, or alone. */
static __always_inline void put(u32 queue_id, u32 id, u32 before)
{
	struct queue __arena *queue = QUEUE(queue_id);
	struct policy_task __arena *task = TASK(id);

	if (queue->current == NIL) {
		queue->current = task->next = task->prev = id;
	} else {
		task->next = before;
		task->prev = TASK(before)->prev;
		TASK(task->prev)->next = id;
		TASK(before)->prev = id;
	}
	word_put(&queue->tasks, queue->tasks + 1);
	word_put(&task->place, queue_id | QUEUED);
}

static __always_inline void take(struct queue __arena *queue, u32 id)
{
	struct policy_task __arena *task = TASK(id);
	u32 prev = task->prev;

	TASK(prev)->next = task->next;
	TASK(task->next)->prev = prev;
	word_put(&queue->tasks, queue->tasks - 1);
	/* The task before has had its turn: the next pick goes on from there. */
	if (queue->current == id)
		queue->current = queue->tasks ? prev : NIL;
	word_put(&task->place, word_look(&task->place) & ~QUEUED);
}

/* The task that a queue can give away. */
static __always_inline u32 spare(struct queue __arena *queue)
{
	return queue->active ? TASK(queue->current)->next : queue->current;
}

/* What a quantum adds to the nv of a task, in parts of what it counts for. */
static __always_inline u64 step_of(struct policy_task __arena *task, u32 k)
{
	return counts_divisor(task->counts) << (k & (GROUPS - 1));
}

/* It counts for something else, in the same group. */
static __always_inline void reload(struct policy_task __arena *task, u64 counts)
{
	u64 now = counts_parts(counts);
	u64 part = proportion(task->part, now, counts_parts(task->counts));

	task->part = part < now ? part : now - 1;
	word_put(&task->counts, counts);
}

/* --- tasks among queues ---------------------------------------------------------------------- */

/* What is left for the next attempt. */
#define AGAIN (NIL - 1)
/* Of its group none is open. */
#define NO_QUEUE (NIL - 2)

/* The queue in which a task is, with its latch held; NIL if it is in none; AGAIN if a thief was faster. */
static __always_inline u32 try_queue_of(u32 id)
{
	u32 place = word_look(&TASK(id)->place), queue = place & ~QUEUED;

	if (!(place & QUEUED) || place == NIL)
		return NIL;
	latch_take(&QUEUE(queue)->latch);
	if (word_look(&TASK(id)->place) == place)
		return queue;
	latch_release(&QUEUE(queue)->latch);
	return AGAIN;
}

/* The same, not AGAIN. */
policy_fn u32 lock_queue_of(u32 id)
{
	u32 queue = try_queue_of(id), i;

	if (queue != AGAIN)
		return queue;
	bpf_for(i, 0, TRIES) {
		queue = try_queue_of(id);
		if (queue != AGAIN)
			return queue;
	}
	policy_assert(false);
	return NIL;
}

/* Where a task of group k goes: its last queue, this cpu's, the group's first; NIL if there is none. */
static __always_inline u32 queue_for_task(u32 id, u32 k)
{
	u32 queue = word_look(&TASK(id)->place);

	if (queue != NIL && word_look(&QUEUE(queue)->group) == k)
		return queue;
	queue = CPU(policy_cpu())->queue;
	if (queue != NIL && word_look(&QUEUE(queue)->group) == k)
		return queue;
	return next_queue(k, 0);
}

/* The same as `place`, but AGAIN if the queue that was found for it was closed meanwhile. */
static __always_inline u32 try_place(u32 id, u32 to_come)
{
	struct policy_task __arena *task = TASK(id);
	u64 told = word_look(&task->told);
	u32 k = group_of_counts(told), queue_id = queue_for_task(id, k);
	struct queue __arena *queue = QUEUE(queue_id);
	bool stalls;

	if (queue_id == NIL)
		return NO_QUEUE;
	latch_take(&queue->latch);
	if (queue->group != k) {
		latch_release(&queue->latch);
		return AGAIN;
	}
	word_put(&task->counts, told);
	task->whole = queue->nv - (to_come || !queue->tasks);
	task->part = 0;
	put(queue_id, id, queue->current);
	record_step(STEP_PLACE, id, OF_QUEUE(queue_id), 0, told, to_come);
	stalls = !queue->active;
	latch_release(&queue->latch);
	return stalls;
}

/*
 * Queues a waiting task; its turn of this round is to come, or it has had it. Returns whether it stalls, or
 * NO_QUEUE. (Whoever calls opens one then: there are as many functions in each other as there may be.)
 */
policy_fn u32 place(u32 id, u32 to_come)
{
	u32 stalls = try_place(id, to_come), i;

	if (stalls != AGAIN)
		return stalls;
	bpf_for(i, 0, TRIES) {
		stalls = try_place(id, to_come);
		if (stalls != AGAIN)
			return stalls;
	}
	policy_assert(false);
	return 0;
}

/* A queue opens for a task, which waits in none. */
static __always_inline void open_for(u32 id)
{
	policy_assert(open_queue(group_of_counts(word_look(&TASK(id)->told)), false) != NIL);
}

/* In place of a queue that a task has left: it stays. */
#define STAYS (~0ULL)

/*
 * A task leaves the queue where it does not belong any more by what it was told. Returns twice the queue, and
 * one more if the task's turn of this round is to come; STAYS if it need not go, or runs.
 */
policy_fn u64 move_out(u32 id)
{
	struct policy_task __arena *task = TASK(id);
	u32 queue_id = lock_queue_of(id);
	struct queue __arena *queue = QUEUE(queue_id);
	u64 told = word_look(&task->told), left = STAYS;

	if (queue_id == NIL)
		return STAYS;
	if (queue->group == group_of_counts(told)) {
		reload(task, told);
		record_step(STEP_RECOUNT, id, OF_QUEUE(queue_id), 0, told, 0);
	} else if (word_replace(&task->state, GDQ_WAITING, GDQ_WAITING)) {
		/* A barrier, that was: its cpu has written to it before it said that it waits. */
		left = 2 * queue_id + (task->whole < queue->nv);
		take(queue, id);
		record_step(STEP_TAKE, id, OF_QUEUE(queue_id), 0, told, 0);
	}
	latch_release(&queue->latch);
	return left;
}

/* A task goes where it belongs by what it was told. If it runs, that has to wait. */
policy_fn u32 heed(u32 id)
{
	u64 left = STAYS, told;
	u32 i;

	bpf_for(i, 0, TRIES) {
		if (left == STAYS) {
			left = move_out(id);
			if (left == STAYS)
				return 0;
			close_if_done(left / 2);
		}
		told = word_look(&TASK(id)->told);
		if (place(id, left & 1) == NO_QUEUE) {
			open_for(id);
			continue;
		}
		left = STAYS;
		offer();
		/* It may have been told something else before it was there to be found. */
		if (word_look(&TASK(id)->told) == told)
			return 0;
	}
	policy_assert(false);
	return 0;
}

/* Somebody may have told it while it was not there to be found, or ran. */
static __always_inline void heed_if_told(u32 id)
{
	if (word_look(&TASK(id)->counts) != word_look(&TASK(id)->told))
		heed(id);
}

/* --- the shares. With their latch held ------------------------------------------------------- */

static __always_inline void tell(u32 id, u64 counts)
{
	word_put(&TASK(id)->told, counts);
	record_step(STEP_TOLD, id, OF_SHARES, 0, counts, 0);
	heed(id);
}

static __always_inline void tell_share(u32 id)
{
	bool capped = above_cap(id);

	tell(id, counts_of(capped ? STATE->cap_feasible : TASK(id)->weight,
			   capped ? STATE->cap_cpus : 1));
}

policy_fn u32 tell_changed(void)
{
	u32 i;

	account_changed();
	bpf_for(i, 0, STATE->changed_count)
		tell_share(STATE->changed[i & (CHANGED - 1)].task);
	return 0;
}

/* Tells the shares how a task is now. True if that is news. */
static __always_inline bool tell_of(u32 id)
{
	struct policy_task __arena *task = TASK(id);
	u32 weight = word_look(&task->wanted_weight);
	bool runnable = word_look(&task->state) != GDQ_BLOCKED, was_shared = task->is_shared;

	record_step(STEP_TELL, id, OF_SHARES, 0, weight, runnable);
	if (was_shared && runnable && task->weight == weight)
		return false;
	if (was_shared) {
		account_now(id, -1);
		leave_class(id);
		if (above_cap(id))
			forget_capped(id);
		find_changed(NIL);
		tell_changed();
	}
	tell(id, counts_of(weight, 1));
	task->weight = weight;
	if (runnable) {
		enter_class(id);
		find_changed(id);
		account_now(id, 1);
		tell_changed();
		tell_share(id);
	}
	task->is_shared = runnable;
	return was_shared || runnable;
}

/* Tells the shares what this cpu has noted. */
policy_fn u32 tell_shares(u32 index)
{
	struct gdq_cpu __arena *cpu = CPU(index);
	u32 changed = 0, i;

	bpf_for(i, 0, POLICY_TASKS) {
		u32 id = cpu->noted_first;

		if (id == NIL)
			break;
		cpu->noted_first = TASK(id)->noted_next;
		/* Whoever changes it from here on notes it again. */
		word_exchange(&TASK(id)->noted, 0);
		changed |= tell_of(id);
	}
	if (changed) {
		record_step(STEP_SETTLE, NIL, OF_SHARES, 0, 0, 0);
		settle();
	}
	return 0;
}

/* The shares are to be told of a task. */
static __always_inline void note_task(u32 id)
{
	struct gdq_cpu __arena *cpu = CPU(policy_cpu());

	if (word_exchange(&TASK(id)->noted, 1))
		return;
	TASK(id)->noted_next = NIL;
	if (cpu->noted_first == NIL)
		cpu->noted_first = id;
	else
		TASK(cpu->noted_last)->noted_next = id;
	cpu->noted_last = id;
}

static __always_inline void note_served(u32 k)
{
	u32 bit = 1u << (k & (GROUPS - 1)), others = word_look(&STATE->served) & ~bit;

	word_put(&STATE->served, GROUP(k)->cpus ? others | bit : others);
}

/* The cpu comes to a group. */
static __always_inline void arrive(struct gdq_cpu __arena *cpu, u32 k)
{
	GROUP(k)->cpus++;
	cpu->dedicated = dedicate(GROUP(k));
	record_step(STEP_ARRIVE, NIL, OF_SHARES, 0, k, 0);
	note_served(k);
}

static __always_inline void leave_group(struct gdq_cpu __arena *cpu, u32 k)
{
	depart(GROUP(k), cpu->dedicated);
	note_served(k);
}

/* --- queues for cpus ------------------------------------------------------------------------- */

/* The latches of two queues. */
static __always_inline void take_both(u32 a, u32 b)
{
	policy_assert(a != b);
	latch_take(&QUEUE(a < b ? a : b)->latch);
	latch_take(&QUEUE(a < b ? b : a)->latch);
}

/* A task of a queue of group k comes to one of this cpu, which is empty. False if there is none. */
policy_fn u32 take_over(u32 index, u32 to_id, u32 from_id)
{
	struct gdq_cpu __arena *cpu = CPU(index);
	struct queue __arena *to = QUEUE(to_id);
	struct queue __arena *from = QUEUE(from_id);
	bool done = false;
	u32 task;

	take_both(to_id, from_id);
	if (to->tasks) {
		/* Somebody has woken there. */
		done = true;
	} else if (from->group == to->group && can_give(from)) {
		task = spare(from);
		take(from, task);
		word_put(&to->nv, from->nv);
		put(to_id, task, to->current);
		record_step(STEP_REFILL, task, OF_QUEUE(to_id), OF_QUEUE(from_id), 0, 0);
		cpu->victim = from_id;
		cpu->offers |= can_give(from);
		done = true;
	}
	latch_release(&from->latch);
	latch_release(&to->latch);
	return done;
}

/* The same; the queue that it came from closes if that was all. */
static __always_inline bool refill(u32 index, u32 to_id, u32 from_id)
{
	bool done = take_over(index, to_id, from_id);

	if (!word_look(&QUEUE(from_id)->tasks))
		close_if_done(from_id);
	return done;
}

/* The cpu works on a queue from now on. */
static __always_inline void adopt(struct gdq_cpu __arena *cpu, u32 queue)
{
	cpu->queue = queue;
	/* Cpus shall not all look at one queue. */
	cpu->look_next = queue + 1;
	cpu->victim = NIL;
}

/* The cpu takes a stalled queue of group k. False if somebody else has. */
static __always_inline bool claim(struct gdq_cpu __arena *cpu, u32 id, u32 k)
{
	struct queue __arena *queue = QUEUE(id);
	bool free;

	latch_take(&queue->latch);
	free = queue->group == k && !queue->active && queue->tasks;
	if (free) {
		word_put(&queue->active, 1);
		record_step(STEP_CLAIM, NIL, OF_QUEUE(id), 0, 0, 0);
	}
	latch_release(&queue->latch);
	if (free)
		adopt(cpu, id);
	return free;
}

/* The cpu works on this queue no more. */
policy_fn u32 abandon(u32 index, u32 id)
{
	struct queue __arena *queue = QUEUE(id);
	bool done;

	latch_take(&queue->latch);
	word_put(&queue->active, 0);
	record_step(STEP_ABANDON, NIL, OF_QUEUE(id), 0, 0, 0);
	done = !queue->tasks;
	latch_release(&queue->latch);
	if (done)
		close_if_done(id);
	else
		CPU(index)->offers = true;
	return 0;
}

/*
 * The cpu takes a queue of group k: a stalled one, or a new one with a task of the queue that is furthest
 * behind. False if there is none. The queue that it had is abandoned.
 */
policy_fn u32 adopt_in(u32 index, u32 k)
{
	struct gdq_cpu __arena *cpu = CPU(index);
	u32 old = cpu->queue, i;

	bpf_for(i, 0, TRIES) {
		u32 id = find_queue(k, STALLED), donor;

		if (id != NIL && !claim(cpu, id, k))
			continue;
		if (id == NIL) {
			donor = find_queue(k, DONOR);
			if (donor == NIL)
				return false;
			id = open_queue(k, true);
			if (id == NIL)
				return false;
			adopt(cpu, id);
			if (!refill(index, id, donor)) {
				cpu->queue = old;
				abandon(index, id);
				continue;
			}
		}
		if (old != NIL)
			abandon(index, old);
		return true;
	}
	return false;
}

/* The cpu goes to the group that needs it most, if there is one beside `own`. The shares are latched. */
policy_fn u32 follow_need(u32 index, u32 own)
{
	u32 i, k;

	STATE->tried = 0;
	bpf_for(i, 0, GROUPS) {
		k = needy_group();
		if (k == NIL || k == own)
			return false;
		if (adopt_in(index, k)) {
			arrive(CPU(index), k);
			return true;
		}
		STATE->tried |= 1u << (k & (GROUPS - 1));
		record_step(STEP_TRIED, NIL, OF_SHARES, 0, k, 0);
	}
	return false;
}

/* MFQ: a cpu whose time has come tells what it has noted, and finds out who needs it more. */
static __always_inline void look_around(u32 index)
{
	struct gdq_cpu __arena *cpu = CPU(index);
	bool is_time = now_ns() >= cpu->look_ns;
	u64 elapsed_ns;
	u32 k;

	if (is_time)
		cpu->look_ns += ((now_ns() - cpu->look_ns) / STATE->interval_ns + 1) *
				STATE->interval_ns;
	else if (!word_look(&STATE->is_wanted) || cpu->queue == NIL || cpu->dedicated)
		return;
	if (word_look(&STATE->is_wanted))
		word_put(&STATE->is_wanted, 0);
	latch_take(&STATE->shares_latch);
	record_step(STEP_LOOK, NIL, OF_SHARES, 0, is_time, 0);
	tell_shares(index);
	if (cpu->queue == NIL)
		goto out;
	elapsed_ns = now_ns() - cpu->since_ns;
	cpu->since_ns = now_ns();
	k = word_look(&QUEUE(cpu->queue)->group);
	cpu->dedicated = pass(k, cpu->dedicated, cpu->dedicated ? 0 : elapsed_ns);
	record_step(STEP_PASS, NIL, OF_SHARES, 0, k, cpu->dedicated);
	if (cpu->dedicated)
		goto out;
	leave_group(cpu, k);
	if (!follow_need(index, k))
		arrive(cpu, k);
out:
	latch_release(&STATE->shares_latch);
}

/* --- decisions ------------------------------------------------------------------------------- */

/* The next round begins; the cpu has looked at a queue, or NIL. */
static __always_inline void begin_round(u32 queue_id, u32 looked)
{
	struct queue __arena *queue = QUEUE(queue_id);

	word_put(&queue->nv, queue->nv + 1);
	record_step(STEP_ROUND, NIL, OF_QUEUE(queue_id), 0, looked, 0);
}

/*
 * A queue at the end of a round, which `id` would begin anew: looks at one other queue of the group. If that
 * is far behind and its latch is free, a task of it runs first, and it is looked at again next time.
 */
static __always_inline u32 end_round(struct gdq_cpu __arena *cpu, u32 queue_id, u32 id)
{
	struct queue __arena *queue = QUEUE(queue_id);
	struct queue __arena *from;
	u32 donor = cpu->victim, stolen;

	cpu->victim = NIL;
	if (donor == NIL && is_alone(queue->group, queue_id)) {
		cpu->look_next = queue_id + 1;
		begin_round(queue_id, NIL);
		return id;
	}
	if (donor == NIL) {
		donor = next_queue(queue->group, cpu->look_next);
		if (donor == NIL)
			donor = next_queue(queue->group, 0);
		cpu->look_next = donor + 1;
	}
	from = QUEUE(donor);
	if (donor == queue_id || queue->nv <= word_look(&from->nv) + STATE->delta ||
	    word_look(&from->group) != queue->group || !can_give(from) || !latch_try(&from->latch)) {
		begin_round(queue_id, donor);
		return id;
	}
	if (queue->nv <= from->nv + STATE->delta || from->group != queue->group || !can_give(from)) {
		latch_release(&from->latch);
		begin_round(queue_id, donor);
		return id;
	}
	cpu->victim = donor;
	stolen = spare(from);
	take(from, stolen);
	cpu->drained = !from->tasks;
	put(queue_id, stolen, id);
	record_step(STEP_STEAL, stolen, OF_QUEUE(queue_id), OF_QUEUE(donor), 0, 0);
	latch_release(&from->latch);
	return stolen;
}

/* The next task of the cpu's queue, which is charged a quantum; NIL if there is none. */
policy_fn u32 pick_own(u32 index)
{
	struct gdq_cpu __arena *cpu = CPU(index);
	struct queue __arena *queue = QUEUE(cpu->queue);
	struct policy_task __arena *task;
	u32 id;

	if (cpu->queue == NIL)
		return NIL;
	latch_take(&queue->latch);
	id = queue->current;
	if (id == NIL)
		goto out;
	if (TASK(id)->whole >= queue->nv) {
		id = TASK(id)->next;
		if (TASK(id)->whole >= queue->nv)
			id = end_round(cpu, cpu->queue, id);
	}
	queue->current = id;
	task = TASK(id);
	task->part += step_of(task, queue->group);
	if (task->part >= counts_parts(task->counts)) {
		task->part -= counts_parts(task->counts);
		task->whole++;
	}
	record_step(STEP_PICK, id, OF_QUEUE(cpu->queue), 0, 0, 0);
	word_put(&task->state, GDQ_RUNNING);
	cpu->offers |= queue->tasks > 1;
out:
	latch_release(&queue->latch);
	if (cpu->drained) {
		cpu->drained = false;
		close_if_done(cpu->victim);
	}
	return id;
}

/* The cpu, whose queue is empty, leaves its group for good. */
static __always_inline void leave_queue(struct gdq_cpu __arena *cpu, u32 index)
{
	u32 k = word_look(&QUEUE(cpu->queue)->group);

	record_step(STEP_LEAVE, NIL, OF_SHARES, 0, k, 0);
	abandon(index, cpu->queue);
	cpu->queue = NIL;
	if (!cpu->dedicated)
		charge_group(k, now_ns() - cpu->since_ns);
	leave_group(cpu, k);
}

/* A queue of any group that has one for the cpu. The shares are latched. */
policy_fn u32 adopt_anywhere(u32 index)
{
	u32 k;

	bpf_for(k, 0, GROUPS) {
		if (adopt_in(index, k)) {
			arrive(CPU(index), k);
			return true;
		}
	}
	return false;
}

/* A task of its group for a cpu whose queue is empty. False if none is to be had, or it has no queue. */
policy_fn u32 refill_own(u32 index)
{
	struct gdq_cpu __arena *cpu = CPU(index);
	u32 k = word_look(&QUEUE(cpu->queue)->group), i;

	if (cpu->queue == NIL)
		return false;
	if (is_alone(k, cpu->queue))
		return word_look(&QUEUE(cpu->queue)->tasks) != 0;
	bpf_for(i, 0, TRIES) {
		u32 id = find_queue(k, STALLED), old = cpu->queue;

		if (word_look(&QUEUE(old)->tasks))
			return true;
		if (id != NIL && claim(cpu, id, k)) {
			abandon(index, old);
			return true;
		}
		if (id != NIL)
			continue;
		id = find_queue(k, DONOR);
		if (id == NIL)
			return false;
		/* Tasks have woken there meanwhile. */
		if (id == old)
			return true;
		if (refill(index, old, id))
			return true;
	}
	return false;
}

/* A task for a cpu that has none in its queue, or no queue; NIL if none waits anywhere. */
static __always_inline u32 find_work(u32 index)
{
	struct gdq_cpu __arena *cpu = CPU(index);
	u32 id, i;
	bool found;

	bpf_for(i, 0, TRIES) {
		if (refill_own(index)) {
			id = pick_own(index);
			if (id != NIL)
				return id;
			continue;
		}
		latch_take(&STATE->shares_latch);
		tell_shares(index);
		found = refill_own(index);
		if (!found) {
			if (cpu->queue != NIL)
				leave_queue(cpu, index);
			record_step(STEP_SEEK, NIL, OF_SHARES, 0, 0, 0);
			found = follow_need(index, NIL) || adopt_anywhere(index);
			cpu->since_ns = now_ns();
		}
		latch_release(&STATE->shares_latch);
		if (!found)
			return NIL;
		id = pick_own(index);
		if (id != NIL)
			return id;
		/* Somebody else was faster. */
	}
	policy_assert(false);
	return NIL;
}

/*
 * The same; and once more for a cpu that is about to idle: whoever leaves a task to wait from then on sees
 * that it does.
 */
policy_fn u32 work_or_idle(u32 index)
{
	u32 attempt, id = NIL;

	bpf_for(attempt, 0, 2) {
		if (attempt) {
			word_exchange(&CPU(index)->idle, 1);
			__atomic_fetch_add(&STATE->idle_cpus, 1, __ATOMIC_SEQ_CST);
		}
		id = find_work(index);
		if (id != NIL)
			break;
	}
	/* If it was kicked, it picks once more, in vain. */
	if (id != NIL)
		end_idling(index);
	return id;
}

/* --- the contract ---------------------------------------------------------------------------- */

policy_fn u32 policy_pick(u32 index)
{
	struct gdq_cpu __arena *cpu = CPU(index);
	u32 id;

	end_idling(index);
	look_around(index);
	id = pick_own(index);
	if (id == NIL)
		id = work_or_idle(index);
	if (id == NIL)
		record_step(STEP_IDLE, NIL, 0, 0, 0, 0);
	if (cpu->offers) {
		cpu->offers = false;
		offer();
	}
	return id;
}

/* Some task may wait that no cpu was kicked for, or in vain. */
policy_fn u32 policy_offer(void)
{
	return offer();
}

policy_fn u32 policy_idles(void)
{
	return word_look(&STATE->idle_cpus) > 0;
}

/* A cpu has something else to run: it does not idle, or was kicked in vain. */
policy_fn u32 policy_occupy(u32 index)
{
	return end_idling(index) ? 0 : offer();
}

policy_fn u32 policy_init(u32 cpus)
{
	u32 i;

	STATE->cpus = cpus;
	STATE->interval_ns = quantum_ns() * policy_option(GDQ_T);
	STATE->delta = policy_option(GDQ_DELTA);
	STATE->cap_feasible = CAP_NONE;
	STATE->cap_cpus = 1;
	STATE->settled_of = 1;
	bpf_for(i, 0, GROUPS)
		OPENING(i)->nv = 1;
	bpf_for(i, 0, 3 * cpus + 2 * GROUPS) {
		QUEUE(i)->group = NIL;
		put_closed(i);
	}
	bpf_for(i, 0, cpus) {
		CPU(i)->queue = CPU(i)->victim = CPU(i)->noted_first = NIL;
		CPU(i)->look_ns = STATE->interval_ns * (i + 1) / cpus;
	}
	return 0;
}

policy_fn u32 policy_add(u32 id, u32 weight)
{
	struct policy_task __arena *task = TASK(id);

	/* The shares may yet have to be told that the task of this number before has gone. */
	word_put(&task->wanted_weight, weight);
	word_put(&task->told, counts_of(weight, 1));
	word_put(&task->place, NIL);
	word_put(&task->state, GDQ_BLOCKED);
	task->credit_ns = 0;
	record_step(STEP_ADD, id, 0, 0, weight, 0);
	return 0;
}

/* A waiting task goes into a queue that has to be opened. */
policy_fn u32 place_anew(u32 id)
{
	u32 stalls, i;

	bpf_for(i, 0, TRIES) {
		open_for(id);
		stalls = place(id, false);
		if (stalls != NO_QUEUE)
			return stalls;
	}
	policy_assert(false);
	return 0;
}

policy_fn u32 policy_wake(u32 id)
{
	struct policy_task __arena *task = TASK(id);
	u32 k, stalls;

	record_step(STEP_WAKE, id, 0, 0, 0, 0);
	word_exchange(&task->state, GDQ_WAITING);
	stalls = place(id, false);
	if (stalls == NO_QUEUE)
		stalls = place_anew(id);
	if (stalls) {
		k = group_of_counts(word_look(&task->told));
		if (!(word_look(&STATE->served) >> k & 1))
			word_put(&STATE->is_wanted, 1);
	}
	heed_if_told(id);
	note_task(id);
	offer();
	return 0;
}

/* A task is out of its queue, whose latch is held, and blocked. */
static __always_inline void block_in(u32 queue_id, u32 id)
{
	struct queue __arena *queue = QUEUE(queue_id);
	bool done;

	take(queue, id);
	record_step(STEP_BLOCK, id, OF_QUEUE(queue_id), 0, 0, 0);
	word_exchange(&TASK(id)->state, GDQ_BLOCKED);
	done = !queue->tasks && !queue->active;
	latch_release(&queue->latch);
	if (done)
		close_if_done(queue_id);
	note_task(id);
}

policy_fn u32 policy_block(u32 id)
{
	struct policy_task __arena *task = TASK(id);
	u32 queue_id = lock_queue_of(id), i;

	if (queue_id == NIL) {
		bpf_for(i, 0, LOCK_SPINS) {
			if (word_look(&task->state) == GDQ_RUNNING)
				return 1;
			queue_id = lock_queue_of(id);
			if (queue_id != NIL)
				break;
			/* Somebody is about to put it where it belongs. */
			relax();
		}
	}
	policy_assert(queue_id != NIL);
	if (word_look(&task->state) == GDQ_RUNNING) {
		latch_release(&QUEUE(queue_id)->latch);
		return 1;
	}
	block_in(queue_id, id);
	return 0;
}

policy_fn u32 policy_remove(u32 id)
{
	return word_look(&TASK(id)->state) == GDQ_BLOCKED ? 0 : policy_block(id);
}

policy_fn u32 policy_set_weight(u32 id, u32 weight)
{
	if (word_look(&TASK(id)->wanted_weight) == weight)
		return 0;
	word_put(&TASK(id)->wanted_weight, weight);
	record_step(STEP_WEIGHT, id, 0, 0, weight, 0);
	note_task(id);
	return 0;
}

/* A task that was charged with a quantum has not used it. */
policy_fn u32 refund(u32 id)
{
	struct policy_task __arena *task = TASK(id);
	u32 queue = lock_queue_of(id);
	u64 step;

	if (queue == NIL)
		return 0;
	step = step_of(task, QUEUE(queue)->group);
	if (task->part < step) {
		task->part += counts_parts(task->counts);
		task->whole--;
	}
	task->part -= step;
	record_step(STEP_REFUND, id, OF_QUEUE(queue), 0, 0, 0);
	latch_release(&QUEUE(queue)->latch);
	return 0;
}

/* Notes what a task has not used of its quantum. True if that makes a quantum. */
static __always_inline bool note_unused(struct policy_task __arena *task, u64 used_ns)
{
	task->credit_ns += quantum_ns() - used_ns;
	if (task->credit_ns < quantum_ns())
		return false;
	task->credit_ns -= quantum_ns();
	return true;
}

policy_fn u32 policy_charge(u32 id, u64 used_ns)
{
	struct policy_task __arena *task = TASK(id);
	bool whole = note_unused(task, used_ns);

	record_step(STEP_CHARGE, id, 0, 0, used_ns, 0);
	/* From here on others may take it, and whoever tells it something finds that it waits. */
	word_exchange(&task->state, GDQ_WAITING);
	heed_if_told(id);
	if (whole)
		refund(id);
	return 0;
}

/* policy_charge and policy_block. Returns 1 if it only was charged, and waits. */
policy_fn u32 policy_stop(u32 id, u64 used_ns)
{
	struct policy_task __arena *task = TASK(id);
	u32 queue;

	if (word_look(&task->counts) != word_look(&task->told)) {
		policy_charge(id, used_ns);
		return 1;
	}
	queue = lock_queue_of(id);
	policy_assert(queue != NIL);
	/* A quantum that is given back would be forgotten. */
	note_unused(task, used_ns);
	record_step(STEP_CHARGE, id, 0, 0, used_ns, 1);
	block_in(queue, id);
	return 0;
}

#endif

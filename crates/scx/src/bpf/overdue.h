/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks that wait for too long, where there is no list of all who wait: a timer looks at some slots at a
 * time, and leaves who has waited rescue_ns with the cpu where it was put last, one at a time for each.
 *
 *   every 20 ms   the next 1024 slots: all 32,768 in .64 s
 *   the rest      of these .64 s nothing, if there are fewer slots and nobody in them waited too long
 *   its cpu       at its next decision runs it for a quantum outside the policy, if it still waits
 *
 * A cpu that idles may be about to go: from when the kernel says so until we are told nobody asks it, and
 * the kernel waits meanwhile for a thread of its own that may wait there (rcu_preempt; cpu 1 idled so for
 * 21 s, then the kernel ended us). Who waits for such a cpu, or one that has gone, is soon left with the one
 * where the timer fires.
 *
 * Known limit: a cpu takes whom it was left with if he waits, perhaps anew, for LOST_NS: so a shorter
 * --rescue is as long as that here.
 *
 * So decisions pay one look at a word of their own.
 */
#ifndef PRORATA_OVERDUE_H
#define PRORATA_OVERDUE_H

#define OVERDUE_EVERY_NS 20000000ULL
#define OVERDUE_SLOTS 1024
#define OVERDUE_LOOKS (MAX_TASKS / OVERDUE_SLOTS)
/* Nobody waits so long while his cpu idles, if that one is asked. */
#define STRANDED_NS 200000000ULL

struct overdue_timer {
	struct bpf_timer timer;
	/* Where it looks next. */
	u32 next;
	/* Somebody has been left with a cpu since it was at the first slot. */
	u32 found;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct overdue_timer);
} overdue_timers SEC(".maps");

/* Slots that were ever used are below. With the lock held. */
static u32 slots_end;

static void note_slot(u32 id)
{
	if (id >= slots_end)
		word_put(&slots_end, id + 1);
}

/* True if a cpu has been given nobody. */
static __always_inline bool has_nobody(u32 cpu)
{
	return word_look(&DESK(cpu)->cpu.task) == NIL;
}

/* True if the task of a slot has waited too long. */
static __always_inline bool look_overdue(u32 id, u64 now)
{
	u64 since_ns = word_look(&slots[id].since_ns), most_ns = rescue_ns;
	u32 cpu = word_look(&slots[id].home);

	if (has_nobody(cpu) || !is_online(cpu)) {
		cpu = this_cpu();
		if (most_ns > STRANDED_NS)
			most_ns = STRANDED_NS;
	}
	if (look_custody(id) != TASK_WAITING || now < since_ns || now - since_ns < most_ns)
		return false;
	if (word_replace(&DESK(cpu)->overdue, 0, id + 1))
		scx_bpf_kick_cpu(cpu & (MAX_CPUS - 1), SCX_KICK_IDLE);
	return true;
}

/* How long until it looks again, and where. */
static __always_inline u64 overdue_rest_ns(struct overdue_timer *this)
{
	u32 looks = this->next / OVERDUE_SLOTS, found = this->found;

	this->next += OVERDUE_SLOTS;
	if (this->next < word_look(&slots_end))
		return OVERDUE_EVERY_NS;
	this->next = this->found = 0;
	return found ? OVERDUE_EVERY_NS : (OVERDUE_LOOKS - looks) * OVERDUE_EVERY_NS;
}

static int overdue_timer_fires(void *map, u32 *key, struct overdue_timer *this)
{
	u32 begin = this->next, found = unknown_zero(begin), i;
	u64 now = scx_bpf_now();

	use_arena();
	bpf_for(i, 0, OVERDUE_SLOTS) {
		if (begin + i >= word_look(&slots_end))
			break;
		found |= look_overdue((begin + i) & (MAX_TASKS - 1), now);
	}
	this->found |= found;
	bpf_timer_start(&this->timer, overdue_rest_ns(this), 0);
	return 0;
}

static __always_inline void overdue_init(void)
{
	u32 key = 0;
	struct overdue_timer *this = bpf_map_lookup_elem(&overdue_timers, &key);

	if (!this)
		return;
	bpf_timer_init(&this->timer, &overdue_timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&this->timer, overdue_timer_fires);
	bpf_timer_start(&this->timer, OVERDUE_EVERY_NS, 0);
}

#endif

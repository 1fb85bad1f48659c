/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Recording: every event and decision, in the order in which the policy saw them.
 *
 * The order is exact, since an event is written with the lock held; that rules out the kernel's
 * ring buffer, whose helpers must not be called then. The loader reads behind us, and a program of
 * the core library's policies, `prorata verify`, replays what it wrote.
 *
 * Known limit: a loader that is more than RECORD_EVENTS behind loses events, and says how many.
 */
#ifndef PRORATA_RECORD_H
#define PRORATA_RECORD_H

static __always_inline void record(u16 kind, u32 task, u32 cpu, u64 value, u64 extra)
{
	struct event __arena *event;

	if (!recording)
		return;
	event = &events[shared->recorded & (RECORD_EVENTS - 1)];
	event->now_ns = shared->now_ns;
	event->value = value;
	event->extra = extra;
	event->task = task;
	event->cpu = cpu;
	event->kind = kind;
	/* The loader sees neither the count before the event, nor the next event, in its place, before the count. */
	word_exchange(&shared->recorded, shared->recorded + 1);
}

#endif

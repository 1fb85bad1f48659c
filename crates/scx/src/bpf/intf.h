/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the BPF program and the loader both know. The loader reads `struct shared` and the ring of
 * events in the arena, which is mapped into its memory.
 */
#ifndef PRORATA_INTF_H
#define PRORATA_INTF_H

#if !defined(__VMLINUX_H__)
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;
#endif

#include "policy.h"
#include "turn.h"
#include "node.h"
#include "step.h"

enum limits {
	MAX_CPUS = POLICY_CPUS,
	MAX_DOMAINS = 64,
	/* Slots. The last stand for cpus that idle (paid.h), and for tasks without one (crowd.h). */
	MAX_TASKS = POLICY_TASKS,
	FIRST_IDLER = MAX_TASKS - MAX_CPUS,
	CROWD = FIRST_IDLER - 1,
	/* Events that the loader may be behind with. */
	RECORD_EVENTS = 1 << 19,
};

/* What a task is doing, as the policy and we see it. */
enum task_state {
	/* Not ours: the slot is free, or the task is in another scheduling class. */
	TASK_OUT,
	TASK_BLOCKED,
	TASK_WAITING,
	/* Picked: running on its cpu, or on the way to it. */
	TASK_RUNNING,
	/* Blocked for the policy, but running a quantum outside it. */
	TASK_AWAY,
};

/* Where the loader finds what it reads of a slot, which has parts of the policy's own. */
struct slot_layout {
	u32 size;
	u32 state, since_ns, used_ns, received_ns, waited_ns;
};

/* What happened, in the words of the policy contract. */
enum event_kind {
	EVENT_ADD = 1,		/* value: weight; extra: pid */
	EVENT_REMOVE,
	EVENT_WEIGHT,		/* value: weight */
	EVENT_WAKE,
	EVENT_BLOCK,
	EVENT_ASIDE,		/* it is not picked until it wakes */
	EVENT_PICK,		/* task: NIL if the cpu idles */
	EVENT_CHARGE,		/* value: ns charged; extra: ns really used since the last charge */
	EVENT_AWAY,		/* begins a quantum outside the policy; value: enum away */
	EVENT_RETURN,		/* ends it; value: 1 if the task blocked; extra: ns used */
	EVENT_INTERRUPT,	/* the cpu is to stop what it runs */
	EVENT_PAID,		/* ends a run for turns that were charged before; extra: ns used */
	EVENT_ENDOW,		/* value: ns that it may use before the policy serves it */
	EVENT_TAKE,		/* value: ns of its credit that were taken from it */
	EVENT_RETIRE,		/* it has ended; value: ns of its credit that it leaves, or, signed, that it is behind */
	EVENT_FORFEIT,		/* it waits for its turn; value: ns of credit, all that it had, that it lost */
	EVENT_LENGTHEN,		/* value: ns about to be charged; extra: ns that the turn goes on for then */
	EVENT_FORGO,		/* it sleeps; value: ns of turns that were charged before, which it never runs */
	EVENT_LEAVE,		/* value: ns that its cgroup was late by, or that who ended left, for others there */
	EVENT_KEEP,		/* value: 1 if it is kept in the queue when it sleeps without room, else 0 */
	EVENT_PASS,		/* some who sleep are served no longer */
	EVENT_CPUS,		/* cpus came or went; value: how many there are; no task is known */
};

/* Why a task runs outside the policy for a quantum. */
enum away {
	AWAY_RESCUE = 1,	/* it waited too long */
	AWAY_CONFINED,		/* it must not run on the cpu that picked it */
	AWAY_CPUS,		/* it ran when cpus came or went */
};

struct event {
	u64 now_ns;
	u64 value;
	u64 extra;
	u32 task;
	u16 cpu;
	u16 kind;
};

struct prorata_stats {
	/* Decisions: times that a cpu asked the policy. */
	u64 picks;
	/* Decisions that left the cpu without a task. */
	u64 idle_picks;
	/* Decisions after which the cpu went on with the task that it had. */
	u64 keeps;
	/* Picks that were over at once, since the task had run that much too long before. */
	u64 overdrafts;
	/* Quanta that went on after something had interrupted them. */
	u64 resumed;
	/* Tasks that waited longer than the rescue time and were run out of turn. */
	u64 rescues;
	/* Turns of tasks that were confined to other cpus than the picking one. */
	u64 confined;
	/* Wake-ups of kernel threads and the loader that ran beside the policy, how long they ran … */
	u64 bypassed, beside_ns;
	/* … and those that had to queue, since others had run for too long. */
	u64 over_budget;
	/* Picked tasks that never came and were given back. */
	u64 lost;
	/* Tasks that began to run on another cpu than before, and those whose last cache is another there. */
	u64 moves, far_moves;
	/* Tasks without a slot, which are one more task together. */
	u64 crowded_out;
	/* The longest that a task waited for a cpu before it ran. */
	u64 longest_wait_ns;
	/* The most choices (policy.h) that one decision took. */
	u64 most_choices;
};

struct cpu_state {
	/* The task that the policy runs here, or NIL. */
	u32 task;
	/* The last decision here was a rescue: the next one is not. */
	u32 rescued;
	/* Tasks that run here outside the policy, or are sent here for it. */
	u32 away;
	/* That a task has gone on for, since it is to leave (reader.h). */
	u32 moments;
	/* What may still run here beside the policy, as it was then (beside.h). */
	s64 beside_left_ns;
	u64 beside_at_ns;
	/* What the policy takes it for, and the cpu that it takes for this one. */
	u32 seat, at_seat;
	/* Tasks counted here that wait to run turns that they were paid (paid.h). */
	u32 paid_waiting;
	/* The member of the crowd that ran has made room for another. */
	u32 rotates;
	/* The task that went to sleep here, plus one; the policy has not been told. */
	u32 blocked;
};

/* What is kept of a cpu, which alone touches it, where there is no lock for all (apart.bpf.c). */
struct desk {
	struct prorata_stats stats;
	/* `task`, `away`, `moments`, and what is beside the policy. */
	struct cpu_state cpu;
	/* The time of the event being handled. */
	u64 now_ns;
	/* Decisions until the crowd's queue is looked at. */
	u32 until_crowd;
	/* Steps recorded since the start (step.h). */
	u64 recorded;
	/* Others write it: a task that has waited too long, plus one. */
	u32 overdue __attribute__((aligned(64)));
	/* And this: tasks that run here outside the policy, or are to do so, and those of them on credit. */
	u32 away, on_credit;
	/* When the policy was asked here last, or somebody on credit came while nothing else ran. */
	u64 decided_ns;
} __attribute__((aligned(64)));

struct shared {
	struct prorata_stats stats;
	/* Events recorded since the start. */
	u64 recorded;
	/* The time of the event being handled. */
	u64 now_ns;
	/* Tasks of which the policy is to be told something, and whether it is to be told of all. */
	u32 news, news_of_all;
	/* It is to be told of cpus. */
	u32 cpus_changed;
	u32 free_slot;
	/* Waiting tasks, the one that has waited longest first. */
	u32 oldest, newest;
	/* Tasks that stand for cpus that idle. */
	u32 idlers;
	/* The cpu whose idler is looked at next, and the quantum, counted from boot, in which all were. */
	u32 idle_seat;
	u64 idled_quanta;
	/* The cpu where nobody of the crowd's queue may run, or NIL; looks for somebody who comes. */
	u32 crowd_refused, crowd_coming;
	/* When the crowd last had its turn, and how long after the one before. */
	u64 crowd_began_ns, crowd_between_ns;
	/* When it was last found what cpus are worth. */
	u64 filled_ns;
	/* When a task last came to count for something else, or a turn went on for what is spare in a cgroup. */
	u64 rates_changed_ns;
	/* Waiting tasks that have had turns. */
	struct turn_list paid;
	/* Tasks that run such turns. */
	u32 runs_paid;
	/* The cpu whose task's turn is to be split for one that has just been paid, plus one (paid.h). */
	u32 splits;
	/* By cpu: the task whose turn there is to be split, plus one. */
	u32 split[MAX_CPUS];
	/* By domain: waiting tasks that ran there and have had turns. */
	u32 far_waiting[MAX_DOMAINS];
	/* Bits that are set below. */
	u32 idle_cpus;
	/* Bit per cpu: it asked, and there was nothing to run; it may be used. */
	u64 idle[MAX_CPUS / 64], online[MAX_CPUS / 64];
	/* Of cores of several cpus, by their first cpu: how many idle, and a bit if all do. */
	u16 idle_of_core[MAX_CPUS];
	u64 idle_cores[MAX_CPUS / 64];
	/* By cpu: that of an idle core which has the task that was here, plus one, until it is in our custody. */
	u32 left_for[MAX_CPUS];
	/* Tasks that left a core which they shared for one that idled. */
	u64 core_moves;
	struct cpu_state cpu[MAX_CPUS];
	struct turns turns;
};

/* Argument and result of the program that sets and gets weights. */
struct weight_call {
	/* The loader's end of a socket: whoever connected it asks. */
	u32 caller_fd;
	/* As the loader's pid namespace numbers them. */
	u32 process, thread;
	/* NIL: leave it as it is; 0: that of the nice value again. The result: what it is then. */
	u32 weight;
	/* 0, or a negative errno: ESRCH, EPERM (another user's), EACCES (a raise). */
	int result;
};

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ending slices on time. The kernel looks at slices when the cpu's tick comes, 4 ms apart at
 * HZ=250; a timer for each cpu looks when the slice ends.
 *
 *   0.0 ms  a runs with a slice of 5 ms    ends = 5.0, the timer is set for 5.0
 *   2.0 ms  a sleeps, b runs               ends = 7.0, the timer is left alone
 *   5.0 ms  the timer                      too early: it is set for 7.0
 *   7.0 ms  the timer                      b's slice is over, the cpu is made to decide
 *
 * A cpu that idles then, and has picked a task, looks whether that is lost, now and LOST_NS later: nobody
 * else would, until the kernel ends the scheduler for it.
 *
 * So tasks that come and go cost no timer, and a slice that runs to its end costs one. Where something
 * of another class runs, of real time say, the timer is not set again: it may run for ever.
 *
 * A cpu's timer and its times are touched by that cpu only, with the run queue locked or in the
 * timer's interrupt, so that they need no lock.
 *
 * Known limits: a slice that goes on after something of real time, or one outside the policy, may
 * be ended by the tick, or by the timer of the slice before. The ledger (ledger.h) makes up for
 * either.
 */
#ifndef PRORATA_SLICE_H
#define PRORATA_SLICE_H

/* A slice that has less left is over: another timer would cost more. */
#define SLICE_REST_NS 20000ULL
/* What runs beside the policy is done soon: so long until we look again. */
#define BESIDE_NS 250000ULL
/* So often a cpu that goes looks whether it may. */
#define LEAVING_NS 2000000ULL
/* bpf.h has it as a macro, which is not in the kernel's BTF. */
#define TIMER_CPU_PIN (1ULL << 1)

struct slice_timer {
	struct bpf_timer timer;
	/* When the slice of the task that runs ends. */
	u64 ends_ns;
	/* When the timer fires; 0 if it is not set. */
	u64 fires_ns;
} __attribute__((aligned(64)));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct slice_timer);
} slice_timers SEC(".maps");

static bool is_beside(const struct task_struct *p, u32 cpu);

/* True if the task is of another class, one of real time say. */
static bool is_of_other_class(const struct task_struct *p)
{
	return !(p->scx.flags & SCX_TASK_QUEUED);
}

static void set_timer(struct slice_timer *this, u64 now, u64 in_ns)
{
	this->fires_ns = now + in_ns;
	bpf_timer_start(&this->timer, in_ns, TIMER_CPU_PIN);
}

/* This cpu has nothing to run: a task that it has picked may be lost. It looks in a while, and `at_once`. */
global_fn u32 look_for_lost(u32 cpu, u32 at_once)
{
	struct slice_timer *this = bpf_map_lookup_elem(&slice_timers, &cpu);

	if (!this || CPU_STATE(cpu & (MAX_CPUS - 1))->task == NIL)
		return 0;
	if (!this->fires_ns)
		set_timer(this, scx_bpf_now(), LOST_NS);
	if (at_once)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return 0;
}

static int slice_timer_fires(void *map, u32 *cpu, struct slice_timer *this)
{
	struct task_struct *current = bpf_get_current_task_btf();
	u64 now = scx_bpf_now();

	use_arena();
	this->fires_ns = 0;
	/* The kernel moves the timers of a cpu that has gone to another. */
	if (bpf_get_smp_processor_id() != *cpu)
		return 0;
	if (!is_online(*cpu)) {
		scx_bpf_kick_cpu(*cpu, 0);
		set_timer(this, now, LEAVING_NS);
		return 0;
	}
	if (this->ends_ns > now + SLICE_REST_NS)
		set_timer(this, now, this->ends_ns - now);
	else if (!current->pid)
		look_for_lost(*cpu, true);
	else if (is_of_other_class(current))
		return 0; /* the tick ends our task's slice */
	else if (is_beside(current, *cpu))
		set_timer(this, now, BESIDE_NS);
	else
		scx_bpf_kick_cpu(*cpu, SCX_KICK_PREEMPT);
	return 0;
}

/* A slice begins on this cpu, or is given anew. */
static void slice_begins(u32 cpu, u64 slice_ns)
{
	struct slice_timer *this = bpf_map_lookup_elem(&slice_timers, &cpu);
	u64 now = scx_bpf_now();

	if (!this)
		return;
	this->ends_ns = now + slice_ns;
	if (!this->fires_ns || this->fires_ns > this->ends_ns)
		set_timer(this, now, slice_ns);
}

/*
 * This cpu goes. The kernel waits until nobody is on its run queue, but looks only when the cpu schedules;
 * and tasks that wait leave it when others pick them. So it is made to look until it has gone.
 */
static void slices_end(u32 cpu)
{
	struct slice_timer *this = bpf_map_lookup_elem(&slice_timers, &cpu);

	if (this)
		set_timer(this, scx_bpf_now(), LEAVING_NS);
}

static void slice_init(void)
{
	struct slice_timer *this;
	u32 cpu;

	bpf_for(cpu, 0, cpus_end) {
		this = bpf_map_lookup_elem(&slice_timers, &cpu);
		if (!this)
			continue;
		bpf_timer_init(&this->timer, &slice_timers, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&this->timer, slice_timer_fires);
	}
}

#endif

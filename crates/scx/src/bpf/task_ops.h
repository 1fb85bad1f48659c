/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What main.bpf.c and apart.bpf.c do alike when a task comes or ends, and when the scheduler does, and
 * where a cpu comes or goes.
 *
 *   a task uses core scheduling while the scheduler loads   refused: it does not load
 *   a task ends                                             its slot is free
 */
#ifndef PRORATA_TASK_OPS_H
#define PRORATA_TASK_OPS_H

UEI_DEFINE(uei);

/* The loader runs this before it attaches us. */
SEC("syscall")
int prorata_meet_loader(void *context)
{
	loader = bpf_get_current_task_btf()->tgid;
	return 0;
}

/* True if a task that there was before us cannot be had. */
static __always_inline bool refuses(struct task_struct *p, struct scx_init_task_args *args)
{
	if (args->fork || !is_told_apart(p))
		return false;
	scx_bpf_error("process %d uses core scheduling: end it first", p->tgid);
	return true;
}

/* What else is to be done when a cpu comes or goes. */
static void cpu_changes(u32 cpu, bool comes);

static __always_inline void kick_idle_cpus(void)
{
	u32 cpu;

	bpf_for(cpu, 0, cpus_end) {
		if (is_online(cpu))
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
}

static __always_inline void change_cpu(s32 cpu, bool comes)
{
	if (cpu >= MAX_CPUS) {
		scx_bpf_error("cpu %d has come: those numbered %d or above cannot be scheduled", cpu, MAX_CPUS);
		return;
	}
	use_arena();
	cpu_changes(cpu, comes);
	if (!comes)
		slices_end(cpu);
	/* One that idles may wait for a task that does not come now. */
	kick_idle_cpus();
}

void BPF_STRUCT_OPS(prorata_cpu_online, s32 cpu)
{
	change_cpu(cpu, true);
}

void BPF_STRUCT_OPS(prorata_cpu_offline, s32 cpu)
{
	change_cpu(cpu, false);
}

/*
 * On a cpu that comes or goes the kernel itself schedules the threads that make it so, asking nobody. When a
 * slice of theirs ends in the tick it idles, since ops.enqueue is to have whom nobody follows
 * (SCX_OPS_ENQ_LAST), and finds them only when something makes it look. So theirs do not end.
 */
void BPF_STRUCT_OPS(prorata_tick, struct task_struct *p)
{
	u32 cpu = bpf_get_smp_processor_id();

	if (cpu >= MAX_CPUS || !(p->flags & PF_KTHREAD))
		return;
	use_arena();
	if (!is_online(cpu))
		scx_bpf_task_set_slice(p, SCX_SLICE_DFL);
}

void BPF_STRUCT_OPS(prorata_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	task_end(p);
}

void BPF_STRUCT_OPS(prorata_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Core scheduling is refused while we schedule.
 *
 * With it any user may demand that the siblings of a core run tasks of one kind only, and the kernel then
 * picks tasks itself. It does so under sched_ext too, but as of 7.1 machines hang that have siblings
 * (github.com/sched-ext/scx/issues/3715): who may call prctl could stop all. So prctl answers EBUSY, and
 * where somebody has demanded it already we do not load.
 */
#ifndef PRORATA_CORES_H
#define PRORATA_CORES_H

/* Of linux/prctl.h. */
#define PR_SCHED_CORE 62
#define PR_SCHED_CORE_GET 0

SEC("fmod_ret/security_task_prctl")
int BPF_PROG(prorata_refuse_core_scheduling, int option, unsigned long command)
{
	return option == PR_SCHED_CORE && command != PR_SCHED_CORE_GET ? -EBUSY : 0;
}

/* As far as we need it, of kernels that have core scheduling. */
struct task_struct___cores {
	unsigned long core_cookie;
} __attribute__((preserve_access_index));

/* True if a task has been told apart before we came. */
static bool is_told_apart(struct task_struct *p)
{
	struct task_struct___cores *task = (void *)p;

	return bpf_core_field_exists(task->core_cookie) && BPF_CORE_READ(task, core_cookie);
}

#endif

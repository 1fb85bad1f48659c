/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * `weight set` and `weight get`, for the loader. The framework says with begin() and change_weight() how a
 * weight is changed; a slot is given to another task only under the lock that begin() takes.
 */
#ifndef PRORATA_WEIGHT_CALL_H
#define PRORATA_WEIGHT_CALL_H

#ifdef __bpf__
struct task_struct *bpf_task_from_vpid(s32 vpid) __ksym;
#endif

/* With the lock held. */
static int choose_weight(const struct task_struct *p, u32 id, u32 chosen, bool may_raise)
{
	u32 weight = chosen ? chosen : nice_weight(p);

	if (weight > task_weight(&slots[id], p) && !may_raise)
		return -EACCES;
	slots[id].chosen_weight = chosen;
	change_weight(id, weight);
	return 0;
}

static void set_or_get_weight(struct task_struct *p, struct weight_call *call)
{
	struct caller caller = {};
	bool sets = call->weight != NIL, raises = false;
	u32 id, chosen = call->weight;
	unsigned long flags;

	if (sets) {
		call->result = -EPERM;
		if (!read_caller(&caller, call->caller_fd) || !may_change(&caller, p))
			return;
		raises = may_raise(&caller);
	}
	call->result = -ESRCH;
	bpf_local_irq_save(&flags);
	if (begin()) {
		/* A slot is given to another task only under the lock. */
		id = slot_of(p);
		/* A task of another class may have a number that an earlier scheduler left. */
		if (id != NIL && slots[id].pid == (u32)p->pid) {
			call->result = sets ? choose_weight(p, id, chosen, raises) : 0;
			call->weight = task_weight(&slots[id], p);
		}
		unlock();
	}
	bpf_local_irq_restore(&flags);
}

SEC("syscall")
int prorata_weight_call(struct weight_call *call)
{
	/* By the loader's numbers: it may be in a pid namespace of its own. */
	struct task_struct *p = bpf_task_from_vpid(call->thread), *process;

	call->result = -ESRCH;
	if (!p)
		return 0;
	process = bpf_task_from_vpid(call->process);
	if (process) {
		/* Another process may have the thread's number by now. */
		if (p->tgid == process->tgid)
			set_or_get_weight(p, call);
		bpf_task_release(process);
	}
	bpf_task_release(p);
	return 0;
}

#endif

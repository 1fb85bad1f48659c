/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who may change a task's weight: as setpriority decides, on the task that is changed.
 *
 *   a caller of user 1000 wants               of user 1000's task   of another's task
 *   less weight                               yes                   if capable in its user namespace
 *   more weight                               if capable in ours    if capable in ours
 *
 * Capable means CAP_SYS_NICE. The caller's credentials are those that the kernel kept when the
 * socket was connected: an exec of a set-uid program afterwards does not change them, nor does the
 * end of the caller. Root of a user namespace that 1000 made is capable in it, but not outside.
 */
#ifndef PRORATA_PERMISSION_H
#define PRORATA_PERMISSION_H

#define CAP_SYS_NICE_BIT (1 << 23)
/* User namespaces nest no deeper. */
#define USER_NAMESPACES 33

struct caller {
	u32 uid;
	bool has_cap;
	s32 level;
	const struct user_namespace *ns;
};

/* Who connected a socket, which the calling process has open under this number. */
static bool read_caller(struct caller *caller, u32 socket_fd)
{
	struct task_struct *loader_task = bpf_get_current_task_btf();
	struct file **files = BPF_CORE_READ(loader_task, files, fdt, fd), *file = NULL;
	const struct user_namespace *ns;
	const struct cred *cred;
	struct socket *socket;

	bpf_core_read(&file, sizeof(file), files + socket_fd);
	socket = BPF_CORE_READ(file, private_data);
	cred = BPF_CORE_READ(socket, sk, sk_peer_cred);
	if (!cred)
		return false;
	caller->uid = BPF_CORE_READ(cred, euid.val);
	caller->has_cap = BPF_CORE_READ(cred, cap_effective.val) & CAP_SYS_NICE_BIT;
	ns = BPF_CORE_READ(cred, user_ns);
	caller->ns = ns;
	caller->level = BPF_CORE_READ(ns, level);
	return true;
}

/* As the kernel's cap_capable: seen from outside, a user namespace's owner can do all in it. */
static bool is_capable(const struct caller *caller, const struct user_namespace *ns)
{
	const struct user_namespace *parent;
	u32 depth;

	bpf_for(depth, 0, USER_NAMESPACES) {
		if (ns == caller->ns)
			return caller->has_cap;
		if (!ns || BPF_CORE_READ(ns, level) <= caller->level)
			return false;
		parent = BPF_CORE_READ(ns, parent);
		if (parent == caller->ns && BPF_CORE_READ(ns, owner.val) == caller->uid)
			return true;
		ns = parent;
	}
	return false;
}

static bool may_raise(const struct caller *caller)
{
	struct task_struct *loader_task = bpf_get_current_task_btf();

	/* Schedulers are loaded from the first user namespace only. */
	return is_capable(caller, BPF_CORE_READ(loader_task, cred, user_ns));
}

static bool may_change(const struct caller *caller, const struct task_struct *p)
{
	const struct cred *cred;
	bool allowed;

	bpf_rcu_read_lock();
	cred = BPF_CORE_READ(p, real_cred);
	allowed = BPF_CORE_READ(cred, uid.val) == caller->uid ||
		  BPF_CORE_READ(cred, euid.val) == caller->uid ||
		  is_capable(caller, BPF_CORE_READ(cred, user_ns));
	bpf_rcu_read_unlock();
	return allowed;
}

#endif

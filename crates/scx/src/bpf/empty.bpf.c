/* SPDX-License-Identifier: GPL-2.0-only */
/* A scheduler without a callback: sched_ext does all by itself. `cargo xtask vm-report` measures it. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

void BPF_STRUCT_OPS(empty_exit, struct scx_exit_info *info)
{
	UEI_RECORD(uei, info);
}

SCX_OPS_DEFINE(empty_ops,
	       .exit	= (void *)empty_exit,
	       .name	= "empty");

//! Starting commands, and burying processes that ended.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command as Process, Stdio};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, setsid};
use prorata::Nanos;

use crate::guardian::MARK;
use crate::proc::{RawPid, read_pids, thread_ids};
use crate::report::Exit;
use crate::task::Command;

/// Starts `command` in a session of its own on the cpu of `mask`, in the cgroup whose
/// `cgroup.procs` is given. It runs when this returns. Its standard input is empty, and its
/// standard output goes to standard error, since prorata's own is for the report.
pub(crate) fn start(
    command: &Command,
    mark: String,
    mask: CpuSet,
    cgroup: Option<File>,
) -> io::Result<RawPid> {
    let mut process = Process::new(&command.program);
    process.arg0(&command.arguments[0]).args(&command.arguments[1..]).env(MARK, mark);
    process.stdin(Stdio::null());
    process.stdout(io::stderr().as_fd().try_clone_to_owned()?);
    crate::sys::before_exec(&mut process, move || {
        setsid()?;
        sched_setaffinity(Pid::from_raw(0), &mask)?;
        cgroup.as_ref().map_or(Ok(()), |mut procs| procs.write_all(b"0"))
    });
    // Not waited for through the handle: `bury` does it by number.
    process.spawn().map(|child| child.id().cast_signed())
}

/// If `pid`, a child of prorata, has ended: how, and the cpu time that it and the descendants that
/// it had waited for have used in all. It is gone then.
pub(crate) fn bury(pid: RawPid) -> Option<(Exit, Nanos)> {
    let before_ns = used_by_the_dead_ns();
    let exit = match waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG)).ok()? {
        WaitStatus::Exited(_, code) => Exit::Code(code),
        WaitStatus::Signaled(_, signal, _) => Exit::Signal(signal.as_str()),
        _ => return None,
    };
    Some((exit, used_by_the_dead_ns().saturating_sub(before_ns)))
}

fn used_by_the_dead_ns() -> Nanos {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0, |usage| {
        (usage.user_time() + usage.system_time()).num_nanoseconds().unsigned_abs()
    })
}

/// The children of prorata: what it started, and orphans of that.
pub(crate) fn own_children() -> Vec<RawPid> {
    let mut children = Vec::new();
    let own = nix::unistd::getpid().as_raw();
    for tid in thread_ids(own) {
        if let Ok(file) = File::open(format!("/proc/{own}/task/{tid}/children")) {
            // The thread may end meanwhile; its children are then another's.
            let _ = read_pids(&file, &mut children);
        }
    }
    children
}

//! What the operating system offers only through unsafe or missing wrappers; all `unsafe` of this
//! crate is here, each with its reason.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::time::TimeValLike;
use nix::time::ClockId;
use nix::unistd::{ForkResult, Pid};

/// Forks; `child` runs in the new process and never returns. Call it before threads are started.
pub(crate) fn fork(child: impl FnOnce()) -> nix::Result<Pid> {
    // SAFETY: the caller has a single thread (`run` forks first of all), so the child inherits no
    // lock that another thread held. There is no safe fork, and a helper program beside prorata
    // would be one more file to install and to find.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            child();
            // SAFETY: always defined; skips the parent's exit handlers and buffered output.
            unsafe { libc::_exit(0) }
        }
    }
}

/// Runs `hook` in the child between fork and exec.
pub(crate) fn before_exec<F>(command: &mut Command, hook: F)
where
    F: FnMut() -> io::Result<()> + Send + Sync + 'static,
{
    // SAFETY: the hooks of this crate only make system calls on values prepared before the fork:
    // setsid, sched_setaffinity, write. A session and a cgroup must be entered before the command
    // can fork, so there is no later moment.
    unsafe { command.pre_exec(hook) };
}

/// Linux's `struct sched_attr`, first version.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Children start with the defaults again.
const RESET_ON_FORK: u64 = 1;

fn set_scheduler(attr: &SchedAttr) -> io::Result<()> {
    // SAFETY: the kernel reads `size` bytes of the structure that the pointer is to, no more.
    // Neither libc nor nix wraps this call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(attr), 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn sched_attr(policy: i32) -> SchedAttr {
    let size = u32::try_from(size_of::<SchedAttr>()).expect("56 bytes");
    SchedAttr { size, policy: policy.unsigned_abs(), ..SchedAttr::default() }
}

/// Lets the calling thread run as soon as it wakes: real-time priority where that is allowed,
/// else a short time slice (Linux 6.12), which makes its deadline early. Says which.
pub(crate) fn be_prompt() -> &'static str {
    let realtime = SchedAttr { priority: 1, flags: RESET_ON_FORK, ..sched_attr(libc::SCHED_FIFO) };
    if set_scheduler(&realtime).is_ok() {
        return "real-time priority";
    }
    let short_slice =
        SchedAttr { runtime_ns: 100_000, flags: RESET_ON_FORK, ..sched_attr(libc::SCHED_OTHER) };
    if set_scheduler(&short_slice).is_ok() { "a short time slice" } else { "default priority" }
}

/// Lets the calling thread run only where nothing else wants to.
pub(crate) fn be_idle() -> io::Result<()> {
    set_scheduler(&sched_attr(libc::SCHED_IDLE))
}

/// The period of the scheduler tick in ns: the cpu clock of a task that runs on another cpu is up
/// to that old. From Linux 6.4 on ticks come at the multiples of it in CLOCK_MONOTONIC, on all cpus
/// at once.
pub(crate) fn tick_ns() -> u64 {
    const USUAL_NS: u64 = 4_000_000;
    let tick = ClockId::CLOCK_MONOTONIC_COARSE.res();
    tick.map_or(USUAL_NS, |tick| tick.num_nanoseconds().unsigned_abs())
}

/// CLOCK_MONOTONIC in ns.
pub(crate) fn monotonic_ns() -> u64 {
    let now = ClockId::CLOCK_MONOTONIC.now().expect("every Linux has this clock");
    now.num_nanoseconds().unsigned_abs()
}

//! System calls that the standard library has no name for.

use std::io;
use std::mem;

use anyhow::{Context, Result, ensure};

/// Real-time priorities: this process goes before those that it makes real-time ones, or a hog
/// among them would keep it, on one cpu, from making it an ordinary one again.
const OURS: i32 = 10;
const OTHERS: i32 = 1;
/// Of linux/prctl.h, for which libc has no names.
const PR_SCHED_CORE: i32 = 62;
const PR_SCHED_CORE_CREATE: libc::c_ulong = 1;
const PR_SCHED_CORE_SCOPE_THREAD_GROUP: libc::c_ulong = 1;

/// Makes the calling thread one of real time, which runs when it wants to, whatever else is
/// runnable; its children are ordinary again.
pub(crate) fn become_real_time() -> Result<()> {
    set_scheduler(0, libc::SCHED_FIFO, OURS)
}

/// Makes a process one of real time, or an ordinary one.
pub(crate) fn set_real_time(pid: u32, real_time: bool) -> Result<()> {
    if real_time {
        set_scheduler(pid, libc::SCHED_FIFO, OTHERS)
    } else {
        set_scheduler(pid, libc::SCHED_OTHER, 0)
    }
}

fn set_scheduler(pid: u32, policy: i32, priority: i32) -> Result<()> {
    set_class(pid, policy | libc::SCHED_RESET_ON_FORK, priority)
        .context("cannot change a scheduling class")
}

/// Gives a process (0: the calling one) a scheduling class.
pub(crate) fn set_class(pid: u32, policy: i32, sched_priority: i32) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority };
    // SAFETY: the pointer is to a live struct, which the call reads.
    let result =
        unsafe { libc::sched_setscheduler(pid.cast_signed(), policy, &raw const parameter) };
    check(result)
}

/// Has a process (0: the calling one) share no core with others.
pub(crate) fn share_core(pid: u32) -> io::Result<()> {
    // SAFETY: the call takes plain numbers.
    check(unsafe {
        libc::prctl(
            PR_SCHED_CORE,
            PR_SCHED_CORE_CREATE,
            libc::c_ulong::from(pid),
            PR_SCHED_CORE_SCOPE_THREAD_GROUP,
            0 as libc::c_ulong,
        )
    })
}

/// Gives a process a nice value.
pub(crate) fn set_nice(pid: u32, nice: i32) -> Result<()> {
    // SAFETY: the call takes plain numbers.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, pid, nice) };
    check(result).with_context(|| format!("cannot renice {pid}"))
}

/// Sends a signal to a process.
pub(crate) fn signal(pid: u32, signal: i32) -> Result<()> {
    // SAFETY: the call takes plain numbers.
    let result = unsafe { libc::kill(pid.cast_signed(), signal) };
    check(result).with_context(|| format!("cannot send signal {signal} to {pid}"))
}

/// Binds the calling thread to one cpu.
pub(crate) fn bind_to(cpu: usize) -> Result<()> {
    bind(0, |other| other == cpu, cpu + 1)
}

/// Binds a process (0: the calling thread) to the cpus below `cpus` that are `wanted`; to all of
/// them if none is.
pub(crate) fn bind(pid: u32, mut wanted: impl FnMut(usize) -> bool, cpus: usize) -> Result<()> {
    let mut chosen: Vec<usize> = (0..cpus).filter(|&cpu| wanted(cpu)).collect();
    if chosen.is_empty() {
        chosen = (0..cpus).collect();
    }
    // SAFETY: a cpu set is plain numbers; zero is the empty set, and CPU_SET checks its range.
    let set = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        chosen.iter().for_each(|&cpu| libc::CPU_SET(cpu, &mut set));
        set
    };
    let size = mem::size_of_val(&set);
    // SAFETY: the pointer is to a live set of that size.
    let result = unsafe { libc::sched_setaffinity(pid.cast_signed(), size, &raw const set) };
    check(result).with_context(|| format!("cannot bind {pid} to cpus {chosen:?}"))
}

/// The clock of the kernel's trace (`mono`), in µs.
pub(crate) fn monotonic_us() -> u64 {
    clock_us(libc::CLOCK_MONOTONIC)
}

/// How long the calling thread has run, in µs.
pub(crate) fn thread_us() -> u64 {
    clock_us(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// How long a process has run until now, all its threads, by the kernel's account.
pub(crate) fn run_time_ns(pid: u32) -> Result<u64> {
    let clock = nix::time::clock_getcpuclockid(nix::unistd::Pid::from_raw(pid.try_into()?));
    let time = clock.and_then(nix::time::ClockId::now).with_context(|| format!("process {pid}"))?;
    Ok(std::time::Duration::from(time).as_nanos().try_into()?)
}

/// The calling thread's number, as the kernel knows it.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// The cpu that the calling thread is on.
pub(crate) fn current_cpu() -> usize {
    // SAFETY: the call has no arguments.
    usize::try_from(unsafe { libc::sched_getcpu() }).expect("the kernel tells")
}

/// Sleeps until [`monotonic_us`] is this.
pub(crate) fn sleep_until_us(until_us: u64) -> Result<()> {
    let time = libc::timespec {
        tv_sec: i64::try_from(until_us / 1_000_000)?,
        tv_nsec: i64::try_from(until_us % 1_000_000 * 1000)?,
    };
    let absolute = libc::TIMER_ABSTIME;
    // SAFETY: the pointer is to a live struct, which the call reads; the rest may be left out.
    let result = unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            absolute,
            &raw const time,
            std::ptr::null_mut(),
        )
    };
    ensure!(result == 0, "cannot sleep: {}", io::Error::from_raw_os_error(result));
    Ok(())
}

/// Has the calling thread's sleeps end when they should, not up to 50 µs later.
pub(crate) fn sleep_exactly() -> Result<()> {
    // SAFETY: the call takes plain numbers.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) }).context("cannot set the timer slack")
}

fn clock_us(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live struct, which the call fills.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    let (seconds, ns) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    seconds * 1_000_000 + ns / 1000
}

/// As fork, in a process of one thread; the child's number is this one if one is given.
pub(crate) fn fork_numbered(pid: Option<u32>) -> Result<u32> {
    let numbers = [pid.unwrap_or(0)];
    // SAFETY: the struct is plain numbers; zero is what fork does.
    let mut arguments: libc::clone_args = unsafe { mem::zeroed() };
    arguments.exit_signal = u64::from(libc::SIGCHLD.cast_unsigned());
    if pid.is_some() {
        arguments.set_tid = numbers.as_ptr() as u64;
        arguments.set_tid_size = 1;
    }
    let size = mem::size_of_val(&arguments);
    // SAFETY: the pointers are to live structs; the child has its own copy of everything.
    let child = unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size) };
    if child < 0 {
        return Err(io::Error::last_os_error()).context("cannot start a process with that number");
    }
    Ok(u32::try_from(child)?)
}

/// Becomes a user, if one is given, and waits to be killed.
pub(crate) fn become_user_and_wait(user: Option<u32>) -> ! {
    // SAFETY: the calls take plain numbers or nothing.
    unsafe {
        if let Some(user) = user
            && libc::setresuid(user, user, user) != 0
        {
            libc::_exit(1);
        }
        loop {
            libc::pause();
        }
    }
}

/// Kills a child and waits for its end.
pub(crate) fn kill_and_wait(pid: u32) -> Result<()> {
    signal(pid, libc::SIGKILL)?;
    wait(pid)
}

/// Waits for the end of a child.
pub(crate) fn wait(pid: u32) -> Result<()> {
    // SAFETY: the call may leave the status out.
    let result = unsafe { libc::waitpid(pid.cast_signed(), std::ptr::null_mut(), 0) };
    check(result.min(0)).with_context(|| format!("{pid} is no child"))
}

fn check(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

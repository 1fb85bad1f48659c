//! What the backends for real processes share: the clock, waiting for something to happen, and
//! noticing at once that a cpu has nothing to run.
//!
//! A sleeping command tells nobody. But the cpu that it leaves does: on each cpu waits a *sentry*,
//! a thread of the lowest scheduling class (SCHED_IDLE), armed when a turn begins. It gets the cpu
//! only when nothing else wants it, and the moment that it runs it writes its cpu's number into a
//! pipe, which wakes the loop. No polling, no privilege. The kernel lets such a thread run now and
//! then although the command is still running; the loop asks for the command's state before it
//! believes it, and lets a sentry that was wrong sleep for a while before it stands again.
//!
//! The sentries are a process of their own, because the kernel's autogroups divide cpus among
//! sessions first: a sentry in prorata's session would count as much as the command.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sched::{CpuSet, sched_setaffinity, sched_yield};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeSpec;
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, getpid, getppid, setsid};
use prorata::{CpuId, Nanos};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::backend::Wakeup;
use crate::proc::{RawPid, Stat};
use crate::sys;

/// The system's side of a run.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The system's numbers of the cpus.
    cpus: Vec<usize>,
    /// Arms the sentry of each cpu.
    arm: Vec<io::PipeWriter>,
    /// The cpus whose sentries ran, a byte pair each.
    alarms: io::PipeReader,
    /// Armed and not heard of since.
    armed: Vec<bool>,
    signals: UnixStream,
    tick_ns: Nanos,
    pub(crate) sentries: Pid,
}

impl Machine {
    /// Starts the sentries of `cpus`. The caller has a single thread.
    pub(crate) fn new(cpus: &[usize]) -> io::Result<Machine> {
        let (alarms, ring) = io::pipe()?;
        nix::fcntl::fcntl(&alarms, nix::fcntl::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK))?;
        let mut arm = Vec::new();
        let mut orders = Vec::new();
        for &cpu in cpus {
            let (order, writer) = io::pipe()?;
            arm.push(writer);
            orders.push((cpu, order));
        }
        let prorata = getpid();
        let sentries = sys::fork(move || stand_sentry(prorata, orders, &ring))?;
        let (signals, sender) = UnixStream::pair()?;
        signals.set_nonblocking(true)?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        Ok(Machine {
            cpus: cpus.to_vec(),
            armed: vec![false; cpus.len()],
            arm,
            alarms,
            signals,
            tick_ns: sys::tick_ns(),
            sentries,
        })
    }

    /// Keeps the calling process on the cpus of the run: where it interrupts a task, stopping it
    /// needs no message between cpus, and its cpu clock is exact.
    pub(crate) fn stay(&self) -> io::Result<()> {
        let mut mask = CpuSet::new();
        self.cpus.iter().try_for_each(|&cpu| mask.set(cpu))?;
        Ok(sched_setaffinity(Pid::from_raw(0), &mask)?)
    }

    pub(crate) fn cpu_count(&self) -> usize {
        self.cpus.len()
    }

    /// Ends the sentries.
    pub(crate) fn close(self) {
        let _ = kill(self.sentries, Signal::SIGKILL);
        let _ = waitpid(self.sentries, None);
    }

    pub(crate) fn tick_ns(&self) -> Nanos {
        self.tick_ns
    }

    /// The affinity mask of some cpus of the run.
    pub(crate) fn mask(&self, cpus: &[CpuId]) -> io::Result<CpuSet> {
        let mut mask = CpuSet::new();
        cpus.iter().try_for_each(|&cpu| mask.set(self.cpus[cpu]))?;
        Ok(mask)
    }

    /// Where threads bound to `before` until now are bound next.
    pub(crate) fn place(&self, cpus: &[CpuId], before: &[CpuId]) -> io::Result<Placement> {
        let added = cpus.iter().filter(|cpu| !before.is_empty() && !before.contains(cpu));
        let added: io::Result<Vec<CpuSet>> = added.map(|&cpu| self.mask(&[cpu])).collect();
        Ok(Placement { mask: self.mask(cpus)?, added: added? })
    }

    pub(crate) fn watch(&mut self, cpu: CpuId, after_ns: Nanos) {
        if !self.armed[cpu] {
            self.armed[cpu] = true;
            // A sentry that is gone leaves the loop to its timers.
            let _ = self.arm[cpu].write_all(&after_ns.to_le_bytes());
        }
    }

    pub(crate) fn wait(&mut self, until_ns: Nanos) -> io::Result<Wakeup> {
        let left_ns = until_ns.saturating_sub(sys::monotonic_ns());
        let timeout = TimeSpec::from_duration(Duration::from_nanos(left_ns));
        let mut fds = [
            PollFd::new(self.alarms.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
        ];
        match ppoll(&mut fds, Some(timeout), None) {
            Ok(0) | Err(nix::Error::EINTR) => return Ok(Wakeup::default()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let [alarm, signal] = fds.map(|fd| fd.any().unwrap_or(false));
        let idle = if alarm { self.read_alarms() } else { vec![] };
        let interrupted = signal && self.signals.read(&mut [0; 64]).is_ok_and(|n| n > 0);
        Ok(Wakeup { idle, interrupted })
    }

    fn read_alarms(&mut self) -> Vec<CpuId> {
        let mut buffer = [0; 128];
        let length = self.alarms.read(&mut buffer).unwrap_or(0);
        let numbers = buffer[..length].chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
        let idle: Vec<CpuId> = numbers.map(usize::from).collect();
        idle.iter().for_each(|&cpu| self.armed[cpu] = false);
        idle
    }
}

/// Where threads are bound.
pub(crate) struct Placement {
    mask: CpuSet,
    /// Each of the cpus where they were not bound before.
    added: Vec<CpuSet>,
}

impl Placement {
    /// Binds `threads`. Of those that run or wait where they are, one goes to each added cpu: the kernel
    /// would leave it there, and the cpu idle, until it balances loads, milliseconds later.
    pub(crate) fn bind(&self, threads: &[RawPid]) {
        let is_runnable = |tid: &&RawPid| Stat::of(**tid).is_some_and(|stat| stat.state == b'R');
        let several = threads.iter().rev().filter(|_| threads.len() > 1);
        for (cpu, &tid) in self.added.iter().zip(several.filter(is_runnable)) {
            bind(tid, cpu);
        }
        threads.iter().for_each(|&tid| bind(tid, &self.mask));
    }
}

fn bind(tid: RawPid, mask: &CpuSet) {
    // Errors: it is gone, or its cpuset or its owner forbids it.
    let _ = sched_setaffinity(Pid::from_raw(tid), mask);
}

/// The affinity mask of one cpu by the system's number.
fn mask_of(cpu: usize) -> io::Result<CpuSet> {
    let mut mask = CpuSet::new();
    mask.set(cpu)?;
    Ok(mask)
}

/// The process of the sentries: ends with prorata.
fn stand_sentry(prorata: Pid, orders: Vec<(usize, io::PipeReader)>, ring: &io::PipeWriter) {
    let _ = setsid();
    let _ = prctl::set_name(c"prorata-sentry");
    if prctl::set_pdeathsig(Signal::SIGKILL).is_err() || getppid() != prorata {
        return;
    }
    // The lowest weight among the autogroups. Where there are none, this changes nothing.
    let _ = fs::write("/proc/self/autogroup", "19");
    std::thread::scope(|scope| {
        for (index, (cpu, order)) in orders.into_iter().enumerate() {
            let number = u16::try_from(index).unwrap_or(u16::MAX);
            scope.spawn(move || sentry(number, cpu, order, ring));
        }
    });
}

fn sentry(number: u16, cpu: usize, mut order: io::PipeReader, mut ring: &io::PipeWriter) {
    let placed = mask_of(cpu).and_then(|mask| Ok(sched_setaffinity(Pid::from_raw(0), &mask)?));
    if placed.is_err() || sys::be_idle().is_err() {
        return;
    }
    let mut after_ns = [0; size_of::<Nanos>()];
    // When the read returns, the sentry has been given the cpu; once more after the yield, and in
    // between everybody else who wanted it.
    while order.read_exact(&mut after_ns).is_ok() {
        let after_ns = Nanos::from_le_bytes(after_ns);
        if after_ns > 0 {
            std::thread::sleep(Duration::from_nanos(after_ns));
        }
        let _ = sched_yield();
        if ring.write_all(&number.to_le_bytes()).is_err() {
            return;
        }
    }
}

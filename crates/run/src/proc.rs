//! Reading /proc: one process, its threads, children, state and cpu clock.
//!
//! Files are kept open and read again from the start: a reading costs one system call, and a file
//! of a process that has ended fails for ever, even if its number was given to a new process.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use nix::sys::time::TimeValLike;
use nix::time::ClockId;
use nix::unistd::Pid;
use prorata::Nanos;

use crate::backend::Activity;

/// Numbers of processes and threads, as the kernel counts them.
pub(crate) type RawPid = i32;

/// /proc/PID/stat counts in these: 1/100 s on every Linux.
const USER_TICK_NS: Nanos = 10_000_000;

/// What /proc/PID/stat says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// `R`, `S`, `D`, `T`, `t`, `Z`, `X`, `I`.
    pub(crate) state: u8,
    pub(crate) parent: RawPid,
    /// Of the children that it has waited for; rounded down to 10 ms twice.
    pub(crate) reaped_ns: Nanos,
    /// In clock ticks after boot: with the pid, the identity of a process.
    pub(crate) started: u64,
}

impl Stat {
    /// Of process (or thread) `pid`; `None` if there is no such process.
    pub(crate) fn of(pid: RawPid) -> Option<Stat> {
        Stat::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// From an open `stat` file; `None` if its process is gone.
    pub(crate) fn read(file: &File) -> Option<Stat> {
        let mut buffer = [0; 1024];
        let length = file.read_at(&mut buffer, 0).ok()?;
        Stat::parse(&buffer[..length])
    }

    fn parse(text: &[u8]) -> Option<Stat> {
        // The name of the command is in parentheses and may hold anything, parentheses included.
        let after_name = text.iter().rposition(|&byte| byte == b')')? + 2;
        let text = std::str::from_utf8(text.get(after_name..)?).ok()?;
        let mut fields = text.split_ascii_whitespace();
        // Numbered from 3 on, as in proc(5).
        let state = *fields.next()?.as_bytes().first()?;
        let parent = fields.next()?.parse().ok()?;
        let mut fields = fields.skip(11); // up to stime, field 15
        let mut ticks = || fields.next()?.parse::<i64>().ok();
        let (user, system) = (ticks()?, ticks()?);
        let started = text.split_ascii_whitespace().nth(19)?.parse().ok()?;
        let reaped_ns = (user + system).max(0).unsigned_abs() * USER_TICK_NS;
        Some(Stat { state, parent, reaped_ns, started })
    }
}

/// A live process, or one that lives no more.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: RawPid,
    /// /proc/PID/task: its link count tells the number of threads.
    threads: File,
    /// /proc/PID/task/PID/stat.
    stat: File,
    /// /proc/PID/task/PID/children.
    children: File,
    clock: ClockId,
}

/// Links of /proc/PID/task of a process with one thread.
const LINKS_OF_ONE_THREAD: u64 = 3;

impl Process {
    /// Opens `pid`; `None` if there is no such process.
    pub(crate) fn open(pid: RawPid) -> Option<Process> {
        Some(Process {
            pid,
            threads: File::open(format!("/proc/{pid}/task")).ok()?,
            stat: File::open(format!("/proc/{pid}/task/{pid}/stat")).ok()?,
            children: File::open(format!("/proc/{pid}/task/{pid}/children")).ok()?,
            clock: ClockId::pid_cpu_clock_id(Pid::from_raw(pid)).ok()?,
        })
    }

    /// The cpu time that its threads have used so far, those that ended included. While a thread
    /// runs on another cpu, its part is up to a scheduler tick old.
    pub(crate) fn used_ns(&self) -> Option<Nanos> {
        Some(self.clock.now().ok()?.num_nanoseconds().unsigned_abs())
    }

    pub(crate) fn stat(&self) -> Option<Stat> {
        Stat::read(&self.stat)
    }

    fn has_one_thread(&self) -> bool {
        self.threads.metadata().is_ok_and(|meta| meta.nlink() <= LINKS_OF_ONE_THREAD)
    }

    /// Calls `visit` for every thread until it returns true; tells if it did.
    pub(crate) fn any_thread(&self, mut visit: impl FnMut(RawPid) -> bool) -> bool {
        if self.has_one_thread() {
            return visit(self.pid);
        }
        thread_ids(self.pid).any(visit)
    }

    /// What its threads are doing, up to `most` of them; gone: it is a zombie, or less.
    pub(crate) fn activity(&self, most: usize) -> Activity {
        let state = self.stat().map_or(b'X', |stat| stat.state);
        let mut runnable = usize::from(state == b'R');
        if runnable < most && !self.has_one_thread() {
            let is_runnable = |tid: &RawPid| Stat::of(*tid).is_some_and(|stat| stat.state == b'R');
            runnable = thread_ids(self.pid).filter(is_runnable).take(most).count();
        }
        match runnable {
            0 if b"ZX".contains(&state) => Activity::Gone,
            0 => Activity::Blocked,
            _ => Activity::Runnable(runnable),
        }
    }

    /// Appends the children of all threads; none if the process is gone.
    pub(crate) fn children(&self, out: &mut Vec<RawPid>) {
        let _ = read_pids(&self.children, out);
        if !self.has_one_thread() {
            for tid in thread_ids(self.pid).filter(|&tid| tid != self.pid) {
                // A thread may end at any time, and has no children then.
                if let Ok(file) = File::open(format!("/proc/{}/task/{tid}/children", self.pid)) {
                    let _ = read_pids(&file, out);
                }
            }
        }
    }
}

/// What the scheduler counts of a thread, from an open `schedstat` file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SchedStat {
    /// How long it was ready to run and did not, up to when it last began to.
    pub(crate) ready_ns: Nanos,
    /// How often it was given a cpu.
    pub(crate) runs: u64,
}

impl SchedStat {
    /// `None` where the kernel does not count it, or the thread is gone.
    pub(crate) fn read(file: &File) -> Option<SchedStat> {
        let mut buffer = [0; 64];
        let length = file.read_at(&mut buffer, 0).ok()?;
        let text = std::str::from_utf8(&buffer[..length]).ok()?;
        let mut fields = text.split_ascii_whitespace().skip(1).map(str::parse);
        let stat = SchedStat { ready_ns: fields.next()?.ok()?, runs: fields.next()?.ok()? };
        (stat.runs > 0).then_some(stat)
    }

    /// The file of thread `tid`.
    pub(crate) fn open(tid: RawPid) -> Option<File> {
        File::open(format!("/proc/{tid}/task/{tid}/schedstat")).ok()
    }
}

/// The threads of `pid`; none if it is gone.
pub(crate) fn thread_ids(pid: RawPid) -> impl Iterator<Item = RawPid> {
    numbers_in(&format!("/proc/{pid}/task"))
}

/// All processes.
pub(crate) fn all_pids() -> impl Iterator<Item = RawPid> {
    numbers_in("/proc")
}

fn numbers_in(directory: &str) -> impl Iterator<Item = RawPid> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Digits of the largest pid, and a separator.
const LONGEST_NUMBER: usize = 16;

/// Appends the numbers in `file`, read from its start.
pub(crate) fn read_pids(file: &File, out: &mut Vec<RawPid>) -> io::Result<()> {
    let mut buffer = [0; 4096];
    let mut number: Option<RawPid> = None;
    let mut offset = 0;
    loop {
        let length = file.read_at(&mut buffer, offset)?;
        for &byte in &buffer[..length] {
            if byte.is_ascii_digit() {
                number = Some(number.unwrap_or(0).wrapping_mul(10) + RawPid::from(byte - b'0'));
            } else {
                out.extend(number.take());
            }
        }
        // The kernel breaks off between two numbers only where the next one does not fit.
        if length + LONGEST_NUMBER < buffer.len() {
            out.extend(number);
            return Ok(());
        }
        offset += length as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_may_hold_parentheses_and_spaces() {
        let text = b"17 (a) R (b) S 3 5 7 0 -1 0 0 0 0 0 100 50 20 30 20 0 1 0 4242 0";
        let stat = Stat::parse(text).expect("well formed");
        assert_eq!((stat.state, stat.parent), (b'S', 3));
        assert_eq!(stat.reaped_ns, 500_000_000);
        assert_eq!(stat.started, 4242);
    }

    #[test]
    fn this_process_is_runnable_and_uses_time() {
        let pid = RawPid::try_from(std::process::id()).expect("pids are small");
        let process = Process::open(pid).expect("it lives");
        assert_eq!(process.activity(1), Activity::Runnable(1));
        assert!(process.used_ns().expect("it lives") > 0);
        assert!(process.any_thread(|tid| tid == pid));
    }

    #[test]
    fn garbage_is_no_stat() {
        for text in [&b""[..], b"1 (x", b"1 (x)", b"1 (x) S 1", b"1 (x) S a b c"] {
            assert_eq!(Stat::parse(text), None);
        }
    }
}

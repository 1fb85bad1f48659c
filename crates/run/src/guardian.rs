//! The guardian: a process of its own that sets everything free when prorata is no more.
//!
//! Forked before anything is started, in a session of its own so that no signal to prorata's
//! process group reaches it. It holds the reading end of a pipe. Prorata tells it what it takes
//! hold of; when the pipe ends without a good-bye, because prorata was killed, panicked or ran out
//! of memory, the guardian continues and thaws all of it, processes forked since included: it
//! looks through the whole of /proc for them. For a minute it continues whoever is new, too.
//!
//! Prorata also sends a beat a few times a second. When beats fail to come although prorata lives
//! (somebody stopped it, or it hangs), everything is set free until they come again.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, dup2_stderr, dup2_stdin, dup2_stdout, setsid};

use crate::proc::{RawPid, Stat, all_pids, thread_ids};
use crate::sys;

/// Without a beat for so long, prorata counts as stopped. Four beats are due in this time.
const PATIENCE: Duration = Duration::from_millis(1000);
/// Two looks in a row have to find nothing stopped, and nobody of whom nothing can be told.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Looks end after so long.
const LOOK_FOR: Duration = Duration::from_secs(3);
/// Who was in the middle of an exec or of a fork then is watched for so long: on a busy machine that takes
/// seconds.
pub(crate) const FOLLOW_FOR: Duration = Duration::from_secs(60);
const FOLLOW_EVERY: Duration = Duration::from_millis(250);
/// The parent of the kernel's threads.
const KTHREADD: RawPid = 2;
/// The variable that marks the processes of a run in their environment.
pub(crate) const MARK: &str = "PRORATA_RUN";

/// Prorata's end of the pipe.
#[derive(Debug)]
pub(crate) struct Guardian {
    pipe: io::PipeWriter,
    pub(crate) pid: Pid,
    /// The value of [`MARK`] for this run.
    pub(crate) mark: String,
}

impl Guardian {
    /// Forks the guardian. The caller has a single thread.
    pub(crate) fn new() -> io::Result<Guardian> {
        let (reader, pipe) = io::pipe()?;
        let own = std::process::id();
        let started = Stat::of(own.cast_signed()).map_or(0, |stat| stat.started);
        let mark = format!("{own}.{started}");
        let watch = Watch { mark: mark.clone(), started, ..Watch::default() };
        let writer = pipe.as_raw_fd();
        let pid = sys::fork(move || {
            // Its own copy of the writing end would keep the pipe from ending.
            let _ = nix::unistd::close(writer);
            watch.stand(reader);
        })?;
        Ok(Guardian { pipe, pid, mark })
    }

    /// Tells of a task whose first process is `root`. `cpus` are those it had before.
    pub(crate) fn holds_tree(&self, root: RawPid, cpus: &CpuSet) -> io::Result<()> {
        let started = Stat::of(root).map_or(0, |stat| stat.started);
        let cpus = (0..CpuSet::count()).filter(|&cpu| cpus.is_set(cpu).unwrap_or(false));
        let cpus: Vec<String> = cpus.map(|cpu| cpu.to_string()).collect();
        self.say(&format!("tree {root} {started} {}\n", cpus.join(",")))
    }

    /// Tells of a cgroup that may be frozen.
    pub(crate) fn holds_cgroup(&self, path: &Path) -> io::Result<()> {
        self.say(&format!("cgroup {}\n", path.display()))
    }

    /// Prorata is alive and at work. An error: the guardian is not.
    pub(crate) fn beat(&self) -> io::Result<()> {
        if waitpid(self.pid, Some(WaitPidFlag::WNOHANG)) != Ok(WaitStatus::StillAlive) {
            let gone = "the guardian process was killed: without it nothing is held stopped";
            return Err(io::Error::other(gone));
        }
        self.say("beat\n")
    }

    /// Nothing is held any more: the guardian may go.
    pub(crate) fn dismiss(self) {
        let _ = self.say("done\n");
        drop(self.pipe);
        let _ = waitpid(self.pid, None);
    }

    /// Commands go on without prorata: the guardian sees to it that none stays stopped, and goes then.
    pub(crate) fn leave(self) {
        drop(self.pipe);
    }

    /// One write of less than PIPE_BUF bytes: whole or not at all, whenever prorata dies.
    fn say(&self, message: &str) -> io::Result<()> {
        (&self.pipe).write_all(message.as_bytes())
    }
}

/// Moves all processes of `cgroup` to where prorata was, two levels up, and removes it.
pub(crate) fn dissolve(cgroup: &Path) {
    let home = cgroup.ancestors().nth(2).map(|home| home.join("cgroup.procs"));
    let procs = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    for (pid, home) in procs.lines().zip(std::iter::repeat(home).flatten()) {
        let _ = fs::write(home, pid);
    }
    // An error: the task made cgroups of its own below it. They stay, thawed.
    let _ = fs::remove_dir(cgroup);
}

/// What the guardian knows.
#[derive(Debug, Default)]
struct Watch {
    mark: String,
    /// When prorata was: nobody of the run is older, but those told of.
    started: u64,
    /// First processes, when they started, and the cpus they had.
    trees: Vec<(RawPid, u64, CpuSet)>,
    cgroups: Vec<PathBuf>,
    done: bool,
}

/// What a look at the processes of the run found.
struct Look {
    /// So many were stopped: look again.
    stopped: usize,
    /// Of some it could not be told whether they are of the run: look again.
    unknown: bool,
    /// Whom it let go.
    free: HashSet<RawPid>,
}

impl Watch {
    fn stand(mut self, mut reader: io::PipeReader) {
        let _ = setsid();
        let _ = prctl::set_name(c"prorata-guard");
        sys::be_prompt();
        if let Ok(null) = fs::OpenOptions::new().read(true).write(true).open("/dev/null") {
            // Whoever reads prorata's output shall not wait for the guardian.
            let _ = (dup2_stdin(&null), dup2_stdout(&null), dup2_stderr(&null));
        }
        let _ = fs::write("/proc/self/oom_score_adj", "-1000"); // allowed to root only
        let mut text = String::new();
        let mut last_beat = Instant::now();
        while !self.done {
            match self.hear(&mut reader, &mut text) {
                Ok(true) => last_beat = Instant::now(),
                Ok(false) if last_beat.elapsed() > PATIENCE => drop(self.free_once()),
                Ok(false) => {}
                Err(_) => break,
            }
        }
        if !self.done {
            self.set_free();
        }
    }

    /// Waits for messages. `Ok(false)`: none came in time. An error: the pipe has ended.
    fn hear(&mut self, reader: &mut io::PipeReader, text: &mut String) -> io::Result<bool> {
        let wait = PollTimeout::try_from(PATIENCE / 4).expect("a quarter of a second");
        match poll(&mut [PollFd::new(reader.as_fd(), PollFlags::POLLIN)], wait) {
            Ok(0) | Err(nix::Error::EINTR) => return Ok(false),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut buffer = [0; 4096];
        let length = reader.read(&mut buffer)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        text.push_str(&String::from_utf8_lossy(&buffer[..length]));
        while let Some(end) = text.find('\n') {
            let line: String = text.drain(..=end).collect();
            self.note(line.trim_end());
        }
        Ok(true)
    }

    fn note(&mut self, line: &str) {
        match line.split_once(' ') {
            Some(("cgroup", path)) => self.cgroups.push(path.into()),
            Some(("tree", rest)) => self.trees.extend(parse_tree(rest)),
            _ => self.done |= line == "done",
        }
    }

    fn set_free(&self) {
        let start = Instant::now();
        let mut look = self.free_once();
        let mut quiet = 0;
        while quiet < 2 && start.elapsed() < LOOK_FOR {
            std::thread::sleep(LOOK_EVERY);
            look = self.free_once();
            quiet = if look.stopped == 0 && !look.unknown { quiet + 1 } else { 0 };
        }
        self.dissolve_cgroups();
        self.follow(look.free, start);
    }

    /// Continues whoever is new, once. A fork that is under way as its group is stopped hands the stop on to
    /// the child, and does so still if the group has been continued meanwhile: who does not handle SIGCONT
    /// ignores it, and only what is pending for whom there is already is taken back.
    fn follow(&self, mut free: HashSet<RawPid>, start: Instant) {
        while start.elapsed() < FOLLOW_FOR {
            std::thread::sleep(FOLLOW_EVERY);
            let (processes, unknown) = self.processes();
            if processes.is_empty() && !unknown {
                return;
            }
            for (pid, _, cpus) in processes.iter().filter(|process| !free.contains(&process.0)) {
                let_go(*pid, cpus);
            }
            free = processes.iter().map(|process| process.0).collect();
        }
    }

    /// Thaws the cgroups, continues every stopped process of the run, and lets all of them use
    /// their cpus again.
    fn free_once(&self) -> Look {
        for cgroup in &self.cgroups {
            let _ = fs::write(cgroup.join("cgroup.freeze"), "0");
        }
        let (processes, unknown) = self.processes();
        let (mut stopped, mut free) = (0, HashSet::new());
        for (pid, stat, cpus) in processes {
            stopped += usize::from(let_go(pid, &cpus) && stat.state == b'T');
            free.insert(pid);
        }
        Look { stopped, unknown, free }
    }

    /// The processes of the run: those told of, their descendants, and all that carry the mark.
    /// And if there are others that have no environment at the moment: in the middle of an exec a process
    /// has none, and a stop that it was sent before comes into effect only afterwards.
    fn processes(&self) -> (Vec<(RawPid, Stat, CpuSet)>, bool) {
        let all: HashMap<RawPid, Stat> =
            all_pids().filter_map(|pid| Some((pid, Stat::of(pid)?))).collect();
        let roots = self.trees.iter().filter(|(root, started, _)| {
            all.get(root).is_some_and(|stat| *started == stat.started)
        });
        let roots: HashMap<RawPid, &CpuSet> = roots.map(|(root, _, cpus)| (*root, cpus)).collect();
        let original = own_cpus();
        let (mut found, mut unknown) = (Vec::new(), false);
        for (&pid, stat) in &all {
            if let Some(cpus) = ancestor_in(pid, &all, &roots) {
                found.push((pid, *stat, *cpus));
            } else if carries(pid, &self.mark) {
                found.push((pid, *stat, original));
            } else {
                unknown |= stat.parent != KTHREADD
                    && stat.started >= self.started
                    && has_no_environment(pid);
            }
        }
        (found, unknown)
    }

    /// Moves what runs in the cgroups one level up and removes them.
    fn dissolve_cgroups(&self) {
        for cgroup in &self.cgroups {
            dissolve(cgroup);
        }
        if let Some(parent) = self.cgroups.first().and_then(|cgroup| cgroup.parent()) {
            let _ = fs::remove_dir(parent);
        }
    }
}

fn parse_tree(text: &str) -> Option<(RawPid, u64, CpuSet)> {
    let mut words = text.split(' ');
    let root = words.next()?.parse().ok()?;
    let started = words.next()?.parse().ok()?;
    let mut mask = CpuSet::new();
    for cpu in words.next()?.split(',') {
        mask.set(cpu.parse().ok()?).ok()?;
    }
    Some((root, started, mask))
}

/// The cpus that the guardian, and so prorata, could use at first.
fn own_cpus() -> CpuSet {
    nix::sched::sched_getaffinity(Pid::from_raw(0)).unwrap_or_default()
}

/// Continues a process and lets it use these cpus. False if it is gone, or another user's. Whatever its
/// state: where many wait for a cpu, a stop may be pending for long, and this takes it back.
fn let_go(pid: RawPid, cpus: &CpuSet) -> bool {
    thread_ids(pid).for_each(|tid| {
        let _ = sched_setaffinity(Pid::from_raw(tid), cpus);
    });
    kill(Pid::from_raw(pid), Signal::SIGCONT).is_ok()
}

/// What `roots` has for `pid` or its nearest ancestor in it.
fn ancestor_in<'a>(
    pid: RawPid,
    all: &HashMap<RawPid, Stat>,
    roots: &HashMap<RawPid, &'a CpuSet>,
) -> Option<&'a CpuSet> {
    let mut seen = HashSet::new();
    let mut pid = pid;
    // Processes come and go during the look: what was read may even hold a cycle.
    while seen.insert(pid) {
        if let Some(cpus) = roots.get(&pid) {
            return Some(cpus);
        }
        pid = all.get(&pid)?.parent;
    }
    None
}

/// True of a process in the middle of an exec (or one that was given an empty environment).
fn has_no_environment(pid: RawPid) -> bool {
    let zombie = || Stat::of(pid).is_none_or(|stat| matches!(stat.state, b'Z' | b'X'));
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|text| text.is_empty()) && !zombie()
}

/// True if the environment of `pid` marks it as part of the run.
pub(crate) fn carries(pid: RawPid, mark: &str) -> bool {
    task_mark(pid).is_some_and(|(run, _)| run == mark)
}

/// The run and the task's index that the environment of `pid` tells.
pub(crate) fn task_mark(pid: RawPid) -> Option<(String, usize)> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    environment.split(|&byte| byte == 0).find_map(|variable| {
        let value = variable.strip_prefix(MARK.as_bytes())?.strip_prefix(b"=")?;
        let (run, index) = std::str::from_utf8(value).ok()?.split_once(':')?;
        Some((run.to_owned(), index.parse().ok()?))
    })
}

//! An ordinary user who does at random whatever users can do.
//!
//! What the kernel refuses is refused; what it must refuse and does not is told in [`BREACHES`].

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::ptrace;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Gid, Pid, Uid, getpid, setresgid, setresuid};

use super::attack::{KEEP, SOCKET};
use super::random::Random;
use super::stress::compute;
use super::system;
use super::user::UsersProcess;

/// A cgroup that is the user's, as far as root can delegate one; processes are in those below.
pub(super) const DELEGATED: &str = "/sys/fs/cgroup/users";
/// Below it; the first is there from the start.
pub(super) const LEAVES: [&str; 4] = ["init", "a", "b", "c"];
/// What should have been refused, a line each.
pub(super) const BREACHES: &str = "/tmp/breaches";
/// Processes and threads of the user.
const MOST_TASKS: u64 = 120;
const CPUS: usize = 4;
/// Longer than any lives.
const LIFE: Duration = Duration::from_secs(100);
/// The loader may keep users waiting.
const PATIENCE: Duration = Duration::from_millis(100);

#[derive(clap::Args)]
pub(crate) struct Args {
    seed: u64,
    /// Does only these, by their names in ACTS; all, if none is named.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    acts: Vec<String>,
}

impl Args {
    /// Works until it is killed.
    pub(crate) fn execute(self) -> Result<ExitCode> {
        if Uid::effective().is_root() {
            become_user()?;
        }
        let acts = acts(&self.acts)?;
        let mut miscreant = Miscreant { random: Random::new(self.seed), acts: self.acts };
        // Whatever it does, it wants its share of the cpus.
        fork(|| compute(LIFE));
        loop {
            let act = acts[miscreant.random.index(acts.len())];
            act(&mut miscreant)?;
            while reap(WaitPidFlag::WNOHANG) {}
        }
    }
}

fn become_user() -> Result<()> {
    let procs = format!("{DELEGATED}/{}/cgroup.procs", LEAVES[0]);
    fs::write(&procs, "0").with_context(|| format!("cannot enter {procs}"))?;
    setrlimit(Resource::RLIMIT_NPROC, MOST_TASKS, MOST_TASKS)?;
    let (user, group) = (Uid::from_raw(UsersProcess::USER), Gid::from_raw(UsersProcess::USER));
    setresgid(group, group, group)?;
    setresuid(user, user, user)?;
    Ok(())
}

/// What users can do. An error is one of the test; what the kernel answers is none.
type Act = fn(&mut Miscreant) -> Result<()>;

const ACTS: &[(&str, Act)] = &[
    ("compute", Miscreant::hog),
    ("bind", Miscreant::bind),
    ("class", Miscreant::change_class),
    ("renice", Miscreant::renice),
    ("processes", Miscreant::storm_of_processes),
    ("threads", Miscreant::storm_of_threads),
    ("exec", Miscreant::exec),
    ("vfork", Miscreant::vfork),
    ("trace", Miscreant::trace),
    ("stop", Miscreant::stop_and_continue),
    ("core", Miscreant::share_core),
    ("namespace", Miscreant::become_root_of_a_namespace),
    ("flood", Miscreant::flood),
    ("weight", Miscreant::take_weight),
    ("regroup", Miscreant::regroup),
    ("freeze", Miscreant::freeze),
    ("yield", Miscreant::yield_again_and_again),
    ("nap", Miscreant::nap_again_and_again),
];

/// Those named, or all.
fn acts(names: &[String]) -> Result<Vec<Act>> {
    if names.is_empty() {
        return Ok(ACTS.iter().map(|(_, act)| *act).collect());
    }
    let find = |name: &String| {
        let found = ACTS.iter().find(|(known, _)| known == name);
        let known: Vec<&str> = ACTS.iter().map(|(known, _)| *known).collect();
        let unknown = || format!("users do not do '{name}', but {}", known.join(", "));
        found.map(|(_, act)| *act).with_context(unknown)
    };
    names.iter().map(find).collect()
}

struct Miscreant {
    random: Random,
    /// As they were named.
    acts: Vec<String>,
}

impl Miscreant {
    fn up_to(&mut self, most: Duration) -> Duration {
        Duration::from_micros(
            self.random.below(u64::try_from(most.as_micros()).unwrap_or(1).max(1)),
        )
    }

    fn hog(&mut self) -> Result<()> {
        compute(self.up_to(Duration::from_millis(500)));
        Ok(())
    }

    /// To some cpus, some of which may be offline.
    fn bind(&mut self) -> Result<()> {
        let _ = system::bind(0, |_| self.random.below(2) == 0, CPUS);
        Ok(())
    }

    fn change_class(&mut self) -> Result<()> {
        let classes = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE, SCHED_EXT];
        let _ = system::set_class(0, classes[self.random.index(classes.len())], 0);
        must_be_refused("a real-time class", system::set_class(0, libc::SCHED_FIFO, 1).is_ok())
    }

    fn renice(&mut self) -> Result<()> {
        let nice = i32::try_from(self.random.below(20))?;
        let _ = system::set_nice(0, nice);
        must_be_refused("a nice value below 0", system::set_nice(0, -1).is_ok())
    }

    /// As many as there may be.
    fn storm_of_processes(&mut self) -> Result<()> {
        let mut children = Vec::new();
        for _ in 0..1 + self.random.below(MOST_TASKS) {
            let time = self.up_to(Duration::from_millis(60));
            let naps = self.random.below(2) == 0;
            let Some(child) = fork(|| if naps { thread::sleep(time) } else { compute(time) })
            else {
                break;
            };
            children.push(child);
        }
        if self.random.below(4) == 0 {
            for &child in &children {
                let _ = kill(child, Signal::SIGKILL);
            }
        }
        while reap(WaitPidFlag::empty()) {}
        Ok(())
    }

    fn storm_of_threads(&mut self) -> Result<()> {
        let times: Vec<Duration> = (0..1 + self.random.below(MOST_TASKS))
            .map(|_| self.up_to(Duration::from_millis(60)))
            .collect();
        let mut threads = Vec::new();
        for time in times {
            match thread::Builder::new().stack_size(1 << 16).spawn(move || compute(time)) {
                Ok(thread) => threads.push(thread),
                Err(_) => break,
            }
        }
        threads.into_iter().for_each(|thread| drop(thread.join()));
        Ok(())
    }

    fn exec(&mut self) -> Result<()> {
        let seed = self.random.next().to_string();
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["guest", "miscreant", &seed]);
        if !self.acts.is_empty() {
            command.args(["--acts", &self.acts.join(",")]);
        }
        Err(command.exec()).context("exec")
    }

    fn vfork(&mut self) -> Result<()> {
        for _ in 0..self.random.below(20) {
            let _ = Command::new("true").stdin(Stdio::null()).status();
        }
        Ok(())
    }

    fn trace(&mut self) -> Result<()> {
        let Some(child) = fork(|| compute(Duration::from_secs(5))) else { return Ok(()) };
        if ptrace::attach(child).is_ok() {
            for _ in 0..self.random.below(50) {
                if !matches!(waitpid(child, None), Ok(WaitStatus::Stopped(..))) {
                    break;
                }
                if self.random.below(4) > 0 {
                    let _ = ptrace::step(child, None);
                    continue;
                }
                let _ = ptrace::cont(child, None);
                thread::sleep(self.up_to(Duration::from_millis(3)));
                let _ = kill(child, Signal::SIGSTOP);
            }
        }
        let _ = kill(child, Signal::SIGKILL);
        Ok(())
    }

    /// Everybody else of this user's.
    fn stop_and_continue(&mut self) -> Result<()> {
        for _ in 0..self.random.below(20) {
            let _ = kill(Pid::from_raw(-1), Signal::SIGSTOP);
            thread::sleep(self.up_to(Duration::from_millis(2)));
            let _ = kill(Pid::from_raw(-1), Signal::SIGCONT);
            compute(self.up_to(Duration::from_millis(2)));
        }
        Ok(())
    }

    fn share_core(&mut self) -> Result<()> {
        let _ = system::share_core(0);
        Ok(())
    }

    /// Where it is as powerless as outside.
    fn become_root_of_a_namespace(&mut self) -> Result<()> {
        fork(|| {
            if unshare(CloneFlags::CLONE_NEWUSER).is_ok() {
                let real_time = system::set_class(0, libc::SCHED_FIFO, 1).is_ok();
                let _ = must_be_refused("a real-time class in a namespace", real_time);
                let _ =
                    must_be_refused("nice -20 in a namespace", system::set_nice(0, -20).is_ok());
                let _ = take_weight_of(1);
            }
        });
        Ok(())
    }

    fn flood(&mut self) -> Result<()> {
        let end = Instant::now() + self.up_to(Duration::from_millis(500));
        let connects = self.random.below(2) == 0;
        while Instant::now() < end {
            if connects {
                drop(UnixStream::connect(SOCKET));
            } else if let Ok(mut stream) = UnixStream::connect(SOCKET) {
                // Nobody waits for the answer.
                let _ = writeln!(stream, "user {} {KEEP}", UsersProcess::USER);
            }
        }
        Ok(())
    }

    fn take_weight(&mut self) -> Result<()> {
        take_weight_of(if self.random.below(2) == 0 { 1 } else { 2 })
    }

    /// Goes to a cgroup of its own with cpus and a weight of its own choice.
    fn regroup(&mut self) -> Result<()> {
        let group = format!("{DELEGATED}/{}", LEAVES[self.random.index(LEAVES.len())]);
        let (first, last) = (self.random.below(4), self.random.below(4));
        let weight = 1 + self.random.below(10_000);
        let _ = fs::create_dir(&group);
        let _ = fs::write(format!("{group}/cpuset.cpus"), format!("{},{}", first.min(last), last));
        let _ = fs::write(format!("{group}/cpu.weight"), weight.to_string());
        let _ = fs::write(format!("{group}/cpu.idle"), self.random.below(2).to_string());
        let _ = fs::write(format!("{group}/cgroup.procs"), "0");
        let _ = fs::remove_dir(format!("{DELEGATED}/{}", LEAVES[self.random.index(LEAVES.len())]));
        Ok(())
    }

    /// It may be its own: somebody else thaws it then.
    fn freeze(&mut self) -> Result<()> {
        let frozen =
            format!("{DELEGATED}/{}/cgroup.freeze", LEAVES[self.random.index(LEAVES.len())]);
        let _ = fs::write(&frozen, "1");
        thread::sleep(self.up_to(Duration::from_millis(20)));
        for leaf in LEAVES {
            let _ = fs::write(format!("{DELEGATED}/{leaf}/cgroup.freeze"), "0");
        }
        Ok(())
    }

    fn yield_again_and_again(&mut self) -> Result<()> {
        (0..self.random.below(2000)).for_each(|_| thread::yield_now());
        Ok(())
    }

    fn nap_again_and_again(&mut self) -> Result<()> {
        for _ in 0..self.random.below(500) {
            thread::sleep(Duration::from_micros(20));
            compute(self.up_to(Duration::from_micros(200)));
        }
        Ok(())
    }
}

/// libc has no name for it.
const SCHED_EXT: i32 = 7;

/// A child that does this and ends; none where there are too many tasks.
fn fork(work: impl FnOnce()) -> Option<Pid> {
    match system::fork_numbered(None) {
        Ok(0) => {
            work();
            std::process::exit(0);
        }
        Ok(child) => Some(Pid::from_raw(child.cast_signed())),
        Err(_) => None,
    }
}

/// True if a child had ended.
fn reap(flags: WaitPidFlag) -> bool {
    match waitpid(None, Some(flags)) {
        Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => false,
        Ok(_) => true,
        Err(error) => error == Errno::EINTR,
    }
}

fn take_weight_of(pid: u32) -> Result<()> {
    let mut answer = String::new();
    if let Ok(mut stream) = UnixStream::connect(SOCKET) {
        stream.set_read_timeout(Some(PATIENCE))?;
        let _ = writeln!(stream, "pid {pid} 5").and_then(|()| stream.read_to_string(&mut answer));
    }
    must_be_refused("the weight of root's process", answer.ends_with("ok\n"))
}

fn must_be_refused(what: &str, was_granted: bool) -> Result<()> {
    if was_granted {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(BREACHES)?;
        writeln!(file, "process {} got {what}", getpid())?;
    }
    Ok(())
}

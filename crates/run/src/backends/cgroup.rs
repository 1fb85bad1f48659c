//! Holds each task in a cgroup of its own and freezes it (cgroup v2, `cgroup.freeze`). No
//! controller is needed, only leave to make cgroups: root has it, and so has a user whose service
//! manager delegates (`systemd-run --user --scope -p Delegate=yes prorata run …`).
//!
//! Against signals: no process escapes, however it forks; the cpu time of processes that ended is
//! exact; nobody sees its child stopped.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use prorata::{CpuId, Nanos, TaskId};

use crate::Error;
use crate::backend::{Activity, Backend, Wakeup};
use crate::backends::Ending;
use crate::guardian::{Guardian, dissolve};
use crate::launch;
use crate::machine::Machine;
use crate::proc::{RawPid, SchedStat, Stat, read_pids};
use crate::report::Exit;
use crate::task::{Command, Job, Source};

/// A frozen process needs no longer than that to leave when it is killed.
const KILL_PATIENCE_MS: u32 = 1000;

/// The cgroup that prorata itself is in, as a directory.
pub(crate) fn own_directory() -> Result<PathBuf, String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let (mount_root, mount) =
        mounts.lines().find_map(parse_mount).ok_or("no cgroup v2 hierarchy is mounted")?;
    let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = cgroups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let below = Path::new(own).strip_prefix(mount_root).unwrap_or(Path::new(""));
    Ok(Path::new(mount).join(below))
}

/// The root and the mount point, if the line is that of a cgroup v2 mount.
fn parse_mount(line: &str) -> Option<(&str, &str)> {
    let (mount, kind) = line.split_once(" - ")?;
    if !kind.starts_with("cgroup2 ") {
        return None;
    }
    let mut fields = mount.split(' ').skip(3);
    Some((fields.next()?, fields.next()?))
}

/// The directory for this run, if cgroups can be used; else why not. `probe` is a process of
/// prorata's that is moved there and back.
pub(crate) fn prepare(probe: Pid) -> Result<PathBuf, String> {
    let own = own_directory()?;
    let run = own.join(format!("prorata-{}", std::process::id()));
    let cannot = |what: &Path, error: &io::Error| format!("{}: {error}", what.display());
    fs::create_dir(&run).map_err(|error| cannot(&run, &error))?;
    let tried = [
        (run.join("cgroup.freeze"), "0".to_owned()),
        (run.join("cgroup.procs"), probe.to_string()),
        (own.join("cgroup.procs"), probe.to_string()),
    ]
    .into_iter()
    .try_for_each(|(file, text)| fs::write(&file, text).map_err(|error| cannot(&file, &error)));
    tried.inspect_err(|_| drop(fs::remove_dir(&run)))?;
    Ok(run)
}

#[derive(Debug)]
struct Thread {
    stat: File,
    sched_stat: Option<File>,
    /// When the threads were listed last.
    seen: Option<SchedStat>,
}

impl Thread {
    /// `None`: there is no such thread.
    fn open(tid: RawPid) -> Option<Thread> {
        let stat = File::open(format!("/proc/{tid}/task/{tid}/stat")).ok()?;
        Some(Thread { stat, sched_stat: SchedStat::open(tid), seen: None })
    }

    fn sched_stat(&self) -> Option<SchedStat> {
        self.sched_stat.as_ref().and_then(SchedStat::read)
    }

    fn has_not_run(&self) -> bool {
        self.seen.is_some() && self.sched_stat() == self.seen
    }

    fn is_runnable(&self) -> bool {
        Stat::read(&self.stat).is_some_and(|stat| stat.state == b'R')
    }
}

/// One task's cgroup.
#[derive(Debug)]
struct Group {
    path: PathBuf,
    freeze: File,
    stat: File,
    threads: File,
    events: File,
    root: RawPid,
    root_stat: Option<File>,
    /// Its threads, as far as they were asked for.
    known: HashMap<RawPid, Thread>,
    /// They are all, and have slept, unless one has run since.
    settled: bool,
    found: Vec<RawPid>,
    used_ns: Nanos,
    exit: Option<Exit>,
}

impl Group {
    fn new(path: PathBuf, root: RawPid) -> io::Result<Group> {
        let read = |name: &str| File::open(path.join(name));
        Ok(Group {
            freeze: File::options().write(true).open(path.join("cgroup.freeze"))?,
            stat: read("cpu.stat")?,
            threads: read("cgroup.threads")?,
            events: read("cgroup.events")?,
            path,
            root,
            root_stat: SchedStat::open(root),
            known: HashMap::new(),
            settled: false,
            found: Vec::new(),
            used_ns: 0,
            exit: None,
        })
    }

    fn set_frozen(&self, frozen: bool) -> io::Result<()> {
        self.freeze.write_all_at(if frozen { b"1" } else { b"0" }, 0)
    }

    /// The number after `key` in a file of `key number` lines.
    fn number(file: &File, key: &str) -> io::Result<u64> {
        let mut buffer = [0; 512];
        let length = file.read_at(&mut buffer, 0)?;
        let text = std::str::from_utf8(&buffer[..length]).unwrap_or_default();
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
        value.ok_or_else(|| io::Error::other(format!("the kernel does not tell {key}")))
    }

    fn read_used(&mut self) -> io::Result<Nanos> {
        self.used_ns = self.used_ns.max(Group::number(&self.stat, "usage_usec")? * 1000);
        Ok(self.used_ns)
    }

    fn read_threads(&mut self) -> io::Result<()> {
        self.found.clear();
        read_pids(&self.threads, &mut self.found)
    }

    fn is_empty(&self) -> io::Result<bool> {
        Ok(Group::number(&self.events, "populated")? == 0)
    }

    fn activity(&mut self, most: usize) -> io::Result<Activity> {
        let nobody_ran = self.settled && self.known.values().all(Thread::has_not_run);
        if !nobody_ran {
            self.read_threads()?;
            if self.found.is_empty() && self.is_empty()? {
                self.bury_root();
                return Ok(Activity::Gone);
            }
            let found = &self.found;
            self.known.retain(|tid, _| found.contains(tid));
            for &tid in found {
                // The thread may have ended since.
                if !self.known.contains_key(&tid)
                    && let Some(thread) = Thread::open(tid)
                {
                    self.known.insert(tid, thread);
                }
            }
        }
        let runnable = self.known.values().filter(|thread| thread.is_runnable());
        let runnable = runnable.take(most).count();
        self.settled = runnable == 0;
        Ok(if runnable > 0 { Activity::Runnable(runnable) } else { Activity::Blocked })
    }

    fn bury_root(&mut self) {
        if self.exit.is_none() {
            self.exit = launch::bury(self.root).map(|(exit, _)| exit);
        }
    }

    fn signal(&mut self, signal: Signal) {
        let procs = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        for pid in procs.lines().filter_map(|line| line.parse().ok()) {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    fn kill(&mut self) {
        if fs::write(self.path.join("cgroup.kill"), "1").is_err() {
            // Linux before 5.14. Frozen, so that no fork escapes; SIGKILL ends frozen ones.
            let _ = self.set_frozen(true);
            self.signal(Signal::SIGKILL);
        }
    }

    fn remove(&mut self) {
        for _ in 0..KILL_PATIENCE_MS {
            if self.is_empty().unwrap_or(true) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.bury_root();
        dissolve(&self.path);
    }
}

/// The cgroup backend.
#[derive(Debug)]
pub(crate) struct CgroupBackend {
    machine: Machine,
    guardian: Guardian,
    directory: PathBuf,
    groups: Vec<Group>,
}

impl CgroupBackend {
    /// Starts and freezes all of `jobs` in cgroups below `directory`. On an error none is left.
    pub(crate) fn new(
        machine: Machine,
        guardian: Guardian,
        directory: PathBuf,
        jobs: &[Job],
    ) -> Result<CgroupBackend, Error> {
        machine.stay()?;
        let mut backend = CgroupBackend { machine, guardian, directory, groups: Vec::new() };
        for job in jobs {
            let taken = match &job.source {
                Source::Command(command) => backend.take(command),
                Source::Attached(_) => Err(Error::AttachByCgroup),
            };
            if let Err(error) = taken {
                backend.groups.iter_mut().for_each(Group::kill);
                backend.close();
                return Err(error);
            }
        }
        Ok(backend)
    }

    fn take(&mut self, command: &Command) -> Result<(), Error> {
        let index = self.groups.len();
        let path = self.directory.join(index.to_string());
        fs::create_dir(&path)?;
        self.guardian.holds_cgroup(&path)?;
        let procs = File::options().write(true).open(path.join("cgroup.procs"))?;
        let mark = format!("{}:{index}", self.guardian.mark);
        let mask = self.machine.mask(&[index % self.machine.cpu_count()])?;
        let root = match launch::start(command, mark, mask, Some(procs)) {
            Ok(root) => root,
            Err(error) => {
                dissolve(&path);
                return Err(Error::cannot_start(command, &error));
            }
        };
        let group = Group::new(path, root)?;
        group.set_frozen(true)?;
        self.groups.push(group);
        Ok(())
    }

    fn group(&mut self, task: TaskId) -> &mut Group {
        &mut self.groups[task.index()]
    }
}

impl Backend for CgroupBackend {
    fn name(&self) -> &'static str {
        "cgroup"
    }

    fn now_ns(&mut self) -> Nanos {
        crate::sys::monotonic_ns()
    }

    fn wait(&mut self, until_ns: Nanos) -> io::Result<Wakeup> {
        self.machine.wait(until_ns)
    }

    fn usage_ns(&mut self, task: TaskId) -> io::Result<Nanos> {
        self.group(task).read_used()
    }

    fn ready_ns(&mut self, task: TaskId) -> io::Result<Nanos> {
        let stat = self.group(task).root_stat.as_ref().and_then(SchedStat::read);
        Ok(stat.map_or(0, |stat| stat.ready_ns))
    }

    fn tick_ns(&self) -> Nanos {
        self.machine.tick_ns()
    }

    fn activity(&mut self, task: TaskId, most: usize) -> io::Result<Activity> {
        self.group(task).activity(most)
    }

    fn place(&mut self, task: TaskId, cpus: &[CpuId], before: &[CpuId]) -> io::Result<()> {
        let placement = self.machine.place(cpus, before)?;
        let group = self.group(task);
        group.read_threads()?;
        placement.bind(&group.found);
        Ok(())
    }

    fn cont(&mut self, task: TaskId) -> io::Result<()> {
        self.group(task).set_frozen(false)
    }

    fn stop(&mut self, task: TaskId) -> io::Result<()> {
        self.group(task).set_frozen(true)
    }

    fn watch(&mut self, cpu: CpuId, after_ns: Nanos) {
        self.machine.watch(cpu, after_ns);
    }

    fn tend(&mut self) -> io::Result<()> {
        // Orphans become prorata's children; their time stays in the cgroup.
        let own = [self.guardian.pid.as_raw(), self.machine.sentries.as_raw()];
        for pid in launch::own_children() {
            if !own.contains(&pid) && self.groups.iter().all(|group| group.root != pid) {
                let _ = launch::bury(pid);
            }
        }
        self.guardian.beat()
    }
}

impl Ending for CgroupBackend {
    fn release(&mut self, task: TaskId) {
        let _ = self.group(task).set_frozen(false);
    }

    fn ask_to_end(&mut self, task: TaskId) {
        self.group(task).signal(Signal::SIGTERM);
        self.release(task);
    }

    fn kill(&mut self, task: TaskId) {
        self.group(task).kill();
    }

    fn exit(&mut self, task: TaskId) -> Option<Exit> {
        self.group(task).exit
    }

    fn close(mut self) {
        self.groups.iter_mut().for_each(Group::remove);
        let _ = fs::remove_dir(&self.directory);
        self.guardian.dismiss();
        self.machine.close();
    }
}

//! The machine that this runs on: which threads want a cpu just now, and in which cgroups they are.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use procfs::process::{MountInfo, Process, Stat, StatFlags, Task};
use procfs::{CurrentSI as _, KernelStats, ProcessCGroups};
use prorata::Weight;
use prorata::hierarchy::{Hierarchy, Place};
use prorata_sim::workload::weight_of_nice;

use super::tree::{Explained, Line, Tree};

/// Threads are looked at so often, and so far apart.
const LOOKS: u32 = 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
/// Who wants a cpu in so many looks competes: that is who computes, not who wakes now and then.
const MOST_LOOKS: u32 = LOOKS / 2;

/// Siblings of one level that are told one by one.
const MOST_SIBLINGS: usize = 12;

/// Scheduling policies, as sched(7) numbers them: FIFO, RR, DEADLINE, and the lightest.
const OF_REAL_TIME: [u32; 3] = [1, 2, 6];
const SCHED_IDLE: u32 = 5;

/// Whether sessions are groups, and whether sched_ext schedules.
const AUTOGROUPS: &str = "/proc/sys/kernel/sched_autogroup_enabled";
const SCHED_EXT: &str = "/sys/kernel/sched_ext/state";

/// What the kernel gives tasks and cgroups that are idle's, and what a cgroup weighs at least.
const IDLE_WEIGHT: u32 = 3;
const LEAST_WEIGHT: u32 = 2;

/// Whom the user asks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Process(i32),
    Cgroup(PathBuf),
}

/// Where the kernel tells of all this; a test has files of its own.
pub(super) struct Files {
    pub(super) proc: PathBuf,
    pub(super) cgroups: Option<Cgroups>,
    /// What is in the root itself is grouped by session: `proc`'s `PID/autogroup` tells the groups.
    pub(super) has_autogroups: bool,
}

/// Where the cpu controller's cgroups are, and which version of them.
pub(super) struct Cgroups {
    pub(super) mount: PathBuf,
    pub(super) version: Version,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

/// What is due, level by level, and what else there is to know about it.
pub(super) struct Report {
    pub(super) lines: Vec<Line>,
    /// Tasks that want a cpu.
    pub(super) tasks: u64,
    pub(super) notes: Vec<String>,
}

/// A thread that was seen.
#[derive(Clone, Debug)]
struct Thread {
    pid: i32,
    name: String,
    /// `None`: of real time, before all that is explained here.
    weight: Option<Weight>,
    /// By its names, from the root down: those cgroups with a weight that it is in.
    path: Vec<String>,
    /// What all of `path` is, if that is no cgroup.
    autogroup: Option<Autogroup>,
    /// Looks in which it wanted a cpu.
    wanted: u32,
    /// It may run on fewer cpus than there are.
    is_bound: bool,
}

/// A session's tasks, which Linux takes for a cgroup in the root, unless they are in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Autogroup {
    nice: i64,
    weight: Weight,
}

impl Autogroup {
    /// With its name, which is no cgroup's, from what the kernel says: `/autogroup-5 nice 0`. It says nothing
    /// of what began before the first session and is in none.
    fn parse(text: &str) -> Option<(String, Autogroup)> {
        let (name, nice) = text.trim().split_once(" nice ")?;
        let nice = nice.parse().ok()?;
        let autogroup = Autogroup { nice, weight: weight_of_nice(nice)? };
        name.starts_with("/autogroup-").then(|| (name.to_owned(), autogroup))
    }
}

/// The cpus that are online.
pub(super) fn cpus() -> anyhow::Result<usize> {
    let counters = KernelStats::current().context("cannot read /proc/stat")?;
    Ok(counters.cpu_time.len())
}

/// Explains what `who` is due on `cpus` cpus, among all that want one now.
pub(super) fn explain(who: &Who, cpus: usize) -> anyhow::Result<Report> {
    let is_on = |path: &str, on: &str| fs::read_to_string(path).is_ok_and(|text| text.trim() == on);
    let files = Files {
        proc: "/proc".into(),
        cgroups: Cgroups::mounted()?,
        // sched_ext knows of cgroups only.
        has_autogroups: is_on(AUTOGROUPS, "1") && !is_on(SCHED_EXT, "enabled"),
    };
    let who = &files.check(who)?;
    let mut threads = BTreeMap::new();
    for look in 0..LOOKS {
        if look > 0 {
            sleep(BETWEEN_LOOKS);
        }
        files.look(cpus, &mut threads)?;
    }
    let me = i32::try_from(std::process::id())?;
    threads.retain(|_, thread| thread.pid != me);
    let mut report = files.report(who, cpus, threads)?;
    report.notes.push(scheduler());
    Ok(report)
}

impl Cgroups {
    /// Those that the cpu controller has, if it has any here.
    fn mounted() -> anyhow::Result<Option<Cgroups>> {
        let mounts = Process::myself().and_then(|me| me.mountinfo());
        let mounts = mounts.context("cannot read /proc/self/mountinfo")?;
        let find = |fs_type: &str, option: Option<&str>| {
            let fits = |mount: &&MountInfo| {
                mount.fs_type == fs_type
                    && option.is_none_or(|option| mount.super_options.contains_key(option))
            };
            mounts.iter().find(fits).map(|mount| mount.mount_point.clone())
        };
        let one = find("cgroup", Some("cpu")).map(|mount| Cgroups { mount, version: Version::One });
        Ok(one.or_else(|| {
            find("cgroup2", None).map(|mount| Cgroups { mount, version: Version::Two })
        }))
    }

    /// Where a cgroup is, by its path below the root.
    fn directory(&self, path: &Path) -> PathBuf {
        names(path).fold(self.mount.clone(), |above, name| above.join(name))
    }

    /// The weight of the cgroup at `directory` in the units of tasks, of which one of nice 0 has 1,024;
    /// `None` where there is no cpu controller, so that its tasks are those of the one that it is in.
    fn weight(&self, directory: &Path) -> Option<Weight> {
        let number = |file: &str| -> Option<u64> {
            fs::read_to_string(directory.join(file)).ok()?.trim().parse().ok()
        };
        let (file, nice_0) = match self.version {
            Version::One => ("cpu.shares", 1024),
            Version::Two => ("cpu.weight", 100),
        };
        let weight = u32::try_from((number(file)? * 1024 + nice_0 / 2) / nice_0).ok()?;
        let is_idle = number("cpu.idle").is_some_and(|idle| idle != 0);
        Weight::new(if is_idle { IDLE_WEIGHT } else { weight.max(LEAST_WEIGHT) })
    }

    /// The names of the cgroups with a weight on the way from the root to `path`.
    fn weighed(&self, path: &Path) -> Vec<String> {
        let mut directory = self.mount.clone();
        let has_weight = |name: &&OsStr| {
            directory.push(name);
            self.weight(&directory).is_some()
        };
        let weighed = names(path).take_while(has_weight);
        weighed.map(|name| name.to_string_lossy().into_owned()).collect()
    }
}

/// The names in `path`, without what leads out of it.
fn names(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    })
}

/// Sees to it that a thread of process `pid` wants a cpu, and returns in which cgroup.
fn want_a_cpu(
    pid: i32,
    threads: &mut BTreeMap<i32, Thread>,
    notes: &mut Vec<String>,
) -> anyhow::Result<Vec<String>> {
    let own = threads.values_mut().filter(|thread| thread.pid == pid && thread.weight.is_some());
    let Some(most) = own.max_by_key(|thread| thread.wanted) else {
        bail!("process {pid} has ended, or is of real time or the kernel's, which have no share");
    };
    if most.wanted < MOST_LOOKS {
        notes.push(format!("process {pid} sleeps most of the time: as if it wanted a cpu now"));
        most.wanted = LOOKS;
    }
    Ok(most.path.clone())
}

impl Files {
    /// Refuses who is not there. A cgroup may be named by where it is mounted, too.
    fn check(&self, who: &Who) -> anyhow::Result<Who> {
        let (path, cgroups) = match (who, &self.cgroups) {
            (Who::Process(pid), _) => {
                let directory = self.proc.join(pid.to_string());
                ensure!(directory.exists(), "there is no process {pid}: 'ps' lists those that run");
                return Ok(who.clone());
            }
            (Who::Cgroup(_), None) => {
                bail!("no cgroups are mounted here: explain a process with --pid")
            }
            (Who::Cgroup(path), Some(cgroups)) => (path, cgroups),
        };
        let path = path.strip_prefix(&cgroups.mount).unwrap_or(path);
        ensure!(
            cgroups.directory(path).is_dir(),
            "there is no cgroup {}: name one of those below {}, as in --cgroup /user.slice",
            path.display(),
            cgroups.mount.display()
        );
        Ok(Who::Cgroup(path.to_owned()))
    }

    /// Looks at all threads once, and counts who wants a cpu.
    fn look(&self, cpus: usize, threads: &mut BTreeMap<i32, Thread>) -> anyhow::Result<()> {
        let processes = procfs::process::all_processes_with_root(&self.proc)
            .with_context(|| format!("cannot read {}", self.proc.display()))?;
        // What cannot be read has ended meanwhile.
        let tasks = processes.flatten().filter_map(|process| process.tasks().ok()).flatten();
        for task in tasks.flatten() {
            let Ok(stat) = task.stat() else { continue };
            if StatFlags::from_bits_retain(stat.flags).contains(StatFlags::PF_KTHREAD) {
                continue;
            }
            let wants = u32::from(stat.state == 'R');
            let known = threads.entry(task.tid);
            known.or_insert_with(|| self.thread(&task, &stat, cpus)).wanted += wants;
        }
        Ok(())
    }

    fn thread(&self, task: &Task, stat: &Stat, cpus: usize) -> Thread {
        let policy = stat.policy.unwrap_or(0);
        let weight = match policy {
            SCHED_IDLE => Weight::new(IDLE_WEIGHT),
            _ if OF_REAL_TIME.contains(&policy) => None,
            _ => weight_of_nice(stat.nice),
        };
        let allowed = task.status().ok().and_then(|status| status.cpus_allowed);
        let allowed = allowed.map(|words| words.iter().map(|word| word.count_ones()).sum::<u32>());
        let path = self.path_of(task);
        let session = if path.is_empty() { self.autogroup(task.pid) } else { None };
        let (path, autogroup) = match session {
            Some((name, autogroup)) => (vec![name], Some(autogroup)),
            None => (path, None),
        };
        Thread {
            pid: task.pid,
            name: stat.comm.clone(),
            weight,
            path,
            autogroup,
            wanted: 0,
            is_bound: allowed.is_some_and(|allowed| (allowed as usize) < cpus),
        }
    }

    fn path_of(&self, task: &Task) -> Vec<String> {
        let Some(cgroups) = &self.cgroups else { return Vec::new() };
        let Ok(ProcessCGroups(all)) = task.read::<_, ProcessCGroups>("cgroup") else {
            return Vec::new();
        };
        let is_the_one = |controllers: &[String]| match cgroups.version {
            Version::One => controllers.iter().any(|controller| controller == "cpu"),
            Version::Two => controllers.is_empty(),
        };
        let own = all.iter().find(|cgroup| is_the_one(&cgroup.controllers));
        own.map_or(Vec::new(), |cgroup| cgroups.weighed(Path::new(&cgroup.pathname)))
    }

    /// The autogroup of a process, if there are any, with its name.
    fn autogroup(&self, pid: i32) -> Option<(String, Autogroup)> {
        if !self.has_autogroups {
            return None;
        }
        let text = fs::read_to_string(self.proc.join(pid.to_string()).join("autogroup")).ok()?;
        Autogroup::parse(&text)
    }

    /// What the threads that were seen are due, on the way to `who`.
    fn report(
        &self,
        who: &Who,
        cpus: usize,
        mut threads: BTreeMap<i32, Thread>,
    ) -> anyhow::Result<Report> {
        let mut notes = Vec::new();
        let path = match who {
            Who::Process(pid) => want_a_cpu(*pid, &mut threads, &mut notes)?,
            Who::Cgroup(path) => self.cgroup(path, &mut notes),
        };
        threads.retain(|_, thread| thread.wanted >= MOST_LOOKS);
        let mut count = |is: fn(&Thread) -> bool, what: &str| {
            let number = threads.values().filter(|&thread| is(thread)).count();
            if number > 0 {
                notes.push(format!("{number} {what}"));
            }
        };
        count(|thread| thread.weight.is_none(), "of real time run before all of these");
        count(|thread| thread.is_bound, "may not run on every cpu: this takes no account of that");
        if let Who::Process(pid) = who
            && let Some(thread) = threads.values().find(|thread| thread.pid == *pid)
            && let (Some(autogroup), Some(name)) = (thread.autogroup, thread.path.first())
        {
            notes.push(format!(
                "{} is the session of process {pid}, one of the groups that Linux makes of sessions in the \
                 root (kernel.sched_autogroup_enabled): its weight is of its own nice, {}, and nice of tasks \
                 counts within it; echo NICE > /proc/{pid}/autogroup changes that",
                display(name),
                autogroup.nice
            ));
        }
        let built = self.build(threads, &path);
        if built.is_empty(&path) {
            notes.push(format!("nothing in /{} wants a cpu now", path.join("/")));
        }
        let tasks = built.tasks;
        Ok(Report { lines: built.lines(who, cpus, &path), tasks, notes })
    }

    /// The names of the cgroup at `path`, or of the one that its tasks count as those of.
    fn cgroup(&self, path: &Path, notes: &mut Vec<String>) -> Vec<String> {
        let cgroups = self.cgroups.as_ref().expect("it is there");
        let weighed = cgroups.weighed(path);
        if weighed.len() < names(path).count() {
            notes.push(format!(
                "{} has no weight, since the cpu controller ends above it: its tasks are those of /{}",
                path.display(),
                weighed.join("/")
            ));
        }
        weighed
    }

    /// The tree of those cgroups that `threads` are in, and of those on `path`.
    fn build(&self, threads: BTreeMap<i32, Thread>, path: &[String]) -> Built {
        let mut built = Built {
            tree: Tree::new(),
            nodes: BTreeMap::from([(Vec::new(), Hierarchy::ROOT)]),
            leaves: BTreeMap::new(),
            autogroups: BTreeMap::new(),
            tasks: 0,
        };
        for Thread { path, autogroup, .. } in threads.values() {
            if let (Some(name), Some(autogroup)) = (path.first(), autogroup) {
                built.autogroups.insert(name.clone(), *autogroup);
            }
        }
        self.node(&mut built, path);
        for thread in threads.into_values() {
            let Some(weight) = thread.weight else { continue };
            let node = self.node(&mut built, &thread.path);
            let task = built.tree.add_task(node, weight);
            built.tasks += 1;
            let alike = (thread.path, thread.pid, weight);
            built.leaves.entry(alike).or_insert_with(|| (thread.name, Vec::new())).1.push(task);
        }
        built
    }

    fn node(&self, built: &mut Built, path: &[String]) -> Place {
        if let Some(&place) = built.nodes.get(path) {
            return place;
        }
        let parent = self.node(built, &path[..path.len() - 1]);
        let of_cgroup = || {
            let cgroups = self.cgroups.as_ref().expect("such a path is of cgroups");
            cgroups.weight(&cgroups.directory(&path.iter().collect::<PathBuf>()))
        };
        let autogroup = built.autogroups.get(&path[0]);
        let weight = autogroup.map(|autogroup| autogroup.weight).or_else(of_cgroup);
        // It may have gone since it was seen.
        let place = built.tree.add_cgroup(parent, weight.unwrap_or(Weight::ONE));
        built.nodes.insert(path.to_vec(), place);
        place
    }
}

/// The name of a cgroup or an autogroup, for people.
fn display(name: &str) -> &str {
    name.trim_start_matches('/')
}

/// Threads of a process, in the same cgroup and of one weight, which are alike.
type Alike = (Vec<String>, i32, Weight);

struct Built {
    tree: Tree,
    /// By path.
    nodes: BTreeMap<Vec<String>, Place>,
    /// With the name of the first.
    leaves: BTreeMap<Alike, (String, Vec<Place>)>,
    /// By name.
    autogroups: BTreeMap<String, Autogroup>,
    tasks: u64,
}

impl Built {
    /// True if nothing below `path` wants a cpu.
    fn is_empty(&self, path: &[String]) -> bool {
        !self.leaves.keys().any(|(of, ..)| of.starts_with(path))
    }

    /// Level by level: who competes where `who` is, or what it is in, and what is in it.
    fn lines(self, who: &Who, cpus: usize, path: &[String]) -> Vec<Line> {
        let Built { tree, nodes, leaves, .. } = self;
        let levels = Levels { explained: tree.explain(cpus), nodes, leaves };
        let mut lines = Vec::new();
        levels.level(who, path, 0, &mut lines);
        lines
    }
}

struct Levels {
    explained: Explained,
    nodes: BTreeMap<Vec<String>, Place>,
    leaves: BTreeMap<Alike, (String, Vec<Place>)>,
}

impl Levels {
    /// What is in the first `depth` of `path`: whoever is asked about, or what it is in with all that is in
    /// that, and the others, the heaviest first.
    fn level(&self, who: &Who, path: &[String], depth: usize, lines: &mut Vec<Line>) {
        let is_here = |sibling: &(Line, Place)| sibling.0.is_asked;
        let (asked, mut siblings): (Vec<_>, Vec<_>) =
            self.tasks(who, path, depth).partition(is_here);
        lines.extend(asked.into_iter().map(|(line, _)| line));
        if depth < path.len() {
            let (line, _) = self.cgroup(&path[..=depth]);
            let is_asked = matches!(who, Who::Cgroup(_)) && depth + 1 == path.len();
            lines.push(Line { is_asked, ..line });
            self.level(who, path, depth + 1, lines);
        }
        let is_beside = |name: &&Vec<String>| {
            name.len() == depth + 1 && name.starts_with(&path[..depth]) && !path.starts_with(name)
        };
        siblings.extend(self.nodes.keys().filter(is_beside).map(|name| self.cgroup(name)));
        siblings
            .sort_by(|(a, _), (b, _)| b.weight.cmp(&a.weight).then_with(|| a.name.cmp(&b.name)));
        let more = siblings.split_off(siblings.len().min(MOST_SIBLINGS));
        lines.extend(siblings.into_iter().map(|(line, _)| line));
        lines.extend(self.explained.together(&more));
    }

    /// The tasks that are in the first `depth` of `path` themselves, those alike in one line.
    fn tasks(
        &self,
        who: &Who,
        path: &[String],
        depth: usize,
    ) -> impl Iterator<Item = (Line, Place)> {
        let here = self.leaves.iter().filter(move |((of, ..), _)| of == &path[..depth]);
        here.map(move |((of, pid, _), (name, tasks))| {
            let line = self.explained.line(format!("{name}[{pid}]"), depth + 1, false, tasks[0]);
            let count = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
            let is_asked = *who == Who::Process(*pid) && of == path;
            (Line { tasks: count, is_asked, ..line }, tasks[0])
        })
    }

    fn cgroup(&self, path: &[String]) -> (Line, Place) {
        let name = format!("{}/", display(path.last().expect("it is not the root")));
        let place = self.nodes[path];
        (self.explained.line(name, path.len(), true, place), place)
    }
}

/// Who schedules this machine, and which of the columns that is.
fn scheduler() -> String {
    let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned());
    if read(SCHED_EXT).is_ok_and(|state| state == "enabled") {
        let name = read("/sys/kernel/sched_ext/root/ops").unwrap_or_else(|_| "sched_ext".into());
        let aims = match name.contains("prorata") {
            true => "which gives each what it is due (with --groups off, what 'flat' says)",
            false => "of sched_ext: whether it looks at weights is its own affair",
        };
        return format!("{name} schedules this machine, {aims}");
    }
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let number = |part: Option<&str>| part.and_then(|part| part.parse::<u32>().ok()).unwrap_or(0);
    let mut parts = release.split(|sign: char| !sign.is_ascii_digit());
    let version = (number(parts.next()), number(parts.next()));
    let column = if version >= (7, 3) {
        "'per cpu' says, unless its cgroup_mode is another than 'concur'"
    } else {
        "'due' says"
    };
    format!("Linux {release} schedules this machine, whose weights mean what {column}")
}

#[cfg(test)]
mod tests;

//! Trees of cgroups with hogs in them, and what each scheduler makes of them, beside the exact ideal.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use prorata::Weight;
use prorata::hierarchy::{Hierarchy, Place};

use super::hogs::Hogs;
use super::mixes::{Loaded, SETTLING};
use super::system;
use crate::report::{Failure, GroupRow};

pub(super) const CGROUPS: &str = "/sys/fs/cgroup";
/// So long after a change shares must be right.
pub(super) const SETTLED: Duration = Duration::from_millis(50);
/// So many quanta a hog may be behind under GR3, whatever is measured.
pub(super) const QUANTA: f64 = 4.0;
/// So often weights change that go to and fro: oftener than ten hogs take turns.
const SWAY: Duration = Duration::from_micros(7_500);
/// What a quantum is, in µs.
pub(super) const QUANTUM_US: f64 = 5000.0;

/// A cgroup: cpu.weight, hogs in it, cgroups in it.
struct Group {
    weight: u32,
    hogs: usize,
    /// Tasks beside them that nap.
    nappers: usize,
    /// They may run on one cpu only.
    bound: bool,
    below: &'static [Group],
}

const fn group(weight: u32, hogs: usize) -> Group {
    Group { weight, hogs, nappers: 0, bound: false, below: &[] }
}

const fn napping(weight: u32, hogs: usize, nappers: usize) -> Group {
    Group { nappers, ..group(weight, hogs) }
}

const fn bound(weight: u32, hogs: usize) -> Group {
    Group { bound: true, ..group(weight, hogs) }
}

const fn above(weight: u32, below: &'static [Group]) -> Group {
    Group { below, ..group(weight, 0) }
}

/// What happens to the first cgroup in the middle of a measurement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    /// It gets another weight.
    Weight(u32),
    /// From the start it has this weight half of the time, and another one every [`SWAY`].
    Sway(u32),
    /// The last of its hogs goes to the cgroup behind it.
    Move,
    /// From the start, a storm of short processes in a cgroup of weight 100 beside it.
    Storm,
}

pub(super) struct Case {
    name: &'static str,
    groups: &'static [Group],
    change: Change,
}

const fn case(name: &'static str, groups: &'static [Group]) -> Case {
    Case { name, groups, change: Change::Nothing }
}

const CASES: &[Case] = &[
    case("100x1, 100x4", &[group(100, 1), group(100, 4)]),
    case("300x2, 200x2, 100x2", &[group(300, 2), group(200, 2), group(100, 2)]),
    case("100x1, 100x1, 100x1", &[group(100, 1), group(100, 1), group(100, 1)]),
    case("200x1, 100x8", &[group(200, 1), group(100, 8)]),
    case("1000x1, 100x4, 100x1", &[group(1000, 1), group(100, 4), group(100, 1)]),
    case("100x1, 100x10, 100x100", &[group(100, 1), group(100, 10), group(100, 100)]),
    case(
        "100{300x2, 100{100x1, 200x2}}, 200x3",
        &[above(100, &[group(300, 2), above(100, &[group(100, 1), group(200, 2)])]), group(200, 3)],
    ),
    case("100x2 and 4 that nap, 100x4", &[napping(100, 2, 4), group(100, 4)]),
    case(
        "50x2 and 4 that nap, all on one cpu, 100x4",
        &[Group { bound: true, ..napping(50, 2, 4) }, group(100, 4)],
    ),
    case("300x3 on one cpu, 100x2, 100x4", &[bound(300, 3), group(100, 2), group(100, 4)]),
    case(
        "200{100x3 on one cpu, 100x4}, 100x2",
        &[above(200, &[bound(100, 3), group(100, 4)]), group(100, 2)],
    ),
    Case {
        name: "100x2, 100x3; the first becomes 300",
        groups: &[group(100, 2), group(100, 3)],
        change: Change::Weight(300),
    },
    Case {
        name: "200x3, 100x2; one moves",
        groups: &[group(200, 3), group(100, 2)],
        change: Change::Move,
    },
    Case {
        name: "100x10, 100x2; the first is 200 and 100 in turn",
        groups: &[group(100, 10), group(100, 2)],
        change: Change::Sway(200),
    },
    Case { name: "100x1, 100 forks", groups: &[group(100, 1)], change: Change::Storm },
];

pub(super) fn case_named(name: &str) -> Result<&'static Case> {
    CASES.iter().find(|case| case.name == name).with_context(|| format!("no case is called {name}"))
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// A scheduler's command line, `eevdf`, or `loaded` for one that runs already; may be repeated.
    #[arg(long = "under", required = true)]
    schedulers: Vec<String>,
    /// Only cases whose name begins so; may be repeated.
    #[arg(long = "case")]
    cases: Vec<String>,
    /// Report a scheduler that ends, and go on with the next case.
    #[arg(long)]
    go_on: bool,
    /// Fail if a cgroup is further than this from its due, in per mille, and more than four quanta beyond.
    #[arg(long)]
    error: Option<u32>,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        system::become_real_time()?;
        let cpus = thread::available_parallelism()?.get();
        let wanted = |case: &&Case| {
            self.cases.is_empty() || self.cases.iter().any(|name| case.name.starts_with(name))
        };
        let mut loaded = Loaded::default();
        for scheduler in &self.schedulers {
            for case in CASES.iter().filter(wanted) {
                let what = format!("{} under {scheduler}", case.name);
                let report = match self.measure(case, scheduler, cpus, &mut loaded).context(what) {
                    Ok(report) => report,
                    Err(why) if self.go_on => {
                        loaded = Loaded::default();
                        Failure::of(cpus, &why).print();
                        continue;
                    }
                    Err(why) => return Err(why),
                };
                report.row(cpus, case, scheduler).print();
                let limit = self.error.map_or(f64::INFINITY, |error| f64::from(error) / 1000.0);
                ensure!(
                    report.within(limit),
                    "{}: a cgroup is {:.2} % off",
                    case.name,
                    report.worst_group() * 100.0
                );
            }
        }
        loaded.stop()?;
        Ok(ExitCode::SUCCESS)
    }

    fn measure(
        &self,
        case: &Case,
        scheduler: &str,
        cpus: usize,
        loaded: &mut Loaded,
    ) -> Result<Report> {
        let scheduler = loaded.load(scheduler)?;
        let mut tree = Tree::new(case)?;
        thread::sleep(Duration::from_millis(300));
        tree.hogs.start();
        tree.nappers.start();
        thread::sleep(Span::begin(&tree, cpus)?.settling());
        let length = Duration::from_secs(self.seconds) / 2;
        let mut spans = vec![Span::begin(&tree, cpus)?];
        thread::sleep(length);
        spans[0].end(&tree)?;
        tree.change(case.change)?;
        thread::sleep(SETTLED);
        spans.push(Span::begin(&tree, cpus)?);
        thread::sleep(length);
        spans[1].end(&tree)?;
        drop(tree);
        scheduler.goes_on()?;
        let whole_machine = case.change == Change::Storm;
        let spans = spans.iter().map(|span| span.service(whole_machine));
        Ok(Report { spans: spans.collect() })
    }
}

/// A cgroup of the measurement.
pub(super) struct Node {
    pub(super) path: PathBuf,
    pub(super) place: Place,
}

/// cgroups with hogs in them; they go when it is dropped.
pub(super) struct Tree {
    pub(super) ideal: Hierarchy,
    /// Parents before children.
    pub(super) nodes: Vec<Node>,
    /// By hog; those that are bound are one, which uses one cpu.
    places: Vec<Place>,
    pub(super) hogs: Hogs,
    /// Beside hogs, of whom each in the same cgroup is due less by as much as they use.
    nappers: Hogs,
    /// By napper.
    napper_places: Vec<Place>,
    storm: Option<Child>,
    sway: Option<Sway>,
}

/// Changes the weight of a cgroup to and fro, until it is dropped.
struct Sway {
    weight: u32,
    ends: Arc<AtomicBool>,
    changer: Option<JoinHandle<()>>,
}

impl Sway {
    fn start(path: PathBuf, weights: [u32; 2]) -> Sway {
        let ends = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ends);
        let changer = thread::spawn(move || {
            for weight in weights.iter().cycle() {
                thread::sleep(SWAY);
                let written = fs::write(path.join("cpu.weight"), weight.to_string());
                if is_over.load(Ordering::Relaxed) || written.is_err() {
                    return;
                }
            }
        });
        Sway { weight: weights[0], ends, changer: Some(changer) }
    }
}

impl Drop for Sway {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(changer) = self.changer.take() {
            let _ = changer.join();
        }
    }
}

impl Tree {
    pub(super) fn new(case: &Case) -> Result<Tree> {
        let hogs = Hogs::new(&vec![0; case.groups.iter().map(hogs_of).sum()])?;
        let mut tree = Tree {
            ideal: Hierarchy::new(),
            nodes: Vec::new(),
            places: Vec::new(),
            hogs,
            nappers: Hogs::napping(case.groups.iter().map(nappers_of).sum())?,
            napper_places: Vec::new(),
            storm: None,
            sway: None,
        };
        tree.add(case.groups, PathBuf::from(CGROUPS), Hierarchy::ROOT)?;
        if case.change == Change::Storm {
            tree.start_storm()?;
        }
        if let Change::Sway(weight) = case.change {
            let path = tree.nodes[0].path.clone();
            tree.sway = Some(Sway::start(path, [weight, case.groups[0].weight]));
        }
        Ok(tree)
    }

    fn add(&mut self, groups: &[Group], above: PathBuf, parent: Place) -> Result<()> {
        let controls = above.join("cgroup.subtree_control");
        fs::write(&controls, "+cpu +cpuset")
            .with_context(|| format!("no cpu controller: {controls:?}"))?;
        for group in groups {
            let node = self.add_node(group.weight, &above, parent)?;
            if group.bound {
                let cpu = thread::available_parallelism()?.get() - 1;
                fs::write(self.nodes[node].path.join("cpuset.cpus"), cpu.to_string())?;
            }
            for hog in 0..group.hogs {
                let pid = self.hogs.pids()[self.places.len()];
                fs::write(self.nodes[node].path.join("cgroup.procs"), pid.to_string())?;
                let place = match self.places.last() {
                    Some(&last) if group.bound && hog > 0 => last,
                    _ => self.ideal.add(self.nodes[node].place, Weight::ONE),
                };
                self.ideal.set_width(place, 1);
                self.places.push(place);
            }
            for _ in 0..group.nappers {
                let pid = self.nappers.pids()[self.napper_places.len()];
                fs::write(self.nodes[node].path.join("cgroup.procs"), pid.to_string())?;
                self.napper_places.push(self.nodes[node].place);
            }
            if !group.below.is_empty() {
                self.add(group.below, self.nodes[node].path.clone(), self.nodes[node].place)?;
            }
        }
        Ok(())
    }

    fn add_node(&mut self, weight: u32, above: &std::path::Path, parent: Place) -> Result<usize> {
        let path = above.join(format!("measured-{}", self.nodes.len()));
        fs::create_dir(&path).with_context(|| format!("cannot make {path:?}"))?;
        fs::write(path.join("cpu.weight"), weight.to_string())?;
        let weight = Weight::new(weight).context("a weight is above 0")?;
        let place = self.ideal.add(parent, weight);
        self.nodes.push(Node { path, place });
        Ok(self.nodes.len() - 1)
    }

    /// A shell that forks and forks, in a cgroup of its own; several of its processes are runnable at
    /// nearly all times.
    fn start_storm(&mut self) -> Result<()> {
        let node = self.add_node(100, CGROUPS.as_ref(), Hierarchy::ROOT)?;
        let place = self.ideal.add(self.nodes[node].place, Weight::ONE);
        self.ideal.set_width(place, 64);
        let script = "echo 0 >$0/cgroup.procs
            for n in 1 2 3 4 5 6 7 8; do (while :; do (:); (:) & done) & done; wait";
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).arg(&self.nodes[node].path).stdin(Stdio::null());
        self.storm = Some(shell.spawn().context("cannot start a shell")?);
        Ok(())
    }

    /// Of hogs, and then of those who nap.
    fn run_times_ns(&self) -> Result<Vec<u64>> {
        Ok([self.hogs.run_times_ns()?, self.nappers.run_times_ns()?].concat())
    }

    pub(super) fn change(&mut self, change: Change) -> Result<()> {
        let first = &self.nodes[0];
        match change {
            Change::Nothing | Change::Storm | Change::Sway(_) => {}
            Change::Weight(weight) => {
                fs::write(first.path.join("cpu.weight"), weight.to_string())?;
                let weight = Weight::new(weight).context("a weight is above 0")?;
                self.ideal.set_weight(first.place, weight);
            }
            Change::Move => {
                let hog = self.ideal.leaves(first.place) as usize - 1;
                let pid = self.hogs.pids()[hog];
                fs::write(self.nodes[1].path.join("cgroup.procs"), pid.to_string())?;
                self.ideal.move_to(self.places[hog], self.nodes[1].place);
            }
        }
        Ok(())
    }
}

fn hogs_of(group: &Group) -> usize {
    group.hogs + group.below.iter().map(hogs_of).sum::<usize>()
}

fn nappers_of(group: &Group) -> usize {
    group.nappers + group.below.iter().map(nappers_of).sum::<usize>()
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.sway = None;
        for node in self.nodes.iter().rev() {
            // What is left over is told by the next case, which cannot make its cgroups.
            let _ = fs::write(node.path.join("cgroup.kill"), "1");
        }
        if let Some(mut storm) = self.storm.take() {
            let _ = storm.wait();
        }
        (self.hogs, self.nappers) = (Hogs::default(), Hogs::default());
        for node in self.nodes.iter().rev() {
            while fs::read_to_string(node.path.join("cgroup.events"))
                .is_ok_and(|events| events.contains("populated 1"))
            {
                thread::sleep(Duration::from_millis(5));
            }
            let _ = fs::remove_dir(&node.path);
        }
    }
}

/// A time in which nothing changes.
struct Span {
    begin_us: u64,
    length_us: f64,
    /// By hog, and then by napper: how long it had run at the begin, and in the span.
    before_ns: Vec<u64>,
    received_us: Vec<f64>,
    /// By hog, in cpus.
    due: Vec<f64>,
    /// By hog, and then by napper: the cgroups that it is in, the innermost first.
    within: Vec<Vec<usize>>,
    groups: usize,
}

impl Span {
    fn begin(tree: &Tree, cpus: usize) -> Result<Span> {
        let mut swayed = tree.ideal.clone();
        if let Some(Sway { weight, .. }) = tree.sway {
            swayed.set_weight(tree.nodes[0].place, Weight::new(weight).expect("above 0"));
        }
        let rates = [tree.ideal.rates(cpus), swayed.rates(cpus)];
        let due = |hog: &Place| {
            let sharing = tree.places.iter().filter(|other| *other == hog).count();
            let rates = rates.iter().map(|rates| rates.of(*hog).in_cpus());
            rates.sum::<f64>() / 2.0 / sharing as f64
        };
        let number = |place| tree.nodes.iter().position(|node| node.place == place);
        let above = |&hog: &Place| tree.ideal.ancestors(hog).filter_map(number).collect();
        let from = |&node: &Place| {
            std::iter::once(node).chain(tree.ideal.ancestors(node)).filter_map(number).collect()
        };
        Ok(Span {
            begin_us: system::monotonic_us(),
            length_us: 0.0,
            before_ns: tree.run_times_ns()?,
            received_us: Vec::new(),
            due: tree.places.iter().map(due).collect(),
            within: tree
                .places
                .iter()
                .map(above)
                .chain(tree.napper_places.iter().map(from))
                .collect(),
            groups: tree.nodes.len(),
        })
    }

    /// Hogs that wake at once stand in step after a round or two: of the one that is due least.
    fn settling(&self) -> Duration {
        let least = self.due.iter().copied().fold(f64::INFINITY, f64::min);
        SETTLING.max(Duration::from_secs_f64(2.0 * QUANTUM_US / 1e6 / least))
    }

    fn end(&mut self, tree: &Tree) -> Result<()> {
        self.length_us = (system::monotonic_us() - self.begin_us) as f64;
        let pairs = tree.run_times_ns()?.into_iter().zip(&self.before_ns);
        self.received_us = pairs.map(|(after, before)| (after - before) as f64 / 1e3).collect();
        Ok(())
    }

    /// What those who nap use of what hogs in the same cgroup are due, of each of them, in µs.
    fn napped_us(&self, cgroup: usize) -> f64 {
        let (hogs, nappers) = self.within.split_at(self.due.len());
        let in_it = |within: &&Vec<usize>| within.first() == Some(&cgroup);
        let used = nappers.iter().zip(&self.received_us[hogs.len()..]);
        let used: f64 = used.filter(|(within, _)| in_it(within)).map(|(_, us)| us).sum();
        used / hogs.iter().filter(in_it).count() as f64
    }

    /// What hogs and cgroups received and were due. What else runs on the machine takes from all hogs
    /// alike, unless the `whole_machine` is due to them and others.
    fn service(&self, whole_machine: bool) -> Service {
        let (received, length) = (&self.received_us, self.length_us);
        let all = if whole_machine { 1.0 } else { received.iter().sum::<f64>() / length };
        let in_all = if whole_machine { 1.0 } else { self.due.iter().sum() };
        let task = |task: usize| {
            let used = received[task] / length;
            let due = match self.due.get(task) {
                Some(due) => due / in_all * all - self.napped_us(self.within[task][0]) / length,
                None => used,
            };
            Part { received: used, due, hogs: 1 }
        };
        let tasks: Vec<Part> = (0..received.len()).map(task).collect();
        let mut groups = vec![Part::default(); self.groups];
        for (hog, within) in self.within.iter().enumerate() {
            for &group in within {
                groups[group].received += tasks[hog].received;
                groups[group].due += tasks[hog].due;
                groups[group].hogs += 1;
            }
        }
        groups.retain(|group| group.hogs > 0);
        Service { tasks, groups, length_us: length }
    }
}

/// Cpus that a hog or cgroup received in the mean, and was due.
#[derive(Clone, Copy, Default)]
struct Part {
    received: f64,
    due: f64,
    hogs: usize,
}

impl Part {
    fn error(self) -> f64 {
        (self.received / self.due - 1.0).abs()
    }
}

struct Service {
    tasks: Vec<Part>,
    groups: Vec<Part>,
    length_us: f64,
}

struct Report {
    spans: Vec<Service>,
}

impl Report {
    fn worst_group(&self) -> f64 {
        let groups = self.spans.iter().flat_map(|span| &span.groups);
        groups.map(|part| part.error()).fold(0.0, f64::max)
    }

    /// True if no cgroup is further from its due than the limit and [`QUANTA`].
    fn within(&self, limit: f64) -> bool {
        self.spans.iter().all(|span| {
            span.groups.iter().all(|part| {
                let quanta = QUANTA * QUANTUM_US / span.length_us;
                (part.received - part.due).abs() <= limit * part.due + quanta
            })
        })
    }

    fn row(&self, cpus: usize, case: &Case, scheduler: &str) -> GroupRow {
        let worst = |parts: fn(&Service) -> &Vec<Part>| {
            let all = self.spans.iter().flat_map(parts);
            all.map(|part| part.error()).fold(0.0, f64::max) * 100.0
        };
        let quantum = |span: &Service| {
            let least = span.tasks.iter().map(|task| task.due).fold(f64::INFINITY, f64::min);
            QUANTUM_US / (least * span.length_us) * 100.0
        };
        GroupRow {
            cpus,
            tree: case.name.to_string(),
            scheduler: scheduler.to_string(),
            spans: self.spans.iter().map(Service::groups_of_machine).collect(),
            group_error_percent: worst(|span| &span.groups),
            task_error_percent: worst(|span| &span.tasks),
            quantum_percent: self.spans.iter().map(quantum).fold(0.0, f64::max),
        }
    }
}

impl Service {
    /// Each cgroup's part of what all received, and in brackets what was due.
    fn groups_of_machine(&self) -> String {
        let parts: Vec<String> = self
            .groups
            .iter()
            .map(|part| format!("{:.3} ({:.3})", part.received, part.due))
            .collect();
        parts.join(" ")
    }
}

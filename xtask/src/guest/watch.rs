//! What the scheduler tells of cgroups, beside what the kernel counts of them and what they are due.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::groups::{self, CGROUPS, Change, QUANTUM_US, SETTLED, Tree};
use super::mixes::SETTLING;
use super::open_metrics;
use super::scheduler::Scheduler;
use super::system;

/// Three levels. No cgroup can use less than it is due, with or without tasks that sleep.
const CASE: &str = "100{300x2, 100{100x1, 200x2}}, 200x3";
const SOCKET: &str = "/var/run/scx/root/stats";
/// What is told to be due may be so far from the ideal. Found: less than a tenth of that.
const DUE_ERROR: f64 = 0.002;
/// What is told to be received may be so far from what the kernel counts, which looks at ticks, and so many
/// quanta more: at either end each of two cpus may be in one. Found: up to 16.6 ms together.
const ERROR: f64 = 0.01;
const QUANTA: f64 = 4.0;
/// The cgroups are due so much of the machine. The rest is due to tasks of the root, each of which is paid
/// for three quanta once it sleeps.
const LEAST: f64 = 0.95;
/// Parts are told as whole ns.
const ROUNDING_NS: u64 = 16;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// The scheduler's command line.
    #[arg(long, default_value = "scx_prorata")]
    under: String,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        system::become_real_time()?;
        let cpus = thread::available_parallelism()?.get();
        let scheduler = Scheduler::start(&self.under)?;
        let mut loader = Loader::connect()?;
        let mut tree = Tree::new(groups::case_named(CASE)?)?;
        let sleepers = sleepers(&tree)?;
        loader.ask()?;
        tree.hogs.start();
        thread::sleep(SETTLING);
        let length = Duration::from_secs(self.seconds);
        compare(&mut loader, &tree, cpus, length).context("at first")?;
        tree.change(Change::Weight(300))?;
        thread::sleep(SETTLED);
        let last = compare(&mut loader, &tree, cpus, length).context("with another weight")?;
        check_text(&tree, &last)?;
        let gone = tree.nodes.iter().map(|node| name(&node.path)).collect::<Result<Vec<_>>>()?;
        drop(tree);
        drop(sleepers);
        check_gone(&mut loader, &last, &gone)?;
        scheduler.stop()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Tasks that sleep now and then, in the first and the last cgroup; killed with these.
fn sleepers(tree: &Tree) -> Result<Vec<Sleeper>> {
    let worker = |path: &Path| {
        let mut command = Command::new(std::env::current_exe()?);
        let child = command.args(["guest", "worker", "sleeper", "1"]).spawn()?;
        fs::write(path.join("cgroup.procs"), child.id().to_string())?;
        Ok(Sleeper(child))
    };
    // The first is a cgroup of cgroups.
    let hosts = [tree.nodes.get(1), tree.nodes.last()];
    hosts.into_iter().flatten().map(|node| worker(&node.path)).collect()
}

struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        // One that went with its cgroup is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A connection to the loader.
struct Loader(BufReader<UnixStream>);

#[derive(Deserialize)]
struct Response {
    errno: i32,
    args: Resp,
}

#[derive(Deserialize)]
struct Resp {
    resp: serde_json::Value,
}

/// What it tells.
#[derive(Deserialize)]
struct Report {
    now_ns: u64,
    missed: u64,
    cgroups: Vec<Cgroup>,
}

#[derive(Clone, Deserialize)]
struct Cgroup {
    path: String,
    weight: Option<u32>,
    tasks: u64,
    waiting: u64,
    due_ns: u64,
    received_ns: u64,
    waited_ns: u64,
}

impl Loader {
    fn connect() -> Result<Loader> {
        let stream = UnixStream::connect(SOCKET).context("the scheduler tells no statistics")?;
        Ok(Loader(BufReader::new(stream)))
    }

    fn ask(&mut self) -> Result<Report> {
        self.0.get_mut().write_all(b"{\"req\":\"stats\",\"args\":{\"target\":\"cgroups\"}}\n")?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let Response { errno, args: Resp { resp } } = serde_json::from_str(&line)?;
        ensure!(errno == 0, "the loader says: {resp}");
        Ok(serde_json::from_value(resp)?)
    }
}

impl Report {
    fn of(&self, path: &str) -> Result<&Cgroup> {
        let found = self.cgroups.iter().find(|cgroup| cgroup.path == path);
        found.with_context(|| format!("nothing is told of {path}"))
    }
}

fn name(path: &Path) -> Result<String> {
    let below = path.strip_prefix(CGROUPS)?;
    Ok(format!("/{}", below.to_str().context("the measurement's names are text")?))
}

/// What the kernel counted for a cgroup.
fn usage_ns(path: &Path) -> Result<u64> {
    let text = fs::read_to_string(path.join("cpu.stat"))?;
    let usage = text.lines().find_map(|line| line.strip_prefix("usage_usec "));
    Ok(usage.context("cpu.stat has no usage_usec")?.parse::<u64>()? * 1000)
}

/// The same for all, and when.
fn usages_ns(tree: &Tree) -> Result<(Instant, Vec<u64>)> {
    let now = Instant::now();
    let usages: Result<_> = tree.nodes.iter().map(|node| usage_ns(&node.path)).collect();
    Ok((now, usages?))
}

/// Compares a span of this length; the last report.
fn compare(loader: &mut Loader, tree: &Tree, cpus: usize, length: Duration) -> Result<Report> {
    let (first, (began, before_ns)) = (loader.ask()?, usages_ns(tree)?);
    thread::sleep(length);
    let (last, (ended, after_ns)) = (loader.ask()?, usages_ns(tree)?);
    ensure!(last.missed == 0, "{} changes were missed", last.missed);
    let elapsed_ns = (last.now_ns - first.now_ns) as f64;
    // The loader may be kept waiting between the two, so that they are of other spans.
    let of_span = elapsed_ns / (ended - began).as_nanos() as f64;
    let of_root = |report: &Report| -> u64 {
        let outermost = report.cgroups.iter().filter(|it| it.path.rfind('/') == Some(0));
        outermost.filter(|it| it.path != "/").map(|it| it.due_ns).sum()
    };
    let all = (of_root(&last) - of_root(&first)) as f64 / (elapsed_ns * cpus as f64);
    println!("all cgroups are due {all:.4} of the machine");
    ensure!((LEAST..1.0 + 1e-6).contains(&all), "cgroups are due {all} of the machine");
    let rates = tree.ideal.rates(cpus);
    for (node, (before_ns, after_ns)) in tree.nodes.iter().zip(before_ns.iter().zip(&after_ns)) {
        let path = name(&node.path)?;
        let (then, now) = (first.of(&path)?, last.of(&path)?);
        let ideal_ns = rates.of(node.place).in_cpus() * all * elapsed_ns;
        let due_ns = (now.due_ns - then.due_ns) as f64;
        let received_ns = (now.received_ns - then.received_ns) as f64;
        let used_ns = (after_ns - before_ns) as f64 * of_span;
        println!(
            "{path}: due {:.1} ms, ideal {:.1}; received {:.1}, cpu.stat {:.1}; waited {:.1}",
            due_ns / 1e6,
            ideal_ns / 1e6,
            received_ns / 1e6,
            used_ns / 1e6,
            (now.waited_ns - then.waited_ns) as f64 / 1e6,
        );
        let is_ideal = (due_ns - ideal_ns).abs() <= DUE_ERROR * ideal_ns;
        ensure!(is_ideal, "{path} is due something else");
        let most_ns = ERROR * used_ns + QUANTA * QUANTUM_US * 1e3;
        let is_used = (received_ns - used_ns).abs() <= most_ns;
        ensure!(is_used, "{path} received something else");
        ensure!(now.waited_ns > then.waited_ns && now.tasks > 0, "{path} has tasks that wait");
        ensure!(now.waiting <= now.tasks, "{path} has no more tasks than it has");
        let weight: u32 = fs::read_to_string(node.path.join("cpu.weight"))?.trim().parse()?;
        ensure!(now.weight == Some(weight), "{path} weighs {weight}, not {:?}", now.weight);
    }
    check_sums(tree, &last)?;
    Ok(last)
}

/// A cgroup with cgroups has no tasks of its own: what they are told is its own.
fn check_sums(tree: &Tree, report: &Report) -> Result<()> {
    for node in &tree.nodes {
        let path = name(&node.path)?;
        let children: Vec<&Cgroup> = report
            .cgroups
            .iter()
            .filter(|it| it.path.rsplit_once('/').is_some_and(|(above, _)| above == path))
            .collect();
        let own = report.of(&path)?;
        let sum = |of: fn(&Cgroup) -> u64| children.iter().map(|it| of(it)).sum::<u64>();
        if !children.is_empty() {
            let due_ns = sum(|it| it.due_ns);
            ensure!(own.due_ns.abs_diff(due_ns) < ROUNDING_NS, "{path}: dues add up to {due_ns}");
            ensure!(own.tasks == sum(|it| it.tasks), "{path}: tasks do not add up");
        }
    }
    Ok(())
}

/// The same as text.
fn check_text(tree: &Tree, before: &Report) -> Result<()> {
    let samples = open_metrics::ask(&["--cgroups"])?;
    for node in &tree.nodes {
        let path = name(&node.path)?;
        let then_s = before.of(&path)?.due_ns as f64 / 1e9;
        let series = format!("scx_prorata_cgroup_due_seconds_total{{cgroup=\"{path}\"}}");
        let due_s = samples.get(&series).with_context(|| format!("there is no {series}"))?;
        ensure!(*due_s > then_s, "{path} was due {then_s} s, and {due_s} later");
    }
    Ok(())
}

/// cgroups that have gone are told no longer, but what they received is their parents'.
fn check_gone(loader: &mut Loader, before: &Report, gone: &[String]) -> Result<()> {
    let report = loader.ask()?;
    for path in gone {
        ensure!(report.of(path).is_err(), "{path} has gone");
    }
    let (then, now) = (before.of("/")?, report.of("/")?);
    ensure!(now.received_ns > then.received_ns && now.due_ns > then.due_ns, "the root goes back");
    Ok(())
}

//! Hogs on a machine of many cpus: what they receive, how often they move, and which cpus a few of them take.

use std::collections::BTreeSet;
use std::fs;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::mixes::Loaded;
use super::system;

const CPUS: &str = "/sys/devices/system/cpu";
/// From one of a few hogs to the next: a cpu that has one is known to be busy then.
const STAGGER: Duration = Duration::from_millis(2);
/// Until hogs are where they stay, or have had their first turns.
const SETTLING: Duration = Duration::from_millis(500);
/// How often a hog looks where it is, in turns of its loop.
const LOOK: u64 = 4096;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[arg(long, default_value_t = 2000)]
    hogs: usize,
    /// Seconds of the measurement.
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// Command lines of `scx_prorata`, or eevdf.
    #[arg(long = "under", required = true)]
    schedulers: Vec<String>,
    /// Fail if as many hogs as cores share one.
    #[arg(long)]
    whole_cores: bool,
    /// Fail if a hog is further than this from its share, in per mille.
    #[arg(long)]
    share_error: Option<u32>,
    /// Fail if hogs move to another node oftener, each in a second.
    #[arg(long)]
    far: Option<f64>,
}

/// By cpu: its core, and its node.
struct Machine {
    cores: Vec<usize>,
    nodes: Arc<Vec<usize>>,
}

impl Machine {
    fn read() -> Result<Machine> {
        let cpus = thread::available_parallelism()?.get();
        let core = |cpu| first(&format!("{CPUS}/cpu{cpu}/topology/thread_siblings_list"));
        // A machine of one node may not tell.
        let node = |cpu: usize| {
            (0..)
                .map(|node| format!("{CPUS}/cpu{cpu}/node{node}"))
                .take(64)
                .position(|dir| fs::exists(dir).unwrap_or(false))
        };
        let nodes = (0..cpus).map(|cpu| node(cpu).unwrap_or(0)).collect();
        Ok(Machine { cores: (0..cpus).map(core).collect::<Result<_>>()?, nodes: Arc::new(nodes) })
    }

    fn count(of: &[usize]) -> usize {
        of.iter().collect::<BTreeSet<_>>().len()
    }
}

/// The first number of a list of cpus.
fn first(file: &str) -> Result<usize> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    let number = text.trim().split(['-', ',']).next().unwrap_or_default();
    number.parse().with_context(|| format!("{file} says '{text}'"))
}

/// What a hog notes of itself.
#[derive(Default)]
struct Notes {
    /// Its thread, once it has run.
    id: AtomicU32,
    cpu: AtomicU64,
    moves: AtomicU64,
    far: AtomicU64,
}

/// Threads that compute until they are dropped.
struct Hogs {
    over: Arc<AtomicBool>,
    hogs: Vec<(Arc<Notes>, JoinHandle<()>)>,
}

impl Hogs {
    fn new() -> Hogs {
        Hogs { over: Arc::default(), hogs: Vec::new() }
    }

    fn add(&mut self, nodes: &Arc<Vec<usize>>) -> Result<()> {
        let (notes, over, nodes) = (Arc::new(Notes::default()), self.over.clone(), nodes.clone());
        let theirs = notes.clone();
        let thread = thread::Builder::new().stack_size(64 << 10).spawn(move || {
            theirs.id.store(system::thread_id(), Ordering::Relaxed);
            compute(&theirs, &over, &nodes);
        })?;
        self.hogs.push((notes, thread));
        Ok(())
    }

    /// Waits until all have had a turn: thousands take a while.
    fn have_begun(&self) {
        while self.hogs.iter().any(|(notes, _)| notes.id.load(Ordering::Relaxed) == 0) {
            thread::sleep(STAGGER);
        }
    }

    fn on_cpus(&self) -> Vec<usize> {
        let cpu = |notes: &Notes| usize::try_from(notes.cpu.load(Ordering::Relaxed)).unwrap_or(0);
        self.hogs.iter().map(|(notes, _)| cpu(notes)).collect()
    }

    /// How long each has run, in ms.
    fn ran_ms(&self) -> Result<Vec<f64>> {
        let ran = |id: u32| {
            let text = fs::read_to_string(format!("/proc/self/task/{id}/schedstat"))?;
            let ns: f64 = text.split(' ').next().context("it has three numbers")?.parse()?;
            Ok(ns / 1e6)
        };
        self.hogs.iter().map(|(notes, _)| ran(notes.id.load(Ordering::Relaxed))).collect()
    }

    /// Moves between cpus, and between nodes.
    fn moves(&self) -> [u64; 2] {
        let sum = |count: fn(&Notes) -> &AtomicU64| {
            self.hogs.iter().map(|(notes, _)| count(notes).load(Ordering::Relaxed)).sum()
        };
        [sum(|notes| &notes.moves), sum(|notes| &notes.far)]
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for (_, thread) in self.hogs.drain(..) {
            thread.join().expect("a hog does not panic");
        }
    }
}

fn compute(notes: &Notes, over: &AtomicBool, nodes: &[usize]) {
    let mut before = None;
    while !over.load(Ordering::Relaxed) {
        (0..LOOK).for_each(|turn| {
            std::hint::black_box(turn);
        });
        let cpu = system::current_cpu();
        if before == Some(cpu) {
            continue;
        }
        notes.cpu.store(cpu as u64, Ordering::Relaxed);
        if let Some(before) = before.replace(cpu) {
            notes.moves.fetch_add(1, Ordering::Relaxed);
            notes.far.fetch_add(u64::from(nodes[before] != nodes[cpu]), Ordering::Relaxed);
        }
    }
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        system::become_real_time()?;
        let machine = Machine::read()?;
        println!(
            "{} cpus, {} cores, {} nodes",
            machine.cores.len(),
            Machine::count(&machine.cores),
            Machine::count(&machine.nodes)
        );
        let mut loaded = Loaded::default();
        for command_line in &self.schedulers {
            loaded.load(command_line)?;
            self.fill_cores(command_line, &machine)?;
            self.share(command_line, &machine)?;
            loaded.load(command_line)?.goes_on()?;
        }
        loaded.stop()?;
        Ok(ExitCode::SUCCESS)
    }

    /// As many hogs as cores: none shares one with another.
    fn fill_cores(&self, scheduler: &str, machine: &Machine) -> Result<()> {
        let cores = Machine::count(&machine.cores);
        let mut hogs = Hogs::new();
        for _ in 0..cores {
            hogs.add(&machine.nodes)?;
            thread::sleep(STAGGER);
        }
        thread::sleep(SETTLING);
        let on_cpus = hogs.on_cpus();
        let taken: BTreeSet<usize> = on_cpus.iter().map(|&cpu| machine.cores[cpu]).collect();
        let [moves, far] = hogs.moves();
        println!(
            "{scheduler}: {cores} hogs are on {} cores; they moved {moves} times, {far} to another node",
            taken.len()
        );
        ensure!(
            !self.whole_cores || taken.len() == cores,
            "hogs share cores, and others idle: they are on cpus {on_cpus:?}"
        );
        Ok(())
    }

    fn share(&self, scheduler: &str, machine: &Machine) -> Result<()> {
        let mut hogs = Hogs::new();
        for _ in 0..self.hogs {
            hogs.add(&machine.nodes)?;
        }
        hogs.have_begun();
        thread::sleep(SETTLING);
        let (begin_ms, begin) = (hogs.ran_ms()?, hogs.moves());
        thread::sleep(Duration::from_secs(self.seconds));
        let (end_ms, end) = (hogs.ran_ms()?, hogs.moves());
        let ran_ms: Vec<f64> =
            begin_ms.iter().zip(end_ms).map(|(begin, end)| end - begin).collect();
        let due_ms = ran_ms.iter().sum::<f64>() / self.hogs as f64;
        let worst = ran_ms.iter().map(|ms| (ms / due_ms - 1.0).abs()).fold(0.0, f64::max);
        let rate =
            |at: usize| (end[at] - begin[at]) as f64 / (self.hogs as u64 * self.seconds) as f64;
        println!(
            "{scheduler}: {} hogs were due {due_ms:.1} ms each, the worst is {:.2} % off; each moved {:.2} \
             times a second, {:.3} times to another node",
            self.hogs,
            worst * 100.0,
            rate(0),
            rate(1)
        );
        let limit = self.share_error.map_or(f64::INFINITY, |error| f64::from(error) / 1000.0);
        ensure!(worst <= limit, "a share is {:.1} % off", worst * 100.0);
        ensure!(rate(1) <= self.far.unwrap_or(f64::INFINITY), "hogs change nodes too often");
        Ok(())
    }
}

//! Hogs that may not run on every cpu, and what each scheduler makes of them, beside the ideal.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use prorata::Weight;
use prorata::masks::{self, Mask};

use super::hogs::Hogs;
use super::mixes::{Loaded, SETTLING};
use super::system;
use crate::shell;

const CGROUPS: &str = "/sys/fs/cgroup";
/// What a quantum is, in µs.
const QUANTUM_US: f64 = 5000.0;

/// Hogs of these weights, with one mask.
struct Set {
    weights: &'static [u32],
    mask: Mask,
}

const fn set(weights: &'static [u32], mask: Mask) -> Set {
    Set { weights, mask }
}

/// Where the hogs' masks come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Affinity,
    /// A partition of cpusets for each mask but the first, which is what they leave.
    Partitions,
}

struct Case {
    name: &'static str,
    cpus: usize,
    from: From,
    sets: &'static [Set],
}

const fn case(name: &'static str, cpus: usize, sets: &'static [Set]) -> Case {
    Case { name, cpus, from: From::Affinity, sets }
}

const CASES: &[Case] = &[
    case("3, 2, 1 on cpu 1; 1, 1 free", 2, &[set(&[3, 2, 1], 0b10), set(&[1, 1], 0b11)]),
    case("3, 2, 1 on cpu 1; 3, 3 free", 2, &[set(&[3, 2, 1], 0b10), set(&[3, 3], 0b11)]),
    case("3, 2, 1 on cpu 1; 6, 6 free", 2, &[set(&[3, 2, 1], 0b10), set(&[6, 6], 0b11)]),
    case("8, 1, 1 on cpu 1", 2, &[set(&[8, 1, 1], 0b10)]),
    case("3, 1 on cpu 1; 1 free", 2, &[set(&[3, 1], 0b10), set(&[1], 0b11)]),
    case("3, 2, 1 on cpu 0", 2, &[set(&[3, 2, 1], 0b01)]),
    case("2, 1 on cpu 0; 5, 1 on cpu 1", 2, &[set(&[2, 1], 0b01), set(&[5, 1], 0b10)]),
    case(
        "3, 2, 1 on cpu 3; 2, 1 on 2 and 3; 1 x6 free",
        4,
        &[set(&[3, 2, 1], 0b1000), set(&[2, 1], 0b1100), set(&[1; 6], 0b1111)],
    ),
    case("8, 1, 1 on 0 and 1; 9 on 2 and 3", 4, &[set(&[8, 1, 1], 0b0011), set(&[9], 0b1100)]),
    case(
        "300, 3 on cpu 2; 33 x2 on 3; 33 on 1 and 2; 33 x6, 150 x2 free",
        4,
        &[
            set(&[300, 3], 0b0100),
            set(&[33; 2], 0b1000),
            set(&[33], 0b0110),
            set(&[33; 6], 0b1111),
            set(&[150; 2], 0b1111),
        ],
    ),
    Case {
        name: "partitions: 3, 2, 1; 6, 1, 1, 1",
        cpus: 4,
        from: From::Partitions,
        sets: &[set(&[3, 2, 1], 0b0011), set(&[6, 1, 1, 1], 0b1100)],
    },
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// A command line of `scx_prorata`; may be repeated.
    #[arg(long = "under", required = true)]
    schedulers: Vec<String>,
    /// Only cases whose name begins so; may be repeated.
    #[arg(long = "case")]
    cases: Vec<String>,
    /// Fail if a hog is further than this from what it is due, in per mille, and more than two quanta.
    #[arg(long)]
    error: Option<u32>,
}

impl Args {
    /// All cases for this machine, under each scheduler.
    pub(crate) fn execute(self) -> Result<ExitCode> {
        system::become_real_time()?;
        let cpus = fs::read_to_string("/sys/devices/system/cpu/online")?;
        let cpus = if cpus.trim() == "0" { 1 } else { online(cpus.trim())? };
        let wanted = |case: &&Case| {
            let named = self.cases.iter().any(|name| case.name.starts_with(name));
            case.cpus == cpus && (self.cases.is_empty() || named)
        };
        let mut loaded = Loaded::default();
        for scheduler in &self.schedulers {
            for case in CASES.iter().filter(wanted) {
                let what = || format!("{} under {scheduler}", case.name);
                let report = self.measure(case, scheduler, &mut loaded).with_context(what)?;
                report.print(case, scheduler);
                let limit = self.error.map_or(f64::INFINITY, |error| f64::from(error) / 1000.0);
                ensure!(report.within(limit), "{}: {:.2} % off", what(), report.worst() * 100.0);
            }
        }
        loaded.stop()?;
        Ok(ExitCode::SUCCESS)
    }

    fn measure(&self, case: &Case, scheduler: &str, loaded: &mut Loaded) -> Result<Report> {
        let scheduler = loaded.load(scheduler)?;
        let tasks: Vec<(u32, Mask)> = case.sets.iter().flat_map(tasks_of).collect();
        let mut hogs = Hogs::new(&vec![0; tasks.len()])?;
        let partitions = Partitions::of(case)?;
        for (pid, &(weight, mask)) in hogs.pids().into_iter().zip(&tasks) {
            let (pid, weight) = (pid.to_string(), weight.to_string());
            shell::output(
                Command::new("scx_prorata").args(["weight", "set", "--pid", &pid, &weight]),
            )?;
            match case.from {
                From::Partitions => partitions.take(mask, &pid)?,
                From::Affinity => {
                    system::bind(pid.parse()?, |cpu| mask >> cpu & 1 == 1, case.cpus)?;
                }
            }
        }
        thread::sleep(Duration::from_millis(300));
        hogs.start();
        thread::sleep(SETTLING);
        let (begin_us, before) = (system::monotonic_us(), hogs.run_times_ns()?);
        thread::sleep(Duration::from_secs(self.seconds));
        let (end_us, after) = (system::monotonic_us(), hogs.run_times_ns()?);
        drop((hogs, partitions));
        let received =
            after.into_iter().zip(before).map(|(after, before)| (after - before) as f64 / 1e3);
        scheduler.goes_on()?;
        let weighed =
            tasks.iter().map(|&(weight, mask)| (Weight::new(weight).unwrap_or(Weight::ONE), mask));
        let due = masks::rates(&weighed.collect::<Vec<_>>(), u32::try_from(case.cpus)?);
        let length_us = (end_us - begin_us) as f64;
        let hog = |(received_us, due): (f64, masks::Rate)| (received_us / length_us, due.in_cpus());
        Ok(Report { hogs: received.zip(due).map(hog).collect(), length_us })
    }
}

fn tasks_of(set: &Set) -> impl Iterator<Item = (u32, Mask)> {
    set.weights.iter().map(|&weight| (weight, set.mask))
}

/// The number of cpus that `0-N` names.
fn online(cpus: &str) -> Result<usize> {
    let last = cpus.strip_prefix("0-").and_then(|last| last.parse::<usize>().ok());
    Ok(last.with_context(|| format!("cpus {cpus} are online"))? + 1)
}

/// Partitions of cpusets; they go when it is dropped.
struct Partitions(Vec<(Mask, PathBuf)>);

impl Partitions {
    fn of(case: &Case) -> Result<Partitions> {
        let mut partitions = Partitions(Vec::new());
        if case.from == From::Partitions {
            write(&Path::new(CGROUPS).join("cgroup.subtree_control"), "+cpuset")?;
            case.sets[1..].iter().try_for_each(|set| partitions.add(set.mask))?;
        }
        Ok(partitions)
    }

    fn add(&mut self, mask: Mask) -> Result<()> {
        let path = Path::new(CGROUPS).join(format!("partition-{}", self.0.len()));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let cpus: Vec<String> =
            (0..Mask::BITS).filter(|cpu| mask >> cpu & 1 == 1).map(|cpu| cpu.to_string()).collect();
        write(&path.join("cpuset.cpus"), &cpus.join(","))?;
        write(&path.join("cpuset.cpus.partition"), "root")?;
        self.0.push((mask, path));
        Ok(())
    }

    fn take(&self, mask: Mask, pid: &str) -> Result<()> {
        match self.0.iter().find(|(own, _)| *own == mask) {
            Some((_, path)) => write(&path.join("cgroup.procs"), pid),
            None => Ok(()),
        }
    }
}

impl Drop for Partitions {
    fn drop(&mut self) {
        for (_, path) in &self.0 {
            // The next case cannot make one that is left over, and says so.
            let _ = fs::remove_dir(path);
        }
    }
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write '{text}' to {}", file.display()))
}

/// By hog: cpus received, and due.
struct Report {
    hogs: Vec<(f64, f64)>,
    length_us: f64,
}

impl Report {
    fn worst(&self) -> f64 {
        self.hogs.iter().map(|(got, due)| (got / due - 1.0).abs()).fold(0.0, f64::max)
    }

    fn within(&self, limit: f64) -> bool {
        let quanta = 2.0 * QUANTUM_US / self.length_us;
        self.hogs.iter().all(|(got, due)| (got - due).abs() <= (limit * due).max(quanta))
    }

    /// A row of a table in Markdown.
    fn print(&self, case: &Case, scheduler: &str) {
        let list = |part: fn(&(f64, f64)) -> f64| {
            self.hogs.iter().map(|hog| format!("{:.3}", part(hog))).collect::<Vec<_>>().join(" ")
        };
        println!(
            "| {} | {} | {scheduler} | {} | {} | {:.2} % |",
            case.cpus,
            case.name,
            list(|hog| hog.1),
            list(|hog| hog.0),
            self.worst() * 100.0
        );
    }
}

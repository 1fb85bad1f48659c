//! Services and a user's session of a booted Debian, and what systemd's weights give each.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use prorata::Weight;
use prorata::hierarchy::{Hierarchy, Place};

use super::groups::{QUANTA, QUANTUM_US};
use super::mixes::{Loaded, SETTLING};
use super::system;
use crate::shell;

/// What a Debian needs to boot, and to have users' sessions.
pub(crate) const PACKAGES: &[&str] =
    &["systemd", "systemd-sysv", "dbus", "libpam-systemd", "util-linux", "coreutils"];

const CGROUPS: &str = "/sys/fs/cgroup";
const UNITS: &str = "/run/systemd/system";
const UNITS_OF_USERS: &str = "/etc/systemd/user";
/// So long after a change shares must be right.
const SETTLED: Duration = Duration::from_millis(50);

/// A unit of the measurement: below what it is, its weight, and how many hogs it has.
struct Unit {
    name: &'static str,
    cgroup: &'static str,
    above: Option<usize>,
    weight: u32,
    hogs: u64,
}

const LIGHT: usize = 1;
const HEAVY: usize = 2;
const SESSIONS: usize = 3;
/// An interior one comes before what is in it.
const TREE: &[Unit] = &[
    Unit { name: "system.slice", cgroup: "system.slice", above: None, weight: 100, hogs: 0 },
    Unit {
        name: "light.service",
        cgroup: "system.slice/light.service",
        above: Some(0),
        weight: 100,
        hogs: 1,
    },
    Unit {
        name: "heavy.service",
        cgroup: "system.slice/heavy.service",
        above: Some(0),
        weight: 300,
        hogs: 4,
    },
    Unit { name: "user.slice", cgroup: "user.slice", above: None, weight: 100, hogs: 2 },
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// A scheduler's command line, `eevdf`, or `loaded` for one that runs already; may be repeated.
    #[arg(long = "under", required = true)]
    schedulers: Vec<String>,
    /// Fail if a unit is further than this from its due, in per mille, and more than four quanta beyond.
    #[arg(long)]
    error: Option<u32>,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        system::become_real_time()?;
        let cpus = thread::available_parallelism()?.get();
        let mut loaded = Loaded::default();
        println!("| cpus | weights | scheduler | received (due), cpus | worst error |");
        println!("|---|---|---|---|---|");
        for scheduler in &self.schedulers {
            let running = loaded.load(scheduler)?;
            let units = Units::start()?;
            let mut ideal = Ideal::new();
            thread::sleep(SETTLING);
            for change in [None, Some((HEAVY, 100)), Some((SESSIONS, 200)), Some((LIGHT, 500))] {
                if let Some((unit, weight)) = change {
                    set_weight(unit, weight)?;
                    ideal.set_weight(unit, weight)?;
                    thread::sleep(SETTLED);
                }
                let received = received(Duration::from_secs(self.seconds))?;
                running.goes_on()?;
                let parts = ideal.parts(&received, cpus);
                ideal.print(&parts, cpus, scheduler);
                let limit = self.error.map_or(f64::INFINITY, |error| f64::from(error) / 1000.0);
                let quanta = QUANTA * QUANTUM_US / 1e6 / self.seconds as f64;
                let is_within = |part: &Part| part.error() * part.due <= limit * part.due + quanta;
                ensure!(parts.iter().all(is_within), "a unit is too far from its due");
            }
            drop(units);
        }
        loaded.stop()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Services and a session with hogs; stopped when dropped.
struct Units;

impl Units {
    fn start() -> Result<Units> {
        let users = format!("{UNITS_OF_USERS}/default.target.wants");
        fs::create_dir_all(&users)?;
        fs::create_dir_all(UNITS)?;
        for unit in [LIGHT, HEAVY] {
            fs::write(
                format!("{UNITS}/{}", TREE[unit].name),
                format!("[Service]\n{}", hogs(unit)),
            )?;
        }
        let session = format!("{UNITS_OF_USERS}/hogs.service");
        fs::write(&session, format!("[Service]\n{}", hogs(SESSIONS)))?;
        let wanted = format!("{users}/hogs.service");
        if !Path::new(&wanted).exists() {
            symlink(&session, &wanted)?;
        }
        systemctl(&["daemon-reload"])?;
        let units = Units;
        for unit in [LIGHT, HEAVY, SESSIONS] {
            set_weight(unit, TREE[unit].weight)?;
        }
        systemctl(&["start", TREE[LIGHT].name, TREE[HEAVY].name, "user@1000.service"])?;
        Ok(units)
    }
}

impl Drop for Units {
    fn drop(&mut self) {
        // What is left over, the next measurement tells.
        let _ = systemctl(&["stop", TREE[LIGHT].name, TREE[HEAVY].name, "user@1000.service"]);
    }
}

fn hogs(unit: usize) -> String {
    let hogs = TREE[unit].hogs;
    format!(
        "ExecStart=/bin/sh -c 'for N in $(seq {hogs}); do xtask guest hog </dev/null & done; wait'\n"
    )
}

fn systemctl(words: &[&str]) -> Result<String> {
    shell::output(Command::new("systemctl").args(words))
}

fn set_weight(unit: usize, weight: u32) -> Result<()> {
    let weight = format!("CPUWeight={weight}");
    systemctl(&["set-property", "--runtime", TREE[unit].name, &weight]).map(drop)
}

/// What each unit receives in a time, in cpus.
fn received(length: Duration) -> Result<Vec<f64>> {
    let before: Vec<u64> = TREE.iter().map(usage_us).collect::<Result<_>>()?;
    let begin_us = system::monotonic_us();
    thread::sleep(length);
    let after: Vec<u64> = TREE.iter().map(usage_us).collect::<Result<_>>()?;
    let elapsed_us = (system::monotonic_us() - begin_us) as f64;
    Ok(after
        .iter()
        .zip(before)
        .map(|(after, before)| (after - before) as f64 / elapsed_us)
        .collect())
}

fn usage_us(unit: &Unit) -> Result<u64> {
    let file = Path::new(CGROUPS).join(unit.cgroup).join("cpu.stat");
    let text = fs::read_to_string(&file).with_context(|| format!("no {}", file.display()))?;
    let usage = text.lines().find_map(|line| line.strip_prefix("usage_usec "));
    Ok(usage.context("cpu.stat without usage_usec")?.parse()?)
}

/// What the units are due.
struct Ideal {
    tree: Hierarchy,
    places: Vec<Place>,
    weights: Vec<u32>,
}

impl Ideal {
    fn new() -> Ideal {
        let mut tree = Hierarchy::new();
        let mut places: Vec<Place> = Vec::new();
        for unit in TREE {
            let above = unit.above.map_or(Hierarchy::ROOT, |above| places[above]);
            let place = tree.add(above, Weight::new(unit.weight).expect("not 0"));
            for _ in 0..unit.hogs {
                let hog = tree.add(place, Weight::ONE);
                tree.set_width(hog, 1);
            }
            places.push(place);
        }
        Ideal { tree, places, weights: TREE.iter().map(|unit| unit.weight).collect() }
    }

    fn set_weight(&mut self, unit: usize, weight: u32) -> Result<()> {
        self.weights[unit] = weight;
        self.tree
            .set_weight(self.places[unit], Weight::new(weight).context("a weight is above 0")?);
        Ok(())
    }

    /// What the units received beside what they were due of what all received.
    fn parts(&self, received: &[f64], cpus: usize) -> Vec<Part> {
        let rates = self.tree.rates(cpus);
        let rate = |unit: usize| rates.of(self.places[unit]).in_cpus();
        let tops = || (0..TREE.len()).filter(|&unit| TREE[unit].above.is_none());
        let scale = tops().map(|unit| received[unit]).sum::<f64>() / tops().map(rate).sum::<f64>();
        let part = |unit| Part { received: received[unit], due: rate(unit) * scale };
        (0..TREE.len()).map(part).collect()
    }

    fn print(&self, parts: &[Part], cpus: usize, scheduler: &str) {
        let weight = |(unit, weight): (&Unit, &u32)| format!("{} {weight}", unit.name);
        let weights: Vec<String> = TREE.iter().zip(&self.weights).map(weight).collect();
        let share = |part: &Part| format!("{:.3} ({:.3})", part.received, part.due);
        let shares: Vec<String> = parts.iter().map(share).collect();
        let worst = parts.iter().map(Part::error).fold(0.0, f64::max);
        println!(
            "| {cpus} | {} | {scheduler} | {} | {:.2} % |",
            weights.join(", "),
            shares.join(", "),
            worst * 100.0
        );
    }
}

/// In cpus.
struct Part {
    received: f64,
    due: f64,
}

impl Part {
    fn error(&self) -> f64 {
        (self.received / self.due - 1.0).abs()
    }
}

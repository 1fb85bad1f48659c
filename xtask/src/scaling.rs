//! `cargo xtask scaling`: what a decision of the kernel's scheduler costs as cpus become more, as far as a
//! small machine can tell.
//!
//! 1. *Counted*: the callbacks of `scx_prorata`, compiled natively, run on a simulated machine of up to 512
//!    cpus, whose accesses to memory go through a model of their caches (`caches.rs`): cache lines that come
//!    from other cpus, times that the lock is taken, and instructions executed with it held. The same seed
//!    gives the same numbers.
//! 2. *Calibrated*: how long two real cpus take to hand a line over, and an instruction.
//! 3. *Modelled*: both together in a queueing model of the lock (`model.rs`).
//!
//! The same for policies alone, without the framework: those with one lock beside GDQ whose queues have locks
//! of their own, which the framework cannot have yet.
//!
//! Not in it: the kernel's own part of a switch, and what is executed without the lock; one latency stands
//! for all distances between cpus.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, ensure};

use crate::shell;
use calibration::Calibration;
use machine::{
    ALONE, DISTRIBUTED, GDQ, GDQ_LONG, GDQ_OF_PAPER, GR3, Load, Machine, Measured, POLICIES, Policy,
};
use model::Cycle;
use prorata_plot::{Axis, Lines, Series};

mod caches;
mod calibration;
mod machine;
mod model;
mod trace;

/// Decisions that are counted at each number of cpus, if each cpu then has …
const DECISIONS: u32 = 4096;
/// … at least so many: tasks have been everywhere by then.
const LEAST_DECISIONS_EACH: u32 = 24;
/// The same for policies alone: tasks have been stolen until queues are even.
const LEAST_DECISIONS_ALONE: u32 = 128;
/// On each cpu, where nobody sleeps.
const HOGS: u32 = 4;
/// In the figure of the paper.
const PAPER_CPUS: [u32; 2] = [2, 8];
const PAPER_TASKS: [u32; 5] = [10, 30, 100, 300, 1000];
/// A cpu that is busy with short runs decides so often.
const SHORT_RUN_NS: f64 = 100_000.0;
/// Of the latency that was measured: as between two hyperthreads, and as between two sockets.
const LATENCIES: [(f64, &str); 3] =
    [(0.25, "a quarter"), (1.0, "as measured"), (4.0, "four times")];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Numbers of cpus.
    #[arg(long, value_delimiter = ',', default_value = "2,4,8,16,32,64,128,256,512")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=512))]
    cpus: Vec<u32>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long a cache line takes from cpu to cpu, instead of measuring it here.
    #[arg(long, value_name = "NS")]
    handover_ns: Option<f64>,
    /// How long an instruction takes.
    #[arg(long, value_name = "NS")]
    instruction_ns: Option<f64>,
    /// Only policies without the framework.
    #[arg(long)]
    alone: bool,
    /// Where the tables and the picture go.
    #[arg(long, default_value = "target/scaling", value_name = "DIRECTORY")]
    output: PathBuf,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        for (given, option) in
            [(self.handover_ns, "--handover-ns"), (self.instruction_ns, "--instruction-ns")]
        {
            let possible = given.is_none_or(|ns| ns > 0.0 && ns < 1e6);
            ensure!(
                possible,
                "{option} is not possible: give nanoseconds above 0 and below 1000000"
            );
        }
        let machine = Machine::new(shell::target_dir().join("scaling-programs"))?;
        let calibration = self.calibrate(&machine)?;
        let least = LEAST_DECISIONS_EACH;
        let hogs = |cpus, decisions, seed| Load::hogs(cpus, HOGS * cpus, decisions, seed);
        let alone = [
            self.count(&machine, &ALONE, Load::mix, LEAST_DECISIONS_ALONE)?,
            self.count(&machine, &ALONE, hogs, LEAST_DECISIONS_ALONE)?,
        ];
        print!("{}", table_alone(&alone.concat(), calibration));
        for (load, counted) in ["Three hogs and a sleeper a cpu", "Four hogs"].iter().zip(&alone) {
            println!("{}", crossing(&format!("{load}, alone"), counted, DISTRIBUTED, calibration));
        }
        let output = &self.output;
        fs::create_dir_all(output).with_context(|| output.display().to_string())?;
        write(output, "alone.csv", &csv_of_counts(&alone.concat())?)?;
        if self.alone {
            return Ok(ExitCode::SUCCESS);
        }
        let mix = self.count(&machine, &POLICIES, Load::mix, least)?;
        let hogs = self.count(&machine, &[GR3, GDQ, GDQ_LONG], hogs, least)?;
        let paper = self.count_as_in_paper(&machine)?;
        let all = [&mix[..], &hogs[..]].concat();
        print!("\n{}", table(&all));
        println!("\n{}", told(&calibration));
        print!("\n{}", table_of_model(&all, calibration));
        println!("\n{}", crossing("Three hogs and a sleeper a cpu", &mix, GDQ, calibration));
        println!("{}", crossing("Four hogs of one weight a cpu", &hogs, GDQ, calibration));
        write(output, "counted.csv", &csv_of_counts(&all)?)?;
        write(output, "lines.csv", &csv_of_lines(&all)?)?;
        write(output, "model.csv", &csv_of_model(&all, calibration)?)?;
        write(output, "scaling.svg", &picture(&mix, &paper, calibration)?)?;
        println!(
            "\n{}: alone.csv, counted.csv, lines.csv, model.csv, scaling.svg",
            output.display()
        );
        Ok(ExitCode::SUCCESS)
    }

    fn calibrate(&self, machine: &Machine) -> Result<Calibration> {
        Ok(Calibration {
            handover_ns: self.handover_ns.map_or_else(calibration::handover_ns, Ok)?,
            instruction_ns: self.instruction_ns.map_or_else(|| machine.instruction_ns(), Ok)?,
        })
    }

    fn count(
        &self,
        machine: &Machine,
        policies: &[Policy],
        load: impl Fn(u32, u32, u64) -> Load,
        least: u32,
    ) -> Result<Vec<Measured>> {
        let mut counted = Vec::new();
        for &cpus in &self.cpus {
            let decisions = (DECISIONS / cpus).max(least);
            let load = load(cpus, decisions, self.seed);
            for &policy in policies {
                eprintln!("xtask: {}: {} on {cpus} cpus", load.name, policy.name);
                counted.push(machine.measure(policy, load)?);
            }
        }
        Ok(counted)
    }

    fn count_as_in_paper(&self, machine: &Machine) -> Result<Vec<Measured>> {
        let mut counted = Vec::new();
        for policy in [GR3, GDQ_OF_PAPER] {
            for cpus in PAPER_CPUS {
                for tasks in PAPER_TASKS {
                    let load = Load::hogs(cpus, tasks, DECISIONS / cpus, self.seed);
                    counted.push(machine.measure(policy, load)?);
                }
            }
        }
        Ok(counted)
    }
}

fn write(directory: &Path, name: &str, text: &str) -> Result<()> {
    let path = directory.join(name);
    fs::write(&path, text).with_context(|| path.display().to_string())
}

/// What the model makes of a measurement.
#[derive(Clone, Copy, Debug)]
struct Modelled {
    cycle: Cycle,
    /// Waiting for the lock and holding it, for a decision, with the lines that are fetched without it.
    decision_ns: f64,
}

/// `run_ns` is the time between two decisions of a cpu.
fn modelled(measured: &Measured, calibration: Calibration, run_ns: f64) -> Modelled {
    let Calibration { handover_ns, instruction_ns } = calibration;
    let traffic = &measured.traffic;
    let visits = measured.each(traffic.locks);
    let held = measured.each(traffic.held.moved());
    let free = measured.each(traffic.all.moved() - traffic.held.moved());
    let held_ns = measured.held_instructions * instruction_ns + held * handover_ns;
    let cycle = Cycle {
        away_ns: run_ns / visits,
        // It is handed over once a visit.
        held_ns: held_ns / visits + handover_ns,
    };
    let waits_ns = visits * cycle.visit_ns(measured.load.cpus);
    let free_ns = free * handover_ns + measured.free_instructions.unwrap_or(0.0) * instruction_ns;
    Modelled { cycle, decision_ns: waits_ns + free_ns }
}

// --- for people -------------------------------------------------------------------------------

fn table(counted: &[Measured]) -> String {
    let mut text = "Counted, for each decision: three hogs and a sleeper a cpu (mix), or four hogs\n\
                    load  cpus  policy        lines from  given up   of both with   lock   instructions\n\
                    \u{20}                              others  by others  the lock held  taken  with it \
                    held\n"
        .to_string();
    for measured in counted {
        let traffic = &measured.traffic;
        let [fetched, invalidated, held, locks] =
            [traffic.all.fetched, traffic.all.invalidated, traffic.held.moved(), traffic.locks]
                .map(|count| measured.each(count));
        text += &format!(
            "{:4}  {:>4}  {:12} {fetched:>11.1} {invalidated:>10.1} {held:>14.1} {locks:>6.2} {:>13.0}\n",
            measured.load.name, measured.load.cpus, measured.policy, measured.held_instructions
        );
    }
    text
}

fn table_alone(counted: &[Measured], calibration: Calibration) -> String {
    let mut text = "Counted without the framework, for each decision; of the locks those that all share\n\
                    load  cpus  policy           lines from  given up   locks  instructions  model: ns\n\
                    \u{20}                                 others  by others\n"
        .to_string();
    for measured in counted {
        let traffic = &measured.traffic;
        let [fetched, invalidated, locks] =
            [traffic.all.fetched, traffic.all.invalidated, traffic.locks]
                .map(|count| measured.each(count));
        let instructions = measured.held_instructions + measured.free_instructions.unwrap_or(0.0);
        let found = modelled(measured, calibration, measured.between_decisions_ns);
        text += &format!(
            "{:4}  {:>4}  {:15} {fetched:>11.2} {invalidated:>10.2} {locks:>7.2} \
             {instructions:>13.0} {:>10.0}\n",
            measured.load.name, measured.load.cpus, measured.policy, found.decision_ns
        );
    }
    text
}

fn told(calibration: &Calibration) -> String {
    let Calibration { handover_ns, instruction_ns } = calibration;
    format!(
        "Calibrated: a line goes from cpu to cpu in {handover_ns:.0} ns, in which {:.0} instructions of \
         {instruction_ns:.2} ns are executed",
        handover_ns / instruction_ns
    )
}

fn table_of_model(counted: &[Measured], calibration: Calibration) -> String {
    let mut text = format!(
        "Modelled: what a decision costs, and how many cpus keep the lock busy\n\
         load  cpus  policy        as counted: ns     cpus   every {:.0} us: ns     cpus\n",
        SHORT_RUN_NS / 1e3
    );
    for measured in counted {
        let own = modelled(measured, calibration, measured.between_decisions_ns);
        let short = modelled(measured, calibration, SHORT_RUN_NS);
        text += &format!(
            "{:4}  {:>4}  {:12} {:>15.0} {:>8.0} {:>18.0} {:>8.0}\n",
            measured.load.name,
            measured.load.cpus,
            measured.policy,
            own.decision_ns,
            own.cycle.knee_cpus(),
            short.decision_ns,
            short.cycle.knee_cpus(),
        );
    }
    text
}

/// Where a policy costs less than gr3, in the model.
fn crossing(load: &str, counted: &[Measured], policy: Policy, calibration: Calibration) -> String {
    let cost = |name: &str, run_ns: Option<f64>| -> BTreeMap<u32, f64> {
        let of_policy = counted.iter().filter(|measured| measured.policy == name);
        let point = |measured: &Measured| {
            let run_ns = run_ns.unwrap_or(measured.between_decisions_ns);
            (measured.load.cpus, modelled(measured, calibration, run_ns).decision_ns)
        };
        of_policy.map(point).collect()
    };
    let cheaper = |run_ns: Option<f64>| {
        let (gr3, other) = (cost(GR3.name, run_ns), cost(policy.name, run_ns));
        let on: Vec<String> =
            gr3.keys().filter(|cpus| other[cpus] < gr3[cpus]).map(u32::to_string).collect();
        if on.is_empty() { "no number of cpus".to_string() } else { on.join(", ") + " cpus" }
    };
    format!(
        "{load}: {} costs less than gr3 on {}; with a decision every {:.0} us on {}",
        policy.name,
        cheaper(None),
        SHORT_RUN_NS / 1e3,
        cheaper(Some(SHORT_RUN_NS))
    )
}

// --- for programs -----------------------------------------------------------------------------

fn csv(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(head)?;
    for row in rows {
        writer.write_record(row)?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn key(measured: &Measured) -> Vec<String> {
    let load = measured.load;
    vec![load.name.to_string(), measured.policy.to_string(), load.cpus.to_string()]
}

fn csv_of_counts(counted: &[Measured]) -> Result<String> {
    let head = [
        "load",
        "policy",
        "cpus",
        "decisions",
        "lines_fetched",
        "lines_invalidated",
        "lines_fetched_locked",
        "lines_invalidated_locked",
        "locks",
        "instructions_locked",
        "ns_between_decisions",
    ];
    let free = counted.iter().any(|measured| measured.free_instructions.is_some());
    let (before, last) = head.split_at(head.len() - 1);
    let head = [before, if free { &["instructions_free"] } else { &[] }, last].concat();
    let row = |measured: &Measured| {
        let traffic = &measured.traffic;
        let mut row = key(measured);
        row.push(traffic.decisions.to_string());
        let counts = [
            traffic.all.fetched,
            traffic.all.invalidated,
            traffic.held.fetched,
            traffic.held.invalidated,
            traffic.locks,
        ];
        row.extend(counts.map(|count| format!("{:.3}", measured.each(count))));
        row.push(format!("{:.1}", measured.held_instructions));
        row.extend(measured.free_instructions.map(|count| format!("{count:.1}")));
        row.push(format!("{:.0}", measured.between_decisions_ns));
        row
    };
    csv(&head, counted.iter().map(row))
}

/// What the lines that move belong to.
fn csv_of_lines(counted: &[Measured]) -> Result<String> {
    let rows = counted.iter().flat_map(|measured| {
        let moved = measured.traffic.by_name(&measured.names);
        moved.into_iter().map(|(name, count)| {
            let mut row = key(measured);
            row.extend([name.to_string(), format!("{:.3}", measured.each(count))]);
            row
        })
    });
    csv(&["load", "policy", "cpus", "lines_of", "moved"], rows)
}

fn csv_of_model(counted: &[Measured], calibration: Calibration) -> Result<String> {
    let head =
        ["load", "policy", "cpus", "handover_ns", "run_ns", "held_ns", "decision_ns", "knee_cpus"];
    let rows = counted.iter().flat_map(|measured| {
        let latencies = LATENCIES.map(|(factor, _)| factor * calibration.handover_ns);
        let runs = [measured.between_decisions_ns, SHORT_RUN_NS];
        let points = latencies.into_iter().flat_map(move |ns| runs.map(|run_ns| (ns, run_ns)));
        points.map(move |(handover_ns, run_ns)| {
            let found = modelled(measured, Calibration { handover_ns, ..calibration }, run_ns);
            let numbers = [handover_ns, run_ns, found.cycle.held_ns, found.decision_ns];
            let mut row = key(measured);
            row.extend(numbers.map(|ns| format!("{ns:.0}")));
            row.push(format!("{:.1}", found.cycle.knee_cpus()));
            row
        })
    });
    csv(&head, rows)
}

// --- pictures ---------------------------------------------------------------------------------

const CPUS: Axis = Axis { name: "cpus", logarithmic: true };
const COST: Axis = Axis { name: "ns a decision", logarithmic: true };

fn picture(counted: &[Measured], paper: &[Measured], calibration: Calibration) -> Result<String> {
    let cost = |measured: &Measured, calibration, run_ns: Option<f64>| {
        let run_ns = run_ns.unwrap_or(measured.between_decisions_ns);
        modelled(measured, calibration, run_ns).decision_ns
    };
    let lines = |measured: &Measured| measured.each(measured.traffic.all.moved());
    let model = |run_ns| move |measured: &Measured| cost(measured, calibration, run_ns);
    let panels = [
        panel("Counted: cache lines moved", "lines a decision", curves(counted, lines)),
        panel(
            "Counted: instructions with the lock held",
            "instructions a decision",
            curves(counted, |measured| measured.held_instructions),
        ),
        panel("MODEL: three hogs and a sleeper a cpu", COST.name, curves(counted, model(None))),
        panel(
            "MODEL: a decision every 100 us",
            COST.name,
            curves(counted, model(Some(SHORT_RUN_NS))),
        ),
        Lines {
            title: "MODEL: as GDQ's figure 3, which prints no numbers".to_string(),
            x: Axis { name: "tasks", logarithmic: true },
            y: Axis { name: "ns a decision", logarithmic: false },
            series: as_in_paper(paper, model(None)),
            printed: Vec::new(),
        },
        panel(
            "MODEL: sensitivity to the latency of a line, every 100 us",
            COST.name,
            LATENCIES
                .iter()
                .flat_map(|&(factor, latency)| {
                    let handover_ns = factor * calibration.handover_ns;
                    let calibration = Calibration { handover_ns, ..calibration };
                    let of =
                        move |measured: &Measured| cost(measured, calibration, Some(SHORT_RUN_NS));
                    [GR3, GDQ].map(|policy| {
                        let name = format!("{}, {latency}", policy.name);
                        Series::new(name, points(counted, policy.name, of)).marked()
                    })
                })
                .collect(),
        ),
    ];
    prorata_plot::lines("What a decision of scx_prorata costs as cpus become more", &panels)
        .map_err(|reason| anyhow!("cannot draw the picture: {reason}"))
}

fn panel(title: &str, y: &'static str, series: Vec<Series>) -> Lines {
    let y = Axis { name: y, logarithmic: true };
    Lines { title: title.to_string(), x: CPUS, y, series, printed: Vec::new() }
}

fn curves(counted: &[Measured], of: impl Fn(&Measured) -> f64 + Copy) -> Vec<Series> {
    let curve = |name: &str| Series::new(name, points(counted, name, of)).marked();
    POLICIES.iter().map(|policy| curve(policy.name)).collect()
}

fn points(counted: &[Measured], name: &str, of: impl Fn(&Measured) -> f64) -> Vec<(f64, f64)> {
    let of_policy = counted.iter().filter(|measured| measured.policy == name);
    of_policy.map(|measured| (f64::from(measured.load.cpus), of(measured))).collect()
}

fn as_in_paper(paper: &[Measured], of: impl Fn(&Measured) -> f64) -> Vec<Series> {
    let mut curves: BTreeMap<(&str, u32), Vec<(f64, f64)>> = BTreeMap::new();
    for measured in paper {
        let curve = curves.entry((measured.policy, measured.load.cpus)).or_default();
        curve.push((f64::from(measured.load.hogs), of(measured)));
    }
    let named = curves.into_iter();
    named
        .map(|((policy, cpus), points)| {
            Series::new(format!("{policy}, {cpus} cpus"), points).marked()
        })
        .collect()
}

//! `prorata simulate`: tasks under a policy in simulation.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use prorata::{Setup, TaskId, Weight, policies};
use prorata_sim::fixed::FixedRun;
use serde::Serialize;

/// A quantum of fixed sets. Only ratios matter there.
const QUANTUM_NS: u64 = 10_000_000;
/// Most entries of a schedule that is kept in memory.
const MAX_ENTRIES: usize = 10_000_000;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The policy: a name from `prorata policies`, with options as NAME:KEY=VALUE,…
    #[arg(long, default_value = "gr3")]
    policy: String,
    /// Number of cpus.
    #[arg(long, default_value_t = 1)]
    cpus: usize,
    /// Weights of tasks that are always runnable: W,W,… or @FILE with one weight a line.
    #[arg(long)]
    weights: String,
    /// How many quanta to simulate.
    #[arg(long, default_value_t = 16)]
    quanta: usize,
    /// Seed of policies that draw lots.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// What to print.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// A table and a Gantt strip, for people.
    Table,
    /// One JSON object, for programs.
    Json,
}

impl Args {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let report = self.simulate()?;
        let text = match self.format {
            Format::Json => serde_json::to_string(&report)? + "\n",
            Format::Table => report.table(),
        };
        super::print(&text)?;
        Ok(ExitCode::SUCCESS)
    }

    fn simulate(&self) -> anyhow::Result<Report> {
        ensure!(
            (1..=Setup::MAX_CPUS).contains(&self.cpus),
            "--cpus {} is not possible: simulate 1 to {} cpus",
            self.cpus,
            Setup::MAX_CPUS
        );
        ensure!(
            self.quanta.checked_mul(self.cpus).is_some_and(|n| n <= MAX_ENTRIES),
            "--quanta {} on {} cpus is too long a schedule: keep quanta × cpus within {MAX_ENTRIES}",
            self.quanta,
            self.cpus
        );
        let weights = parse_weights(&self.weights)?;
        let setup = Setup { seed: self.seed, ..Setup::new(self.cpus, QUANTUM_NS) };
        let mut policy = policies::build(&self.policy, &setup)?;
        let run = FixedRun::new(&mut *policy, &setup, &weights, self.quanta);
        Ok(Report::new(self, &weights, &run))
    }
}

/// Weights as a list, or one a line of a file.
fn parse_weights(text: &str) -> anyhow::Result<Vec<Weight>> {
    let Some(path) = text.strip_prefix('@') else {
        return text
            .split(',')
            .enumerate()
            .map(|(i, word)| {
                parse_weight(word).with_context(|| format!("weight {} of --weights", i + 1))
            })
            .collect();
    };
    let lines = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let weights: Vec<Weight> = lines
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(i, line)| parse_weight(line).with_context(|| format!("{path}, line {}", i + 1)))
        .collect::<Result<_, _>>()?;
    ensure!(!weights.is_empty(), "{path} holds no weight: write one a line");
    Ok(weights)
}

fn parse_weight(word: &str) -> anyhow::Result<Weight> {
    match word.trim().parse().ok().and_then(Weight::new) {
        Some(weight) => Ok(weight),
        None => bail!(
            "'{}' is no weight: weights are whole numbers from 1 to {}",
            word.trim(),
            Weight::MAX
        ),
    }
}

/// What is printed. Errors are in quanta.
#[derive(Serialize)]
struct Report {
    policy: String,
    cpus: usize,
    weights: Vec<u32>,
    quanta: usize,
    /// Per quantum and cpu the index of the task that ran, or nothing.
    schedule: Vec<Vec<Option<u32>>>,
    /// Quanta received, per task.
    service: Vec<u64>,
    /// The extremes over all tasks …
    error_min: f64,
    error_max: f64,
    /// … and of each task.
    task_error_min: Vec<f64>,
    task_error_max: Vec<f64>,
    /// Quanta received minus quanta that the ideal gave, per task.
    #[serde(skip)]
    error_end: Vec<f64>,
}

impl Report {
    fn new(args: &Args, weights: &[Weight], run: &FixedRun) -> Report {
        let errors = run.errors();
        let tasks = || (0..TaskId::LIMIT).map(TaskId).take(weights.len());
        let extremes = tasks().map(|task| errors.extremes(task));
        let (min, max): (Vec<f64>, Vec<f64>) =
            extremes.map(|e| (errors.in_quanta(e.min), errors.in_quanta(e.max))).unzip();
        Report {
            policy: args.policy.clone(),
            cpus: args.cpus,
            weights: weights.iter().map(|w| w.get()).collect(),
            quanta: args.quanta,
            schedule: run
                .schedule()
                .map(|row| row.iter().map(|t| t.map(|t| t.0)).collect())
                .collect(),
            service: tasks().map(|task| errors.service(task)).collect(),
            error_min: min.iter().copied().fold(0.0, f64::min),
            error_max: max.iter().copied().fold(0.0, f64::max),
            task_error_min: min,
            task_error_max: max,
            error_end: tasks().map(|task| errors.in_quanta(errors.error(task))).collect(),
        }
    }
}

/// Tasks and quanta that the table shows; JSON has them all.
const TABLE_TASKS: usize = 40;
const STRIP_QUANTA: usize = 72;

impl Report {
    fn table(&self) -> String {
        let mut out = String::new();
        let plural = if self.cpus == 1 { "" } else { "s" };
        let _ = writeln!(
            out,
            "{} on {} cpu{plural}, {} quanta; errors in quanta, against the ideal\n",
            self.policy, self.cpus, self.quanta
        );
        let _ = writeln!(
            out,
            "{:>6} {:>10} {:>12} {:>10} {:>9} {:>9}",
            "task", "weight", "ideal", "received", "behind", "ahead"
        );
        for i in 0..self.weights.len().min(TABLE_TASKS) {
            #[allow(clippy::cast_precision_loss)]
            let ideal = self.service[i] as f64 - self.error_end[i];
            let _ = writeln!(
                out,
                "{i:>6} {:>10} {ideal:>12.3} {:>10} {:>9.3} {:>9.3}",
                self.weights[i], self.service[i], self.task_error_min[i], self.task_error_max[i]
            );
        }
        self.more_tasks(&mut out);
        let _ = writeln!(
            out,
            "{:>6} {:>10} {:>12} {:>10} {:>9.3} {:>9.3}\n",
            "all", "", "", "", self.error_min, self.error_max
        );
        self.strip(&mut out);
        out
    }

    fn more_tasks(&self, out: &mut String) {
        if let Some(more) = self.weights.len().checked_sub(TABLE_TASKS).filter(|&n| n > 0) {
            let _ = writeln!(out, "       … and {more} more tasks (--format json has them all)");
        }
    }

    /// One row a task, one column a quantum: the cpu that the task had.
    fn strip(&self, out: &mut String) {
        let shown = &self.schedule[..self.schedule.len().min(STRIP_QUANTA)];
        for i in 0..self.weights.len().min(TABLE_TASKS) {
            let cell = |row: &Vec<Option<u32>>| match row
                .iter()
                .position(|task| task.is_some_and(|t| t as usize == i))
            {
                None => '·',
                Some(_) if self.cpus == 1 => '█',
                Some(cpu) => {
                    u32::try_from(cpu).ok().and_then(|cpu| char::from_digit(cpu, 36)).unwrap_or('#')
                }
            };
            let _ = writeln!(out, "{i:>6} {}", shown.iter().map(cell).collect::<String>());
        }
        self.more_tasks(out);
        if let Some(more) = self.quanta.checked_sub(STRIP_QUANTA).filter(|&n| n > 0) {
            let _ = writeln!(out, "       … and {more} more quanta (--format json has them all)");
        }
        if self.cpus > 1 {
            let _ = writeln!(out, "       (each column is a quantum, each digit a cpu)");
        }
    }
}

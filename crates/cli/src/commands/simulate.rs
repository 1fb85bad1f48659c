//! `prorata simulate`: tasks under a policy in simulation.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use prorata::{Policy, Setup, TaskId, Weight};
use prorata_sim::engine::{Engine, Lag, Latencies};
use prorata_sim::export::{self, Timeline};
use prorata_sim::fixed::FixedRun;
use prorata_sim::observer::Observer;
use prorata_sim::outcome::Outcome;
use prorata_sim::workload::Workload;
use serde::Serialize;
use serde_json::json;

use super::workload::{Form, Overrides, write_file};
use super::{outputs, policy, print, read};

/// A quantum of fixed sets. Only ratios matter there.
const QUANTUM_NS: u64 = 10_000_000;
/// Times at which service errors are sampled.
const LAG_SAMPLES: u32 = 1000;
/// Most entries of a schedule that is kept in memory.
const MAX_ENTRIES: usize = 10_000_000;

/// Run tasks under a policy in simulation: who runs when, and what each gets.
///
/// Simulates either a workload file or, with --weights, tasks that are always runnable.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The workload: TOML of our own (.toml), rt-app's JSON (.json), or a recording by perf sched.
    ///
    /// A task that is given no weight in TOML has weight 1 and a cgroup 100; in the other formats a thread
    /// has that of its nice level, 1024 if none is told. crates/sim/README.md describes the formats.
    #[arg(conflicts_with = "weights")]
    workload: Option<PathBuf>,
    /// The policy: a name from `prorata policies`, with options as NAME:KEY=VALUE,… Every one has
    /// sleepers=turns (a task that wakes uses the turns that it slept through, as in the kernel) and
    /// sleepers=paper (as its paper says); those that share by weight, and not by lot, have
    /// sleepers=corrected (tasks that sleep, wake or change weight keep to the ideal), their default.
    #[arg(long, default_value = "gr3")]
    policy: String,
    /// Weights of tasks that are always runnable: W,W,… or @FILE with one weight a line.
    #[arg(long)]
    weights: Option<String>,
    /// How many quanta to simulate with --weights.
    #[arg(long, default_value_t = 16, requires = "weights")]
    quanta: usize,
    #[command(flatten)]
    overrides: Overrides,
    /// What to print.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// A file to write as well; may be given several times. What it will hold is told by its
    /// ending: .json, .csv, .parquet (results), .svg, .pftrace (ui.perfetto.dev), .timehist
    /// (timelines), .lag.csv, .lag.parquet, .lag.svg (how far each group was from the ideal, over
    /// time), .latency.csv, .latency.parquet, .latency.svg (distributions of waits and response
    /// times).
    #[arg(long, short, value_name = "FILE", conflicts_with = "weights")]
    output: Vec<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// A table, for people.
    Table,
    /// One JSON object, for programs.
    Json,
    /// One line a task.
    Csv,
}

/// What an output file holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Json,
    Tasks(Form),
    Svg,
    Perfetto,
    Timehist,
    Lags(Form),
    LagsSvg,
    Latencies(Form),
    LatenciesSvg,
}

/// Endings, the longer ones first.
const ENDINGS: [(&str, Kind); 13] = [
    (".lag.csv", Kind::Lags(Form::Csv)),
    (".lag.parquet", Kind::Lags(Form::Parquet)),
    (".lag.svg", Kind::LagsSvg),
    (".latency.csv", Kind::Latencies(Form::Csv)),
    (".latency.parquet", Kind::Latencies(Form::Parquet)),
    (".latency.svg", Kind::LatenciesSvg),
    (".json", Kind::Json),
    (".csv", Kind::Tasks(Form::Csv)),
    (".parquet", Kind::Tasks(Form::Parquet)),
    (".svg", Kind::Svg),
    (".pftrace", Kind::Perfetto),
    (".perfetto-trace", Kind::Perfetto),
    (".timehist", Kind::Timehist),
];

impl Kind {
    fn of(path: &Path) -> anyhow::Result<Kind> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match ENDINGS.iter().find(|(ending, _)| name.ends_with(ending)) {
            Some((_, kind)) => kind.there(path),
            None => bail!(
                "{}: no format goes by that ending; use .json, .csv, .parquet, .svg, .pftrace or \
                 .timehist, or .csv, .parquet or .svg after .lag or .latency",
                path.display()
            ),
        }
    }

    /// Itself, if this program has it.
    fn there(self, path: &Path) -> anyhow::Result<Kind> {
        if let Kind::Tasks(form) | Kind::Lags(form) | Kind::Latencies(form) = self {
            form.there(path)?;
        }
        Ok(self)
    }

    fn needs_lags(self) -> bool {
        matches!(self, Kind::Lags(_) | Kind::LagsSvg)
    }

    fn needs_timeline(self) -> bool {
        matches!(self, Kind::Svg | Kind::Perfetto | Kind::Timehist)
    }
}

impl Args {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        match (&self.workload, &self.weights) {
            (Some(path), _) => {
                let kinds = self.kinds(path)?;
                self.simulate_workload(&self.overrides.load(path)?, &kinds)?;
            }
            (None, None) => bail!("simulate what? Name a workload file, or give --weights W,W,…"),
            (None, Some(weights)) => {
                let report = self.simulate_weights(weights)?;
                print(&match self.format {
                    Format::Json => serde_json::to_string(&report)? + "\n",
                    Format::Table => report.table(),
                    Format::Csv => bail!("--format csv is for workload files: use json here"),
                })?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// What each output will hold, once it is known that all can be written.
    fn kinds(&self, workload: &Path) -> anyhow::Result<Vec<Kind>> {
        let kinds = self.output.iter().map(|path| Kind::of(path)).collect::<anyhow::Result<_>>()?;
        outputs::check([workload], self.output.iter().map(PathBuf::as_path))?;
        Ok(kinds)
    }

    fn simulate_workload(&self, workload: &Workload, kinds: &[Kind]) -> anyhow::Result<()> {
        let policy = policy::build(&self.policy, &workload.setup())?;
        let ran = if kinds.iter().any(|kind| kind.needs_timeline()) {
            let (ran, timeline) = Ran::new(workload, policy, kinds, Timeline::default())?;
            Ran { timeline, ..ran }
        } else {
            Ran::new(workload, policy, kinds, ())?.0
        };
        let Ran { outcome, lags, latencies, timeline } = ran;
        let (segments, truncated) = timeline.into_segments();
        ensure!(
            !truncated,
            "the timeline has more than {} runs: make it shorter with --duration",
            export::MAX_SEGMENTS
        );
        for (path, kind) in self.output.iter().zip(kinds) {
            write_file(path, |file| match kind {
                Kind::Json => Ok(serde_json::to_writer(file, &self.object(&outcome)?)?),
                Kind::Tasks(form) => form.write(&export::tasks(&outcome), file),
                Kind::Lags(form) => form.write(&export::lags(workload, &lags), file),
                Kind::LagsSvg => export::write_lags_svg(workload, &lags, file),
                Kind::Latencies(form) => form.write(&export::latencies(&latencies), file),
                Kind::LatenciesSvg => export::write_latencies_svg(&latencies, file),
                Kind::Svg => export::write_svg(workload, &segments, file),
                Kind::Perfetto => export::write_perfetto(workload, &segments, file),
                Kind::Timehist => export::write_timehist(workload, &segments, file),
            })?;
        }
        print(&match self.format {
            Format::Table => export::table(&self.policy, &outcome),
            Format::Json => self.object(&outcome)?.to_string() + "\n",
            Format::Csv => {
                let mut text = Vec::new();
                export::write_csv(&outcome, &mut text)?;
                String::from_utf8(text)?
            }
        })
    }

    /// The policy, then the outcome's fields.
    fn object(&self, outcome: &Outcome) -> serde_json::Result<serde_json::Value> {
        let mut object = json!({ "policy": self.policy });
        if let (Some(object), serde_json::Value::Object(outcome)) =
            (object.as_object_mut(), serde_json::to_value(outcome)?)
        {
            object.extend(outcome);
        }
        Ok(object)
    }

    fn simulate_weights(&self, weights: &str) -> anyhow::Result<Report> {
        if let Some(option) = self.overrides.of_files() {
            bail!("{option} is for workload files: --weights goes on for --quanta N quanta");
        }
        let cpus = self.overrides.reading.cpus.unwrap_or(1);
        ensure!(
            (1..=Setup::MAX_CPUS).contains(&cpus),
            "--cpus {cpus} is not possible: simulate 1 to {} cpus",
            Setup::MAX_CPUS
        );
        ensure!(
            self.quanta.checked_mul(cpus).is_some_and(|n| n <= MAX_ENTRIES),
            "--quanta {} on {cpus} cpus is too long a schedule: keep quanta × cpus within \
             {MAX_ENTRIES}",
            self.quanta,
        );
        let weights = parse_weights(weights)?;
        let seed = self.overrides.seed.unwrap_or(0);
        let setup = Setup { seed, ..Setup::new(cpus, QUANTUM_NS) };
        let mut policy = policy::build(&self.policy, &setup)?;
        let run = FixedRun::new(&mut *policy, &setup, &weights, self.quanta);
        Ok(Report::new(self, cpus, &weights, &run))
    }
}

/// What a simulation left.
struct Ran {
    outcome: Outcome,
    /// Empty unless they are asked for.
    lags: Vec<Lag>,
    latencies: Vec<Latencies>,
    timeline: Timeline,
}

impl Ran {
    fn new<O: Observer>(
        workload: &Workload,
        policy: Box<dyn Policy + Send>,
        kinds: &[Kind],
        observer: O,
    ) -> anyhow::Result<(Ran, O)> {
        let mut engine = Engine::new(workload, policy, observer)?;
        if kinds.iter().any(|kind| kind.needs_lags()) {
            engine
                .sample_lags(LAG_SAMPLES)
                .map_err(|message| anyhow::anyhow!("{message}: leave outputs with .lag out"))?;
        }
        engine.simulate()?;
        let (lags, latencies) = (engine.lags().to_vec(), engine.latencies());
        let (outcome, observer) = engine.outcome();
        Ok((Ran { outcome, lags, latencies, timeline: Timeline::default() }, observer))
    }
}

/// Weights as a list, or one a line of a file.
pub(crate) fn parse_weights(text: &str) -> anyhow::Result<Vec<Weight>> {
    let Some(path) = text.strip_prefix('@') else {
        return text
            .split(',')
            .enumerate()
            .map(|(i, word)| {
                parse_weight(word).with_context(|| format!("weight {} of --weights", i + 1))
            })
            .collect();
    };
    let Ok(lines) = String::from_utf8(read(Path::new(path))?) else {
        bail!("{path} is no text: write one weight a line");
    };
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
    fn new(args: &Args, cpus: usize, weights: &[Weight], run: &FixedRun) -> Report {
        let errors = run.errors();
        let tasks = || (0..TaskId::LIMIT).map(TaskId).take(weights.len());
        let extremes = tasks().map(|task| errors.extremes(task));
        let (min, max): (Vec<f64>, Vec<f64>) =
            extremes.map(|e| (errors.in_quanta(e.min), errors.in_quanta(e.max))).unzip();
        Report {
            policy: args.policy.clone(),
            cpus,
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

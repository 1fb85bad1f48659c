//! Commands of several processes, builds and tasks that sleep under `prorata run`: what they received, beside
//! what fluid GMS gives them on whole cpus.

use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::getppid;
use prorata::fluid::Fluid;
use prorata::hierarchy::{Hierarchy, Place};
use prorata::{Nanos, TaskId, Weight};
use serde::Deserialize;

use super::hogs;

const CPUS: usize = 2;
const MS: Nanos = 1_000_000;

/// What a command does.
#[derive(Clone, Copy, clap::Subcommand)]
pub(crate) enum Program {
    /// So many processes that compute for ever.
    Hogs { count: u32 },
    /// Computes for 5 ms, sleeps for 20 ms, and so on.
    Sleeper,
    /// Compiles so many files, eight at once, and then interrupts who has started it.
    Build { files: u64 },
    /// Is the compiler.
    Compile { file: u64 },
}

const WORK_NS: Nanos = 5 * MS;
const SLEEP_NS: Nanos = 20 * MS;
/// As in `make -j8`.
const AT_ONCE: u32 = 8;

impl Program {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        match self {
            Program::Hogs { count } => {
                for _ in 1..count {
                    Program::Hogs { count: 1 }.start()?;
                }
                hogs::hog()
            }
            Program::Sleeper => loop {
                compute(WORK_NS);
                thread::sleep(Duration::from_nanos(SLEEP_NS));
            },
            Program::Build { files } => build(files)?,
            Program::Compile { file } => compute((20 + file * 37 % 61) * MS),
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Cpus that it can use.
    fn width(self) -> u32 {
        match self {
            Program::Hogs { count } => count,
            Program::Build { .. } => AT_ONCE,
            Program::Sleeper | Program::Compile { .. } => 1,
        }
    }

    fn arguments(self) -> String {
        match self {
            Program::Hogs { count } => format!("hogs {count}"),
            Program::Sleeper => "sleeper".to_string(),
            Program::Build { files } => format!("build {files}"),
            Program::Compile { file } => format!("compile {file}"),
        }
    }

    /// Starts it, with an empty standard input.
    fn start(self) -> Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["guest", "command"]).args(self.arguments().split(' ')).stdin(Stdio::null());
        command.spawn().context("cannot start a program")
    }
}

fn build(files: u64) -> Result<()> {
    for file in 0..files {
        if file >= u64::from(AT_ONCE) {
            waitpid(None, None)?;
        }
        Program::Compile { file }.start()?;
    }
    // An error: all have ended.
    while waitpid(None, None).is_ok() {}
    Ok(kill(getppid(), Signal::SIGINT)?)
}

/// Uses so much time of a cpu.
fn compute(work_ns: Nanos) {
    let used = || {
        let used = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
        Duration::from(used.expect("every Linux has this clock"))
    };
    let end = used() + Duration::from_nanos(work_ns);
    while used() < end {}
}

struct Case {
    name: &'static str,
    commands: Vec<(u32, Program)>,
}

fn cases(seconds: u64) -> Vec<Case> {
    use Program::{Build, Hogs, Sleeper};
    // A file takes 50 ms, and 1.5 cpus are the build's.
    let files = seconds * 30;
    let hogs = (1..=5).map(|weight| (weight, Hogs { count: 1 }));
    let sleepers = (1..=5).map(|weight| (weight, Sleeper));
    let whole = [(2, Hogs { count: 1 }), (1, Hogs { count: 1 }), (1, Hogs { count: 1 })];
    let build = vec![(3, Build { files }), (1, Hogs { count: 1 })];
    vec![
        Case { name: "two hogs alone", commands: vec![(1, Hogs { count: 2 })] },
        Case {
            name: "three hogs beside one",
            commands: vec![(3, Hogs { count: 3 }), (1, Hogs { count: 1 })],
        },
        Case { name: "whole cpu", commands: whole.to_vec() },
        Case { name: "build", commands: build },
        Case { name: "ten commands", commands: hogs.chain(sleepers).collect() },
    ]
}

fn weight(weight: u32) -> Weight {
    Weight::new(weight).expect("a weight is above 0")
}

impl Case {
    /// What the ideal gives the commands on cpus that do nothing else, in cpus.
    fn due(&self) -> Vec<f64> {
        if self.commands.iter().any(|(_, program)| matches!(program, Program::Sleeper)) {
            return self.due_with_sleepers();
        }
        let mut tree = Hierarchy::new();
        let places: Vec<Place> = self
            .commands
            .iter()
            .map(|&(weight_of, program)| {
                let place = tree.add(Hierarchy::ROOT, weight(weight_of));
                tree.set_width(place, program.width());
                place
            })
            .collect();
        let rates = tree.rates(CPUS);
        places.into_iter().map(|place| rates.of(place).in_cpus()).collect()
    }

    /// The same for commands of one process each.
    fn due_with_sleepers(&self) -> Vec<f64> {
        const PERIODS: Nanos = 4_000;
        const PERIOD_NS: Nanos = WORK_NS + SLEEP_NS;
        let commands = || (0..).map(TaskId).zip(&self.commands);
        let mut ideal = Fluid::new(CPUS);
        for (task, &(weight_of, _)) in commands() {
            ideal.add(task, weight(weight_of));
        }
        for period in 0..PERIODS {
            ideal.advance(period * PERIOD_NS);
            for (task, (_, program)) in commands() {
                if matches!(program, Program::Sleeper) {
                    ideal.arrive(task, WORK_NS);
                } else if period == 0 {
                    ideal.arrive(task, Fluid::FOREVER);
                }
            }
        }
        ideal.advance(PERIODS * PERIOD_NS);
        let part = |(task, _)| ideal.service_ns(task) as f64 / (PERIODS * PERIOD_NS) as f64;
        commands().map(part).collect()
    }
}

/// What `prorata run --format json` tells.
#[derive(Deserialize)]
struct Report {
    duration_s: f64,
    overhead_cpu_s: f64,
    tasks: Vec<TaskReport>,
}

#[derive(Deserialize)]
struct TaskReport {
    cpu_s: f64,
    error_min_quanta: f64,
    error_max_quanta: f64,
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How `prorata run` holds the commands; may be repeated.
    #[arg(long = "backend", default_value = "cgroup")]
    backends: Vec<String>,
    /// Only cases whose names begin so.
    #[arg(long, default_value = "")]
    case: String,
    /// Fail if a command received less of what it is due than this, in percent.
    #[arg(long, default_value_t = 0.0)]
    least: f64,
}

impl Args {
    /// All cases with each backend.
    pub(crate) fn execute(self) -> Result<ExitCode> {
        let cpus = thread::available_parallelism()?.get();
        ensure!(cpus == CPUS, "the cases are for {CPUS} cpus: `xtask vm --cpus {CPUS}`");
        for backend in &self.backends {
            for case in cases(self.seconds).iter().filter(|c| c.name.starts_with(&self.case)) {
                let report = self.run(case, backend).with_context(|| case.name)?;
                let least = show(case, backend, &report);
                ensure!(least >= self.least, "a command received {least:.2} % of what it is due");
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn run(&self, case: &Case, backend: &str) -> Result<Report> {
        let this = std::env::current_exe()?;
        let mut command = Command::new("prorata");
        command.args(["run", "--backend", backend, "--format", "json"]);
        // A build ends the run.
        if !case.commands.iter().any(|(_, program)| matches!(program, Program::Build { .. })) {
            command.args(["--duration", &format!("{}s", self.seconds)]);
        }
        for (weight, program) in &case.commands {
            command.arg(format!(
                "{weight}:{} guest command {}",
                this.display(),
                program.arguments()
            ));
        }
        let output = command.stderr(Stdio::inherit()).output().context("cannot run prorata")?;
        let said = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(&said).with_context(|| format!("no report: {said}"))
    }
}

/// Prints a row for each command; the least part of what it is due that one received, in percent.
fn show(case: &Case, backend: &str, report: &Report) -> f64 {
    println!(
        "{} by {backend}, {:.3} s: prorata used {:.2} % of a cpu",
        case.name,
        report.duration_s,
        100.0 * report.overhead_cpu_s / report.duration_s
    );
    let mut least = f64::INFINITY;
    for (((weight, program), due), task) in case.commands.iter().zip(case.due()).zip(&report.tasks)
    {
        let received = task.cpu_s / report.duration_s;
        let percent = 100.0 * received / due;
        least = least.min(percent);
        println!(
            "  {weight}: {:12} due {due:.4} cpus, received {received:.4}, {percent:.2} % of it; error \
             {:.2}..{:.2} quanta",
            program.arguments(),
            task.error_min_quanta,
            task.error_max_quanta
        );
    }
    least
}

//! `prorata explain`: what each task and cgroup is due, and why; of a workload, or on this machine now.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{bail, ensure};
use prorata::Setup;
use prorata_sim::workload::Cgroups;
use serde_json::json;

use super::print;
use super::workload::Reading;

mod machine;
mod tree;
mod workload;

use machine::{Report, Who};
use tree::Line;

/// Most tasks that are explained.
const MAX_TASKS: u64 = 100_000;
const NAME: usize = 28;

/// Say what each task and cgroup of a workload is due, and why.
///
/// Explains a workload as if all of its tasks ran at once, with the weights that they begin with; or, on this
/// machine, what a process or a cgroup is due among all that want a cpu now. Sessions in the root are groups,
/// too, where Linux makes such of them (autogroups), which sched_ext does not.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The workload: TOML of our own (.toml), rt-app's JSON (.json), or a recording by perf sched.
    ///
    /// A task that is given no weight in TOML has weight 1 and a cgroup 100; in the other formats a thread
    /// has that of its nice level, 1024 if none is told. crates/sim/README.md describes the formats.
    #[arg(required_unless_present_any = ["pid", "cgroup"], conflicts_with_all = ["pid", "cgroup"])]
    workload: Option<PathBuf>,
    /// A process of this machine.
    #[arg(long, value_name = "PID", conflicts_with = "cgroup")]
    pid: Option<i32>,
    /// A cgroup of this machine, as in /user.slice.
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// What to print.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// A table, for people.
    Table,
    /// One JSON object, for programs.
    Json,
}

impl Args {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let who = match (self.pid, self.cgroup) {
            (Some(pid), _) => Some(Who::Process(pid)),
            (_, Some(path)) => Some(Who::Cgroup(path)),
            _ => None,
        };
        let (cpus, report) = match (who, self.workload) {
            (Some(who), _) => on_this_machine(&who, &self.reading)?,
            (None, workload) => of_workload(&workload.expect("clap requires it"), &self.reading)?,
        };
        let Report { lines, tasks, notes } = report;
        print(&match self.format {
            Format::Json => {
                json!({ "cpus": cpus, "lines": lines, "notes": notes }).to_string() + "\n"
            }
            Format::Table => table(cpus, tasks, &lines, &notes),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn on_this_machine(who: &Who, reading: &Reading) -> anyhow::Result<(usize, Report)> {
    if let Some(option) = reading.of_files() {
        bail!("{option} is for workload files, not for this machine");
    }
    let cpus = reading.cpus.map_or_else(machine::cpus, Ok)?;
    ensure!(
        (1..=Setup::MAX_CPUS).contains(&cpus),
        "--cpus {cpus} is not possible: explain 1 to {} cpus",
        Setup::MAX_CPUS
    );
    Ok((cpus, machine::explain(who, cpus)?))
}

fn of_workload(path: &Path, reading: &Reading) -> anyhow::Result<(usize, Report)> {
    let workload = reading.load(path)?;
    let tasks = workload.tasks();
    ensure!(
        tasks <= MAX_TASKS,
        "{}: {tasks} tasks are too many to explain: make a 'count' smaller, to at most {MAX_TASKS} in all",
        path.display()
    );
    let notes = vec!["as if all tasks ran at once".to_owned()];
    let report = Report { lines: workload::explain(&workload), tasks, notes };
    Ok((workload.machine.cpus, report))
}

fn table(cpus: usize, tasks: u64, lines: &[Line], notes: &[String]) -> String {
    let mut out = format!("{cpus} cpus, {tasks} tasks that want one\n\n");
    let _ = writeln!(
        out,
        "  {:NAME$} {:>6} {:>8} {:>12} {:>9} {:>9} {:>9}  why",
        "", "tasks", "weight", "due", "cpus", "per cpu", "flat"
    );
    for line in lines {
        let name = format!("{:indent$}{}", "", line.name, indent = 2 * (line.depth - 1));
        let mark = if line.is_asked { '>' } else { ' ' };
        let each = if !line.is_cgroup && line.tasks > 1 { "each: " } else { "" };
        let per_cpu = line.per_cpu_cpus.map_or("-".into(), |cpus| format!("{cpus:.4}"));
        let _ = writeln!(
            out,
            "{mark} {name:NAME$} {:>6} {:>8} {:>12} {:>9.4} {per_cpu:>9} {:>9.4}  {each}{}",
            line.tasks, line.weight, line.due, line.due_cpus, line.flat_cpus, line.why
        );
    }
    let root = Cgroups::ROOT;
    let _ = writeln!(
        out,
        "\nA cgroup shares what it is due among what is in it; '{root}' has all cpus.\n\
         per cpu: if a cgroup's weight counted for each cpu that it can use, as in Linux from 7.3 on\n\
         flat: if only the weights of tasks counted, without cgroups"
    );
    for note in notes {
        let _ = writeln!(out, "* {note}");
    }
    out
}

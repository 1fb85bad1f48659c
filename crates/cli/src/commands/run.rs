//! `prorata run`: real commands share cpus by weight.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use prorata_run::{Choice, Job, Observer, Options, Report, cpus_allowed};

mod cpu_list;
mod live;
mod print;

#[cfg(test)]
pub(crate) use cpu_list::parse as parse_cpus;
use live::Live;

use super::policy;

/// Options of `run` and `attach`.
#[derive(clap::Args)]
pub(crate) struct Common {
    /// The policy: a name from `prorata policies`, with options as NAME:KEY=VALUE,…
    #[arg(long, default_value = "gr3")]
    policy: String,
    /// How many cpus to share, or which: 2, 0-3, 0,2. Cpu 3 alone is 3-3. [default: all]
    #[arg(long, value_name = "N|LIST")]
    cpus: Option<String>,
    /// How long a task runs before the policy is asked again: 10ms, 2ms, 1s.
    #[arg(long, default_value = "10ms", value_parser = humantime::parse_duration)]
    quantum: Duration,
    /// End after this time: 20s, 5m, 2h. [default: when the last command ends]
    #[arg(long, value_parser = humantime::parse_duration)]
    duration: Option<Duration>,
    /// How tasks are kept from running.
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    backend: Backend,
    /// What to print at the end.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Backend {
    /// By cgroups where they can be made, else by signals.
    Auto,
    /// By the cgroup v2 freezer.
    Cgroup,
    /// By SIGSTOP and SIGCONT.
    Signal,
    /// Not at all: the kernel schedules them. Loads `scx_prorata`, which needs root.
    Kernel,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A table for people; live bars before it on a terminal.
    Table,
    /// One JSON object.
    Json,
    /// One line a task, with a header.
    Csv,
}

/// Run commands that share cpus by weight.
///
/// Each command gets the share of the cpus that its weight gives it, with all its descendants, on as
/// many cpus as it has runnable threads. Ctrl-C ends the commands and prints the report. The exit
/// status is 1 if a command failed, 2 if nothing could be run.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// A weight from 1 to 4294967295, and what to run: 5:'make -j4', or 5@1:'make -j4' for one cpu
    /// at a time. Pipelines and the like are run by sh.
    #[arg(required = true, value_name = "WEIGHT:COMMAND")]
    commands: Vec<String>,
}

impl Args {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let jobs = self.commands.iter().map(|text| Job::command(text));
        self.common.execute(&jobs.collect::<Result<Vec<_>, _>>()?)
    }
}

impl Common {
    /// Runs `jobs` and prints the report.
    pub(crate) fn execute(&self, jobs: &[Job]) -> anyhow::Result<ExitCode> {
        let options = self.options()?;
        let live = self.format == Format::Table
            && std::io::stdout().is_terminal()
            && std::io::stderr().is_terminal();
        let mut display = Display { live: live.then(Live::new) };
        let report = prorata_run::run(jobs, &options, &mut display);
        drop(display);
        let report = report?;
        let text = match self.format {
            Format::Table => print::table(&report),
            Format::Json => serde_json::to_string(&report)? + "\n",
            Format::Csv => print::csv(&report)?,
        };
        super::print(&text)?;
        Ok(ExitCode::from(u8::from(report.a_command_failed())))
    }

    fn options(&self) -> anyhow::Result<Options> {
        let allowed = cpus_allowed().context("cannot find out the number of cpus")?;
        let cpus = match &self.cpus {
            None => allowed,
            Some(text) => cpu_list::parse(text, &allowed)?,
        };
        // The kernel's policies have options of their own, which scx_prorata looks at.
        if !matches!(self.backend, Backend::Kernel) {
            policy::check(&self.policy)?;
        }
        Ok(Options {
            policy: self.policy.clone(),
            cpus,
            quantum_ns: nanos("--quantum", self.quantum)?,
            duration_ns: self.duration.map(|time| nanos("--duration", time)).transpose()?,
            backend: match self.backend {
                Backend::Auto => Choice::Auto,
                Backend::Cgroup => Choice::Cgroup,
                Backend::Signal => Choice::Signal,
                Backend::Kernel => Choice::Kernel,
            },
        })
    }
}

fn nanos(option: &str, time: Duration) -> anyhow::Result<u64> {
    let too_long = || format!("{option} {} is too long", humantime::format_duration(time));
    u64::try_from(time.as_nanos()).with_context(too_long)
}

/// What the user sees before the report.
struct Display {
    live: Option<Live>,
}

impl Observer for Display {
    fn begins(&mut self, name: &'static str, why: &str) {
        eprintln!("prorata: backend {name} ({why})");
        if let Some(live) = &mut self.live {
            live.begin();
        }
    }

    fn progress(&mut self, report: Report) {
        if let Some(live) = &self.live {
            live.show(report);
        }
    }
}

//! `cargo xtask fuzz`: every parser of the simulator and of the command line fed with garbage, for minutes,
//! on one thread. The targets are in `crates/sim/tests/fuzz` and `crates/cli/src/fuzz.rs`.
//!
//! What was run is noted in `bench/fuzz.json`, so that hours add up over days and machines.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::shell::{self, git};

/// A test program, its test, and its targets.
struct Program {
    arguments: &'static [&'static str],
    test: &'static str,
    targets: &'static [&'static str],
}

const PROGRAMS: [Program; 2] = [
    Program {
        arguments: &["-p", "prorata-sim", "--test", "fuzz"],
        test: "for_minutes",
        targets: &["toml", "json", "perf", "sweep", "policy", "duration"],
    },
    Program {
        arguments: &["-p", "prorata-cli", "--bin", "prorata"],
        test: "fuzz::for_minutes",
        targets: &["recording", "weights", "cpus", "job", "arguments"],
    },
];

/// What parsers, and what they are fed with, are made of.
const SOURCES: &str = "crates";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// So long in all, each target alike.
    #[arg(long, default_value_t = 10, value_name = "N")]
    minutes: u64,
    /// Only this one: toml, json, perf, sweep, policy, duration, recording, weights, cpus, job, arguments.
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// Only what this seed makes of the target, which is shown.
    #[arg(long, requires = "target")]
    seed: Option<u64>,
    /// Only tell for how long each has been fed so far.
    #[arg(long, conflicts_with_all = ["target", "seed"])]
    told: bool,
}

/// What a target was fed with at one state of the sources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Span {
    commit: String,
    /// The tree of [`SOURCES`] in that commit: it stays what it is when a history is written anew.
    sources: String,
    /// Of processor time.
    seconds: f64,
    executions: u64,
}

/// By target. Seeds count from 0, so that the executions so far are the next seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
struct Ledger(BTreeMap<String, Vec<Span>>);

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        if self.told {
            print!("{}", Ledger::read()?.tell(&sources()?));
            return Ok(ExitCode::SUCCESS);
        }
        let is_wanted = |target: &str| self.target.as_deref().is_none_or(|name| name == target);
        let count =
            PROGRAMS.iter().flat_map(|program| program.targets).filter(|t| is_wanted(t)).count();
        ensure!(count > 0, "no such target: 'cargo xtask fuzz --help' names them");
        let seconds = self.minutes * 60 / count as u64;
        if self.seed.is_none() {
            let changed = git(&["status", "--porcelain", "--", SOURCES])?;
            ensure!(
                changed.is_empty(),
                "commit first, since what is noted names a commit:\n{changed}"
            );
        }
        for program in &PROGRAMS {
            shell::run(program.cargo_test().arg("--no-run"))?;
            for target in program.targets.iter().filter(|target| is_wanted(target)) {
                match self.seed {
                    Some(seed) => program.show(target, seed)?,
                    None => program.feed(target, seconds)?,
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Program {
    fn cargo_test(&self) -> Command {
        let mut run = Command::new("cargo");
        run.current_dir(shell::workspace()).args(["test", "--profile", "campaign"]);
        run.args(self.arguments);
        run
    }

    fn campaign(&self, target: &str) -> Command {
        let mut run = self.cargo_test();
        run.args(["--quiet", "--", "--ignored", "--exact", "--nocapture", self.test]);
        run.env("PRORATA_TARGET", target);
        run
    }

    fn show(&self, target: &str, seed: u64) -> Result<()> {
        shell::run(self.campaign(target).env("PRORATA_SEED", seed.to_string()))
    }

    /// Goes on with `target` for so long, and notes it.
    fn feed(&self, target: &str, seconds: u64) -> Result<()> {
        let first = Ledger::read()?.executions(target);
        let next = shell::target_dir().join(format!("fuzz-{target}"));
        let mut run = self.campaign(target);
        run.env("PRORATA_SECONDS", seconds.to_string());
        run.env("PRORATA_FIRST", first.to_string()).env("PRORATA_NEXT", &next);
        let before = shell::processor_time();
        shell::run(&mut run)?;
        let used = shell::processor_time() - before;
        let text = std::fs::read_to_string(&next).with_context(|| format!("{}", next.display()))?;
        std::fs::remove_file(&next)?;
        let next: u64 = text.parse().context("the next seed is no number")?;
        // Read anew: other targets may have been fed meanwhile.
        let mut ledger = Ledger::read()?;
        ledger.note(
            target,
            Span {
                commit: git(&["rev-parse", "HEAD"])?,
                sources: sources()?,
                seconds: used.as_secs_f64(),
                executions: next - first,
            },
        );
        ledger.write()
    }
}

impl Ledger {
    fn read() -> Result<Ledger> {
        match std::fs::read_to_string(place()) {
            Ok(text) => {
                serde_json::from_str(&text).with_context(|| format!("{}", place().display()))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Ledger::default()),
            Err(error) => Err(error.into()),
        }
    }

    fn write(&self) -> Result<()> {
        Ok(std::fs::write(place(), serde_json::to_string_pretty(self)? + "\n")?)
    }

    fn spans(&self, target: &str) -> &[Span] {
        self.0.get(target).map_or(&[], Vec::as_slice)
    }

    fn executions(&self, target: &str) -> u64 {
        self.spans(target).iter().map(|span| span.executions).sum()
    }

    /// One span for each state of the sources.
    fn note(&mut self, target: &str, new: Span) {
        let spans = self.0.entry(target.to_string()).or_default();
        match spans.iter_mut().find(|span| span.sources == new.sources) {
            Some(span) => {
                span.seconds = to_milliseconds(span.seconds + new.seconds);
                span.executions += new.executions;
            }
            None => spans.push(Span { seconds: to_milliseconds(new.seconds), ..new }),
        }
    }

    /// A line a target.
    fn tell(&self, current: &str) -> String {
        let targets = PROGRAMS.iter().flat_map(|program| program.targets);
        let line = |target: &&str| {
            let spans = self.spans(target);
            let minutes = |is_told: fn(&Span, &str) -> bool| {
                let told = spans.iter().filter(|span| is_told(span, current));
                told.fold(0.0, |sum, span| sum + span.seconds) / 60.0
            };
            format!(
                "{target:10} {:>8.1} min of cpu, {:>12} inputs; {:.1} min of it with these sources\n",
                minutes(|_, _| true),
                self.executions(target),
                minutes(|span, current| span.sources == current),
            )
        };
        targets.map(line).collect()
    }
}

fn to_milliseconds(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

fn place() -> PathBuf {
    shell::workspace().join("bench/fuzz.json")
}

fn sources() -> Result<String> {
    git(&["rev-parse", &format!("HEAD:{SOURCES}")])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(sources: &str, seconds: f64, executions: u64) -> Span {
        Span { commit: "c".into(), sources: sources.into(), seconds, executions }
    }

    #[test]
    fn hours_add_up() {
        let mut ledger = Ledger::default();
        ledger.note("toml", span("a", 60.0, 10));
        ledger.note("toml", span("b", 30.0, 5));
        ledger.note("toml", span("b", 30.0, 7));
        assert_eq!(ledger.spans("toml"), [span("a", 60.0, 10), span("b", 60.0, 12)]);
        assert_eq!((ledger.executions("toml"), ledger.executions("json")), (22, 0));
        let told = ledger.tell("b");
        let line = "toml            2.0 min of cpu,           22 inputs; 1.0 min of it";
        assert!(told.starts_with(line), "{told}");
    }

    #[test]
    fn the_ledger_in_the_repository_names_targets() {
        for name in Ledger::read().expect("a ledger").0.keys() {
            assert!(
                PROGRAMS.iter().any(|program| program.targets.contains(&name.as_str())),
                "{name}"
            );
        }
    }
}

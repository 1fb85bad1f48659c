//! `cargo xtask instructions`: what a decision costs in instructions, which repeat exactly where
//! nanoseconds do not.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::shell;

/// Numbers of tasks to count with.
const SIZES: [u32; 4] = [10, 1_000, 100_000, 1_000_000];
/// The most instructions that a decision of GR3 may take.
const GR3_LIMIT: u64 = 60;
/// Decisions in the shorter of the two runs whose difference is counted.
const DECISIONS: u64 = 100_000;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Policies to count, with the floor beside them.
    #[arg(default_values_t = ["gr3".to_owned(), "vtrr".to_owned(), "wfq".to_owned()])]
    policies: Vec<String>,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        let bench = bench()?;
        println!("{:14}{}", "instructions", SIZES.map(|n| format!("{n:>10}")).concat());
        for policy in std::iter::once("array").chain(self.policies.iter().map(String::as_str)) {
            let counts = SIZES.map(|tasks| count(&bench, policy, tasks));
            let counts = counts.into_iter().collect::<Result<Vec<u64>>>()?;
            let cells: String = counts.iter().map(|count| format!("{count:>10}")).collect();
            println!("{policy:14}{cells}");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// GR3 stays within its limit at every size.
pub(crate) fn check() -> Result<()> {
    let bench = bench()?;
    for tasks in SIZES {
        let counted = count(&bench, "gr3", tasks)?;
        eprintln!("xtask: a decision of gr3 among {tasks} tasks takes {counted} instructions");
        if counted > GR3_LIMIT {
            bail!("a decision of gr3 takes {counted} instructions; the limit is {GR3_LIMIT}");
        }
    }
    Ok(())
}

/// The core has no dependencies but its tests': cargo compiles them with the benchmark, which uses
/// none.
const NOTHING_FOR_THE_TESTS: [&str; 4] = [
    "--config",
    "profile.bench.package.'*'.opt-level=0",
    "--config",
    "profile.bench.package.'*'.debug=false",
];

/// Builds the cost benchmark and returns its path.
fn bench() -> Result<PathBuf> {
    let mut build = Command::new("cargo");
    build.current_dir(shell::workspace()).args(NOTHING_FOR_THE_TESTS);
    build.args(["bench", "--package", "prorata", "--bench", "cost", "--no-run"]);
    let output = build.arg("--message-format=json").output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("the benchmark does not build:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let executable = messages.lines().rev().find_map(|line| {
        let (_, rest) = line.split_once("\"executable\":\"")?;
        rest.split_once('"').map(|(path, _)| PathBuf::from(path))
    });
    executable.context("cargo named no executable")
}

/// Instructions of a decision: the difference of two runs, so that start-up cancels out.
fn count(bench: &PathBuf, policy: &str, tasks: u32) -> Result<u64> {
    let run = |decisions: u64| {
        let mut program = Command::new(bench);
        program.args(["--picks", policy, &tasks.to_string(), &decisions.to_string()]);
        executed(&program, &[])
    };
    Ok((run(3 * DECISIONS)? - run(DECISIONS)?) / (2 * DECISIONS))
}

/// Instructions that a program executes, counted by callgrind with these options.
pub(crate) fn executed(program: &Command, options: &[&str]) -> Result<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).args(options);
    valgrind.arg(program.get_program()).args(program.get_args());
    let output = valgrind.output().context("cannot start valgrind: `cargo xtask setup`")?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    let collected = collected.and_then(|(_, count)| count.trim().parse().ok());
    collected.with_context(|| format!("valgrind counted nothing:\n{said}"))
}

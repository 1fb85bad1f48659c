//! `cargo xtask fuzz`: every parser of the simulator and of the command line fed with garbage, for minutes,
//! on one thread. The targets are in `crates/sim/tests/fuzz` and `crates/cli/src/fuzz.rs`.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::shell;

/// The test programs, and how many targets they have.
const PROGRAMS: [(&[&str], &str, u64); 2] = [
    (&["-p", "prorata-sim", "--test", "fuzz"], "for_minutes", 6),
    (&["-p", "prorata-cli", "--bin", "prorata"], "fuzz::for_minutes", 5),
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// So long in all, each target alike.
    #[arg(long, default_value_t = 10, value_name = "N")]
    minutes: u64,
    /// Only this one: toml, json, perf, sweep, policy, duration, recording, weights, cpus, job, arguments.
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// Where it is written how far each target has come; it goes on from there.
    #[arg(long, default_value = "target/fuzz", value_name = "DIRECTORY")]
    progress: PathBuf,
    /// Only what this seed makes of the target, which is shown.
    #[arg(long, requires = "target")]
    seed: Option<u64>,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        let targets = match self.target {
            Some(_) => 1,
            None => PROGRAMS.iter().map(|program| program.2).sum(),
        };
        let seconds = self.minutes * 60 / targets;
        let progress = std::path::absolute(&self.progress)
            .with_context(|| format!("no such place: {}", self.progress.display()))?;
        std::fs::create_dir_all(&progress)
            .with_context(|| format!("cannot make {}", progress.display()))?;
        for (program, test, _) in PROGRAMS {
            let mut run = Command::new("cargo");
            run.current_dir(shell::workspace()).arg("test").args(program);
            run.args(["--", "--ignored", "--exact", "--nocapture", test]);
            run.env("PRORATA_SECONDS", seconds.to_string()).env("PRORATA_CAMPAIGN", &progress);
            run.envs(self.target.iter().map(|target| ("PRORATA_TARGET", target)));
            run.envs(self.seed.map(|seed| ("PRORATA_SEED", seed.to_string())));
            shell::run(&mut run)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

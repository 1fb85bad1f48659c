//! `cargo xtask properties`: what proptest asserts of random inputs, on inputs that no run has had.
//!
//! `cargo test` has the same inputs each time (`.cargo/config.toml`): it fails for what was changed, not for
//! a case of one in a million that was always there. Those are looked for here.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use crate::shell;

/// The test programs with properties.
const PROGRAMS: &[&[&str]] = &[
    &["-p", "prorata", "--lib"],
    &["-p", "prorata", "--test", "gr3"],
    &["-p", "prorata", "--test", "gdq"],
    &["-p", "prorata", "--test", "dfs"],
    &["-p", "prorata", "--test", "fluid"],
    &["-p", "prorata-sim", "--lib"],
    &["-p", "prorata-sim", "--test", "engine"],
    &["-p", "xtask", "--bin", "xtask"],
];

/// Inputs of a property and a round, if the property does not say itself how many it takes.
const CASES: u32 = 4096;
/// A property may have so many inputs that it says nothing of.
const REJECTS: u32 = 1 << 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Begin no round after so many minutes.
    #[arg(long, default_value_t = 10, value_name = "N")]
    minutes: u64,
    /// Only the round that this seed makes; without it, rounds of seeds that begin at the time of day.
    #[arg(long)]
    seed: Option<u64>,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        for program in PROGRAMS {
            shell::run(cargo_test(program).arg("--no-run"))?;
        }
        if let Some(seed) = self.seed {
            round(seed)?;
            return Ok(ExitCode::SUCCESS);
        }
        let (begin, most) = (Instant::now(), Duration::from_secs(self.minutes * 60));
        let first = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        for (rounds, seed) in (1..).zip(first..) {
            round(seed)?;
            eprintln!("xtask: properties: {rounds} rounds, from seed {first} on");
            if begin.elapsed() >= most {
                break;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn round(seed: u64) -> Result<()> {
    for program in PROGRAMS {
        let mut run = cargo_test(program);
        run.arg("--quiet").env("PROPTEST_RNG_SEED", seed.to_string());
        run.env("PROPTEST_CASES", CASES.to_string());
        run.env("PROPTEST_MAX_GLOBAL_REJECTS", REJECTS.to_string());
        shell::run(&mut run)
            .with_context(|| format!("to repeat it: cargo xtask properties --seed {seed}"))?;
    }
    Ok(())
}

fn cargo_test(program: &[&str]) -> Command {
    let mut run = Command::new("cargo");
    run.current_dir(shell::workspace()).args(["test", "--profile", "campaign"]).args(program);
    run
}

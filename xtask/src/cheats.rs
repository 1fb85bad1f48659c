//! `cargo xtask cheats`: for every policy, the tasks that sleep, wake each other and end so as to gain most.
//! The search itself is `crates/core/tests/conformance/cheats.rs`.

use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::shell;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Quanta that each search tries out on each cpu.
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    quanta: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        let mut run = Command::new("cargo");
        run.current_dir(shell::workspace());
        run.args(["test", "--profile", "campaign", "-p", "prorata", "--test", "conformance"]);
        run.args(["--", "--ignored", "--exact", "--nocapture", "cheats::campaign"]);
        run.env("PRORATA_QUANTA", self.quanta.to_string());
        run.env("PRORATA_SEED", self.seed.to_string());
        shell::run(&mut run)?;
        Ok(ExitCode::SUCCESS)
    }
}

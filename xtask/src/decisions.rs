//! `cargo xtask decisions`: random sets and random turmoil under every policy of the registry, each held to
//! what it claims, until told to stop. The campaign itself is `crates/core/tests/conformance/campaign.rs`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::shell;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Stop after so many decisions in all, of this run and those before.
    #[arg(long, default_value_t = 1_000_000_000, value_name = "N")]
    until: u64,
    /// Stop after so many minutes.
    #[arg(long, default_value_t = 10, value_name = "N")]
    minutes: u64,
    /// Where it is written how far the campaign has come; it goes on from there.
    #[arg(long, default_value = "target/decisions.txt", value_name = "FILE")]
    progress: PathBuf,
    /// Only what this seed makes.
    #[arg(long)]
    seed: Option<u64>,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        let (test, variables) = match self.seed {
            Some(seed) => ("campaign::one_round", vec![("PRORATA_SEED", seed.to_string())]),
            None => ("campaign::without_end", self.campaign()?),
        };
        let mut run = Command::new("cargo");
        run.current_dir(shell::workspace()).args([
            "test",
            "--profile",
            "campaign",
            "-p",
            "prorata",
            "--test",
            "conformance",
        ]);
        run.args(["--", "--ignored", "--exact", "--nocapture", test]).envs(variables);
        shell::run(&mut run)?;
        Ok(ExitCode::SUCCESS)
    }

    fn campaign(&self) -> Result<Vec<(&'static str, String)>> {
        let place = std::path::absolute(&self.progress)
            .with_context(|| format!("no such place: {}", self.progress.display()))?;
        let directory = place.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let place = place.to_str().context("the path of --progress is no text")?.to_string();
        Ok(vec![
            ("PRORATA_CAMPAIGN", place),
            ("PRORATA_DECISIONS", self.until.to_string()),
            ("PRORATA_SECONDS", (self.minutes * 60).to_string()),
        ])
    }
}

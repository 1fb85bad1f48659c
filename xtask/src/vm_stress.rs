//! `cargo xtask vm-stress`: the in-kernel scheduler under random disturbances, in the test machine.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use crate::vm::{self, Check};

/// An instruction takes 16 ns: the emulated cpus are slow, and the host is done the sooner.
const ICOUNT: u32 = 4;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Virtual minutes of disturbances.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Times that the loader is killed afterwards.
    #[arg(long, default_value_t = 100)]
    kills: u32,
    /// Virtual cpus.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: u32,
    /// The policy.
    #[arg(long, default_value = "gr3")]
    policy: String,
    /// The same seed disturbs in the same way.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        let mut script = String::from("set -e\n");
        if self.minutes > 0 {
            script += &stress(&self.policy, self.minutes * 60, self.seed);
        }
        if self.kills > 0 {
            script += &kill(&self.policy, self.kills);
        }
        let timeout = Duration::from_secs(6 * 3600);
        let what = Check { cpus: self.cpus, icount: ICOUNT, timeout, ..Check::default() };
        vm::check(&what, &script, &mut vm::print)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// A command for the machine.
pub(crate) fn stress(policy: &str, seconds: u64, seed: u64) -> String {
    format!("xtask guest stress --policy {policy} --seconds {seconds} --seed {seed}\n")
}

/// A command for the machine.
pub(crate) fn kill(policy: &str, times: u32) -> String {
    format!("xtask guest kill --policy {policy} --times {times}\n")
}

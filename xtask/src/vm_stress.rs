//! `cargo xtask vm-stress`: the in-kernel scheduler under random disturbances, in the test machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::vm::{self, Check};

/// An instruction takes 16 ns: the emulated cpus are slow, and the host is done the sooner.
const ICOUNT: u32 = 4;
/// Cpus, of which half go offline and come back, where a user is hostile.
const HOSTILE_CPUS: u32 = 4;
const CPUS: u32 = 2;
/// RCU's kernel threads are of real time where a user is hostile: the kernel's own scheduler has the tasks
/// while ours is loaded, and lets the user starve them; and so does 6.18 while it unloads ours, when tasks
/// that are its own already go before those that are not.
const REAL_TIME_RCU: &str = "rcutree.kthread_prio=1";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Virtual minutes of disturbances.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// A user does at random what users can do, while cpus come and go; on cpus that run at once, two to a
    /// core, where time is the host's.
    #[arg(long)]
    hostile: bool,
    /// Times that the loader is killed afterwards; not with --hostile.
    #[arg(long, default_value_t = 100)]
    kills: u32,
    /// Virtual cpus: 2, with --hostile 4, unless told.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: Option<u32>,
    /// Policies, each in a machine of its own.
    #[arg(long, default_value = "gr3", value_delimiter = ',', value_name = "NAMES")]
    policy: Vec<String>,
    /// The same seed disturbs in the same way. With --hostile each phase has the next one.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The kernel: the beginning of a version that Debian's archive has.
    #[arg(long, value_name = "VERSION")]
    kernel: Option<String>,
    /// A directory for the recordings of phases in which a hostile user takes from root's hogs, or that fail,
    /// one after the other: POLICY.gz.
    #[arg(long, requires = "hostile", value_name = "DIRECTORY")]
    keep: Option<PathBuf>,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        let mut failed = false;
        for policy in &self.policy {
            let result = if self.hostile { self.besiege(policy) } else { self.disturb(policy) };
            if let Err(error) = result {
                eprintln!("xtask: {policy}: {error:#}");
                failed = true;
            }
        }
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn disturb(&self, policy: &str) -> Result<()> {
        let mut script = String::from("set -e\n");
        if self.minutes > 0 {
            script += &stress(policy, self.minutes * 60, self.seed);
        }
        if self.kills > 0 {
            script += &kill(policy, self.kills);
        }
        let what = Check {
            kernel: self.kernel.as_deref(),
            cpus: self.cpus.unwrap_or(CPUS),
            icount: Some(ICOUNT),
            timeout: Duration::from_secs(6 * 3600),
            ..Check::default()
        };
        vm::check(&what, &script, &mut vm::print)
    }

    fn besiege(&self, policy: &str) -> Result<()> {
        let cpus = self.cpus.unwrap_or(HOSTILE_CPUS);
        ensure!(cpus > 1 && self.minutes > 0, "--hostile wants --cpus and --minutes above 1 and 0");
        if let Some(directory) = &self.keep {
            fs::create_dir_all(directory).with_context(|| {
                format!("cannot make {}: name another directory for --keep", directory.display())
            })?;
        }
        let keep = self.keep.as_ref().map(|directory| directory.join(format!("{policy}.gz")));
        let what = Check {
            kernel: self.kernel.as_deref(),
            cpus,
            icount: None,
            smt: cpus.is_multiple_of(2),
            boot: REAL_TIME_RCU,
            timeout: Duration::from_secs(self.minutes * 60 * 4 + 600),
            keep: keep.as_deref(),
            ..Check::default()
        };
        let (seconds, seed, offline) = (self.minutes * 60, self.seed, cpus / 2);
        let mut script = format!(
            "xtask guest hostile --policy {policy} --seconds {seconds} --seed {seed} --offline {offline}"
        );
        if keep.is_some() {
            script += " --keep";
        }
        let result = vm::check(&what, &script, &mut vm::print);
        if let Some(file) = &keep {
            tell_of_recording(file)?;
        }
        result
    }
}

/// Where recordings are; or nothing was kept.
fn tell_of_recording(file: &Path) -> Result<()> {
    match file.metadata().map(|file| file.len()) {
        Ok(0) => fs::remove_file(file)?,
        Ok(_) => eprintln!("xtask: what was recorded is in {}", file.display()),
        // The machine did not start.
        Err(_) => {}
    }
    Ok(())
}

/// A command for the machine.
pub(crate) fn stress(policy: &str, seconds: u64, seed: u64) -> String {
    format!("xtask guest stress --policy {policy} --seconds {seconds} --seed {seed}\n")
}

/// A command for the machine.
pub(crate) fn kill(policy: &str, times: u32) -> String {
    format!("xtask guest kill --policy {policy} --times {times}\n")
}

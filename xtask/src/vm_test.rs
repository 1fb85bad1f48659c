//! `cargo xtask vm-test`: what must hold in a real kernel, in the test machine.
//!
//! Time in the machine is executed instructions, so that a busy host changes nothing. Each check is
//! a command; a machine that ends with another code than 0, or whose kernel warns, fails.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use crate::vm::{self, Check};
use crate::vm_stress;

/// Shares may be so far from the entitled ones, in per mille, after [`SECONDS`]; a quantum is 28 per
/// mille of what the lightest hog is entitled to.
const SHARE_ERROR: u32 = 40;
const SECONDS: u32 = 4;
/// How far a hog may be behind its ideal at any time.
const LAG_MS: u32 = 15;
/// The policy under random disturbances, in virtual seconds; `vm-stress` has the long form.
const STRESS_SECONDS: u64 = 5;
/// An instruction takes 4 ns: the emulated cpus are slow, and the host is done the sooner.
const ICOUNT: u32 = 2;

#[derive(clap::Args)]
pub(crate) struct Args {}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        run()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Runs all checks, on one and on two cpus.
pub(crate) fn run() -> Result<()> {
    for cpus in [1, 2] {
        eprintln!("xtask: in the kernel, {cpus} cpus");
        let timeout = Duration::from_secs(900);
        let what = Check { cpus, icount: ICOUNT, timeout, programs: &[] };
        vm::check(&what, &checks(), &mut vm::print)?;
        if cpus > 1 {
            vm::check(&what, &vm_stress::stress("gr3", STRESS_SECONDS, 1), &mut vm::print)?;
        }
    }
    Ok(())
}

/// Mixes of hogs get their shares, every decision is the core's, the kernel is itself again.
fn checks() -> String {
    let state = "test \"$(cat /sys/kernel/sched_ext/state)\" = disabled";
    [
        "set -e",
        &format!(
            "xtask guest mix --seconds {SECONDS} --share-error {SHARE_ERROR} --lag {LAG_MS} \
             --under 'scx_prorata --record /tmp/recording'"
        ),
        "prorata verify /tmp/recording",
        state,
        // What is not a policy is refused, and so is a kernel that is scheduled already.
        "if scx_prorata --policy none; then exit 1; fi",
        "scx_prorata & LOADER=$!",
        "while ! grep -q enabled /sys/kernel/sched_ext/state; do sleep 0.1; done",
        "if scx_prorata; then exit 1; fi",
        "sleep 1",
        "scx_prorata weight set --pid 1 2048",
        "test \"$(scx_prorata weight get --pid 1)\" = '1 2048'",
        "scx_prorata metrics | grep -q scx_prorata_picks_total",
        // A loader that is killed leaves the machine to the kernel.
        "kill -KILL $LOADER",
        "while ! grep -q disabled /sys/kernel/sched_ext/state; do sleep 0.1; done",
    ]
    .join("\n")
}

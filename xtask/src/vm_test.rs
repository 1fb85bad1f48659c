//! `cargo xtask vm-test`: what must hold in a real kernel, in the test machine.
//!
//! Time in the machine is executed instructions, so that a busy host changes nothing. Each check is
//! a command; a machine that ends with another code than 0, or whose kernel warns, fails.

use std::process::ExitCode;

use anyhow::Result;

use crate::vm;

/// Shares may be so far from the entitled ones, in per mille, after [`SECONDS`]. Wide: the emulated
/// cpus take turns for tens of milliseconds, which the kernel counts as run time; its own scheduler
/// is off by 10 % here. What is exact is that every decision is the policy's.
const SHARE_ERROR: u32 = 250;
const SECONDS: u32 = 4;

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
        vm::check(cpus, &checks())?;
    }
    Ok(())
}

/// Mixes of hogs get their shares, every decision is the core's, the kernel is itself again.
fn checks() -> String {
    let state = "test \"$(cat /sys/kernel/sched_ext/state)\" = disabled";
    [
        "set -e",
        &format!(
            "xtask guest mix --seconds {SECONDS} --share-error {SHARE_ERROR} \
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

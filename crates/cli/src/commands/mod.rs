//! One file a subcommand: its arguments, and `execute`.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Subcommand;

mod attach;
mod compare;
mod explain;
mod figure;
mod policies;
mod progress;
mod run;
mod simulate;
mod sweep;
mod verify;
mod workload;

/// What is fed with garbage.
#[cfg(test)]
pub(crate) mod fuzzed {
    pub(crate) use super::run::parse_cpus as cpus;
    pub(crate) use super::simulate::parse_weights as weights;
    pub(crate) use super::verify::replay;
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run one workload under several policies in simulation and show them side by side.
    Compare(compare::Args),
    /// Say what each task and cgroup of a workload is due, and why.
    Explain(explain::Args),
    /// Compute and draw the papers' figures, beside what the papers print.
    Figure(figure::Args),
    /// Run commands that share cpus by weight.
    Run(run::Args),
    /// Let running processes share cpus by weight.
    Attach(attach::Args),
    /// List the policies: paper, bound, cost, where they run.
    Policies(policies::Args),
    /// Run tasks under a policy in simulation: who runs when, and what each gets.
    Simulate(simulate::Args),
    /// Run a workload over a grid of its keys, policies and seeds, with confidence intervals.
    Sweep(sweep::Args),
    /// Compare the kernel's recorded decisions with the policy's.
    Verify(verify::Args),
}

impl Command {
    /// Does what the user asked for. An error is bad input or a failed environment: exit code 2.
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Command::Compare(args) => args.execute(),
            Command::Explain(args) => args.execute(),
            Command::Figure(args) => args.execute(),
            Command::Run(args) => args.execute(),
            Command::Attach(args) => args.execute(),
            Command::Policies(args) => args.execute(),
            Command::Simulate(args) => args.execute(),
            Command::Sweep(args) => args.execute(),
            Command::Verify(args) => args.execute(),
        }
    }
}

/// Standard output may be closed early (`| head`): that is no error.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

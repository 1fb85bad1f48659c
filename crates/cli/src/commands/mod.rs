//! One file a subcommand: its arguments, and `execute`.

use std::io::{ErrorKind, Write as _};
#[cfg(feature = "simulate")]
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Subcommand;

mod attach;
#[cfg(feature = "simulate")]
mod compare;
#[cfg(feature = "simulate")]
mod explain;
#[cfg(feature = "simulate")]
mod figure;
#[cfg(feature = "simulate")]
mod outputs;
mod policies;
mod policy;
#[cfg(feature = "simulate")]
mod progress;
mod run;
#[cfg(feature = "simulate")]
mod simulate;
#[cfg(feature = "simulate")]
mod sweep;
#[cfg(feature = "simulate")]
mod verify;
#[cfg(feature = "simulate")]
mod workload;

/// What is fed with garbage.
#[cfg(all(test, feature = "simulate"))]
pub(crate) mod fuzzed {
    pub(crate) use super::run::parse_cpus as cpus;
    pub(crate) use super::simulate::parse_weights as weights;
    pub(crate) use super::verify::replay;
}

/// What each does is said at its `Args`: a comment here would hide that from `--help`.
#[derive(Subcommand)]
pub(crate) enum Command {
    Run(run::Args),
    Attach(attach::Args),
    Policies(policies::Args),
    #[cfg(feature = "simulate")]
    #[command(flatten)]
    Simulation(Simulation),
}

/// What needs the simulator.
#[cfg(feature = "simulate")]
#[derive(Subcommand)]
pub(crate) enum Simulation {
    Simulate(simulate::Args),
    Compare(compare::Args),
    Sweep(sweep::Args),
    Explain(explain::Args),
    Figure(figure::Args),
    Verify(verify::Args),
}

impl Command {
    /// Does what the user asked for. An error is bad input or a failed environment: exit code 2.
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Command::Run(args) => args.execute(),
            Command::Attach(args) => args.execute(),
            Command::Policies(args) => args.execute(),
            #[cfg(feature = "simulate")]
            Command::Simulation(simulation) => simulation.execute(),
        }
    }
}

#[cfg(feature = "simulate")]
impl Simulation {
    fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Simulation::Simulate(args) => args.execute(),
            Simulation::Compare(args) => args.execute(),
            Simulation::Sweep(args) => args.execute(),
            Simulation::Explain(args) => args.execute(),
            Simulation::Figure(args) => args.execute(),
            Simulation::Verify(args) => args.execute(),
        }
    }
}

/// The bytes of the file at `path`.
#[cfg(feature = "simulate")]
fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| cannot_read(path, error))
}

/// Why `path` cannot be read, and what to do about it.
#[cfg(feature = "simulate")]
fn cannot_read(path: &Path, error: std::io::Error) -> anyhow::Error {
    let remedy = match error.kind() {
        ErrorKind::NotFound => "there is no such file: check its name and directory",
        ErrorKind::NotADirectory => "something on the way there is no directory: check its name",
        ErrorKind::IsADirectory => "it is a directory: name a file in it",
        ErrorKind::PermissionDenied => "you may not: ask its owner, or copy it as who may",
        _ => return anyhow::Error::new(error).context(format!("cannot read {}", path.display())),
    };
    anyhow::anyhow!("cannot read {}: {remedy}", path.display())
}

/// Standard output may be closed early (`| head`): that is no error.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

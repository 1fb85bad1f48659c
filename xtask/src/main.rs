//! Development tasks: `cargo xtask --help`. Each subcommand is one file.

use std::process::ExitCode;

use clap::Parser;

mod setup;
mod shell;
mod vm;

/// Development tasks of prorata.
#[derive(Parser)]
#[command(name = "xtask", max_term_width = 100)]
enum Task {
    /// Install the system packages that building and testing need (Debian).
    Setup(setup::Args),
    /// Run a command in a small virtual machine whose kernel has sched_ext.
    Vm(vm::Args),
}

fn main() -> ExitCode {
    let result = match Task::parse() {
        Task::Setup(args) => args.execute(),
        Task::Vm(args) => args.execute(),
    };
    result.unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::from(2)
    })
}

//! `prorata`: proportional-share cpu scheduling, for real commands, in simulation and in the
//! kernel. Each subcommand is one file in `commands/`.

// It panics where standard output is closed or full: commands::print does not.
#![cfg_attr(not(test), deny(clippy::print_stdout))]

use std::process::ExitCode;

use clap::Parser;

mod commands;
#[cfg(all(test, feature = "simulate"))]
mod fuzz;

/// Every task gets the share of the CPU that its weight gives it, exactly and cheaply.
#[derive(Parser)]
#[command(name = "prorata", version, max_term_width = 100)]
#[cfg_attr(
    not(feature = "simulate"),
    command(
        after_help = "Built without the simulator: build without --no-default-features for it."
    )
)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    match Cli::parse().command.execute() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("prorata: {error:#}");
            ExitCode::from(2)
        }
    }
}

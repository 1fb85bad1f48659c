//! `cargo xtask test`: everything that must hold before a change lands.

use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::{figures, instructions, no_std, python, readme, setup, shell, tidy, vm_test};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Skip what needs a virtual machine.
    #[arg(long)]
    no_vm: bool,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        setup::ensure()?;
        setup::ensure_tools()?;
        step("formatting", || cargo(&["fmt", "--all", "--check"]))?;
        step("tidiness", tidy::check)?;
        step("the README's table", readme::check)?;
        step("the figures' ages", figures::tell)?;
        let lints = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];
        step("lints", || cargo(&lints))?;
        let alone = [
            "clippy",
            "--package",
            "prorata-cli",
            "--no-default-features",
            "--",
            "--deny",
            "warnings",
        ];
        step("lints without the simulator", || cargo(&alone))?;
        step("the library's documentation", document)?;
        step("no_std", no_std::check)?;
        step("tests", || cargo(&["test", "--workspace"]))?;
        step("Python", python::check)?;
        step("instruction counts", instructions::check)?;
        if self.no_vm {
            eprintln!("xtask: skipped: the tests in a virtual machine (--no-vm)");
        } else {
            step("a real kernel", vm_test::run)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Runs one step, naming it and telling how long it took: on a busy machine, its processor time says
/// more.
fn step(name: &str, run: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("xtask: {name} …");
    let (begin, before) = (Instant::now(), shell::processor_time());
    run().with_context(|| name.to_owned())?;
    let processor_time = shell::processor_time() - before;
    eprintln!(
        "xtask: {name}: ok, {:.0} s, {:.0} s of processor time",
        begin.elapsed().as_secs_f64(),
        processor_time.as_secs_f64()
    );
    Ok(())
}

/// What people read of the library has no link that leads nowhere.
fn document() -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(shell::workspace()).env("RUSTDOCFLAGS", "--deny warnings");
    shell::run(cargo.args(["doc", "--no-deps", "--package", "prorata"]))
}

fn cargo(arguments: &[&str]) -> Result<()> {
    shell::run(Command::new("cargo").current_dir(shell::workspace()).args(arguments))
}

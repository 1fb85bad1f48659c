//! `cargo xtask no-std`: the core compiles where there is no standard library.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::shell;

/// A target that has never had a standard library.
const BARE_TARGET: &str = "thumbv6m-none-eabi";

#[derive(clap::Args)]
pub(crate) struct Args {}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        check()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Compiles the core for a bare target, or, if that is not installed, for this machine with a
/// toolchain that holds `core` and `alloc` and nothing else.
pub(crate) fn check() -> Result<()> {
    let sysroot = shell::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let libraries = Path::new(sysroot.trim()).join("lib/rustlib");
    let mut check = Command::new("cargo");
    check.current_dir(shell::workspace()).args(["check", "--quiet", "--package", "prorata"]);
    if libraries.join(BARE_TARGET).is_dir() {
        eprintln!("xtask: no_std: compiling for {BARE_TARGET}");
        return shell::run(check.args(["--target", BARE_TARGET]));
    }
    eprintln!(
        "xtask: no_std: {BARE_TARGET} is not installed: compiling against core and alloc alone"
    );
    let bare = shell::target_dir().join("no-std");
    bare_sysroot(&libraries, &bare.join("sysroot"))?;
    check.arg("--target-dir").arg(bare.join("build"));
    shell::run(check.env("RUSTFLAGS", format!("--sysroot={}", bare.join("sysroot").display())))
}

/// A copy of this machine's libraries at `libraries` without `std` and what it needs.
fn bare_sysroot(libraries: &Path, sysroot: &Path) -> Result<()> {
    let version = shell::output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc -vV names no host")?;
    let from = libraries.join(host).join("lib");
    let to = sysroot.join("lib/rustlib").join(host).join("lib");
    fs::create_dir_all(&to)?;
    for entry in fs::read_dir(&from).with_context(|| format!("{} is missing", from.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let needed = ["libcore-", "liballoc-", "libcompiler_builtins-"];
        if needed.iter().any(|prefix| name.starts_with(prefix)) {
            fs::copy(entry.path(), to.join(&name))?;
        }
    }
    Ok(())
}

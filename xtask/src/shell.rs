//! Running other programs, with errors that name the program and what it said.

use std::mem;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Runs `command` with its output shown; an error if it does not succeed.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed: {status}");
    }
    Ok(())
}

/// Runs `command` and returns what it printed; an error holds what it complained.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} failed: {}\n{}", output.status, said.trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("{command:?} printed no UTF-8"))
}

/// The first directory of `PATH` that holds `program`.
pub(crate) fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// The root of the workspace.
pub(crate) fn workspace() -> PathBuf {
    let xtask = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask lies in the workspace").to_path_buf()
}

/// Where cargo puts what it builds, and we what is built otherwise.
pub(crate) fn target_dir() -> PathBuf {
    let chosen = std::env::var_os("CARGO_TARGET_DIR").and_then(|dir| std::path::absolute(dir).ok());
    chosen.unwrap_or_else(|| workspace().join("target"))
}

/// What git says of the workspace.
pub(crate) fn git(arguments: &[&str]) -> Result<String> {
    Ok(output(Command::new("git").current_dir(workspace()).args(arguments))?.trim().to_string())
}

/// Processor time of all programs that were run and waited for, and of those that they ran.
pub(crate) fn processor_time() -> Duration {
    // SAFETY: the struct is plain numbers, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs())
            + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

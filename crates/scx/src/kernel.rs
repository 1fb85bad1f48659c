//! What this kernel can do, and what to say when it cannot.

use std::fs;
use std::path::Path;

use anyhow::{Error, Result, bail};

const SCHED_EXT: &str = "/sys/kernel/sched_ext";

/// Fails with the remedy when a scheduler cannot be loaded here.
pub(crate) fn check() -> Result<()> {
    if !Path::new(SCHED_EXT).is_dir() {
        bail!(
            "kernel {} has no sched_ext: it needs CONFIG_SCHED_CLASS_EXT=y, which e.g. Debian's \
             kernels from 6.16 on have (trixie-backports)",
            release()
        );
    }
    // SAFETY: the call has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        bail!("loading a scheduler needs root: try `sudo scx_prorata`");
    }
    refuse_second()
}

fn refuse_second() -> Result<()> {
    let state = fs::read_to_string(format!("{SCHED_EXT}/state")).unwrap_or_default();
    if state.trim() == "enabled" {
        let name = fs::read_to_string(format!("{SCHED_EXT}/root/ops")).unwrap_or_default();
        bail!("the scheduler '{}' is loaded: stop it first", name.trim());
    }
    Ok(())
}

fn release() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_string()
}

/// The program cannot be loaded.
pub(crate) fn explain_load(error: Error) -> Error {
    // Where libbpf looks for the options that sched_ext's headers ask for.
    let file = format!("/boot/config-{}", release());
    if !Path::new(&file).exists() && !Path::new("/proc/config.gz").exists() {
        return error.context(format!(
            "the configuration of this kernel is not to be found: put it into {file}, or use a \
             kernel that has /proc/config.gz (CONFIG_IKCONFIG_PROC=y)"
        ));
    }
    error.context(
        "this kernel's verifier refuses the scheduler: run again with --verbose for its log, \
         whose end says why",
    )
}

/// The program is loaded, but the kernel does not take it as scheduler.
pub(crate) fn explain_attach(error: Error) -> Error {
    match refuse_second() {
        Err(second) => second,
        Ok(()) => error.context(
            "the kernel does not take the scheduler; if it is older than 6.16, or Debian's 7.2.12 \
             (whose BTF is broken), use another: dmesg says more",
        ),
    }
}

//! The kernel's C, compiled natively.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A program from `tests/SOURCE` with a policy's header, built with these flags.
#[allow(dead_code)] // not every test has policies
pub(crate) fn compile(source: &str, policy: &str, flags: &[&str]) -> PathBuf {
    let header = format!("-DPOLICY_HEADER=\"../src/bpf/policies/{policy}.h\"");
    build(source, policy, &[flags, &[&header]].concat())
}

/// A program from `tests/SOURCE`, `name` in messages.
pub(crate) fn build(source: &str, name: &str, flags: &[&str]) -> PathBuf {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    // Tests run at the same time: each has a program of its own.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{source}-{name}-{number}"));
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let status = Command::new(&compiler)
        .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"])
        .args(flags)
        .arg(here.join("tests").join(source))
        .arg("-o")
        .arg(&program)
        .status()
        .unwrap_or_else(|error| panic!("cannot start the C compiler {compiler:?}: {error}"));
    assert!(status.success(), "{name} does not compile natively");
    program
}

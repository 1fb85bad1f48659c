//! `cargo xtask setup`: the system packages and tools that building and testing need.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::shell;

/// What `crates/scx` needs beside Rust (the compiler for BPF and libbpf's libraries), and what counts
/// instructions. The virtual machine is fetched when it is used (`vm/archive.rs`).
const PACKAGES: &[&str] =
    &["clang-19", "libelf-dev", "zlib1g-dev", "pkg-config", "make", "valgrind"];

/// Without them nothing breaks: what builds the schedulers that `vm-report` measures beside ours.
const PEER_PACKAGES: &[&str] = &["libseccomp-dev", "protobuf-compiler"];

/// Cargo's commands that only the tests need, and the components that they come with: rustup's minimal
/// profile has neither.
const TOOLS: &[(&str, &str)] = &[("fmt", "rustfmt"), ("clippy", "clippy")];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also install what building scx_flash, the peer in `vm-report`, needs.
    #[arg(long)]
    peers: bool,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        install(PACKAGES)?;
        ensure_tools()?;
        if self.peers {
            install(PEER_PACKAGES)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Installs what is missing of the packages that every test needs; nothing if all is there.
pub(crate) fn ensure() -> Result<()> {
    install(PACKAGES)
}

/// Installs the distribution's Python, with what makes environments.
pub(crate) fn ensure_python() -> Result<()> {
    install(&["python3-venv"])
}

/// Adds what is missing of the formatter and the lints to the toolchain.
pub(crate) fn ensure_tools() -> Result<()> {
    let works = |tool| shell::output(Command::new("cargo").args([tool, "--version"])).is_ok();
    for (tool, component) in TOOLS {
        if works(tool) {
            continue;
        }
        if shell::which("rustup").is_none() {
            bail!("please install {component}: `cargo {tool}` does not work");
        }
        eprintln!("xtask: installing {component}");
        shell::run(Command::new("rustup").args(["component", "add", component]))?;
    }
    Ok(())
}

fn install(packages: &[&str]) -> Result<()> {
    let missing: Vec<&str> = packages.iter().copied().filter(|p| !is_installed(p)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if shell::which("apt-get").is_none() {
        bail!("please install what Debian calls {}: there is no apt-get here", missing.join(", "));
    }
    eprintln!("xtask: installing {}", missing.join(" "));
    let as_root = |arguments: &[&str]| {
        let mut command = match is_root() {
            true => Command::new("apt-get"),
            false => {
                let mut sudo = Command::new("sudo");
                sudo.arg("apt-get");
                sudo
            }
        };
        command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
        shell::run(&mut command)
    };
    as_root(&["-qq", "update"])?;
    let mut install = vec!["-qq", "install", "--yes", "--no-install-recommends"];
    install.extend(&missing);
    as_root(&install).with_context(|| format!("please install {} by hand", missing.join(" ")))
}

fn is_installed(package: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status}", package]);
    shell::output(&mut query).is_ok_and(|status| status == "installed")
}

fn is_root() -> bool {
    shell::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

//! `cargo xtask vm-report`: shares, lags and costs of the in-kernel policies, in the test machine.
//!
//! All schedulers are measured in one boot for each number of cpus, beside the kernel's own and,
//! where they can be built, scx_flash and scx_lavd. Time in the machine is executed instructions, so
//! that a busy host changes nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::report::{self, Row};
use crate::shell;
use crate::vm::{self, Check};

/// An instruction takes 4 ns where shares are measured: hogs spend the host's time on nothing else.
const ICOUNT_OF_SHARES: u32 = 2;
/// And 1 ns where costs are: a clock counts instructions.
const ICOUNT_OF_COSTS: u32 = 0;
/// From crates.io.
const PEERS: &[&str] = &["scx_flash", "scx_lavd"];
const PEER_VERSION: &str = "1.1.4";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Numbers of cpus, each a machine.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    cpus: Vec<u32>,
    /// Virtual seconds of each measurement of shares.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Measure only the shares, and how late tasks that sleep run.
    #[arg(long, conflicts_with = "only_costs")]
    only_shares: bool,
    /// Measure only the costs.
    #[arg(long)]
    only_costs: bool,
    /// Only these schedulers: policies, `eevdf`, `empty`, `scx_flash`, `scx_lavd`.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    schedulers: Option<Vec<String>>,
    /// Write the tables there, and the figures beside it as JSON.
    #[arg(long, default_value = "target/vm-report.md", value_name = "FILE")]
    out: PathBuf,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        let mut programs = vec![empty_scheduler()?];
        programs.extend(PEERS.iter().copied().filter_map(peer));
        let mut rows = Vec::new();
        for &cpus in &self.cpus {
            if !self.only_costs {
                let seconds = self.seconds;
                let script = format!("xtask guest mix --seconds {seconds} --extremes --go-on");
                self.collect(cpus, ICOUNT_OF_SHARES, &script, &programs, &mut rows)?;
                let script = format!("xtask guest probes --seconds {seconds}");
                self.collect(cpus, ICOUNT_OF_SHARES, &script, &programs, &mut rows)?;
            }
            // With more cpus than two, what costs vary by is what the cpus do at a time.
            if !self.only_shares && cpus <= 2 {
                self.collect(cpus, ICOUNT_OF_COSTS, "xtask guest cost", &programs, &mut rows)?;
            }
            self.write(&rows, &programs)?;
        }
        print!("{}", fs::read_to_string(&self.out)?);
        Ok(ExitCode::SUCCESS)
    }

    /// Runs a measurement under all schedulers in one machine.
    fn collect(
        &self,
        cpus: u32,
        icount: u32,
        command: &str,
        programs: &[PathBuf],
        rows: &mut Vec<Row>,
    ) -> Result<()> {
        eprintln!("xtask: {command} on {cpus} cpus");
        let mut script = command.to_string();
        for (name, command_line) in schedulers(programs)? {
            if self.schedulers.as_ref().is_none_or(|wanted| wanted.contains(&name)) {
                script += &format!(" --under '{command_line}'");
            }
        }
        let timeout = Duration::from_secs(3 * 3600);
        let what = Check {
            cpus,
            icount: Some(icount),
            timeout,
            programs,
            measures: true,
            ..Check::default()
        };
        vm::check(&what, &script, &mut |line| match Row::parse(line) {
            Some(row) => {
                eprintln!("{line}");
                rows.push(row);
            }
            None => vm::print(line),
        })
    }

    fn write(&self, rows: &[Row], programs: &[PathBuf]) -> Result<()> {
        let mut text = HOW.to_string();
        for peer in PEERS.iter().filter(|peer| !is_among(peer, programs)) {
            text += &format!("{peer} could not be built here and is missing.\n\n");
        }
        text += &report::markdown(rows);
        let complain = || format!("cannot write {}", self.out.display());
        if let Some(dir) = self.out.parent() {
            fs::create_dir_all(dir).with_context(complain)?;
        }
        fs::write(&self.out, text).with_context(complain)?;
        let json = self.out.with_extension("json");
        fs::write(&json, serde_json::to_string_pretty(rows)?)
            .with_context(|| format!("cannot write {}", json.display()))
    }
}

const HOW: &str = "\
Times are virtual: QEMU -icount, where an instruction takes 4 ns for shares and 1 ns for costs, so
that a busy host changes nothing; all schedulers in one boot for each number of cpus. The lag is the
furthest that a hog was behind its ideal (GMS) at any time, from the kernel's trace of switches; the
share error is the largest relative one at the end. Shares cannot be told better than by a quantum:
the last column says what 5 ms are of the lightest hog's service. Hogs have run for half a second then, in
which they use the two or three turns that they slept through before. Tasks that sleep wake every so many
ms and then compute for so long, each with a phase of its own; hogs' times are parts of their mean. A
switch is one of a ping-pong over pipes, pinned to a cpu, system calls included; a turn is the end of a slice
among so many hogs of nice 0 to 9, from the last instruction of one hog to the first of the next;
hackbench is 10 groups of 10 senders and 10 receivers over sockets, the best of three.

";

/// Our policies, as the sources have them.
pub(crate) fn policies() -> Result<Vec<String>> {
    let headers = shell::workspace().join("crates/scx/src/bpf/policies");
    let mut policies = Vec::new();
    for entry in fs::read_dir(&headers).with_context(|| format!("{}", headers.display()))? {
        let path = entry?.path();
        if let (Some(stem), Some("h")) =
            (path.file_stem().and_then(|s| s.to_str()), path.extension().and_then(|e| e.to_str()))
        {
            policies.push(stem.replace('_', "-"));
        }
    }
    policies.sort_unstable();
    Ok(policies)
}

/// The schedulers' names and command lines.
fn schedulers(programs: &[PathBuf]) -> Result<Vec<(String, String)>> {
    let ours = policies()?.into_iter().map(|name| {
        let command_line = format!("scx_prorata --policy {name}");
        (name, command_line)
    });
    let mut all: Vec<(String, String)> = ours.collect();
    all.push(("eevdf".into(), "eevdf".into()));
    all.push(("empty".into(), "scx_empty".into()));
    let peers = PEERS.iter().filter(|peer| is_among(peer, programs));
    all.extend(peers.map(|&peer| (peer.into(), peer.into())));
    Ok(all)
}

fn is_among(peer: &str, programs: &[PathBuf]) -> bool {
    programs.iter().any(|program| program.ends_with(peer))
}

/// A scheduler that leaves everything to sched_ext: what the framework itself costs.
fn empty_scheduler() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.current_dir(shell::workspace()).args(["build", "--quiet", "--release"]);
    build.args(["--workspace", "--example", "scx_empty"]);
    shell::run(&mut build).context("the empty scheduler does not build")?;
    Ok(vm::target_dir().join("release/examples/scx_empty"))
}

/// Built once; none where it does not build.
fn peer(name: &str) -> Option<PathBuf> {
    let root = vm::cache_dir().ok()?.join("peers");
    let program = root.join("bin").join(name);
    if !program.is_file() {
        eprintln!("xtask: building {name}, which takes minutes (`cargo xtask setup --peers`)");
        if let Err(error) = install_peer(name, &root) {
            eprintln!("xtask: the report goes without {name}: {error:#}");
            return None;
        }
    }
    Some(program)
}

fn install_peer(name: &str, root: &Path) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut install = Command::new(cargo);
    install.args(["install", "--quiet", "--locked", "--version", PEER_VERSION, name, "--root"]);
    install.arg(root).env("BPF_CLANG", "clang-19");
    shell::run(&mut install)
}

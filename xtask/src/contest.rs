//! Schedulers side by side: ours, the kernel's own, an empty one and others, measured in one machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::ours;
use crate::report::{self, Row};
use crate::shell;
use crate::vm::{self, Check};

/// From crates.io.
const PEERS: &[&str] = &["scx_flash", "scx_lavd"];
/// The kernel's own, and one that leaves everything to sched_ext.
const OTHERS: &[&str] = &["eevdf", "empty"];
const PEER_VERSION: &str = "1.1.4";
const TIMEOUT: Duration = Duration::from_secs(3 * 3600);

/// What is compared, and what was found.
pub(crate) struct Contest {
    /// Schedulers that are not the workspace's.
    programs: Vec<PathBuf>,
    /// Names and command lines of all that take part.
    schedulers: Vec<(String, String)>,
    rows: Vec<Row>,
}

impl Contest {
    /// Of all schedulers, or of those that are `wanted`: policies, also with options, `eevdf`, `empty`,
    /// `scx_flash`, `scx_lavd`.
    pub(crate) fn new(wanted: Option<&[String]>) -> Result<Contest> {
        let known = everybody()?;
        for name in wanted.into_iter().flatten() {
            ensure!(
                known.iter().any(|known| known == policy_of(name)),
                "no scheduler is called '{name}'; there are {}",
                known.join(", ")
            );
        }
        let mut names = wanted.map_or(known, <[String]>::to_vec);
        let takes_part = |name: &str| names.iter().any(|taking| taking == name);
        let mut programs = Vec::new();
        if takes_part("empty") {
            programs.push(empty_scheduler()?);
        }
        programs.extend(PEERS.iter().copied().filter(|peer| takes_part(peer)).filter_map(peer));
        names.retain(|name| !PEERS.contains(&name.as_str()) || is_among(name, &programs));
        let schedulers =
            names.into_iter().map(|name| (name.clone(), command_line(&name))).collect();
        Ok(Contest { programs, schedulers, rows: Vec::new() })
    }

    /// Runs a measurement under all of them in one machine.
    pub(crate) fn measure(&mut self, machine: &Check<'_>, command: &str) -> Result<()> {
        eprintln!("xtask: {command} on {} cpus", machine.cpus);
        let mut script = command.to_string();
        for (_, command_line) in &self.schedulers {
            script += &format!(" --under '{command_line}'");
        }
        let what = Check { timeout: TIMEOUT, programs: &self.programs, measures: true, ..*machine };
        let rows = &mut self.rows;
        vm::check(&what, &script, &mut |line| match Row::parse(line) {
            Some(row) => {
                eprintln!("{line}");
                rows.push(row);
            }
            None => vm::print(line),
        })
    }

    /// Writes the tables, after how they were found, and the rows beside them as JSON.
    pub(crate) fn write(&self, how: &str, out: &Path) -> Result<()> {
        let mut text = how.to_string();
        for peer in PEERS.iter().filter(|peer| !is_among(peer, &self.programs)) {
            text += &format!(
                "{peer} was not asked for, or could not be built here, and is missing.\n\n"
            );
        }
        text += &report::markdown(&self.rows);
        let complain = || format!("cannot write {}", out.display());
        if let Some(dir) = out.parent() {
            fs::create_dir_all(dir).with_context(complain)?;
        }
        fs::write(out, text).with_context(complain)?;
        let json = out.with_extension("json");
        fs::write(&json, serde_json::to_string_pretty(&self.rows)?)
            .with_context(|| format!("cannot write {}", json.display()))
    }
}

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

/// All that can take part.
fn everybody() -> Result<Vec<String>> {
    let others = OTHERS.iter().chain(PEERS).map(ToString::to_string);
    Ok(policies()?.into_iter().chain(others).collect())
}

/// The policy of `gr3:sleepers=corrected`; of others the name itself.
fn policy_of(name: &str) -> &str {
    match name.split_once(':') {
        Some((policy, _)) if !OTHERS.contains(&policy) && !PEERS.contains(&policy) => policy,
        _ => name,
    }
}

fn command_line(name: &str) -> String {
    match name {
        "empty" => "scx_empty".into(),
        name if OTHERS.contains(&name) || PEERS.contains(&name) => name.into(),
        policy => ours::command_line(policy),
    }
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
    Ok(shell::target_dir().join("release/examples/scx_empty"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_may_have_options() {
        assert_eq!(policy_of("gr3:sleepers=corrected"), "gr3");
        assert_eq!(policy_of("eevdf:sleepers=corrected"), "eevdf:sleepers=corrected");
        assert_eq!(command_line("gdq:t=2"), "scx_prorata --policy gdq:t=2");
        assert_eq!(["eevdf", "empty"].map(command_line), ["eevdf", "scx_empty"]);
    }
}

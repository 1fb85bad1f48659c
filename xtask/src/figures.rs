//! `cargo xtask figures`: computes the figures that the repository holds, each with a stamp: of which
//! commit it is, on which processor it was computed, and how long that took.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::shell::{self, git};

/// What figures are made of: a change there may change any of them.
const SOURCES: [&str; 3] = ["crates/core/src", "crates/sim/src", "crates/plot/src"];

/// Without names it tells how old the figures are.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Figures to compute into figures/, and to stamp.
    #[arg(value_name = "FIGURE")]
    names: Vec<String>,
    /// Random sets at every point; by default as many as the paper ran.
    #[arg(long, requires = "names")]
    sets: Option<u32>,
    /// Compute with a program as the tests have it: half as fast, built in seconds.
    #[arg(long)]
    dev: bool,
}

/// Where a figure comes from.
#[derive(Clone, Serialize, Deserialize)]
struct Stamp {
    commit: String,
    /// The trees of [`SOURCES`] in that commit: they stay what they are when a history is written anew.
    sources: Vec<String>,
    processor: String,
    /// Elapsed, and of processor time.
    seconds: f64,
    cpu_seconds: f64,
}

type Stamps = BTreeMap<String, Stamp>;

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        if self.names.is_empty() {
            let ages = ages()?;
            ages.iter().for_each(|age| println!("{age}"));
            return Ok(ExitCode::SUCCESS);
        }
        let changed = git(&[&["status", "--porcelain", "--"], &SOURCES[..]].concat())?;
        ensure!(changed.is_empty(), "commit first, since a stamp names a commit:\n{changed}");
        for name in &self.names {
            let stamp = self.compute(name)?;
            let mut stamps = read()?;
            stamps.insert(name.clone(), stamp);
            std::fs::write(place(), serde_json::to_string_pretty(&stamps)? + "\n")?;
            // The page tells the stamps, too.
            shell::run(self.prorata_figure().arg("--page"))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn prorata_figure(&self) -> Command {
        let mut command = Command::new("cargo");
        command.current_dir(shell::workspace()).args(["run", "--quiet", "--bin", "prorata"]);
        command.args((!self.dev).then_some("--release"));
        command.args(["--", "figure", "--output"]).arg(directory());
        command
    }

    fn compute(&self, name: &str) -> Result<Stamp> {
        let mut command = self.prorata_figure();
        command.args([name, "--format", "json"]);
        if let Some(sets) = self.sets {
            command.args(["--sets", &sets.to_string()]);
        }
        let report: serde_json::Value = serde_json::from_str(&shell::output(&mut command)?)?;
        let seconds = |key: &str| {
            let seconds = report[key].as_f64().with_context(|| format!("{name} tells no {key}"));
            seconds.map(|seconds| (seconds * 1000.0).round() / 1000.0)
        };
        Ok(Stamp {
            commit: git(&["rev-parse", "HEAD"])?,
            sources: sources()?,
            processor: processor()?,
            seconds: seconds("seconds")?,
            cpu_seconds: seconds("cpu_seconds")?,
        })
    }
}

/// Tells how many figures are older than what they are made of. They may be the same for all that.
pub(crate) fn tell() -> Result<()> {
    let ages = ages()?;
    let stale = ages.iter().filter(|age| age.commits != Some(0)).count();
    eprintln!(
        "xtask: {stale} of {} figures are of before the last change to {}: 'cargo xtask figures' \
         lists them",
        ages.len(),
        SOURCES.join(" or ")
    );
    Ok(())
}

/// A figure, the commit it is of, and how many have changed its sources since; nothing if that commit is
/// not in this history.
struct Age {
    name: String,
    commit: String,
    commits: Option<u64>,
    stamp: Option<Stamp>,
}

impl std::fmt::Display for Age {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Age { name, commit, commits, stamp } = self;
        let commit = commit.get(..10).unwrap_or(commit);
        match commits {
            Some(commits) => write!(f, "{name:12} {commit}  {commits:>4} changes since")?,
            None => write!(f, "{name:12} {commit}  not in this history")?,
        }
        match stamp {
            Some(Stamp { processor, seconds, cpu_seconds, .. }) => {
                write!(f, "  {cpu_seconds:>8.3} s of cpu in {seconds:.3} s on {processor}")
            }
            None => write!(f, "  without a stamp"),
        }
    }
}

fn ages() -> Result<Vec<Age>> {
    let stamps = read()?;
    let current = sources()?;
    figures()?.into_iter().map(|name| age(name, &stamps, &current)).collect()
}

/// The trees of [`SOURCES`] as they are committed.
fn sources() -> Result<Vec<String>> {
    SOURCES.iter().map(|directory| git(&["rev-parse", &format!("HEAD:{directory}")])).collect()
}

/// A figure without a stamp is of the commit that brought its data, or of an earlier one.
fn age(name: String, stamps: &Stamps, current: &[String]) -> Result<Age> {
    let stamp = stamps.get(&name).cloned();
    let commit = match &stamp {
        Some(stamp) => stamp.commit.clone(),
        None => git(&["log", "-1", "--format=%H", "--", &format!("figures/{name}.json")])?,
    };
    if stamp.as_ref().is_some_and(|stamp| stamp.sources == current) {
        return Ok(Age { name, commit, commits: Some(0), stamp });
    }
    if only_remarks_differ(&commit) {
        return Ok(Age { name, commit, commits: Some(0), stamp });
    }
    let since = format!("{commit}..HEAD");
    let count = git(&[&["rev-list", "--count", &since, "--"], &SOURCES[..]].concat());
    let commits = count.ok().and_then(|count| count.parse().ok());
    Ok(Age { name, commit, commits, stamp })
}

/// No line of [`SOURCES`] is another one than in a commit, but for remarks: these make no other figure.
fn only_remarks_differ(commit: &str) -> bool {
    let diff = git(&[&["diff", "--unified=0", commit, "HEAD", "--"], &SOURCES[..]].concat());
    diff.is_ok_and(|diff| diff.lines().all(is_no_change))
}

/// True of a line of a diff without context that tells of no code.
fn is_no_change(line: &str) -> bool {
    let heads = ["diff ", "index ", "@@ ", "--- ", "+++ "];
    let text = line.strip_prefix(['+', '-']).map(str::trim_start);
    heads.iter().any(|head| line.starts_with(head))
        || text.is_some_and(|text| text.is_empty() || text.starts_with("//"))
}

/// The names of all figures that are there.
fn figures() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory())? {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if let Some(stem) = stem.filter(|_| path.extension().is_some_and(|e| e == "svg")) {
            names.push(stem.to_string());
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn directory() -> PathBuf {
    shell::workspace().join("figures")
}

fn place() -> PathBuf {
    directory().join("stamps.json")
}

fn read() -> Result<Stamps> {
    match std::fs::read_to_string(place()) {
        Ok(text) => serde_json::from_str(&text).with_context(|| format!("{}", place().display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Stamps::new()),
        Err(error) => Err(error.into()),
    }
}

fn processor() -> Result<String> {
    let text = std::fs::read_to_string(Path::new("/proc/cpuinfo"))?;
    let model = text.lines().find(|line| line.starts_with("model name"));
    match model.and_then(|line| line.split_once(": ")) {
        Some((_, name)) => Ok(name.trim().to_string()),
        None => bail!("/proc/cpuinfo names no processor"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_are_no_change() {
        let remarks = "diff --git a/a.rs b/a.rs\nindex 1..2 100644\n--- a/a.rs\n+++ b/a.rs\n\
                       @@ -1 +1 @@ fn a() {\n-    /// One.\n+    // Two.\n+";
        assert!(remarks.lines().all(is_no_change));
        assert!(!is_no_change("-    let a = 1; // One."));
        assert!(!is_no_change("rename from crates/core/src/a.rs"));
        assert!(!is_no_change("Binary files a/a and b/a differ"));
    }
}

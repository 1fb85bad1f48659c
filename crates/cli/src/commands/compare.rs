//! `prorata compare`: one workload under several policies, side by side.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{bail, ensure};
use prorata::policies::{self, BuildError, REGISTRY};
use prorata_sim::export::{Compared, comparison};
use prorata_sim::workload::Workload;
use rayon::prelude::*;
use serde_json::json;

use super::print;
use super::workload::Overrides;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The workload: TOML of our own (.toml), rt-app's JSON (.json), or a recording by perf sched.
    workload: PathBuf,
    /// The policies: names from `prorata policies`, with options as NAME:KEY=VALUE,… Every one has
    /// sleepers=corrected (the default), sleepers=turns and sleepers=paper.
    #[arg(long, value_name = "POLICY,…")]
    policies: Option<String>,
    #[command(flatten)]
    overrides: Overrides,
    /// What to print.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// Tables for people.
    Table,
    /// One JSON object, for programs.
    Json,
}

impl Args {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let specs = match &self.policies {
            Some(list) => split(list),
            None => REGISTRY.iter().map(|entry| entry.name.to_string()).collect(),
        };
        ensure!(!specs.is_empty(), "--policies names no policy: see 'prorata policies'");
        if let Some(spec) = named_twice(&specs) {
            bail!("--policies names {spec} twice: name each policy once");
        }
        let workload = self.overrides.load(&self.workload)?;
        let setup = workload.setup();
        for spec in &specs {
            match policies::build(spec, &setup) {
                // That one is shown as such beside the others.
                Ok(_) | Err(BuildError::OneCpuOnly(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let compared = simulate(&workload, specs);
        print(&match self.format {
            Format::Table => comparison(&compared),
            Format::Json => {
                let object = |(policy, outcome): &Compared| match outcome {
                    Ok(outcome) => json!({ "policy": policy, "outcome": outcome }),
                    Err(error) => json!({ "policy": policy, "error": error }),
                };
                let policies: Vec<_> = compared.iter().map(object).collect();
                let name = self.workload.display().to_string();
                json!({ "workload": name, "policies": policies }).to_string() + "\n"
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The policies in `list`. A comma may also stand between options: what has no name goes to the
/// policy before it.
fn split(list: &str) -> Vec<String> {
    let mut specs: Vec<String> = Vec::new();
    for piece in list.split(',').filter(|piece| !piece.is_empty()) {
        match specs.last_mut() {
            Some(last) if last.contains(':') && piece.contains('=') && !piece.contains(':') => {
                last.push(',');
                last.push_str(piece);
            }
            _ => specs.push(piece.to_string()),
        }
    }
    specs
}

fn named_twice(specs: &[String]) -> Option<&String> {
    specs.iter().enumerate().find(|&(at, spec)| specs[..at].contains(spec)).map(|(_, spec)| spec)
}

/// Every policy, as many at once as there are cpus; what comes out does not depend on that.
fn simulate(workload: &Workload, specs: Vec<String>) -> Vec<Compared> {
    let one =
        |spec: &str| prorata_sim::simulate(workload, spec).map_err(|failure| failure.to_string());
    specs.into_par_iter().map(|spec| (spec.clone(), one(&spec))).collect()
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn options_stay_with_their_policy() {
        assert_eq!(
            split("gr3,wfq:ties=a,x=2,gdq:delta=4"),
            ["gr3", "wfq:ties=a,x=2", "gdq:delta=4"]
        );
    }
}

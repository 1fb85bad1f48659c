//! `prorata compare`: one workload under several policies, side by side.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{bail, ensure};
use prorata::policies::{self, BuildError, REGISTRY};
use prorata_sim::export::{Compared, comparison, summary_table};
use prorata_sim::sweep::{MAX_RUNS, Sweep, execute_all};
use prorata_sim::workload::Workload;
use rayon::prelude::*;
use serde_json::json;

use super::print;
use super::progress::{Bar, cpus};
use super::sweep::{self, Outputs};
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
    /// Run each policy with so many seeds, from the workload's own on, and show means, their intervals
    /// and which policies differ.
    #[arg(long, value_name = "N")]
    seeds: Option<u32>,
    #[command(flatten)]
    outputs: Outputs,
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
            Some(list) => split(list)?,
            None => REGISTRY.iter().map(|entry| entry.name.to_string()).collect(),
        };
        if let Some(seeds) = self.seeds {
            let possible = (1..=MAX_RUNS).contains(&(seeds as usize));
            ensure!(possible, "--seeds {seeds} is not possible: give 1 to {MAX_RUNS}");
        }
        self.outputs.check()?;
        let workload = self.overrides.load(&self.workload)?;
        if let Some(seeds) = self.seeds {
            return self.over_seeds(workload, specs, seeds);
        }
        ensure!(
            !self.outputs.any(),
            "--output, --means and --differences are for runs over seeds: give --seeds N too"
        );
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

impl Args {
    /// A row a policy and seed, and what they say together.
    fn over_seeds(
        &self,
        workload: Workload,
        specs: Vec<String>,
        seeds: u32,
    ) -> anyhow::Result<ExitCode> {
        let name = self.workload.display().to_string();
        let seed = |number: u32| workload.seed.wrapping_add(number.into());
        let seeds = (0..seeds).map(seed).collect();
        let sweep = Sweep::of_workload(workload, specs, seeds)?;
        let bar = Bar::new(&name, "runs/s", 1.0);
        let rows = execute_all(&sweep, cpus(), None, &bar)?.rows;
        bar.clear();
        let summary = sweep.summarize(&rows);
        self.outputs.write(&sweep, &rows, &summary)?;
        print(&match self.format {
            Format::Table => summary_table(&sweep, &summary),
            Format::Json => sweep::object(&name, &sweep, &summary).to_string() + "\n",
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The policies in `list`, each once. A comma may also stand between options: what has no name goes to
/// the policy before it.
pub(super) fn split(list: &str) -> anyhow::Result<Vec<String>> {
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
    ensure!(!specs.is_empty(), "--policies names no policy: see 'prorata policies'");
    let twice = specs.iter().enumerate().find(|&(at, spec)| specs[..at].contains(spec));
    if let Some((_, spec)) = twice {
        bail!("--policies names {spec} twice: name each policy once");
    }
    Ok(specs)
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
            split("gr3,wfq:ties=a,x=2,gdq:delta=4").expect("three"),
            ["gr3", "wfq:ties=a,x=2", "gdq:delta=4"]
        );
    }
}

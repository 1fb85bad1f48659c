//! `prorata compare`: one workload under several policies, side by side.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use prorata::policies::{BuildError, REGISTRY};
use prorata_sim::export::{Compared, comparison, summary_table};
use prorata_sim::sweep::{MAX_RUNS, Sweep, execute_all};
use prorata_sim::workload::Workload;
use rayon::prelude::*;
use serde_json::json;

use super::progress::{Bar, cpus};
use super::sweep::{self, Outputs};
use super::workload::Overrides;
use super::{policy, print};

/// Run one workload under several policies in simulation and show them side by side.
///
/// The exit status is 1 if no policy has a result.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The workload: TOML of our own (.toml), rt-app's JSON (.json), or a recording by perf sched.
    ///
    /// A task that is given no weight in TOML has weight 1 and a cgroup 100; in the other formats a thread
    /// has that of its nice level, 1024 if none is told. crates/sim/README.md describes the formats.
    workload: PathBuf,
    /// The policies: names from `prorata policies`, with options as NAME:KEY=VALUE,…, among them sleepers
    /// (see `prorata simulate --help`). [default: all]
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
            Some(list) => named(list)?,
            None => REGISTRY.iter().map(|entry| entry.name.to_string()).collect(),
        };
        if let Some(seeds) = self.seeds {
            let possible = (1..=MAX_RUNS).contains(&(seeds as usize));
            ensure!(possible, "--seeds {seeds} is not possible: give 1 to {MAX_RUNS}");
        }
        ensure!(
            self.seeds.is_some() || !self.outputs.any(),
            "--output, --means and --differences are for runs over seeds: give --seeds N too"
        );
        self.outputs.check([self.workload.as_path()])?;
        let workload = self.overrides.load(&self.workload)?;
        if let Some(seeds) = self.seeds {
            return self.over_seeds(workload, specs, seeds);
        }
        let setup = workload.setup();
        for spec in &specs {
            match policy::build(spec, &setup) {
                Err(error) if !is_shown(&error) => return Err(error),
                _ => {}
            }
        }
        let (compared, elapsed): (Vec<Compared>, Vec<Duration>) =
            simulate(&workload, specs).into_iter().unzip();
        let paces =
            compared.iter().zip(elapsed).filter_map(|(compared, elapsed)| pace(compared, elapsed));
        paces.for_each(|pace| eprintln!("{pace}"));
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
        Ok(ExitCode::from(u8::from(compared.iter().all(|(_, outcome)| outcome.is_err()))))
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
        Ok(sweep::exit_code(&rows))
    }
}

/// A policy for one cpu is shown as such beside the others.
fn is_shown(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(BuildError::OneCpuOnly(_)))
}

/// The policies that `--policies` names, each once, with options that mean something.
pub(super) fn named(list: &str) -> anyhow::Result<Vec<String>> {
    let specs = split(list)?;
    let checked = specs.iter().try_for_each(|spec| policy::check(spec));
    checked.with_context(|| format!("--policies {list}"))?;
    Ok(specs)
}

/// The policies in `list`, each once. A comma may also stand between options: what has no name goes to
/// the policy before it.
fn split(list: &str) -> anyhow::Result<Vec<String>> {
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

/// Every policy and how long it took, as many at once as there are cpus; what comes out does not depend on
/// that.
fn simulate(workload: &Workload, specs: Vec<String>) -> Vec<(Compared, Duration)> {
    let one = |spec: String| {
        let begin = Instant::now();
        let outcome = prorata_sim::simulate(workload, &spec).map_err(|failure| failure.to_string());
        ((spec, outcome), begin.elapsed())
    };
    specs.into_par_iter().map(one).collect()
}

/// How fast a policy was simulated, for who had to wait.
fn pace((policy, outcome): &Compared, elapsed: Duration) -> Option<String> {
    let decisions = outcome.as_ref().ok()?.totals.decisions;
    let seconds = elapsed.as_secs_f64();
    #[allow(clippy::cast_precision_loss)] // for people
    let each_second = decisions as f64 / seconds;
    (seconds >= 1.0).then(|| {
        format!("{policy}: {decisions} decisions in {seconds:.1} s, {each_second:.0} a second")
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prorata_sim::workload::parse_toml;

    use super::{pace, simulate, split};

    #[test]
    fn a_pace_is_told_to_who_had_to_wait() {
        let workload = r#"duration = "1s"
            [[task]]
            count = 2"#;
        let workload = parse_toml(workload).expect("a workload");
        let compared = simulate(&workload, vec!["gr3".to_string(), "none".to_string()]);
        let tell = |at: usize, seconds| pace(&compared[at].0, Duration::from_secs(seconds));
        assert_eq!(tell(0, 10).expect("it was long"), "gr3: 100 decisions in 10.0 s, 10 a second");
        assert_eq!(tell(0, 0), None, "nobody waited");
        assert_eq!(tell(1, 10), None, "there is no such policy");
    }

    #[test]
    fn options_stay_with_their_policy() {
        assert_eq!(
            split("gr3,wfq:ties=a,x=2,gdq:delta=4").expect("three"),
            ["gr3", "wfq:ties=a,x=2", "gdq:delta=4"]
        );
    }
}

//! `prorata sweep`: a workload over a grid of its keys, policies and seeds.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use prorata_sim::export::{Columns, summary_table};
use prorata_sim::sweep::{Found, Row, Summary, Sweep, SweepError, execute_all};
use serde_json::{Map, Value, json};

use super::progress::{Bar, cpus};
use super::workload::{Form, write_file};
use super::{cannot_read, outputs, policy, print};

/// Run a workload over a grid of its keys, policies and seeds, with confidence intervals.
///
/// Without --output the runs go to a file with the sweep's name and .csv, in the current directory. A
/// sweep that is interrupted goes on from the journal that it left beside its first output. The exit status
/// is 1 if no run had a result.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The sweep: workload, policies, seeds, grid (see crates/sim/README.md).
    file: PathBuf,
    #[command(flatten)]
    outputs: Outputs,
    /// Number of threads; by default one a cpu. The results do not depend on it.
    #[arg(long)]
    jobs: Option<usize>,
    /// What to print.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// Where the tables of a sweep go.
#[derive(clap::Args)]
pub(super) struct Outputs {
    /// A file for the runs, one row each, .csv or .parquet; may be given several times.
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: Vec<PathBuf>,
    /// A file for the means and their intervals, .csv or .parquet.
    #[arg(long, value_name = "FILE")]
    means: Option<PathBuf>,
    /// A file for the differences between policies, .csv or .parquet.
    #[arg(long, value_name = "FILE")]
    differences: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Means, intervals and which policies differ, for people.
    Table,
    /// The same as one JSON object, for programs.
    Json,
    /// The runs, one line each.
    Csv,
}

impl Args {
    pub(crate) fn execute(mut self) -> anyhow::Result<ExitCode> {
        ensure!(self.jobs != Some(0), "--jobs 0 leaves nobody to compute: give 1 or more");
        let name = self.file.display().to_string();
        let sweep = Sweep::load(&self.file).map_err(|error| match error {
            SweepError::Read { path, source } if path == self.file => cannot_read(&path, source),
            SweepError::Read { path, source } => {
                cannot_read(&path, source).context(format!("{name}: workload"))
            }
            error => anyhow::Error::new(error).context(name.clone()),
        })?;
        for spec in sweep.policies() {
            policy::check(spec).with_context(|| format!("{name}: policies"))?;
        }
        let by_default = self.outputs.output.is_empty();
        if by_default {
            let stem = self.file.file_stem().unwrap_or_default();
            self.outputs.output.push(Path::new(stem).with_extension("csv"));
        }
        self.outputs.check([self.file.as_path()].into_iter().chain(sweep.workload_file()))?;
        let bar = Bar::new(&name, "runs/s", 1.0);
        let output = Some(self.outputs.output[0].as_path());
        let campaign = execute_all(&sweep, self.jobs.unwrap_or_else(cpus), output, &bar)?;
        bar.clear();
        match campaign.found_before {
            0 => eprintln!("{name}: {} runs", sweep.runs()),
            before => eprintln!("{name}: {} runs, {before} of them done before", sweep.runs()),
        }
        let summary = sweep.summarize(&campaign.rows);
        self.outputs.write(&sweep, &campaign.rows, &summary)?;
        if by_default {
            eprintln!("wrote {}", self.outputs.output[0].display());
        }
        print(&match self.format {
            Format::Table => summary_table(&sweep, &summary),
            Format::Json => object(&name, &sweep, &summary).to_string() + "\n",
            Format::Csv => {
                let mut text = Vec::new();
                sweep.table_of_runs(&campaign.rows).write_csv(&mut text)?;
                String::from_utf8(text)?
            }
        })?;
        let code = exit_code(&campaign.rows);
        campaign.finish()?;
        Ok(code)
    }
}

impl Outputs {
    /// True if there are some.
    pub(super) fn any(&self) -> bool {
        !self.output.is_empty() || self.means.is_some() || self.differences.is_some()
    }

    /// Whether all of them can be written beside the `inputs`, before anything is computed.
    pub(super) fn check<'p>(
        &'p self,
        inputs: impl IntoIterator<Item = &'p Path>,
    ) -> anyhow::Result<()> {
        let all = self.output.iter().chain(&self.means).chain(&self.differences);
        all.clone().try_for_each(|path| Form::of(path).map(drop))?;
        outputs::check(inputs, all.map(PathBuf::as_path))
    }

    pub(super) fn write(
        &self,
        sweep: &Sweep,
        rows: &[Row],
        summary: &Summary,
    ) -> anyhow::Result<()> {
        let runs = sweep.table_of_runs(rows);
        self.output.iter().try_for_each(|path| write_table(path, &runs))?;
        if let Some(path) = &self.means {
            write_table(path, &sweep.table_of_means(&summary.means))?;
        }
        if let Some(path) = &self.differences {
            write_table(path, &sweep.table_of_differences(&summary.differences))?;
        }
        Ok(())
    }
}

fn write_table(path: &Path, table: &Columns<'_>) -> anyhow::Result<()> {
    let form = Form::of(path)?;
    write_file(path, |file| form.write(table, file))
}

/// A failure where no run had a result: that some have none, as policies for one cpu on two, is a result.
pub(super) fn exit_code(rows: &[Row]) -> ExitCode {
    let found = rows.iter().any(|row| matches!(row.found, Found::Values(_)));
    ExitCode::from(u8::from(!found))
}

/// The summary and what its points are.
pub(super) fn object(name: &str, sweep: &Sweep, summary: &Summary) -> Value {
    let settings = |point: usize| -> Map<String, Value> {
        sweep.settings(point).iter().map(|(key, value)| (key.clone(), json!(value))).collect()
    };
    let points: Vec<_> = (0..sweep.points()).map(settings).collect();
    json!({
        "sweep": name,
        "runs": sweep.runs(),
        "seeds": sweep.seeds(),
        "points": points,
        "confidence": summary.confidence,
        "means": summary.means,
        "differences": summary.differences,
        "failures": summary.failures,
    })
}

//! `prorata figure`: the papers' figures, computed, drawn, and beside what the papers print.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use prorata_sim::figures::{self, Figure, REGISTRY, Report, Request, Row};

use super::compare::named;
use super::progress::{Bar, cpus};

/// Compute and draw the papers' figures, beside what the papers print.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Figures to compute: names from --list.
    #[arg(value_name = "FIGURE", required_unless_present_any = ["all", "list", "page"])]
    names: Vec<String>,
    /// List the figures.
    #[arg(long)]
    list: bool,
    /// Compute every figure that is not in the output directory yet with these sets and seed.
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Compute nothing: draw what is in the output directory and write its page anew.
    #[arg(long, conflicts_with_all = ["names", "all", "policies"])]
    page: bool,
    /// Other policies in the place of the figure's own: names from `prorata policies`, with options as
    /// NAME:KEY=VALUE,… Their files are called FIGURE-with-POLICIES.
    #[arg(long, value_name = "POLICY,…", conflicts_with = "all")]
    policies: Option<String>,
    /// Random sets at every point of a figure; by default as many as the paper ran. Figures
    /// without chance ignore it.
    #[arg(long)]
    sets: Option<u32>,
    /// Seed of the random sets.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of threads; by default one a cpu. The results do not depend on it.
    #[arg(long)]
    jobs: Option<usize>,
    /// Where CSV, JSON, pictures and index.html go, and what an interrupted run left.
    #[arg(long, value_name = "DIRECTORY", default_value = "prorata-figures")]
    output: PathBuf,
    /// What to print.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A table, for people.
    Table,
    /// One JSON object a figure, for programs.
    Json,
    /// The rows, with a header line.
    Csv,
}

impl Args {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        if self.list {
            super::print(&list())?;
            return Ok(ExitCode::SUCCESS);
        }
        ensure!(self.sets != Some(0), "--sets 0 leaves nothing to measure: give 1 or more");
        ensure!(self.jobs != Some(0), "--jobs 0 leaves nobody to compute: give 1 or more");
        let policies = match &self.policies {
            Some(list) => named(list)?,
            None => vec![],
        };
        for figure in self.chosen()? {
            let report = self.report(figure, &policies)?;
            super::print(&match self.format {
                Format::Table => table(figure, &report, &policies),
                Format::Json => figures::object(&report).to_string() + "\n",
                Format::Csv => figures::csv(&report.rows),
            })?;
        }
        // The page holds the papers' figures as they are.
        if policies.is_empty() {
            figures::write_page(&self.output)?;
            eprintln!("wrote {}", self.output.join("index.html").display());
        }
        Ok(ExitCode::SUCCESS)
    }

    fn chosen(&self) -> anyhow::Result<Vec<&'static Figure>> {
        if self.all {
            return Ok(REGISTRY.iter().collect());
        }
        if self.page {
            ensure!(self.output.is_dir(), "no such directory: {}", self.output.display());
        }
        let find = |name: &String| match figures::find(name) {
            Some(figure) => Ok(figure),
            None => bail!("no figure is called '{name}'; there are {}", names()),
        };
        self.names.iter().map(find).collect()
    }

    fn report(&self, figure: &'static Figure, policies: &[String]) -> anyhow::Result<Report> {
        let request = Request {
            figure,
            policies,
            sets: self.sets,
            seed: self.seed,
            jobs: self.jobs.unwrap_or_else(cpus),
            directory: &self.output,
        };
        if self.all
            && let Some(report) = figures::stored(&request)
        {
            eprintln!("{}: in {} already", figure.name, self.output.display());
            return Ok(report);
        }
        let bar = Bar::new(figure.name, "M decisions/s", 1e6);
        let report = figures::produce(&request, &bar).with_context(|| request.name())?;
        bar.clear();
        eprintln!("{}: {}", request.name(), pace(&report));
        if !policies.is_empty() {
            eprintln!("wrote {}", self.output.join(request.name() + ".svg").display());
        }
        Ok(report)
    }
}

fn names() -> String {
    REGISTRY.iter().map(|figure| figure.name).collect::<Vec<_>>().join(" ")
}

fn list() -> String {
    let widest = REGISTRY.iter().map(|figure| figure.name.len()).max().unwrap_or(0);
    REGISTRY.iter().fold(String::new(), |mut out, figure| {
        let _ = write!(out, "{:widest$}  {} [{}", figure.name, figure.title, figure.source);
        let sets = match figure.sets {
            1 => String::new(),
            sets => format!("; {sets} sets a point"),
        };
        let _ = writeln!(out, "{sets}]");
        out
    })
}

/// Time and speed, for people.
#[allow(clippy::cast_precision_loss)] // for people
fn pace(report: &Report) -> String {
    let Report { seconds, cpu_seconds, decisions, .. } = *report;
    if decisions == 0 {
        return format!("{seconds:.1} s");
    }
    let millions = |per: f64| decisions as f64 / per.max(1e-9) / 1e6;
    format!(
        "{decisions} decisions in {seconds:.1} s ({cpu_seconds:.1} s of cpu): {:.1} million \
         decisions/s, {:.1} million per cpu second",
        millions(seconds),
        millions(cpu_seconds)
    )
}

/// Rows that a table shows.
const TABLE_ROWS: usize = 60;

fn table(figure: &Figure, report: &Report, policies: &[String]) -> String {
    let mut out = String::new();
    let _ = match policies {
        [] => writeln!(out, "{}: {} [{}]", figure.name, figure.title, figure.source),
        other => {
            let other = other.join(", ");
            writeln!(
                out,
                "{} with {other}, without its own policies [{}]",
                figure.name, figure.source
            )
        }
    };
    let _ = match report.sets {
        1 => writeln!(out),
        sets => writeln!(out, "{sets} sets a point, seed {}\n", report.seed),
    };
    let lines: Vec<Vec<String>> = std::iter::once(header(&report.rows))
        .chain(report.rows.iter().take(TABLE_ROWS).map(cells))
        .collect();
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|c| c.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for line in &lines {
        let padded = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        let _ = writeln!(out, "{}", padded.collect::<Vec<_>>().join("  ").trim_end());
    }
    if let Some(more) = report.rows.len().checked_sub(TABLE_ROWS).filter(|&n| n > 0) {
        let _ = writeln!(out, "… and {more} more rows (--format csv prints them all)");
    }
    if policies.is_empty() {
        let _ = writeln!(out, "\n{}", figures::agreement(&report.rows));
        let _ = writeln!(out, "{}\n", figure.remarks);
    }
    out
}

fn header(rows: &[Row]) -> Vec<String> {
    let Some(row) = rows.first() else { return vec![] };
    let coordinates = row.coordinates.iter().map(|(name, _)| name.clone());
    coordinates.chain(row.measures.iter().map(|(name, _)| name.clone())).collect()
}

fn cells(row: &Row) -> Vec<String> {
    let coordinates = row.coordinates.iter().map(|(_, coordinate)| coordinate.to_string());
    let measures = row.measures.iter().map(|(_, value)| format!("{value:.3}"));
    let printed = row.printed.iter().map(|(name, value)| format!("printed {name} {value}"));
    coordinates.chain(measures).chain(printed).collect()
}

//! Questions of one's own: a workload over a grid of its keys, under several policies, with several
//! seeds. Every combination is a *run*, and gives one row of numbers.
//!
//! ```toml
//! workload = "sleeper.toml"        # beside this file; or [workload], and what such a file holds
//! policies = ["gr3", "mfq", "eevdf"]
//! seeds = 100                      # so many, from the workload's own on; or a list
//! groups = ["sleeper"]             # whose measures are kept as well
//! measures = ["error_max", "sleeper.jobs_missed_percent"]    # what is summed up
//! confidence = 0.95
//!
//! [grid]                           # every combination; the last key changes fastest
//! "task.hog.count" = [3, 9, 27]
//! "machine.quantum" = ["1ms", "5ms"]
//! ```
//!
//! The pieces, for callers that spread the runs themselves:
//!
//! * [`Sweep::load`] reads a file and the workload that it names; [`Sweep::text`] is all of it in one
//!   text, which [`Sweep::parse`] reads on another machine.
//! * Runs are numbered from 0 to [`Sweep::runs`]; [`Sweep::run`] says what a number stands for, and
//!   [`Sweep::execute`] gives its [`Row`]. A row depends on nothing but the sweep and the number.
//!   [`Run`] and [`Row`] are plain data that serde writes and reads. Runs of one workload and policy
//!   are neighbours: a chunk is a range of numbers.
//! * [`Sweep::gather`] puts rows into order, and says what is missing or there twice.
//! * [`Sweep::summarize`] makes means, intervals and differences of them. [`Sweep::table_of_runs`] is one
//!   tidy row a run, for CSV and Parquet: the same bytes wherever the runs were executed.
//! * [`execute_all`] does it on this machine, in parallel, with a journal from which an interrupted
//!   sweep goes on.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::journal::JournalError;
use crate::workload::Workload;

mod campaign;
mod file;
mod keys;
mod measures;
mod rows;
pub mod statistics;
mod summary;

pub use campaign::{Campaign, execute_all};
pub use measures::{Measure, Number};
pub use summary::{Difference, Failure, Mean, Summary};

/// Most runs of a sweep: their rows are kept in memory.
pub const MAX_RUNS: usize = 1_000_000;

/// Why there is no sweep, or no result of one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// A file.
    #[error("cannot read {path}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// What the file says cannot be done.
    #[error("{key}{}{message}", if key.is_empty() { "" } else { ": " })]
    Bad {
        /// The key, or nothing if it is the whole file.
        key: String,
        /// What is wrong there.
        message: String,
    },
    /// Rows that are not those of the sweep, one a run.
    #[error("{0}")]
    Rows(String),
    /// The number of threads.
    #[error("a sweep needs at least one thread: {0}")]
    Threads(String),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl SweepError {
    fn at(key: impl ToString, message: impl ToString) -> SweepError {
        SweepError::Bad {
            key: key.to_string(),
            message: message.to_string().trim_end().to_string(),
        }
    }
}

/// What a key of the workload was set to. All values of a key are of the same kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    /// A whole number.
    Integer(i64),
    /// Another number.
    Real(f64),
    /// Anything else, as TOML writes it; text without quotation marks.
    Text(String),
}

impl Setting {
    /// Settings of one key, all of the same kind: whole numbers, numbers, or else text.
    fn alike(values: &[toml::Value]) -> Vec<Setting> {
        let integer = |value: &toml::Value| value.as_integer().map(Setting::Integer);
        #[allow(clippy::cast_precision_loss)]
        let real = |value: &toml::Value| {
            let real =
                value.as_float().or_else(|| value.as_integer().map(|integer| integer as f64));
            real.map(Setting::Real)
        };
        let text = |value: &toml::Value| match value {
            toml::Value::String(text) => Setting::Text(text.clone()),
            other => Setting::Text(other.to_string()),
        };
        let integers: Option<Vec<Setting>> = values.iter().map(integer).collect();
        let reals = || values.iter().map(real).collect();
        integers.or_else(reals).unwrap_or_else(|| values.iter().map(text).collect())
    }
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Setting::Integer(integer) => integer.fmt(f),
            Setting::Real(real) => real.fmt(f),
            Setting::Text(text) => text.fmt(f),
        }
    }
}

/// A point of the grid.
#[derive(Clone, Debug)]
struct Point {
    settings: Vec<(String, Setting)>,
    workload: Workload,
}

/// What to run, checked. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Sweep {
    /// All of it, unless it was made of a workload in memory.
    text: Option<String>,
    /// Where the workload was read, if it has a file of its own.
    workload_file: Option<PathBuf>,
    points: Vec<Point>,
    policies: Vec<String>,
    seeds: Vec<u64>,
    /// The groups whose measures are kept.
    groups: Vec<String>,
    /// What rows hold.
    measures: Vec<Measure>,
    /// What is summed up.
    chosen: Vec<String>,
    confidence: f64,
}

/// One simulation of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its number.
    pub index: usize,
    /// The keys of the workload and what they are set to.
    pub settings: Vec<(String, Setting)>,
    /// The policy.
    pub policy: String,
    /// The seed.
    pub seed: u64,
}

/// What a run gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The number of the run.
    pub run: usize,
    /// What was found.
    #[serde(flatten)]
    pub found: Found,
}

/// Numbers, or why there are none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Found {
    /// One for each of [`Sweep::measures`]; nothing where there is nothing to measure.
    Values(Vec<Option<Number>>),
    /// The policy cannot run there.
    Error(String),
}

impl Sweep {
    /// The sweep and its workload as one text, for [`Sweep::parse`]; nothing if the sweep was made
    /// of a workload in memory.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// The file that the workload was read from, if [`Sweep::load`] read it from one of its own.
    #[must_use]
    pub fn workload_file(&self) -> Option<&Path> {
        self.workload_file.as_deref()
    }

    /// The number of runs.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.points.len() * self.policies.len() * self.seeds.len()
    }

    /// The numbers that rows hold.
    #[must_use]
    pub fn measures(&self) -> &[Measure] {
        &self.measures
    }

    /// The names of the measures that are summed up.
    #[must_use]
    pub fn chosen(&self) -> &[String] {
        &self.chosen
    }

    /// How sure intervals are.
    #[must_use]
    pub fn confidence(&self) -> f64 {
        self.confidence
    }

    /// The policies, in the order of the file.
    #[must_use]
    pub fn policies(&self) -> &[String] {
        &self.policies
    }

    /// The seeds.
    #[must_use]
    pub fn seeds(&self) -> &[u64] {
        &self.seeds
    }

    /// The number of points of the grid.
    #[must_use]
    pub fn points(&self) -> usize {
        self.points.len()
    }

    /// The keys of the workload and what they are set to at `point`.
    ///
    /// # Panics
    /// When there is no such point.
    #[must_use]
    pub fn settings(&self, point: usize) -> &[(String, Setting)] {
        &self.points[point].settings
    }

    /// Number `index` is this run.
    ///
    /// # Panics
    /// When there are not so many.
    #[must_use]
    pub fn run(&self, index: usize) -> Run {
        let (point, policy, seed) = self.place(index);
        Run {
            index,
            settings: self.points[point].settings.clone(),
            policy: self.policies[policy].clone(),
            seed: self.seeds[seed],
        }
    }

    /// Executes number `index`.
    ///
    /// # Panics
    /// When there are not so many.
    #[must_use]
    pub fn execute(&self, index: usize) -> Row {
        let (point, policy, seed) = self.place(index);
        let workload = Workload { seed: self.seeds[seed], ..self.points[point].workload.clone() };
        let found = match crate::simulate(&workload, &self.policies[policy]) {
            Ok(outcome) => Found::Values(measures::read(&outcome, &self.groups)),
            Err(error) => Found::Error(error.to_string()),
        };
        Row { run: index, found }
    }

    /// Rows in the order of their runs.
    ///
    /// # Errors
    /// When a row is missing, there twice, or not one of this sweep.
    pub fn gather(&self, rows: impl IntoIterator<Item = Row>) -> Result<Vec<Row>, SweepError> {
        let mut places: Vec<Option<Row>> = vec![None; self.runs()];
        for row in rows {
            let run = row.run;
            let Some(place) = places.get_mut(run) else {
                return Err(SweepError::Rows(format!("run {run} is none of the {}", self.runs())));
            };
            if matches!(&row.found, Found::Values(values) if values.len() != self.measures.len()) {
                return Err(SweepError::Rows(format!(
                    "run {run} has other measures than the sweep"
                )));
            }
            if place.replace(row).is_some() {
                return Err(SweepError::Rows(format!("run {run} is there twice")));
            }
        }
        let missing = |(run, row): (usize, Option<Row>)| {
            row.ok_or_else(|| SweepError::Rows(format!("run {run} is missing")))
        };
        places.into_iter().enumerate().map(missing).collect()
    }

    /// Means over seeds and differences between policies, of rows that were gathered.
    #[must_use]
    pub fn summarize(&self, rows: &[Row]) -> Summary {
        summary::summarize(self, rows)
    }

    /// Which point, policy and seed run number `index` has.
    fn place(&self, index: usize) -> (usize, usize, usize) {
        assert!(index < self.runs(), "there are {} runs, no run {index}", self.runs());
        let (rest, seed) = (index / self.seeds.len(), index % self.seeds.len());
        (rest / self.policies.len(), rest % self.policies.len(), seed)
    }

    /// The number of the first run at `point` under policy number `policy`; the other seeds follow.
    fn first(&self, point: usize, policy: usize) -> usize {
        (point * self.policies.len() + policy) * self.seeds.len()
    }
}

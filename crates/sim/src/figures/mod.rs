//! The papers' figures, and the registry that names them. A file for each paper lists its figures (`gr3`,
//! `vtrr`, `gdq`, `dfs`; `gdq_2` and `dfs_8` list one each); the studies behind them, which several may
//! share, are files of their own.
//!
//! A figure is a [`Study`]: points of a grid, an experiment with one random set at one point, and
//! how the results of many sets merge. [`sweep`] runs it: in parallel, resumable, with the same
//! bytes whatever the number of threads, but for the figures of what scheduling costs ([`cost`]),
//! which depend on the machine. [`files`] writes the results as CSV, JSON and a picture,
//! and [`page`] puts all pictures of a directory on one HTML page.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::journal::JournalError;
use crate::plot::Picture;
use prorata::policies::BuildError;

mod agreement;
mod average;
mod by_finish;
mod contenders;
mod cost;
mod cycle;
mod encoders;
mod files;
mod idle;
mod page;
mod searches;
mod sets;
mod skewed;
mod sweep;
mod ticks;
mod timeline;
mod web_servers;
mod who_runs;

mod dfs;
mod dfs_8;
mod gdq;
mod gdq_2;
mod gdq_example;
mod gr3;
mod vtrr;

pub use agreement::agreement;
pub use files::{csv, object, stored};
pub use page::write_page;
pub use sweep::{Part, Plan, Request, produce};

/// Every figure, in the order in which they are listed to users.
#[rustfmt::skip] // one line each
pub const REGISTRY: &[Figure] = &[
    gr3::FIGURE_4,
    gr3::FIGURE_5,
    gr3::FIGURE_6,
    gr3::FIGURE_7,
    gr3::FIGURE_8,
    gr3::FIGURE_9,
    gr3::FIGURE_10,
    gr3::FIGURE_11,
    gr3::SKEW_50,
    gr3::FIGURE_12,
    gr3::FIGURE_13,
    gr3::FIGURE_14,
    gr3::FIGURE_15,
    gr3::FIGURE_16,
    gr3::FIGURE_17,
    gr3::FIGURE_18,
    gr3::FIGURE_19,
    vtrr::FIGURE_1,
    vtrr::FIGURE_2,
    vtrr::FIGURE_3,
    vtrr::FIGURE_4,
    vtrr::FIGURE_5,
    vtrr::FIGURE_6,
    vtrr::FIGURE_7,
    vtrr::FIGURE_8,
    vtrr::FIGURE_9,
    gdq_2::FIGURE,
    gdq::FIGURE_3,
    gdq::FIGURE_4,
    gdq::FIGURE_5,
    dfs::FIGURE_3,
    dfs::FIGURE_4,
    dfs::FIGURE_5,
    dfs_8::FIGURE,
    dfs::FA,
];

/// The figure called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Figure> {
    REGISTRY.iter().find(|figure| figure.name == name)
}

/// What the registry knows of a figure.
#[derive(Clone, Copy)]
pub struct Figure {
    /// The name that users type.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Where it is printed.
    pub source: &'static str,
    /// How many random sets the paper ran at every point; 1 if there is no chance in the figure.
    pub sets: u32,
    /// How the set-up was read, how the result agrees with the paper's, and why not.
    pub remarks: &'static str,
    study: fn() -> Box<dyn Study>,
}

/// An experiment at each point of a grid.
trait Study: Send + Sync {
    /// Number of points.
    fn points(&self) -> usize;

    /// About how many decisions one set at `point` takes, at least 1.
    fn cost(&self, point: usize) -> u64;

    /// The experiment with set number `set` at `point`. The same arguments give the same result,
    /// unless the figure is a measurement of time ([`cost`]).
    fn measure(&self, point: usize, set: u32, seed: u64) -> Tally;

    /// Merges the values of another set at the same point into `values`; in any order, always with
    /// the same result.
    fn merge(&self, values: &mut [i64], other: &[i64]);

    /// The figure's rows from one tally a point, each merged from `sets` sets.
    fn rows(&self, tallies: &[Tally], sets: u32) -> Vec<Row>;

    /// Whether it measures time, so that a set is a round of measurements.
    fn is_measurement(&self) -> bool {
        false
    }

    /// The picture.
    fn draw(&self, title: &str, rows: &[Row]) -> Picture;

    /// The same with other policies, without what the paper prints.
    fn with(&self, _policies: &[String]) -> Result<Box<dyn Study>, Unfit> {
        Err(Unfit::NoComparison)
    }
}

/// Why a figure has no place for policies that a user named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It is about what one policy does inside, or about its options.
    #[error("it compares no policies: see 'prorata figure --list'")]
    NoComparison,
    /// It shows one.
    #[error("it shows one policy: name one")]
    OneOnly,
    /// It would idle, which has no place in the figure either.
    #[error("{0} leaves cpus idle beside waiting tasks, which the figure has no place for")]
    Idles(String),
    /// There is no such policy, or not for so many cpus.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// What an experiment found, in integers, so that merging loses nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tally {
    decisions: u64,
    values: Vec<i64>,
}

/// A coordinate: a number, or a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Coordinate {
    /// A number.
    Number(i64),
    /// A name.
    Name(String),
}

impl std::fmt::Display for Coordinate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Coordinate::Number(number) => f.pad(&number.to_string()),
            Coordinate::Name(name) => f.pad(name),
        }
    }
}

impl Coordinate {
    /// As a number; 0 for a name.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // coordinates are small
    pub fn number(&self) -> f64 {
        match self {
            Coordinate::Number(number) => *number as f64,
            Coordinate::Name(_) => 0.0,
        }
    }
}

impl From<u32> for Coordinate {
    fn from(number: u32) -> Coordinate {
        Coordinate::Number(i64::from(number))
    }
}

impl From<&str> for Coordinate {
    fn from(name: &str) -> Coordinate {
        Coordinate::Name(name.to_string())
    }
}

/// One row of a figure's data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Where in the figure, column by column.
    pub coordinates: Vec<(String, Coordinate)>,
    /// What was measured there, column by column.
    pub measures: Vec<(String, f64)>,
    /// What the paper prints for some of the measures. A value that the paper prints for a whole
    /// figure (the worst error of all points, say) stands in the row that has to match it.
    pub printed: Vec<(String, f64)>,
}

impl Row {
    fn at(mut self, name: &str, coordinate: impl Into<Coordinate>) -> Row {
        self.coordinates.push((name.to_string(), coordinate.into()));
        self
    }

    /// Rounded to 10^−6: what is kept in files.
    fn with(mut self, name: &str, value: f64) -> Row {
        self.measures.push((name.to_string(), (value * 1e6).round() / 1e6));
        self
    }

    fn print(&mut self, name: &str, value: f64) {
        self.printed.push((name.to_string(), value));
    }

    /// What the paper prints for the measure `name`, if it does.
    fn printed(&self, name: &str) -> Option<f64> {
        self.printed.iter().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    /// The measure called `name`.
    ///
    /// # Panics
    /// When the row has none of that name.
    #[must_use]
    pub fn value(&self, name: &str) -> f64 {
        self.measured(name).unwrap_or_else(|| panic!("no measure is called {name}"))
    }

    /// The measure called `name`, if there is one: files of before may lack it.
    fn measured(&self, name: &str) -> Option<f64> {
        self.measures.iter().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    /// The coordinate called `name`.
    ///
    /// # Panics
    /// When the row has none of that name.
    #[must_use]
    pub fn place(&self, name: &str) -> &Coordinate {
        let found = self.coordinates.iter().find(|(key, _)| key == name);
        &found.unwrap_or_else(|| panic!("no coordinate is called {name}")).1
    }
}

/// A figure's data, and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Name of the figure.
    pub figure: String,
    /// Random sets at every point.
    pub sets: u32,
    /// Seed of the random sets.
    pub seed: u64,
    /// Elapsed time, of all runs if it was interrupted.
    pub seconds: f64,
    /// Processor time of all threads, of all runs if it was interrupted.
    pub cpu_seconds: f64,
    /// Scheduling decisions that policies took.
    pub decisions: u64,
    /// The data.
    pub rows: Vec<Row>,
}

/// Why a figure could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FigureError {
    /// A file or directory.
    #[error("cannot {verb} {path}")]
    File {
        /// What was tried.
        verb: &'static str,
        /// With what.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The policies.
    #[error("{figure} with {policies}")]
    Policies {
        /// Name of the figure.
        figure: &'static str,
        /// The policies.
        policies: String,
        /// Why not.
        source: Unfit,
    },
    /// The journal of what is done.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The number of sets.
    #[error("a figure needs 1 to {limit} random sets, not {0}", limit = sets::LIMIT)]
    Sets(u32),
    /// Chunks that are not those of the figure, each once.
    #[error("{0}")]
    Parts(String),
    /// The number of threads.
    #[error("a figure needs at least one thread: give --jobs 1 or more")]
    Jobs,
    /// The picture.
    #[error("cannot draw {figure}: {reason}")]
    Drawing {
        /// Name of the figure.
        figure: &'static str,
        /// What the drawing library says.
        reason: String,
    },
}

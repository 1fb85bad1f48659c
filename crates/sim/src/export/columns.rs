//! Tables in columns, as CSV and Parquet hold them, and the one with a row a task.

use crate::outcome::{Outcome, Percentiles, ResponseTimes, TaskOutcome};
use crate::workload::Arrivals;

/// One value of a row. All rows have the same variant in a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'t> {
    /// A name.
    Text(&'t str),
    /// A count, or nanoseconds.
    Count(u64),
    /// A count that may not be known.
    MaybeCount(Option<u64>),
    /// A number.
    Real(f64),
    /// A number that may not be known.
    MaybeReal(Option<f64>),
    /// A number that may be below 0.
    Integer(i64),
}

/// A table: columns with names, each a function of the row.
pub struct Columns<'t> {
    /// What a row is.
    pub row: &'static str,
    /// How many rows there are.
    pub rows: usize,
    /// In the order of a file's.
    pub columns: Vec<Column<'t>>,
}

/// A column of a table.
pub struct Column<'t> {
    /// Its name; units end it.
    pub name: String,
    /// Its value in a row, by index.
    pub cell: Box<dyn Fn(usize) -> Cell<'t> + 't>,
}

impl<'t> Columns<'t> {
    pub(crate) fn new(row: &'static str, rows: usize) -> Columns<'t> {
        Columns { row, rows, columns: Vec::new() }
    }

    pub(crate) fn push(&mut self, name: impl Into<String>, cell: impl Fn(usize) -> Cell<'t> + 't) {
        self.columns.push(Column { name: name.into(), cell: Box::new(cell) });
    }
}

/// A row a task of `outcome`.
#[must_use]
pub fn tasks(outcome: &Outcome) -> Columns<'_> {
    let mut columns = Columns::new("task", outcome.tasks.len());
    for &(name, cell) in &TASK {
        columns.push(name, move |row| cell(outcome, &outcome.tasks[row]));
    }
    columns
}

type TaskCell = for<'o> fn(&'o Outcome, &'o TaskOutcome) -> Cell<'o>;

const TASK: [(&str, TaskCell); 32] = [
    ("task", |_, task| Cell::Text(&task.name)),
    ("group", |outcome, task| Cell::Text(&outcome.groups[task.group as usize].name)),
    ("weight", |outcome, task| Cell::Count(outcome.groups[task.group as usize].weight.into())),
    ("service_ns", |_, task| Cell::Count(task.service.service_ns)),
    ("ideal_ns", |_, task| Cell::Count(task.service.ideal_ns)),
    ("share", |_, task| Cell::Real(task.service.share)),
    ("ideal_share", |_, task| Cell::Real(task.service.ideal_share)),
    ("error_min", |_, task| Cell::Real(task.errors.error_min)),
    ("error_max", |_, task| Cell::Real(task.errors.error_max)),
    ("wait_ns", |_, task| Cell::Count(task.wait_ns)),
    ("switches", |_, task| Cell::Count(task.switches)),
    ("migrations", |_, task| Cell::Count(task.migrations.into())),
    ("wakeups", |_, task| Cell::Count(task.wakeups.into())),
    ("wait_p50_ns", |_, task| wait(task, |waits| waits.wait_p50_ns)),
    ("wait_p99_ns", |_, task| wait(task, |waits| waits.wait_p99_ns)),
    ("wait_max_ns", |_, task| wait(task, |waits| waits.wait_max_ns)),
    ("wakeup_p50_ns", |_, task| wait(task, |waits| waits.wakeup_p50_ns)),
    ("wakeup_p99_ns", |_, task| wait(task, |waits| waits.wakeup_p99_ns)),
    ("wakeup_max_ns", |_, task| wait(task, |waits| waits.wakeup_max_ns)),
    ("arrivals", |outcome, task| {
        Cell::Text(match outcome.groups[task.group as usize].arrivals {
            Arrivals::Solo => "solo",
            Arrivals::Observed => "observed",
        })
    }),
    ("jobs_asked", |_, task| Cell::Count(task.jobs.jobs_asked)),
    ("jobs_done", |_, task| Cell::Count(task.jobs.jobs_done)),
    ("jobs_missed", |_, task| Cell::Count(task.jobs.jobs_missed)),
    ("ideal_jobs_done", |_, task| Cell::Count(task.jobs.ideal_jobs_done)),
    ("ideal_jobs_missed", |_, task| Cell::Count(task.jobs.ideal_jobs_missed)),
    ("response_p50_ns", |_, task| response(task, |of| of.response_p50_ns)),
    ("response_p99_ns", |_, task| response(task, |of| of.response_p99_ns)),
    ("response_max_ns", |_, task| response(task, |of| of.response_max_ns)),
    ("ideal_response_p50_ns", |_, task| response(task, |of| of.ideal_response_p50_ns)),
    ("ideal_response_p99_ns", |_, task| response(task, |of| of.ideal_response_p99_ns)),
    ("ideal_response_max_ns", |_, task| response(task, |of| of.ideal_response_max_ns)),
    ("duration_ns", |outcome, _| Cell::Count(outcome.duration_ns)),
];

fn wait(task: &TaskOutcome, of: fn(&Percentiles) -> u64) -> Cell<'_> {
    Cell::MaybeCount(task.waits.as_ref().map(of))
}

fn response(task: &TaskOutcome, of: fn(&ResponseTimes) -> u64) -> Cell<'_> {
    Cell::MaybeCount(task.responses.as_ref().map(of))
}

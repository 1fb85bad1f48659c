//! The columns of the tables with one row a task.

use crate::outcome::{Outcome, Percentiles, ResponseTimes, TaskOutcome};
use crate::workload::Arrivals;

/// One value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cell<'o> {
    Text(&'o str),
    Count(u64),
    /// A count that may not be known.
    Maybe(Option<u64>),
    Real(f64),
}

/// The columns' names and the rows' values, in the same order.
pub(super) const NAMES: [&str; 32] = [
    "task",
    "group",
    "weight",
    "service_ns",
    "ideal_ns",
    "share",
    "ideal_share",
    "error_min",
    "error_max",
    "wait_ns",
    "switches",
    "migrations",
    "wakeups",
    "wait_p50_ns",
    "wait_p99_ns",
    "wait_max_ns",
    "wakeup_p50_ns",
    "wakeup_p99_ns",
    "wakeup_max_ns",
    "arrivals",
    "jobs_asked",
    "jobs_done",
    "jobs_missed",
    "ideal_jobs_done",
    "ideal_jobs_missed",
    "response_p50_ns",
    "response_p99_ns",
    "response_max_ns",
    "ideal_response_p50_ns",
    "ideal_response_p99_ns",
    "ideal_response_max_ns",
    "duration_ns",
];

/// The values of `task`.
pub(super) fn cells<'o>(outcome: &'o Outcome, task: &'o TaskOutcome) -> [Cell<'o>; 32] {
    let group = &outcome.groups[task.group as usize];
    let wait = |of: fn(&Percentiles) -> u64| Cell::Maybe(task.waits.as_ref().map(of));
    let response = |of: fn(&ResponseTimes) -> u64| Cell::Maybe(task.responses.as_ref().map(of));
    [
        Cell::Text(&task.name),
        Cell::Text(&group.name),
        Cell::Count(group.weight.into()),
        Cell::Count(task.service.service_ns),
        Cell::Count(task.service.ideal_ns),
        Cell::Real(task.service.share),
        Cell::Real(task.service.ideal_share),
        Cell::Real(task.errors.error_min),
        Cell::Real(task.errors.error_max),
        Cell::Count(task.wait_ns),
        Cell::Count(task.switches),
        Cell::Count(task.migrations.into()),
        Cell::Count(task.wakeups.into()),
        wait(|waits| waits.wait_p50_ns),
        wait(|waits| waits.wait_p99_ns),
        wait(|waits| waits.wait_max_ns),
        wait(|waits| waits.wakeup_p50_ns),
        wait(|waits| waits.wakeup_p99_ns),
        wait(|waits| waits.wakeup_max_ns),
        Cell::Text(match group.arrivals {
            Arrivals::Solo => "solo",
            Arrivals::Observed => "observed",
        }),
        Cell::Count(task.jobs.jobs_asked),
        Cell::Count(task.jobs.jobs_done),
        Cell::Count(task.jobs.jobs_missed),
        Cell::Count(task.jobs.ideal_jobs_done),
        Cell::Count(task.jobs.ideal_jobs_missed),
        response(|of| of.response_p50_ns),
        response(|of| of.response_p99_ns),
        response(|of| of.response_max_ns),
        response(|of| of.ideal_response_p50_ns),
        response(|of| of.ideal_response_p99_ns),
        response(|of| of.ideal_response_max_ns),
        Cell::Count(outcome.duration_ns),
    ]
}

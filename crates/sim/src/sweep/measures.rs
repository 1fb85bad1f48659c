//! What is kept of a run: one number a measure, of the whole machine and of chosen groups.

use serde::{Deserialize, Serialize};

use crate::outcome::{Errors, GroupOutcome, Jobs, Outcome, Percentiles};

/// A measured number. Counts and lengths of time are whole.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Number {
    /// A count, or nanoseconds.
    Count(u64),
    /// Quanta, cpus or percent.
    Real(f64),
}

impl Number {
    /// For statistics.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // counts are far below 2^53
    pub fn real(self) -> f64 {
        match self {
            Number::Count(count) => count as f64,
            Number::Real(real) => real,
        }
    }
}

/// How to read a measure from a `T`.
enum Of<T> {
    Count(fn(&T) -> u64),
    Real(fn(&T) -> f64),
    /// There may be none.
    Maybe(fn(&T) -> Option<f64>),
}

impl<T> Of<T> {
    fn read(&self, from: &T) -> Option<Number> {
        match self {
            Of::Count(of) => Some(Number::Count(of(from))),
            Of::Real(of) => Some(Number::Real(of(from))),
            Of::Maybe(of) => of(from).map(Number::Real),
        }
    }

    fn is_count(&self) -> bool {
        matches!(self, Of::Count(_))
    }
}

/// What the outcomes of a machine and of a group have in common.
struct Common {
    errors: Errors,
    waits: Percentiles,
    jobs: Jobs,
}

#[rustfmt::skip] // one line each
const MACHINE: [(&str, Of<Outcome>); 8] = [
    ("duration_ns", Of::Count(|outcome| outcome.duration_ns)),
    ("decisions", Of::Count(|outcome| outcome.totals.decisions)),
    ("switches", Of::Count(|outcome| outcome.totals.switches)),
    ("migrations", Of::Count(|outcome| outcome.totals.migrations)),
    ("overhead_ns", Of::Count(|outcome| outcome.totals.overhead_ns)),
    ("idle_ns", Of::Count(|outcome| outcome.totals.idle_ns)),
    ("idle_while_waiting_ns", Of::Count(|outcome| outcome.totals.idle_while_waiting_ns)),
    ("least_percent", Of::Real(Outcome::least_percent)),
];

#[rustfmt::skip] // one line each
const GROUP: [(&str, Of<GroupOutcome>); 5] = [
    ("service_ns", Of::Count(|group| group.service.service_ns)),
    ("ideal_ns", Of::Count(|group| group.service.ideal_ns)),
    ("share", Of::Real(|group| group.service.share)),
    ("ideal_share", Of::Real(|group| group.service.ideal_share)),
    ("of_ideal_percent", Of::Maybe(GroupOutcome::of_ideal_percent)),
];

#[rustfmt::skip] // one line each
const COMMON: [(&str, Of<Common>); 20] = [
    ("error_min", Of::Real(|of| of.errors.error_min)),
    ("error_max", Of::Real(|of| of.errors.error_max)),
    ("wait_p50_ns", Of::Count(|of| of.waits.wait_p50_ns)),
    ("wait_p99_ns", Of::Count(|of| of.waits.wait_p99_ns)),
    ("wait_max_ns", Of::Count(|of| of.waits.wait_max_ns)),
    ("wakeup_p50_ns", Of::Count(|of| of.waits.wakeup_p50_ns)),
    ("wakeup_p99_ns", Of::Count(|of| of.waits.wakeup_p99_ns)),
    ("wakeup_max_ns", Of::Count(|of| of.waits.wakeup_max_ns)),
    ("jobs_asked", Of::Count(|of| of.jobs.counts.jobs_asked)),
    ("jobs_done", Of::Count(|of| of.jobs.counts.jobs_done)),
    ("jobs_missed", Of::Count(|of| of.jobs.counts.jobs_missed)),
    ("jobs_missed_percent", Of::Maybe(|of| of.jobs.counts.missed_percent())),
    ("ideal_jobs_done", Of::Count(|of| of.jobs.counts.ideal_jobs_done)),
    ("ideal_jobs_missed", Of::Count(|of| of.jobs.counts.ideal_jobs_missed)),
    ("response_p50_ns", Of::Count(|of| of.jobs.responses.response_p50_ns)),
    ("response_p99_ns", Of::Count(|of| of.jobs.responses.response_p99_ns)),
    ("response_max_ns", Of::Count(|of| of.jobs.responses.response_max_ns)),
    ("ideal_response_p50_ns", Of::Count(|of| of.jobs.responses.ideal_response_p50_ns)),
    ("ideal_response_p99_ns", Of::Count(|of| of.jobs.responses.ideal_response_p99_ns)),
    ("ideal_response_max_ns", Of::Count(|of| of.jobs.responses.ideal_response_max_ns)),
];

/// A column of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Its name: `error_max` of the machine, `NAME.error_max` of a group. Units end it.
    pub name: String,
    /// True if it is a whole number.
    pub is_count: bool,
}

/// The measures of the machine, then those of each of `groups`.
pub(super) fn measures(groups: &[String]) -> Vec<Measure> {
    let common = || COMMON.iter().map(|(name, of)| (*name, of.is_count()));
    let machine = MACHINE.iter().map(|(name, of)| (*name, of.is_count())).chain(common());
    let machine = machine.map(|(name, is_count)| Measure { name: name.to_string(), is_count });
    let group = |group: &String| {
        let own = GROUP.iter().map(|(name, of)| (*name, of.is_count())).chain(common());
        let named =
            own.map(|(name, is_count)| Measure { name: format!("{group}.{name}"), is_count });
        named.collect::<Vec<_>>()
    };
    machine.chain(groups.iter().flat_map(group)).collect()
}

/// Their values in `outcome`, in the same order.
pub(super) fn read(outcome: &Outcome, groups: &[String]) -> Vec<Option<Number>> {
    let mut values: Vec<Option<Number>> = MACHINE.iter().map(|(_, of)| of.read(outcome)).collect();
    let &Outcome { errors, waits, jobs, .. } = outcome;
    values.extend(common(&Common { errors, waits, jobs }));
    for name in groups {
        let Some(group) = outcome.groups.iter().find(|group| group.name == *name) else {
            values.extend([None; GROUP.len() + COMMON.len()]);
            continue;
        };
        let &GroupOutcome { errors, waits, jobs, .. } = group;
        values.extend(GROUP.iter().map(|(_, of)| of.read(group)));
        values.extend(common(&Common { errors, waits, jobs }));
    }
    values
}

fn common(of: &Common) -> impl Iterator<Item = Option<Number>> {
    COMMON.iter().map(|(_, measure)| measure.read(of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_belong_together() {
        let outcome = crate::outcome::tests::outcome();
        let groups = ["nap".to_string()];
        let (names, values) = (measures(&groups), read(&outcome, &groups));
        assert_eq!(names.len(), values.len());
        let value = |name: &str| {
            let at = names.iter().position(|measure| measure.name == name).expect(name);
            assert_eq!(names[at].is_count, matches!(values[at], Some(Number::Count(_))), "{name}");
            values[at].expect(name)
        };
        assert_eq!(value("switches"), Number::Count(outcome.totals.switches));
        assert_eq!(value("error_min"), Number::Real(outcome.errors.error_min));
        assert_eq!(value("nap.share"), Number::Real(outcome.groups[1].service.share));
        let p99 = outcome.groups[1].jobs.responses.response_p99_ns;
        assert_eq!(value("nap.response_p99_ns"), Number::Count(p99));
    }
}

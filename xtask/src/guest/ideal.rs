//! Received service against the ideal, from the record of switches.

use std::collections::{HashMap, HashSet};

use prorata::Weight;
use prorata::weights;

use super::trace::Switch;

/// Who runs where nobody does.
const IDLE: u32 = 0;

/// What a mix of hogs received.
pub(crate) struct Service {
    /// Share received of the time that all hogs received, in the order of the weights.
    pub(crate) shares: Vec<f64>,
    /// Share by weight, with infeasible weights readjusted.
    pub(crate) ideal: Vec<f64>,
    /// The furthest that a hog was behind its ideal service at any time, in ms.
    pub(crate) largest_lag_ms: f64,
    /// What all hogs received together, in ms.
    pub(crate) total_ms: f64,
    /// For how long cpus idled, in ms.
    pub(crate) idle_ms: f64,
    /// Groups of hogs whose feasible weights are of one order, as GR3 has them.
    groups: usize,
}

impl Service {
    /// The largest |received − ideal| / ideal.
    pub(crate) fn worst_relative_error(&self) -> f64 {
        let errors = self.shares.iter().zip(&self.ideal).map(|(got, due)| (got / due - 1.0).abs());
        errors.fold(0.0, f64::max)
    }

    /// The part of the lightest hog's entitled service that `ms` are: shares cannot be told better
    /// than by a quantum.
    pub(crate) fn part_of_least(&self, ms: f64) -> f64 {
        ms / (self.ideal.iter().copied().fold(1.0, f64::min) * self.total_ms)
    }

    /// How far a hog may be behind its ideal under GR3, on any number of cpus, in quanta: the lower
    /// bound of theorems 1 and 2, for the hog of the largest share.
    pub(crate) fn bound_of_gr3(&self) -> f64 {
        let largest = self.ideal.iter().copied().fold(0.0, f64::max);
        let groups = self.groups as f64;
        4.0 + (groups - 1.0) * (groups - 2.0).max(0.0) / 2.0 * largest
    }
}

/// The service of `hogs` (pid and weight), which are all runnable from `from_us` on. The ideal of a
/// hog is its share of what all hogs together received until then, so that what else runs on the
/// machine takes from all alike.
pub(crate) fn measure(
    switches: &[Switch],
    hogs: &[(u32, u32)],
    cpus: usize,
    from_us: u64,
) -> Service {
    let (ideal, groups) = shares_by_weight(hogs, cpus);
    let index: HashMap<u32, usize> = hogs.iter().map(|hog| hog.0).zip(0..).collect();
    let mut meter = Meter { received: vec![0.0; hogs.len()], since: HashMap::new() };
    let mut largest_lag = 0.0f64;
    let mut idle_us = 0;
    let mut idle_since = HashMap::new();
    for switch in switches {
        if let Some(since_us) = idle_since.remove(&switch.cpu) {
            idle_us += switch.at_us.saturating_sub(from_us.max(since_us));
        }
        if switch.to == IDLE {
            idle_since.insert(switch.cpu, switch.at_us);
        }
        // Nothing is received before the start: `since` is never before it.
        meter.advance(switch.at_us);
        if let Some(&hog) = index.get(&switch.to) {
            // A hog is furthest behind just before it runs.
            let total: f64 = meter.received.iter().sum();
            largest_lag = largest_lag.max(total * ideal[hog] - meter.received[hog]);
        }
        meter.since.remove(&switch.cpu);
        if let Some(&hog) = index.get(&switch.to) {
            meter.since.insert(switch.cpu, (hog, switch.at_us.max(from_us)));
        }
    }
    let total: f64 = meter.received.iter().sum();
    let behind_at_end = ideal.iter().zip(&meter.received).map(|(due, got)| total * due - got);
    largest_lag = behind_at_end.fold(largest_lag, f64::max);
    let shares = meter.received.iter().map(|got| got / total).collect();
    let (largest_lag_ms, total_ms) = (largest_lag / 1000.0, total / 1000.0);
    let idle_ms = idle_us as f64 / 1000.0;
    Service { shares, ideal, largest_lag_ms, total_ms, idle_ms, groups }
}

/// Received time in µs, brought up to date at every switch.
struct Meter {
    received: Vec<f64>,
    /// The hog on each cpu, and since when it is not accounted for.
    since: HashMap<usize, (usize, u64)>,
}

impl Meter {
    fn advance(&mut self, now_us: u64) {
        for (hog, since_us) in self.since.values_mut() {
            self.received[*hog] += now_us.saturating_sub(*since_us) as f64;
            *since_us = now_us.max(*since_us);
        }
    }
}

/// The hogs' shares, and the number of their groups.
fn shares_by_weight(hogs: &[(u32, u32)], cpus: usize) -> (Vec<f64>, usize) {
    let weight = |&(_, weight): &(u32, u32)| Weight::new(weight).expect("a weight is above 0");
    let mut sorted: Vec<Weight> = hogs.iter().map(weight).collect();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let cap = weights::sorted(&sorted, cpus);
    // Times a common denominator, which is what a weight of 1 counts for.
    let one = cap.effective(Weight::ONE);
    let effective: Vec<f64> = hogs.iter().map(|hog| cap.effective(weight(hog)) as f64).collect();
    let orders: HashSet<u32> =
        hogs.iter().map(|hog| (cap.effective(weight(hog)) / one).ilog2()).collect();
    let total: f64 = effective.iter().sum();
    (effective.iter().map(|weight| weight / total).collect(), orders.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(at_us: u64, cpu: usize, from: u32, to: u32) -> Switch {
        Switch { at_us, cpu, from, to }
    }

    #[test]
    fn alternating_hogs_are_half_a_turn_behind() {
        let mut switches = vec![switch(0, 0, 0, 1)];
        for turn in 1..10u64 {
            let (from, to) = if turn % 2 == 1 { (1, 2) } else { (2, 1) };
            switches.push(switch(turn * 10_000, 0, from, to));
        }
        switches.push(switch(90_000 + 10_000, 0, 2, 0));
        let service = measure(&switches, &[(1, 5), (2, 5)], 1, 0);
        assert!((service.largest_lag_ms - 5.0).abs() < 1e-9, "{}", service.largest_lag_ms);
    }

    #[test]
    fn what_was_received_before_the_start_does_not_count() {
        let switches = [switch(0, 0, 0, 1), switch(50, 0, 1, 2), switch(80, 0, 2, 0)];
        let service = measure(&switches, &[(1, 5), (2, 5)], 1, 40);
        assert_eq!(service.shares, [0.25, 0.75]);
        assert!((service.total_ms - 0.04).abs() < 1e-9);
    }

    #[test]
    fn idle_time_counts_from_the_start_on() {
        let switches = [switch(0, 0, 1, 0), switch(70, 0, 0, 1), switch(90, 0, 1, 0)];
        let service = measure(&switches, &[(1, 5), (2, 5)], 1, 40);
        assert!((service.idle_ms - 0.03).abs() < 1e-9, "{}", service.idle_ms);
    }

    #[test]
    fn nor_does_it_on_other_cpus() {
        let begin = [switch(0, 0, 0, 1), switch(10, 1, 0, 2), switch(20, 1, 2, 0)];
        let end = [switch(30, 1, 0, 2), switch(80, 0, 1, 0), switch(80, 1, 2, 0)];
        let service = measure(&[begin, end].concat(), &[(1, 5), (2, 5)], 2, 40);
        assert_eq!(service.shares, [0.5, 0.5]);
        assert!((service.total_ms - 0.08).abs() < 1e-9);
    }

    #[test]
    fn an_infeasible_weight_is_due_one_cpu() {
        let (shares, groups) = shares_by_weight(&[(1, 9), (2, 1), (3, 1)], 2);
        assert_eq!((shares, groups), (vec![0.5, 0.25, 0.25], 2));
    }
}

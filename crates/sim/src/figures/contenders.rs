//! The policies in the comparisons of service errors, each with the rule for ties that gives the
//! paper's figure.

use prorata::policies::gr3::Gr3;
use prorata::policies::srr::Srr;
use prorata::policies::vtrr::Vtrr;
use prorata::{Policy, Setup, Weight};

use super::by_finish;
use super::cycle::{self, Extremes};

/// A policy in a comparison.
#[derive(Clone, Copy)]
pub(super) struct Contender {
    pub(super) policy: &'static str,
    /// The errors of a set over one cycle.
    pub(super) errors: fn(&Setup, &[Weight]) -> Cycle,
    /// The least and the greatest error that the paper prints, if it does.
    pub(super) printed: Option<(f64, f64)>,
}

/// What one cycle gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cycle {
    pub(super) extremes: Extremes,
    pub(super) decisions: u64,
}

/// One cycle of `policy`, decision by decision.
fn simulate<P: Policy>(policy: &mut P, setup: &Setup, weights: &[Weight]) -> Cycle {
    let decisions = weights.iter().map(|w| u64::from(w.get())).sum();
    Cycle { extremes: cycle::run(policy, setup, weights), decisions }
}

impl Contender {
    /// With what the paper prints.
    pub(super) const fn prints(self, min: f64, max: f64) -> Contender {
        Contender { printed: Some((min, max)), ..self }
    }
}

pub(super) const GR3: Contender = Contender {
    policy: "gr3",
    errors: |setup, weights| simulate(&mut Gr3::new(setup), setup, weights),
    printed: None,
};

/// Ties go to the first task, the skewed one: it gets as far ahead as it can. In closed form.
pub(super) const WFQ: Contender = Contender {
    policy: "wfq",
    errors: |_, weights| Cycle { extremes: by_finish::wfq(weights), decisions: 0 },
    printed: None,
};

/// Ties go against the first task, the skewed one: it falls as far behind as it can. In closed form.
pub(super) const SFQ: Contender = Contender {
    policy: "sfq",
    errors: |_, weights| Cycle { extremes: by_finish::sfq(weights), decisions: 0 },
    printed: None,
};

pub(super) const SRR: Contender = Contender {
    policy: "srr",
    errors: |setup, weights| simulate(&mut Srr::new(setup), setup, weights),
    printed: None,
};

pub(super) const VTRR: Contender = Contender {
    policy: "vtrr",
    errors: |setup, weights| simulate(&mut Vtrr::new(setup), setup, weights),
    printed: None,
};

/// In closed form: no decision is taken.
pub(super) const WRR: Contender = Contender {
    policy: "wrr",
    errors: |_, weights| Cycle { extremes: wrr(weights), decisions: 0 },
    printed: None,
};

/// Weighted round robin serves each task once in a cycle, as long as its weight says: it is furthest
/// behind just before its turn, after s quanta (e = −s·φ/Φ), and furthest ahead just after it
/// (e = φ − (s+φ)·φ/Φ).
fn wrr(weights: &[Weight]) -> Extremes {
    let total: i64 = weights.iter().map(|w| i64::from(w.get())).sum();
    let mut extremes = Extremes::default();
    let mut served = 0;
    for weight in weights.iter().map(|w| i64::from(w.get())) {
        extremes.min = extremes.min.min(-served * weight);
        served += weight;
        extremes.max = extremes.max.max((total - served) * weight);
    }
    extremes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::cycle::QUANTUM_NS;
    use crate::fixed;
    use proptest::prelude::*;
    use prorata::policies::wrr::Wrr;

    fn weights(numbers: &[u32]) -> Vec<Weight> {
        numbers.iter().map(|&n| Weight::new(n).expect("at least 1")).collect()
    }

    #[test]
    fn the_textbook_example() {
        // 1 1 1 2 2 3: task 1 is ahead by 3 − 3·3/6, task 2 was behind by 3·2/6, times 6.
        assert_eq!(wrr(&weights(&[3, 2, 1])), Extremes { min: -6, max: 9 });
    }

    proptest! {
        #[test]
        fn wrr_in_closed_form_equals_its_simulation(
            numbers in proptest::collection::vec(1u32..200, 1..40),
        ) {
            let (weights, setup) = (weights(&numbers), Setup::new(1, QUANTUM_NS).as_in_papers());
            let simulated = cycle::run(&mut Wrr::new(&setup), &setup, &weights);
            prop_assert_eq!(wrr(&weights), simulated);
        }

        /// Against the yardstick of the core, which keeps the extremes of every task.
        #[test]
        fn errors_of_a_cycle_are_those_of_the_yardstick(
            numbers in proptest::collection::vec(1u32..60, 9..40), cpus in 1usize..5,
        ) {
            let mut numbers = numbers;
            let total: u32 = numbers.iter().sum();
            let cycle = u32::try_from(cpus).expect("few");
            numbers[0] += (cycle - total % cycle) % cycle;
            let total: u32 = numbers.iter().sum();
            prop_assume!(numbers.iter().all(|&n| n * cycle <= total));
            let (weights, setup) = (weights(&numbers), Setup::new(cpus, QUANTUM_NS).as_in_papers());
            let found = cycle::run(&mut Gr3::new(&setup), &setup, &weights);
            let quanta = (total / cycle) as usize;
            let errors = fixed::drive(&mut Gr3::new(&setup), &setup, &weights, quanta, |_, _| {});
            let (mut min, mut max) = (0, 0);
            for task in cycle::ids().take(weights.len()) {
                min = min.min(errors.extremes(task).min);
                max = max.max(errors.extremes(task).max);
            }
            let scale = i128::from(total) / i128::from(errors.denominator());
            prop_assert_eq!(i128::from(found.min), min * scale);
            prop_assert_eq!(i128::from(found.max), max * scale);
        }
    }
}

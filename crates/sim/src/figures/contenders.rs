//! The policies in the comparisons of service errors, each with the rule for ties that gives the
//! paper's figure.

use std::borrow::Cow;

use prorata::policies::gr3::Gr3;
use prorata::policies::srr::Srr;
use prorata::policies::vtrr::Vtrr;
use prorata::policies::{self, BuildError};
use prorata::{Policy, Setup, Weight};

use super::cycle::{self, Extremes};
use super::{Unfit, by_finish};

/// A policy in a comparison.
#[derive(Clone)]
pub(super) struct Contender {
    pub(super) policy: Cow<'static, str>,
    /// The errors of a set over one cycle. It may depend on the seed of the set-up only if the policy
    /// leaves something to lot.
    errors: Errors,
    /// The least and the greatest error that the paper prints, if it does.
    pub(super) printed: Option<(f64, f64)>,
}

#[derive(Clone, Copy)]
enum Errors {
    /// Compiled for the policy, or known in closed form.
    Known(fn(&Setup, &[Weight]) -> Cycle),
    /// By the name of the policy.
    Named,
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

/// Length of a quantum of named policies: those whose slices or intervals are lengths of time need
/// some to divide.
const NAMED_QUANTUM_NS: u64 = 1_000_000;

impl Contender {
    const fn known(policy: &'static str, errors: fn(&Setup, &[Weight]) -> Cycle) -> Contender {
        Contender { policy: Cow::Borrowed(policy), errors: Errors::Known(errors), printed: None }
    }

    /// The policy that a user calls `spec`, on `cpus` cpus. Its schedule may never repeat.
    pub(super) fn named(spec: &str, cpus: usize) -> Result<Contender, Unfit> {
        policies::build(spec, &Setup::new(cpus, NAMED_QUANTUM_NS).as_in_papers())?;
        let name = spec.split(':').next().unwrap_or(spec);
        let entry =
            policies::find(name).ok_or_else(|| BuildError::UnknownPolicy(name.to_string()))?;
        if !entry.work_conserving {
            return Err(Unfit::Idles(spec.to_string()));
        }
        Ok(Contender { policy: Cow::Owned(spec.to_string()), errors: Errors::Named, printed: None })
    }

    /// With what the paper prints.
    pub(super) const fn prints(mut self, min: f64, max: f64) -> Contender {
        self.printed = Some((min, max));
        self
    }

    /// The errors of a set over as many decisions as its weights are in all.
    pub(super) fn errors(&self, setup: &Setup, weights: &[Weight]) -> Cycle {
        match self.errors {
            Errors::Known(errors) => errors(setup, weights),
            Errors::Named => {
                let setup = Setup { quantum_ns: NAMED_QUANTUM_NS, ..*setup };
                let mut policy =
                    policies::build(&self.policy, &setup).expect("it was built before");
                let decisions: u64 = weights.iter().map(|w| u64::from(w.get())).sum();
                let quanta = decisions / setup.cpus as u64;
                let extremes = cycle::span(&mut *policy, &setup, weights, quanta);
                Cycle { extremes, decisions }
            }
        }
    }
}

pub(super) const GR3: Contender =
    Contender::known("gr3", |setup, weights| simulate(&mut Gr3::new(setup), setup, weights));

/// Ties go to the first task, the skewed one: it gets as far ahead as it can. In closed form.
pub(super) const WFQ: Contender =
    Contender::known("wfq", |_, weights| Cycle { extremes: by_finish::wfq(weights), decisions: 0 });

/// Ties go against the first task, the skewed one: it falls as far behind as it can. In closed form.
pub(super) const SFQ: Contender =
    Contender::known("sfq", |_, weights| Cycle { extremes: by_finish::sfq(weights), decisions: 0 });

pub(super) const SRR: Contender =
    Contender::known("srr", |setup, weights| simulate(&mut Srr::new(setup), setup, weights));

pub(super) const VTRR: Contender =
    Contender::known("vtrr", |setup, weights| simulate(&mut Vtrr::new(setup), setup, weights));

/// In closed form: no decision is taken.
pub(super) const WRR: Contender =
    Contender::known("wrr", |_, weights| Cycle { extremes: wrr(weights), decisions: 0 });

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

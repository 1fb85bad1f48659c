//! WFQ and SFQ over one cycle of a fixed set without taking a decision: both serve quanta in an
//! order that is known beforehand.
//!
//! The k-th quantum of a task of weight φ has the virtual finishing time k/φ. WFQ serves the Φ
//! quanta of a cycle in the order of these numbers, and if ties go to the first task, in the order
//! of tasks where they are equal: one sort gives the schedule. SFQ's order is that of the start
//! tags (k−1)/φ. Read backwards, quantum k becomes quantum φ+1−k, a start tag s becomes the
//! finishing time 1−s, and ties that went to the last task go to the first one: SFQ with ties to
//! the last is WFQ with ties to the first, backwards. Its errors are WFQ's, with the other sign.

use prorata::Weight;

use super::cycle::{Extremes, signed};

/// One quantum: which of its task's, counted from 1, and whose.
#[derive(Clone, Copy, Debug, Default)]
struct Quantum {
    number: u32,
    task: u32,
}

impl Quantum {
    /// True if this quantum has the lesser finishing time.
    #[inline]
    fn before(self, other: Quantum, weights: &[Weight]) -> bool {
        let weight = |quantum: Quantum| u64::from(weights[quantum.task as usize].get());
        u64::from(self.number) * weight(other) < u64::from(other.number) * weight(self)
    }
}

/// The extremes of WFQ with ties to the first task, over a cycle.
pub(super) fn wfq(weights: &[Weight]) -> Extremes {
    let total: u64 = weights.iter().map(|w| u64::from(w.get())).sum();
    let mut extremes = Extremes::default();
    for (served, quantum) in (0..).zip(schedule(weights, total)) {
        let weight = i64::from(weights[quantum.task as usize].get());
        let before = i64::from(quantum.number - 1) * signed(total) - served * weight;
        extremes.sample(before, before + signed(total) - weight);
    }
    extremes
}

/// The extremes of SFQ with ties to the last task, over a cycle.
pub(super) fn sfq(weights: &[Weight]) -> Extremes {
    let Extremes { min, max } = wfq(weights);
    Extremes { min: -max, max: -min }
}

/// All quanta of a cycle in the order of WFQ: a bucket sort, as many buckets as quanta, since
/// finishing times are nearly uniform. Tasks enter in order, and stay so where they tie.
fn schedule(weights: &[Weight], total: u64) -> Vec<Quantum> {
    let buckets = usize::try_from(total).expect("as many quanta fit into memory") + 1;
    let mut ends = vec![0u32; buckets + 1];
    for &weight in weights {
        Buckets::of(weight, total).for_each(|bucket| ends[bucket + 1] += 1);
    }
    for bucket in 1..ends.len() {
        ends[bucket] += ends[bucket - 1];
    }
    let mut quanta = vec![Quantum::default(); buckets - 1];
    for (task, &weight) in (0..).zip(weights) {
        for (number, bucket) in (1..).zip(Buckets::of(weight, total)) {
            let place = &mut ends[bucket];
            quanta[*place as usize] = Quantum { number, task };
            *place += 1;
        }
    }
    let mut begin = 0;
    for &end in &ends[..buckets] {
        sort(&mut quanta[begin..end as usize], weights);
        begin = end as usize;
    }
    quanta
}

/// Sorts a bucket, stably: nearly all hold a few quanta, but a tie may be as large as the set.
#[inline]
fn sort(bucket: &mut [Quantum], weights: &[Weight]) {
    if bucket.len() > 16 {
        bucket.sort_by(|a, b| b.before(*a, weights).cmp(&a.before(*b, weights)));
        return;
    }
    for end in 1..bucket.len() {
        let quantum = bucket[end];
        let mut at = end;
        while at > 0 && quantum.before(bucket[at - 1], weights) {
            bucket[at] = bucket[at - 1];
            at -= 1;
        }
        bucket[at] = quantum;
    }
}

/// ⌊k·Φ/φ⌋ for k = 1, 2, … φ, without dividing.
struct Buckets {
    left: u32,
    weight: u64,
    bucket: u64,
    part: u64,
    step: u64,
    step_part: u64,
}

impl Buckets {
    fn of(weight: Weight, total: u64) -> Buckets {
        let left = weight.get();
        let weight = u64::from(left);
        let (step, step_part) = (total / weight, total % weight);
        Buckets { left, weight, bucket: 0, part: 0, step, step_part }
    }
}

impl Iterator for Buckets {
    type Item = usize;

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // at most Φ, for which there was memory
    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let part = self.part + self.step_part;
        let carry = part >= self.weight;
        self.part = part - if carry { self.weight } else { 0 };
        self.bucket += self.step + u64::from(carry);
        Some(self.bucket as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::cycle::{self, QUANTUM_NS};
    use proptest::prelude::*;
    use prorata::policies::Ties;
    use prorata::policies::sfq::Sfq;
    use prorata::policies::wfq::Wfq;
    use prorata::queue::Heap;
    use prorata::{Policy, Setup, TaskId};

    /// What the policy does, task by task.
    fn simulated<P: Policy>(policy: &mut P, weights: &[Weight]) -> Vec<u32> {
        for (task, &weight) in (0..).map(TaskId).zip(weights) {
            policy.add(task, weight);
            policy.wake(task, 0);
        }
        let quanta: u32 = weights.iter().map(|w| w.get()).sum();
        let mut decide = |now: u32| {
            let task = policy.pick(0, u64::from(now)).expect("somebody is runnable");
            policy.charge(task, QUANTUM_NS, u64::from(now) + 1);
            task.0
        };
        (0..quanta).map(&mut decide).collect()
    }

    proptest! {
        /// Few different weights make many ties; a heavy task makes great errors.
        #[test]
        fn the_sorts_are_the_schedules_of_the_policies(
            light in proptest::collection::vec(1u32..7, 0..40),
            mixed in proptest::collection::vec(1u32..300, 0..40),
            heavy in 1u32..2000,
        ) {
            let numbers = [heavy].into_iter().chain(light).chain(mixed);
            let weights: Vec<Weight> = numbers.filter_map(Weight::new).collect();
            let setup = Setup::new(1, QUANTUM_NS).as_in_papers();
            let total = weights.iter().map(|w| u64::from(w.get())).sum();
            let sorted: Vec<u32> = schedule(&weights, total).iter().map(|q| q.task).collect();
            let new_wfq = || Wfq::<Heap<_>>::new(&setup, Ties::First);
            let new_sfq = || Sfq::new(&setup, Ties::Last);
            prop_assert_eq!(&simulated(&mut new_wfq(), &weights), &sorted);
            let backwards: Vec<u32> = sorted.into_iter().rev().collect();
            prop_assert_eq!(simulated(&mut new_sfq(), &weights), backwards);
            prop_assert_eq!(wfq(&weights), cycle::run(&mut new_wfq(), &setup, &weights));
            prop_assert_eq!(sfq(&weights), cycle::run(&mut new_sfq(), &setup, &weights));
        }
    }
}

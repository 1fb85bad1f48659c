//! Fixed sets in step, for the tests of several policies.

#![allow(dead_code, reason = "not every test needs all of it")]

use prorata::{Policy, TaskId, Weight};

pub(crate) mod machine;
pub(crate) mod random;
pub(crate) mod reweighed;
pub(crate) mod ticks;

/// Length of a quantum: logical, so any will do; a prime shows what should not divide it.
pub(crate) const QUANTUM_NS: u64 = 9973;

/// The weight `n`.
pub(crate) fn weight(n: u32) -> Weight {
    Weight::new(n).expect("a weight is positive")
}

/// Adds and wakes tasks of these weights.
pub(crate) fn start<P: Policy>(mut policy: P, weights: &[u32]) -> P {
    for (id, &w) in (0..).zip(weights) {
        policy.add(TaskId(id), weight(w));
        policy.wake(TaskId(id), 0);
    }
    policy
}

/// Runs a fixed set in step: in every quantum all running tasks are charged a whole quantum, in
/// the order of their cpus, and then the cpus pick in index order.
pub(crate) struct Lockstep<P> {
    pub(crate) policy: P,
    pub(crate) running: Vec<Option<TaskId>>,
    pub(crate) now_ns: u64,
}

impl<P: Policy> Lockstep<P> {
    pub(crate) fn new(policy: P, cpus: usize) -> Lockstep<P> {
        Lockstep { policy, running: vec![None; cpus], now_ns: 0 }
    }

    /// One more quantum: who runs in it.
    pub(crate) fn quantum(&mut self) -> &[Option<TaskId>] {
        for task in self.running.iter().copied().flatten() {
            self.policy.charge(task, QUANTUM_NS, self.now_ns);
        }
        for (cpu, running) in self.running.iter_mut().enumerate() {
            *running = self.policy.pick(cpu, self.now_ns);
        }
        self.now_ns += QUANTUM_NS;
        &self.running
    }

    /// The task on each cpu in each of `quanta` quanta, counted from 1 as the papers do; 0 if the
    /// cpu idles.
    pub(crate) fn rows(&mut self, quanta: usize) -> Vec<Vec<u32>> {
        (0..quanta)
            .map(|_| self.quantum().iter().map(|t| t.map_or(0, |t| t.0 + 1)).collect())
            .collect()
    }
}

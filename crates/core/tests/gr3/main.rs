//! GR3 and GR3MP: the papers' examples, the naive twin, the bounds.

#[path = "../common/mod.rs"]
mod common;

mod bounds;
mod differential;
mod dynamic;
mod reweighing;
mod twin;
mod vectors;

use prorata::policies::gr3::Gr3;
use prorata::{Policy, Setup, TaskId, Weight};

/// Length of a quantum: logical, so any will do.
pub(crate) const QUANTUM_NS: u64 = 1000;

/// Adds and wakes tasks of these weights.
pub(crate) fn start<P: Policy>(mut policy: P, weights: &[u32]) -> P {
    for (id, &weight) in (0..).zip(weights) {
        policy.add(TaskId(id), Weight::new(weight).expect("a weight is positive"));
        policy.wake(TaskId(id), 0);
    }
    policy
}

/// Who runs on each cpu in each quantum of a fixed set.
pub(crate) fn schedule<P: Policy>(
    policy: &mut P,
    cpus: usize,
    quanta: usize,
) -> Vec<Vec<Option<u32>>> {
    let mut running = vec![None; cpus];
    let mut rows = Vec::new();
    for quantum in 0..quanta as u64 {
        let now_ns = quantum * QUANTUM_NS;
        running.iter().flatten().for_each(|&task| policy.charge(task, QUANTUM_NS, now_ns));
        for (cpu, running) in running.iter_mut().enumerate() {
            *running = policy.pick(cpu, now_ns);
        }
        rows.push(running.iter().map(|task: &Option<TaskId>| task.map(|t| t.0)).collect());
    }
    rows
}

/// GR3 with tasks of these weights, all runnable.
pub(crate) fn gr3(weights: &[u32], cpus: usize) -> Gr3 {
    start(Gr3::new(&Setup::new(cpus, QUANTUM_NS)), weights)
}

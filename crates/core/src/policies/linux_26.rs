//! The O(1) scheduler of Linux 2.6 before CFS (Molnar 2002): two arrays of priority queues.
//!
//! *How.* Tasks with time left in their slice are in the *active* array, in a queue for each priority;
//! a bitmap says which queues are not empty, and the first task of the highest one runs, in turn with
//! its equals. A task whose slice is over gets a new one and goes to the *expired* array. When the
//! active array is empty, the two change places: an epoch.
//!
//! *As a proportional-share policy.* A slice is φ quanta. The priority is the weight's leading two
//! bits, 64 levels, so that greater slices run earlier, as in Linux. (Linux knows 40 nice levels with
//! slices of 5 to 800 ms.)
//!
//! *Bound.* Fixed set: e = 0 after every Φ quanta, the length of an epoch; in between as large as the
//! weights: all that a heavy task gets in an epoch it gets before the light ones get anything.
//!
//! *Dynamics.* A task keeps what is left of its slice while it sleeps. A new one enters the expired
//! array, so that a stream of them cannot hold up an epoch (in Linux a child takes half of its
//! parent's slice). A new weight counts from the next slice on.
//!
//! *Cost*: O(1). *Cpus*: one; Linux has a pair of arrays for each cpu and moves tasks between them.
//! *Left out*: the interactivity estimator, which trades proportion for response.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Bound, Cost, Entry};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::Circles;
use crate::turns::Payment;

pub(super) const ENTRY: Entry = Entry {
    name: "linux-2.6",
    title: "Linux 2.6 O(1) (active and expired arrays)",
    paper: "kernel/sched.c of Linux 2.6.0 to 2.6.22; GR3 section 5.2",
    bound: Bound {
        text: "e = 0 after every Φ quanta; in between as large as the weights",
        lower: None,
        upper: None,
        exact_each_cycle: true,
    },
    cost: Cost { pick: "1", insert: "1", remove: "1" },
    multiprocessor: false,
    work_conserving: true,
    by_weight: false,
    payment: Payment::USE,
    options: &[],
    build: |setup, _| Ok(Box::new(Linux26::new(setup))),
};

/// Priorities of an array.
const LEVELS: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Task {
    weight: Weight,
    /// What is left of its slice; 0 only if it is new.
    left_ns: u128,
}

/// The O(1) scheduler. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Linux26 {
    quantum_ns: Nanos,
    /// Waiting tasks and the running one: the queues of one array, then those of the other.
    queues: Circles<{ 2 * LEVELS }>,
    /// The queues of each array that are not empty.
    present: [u64; 2],
    /// Which array is active: 0 or 1.
    active: usize,
    tasks: Vec<Task>,
}

impl Linux26 {
    /// The scheduler over no tasks.
    #[must_use]
    pub fn new(setup: &Setup) -> Linux26 {
        Linux26 {
            quantum_ns: setup.quantum_ns,
            queues: Circles::default(),
            present: [0; 2],
            active: 0,
            tasks: Vec::new(),
        }
    }

    fn refill(&mut self, task: TaskId) {
        let known = &mut self.tasks[task.index()];
        known.left_ns = u128::from(known.weight.get()) * u128::from(self.quantum_ns);
    }

    fn enqueue(&mut self, task: TaskId, array: usize) {
        let level = level(self.tasks[task.index()].weight);
        self.queues.push(array * LEVELS + level, task);
        self.present[array] |= 1 << level;
    }

    fn dequeue(&mut self, task: TaskId) {
        let Some(queue) = self.queues.remove(task) else { return };
        if self.queues.is_empty(queue) {
            self.present[queue / LEVELS] &= !(1 << (queue % LEVELS));
        }
    }
}

/// The weight's order and its next bit.
fn level(weight: Weight) -> usize {
    let order = weight.order();
    let next_bit = (u64::from(weight.get()) << 1) >> order & 1;
    2 * order as usize + usize::from(next_bit == 1)
}

impl Policy for Linux26 {
    fn add(&mut self, task: TaskId, weight: Weight) {
        let new = Task { weight, left_ns: 0 };
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, new);
            self.queues.reserve(self.tasks.len());
        }
        self.tasks[task.index()] = new;
    }

    fn remove(&mut self, task: TaskId, _now_ns: Nanos) {
        self.dequeue(task);
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, _now_ns: Nanos) {
        self.tasks[task.index()].weight = weight;
    }

    fn wake(&mut self, task: TaskId, _now_ns: Nanos) {
        if self.tasks[task.index()].left_ns == 0 {
            self.refill(task);
            self.enqueue(task, 1 - self.active);
        } else {
            self.enqueue(task, self.active);
        }
    }

    fn block(&mut self, task: TaskId, _now_ns: Nanos) {
        self.dequeue(task);
    }

    fn pick(&mut self, _cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        if self.present[self.active] == 0 {
            self.active = 1 - self.active;
        }
        let level = self.present[self.active].checked_ilog2()?;
        self.queues.first(self.active * LEVELS + level as usize)
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, _now_ns: Nanos) {
        self.dequeue(task);
        let known = &mut self.tasks[task.index()];
        known.left_ns = known.left_ns.saturating_sub(u128::from(used_ns));
        if known.left_ns == 0 {
            self.refill(task);
            self.enqueue(task, 1 - self.active);
        } else {
            self.enqueue(task, self.active);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_the_two_leading_bits() {
        let levels =
            [1, 2, 3, 4, 5, 6, 7, 8, u32::MAX].map(|w| level(Weight::new(w).expect("not 0")));
        assert_eq!(levels, [0, 2, 3, 4, 4, 5, 5, 6, 63]);
    }
}

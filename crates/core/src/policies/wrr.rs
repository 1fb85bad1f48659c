//! Weighted round robin: every task in turn, each for as many quanta in a row as its weight says.
//! Weights 3, 2, 1 run `1 1 1 2 2 3`.
//!
//! *Why it is right.* A round of Φ quanta gives each task exactly φ.
//!
//! *Bound.* Fixed set: e = 0 after every Φ quanta. Within a round a task gets all of its service at
//! once: the error grows with the weights themselves, to −12067..23593 quanta in figure 4 of the GR3
//! paper. It is the cheapest way to be exactly right on the average and the worst in between.
//!
//! *Dynamics.* A task that wakes joins at the back. One that blocks loses the rest of its turn, and
//! a quantum that it leaves early counts as a whole one: DRR is the repair of that. A new weight
//! counts from the next turn on. *Cost*: O(1). *Cpus*: one.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Bound, Cost, Entry};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::Circles;
use crate::turns::Payment;

pub(super) const ENTRY: Entry = Entry {
    name: "wrr",
    title: "Weighted round robin",
    paper: "folklore; VTRR section 2.2, GR3 section 6",
    bound: Bound {
        text: "e = 0 after every Φ quanta; in between as large as the weights",
        lower: None,
        upper: None,
        exact_each_cycle: true,
    },
    cost: Cost { pick: "1", insert: "1", remove: "1" },
    multiprocessor: false,
    work_conserving: true,
    by_weight: true,
    payment: Payment::turns(3),
    options: &[],
    build: |setup, _| Ok(Box::new(Wrr::new(setup))),
};

/// Weighted round robin. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Wrr {
    /// Waiting tasks and the running one; the first has the turn.
    turns: Circles<1>,
    /// The task whose turn it is and its quanta left, at least 1; `None` between turns.
    turn: Option<(TaskId, u32)>,
    weights: Vec<Weight>,
}

impl Wrr {
    /// Weighted round robin over no tasks.
    #[must_use]
    pub fn new(_setup: &Setup) -> Wrr {
        Wrr { turns: Circles::default(), turn: None, weights: Vec::new() }
    }

    fn leave(&mut self, task: TaskId) {
        self.turns.remove(task);
        self.turn = self.turn.filter(|&(holder, _)| holder != task);
    }
}

impl Policy for Wrr {
    fn add(&mut self, task: TaskId, weight: Weight) {
        if self.weights.len() <= task.index() {
            self.weights.resize(task.index() + 1, weight);
            self.turns.reserve(self.weights.len());
        }
        self.weights[task.index()] = weight;
    }

    fn remove(&mut self, task: TaskId, _now_ns: Nanos) {
        self.leave(task);
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, _now_ns: Nanos) {
        self.weights[task.index()] = weight;
    }

    fn wake(&mut self, task: TaskId, _now_ns: Nanos) {
        self.turns.push(0, task);
        // Behind the task whose turn it is, even if that one is the only other.
        debug_assert!(self.turn.is_none_or(|(holder, _)| self.turns.first(0) == Some(holder)));
    }

    fn block(&mut self, task: TaskId, _now_ns: Nanos) {
        self.leave(task);
    }

    fn pick(&mut self, _cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        let task = self.turns.first(0)?;
        if self.turn.is_none() {
            self.turn = Some((task, self.weights[task.index()].get()));
        }
        Some(task)
    }

    fn charge(&mut self, task: TaskId, _used_ns: Nanos, _now_ns: Nanos) {
        let (holder, left) = self.turn.expect("a task runs in its turn");
        debug_assert_eq!(holder, task);
        self.turn = (left > 1).then_some((task, left - 1));
        if self.turn.is_none() {
            self.turns.rotate(0);
        }
    }
}

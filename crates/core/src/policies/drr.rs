//! Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995): weighted round robin that counts
//! service, not turns.
//!
//! *How.* Tasks take turns. At the start of its turn a task's deficit counter grows by φ·Q; it runs
//! as long as the counter covers a whole quantum, and pays for what it used. What is left is carried
//! to its next turn; a task that blocks loses it, as a queue that becomes empty does there.
//!
//! *Why it is right.* The counter never holds as much as a quantum between turns, so after k turns a
//! task that did not block has had between k·φ − 1 and k·φ quanta, however it cut them up. WRR
//! would have charged each started quantum as a whole one.
//!
//! *Bound.* Fixed set with whole quanta: it is WRR, e = 0 after every Φ quanta and as large as the
//! weights in between. *Cost*: O(1), since φ·Q ≥ Q. *Cpus*: one.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Bound, Cost, Entry};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::Circles;
use crate::turns::Payment;

pub(super) const ENTRY: Entry = Entry {
    name: "drr",
    title: "Deficit round robin",
    paper: "Shreedhar, Varghese 1995, section 3",
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
    payment: Payment::USE,
    options: &[],
    build: |setup, _| Ok(Box::new(Drr::new(setup))),
};

#[derive(Clone, Copy, Debug)]
struct Task {
    weight: Weight,
    /// Service that the task may still take; below a quantum between its turns.
    deficit_ns: u128,
}

/// Deficit round robin. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Drr {
    quantum_ns: Nanos,
    /// Waiting tasks and the running one; the first has the turn.
    turns: Circles<1>,
    /// True if the first task has had its φ·Q.
    in_turn: bool,
    tasks: Vec<Task>,
}

impl Drr {
    /// Deficit round robin over no tasks.
    #[must_use]
    pub fn new(setup: &Setup) -> Drr {
        let quantum_ns = setup.quantum_ns;
        Drr { quantum_ns, turns: Circles::default(), in_turn: false, tasks: Vec::new() }
    }

    fn leave(&mut self, task: TaskId) {
        if self.turns.first(0) == Some(task) {
            self.in_turn = false;
        }
        self.turns.remove(task);
        self.tasks[task.index()].deficit_ns = 0;
    }
}

impl Policy for Drr {
    fn add(&mut self, task: TaskId, weight: Weight) {
        let new = Task { weight, deficit_ns: 0 };
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, new);
            self.turns.reserve(self.tasks.len());
        }
        self.tasks[task.index()] = new;
    }

    fn remove(&mut self, task: TaskId, _now_ns: Nanos) {
        self.leave(task);
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, _now_ns: Nanos) {
        self.tasks[task.index()].weight = weight;
    }

    fn wake(&mut self, task: TaskId, _now_ns: Nanos) {
        self.turns.push(0, task);
    }

    fn block(&mut self, task: TaskId, _now_ns: Nanos) {
        self.leave(task);
    }

    fn pick(&mut self, _cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        let task = self.turns.first(0)?;
        if !core::mem::replace(&mut self.in_turn, true) {
            let known = &mut self.tasks[task.index()];
            known.deficit_ns += u128::from(known.weight.get()) * u128::from(self.quantum_ns);
        }
        Some(task)
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, _now_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        known.deficit_ns -= u128::from(used_ns);
        if known.deficit_ns < u128::from(self.quantum_ns) {
            self.in_turn = false;
            self.turns.rotate(0);
        }
    }
}

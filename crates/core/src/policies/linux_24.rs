//! The scheduler of Linux 2.4 (and 2.2): counters and goodness, as the papers measured it.
//!
//! *How.* Every task has a counter, the ticks left of its time slice. The scheduler searches the run
//! queue for the greatest *goodness*, counter + priority (0 if the counter is used up), the first in
//! the queue on a tie, and runs that task until its counter is used up or it blocks. When no runnable
//! task has any counter left, an epoch ends: the counter of *every* task, runnable or not, becomes
//! counter/2 + priority. Sleepers thus gather up to two slices, and win when they wake.
//!
//! *As a proportional-share policy.* A quantum here is a tick there, and the priority is the weight
//! itself, so that hogs get φ quanta each epoch. (Linux knows 40 nice levels; the papers chose nice
//! values that came near to their weights.)
//!
//! *Bound.* Fixed set, one cpu: e = 0 after every Φ quanta, since no counter is left at the end of an
//! epoch; in between as large as the weights, as in WRR. With sleepers none.
//!
//! *Cost.* O(N) for each search, and O(N) over all known tasks for each epoch: that is what it is
//! here for. *Cpus*: any number, over one queue, as in Linux; weights count as they are, feasible or
//! not. *Deviations.* Counters are kept in nanoseconds, where Linux takes a whole tick from whoever
//! runs when the tick comes; the bonuses for the same address space and the last cpu are left out, but
//! for a task's right to its cpu until its slice is over.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Bound, Cost, Entry};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::Circles;
use crate::turns::Payment;

pub(super) const ENTRY: Entry = Entry {
    name: "linux-2.4",
    title: "Linux 2.4 (goodness)",
    paper: "kernel/sched.c of Linux 2.4; VTRR section 4",
    bound: Bound {
        text: "e = 0 after every Φ quanta; in between as large as the weights",
        lower: None,
        upper: None,
        exact_each_cycle: true,
    },
    cost: Cost { pick: "N", insert: "1", remove: "1" },
    multiprocessor: true,
    work_conserving: true,
    by_weight: false,
    payment: Payment::USE,
    options: &[],
    build: |setup, _| Ok(Box::new(Linux24::new(setup))),
};

#[derive(Clone, Copy, Debug)]
struct Task {
    weight: Weight,
    /// What is left of the slice; less than two slices.
    counter_ns: u128,
    known: bool,
}

/// The scheduler of Linux 2.4. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Linux24 {
    quantum_ns: Nanos,
    /// Waiting tasks in the order of the run queue.
    queue: Circles<1>,
    tasks: Vec<Task>,
    /// The task that ran last on each cpu.
    last: Vec<Option<TaskId>>,
}

impl Linux24 {
    /// The scheduler over no tasks.
    #[must_use]
    pub fn new(setup: &Setup) -> Linux24 {
        Linux24 {
            quantum_ns: setup.quantum_ns,
            queue: Circles::default(),
            tasks: Vec::new(),
            last: alloc::vec![None; setup.cpus],
        }
    }

    fn slice_ns(&self, task: TaskId) -> u128 {
        u128::from(self.tasks[task.index()].weight.get()) * u128::from(self.quantum_ns)
    }

    fn goodness(&self, task: TaskId) -> u128 {
        match self.tasks[task.index()].counter_ns {
            0 => 0,
            counter_ns => counter_ns + self.slice_ns(task),
        }
    }

    /// The first of the tasks of greatest goodness, if that is not 0.
    fn best(&self) -> Option<TaskId> {
        let mut best = None;
        let mut most = 0;
        for task in self.queue.iter(0) {
            let goodness = self.goodness(task);
            if goodness > most {
                (best, most) = (Some(task), goodness);
            }
        }
        best
    }

    fn start_epoch(&mut self) {
        let quantum_ns = u128::from(self.quantum_ns);
        for task in self.tasks.iter_mut().filter(|task| task.known) {
            task.counter_ns = task.counter_ns / 2 + u128::from(task.weight.get()) * quantum_ns;
        }
    }
}

impl Policy for Linux24 {
    fn add(&mut self, task: TaskId, weight: Weight) {
        let counter_ns = u128::from(weight.get()) * u128::from(self.quantum_ns);
        if self.tasks.len() <= task.index() {
            let none = Task { weight, counter_ns: 0, known: false };
            self.tasks.resize(task.index() + 1, none);
            self.queue.reserve(self.tasks.len());
        }
        // A new task shares a slice with its parent in Linux; nobody's parent is known here.
        self.tasks[task.index()] = Task { weight, counter_ns, known: true };
    }

    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        self.block(task, now_ns);
        self.tasks[task.index()].known = false;
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, _now_ns: Nanos) {
        self.tasks[task.index()].weight = weight;
    }

    fn wake(&mut self, task: TaskId, _now_ns: Nanos) {
        self.queue.push(0, task);
    }

    fn block(&mut self, task: TaskId, _now_ns: Nanos) {
        self.queue.remove(task);
        for last in self.last.iter_mut().filter(|last| **last == Some(task)) {
            *last = None;
        }
    }

    fn pick(&mut self, cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        self.queue.first(0)?;
        let goes_on =
            |task: &TaskId| self.queue.contains(*task) && self.tasks[task.index()].counter_ns > 0;
        let task = match self.last[cpu].filter(goes_on).or_else(|| self.best()) {
            Some(task) => task,
            None => {
                self.start_epoch();
                self.best()?
            }
        };
        self.queue.remove(task);
        self.last[cpu] = Some(task);
        Some(task)
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, _now_ns: Nanos) {
        let counter_ns = &mut self.tasks[task.index()].counter_ns;
        *counter_ns = counter_ns.saturating_sub(u128::from(used_ns));
        self.queue.push(0, task);
    }
}

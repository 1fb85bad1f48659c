//! Surplus fair scheduling (Chandra, Adler, Goyal, Shenoy: *Surplus Fair Scheduling*, OSDI 2000):
//! start-time fair queueing for several cpus.
//!
//! # The idea
//!
//! Each task has a start tag S, which grows by used/φ when it runs; the virtual time v is the least
//! start tag of the runnable tasks. On one cpu SFQ runs the task of least S. On several cpus that
//! lets a heavy task, whose S grows slowly, take a cpu for a long time after a light one was
//! served, and the light one again for a long time after: S is service per weight, and what matters
//! to the others is service. The **surplus** of a task, φ·(S − v), is the service that it has had
//! beyond the task that is furthest behind. SFS runs the tasks of least surplus, ties to the lowest
//! id. A new task starts at S = v, a woken one at max(S, v); if nothing is runnable, v waits at the
//! start tag of the task that ran last.
//!
//! Weights are made feasible (see [`effective`](crate::effective)): SFS is the paper that
//! introduced this. When the φ of a task changes, by its own weight or because others came or went,
//! the task keeps its surplus, where the paper keeps S (see [`tags`](crate::tags)).
//!
//! # Order without sorting
//!
//! v grows with every quantum, and with it falls the surplus of each waiting task, faster for the
//! heavy ones: the order of tasks that do not run changes. The paper sorts the queue again at every
//! change of v, or, as a heuristic, looks only at the first few tasks of three queues. Here a
//! kinetic tournament ([`Surplus`]) finds the exact order. It is asked only if need be: no surplus is
//! below 0 but after a change of weights, so if the task of least S waits, it is the one. On one cpu
//! that is always so.
//!
//! # Bound, cost, limits
//!
//! *Bound*: none is known (GDQ §5: SFS "performs well in practice but has no theoretical fairness
//! bounds"). On one cpu a task of least surplus is one of least start tag, so it is SFQ. *Cost*:
//! `pick` and `charge` O(log N) and O(log N) for each pair of tasks that swaps places, amortised:
//! 400, 760 and 1,380 instructions for N = 10, 1000 and 10^5 on one cpu, 1,500, 5,300 and 4,700 on
//! four. `wake`, `block` O(P log N). *Cpus*: any number; work-conserving. With no more tasks than cpus every
//! task has a cpu.

use alloc::boxed::Box;

use super::{Bound, Cost, Entry};
use crate::effective::Start;
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::{Heap, Surplus};
use crate::tags::{State, Tags};
use crate::turns::Payment;

pub(super) const ENTRY: Entry = Entry {
    name: "sfs",
    title: "Surplus fair scheduling",
    paper: "Chandra, Adler, Goyal, Shenoy, OSDI 2000",
    bound: Bound::none("none known"),
    cost: Cost { pick: "log N", insert: "P log N", remove: "P log N" },
    multiprocessor: true,
    work_conserving: true,
    by_weight: true,
    payment: Payment::USE,
    options: &[],
    build: |setup, _| Ok(Box::new(Sfs::new(setup))),
};

/// Surplus fair scheduling. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Sfs {
    tags: Tags,
    /// The runnable tasks by start tag.
    starts: Heap<Start>,
    /// The waiting tasks by surplus.
    waiting: Surplus,
    /// v, which never goes back.
    now: Start,
}

impl Sfs {
    /// SFS over no tasks.
    #[must_use]
    pub fn new(setup: &Setup) -> Sfs {
        Sfs {
            tags: Tags::new(setup.cpus),
            starts: Heap::default(),
            waiting: Surplus::default(),
            now: Start::ZERO,
        }
    }

    /// v moves to the least start tag of the runnable tasks.
    fn advance(&mut self) {
        if let Some((_, &start)) = self.starts.peek() {
            self.now = self.now.max(start);
        }
        self.waiting.advance(self.now);
    }

    /// The waiting task of least surplus.
    fn least_surplus(&mut self) -> Option<TaskId> {
        let obvious = self
            .starts
            .peek()
            .filter(|&(task, &start)| start >= self.now && self.tags.state(task) == State::Waiting);
        match obvious {
            Some((task, _)) => Some(task),
            None => self.waiting.least(),
        }
    }

    /// The start tag of `task`, or its state, is another one than before.
    fn refresh(&mut self, task: TaskId) {
        self.starts.update(task, self.tags.start(task));
        if self.tags.state(task) == State::Waiting {
            let (service_ns, effective) = (self.tags.service_ns(task), self.tags.effective(task));
            self.waiting.insert(task, service_ns, effective);
        }
    }

    fn refresh_moved(&mut self) {
        for i in 0..self.tags.moved().len() {
            self.refresh(self.tags.moved()[i]);
        }
    }
}

impl Policy for Sfs {
    fn add(&mut self, task: TaskId, weight: Weight) {
        self.tags.add(task, weight);
        self.starts.reserve(task.index() + 1);
        self.waiting.reserve(task.index() + 1);
    }

    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        if self.tags.state(task) == State::Waiting {
            self.block(task, now_ns);
        }
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, _now_ns: Nanos) {
        self.advance();
        self.tags.set_weight(task, weight, self.now.into());
        self.refresh_moved();
    }

    fn wake(&mut self, task: TaskId, _now_ns: Nanos) {
        self.advance();
        self.tags.wake(task, self.now.into());
        self.starts.insert(task, self.tags.start(task));
        self.refresh(task);
        self.refresh_moved();
    }

    fn block(&mut self, task: TaskId, _now_ns: Nanos) {
        self.advance();
        self.tags.leave(task, self.now.into());
        let start = self.starts.remove(task).expect("it was runnable");
        self.waiting.remove(task);
        self.refresh_moved();
        if self.tags.runnable().count() == 0 {
            self.now = self.now.max(start);
        }
    }

    fn pick(&mut self, _cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        self.advance();
        let task = self.least_surplus()?;
        self.waiting.remove(task);
        self.tags.run(task);
        Some(task)
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, _now_ns: Nanos) {
        self.tags.charge(task, used_ns);
        self.refresh(task);
    }
}

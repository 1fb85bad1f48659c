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
//! introduced this. Where the φ of a task changes because others came or went, the task keeps its
//! surplus, not its S: a light task that is a quantum ahead and becomes heavy would otherwise be
//! φ'/φ quanta ahead.
//!
//! # Order without sorting
//!
//! v grows with every quantum, and with it falls the surplus of each waiting task, faster for the
//! heavy ones: the order of tasks that do not run changes. The paper sorts the queue again at every
//! change of v, or, as a heuristic, looks only at the first few tasks of three queues. Here a
//! kinetic tournament ([`Surplus`]) keeps the exact order.
//!
//! # Bound, cost, limits
//!
//! *Bound*: none is known (GDQ §5: SFS "performs well in practice but has no theoretical fairness
//! bounds"). On one cpu a task of least surplus is one of least start tag, so it is SFQ. *Cost*:
//! `pick` and `charge` O(log N) and O(log N) for each pair of tasks that swaps places; `wake`,
//! `block` O(P log N). *Cpus*: any number; work-conserving. With no more tasks than cpus every
//! task has a cpu.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Bound, Cost, Entry};
use crate::effective::{Effective, Feasible, Start, Virtual};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::{Heap, Surplus};

pub(super) const ENTRY: Entry = Entry {
    name: "sfs",
    title: "Surplus fair scheduling",
    paper: "Chandra, Adler, Goyal, Shenoy, OSDI 2000",
    bound: Bound::none("none known"),
    cost: Cost { pick: "log N", insert: "P log N", remove: "P log N" },
    multiprocessor: true,
    work_conserving: true,
    options: &[],
    build: |setup, _| Ok(Box::new(Sfs::new(setup))),
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Blocked,
    Waiting,
    Running,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    weight: Weight,
    /// φ; while blocked, what it was.
    effective: Effective,
    /// φ·S.
    service_ns: i128,
    state: State,
}

/// Surplus fair scheduling. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Sfs {
    /// The runnable tasks.
    feasible: Feasible,
    tasks: Vec<Task>,
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
            feasible: Feasible::new(setup.cpus),
            tasks: Vec::new(),
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

    /// Every task whose φ changed with the set keeps its surplus.
    fn carry_others(&mut self) {
        for i in 0..self.feasible.changed().len() {
            let (task, old) = self.feasible.changed()[i];
            self.carry(task, old);
        }
    }

    /// `task` of the set had φ = `old` until now; it keeps its surplus.
    fn carry(&mut self, task: TaskId, old: Effective) {
        let effective = self.feasible.effective(task);
        let known = &mut self.tasks[task.index()];
        known.service_ns = Virtual::from(self.now).carried(known.service_ns, old, effective);
        known.effective = effective;
        self.starts.update(task, effective.start(known.service_ns));
        if known.state == State::Waiting {
            self.waiting.insert(task, known.service_ns, effective);
        }
    }

    fn leave_set(&mut self, task: TaskId) {
        self.advance();
        let start = self.starts.remove(task).expect("it is runnable");
        self.waiting.remove(task);
        self.tasks[task.index()].state = State::Blocked;
        self.feasible.remove(task);
        self.carry_others();
        if self.feasible.count() == 0 {
            self.now = self.now.max(start);
        }
    }
}

impl Policy for Sfs {
    fn add(&mut self, task: TaskId, weight: Weight) {
        let effective = Effective::whole(weight);
        let new = Task { weight, effective, service_ns: 0, state: State::Blocked };
        if self.tasks.len() <= task.index() {
            let ids = task.index() + 1;
            self.tasks.resize(ids, new);
            self.feasible.reserve(ids);
            self.starts.reserve(ids);
            self.waiting.reserve(ids);
        }
        self.tasks[task.index()] = new;
    }

    fn remove(&mut self, task: TaskId, _now_ns: Nanos) {
        if self.tasks[task.index()].state == State::Waiting {
            self.leave_set(task);
        }
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, _now_ns: Nanos) {
        self.tasks[task.index()].weight = weight;
        if self.tasks[task.index()].state == State::Blocked {
            return;
        }
        self.advance();
        let old = self.tasks[task.index()].effective;
        self.feasible.remove(task);
        self.carry_others();
        self.feasible.insert(task, weight);
        self.carry_others();
        self.carry(task, old);
    }

    fn wake(&mut self, task: TaskId, _now_ns: Nanos) {
        self.advance();
        let known = self.tasks[task.index()];
        self.feasible.insert(task, known.weight);
        self.carry_others();
        let effective = self.feasible.effective(task);
        let now = Virtual::from(self.now);
        let service_ns = if known.effective.start(known.service_ns) > self.now {
            now.carried(known.service_ns, known.effective, effective)
        } else {
            now.service_ns(effective)
        };
        let state = State::Waiting;
        self.tasks[task.index()] = Task { weight: known.weight, effective, service_ns, state };
        self.starts.insert(task, effective.start(service_ns));
        self.waiting.insert(task, service_ns, effective);
    }

    fn block(&mut self, task: TaskId, _now_ns: Nanos) {
        self.leave_set(task);
    }

    fn pick(&mut self, _cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        self.advance();
        let task = self.waiting.peek()?;
        self.waiting.remove(task);
        self.tasks[task.index()].state = State::Running;
        Some(task)
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, _now_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        known.service_ns += i128::from(used_ns);
        known.state = State::Waiting;
        self.starts.update(task, known.effective.start(known.service_ns));
        self.waiting.insert(task, known.service_ns, known.effective);
    }
}

//! Worst-case fair weighted fair queueing (Bennett and Zhang, INFOCOM 1996; with the repair of
//! WF²Q+, 1997): WFQ that looks only at tasks that the ideal machine has begun to serve.
//!
//! *How.* Start tags S, finishing times F = S + Q/φ and the system's clock v are those of WFQ. A
//! task is *eligible* if S ≤ v: the ideal machine would have started its quantum by now. Of the
//! eligible tasks the one of least F runs.
//!
//! *Why it is right.* WFQ lets a heavy task run far ahead, because its finishing times are all
//! early. Eligibility stops that: φ·(S − v) is the service error, so an eligible task is never ahead
//! when it is picked. Somebody is eligible, since the errors of a fixed set add up to 0.
//!
//! *Bound.* Fixed set: −1 ≤ e ≤ 1 − φ/Φ (theorem 1 there). After every Φ quanta e = 0.
//!
//! *Dynamics* are WFQ's. When a task that is behind leaves, the others may all be ahead of the clock:
//! then the clock moves to the least S (WF²Q+'s rule), so that the policy never idles.
//!
//! *Cost.* O(log N): eligible tasks in a heap by F, the others in a heap by S; each quantum a task
//! moves once from the second to the first. *Cpus*: one.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::ties::{TIES, Ties};
use super::{Bound, Cost, Entry, Ratio};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::Heap;
use crate::turns::Payment;
use crate::virtual_time::{Clock, Tag};

pub(super) const ENTRY: Entry = Entry {
    name: "wf2q",
    title: "Worst-case fair weighted fair queueing (WF²Q)",
    paper: "Bennett, Zhang 1996, section 3; 1997, section 4",
    bound: Bound {
        text: "−1 ≤ e ≤ 1 − φ/Φ",
        lower: Some(|_, _| Ratio::whole(-1)),
        upper: Some(|set, task| Ratio {
            numerator: i128::from(set.total_weight() - set.weight(task)),
            denominator: i128::from(set.total_weight()),
        }),
        exact_each_cycle: true,
    },
    cost: Cost { pick: "log N", insert: "log N", remove: "log N" },
    multiprocessor: false,
    work_conserving: true,
    by_weight: true,
    payment: Payment::USE,
    options: &[TIES],
    build: |setup, options| Ok(Box::new(Wf2q::new(setup, Ties::from(options)?))),
};

#[derive(Clone, Copy, Debug)]
struct Task {
    start: Tag,
    /// The number of its last run among all runs; 0 if it never ran.
    last_run: u64,
    runnable: bool,
}

/// WF²Q. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Wf2q {
    quantum_ns: Nanos,
    ties: Ties,
    clock: Clock,
    /// Waiting tasks that were found eligible, by finishing time and rank.
    eligible: Heap<(Tag, u64)>,
    /// The other waiting tasks, by start tag.
    early: Heap<Tag>,
    tasks: Vec<Task>,
    runs: u64,
}

impl Wf2q {
    /// WF²Q over no tasks.
    #[must_use]
    pub fn new(setup: &Setup, ties: Ties) -> Wf2q {
        Wf2q {
            quantum_ns: setup.quantum_ns,
            ties,
            clock: Clock::new(setup.quantum_ns),
            eligible: Heap::default(),
            early: Heap::default(),
            tasks: Vec::new(),
            runs: 0,
        }
    }

    fn dequeue(&mut self, task: TaskId) -> bool {
        self.eligible.remove(task).is_some() || self.early.remove(task).is_some()
    }

    /// Moves the tasks whose quantum the ideal machine has begun to the eligible ones.
    fn promote(&mut self) {
        while let Some((task, &start)) = self.early.peek() {
            if !self.clock.has_reached(start) {
                break;
            }
            self.early.pop();
            let rank = self.ties.rank(task, self.tasks[task.index()].last_run);
            self.eligible.insert(task, (start.after(self.quantum_ns), rank));
        }
    }

    fn leave(&mut self, task: TaskId) {
        let known = &mut self.tasks[task.index()];
        if core::mem::take(&mut known.runnable) {
            self.clock.leave(known.start.weight());
            self.dequeue(task);
        }
    }
}

impl Policy for Wf2q {
    fn add(&mut self, task: TaskId, weight: Weight) {
        let new = Task { start: Tag::zero(weight), last_run: 0, runnable: false };
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, new);
            self.eligible.reserve(self.tasks.len());
            self.early.reserve(self.tasks.len());
        }
        self.tasks[task.index()] = new;
    }

    fn remove(&mut self, task: TaskId, _now_ns: Nanos) {
        self.leave(task);
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, _now_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        let old = known.start.weight();
        known.start = self.clock.reweigh(known.start, weight);
        if known.runnable {
            self.clock.leave(old);
            self.clock.join(weight);
        }
        let start = known.start;
        if self.dequeue(task) {
            self.early.insert(task, start);
        }
    }

    fn wake(&mut self, task: TaskId, _now_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        let weight = known.start.weight();
        known.start = known.start.max(self.clock.tag(weight));
        known.runnable = true;
        self.early.insert(task, known.start);
        self.clock.join(weight);
    }

    fn block(&mut self, task: TaskId, _now_ns: Nanos) {
        self.leave(task);
    }

    fn pick(&mut self, _cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        self.promote();
        if self.eligible.is_empty() {
            let (_, &start) = self.early.peek()?;
            self.clock.at_least(start);
            self.promote();
        }
        self.eligible.pop().map(|(task, _)| task)
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, _now_ns: Nanos) {
        self.clock.advance(used_ns);
        self.runs += 1;
        let known = &mut self.tasks[task.index()];
        known.start = known.start.after(used_ns);
        known.last_run = self.runs;
        self.early.insert(task, known.start);
    }
}

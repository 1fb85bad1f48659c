//! Start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996; for cpus: Goyal, Guo, Vin, OSDI
//! 1996): run the task that has had the least service for its weight.
//!
//! *How.* A task's start tag S moves by used/φ when it runs. The least S runs next. The system's
//! virtual time v is the start tag of the task that runs; while nothing runs, the tag at which the
//! last one ended. A task that wakes takes S = max(S, v).
//!
//! *Why it is right.* The least tag is never ahead of the average, and the average is where the
//! ideal machine is: a task that is picked has e ≤ 0 before its quantum. No assumption about the
//! machine's speed is made and v costs nothing to compute, which is why SFQ, unlike WFQ, stays fair
//! when the capacity varies; nobody needs to know how long a quantum will be before it ran.
//!
//! *Bound.* Fixed set: e ≤ 1 − φ/Φ. When task i waits, every j ≠ i was picked last with
//! S_j ≤ S_i, so it has received at most S_i·φ_j + 1; the sum gives e ≥ −(N−1)·φ/Φ, the mirror image
//! of WFQ. After every Φ quanta e = 0.
//!
//! *Deviation.* A new weight keeps S − v as service (tags of quanta that are still to come have no
//! weight of their own here, as packets have there). *Cost*: O(log N). *Cpus*: one; SFS is its form
//! for several.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::ties::{TIES, Ties};
use super::{Bound, Cost, Entry, Ratio};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::Heap;
use crate::turns::Payment;
use crate::virtual_time::Tag;

pub(super) const ENTRY: Entry = Entry {
    name: "sfq",
    title: "Start-time fair queueing",
    paper: "Goyal, Vin, Cheng 1996, section 2; Goyal, Guo, Vin 1996, section 3",
    bound: Bound {
        text: "−(N−1)·φ/Φ ≤ e ≤ 1 − φ/Φ",
        lower: Some(|set, task| Ratio {
            numerator: (1 - set.weights.len() as i128) * i128::from(set.weight(task)),
            denominator: i128::from(set.total_weight()),
        }),
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
    build: |setup, options| Ok(Box::new(Sfq::new(setup, Ties::from(options)?))),
};

#[derive(Clone, Copy, Debug)]
struct Task {
    start: Tag,
    /// The number of its last run among all runs; 0 if it never ran.
    last_run: u64,
}

/// SFQ. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Sfq {
    ties: Ties,
    /// v; it never goes back.
    now: Tag,
    /// Waiting tasks and the running one, by start tag.
    ready: Heap<(Tag, u64)>,
    tasks: Vec<Task>,
    runs: u64,
}

impl Sfq {
    /// SFQ over no tasks.
    #[must_use]
    pub fn new(_setup: &Setup, ties: Ties) -> Sfq {
        let now = Tag::zero(Weight::ONE);
        Sfq { ties, now, ready: Heap::default(), tasks: Vec::new(), runs: 0 }
    }

    fn key(&self, task: TaskId) -> (Tag, u64) {
        let Task { start, last_run } = self.tasks[task.index()];
        (start, self.ties.rank(task, last_run))
    }
}

impl Policy for Sfq {
    fn add(&mut self, task: TaskId, weight: Weight) {
        let new = Task { start: Tag::zero(weight), last_run: 0 };
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, new);
            self.ready.reserve(self.tasks.len());
        }
        self.tasks[task.index()] = new;
    }

    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        self.block(task, now_ns);
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, _now_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        known.start = known.start.reweighed(weight, self.now);
        if self.ready.contains(task) {
            self.ready.update(task, self.key(task));
        }
    }

    fn wake(&mut self, task: TaskId, _now_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        known.start = known.start.max(self.now.rounded_up(known.start.weight()));
        self.ready.insert(task, self.key(task));
    }

    fn block(&mut self, task: TaskId, _now_ns: Nanos) {
        if let Some((start, _)) = self.ready.remove(task)
            && self.ready.is_empty()
        {
            self.now = self.now.max(start);
        }
    }

    fn pick(&mut self, _cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        let (task, &(start, _)) = self.ready.peek()?;
        self.now = self.now.max(start);
        Some(task)
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, _now_ns: Nanos) {
        self.runs += 1;
        let known = &mut self.tasks[task.index()];
        known.start = known.start.after(used_ns);
        known.last_run = self.runs;
        self.ready.update(task, self.key(task));
    }
}

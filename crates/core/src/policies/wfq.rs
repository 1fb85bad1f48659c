//! Weighted fair queueing (Demers, Keshav, Shenker 1989; Parekh and Gallager 1993, as PGPS): run
//! the task that the ideal machine would finish serving first.
//!
//! *How.* Every task carries a start tag S, its virtual time: it moves by used/φ when the task
//! runs. Its virtual finishing time F = S + Q/φ says when the coming quantum would end if every
//! task ran at the rate of its weight all the time. The least F runs next.
//!
//! *Why it is right.* In the ideal machine (GPS) quanta end in the order of F. A machine that
//! serves whole quanta in that order falls behind by what it was busy with when the quantum that
//! matters came up, and that is at most one quantum.
//!
//! *Bound.* Fixed set: e ≥ −1 (Parekh and Gallager, theorem 1). When task i has its m-th quantum,
//! every other task j has F_j ≥ m/φ_i, that is, has received at least mφ_j/φ_i − 1; the sum over j
//! gives e ≤ (N−1)·φ/Φ, which a task of great weight beside many small ones attains: 819 quanta in
//! figure 5 of the GR3 paper. After every Φ quanta e = 0 for all.
//!
//! *Dynamics.* A system clock advances by used/Φ. A task that wakes takes S = max(S, clock): it
//! neither saves up credit while it sleeps nor escapes a debt. A new weight leaves S − clock alone
//! as service, which is what the piecewise ideal asks for. After a task that was ahead leaves, the
//! others are behind by what it took, and newcomers (at the clock) queue up behind them: then e of
//! a newcomer may fall below −1 by their backlog.
//!
//! *Cost.* `wfq` keeps the tasks in a heap: O(log N) a decision. `wfq-list` searches a list, as
//! kernels did in the papers' measurements: O(N). Both make the same schedule.
//!
//! *Limits.* One cpu (see MSFQ for several). Ties are free in the definition and set by an option;
//! the VTRR paper's `1 2 1 2 3 1` and ours for weights 3,2,1, `1 2 1 3 2 1`, differ only there.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::ties::{TIES, Ties};
use super::{Bound, Cost, Entry, Ratio};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::{Heap, Ready, Scan};
use crate::turns::Payment;
use crate::virtual_time::{Clock, Tag};

pub(super) const HEAP: Entry = Entry {
    name: "wfq",
    title: "Weighted fair queueing (heap)",
    paper: "Demers, Keshav, Shenker 1989, section 2; Parekh, Gallager 1993, section III",
    bound: BOUND,
    cost: Cost { pick: "log N", insert: "log N", remove: "log N" },
    multiprocessor: false,
    work_conserving: true,
    by_weight: true,
    payment: Payment::USE,
    options: &[TIES],
    build: |setup, options| Ok(Box::new(Wfq::<Heap<Finish>>::new(setup, Ties::from(options)?))),
};

pub(super) const LIST: Entry = Entry {
    name: "wfq-list",
    title: "Weighted fair queueing (searched list)",
    cost: Cost { pick: "N", insert: "1", remove: "1" },
    build: |setup, options| Ok(Box::new(Wfq::<Scan<Finish>>::new(setup, Ties::from(options)?))),
    ..HEAP
};

const BOUND: Bound = Bound {
    text: "−1 ≤ e ≤ (N−1)·φ/Φ",
    lower: Some(|_, _| Ratio::whole(-1)),
    upper: Some(|set, task| Ratio {
        numerator: (set.weights.len() as i128 - 1) * i128::from(set.weight(task)),
        denominator: i128::from(set.total_weight()),
    }),
    exact_each_cycle: true,
};

/// What becomes of the distance between a task's tag and the clock while the task is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleepers {
    /// Time passes for it: a debt shrinks, a credit is lost (WFQ).
    Forget,
    /// It is there when the task wakes (stride scheduling's `remain`).
    Remember,
}

/// What tasks are ordered by: the virtual finishing time, then the rank by the rule for ties.
pub type Finish = (Tag, u64);

#[derive(Clone, Copy, Debug)]
struct Task {
    start: Tag,
    /// The number of its last run among all runs; 0 if it never ran.
    last_run: u64,
    /// While it is blocked, to be remembered: how far it was ahead of the clock, as service.
    ahead_ns: i64,
}

/// WFQ over any ready queue. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Wfq<R> {
    quantum_ns: Nanos,
    ties: Ties,
    sleepers: Sleepers,
    clock: Clock,
    /// Waiting tasks and the running one: it is seldom the only one to move.
    ready: R,
    tasks: Vec<Task>,
    runs: u64,
}

impl<R: Ready<Finish> + Default> Wfq<R> {
    /// WFQ over no tasks.
    #[must_use]
    pub fn new(setup: &Setup, ties: Ties) -> Wfq<R> {
        Wfq {
            quantum_ns: setup.quantum_ns,
            ties,
            sleepers: Sleepers::Forget,
            clock: Clock::new(setup.quantum_ns),
            ready: R::default(),
            tasks: Vec::new(),
            runs: 0,
        }
    }

    /// The same, for sleepers to be treated so.
    #[must_use]
    pub fn with_sleepers(self, sleepers: Sleepers) -> Wfq<R> {
        Wfq { sleepers, ..self }
    }

    #[inline]
    fn finish(&self, task: TaskId) -> Finish {
        let Task { start, last_run, .. } = self.tasks[task.index()];
        (start.after(self.quantum_ns), self.ties.rank(task, last_run))
    }
}

impl<R: Ready<Finish> + Default> Policy for Wfq<R> {
    fn add(&mut self, task: TaskId, weight: Weight) {
        let new = Task { start: Tag::zero(weight), last_run: 0, ahead_ns: 0 };
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
        let old = known.start.weight();
        known.start = self.clock.reweigh(known.start, weight);
        if self.ready.remove(task).is_some() {
            self.clock.leave(old);
            self.clock.join(weight);
            self.ready.insert(task, self.finish(task));
        }
    }

    fn wake(&mut self, task: TaskId, _now_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        let weight = known.start.weight();
        known.start = match self.sleepers {
            Sleepers::Forget => known.start.max(self.clock.tag(weight)),
            Sleepers::Remember => self.clock.tag_ahead(weight, i128::from(known.ahead_ns)),
        };
        self.clock.join(weight);
        self.ready.insert(task, self.finish(task));
    }

    fn block(&mut self, task: TaskId, _now_ns: Nanos) {
        if self.ready.remove(task).is_some() {
            let known = &mut self.tasks[task.index()];
            // 292 years of service ahead of the clock are as good as more.
            known.ahead_ns = i64::try_from(self.clock.ahead_ns(known.start)).unwrap_or(i64::MAX);
            self.clock.leave(known.start.weight());
        }
    }

    fn pick(&mut self, _cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        self.ready.peek().map(|(task, _)| task)
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, _now_ns: Nanos) {
        self.clock.advance(used_ns);
        self.runs += 1;
        let known = &mut self.tasks[task.index()];
        known.start = known.start.after(used_ns);
        known.last_run = self.runs;
        self.ready.update(task, self.finish(task));
    }
}

//! Multiprocessor fair queueing (Caprita, Nieh, Stein: *Grouped Distributed Queues*, 2005,
//! section 2.2.1): WFQ for several cpus. GDQ gives cpus to its groups in this way
//! too; here it schedules tasks.
//!
//! # The idea
//!
//! The virtual finishing time of a client, F = (w + 1)/φ, is the normalised service that it will
//! have had after one more interval. The cpus reschedule one after the other; a cpu that does gives
//! up its client, counts the interval (F += 1/φ), and goes to the client of least F among those
//! that have no cpu, which may be the one that it just gave up.
//!
//! No client has more than one such cpu, so its φ must be below Φ/P. A client that is worth more,
//! as a group of tasks may be, gets ⌊φ·P/Φ⌋ cpus *dedicated* to it, which never move, and competes
//! with what is left, φ̂ = φ − ⌊φ·P/Φ⌋·Φ/P, for one more. So a client always has the floor or the
//! ceiling of the cpus that it is worth: *smoothness*.
//!
//! # Why it is right
//!
//! Let i be without a cpu, and j anybody. When j was last given a cpu, i was either a candidate, and
//! F_j was not above F_i, or running, and it went on until its F passed F_j (Lemma 3.1). Either way
//! w_j/φ_j ≤ (w_i + 1)/φ_i (Lemma 3.2); summed over j with weights φ_j that is e_i ≥ −1. A running
//! client is worth no more than its cpu, so its error does not fall (Lemma 3.4). Errors sum to 0, so
//! none is above N (Theorem 3.5).
//!
//! The price is paid at the upper end: heavy clients run first. With weights 40, 20 and forty of 1
//! on two cpus, the second client has 20 quanta after 40, and 16 were its due.
//!
//! # As a policy for tasks
//!
//! The interval is the quantum, and the weights are made feasible, so no task is worth more than a
//! cpu; one that is worth exactly a cpu keeps the one that it gets (it is dedicated to it). Start
//! tags and virtual time as in [`tags`](crate::tags): a new task starts at the mean, a woken one at
//! the mean or at its old tag if that is ahead.
//!
//! *Bound*: −1 ≤ e ≤ N (Theorem 3.5), in quanta. *Cost*: `pick` and `charge` O(log N), `wake`,
//! `block` O(P log N); as GDQ's allocator O(g) for g ≤ 32 groups. *Cpus*: any number;
//! work-conserving.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Bound, Cost, Entry, Ratio};
use crate::effective::Start;
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::Heap;
use crate::tags::{State, Tags};
use crate::turns::Payment;

pub(super) const ENTRY: Entry = Entry {
    name: "mfq",
    title: "Multiprocessor fair queueing",
    paper: "Caprita, Nieh, Stein, GDQ tech. report 2005, §2.2.1",
    bound: Bound {
        text: "−1 ≤ e ≤ N",
        lower: Some(|_, _| Ratio::whole(-1)),
        upper: Some(|set, _| Ratio::whole(set.weights.len() as i128)),
        exact_each_cycle: false,
    },
    cost: Cost { pick: "log N", insert: "P log N", remove: "P log N" },
    multiprocessor: true,
    work_conserving: true,
    by_weight: true,
    payment: Payment::USE,
    options: &[],
    build: |setup, _| Ok(Box::new(Mfq::new(setup))),
};

/// MFQ for tasks. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Mfq {
    quantum_ns: Nanos,
    tags: Tags,
    /// The waiting tasks by virtual finishing time.
    waiting: Heap<Start>,
    /// The task that each cpu ran last.
    last: Vec<Option<TaskId>>,
}

impl Mfq {
    /// MFQ over no tasks.
    #[must_use]
    pub fn new(setup: &Setup) -> Mfq {
        Mfq {
            quantum_ns: setup.quantum_ns,
            tags: Tags::new(setup.cpus),
            waiting: Heap::default(),
            last: alloc::vec![None; setup.cpus],
        }
    }

    fn finish(&self, task: TaskId) -> Start {
        self.tags.start_after(task, i128::from(self.quantum_ns))
    }

    /// The task that ran last on `cpu`, if it waits and is worth a whole cpu.
    fn dedicated(&self, cpu: CpuId) -> Option<TaskId> {
        let task = self.last[cpu].filter(|&task| self.tags.state(task) == State::Waiting)?;
        (self.tags.effective(task) == self.tags.runnable().per_cpu()).then_some(task)
    }

    fn refresh_moved(&mut self) {
        for i in 0..self.tags.moved().len() {
            let task = self.tags.moved()[i];
            if self.tags.state(task) == State::Waiting {
                self.waiting.update(task, self.finish(task));
            }
        }
    }
}

impl Policy for Mfq {
    fn add(&mut self, task: TaskId, weight: Weight) {
        self.tags.add(task, weight);
        self.waiting.reserve(task.index() + 1);
    }

    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        if self.tags.state(task) == State::Waiting {
            self.block(task, now_ns);
        }
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, _now_ns: Nanos) {
        self.tags.set_weight(task, weight, self.tags.mean());
        self.refresh_moved();
    }

    fn wake(&mut self, task: TaskId, _now_ns: Nanos) {
        self.tags.wake(task, self.tags.mean());
        self.waiting.insert(task, self.finish(task));
        self.refresh_moved();
    }

    fn block(&mut self, task: TaskId, _now_ns: Nanos) {
        self.tags.leave(task, self.tags.mean());
        self.waiting.remove(task);
        self.refresh_moved();
    }

    fn pick(&mut self, cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        let task = match self.dedicated(cpu) {
            Some(task) => task,
            None => self.waiting.peek()?.0,
        };
        self.waiting.remove(task);
        self.tags.run(task);
        self.last[cpu] = Some(task);
        Some(task)
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, _now_ns: Nanos) {
        self.tags.charge(task, used_ns);
        self.waiting.insert(task, self.finish(task));
    }
}

//! Round robin: every waiting task in turn, whatever its weight. The floor: the cheapest thing
//! that can be called a scheduler, measured beside the others.
//!
//! *Bound*: none for unequal weights; with equal weights on one cpu every service error is
//! within (−1, 1) quantum. *Cost*: O(1) for every verb. *Cpus*: any number.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Bound, Cost, Entry};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::{NodeId, Rings};
use crate::turns::Payment;

pub(super) const ENTRY: Entry = Entry {
    name: "round-robin",
    title: "Round robin",
    paper: "folklore",
    bound: Bound::none("none, unless all weights are equal: (−1, 1)"),
    cost: Cost { pick: "1", insert: "1", remove: "1" },
    multiprocessor: true,
    work_conserving: true,
    by_weight: false,
    payment: Payment::turns(3),
    options: &[],
    build: |setup, _| Ok(Box::new(RoundRobin::new(setup))),
};

/// Round robin. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct RoundRobin {
    /// Waiting tasks, the next one first.
    waiting: Rings<TaskId, 1>,
    head: Option<NodeId>,
    /// Where each task waits; `None` if it is blocked or running.
    node: Vec<Option<NodeId>>,
}

impl RoundRobin {
    /// Round robin over no tasks.
    #[must_use]
    pub fn new(_setup: &Setup) -> RoundRobin {
        RoundRobin { waiting: Rings::default(), head: None, node: Vec::new() }
    }

    fn enqueue(&mut self, task: TaskId) {
        let node = match self.head {
            Some(head) => self.waiting.insert_before(0, head, task),
            None => *self.head.insert(self.waiting.insert_alone(0, task)),
        };
        self.node[task.index()] = Some(node);
    }

    fn dequeue(&mut self, task: TaskId) {
        let Some(node) = self.node[task.index()].take() else { return };
        let next = self.waiting.remove(0, node);
        if self.head == Some(node) {
            self.head = next;
        }
    }
}

impl Policy for RoundRobin {
    fn add(&mut self, task: TaskId, _weight: Weight) {
        if self.node.len() <= task.index() {
            self.node.resize(task.index() + 1, None);
            self.waiting.reserve(self.node.len());
        }
    }

    fn remove(&mut self, task: TaskId, _now_ns: Nanos) {
        self.dequeue(task);
    }

    fn set_weight(&mut self, _task: TaskId, _weight: Weight, _now_ns: Nanos) {}

    fn wake(&mut self, task: TaskId, _now_ns: Nanos) {
        self.enqueue(task);
    }

    fn block(&mut self, task: TaskId, _now_ns: Nanos) {
        self.dequeue(task);
    }

    fn pick(&mut self, _cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        let task = *self.waiting.get(self.head?);
        self.dequeue(task);
        Some(task)
    }

    fn charge(&mut self, task: TaskId, _used_ns: Nanos, _now_ns: Nanos) {
        self.enqueue(task);
    }
}

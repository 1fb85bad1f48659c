//! Stratified round robin (Ramabhadran and Pasquale, SIGCOMM 2003): tasks of similar weight in
//! classes; deadlines between the classes, deficit round robin inside.
//!
//! *How.* Let C = 2^K be the least power of two that is at least Φ: the capacity of which weights are
//! fractions. Class σ holds the tasks with 2^σ ≤ φ < 2^(σ+1), that is, the fractions
//! 2^−k ≤ φ/C < 2^−(k−1) with k = K − σ. Time is counted in *slots*; the k-th class divides it into
//! intervals of 2^k slots, and in every interval each of its tasks gets one slot. A class is pending
//! while a task of it has not had its slot of the current interval; among the pending classes the one
//! whose interval ends first gets the next slot, ties to the heavier. If none is pending, time moves
//! on to where the next interval begins.
//!
//! In its slot a task's deficit grows by φ/2^σ, one or nearly two quanta; it runs while the deficit
//! covers a quantum: one or two quanta in a row.
//!
//! *Why it is right.* A slot each 2^k, over all tasks, is at most Φ/C ≤ 1 of all slots, so that
//! earliest deadline first meets every deadline. After C slots every interval is complete and every
//! task has had 2^σ·φ/2^σ = φ quanta: e = 0 after every Φ quanta.
//!
//! *Bound.* A single packet's delay is bounded there; the service error is not bounded by a constant:
//! with one task of C/2 and 2^k of C/2^(k+2) (GR3 section 6) all tasks of the light class run in the
//! first interval, and the heavy one falls N/3 behind.
//!
//! *Dynamics.* A task that wakes takes part in the current interval if nobody of its class has been
//! served in it, and in the next one otherwise. If K changes, slots are counted in the new scale so
//! that every class stays in its interval. A blocked task loses its deficit. A new weight is a leave
//! and a join. *Cost*: O(g) for the next class, g ≤ 32 classes. *Cpus*: one.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Bound, Cost, Entry};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::Circles;
use crate::turns::Payment;

pub(super) const ENTRY: Entry = Entry {
    name: "stratified",
    title: "Stratified round robin",
    paper: "Ramabhadran, Pasquale 2003, section 3",
    bound: Bound {
        text: "e = 0 after every Φ quanta; O(N) in between",
        lower: None,
        upper: None,
        exact_each_cycle: true,
    },
    cost: Cost { pick: "g", insert: "1", remove: "1" },
    multiprocessor: false,
    work_conserving: true,
    by_weight: true,
    payment: Payment::turns(3),
    options: &[],
    build: |setup, _| Ok(Box::new(Stratified::new(setup))),
};

/// Orders of weights.
const CLASSES: usize = 32;
/// No interval yet.
const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Task {
    weight: Weight,
    /// In units of 2^−σ quanta, below one quantum between slots.
    deficit: u64,
    /// The interval of its class in which it had its last slot.
    served: u64,
}

/// Stratified round robin. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Stratified {
    /// Waiting tasks and the running one by order; those that wait for their slot of the current
    /// interval come first.
    classes: Circles<CLASSES>,
    /// The classes that are not empty.
    present: u32,
    tasks: Vec<Task>,
    /// Φ of the tasks in classes.
    total: u64,
    /// K.
    capacity_order: u32,
    /// Slots handed out, in the scale of K, modulo two cycles: below 2^(K+1). Nothing but the
    /// difference between one interval and the next is made of it.
    slot: u64,
    /// The task whose slot goes on.
    holder: Option<TaskId>,
}

impl Stratified {
    /// Stratified round robin over no tasks.
    #[must_use]
    pub fn new(_setup: &Setup) -> Stratified {
        Stratified {
            classes: Circles::default(),
            present: 0,
            tasks: Vec::new(),
            total: 0,
            capacity_order: 0,
            slot: 0,
            holder: None,
        }
    }

    /// The length of an interval of class `order` is two to this.
    fn interval_order(&self, order: usize) -> u32 {
        self.capacity_order - u32::try_from(order).expect("below 32")
    }

    fn interval(&self, order: usize) -> u64 {
        self.slot >> self.interval_order(order)
    }

    /// The first slot after the current interval of class `order`.
    fn interval_end(&self, order: usize) -> u64 {
        (self.interval(order) + 1) << self.interval_order(order)
    }

    fn set_slot(&mut self, slot: u64) {
        self.slot = slot & ((2 << self.capacity_order) - 1);
    }

    fn set_total(&mut self, total: u64) {
        self.total = total;
        let order = total.max(1).next_power_of_two().ilog2();
        self.slot = match order.checked_sub(self.capacity_order) {
            Some(more) => self.slot << more,
            None => self.slot >> (self.capacity_order - order),
        };
        self.capacity_order = order;
    }

    fn join(&mut self, task: TaskId) {
        let weight = self.tasks[task.index()].weight;
        let order = weight.order() as usize;
        self.set_total(self.total + u64::from(weight.get()));
        let interval = self.interval(order);
        let is_late = self
            .classes
            .last(order)
            .is_some_and(|last| self.tasks[last.index()].served == interval);
        self.tasks[task.index()].served = if is_late { interval } else { NEVER };
        self.tasks[task.index()].deficit = 0;
        self.classes.push(order, task);
        self.present |= 1 << order;
    }

    fn leave(&mut self, task: TaskId) {
        let Some(order) = self.classes.remove(task) else { return };
        if self.classes.is_empty(order) {
            self.present &= !(1 << order);
        }
        self.holder = self.holder.filter(|&holder| holder != task);
        self.set_total(self.total - u64::from(self.tasks[task.index()].weight.get()));
    }

    /// The pending class whose interval ends first.
    fn pending(&self) -> Option<usize> {
        let is_pending = |&order: &usize| {
            let first = self.classes.first(order)?;
            (self.tasks[first.index()].served != self.interval(order)).then_some(())
        };
        let mut best: Option<(u64, usize)> = None;
        let mut left = self.present;
        while left != 0 {
            let order = left.ilog2() as usize;
            left &= !(1 << order);
            let end = self.interval_end(order);
            if is_pending(&order).is_some() && best.is_none_or(|(earliest, _)| end < earliest) {
                best = Some((end, order));
            }
        }
        best.map(|(_, order)| order)
    }

    /// Gives the next slot to a task.
    fn next_slot(&mut self) -> Option<TaskId> {
        if self.present == 0 {
            return None;
        }
        let order = loop {
            match self.pending() {
                Some(order) => break order,
                // The heaviest class has the shortest intervals.
                None => self.set_slot(self.interval_end(self.present.ilog2() as usize)),
            }
        };
        let task = self.classes.first(order)?;
        let interval = self.interval(order);
        let known = &mut self.tasks[task.index()];
        known.served = interval;
        known.deficit += u64::from(known.weight.get());
        self.classes.rotate(order);
        self.set_slot(self.slot + 1);
        Some(task)
    }
}

impl Policy for Stratified {
    fn add(&mut self, task: TaskId, weight: Weight) {
        let new = Task { weight, deficit: 0, served: NEVER };
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, new);
            self.classes.reserve(self.tasks.len());
        }
        self.tasks[task.index()] = new;
    }

    fn remove(&mut self, task: TaskId, _now_ns: Nanos) {
        self.leave(task);
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, _now_ns: Nanos) {
        let joined = self.classes.contains(task);
        self.leave(task);
        self.tasks[task.index()].weight = weight;
        if joined {
            self.join(task);
        }
    }

    fn wake(&mut self, task: TaskId, _now_ns: Nanos) {
        self.join(task);
    }

    fn block(&mut self, task: TaskId, _now_ns: Nanos) {
        self.leave(task);
    }

    fn pick(&mut self, _cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        let task = match self.holder {
            Some(holder) => holder,
            None => self.next_slot()?,
        };
        let known = &mut self.tasks[task.index()];
        let quantum = 1 << known.weight.order();
        known.deficit -= quantum;
        self.holder = (known.deficit >= quantum).then_some(task);
        Some(task)
    }

    fn charge(&mut self, _task: TaskId, _used_ns: Nanos, _now_ns: Nanos) {}
}

//! Smoothed round robin (Guo, SIGCOMM 2001): the binary digits of the weights, spread by a fixed
//! sequence.
//!
//! *How.* Write the weights below each other in binary: a *weight matrix* with a row for each task and
//! a column for each bit. Visiting column n serves, once and in order, every task whose bit n is set.
//! With K columns, visiting column n 2^n times serves each task as often as its weight says; the
//! *weight spread sequence* does so evenly: S_1 = 1, S_k = S_{k−1}, k, S_{k−1}, and the term v of S_K
//! visits column K − v. For K = 3: 1 2 1 3 1 2 1, the columns 2 1 2 0 2 1 2.
//!
//! The sequence need not be stored: its i-th term, from 1, is 1 + the number of zeros in which i ends
//! in binary, as in a counter.
//!
//! *Why it is right.* A pass over S_K has 2^K − 1 terms and serves every task φ times: e = 0 after
//! every Φ quanta. The most significant column has every other term, so that heavy tasks are served
//! at short, regular distances.
//!
//! *Bound.* None that is small: between two visits of its own column a task waits for all tasks of
//! the others; worst case O(K·N) (GR3 section 6), −369..369 quanta in its figure 8.
//!
//! *Dynamics.* A task that wakes joins its columns at their ends; one that leaves while its column is
//! being served hands the turn to the next. If K changes, the place in the sequence is scaled by the
//! same power of two, which continues with the same column. A new weight is a leave and a join.
//!
//! *Cost.* A decision is O(1): every other term visits the most significant column, which is never
//! empty. Wake and block O(K), K ≤ 32. *Cpus*: one. A partial quantum counts as a whole one.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Bound, Cost, Entry};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::{NodeId, Rings};
use crate::turns::Payment;

pub(super) const ENTRY: Entry = Entry {
    name: "srr",
    title: "Smoothed round robin",
    paper: "Guo 2001, section 3",
    bound: Bound {
        text: "e = 0 after every Φ quanta; O(K·N) in between, K bits in the largest weight",
        lower: None,
        upper: None,
        exact_each_cycle: true,
    },
    cost: Cost { pick: "1", insert: "K", remove: "K" },
    multiprocessor: false,
    work_conserving: true,
    by_weight: true,
    payment: Payment::turns(3),
    options: &[],
    build: |setup, _| Ok(Box::new(Srr::new(setup))),
};

/// Bits of a weight.
const COLUMNS: usize = 32;

/// A set bit of a weight: a place in that bit's column.
#[derive(Clone, Copy, Debug, Default)]
struct Bit {
    task: TaskId,
    /// The task's next lower set bit.
    lower: Option<NodeId>,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    weight: Weight,
    /// The task's most significant bit, if it is in the matrix.
    bits: Option<NodeId>,
}

/// SRR. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Srr {
    matrix: Rings<Bit, COLUMNS>,
    /// The first place of each column.
    first: [Option<NodeId>; COLUMNS],
    /// The columns that are not empty; K is the place of the highest, plus one.
    present: u32,
    /// Position in the sequence, 1..2^K.
    position: u64,
    /// The column being visited and the place to serve next.
    visit: Option<(usize, NodeId)>,
    tasks: Vec<Task>,
    /// Set bits of all known tasks.
    bits: usize,
}

impl Srr {
    /// SRR over no tasks.
    #[must_use]
    pub fn new(_setup: &Setup) -> Srr {
        Srr {
            matrix: Rings::default(),
            first: [None; COLUMNS],
            present: 0,
            position: 0,
            visit: None,
            tasks: Vec::new(),
            bits: 0,
        }
    }

    /// K.
    fn columns(&self) -> u32 {
        u32::BITS - self.present.leading_zeros()
    }

    /// Continues at the same column in the sequence for the present K rather than for `old`.
    fn rescale(&mut self, old: u32) {
        let columns = self.columns();
        self.position = match columns.checked_sub(old) {
            Some(more) => self.position << more,
            None => self.position >> (old - columns),
        };
    }

    fn join(&mut self, task: TaskId) {
        let old = self.columns();
        let weight = self.tasks[task.index()].weight.get();
        let mut lower = None;
        for column in (0..COLUMNS).filter(|column| weight >> column & 1 == 1) {
            let bit = Bit { task, lower };
            let first = &mut self.first[column];
            lower = Some(match *first {
                Some(first) => self.matrix.insert_before(column, first, bit),
                None => *first.insert(self.matrix.insert_alone(column, bit)),
            });
        }
        self.tasks[task.index()].bits = lower;
        self.present |= weight;
        self.rescale(old);
    }

    fn leave(&mut self, task: TaskId) {
        let old = self.columns();
        let weight = self.tasks[task.index()].weight.get();
        let mut bit = self.tasks[task.index()].bits.take();
        for column in (0..COLUMNS).rev().filter(|column| weight >> column & 1 == 1) {
            let Some(node) = bit else { return };
            bit = self.matrix.get(node).lower;
            let next = self.matrix.remove(column, node);
            if let Some((_, served)) = self.visit
                && served == node
                && self.visit.is_some_and(|(visited, _)| visited == column)
            {
                // The visit is over when it comes round to the first place.
                let next = next.filter(|&next| Some(next) != self.first[column]);
                self.visit = next.map(|next| (column, next));
            }
            if self.first[column] == Some(node) {
                self.first[column] = next;
            }
            if next.is_none() {
                self.present &= !(1 << column);
            }
        }
        self.rescale(old);
    }

    /// The next column in the sequence that is not empty, from its first place.
    fn next_visit(&mut self) -> Option<(usize, NodeId)> {
        if self.present == 0 {
            self.position = 0;
            return None;
        }
        let columns = self.columns();
        loop {
            self.position += 1;
            if self.position >> columns != 0 {
                self.position = 1;
            }
            let column = (columns - 1 - self.position.trailing_zeros()) as usize;
            if let Some(first) = self.first[column] {
                return Some((column, first));
            }
        }
    }
}

impl Policy for Srr {
    fn add(&mut self, task: TaskId, weight: Weight) {
        let new = Task { weight, bits: None };
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, new);
        }
        self.tasks[task.index()] = new;
        self.bits += weight.get().count_ones() as usize;
        self.matrix.reserve(self.bits);
    }

    fn remove(&mut self, task: TaskId, _now_ns: Nanos) {
        if self.tasks[task.index()].bits.is_some() {
            self.leave(task);
        }
        self.bits -= self.tasks[task.index()].weight.get().count_ones() as usize;
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, _now_ns: Nanos) {
        let joined = self.tasks[task.index()].bits.is_some();
        if joined {
            self.leave(task);
        }
        let known = &mut self.tasks[task.index()];
        self.bits -= known.weight.get().count_ones() as usize;
        known.weight = weight;
        self.bits += weight.get().count_ones() as usize;
        self.matrix.reserve(self.bits);
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
        let (column, node) = match self.visit {
            Some(visit) => visit,
            None => self.next_visit()?,
        };
        let next = self.matrix.next(node);
        self.visit = (Some(next) != self.first[column]).then_some((column, next));
        Some(self.matrix.get(node).task)
    }

    fn charge(&mut self, _task: TaskId, _used_ns: Nanos, _now_ns: Nanos) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 3.2's sequence, from the counter.
    #[test]
    fn the_weight_spread_sequence_is_a_counter() {
        let mut sequence: Vec<u32> = Vec::new();
        for k in 1..=10 {
            let before = sequence.clone();
            sequence.push(k);
            sequence.extend(before);
        }
        let counted = (1u32..).take(sequence.len()).map(|i| i.trailing_zeros() + 1);
        assert!(counted.eq(sequence));
    }
}

//! Queues of tasks that are served in turn: the first is served, rotates to the back, or leaves.
//!
//! Cost: every call O(1); nothing allocates but [`Circles::reserve`].

use alloc::vec::Vec;

use super::{NodeId, Rings};
use crate::policy::TaskId;

#[derive(Clone, Copy, Debug)]
struct Place {
    node: NodeId,
    circle: usize,
}

/// `N` queues of tasks; a task is in at most one of them.
#[derive(Clone, Debug)]
pub struct Circles<const N: usize> {
    rings: Rings<TaskId, N>,
    /// The first task of each queue.
    first: [Option<NodeId>; N],
    places: Vec<Option<Place>>,
}

impl<const N: usize> Default for Circles<N> {
    fn default() -> Self {
        Circles { rings: Rings::default(), first: [None; N], places: Vec::new() }
    }
}

impl<const N: usize> Circles<N> {
    /// Makes room for tasks with ids below `ids`; the only call that allocates.
    pub fn reserve(&mut self, ids: usize) {
        if ids > self.places.len() {
            self.places.resize(ids, None);
            self.rings.reserve(ids);
        }
    }

    /// The first task of a queue.
    #[inline]
    #[must_use]
    pub fn first(&self, circle: usize) -> Option<TaskId> {
        self.first[circle].map(|node| *self.rings.get(node))
    }

    /// The last task of a queue.
    #[must_use]
    pub fn last(&self, circle: usize) -> Option<TaskId> {
        self.first[circle].map(|node| *self.rings.get(self.rings.previous(node)))
    }

    /// True if `task` is in a queue.
    #[must_use]
    pub fn contains(&self, task: TaskId) -> bool {
        self.places[task.index()].is_some()
    }

    /// True if nothing is in the queue.
    #[inline]
    #[must_use]
    pub fn is_empty(&self, circle: usize) -> bool {
        self.first[circle].is_none()
    }

    /// Puts `task`, which is in no queue, at the back of one.
    pub fn push(&mut self, circle: usize, task: TaskId) {
        debug_assert!(!self.contains(task), "{task:?} is in a queue");
        let node = match self.first[circle] {
            Some(first) => self.rings.insert_before(circle, first, task),
            None => *self.first[circle].insert(self.rings.insert_alone(circle, task)),
        };
        self.places[task.index()] = Some(Place { node, circle });
    }

    /// Puts `task`, which is in no queue, at the front of one.
    pub fn push_front(&mut self, circle: usize, task: TaskId) {
        self.push(circle, task);
        self.first[circle] = self.places[task.index()].map(|place| place.node);
    }

    /// Takes `task` out of its queue; which one that was, if any.
    pub fn remove(&mut self, task: TaskId) -> Option<usize> {
        let Place { node, circle } = self.places[task.index()].take()?;
        let next = self.rings.remove(circle, node);
        if self.first[circle] == Some(node) {
            self.first[circle] = next;
        }
        Some(circle)
    }

    /// The first task of a queue becomes its last.
    #[inline]
    pub fn rotate(&mut self, circle: usize) {
        self.first[circle] = self.first[circle].map(|node| self.rings.next(node));
    }

    /// The tasks of a queue, from the first to the last.
    pub fn iter(&self, circle: usize) -> impl Iterator<Item = TaskId> + '_ {
        let nodes = self.first[circle].into_iter().flat_map(|node| self.rings.iter_from(node));
        nodes.map(|node| *self.rings.get(node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    proptest! {
        /// Against the naive twin: a `VecDeque` for each queue.
        #[test]
        fn behave_like_deques(steps in proptest::collection::vec((0u8..5, 0u32..30, 0usize..3), 1..300)) {
            let mut circles = Circles::<3>::default();
            circles.reserve(30);
            let mut naive: [VecDeque<TaskId>; 3] = Default::default();
            for (verb, id, circle) in steps {
                let task = TaskId(id);
                let held = naive.iter().position(|queue| queue.contains(&task));
                prop_assert_eq!(circles.contains(task), held.is_some());
                match (verb, held) {
                    (0, None) => {
                        circles.push(circle, task);
                        naive[circle].push_back(task);
                    }
                    (1, None) => {
                        circles.push_front(circle, task);
                        naive[circle].push_front(task);
                    }
                    (2, _) => {
                        prop_assert_eq!(circles.remove(task), held);
                        naive.iter_mut().for_each(|queue| queue.retain(|&other| other != task));
                    }
                    _ => {
                        circles.rotate(circle);
                        let len = naive[circle].len().max(1);
                        naive[circle].rotate_left(1 % len);
                    }
                }
                for (circle, queue) in naive.iter().enumerate() {
                    prop_assert!(circles.iter(circle).eq(queue.iter().copied()));
                    prop_assert_eq!(circles.first(circle), queue.front().copied());
                    prop_assert_eq!(circles.last(circle), queue.back().copied());
                    prop_assert_eq!(circles.is_empty(circle), queue.is_empty());
                }
            }
        }
    }
}

//! Queues of tasks that are linked by task: eight bytes a task, however many queues there are.
//!
//! Whoever owns a queue keeps its first task, and knows which queue a task is in. Compared with
//! [`Rings`](super::Rings) this takes less room and needs no node to be remembered, but a walk goes
//! wherever the ids lead it: for queues that are walked seldom.
//!
//! Cost: every call O(1); nothing allocates but [`Links::reserve`].

use alloc::vec::Vec;

use crate::policy::TaskId;

#[derive(Clone, Copy, Debug)]
struct Link {
    /// Around the queue: the last task comes before the first. [`NOBODY`] if it is in no queue.
    next: TaskId,
    previous: TaskId,
}

const NOBODY: TaskId = TaskId(u32::MAX);
const UNLINKED: Link = Link { next: NOBODY, previous: NOBODY };

/// The links of all tasks; a task is in at most one queue.
#[derive(Clone, Debug, Default)]
pub struct Links {
    links: Vec<Link>,
}

impl Links {
    /// Makes room for tasks with ids below `ids`; the only call that allocates.
    pub fn reserve(&mut self, ids: usize) {
        if ids > self.links.len() {
            self.links.resize(ids, UNLINKED);
        }
    }

    /// True if `task` is in a queue.
    #[must_use]
    pub fn contains(&self, task: TaskId) -> bool {
        self.links[task.index()].next != NOBODY
    }

    /// Puts `task`, which is in no queue, at the back of the queue of this first task.
    pub fn push(&mut self, first: &mut Option<TaskId>, task: TaskId) {
        debug_assert!(!self.contains(task), "{task:?} is in a queue");
        let next = *first.get_or_insert(task);
        let previous = if next == task { task } else { self.links[next.index()].previous };
        self.links[task.index()] = Link { next, previous };
        self.links[previous.index()].next = task;
        self.links[next.index()].previous = task;
    }

    /// Takes `task` out of its queue, of this first task.
    pub fn remove(&mut self, first: &mut Option<TaskId>, task: TaskId) {
        debug_assert!(self.contains(task), "{task:?} is in no queue");
        let Link { next, previous } = self.links[task.index()];
        self.links[previous.index()].next = next;
        self.links[next.index()].previous = previous;
        self.links[task.index()] = UNLINKED;
        if *first == Some(task) {
            *first = (next != task).then_some(next);
        }
    }

    /// The task after `task` in its queue, after the last one the first.
    #[inline]
    #[must_use]
    pub fn next(&self, task: TaskId) -> TaskId {
        self.links[task.index()].next
    }

    /// The task before `task` in its queue, before the first one the last.
    #[inline]
    #[must_use]
    pub fn previous(&self, task: TaskId) -> TaskId {
        self.links[task.index()].previous
    }

    /// The tasks of the queue of this first task.
    pub fn iter(&self, first: Option<TaskId>) -> impl Iterator<Item = TaskId> + '_ {
        let mut at = first;
        core::iter::from_fn(move || {
            let task = at?;
            let next = self.next(task);
            at = (Some(next) != first).then_some(next);
            Some(task)
        })
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
        fn behave_like_deques(steps in proptest::collection::vec((0u32..20, 0usize..3), 1..300)) {
            let mut links = Links::default();
            links.reserve(20);
            let mut firsts = [None; 3];
            let mut naive: [VecDeque<TaskId>; 3] = Default::default();
            for (id, queue) in steps {
                let task = TaskId(id);
                let held = naive.iter().position(|tasks| tasks.contains(&task));
                prop_assert_eq!(links.contains(task), held.is_some());
                match held {
                    None => {
                        links.push(&mut firsts[queue], task);
                        naive[queue].push_back(task);
                    }
                    Some(held) if held == queue => {
                        firsts[queue] = Some(links.next(task));
                        while naive[queue].back() != Some(&task) {
                            naive[queue].rotate_left(1);
                        }
                    }
                    Some(held) => {
                        links.remove(&mut firsts[held], task);
                        naive[held].retain(|&other| other != task);
                    }
                }
                for (&first, tasks) in firsts.iter().zip(&naive) {
                    prop_assert!(links.iter(first).eq(tasks.iter().copied()));
                    for task in links.iter(first) {
                        prop_assert_eq!(links.previous(links.next(task)), task);
                    }
                }
            }
        }
    }
}

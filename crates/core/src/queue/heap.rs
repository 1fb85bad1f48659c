//! A binary min-heap of tasks that finds any task by its id.
//!
//! A plain heap gives up its least element; a scheduler must also take out a task that blocks and
//! move one whose key changed. The heap therefore keeps, beside the array of entries, the place
//! of every task in it.
//!
//! Cost: `peek`, `key` and `contains` O(1), the rest O(log N), most cheaply for a key that grows a
//! little (the common case: the task that just ran). Nothing allocates but [`Heap::reserve`].

use alloc::vec::Vec;

use crate::policy::TaskId;

/// Not in the heap.
const NOWHERE: u32 = u32::MAX;

/// Tasks by key, the least first; equal keys by task id, the least first.
#[derive(Clone, Debug)]
pub struct Heap<K> {
    /// Every entry is at least its parent, the entry at half its place.
    entries: Vec<(K, TaskId)>,
    /// Where in `entries` each task is: `entries[place[t]].1 == t`.
    place: Vec<u32>,
}

impl<K> Default for Heap<K> {
    fn default() -> Self {
        Heap { entries: Vec::new(), place: Vec::new() }
    }
}

impl<K: Ord + Copy> Heap<K> {
    /// Makes room for tasks with ids below `ids`; the only call that allocates.
    pub fn reserve(&mut self, ids: usize) {
        if ids > self.place.len() {
            self.place.resize(ids, NOWHERE);
            self.entries.reserve(ids - self.entries.len());
        }
    }

    /// Number of tasks in the heap.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if no task is in the heap.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// True if `task` is in the heap.
    #[must_use]
    pub fn contains(&self, task: TaskId) -> bool {
        self.find(task).is_some()
    }

    /// The key of `task`, if it is in the heap.
    #[must_use]
    pub fn key(&self, task: TaskId) -> Option<&K> {
        Some(&self.entries[self.find(task)?].0)
    }

    /// The task of least key, and its key.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Option<(TaskId, &K)> {
        self.entries.first().map(|(key, task)| (*task, key))
    }

    /// Puts `task` in.
    ///
    /// # Panics
    /// When it is in already, or no room was reserved for its id.
    pub fn insert(&mut self, task: TaskId, key: K) {
        assert_eq!(self.place[task.index()], NOWHERE, "{task:?} is in the heap already");
        self.entries.push((key, task));
        self.sift_up(self.entries.len() - 1);
    }

    /// Takes `task` out; its key, or `None` if it was not in.
    pub fn remove(&mut self, task: TaskId) -> Option<K> {
        let at = self.find(task)?;
        let (key, _) = self.entries.swap_remove(at);
        self.place[task.index()] = NOWHERE;
        if at < self.entries.len() {
            self.restore(at);
        }
        Some(key)
    }

    /// Takes out the task of least key.
    #[inline]
    pub fn pop(&mut self) -> Option<(TaskId, K)> {
        let (task, _) = self.peek()?;
        self.remove(task).map(|key| (task, key))
    }

    /// Gives `task` another key.
    ///
    /// # Panics
    /// When it is not in.
    #[inline]
    pub fn update(&mut self, task: TaskId, key: K) {
        let at = self.place[task.index()] as usize;
        self.entries[at].0 = key;
        self.restore(at);
    }

    /// The tasks and their keys, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (TaskId, &K)> {
        self.entries.iter().map(|(key, task)| (*task, key))
    }

    #[inline]
    fn find(&self, task: TaskId) -> Option<usize> {
        self.place.get(task.index()).filter(|&&at| at != NOWHERE).map(|&at| at as usize)
    }

    /// Moves the entry at `at`, whose key is anything, to where it belongs.
    #[inline]
    fn restore(&mut self, at: usize) {
        if at > 0 && self.before(at, (at - 1) / 2) {
            self.sift_up(at);
        } else {
            self.sift_down(at);
        }
    }

    #[inline]
    fn before(&self, a: usize, b: usize) -> bool {
        self.entries[a] < self.entries[b]
    }

    #[inline]
    fn set(&mut self, at: usize, entry: (K, TaskId)) {
        self.entries[at] = entry;
        // An index of `entries` fits: ids do, and no task is in twice.
        #[expect(clippy::cast_possible_truncation)]
        let place = at as u32;
        self.place[entry.1.index()] = place;
    }

    fn sift_up(&mut self, mut at: usize) {
        let entry = self.entries[at];
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.entries[parent] <= entry {
                break;
            }
            self.set(at, self.entries[parent]);
            at = parent;
        }
        self.set(at, entry);
    }

    fn sift_down(&mut self, mut at: usize) {
        let entry = self.entries[at];
        loop {
            let left = 2 * at + 1;
            if left >= self.entries.len() {
                break;
            }
            let right = left + 1;
            let child = left + usize::from(right < self.entries.len() && self.before(right, left));
            if entry <= self.entries[child] {
                break;
            }
            self.set(at, self.entries[child]);
            at = child;
        }
        self.set(at, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the naive twin: an unsorted `Vec`, searched.
        #[test]
        fn behaves_like_a_searched_vec(
            steps in proptest::collection::vec((0u8..6, 0u32..40, 0u8..20), 1..400),
        ) {
            let mut heap = Heap::default();
            heap.reserve(40);
            let mut naive: Vec<(u8, TaskId)> = Vec::new();
            for (verb, id, key) in steps {
                let task = TaskId(id);
                let at = naive.iter().position(|&(_, t)| t == task);
                prop_assert_eq!(heap.key(task), at.map(|at| &naive[at].0));
                match (verb, at) {
                    (0..=2, None) => {
                        heap.insert(task, key);
                        naive.push((key, task));
                    }
                    (0..=2, Some(at)) => {
                        heap.update(task, key);
                        naive[at].0 = key;
                    }
                    (3, _) => {
                        let key = at.map(|at| naive.remove(at).0);
                        prop_assert_eq!(heap.remove(task), key);
                    }
                    _ => {
                        let least = naive.iter().copied().min();
                        prop_assert_eq!(heap.pop(), least.map(|(k, t)| (t, k)));
                        naive.retain(|&entry| Some(entry) != least);
                    }
                }
                let least = naive.iter().min().map(|(k, t)| (*t, k));
                prop_assert_eq!(heap.peek(), least);
                prop_assert_eq!(heap.len(), naive.len());
                prop_assert_eq!(heap.iter().count(), naive.len());
            }
        }
    }
}

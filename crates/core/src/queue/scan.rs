//! A list of tasks that is searched for the least key: what a run queue in a kernel is at first.
//!
//! Cost: `peek` O(N), the rest O(1); nothing allocates but [`Ready::reserve`].

use alloc::vec::Vec;

use super::Ready;
use crate::policy::TaskId;

/// Not in the list.
const NOWHERE: u32 = u32::MAX;

/// An unordered list that answers like a [`Heap`](super::Heap).
#[derive(Clone, Debug)]
pub struct Scan<K> {
    entries: Vec<(K, TaskId)>,
    /// Where in `entries` each task is: `entries[place[t]].1 == t`.
    place: Vec<u32>,
}

impl<K> Default for Scan<K> {
    fn default() -> Self {
        Scan { entries: Vec::new(), place: Vec::new() }
    }
}

impl<K: Ord + Copy> Ready<K> for Scan<K> {
    fn reserve(&mut self, ids: usize) {
        if ids > self.place.len() {
            self.place.resize(ids, NOWHERE);
            self.entries.reserve(ids - self.entries.len());
        }
    }

    fn insert(&mut self, task: TaskId, key: K) {
        assert_eq!(self.place[task.index()], NOWHERE, "{task:?} is in the list already");
        self.place[task.index()] = u32::try_from(self.entries.len()).expect("ids are u32");
        self.entries.push((key, task));
    }

    fn remove(&mut self, task: TaskId) -> Option<K> {
        let at = *self.place.get(task.index()).filter(|&&at| at != NOWHERE)?;
        let (key, _) = self.entries.swap_remove(at as usize);
        self.place[task.index()] = NOWHERE;
        if let Some(&(_, moved)) = self.entries.get(at as usize) {
            self.place[moved.index()] = at;
        }
        Some(key)
    }

    fn update(&mut self, task: TaskId, key: K) {
        let at = self.place[task.index()];
        self.entries[at as usize].0 = key;
    }

    fn peek(&self) -> Option<(TaskId, K)> {
        self.entries.iter().min().map(|&(key, task)| (task, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Heap;
    use proptest::prelude::*;

    proptest! {
        /// The heap is the twin here, as the list is what the heap's own twin does.
        #[test]
        fn behaves_like_a_heap(
            steps in proptest::collection::vec((0u8..4, 0u32..20, 0u8..20), 1..200),
        ) {
            let (mut scan, mut heap) = (Scan::default(), Heap::default());
            Ready::reserve(&mut scan, 20);
            Ready::reserve(&mut heap, 20);
            for (verb, id, key) in steps {
                let task = TaskId(id);
                match (verb, heap.contains(task)) {
                    (0 | 1, false) => {
                        scan.insert(task, key);
                        heap.insert(task, key);
                    }
                    (0 | 1, true) => {
                        scan.update(task, key);
                        heap.update(task, key);
                    }
                    _ => prop_assert_eq!(scan.remove(task), heap.remove(task)),
                }
                prop_assert_eq!(scan.peek(), Ready::peek(&heap));
            }
        }
    }
}

//! The data structures that policies share. Each has a naive twin in its tests.

mod circles;
mod fenwick;
mod heap;
mod links;
mod rings;
mod scan;
mod sorted;
mod surplus;

pub use circles::Circles;
pub use fenwick::Fenwick;
pub use heap::Heap;
pub use links::Links;
pub use rings::{NodeId, Rings};
pub use scan::Scan;
pub use sorted::{Hint, Keyed, Place, Sorted};
pub use surplus::Surplus;

use crate::policy::TaskId;

/// A set of tasks with keys that gives the one of least key, of equal keys the one of least id.
pub trait Ready<K> {
    /// Makes room for tasks with ids below `ids`; the only call that allocates.
    fn reserve(&mut self, ids: usize);

    /// Puts in `task`, which is not in.
    fn insert(&mut self, task: TaskId, key: K);

    /// Takes `task` out; its key, or `None` if it was not in.
    fn remove(&mut self, task: TaskId) -> Option<K>;

    /// Gives `task`, which is in, another key.
    fn update(&mut self, task: TaskId, key: K);

    /// The task of least key, and its key.
    fn peek(&self) -> Option<(TaskId, K)>;
}

impl<K: Ord + Copy> Ready<K> for Heap<K> {
    fn reserve(&mut self, ids: usize) {
        Heap::reserve(self, ids);
    }
    fn insert(&mut self, task: TaskId, key: K) {
        Heap::insert(self, task, key);
    }
    fn remove(&mut self, task: TaskId) -> Option<K> {
        Heap::remove(self, task)
    }
    #[inline]
    fn update(&mut self, task: TaskId, key: K) {
        Heap::update(self, task, key);
    }
    #[inline]
    fn peek(&self) -> Option<(TaskId, K)> {
        Heap::peek(self).map(|(task, key)| (task, *key))
    }
}

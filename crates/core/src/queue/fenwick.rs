//! Partial sums of numbers by task, in a Fenwick tree.
//!
//! Cost: `set`, `get` and `find` O(log ids); nothing allocates but [`Fenwick::reserve`].

use alloc::vec::Vec;

use crate::policy::TaskId;

/// A number for each task; their sum is below 2^64.
#[derive(Clone, Debug, Default)]
pub struct Fenwick {
    /// `sums[i]` is the sum of the numbers of the tasks from i − 2^z + 1 to i, counted from 1, where
    /// z is the number of zeros that i ends in. The length is a power of two, plus 1 (or 0).
    sums: Vec<u64>,
    numbers: Vec<u64>,
}

impl Fenwick {
    /// Makes room for tasks with ids below `ids`, at 0; the only call that allocates.
    pub fn reserve(&mut self, ids: usize) {
        let old = self.numbers.len();
        if ids <= old {
            return;
        }
        let grown = ids.next_power_of_two();
        let total = self.total();
        self.numbers.resize(grown, 0);
        self.sums.resize(grown + 1, 0);
        // The entries at powers of two above the old length cover all old numbers.
        let mut i = old.max(1);
        while i <= grown {
            self.sums[i] = if i > old { total } else { self.sums[i] };
            i *= 2;
        }
    }

    /// The sum of all numbers.
    #[inline]
    #[must_use]
    pub fn total(&self) -> u64 {
        self.sums.last().copied().unwrap_or(0)
    }

    /// The number of `task`.
    #[inline]
    #[must_use]
    pub fn get(&self, task: TaskId) -> u64 {
        self.numbers[task.index()]
    }

    /// Gives `task` another number.
    pub fn set(&mut self, task: TaskId, number: u64) {
        let old = core::mem::replace(&mut self.numbers[task.index()], number);
        let mut i = task.index() + 1;
        while i < self.sums.len() {
            self.sums[i] = self.sums[i] - old + number;
            i += i & i.wrapping_neg();
        }
    }

    /// The task in whose range `point` falls when the numbers are laid end to end in the order of
    /// ids; `None` if `point` is not below the sum of all.
    #[must_use]
    pub fn find(&self, point: u64) -> Option<TaskId> {
        if point >= self.total() {
            return None;
        }
        let (mut below, mut left) = (0, point);
        let mut step = self.numbers.len();
        while step > 0 {
            let next = below + step;
            if next < self.sums.len() && self.sums[next] <= left {
                left -= self.sums[next];
                below = next;
            }
            step /= 2;
        }
        Some(TaskId(u32::try_from(below).expect("an id")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the naive twin: the numbers, added up.
        #[test]
        fn behaves_like_a_sum(
            steps in proptest::collection::vec((0u32..70, 0u64..50, any::<u64>()), 1..200),
        ) {
            let mut tree = Fenwick::default();
            let mut naive: Vec<u64> = Vec::new();
            for (id, number, point) in steps {
                if naive.len() <= id as usize {
                    naive.resize(id as usize + 1, 0);
                    tree.reserve(naive.len());
                }
                naive[id as usize] = number;
                tree.set(TaskId(id), number);
                prop_assert_eq!(tree.get(TaskId(id)), number);
                let total: u64 = naive.iter().sum();
                prop_assert_eq!(tree.total(), total);
                let point = point % (total + 1);
                let mut below = 0;
                let owner = naive.iter().position(|number| {
                    below += number;
                    point < below
                });
                prop_assert_eq!(tree.find(point).map(TaskId::index), owner);
            }
        }
    }
}

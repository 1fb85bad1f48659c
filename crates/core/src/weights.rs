//! Feasible weights: on P cpus no task can use more than one, so no weight may count for more
//! than 1/P of the total.
//!
//! Readjustment lowers every infeasible weight to exactly 1/P of the *resulting* total and leaves
//! the others alone (water-filling). With I the infeasible tasks, Q = P − |I| and Φ_f the total of
//! the feasible weights, the resulting total is P/Q·Φ_f, so every infeasible weight counts as
//! Φ_f/Q. That fraction is the whole result: a [`Cap`]. A task is infeasible exactly if its weight
//! is above the cap.
//!
//! Two algorithms with the same result: [`sorted`] (SFS, OSDI 2000, and DFS Fig. 1) needs the
//! tasks in order of weight; [`Classes`] (GR3 §3.3) needs only how many tasks of each order there
//! are, takes O(P), and looks into at most one group.

use alloc::vec::Vec;

use crate::policy::Weight;

/// No weight counts for more than `feasible` / `cpus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// Φ_f, the total weight of the feasible tasks.
    feasible: u64,
    /// Q = P − |I|, the cpus that the feasible tasks share. At least 1.
    cpus: u32,
}

impl Cap {
    /// Every weight is feasible.
    pub const NONE: Cap = Cap { feasible: u64::MAX, cpus: 1 };
    /// Every weight counts as 1: there is a cpu for each task.
    pub const EQUAL: Cap = Cap { feasible: 1, cpus: 1 };

    /// The cap as a fraction: its numerator Φ_f and its denominator Q.
    #[must_use]
    pub const fn fraction(self) -> (u64, u32) {
        (self.feasible, self.cpus)
    }

    /// True if a task of `weight` is infeasible.
    #[inline]
    #[must_use]
    pub const fn exceeded_by(self, weight: Weight) -> bool {
        self.scale(weight) > self.feasible
    }

    /// What `weight` counts for, times Q: comparable between tasks under one cap.
    #[inline]
    #[must_use]
    pub const fn effective(self, weight: Weight) -> u64 {
        let scaled = self.scale(weight);
        if scaled > self.feasible { self.feasible } else { scaled }
    }

    /// The order of the cap: 2^σ ≤ Φ_f/Q < 2^(σ+1).
    #[must_use]
    pub const fn order(self) -> u32 {
        (self.feasible / self.cpus as u64).ilog2()
    }

    const fn scale(self, weight: Weight) -> u64 {
        weight.get() as u64 * self.cpus as u64
    }

    fn new(feasible: u64, cpus: usize, infeasible: usize) -> Cap {
        if infeasible == 0 {
            return Cap::NONE;
        }
        debug_assert!(cpus > infeasible && feasible > 0);
        Cap { feasible, cpus: u32::try_from(cpus - infeasible).unwrap_or(u32::MAX) }
    }
}

/// The cap for tasks of these weights, in decreasing order, on `cpus` cpus. O(P) given the order.
#[must_use]
pub fn sorted(weights: &[Weight], cpus: usize) -> Cap {
    if weights.len() <= cpus {
        return Cap::EQUAL;
    }
    let total = weights.iter().map(|w| u64::from(w.get())).sum();
    let (infeasible, feasible) = infeasible_of(weights, cpus, total);
    Cap::new(feasible, cpus, infeasible)
}

/// How many of the first of `weights` (decreasing) are infeasible on `cpus` cpus when all tasks
/// weigh `total`, and the weight of the rest.
fn infeasible_of(weights: &[Weight], cpus: usize, mut total: u64) -> (usize, u64) {
    let mut infeasible = 0;
    for weight in weights.iter().map(|w| u64::from(w.get())) {
        if infeasible == cpus || !exceeds(weight, total, cpus - infeasible) {
            break;
        }
        infeasible += 1;
        total -= weight;
    }
    (infeasible, total)
}

/// weight > total/cpus, exactly.
fn exceeds(weight: u64, total: u64, cpus: usize) -> bool {
    u128::from(weight) * cpus as u128 > u128::from(total)
}

/// How the one group that may be partly infeasible is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// Sort it: O(P log P), faster for few cpus.
    Sort,
    /// Partition it around medians: O(P), faster from about 128 cpus on.
    Median,
}

impl Search {
    /// The faster search for `cpus` cpus, as measured.
    #[must_use]
    pub const fn fastest(cpus: usize) -> Search {
        if cpus < 128 { Search::Sort } else { Search::Median }
    }
}

/// The tasks by order of weight: how many, and their total weight (GR3 §3.3).
#[derive(Clone, Debug, Default)]
pub struct Classes {
    count: [u32; 32],
    weight: [u64; 32],
    /// Bit σ is set exactly if `count[σ] > 0`.
    present: u32,
    total_count: usize,
    total_weight: u64,
}

impl Classes {
    /// Counts a task of `weight`.
    #[inline]
    pub fn insert(&mut self, weight: Weight) {
        let order = weight.order() as usize;
        self.count[order] += 1;
        self.weight[order] += u64::from(weight.get());
        self.present |= 1 << order;
        self.total_count += 1;
        self.total_weight += u64::from(weight.get());
    }

    /// Counts a task of `weight` no longer.
    #[inline]
    pub fn remove(&mut self, weight: Weight) {
        let order = weight.order() as usize;
        self.count[order] -= 1;
        self.weight[order] -= u64::from(weight.get());
        self.present &= !(u32::from(self.count[order] == 0) << order);
        self.total_count -= 1;
        self.total_weight -= u64::from(weight.get());
    }

    /// Tasks counted.
    #[must_use]
    pub fn count(&self) -> usize {
        self.total_count
    }

    /// Bit σ is set exactly if a task of order σ is counted.
    pub(crate) fn present(&self) -> u32 {
        self.present
    }

    /// Their total weight.
    #[must_use]
    pub fn total_weight(&self) -> u64 {
        self.total_weight
    }

    /// The cap for the counted tasks on `cpus` cpus. `members(σ, out)` appends the weights of all
    /// tasks of order σ to `out`; it is called at most once, for a group of fewer than 2P tasks.
    /// `scratch` is room for them.
    pub fn cap(
        &self,
        cpus: usize,
        search: Search,
        scratch: &mut Vec<Weight>,
        members: impl FnOnce(u32, &mut Vec<Weight>),
    ) -> Cap {
        if self.total_count <= cpus {
            return Cap::EQUAL;
        }
        let mut left = self.present;
        let (mut infeasible, mut total) = (0, self.total_weight);
        while left != 0 {
            let order = left.ilog2();
            let (count, weight) = self.class(order);
            let wholly_infeasible = count < cpus - infeasible
                && exceeds(1 << order, total - weight, cpus - infeasible - count);
            if !wholly_infeasible {
                if count < 2 * (cpus - infeasible)
                    && self.may_exceed(order, total, cpus - infeasible)
                {
                    scratch.clear();
                    members(order, scratch);
                    debug_assert_eq!(scratch.len(), count);
                    let (more, rest) = search.run(scratch, cpus - infeasible, total);
                    (infeasible, total) = (infeasible + more, rest);
                }
                break;
            }
            (infeasible, total) = (infeasible + count, total - weight);
            left &= !(1 << order);
        }
        Cap::new(total, cpus, infeasible)
    }

    fn class(&self, order: u32) -> (usize, u64) {
        (self.count[order as usize] as usize, self.weight[order as usize])
    }

    /// Whether the largest weight that order σ can hold would be infeasible: if not, there is no
    /// need to look into the group.
    fn may_exceed(&self, order: u32, total: u64, cpus: usize) -> bool {
        exceeds((2 << order) - 1, total, cpus)
    }
}

impl Search {
    /// How many of `group` are infeasible on `cpus` cpus when they and all smaller tasks weigh
    /// `total`, and the weight of the rest.
    fn run(self, group: &mut [Weight], cpus: usize, total: u64) -> (usize, u64) {
        match self {
            Search::Sort => {
                group.sort_unstable_by(|a, b| b.cmp(a));
                infeasible_of(group, cpus, total)
            }
            Search::Median => by_median(group, cpus, total),
        }
    }
}

/// INFEASIBLE by divide and conquer (GR3 §3.3): if the median is feasible then so is all below
/// it; if not then all above it is infeasible too. Each step halves the group.
fn by_median(mut group: &mut [Weight], mut cpus: usize, mut total: u64) -> (usize, u64) {
    let mut infeasible = 0;
    while !group.is_empty() {
        let middle = group.len() / 2;
        let (above, median, below) = group.select_nth_unstable_by(middle, |a, b| b.cmp(a));
        let above_weight: u64 = above.iter().map(|w| u64::from(w.get())).sum();
        let median = u64::from(median.get());
        if middle < cpus && exceeds(median, total - above_weight, cpus - middle) {
            infeasible += middle + 1;
            cpus -= middle + 1;
            total -= above_weight + median;
            group = below;
        } else {
            group = above;
        }
    }
    (infeasible, total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn weights(numbers: &[u32]) -> Vec<Weight> {
        let mut weights: Vec<Weight> = numbers.iter().map(|&n| Weight::new(n).unwrap()).collect();
        weights.sort_unstable_by(|a, b| b.cmp(a));
        weights
    }

    fn grouped(weights: &[Weight], cpus: usize, search: Search) -> Cap {
        let mut classes = Classes::default();
        weights.iter().for_each(|&w| classes.insert(w));
        classes.cap(cpus, search, &mut vec![], |order, out| {
            out.extend(weights.iter().filter(|w| w.order() == order));
        })
    }

    #[test]
    fn an_infeasible_weight_counts_as_one_cpu() {
        // 5 of 7 on 2 cpus: the others keep 2 in all, so the cap is 2/1 and the total 4.
        let cap = sorted(&weights(&[5, 1, 1]), 2);
        assert_eq!(cap.fraction(), (2, 1));
        assert_eq!(cap.effective(Weight::new(5).unwrap()), 2);
        assert_eq!(cap.effective(Weight::ONE), 1);
    }

    #[test]
    fn a_cap_is_a_fraction() {
        // 9 takes one of 4 cpus; the others weigh 6 on 3 cpus, which makes 2 just feasible.
        assert_eq!(sorted(&weights(&[9, 2, 2, 1, 1]), 4).fraction(), (6, 3));
        assert_eq!(sorted(&weights(&[9, 1, 1, 1, 1, 1]), 4).fraction(), (5, 3));
        assert_eq!(sorted(&weights(&[9, 2, 2, 1]), 4), Cap::EQUAL);
    }

    #[test]
    fn feasible_weights_have_no_cap() {
        assert_eq!(sorted(&weights(&[3, 2, 1]), 2), Cap::NONE);
        assert_eq!(sorted(&weights(&[3, 2, 1]), 1), Cap::NONE);
    }

    /// Weights from very skewed to nearly equal.
    fn skewed() -> impl Strategy<Value = Vec<u32>> {
        let weight = (0u32..32, any::<u32>()).prop_map(|(shift, w)| (w >> shift).max(1));
        let narrow = (0u32..3, any::<u32>()).prop_map(|(shift, w)| (w >> (20 + shift)).max(1));
        prop_oneof![
            proptest::collection::vec(weight, 1..60),
            proptest::collection::vec(narrow, 1..60)
        ]
    }

    proptest! {
        #[test]
        fn grouped_equals_sorted(numbers in skewed(), cpus in 1usize..40) {
            let weights = weights(&numbers);
            let expected = sorted(&weights, cpus);
            prop_assert_eq!(grouped(&weights, cpus, Search::Sort), expected);
            prop_assert_eq!(grouped(&weights, cpus, Search::Median), expected);
        }

        /// The definition: infeasible tasks get exactly 1/P of the resulting total, nobody more.
        #[test]
        fn every_share_is_at_most_one_cpu(numbers in skewed(), cpus in 1usize..40) {
            let weights = weights(&numbers);
            prop_assume!(weights.len() > cpus);
            let cap = sorted(&weights, cpus);
            let total: u128 = weights.iter().map(|&w| u128::from(cap.effective(w))).sum();
            for &weight in &weights {
                let share = u128::from(cap.effective(weight)) * cpus as u128;
                prop_assert!(share <= total);
                prop_assert_eq!(cap.exceeded_by(weight) && share != total, false);
            }
        }
    }
}

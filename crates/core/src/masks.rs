//! What tasks are due that may not run on every cpu: max-min by weight under their masks.
//!
//! Nobody receives more than a cpu, and nobody's service for a unit of weight can grow but at the cost of
//! somebody who has no more of it. There is one such distribution. It is found by filling: of all sets of
//! cpus, take the one that has the most weight to serve for each of its cpus, of tasks that may run
//! nowhere else and need to share; it serves those by weight, and is taken away with them. Whoever is left
//! at the end has a cpu of his own.
//!
//! A yardstick for tests: it looks at all sets of cpus, O(2^P · N log N).

use alloc::vec::Vec;

use crate::policy::Weight;
use crate::weights::{self, Cap};

/// A set of cpus: bit c is cpu c.
pub type Mask = u32;

/// A part of a cpu: `parts` of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The numerator, at most `of`.
    pub parts: u64,
    /// The denominator, above 0.
    pub of: u64,
}

impl Rate {
    const WHOLE: Rate = Rate { parts: 1, of: 1 };

    /// In cpus.
    #[must_use]
    pub fn in_cpus(self) -> f64 {
        self.parts as f64 / self.of as f64
    }
}

/// Cpus that are short, for the tasks that may run there only.
#[derive(Clone, Copy)]
struct Short {
    cpus: Mask,
    /// What each of them is worth.
    worth: Rate,
}

/// The cpus that each task receives of `cpus`, in the mean. Tasks are always runnable.
///
/// # Panics
/// When there are more than 20 cpus, or a task may run on none of them.
#[must_use]
pub fn rates(tasks: &[(Weight, Mask)], cpus: u32) -> Vec<Rate> {
    let (rates, _) = fill(tasks, cpus);
    rates.into_iter().map(|rate| rate.unwrap_or(Rate::WHOLE)).collect()
}

/// The cpus that serve only tasks that may run nowhere else, and have to share.
///
/// # Panics
/// As [`rates`].
#[must_use]
pub fn short_cpus(tasks: &[(Weight, Mask)], cpus: u32) -> Mask {
    fill(tasks, cpus).1
}

/// The rates of those who have to share, and the cpus that are short of others.
fn fill(tasks: &[(Weight, Mask)], cpus: u32) -> (Vec<Option<Rate>>, Mask) {
    assert!(cpus <= 20, "all sets of {cpus} cpus are too many");
    let mut left: Mask = (1 << cpus) - 1;
    assert!(tasks.iter().all(|(_, mask)| mask & left != 0), "a task may run nowhere");
    let (mut rates, mut short_cpus) = (alloc::vec![None; tasks.len()], 0);
    while let Some(short) = shortest(tasks, &rates, left) {
        for (rate, (weight, mask)) in rates.iter_mut().zip(tasks) {
            if rate.is_none() && mask & left & !short.cpus == 0 {
                let parts = (u64::from(weight.get()) * short.worth.of).min(short.worth.parts);
                *rate = Some(Rate { parts, of: short.worth.parts });
            }
        }
        if short.cpus != left {
            short_cpus |= short.cpus;
        }
        left &= !short.cpus;
    }
    (rates, short_cpus)
}

/// The cpus among those `left` that are worth most, all or else the fewest; `None` if there is a cpu for each
/// task.
fn shortest(tasks: &[(Weight, Mask)], found: &[Option<Rate>], left: Mask) -> Option<Short> {
    let mut shortest: Option<Short> = None;
    let mut set = left;
    while set != 0 {
        let weights = tasks.iter().zip(found).filter_map(|(&(weight, mask), rate)| {
            (rate.is_none() && mask & left & !set == 0).then_some(weight)
        });
        if let Some(worth) = worth(weights.collect(), set.count_ones())
            && shortest.is_none_or(|most| {
                let is_less = most.cpus != left && set.count_ones() < most.cpus.count_ones();
                exceeds(worth, most.worth) || (is_less && !exceeds(most.worth, worth))
            })
        {
            shortest = Some(Short { cpus: set, worth });
        }
        set = (set - 1) & left;
    }
    shortest
}

/// What a cpu is worth that serves tasks of these weights, if they are more than the cpus.
fn worth(mut weights: Vec<Weight>, cpus: u32) -> Option<Rate> {
    if weights.len() <= cpus as usize {
        return None;
    }
    weights.sort_unstable_by(|a, b| b.cmp(a));
    let (parts, of) = match weights::sorted(&weights, cpus as usize) {
        Cap::NONE => (weights.iter().map(|weight| u64::from(weight.get())).sum(), cpus),
        cap => cap.fraction(),
    };
    Some(Rate { parts, of: u64::from(of) })
}

fn exceeds(one: Rate, other: Rate) -> bool {
    u128::from(one.parts) * u128::from(other.of) > u128::from(other.parts) * u128::from(one.of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(tasks: &[(u32, Mask)], cpus: u32) -> Vec<f64> {
        let tasks: Vec<_> = tasks.iter().map(|&(w, m)| (Weight::new(w).unwrap(), m)).collect();
        rates(&tasks, cpus).into_iter().map(Rate::in_cpus).collect()
    }

    #[test]
    fn tasks_of_a_short_cpu_share_it_by_weight() {
        let bound = [(3, 2), (2, 2), (1, 2), (1, 3), (1, 3)];
        assert_eq!(of(&bound, 2), [0.5, 1.0 / 3.0, 1.0 / 6.0, 0.5, 0.5]);
    }

    #[test]
    fn a_mask_that_is_not_short_changes_nothing() {
        let bound = [(1, 2), (1, 2), (3, 3), (3, 3)];
        assert_eq!(of(&bound, 2), [0.25, 0.25, 0.75, 0.75]);
    }

    #[test]
    fn cpus_that_are_short_only_together_are_found() {
        assert_eq!(of(&[(2, 3), (2, 6), (2, 7), (2, 7), (1, 8)], 4)[0], 0.75);
    }

    #[test]
    fn cpus_that_serve_everybody_are_not_short() {
        let short = |tasks: &[(u32, Mask)], cpus| {
            let weigh = |&(w, m): &(u32, Mask)| (Weight::new(w).unwrap(), m);
            short_cpus(&tasks.iter().map(weigh).collect::<Vec<_>>(), cpus)
        };
        assert_eq!(short(&[(3, 2), (2, 2), (1, 2), (1, 3), (1, 3)], 2), 2);
        assert_eq!(short(&[(1, 2), (1, 2), (3, 3), (3, 3)], 2), 0);
        assert_eq!(short(&[(1, 2), (1, 2), (1, 3)], 2), 2);
        assert_eq!(short(&[(1, 2), (1, 2), (9, 1), (1, 4)], 3), 2);
    }

    #[test]
    fn a_cpu_may_be_left_idle() {
        assert_eq!(of(&[(8, 1), (1, 1), (1, 1)], 2), [0.8, 0.1, 0.1]);
        assert_eq!(of(&[(8, 3), (1, 3), (1, 3), (9, 12)], 4), [1.0, 0.5, 0.5, 1.0]);
    }

    /// What the tasks that may run on no others receive of these cpus.
    fn served(tasks: &[(u32, Mask)], rates: &[f64], set: Mask) -> f64 {
        tasks.iter().zip(rates).filter(|((_, mask), _)| mask & !set == 0).map(|(_, r)| r).sum()
    }

    proptest! {
        /// Feasible, by Hall's theorem; and whoever has less than a cpu is among the best served of
        /// cpus that have no more to give.
        #[test]
        fn nobody_can_have_more_but_of_who_has_less(
            tasks in prop::collection::vec((1u32..20, 1u32..16), 1..10)
        ) {
            let rates = of(&tasks, 4);
            let sets: Vec<Mask> = (1..16).collect();
            for &set in &sets {
                prop_assert!(served(&tasks, &rates, set) <= f64::from(set.count_ones()) + 1e-9);
            }
            for (i, &(weight, mask)) in tasks.iter().enumerate() {
                let own = rates[i] / f64::from(weight);
                let limits = |set: Mask| {
                    let full = served(&tasks, &rates, set) >= f64::from(set.count_ones()) - 1e-9;
                    let best = tasks.iter().zip(&rates).all(|(&(w, m), r)| {
                        m & !set != 0 || r / f64::from(w) <= own + 1e-9
                    });
                    mask & !set == 0 && full && best
                };
                prop_assert!(
                    rates[i] >= 1.0 - 1e-9 || sets.iter().any(|&set| limits(set)),
                    "{i}: {rates:?}"
                );
            }
        }
    }

    #[test]
    #[should_panic(expected = "may run nowhere")]
    fn a_task_may_run_somewhere() {
        let _ = rates(&[(Weight::ONE, 0)], 2);
    }
}

//! What a policy claims of itself, in a form that tests check and tables print.

use crate::policy::{TaskId, Weight};

/// An exact rational number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// The numerator.
    pub numerator: i128,
    /// The denominator, at least 1.
    pub denominator: i128,
}

impl Ratio {
    /// A whole number.
    #[must_use]
    pub const fn whole(number: i128) -> Ratio {
        Ratio { numerator: number, denominator: 1 }
    }
}

/// Tasks 0, 1, … that are always runnable and run whole quanta: the model of the theorems.
#[derive(Clone, Copy, Debug)]
pub struct FixedSet<'a> {
    /// Their weights.
    pub weights: &'a [Weight],
    /// Number of cpus.
    pub cpus: usize,
}

impl FixedSet<'_> {
    /// Φ, the total weight.
    #[must_use]
    pub fn total_weight(&self) -> u64 {
        self.weights.iter().map(|w| u64::from(w.get())).sum()
    }

    /// φ of one task.
    ///
    /// # Panics
    /// When the set has no such task.
    #[must_use]
    pub fn weight(&self, task: TaskId) -> u64 {
        u64::from(self.weights[task.index()].get())
    }
}

/// A limit on the service error of a task of a fixed set, in quanta.
pub type Limit = fn(&FixedSet<'_>, TaskId) -> Ratio;

/// The proven bound on the service error e of every task, at every instant, with default options.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// For people, in quanta.
    pub text: &'static str,
    /// e is never below this.
    pub lower: Option<Limit>,
    /// e is never above this.
    pub upper: Option<Limit>,
    /// On one cpu, e of every task is 0 after every Φ quanta.
    pub exact_each_cycle: bool,
}

impl Bound {
    /// Nothing is proven that could be checked.
    #[must_use]
    pub const fn none(text: &'static str) -> Bound {
        Bound { text, lower: None, upper: None, exact_each_cycle: false }
    }
}

/// What the verbs cost, in the O(·) notation, N being the number of runnable tasks.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// `pick` and the `charge` before it.
    pub pick: &'static str,
    /// `wake`.
    pub insert: &'static str,
    /// `block` and `remove`.
    pub remove: &'static str,
}

//! The ideal rates: what every place of a tree receives at an instant, exactly.

use alloc::vec::Vec;

use super::{Hierarchy, Place, Rate};

/// What every place of a [`Hierarchy`] receives.
#[derive(Clone, Debug)]
pub struct Rates {
    rates: Vec<Rate>,
}

impl Rates {
    /// What `place` receives: all below it together.
    #[must_use]
    pub fn of(&self, place: Place) -> Rate {
        self.rates[place.index()].clone()
    }

    /// By [`Place::index`].
    pub fn iter(&self) -> impl Iterator<Item = &Rate> {
        self.rates.iter()
    }

    /// The same rates, except that `place` receives `rate`.
    #[must_use]
    pub fn with(mut self, place: Place, rate: Rate) -> Rates {
        self.rates[place.index()] = rate;
        self
    }
}

impl Hierarchy {
    /// The rates of hierarchical GMS on `cpus` cpus. O(n log n) for n places with leaves.
    ///
    /// From the root down, siblings are looked at from the one with most weight a leaf on: as long as
    /// its part of what is left is more than it can use, it receives what it can use, and the others
    /// share the rest.
    #[must_use]
    pub fn rates(&self, cpus: usize) -> Rates {
        let nothing = Rate::whole(0);
        let mut rates = alloc::vec![nothing; self.places()];
        let all = u64::from(self.leaves(Hierarchy::ROOT)).min(cpus as u64);
        rates[Hierarchy::ROOT.index()] = Rate::whole(all);
        let mut above = alloc::vec![Hierarchy::ROOT];
        let mut siblings = Vec::new();
        while let Some(parent) = above.pop() {
            siblings.clear();
            siblings.extend(self.competitors(parent));
            siblings.sort_unstable_by(|&a, &b| {
                let per_leaf = |a, b| u64::from(self.weight(a).get()) * u64::from(self.leaves(b));
                per_leaf(b, a).cmp(&per_leaf(a, b))
            });
            self.share(parent, &siblings, &mut rates);
            above.extend(siblings.iter().filter(|&&child| self.competitors(child).count() > 0));
        }
        Rates { rates }
    }

    /// Shares the rate of `parent` among its competing children, the heaviest a leaf first.
    fn share(&self, parent: Place, siblings: &[Place], rates: &mut [Rate]) {
        let mut rest = rates[parent.index()].reduced();
        let mut weight = self.competing_weight(parent);
        for &child in siblings {
            let own = u64::from(self.weight(child).get());
            let leaves = u64::from(self.leaves(child));
            if rest.part_cmp(own, weight, leaves).is_le() {
                // Nor does any that follows: they have less weight a leaf.
                rates[child.index()] = rest.part(own, weight);
            } else {
                rates[child.index()] = Rate::whole(leaves);
                rest = rest.without(leaves);
                weight -= own;
            }
        }
    }
}

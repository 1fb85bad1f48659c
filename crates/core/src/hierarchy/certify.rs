//! Whether claimed rates are the ideal: the conditions that only one solution meets, without any
//! algorithm that could be wrong in the same way.

use core::fmt;

use alloc::vec::Vec;

use super::{Hierarchy, Place, Rate, Rates};

/// Why rates are not those of the ideal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The root does not receive what all leaves can use of the cpus.
    Idle,
    /// It receives more than it can use.
    TooMuch(Place),
    /// Its children do not receive together what it receives.
    Sum(Place),
    /// The first could use more, and yet the second, its sibling, receives more for its weight.
    Unfair(Place, Place),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = Place::index;
        match *self {
            Violation::Idle => write!(f, "the root does not receive all that can be used"),
            Violation::TooMuch(place) => {
                write!(f, "place {} receives more than it can use", number(place))
            }
            Violation::Sum(place) => {
                let number = number(place);
                write!(f, "the children of place {number} do not receive together what it does")
            }
            Violation::Unfair(hungry, other) => {
                let (hungry, other) = (number(hungry), number(other));
                write!(
                    f,
                    "place {hungry} could use more, and place {other} has more for its weight"
                )
            }
        }
    }
}

impl core::error::Error for Violation {}

impl Hierarchy {
    /// Checks that `rates` are the ideal's on `cpus` cpus. The conditions have one solution: leaves
    /// receive min(P, N) in all; none more than it can use; a node what its children receive; and
    /// who could use more receives no less for its weight than any sibling.
    ///
    /// # Errors
    /// A condition that is not met, and where.
    pub fn certify(&self, cpus: usize, rates: &Rates) -> Result<(), Violation> {
        let all = u64::from(self.leaves(Hierarchy::ROOT)).min(cpus as u64);
        if rates.of(Hierarchy::ROOT) != Rate::whole(all) {
            return Err(Violation::Idle);
        }
        let mut above = alloc::vec![Hierarchy::ROOT];
        while let Some(parent) = above.pop() {
            let children: Vec<Place> = self.competitors(parent).collect();
            self.certify_children(parent, &children, rates)?;
            above.extend(children);
        }
        Ok(())
    }

    fn certify_children(
        &self,
        parent: Place,
        children: &[Place],
        rates: &Rates,
    ) -> Result<(), Violation> {
        let usable = |place: Place| Rate::whole(u64::from(self.leaves(place)));
        if let Some(&place) = children.iter().find(|&&place| rates.of(place) > usable(place)) {
            return Err(Violation::TooMuch(place));
        }
        let sum = children.iter().fold(Rate::whole(0), |sum, &place| sum.plus(&rates.of(place)));
        if !children.is_empty() && sum != rates.of(parent) {
            return Err(Violation::Sum(parent));
        }
        let for_weight =
            |place: Place| rates.of(place).part(1, u64::from(self.weight(place).get()));
        let hungry = children.iter().copied().filter(|&place| rates.of(place) < usable(place));
        let least = hungry.min_by_key(|&place| for_weight(place));
        let most = children.iter().copied().max_by_key(|&place| for_weight(place));
        match (least, most) {
            (Some(least), Some(most)) if for_weight(least) < for_weight(most) => {
                Err(Violation::Unfair(least, most))
            }
            _ => Ok(()),
        }
    }
}

//! Weights of groups: a tree of nodes (cgroups, commands, users) with tasks as leaves, and the ideal
//! for it, hierarchical GMS.
//!
//! A node's weight is the node's, however many tasks it has: siblings share what their parent
//! receives in proportion to their weights, but none receives more than it can use. A runnable
//! task can use one cpu, a node as many as it has runnable tasks; what one sibling cannot use goes
//! to the others. At the root the machine's cpus are shared.
//!
//! ```
//! use prorata::{Weight, hierarchy::{Hierarchy, Rate}};
//!
//! // Two cpus: a build of weight 3 with eight processes beside one of weight 1.
//! let mut tree = Hierarchy::new();
//! let build = tree.add(Hierarchy::ROOT, Weight::new(3).unwrap());
//! let other = tree.add(Hierarchy::ROOT, Weight::ONE);
//! tree.set_width(build, 8);
//! tree.set_width(other, 1);
//! let rates = tree.rates(2);
//! assert_eq!(rates.of(build), Rate::ratio(3, 2));
//! assert_eq!(rates.of(other), Rate::ratio(1, 2));
//! ```

use alloc::vec::Vec;

use crate::policy::Weight;

mod certify;
mod errors;
mod flat;
mod natural;
mod policy;
mod rate;
mod rates;
mod spare;

pub use certify::Violation;
pub use errors::HierarchyErrors;
pub use flat::Flat;
pub use policy::{NodeId, TreePolicy};
pub use rate::Rate;
pub use rates::Rates;

/// A place in a [`Hierarchy`]: a node or a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(u32);

impl Place {
    /// Its index in a table: places are numbered from 0, the root, and used again.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// None of the places.
const NOWHERE: Place = Place(u32::MAX);

#[derive(Clone, Copy, Debug)]
struct Member {
    weight: Weight,
    /// `NOWHERE` for the root, and for a place that is free.
    parent: Place,
    /// All children, those without leaves too.
    children: u32,
    /// Cpus that it can use by itself; 0 if it has children.
    width: u32,
    /// The sum of the widths of it and everything below it.
    leaves: u32,
    /// The children that have leaves, a list: its first.
    first: Place,
    /// Their total weight.
    competing: u64,
    /// In the list of the parent, while it has leaves.
    next: Place,
    previous: Place,
}

impl Member {
    fn new(weight: Weight, parent: Place) -> Member {
        Member {
            weight,
            parent,
            children: 0,
            width: 0,
            leaves: 0,
            first: NOWHERE,
            competing: 0,
            next: NOWHERE,
            previous: NOWHERE,
        }
    }
}

/// A tree of weights: who competes with whom, and how many cpus each can use.
///
/// *Cost*: every change O(depth).
#[derive(Clone, Debug)]
pub struct Hierarchy {
    members: Vec<Member>,
    free: Vec<Place>,
}

impl Default for Hierarchy {
    fn default() -> Hierarchy {
        Hierarchy::new()
    }
}

impl Hierarchy {
    /// The place of the root, which has no siblings; its weight means nothing.
    pub const ROOT: Place = Place(0);

    /// The root alone.
    #[must_use]
    pub fn new() -> Hierarchy {
        Hierarchy { members: alloc::vec![Member::new(Weight::ONE, NOWHERE)], free: Vec::new() }
    }

    /// A new child of `parent` with nothing to run.
    ///
    /// # Panics
    /// When `parent` is no place of the tree or has a width.
    pub fn add(&mut self, parent: Place, weight: Weight) -> Place {
        let place = self.free.pop().unwrap_or_else(|| {
            let number = u32::try_from(self.members.len()).expect("fewer than 2^32 places");
            self.members.push(Member::new(weight, NOWHERE));
            Place(number)
        });
        self.members[place.index()] = Member::new(weight, NOWHERE);
        self.hang(place, parent);
        place
    }

    /// Takes `place` out, which has no children.
    ///
    /// # Panics
    /// When it has, or is the root.
    pub fn remove(&mut self, place: Place) {
        assert_eq!(self.member(place).children, 0, "{place:?} has children");
        self.set_width(place, 0);
        self.unhang(place);
        self.free.push(place);
    }

    /// `place` and all below it are a child of `parent` from now on.
    ///
    /// # Panics
    /// When `parent` [is within](Hierarchy::is_within) `place`, or `place` is the root.
    pub fn move_to(&mut self, place: Place, parent: Place) {
        assert!(!self.is_within(parent, place), "{parent:?} is within {place:?}");
        let leaves = self.member(place).leaves;
        self.count(place, leaves, 0);
        self.unhang(place);
        self.hang(place, parent);
        self.count(place, 0, leaves);
    }

    /// `place` has `weight` from now on.
    ///
    /// # Panics
    /// When there is no such place.
    pub fn set_weight(&mut self, place: Place, weight: Weight) {
        let old = core::mem::replace(&mut self.member_mut(place).weight, weight);
        let Member { parent, leaves, .. } = *self.member(place);
        if parent != NOWHERE && leaves > 0 {
            let competing = &mut self.members[parent.index()].competing;
            *competing = *competing - u64::from(old.get()) + u64::from(weight.get());
        }
    }

    /// `place` can use `cpus` cpus from now on: 1 for a task that is runnable, as many as it has
    /// runnable tasks for a group whose tasks are all alike, 0 for who has nothing to run.
    ///
    /// # Panics
    /// When it has children or is the root.
    pub fn set_width(&mut self, place: Place, cpus: u32) {
        let Member { children, parent, width, .. } = *self.member(place);
        assert!(children == 0 && parent != NOWHERE, "{place:?} is not a leaf");
        self.members[place.index()].width = cpus;
        self.count(place, width, cpus);
    }

    /// True if `place` is `above` or below it.
    #[must_use]
    pub fn is_within(&self, place: Place, above: Place) -> bool {
        place == above || self.ancestors(place).any(|ancestor| ancestor == above)
    }

    /// The parent of `place`, the parent's parent, and so on up to the root.
    pub fn ancestors(&self, place: Place) -> impl Iterator<Item = Place> {
        core::iter::successors(self.parent(place), |&place| self.parent(place))
    }

    /// The parent of `place`, unless it is the root.
    #[must_use]
    pub fn parent(&self, place: Place) -> Option<Place> {
        let parent = self.member(place).parent;
        (parent != NOWHERE).then_some(parent)
    }

    /// The weight of `place`.
    #[must_use]
    pub fn weight(&self, place: Place) -> Weight {
        self.member(place).weight
    }

    /// The cpus that `place` and all below it can use together.
    #[must_use]
    pub fn leaves(&self, place: Place) -> u32 {
        self.member(place).leaves
    }

    /// The total weight of the children of `place` that have leaves.
    #[must_use]
    pub fn competing_weight(&self, place: Place) -> u64 {
        self.member(place).competing
    }

    /// The children of `place` that have leaves: those that compete for what it receives.
    pub fn competitors(&self, place: Place) -> impl Iterator<Item = Place> {
        let listed = |place: Place| (place != NOWHERE).then_some(place);
        core::iter::successors(listed(self.member(place).first), move |&child| {
            listed(self.member(child).next)
        })
    }

    /// The length of a table by [`Place::index`].
    #[must_use]
    pub fn places(&self) -> usize {
        self.members.len()
    }

    fn member(&self, place: Place) -> &Member {
        let member = &self.members[place.index()];
        debug_assert!(place == Hierarchy::ROOT || member.parent != NOWHERE, "{place:?} is free");
        member
    }

    fn member_mut(&mut self, place: Place) -> &mut Member {
        &mut self.members[place.index()]
    }

    /// Makes `place`, which has no parent and no leaves, a child of `parent`.
    fn hang(&mut self, place: Place, parent: Place) {
        assert_eq!(self.member(parent).width, 0, "{parent:?} is a leaf");
        self.members[place.index()].parent = parent;
        self.members[parent.index()].children += 1;
    }

    fn unhang(&mut self, place: Place) {
        let parent = core::mem::replace(&mut self.member_mut(place).parent, NOWHERE);
        assert_ne!(parent, NOWHERE, "the root stays where it is");
        self.members[parent.index()].children -= 1;
    }

    /// `place` and so all above it have `more` leaves and `fewer` no longer.
    fn count(&mut self, place: Place, fewer: u32, more: u32) {
        let mut at = place;
        while at != NOWHERE {
            let member = self.member_mut(at);
            let before = member.leaves;
            member.leaves = (before - fewer).checked_add(more).expect("fewer than 2^32 leaves");
            let (after, parent) = (member.leaves, member.parent);
            match (before, after) {
                (0, 1..) => self.compete(at, parent),
                (1.., 0) => self.retire(at, parent),
                _ => {}
            }
            at = parent;
        }
    }

    /// `place` has leaves from now on: it competes with its siblings.
    fn compete(&mut self, place: Place, parent: Place) {
        let weight = u64::from(self.weight(place).get());
        let Some(above) = self.members.get_mut(parent.index()) else { return };
        let second = core::mem::replace(&mut above.first, place);
        above.competing += weight;
        (self.members[place.index()].previous, self.members[place.index()].next) =
            (NOWHERE, second);
        if second != NOWHERE {
            self.members[second.index()].previous = place;
        }
    }

    /// `place` has no leaves from now on.
    fn retire(&mut self, place: Place, parent: Place) {
        let Member { weight, next, previous, .. } = self.members[place.index()];
        let Some(above) = self.members.get_mut(parent.index()) else { return };
        above.competing -= u64::from(weight.get());
        if previous == NOWHERE {
            above.first = next;
        } else {
            self.members[previous.index()].next = next;
        }
        if next != NOWHERE {
            self.members[next.index()].previous = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(number: u32) -> Weight {
        Weight::new(number).expect("not 0")
    }

    #[test]
    fn leaves_are_counted_along_the_path() {
        let mut tree = Hierarchy::new();
        let outer = tree.add(Hierarchy::ROOT, weight(2));
        let inner = tree.add(outer, weight(3));
        let task = tree.add(inner, weight(5));
        assert_eq!(tree.leaves(Hierarchy::ROOT), 0);
        assert_eq!(tree.competitors(outer).count(), 0);
        tree.set_width(task, 1);
        assert_eq!(tree.leaves(Hierarchy::ROOT), 1);
        assert_eq!(tree.competing_weight(outer), 3);
        tree.set_weight(inner, weight(7));
        assert_eq!(tree.competing_weight(outer), 7);
        tree.move_to(inner, Hierarchy::ROOT);
        assert_eq!(tree.leaves(outer), 0);
        assert_eq!(tree.competitors(Hierarchy::ROOT).collect::<Vec<_>>(), [inner]);
        tree.remove(outer);
        assert_eq!(tree.add(inner, weight(1)), outer, "a place is used again");
        tree.remove(task);
        assert_eq!((tree.leaves(Hierarchy::ROOT), tree.competing_weight(inner)), (0, 0));
    }

    #[test]
    #[should_panic = "is within"]
    fn a_node_cannot_move_below_itself() {
        let mut tree = Hierarchy::new();
        let outer = tree.add(Hierarchy::ROOT, weight(2));
        let inner = tree.add(outer, weight(3));
        tree.move_to(outer, inner);
    }

    #[test]
    #[should_panic = "has children"]
    fn a_node_with_children_stays() {
        let mut tree = Hierarchy::new();
        let outer = tree.add(Hierarchy::ROOT, weight(2));
        tree.add(outer, weight(3));
        tree.remove(outer);
    }
}

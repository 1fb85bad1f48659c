//! What the tasks of a node that sleep have no use for of their turns, for others of the node.
//!
//! A turn is charged whole where turns are counted, and who naps keeps what there is room for of it. The
//! rest would be everybody's, and the node, to whom the turn was given, would have less than its weight says.
//! So those of the node who use up turns share it by weight, and the next of each goes on for as long: nobody
//! of another node waits for longer than if nobody napped. Where nobody of the node does, those of the child
//! of the root that it is in share it; else it is everybody's. The part of one who sleeps or goes before his
//! next turn is the others'.
//!
//! *Cost*: O(1), but that the child of the root is found in O(depth).

use alloc::vec::Vec;

use super::{Hierarchy, Place};
use crate::policy::{Nanos, TaskId, Weight};

/// A turn goes on for no longer than so many quanta; what is more of a task's part is shared again.
const MOST_QUANTA: Nanos = 64;
/// What is shared at once, and a task's part, is no more than so many.
const KEPT_QUANTA: Nanos = 128;
/// Binary digits of what is spare for each unit of weight.
const FRACTION: u32 = 24;
/// Who naps is worth waiting for where they are at most so many times as many as use up turns.
const FEW: u32 = 16;

#[derive(Clone, Copy, Debug, Default)]
struct Pool {
    /// How much there was, all in all, for each unit of weight.
    per_weight: u128,
    /// The tasks that share it, and their weight.
    tasks: u32,
    weight: u64,
}

impl Pool {
    /// There is more, for those who share it, if somebody does.
    fn add(&mut self, ns: Nanos) {
        self.per_weight +=
            (u128::from(ns) << FRACTION).checked_div(u128::from(self.weight)).unwrap_or(0);
    }

    /// What is there for one who shares, since he has seen so much.
    fn part_ns(&self, weight: u32, seen: u128) -> Nanos {
        let part = ((self.per_weight - seen) * u128::from(weight)) >> FRACTION;
        Nanos::try_from(part).unwrap_or(Nanos::MAX)
    }
}

/// What a task that shares has seen.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// 0 if it does not share.
    weight: u32,
    /// Its node and the child of the root, if that is another one; `per_weight` of each then.
    pools: [Option<(Place, u128)>; 2],
}

/// What nodes have to spare, by the index of their place, and who shares it, by task.
#[derive(Clone, Debug)]
pub(super) struct Spares {
    pools: Vec<Pool>,
    parts: Vec<Part>,
    most_ns: Nanos,
    kept_ns: Nanos,
}

impl Spares {
    pub(super) fn new(quantum_ns: Nanos) -> Spares {
        let most_ns = quantum_ns.saturating_mul(MOST_QUANTA);
        let kept_ns = quantum_ns.saturating_mul(KEPT_QUANTA);
        Spares { pools: Vec::new(), parts: Vec::new(), most_ns, kept_ns }
    }

    /// There are so many tasks.
    pub(super) fn reserve(&mut self, tasks: usize) {
        self.parts.resize(tasks, Part::default());
    }

    /// There is a new node at `place`.
    pub(super) fn add(&mut self, place: Place) {
        let places = self.pools.len().max(place.index() + 1);
        self.pools.resize(places, Pool::default());
        debug_assert_eq!(self.pools[place.index()].tasks, 0, "whoever shared there has gone");
    }

    /// The pool that tasks at `leaf` leave to.
    fn pool_of(&self, tree: &Hierarchy, leaf: Place) -> Option<Place> {
        let shared = |place: &Place| self.pools[place.index()].tasks > 0;
        nodes_of(tree, leaf).into_iter().flatten().find(shared)
    }

    /// A task at `leaf` has no use for `ns`.
    pub(super) fn leave(&mut self, tree: &Hierarchy, leaf: Place, ns: Nanos) {
        if let Some(place) = self.pool_of(tree, leaf) {
            self.pools[place.index()].add(ns.min(self.kept_ns));
        }
    }

    /// What there is for `task` in the pool of its node, and in that of the child of the root.
    fn parts_ns(&self, task: TaskId) -> [Nanos; 2] {
        let Part { weight, pools } = self.parts[task.index()];
        pools.map(|pool| {
            let part = pool.map(|(place, seen)| self.pools[place.index()].part_ns(weight, seen));
            part.unwrap_or(0).min(self.kept_ns)
        })
    }

    /// True if what a task at `leaf` leaves would be used, and by not too few.
    pub(super) fn are_wanted(&self, tree: &Hierarchy, leaf: Place) -> bool {
        self.pool_of(tree, leaf).is_some_and(|place| {
            tree.leaves(place) <= self.pools[place.index()].tasks.saturating_mul(FEW)
        })
    }

    /// What `task` may have.
    pub(super) fn offered_ns(&self, task: TaskId) -> Nanos {
        let [own_ns, top_ns] = self.parts_ns(task);
        own_ns.saturating_add(top_ns).min(self.most_ns)
    }

    /// `task`, which is at `leaf` and counts for `weight`, has used up a turn: it shares from now on, and has
    /// what it was offered if `taken_ns` is not 0.
    pub(super) fn use_up(
        &mut self,
        tree: &Hierarchy,
        leaf: Place,
        task: TaskId,
        weight: Weight,
        taken_ns: Nanos,
    ) {
        if self.parts[task.index()].weight == 0 || taken_ns > 0 {
            let [own_ns, _] = self.parts_ns(task);
            self.withdraw(task);
            let pools = nodes_of(tree, leaf).map(|place| {
                let pool = &mut self.pools[place?.index()];
                pool.tasks += 1;
                pool.weight += u64::from(weight.get());
                Some((place?, pool.per_weight))
            });
            self.parts[task.index()] = Part { weight: weight.get(), pools };
            if let [Some((place, _)), _] = pools {
                self.pools[place.index()].add(own_ns.saturating_sub(taken_ns));
            }
        }
    }

    /// `task` shares no longer: it sleeps, moves or goes. Others share its part.
    pub(super) fn forget(&mut self, task: TaskId) {
        let parts_ns = self.parts_ns(task);
        let places = self.parts[task.index()].pools.map(|pool| pool.map(|(place, _)| place));
        self.withdraw(task);
        for (place, part_ns) in places.into_iter().zip(parts_ns) {
            if let Some(place) = place {
                self.pools[place.index()].add(part_ns);
            }
        }
    }

    fn withdraw(&mut self, task: TaskId) {
        let Part { weight, pools } = core::mem::take(&mut self.parts[task.index()]);
        for (place, _) in pools.into_iter().flatten() {
            let pool = &mut self.pools[place.index()];
            pool.tasks -= 1;
            pool.weight -= u64::from(weight);
        }
    }
}

/// The node that a leaf is in, and the child of the root, if that is another one; not the root: what is left
/// there is everybody's.
fn nodes_of(tree: &Hierarchy, leaf: Place) -> [Option<Place>; 2] {
    let mut nodes = tree.ancestors(leaf).take_while(|&node| node != Hierarchy::ROOT);
    let node = nodes.next();
    [node, nodes.last()]
}

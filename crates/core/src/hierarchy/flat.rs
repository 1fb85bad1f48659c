//! A tree over any policy: the policy orders all tasks, and what a task counts for in it is its part
//! of the tree. A policy that has [a tree of its own](Policy::own_tree) is told of the nodes instead.
//!
//! What a task of the root counts for is its weight, and what a node counts for there is the node's.
//! In these terms everything below is expressed: siblings share what their node counts for, and none
//! counts for more than c for each of its runnable tasks, c being what a whole cpu counts for (see
//! [`Hierarchy::rates`]; these are the same rates in other terms). Hence nothing changes for others
//! when a task of the root comes or goes, and a tree without nodes is the policy itself. A task that
//! is worth a whole cpu counts for a little more than c, which the policy lowers to c exactly.
//!
//! # Changes
//!
//! When a task comes or goes, those that share a node with it count for less or more, and those of
//! other nodes too if a node becomes empty or a cap moves. A task that sleeps has not gone while the
//! policy [serves](Policy::serves) it still: else its siblings would have its part a second time. When
//! that ends is found out at a later pick, as is when it begins for one that woke. A change is counted
//! at once, O(depth); it reaches the policy, as a change of weight, when a task is charged or woken, and
//! the others in their turn, [some](Flat::with_patrol) at every pick; and as many at once where a weight
//! or a place in the tree changes, which may be in the middle of quanta: if it were always a part of one
//! late, a node whose weight changes again and again would be further ahead each time. Under
//! [turns that are kept](crate::Turns) it is, where weights change in step with quanta: a policy without
//! an ideal counts a quantum by the weights at its end.
//!
//! # Error
//!
//! Nothing is proven beyond the policy's own bound for tasks. The error of a node is the sum of those
//! of its tasks. The largest found in 300 random trees of up to 30 tasks and 7 nodes in four levels,
//! all runnable, quanta not in step, for each of 1, 2, 4 and 16 cpus (`tests/hierarchy/churn.rs`), in
//! quanta, over policies with [corrected turns](crate::Corrected):
//!
//! | policy | a task, 1 to 16 cpus | a node, 1 to 16 cpus |
//! |---|---|---|
//! | gr3 | −6.1..2.7 | −5.9..9.8 |
//! | mfq | −5.7..4.2 | −6.6..9.8 |
//! | dfs-fa | −2.0..2.1 | −5.2..6.9 |
//!
//! Where tasks also block, come, go and move, and weights change, at any time, a node is within so many
//! quanta in 50, 90 and 99 of 100 trees, and at worst (a task is within 11.2):
//!
//! | policy | 1 cpu | 2 | 4 | 16 |
//! |---|---|---|---|---|
//! | gr3 | 3.8, 7.7, 11.3, 12.5 | 5.2, 10.1, 15.5, 21.2 | 5.9, 12.2, 22.2, 27.1 | 0, 6.8, 10.4, 14.1 |
//! | mfq | 3.2, 5.3, 7.2, 11.4 | 3.7, 6.4, 9.0, 11.4 | 3.9, 6.9, 11.4, 13.4 | 0, 2.7, 4.3, 5.9 |
//! | dfs-fa | 3.3, 5.3, 7.2, 8.8 | 4.1, 7.4, 11.4, 13.1 | 4.7, 9.5, 13.0, 17.1 | 0, 3.4, 5.8, 7.8 |
//!
//! So far it gets because what tasks are ahead or behind when a node moves, or where they sleep behind, stays
//! with the node: a policy makes up for it over all tasks. Where no node moves, gr3 is within 11.7, 15.8,
//! 15.4 and 16.7, dfs-fa within 7.7, 9.7, 15.3 and 9.3. What a task that moves is ahead or behind is left
//! to those who stay ([`Policy::bequeath`]).
//!
//! A hog and four that run for 1 ms and sleep for 20 ms, beside four hogs in a node of the same weight, keep
//! their half within 3 quanta at any time (`crates/cli/tests/cgroups.rs`).
//!
//! With [turns that are kept](crate::Turns) too, within 13 quanta (gdq 23), though who naps has turns for
//! which he has no use: others of the node have them ([`Policy::lengthen`], `spare.rs`). Before, the node had
//! .31 to .51 of one cpu, by policy. With two such hogs on 4 cpus it is 268 quanta ahead in 10 s under gdq,
//! 10 behind under gr3, dfs-fa and mfq; with one, worth a whole cpu, 23 to 47 behind.
//!
//! # Accuracy
//!
//! Fractions are kept in 48 binary digits, and given to the policy as whole numbers: the largest
//! weight in the root counts for 2^26 or more, so a task that is due 10^−4 of it is served with a
//! relative error of 1.5·10^−4.

use alloc::vec::Vec;

use super::spare::Spares;
use super::{Hierarchy, NodeId, Place, TreePolicy};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};

/// Binary digits of a fraction.
const FRACTION: u32 = 48;
/// The heaviest member of the root counts for at least 2 to this, if its weight leaves room.
const ROOT_ORDER: u32 = 26;
/// Not in the list of tasks that are served: they are not …
const UNSERVED: u32 = u32::MAX;
/// … or they are, and there is no list.
const UNLISTED: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug)]
struct Leaf {
    place: Option<Place>,
    /// What the policy was told that it weighs.
    told: Weight,
    /// Its index in the list of tasks that are served, or why it is not there.
    at: u32,
    awake: bool,
    /// It is in `odd`.
    odd: bool,
}

impl Leaf {
    const UNKNOWN: Leaf =
        Leaf { place: None, told: Weight::ONE, at: UNSERVED, awake: false, odd: false };
}

/// What the children of a node share.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// What a child counts for, for each unit of its weight, unless it is capped; 48 binary digits.
    per_weight: u128,
    /// All below are worth a cpu each.
    saturated: bool,
    /// `Flat::changes` when this was found.
    found: u64,
}

const UNKNOWN: Share = Share { per_weight: 0, saturated: false, found: 0 };

/// A tree over `P`. `hierarchy/flat.rs` opens with how it works and how far it is off.
#[derive(Clone, Debug)]
pub struct Flat<P> {
    policy: P,
    cpus: u64,
    tree: Hierarchy,
    /// By node.
    places: Vec<Option<Place>>,
    /// By task.
    leaves: Vec<Leaf>,
    /// By place of a node.
    shares: Vec<Share>,
    /// Who shares: empty until there is a node, as `tree` is without leaves until then.
    served: Vec<TaskId>,
    /// Tasks that sleep and are served, or are awake and are not, and some that were so.
    odd: Vec<TaskId>,
    /// What those had no use for.
    spares: Spares,
    /// What a whole cpu counts for; 48 binary digits. As old as the root's share.
    per_cpu: u128,
    /// Counts the changes of the tree, from 1 on.
    changes: u64,
    /// There is a node other than the root, or was one.
    grown: bool,
    /// A unit of weight in the root counts for 2 to this in the policy; 0 until there is a node.
    scale: u32,
    patrol: usize,
    /// The next task that is served to be looked at, and how many are to be since the last change.
    next: usize,
    unseen: usize,
    /// The next of `odd` to be looked at.
    next_odd: usize,
    /// Scratch: nodes from a leaf up whose shares are old.
    old: Vec<Place>,
}

impl<P: Policy> Flat<P> {
    /// `policy`, which was built with `setup` and knows no task yet; the root alone.
    #[must_use]
    pub fn new(policy: P, setup: &Setup) -> Flat<P> {
        Flat {
            policy,
            cpus: setup.cpus as u64,
            tree: Hierarchy::new(),
            places: alloc::vec![Some(Hierarchy::ROOT)],
            leaves: Vec::new(),
            shares: alloc::vec![UNKNOWN],
            served: Vec::new(),
            odd: Vec::new(),
            spares: Spares::new(setup.quantum_ns),
            per_cpu: 0,
            changes: 1,
            grown: false,
            scale: 0,
            patrol: 16,
            next: 0,
            unseen: 0,
            next_odd: 0,
            old: Vec::new(),
        }
    }

    /// After a change, `tasks` tasks that are served learn at every pick what they count for; 16 by default.
    #[must_use]
    pub fn with_patrol(self, tasks: usize) -> Flat<P> {
        Flat { patrol: tasks, ..self }
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &P {
        &self.policy
    }

    fn place_of(&self, node: NodeId) -> Place {
        self.places[node.index()].expect("the node was added")
    }

    fn leaf(&self, task: TaskId) -> Place {
        self.leaves[task.index()].place.expect("the task was added")
    }

    /// The tree is another one: what was found before is old.
    fn changed(&mut self) {
        if self.grown {
            self.changes += 1;
            self.unseen = self.served.len();
        }
    }

    /// Nobody competes while there is a cpu for each.
    fn crowded(&self) -> bool {
        u64::from(self.tree.leaves(Hierarchy::ROOT)) > self.cpus
    }

    /// Tells the policy what `task` counts for now.
    fn settle(&mut self, task: TaskId, now_ns: Nanos) {
        let told = self.leaves[task.index()].told;
        let weight = self.counts_for(self.leaf(task), told);
        if weight != told {
            self.leaves[task.index()].told = weight;
            self.policy.set_weight(task, weight, now_ns);
        }
    }

    /// What the task at `leaf`, of which `told` was told, counts for in the policy.
    fn counts_for(&mut self, leaf: Place, told: Weight) -> Weight {
        let parent = self.tree.parent(leaf).expect("a leaf is not the root");
        let weight = u128::from(self.tree.weight(leaf).get());
        if parent == Hierarchy::ROOT {
            return whole(weight << self.scale);
        }
        if !self.crowded() {
            return told;
        }
        let share = self.share(parent);
        let counts = weight * share.per_weight;
        if !share.saturated && counts <= self.per_cpu {
            return whole(counts << self.scale >> FRACTION);
        }
        // Anything above c will do, so that it need not change with c.
        let least = (self.per_cpu << self.scale >> FRACTION) + 1;
        let fits = (least..=2 * least).contains(&u128::from(told.get()));
        if fits { told } else { whole(least + least / 4) }
    }

    /// What the children of `node` share, up to date.
    fn share(&mut self, node: Place) -> Share {
        let mut at = Some(node);
        while let Some(place) = at.filter(|at| self.shares[at.index()].found != self.changes) {
            self.old.push(place);
            at = self.tree.parent(place);
        }
        while let Some(place) = self.old.pop() {
            let share = match self.tree.parent(place) {
                None => self.find_root(),
                Some(parent) => self.find(place, self.shares[parent.index()]),
            };
            self.shares[place.index()] = share;
        }
        self.shares[node.index()]
    }

    fn find_root(&mut self) -> Share {
        let capped = |leaves, weight: u128, rest: (u128, u128)| weight * rest.0 > leaves * rest.1;
        let (cpus, weight) =
            self.without_capped(Hierarchy::ROOT, u128::from(self.cpus), |leaves| leaves, capped);
        self.per_cpu = (weight << FRACTION) / cpus.max(1);
        Share { per_weight: 1 << FRACTION, saturated: false, found: self.changes }
    }

    /// The share of the children of `place`, a child of a node with the share `above`.
    fn find(&self, place: Place, above: Share) -> Share {
        let usable = |leaves: u128| leaves.saturating_mul(self.per_cpu);
        let most = usable(u128::from(self.tree.leaves(place)));
        let counts = u128::from(self.tree.weight(place).get()) * above.per_weight;
        if above.saturated || counts >= most {
            return Share { per_weight: 0, saturated: true, found: self.changes };
        }
        let mut rest = (counts, u128::from(self.tree.competing_weight(place)));
        if counts > self.per_cpu {
            let capped = |leaves, weight: u128, rest: (u128, u128)| {
                weight * rest.0 > usable(leaves).saturating_mul(rest.1)
            };
            rest = self.without_capped(place, counts, usable, capped);
        }
        Share { per_weight: rest.0 / rest.1.max(1), saturated: false, found: self.changes }
    }

    /// What is left of `all` and of the weights of the children of `node` without those that are
    /// `capped`, each of which takes `usable`.
    fn without_capped(
        &self,
        node: Place,
        all: u128,
        usable: impl Fn(u128) -> u128,
        capped: impl Fn(u128, u128, (u128, u128)) -> bool,
    ) -> (u128, u128) {
        let mut rest = (all, u128::from(self.tree.competing_weight(node)));
        loop {
            // Those that were capped before are so under the new rest too: it gives more to a weight.
            let mut left = (all, u128::from(self.tree.competing_weight(node)));
            for child in self.tree.competitors(node) {
                let leaves = u128::from(self.tree.leaves(child));
                let weight = u128::from(self.tree.weight(child).get());
                if capped(leaves, weight, rest) {
                    left = (left.0 - usable(leaves), left.1 - weight);
                }
            }
            if left == rest {
                return rest;
            }
            rest = left;
        }
    }

    /// Some of the tasks that have not seen the last change do.
    fn visit(&mut self, now_ns: Nanos) {
        for _ in 0..self.patrol.min(self.unseen) {
            self.unseen -= 1;
            self.next = if self.next + 1 < self.served.len() { self.next + 1 } else { 0 };
            self.settle(self.served[self.next], now_ns);
        }
    }

    /// It is seen whether some of those that the policy served though they slept, or did not though they were
    /// awake, are so still.
    fn visit_odd(&mut self) {
        for _ in 0..self.patrol.min(self.odd.len()) {
            self.next_odd = if self.next_odd + 1 < self.odd.len() { self.next_odd + 1 } else { 0 };
            let task = self.odd[self.next_odd];
            if !self.follow(task) {
                self.leaves[task.index()].odd = false;
                self.odd.swap_remove(self.next_odd);
            }
        }
    }

    /// `task` shares if the policy serves it. False if that is as long as it is awake.
    fn follow(&mut self, task: TaskId) -> bool {
        let Leaf { awake, odd, .. } = self.leaves[task.index()];
        let lapsed_ns = self.policy.take_lapsed(task);
        if lapsed_ns > 0 {
            self.spares.leave(&self.tree, self.leaf(task), lapsed_ns);
        }
        let serves = self.policy.serves(task).unwrap_or(awake);
        if serves != self.is_served(task) {
            if serves { self.enlist(task) } else { self.delist(task) }
        }
        if serves != awake && !odd {
            self.leaves[task.index()].odd = true;
            self.odd.push(task);
        }
        serves != awake
    }

    /// `task` is about to be charged: if it uses up a turn, that goes on for what others of its node left.
    fn lengthen(&mut self, task: TaskId, used_ns: Nanos) {
        let offered_ns = self.spares.offered_ns(task);
        if let Some(taken_ns) = self.policy.lengthen(task, used_ns, offered_ns) {
            let Leaf { told, .. } = self.leaves[task.index()];
            self.spares.use_up(&self.tree, self.leaf(task), task, told, taken_ns);
        }
    }

    fn enlist(&mut self, task: TaskId) {
        if !self.grown {
            self.leaves[task.index()].at = UNLISTED;
            return;
        }
        let at = u32::try_from(self.served.len()).expect("ids are below 2^30");
        self.leaves[task.index()].at = at;
        self.served.push(task);
        self.tree.set_width(self.leaf(task), 1);
        self.changed();
    }

    fn delist(&mut self, task: TaskId) {
        let at = core::mem::replace(&mut self.leaves[task.index()].at, UNSERVED);
        if at == UNLISTED {
            return;
        }
        self.served.swap_remove(at as usize);
        if let Some(moved) = self.served.get(at as usize) {
            self.leaves[moved.index()].at = at;
        }
        self.tree.set_width(self.leaf(task), 0);
        self.changed();
    }

    fn is_served(&self, task: TaskId) -> bool {
        self.leaves[task.index()].at != UNSERVED
    }

    /// `task` is about to leave its node: the others there make up for what it received too much or too
    /// little.
    fn leave_node(&mut self, task: TaskId, now_ns: Nanos) {
        let node = self.tree.parent(self.leaf(task));
        let is_heir = |&other: &TaskId| {
            let leaf = self.leaves[other.index()];
            other != task && leaf.awake && self.tree.parent(self.leaf(other)) == node
        };
        let heirs: Vec<TaskId> = self.served.iter().copied().filter(is_heir).collect();
        if !heirs.is_empty() {
            self.policy.bequeath(task, &heirs, now_ns);
        }
    }

    /// If `place` is in the root, its weight can be told in the terms of all.
    fn make_room_for(&mut self, place: Place, now_ns: Nanos) {
        let fits = ROOT_ORDER.saturating_sub(self.tree.weight(place).order());
        if fits < self.scale && self.tree.parent(place) == Some(Hierarchy::ROOT) {
            self.rescale(fits, now_ns);
        }
    }

    fn rescale(&mut self, scale: u32, now_ns: Nanos) {
        self.scale = scale;
        self.changed();
        for id in (0..).map(TaskId).take(self.leaves.len()) {
            if self.leaves[id.index()].place.is_some() {
                self.settle(id, now_ns);
            }
        }
    }

    /// The first node: the tree has leaves from now on, and weights in the policy become finer, to
    /// hold fractions of the root's.
    fn grow(&mut self, now_ns: Nanos) {
        self.grown = true;
        for task in (0..).map(TaskId).take(self.leaves.len()) {
            if self.leaves[task.index()].at == UNLISTED {
                self.enlist(task);
            }
        }
        let known = self.leaves.iter().filter_map(|leaf| leaf.place);
        let order = known.map(|place| self.tree.weight(place).order()).max().unwrap_or(0);
        self.rescale(ROOT_ORDER.saturating_sub(order), now_ns);
    }
}

/// As a weight: at least 1.
fn whole(number: u128) -> Weight {
    u32::try_from(number).map_or(Weight::MAX, |number| Weight::new(number).unwrap_or(Weight::ONE))
}

impl<P: Policy> Policy for Flat<P> {
    fn add(&mut self, task: TaskId, weight: Weight) {
        if self.leaves.len() <= task.index() {
            self.leaves.resize(task.index() + 1, Leaf::UNKNOWN);
            self.served.reserve(self.leaves.len() - self.served.len());
            self.odd.reserve(self.leaves.len() - self.odd.len());
            self.spares.reserve(self.leaves.len());
        }
        let place = self.tree.add(Hierarchy::ROOT, weight);
        self.shares.resize(self.tree.places().max(self.shares.len()), UNKNOWN);
        let told = whole(u128::from(weight.get()) << self.scale);
        self.leaves[task.index()] = Leaf { place: Some(place), told, ..Leaf::UNKNOWN };
        self.policy.add(task, told);
    }

    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        self.policy.remove(task, now_ns);
        self.spares.forget(task);
        if self.is_served(task) {
            self.delist(task);
        }
        if let Some(at) = self.odd.iter().position(|&odd| odd == task) {
            self.odd.swap_remove(at);
        }
        self.tree.remove(self.leaf(task));
        self.leaves[task.index()] = Leaf::UNKNOWN;
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, now_ns: Nanos) {
        let leaf = self.leaf(task);
        self.tree.set_weight(leaf, weight);
        if !self.grown {
            self.leaves[task.index()].told = weight;
            self.policy.set_weight(task, weight, now_ns);
            return;
        }
        self.changed();
        self.make_room_for(leaf, now_ns);
        self.settle(task, now_ns);
    }

    fn wake(&mut self, task: TaskId, now_ns: Nanos) {
        self.leaves[task.index()].awake = true;
        if !self.is_served(task) {
            self.enlist(task);
        }
        self.make_room_for(self.leaf(task), now_ns);
        self.settle(task, now_ns);
        if self.grown {
            let kept = self.spares.are_wanted(&self.tree, self.leaf(task));
            self.policy.keep(task, kept);
        }
        self.policy.wake(task, now_ns);
        self.follow(task);
    }

    fn block(&mut self, task: TaskId, now_ns: Nanos) {
        self.policy.block(task, now_ns);
        self.spares.forget(task);
        self.leaves[task.index()].awake = false;
        self.follow(task);
    }

    fn pick(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        if !self.odd.is_empty() {
            self.policy.pass(now_ns);
            self.visit_odd();
        }
        if self.unseen > 0 {
            self.visit(now_ns);
        }
        self.policy.pick(cpu, now_ns)
    }

    fn ran(&mut self, task: TaskId, ran_ns: Nanos) {
        self.policy.ran(task, ran_ns);
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        if self.grown {
            self.lengthen(task, used_ns);
        }
        self.policy.charge(task, used_ns, now_ns);
        if self.unseen > 0 {
            self.settle(task, now_ns);
        }
    }

    fn interrupt(&mut self, now_ns: Nanos) -> Option<CpuId> {
        self.policy.interrupt(now_ns)
    }

    fn endow(&mut self, task: TaskId, advance_ns: Nanos) {
        self.policy.endow(task, advance_ns);
    }

    fn bequeath(&mut self, task: TaskId, heirs: &[TaskId], now_ns: Nanos) {
        self.policy.bequeath(task, heirs, now_ns);
    }

    fn take_credit(&mut self, task: TaskId, most_ns: Nanos) -> Nanos {
        self.policy.take_credit(task, most_ns)
    }

    fn forfeit(&mut self, task: TaskId, now_ns: Nanos) -> Nanos {
        self.policy.forfeit(task, now_ns)
    }

    fn retire(&mut self, task: TaskId, now_ns: Nanos) -> i64 {
        self.policy.retire(task, now_ns)
    }

    fn pass(&mut self, now_ns: Nanos) {
        self.policy.pass(now_ns);
    }

    fn serves(&self, task: TaskId) -> Option<bool> {
        self.policy.serves(task)
    }

    fn slice_ns(&self, task: TaskId) -> Option<Nanos> {
        self.policy.slice_ns(task)
    }
}

impl<P: Policy> TreePolicy for Flat<P> {
    fn add_node(&mut self, node: NodeId, parent: NodeId, weight: Weight, now_ns: Nanos) {
        if let Some(own) = self.policy.own_tree() {
            return own.add_node(node, parent, weight, now_ns);
        }
        if self.places.len() <= node.index() {
            self.places.resize(node.index() + 1, None);
        }
        let place = self.tree.add(self.place_of(parent), weight);
        assert!(self.places[node.index()].replace(place).is_none(), "{node:?} is known already");
        self.shares.resize(self.tree.places().max(self.shares.len()), UNKNOWN);
        self.spares.add(place);
        self.old.reserve(self.tree.ancestors(place).count() + 1);
        if !self.grown {
            self.grow(now_ns);
        }
        self.changed();
        self.make_room_for(place, now_ns);
    }

    fn remove_node(&mut self, node: NodeId) {
        if let Some(own) = self.policy.own_tree() {
            return own.remove_node(node);
        }
        self.tree.remove(self.place_of(node));
        self.places[node.index()] = None;
    }

    fn set_node_weight(&mut self, node: NodeId, weight: Weight, now_ns: Nanos) {
        if let Some(own) = self.policy.own_tree() {
            return own.set_node_weight(node, weight, now_ns);
        }
        let place = self.place_of(node);
        self.tree.set_weight(place, weight);
        self.changed();
        self.make_room_for(place, now_ns);
        self.visit(now_ns);
    }

    fn move_node(&mut self, node: NodeId, parent: NodeId, now_ns: Nanos) {
        if let Some(own) = self.policy.own_tree() {
            return own.move_node(node, parent, now_ns);
        }
        let place = self.place_of(node);
        self.tree.move_to(place, self.place_of(parent));
        self.changed();
        self.make_room_for(place, now_ns);
        self.visit(now_ns);
    }

    fn place(&mut self, task: TaskId, node: NodeId, now_ns: Nanos) {
        if let Some(own) = self.policy.own_tree() {
            return own.place(task, node, now_ns);
        }
        let (leaf, parent) = (self.leaf(task), self.place_of(node));
        if self.tree.parent(leaf) == Some(parent) {
            return;
        }
        self.leave_node(task, now_ns);
        self.spares.forget(task);
        self.tree.move_to(leaf, parent);
        self.changed();
        self.make_room_for(leaf, now_ns);
        self.settle(task, now_ns);
        self.visit(now_ns);
    }
}

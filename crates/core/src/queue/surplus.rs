//! Tasks by surplus φ·(S − v), the least first, while virtual time v advances.
//!
//! The surplus of a task is a line in v that falls with slope φ, so the order of two waiting tasks
//! changes as time passes though neither runs: no heap can keep it. A *kinetic tournament* can:
//! a binary tree whose leaves are the tasks, every node of which knows the best task below it and
//! a time before which that answer stays right. When v reaches the time of the root, only the
//! subtrees whose time has come are played again.
//!
//! Comparisons are exact. The times are rounded down to 2^−32 ns, which costs a comparison too
//! many now and then, and decides nothing.
//!
//! Cost: `peek` O(1), `insert` and `remove` O(log N), `advance` O(log N) for each change of a
//! winner somewhere in the tree; nothing allocates but [`Surplus::reserve`].

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::effective::{Effective, Start, divide};
use crate::policy::TaskId;

const NOBODY: u32 = u32::MAX;
/// A time that never comes.
const NEVER: i128 = i128::MAX;
/// Bits after the point of the times in the tree.
const FRACTION_BITS: u32 = 32;

/// Surplus as a function of v: `service_ns` − φ·v.
#[derive(Clone, Copy, Debug)]
struct Line {
    service_ns: i128,
    effective: Effective,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// The task of least surplus below.
    winner: u32,
    /// Until v reaches this, in 2^−32 ns, nothing changes below.
    until: i128,
}

const EMPTY: Node = Node { winner: NOBODY, until: NEVER };

/// Tasks by surplus. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Surplus {
    /// By task; meaningful while the task's leaf is not empty.
    lines: Vec<Line>,
    /// A complete tree: the children of `n` are `2n` and `2n + 1`, the root is 1, the leaf of
    /// task t is `nodes.len() / 2 + t`.
    nodes: Vec<Node>,
    /// v. Never goes back.
    now: Start,
}

impl Default for Surplus {
    fn default() -> Self {
        Surplus { lines: Vec::new(), nodes: alloc::vec![EMPTY; 2], now: Start::ZERO }
    }
}

impl Surplus {
    /// Makes room for tasks with ids below `ids`; the only call that allocates.
    pub fn reserve(&mut self, ids: usize) {
        if ids <= self.lines.len() {
            return;
        }
        let leaves = self.nodes.len() / 2;
        let room = ids.next_power_of_two();
        let nobody = Line { service_ns: 0, effective: Effective::ONE };
        self.lines.resize(room, nobody);
        let mut nodes = alloc::vec![EMPTY; 2 * room];
        nodes[room..room + leaves].copy_from_slice(&self.nodes[leaves..]);
        self.nodes = nodes;
        (1..room).rev().for_each(|node| self.play(node));
    }

    /// The task of least surplus at the time of the last `advance`, ties to the lowest id.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Option<TaskId> {
        let winner = self.nodes[1].winner;
        (winner != NOBODY).then_some(TaskId(winner))
    }

    /// Virtual time reaches `now`; an earlier one is ignored.
    #[inline]
    pub fn advance(&mut self, now: Start) {
        if now > self.now {
            self.now = now;
            self.replay(1, rounded_down(now));
        }
    }

    /// Puts `task` in with the start tag S = `service_ns`/φ, or changes it if it is in.
    ///
    /// # Panics
    /// When no room was reserved for its id.
    pub fn insert(&mut self, task: TaskId, service_ns: i128, effective: Effective) {
        self.lines[task.index()] = Line { service_ns, effective };
        self.set_leaf(task, Node { winner: task.0, until: NEVER });
    }

    /// Takes `task` out if it is in.
    pub fn remove(&mut self, task: TaskId) {
        self.set_leaf(task, EMPTY);
    }

    fn set_leaf(&mut self, task: TaskId, leaf: Node) {
        let mut node = self.nodes.len() / 2 + task.index();
        self.nodes[node] = leaf;
        while node > 1 {
            node /= 2;
            self.play(node);
        }
    }

    /// Plays the matches again whose time has come, below `node` and at it.
    fn replay(&mut self, node: usize, now: i128) {
        if self.nodes[node].until > now {
            return;
        }
        self.replay(2 * node, now);
        self.replay(2 * node + 1, now);
        self.play(node);
    }

    /// The match between the winners below `node`.
    #[inline]
    fn play(&mut self, node: usize) {
        let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
        let until = left.until.min(right.until);
        self.nodes[node] = match (left.winner, right.winner) {
            (_, NOBODY) => left,
            (NOBODY, _) => right,
            (a, b) if self.precedes(a, b) => {
                Node { winner: a, until: until.min(self.passes(b, a)) }
            }
            (a, b) => Node { winner: b, until: until.min(self.passes(a, b)) },
        };
    }

    /// The difference of two lines as numbers over one denominator: service, and slope.
    #[inline]
    fn difference(&self, a: u32, b: u32) -> (i128, i128) {
        let (a, b) = (self.lines[a as usize], self.lines[b as usize]);
        let ((a_parts, a_of), (b_parts, b_of)) = (a.effective.fraction(), b.effective.fraction());
        let service_ns = a.service_ns - b.service_ns;
        if a_of == b_of {
            return (service_ns * i128::from(a_of), i128::from(a_parts) - i128::from(b_parts));
        }
        let of = i128::from(a_of) * i128::from(b_of);
        let slope = i128::from(a_parts) * i128::from(b_of) - i128::from(b_parts) * i128::from(a_of);
        (service_ns * of, slope)
    }

    /// True if the surplus of `a` is less than that of `b` now, or equal and `a` < `b`.
    #[inline]
    fn precedes(&self, a: u32, b: u32) -> bool {
        // α_a − α_b against (φ_a − φ_b)·v, whole nanoseconds of v first.
        let (service, slope) = self.difference(a, b);
        let rest = service - slope * i128::from(self.now.whole());
        let (part, of) = self.now.part();
        let order = if rest.unsigned_abs() > slope.unsigned_abs() {
            rest.cmp(&0)
        } else {
            (rest * i128::from(of)).cmp(&(slope * i128::from(part)))
        };
        order.then(a.cmp(&b)) == Ordering::Less
    }

    /// When the line of `loser` falls to that of `winner`, in 2^−32 ns, rounded down.
    #[inline]
    fn passes(&self, loser: u32, winner: u32) -> i128 {
        let (service, slope) = self.difference(loser, winner);
        if slope <= 0 {
            return NEVER;
        }
        let slope = slope.unsigned_abs();
        let (whole, rest) = divide(service, slope);
        let Ok(whole) = i64::try_from(whole) else { return NEVER };
        let rest = i128::try_from(rest << FRACTION_BITS).expect("below 2^94");
        (i128::from(whole) << FRACTION_BITS) + divide(rest, slope).0
    }
}

fn rounded_down(time: Start) -> i128 {
    let (part, of) = time.part();
    let (part, _) = divide(i128::from(part) << FRACTION_BITS, u128::from(of));
    (i128::from(time.whole()) << FRACTION_BITS) + part
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Weight;
    use alloc::vec;
    use proptest::prelude::*;

    /// The naive twin: surpluses at `now` in full, scanned.
    fn least(tasks: &[Option<(i128, Effective)>], now: (i128, i128)) -> Option<TaskId> {
        let surplus = |(service, effective): (i128, Effective)| {
            let (parts, of) = effective.fraction();
            let (parts, of) = (i128::from(parts), i128::from(of));
            (service * of * now.1 - parts * now.0, of * now.1)
        };
        let mut best: Option<((i128, i128), u32)> = None;
        for (id, task) in (0..).zip(tasks) {
            let Some(task) = *task else { continue };
            let (n, d) = surplus(task);
            if best.is_none_or(|((bn, bd), _)| n * bd < bn * d) {
                best = Some(((n, d), id));
            }
        }
        best.map(|(_, id)| TaskId(id))
    }

    fn effective() -> impl Strategy<Value = Effective> {
        (1u32..40, 1u32..4).prop_map(|(w, of)| match of {
            1 => Effective::whole(Weight::new(w).expect("positive")),
            _ => Effective::ratio(u64::from(w), of),
        })
    }

    proptest! {
        #[test]
        fn behaves_like_a_scan(
            steps in proptest::collection::vec((0u8..4, 0u32..50, 0i128..60, effective()), 1..300),
            growth in 1u32..9,
        ) {
            let mut surplus = Surplus::default();
            let mut naive = vec![None; 50];
            let mut now: (i128, i128) = (0, 1);
            for (verb, id, number, effective) in steps {
                surplus.reserve((id as usize + 1).max(surplus.lines.len()));
                match verb {
                    0 | 1 => {
                        let service = number * 5 + now.0 / now.1;
                        surplus.insert(TaskId(id), service, effective);
                        naive[id as usize] = Some((service, effective));
                    }
                    2 => {
                        surplus.remove(TaskId(id));
                        naive[id as usize] = None;
                    }
                    _ => {
                        let of = i128::from(growth);
                        let service = now.0 * of / now.1 + number % 7;
                        now = (service, of);
                        let weight = Weight::new(growth).expect("positive");
                        surplus.advance(Effective::whole(weight).start(service));
                    }
                }
                prop_assert_eq!(surplus.peek(), least(&naive, now));
            }
        }
    }
}

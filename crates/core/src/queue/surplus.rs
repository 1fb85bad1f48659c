//! Tasks by surplus φ·(S − v), the least first, while virtual time v advances.
//!
//! The surplus of a task is a line in v that falls with slope φ, so the order of two waiting tasks
//! changes as time passes though neither runs: no heap can keep it. A *kinetic tournament* can:
//! a binary tree whose leaves are the tasks, every node of which knows the best task below it, a time
//! before which its own match ends as it did, and the least such time below it. When v reaches the
//! time of the root, only the matches whose time has come are played again; where a match ends as
//! it did, those above it only learn the new time.
//!
//! Comparisons are exact. The times are rounded down to 2^−32 ns, which costs a comparison too
//! many now and then, and decides nothing.
//!
//! Cost: `insert`, `remove` and `advance` O(1), for they only note what has changed; `least`, which
//! plays, O(log N) for each task that changed since the last one, of which the matches are as many
//! as the task wins, and one; O(log N) for each change of a winner since; and never more than O(N).
//! Nothing allocates but [`Surplus::reserve`].

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
    /// The task is in.
    present: bool,
    /// The task is in `Surplus::stale`.
    stale: bool,
}

const NO_LINE: Line =
    Line { service_ns: 0, effective: Effective::ONE, present: false, stale: false };

#[derive(Clone, Copy, Debug)]
struct Node {
    /// The task of least surplus below.
    winner: u32,
    /// Until v reaches this, in 2^−32 ns, the match here ends as it did.
    stands_until: i128,
    /// Until v reaches this, neither this match nor any below changes.
    until: i128,
}

const EMPTY: Node = Node { winner: NOBODY, stands_until: NEVER, until: NEVER };

/// Tasks by surplus. `queue/surplus.rs` opens with how it works.
#[derive(Clone, Debug)]
pub struct Surplus {
    /// By task.
    lines: Vec<Line>,
    /// The tasks whose lines changed since the tree was played.
    stale: Vec<TaskId>,
    /// A complete tree: the children of `n` are `2n` and `2n + 1`, the root is 1, the leaf of
    /// task t is `nodes.len() / 2 + t`.
    nodes: Vec<Node>,
    /// v. Never goes back.
    now: Start,
    /// v has advanced since the tree was played.
    advanced: bool,
}

impl Default for Surplus {
    fn default() -> Self {
        Surplus {
            lines: Vec::new(),
            stale: Vec::new(),
            nodes: alloc::vec![EMPTY; 2],
            now: Start::ZERO,
            advanced: false,
        }
    }
}

impl Surplus {
    /// Makes room for tasks with ids below `ids`; the only call that allocates.
    pub fn reserve(&mut self, ids: usize) {
        if ids <= self.lines.len() {
            return;
        }
        let room = ids.next_power_of_two();
        self.lines.resize(room, NO_LINE);
        self.stale.reserve(room - self.stale.len());
        self.nodes = alloc::vec![EMPTY; 2 * room];
        self.rebuild();
    }

    /// Virtual time: the latest of all `advance`.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Start {
        self.now
    }

    /// Virtual time reaches `now`; an earlier one is ignored.
    #[inline]
    pub fn advance(&mut self, now: Start) {
        if now > self.now {
            self.now = now;
            self.advanced = true;
        }
    }

    /// Puts `task` in with the start tag S = `service_ns`/φ, or changes it if it is in.
    ///
    /// # Panics
    /// When no room was reserved for its id.
    #[inline]
    pub fn insert(&mut self, task: TaskId, service_ns: i128, effective: Effective) {
        let Line { stale, .. } = self.lines[task.index()];
        self.lines[task.index()] = Line { service_ns, effective, present: true, stale };
        self.note(task);
    }

    /// Takes `task` out if it is in.
    #[inline]
    pub fn remove(&mut self, task: TaskId) {
        self.lines[task.index()].present = false;
        self.note(task);
    }

    #[inline]
    fn note(&mut self, task: TaskId) {
        if !core::mem::replace(&mut self.lines[task.index()].stale, true) {
            self.stale.push(task);
        }
    }

    /// The task of least surplus at the time of the last `advance`, ties to the lowest id.
    #[must_use]
    pub fn least(&mut self) -> Option<TaskId> {
        // To play everything takes as many matches as there is room for tasks; a task takes a few.
        if self.stale.len() > self.lines.len() / 4 {
            self.rebuild();
        } else if self.advanced {
            self.replay(1, rounded_down(self.now));
        }
        self.advanced = false;
        while let Some(task) = self.stale.pop() {
            let line = &mut self.lines[task.index()];
            line.stale = false;
            let winner = if line.present { task.0 } else { NOBODY };
            self.set_leaf(task, winner);
        }
        let winner = self.nodes[1].winner;
        (winner != NOBODY).then_some(TaskId(winner))
    }

    /// Plays all matches.
    fn rebuild(&mut self) {
        for task in self.stale.drain(..) {
            self.lines[task.index()].stale = false;
        }
        let leaves = self.nodes.len() / 2;
        for ((id, line), leaf) in (0..).zip(&self.lines).zip(&mut self.nodes[leaves..]) {
            leaf.winner = if line.present { id } else { NOBODY };
        }
        (1..leaves).rev().for_each(|node| self.play(node));
    }

    /// The leaf of `task`, or its line, is another one: plays the matches that it wins or won, and
    /// the one above them.
    fn set_leaf(&mut self, task: TaskId, winner: u32) {
        let mut node = self.nodes.len() / 2 + task.index();
        self.nodes[node].winner = winner;
        let mut concerns_task = true;
        while node > 1 {
            node /= 2;
            if concerns_task {
                let before = self.nodes[node].winner;
                self.play(node);
                let after = self.nodes[node].winner;
                concerns_task = before != after || after == task.0;
            } else if !self.collect(node) {
                break;
            }
        }
    }

    /// Plays the matches again whose time has come, below `node` and at it.
    /// True if its winner is another one.
    fn replay(&mut self, node: usize, now: i128) -> bool {
        if self.nodes[node].until > now {
            return false;
        }
        let mut changed = self.replay(2 * node, now);
        changed |= self.replay(2 * node + 1, now);
        let Node { winner, stands_until, .. } = self.nodes[node];
        if changed || stands_until <= now {
            self.play(node);
            self.nodes[node].winner != winner
        } else {
            self.collect(node);
            false
        }
    }

    /// The match at `node` stands, and the times below may have changed. True if its own did.
    #[inline]
    fn collect(&mut self, node: usize) -> bool {
        let below = self.nodes[2 * node].until.min(self.nodes[2 * node + 1].until);
        let until = below.min(self.nodes[node].stands_until);
        core::mem::replace(&mut self.nodes[node].until, until) != until
    }

    /// The match between the winners below `node`.
    #[inline]
    fn play(&mut self, node: usize) {
        let [left, right] = &self.nodes[2 * node..2 * node + 2] else {
            unreachable!("every match has two sides")
        };
        let (winner, stands_until) = match (left.winner, right.winner) {
            (winner, NOBODY) | (NOBODY, winner) => (winner, NEVER),
            (a, b) => self.result(a, b),
        };
        let until = left.until.min(right.until).min(stands_until);
        self.nodes[node] = Node { winner, stands_until, until };
    }

    /// Who of the two has the least surplus now, equal ones by id, and when that changes.
    #[inline]
    fn result(&self, a: u32, b: u32) -> (u32, i128) {
        let ahead = self.lines[a as usize].minus(&self.lines[b as usize]);
        match ahead.at(self.now).then(a.cmp(&b)) {
            Ordering::Less => (a, ahead.reversed().passes_zero()),
            _ => (b, ahead.passes_zero()),
        }
    }
}

/// How far one task's surplus is above another's, as a function of v: `service` − `slope`·v, over
/// a denominator that does not matter.
#[derive(Clone, Copy, Debug)]
struct Difference {
    service: i128,
    /// At most 2^62, the largest total of all weights.
    slope: i64,
}

impl Line {
    #[inline]
    fn minus(&self, other: &Line) -> Difference {
        let service = self.service_ns - other.service_ns;
        let ((parts, of), (parts_b, of_b)) =
            (self.effective.fraction(), other.effective.fraction());
        let (parts, parts_b) = (parts.cast_signed(), parts_b.cast_signed());
        if (of, of_b) == (1, 1) {
            return Difference { service, slope: parts - parts_b };
        }
        if of == of_b {
            return Difference { service: service * i128::from(of), slope: parts - parts_b };
        }
        // One weight is capped, or both are and the cap has just changed; then they will play again.
        let slope =
            parts.saturating_mul(of_b.into()).saturating_sub(parts_b.saturating_mul(of.into()));
        Difference { service: service * i128::from(of) * i128::from(of_b), slope }
    }
}

impl Difference {
    #[inline]
    fn reversed(self) -> Difference {
        Difference { service: -self.service, slope: -self.slope }
    }

    /// Its sign at v = `now`.
    #[inline]
    fn at(self, now: Start) -> Ordering {
        // Whole nanoseconds of v first.
        let rest = self.service - i128::from(self.slope) * i128::from(now.whole());
        if rest.unsigned_abs() > u128::from(self.slope.unsigned_abs()) {
            return rest.cmp(&0);
        }
        let (part, of) = now.part();
        (rest * i128::from(of)).cmp(&(i128::from(self.slope) * i128::from(part)))
    }

    /// When it falls to zero, in 2^−32 ns, rounded down.
    #[inline]
    fn passes_zero(self) -> i128 {
        if self.slope <= 0 {
            return NEVER;
        }
        let slope = u128::from(self.slope.unsigned_abs());
        let (whole, rest) = divide(self.service, slope);
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
                if number % 3 > 0 {
                    prop_assert_eq!(surplus.least(), least(&naive, now));
                }
            }
        }
    }
}

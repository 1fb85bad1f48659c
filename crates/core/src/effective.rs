//! Effective weights of a changing set of tasks on P cpus, and virtual time in their terms.
//!
//! A multiprocessor policy must count an infeasible task for no more than one cpu (see
//! [`weights`](crate::weights)). What a task counts for, φ, is therefore a fraction
//! ([`Effective`]) that changes when *other* tasks come and go. [`Feasible`] keeps the set, and
//! after every change it lists the at most 2P tasks whose φ is another one now.
//!
//! Start tags in their terms, which are exact fractions, are in [`tags`](crate::tags).

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::policy::{TaskId, Weight};
use crate::queue::Links;
use crate::weights::{Cap, Classes, Search};

/// What a task counts for: φ = `parts`/`of`, its weight or the cap.
#[derive(Clone, Copy, Debug)]
pub struct Effective {
    parts: u64,
    of: u32,
}

impl PartialEq for Effective {
    fn eq(&self, other: &Effective) -> bool {
        let (a, b) = (u128::from(self.parts), u128::from(other.parts));
        a * u128::from(other.of) == b * u128::from(self.of)
    }
}

impl Eq for Effective {}

impl Effective {
    /// The weight itself.
    #[must_use]
    pub fn whole(weight: Weight) -> Effective {
        Effective { parts: u64::from(weight.get()), of: 1 }
    }

    /// φ = 1.
    pub const ONE: Effective = Effective { parts: 1, of: 1 };

    /// φ = `parts`/`of`.
    ///
    /// # Panics
    /// When either is 0.
    #[must_use]
    pub const fn ratio(parts: u64, of: u32) -> Effective {
        assert!(parts > 0 && of > 0, "no task counts for nothing");
        Effective { parts, of }
    }

    /// Numerator and denominator of φ.
    #[inline]
    #[must_use]
    pub const fn fraction(self) -> (u64, u32) {
        (self.parts, self.of)
    }

    /// The start tag of a task of this φ that has `service_ns` = φ·S.
    #[inline]
    #[must_use]
    pub fn start(self, service_ns: i128) -> Start {
        let (whole, part) = divide(service_ns * i128::from(self.of), u128::from(self.parts));
        let whole = i64::try_from(whole).unwrap_or(i64::MAX);
        Start { whole, part: u64::try_from(part).expect("below parts"), of: self.parts }
    }
}

/// A point of virtual time in parts of one task's φ: `whole + part/of` ns per unit of weight.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    whole: i64,
    /// Below `of`.
    part: u64,
    of: u64,
}

impl Start {
    /// The start of virtual time.
    pub const ZERO: Start = Start { whole: 0, part: 0, of: 1 };

    /// The whole nanoseconds, rounded down.
    #[inline]
    #[must_use]
    pub const fn whole(self) -> i64 {
        self.whole
    }

    /// What is left above the whole nanoseconds: numerator and denominator.
    #[inline]
    #[must_use]
    pub const fn part(self) -> (u64, u64) {
        (self.part, self.of)
    }
}

impl Ord for Start {
    #[inline]
    fn cmp(&self, other: &Start) -> Ordering {
        self.whole.cmp(&other.whole).then_with(|| {
            let (a, b) = (u128::from(self.part), u128::from(other.part));
            (a * u128::from(other.of)).cmp(&(b * u128::from(self.of)))
        })
    }
}

impl PartialOrd for Start {
    #[inline]
    fn partial_cmp(&self, other: &Start) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Start {
    fn eq(&self, other: &Start) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Start {}

/// A point of virtual time in parts of the total weight of a set.
#[derive(Clone, Copy, Debug)]
pub struct Virtual {
    whole: i128,
    /// Below `of`.
    part: u128,
    of: u128,
}

impl Virtual {
    /// The start of virtual time.
    pub const ZERO: Virtual = Virtual { whole: 0, part: 0, of: 1 };

    /// When clients that count for `parts`/`of` in all have received `service_ns`.
    ///
    /// # Panics
    /// When they count for nothing.
    #[must_use]
    pub fn reached(service_ns: i128, parts: u128, of: u32) -> Virtual {
        assert!(parts > 0, "nobody to receive anything");
        Virtual::ratio(service_ns * i128::from(of), parts)
    }

    /// `above`/`below` ns per unit of weight.
    #[inline]
    fn ratio(above: i128, below: u128) -> Virtual {
        let (whole, part) = divide(above, below);
        Virtual { whole, part, of: below }
    }

    /// φ·v rounded down to a nanosecond, v being this time.
    #[must_use]
    pub fn service_ns(self, effective: Effective) -> i128 {
        let (parts, of) = (u128::from(effective.parts), i128::from(effective.of));
        // 2^-64 of the part decides nothing: α is rounded to a nanosecond anyway.
        let shift = (128 - self.of.leading_zeros()).saturating_sub(64);
        let part = parts * (self.part >> shift) / (self.of >> shift).max(1);
        let whole = self.whole * i128::from(effective.parts);
        (whole + i128::try_from(part).expect("below parts")).div_euclid(of)
    }

    /// α of a task that had `service_ns` under φ = `old` and keeps its distance from v under
    /// `new`. The distance may change by a nanosecond.
    #[must_use]
    pub fn carried(self, service_ns: i128, old: Effective, new: Effective) -> i128 {
        if old == new {
            return service_ns;
        }
        self.service_ns(new) + (service_ns - self.service_ns(old))
    }

    /// The later of this time and `start`.
    #[must_use]
    pub fn at_least(self, start: Start) -> Virtual {
        if self.is_after(start) { self } else { start.into() }
    }

    /// True if this time is later than `start`.
    #[inline]
    #[must_use]
    pub fn is_after(self, start: Start) -> bool {
        match self.whole.cmp(&i128::from(start.whole)) {
            Ordering::Less => false,
            Ordering::Greater => true,
            Ordering::Equal => {
                product(self.part, u128::from(start.of)) > product(u128::from(start.part), self.of)
            }
        }
    }
}

impl From<Start> for Virtual {
    fn from(start: Start) -> Virtual {
        let (part, of) = (u128::from(start.part), u128::from(start.of));
        Virtual { whole: i128::from(start.whole), part, of }
    }
}

/// Quotient, rounded down, and remainder. Most numbers fit in 64 bits, and such divisions are
/// several times faster.
#[inline]
pub(crate) fn divide(above: i128, below: u128) -> (i128, u128) {
    if let (Ok(above), Ok(below)) = (u64::try_from(above), u64::try_from(below)) {
        return (i128::from(above / below), u128::from(above % below));
    }
    let below = i128::try_from(below).expect("below 2^127");
    let quotient = above.div_euclid(below);
    (quotient, (above - quotient * below).unsigned_abs())
}

/// a·b in 256 bits: the high half and the low half.
fn product(a: u128, b: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let (a_high, a_low, b_high, b_low) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let low = a_low * b_low;
    let cross = a_high * b_low + (low >> 64);
    let middle = a_low * b_high + (cross & LOW);
    (a_high * b_high + (cross >> 64) + (middle >> 64), middle << 64 | low & LOW)
}

/// The tasks of a machine, the set of those that are runnable, and what each of these counts for.
#[derive(Clone, Debug)]
pub struct Feasible {
    cpus: usize,
    classes: Classes,
    /// The tasks in the set of each order of weight, a queue each: its first task.
    members: [Option<TaskId>; 32],
    links: Links,
    /// By task, in the set or not.
    weights: Vec<Weight>,
    cap: Cap,
    /// The cap while there is a cpu for each task, when any would do.
    cap_of_few: Cap,
    /// The tasks whose weight exceeds the cap: at most P of them.
    capped: Vec<TaskId>,
    /// The result of the last change: tasks, and the φ that each had before.
    changed: Vec<(TaskId, Effective)>,
    scratch: Vec<Weight>,
    /// Nobody asks for φ until [`settle`](Feasible::settle).
    is_put_off: bool,
    /// The cap and the capped are of before the last changes, which were put off.
    is_stale: bool,
}

impl Feasible {
    /// No task on `cpus` cpus.
    #[must_use]
    pub fn new(cpus: usize) -> Feasible {
        Feasible {
            cpus,
            classes: Classes::default(),
            members: [None; 32],
            links: Links::default(),
            weights: Vec::new(),
            cap: Cap::EQUAL,
            cap_of_few: Cap::EQUAL,
            capped: Vec::with_capacity(2 * cpus + 2),
            changed: Vec::with_capacity(2 * cpus + 2),
            scratch: Vec::with_capacity(2 * cpus),
            is_put_off: false,
            is_stale: false,
        }
    }

    /// The same, but while there is a cpu for each task of the set all count for what they weigh, not for
    /// the same: fewer change when tasks come and go. Then [`per_cpu`](Feasible::per_cpu) means nothing.
    #[must_use]
    pub fn weighing_few(cpus: usize) -> Feasible {
        Feasible { cap: Cap::NONE, cap_of_few: Cap::NONE, ..Feasible::new(cpus) }
    }

    /// Nobody asks what a task counts for, or what has changed, before [`settle`](Feasible::settle): until
    /// then a task joins or leaves in O(1).
    pub fn put_off(&mut self) {
        self.is_put_off = true;
    }

    /// Ends what [`put_off`](Feasible::put_off) began: all is as if it had not been. O(P).
    pub fn settle(&mut self) {
        self.is_put_off = false;
        if self.is_stale {
            self.readjust(None);
            self.changed.clear();
        }
    }

    /// Makes room for tasks with ids below `ids`; the only call that allocates.
    pub fn reserve(&mut self, ids: usize) {
        if ids > self.weights.len() {
            self.weights.resize(ids, Weight::ONE);
            self.links.reserve(ids);
        }
    }

    /// Number of tasks in the set.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.classes.count()
    }

    /// There is a cpu for each task of the set.
    #[must_use]
    pub fn has_cpu_for_each(&self) -> bool {
        self.count() <= self.cpus
    }

    /// The cap under which the tasks count.
    #[must_use]
    pub fn cap(&self) -> Cap {
        self.cap
    }

    /// What `task` weighs.
    #[must_use]
    pub fn weight(&self, task: TaskId) -> Weight {
        self.weights[task.index()]
    }

    /// What `task`, which is not in the set, weighs from now on.
    ///
    /// # Panics
    /// When it is in the set or no room was reserved.
    pub fn set_weight(&mut self, task: TaskId, weight: Weight) {
        assert!(!self.links.contains(task), "{task:?} is in the set");
        self.weights[task.index()] = weight;
    }

    /// What `task` of the set counts for.
    #[must_use]
    pub fn effective(&self, task: TaskId) -> Effective {
        debug_assert!(self.links.contains(task), "{task:?} is not in the set");
        debug_assert!(!self.is_stale, "what {task:?} counts for was put off");
        effective_under(self.cap, self.weight(task))
    }

    /// What a whole cpu counts for, c: no φ is above it. Every task's share of one cpu is φ/c.
    #[inline]
    #[must_use]
    pub fn per_cpu(&self) -> Effective {
        if self.count() == 0 {
            return Effective::ONE;
        }
        if self.cap != Cap::NONE {
            let (parts, of) = self.cap.fraction();
            return Effective { parts, of };
        }
        let cpus = u32::try_from(self.cpus).expect("at most Setup::MAX_CPUS");
        Effective { parts: self.classes.total_weight(), of: cpus }
    }

    /// The cpus that can be busy: P, or fewer if there are fewer tasks. The total of φ is this
    /// many times [`per_cpu`](Feasible::per_cpu).
    #[inline]
    #[must_use]
    pub fn busy_cpus(&self) -> usize {
        self.cpus.min(self.count())
    }

    /// The virtual time at which all tasks together have `service_ns` = v·Σφ; zero when the set
    /// is empty.
    #[inline]
    #[must_use]
    pub fn virtual_time(&self, service_ns: i128) -> Virtual {
        let Effective { parts, of } = self.per_cpu();
        match self.busy_cpus() as u128 {
            0 => Virtual::ZERO,
            busy => Virtual::reached(service_ns, busy * u128::from(parts), of),
        }
    }

    /// `task` joins; see [`changed`](Feasible::changed). O(P).
    ///
    /// # Panics
    /// When it is in the set already or no room was reserved.
    pub fn insert(&mut self, task: TaskId) {
        assert!(!self.links.contains(task), "{task:?} is in the set already");
        let weight = self.weight(task);
        self.links.push(&mut self.members[weight.order() as usize], task);
        self.classes.insert(weight);
        self.readjust(Some(task));
    }

    /// `task` leaves; see [`changed`](Feasible::changed). O(P).
    ///
    /// # Panics
    /// When it is not in the set.
    pub fn remove(&mut self, task: TaskId) {
        assert!(self.links.contains(task), "{task:?} is not in the set");
        let weight = self.weight(task);
        self.links.remove(&mut self.members[weight.order() as usize], task);
        self.classes.remove(weight);
        if self.cap.exceeded_by(weight) {
            self.capped.retain(|&t| t != task);
        }
        self.readjust(None);
    }

    /// The *other* tasks whose φ the last `insert` or `remove` changed, each with its φ before:
    /// at most 2P.
    #[must_use]
    pub fn changed(&self) -> &[(TaskId, Effective)] {
        &self.changed
    }

    fn readjust(&mut self, newcomer: Option<TaskId>) {
        self.changed.clear();
        // While there is a cpu for each, this is O(1), and the capped are in the order in which they came.
        if self.is_put_off && self.count() > self.cpus {
            self.is_stale = true;
            return;
        }
        let before = self.cap;
        self.cap = self.fresh_cap();
        if core::mem::take(&mut self.is_stale) {
            self.collect_capped();
            return;
        }
        if self.cap == before {
            let capped = newcomer.filter(|&task| before.exceeded_by(self.weight(task)));
            self.capped.extend(capped);
            return;
        }
        for i in 0..self.capped.len() {
            self.note_change(self.capped[i], before);
        }
        self.collect_capped();
        for i in 0..self.capped.len() {
            let task = self.capped[i];
            if Some(task) != newcomer && !before.exceeded_by(self.weight(task)) {
                self.note_change(task, before);
            }
        }
    }

    fn fresh_cap(&mut self) -> Cap {
        if self.has_cpu_for_each() {
            return self.cap_of_few;
        }
        let Feasible { classes, members, links, weights, scratch, .. } = self;
        classes.cap(self.cpus, Search::fastest(self.cpus), scratch, |order, out| {
            let tasks = links.iter(members[order as usize]);
            out.extend(tasks.map(|task| weights[task.index()]));
        })
    }

    fn note_change(&mut self, task: TaskId, before: Cap) {
        let weight = self.weight(task);
        let old = effective_under(before, weight);
        if old.fraction() != effective_under(self.cap, weight).fraction() {
            self.changed.push((task, old));
        }
    }

    /// Finds the tasks above the cap: all are in the groups from the cap's order upwards.
    fn collect_capped(&mut self) {
        let Feasible { members, links, weights, capped, cap, .. } = self;
        capped.clear();
        if *cap == Cap::NONE {
            return;
        }
        for &first in &members[cap.order().min(31) as usize..] {
            let tasks = links.iter(first);
            capped.extend(tasks.filter(|task| cap.exceeded_by(weights[task.index()])));
        }
    }
}

fn effective_under(cap: Cap, weight: Weight) -> Effective {
    if cap != Cap::NONE && cap.exceeded_by(weight) {
        let (parts, of) = cap.fraction();
        return Effective { parts, of };
    }
    Effective::whole(weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights;
    use proptest::prelude::*;

    /// The naive twin: all weights sorted, the cap from the sorted algorithm.
    fn naive(set: &[Option<Weight>], cpus: usize) -> Vec<Option<(u64, u32)>> {
        let mut sorted: Vec<Weight> = set.iter().copied().flatten().collect();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let cap = weights::sorted(&sorted, cpus);
        let effective = |weight: Weight| match cap == Cap::NONE || !cap.exceeded_by(weight) {
            true => (u64::from(weight.get()), 1),
            false => cap.fraction(),
        };
        set.iter().map(|weight| weight.map(effective)).collect()
    }

    /// With a cpu for each, or one too few: weights of 5 and 1, then another of 1, on two cpus.
    #[test]
    fn few_count_for_what_they_weigh() {
        let mut feasible = Feasible::weighing_few(2);
        feasible.reserve(3);
        let ids = [0, 1, 2].map(TaskId);
        for (id, weight) in ids.into_iter().zip([5, 1, 1]) {
            feasible.set_weight(id, Weight::new(weight).expect("positive"));
        }
        let counts = |feasible: &Feasible, id| feasible.effective(id).fraction();
        feasible.insert(ids[0]);
        feasible.insert(ids[1]);
        assert!(feasible.has_cpu_for_each() && feasible.changed().is_empty());
        assert_eq!([0, 1].map(|i| counts(&feasible, ids[i])), [(5, 1), (1, 1)]);
        feasible.insert(ids[2]);
        assert!(!feasible.has_cpu_for_each());
        assert_eq!(feasible.changed(), [(ids[0], Effective::ratio(5, 1))]);
        assert_eq!([0, 1, 2].map(|i| counts(&feasible, ids[i])), [(2, 1), (1, 1), (1, 1)]);
    }

    proptest! {
        /// Every φ is that of the naive twin, and `changed` lists exactly the others that changed.
        #[test]
        fn feasible_behaves_like_sorting(
            cpus in 1usize..9,
            steps in proptest::collection::vec((0usize..24, 0u32..32, any::<u32>()), 1..120),
        ) {
            let mut feasible = Feasible::new(cpus);
            feasible.reserve(24);
            let mut set: Vec<Option<Weight>> = alloc::vec![None; 24];
            for (i, shift, noise) in steps {
                let task = TaskId(u32::try_from(i).expect("few"));
                let before = naive(&set, cpus);
                match set[i].take() {
                    Some(_) => feasible.remove(task),
                    None => {
                        let weight = Weight::new((noise >> shift).max(1)).expect("positive");
                        set[i] = Some(weight);
                        feasible.set_weight(task, weight);
                        feasible.insert(task);
                    }
                }
                let after = naive(&set, cpus);
                let mut changed: Vec<(u32, (u64, u32))> =
                    feasible.changed().iter().map(|(t, old)| (t.0, old.fraction())).collect();
                changed.sort_unstable();
                let expected: Vec<(u32, (u64, u32))> = (0..)
                    .zip(before.iter().zip(&after))
                    .filter(|&(id, (old, new))| id != task.0 && old != new)
                    .filter_map(|(id, (old, _))| old.map(|old| (id, old)))
                    .collect();
                prop_assert_eq!(changed, expected);
                for (id, effective) in (0..).zip(&after) {
                    let Some(effective) = *effective else { continue };
                    prop_assert_eq!(feasible.effective(TaskId(id)).fraction(), effective);
                }
            }
        }

        /// Changes that were put off leave all as it would be, the order of the capped, too.
        #[test]
        fn what_was_put_off_makes_no_difference(
            cpus in 1usize..9,
            steps in proptest::collection::vec((0usize..24, 0u32..32, any::<u32>()), 1..120),
            from in 0usize..100,
            length in 0usize..60,
        ) {
            let mut both = [Feasible::new(cpus), Feasible::new(cpus)];
            both.iter_mut().for_each(|feasible| feasible.reserve(24));
            let mut is_member = [false; 24];
            for (step, (i, shift, noise)) in steps.into_iter().enumerate() {
                if step == from {
                    both[1].put_off();
                }
                if step == from + length {
                    both[1].settle();
                }
                let task = TaskId(u32::try_from(i).expect("few"));
                let weight = Weight::new((noise >> shift).max(1)).expect("positive");
                for feasible in &mut both {
                    if is_member[i] {
                        feasible.remove(task);
                    } else {
                        feasible.set_weight(task, weight);
                        feasible.insert(task);
                    }
                }
                is_member[i] = !is_member[i];
                if !(from..from + length).contains(&step) {
                    prop_assert_eq!(&both[0].capped, &both[1].capped);
                    prop_assert_eq!(&both[0].changed, &both[1].changed);
                    prop_assert_eq!(both[0].cap, both[1].cap);
                }
            }
        }

        /// P·c = Σφ: what a whole cpu counts for is the mean over the busy cpus.
        #[test]
        fn a_cpu_counts_for_its_part_of_the_total(
            cpus in 1usize..9,
            numbers in proptest::collection::vec(1u32..1000, 1..30),
        ) {
            let mut feasible = Feasible::new(cpus);
            feasible.reserve(numbers.len());
            for (id, &n) in (0..).zip(&numbers) {
                feasible.set_weight(TaskId(id), Weight::new(n).expect("positive"));
                feasible.insert(TaskId(id));
            }
            let (parts, of) = feasible.per_cpu().fraction();
            let total: u128 = (0..)
                .zip(&numbers)
                .map(|(id, _)| feasible.effective(TaskId(id)).fraction())
                .map(|(n, d)| u128::from(n) * u128::from(of / d))
                .sum();
            prop_assert_eq!(total, feasible.busy_cpus() as u128 * u128::from(parts));
        }

        #[test]
        fn starts_and_virtual_times_compare_like_fractions(
            (a, b) in ((1u64..1 << 40, 1u32..64), (1u64..1 << 40, 1u32..64)),
            (x, y) in (0i128..1 << 50, 0i128..1 << 50),
        ) {
            let (phi, psi) = (Effective::ratio(a.0, a.1), Effective::ratio(b.0, b.1));
            let fraction = |s: i128, (n, d): (u64, u32)| (s * i128::from(d), i128::from(n));
            let ((xn, xd), (yn, yd)) = (fraction(x, a), fraction(y, b));
            prop_assert_eq!(phi.start(x).cmp(&psi.start(y)), (xn * yd).cmp(&(yn * xd)));
            let now = Virtual::reached(y, u128::from(b.0), b.1);
            prop_assert_eq!(now.is_after(phi.start(x)), yn * xd > xn * yd);
            // φ·v rounded down, exactly.
            let due = i128::from(a.0) * yn / (yd * i128::from(a.1));
            prop_assert_eq!(now.service_ns(phi), due);
            prop_assert_eq!(now.carried(now.service_ns(phi) + 7, phi, psi), now.service_ns(psi) + 7);
        }
    }

    #[test]
    fn quotients_are_rounded_down() {
        assert_eq!(divide(17, 5), (3, 2));
        assert_eq!(divide(-17, 5), (-4, 3));
        assert_eq!(divide(17 << 70, 5), ((17 << 70) / 5, ((17u128 << 70) % 5)));
        assert_eq!(divide(17, 1 << 90), (0, 17));
    }

    #[test]
    fn products_of_128_bits() {
        assert_eq!(product(u128::MAX, u128::MAX), (u128::MAX - 1, 1));
        assert_eq!(product(1 << 100, 1 << 100), (1 << 72, 0));
        assert_eq!(product(12, 34), (0, 408));
    }
}

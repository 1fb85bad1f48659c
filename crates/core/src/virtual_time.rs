//! Virtual time in exact integers, for the policies that order tasks by service per unit of
//! weight (WFQ, stride, SFQ, WF²Q, EEVDF, VTRR, DFS …).
//!
//! A [`Tag`] is a task's own virtual time: a number of 1/weight nanoseconds. A task that always
//! runs moves its tag by used/weight, which a tag holds exactly, and two tags are compared by
//! cross-multiplication, exactly. A [`Clock`] is the virtual time of the whole system, a number of
//! 1/Φ nanoseconds, Φ being the total weight of the runnable tasks, exact as long as Φ stays.
//!
//! Rounding happens where the denominator changes, and nowhere else:
//!
//! | event                                | error                                            |
//! |--------------------------------------|--------------------------------------------------|
//! | a task takes its tag from the clock or from another tag | the tag is rounded up: less than 1 ns of that task's service |
//! | Φ changes                            | the clock loses less than 2^−64 ns per unit of weight: less than 2^−32 ns of any task's service |
//! | a weight changes ([`Clock::reweigh`])| less than 2 ns of that task's service            |
//!
//! Virtual time is in ns per unit of weight, so 64 bits hold 584 years of a task of weight 1.

use core::cmp::Ordering;

use crate::policy::{Nanos, Weight};

/// A virtual time of one task: `whole + part/weight` nanoseconds per unit of weight.
#[derive(Clone, Copy, Debug)]
pub struct Tag {
    whole: u64,
    /// Below `weight`.
    part: u32,
    weight: u32,
}

impl Tag {
    /// The start of time, for a task of `weight`.
    #[must_use]
    pub const fn zero(weight: Weight) -> Tag {
        Tag { whole: 0, part: 0, weight: weight.get() }
    }

    /// The weight whose parts this tag counts.
    ///
    /// # Panics
    /// Never: a tag's weight is not 0.
    #[must_use]
    pub const fn weight(self) -> Weight {
        Weight::new(self.weight).expect("made from a weight")
    }

    /// This tag after `service_ns` of service: later by `service_ns`/weight.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "below weight after the carry")]
    pub fn after(self, service_ns: Nanos) -> Tag {
        let weight = u64::from(self.weight);
        let part = u64::from(self.part) + service_ns % weight;
        let carry = part >= weight;
        let part = part - if carry { weight } else { 0 };
        Tag {
            whole: self.whole + service_ns / weight + u64::from(carry),
            part: part as u32,
            ..self
        }
    }

    /// The tag as a meter.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "modulo 2^64")]
    pub fn meter(self) -> Meter {
        Meter(self.total_parts() as u64)
    }

    /// The least tag in parts of `weight` that is no earlier than this one.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "below weight, or carried")]
    pub fn rounded_up(self, weight: Weight) -> Tag {
        let weight = weight.get();
        if weight == self.weight {
            return self;
        }
        let part = u64::from(self.part) * u64::from(weight);
        let part = part.div_ceil(u64::from(self.weight));
        let carry = part == u64::from(weight);
        let part = if carry { 0 } else { part as u32 };
        Tag { whole: self.whole + u64::from(carry), part, weight }
    }

    /// The tag of a task whose weight changes to `weight`: its distance from `now`, measured in
    /// service, stays.
    #[must_use]
    pub fn reweighed(self, weight: Weight, now: Tag) -> Tag {
        let ahead_ns = self.service_since(now.rounded_up(self.weight()));
        Tag::from_parts(now.rounded_up(weight).total_parts() + ahead_ns, weight)
    }

    /// Service that lies between `earlier` and this tag, of the same weight, in ns; negative if
    /// `earlier` is later.
    #[must_use]
    pub fn service_since(self, earlier: Tag) -> i128 {
        debug_assert_eq!(self.weight, earlier.weight, "one task's tags");
        self.total_parts() - earlier.total_parts()
    }

    /// The tag in parts of 1/weight.
    fn total_parts(self) -> i128 {
        i128::from(self.whole) * i128::from(self.weight) + i128::from(self.part)
    }

    /// `parts` of 1/`weight`, or the start of time if that is later.
    fn from_parts(parts: i128, weight: Weight) -> Tag {
        let (parts, divisor) = (parts.max(0), i128::from(weight.get()));
        Tag {
            whole: u64::try_from(parts / divisor).expect("584 years of virtual time"),
            part: u32::try_from(parts % divisor).expect("below weight"),
            weight: weight.get(),
        }
    }
}

/// A tag as weight·tag, a number of nanoseconds of service, modulo 2^64: advances by an addition.
///
/// It means the tag that is less than 2^63 ns of service (292 years) from a clock beside it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter(u64);

impl Meter {
    /// Advances by `service_ns`/weight.
    #[inline]
    pub fn advance(&mut self, service_ns: Nanos) {
        self.0 = self.0.wrapping_add(service_ns);
    }

    /// Takes `service_ns`/weight back.
    #[inline]
    pub fn take_back(&mut self, service_ns: Nanos) {
        self.0 = self.0.wrapping_sub(service_ns);
    }

    /// How far the meter is from `whole`, in ns of service of a task of `weight`.
    #[inline]
    fn lead(self, whole: u64, weight: u32) -> i64 {
        self.0.wrapping_sub(whole.wrapping_mul(u64::from(weight))).cast_signed()
    }
}

/// A clock that goes by quanta, to within one unit: two additions a quantum, no remainder.
///
/// It is behind the clock that it was taken from by less than 1, for 2^64 quanta.
#[derive(Clone, Copy, Debug, Default)]
pub struct Estimate {
    /// In units of 2^−64.
    now: u128,
    /// Q/Φ, rounded down.
    quantum: u128,
}

impl Estimate {
    /// A quantum passes.
    #[inline]
    pub fn tick(&mut self) {
        self.now += self.quantum;
    }

    /// True only if the tag that the meter means, for a task of `weight`, is earlier than the clock.
    #[inline]
    #[must_use]
    pub fn has_passed(&self, meter: Meter, weight: u32) -> bool {
        meter.lead(self.whole(), weight) < 0
    }

    /// True only if it is not.
    #[inline]
    #[must_use]
    pub fn has_not_reached(&self, meter: Meter, weight: u32) -> bool {
        meter.lead(self.whole(), weight) >= 3 * i64::from(weight)
    }

    #[inline]
    fn whole(&self) -> u64 {
        split(self.now).0
    }
}

impl Tag {
    /// The tag as one number, in units that this tag and one of `weight` have in common: compared
    /// without branches, which a heap could not predict.
    #[inline]
    fn scaled(self, weight: u32) -> u128 {
        (u128::from(self.whole) << 64) | u128::from(u64::from(self.part) * u64::from(weight))
    }
}

impl Ord for Tag {
    #[inline]
    fn cmp(&self, other: &Tag) -> Ordering {
        self.scaled(other.weight).cmp(&other.scaled(self.weight))
    }
}

impl PartialOrd for Tag {
    #[inline]
    fn partial_cmp(&self, other: &Tag) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Tag {
    fn eq(&self, other: &Tag) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Tag {}

/// The virtual time of the system: it advances by 1/Φ for every nanosecond of service, Φ being the
/// total weight of the runnable tasks. While nothing is runnable it stands still.
///
/// Its value is `whole + part/total + fraction/2^64` nanoseconds per unit of weight.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    whole: u64,
    /// Below `total`, or 0.
    part: u64,
    /// What was left of `part` when the total changed last.
    fraction: u64,
    /// Φ.
    total: u64,
    /// The length of service that is most common, and what it adds to `whole` and `part`.
    quantum_ns: Nanos,
    quantum_whole: u64,
    quantum_part: u64,
}

/// A clock's value as `whole + (fraction + rest/total)/2^64`, `rest` below `total`.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Reading {
    whole: u64,
    fraction: u64,
    rest: u128,
}

impl Clock {
    /// A clock at 0 that divides `quantum_ns` by Φ only when Φ changes.
    #[must_use]
    pub fn new(quantum_ns: Nanos) -> Clock {
        Clock { quantum_ns, ..Clock::default() }
    }

    /// Φ, the total weight of the runnable tasks.
    #[inline]
    #[must_use]
    pub fn total_weight(&self) -> u64 {
        self.total
    }

    /// Advances by `service_ns`/Φ.
    #[inline]
    pub fn advance(&mut self, service_ns: Nanos) {
        debug_assert!(self.total > 0, "service to no task");
        if service_ns == self.quantum_ns {
            self.advance_quantum();
        } else {
            self.add(service_ns / self.total, service_ns % self.total);
        }
    }

    /// Advances by the quantum that the clock was made with.
    #[inline]
    fn advance_quantum(&mut self) {
        self.add(self.quantum_whole, self.quantum_part);
    }

    /// Advances by that quantum `count` times.
    ///
    /// # Panics
    /// After 584 years of virtual time.
    pub fn advance_quanta(&mut self, count: u64) {
        debug_assert!(self.total > 0, "quanta of no task");
        let (service, total) = (u128::from(count) * u128::from(self.quantum_ns), self.total);
        let whole = u64::try_from(service / u128::from(total)).expect("584 years of virtual time");
        let (_, part) = split(service % u128::from(total));
        self.add(whole, part);
    }

    #[inline]
    fn add(&mut self, whole: u64, part: u64) {
        let part = self.part + part;
        let carry = part >= self.total;
        self.part = part - if carry { self.total } else { 0 };
        self.whole += whole + u64::from(carry);
    }

    /// The clock as it was `service_ns` ago, all of it since Φ changed last.
    #[must_use]
    pub fn before(&self, service_ns: Nanos) -> Clock {
        let (whole, part) = (service_ns / self.total.max(1), service_ns % self.total.max(1));
        let borrow = self.part < part;
        let part = self.part + if borrow { self.total } else { 0 } - part;
        Clock { whole: self.whole - whole - u64::from(borrow), part, ..*self }
    }

    /// A task of `weight` becomes runnable.
    pub fn join(&mut self, weight: Weight) {
        self.set_total(self.total + u64::from(weight.get()));
    }

    /// A task of `weight` is runnable no more.
    pub fn leave(&mut self, weight: Weight) {
        self.set_total(self.total - u64::from(weight.get()));
    }

    /// The clock as a tag of a task of `weight`, rounded up.
    #[must_use]
    pub fn tag(&self, weight: Weight) -> Tag {
        let now = self.read();
        let product = u128::from(now.fraction) * u128::from(weight.get());
        let (part, below) = split(product);
        let part = part + u64::from(below > 0 || now.rest > 0);
        let parts = i128::from(now.whole) * i128::from(weight.get()) + i128::from(part);
        Tag::from_parts(parts, weight)
    }

    /// Moves the clock forward to `tag` if it is behind; too far by less than 2^−64.
    pub fn at_least(&mut self, tag: Tag) {
        if !self.has_reached(tag) {
            let fraction = (u128::from(tag.part) << 64).div_ceil(u128::from(tag.weight));
            let (carry, fraction) = split(fraction);
            debug_assert_eq!(carry, 0, "part is below weight");
            *self = Clock { whole: tag.whole, part: 0, fraction, ..*self };
        }
    }

    /// True if `tag` is not later than the clock.
    #[inline]
    #[must_use]
    pub fn has_reached(&self, tag: Tag) -> bool {
        // Beside `whole`, the clock is below 2.
        tag.whole < self.whole || (tag.whole <= self.whole + 1 && self.compare(tag).is_le())
    }

    /// True if `tag` is earlier than the clock.
    #[inline]
    #[must_use]
    pub fn has_passed(&self, tag: Tag) -> bool {
        tag.whole < self.whole || (tag.whole <= self.whole + 1 && self.compare(tag).is_lt())
    }

    /// The clock to within one unit.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        let now = self.read();
        Estimate {
            now: (u128::from(now.whole) << 64) | u128::from(now.fraction),
            quantum: (u128::from(self.quantum_ns) << 64) / u128::from(self.total.max(1)),
        }
    }

    /// The tag that a task's meter means.
    #[must_use]
    pub fn tag_of(&self, meter: Meter, weight: Weight) -> Tag {
        let parts = i128::from(self.whole) * i128::from(weight.get());
        Tag::from_parts(parts + i128::from(meter.lead(self.whole, weight.get())), weight)
    }

    /// `tag` against the clock.
    #[cold]
    #[must_use]
    pub fn compare(&self, tag: Tag) -> Ordering {
        let (total, weight) = (u128::from(self.total.max(1)), u128::from(tag.weight));
        if self.fraction == 0 {
            let (part, own) = (u128::from(tag.part) * total, u128::from(self.part) * weight);
            return (tag.whole, part).cmp(&(self.whole, own));
        }
        let now = self.read();
        let part = u128::from(tag.part) << 64;
        let (_, fraction) = split(part / weight);
        let own = Reading { rest: now.rest * weight, ..now };
        Reading { whole: tag.whole, fraction, rest: part % weight * total }.cmp(&own)
    }

    /// How far `tag` is ahead of the clock, in ns of service; negative if it is behind.
    #[must_use]
    pub fn ahead_ns(&self, tag: Tag) -> i128 {
        tag.service_since(self.tag(tag.weight()))
    }

    /// The tag of a task of `weight` that is ahead of the clock by `ahead_ns` of service.
    #[must_use]
    pub fn tag_ahead(&self, weight: Weight, ahead_ns: i128) -> Tag {
        Tag::from_parts(self.tag(weight).total_parts() + ahead_ns, weight)
    }

    /// The tag of a task whose weight changes to `weight`: its distance from the clock, measured
    /// in service, stays (Waldspurger & Weihl 1995, section 3.3; Linux's `reweight_entity`). That
    /// is also what the piecewise ideal asks for: weight·(tag − clock) is the service error.
    #[must_use]
    pub fn reweigh(&self, tag: Tag, weight: Weight) -> Tag {
        self.tag_ahead(weight, self.ahead_ns(tag))
    }

    fn read(&self) -> Reading {
        let total = u128::from(self.total.max(1));
        let part = u128::from(self.part) << 64;
        let (carry, fraction) = split(part / total + u128::from(self.fraction));
        Reading { whole: self.whole + carry, fraction, rest: part % total }
    }

    fn set_total(&mut self, total: u64) {
        let Reading { whole, fraction, .. } = self.read();
        let divisor = total.max(1);
        *self = Clock {
            whole,
            part: 0,
            fraction,
            total,
            quantum_whole: self.quantum_ns / divisor,
            quantum_part: self.quantum_ns % divisor,
            ..*self
        };
    }
}

/// The mean of the tags of a set of tasks, weighted by their weights: Σφ·S/Σφ, exactly.
///
/// Its value is `sum`/`total`, or `idle` if the set is empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mean {
    /// Σφ·S: whole nanoseconds of service.
    sum: i128,
    /// Φ.
    total: u64,
    /// The mean when the set became empty, rounded up.
    idle: u64,
}

impl Mean {
    /// A task joins at `tag`.
    pub fn join(&mut self, tag: Tag) {
        self.sum += tag.total_parts();
        self.total += u64::from(tag.weight);
    }

    /// The task that is at `tag` leaves.
    pub fn leave(&mut self, tag: Tag) {
        self.sum -= tag.total_parts();
        self.total -= u64::from(tag.weight);
        if self.total == 0 {
            debug_assert_eq!(self.sum, 0, "nobody is left");
            self.idle = tag.whole + u64::from(tag.part > 0);
        }
    }

    /// A task of the set receives `service_ns`: its tag moves by that over its weight.
    #[inline]
    pub fn advance(&mut self, service_ns: Nanos) {
        self.sum += i128::from(service_ns);
    }

    /// True if `tag` is not later than the mean.
    #[inline]
    #[must_use]
    pub fn has_reached(&self, tag: Tag) -> bool {
        let (whole, part, total) = self.read();
        tag.whole < whole
            || tag.whole == whole
                && u128::from(tag.part) * u128::from(total)
                    <= u128::from(part) * u128::from(tag.weight)
    }

    /// How far `tag` is ahead of the mean, in ns of service, rounded down; negative if behind.
    #[must_use]
    pub fn ahead_ns(&self, tag: Tag) -> i128 {
        tag.total_parts() - self.parts(tag.weight())
    }

    /// The tag of a task of `weight` that is ahead of the mean by `ahead_ns` of service, rounded up.
    #[must_use]
    pub fn tag_ahead(&self, weight: Weight, ahead_ns: i128) -> Tag {
        Tag::from_parts(self.parts(weight) + ahead_ns, weight)
    }

    /// What a task of `weight` must be ahead of the mean, so that it is ahead by `ahead_ns` of the
    /// mean that includes it: ahead·(Φ + φ)/Φ, rounded to 0.
    #[must_use]
    pub fn inflate(&self, ahead_ns: i128, weight: Weight) -> i128 {
        let total = i128::from(self.total);
        if total == 0 { 0 } else { ahead_ns * (total + i128::from(weight.get())) / total }
    }

    /// The mean in parts of 1/`weight`, rounded up.
    fn parts(&self, weight: Weight) -> i128 {
        let (whole, part, total) = self.read();
        let parts = (u128::from(part) * u128::from(weight.get())).div_ceil(u128::from(total));
        let (_, parts) = split(parts);
        i128::from(whole) * i128::from(weight.get()) + i128::from(parts)
    }

    /// The mean as a whole number, a part, and of how many parts.
    fn read(&self) -> (u64, u64, u64) {
        if self.total == 0 {
            return (self.idle, 0, 1);
        }
        let total = i128::from(self.total);
        let whole = u64::try_from(self.sum / total).expect("584 years of virtual time");
        (whole, u64::try_from(self.sum % total).expect("below total"), self.total)
    }
}

/// The upper and the lower half.
#[expect(clippy::cast_possible_truncation, reason = "halves")]
const fn split(wide: u128) -> (u64, u64) {
    ((wide >> 64) as u64, wide as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn weight(w: u32) -> Weight {
        Weight::new(w).expect("not 0")
    }

    /// The tag as a fraction: numerator, denominator.
    fn fraction(tag: Tag) -> (u128, u128) {
        (u128::try_from(tag.total_parts()).expect("not negative"), u128::from(tag.weight))
    }

    prop_compose! {
        fn any_weight()(bits in 0u32..32, noise in any::<u32>()) -> Weight {
            weight((noise >> bits).max(1))
        }
    }

    prop_compose! {
        fn any_tag()(w in any_weight(), service in 0u64..1 << 40) -> Tag {
            Tag::zero(w).after(service)
        }
    }

    proptest! {
        #[test]
        fn tags_add_up(w in any_weight(), runs in proptest::collection::vec(0u64..1 << 40, 0..20)) {
            let tag = runs.iter().fold(Tag::zero(w), |tag, &run| tag.after(run));
            let sum: u64 = runs.iter().sum();
            prop_assert_eq!(fraction(tag), (u128::from(sum), u128::from(w.get())));
            prop_assert_eq!(tag.service_since(Tag::zero(w)), i128::from(sum));
        }

        #[test]
        fn tags_compare_like_fractions(a in any_tag(), b in any_tag()) {
            let ((an, ad), (bn, bd)) = (fraction(a), fraction(b));
            prop_assert_eq!(a.cmp(&b), (an * bd).cmp(&(bn * ad)));
        }

        #[test]
        fn rounding_up_adds_less_than_a_nanosecond_of_service(a in any_tag(), w in any_weight()) {
            let up = a.rounded_up(w);
            prop_assert!(up >= a);
            let below = Tag::from_parts(up.total_parts() - 1, w);
            prop_assert!(up.total_parts() == 0 || below < a);
        }

        #[test]
        fn the_clock_is_exact_while_the_total_stays(
            weights in proptest::collection::vec(any_weight(), 1..20),
            runs in proptest::collection::vec(0u64..1 << 40, 0..20),
            tag in any_tag(),
        ) {
            let mut clock = Clock::new(runs.first().copied().unwrap_or(1));
            weights.iter().for_each(|&w| clock.join(w));
            runs.iter().for_each(|&run| clock.advance(run));
            let total: u128 = weights.iter().map(|w| u128::from(w.get())).sum();
            let sum: u128 = runs.iter().map(|&run| u128::from(run)).sum();
            let (n, d) = fraction(tag);
            prop_assert_eq!(clock.compare(tag), (n * total).cmp(&(sum * d)));
            prop_assert_eq!(clock.has_reached(tag), n * total <= sum * d);
            prop_assert_eq!(clock.has_passed(tag), n * total < sum * d);
            let own = fraction(clock.tag(tag.weight()));
            prop_assert_eq!(own.0, (sum * d).div_ceil(total));
            let half = runs.iter().sum::<u64>() / 2 + 1;
            let mut ahead = clock;
            ahead.advance(half);
            prop_assert_eq!(ahead.before(half).tag(tag.weight()), clock.tag(tag.weight()));
            clock.at_least(tag);
            prop_assert!(clock.has_reached(tag));
        }

        /// What an estimate says with certainty is what the clock says, however long it goes.
        #[test]
        fn an_estimate_is_never_wrong(
            weights in proptest::collection::vec(any_weight(), 1..20),
            quantum in 1u64..1 << 34,
            quanta in 0u64..1 << 20,
            tag in any_tag(),
            ahead in -3i64..4,
        ) {
            let mut clock = Clock::new(quantum);
            weights.iter().for_each(|&w| clock.join(w));
            let mut estimate = clock.estimate();
            (0..quanta % 1000).for_each(|_| estimate.tick());
            clock.advance_quanta(quanta % 1000);
            let w = tag.weight();
            let near = Tag::from_parts(
                clock.tag(w).total_parts() + i128::from(ahead * i64::from(w.get())), w);
            // What a meter means: the tag less than 2^63 ns of service away.
            let is_near = |tag: &Tag| tag.service_since(clock.tag(w)).abs() < 1 << 63;
            for tag in [tag, near].into_iter().filter(is_near) {
                prop_assert_eq!(clock.tag_of(tag.meter(), w), tag);
                let passed = clock.has_passed(tag);
                prop_assert!(passed || !estimate.has_passed(tag.meter(), w.get()));
                prop_assert!(!passed || !estimate.has_not_reached(tag.meter(), w.get()));
            }
            let earlier = Tag::from_parts(
                clock.tag(w).total_parts() - 3 * i128::from(w.get()), w);
            let is_later = earlier.whole > 0;
            prop_assert_eq!(is_later, is_later && estimate.has_passed(earlier.meter(), w.get()));
        }

        /// Also when Φ is 1, or nothing is runnable, in between.
        #[test]
        fn changes_of_the_total_do_not_move_the_clock(
            weights in proptest::collection::vec(any_weight(), 1..100),
            run in 0u64..1 << 40,
            w in any_weight(),
        ) {
            let mut clock = Clock::default();
            clock.join(Weight::MAX);
            clock.advance(run);
            let before = clock.tag(w);
            for other in weights {
                clock.leave(weight(u32::try_from(clock.total_weight()).expect("one task")));
                clock.join(other);
            }
            prop_assert!(before.service_since(clock.tag(w)) <= 1);
            prop_assert!(before >= clock.tag(w));
        }

        /// Against the fraction Σφ·S/Σφ.
        #[test]
        fn the_mean_is_exact(
            tags in proptest::collection::vec(any_tag(), 1..20),
            run in 0u64..1 << 40,
            tag in any_tag(),
        ) {
            let mut mean = Mean::default();
            tags.iter().for_each(|&tag| mean.join(tag));
            mean.advance(run);
            let total: u128 = tags.iter().map(|tag| u128::from(tag.weight)).sum();
            let sum: u128 = tags.iter().map(|&tag| fraction(tag).0).sum();
            let sum = sum + u128::from(run);
            let (n, d) = fraction(tag);
            prop_assert_eq!(mean.has_reached(tag), n * total <= sum * d);
            let at_mean = mean.tag_ahead(tag.weight(), 0);
            prop_assert_eq!(fraction(at_mean).0, (sum * d).div_ceil(total));
            prop_assert_eq!(mean.ahead_ns(at_mean.after(run)), i128::from(run));
        }

        #[test]
        fn reweighing_keeps_the_distance_in_service(
            (old, new) in (any_weight(), any_weight()), ahead in 0u64..1 << 40, run in 0u64..1 << 40,
        ) {
            let mut clock = Clock::default();
            clock.join(old);
            clock.advance(run);
            let tag = clock.tag(old).after(ahead);
            let moved = clock.reweigh(tag, new);
            prop_assert_eq!(moved.weight(), new);
            prop_assert_eq!(moved.service_since(clock.tag(new)), i128::from(ahead));
        }
    }
}

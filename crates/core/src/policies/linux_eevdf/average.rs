//! Averages of the past as Linux keeps them (PELT, kernel/sched/pelt.c): what was a while ago counts for
//! less, half as much after every 32 periods of 2^20 ns. With its roundings, which make 1,023 of what
//! has always been 1,024: whether a task is larger than an imbalance, and how many cpus a cgroup uses, may
//! depend on it. But periods begin everywhere at once.

use crate::policy::Nanos;

/// 32 periods.
const HALF_LIFE_PERIODS: u64 = 32;
/// A period is of 1,024 parts, and a part of 1,024 ns.
const PART_ORDER: u32 = 10;
const PARTS: u64 = 1 << 10;
/// What a sum of parts comes to if it was always 1 (`LOAD_AVG_MAX`); without the present period
/// (`PELT_MIN_DIVIDER`).
const LONGEST: u64 = 47_742;
const LONGEST_BEFORE: u64 = LONGEST - PARTS;

/// 2^(−i/32) in 32 binary digits, rounded down (`runnable_avg_yN_inv`).
const DECAY: [u64; 32] = decay_by_periods();

#[allow(clippy::cast_possible_truncation)] // below 2^32
const fn decay_by_periods() -> [u64; 32] {
    // 2^(−1/32) in 64 binary digits: five times the square root of a half.
    let mut period: u128 = 1 << 63;
    let mut roots = 0;
    while roots < 5 {
        period = (period << 64).isqrt();
        roots += 1;
    }
    let mut table = [(1 << 32) - 1; 32];
    let mut exact: u128 = 1 << 64;
    let mut at = 1;
    while at < table.len() {
        exact = (exact * period) >> 64;
        // Linux has 2^32 − 1 for 1, and the rest in proportion.
        table[at] = ((exact * ((1 << 32) - 1)) >> 64) as u64;
        at += 1;
    }
    table
}

/// What is left of a sum after so many periods (`decay_load`).
fn decayed(sum: u128, periods: u64) -> u128 {
    let half_lives = periods / HALF_LIFE_PERIODS;
    if half_lives > 63 {
        return 0;
    }
    let left = u128::from(DECAY[(periods % HALF_LIFE_PERIODS) as usize]);
    ((sum >> half_lives) * left) >> 32
}

/// The parts from one time to another, of which the latter counts in full (`__accumulate_pelt_segments`).
fn parts_between(from: u64, to: u64) -> u128 {
    let periods = to / PARTS - from / PARTS;
    if periods == 0 {
        return u128::from(to - from);
    }
    let longest = u128::from(LONGEST);
    let first = decayed(u128::from(PARTS - from % PARTS), periods);
    let between = longest - decayed(longest, periods) - u128::from(PARTS);
    first + between + u128::from(to % PARTS)
}

/// An average of the past.
#[derive(Clone, Copy, Debug)]
pub(super) struct Average {
    /// It is multiplied by this.
    factor: u64,
    /// Of what it is the average of, over parts.
    sum: u128,
    /// As it was when a period began that it was told of.
    average: u64,
    /// In parts.
    until: u64,
}

impl Default for Average {
    fn default() -> Average {
        Average { factor: 1, sum: 0, average: 0, until: 0 }
    }
}

impl Average {
    /// The average of what has always been `value`.
    pub(super) fn new(value: u64, now_ns: Nanos) -> Average {
        let mut average = Average { until: now_ns >> PART_ORDER, ..Average::default() };
        average.add(value);
        average
    }

    /// `weight` times the average of what has always been 1.
    pub(super) fn weighted(weight: u64, now_ns: Nanos) -> Average {
        Average { factor: weight, average: weight, ..Average::new(1, now_ns) }
    }

    /// What a sum is divided by (`get_pelt_divider`).
    fn divider(&self) -> u128 {
        u128::from(LONGEST_BEFORE + self.until % PARTS)
    }

    fn divide(&mut self) {
        let average = self.sum * u128::from(self.factor) / self.divider();
        self.average = u64::try_from(average).unwrap_or(u64::MAX);
    }

    /// It was `value` from the last call up to now.
    pub(super) fn advance(&mut self, value: u64, now_ns: Nanos) {
        let (from, to) = (self.until, (now_ns >> PART_ORDER).max(self.until));
        let periods = to / PARTS - from / PARTS;
        self.sum = decayed_by(self.sum, periods) + u128::from(value) * parts_between(from, to);
        self.until = to;
        if periods > 0 {
            self.divide();
        }
    }

    pub(super) fn get(&self) -> u64 {
        self.average
    }

    /// More joins what it is the average of (`attach_entity_load_avg`).
    pub(super) fn add(&mut self, value: u64) {
        self.average += value;
        self.sum += u128::from(value) * self.divider();
    }

    /// Something leaves it (`detach_entity_load_avg`).
    pub(super) fn subtract(&mut self, value: u64) {
        self.average = self.average.saturating_sub(value);
        let left = self.sum.saturating_sub(u128::from(value) * self.divider());
        self.sum = left.max(u128::from(self.average) * u128::from(LONGEST_BEFORE));
    }

    /// It joins another one, with what it is and not what it was rounded from.
    pub(super) fn settle(&mut self) {
        self.sum = u128::from(self.average) * self.divider() / u128::from(self.factor);
    }

    /// Multiplied by another weight (`reweight_entity`).
    pub(super) fn reweigh(&mut self, weight: u64) {
        self.factor = weight;
        self.divide();
    }
}

fn decayed_by(sum: u128, periods: u64) -> u128 {
    if periods == 0 { sum } else { decayed(sum, periods) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_NS: Nanos = 1 << 20;

    #[test]
    fn the_past_counts_half_after_32_periods() {
        assert_eq!(decayed(1 << 40, HALF_LIFE_PERIODS), ((1 << 39) * u128::from(DECAY[0])) >> 32);
        // 2^(−1/2), 2^(−31/32), as in sched-pelt.h.
        assert_eq!((DECAY[16], DECAY[31]), (0xb504_f333, 0x82cd_8698));
        assert_eq!(decayed(u128::MAX, u64::MAX / PARTS), 0);
        let mut average = Average::new(0, 0);
        average.advance(1 << 20, 32 * PERIOD_NS);
        assert!(average.get().abs_diff(1 << 19) < 1 << 8, "{average:?}");
        average.advance(0, 64 * PERIOD_NS);
        assert!(average.get().abs_diff(1 << 18) < 1 << 8, "{average:?}");
    }

    /// What has always been 1,024 or 2,048 is that or one less, by when it is asked.
    #[test]
    fn what_stays_the_same_is_rounded() {
        let (mut hog, mut two) = (Average::weighted(1024, 0), Average::new(2048, 0));
        let mut seen = [0; 2];
        for tick in 1..2000 {
            hog.advance(1, tick * 4_000_000);
            two.advance(2048, tick * 4_000_000);
            assert!((1023..=1024).contains(&hog.get()), "{hog:?}");
            seen[usize::try_from(two.get() - 2047).expect("2,047 or more")] += 1;
        }
        assert!(seen.iter().all(|&times| times > 0), "{seen:?}");
    }

    /// In whatever steps time goes.
    #[test]
    fn small_steps_make_the_same_average() {
        let (mut large, mut small) = (Average::new(0, 0), Average::new(0, 0));
        large.advance(1 << 30, 100 * PERIOD_NS);
        for step in 1..=400 {
            small.advance(1 << 30, step * PERIOD_NS / 4);
        }
        assert!(large.get().abs_diff(small.get()) < 1 << 20, "{large:?} {small:?}");
    }
}

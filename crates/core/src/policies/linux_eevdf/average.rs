//! Averages of the past as Linux keeps them (PELT, kernel/sched/pelt.c): what was a while ago counts for
//! less, half as much after every 32 periods of 2^20 ns.

use crate::policy::Nanos;

/// 32 periods.
const HALF_LIFE_ORDER: u32 = 25;
const PERIOD_ORDER: u32 = 20;
/// Binary digits of an average below 1.
const FRACTION: u32 = 16;

/// 2^(−i/32) in 32 binary digits, i from 0 to 32.
const DECAY: [u64; 33] = decay_by_periods();

#[allow(clippy::cast_possible_truncation)] // at most 2^32
const fn decay_by_periods() -> [u64; 33] {
    // 2^(−1/32) in 64 binary digits: five times the square root of a half.
    let mut period: u128 = 1 << 63;
    let mut roots = 0;
    while roots < 5 {
        period = (period << 64).isqrt();
        roots += 1;
    }
    let mut table = [1 << 32; 33];
    let mut exact: u128 = 1 << 64;
    let mut at = 1;
    while at < table.len() {
        exact = (exact * period) >> 64;
        table[at] = (exact >> 32) as u64;
        at += 1;
    }
    table
}

/// What is left of the past after `elapsed_ns`, in 32 binary digits. Within a period it is a straight line.
const fn decay(elapsed_ns: Nanos) -> u64 {
    let half_lives = elapsed_ns >> HALF_LIFE_ORDER;
    if half_lives > 32 {
        return 0;
    }
    let rest = elapsed_ns & ((1 << HALF_LIFE_ORDER) - 1);
    let at = (rest >> PERIOD_ORDER) as usize;
    let within = rest & ((1 << PERIOD_ORDER) - 1);
    let left = DECAY[at] - (((DECAY[at] - DECAY[at + 1]) * within) >> PERIOD_ORDER);
    left >> half_lives
}

/// An average of the past.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Average {
    /// With [`FRACTION`], so that what stays the same becomes its own average.
    value: u128,
    until_ns: Nanos,
}

impl Average {
    /// The average of what has always been `value`.
    pub(super) const fn new(value: u64, now_ns: Nanos) -> Average {
        Average { value: exact(value), until_ns: now_ns }
    }

    /// It was `value` from the last call up to now.
    pub(super) fn advance(&mut self, value: u64, now_ns: Nanos) {
        let elapsed_ns = now_ns.saturating_sub(self.until_ns);
        self.until_ns = now_ns.max(self.until_ns);
        let left = u128::from(decay(elapsed_ns));
        self.value = (self.value * left + exact(value) * ((1 << 32) - left)) >> 32;
    }

    /// To the nearest.
    pub(super) fn get(&self) -> u64 {
        u64::try_from((self.value + (1 << (FRACTION - 1))) >> FRACTION).unwrap_or(u64::MAX)
    }

    /// More joins what it is the average of.
    pub(super) fn add(&mut self, value: u64) {
        self.value += exact(value);
    }

    /// Something leaves it.
    pub(super) fn subtract(&mut self, value: u64) {
        self.value = self.value.saturating_sub(exact(value));
    }

    /// Multiplies it by a ratio.
    pub(super) fn scale(&mut self, numerator: u64, denominator: u64) {
        self.value = self.value * u128::from(numerator) / u128::from(denominator.max(1));
    }
}

const fn exact(value: u64) -> u128 {
    (value as u128) << FRACTION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_counts_half_after_32_periods() {
        assert_eq!(decay(0), 1 << 32);
        assert_eq!(decay(1 << HALF_LIFE_ORDER), 1 << 31);
        // 2^(−1/2).
        assert_eq!(decay(1 << (HALF_LIFE_ORDER - 1)), 3_037_000_499);
        assert_eq!(decay(u64::MAX), 0);
        let mut average = Average::new(0, 0);
        average.advance(1 << 20, 1 << HALF_LIFE_ORDER);
        assert_eq!(average.get(), 1 << 19);
        average.advance(0, 2 << HALF_LIFE_ORDER);
        assert_eq!(average.get(), 1 << 18);
    }

    /// In whatever steps time goes, but for the straight line within a period.
    #[test]
    fn small_steps_make_the_same_average() {
        let (mut large, mut small) = (Average::new(0, 0), Average::new(0, 0));
        large.advance(1 << 30, 100 << PERIOD_ORDER);
        for step in 1..=400 {
            small.advance(1 << 30, step << (PERIOD_ORDER - 2));
        }
        assert!(large.get().abs_diff(small.get()) < 1 << 22, "{large:?} {small:?}");
    }
}

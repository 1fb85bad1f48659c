//! How fast a task or node is served: an exact number of cpus.

use core::cmp::Ordering;
use core::fmt;

use super::natural::Natural;

/// A number of cpus, exactly. Equal rates are equal however they were found.
#[derive(Clone, Debug)]
pub struct Rate {
    numerator: Natural,
    /// Not 0.
    denominator: Natural,
}

impl Rate {
    /// Whole cpus.
    #[must_use]
    pub fn whole(cpus: u64) -> Rate {
        Rate { numerator: Natural::new(cpus), denominator: Natural::new(1) }
    }

    /// `numerator`/`denominator` of a cpu.
    ///
    /// # Panics
    /// When the denominator is 0.
    #[must_use]
    pub fn ratio(numerator: u128, denominator: u128) -> Rate {
        assert!(denominator > 0, "a part of nothing");
        Rate { numerator: numerator.into(), denominator: denominator.into() }
    }

    /// The nearest number, for reports.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn in_cpus(&self) -> f64 {
        // 53 digits of a double, and some: a rate is below 2^64.
        let shift = (self.denominator.bits() + 64).saturating_sub(self.numerator.bits());
        let (quotient, _) = self.numerator.shifted(shift).divided_by(&self.denominator);
        let mut number = quotient.to_u128().map_or(f64::INFINITY, |quotient| quotient as f64);
        for _ in 0..shift {
            number /= 2.0;
        }
        number
    }

    /// Rounded down to a multiple of 2^−64 cpus.
    ///
    /// # Panics
    /// When it is 2^64 cpus or more.
    #[must_use]
    pub fn fixed_point(&self) -> u128 {
        let (quotient, _) = self.numerator.shifted(64).divided_by(&self.denominator);
        quotient.to_u128().expect("fewer than 2^64 cpus")
    }

    /// In lowest terms.
    #[must_use]
    pub fn reduced(&self) -> Rate {
        let divisor = self.numerator.greatest_common_divisor(&self.denominator);
        let part = |number: &Natural| number.divided_by(&divisor).0;
        Rate { numerator: part(&self.numerator), denominator: part(&self.denominator) }
    }

    /// Numerator and denominator in lowest terms, if they fit.
    #[must_use]
    pub fn fraction(&self) -> Option<(u128, u128)> {
        let Rate { numerator, denominator } = self.reduced();
        Some((numerator.to_u128()?, denominator.to_u128()?))
    }

    /// `weight`/`of` of it.
    ///
    /// # Panics
    /// When `of` is 0.
    #[must_use]
    pub fn part(&self, weight: u64, of: u64) -> Rate {
        assert!(of > 0, "a part of nothing");
        Rate { numerator: self.numerator.times(weight), denominator: self.denominator.times(of) }
    }

    /// What `weight`/`of` of it is compared with a number of cpus.
    pub(super) fn part_cmp(&self, weight: u64, of: u64, cpus: u64) -> Ordering {
        self.numerator.times(weight).cmp(&self.denominator.times(of).times(cpus))
    }

    /// Without whole cpus, which it has.
    pub(super) fn without(&self, cpus: u64) -> Rate {
        let numerator = self.numerator.minus(&self.denominator.times(cpus));
        Rate { numerator, denominator: self.denominator.clone() }
    }

    /// Both together, in lowest terms.
    #[must_use]
    pub fn plus(&self, other: &Rate) -> Rate {
        if self.denominator == other.denominator {
            let numerator = self.numerator.plus(&other.numerator);
            return Rate { numerator, denominator: self.denominator.clone() };
        }
        let cross = |a: &Rate, b: &Rate| a.numerator.product(&b.denominator);
        let numerator = cross(self, other).plus(&cross(other, self));
        Rate { numerator, denominator: self.denominator.product(&other.denominator) }.reduced()
    }
}

impl Ord for Rate {
    fn cmp(&self, other: &Rate) -> Ordering {
        if self.denominator == other.denominator {
            return self.numerator.cmp(&other.numerator);
        }
        let left = self.numerator.product(&other.denominator);
        left.cmp(&other.numerator.product(&self.denominator))
    }
}

impl PartialOrd for Rate {
    fn partial_cmp(&self, other: &Rate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rate {
    fn eq(&self, other: &Rate) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Rate {}

/// As a fraction in lowest terms, or rounded to nine places if its terms are long.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONG: u128 = 1_000_000;
        match self.fraction() {
            Some((numerator, 1)) => write!(f, "{numerator}"),
            Some((numerator, denominator)) if denominator < LONG => {
                write!(f, "{numerator}/{denominator}")
            }
            _ => write!(f, "{:.9}", self.in_cpus()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_rate_is_a_fraction() {
        let rate = Rate::whole(3).part(4, 8);
        assert_eq!(rate, Rate::ratio(3, 2));
        assert_eq!(rate.fraction(), Some((3, 2)));
        assert_eq!(rate.to_string(), "3/2");
        assert_eq!(rate.without(1), Rate::ratio(1, 2));
        assert_eq!(rate.plus(&Rate::ratio(1, 6)), Rate::ratio(5, 3));
        assert_eq!(rate.fixed_point(), 3 << 63);
        assert!(rate > Rate::ratio(4, 3) && rate < Rate::whole(2));
        assert_eq!(Rate::ratio(1, 3).part(1, 1 << 40).to_string(), "0.000000000");
    }

    #[test]
    fn a_rate_is_nearly_a_number() {
        let mut rate = Rate::whole(1);
        for _ in 0..5 {
            rate = rate.part(u64::from(u32::MAX) - 1, u64::from(u32::MAX));
        }
        assert!((rate.in_cpus() - 0.999_999_998_835_846_8).abs() < 1e-15);
        assert!((Rate::ratio(2, 3).in_cpus() - 2.0 / 3.0).abs() < f64::EPSILON);
        assert!(Rate::whole(0).in_cpus() == 0.0);
    }
}

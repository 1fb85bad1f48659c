//! Natural numbers of any size: a share four levels deep is a fraction of 200 bits.

use alloc::vec::Vec;
use core::cmp::Ordering;

/// A natural number, 0 included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Natural {
    /// In base 2^64, the least digit first; the last is not 0.
    digits: Vec<u64>,
}

impl Natural {
    pub(super) fn new(number: u64) -> Natural {
        Natural { digits: alloc::vec![number] }.trimmed()
    }

    fn trimmed(mut self) -> Natural {
        while self.digits.last() == Some(&0) {
            self.digits.pop();
        }
        self
    }

    pub(super) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// The number of binary digits.
    pub(super) fn bits(&self) -> usize {
        self.digits.last().map_or(0, |last| self.digits.len() * 64 - last.leading_zeros() as usize)
    }

    /// The number, if it has no more than 128 bits.
    pub(super) fn to_u128(&self) -> Option<u128> {
        let digit = |i: usize| u128::from(self.digits.get(i).copied().unwrap_or(0));
        (self.digits.len() <= 2).then(|| digit(1) << 64 | digit(0))
    }

    fn digit(&self, i: usize) -> u64 {
        self.digits.get(i).copied().unwrap_or(0)
    }

    pub(super) fn times(&self, factor: u64) -> Natural {
        let mut carry = 0;
        let mut digits = Vec::with_capacity(self.digits.len() + 1);
        for &digit in &self.digits {
            let (low, high) = halves(u128::from(digit) * u128::from(factor) + carry);
            digits.push(low);
            carry = u128::from(high);
        }
        digits.push(halves(carry).0);
        Natural { digits }.trimmed()
    }

    pub(super) fn product(&self, other: &Natural) -> Natural {
        let mut sum = Natural { digits: Vec::new() };
        for (i, &digit) in other.digits.iter().enumerate() {
            let mut part = self.times(digit);
            part.digits.splice(0..0, core::iter::repeat_n(0, i));
            sum = sum.plus(&part.trimmed());
        }
        sum
    }

    pub(super) fn plus(&self, other: &Natural) -> Natural {
        let len = self.digits.len().max(other.digits.len());
        let mut digits = Vec::with_capacity(len + 1);
        let mut carry = 0;
        for i in 0..len {
            let sum = u128::from(self.digit(i)) + u128::from(other.digit(i)) + carry;
            let (low, high) = halves(sum);
            digits.push(low);
            carry = u128::from(high);
        }
        digits.push(halves(carry).0);
        Natural { digits }.trimmed()
    }

    /// Without `other`, which is not larger.
    pub(super) fn minus(&self, other: &Natural) -> Natural {
        debug_assert!(*self >= *other, "a natural number is not below 0");
        let mut borrow = false;
        let less = |i: usize| {
            let (first, under) = self.digit(i).overflowing_sub(other.digit(i));
            let (digit, again) = first.overflowing_sub(u64::from(borrow));
            borrow = under || again;
            digit
        };
        Natural { digits: (0..self.digits.len()).map(less).collect() }.trimmed()
    }

    /// Twice the number, plus `bit`.
    fn doubled(mut self, bit: bool) -> Natural {
        let mut carry = u64::from(bit);
        for digit in &mut self.digits {
            (*digit, carry) = (*digit << 1 | carry, *digit >> 63);
        }
        self.digits.push(carry);
        self.trimmed()
    }

    fn bit(&self, i: usize) -> bool {
        self.digit(i / 64) >> (i % 64) & 1 == 1
    }

    /// Quotient and remainder, digit by binary digit.
    pub(super) fn divided_by(&self, divisor: &Natural) -> (Natural, Natural) {
        if let (Some(a), Some(b)) = (self.to_u128(), divisor.to_u128()) {
            return (Natural::from(a / b), Natural::from(a % b));
        }
        let zero = || Natural { digits: Vec::new() };
        let (mut quotient, mut rest) = (zero(), zero());
        for i in (0..self.bits()).rev() {
            rest = rest.doubled(self.bit(i));
            let fits = rest >= *divisor;
            if fits {
                rest = rest.minus(divisor);
            }
            quotient = quotient.doubled(fits);
        }
        (quotient, rest)
    }

    pub(super) fn greatest_common_divisor(&self, other: &Natural) -> Natural {
        let (mut a, mut b) = (self.clone(), other.clone());
        while !b.is_zero() {
            let (_, rest) = a.divided_by(&b);
            (a, b) = (b, rest);
        }
        a
    }

    /// The number times 2^`bits`.
    pub(super) fn shifted(&self, bits: usize) -> Natural {
        let mut shifted = self.times(1 << (bits % 64));
        shifted.digits.splice(0..0, core::iter::repeat_n(0, bits / 64));
        shifted.trimmed()
    }
}

impl From<u128> for Natural {
    fn from(number: u128) -> Natural {
        let (low, high) = halves(number);
        Natural { digits: alloc::vec![low, high] }.trimmed()
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Natural) -> Ordering {
        let by_length = self.digits.len().cmp(&other.digits.len());
        by_length.then_with(|| self.digits.iter().rev().cmp(other.digits.iter().rev()))
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Natural) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[allow(clippy::cast_possible_truncation)] // halves
fn halves(number: u128) -> (u64, u64) {
    (number as u64, (number >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(value: u128) -> Natural {
        Natural::from(value)
    }

    proptest! {
        #[test]
        fn calculates_like_u128(a in any::<u128>(), b in 1..=u128::MAX, small in any::<u64>()) {
            let (x, y) = (number(a), number(b));
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            prop_assert_eq!(x.plus(&y).minus(&y), x.clone());
            prop_assert_eq!(number(a >> 64).times(small), number((a >> 64) * u128::from(small)));
            prop_assert_eq!(number(a >> 64).product(&number(b >> 64)), number(a >> 64).times(
                halves(b).1));
            // Through more than 128 bits, and back.
            let (quotient, rest) = x.product(&y).plus(&number(b - 1)).divided_by(&y);
            prop_assert_eq!((quotient, rest), (x.clone(), number(b - 1)));
            let bits = (small % 200) as usize;
            let power = Natural::new(1).shifted(bits);
            prop_assert_eq!(x.shifted(bits), x.product(&power));
            prop_assert_eq!(power.bits(), bits + 1);
        }

        #[test]
        fn finds_the_greatest_common_divisor(a in 1..u64::MAX, b in 1..u64::MAX, c in 1..u64::MAX) {
            let long = |x: u64| Natural::new(x).times(c).times(c);
            let divisor = long(a).greatest_common_divisor(&long(b));
            prop_assert_eq!(long(a).divided_by(&divisor).1, Natural::new(0));
            prop_assert_eq!(long(b).divided_by(&divisor).1, Natural::new(0));
            prop_assert!(divisor >= Natural::new(c).times(c));
        }
    }
}

//! Random numbers that are the same on every machine.

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a 64-bit counter, hashed. Eight bytes of state,
/// so that every task draws from a stream of its own and nobody's draws depend on the order of
/// events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random(u64);

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// Stream number `stream` of `seed`.
    #[must_use]
    pub const fn new(seed: u64, stream: u64) -> Random {
        Random(mix(seed.wrapping_add(GOLDEN)).wrapping_add(mix(stream.wrapping_mul(GOLDEN))))
    }

    /// Uniform over all 64-bit numbers.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Uniform over `0..bound` (Lemire's multiplication, its bias of bound/2^64 left in).
    #[inline]
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.bits() as u128 * bound as u128) >> 64) as u64
    }

    /// Uniform over (0, 1], in steps of 2^−53.
    #[inline]
    #[allow(clippy::cast_precision_loss)]
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_zero_of_a_seed_never_changes() {
        let mut random = Random(0);
        assert_eq!(random.bits(), 0xe220_a839_7b1d_cdaf); // the published first output
        let mut random = Random::new(1, 2);
        let first = [random.below(100), random.below(100), random.below(100)];
        assert_eq!(first, {
            let mut again = Random::new(1, 2);
            [again.below(100), again.below(100), again.below(100)]
        });
        assert_ne!(Random::new(1, 2), Random::new(2, 1));
    }

    #[test]
    fn a_unit_is_never_zero() {
        let mut random = Random::new(7, 7);
        assert!((0..10_000).map(|_| random.unit()).all(|u| u > 0.0 && u <= 1.0));
    }
}

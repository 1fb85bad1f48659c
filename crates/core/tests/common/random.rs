//! Random numbers that are the same on every machine.

/// A small generator (`SplitMix64`).
#[derive(Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        u32::try_from(self.next() % u64::from(limit)).expect("below a u32")
    }

    /// An index below `length`.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        self.below(u32::try_from(length).expect("not long")) as usize
    }

    /// A weight of any order up to `bits` − 1 with equal probability.
    pub(crate) fn weight(&mut self, bits: u32) -> u32 {
        let order = self.below(bits);
        (1 << order) + self.below(1 << order)
    }

    pub(crate) fn weights(&mut self, count: usize, bits: u32) -> Vec<u32> {
        (0..count).map(|_| self.weight(bits)).collect()
    }
}

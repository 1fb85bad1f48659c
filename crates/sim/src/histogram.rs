//! Lengths of time, counted in buckets that are narrow everywhere.

use prorata::Nanos;

/// Buckets per octave: a percentile is at most 1/32 too long.
const PER_OCTAVE_BITS: u32 = 5;
const PER_OCTAVE: u64 = 1 << PER_OCTAVE_BITS;

/// A histogram of lengths of time. Exact below 32 ns, within 3.2 % above; the longest is exact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Only up to the last bucket that was needed.
    buckets: Vec<u64>,
    count: u64,
    longest_ns: Nanos,
}

impl Histogram {
    /// Counts `length_ns`.
    #[inline]
    pub fn record(&mut self, length_ns: Nanos) {
        let bucket = bucket_of(length_ns);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.count += 1;
        self.longest_ns = self.longest_ns.max(length_ns);
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest.
    #[must_use]
    pub fn longest_ns(&self) -> Nanos {
        self.longest_ns
    }

    /// At least `per_mille` of a thousand are no longer than this; 0 if nothing was counted.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // a rank is at most the count
    pub fn quantile_ns(&self, per_mille: u32) -> Nanos {
        let rank = (u128::from(self.count) * u128::from(per_mille)).div_ceil(1000).max(1) as u64;
        let mut seen = 0;
        for (bucket, &count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return last_of(bucket).min(self.longest_ns);
            }
        }
        0
    }

    /// The lengths that were counted, the shortest first: the longest of each bucket, and how many.
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, u64)> {
        let counted = self.buckets.iter().enumerate().filter(|&(_, &count)| count > 0);
        counted.map(|(bucket, &count)| (last_of(bucket).min(self.longest_ns), count))
    }

    /// Adds what `other` counted.
    pub fn merge(&mut self, other: &Histogram) {
        if other.buckets.len() > self.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(a, b)| *a += b);
        self.count += other.count;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

#[allow(clippy::cast_possible_truncation)] // below 60 · 32
fn bucket_of(length_ns: Nanos) -> usize {
    if length_ns < PER_OCTAVE {
        return length_ns as usize;
    }
    let octave = length_ns.ilog2() - PER_OCTAVE_BITS;
    ((u64::from(octave) << PER_OCTAVE_BITS) + (length_ns >> octave)) as usize
}

/// The longest length in `bucket`.
fn last_of(bucket: usize) -> Nanos {
    let bucket = bucket as u64;
    if bucket < PER_OCTAVE {
        return bucket;
    }
    let octave = (bucket >> PER_OCTAVE_BITS) - 1;
    let first = (bucket - (octave << PER_OCTAVE_BITS)) << octave;
    first + ((1 << octave) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bucket_ends_within_a_32nd_of_its_members(length in any::<u64>(), shift in 0u32..64) {
            let length = length >> shift;
            let last = last_of(bucket_of(length));
            prop_assert!(last >= length && last - length <= length / 32);
        }

        #[test]
        fn quantiles_are_those_of_the_sorted_list(
            mut lengths in proptest::collection::vec(0u64..100_000, 1..100),
            per_mille in 1u32..=1000,
        ) {
            let mut histogram = Histogram::default();
            lengths.iter().for_each(|&length| histogram.record(length));
            lengths.sort_unstable();
            let exact = lengths[(lengths.len() * per_mille as usize).div_ceil(1000) - 1];
            let found = histogram.quantile_ns(per_mille);
            prop_assert!(found >= exact && found - exact <= exact / 32);
        }
    }
}

//! Sets of cpus.

use prorata::CpuId;

/// A set of the cpus below a number, as bits.
#[derive(Clone, Debug)]
pub(super) struct CpuSet {
    words: Vec<u64>,
    /// Bits that are set.
    len: usize,
}

impl CpuSet {
    pub(super) fn none(cpus: usize) -> CpuSet {
        CpuSet { words: vec![0; cpus.div_ceil(64)], len: 0 }
    }

    pub(super) fn all(cpus: usize) -> CpuSet {
        let mut set = CpuSet::none(cpus);
        (0..cpus).for_each(|cpu| set.insert(cpu));
        set
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn contains(&self, cpu: CpuId) -> bool {
        self.words[cpu / 64] & (1 << (cpu % 64)) != 0
    }

    #[inline]
    pub(super) fn insert(&mut self, cpu: CpuId) {
        self.len += usize::from(!self.contains(cpu));
        self.words[cpu / 64] |= 1 << (cpu % 64);
    }

    #[inline]
    pub(super) fn remove(&mut self, cpu: CpuId) {
        self.len -= usize::from(self.contains(cpu));
        self.words[cpu / 64] &= !(1 << (cpu % 64));
    }

    pub(super) fn insert_all(&mut self, other: &CpuSet) {
        if other.len == 0 {
            return;
        }
        let mut len = 0;
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
            len += word.count_ones() as usize;
        }
        self.len = len;
    }

    /// The first member that is not below `cpu`.
    #[inline]
    pub(super) fn next_from(&self, cpu: CpuId) -> Option<CpuId> {
        if self.len == 0 {
            return None;
        }
        let first = cpu / 64;
        let mut word = self.words.get(first)? & (u64::MAX << (cpu % 64));
        for at in first.. {
            if word != 0 {
                return Some(at * 64 + word.trailing_zeros() as usize);
            }
            word = *self.words.get(at + 1)?;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn is_a_set(steps in proptest::collection::vec((any::<bool>(), 0usize..200), 0..100)) {
            let (mut set, mut naive) = (CpuSet::none(200), BTreeSet::new());
            for (insert, cpu) in steps {
                if insert {
                    set.insert(cpu);
                    naive.insert(cpu);
                } else {
                    set.remove(cpu);
                    naive.remove(&cpu);
                }
                prop_assert_eq!(set.len(), naive.len());
                prop_assert_eq!(set.next_from(cpu), naive.range(cpu..).next().copied());
            }
            let mut all = CpuSet::all(200);
            all.insert_all(&set);
            prop_assert_eq!(all.len(), 200);
        }
    }
}

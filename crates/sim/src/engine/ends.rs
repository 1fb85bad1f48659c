//! When something ends on each cpu, its run for instance: a tournament.

use std::hint::select_unpredictable;

use prorata::{CpuId, Nanos};

/// The cpu that has the earliest end, of any number of cpus. Setting an end takes log₂ P comparisons
/// without a branch or a wait for memory, which beats a calendar: every decision sets one.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    /// Entry i holds the earlier of the entries 2i and 2i + 1, on a tie the first of them; the
    /// second half are the cpus. The length is a power of two.
    winners: Vec<(Nanos, CpuId)>,
}

impl Ends {
    /// Nothing ends on any of `cpus` cpus.
    pub(super) fn new(cpus: usize) -> Ends {
        let leaves = cpus.next_power_of_two();
        let mut ends = Ends { winners: vec![(Nanos::MAX, 0); 2 * leaves] };
        (0..leaves).for_each(|cpu| ends.set(cpu, Nanos::MAX));
        ends
    }

    /// The earliest end and its cpu, of several the first; `Nanos::MAX` if nothing ends.
    #[inline]
    pub(super) fn first(&self) -> (Nanos, CpuId) {
        self.winners[1]
    }

    /// The end on `cpu`; `Nanos::MAX` if nothing ends there.
    #[inline]
    pub(super) fn of(&self, cpu: CpuId) -> Nanos {
        self.winners[self.winners.len() / 2 + cpu].0
    }

    /// The end on `cpu` is at `at_ns`; `Nanos::MAX` if nothing ends there.
    #[inline]
    pub(super) fn set(&mut self, cpu: CpuId, at_ns: Nanos) {
        let mut i = self.winners.len() / 2 + cpu;
        let mut winner = (at_ns, cpu);
        self.winners[i] = winner;
        while i > 1 {
            let rival = self.winners[i ^ 1];
            // Of two ends at one time the left one is first; an odd entry is a right one.
            let loses = (rival.0 < winner.0) | ((rival.0 == winner.0) & (i % 2 == 1));
            winner = select_unpredictable(loses, rival, winner);
            i /= 2;
            self.winners[i] = winner;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the naive twin: an array, searched.
        #[test]
        fn the_first_is_the_least(
            cpus in 1usize..20, steps in proptest::collection::vec((0usize..20, 0u64..9), 0..60),
        ) {
            let (mut ends, mut naive) = (Ends::new(cpus), vec![Nanos::MAX; cpus]);
            for (cpu, at_ns) in steps {
                let at_ns = if at_ns == 0 { Nanos::MAX } else { at_ns };
                ends.set(cpu % cpus, at_ns);
                naive[cpu % cpus] = at_ns;
                let first = naive.iter().enumerate().map(|(cpu, &at_ns)| (at_ns, cpu)).min();
                prop_assert_eq!(Some(ends.first()), first);
                prop_assert!((0..cpus).all(|cpu| ends.of(cpu) == naive[cpu]));
            }
        }
    }
}

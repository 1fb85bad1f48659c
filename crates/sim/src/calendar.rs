//! The event queue: what is due next.
//!
//! A radix heap on digits of eight bits, kept in lists through the entries themselves, which their
//! owner keeps beside what else he knows of them ([`Entries`]). Time never goes back, so an entry
//! only needs to be told from the current time by its highest differing digit: that digit's place
//! is its *level*, its value its *slot*. The earliest entry is in the first slot of the lowest
//! level; when a slot of a higher level is opened, its earliest time becomes the current time and
//! the rest falls to lower levels. An entry falls at most once per level: O(1) for all that a
//! simulation does.

use prorata::Nanos;

const NIL: u32 = u32::MAX;
const DIGIT_BITS: u32 = 8;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = (Nanos::BITS / DIGIT_BITS) as usize;

/// Where the entries are kept: 12 bytes each, which mean nothing while an entry is not due.
pub trait Entries {
    /// When `entry` is due, and the next one in its list.
    fn get(&self, entry: u32) -> (Nanos, u32);

    /// Replaces what [`get`](Entries::get) gives.
    fn set(&mut self, entry: u32, at_ns: Nanos, next: u32);
}

#[derive(Clone, Debug)]
struct Level {
    /// The first entry of each slot.
    head: [u32; SLOTS],
    /// Bit s: slot s holds an entry.
    occupied: [u64; SLOTS / 64],
    /// Bit w: word w of `occupied` is not 0.
    words: u8,
}

/// Entries below 2^32−1, each of which may be due at one time. Every call wants the same
/// [`Entries`].
#[derive(Clone, Debug)]
pub struct Calendar {
    now_ns: Nanos,
    levels: Box<[Level; LEVELS]>,
    /// Bit l: level l holds an entry.
    occupied: u8,
    /// The earliest time of all entries; `Nanos::MAX` if there is none.
    next_ns: Nanos,
}

impl Default for Calendar {
    fn default() -> Self {
        Calendar::new()
    }
}

impl Calendar {
    /// An empty calendar at time 0.
    #[must_use]
    pub fn new() -> Calendar {
        let level = || Level { head: [NIL; SLOTS], occupied: [0; SLOTS / 64], words: 0 };
        Calendar {
            now_ns: 0,
            levels: Box::new(std::array::from_fn(|_| level())),
            occupied: 0,
            next_ns: Nanos::MAX,
        }
    }

    /// Makes `entry`, which is not in the calendar, due at `at_ns`, not before the last time
    /// that `pop` returned.
    #[inline]
    pub fn insert(&mut self, entries: &mut impl Entries, entry: u32, at_ns: Nanos) {
        debug_assert!(entry != NIL);
        debug_assert!(at_ns >= self.now_ns, "{at_ns} is past at {}", self.now_ns);
        self.next_ns = self.next_ns.min(at_ns);
        self.put(entries, entry, at_ns);
    }

    #[inline]
    fn put(&mut self, entries: &mut impl Entries, entry: u32, at_ns: Nanos) {
        let differing = 63 - ((at_ns ^ self.now_ns) | 1).leading_zeros();
        let level = differing / DIGIT_BITS;
        let slot = usize::from((at_ns >> (level * DIGIT_BITS)).to_le_bytes()[0]);
        self.occupied |= 1 << level;
        let level = &mut self.levels[level as usize];
        level.occupied[slot / 64] |= 1 << (slot % 64);
        level.words |= 1 << (slot / 64);
        entries.set(entry, at_ns, level.head[slot]);
        level.head[slot] = entry;
    }

    /// Replaces `due` by all entries of the earliest time, in increasing order, removes them, and
    /// returns that time.
    #[inline]
    pub fn pop(&mut self, entries: &mut impl Entries, due: &mut Vec<u32>) -> Option<Nanos> {
        due.clear();
        if self.occupied == 0 {
            return None;
        }
        self.now_ns = self.next_ns;
        let mut entry = self.open(self.occupied.trailing_zeros() as usize);
        while entry != NIL {
            let (at_ns, next) = entries.get(entry);
            if at_ns == self.now_ns {
                due.push(entry);
            } else {
                self.put(entries, entry, at_ns);
            }
            entry = next;
        }
        if due.len() > 1 {
            due.sort_unstable();
        }
        self.next_ns = self.earliest(entries);
        Some(self.now_ns)
    }

    /// The earliest time of all entries; `Nanos::MAX` if there is none.
    #[inline]
    #[must_use]
    pub fn next_ns(&self) -> Nanos {
        self.next_ns
    }

    /// Empties the first slot of level `l`, which is occupied, and returns its list.
    #[inline]
    fn open(&mut self, l: usize) -> u32 {
        let level = &mut self.levels[l];
        let word = level.words.trailing_zeros() as usize;
        let slots = level.occupied[word];
        let slot = word * 64 + slots.trailing_zeros() as usize;
        level.occupied[word] = slots & (slots - 1);
        if level.occupied[word] == 0 {
            level.words &= level.words - 1;
            self.occupied &= !(u8::from(level.words == 0) << l);
        }
        std::mem::replace(&mut level.head[slot], NIL)
    }

    /// Walks through the first slot of the lowest level.
    fn earliest(&self, entries: &impl Entries) -> Nanos {
        let Some(level) = self.levels.get(self.occupied.trailing_zeros() as usize) else {
            return Nanos::MAX;
        };
        let word = level.words.trailing_zeros() as usize;
        let mut entry = level.head[word * 64 + level.occupied[word].trailing_zeros() as usize];
        let mut earliest = Nanos::MAX;
        while entry != NIL {
            let (at_ns, next) = entries.get(entry);
            earliest = earliest.min(at_ns);
            entry = next;
        }
        earliest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    impl Entries for Vec<(Nanos, u32)> {
        fn get(&self, entry: u32) -> (Nanos, u32) {
            self[entry as usize]
        }

        fn set(&mut self, entry: u32, at_ns: Nanos, next: u32) {
            self[entry as usize] = (at_ns, next);
        }
    }

    proptest! {
        /// Against a binary heap: the same entries at the same times.
        #[test]
        fn pops_what_a_heap_pops(
            first in proptest::collection::vec(0u64..1 << 40, 1..50),
            lengths in proptest::collection::vec((0u32..45, any::<u64>()), 0..200),
        ) {
            let mut calendar = Calendar::new();
            let mut entries = vec![(0, 0); first.len()];
            let mut heap = BinaryHeap::new();
            for (entry, &at_ns) in (0u32..).zip(&first) {
                calendar.insert(&mut entries, entry, at_ns);
                heap.push(Reverse((at_ns, entry)));
            }
            let mut lengths = lengths.into_iter();
            let mut due = vec![];
            let next = |heap: &BinaryHeap<Reverse<(u64, u32)>>| heap.peek().map_or(u64::MAX, |e| e.0.0);
            prop_assert_eq!(calendar.next_ns(), next(&heap));
            while let Some(now_ns) = calendar.pop(&mut entries, &mut due) {
                for &entry in &due {
                    prop_assert_eq!(heap.pop(), Some(Reverse((now_ns, entry))));
                }
                for &entry in &due {
                    let Some((bits, random)) = lengths.next() else { continue };
                    let at_ns = now_ns + (random & ((1 << bits) - 1));
                    calendar.insert(&mut entries, entry, at_ns);
                    heap.push(Reverse((at_ns, entry)));
                }
                prop_assert_eq!(calendar.next_ns(), next(&heap));
            }
            prop_assert!(heap.is_empty());
        }
    }
}

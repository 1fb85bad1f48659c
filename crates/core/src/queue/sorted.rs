//! A sorted sequence that is walked in order, fast.
//!
//! A policy like VTRR walks a queue sorted by share and seldom inserts. A sorted linked list makes
//! a wake-up O(N) and, worse, scatters neighbours over memory. Here the sequence is cut into
//! blocks of fewer than [`BLOCK`] elements that lie side by side, so that walking the sequence walks
//! memory; an array of the blocks in order is searched by halves. The slot after the last element
//! of a block holds a default element, so that a walk that knows one needs no test for the end.
//!
//! Any two neighbouring blocks hold more than ¾ [`BLOCK`] elements together, which bounds the
//! memory: blocks that shrink are merged with a neighbour.
//!
//! Cost: `next` O(1), `find` O(log N), `insert` and `remove` O(log N) and a move of up to
//! [`BLOCK`] elements and, once in at least ¼ [`BLOCK`] calls, of the array of blocks (4 bytes
//! each: 0.1 bytes per element). With a hint that holds, `insert` does not search the blocks.
//! Nothing allocates but [`Sorted::reserve`].

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// Slots of a block.
const BLOCK: usize = BLOCK_U32 as usize;
const BLOCK_U32: u32 = 64;
/// Most elements in a block.
const MOST: usize = BLOCK - 1;
/// Neighbouring blocks with no more elements than this are merged.
const MERGED: usize = BLOCK * 3 / 4;
/// No block.
const NIL: u32 = u32::MAX;

/// An element of [`Sorted`].
pub trait Keyed: Copy + Default {
    /// What the sequence is sorted by; no two elements are equal.
    type Key: Ord + Copy;

    /// The element's key.
    fn key(&self) -> Self::Key;
}

/// Where an element is. Inserting or removing any element makes it meaningless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of its slot.
    slot: u32,
}

impl Place {
    /// No place.
    pub const NONE: Place = Place { slot: NIL };

    #[inline]
    fn new(block: u32, at: usize) -> Place {
        Place { slot: block * BLOCK_U32 + u32::try_from(at).expect("within a block") }
    }

    #[inline]
    const fn block(self) -> u32 {
        self.slot / BLOCK_U32
    }

    #[inline]
    const fn at(self) -> u32 {
        self.slot % BLOCK_U32
    }
}

/// The block that an element was in: a guess where to look for its neighbours.
#[derive(Clone, Copy, Debug)]
pub struct Hint(u32);

impl Hint {
    /// No guess.
    pub const NONE: Hint = Hint(NIL);
}

#[derive(Clone, Copy, Debug)]
struct Block {
    len: u32,
    /// The block that follows.
    next: u32,
}

/// Elements in the order of their keys.
#[derive(Clone, Debug)]
pub struct Sorted<T> {
    /// Block b has the slots from b · [`BLOCK`] on, of which the first `len` are in use, and the
    /// next one holds a default element.
    slots: Vec<T>,
    blocks: Vec<Block>,
    /// The blocks in use, in order; none of them is empty.
    order: Vec<u32>,
    /// Blocks not in use, linked by `next`.
    free: u32,
    len: usize,
}

impl<T> Default for Sorted<T> {
    fn default() -> Self {
        Sorted { slots: Vec::new(), blocks: Vec::new(), order: Vec::new(), free: NIL, len: 0 }
    }
}

impl<T: Keyed> Sorted<T> {
    /// Makes room for `capacity` elements; the only call that allocates.
    ///
    /// # Panics
    /// When there would be 2^32 blocks.
    pub fn reserve(&mut self, capacity: usize) {
        // Two neighbouring blocks hold more than MERGED, and one is being split.
        let blocks = capacity * 2 / MERGED + 3;
        if blocks <= self.blocks.len() {
            return;
        }
        let grown = blocks.max(self.blocks.len() * 3 / 2);
        for block in self.blocks.len()..grown {
            self.blocks.push(Block { len: 0, next: self.free });
            self.free = u32::try_from(block).expect("fewer than 2^32 blocks");
        }
        self.slots.resize(grown * BLOCK, T::default());
        self.order.reserve(grown - self.order.len());
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The least element.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Option<Place> {
        self.order.first().map(|&block| Place::new(block, 0))
    }

    /// The element after `place`.
    #[inline]
    #[must_use]
    pub fn next(&self, place: Place) -> Option<Place> {
        let block = self.blocks[place.block() as usize];
        if place.at() + 1 < block.len {
            return Some(Place { slot: place.slot + 1 });
        }
        (block.next != NIL).then(|| Place::new(block.next, 0))
    }

    /// The element at `place` and the one that lies beside it in memory: the next one, or a default
    /// one that is in no sequence. `None` if there is no such place.
    #[inline(always)]
    pub fn pair(&mut self, place: Place) -> Option<(&T, &mut T, Place)> {
        let slot = place.slot as usize;
        let [element, beside] = self.slots.get_mut(slot..slot + 2)? else { return None };
        Some((element, beside, Place { slot: place.slot + 1 }))
    }

    /// The element before `place`.
    #[must_use]
    pub fn previous(&self, place: Place) -> Option<Place> {
        if place.at() > 0 {
            return Some(Place { slot: place.slot - 1 });
        }
        let rank = self.rank(self[place].key());
        let block = self.order[rank.checked_sub(1)?];
        Some(Place::new(block, self.elements(block).len() - 1))
    }

    /// The least element whose key is above `key`.
    #[must_use]
    pub fn after(&self, key: T::Key) -> Option<Place> {
        let block = *self.order.get(self.rank(key))?;
        let at = self.elements(block).partition_point(|element| element.key() <= key);
        if at < self.elements(block).len() {
            return Some(Place::new(block, at));
        }
        self.next(Place::new(block, at - 1))
    }

    /// The element of this key.
    #[must_use]
    pub fn find(&self, key: T::Key) -> Option<Place> {
        let block = *self.order.get(self.rank(key))?;
        let at = self.elements(block).binary_search_by_key(&key, Keyed::key).ok()?;
        Some(Place::new(block, at))
    }

    /// Puts `element` in. If `hint` names the block around it, the search for the block is saved.
    ///
    /// # Panics
    /// When an element of this key is in, or no room was reserved.
    pub fn insert(&mut self, element: T, hint: Hint) -> Place {
        let key = element.key();
        let block = match self.hinted(key, hint) {
            Some(block) => self.split_if_full(block, None, key),
            None if self.order.is_empty() => self.start(),
            None => {
                let rank = self.rank(key);
                self.split_if_full(self.order[rank], Some(rank), key)
            }
        };
        let at = self.elements(block).partition_point(|other| other.key() < key);
        let len = self.blocks[block as usize].len as usize;
        let base = block as usize * BLOCK;
        assert!(at == len || self.slots[base + at].key() != key, "an element of this key is in");
        self.slots.copy_within(base + at..=base + len, base + at + 1);
        self.slots[base + at] = element;
        self.blocks[block as usize].len += 1;
        self.len += 1;
        Place::new(block, at)
    }

    /// Takes out the element of this key; it, and a hint for putting it back.
    pub fn remove(&mut self, key: T::Key) -> Option<(T, Hint)> {
        let place = self.find(key)?;
        let (block, at) = (place.block(), place.at());
        let base = block as usize * BLOCK;
        let len = self.blocks[block as usize].len as usize;
        let element = self.slots[base + at as usize];
        self.slots.copy_within(base + at as usize + 1..=base + len, base + at as usize);
        self.blocks[block as usize].len -= 1;
        self.len -= 1;
        self.merge_around(block, key);
        Some((element, Hint(block)))
    }

    /// All elements in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.order.iter().flat_map(|&block| self.elements(block))
    }

    fn elements(&self, block: u32) -> &[T] {
        let base = block as usize * BLOCK;
        &self.slots[base..base + self.blocks[block as usize].len as usize]
    }

    /// Where in `order` the block is that holds `key` or would: the last one that does not begin
    /// above it, or the first.
    fn rank(&self, key: T::Key) -> usize {
        let begins = |&block: &u32| self.slots[block as usize * BLOCK].key();
        self.order.partition_point(|block| begins(block) <= key).saturating_sub(1)
    }

    fn hinted(&self, key: T::Key, Hint(block): Hint) -> Option<u32> {
        let elements = (block != NIL).then(|| self.elements(block))?;
        let (first, last) = (elements.first()?, elements.last()?);
        (first.key() < key && key < last.key()).then_some(block)
    }

    /// The first block.
    fn start(&mut self) -> u32 {
        let block = self.take_free();
        self.blocks[block as usize] = Block { len: 0, next: NIL };
        self.slots[block as usize * BLOCK] = T::default();
        self.order.push(block);
        block
    }

    fn take_free(&mut self) -> u32 {
        assert_ne!(self.free, NIL, "more elements than were reserved");
        let block = self.free;
        self.free = self.blocks[block as usize].next;
        block
    }

    /// Makes room in `block` for `key`; returns the block to put it in.
    fn split_if_full(&mut self, block: u32, rank: Option<usize>, key: T::Key) -> u32 {
        if (self.blocks[block as usize].len as usize) < MOST {
            return block;
        }
        let rank = rank.unwrap_or_else(|| self.rank(key));
        debug_assert_eq!(self.order[rank], block);
        let upper = self.take_free();
        let (from, to) = (block as usize * BLOCK, upper as usize * BLOCK);
        let half = BLOCK_U32 / 2;
        self.slots.copy_within(from + BLOCK / 2..from + BLOCK, to);
        self.slots[from + BLOCK / 2] = T::default();
        self.blocks[upper as usize] =
            Block { len: half - 1, next: self.blocks[block as usize].next };
        self.blocks[block as usize] = Block { len: half, next: upper };
        self.order.insert(rank + 1, upper);
        // A half may make a small pair with the block beyond it.
        if rank + 2 < self.order.len() && self.small_pair(rank + 1) {
            self.merge(rank + 1);
        }
        if rank > 0 && self.small_pair(rank - 1) {
            self.merge(rank - 1);
        }
        self.order[self.rank(key)]
    }

    /// Merges `block`, from which `key` was removed, with a neighbour if both are small; drops it
    /// if it is empty.
    fn merge_around(&mut self, block: u32, key: T::Key) {
        let len = self.blocks[block as usize].len as usize;
        if len > MERGED {
            return;
        }
        // The block's first key may have gone; the block before still begins below it.
        let rank = match self.rank(key) {
            rank if self.order[rank] == block => rank,
            rank => rank + 1,
        };
        debug_assert_eq!(self.order[rank], block);
        if rank + 1 < self.order.len() && self.small_pair(rank) {
            self.merge(rank);
        }
        if rank > 0 && self.small_pair(rank - 1) {
            self.merge(rank - 1);
        }
        if self.len == 0 {
            self.order.clear();
            self.blocks[block as usize].next = self.free;
            self.free = block;
        }
    }

    /// True if the blocks at `rank` and after it are to be merged.
    fn small_pair(&self, rank: usize) -> bool {
        let len = |rank: usize| self.blocks[self.order[rank] as usize].len as usize;
        let (one, other) = (len(rank), len(rank + 1));
        one + other <= MERGED || one == 0 || other == 0
    }

    /// Moves the elements of the block after `rank` into the one at `rank`.
    fn merge(&mut self, rank: usize) {
        let (into, gone) = (self.order[rank] as usize, self.order.remove(rank + 1) as usize);
        let Block { len, next } = self.blocks[gone];
        let end = into * BLOCK + self.blocks[into].len as usize;
        self.slots.copy_within(gone * BLOCK..=gone * BLOCK + len as usize, end);
        self.blocks[into] = Block { len: self.blocks[into].len + len, next };
        self.blocks[gone] = Block { len: 0, next: self.free };
        self.free = u32::try_from(gone).expect("a block");
    }
}

impl<T: Keyed> Index<Place> for Sorted<T> {
    type Output = T;

    #[inline]
    fn index(&self, place: Place) -> &T {
        &self.slots[place.slot as usize]
    }
}

/// The caller leaves the key alone.
impl<T: Keyed> IndexMut<Place> for Sorted<T> {
    #[inline]
    fn index_mut(&mut self, place: Place) -> &mut T {
        &mut self.slots[place.slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Keyed for u16 {
        type Key = u16;
        fn key(&self) -> u16 {
            *self
        }
    }

    fn check_blocks(sorted: &Sorted<u16>) {
        let lens: Vec<usize> = sorted.order.iter().map(|&b| sorted.elements(b).len()).collect();
        assert!(lens.iter().all(|&len| (1..=MOST).contains(&len)), "{lens:?}");
        let beyond = |&block: &u32| block as usize * BLOCK + sorted.elements(block).len();
        assert!(sorted.order.iter().all(|block| sorted.slots[beyond(block)] == 0));
        assert!(lens.windows(2).all(|pair| pair[0] + pair[1] > MERGED), "{lens:?}");
        let next = |&block: &u32| sorted.blocks[block as usize].next;
        let mut links = sorted.order.iter().map(next);
        assert!(sorted.order.iter().skip(1).all(|&block| links.next() == Some(block)));
        assert!(links.all(|block| block == NIL));
    }

    #[test]
    fn a_block_that_empties_beside_a_full_one_is_dropped() {
        let keys = 1..u16::try_from(BLOCK + BLOCK / 2).expect("small");
        let mut sorted = Sorted::default();
        sorted.reserve(keys.len());
        for key in keys.clone() {
            let place = sorted.insert(key, Hint::NONE);
            assert_eq!(sorted[place], key);
        }
        for key in keys.clone().take(BLOCK / 2) {
            sorted.remove(key).expect("it is in");
            check_blocks(&sorted);
            assert_eq!(sorted.first().map(|place| sorted[place]), Some(key + 1));
        }
        assert_eq!(sorted.after(0), sorted.first());
    }

    proptest! {
        /// Against the naive twin: a sorted `Vec`.
        #[test]
        fn behaves_like_a_sorted_vec(
            steps in proptest::collection::vec((0u8..10, 0u16..400), 1..1500),
            removals in 2u8..8,
        ) {
            let mut sorted = Sorted::default();
            let mut naive: Vec<u16> = Vec::new();
            let mut hint = Hint::NONE;
            for (verb, key) in steps {
                match (naive.binary_search(&key), verb < removals) {
                    (Ok(at), true) => {
                        naive.remove(at);
                        let (removed, near) = sorted.remove(key).expect("it is in");
                        prop_assert_eq!(removed, key);
                        hint = near;
                    }
                    (Err(at), false) => {
                        naive.insert(at, key);
                        sorted.reserve(naive.len());
                        let place = sorted.insert(key, hint);
                        prop_assert_eq!(sorted[place], key);
                    }
                    (Err(_), true) => prop_assert!(sorted.remove(key).is_none()),
                    (Ok(_), false) => prop_assert_eq!(sorted.find(key).map(|p| sorted[p]), Some(key)),
                }
                let above = naive.partition_point(|&other| other <= key);
                prop_assert_eq!(sorted.after(key).map(|p| sorted[p]), naive.get(above).copied());
                prop_assert!(sorted.iter().eq(&naive));
                prop_assert_eq!(sorted.len(), naive.len());
                check_blocks(&sorted);
            }
            let mut walk = sorted.first();
            let mut before = None;
            for &key in &naive {
                let at = walk.expect("as many as the twin");
                prop_assert_eq!(sorted[at], key);
                prop_assert_eq!(sorted.previous(at), before);
                (before, walk) = (walk, sorted.next(at));
            }
            prop_assert_eq!(walk, None);
        }
    }
}

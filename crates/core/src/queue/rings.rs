//! Circular lists in one slab, laid out so that walking a list walks memory in order.
//!
//! A policy that serves tasks round robin inserts "just before the current task" and removes from
//! anywhere, in constant time: a doubly linked list. Linked lists are slow when their nodes are
//! scattered; here the nodes of one *region* (a GR3 group, say) are handed out from runs of
//! consecutive slots, longer ones the more it holds, so a region filled in order is walked in order
//! and the hardware prefetches it.
//!
//! Cost: insert and remove O(1) (O(regions) in the rare case that a region must take a free slot
//! of another); nothing allocates but [`Rings::reserve`].

use alloc::vec::Vec;

/// A node of [`Rings`].
pub type NodeId = u32;

/// No node.
const NIL: NodeId = NodeId::MAX;
/// Slots that a region claims first.
const FIRST_RUN: u32 = 16;
/// Slots that a region claims at a time at most: several pages, so that walking a long list seldom
/// meets a new one.
const LONGEST_RUN: u32 = 1024;

#[derive(Clone, Debug)]
struct Node<T> {
    next: NodeId,
    prev: NodeId,
    value: T,
}

/// Slots that a region may hand out.
#[derive(Clone, Copy, Debug)]
struct Region {
    /// Freed slots, linked by `next`.
    free: NodeId,
    /// The run being handed out: `fresh..fresh_end`.
    fresh: NodeId,
    fresh_end: NodeId,
    /// Slots to claim next: twice as many as before.
    run: u32,
}

/// Circular lists of `T` over `REGIONS` regions of one slab.
#[derive(Clone, Debug)]
pub struct Rings<T, const REGIONS: usize> {
    nodes: Vec<Node<T>>,
    /// First slot that no region has claimed.
    unclaimed: NodeId,
    regions: [Region; REGIONS],
    len: usize,
}

impl<T: Copy + Default, const REGIONS: usize> Default for Rings<T, REGIONS> {
    fn default() -> Self {
        let region = Region { free: NIL, fresh: 0, fresh_end: 0, run: FIRST_RUN };
        Rings { nodes: Vec::new(), unclaimed: 0, regions: [region; REGIONS], len: 0 }
    }
}

impl<T: Copy + Default, const REGIONS: usize> Rings<T, REGIONS> {
    /// Makes room for `capacity` nodes in all; the only call that allocates.
    pub fn reserve(&mut self, capacity: usize) {
        let slots = capacity + REGIONS * FIRST_RUN as usize;
        if slots > self.nodes.len() {
            let grown = slots.max(self.nodes.len() * 2);
            self.nodes.resize(grown, Node { next: NIL, prev: NIL, value: T::default() });
        }
    }

    /// Nodes in use.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no node is in use.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A new ring that holds `value` alone.
    ///
    /// # Panics
    /// When more nodes are in use than were reserved.
    pub fn insert_alone(&mut self, region: usize, value: T) -> NodeId {
        let node = self.allocate(region);
        self.nodes[node as usize] = Node { next: node, prev: node, value };
        node
    }

    /// Inserts `value` into the ring of `at`, just before `at`.
    ///
    /// # Panics
    /// When more nodes are in use than were reserved.
    #[inline]
    pub fn insert_before(&mut self, region: usize, at: NodeId, value: T) -> NodeId {
        let node = self.allocate(region);
        let prev = core::mem::replace(&mut self.nodes[at as usize].prev, node);
        self.nodes[prev as usize].next = node;
        self.nodes[node as usize] = Node { next: at, prev, value };
        node
    }

    /// Takes `node` out of its ring and gives its slot back to `region`. Returns the node that
    /// followed it, or `None` if it was alone.
    #[inline]
    pub fn remove(&mut self, region: usize, node: NodeId) -> Option<NodeId> {
        let free = &mut self.regions[region].free;
        let removed = &mut self.nodes[node as usize];
        let Node { next, prev, .. } = *removed;
        debug_assert_ne!(prev, NIL, "node {node} is in no ring");
        (removed.next, removed.prev) = (*free, NIL);
        *free = node;
        self.len -= 1;
        if next == node {
            return None;
        }
        self.nodes[prev as usize].next = next;
        self.nodes[next as usize].prev = prev;
        Some(next)
    }

    /// The node after `node`.
    #[inline]
    #[must_use]
    pub fn next(&self, node: NodeId) -> NodeId {
        self.nodes[node as usize].next
    }

    /// The node before `node`.
    #[inline]
    #[must_use]
    pub fn previous(&self, node: NodeId) -> NodeId {
        self.nodes[node as usize].prev
    }

    /// The value of `node`.
    #[inline]
    #[must_use]
    pub fn get(&self, node: NodeId) -> &T {
        &self.nodes[node as usize].value
    }

    /// The value of `node`.
    #[inline]
    pub fn get_mut(&mut self, node: NodeId) -> &mut T {
        &mut self.nodes[node as usize].value
    }

    /// The value of `node` and the node after it; `None` if there is no such slot.
    #[inline(always)]
    pub fn visit(&mut self, node: NodeId) -> Option<(&mut T, NodeId)> {
        let node = self.nodes.get_mut(node as usize)?;
        Some((&mut node.value, node.next))
    }

    /// The nodes of the ring of `start`, once around.
    pub fn iter_from(&self, start: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let mut at = Some(start);
        core::iter::from_fn(move || {
            let node = at?;
            let next = self.next(node);
            at = (next != start).then_some(next);
            Some(node)
        })
    }

    #[inline]
    fn allocate(&mut self, region: usize) -> NodeId {
        self.len += 1;
        let Region { free, .. } = &mut self.regions[region];
        match self.nodes.get(*free as usize) {
            Some(node) => core::mem::replace(free, node.next),
            None => self.claim(region),
        }
    }

    /// A slot that was never used, or else a free slot of another region.
    fn claim(&mut self, region: usize) -> NodeId {
        if let Some(node) = self.take(region) {
            return node;
        }
        let slots = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        if self.unclaimed < slots {
            let claimed = &mut self.regions[region];
            claimed.fresh = self.unclaimed;
            claimed.fresh_end = self.unclaimed.saturating_add(claimed.run).min(slots);
            claimed.run = (2 * claimed.run).min(LONGEST_RUN);
            self.unclaimed = claimed.fresh_end;
        }
        (0..REGIONS)
            .cycle()
            .skip(region)
            .take(REGIONS)
            .find_map(|r| self.take(r))
            .expect("no more nodes than were reserved")
    }

    fn take(&mut self, region: usize) -> Option<NodeId> {
        let region = &mut self.regions[region];
        if region.free != NIL {
            let node = region.free;
            region.free = self.nodes[node as usize].next;
            return Some(node);
        }
        if region.fresh < region.fresh_end {
            region.fresh += 1;
            return Some(region.fresh - 1);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    proptest! {
        /// Against the naive twin: a `Vec` whose first element is the current one.
        #[test]
        fn behaves_like_a_vec(steps in proptest::collection::vec((0u8..4, any::<u16>()), 1..300)) {
            let mut rings = Rings::<u16, 3>::default();
            let mut naive: Vec<Vec<(NodeId, u16)>> = vec![vec![]; 3];
            for (i, &(verb, value)) in steps.iter().enumerate() {
                let region = usize::from(value % 3);
                let ring = &mut naive[region];
                match verb {
                    0 | 1 => {
                        rings.reserve(rings.len() + 1);
                        let node = match ring.first() {
                            None => rings.insert_alone(region, value),
                            Some(&(at, _)) => rings.insert_before(region, at, value),
                        };
                        ring.push((node, value));
                    }
                    2 if !ring.is_empty() => {
                        let at = i % ring.len();
                        let (node, _) = ring.remove(at);
                        let next = rings.remove(region, node);
                        prop_assert_eq!(next, ring.get(at).or(ring.first()).map(|&(n, _)| n));
                    }
                    _ if !ring.is_empty() => {
                        let next = rings.next(ring[0].0);
                        ring.rotate_left(1);
                        prop_assert_eq!(next, ring[0].0);
                    }
                    _ => {}
                }
                for ring in naive.iter().filter(|r| !r.is_empty()) {
                    let seen: Vec<(NodeId, u16)> =
                        rings.iter_from(ring[0].0).map(|n| (n, *rings.get(n))).collect();
                    prop_assert_eq!(&seen, ring);
                }
            }
            prop_assert_eq!(rings.len(), naive.iter().map(Vec::len).sum::<usize>());
        }
    }
}

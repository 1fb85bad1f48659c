//! The memory that the BPF program shares with us.

use std::marker::PhantomData;

use crate::bpf_intf::{event, limits_RECORD_EVENTS, policy_counts, prorata_stats, shared};

/// A view of the scheduler's arena, while the scheduler runs.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'a> {
    shared: *const shared,
    counts: *const policy_counts,
    events: *const event,
    scheduler: PhantomData<&'a ()>,
}

impl Memory<'_> {
    /// # Safety
    /// The addresses are those of a `struct shared`, a `struct policy_counts` and, unless it is 0,
    /// of the ring of events, which stay mapped for the lifetime of the view.
    pub(crate) unsafe fn new([shared, counts, events]: [u64; 3]) -> Self {
        Memory {
            shared: shared as *const shared,
            counts: counts as *const policy_counts,
            events: events as *const event,
            scheduler: PhantomData,
        }
    }

    /// The framework's counters. Each is read whole; together they may be a decision apart.
    pub(crate) fn stats(&self) -> prorata_stats {
        // SAFETY: see `new`; the memory holds plain numbers, which another cpu may change.
        unsafe { (&raw const (*self.shared).stats).read_volatile() }
    }

    /// The policy's counters.
    pub(crate) fn counts(&self) -> policy_counts {
        // SAFETY: as above.
        unsafe { self.counts.read_volatile() }
    }

    /// The events recorded since `from`, each with its number, the oldest first; and the number
    /// after the last. Events that have been overwritten are left out.
    pub(crate) fn events_since(&self, from: u64) -> (Vec<event>, u64) {
        if self.events.is_null() {
            return (Vec::new(), from);
        }
        let room = u64::from(limits_RECORD_EVENTS);
        // SAFETY: as above; the index is within the ring.
        let (recorded, read) = unsafe {
            let recorded = (&raw const (*self.shared).recorded).read_volatile();
            let at = |n: u64| usize::try_from(n % room).expect("the ring is small");
            let oldest = from.max(recorded.saturating_sub(room));
            let read = (oldest..recorded).map(|n| self.events.add(at(n)).read_volatile());
            (recorded, read.collect())
        };
        (read, recorded)
    }
}

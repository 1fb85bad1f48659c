//! The memory that the BPF program shares with us.

use std::marker::PhantomData;

use crate::bpf_intf::{policy_counts, prorata_stats, shared};

/// A view of the scheduler's arena, while the scheduler runs.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'a> {
    shared: *const shared,
    counts: *const policy_counts,
    scheduler: PhantomData<&'a ()>,
}

impl Memory<'_> {
    /// # Safety
    /// The addresses are those of a `struct shared` and a `struct policy_counts` that stay mapped
    /// for the lifetime of the view.
    pub(crate) unsafe fn new(shared: u64, counts: u64) -> Self {
        Memory {
            shared: shared as *const shared,
            counts: counts as *const policy_counts,
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
}

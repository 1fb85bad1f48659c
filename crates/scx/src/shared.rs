//! The memory that the BPF program shares with us.

use std::marker::PhantomData;
use std::sync::atomic::Ordering::{Acquire, SeqCst};
use std::sync::atomic::{AtomicU64, fence};

use scx_prorata_objects::intf::{
    desk, event, group_change, group_limits_GROUP_CHANGES, group_limits_GROUP_NODES, group_member,
    group_node, group_tree, limits_MAX_CPUS, limits_MAX_TASKS, limits_RECORD_EVENTS, policy_counts,
    prorata_stats, shared, slot_layout, step,
};

/// Where things are in the scheduler's memory.
pub(crate) struct Addresses {
    pub(crate) shared: u64,
    pub(crate) counts: u64,
    /// 0 if nothing is recorded.
    pub(crate) events: u64,
    pub(crate) slots: u64,
    pub(crate) tree: u64,
    /// 0 if what is counted is in `shared`.
    pub(crate) desks: u64,
}

/// A view of the scheduler's arena, while the scheduler runs.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'a> {
    shared: *const shared,
    counts: *const policy_counts,
    events: *const event,
    slots: *const u8,
    slot: slot_layout,
    tree: *mut group_tree,
    desks: *const desk,
    scheduler: PhantomData<&'a ()>,
}

/// What is read of a task's slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// `enum task_state`.
    pub(crate) state: u32,
    /// When it began to wait, or was picked.
    pub(crate) since_ns: u64,
    /// How long it has run since it was picked, as far as that is known.
    pub(crate) used_ns: u64,
    pub(crate) received_ns: u64,
    pub(crate) waited_ns: u64,
}

/// Tasks that there may be, and cgroups.
pub(crate) const TASKS: u32 = limits_MAX_TASKS;
pub(crate) const NODES: u32 = group_limits_GROUP_NODES;

impl Memory<'_> {
    /// # Safety
    /// The addresses are those of a `struct shared`, a `struct policy_counts` and, unless it is 0,
    /// of the ring of events, of the slots, which are laid out so, the tree of cgroups and, unless it is 0,
    /// what is kept of each cpu; all stay mapped for the lifetime of the view.
    pub(crate) unsafe fn new(at: &Addresses, slot: slot_layout) -> Self {
        Memory {
            shared: at.shared as *const shared,
            counts: at.counts as *const policy_counts,
            events: at.events as *const event,
            slots: at.slots as *const u8,
            slot,
            tree: at.tree as *mut group_tree,
            desks: at.desks as *const desk,
            scheduler: PhantomData,
        }
    }

    /// The time of the last decision.
    pub(crate) fn now_ns(&self) -> u64 {
        // SAFETY: see `new`; the memory holds plain numbers, which another cpu may change.
        unsafe { (&raw const (*self.shared).now_ns).read_volatile() }
    }

    /// Has changes of the tree written to a ring from now on, or no longer.
    pub(crate) fn watch(&self, watched: bool) {
        // SAFETY: as above; nobody else writes it.
        unsafe { (&raw mut (*self.tree).watched).write_volatile(u32::from(watched)) }
        // Whoever reads the tree next does so after that.
        fence(SeqCst);
    }

    pub(crate) fn cpus(&self) -> u64 {
        // SAFETY: as above.
        unsafe { (&raw const (*self.tree).cpus).read_volatile() }
    }

    /// The number of changes that were written, and of nodes that were ever used.
    pub(crate) fn tree_counts(&self) -> (u64, u32) {
        // SAFETY: as above; the first is an aligned word of the memory that others change as one.
        unsafe {
            let written = AtomicU64::from_ptr((&raw const (*self.tree).written).cast_mut());
            let nodes = (&raw const (*self.tree).unused).read_volatile();
            (written.load(Acquire), nodes.min(NODES))
        }
    }

    /// A change by its number; one that has been overwritten is another.
    pub(crate) fn change(&self, number: u64) -> group_change {
        let at = usize::try_from(number % u64::from(group_limits_GROUP_CHANGES));
        // SAFETY: as above; the index is within the ring.
        let change = unsafe {
            let ring = (&raw const (*self.tree).ring).cast::<group_change>();
            ring.add(at.expect("the ring is small")).read_volatile()
        };
        // If what was read is of later, so is the count.
        fence(Acquire);
        change
    }

    /// A task, or a node behind all of these.
    pub(crate) fn member(&self, id: u32) -> group_member {
        assert!(id < TASKS + NODES, "{id} is no member");
        // SAFETY: as above; the index is within the members.
        unsafe {
            let members = (&raw const (*self.tree).members).cast::<group_member>();
            members.add(id as usize).read_volatile()
        }
    }

    /// The kernel's number of a node's cgroup, and whether the node is in use.
    pub(crate) fn node(&self, node: u32) -> (u64, bool) {
        assert!(node < NODES, "{node} is no node");
        // SAFETY: as above; the index is within the nodes.
        unsafe {
            let node = (&raw const (*self.tree).nodes).cast::<group_node>().add(node as usize);
            let refs = (&raw const (*node).refs).read_volatile();
            ((&raw const (*node).cgroup).read_volatile(), refs > 0)
        }
    }

    pub(crate) fn slot(&self, id: u32) -> Slot {
        assert!(id < TASKS, "{id} is no task");
        let word = |offset: u32| {
            let at = id as usize * self.slot.size as usize + offset as usize;
            // SAFETY: as above; the offset is of a u64 within the slot.
            unsafe { self.slots.add(at).cast::<u64>().read_volatile() }
        };
        let at = id as usize * self.slot.size as usize + self.slot.state as usize;
        Slot {
            // SAFETY: as above; the offset is of a byte within the slot.
            state: u32::from(unsafe { self.slots.add(at).read_volatile() }),
            since_ns: word(self.slot.since_ns),
            used_ns: word(self.slot.used_ns),
            received_ns: word(self.slot.received_ns),
            waited_ns: word(self.slot.waited_ns),
        }
    }

    /// False if the policy does not know cgroups: nothing about these may be asked.
    pub(crate) fn knows_cgroups(&self) -> bool {
        !self.tree.is_null()
    }

    /// The framework's counters. Each is read whole; together they may be a decision apart.
    pub(crate) fn stats(&self) -> prorata_stats {
        // SAFETY: see `new`; the memory holds plain numbers, which another cpu may change.
        let shared = unsafe { (&raw const (*self.shared).stats).read_volatile() };
        if self.desks.is_null() {
            return shared;
        }
        (0..limits_MAX_CPUS as usize).fold(shared, |sum, cpu| {
            // SAFETY: as above; the index is within the desks.
            let of_cpu = unsafe { (&raw const (*self.desks.add(cpu)).stats).read_volatile() };
            add_stats(sum, of_cpu)
        })
    }

    /// Tasks that left a core which they shared.
    pub(crate) fn core_moves(&self) -> u64 {
        // SAFETY: as above.
        unsafe { (&raw const (*self.shared).core_moves).read_volatile() }
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
        let at = |n: u64| usize::try_from(n % room).expect("the ring is small");
        // SAFETY: as above; the count is an aligned word of the memory that others change as one.
        let recorded =
            unsafe { AtomicU64::from_ptr((&raw const (*self.shared).recorded).cast_mut()) };
        // SAFETY: as above; the index is within the ring.
        read_ring(
            from,
            room,
            || recorded.load(Acquire),
            |n| unsafe { self.events.add(at(n)).read_volatile() },
        )
    }
}

/// What was written into a ring of so many since `from`, and the number after the last: whoever writes
/// counts in `written` what is there, and goes on meanwhile. What he has overwritten, or may be about to, is
/// left out.
fn read_ring<T>(
    from: u64,
    room: u64,
    written: impl Fn() -> u64,
    read: impl Fn(u64) -> T,
) -> (Vec<T>, u64) {
    let end = written();
    let oldest = from.max(end.saturating_sub(room));
    let mut all: Vec<T> = (oldest..end).map(read).collect();
    // If what was read is of later, so is the count.
    fence(Acquire);
    let intact = (written() + 1).saturating_sub(room).clamp(oldest, end.max(oldest));
    all.drain(..usize::try_from(intact - oldest).expect("rings are small"));
    (all, end)
}

/// What cpus have done, where each records its own steps.
impl Memory<'_> {
    /// True if they do, when they record.
    pub(crate) fn has_steps(&self) -> bool {
        !self.desks.is_null() && !self.events.is_null()
    }

    /// The steps of a cpu since `from`, the oldest first, and the number after the last. Where so many cpus
    /// were there when the scheduler began. Steps that have been overwritten are left out.
    pub(crate) fn steps_since(&self, cpu: usize, from: u64, cpus: u32) -> (Vec<step>, u64) {
        assert!(cpu < limits_MAX_CPUS as usize, "{cpu} is no cpu");
        let room = u64::from(limits_RECORD_EVENTS / cpus.next_power_of_two());
        // SAFETY: as in `stats`; the count is an aligned word that only that cpu changes, as one.
        let (recorded, seat) = unsafe {
            let desk = self.desks.add(cpu);
            let recorded = AtomicU64::from_ptr((&raw const (*desk).recorded).cast_mut());
            (recorded, u64::from((&raw const (*desk).cpu.seat).read_volatile() % cpus))
        };
        let at = |n: u64| usize::try_from(seat * room + n % room).expect("rings are small");
        let steps = self.events.cast::<step>();
        // SAFETY: the ring of each of the cpus, which are numbered by `seat`, is within the memory for
        // events.
        read_ring(
            from,
            room,
            || recorded.load(Acquire),
            |n| unsafe { steps.add(at(n)).read_volatile() },
        )
    }
}

/// What two cpus have counted.
fn add_stats(a: prorata_stats, b: prorata_stats) -> prorata_stats {
    prorata_stats {
        picks: a.picks + b.picks,
        idle_picks: a.idle_picks + b.idle_picks,
        keeps: a.keeps + b.keeps,
        overdrafts: a.overdrafts + b.overdrafts,
        resumed: a.resumed + b.resumed,
        rescues: a.rescues + b.rescues,
        confined: a.confined + b.confined,
        bypassed: a.bypassed + b.bypassed,
        beside_ns: a.beside_ns + b.beside_ns,
        over_budget: a.over_budget + b.over_budget,
        lost: a.lost + b.lost,
        moves: a.moves + b.moves,
        far_moves: a.far_moves + b.far_moves,
        crowded_out: a.crowded_out + b.crowded_out,
        longest_wait_ns: a.longest_wait_ns.max(b.longest_wait_ns),
        most_choices: a.most_choices.max(b.most_choices),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const ROOM: u64 = 8;

    /// What a reader gets whose writer has written so many, and writes so many more after each that is read.
    fn read(from: u64, written: u64, each: u64) -> (Vec<u64>, u64) {
        let count = Cell::new(written);
        read_ring(
            from,
            ROOM,
            || count.get(),
            |n| {
                // The last that was written in its place, or is being written.
                let last = n + (count.get() - n) / ROOM * ROOM;
                count.set(count.get() + each);
                last
            },
        )
    }

    #[test]
    fn what_was_written_since_is_read() {
        assert_eq!(read(3, 7, 0), (vec![3, 4, 5, 6], 7));
        assert_eq!(read(7, 7, 0), (vec![], 7));
        assert_eq!(read(0, 0, 0), (vec![], 0));
    }

    #[test]
    fn what_is_overwritten_is_left_out() {
        assert_eq!(read(0, 10, 0), ((3..10).collect(), 10));
        assert_eq!(read(0, 7, 1), (vec![], 7));
        assert_eq!(read(2, 7, 1), ((5..7).collect(), 7));
        for (from, each) in (0..40).flat_map(|from| (0..4).map(move |each| (from, each))) {
            let (all, end) = read(from, from + 6, each);
            let oldest = end - all.len() as u64;
            assert_eq!(all, (oldest..end).collect::<Vec<_>>(), "from {from}, {each} each");
        }
    }
}

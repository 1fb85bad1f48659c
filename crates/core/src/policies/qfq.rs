//! Quick fair queueing (Checconi, Rizzo, Valente, *QFQ: Efficient Packet Scheduling with Tight
//! Guarantees*, IEEE/ACM ToN 2013): WF²Q+ with rounded tags, in constant time.
//!
//! *How.* As in WF²Q+, a task has a virtual start time S and the system a clock V, and the task of least
//! finishing time among those with S ≤ V runs. Tasks are put into *groups* by weight: group i has those
//! with 2^(i−1) < Q/φ ≤ 2^i =: σ_i. Inside a group, S is rounded down to a multiple of σ_i, its *slot*;
//! all tasks of a group that can be in play lie in a few neighbouring slots, so a group is a small
//! circle of queues. The group has the start Ŝ of its first slot in use and the finish F̂ = Ŝ + 2σ_i.
//!
//! A group is *eligible* (E) if Ŝ ≤ V, else *ineligible* (I); it is *blocked* (B) if an eligible group
//! of greater index (lighter tasks) has a lesser F̂, else *ready* (R). Each of the sets ER, EB, IR, IB is
//! a bitmap. Among the groups in ER, F̂ grows with the index, so that the least bit of ER is the group
//! of least F̂ of all eligible ones, and the first task of its first slot runs.
//!
//! *Why constant time is enough.* Ŝ ≤ ⌊V⌋ + σ_i holds always, so a group becomes eligible exactly
//! when V crosses one of its slots, which is told by the highest bit that changed in V: whole ranges of
//! groups move from I to E at once. A group that becomes eligible blocks nobody (its slots are wide,
//! so its F̂ is late). And when the group j that was served has a later F̂ than before, and the next
//! ready group too, everything below j is unblocked at once, because no F̂ below was more than σ_j past
//! the old one.
//!
//! *Bound.* Fixed set: before a quantum Ŝ ≤ V, so S < V + σ, and σ < 2Q/φ: e < 3. V never passes F̂,
//! so e > −4 (the paper's B-WFI of 3φσ + 2φQ is the same kind of statement for any arrivals).
//!
//! *Dynamics.* As in the paper, V moves by used/Φ with Φ the weight of *all* known tasks, blocked ones
//! included, and to the least Ŝ when nobody is eligible. A task that wakes has S clamped to
//! [V, ⌊V⌋ + σ]. A new weight starts the task at its old S, clamped likewise.
//!
//! *Arithmetic.* Virtual time is counted in 2^−32 ns per unit of weight, with the remainders of all
//! divisions carried on: S and V are exact but for the fraction below that. *Cost*: a decision O(1);
//! wake, block and reweigh O(g), g ≤ 34 groups, where the sets are made anew from their definition.
//! *Cpus*: one.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Bound, Cost, Entry, Ratio};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::Circles;
use crate::turns::Payment;

pub(super) const ENTRY: Entry = Entry {
    name: "qfq",
    title: "Quick fair queueing (QFQ)",
    paper: "Checconi, Rizzo, Valente 2013, sections III and IV",
    bound: Bound {
        text: "−4 < e < 3",
        lower: Some(|_, _| Ratio::whole(-4)),
        upper: Some(|_, _| Ratio::whole(3)),
        exact_each_cycle: false,
    },
    cost: Cost { pick: "1", insert: "g", remove: "g" },
    multiprocessor: false,
    work_conserving: true,
    by_weight: true,
    payment: Payment::USE,
    options: &[],
    build: |setup, _| Ok(Box::new(Qfq::new(setup))),
};

/// Q/φ spans a factor of 2^32, both ends rounded up to powers of two.
const GROUPS: usize = 34;
/// Slots in the circle of a group: more than can be in use.
const SLOTS: usize = 8;
/// Virtual time has this many bits below the nanosecond.
const FRACTION_BITS: u32 = 32;

/// A virtual time or a difference of two, in 2^−32 ns per unit of weight.
type Virtual = u128;

/// `whole + rest/divisor`, for a divisor that is kept elsewhere.
#[derive(Clone, Copy, Debug, Default)]
struct Exact {
    whole: Virtual,
    rest: u64,
}

impl Exact {
    fn quotient(service_ns: Nanos, divisor: u64) -> Exact {
        let scaled = u128::from(service_ns) << FRACTION_BITS;
        let rest = u64::try_from(scaled % u128::from(divisor)).expect("below the divisor");
        Exact { whole: scaled / u128::from(divisor), rest }
    }

    #[inline]
    fn plus(self, more: Exact, divisor: u64) -> Exact {
        let rest = self.rest + more.rest;
        let carry = rest >= divisor;
        let rest = if carry { rest - divisor } else { rest };
        Exact { whole: self.whole + more.whole + Virtual::from(carry), rest }
    }
}

#[derive(Clone, Copy, Debug)]
struct Task {
    weight: Weight,
    group: usize,
    /// S, in parts of the weight.
    start: Exact,
    /// Q/φ.
    stride: Exact,
}

/// The slots of a group.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// Ŝ/σ, if `used` is not 0.
    front: Virtual,
    /// The slots in use, by their number modulo [`SLOTS`]; all from `front` to `front` + 7.
    used: u8,
}

/// The four sets of groups, as bitmaps. A group with tasks is in exactly one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sets {
    eligible_ready: u64,
    eligible_blocked: u64,
    ineligible_ready: u64,
    ineligible_blocked: u64,
}

/// QFQ. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Qfq {
    quantum_ns: Nanos,
    /// σ of group 0 is two to this.
    first_shift: u32,
    /// Waiting tasks and the running one: [`SLOTS`] queues for each group.
    queues: Circles<{ GROUPS * SLOTS }>,
    groups: [Group; GROUPS],
    sets: Sets,
    tasks: Vec<Option<Task>>,
    /// V, in parts of `total`.
    clock: Exact,
    /// Weight of all known tasks.
    total: u64,
    /// Q/`total`.
    clock_stride: Exact,
    /// True if tasks woke, blocked or changed weight since the last pick.
    changed: bool,
}

impl Qfq {
    /// QFQ over no tasks.
    #[must_use]
    pub fn new(setup: &Setup) -> Qfq {
        let least = Exact::quotient(setup.quantum_ns, u64::from(Weight::MAX.get()));
        Qfq {
            quantum_ns: setup.quantum_ns,
            first_shift: ceil_log2(least),
            queues: Circles::default(),
            groups: [Group::default(); GROUPS],
            sets: Sets::default(),
            tasks: Vec::new(),
            clock: Exact::default(),
            total: 0,
            clock_stride: Exact::default(),
            changed: false,
        }
    }

    #[inline]
    fn known(&self, task: TaskId) -> &Task {
        self.tasks[task.index()].as_ref().expect("it was added")
    }

    /// σ of a group is two to this.
    #[inline]
    fn shift(&self, group: usize) -> u32 {
        self.first_shift + u32::try_from(group).expect("below 64")
    }

    /// Ŝ.
    #[inline]
    fn start(&self, group: usize) -> Virtual {
        self.groups[group].front << self.shift(group)
    }

    /// F̂.
    #[inline]
    fn finish(&self, group: usize) -> Virtual {
        (self.groups[group].front + 2) << self.shift(group)
    }

    fn describe(&self, weight: Weight) -> (usize, Exact) {
        let stride = Exact::quotient(self.quantum_ns, u64::from(weight.get()));
        ((ceil_log2(stride) - self.first_shift) as usize, stride)
    }

    fn set_total(&mut self, total: u64) {
        self.total = total;
        self.clock.rest = 0;
        if total > 0 {
            self.clock_stride = Exact::quotient(self.quantum_ns, total);
        }
    }

    /// Puts `task` into the slot of its S.
    #[inline]
    fn enter(&mut self, task: TaskId) {
        let Task { group, start, .. } = *self.known(task);
        let slot = start.whole >> self.shift(group);
        let known = &mut self.groups[group];
        if known.used == 0 || slot < known.front {
            known.front = slot;
        }
        debug_assert!(slot < known.front + SLOTS as Virtual, "few slots are in use");
        let at = circle_index(slot);
        known.used |= 1 << at;
        self.queues.push(group * SLOTS + at, task);
    }

    /// Takes `task` out of its slot, if it is in one.
    #[inline]
    fn leave(&mut self, task: TaskId) -> bool {
        let Some(queue) = self.queues.remove(task) else { return false };
        let known = &mut self.groups[queue / SLOTS];
        if self.queues.is_empty(queue) {
            known.used &= !(1 << (queue % SLOTS));
        }
        true
    }

    /// Moves the front of a group, whose slots changed, to its first slot in use.
    #[inline]
    fn settle_front(&mut self, group: usize) {
        let known = &mut self.groups[group];
        let front = u32::try_from(circle_index(known.front)).expect("small");
        if known.used != 0 {
            known.front += Virtual::from(known.used.rotate_right(front).trailing_zeros());
        }
    }

    /// `task` is runnable from now on; its S is clamped to what the sets rely on.
    fn join(&mut self, task: TaskId) {
        let Task { group, start, .. } = *self.known(task);
        let shift = self.shift(group);
        let now = self.clock.whole;
        let most = ((now >> shift) + 1) << shift;
        if start.whole < now || start.whole > most {
            let start = Exact { whole: start.whole.clamp(now, most), rest: 0 };
            self.tasks[task.index()].as_mut().expect("it was added").start = start;
        }
        self.enter(task);
    }

    /// Makes the sets from their definition. V moves to the least Ŝ if nobody is eligible.
    fn rebuild(&mut self) {
        self.changed = true;
        (0..GROUPS).for_each(|group| self.settle_front(group));
        let present = (0..GROUPS).filter(|&group| self.groups[group].used != 0);
        if let Some(least) = present.map(|group| self.start(group)).min() {
            self.clock.whole = self.clock.whole.max(least);
        }
        self.sets = self.defined_sets();
    }

    fn defined_sets(&self) -> Sets {
        let mut sets = Sets::default();
        let mut least_finish = Virtual::MAX;
        for group in (0..GROUPS).rev().filter(|&group| self.groups[group].used != 0) {
            let blocked = self.finish(group) > least_finish;
            let eligible = self.start(group) <= self.clock.whole;
            *sets.of(eligible, blocked) |= 1 << group;
            if eligible {
                least_finish = least_finish.min(self.finish(group));
            }
        }
        sets
    }

    /// The sets after the first task of the first slot of `group`, the least of ER, has moved on.
    #[inline]
    fn update(&mut self, group: usize, old_finish: Virtual, old_clock: Virtual) {
        self.settle_front(group);
        if self.finish(group) != old_finish {
            self.sets.eligible_ready &= !(1 << group);
            let above = self.sets.eligible_ready >> group;
            let next = (above != 0).then(|| group + above.trailing_zeros() as usize);
            let next_finish = next.map(|next| self.finish(next));
            let blocked = next_finish.is_some_and(|next| self.finish(group) > next);
            let eligible = self.start(group) <= self.clock.whole;
            *self.sets.of(eligible, blocked) |= 1 << group;
            if next_finish.is_none_or(|next| next > old_finish) {
                self.sets.unblock((1 << group) - 1);
            }
        }
        if self.sets.eligible_ready == 0 {
            // Nobody is eligible: all of them start at the next slot, the narrowest one first.
            let ineligible = self.sets.ineligible_ready | self.sets.ineligible_blocked;
            let start = self.start(ineligible.trailing_zeros() as usize);
            self.clock.whole = self.clock.whole.max(start);
        }
        let crossed = (old_clock ^ self.clock.whole).checked_ilog2();
        if let Some(groups) = crossed.and_then(|bit| (bit + 1).checked_sub(self.first_shift)) {
            self.sets.make_eligible(u64::MAX.checked_shr(64 - groups.min(64)).unwrap_or(0));
        }
    }
}

impl Sets {
    #[inline]
    fn of(&mut self, eligible: bool, blocked: bool) -> &mut u64 {
        match (eligible, blocked) {
            (true, false) => &mut self.eligible_ready,
            (true, true) => &mut self.eligible_blocked,
            (false, false) => &mut self.ineligible_ready,
            (false, true) => &mut self.ineligible_blocked,
        }
    }

    /// The groups in `mask` are not blocked any more.
    #[inline]
    fn unblock(&mut self, mask: u64) {
        self.eligible_ready |= self.eligible_blocked & mask;
        self.eligible_blocked &= !mask;
        self.ineligible_ready |= self.ineligible_blocked & mask;
        self.ineligible_blocked &= !mask;
    }

    /// The groups in `mask` are eligible.
    #[inline]
    fn make_eligible(&mut self, mask: u64) {
        self.eligible_ready |= self.ineligible_ready & mask;
        self.ineligible_ready &= !mask;
        self.eligible_blocked |= self.ineligible_blocked & mask;
        self.ineligible_blocked &= !mask;
    }
}

/// The least i with value ≤ 2^i.
fn ceil_log2(value: Exact) -> u32 {
    let whole = value.whole + Virtual::from(value.rest > 0);
    whole.next_power_of_two().ilog2()
}

/// Which of a group's queues has this slot.
#[inline]
const fn circle_index(slot: Virtual) -> usize {
    (slot % SLOTS as Virtual) as usize
}

impl Policy for Qfq {
    fn add(&mut self, task: TaskId, weight: Weight) {
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, None);
            self.queues.reserve(self.tasks.len());
        }
        let (group, stride) = self.describe(weight);
        let start = Exact::default();
        self.tasks[task.index()] = Some(Task { weight, group, start, stride });
        self.set_total(self.total + u64::from(weight.get()));
    }

    fn remove(&mut self, task: TaskId, _now_ns: Nanos) {
        if self.leave(task) {
            self.rebuild();
        }
        let weight = self.known(task).weight;
        self.tasks[task.index()] = None;
        self.set_total(self.total - u64::from(weight.get()));
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, _now_ns: Nanos) {
        let was_in = self.leave(task);
        let (group, stride) = self.describe(weight);
        let old = *self.known(task);
        let start = Exact { rest: 0, ..old.start };
        self.tasks[task.index()] = Some(Task { weight, group, start, stride });
        self.set_total(self.total - u64::from(old.weight.get()) + u64::from(weight.get()));
        if was_in {
            self.join(task);
            self.rebuild();
        }
    }

    fn wake(&mut self, task: TaskId, _now_ns: Nanos) {
        self.join(task);
        self.rebuild();
    }

    fn block(&mut self, task: TaskId, _now_ns: Nanos) {
        self.leave(task);
        self.rebuild();
    }

    fn pick(&mut self, _cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        if self.sets.eligible_ready == 0 {
            return None;
        }
        self.changed = false;
        let group = self.sets.eligible_ready.trailing_zeros() as usize;
        self.queues.first(group * SLOTS + circle_index(self.groups[group].front))
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, _now_ns: Nanos) {
        let Task { weight, group, start, stride } = *self.known(task);
        let (old_finish, old_clock) = (self.finish(group), self.clock.whole);
        self.leave(task);
        let divisor = u64::from(weight.get());
        let whole_quantum = used_ns == self.quantum_ns;
        let more = if whole_quantum { stride } else { Exact::quotient(used_ns, divisor) };
        let start = start.plus(more, divisor);
        self.tasks[task.index()] = Some(Task { weight, group, start, stride });
        self.settle_front(group);
        self.enter(task);
        let total = self.total;
        let more = if whole_quantum { self.clock_stride } else { Exact::quotient(used_ns, total) };
        self.clock = self.clock.plus(more, total);
        if self.changed {
            self.rebuild();
        } else {
            self.update(group, old_finish, old_clock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The sets that decisions update in constant time are those of the definition.
        #[test]
        fn sets_are_those_of_the_definition(
            weights in proptest::collection::vec((0u32..32, any::<u32>()), 1..40),
            steps in proptest::collection::vec((0u8..12, any::<u16>(), 1u64..=1000), 1..600),
        ) {
            let weight = |(bits, noise): (u32, u32)| Weight::new((noise >> bits).max(1));
            let weights: Vec<Weight> = weights.into_iter().filter_map(weight).collect();
            let mut policy = Qfq::new(&Setup::new(1, 1000));
            let mut runnable = Vec::new();
            for (id, &weight) in (0..).zip(&weights) {
                policy.add(TaskId(id), weight);
                policy.wake(TaskId(id), 0);
                runnable.push(true);
            }
            for (verb, noise, used_ns) in steps {
                let at = usize::from(noise) % weights.len();
                let task = TaskId(u32::try_from(at).expect("small"));
                match (verb, runnable[at]) {
                    (0, true) => policy.block(task, 0),
                    (0 | 1, false) => policy.wake(task, 0),
                    (2, _) => policy.set_weight(task, weights[(at + 1) % weights.len()], 0),
                    _ => {
                        let picked = policy.pick(0, 0);
                        prop_assert_eq!(picked.is_some(), runnable.contains(&true));
                        if let Some(picked) = picked {
                            policy.charge(picked, if verb < 6 { used_ns } else { 1000 }, 0);
                        }
                        prop_assert_eq!(policy.sets, policy.defined_sets());
                        continue;
                    }
                }
                runnable[at] ^= verb < 2 && (verb == 0 || !runnable[at]);
                prop_assert_eq!(policy.sets, policy.defined_sets());
            }
        }
    }
}

//! The group list of GR3: which group is served next, by the ratio of consecutive groups' work.
//!
//! Groups stand in order of decreasing weight, ties in increasing order σ. With V = W + 1 and
//! consecutive groups i and i+1, the well-ordering condition (USENIX'05 eq. 2) is
//! V_i/Φ_i ≤ V_{i+1}/Φ_{i+1}; otherwise the pair is *violated*. The list keeps
//! `slack_i = V_{i+1}·Φ_i − (V_i + 1)·Φ_{i+1}` up to date, two additions a choice: whether the pair
//! will be violated after the next choice of group i, so that this choice knows at once where to go
//! from there.

use core::hint::select_unpredictable;

use crate::queue::NodeId;

/// Where to go on in the group list after a change of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// At the group after the last violated pair, and so on until no pair is violated; then at the
    /// largest. Ours.
    UntilOrdered,
    /// At the group after the last violated pair; at the largest if none is violated.
    Violated,
    /// At the largest group (both papers, taken literally).
    Largest,
    /// At the largest group after a removal, else at the group that was current.
    LargestOnRemoval,
    /// At the group that was current.
    Current,
}

/// How a group's work is rescaled when its weight changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rescale {
    /// In proportion to the next group's work (USENIX'05 §2.3).
    Neighbour,
    /// In proportion to its own work before, or to the total work if it is new (CUCS-028-04 §2.3), to
    /// 1/2^16 of a quantum where a weight changes, else to a whole one. Ours.
    Own,
}

/// The rules of a change of groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) resume: Resume,
    pub(super) rescale: Rescale,
}

/// Orders that a 32-bit weight can have.
pub(super) const ORDERS: usize = 32;

/// Where a ring stands, and what the next choice needs to know of it at once: a choice that follows
/// another one in the same ring would else wait for what that has stored in its slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    /// The current task's deficit, as in its slot, unless the group's next choice needs care.
    pub(super) deficit: u64,
    /// The current task.
    pub(super) current: NodeId,
    /// The task after it, unless the group's next choice needs care.
    pub(super) next: NodeId,
}

/// Beside the place before the current group's: the next choice needs care. So high that no group is
/// found there by mistake.
const NEEDS_CARE: usize = ORDERS;

/// A group: the tasks of one order σ. A cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Group {
    /// V_{i+1}·Φ_i − (V_i + 1)·Φ_{i+1} with the next group of the list; 0 for the last group.
    slack: i64,
    /// Φ: the effective weights of the tasks, times the denominator of the cap.
    /// Invariant: decreasing along the list.
    weight: u64,
    /// V = W + 1, the work plus one. Only ratios matter: see [`Groups::renormalise`].
    work: u64,
    /// Total weight of the tasks that are not capped.
    plain: u64,
    /// Tasks that are capped.
    capped: u32,
    pub(super) cursor: Cursor,
    /// A quantum in the units of the tasks' deficits, 2^σ; [`Group::OUT_OF_REACH`], which none reaches,
    /// if the group's next choice needs care: what the cursor knows may have changed, or some task
    /// is capped, since those count in other units.
    pub(super) one: u64,
    /// What rescaling has left of a quantum beside W, in 1/2^16.
    part: u16,
    /// σ.
    pub(super) order: u8,
}

impl Group {
    const OUT_OF_REACH: u64 = u64::MAX;
    const SENTINEL: Group = Group {
        slack: 0,
        weight: 0,
        work: 0,
        plain: 0,
        capped: 0,
        cursor: Cursor { deficit: 0, current: 0, next: 0 },
        one: Group::OUT_OF_REACH,
        part: 0,
        order: 0,
    };

    /// The group of order `order` that holds nothing yet, whose first task is in node `current`.
    pub(super) fn new(order: u8, current: NodeId) -> Group {
        let cursor = Cursor { current, ..Group::SENTINEL.cursor };
        Group { order, cursor, work: 1, ..Group::SENTINEL }
    }

    /// The group of order `order` whose only task, of `weight`, is in node `current`; 0 stands for a
    /// capped one.
    pub(super) fn of(order: u8, current: NodeId, weight: u32) -> Group {
        let mut group = Group::new(order, current);
        group.count(weight);
        group
    }

    pub(super) fn is_empty(&self) -> bool {
        self.plain == 0 && self.capped == 0
    }

    /// A task of `weight` is in the group now; 0 stands for a capped one.
    pub(super) fn count(&mut self, weight: u32) {
        self.plain += u64::from(weight);
        self.capped += u32::from(weight == 0);
        self.take_care();
    }

    /// A task of `weight` is in the group no longer; 0 stands for a capped one.
    pub(super) fn uncount(&mut self, weight: u32) {
        self.plain -= u64::from(weight);
        self.capped -= u32::from(weight == 0);
        self.take_care();
    }

    /// The group, which is empty, is as good as new.
    pub(super) fn forget(&mut self) {
        (self.weight, self.work, self.part) = (0, 1, 0);
    }

    /// Sets the work in proportion to the weight: to its own and the old weight, or to those of all groups
    /// if it is new. Weights now are in units of 1 / `unit`, those before in units of 1 / `old_unit`.
    fn rescale(
        &mut self,
        old_weight: u64,
        total: Work,
        (old_unit, unit): (u64, u64),
        reweighs: bool,
    ) {
        let old = if old_weight == 0 { total } else { self.done(old_weight) };
        if old.weight == 0 {
            return;
        }
        let above = u128::from(self.weight) * u128::from(old_unit);
        let below = u128::from(old.weight) * u128::from(unit);
        let product = u128::from(old.quanta).saturating_mul(above);
        let quanta = u64::try_from(product / below).unwrap_or(u64::MAX);
        let parts = u128::from(old.part) * above / below + ((product % below) << 16) / below;
        let falls = old_weight != 0 && above < below;
        self.set_work(quanta, rounded(u64::try_from(parts).unwrap_or(u64::MAX), falls, reweighs));
    }

    /// What the group received when it weighed so much.
    fn done(&self, weight: u64) -> Work {
        Work { quanta: self.work.saturating_sub(1), part: self.part, weight }
    }

    /// What the tasks have received is more by so many parts of a quantum, in 1/2^16, or less.
    fn receive(&mut self, parts: i64) {
        let parts = parts + i64::from(self.part);
        (self.work, self.part) = match self.work.checked_add_signed(parts >> 16) {
            Some(work @ 1..) => {
                (work.min(u64::MAX >> 1), low_half((parts & 0xffff).cast_unsigned()))
            }
            _ => (1, 0),
        };
    }

    fn set_work(&mut self, quanta: u64, parts: u64) {
        self.work = quanta.saturating_add(parts >> 16).saturating_add(1).min(u64::MAX >> 1);
        self.part = low_half(parts);
    }

    /// The group is not charged for one of its quanta after all. [`Groups::update`] or
    /// [`Groups::delete`] must follow.
    pub(super) fn refund(&mut self) {
        self.work -= u64::from(self.work > 1);
    }

    /// The ring goes on from `node`.
    pub(super) fn set_current(&mut self, node: NodeId) {
        self.cursor.current = node;
        self.take_care();
    }

    /// The group's next choice needs care.
    pub(super) fn take_care(&mut self) {
        self.one = Group::OUT_OF_REACH;
    }

    /// The task in node `from`, if it was the one after the current one, is so no longer, but that
    /// in `to`.
    pub(super) fn relink(&mut self, from: NodeId, to: NodeId) {
        if self.cursor.next == from {
            self.cursor.next = to;
        }
    }

    /// A task was chosen with care, and the ring is at `cursor` now.
    pub(super) fn go_on_from(&mut self, cursor: Cursor) {
        self.cursor = cursor;
        self.one = if self.capped == 0 { 1 << self.order } else { Group::OUT_OF_REACH };
    }

    /// True if this group stands before `other` in the list.
    fn precedes(&self, other: &Group) -> bool {
        (other.weight, self.order) < (self.weight, other.order)
    }

    /// True if the pair of this group and `next`, the next one of the list, is violated.
    fn is_ahead_of(&self, next: &Group) -> bool {
        self.slack.wrapping_add_unsigned(next.weight) < 0
    }

    /// Φ under a cap of `feasible`/`cpus`.
    fn weigh(&mut self, (feasible, cpus): (u64, u32)) {
        self.weight = self.plain * u64::from(cpus);
        if self.capped > 0 {
            self.weight += u64::from(self.capped) * feasible;
        }
    }
}

/// The groups in list order. See the [module documentation](self).
#[derive(Clone, Debug)]
pub(super) struct Groups {
    /// `list[1..=len]`; the sentinels around them weigh nothing, so that a choice needs no test
    /// for the ends.
    list: [Group; ORDERS + 2],
    len: usize,
    /// The place before the current group's, below [`ORDERS`]; and [`NEEDS_CARE`] more if the next choice
    /// needs care: the list is fresh, or a pair is violated beside the one before the current group
    /// and the rule for resuming asks.
    before: usize,
    /// Where the group of each order stands; 0 for none.
    place: [u8; ORDERS],
    /// Nothing has been chosen since the list was last empty: there is no work to rescale.
    pub(super) fresh: bool,
    /// `before` is to be found anew.
    changed: bool,
    /// A weight changes: no task comes or goes.
    pub(super) reweighs: bool,
    /// Work is rescaled to parts of a quantum: the turns of those who come or go are counted.
    pub(super) keeps_parts: bool,
    /// [`Groups::make_room`] was called.
    has_room: bool,
    /// Groups may be further behind or ahead than choices make them: the one that is furthest behind is next.
    uneven: bool,
    /// Before the change at hand: of all groups.
    total: Work,
    rules: Rules,
}

/// No task is short of more quanta when its weight changes.
pub(super) const MOST_LAG: u64 = 16;

/// Quanta and parts of one, in 1/2^16, that so much weight received.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    quanta: u64,
    part: u16,
    weight: u64,
}

impl Work {
    /// Without so many quanta that are still to be run.
    #[must_use]
    pub(super) fn without(self, quanta: u64) -> Work {
        Work { quanta: self.quanta.saturating_sub(quanta), ..self }
    }

    /// The time at which so much is due, where a round takes as long as tasks that weigh `one` receive a
    /// quantum.
    pub(super) fn time(self, one: u64) -> Time {
        let (rounds, rest) = (self.quanta / self.weight, self.quanta % self.weight);
        let parts = u128::from(rest) << 16 | u128::from(self.part);
        let parts = parts * u128::from(one) / u128::from(self.weight);
        let parts = u64::try_from(parts).expect("below 2^16 rounds");
        Time(rounds.wrapping_mul(one << 16).wrapping_add(parts))
    }
}

/// A time in rounds, in 1/2^16, modulo 2^48 rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Time(u64);

impl Time {
    /// A round.
    pub(super) const ROUND: i64 = 1 << 16;

    pub(super) fn since(self, earlier: Time) -> i64 {
        self.0.wrapping_sub(earlier.0).cast_signed()
    }

    #[must_use]
    pub(super) fn plus(self, rounds: i64) -> Time {
        Time(self.0.wrapping_add_signed(rounds))
    }
}

/// What is kept of a quantum, in 1/2^16: all of it when weights change; else a task that comes, has a turn
/// and goes pays for exactly that if it is rounded down as it comes and up as it goes.
fn rounded(parts: u64, falls: bool, reweighs: bool) -> u64 {
    match (reweighs, falls) {
        (true, _) => parts,
        (false, true) => parts.saturating_add(0xffff) & !0xffff,
        (false, false) => parts & !0xffff,
    }
}

/// Of parts of a quantum, those that make no whole one.
fn low_half(parts: u64) -> u16 {
    u16::try_from(parts & 0xffff).expect("16 bits")
}

/// ⌊a·b/c⌋, or 2^64 − 1 if it is more, and the remainder.
#[inline]
pub(super) fn scaled(a: u64, b: u64, c: u64) -> (u64, u64) {
    match a.checked_mul(b) {
        // A division of 64 bits is several times cheaper, and nearly always enough.
        Some(product) => (product / c, product % c),
        None => scaled_widely(a, b, c),
    }
}

#[cold]
fn scaled_widely(a: u64, b: u64, c: u64) -> (u64, u64) {
    let (product, c) = (u128::from(a) * u128::from(b), u128::from(c));
    let rest = u64::try_from(product % c).expect("below c");
    (u64::try_from(product / c).unwrap_or(u64::MAX), rest)
}

/// The current group, about to be chosen.
pub(super) struct Turn<'a> {
    previous: &'a mut Group,
    pub(super) group: &'a mut Group,
    next_weight: u64,
    before: &'a mut usize,
    /// What `before` is after this choice.
    onward: usize,
}

impl Turn<'_> {
    /// The group was chosen: counts its quantum and moves to the group that is next.
    #[inline(always)]
    pub(super) fn take(self) {
        self.group.work += 1;
        *self.before = self.onward;
        // Slacks are within a few times 2^56 of zero: see `Gr3`'s limits.
        self.previous.slack = self.previous.slack.wrapping_add_unsigned(self.previous.weight);
        self.group.slack = self.group.slack.wrapping_sub_unsigned(self.next_weight);
    }
}

impl Groups {
    pub(super) fn new(rules: Rules) -> Groups {
        Groups {
            rules,
            list: [Group::SENTINEL; ORDERS + 2],
            len: 0,
            before: NEEDS_CARE,
            place: [0; ORDERS],
            fresh: true,
            changed: false,
            reweighs: false,
            keeps_parts: false,
            has_room: false,
            uneven: false,
            total: Work::default(),
        }
    }

    /// The place before the current group's.
    fn before(&self) -> usize {
        self.before & (NEEDS_CARE - 1)
    }

    /// After a choice with care: restores the order of work before the round starts over.
    pub(super) fn settle(&mut self) {
        self.fresh = false;
        if self.uneven {
            self.before = self.furthest_behind();
            self.uneven = self.after_last_violated() > 0;
            self.before |= if self.uneven { NEEDS_CARE } else { 0 };
        } else if self.rules.resume == Resume::UntilOrdered {
            let resumed = if self.before == 0 { self.after_last_violated() } else { self.before };
            self.before = if resumed == 0 { 0 } else { resumed | NEEDS_CARE };
        }
    }

    /// Before a choice with care: the changes since the last one decide where to go on.
    pub(super) fn catch_up(&mut self) {
        if core::mem::take(&mut self.changed) {
            let behind = self.uneven;
            let before = if behind { self.furthest_behind() } else { self.after_last_violated() };
            self.before = before | NEEDS_CARE;
        }
    }

    /// The place before that of the group of least V/Φ, the first of them.
    fn furthest_behind(&self) -> usize {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        let is_before =
            |a: &Group, b: &Group| product(a.work, b.weight) < product(b.work, a.weight);
        let places = 1..self.live().len();
        places.fold(
            0,
            |least, at| {
                if is_before(&self.live()[at], &self.live()[least]) { at } else { least }
            },
        )
    }

    /// The place of the first group of the last violated pair; 0 if there is none.
    fn after_last_violated(&self) -> usize {
        let mut pairs = self.list[1..self.len + 2].windows(2);
        pairs.rposition(|pair| pair[0].is_ahead_of(&pair[1])).map_or(0, |index| index + 1)
    }

    /// Total of the groups' work.
    pub(super) fn work(&self) -> u64 {
        self.live().iter().map(|group| group.work.saturating_sub(1)).sum()
    }

    /// The same to the part of a quantum, and their weight.
    pub(super) fn total(&self) -> Work {
        let parts: u64 = self.live().iter().map(|group| u64::from(group.part)).sum();
        Work { quanta: self.work() + (parts >> 16), part: low_half(parts), weight: self.weight() }
    }

    /// The current group's turn, unless it needs care.
    #[inline(always)]
    pub(super) fn turn(&mut self) -> Option<Turn<'_>> {
        let place = self.before;
        (place < NEEDS_CARE).then(|| self.turn_at(place))
    }

    /// The current group's turn; that of a sentinel if the list is empty.
    pub(super) fn turn_with_care(&mut self) -> Turn<'_> {
        self.turn_at(self.before())
    }

    #[inline(always)]
    fn turn_at(&mut self, place: usize) -> Turn<'_> {
        let Groups { list, before, .. } = self;
        let [previous, group, next, ..] = &mut list[place..] else { unreachable!("a list of 34") };
        // Which it is is as good as random: no branch.
        let onward = select_unpredictable(group.slack < 0, place + 1, 0);
        Turn { previous, group, next_weight: next.weight, before, onward }
    }

    /// The current nodes of all groups, in list order.
    pub(super) fn currents(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.live().iter().map(|group| group.cursor.current)
    }

    /// The group of `order`, if any task is in it.
    pub(super) fn get(&mut self, order: u32) -> Option<&mut Group> {
        match self.place[order as usize] {
            0 => None,
            place => Some(&mut self.list[place as usize]),
        }
    }

    /// What the group of `order` received, or all groups if there is none.
    pub(super) fn done(&self, order: u32) -> Work {
        match self.place[order as usize] {
            0 => self.total(),
            place => self.list[place as usize].done(self.list[place as usize].weight),
        }
    }

    /// What the group of `order` received, or `total` if there is none or it is new.
    pub(super) fn done_or(&self, order: u32, total: Work) -> Work {
        let group = &self.list[usize::from(self.place[order as usize])];
        if group.weight == 0 { total } else { group.done(group.weight) }
    }

    /// The current task of the group of `order`, if any is in it.
    pub(super) fn current_of(&self, order: u32) -> Option<NodeId> {
        let group = &self.list[usize::from(self.place[order as usize])];
        (!group.is_empty()).then_some(group.cursor.current)
    }

    /// As [`Group::receive`], for the group of `order`.
    pub(super) fn receive(&mut self, order: u32, parts: i64) {
        let place = usize::from(self.place[order as usize]);
        self.list[place].receive(parts);
        self.reslack(place);
        (self.uneven, self.changed) = (true, true);
        self.before |= NEEDS_CARE;
    }

    /// Whether changes of weight leave W/Φ of all groups as it is, and thus tell the time.
    pub(super) fn keep_time(&self) -> bool {
        self.rules.rescale == Rescale::Own && !self.fresh
    }

    /// From now on a group may have received less than nothing since the beginning, by what [`MOST_LAG`]
    /// is. As in [`Groups::renormalise`] no decision changes.
    pub(super) fn make_room(&mut self) {
        if !core::mem::replace(&mut self.has_room, true) {
            for group in &mut self.list[1..=self.len] {
                group.work += group.weight * MOST_LAG;
            }
        }
    }

    /// Total of the groups' weights.
    pub(super) fn weight(&self) -> u64 {
        self.live().iter().map(|group| group.weight).sum()
    }

    /// Puts `group`, which has tasks, into the list, which holds none of its order.
    #[inline]
    pub(super) fn insert(&mut self, mut group: Group, cap: (u64, u32)) {
        debug_assert_eq!(self.place[usize::from(group.order)], 0);
        group.weigh(cap);
        let current = self.current_order();
        self.total = self.total();
        self.put_back(group, 0);
        self.resume(current, false);
    }

    /// Makes room for `group`, which counts from the next [`Groups::update_all`] on.
    pub(super) fn insert_later(&mut self, group: Group) {
        debug_assert_eq!(self.place[usize::from(group.order)], 0);
        self.len += 1;
        self.list[self.len] = group;
        self.list[self.len + 1] = Group::SENTINEL;
        self.register(self.len);
    }

    /// Takes the group of `order` out of the list for good.
    pub(super) fn delete(&mut self, order: u32) {
        let current = self.current_order();
        self.take_out(usize::from(self.place[order as usize]));
        self.resume(current, true);
    }

    /// The tasks of the group of `order` have changed: moves it to its place and rescales it.
    #[inline(always)]
    pub(super) fn update(&mut self, order: u32, cap: (u64, u32)) {
        let place = usize::from(self.place[order as usize]);
        debug_assert_ne!(place, 0);
        let current = self.current_order();
        let [previous, group, next] = &mut self.list[place - 1..place + 2] else {
            unreachable!("three groups")
        };
        let old_weight = group.weight;
        group.weigh(cap);
        let weight = group.weight;
        let stays = (place == 1 || previous.precedes(group)) && group.precedes(next);
        if weight == old_weight {
            self.reslack(place);
        } else if stays {
            self.rescale(place, old_weight);
        } else {
            self.replace(place, old_weight);
        }
        self.resume(current, weight < old_weight);
    }

    /// The cap has changed from `old_cap`, and tasks have moved; all groups had received `total`. Takes
    /// the groups whose share changed out of the list and puts those that hold tasks back, in decreasing
    /// order σ. What is no whole quantum is kept: caps change as often as tasks sleep.
    pub(super) fn update_all(&mut self, old_cap: (u64, u32), cap: (u64, u32), total: Work) {
        let current = self.current_order();
        let mut out = [None; ORDERS];
        let (old_unit, unit) = (u64::from(old_cap.1), u64::from(cap.1));
        for group in &mut self.list[1..=self.len] {
            let old_weight = group.weight;
            group.weigh(cap);
            // Weights are in other units under the new cap, in which the old one may be no whole
            // number: rounding it would make the group lose or gain a part of all its work.
            let (old, new) = (u128::from(old_weight), u128::from(group.weight));
            if new == 0 || old * u128::from(unit) != new * u128::from(old_unit) {
                out[usize::from(group.order)] = Some((*group, old_weight));
            }
        }
        self.retain(|group| out[usize::from(group.order)].is_none());
        self.reslack_all();
        let rescales = self.rules.rescale == Rescale::Own && !self.fresh;
        let kept = core::mem::replace(&mut self.keeps_parts, true);
        for &(mut group, old_weight) in out.iter().rev().flatten().filter(|(g, _)| g.weight > 0) {
            if rescales {
                group.rescale(old_weight, total, (old_unit, unit), true);
            }
            self.put_back(group, group.weight);
        }
        self.keeps_parts = kept;
        self.resume(current, false);
    }

    fn live(&self) -> &[Group] {
        &self.list[1..=self.len]
    }

    fn take_out(&mut self, place: usize) {
        self.place[usize::from(self.list[place].order)] = 0;
        (place..self.len).for_each(|to| self.move_group(to + 1, to));
        self.list[self.len] = Group::SENTINEL;
        self.len -= 1;
        self.reslack(place);
    }

    /// Moves the group at `place` to where it belongs. Out of line: most changes need it not.
    #[inline(never)]
    fn replace(&mut self, place: usize, old_weight: u64) {
        let group = self.list[place];
        self.take_out(place);
        self.put_back(group, old_weight);
    }

    fn retain(&mut self, keep: impl Fn(&Group) -> bool) {
        let mut kept = 0;
        for place in 1..=self.len {
            let group = self.list[place];
            self.place[usize::from(group.order)] = 0;
            if keep(&group) {
                kept += 1;
                self.move_group(place, kept);
            }
        }
        self.len = kept;
        self.list[kept + 1] = Group::SENTINEL;
    }

    /// Inlined so that the group is stored where it belongs and nowhere before: reading in one piece
    /// what was just stored in several takes a dozen cycles.
    #[inline(always)]
    fn put_back(&mut self, group: Group, old_weight: u64) {
        self.len += 1;
        let mut place = self.len;
        self.list[place + 1] = Group::SENTINEL;
        while place > 1 && group.precedes(&self.list[place - 1]) {
            self.move_group(place - 1, place);
            place -= 1;
        }
        self.list[place] = group;
        self.register(place);
        self.rescale(place, old_weight);
    }

    fn move_group(&mut self, from: usize, to: usize) {
        self.list[to] = self.list[from];
        self.register(to);
    }

    /// The group at `place` is known to stand there.
    fn register(&mut self, place: usize) {
        let short = u8::try_from(place).expect("at most 32 groups");
        self.place[usize::from(self.list[place].order)] = short;
    }

    /// Sets the work of the group at `place`, whose weight was `old_weight` (0 if it is new), in
    /// proportion to its weight now.
    #[inline(always)]
    fn rescale(&mut self, place: usize, old_weight: u64) {
        match self.rules.rescale {
            _ if self.fresh => {}
            Rescale::Neighbour if self.len == 1 => {}
            Rescale::Neighbour => self.list[place].work = self.work_by_neighbour(place),
            Rescale::Own => self.work_by_own(place, old_weight),
        }
        self.reslack(place);
    }

    /// USENIX'05 §2.3; with V for W + 1 the formula is V_G = ⌊V_n·Φ_G/Φ_n⌋.
    fn work_by_neighbour(&mut self, place: usize) -> u64 {
        let neighbour = if place < self.len { place + 1 } else { place - 1 };
        let quotient = |list: &[Group]| {
            scaled(list[neighbour].work, list[place].weight, list[neighbour].weight).0
        };
        let work = quotient(&self.list);
        if work >> 62 == 0 {
            return work;
        }
        self.renormalise(place);
        let work = quotient(&self.list);
        assert!(work >> 62 == 0, "work is below 2^62 after renormalisation");
        work
    }

    /// As [`Group::rescale`], in the same units as before.
    #[inline(always)]
    fn work_by_own(&mut self, place: usize, old_weight: u64) {
        let (total, keeps_parts) = (self.total, self.keeps_parts);
        let group = &mut self.list[place];
        let old = if old_weight == 0 { total } else { group.done(old_weight) };
        if old.weight == 0 {
            return;
        }
        let (quanta, rest) = scaled(old.quanta, group.weight, old.weight);
        let rest = scaled(rest, 1 << 16, old.weight).0;
        let parts = scaled(u64::from(old.part), group.weight, old.weight).0 + rest;
        group.set_work(quanta, rounded(parts, group.weight < old_weight, keeps_parts));
    }

    /// Lowers every group's work (but that of the group at `except`, which is about to be set) by
    /// c·Φ for one integer c. Every slack and every later rescaling keeps its value, so no decision
    /// changes.
    fn renormalise(&mut self, except: usize) {
        let others = (1..=self.len).filter(|&place| place != except);
        let ratio = |group: &Group| group.work / group.weight;
        let common = others.clone().map(|place| ratio(&self.list[place])).min().unwrap_or(0);
        for place in others {
            self.list[place].work -= common * self.list[place].weight;
        }
    }

    /// The group at `place` is another one: computes its slack and that of the one before it anew.
    fn reslack(&mut self, place: usize) {
        if let [previous, group, next] = &mut self.list[place - 1..place + 2] {
            previous.slack = slack(previous, group);
            group.slack = slack(group, next);
        }
    }

    fn reslack_all(&mut self) {
        (1..=self.len).for_each(|place| self.reslack(place));
    }

    /// The order of the current group, if the rule for resuming asks for it.
    fn current_order(&self) -> Option<usize> {
        let keeps = matches!(self.rules.resume, Resume::LargestOnRemoval | Resume::Current);
        keeps.then(|| usize::from(self.list[self.before() + 1].order))
    }

    /// Where to go on after a change, when the group of `order` was current. The paper restarts at
    /// the largest group, which starves the small ones when tasks come and go every quantum: the
    /// step that a violated pair owes to its second group is forgotten each time.
    fn resume(&mut self, order: Option<usize>, removal: bool) {
        match self.rules.resume {
            Resume::UntilOrdered | Resume::Violated => self.changed = true,
            Resume::LargestOnRemoval if removal => self.before = 0,
            _ => {
                self.before =
                    order.map_or(0, |order| usize::from(self.place[order]).saturating_sub(1))
            }
        }
        self.before |= NEEDS_CARE;
        if self.len == 0 {
            self.fresh = true;
            (self.has_room, self.uneven) = (false, false);
        }
    }
}

/// The slack of `group` before `next`. The products may be up to 2^119, but a pair is out of order by
/// a few quanta of either group at most, so their difference is far below 2^63 and comes out right
/// modulo 2^64.
fn slack(group: &Group, next: &Group) -> i64 {
    let due = next.work.wrapping_mul(group.weight);
    let slack = due.wrapping_sub((group.work + 1).wrapping_mul(next.weight)).cast_signed();
    debug_assert_eq!(i128::from(slack), exact_slack(group, next));
    slack
}

fn exact_slack(group: &Group, next: &Group) -> i128 {
    let product = |work: u64, weight: u64| i128::from(work) * i128::from(weight);
    product(next.work, group.weight) - product(group.work + 1, next.weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups of these weights, order σ = index.
    fn groups(weights: &[u64]) -> Groups {
        let rules = Rules { resume: Resume::UntilOrdered, rescale: Rescale::Neighbour };
        let mut groups = Groups::new(rules);
        for (order, &plain) in weights.iter().enumerate() {
            let order = u8::try_from(order).unwrap();
            groups.insert(Group { plain, ..Group::new(order, 0) }, (u64::MAX, 1));
        }
        groups
    }

    fn choose(groups: &mut Groups) {
        groups.turn_with_care().take();
        groups.settle();
    }

    #[test]
    fn renormalising_changes_no_decision() {
        let weights = [700, 31, 500, 1, 90];
        let (mut plain, mut lowered) = (groups(&weights), groups(&weights));
        for step in 0..20_000u64 {
            assert_eq!(plain.before(), lowered.before(), "step {step}");
            choose(&mut plain);
            choose(&mut lowered);
            lowered.renormalise(0);
            if step % 97 == 0 {
                for groups in [&mut plain, &mut lowered] {
                    let order = u32::try_from(step % 5).unwrap();
                    groups.get(order).unwrap().plain = 1 + step * 7919 % 1000;
                    groups.update(order, (u64::MAX, 1));
                }
            }
        }
        assert!(lowered.live().iter().all(|group| group.work <= 3 * group.weight + 3));
    }

    #[test]
    fn work_near_the_limit_is_renormalised() {
        let mut groups = groups(&[6, 3, 1]);
        for place in 1..=3 {
            groups.list[place].work += (1 << 58) * groups.list[place].weight;
        }
        groups.reslack_all();
        groups.get(2).unwrap().plain = 1 << 40;
        groups.fresh = false;
        groups.update(2, (u64::MAX, 1));
        assert!(groups.live().iter().all(|group| group.work < 1 << 62));
    }

    #[test]
    fn slacks_are_what_they_say() {
        let mut groups = groups(&[12, 8, 40, 3]);
        for _ in 0..1000 {
            choose(&mut groups);
            let live = groups.live();
            for pair in live.windows(2) {
                assert_eq!(i128::from(pair[0].slack), exact_slack(&pair[0], &pair[1]));
                assert!(pair[1].precedes(&pair[0]) != pair[0].precedes(&pair[1]));
            }
        }
    }
}

//! Weight readjustment of GR3MP (USENIX'05 §3.3): tasks above the cap count as the cap, and stand
//! in its group. Tasks that a new cap moves stay as far behind or ahead as they were, as in `reweigh.rs`.

use super::groups::{Groups, MOST_LAG, ORDERS, Time, Work, scaled};
use super::reweigh::{Place, times};
use super::{Gr3, HELD, Moved, Task, UNREADY};
use crate::policy::TaskId;
use crate::queue::NodeId;
use crate::weights::{Cap, Search};

/// The cap changes, and tasks move. Until all have, groups weigh, and have received, what they did before.
struct Moves {
    old: Cap,
    keep_time: bool,
    /// What all groups received.
    total: Work,
    /// The same without what tasks were granted.
    served: Work,
    /// By order: what the group received more, in 1/2^16 of a quantum, for tasks that were behind and left
    /// it, or less for those that joined it.
    received: [i64; ORDERS],
}

impl Moves {
    fn from(old: Cap, groups: &mut Groups, granted: u64) -> Moves {
        let keep_time = groups.keep_time();
        if keep_time {
            groups.make_room();
        }
        let total = groups.total();
        Moves { old, keep_time, total, served: total.without(granted), received: [0; ORDERS] }
    }

    /// What weighs so much receives a quantum in a round of a group of `order`.
    fn round(&self, order: u32) -> u64 {
        u64::from(self.old.fraction().1) << order
    }

    fn settle(&self, groups: &mut Groups) {
        for (order, &more) in (0..).zip(&self.received) {
            if more != 0 && groups.get(order).is_some() {
                groups.receive(order, more);
            }
        }
    }
}

impl Gr3 {
    /// The queued tasks or their weights have changed. With no more tasks than cpus nothing
    /// competes, and the weights stay as they are.
    pub(super) fn readjust(&mut self) {
        if self.classes.count() > self.cpus.len() {
            let cap = self.find_cap();
            self.set_cap(cap);
        }
    }

    /// The first readjustment of a queue that nothing was chosen from.
    #[cold]
    pub(super) fn start(&mut self) {
        let cap = self.find_cap();
        self.set_cap(cap);
    }

    fn find_cap(&mut self) -> Cap {
        let Gr3 { classes, groups, rings, tasks, capped, .. } = self;
        let cpus = self.cpus.len();
        classes.cap(cpus, Search::fastest(cpus), &mut self.scratch, |order, members| {
            if let Some(group) = groups.get(order) {
                let ring = rings.iter_from(group.cursor.current).map(|node| rings.get(node));
                let plain = ring.filter(|slot| slot.weight != 0);
                members.extend(plain.map(|slot| tasks[slot.id().index()].weight));
            }
            let weights = capped.iter().map(|task| tasks[task.index()].weight);
            members.extend(weights.filter(|weight| weight.order() == order));
        })
    }

    fn set_cap(&mut self, cap: Cap) {
        let old = core::mem::replace(&mut self.cap, cap);
        if old == cap {
            return;
        }
        let mut moves = Moves::from(old, &mut self.groups, self.frontlogs.total());
        let staying = self.uncap(&mut moves);
        self.find_exceeding();
        if self.groups.fresh {
            let shared = &self.shared;
            self.capped[staying..].sort_unstable_by_key(|task| shared[task.index()].arrival);
            self.merge(staying);
        } else {
            self.capped[staying..].sort_unstable();
            for index in staying..self.capped.len() {
                let task = self.capped[index];
                self.shift(task, self.tasks[task.index()].weight.order(), &mut moves);
            }
        }
        if old != Cap::NONE {
            self.recap(staying, &mut moves);
        }
        self.groups.update_all(old.fraction(), cap.fraction(), moves.total);
        moves.settle(&mut self.groups);
    }

    /// Moves the tasks that the cap no longer concerns to the groups of their own weights. Returns
    /// how many stay capped.
    fn uncap(&mut self, moves: &mut Moves) -> usize {
        let mut staying = 0;
        for index in 0..self.capped.len() {
            let task = self.capped[index];
            if self.cap.exceeded_by(self.tasks[task.index()].weight) {
                self.capped[staying] = task;
                staying += 1;
            } else {
                self.shift(task, moves.old.order(), moves);
            }
        }
        self.capped.truncate(staying);
        staying
    }

    /// Appends to `capped` the tasks above the cap that are not in it. At most one group is looked
    /// into that does not consist of such tasks.
    fn find_exceeding(&mut self) {
        let mut missing = match self.cap {
            Cap::NONE => 0,
            Cap::EQUAL => self.classes.count(),
            cap => self.cpus.len() - cap.fraction().1 as usize - self.capped.len(),
        };
        let Gr3 { groups, rings, tasks, capped, cap, .. } = self;
        for order in (cap.order()..32).rev() {
            let Some(group) = (missing > 0).then(|| groups.get(order)).flatten() else { continue };
            let ring = rings.iter_from(group.cursor.current).map(|node| rings.get(node));
            let plain = ring.filter(|slot| slot.weight != 0).map(|slot| slot.id());
            let before = capped.len();
            capped.extend(plain.filter(|task| cap.exceeded_by(tasks[task.index()].weight)));
            missing -= capped.len() - before;
        }
    }

    /// The tasks that stay capped count as the new cap.
    fn recap(&mut self, staying: usize, moves: &mut Moves) {
        for index in 0..staying {
            let task = self.capped[index];
            if moves.keep_time || moves.old.order() != self.cap.order() {
                self.shift(task, moves.old.order(), moves);
            } else {
                self.scale_deficit(task, moves.old);
            }
        }
    }

    /// The deficit of `task`, which stays capped, in the units of the new cap.
    fn scale_deficit(&mut self, task: TaskId, old: Cap) {
        let (old_cpus, cpus) = (u128::from(old.fraction().1), u128::from(self.cap.fraction().1));
        let slot = self.rings.get_mut(self.tasks[task.index()].node);
        let deficit = u128::from(slot.deficit) * cpus / old_cpus;
        slot.deficit = u64::try_from(deficit).expect("a deficit is below 2^49");
    }

    /// Moves `task` from the group of `order` to that of its effective weight. It keeps its cpu, and is as
    /// far behind all as it was.
    fn shift(&mut self, task: TaskId, order: u32, moves: &mut Moves) {
        let known = self.tasks[task.index()];
        let slot = *self.rings.get(known.node);
        let is_blocked = known.is_blocked(slot);
        let lag = if moves.keep_time { Some(self.lag_before(task, order, moves)) } else { None };
        if !self.leave_ring(task, order) && moves.keep_time {
            // Who comes to it comes to a new group.
            self.group(order).forget();
            moves.received[order as usize] = 0;
        }
        let place = lag.map(|lag| self.place_after(task, lag, moves));
        let unready = if is_blocked || place.is_some() { UNREADY } else { 0 };
        if !self.enter_ring(task, unready | slot.task & HELD, place.and_then(|place| place.at)) {
            self.groups.insert_later(self.new_group(task));
        }
        match place {
            Some(place) if is_blocked => self.take_place(task, place, Moved::Blocked),
            Some(place) => self.take_place(task, place, Moved::Awake),
            None => self.tasks[task.index()].moved = Moved::No,
        }
    }

    /// What `task`, of the group of `order`, is short of beside its frontlog. The others of the group have
    /// had what it is short of there.
    fn lag_before(&mut self, task: TaskId, order: u32, moves: &mut Moves) -> i64 {
        let known = self.tasks[task.index()];
        let slot = *self.rings.get(known.node);
        if slot.is_pending() {
            return 0;
        }
        let short = u8::try_from(order).expect("an order is below 32");
        let (one, allotment) = slot.units(short, moves.old.fraction());
        let own = self.time_before(order, moves);
        let since = if known.moved == Moved::No { own } else { known.since };
        let kept = scaled(slot.deficit, 1 << 16, one).0.cast_signed();
        let due = |time: Time| times(time.since(since), allotment, one) + kept;
        moves.received[order as usize] += due(own);
        let short = due(moves.served.time(moves.round(order)));
        let stays_capped = slot.weight == 0 && self.cap.exceeded_by(known.weight);
        self.lag_beside_granted(task, short, stays_capped)
    }

    /// `task` is short of so much beside its frontlog. What of that it keeps: who stays capped keeps his
    /// frontlog, too, of which he would else be granted as much again, choice by choice.
    fn lag_beside_granted(&mut self, task: TaskId, short: i64, stays_capped: bool) -> i64 {
        let most = (MOST_LAG << 16).cast_signed();
        if stays_capped {
            let granted = i64::from(self.shared[task.index()].frontlog.quanta()) << 16;
            (short + granted).clamp(-most, most) - granted
        } else {
            self.drop_granted(task, short).clamp(-most, most)
        }
    }

    /// Where `task`, which is short of so much, comes in the group of its effective weight.
    fn place_after(&self, task: TaskId, lag: i64, moves: &mut Moves) -> Place {
        let order = self.order_of(self.tasks[task.index()].weight);
        let now = moves.served.time(moves.round(order));
        let place = self.place_behind(task, lag, now, self.time_before(order, moves));
        moves.received[order as usize] += place.received;
        place
    }

    /// The time of the group of `order`, or of all if it is new.
    fn time_before(&self, order: u32, moves: &Moves) -> Time {
        self.groups.done_or(order, moves.total).time(moves.round(order))
    }

    /// Moves the newly capped tasks of a fresh queue, which are in order of arrival, into the
    /// cap's ring in order of arrival.
    fn merge(&mut self, staying: usize) {
        let order = self.cap.order();
        let mut last = None;
        for index in staying..self.capped.len() {
            let task = self.capped[index];
            let Task { weight, node, .. } = self.tasks[task.index()];
            let flags = self.rings.get(node).task & (UNREADY | HELD);
            self.leave_ring(task, weight.order());
            let first = self.groups.get(order).filter(|group| !group.is_empty());
            let first = first.map(|group| group.cursor.current);
            let at = first.map(|first| self.later_arrival(task, first, last));
            if !self.enter_ring(task, flags, at) {
                self.groups.insert_later(self.new_group(task));
            }
            let node = self.tasks[task.index()].node;
            if at == first && at.is_some_and(|at| self.arrival_of(at) > self.arrival_of(node)) {
                self.rings.get_mut(at.expect("it is some")).deficit = 0;
                self.start_ring(order, node);
            }
            last = Some(node);
        }
    }

    /// The first task of the ring of `first`, from node `from` on, that arrived after `task`; or
    /// `first` if there is none.
    fn later_arrival(&self, task: TaskId, first: NodeId, from: Option<NodeId>) -> NodeId {
        let arrival = self.shared[task.index()].arrival;
        let mut at = from.unwrap_or(first);
        while self.arrival_of(at) < arrival {
            at = self.rings.next(at);
            if at == first {
                break;
            }
        }
        at
    }

    fn arrival_of(&self, node: NodeId) -> u32 {
        self.shared[self.rings.get(node).id().index()].arrival
    }
}

//! Weight readjustment of GR3MP (USENIX'05 §3.3): tasks above the cap count as the cap, and stand
//! in its group.

use super::{Gr3, HELD, Moved, Task, UNREADY};
use crate::policy::TaskId;
use crate::queue::NodeId;
use crate::weights::{Cap, Search};

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
        let staying = self.uncap(old);
        self.find_exceeding();
        if self.groups.fresh {
            let shared = &self.shared;
            self.capped[staying..].sort_unstable_by_key(|task| shared[task.index()].arrival);
            self.merge(staying);
        } else {
            self.capped[staying..].sort_unstable();
            for index in staying..self.capped.len() {
                let task = self.capped[index];
                self.shift(task, self.tasks[task.index()].weight.order());
            }
        }
        if old != Cap::NONE {
            self.recap(old, staying);
        }
        self.groups.update_all(old.fraction(), cap.fraction());
    }

    /// Moves the tasks that the cap no longer concerns to the groups of their own weights. Returns
    /// how many stay capped.
    fn uncap(&mut self, old: Cap) -> usize {
        let mut staying = 0;
        for index in 0..self.capped.len() {
            let task = self.capped[index];
            if self.cap.exceeded_by(self.tasks[task.index()].weight) {
                self.capped[staying] = task;
                staying += 1;
            } else {
                self.shift(task, old.order());
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
    fn recap(&mut self, old: Cap, staying: usize) {
        let (old_cpus, cpus) = (u128::from(old.fraction().1), u128::from(self.cap.fraction().1));
        for index in 0..staying {
            let task = self.capped[index];
            if old.order() == self.cap.order() {
                let slot = self.rings.get_mut(self.tasks[task.index()].node);
                let deficit = u128::from(slot.deficit) * cpus / old_cpus;
                slot.deficit = u64::try_from(deficit).expect("a deficit is below 2^49");
            } else {
                self.shift(task, old.order());
            }
        }
    }

    /// Moves `task` from the group of `order` to that of its effective weight, as an arrival that
    /// keeps its cpu and its frontlog.
    fn shift(&mut self, task: TaskId, order: u32) {
        let known = &mut self.tasks[task.index()];
        let slot = *self.rings.get(known.node);
        let unready = if known.is_blocked(slot) { UNREADY } else { 0 };
        known.moved = Moved::No;
        let flags = unready | slot.task & HELD;
        self.leave_ring(task, order);
        if !self.enter_ring(task, flags, None) {
            self.groups.insert_later(self.new_group(task));
        }
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

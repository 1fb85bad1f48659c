//! Intra-group allocation: round robin over queues that steal from each other (paper, section
//! 2.2.2).
//!
//! The normalised virtual time of a task, nv = w·2^σ/φ, grows by more than ½ and at most 1 with
//! each quantum. It is kept as a whole number and a part in units of 1/φ, so adding a quantum is
//! an addition, and comparing with the whole nv of a queue needs the whole number only.

use alloc::vec::Vec;

use super::allocator::GROUPS;
use crate::policy::{TaskId, Weight};
use crate::queue::{NodeId, Rings};

/// A queue: an index that stays while the queue lives.
pub(super) type QueueId = u32;

const NONE: u32 = u32::MAX;
/// In `Place::queue`: the task is deferred.
const DEFERRED: QueueId = u32::MAX - 1;
/// Set in `Slot::task` if the task is capped.
const CAPPED: u32 = 1 << 30;

/// A task in its queue.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// The task's id and the flag [`CAPPED`].
    task: u32,
    /// Its weight; if capped, the cap rounded down.
    weight: u32,
    /// nv = `whole` + `part`/φ; if capped, in parts of Φ_f.
    whole: i64,
    part: u64,
}

/// One round-robin queue. The cpu that owns it touches it at every pick; others only when they
/// look for the queue of least nv, and when they steal.
#[derive(Clone, Copy, Debug)]
struct Queue {
    /// The task that runs or ran last; [`NONE`] if the queue is empty.
    current: NodeId,
    tasks: u32,
    /// The queue's nv: the number of the round.
    nv: i64,
    /// Sum of the weights of its tasks.
    weight: u64,
    group: u8,
    /// True if a cpu works on it; if not, it is stalled.
    active: bool,
    /// Its neighbours among the queues of the group; for a free queue, `next` is the next free.
    next: QueueId,
    previous: QueueId,
}

impl Queue {
    /// True if it can give a task away: a stalled one, or an active one with two tasks at least.
    fn is_donor(&self) -> bool {
        self.tasks > u32::from(self.active)
    }
}

/// Whether a task has had its turn in the current round of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Had,
    ToCome,
}

const FREE: Queue = Queue {
    current: NONE,
    tasks: 0,
    nv: 0,
    weight: 0,
    group: 0,
    active: false,
    next: NONE,
    previous: NONE,
};

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    first: Option<QueueId>,
    last: Option<QueueId>,
    queues: usize,
    /// Tasks in all queues.
    tasks: usize,
    /// Where the queues of the group resume after it was empty.
    nv: i64,
    /// No queue that can give a task away has a lower nv: a cpu at the end of a round need not look.
    donors_nv: i64,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    /// Where it stands in its queue; if it is deferred, the next deferred task.
    node: NodeId,
    /// Its queue, or [`DEFERRED`], or [`NONE`].
    queue: QueueId,
}

/// The queues of all groups. Tasks here are *queued*: waiting, or running as their queue's current;
/// or *deferred*: to be queued later, in the order in which they came.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    slots: Rings<Slot, GROUPS>,
    queues: Vec<Queue>,
    free: QueueId,
    groups: [Group; GROUPS],
    /// By task.
    places: Vec<Place>,
    /// The first and the last deferred task, or [`NONE`].
    deferred: (u32, u32),
    /// Stalled queues that hold a task.
    stalled: usize,
    /// δ.
    delta: i64,
    /// The cap Φ_f/Q; what a capped task of group k adds to its nv is 2^k·Q/Φ_f.
    cap: (u64, u32),
}

impl Queues {
    /// Room for `queues` queues, no task.
    pub(super) fn new(queues: usize, delta: i64) -> Queues {
        let mut new = Queues {
            slots: Rings::default(),
            queues: alloc::vec![FREE; queues],
            free: NONE,
            groups: [Group::default(); GROUPS],
            places: Vec::new(),
            deferred: (NONE, NONE),
            stalled: 0,
            delta,
            cap: (1, 1),
        };
        new.restart();
        new
    }

    /// Makes room for tasks with ids below `ids`; the only call that allocates.
    pub(super) fn reserve(&mut self, ids: usize) {
        if ids > self.places.len() {
            self.places.resize(ids, Place { node: NONE, queue: NONE });
            self.slots.reserve(ids);
        }
    }

    /// No queue, virtual times from 0. No task is queued; the deferred ones stay.
    pub(super) fn restart(&mut self) {
        debug_assert!(self.slots.is_empty());
        self.groups = [Group { nv: 1, donors_nv: i64::MAX, ..Group::default() }; GROUPS];
        self.stalled = 0;
        self.free = NONE;
        for id in (0..self.queues.len()).rev() {
            self.queues[id] = Queue { next: self.free, ..FREE };
            self.free = u32::try_from(id).expect("fewer queues than tasks");
        }
    }

    /// Defers `task`, which is not queued; if it is deferred already it keeps its turn.
    pub(super) fn defer(&mut self, task: TaskId) {
        if self.places[task.index()].queue == DEFERRED {
            return;
        }
        self.places[task.index()] = Place { node: NONE, queue: DEFERRED };
        match self.deferred {
            (NONE, _) => self.deferred.0 = task.0,
            (_, last) => self.places[last as usize].node = task.0,
        }
        self.deferred.1 = task.0;
    }

    /// The deferred tasks in the order in which they came.
    pub(super) fn deferred(&self) -> impl Iterator<Item = TaskId> {
        let mut at = self.deferred.0;
        core::iter::from_fn(move || {
            let Place { node, .. } = *self.places.get(at as usize)?;
            Some(TaskId(core::mem::replace(&mut at, node)))
        })
    }

    /// The task that was deferred first; it is deferred no longer.
    pub(super) fn next_deferred(&mut self) -> Option<TaskId> {
        let (first, _) = self.deferred;
        let place = self.places.get_mut(first as usize)?;
        let Place { node, .. } = core::mem::replace(place, Place { node: NONE, queue: NONE });
        self.deferred.0 = node;
        Some(TaskId(first))
    }

    /// The cap changes to Φ_f/Q; the capped tasks are requeued by the caller.
    pub(super) fn set_cap(&mut self, cap: (u64, u32)) {
        self.cap = cap;
    }

    /// Queues of group `k`.
    pub(super) fn count(&self, k: usize) -> usize {
        self.groups[k].queues
    }

    /// Tasks in group `k`.
    #[inline]
    pub(super) fn tasks(&self, k: usize) -> usize {
        self.groups[k].tasks
    }

    /// The group of a queue.
    #[inline]
    pub(super) fn group(&self, queue: QueueId) -> usize {
        usize::from(self.queues[queue as usize].group)
    }

    /// True if the queue holds no task.
    #[inline]
    pub(super) fn is_empty(&self, queue: QueueId) -> bool {
        self.queues[queue as usize].tasks == 0
    }

    /// The queue of a task, if it is queued.
    pub(super) fn queue_of(&self, task: TaskId) -> Option<QueueId> {
        let queue = self.places[task.index()].queue;
        (queue < DEFERRED).then_some(queue)
    }

    /// True if a cpu works on the queue.
    pub(super) fn is_active(&self, queue: QueueId) -> bool {
        self.queues[queue as usize].active
    }

    /// Stalled queues that hold a task, in all groups.
    pub(super) fn stalled(&self) -> usize {
        self.stalled
    }

    /// An empty, stalled queue for group `k`, its nv that of the group's queue that is furthest
    /// behind; `None` if there are too many queues.
    pub(super) fn open(&mut self, k: usize) -> Option<QueueId> {
        let nv = self.iter(k).map(|(_, queue)| queue.nv).min().unwrap_or(self.groups[k].nv);
        self.open_at(k, nv)
    }

    fn open_at(&mut self, k: usize, nv: i64) -> Option<QueueId> {
        let id = self.free;
        if id == NONE {
            return None;
        }
        self.free = self.queues[id as usize].next;
        let group = &mut self.groups[k];
        let previous = group.last.unwrap_or(NONE);
        match group.last.replace(id) {
            Some(last) => self.queues[last as usize].next = id,
            None => group.first = Some(id),
        }
        group.queues += 1;
        let k = u8::try_from(k).expect("fewer than 32 groups");
        self.queues[id as usize] = Queue { nv, group: k, previous, ..FREE };
        Some(id)
    }

    /// Gives back an empty queue.
    pub(super) fn close(&mut self, queue: QueueId) {
        let Queue { next, previous, tasks, group, nv, .. } = self.queues[queue as usize];
        assert_eq!(tasks, 0, "a queue with tasks is closed");
        let group = &mut self.groups[usize::from(group)];
        group.queues -= 1;
        group.nv = group.nv.max(nv);
        match previous {
            NONE => group.first = (next != NONE).then_some(next),
            id => self.queues[id as usize].next = next,
        }
        match next {
            NONE => group.last = (previous != NONE).then_some(previous),
            id => self.queues[id as usize].previous = previous,
        }
        self.queues[queue as usize] = Queue { next: self.free, ..FREE };
        self.free = queue;
    }

    /// A cpu begins to work on the queue, or stops to.
    pub(super) fn set_active(&mut self, queue: QueueId, active: bool) {
        let known = &mut self.queues[queue as usize];
        debug_assert_ne!(known.active, active);
        known.active = active;
        if known.tasks > 0 {
            if active { self.stalled -= 1 } else { self.stalled += 1 }
        }
        self.note_donor(queue);
    }

    /// `queue` may be able to give a task away from now on.
    fn note_donor(&mut self, queue: QueueId) {
        let queue = &self.queues[queue as usize];
        if queue.is_donor() {
            let donors_nv = &mut self.groups[usize::from(queue.group)].donors_nv;
            *donors_nv = queue.nv.min(*donors_nv);
        }
    }

    /// The queue of group `k` of least total weight, the first of them.
    pub(super) fn lightest(&self, k: usize) -> Option<QueueId> {
        self.iter(k).min_by_key(|(_, queue)| queue.weight).map(|(id, _)| id)
    }

    /// The stalled queue of group `k` of least nv that holds a task, the first of them.
    pub(super) fn stalled_of(&self, k: usize) -> Option<QueueId> {
        let stalled = self.iter(k).filter(|(_, q)| !q.active && q.tasks > 0);
        stalled.min_by_key(|(_, queue)| queue.nv).map(|(id, _)| id)
    }

    /// GET-MIN-QUEUE: the queue of group `k` of least nv that can give a task away, the first of
    /// them.
    pub(super) fn least(&self, k: usize) -> Option<QueueId> {
        let donors = self.iter(k).filter(|(_, queue)| queue.is_donor());
        donors.min_by_key(|(_, queue)| queue.nv).map(|(id, _)| id)
    }

    fn iter(&self, k: usize) -> impl Iterator<Item = (QueueId, &Queue)> {
        let mut at = self.groups[k].first.unwrap_or(NONE);
        core::iter::from_fn(move || {
            let queue = self.queues.get(at as usize)?;
            let id = core::mem::replace(&mut at, queue.next);
            Some((id, queue))
        })
    }

    /// Queues `task` of this weight, or capped, in `queue`, just before the current task. Its turn
    /// of this round is behind it, or still to come.
    pub(super) fn insert(
        &mut self,
        queue: QueueId,
        task: TaskId,
        weight: Option<Weight>,
        turn: Turn,
    ) {
        let whole = self.queues[queue as usize].nv - i64::from(turn == Turn::ToCome);
        let slot = match weight {
            Some(weight) => Slot { task: task.0, weight: weight.get(), whole, part: 0 },
            None => Slot { task: task.0 | CAPPED, weight: self.cap_weight(), whole, part: 0 },
        };
        self.put(queue, slot, None);
    }

    fn cap_weight(&self) -> u32 {
        u32::try_from(self.cap.0 / u64::from(self.cap.1)).unwrap_or(u32::MAX)
    }

    /// `task`, queued, has this weight, or is capped, from now on, in the same group. `old_cap` is
    /// the cap before.
    pub(super) fn reweigh(&mut self, task: TaskId, weight: Option<Weight>, old_cap: (u64, u32)) {
        let Place { node, queue } = self.places[task.index()];
        let (cap, cap_weight) = (self.cap, self.cap_weight());
        let queue = &mut self.queues[queue as usize];
        let slot = self.slots.get_mut(node);
        let (_, old_of) = step_of(slot, queue.group, old_cap);
        queue.weight -= u64::from(slot.weight);
        (slot.task, slot.weight) = match weight {
            Some(weight) => (task.0, weight.get()),
            None => (task.0 | CAPPED, cap_weight),
        };
        queue.weight += u64::from(slot.weight);
        let (_, of) = step_of(slot, queue.group, cap);
        let part = u128::from(slot.part) * u128::from(of) / u128::from(old_of);
        // A running task that was misplaced meanwhile counts in parts of an older cap.
        slot.part = u64::try_from(part).unwrap_or(u64::MAX).min(of - 1);
    }

    /// Whether `task`, queued, has had its turn in this round of its queue.
    pub(super) fn turn(&self, task: TaskId) -> Turn {
        let Place { node, queue } = self.places[task.index()];
        let had = self.slots.get(node).whole >= self.queues[queue as usize].nv;
        if had { Turn::Had } else { Turn::ToCome }
    }

    /// Puts `slot` before `at`, or before the current task.
    fn put(&mut self, queue: QueueId, slot: Slot, at: Option<NodeId>) -> NodeId {
        let known = &mut self.queues[queue as usize];
        let region = usize::from(known.group);
        let node = match known.current {
            NONE => {
                self.stalled += usize::from(!known.active);
                known.current = self.slots.insert_alone(region, slot);
                known.current
            }
            current => self.slots.insert_before(region, at.unwrap_or(current), slot),
        };
        let known = &mut self.queues[queue as usize];
        known.tasks += 1;
        known.weight += u64::from(slot.weight);
        self.groups[region].tasks += 1;
        let task = slot.task & !CAPPED;
        self.places[task as usize] = Place { node, queue };
        self.note_donor(queue);
        node
    }

    /// Takes `task`, which does not run, out of its queue.
    pub(super) fn remove(&mut self, task: TaskId) {
        let Place { node, queue } = self.places[task.index()];
        self.take(queue, node);
    }

    fn take(&mut self, queue: QueueId, node: NodeId) -> Slot {
        let slot = *self.slots.get(node);
        let previous = self.slots.previous(node);
        let known = &mut self.queues[queue as usize];
        let region = usize::from(known.group);
        let alone = self.slots.remove(region, node).is_none();
        known.tasks -= 1;
        known.weight -= u64::from(slot.weight);
        if known.current == node {
            // The task before has had its turn: the next pick goes on from there.
            known.current = if alone { NONE } else { previous };
        }
        self.stalled -= usize::from(alone && !known.active);
        self.groups[region].tasks -= 1;
        self.places[(slot.task & !CAPPED) as usize] = Place { node: NONE, queue: NONE };
        slot
    }

    /// The task that `donor` can give away: of a stalled queue the current one; of an active one,
    /// whose current task runs, the next.
    fn spare(&self, donor: QueueId) -> NodeId {
        let queue = &self.queues[donor as usize];
        if queue.active { self.slots.next(queue.current) } else { queue.current }
    }

    /// A new queue for group `k` with one task of `donor`, whose nv it takes over.
    pub(super) fn split(&mut self, donor: QueueId) -> Option<QueueId> {
        let Queue { nv, group, .. } = self.queues[donor as usize];
        let queue = self.open_at(usize::from(group), nv)?;
        let slot = self.take(donor, self.spare(donor));
        self.put(queue, slot, None);
        Some(queue)
    }

    /// INTRAGROUP: the task of `queue`, which is not empty, that runs next; it is charged a
    /// quantum.
    #[inline]
    pub(super) fn next_task(&mut self, queue: QueueId) -> TaskId {
        let Queue { current, nv, group, .. } = self.queues[queue as usize];
        let mut node = current;
        if self.slots.get(node).whole >= nv {
            node = self.slots.next(node);
            if self.slots.get(node).whole >= nv {
                node = self.end_round(queue, node);
            }
        }
        self.queues[queue as usize].current = node;
        // With many tasks the next one is far away in memory: it shall be here when its turn comes.
        core::hint::black_box(self.slots.get(self.slots.next(node)).whole);
        let cap = self.cap;
        let slot = self.slots.get_mut(node);
        let (step, of) = step_of(slot, group, cap);
        slot.part += step;
        if slot.part >= of {
            slot.part -= of;
            slot.whole += 1;
        }
        TaskId(slot.task & !CAPPED)
    }

    /// `queue` is at the end of a round, and `node` would begin the next one: steals a task from
    /// the queue of least nv if that is far behind, and begins the next round otherwise. Returns
    /// the task that runs.
    fn end_round(&mut self, queue: QueueId, node: NodeId) -> NodeId {
        let Some(donor) = self.donor_for(queue) else {
            self.queues[queue as usize].nv += 1;
            return node;
        };
        let slot = self.take(donor, self.spare(donor));
        let node = self.put(queue, slot, Some(node));
        if self.is_empty(donor) {
            self.close(donor);
        }
        node
    }

    /// The queue of least nv in the group of `queue`, if that is more than δ rounds behind it. All queues are
    /// looked at only where the least nv that was found before says so: once in δ rounds or so.
    fn donor_for(&mut self, queue: QueueId) -> Option<QueueId> {
        let Queue { nv, group, .. } = self.queues[queue as usize];
        let k = usize::from(group);
        let enough = nv - self.delta;
        if self.groups[k].donors_nv >= enough {
            return None;
        }
        let donor = self.least(k);
        let donors_nv = donor.map_or(i64::MAX, |donor| self.queues[donor as usize].nv);
        debug_assert!(donors_nv >= self.groups[k].donors_nv, "the bound is one");
        self.groups[k].donors_nv = donors_nv;
        donor.filter(|&donor| donor != queue && donors_nv < enough)
    }

    /// `task`, queued, used a quantum less than it was charged.
    pub(super) fn refund(&mut self, task: TaskId) {
        let Place { node, queue } = self.places[task.index()];
        let group = self.queues[queue as usize].group;
        let cap = self.cap;
        let slot = self.slots.get_mut(node);
        let (step, of) = step_of(slot, group, cap);
        if slot.part < step {
            slot.part += of;
            slot.whole -= 1;
        }
        slot.part -= step;
    }

    /// The nv of a queue.
    #[cfg(test)]
    pub(super) fn nv(&self, queue: QueueId) -> i64 {
        self.queues[queue as usize].nv
    }

    /// The tasks of a queue, sorted.
    #[cfg(test)]
    pub(super) fn members(&self, queue: QueueId) -> Vec<u32> {
        let Queue { current, .. } = self.queues[queue as usize];
        if current == NONE {
            return Vec::new();
        }
        let nodes = self.slots.iter_from(current);
        let mut tasks: Vec<u32> = nodes.map(|n| self.slots.get(n).task & !CAPPED).collect();
        tasks.sort_unstable();
        tasks
    }
}

/// What a quantum adds to the nv of a task of `group`: 2^σ/φ.
#[inline]
fn step_of(slot: &Slot, group: u8, cap: (u64, u32)) -> (u64, u64) {
    if slot.task & CAPPED == 0 {
        (1 << group, u64::from(slot.weight))
    } else {
        (u64::from(cap.1) << group, cap.0)
    }
}

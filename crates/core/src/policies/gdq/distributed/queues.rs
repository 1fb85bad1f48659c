//! Queues with locks of their own: round robin, and probes instead of searches.
//!
//! Whatever is written here belongs to one queue, whose lock its cpu takes at every pick. Two locks are
//! held only where a task goes from a queue to another. The sets of queues change when one is opened or
//! closed, under the lock of their group.

use alloc::vec::Vec;

use super::super::allocator::GROUPS;
use super::super::queues::Turn;
use crate::effective::Effective;
use crate::policy::TaskId;
use crate::queue::Links;

/// A queue: an index that stays while the queue lives.
pub(super) type QueueId = usize;

/// Which queues of its group a cpu looks at.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Looks {
    /// In turn.
    pub(super) next: QueueId,
    /// The one that gave it a task last, and may have more for it.
    pub(super) victim: Option<QueueId>,
}

#[derive(Clone, Copy, Debug)]
struct Queue {
    /// The group whose tasks it holds; `None` if it is closed.
    group: Option<usize>,
    /// The task that runs or ran last; `None` if the queue is empty.
    current: Option<TaskId>,
    tasks: usize,
    /// The queue's nv: the number of the round.
    nv: i64,
    /// True if a cpu works on it; if not, it is stalled.
    active: bool,
}

const CLOSED: Queue = Queue { group: None, current: None, tasks: 0, nv: 0, active: false };

/// A task, queued or not.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// nv = `whole` + `part`/parts of what it counts for.
    whole: i64,
    part: u64,
    counts: Effective,
    /// Its queue, or the one that it was in last.
    queue: Option<QueueId>,
    is_queued: bool,
}

/// A set of queues.
#[derive(Clone, Debug)]
struct Set(Vec<u64>);

impl Set {
    fn new(size: usize) -> Set {
        Set(alloc::vec![0; size.div_ceil(64)])
    }

    fn flip(&mut self, id: QueueId) {
        self.0[id / 64] ^= 1 << (id % 64);
    }

    fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The first from `start` on.
    fn next(&self, start: QueueId) -> Option<QueueId> {
        let mut bits = *self.0.get(start / 64)? & u64::MAX << (start % 64);
        for index in start / 64.. {
            if bits != 0 {
                return Some(64 * index + bits.trailing_zeros() as usize);
            }
            bits = *self.0.get(index + 1)?;
        }
        None
    }

    fn iter(&self) -> impl Iterator<Item = QueueId> + '_ {
        core::iter::successors(self.next(0), |&id| self.next(id + 1))
    }
}

/// The queues of all groups.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    queues: Vec<Queue>,
    slots: Vec<Slot>,
    links: Links,
    /// By group: its queues, and where they resume after it had none.
    groups: Vec<(Set, i64)>,
    closed: Set,
    /// δ.
    delta: i64,
}

impl Queues {
    /// Room for `queues` queues, no task.
    pub(super) fn new(queues: usize, delta: u32) -> Queues {
        let mut closed = Set::new(queues);
        (0..queues).for_each(|id| closed.flip(id));
        Queues {
            queues: alloc::vec![CLOSED; queues],
            slots: Vec::new(),
            links: Links::default(),
            groups: alloc::vec![(Set::new(queues), 1); GROUPS],
            closed,
            delta: i64::from(delta),
        }
    }

    /// Makes room for tasks with ids below `ids`; the only call that allocates.
    pub(super) fn reserve(&mut self, ids: usize) {
        if ids > self.slots.len() {
            let new =
                Slot { whole: 0, part: 0, counts: Effective::ONE, queue: None, is_queued: false };
            self.slots.resize(ids, new);
            self.links.reserve(ids);
        }
    }

    /// What `task` counts for, for all that is done here.
    pub(super) fn counts(&self, task: TaskId) -> Effective {
        self.slots[task.index()].counts
    }

    /// `task`, which is not queued, counts for so much from now on.
    pub(super) fn set_counts(&mut self, task: TaskId, counts: Effective) {
        self.slots[task.index()].counts = counts;
    }

    /// Forgets in which queue `task`, which is not queued, was.
    pub(super) fn forget(&mut self, task: TaskId) {
        self.slots[task.index()].queue = None;
    }

    /// The queue in which `task` is.
    pub(super) fn queue_of(&self, task: TaskId) -> Option<QueueId> {
        let slot = &self.slots[task.index()];
        slot.queue.filter(|_| slot.is_queued)
    }

    /// The group whose tasks `queue`, which is open, holds.
    pub(super) fn group(&self, queue: QueueId) -> usize {
        self.queues[queue].group.expect("it is open")
    }

    /// The same of any number.
    pub(super) fn group_if_open(&self, queue: QueueId) -> Option<usize> {
        self.queues.get(queue)?.group
    }

    pub(super) fn is_closed(&self, queue: QueueId) -> bool {
        self.queues.get(queue).is_some_and(|queue| queue.group.is_none())
    }

    /// True if the group of `queue` has no other.
    pub(super) fn is_alone(&self, queue: QueueId) -> bool {
        self.groups[self.group(queue)].0.count() == 1
    }

    pub(super) fn can_give(&self, queue: QueueId) -> bool {
        self.queues[queue].can_give()
    }

    pub(super) fn is_empty(&self, queue: QueueId) -> bool {
        self.queues[queue].tasks == 0
    }

    pub(super) fn is_active(&self, queue: QueueId) -> bool {
        self.queues[queue].active
    }

    /// Queues that may be opened.
    pub(super) fn room(&self) -> usize {
        self.closed.count()
    }

    /// A new, stalled queue of group `k`.
    pub(super) fn open(&mut self, k: usize, nv: i64) -> QueueId {
        let id = self.closed.next(0).expect("there is room");
        self.open_as(id, k, nv);
        id
    }

    /// Opens `id`, which is closed.
    fn open_as(&mut self, id: QueueId, k: usize, nv: i64) {
        self.closed.flip(id);
        self.groups[k].0.flip(id);
        self.queues[id] = Queue { group: Some(k), nv, ..CLOSED };
    }

    /// A queue of group `k` opens that is closed.
    pub(super) fn open_again(&mut self, queue: QueueId, k: usize) {
        self.open_as(queue, k, self.groups[k].1);
    }

    /// Closes `queue` if it is empty and stalled.
    pub(super) fn close_if_done(&mut self, queue: QueueId) {
        let Queue { group, tasks, nv, active, .. } = self.queues[queue];
        if tasks > 0 || active {
            return;
        }
        let (set, resume) = &mut self.groups[group.expect("it is open")];
        *resume = nv.max(*resume);
        set.flip(queue);
        self.closed.flip(queue);
        self.queues[queue] = CLOSED;
    }

    /// A cpu begins to work on the queue, or stops to.
    pub(super) fn set_active(&mut self, queue: QueueId, active: bool) {
        debug_assert_ne!(self.queues[queue].active, active);
        self.queues[queue].active = active;
    }

    /// Of the queues of group `k` that satisfy `wanted`, the one of least nv, the first of them.
    fn least(&self, k: usize, wanted: impl Fn(&Queue) -> bool) -> Option<QueueId> {
        let found = self.groups[k].0.iter().filter(|&id| wanted(&self.queues[id]));
        found.min_by_key(|&id| self.queues[id].nv)
    }

    /// The stalled queue of group `k` of least nv that holds a task.
    pub(super) fn stalled(&self, k: usize) -> Option<QueueId> {
        self.least(k, |queue| !queue.active && queue.tasks > 0)
    }

    /// The queue of group `k` of least nv that can give a task away.
    pub(super) fn donor(&self, k: usize) -> Option<QueueId> {
        self.least(k, Queue::can_give)
    }

    /// Puts `task` of group `k` into the queue where it was last, if that is still the group's; else into
    /// the queue `here`; else into the group's first. Its turn of this round is behind it, or still to come.
    pub(super) fn place(&mut self, task: TaskId, here: Option<QueueId>, turn: Turn) -> QueueId {
        let k = group_of(self.counts(task));
        let queue = self.find_place(task, here);
        let queue = queue.unwrap_or_else(|| self.open(k, self.groups[k].1));
        self.place_in(queue, task, turn);
        queue
    }

    /// Where it goes if it does not need a new queue.
    pub(super) fn find_place(&self, task: TaskId, here: Option<QueueId>) -> Option<QueueId> {
        let k = group_of(self.counts(task));
        let own = [self.slots[task.index()].queue, here].into_iter().flatten();
        let mut own = own.filter(|&queue| self.queues[queue].group == Some(k));
        own.next().or_else(|| self.groups[k].0.next(0))
    }

    pub(super) fn place_in(&mut self, queue: QueueId, task: TaskId, turn: Turn) {
        let Queue { nv, tasks, current, .. } = self.queues[queue];
        let slot = &mut self.slots[task.index()];
        slot.whole = nv - i64::from(turn == Turn::ToCome || tasks == 0);
        slot.part = 0;
        self.put(queue, task, current);
    }

    /// Puts `task` before another one, or alone.
    pub(super) fn put(&mut self, queue: QueueId, task: TaskId, before: Option<TaskId>) {
        let mut at = before;
        self.links.push(&mut at, task);
        let known = &mut self.queues[queue];
        known.current = known.current.or(at);
        known.tasks += 1;
        let slot = &mut self.slots[task.index()];
        (slot.queue, slot.is_queued) = (Some(queue), true);
    }

    /// Takes `task`, which does not run, out of its queue.
    pub(super) fn take(&mut self, task: TaskId) -> QueueId {
        let slot = &mut self.slots[task.index()];
        slot.is_queued = false;
        let queue = slot.queue.expect("it is queued");
        let previous = self.links.previous(task);
        let known = &mut self.queues[queue];
        known.tasks -= 1;
        let mut first = known.current;
        if first == Some(task) {
            // The task before has had its turn: the next pick goes on from there.
            known.current = (known.tasks > 0).then_some(previous);
        }
        self.links.remove(&mut first, task);
        queue
    }

    /// `task`, queued, counts for so much from now on, in the same group.
    pub(super) fn reload(&mut self, task: TaskId, counts: Effective) {
        let slot = &mut self.slots[task.index()];
        let ((before, _), (now, _)) = (slot.counts.fraction(), counts.fraction());
        let part = u128::from(slot.part) * u128::from(now) / u128::from(before);
        slot.part = u64::try_from(part).unwrap_or(u64::MAX).min(now - 1);
        slot.counts = counts;
    }

    /// Whether `task`, queued, has had its turn in this round of its queue.
    pub(super) fn turn(&self, task: TaskId) -> Turn {
        let queue = self.queue_of(task).expect("it is queued");
        let had = self.slots[task.index()].whole >= self.queues[queue].nv;
        if had { Turn::Had } else { Turn::ToCome }
    }

    /// The task that `donor` can give away: of a stalled queue the current one; of an active one,
    /// whose current task runs, the next.
    pub(super) fn spare(&self, donor: QueueId) -> TaskId {
        let Queue { current, active, .. } = self.queues[donor];
        let current = current.expect("it can give a task away");
        if active { self.links.next(current) } else { current }
    }

    /// A task of `donor` comes to `queue`, which is empty, with the donor's nv.
    pub(super) fn refill(&mut self, queue: QueueId, donor: QueueId) {
        self.refill_with(queue, donor);
        self.close_if_done(donor);
    }

    pub(super) fn refill_with(&mut self, queue: QueueId, donor: QueueId) {
        let task = self.spare(donor);
        self.take(task);
        self.queues[queue].nv = self.queues[donor].nv;
        self.put(queue, task, None);
    }

    /// INTRAGROUP: the task of `queue`, which is not empty, that runs next; it is charged a quantum.
    pub(super) fn next_task(&mut self, queue: QueueId, looks: &mut Looks) -> TaskId {
        let (mut task, is_end) = self.next_in_round(queue).expect("the queue is not empty");
        if is_end {
            task = self.end_round(queue, task, looks);
        }
        self.run_next(queue, task);
        task
    }

    /// The task of `queue` that is next, and whether it would begin another round. `None` if there is none.
    pub(super) fn next_in_round(&self, queue: QueueId) -> Option<(TaskId, bool)> {
        let Queue { current, nv, .. } = self.queues[queue];
        let current = current?;
        let has_had_turn = |task: TaskId| self.slots[task.index()].whole >= nv;
        if !has_had_turn(current) {
            return Some((current, false));
        }
        let next = self.links.next(current);
        Some((next, has_had_turn(next)))
    }

    /// `task` of `queue` runs next, and is charged a quantum.
    pub(super) fn run_next(&mut self, queue: QueueId, task: TaskId) {
        self.queues[queue].current = Some(task);
        let step = self.step(task, queue);
        let slot = &mut self.slots[task.index()];
        let (parts, _) = slot.counts.fraction();
        slot.part += step;
        if slot.part >= parts {
            slot.part -= parts;
            slot.whole += 1;
        }
    }

    /// What a quantum adds to the nv of `task` of `queue`, in parts of what it counts for.
    fn step(&self, task: TaskId, queue: QueueId) -> u64 {
        u64::from(self.counts(task).fraction().1) << self.group(queue)
    }

    /// `queue` is at the end of a round, and `task` would begin the next one: looks at one other queue
    /// of the group. If that is far behind, a task of it runs first, and it is looked at again next
    /// time; else the next round begins.
    fn end_round(&mut self, queue: QueueId, task: TaskId, looks: &mut Looks) -> TaskId {
        let donor = looks.victim.take().unwrap_or_else(|| {
            let found = self.look_next(queue, looks.next).expect("one is its own");
            looks.next = found + 1;
            found
        });
        if !self.may_steal(queue, donor) {
            self.begin_round(queue);
            return task;
        }
        looks.victim = Some(donor);
        let stolen = self.spare(donor);
        self.take(stolen);
        self.put(queue, stolen, Some(task));
        self.close_if_done(donor);
        stolen
    }

    pub(super) fn begin_round(&mut self, queue: QueueId) {
        self.queues[queue].nv += 1;
    }

    /// The queue of the group of `queue` that follows the others in turn.
    pub(super) fn look_next(&self, queue: QueueId, next: QueueId) -> Option<QueueId> {
        let set = &self.groups[self.group(queue)].0;
        set.next(next).or_else(|| set.next(0))
    }

    /// True if `donor` is so far behind `queue` that a task of it shall run there.
    pub(super) fn may_steal(&self, queue: QueueId, donor: QueueId) -> bool {
        let (to, from) = (&self.queues[queue], &self.queues[donor]);
        donor != queue && from.group == to.group && from.can_give() && to.nv > from.nv + self.delta
    }

    /// `task`, queued, used a quantum less than it was charged.
    pub(super) fn refund(&mut self, task: TaskId) {
        let step = self.step(task, self.queue_of(task).expect("it is queued"));
        let slot = &mut self.slots[task.index()];
        if slot.part < step {
            slot.part += slot.counts.fraction().0;
            slot.whole -= 1;
        }
        slot.part -= step;
    }
}

/// The group of tasks that count for so much.
pub(super) fn group_of(counts: Effective) -> usize {
    let (parts, of) = counts.fraction();
    (parts / u64::from(of)).ilog2() as usize
}

impl Queue {
    /// A stalled queue can give all its tasks away, an active one all but the one that runs.
    fn can_give(&self) -> bool {
        self.tasks > usize::from(self.active)
    }
}

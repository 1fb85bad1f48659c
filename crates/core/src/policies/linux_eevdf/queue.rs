//! A run queue of EEVDF: who is owed something, and who of them is picked.

use alloc::vec::Vec;

use crate::policy::{Nanos, TaskId};

/// Binary digits of a virtual time below a nanosecond of a task of weight 1.
const FRACTION: u32 = 40;

/// Ticks may be as long as one likes, but then not what is owed, which is multiplied by weights.
const MOST_LAG_NS: Nanos = 1 << 36;

/// Who stands in a run queue: a task, or a group with what it has on the same cpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Member {
    Task(TaskId),
    Group(usize),
}

/// A member in a queue or out of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entity {
    pub(super) member: Member,
    pub(super) weight: u64,
    /// In a queue: how much it ran, divided by its weight. Out of one: how far it was behind the mean.
    runtime: i128,
    /// In a queue: when its slice is over; out of one: how much later than `runtime` that was.
    deadline: i128,
    /// It has a slice that is not over.
    has_slice: bool,
    /// It was in no queue yet.
    is_new: bool,
    /// It left, but works off what it is ahead.
    pub(super) is_delayed: bool,
}

impl Entity {
    pub(super) fn new(member: Member, weight: u64) -> Entity {
        debug_assert!(weight > 0);
        Entity {
            member,
            weight,
            runtime: 0,
            deadline: 0,
            has_slice: false,
            is_new: true,
            is_delayed: false,
        }
    }

    /// Out of a queue: another weight, with the same lag and the same slice.
    pub(super) fn reweigh(&mut self, weight: u64) {
        let scaled = |time: i128| time.saturating_mul(i128::from(self.weight)) / i128::from(weight);
        (self.runtime, self.deadline) = (scaled(self.runtime), scaled(self.deadline));
        self.weight = weight;
    }

    /// Out of a queue: it has slept, and asks for a new slice.
    pub(super) fn forget_slice(&mut self) {
        self.has_slice = false;
    }

    /// Out of a queue: nothing is owed to it.
    pub(super) fn forgive(&mut self) {
        self.runtime = self.runtime.min(0);
    }

    fn virtual_time(&self, ns: Nanos) -> i128 {
        (i128::from(ns) << FRACTION) / i128::from(self.weight)
    }
}

/// The queue of a cpu, or of a group on a cpu. Whoever runs stays in it.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    slice_ns: Nanos,
    /// The longest that anyone may be owed or owe.
    longest_lag_ns: Nanos,
    entities: Vec<Entity>,
    /// Σφ.
    weight: i128,
    /// Σφ·(S − zero).
    sum: i128,
    /// V rounded down when somebody ran last: near all virtual times, so that products stay small.
    zero: i128,
}

impl Queue {
    pub(super) fn new(slice_ns: Nanos, tick_ns: Nanos) -> Queue {
        let longest_lag_ns = slice_ns.saturating_mul(2).max(tick_ns).min(MOST_LAG_NS);
        Queue { slice_ns, longest_lag_ns, entities: Vec::new(), weight: 0, sum: 0, zero: 0 }
    }

    pub(super) fn entity(&self, member: Member) -> Option<&Entity> {
        self.entities.iter().find(|entity| entity.member == member)
    }

    pub(super) fn entity_mut(&mut self, member: Member) -> Option<&mut Entity> {
        self.entities.iter_mut().find(|entity| entity.member == member)
    }

    pub(super) fn len(&self) -> usize {
        self.entities.len()
    }

    /// How long `member` has to run until its slice is over, at least 1 ns.
    pub(super) fn rest_ns(&self, member: Member) -> Nanos {
        let rest = |entity: &Entity| {
            let rest = (entity.deadline - entity.runtime) * i128::from(entity.weight);
            Nanos::try_from((rest >> FRACTION) + 1).unwrap_or(1)
        };
        self.entity(member).map_or(self.slice_ns, rest)
    }

    /// V, rounded down.
    fn mean(&self) -> i128 {
        self.zero + self.sum.div_euclid(self.weight.max(1))
    }

    /// True if `entity` is not ahead of the mean.
    fn is_eligible(&self, entity: &Entity) -> bool {
        self.weight.saturating_mul(entity.runtime - self.zero) <= self.sum
    }

    fn count(&mut self, entity: &Entity) {
        self.weight += i128::from(entity.weight);
        self.sum += i128::from(entity.weight) * (entity.runtime - self.zero);
    }

    fn discount(&mut self, entity: &Entity) {
        self.weight -= i128::from(entity.weight);
        self.sum -= i128::from(entity.weight) * (entity.runtime - self.zero);
    }

    /// `entity` enters with the lag that it left with (`PLACE_LAG`); since it moves the mean by entering, the
    /// lag is made larger first, so that it is the same afterwards.
    pub(super) fn place(&mut self, mut entity: Entity) {
        let (others, own) = (self.weight, i128::from(entity.weight));
        let lag = match others {
            0 => 0,
            others => {
                let lag = self.clamped(&entity, entity.runtime);
                // That is lag · (others + own) / others.
                lag + lag * own / others
            }
        };
        entity.runtime = self.mean() - lag;
        let slice = match (entity.has_slice, entity.is_new) {
            (true, _) => entity.deadline,
            (false, false) => entity.virtual_time(self.slice_ns),
            // PLACE_DEADLINE_INITIAL.
            (false, true) => entity.virtual_time(self.slice_ns.div_ceil(2)),
        };
        entity.deadline = entity.runtime + slice;
        (entity.has_slice, entity.is_new, entity.is_delayed) = (true, false, false);
        self.count(&entity);
        self.entities.push(entity);
    }

    /// `member` leaves with its lag, and what is left of its slice.
    pub(super) fn take(&mut self, member: Member) -> Option<Entity> {
        let at = self.entities.iter().position(|entity| entity.member == member)?;
        let lag = self.clamped(&self.entities[at], self.mean() - self.entities[at].runtime);
        let mut entity = self.entities.remove(at);
        self.discount(&entity);
        (entity.deadline, entity.runtime) = (entity.deadline - entity.runtime, lag);
        Some(entity)
    }

    fn clamped(&self, entity: &Entity, lag: i128) -> i128 {
        let longest = entity.virtual_time(self.longest_lag_ns);
        lag.clamp(-longest, longest)
    }

    /// `member` is ahead of the mean: it would stay to work that off (`DELAY_DEQUEUE`).
    pub(super) fn is_ahead(&self, member: Member) -> bool {
        self.entity(member).is_some_and(|entity| !self.is_eligible(entity))
    }

    /// `member` ran.
    pub(super) fn advance(&mut self, member: Member, used_ns: Nanos) {
        let slice_ns = self.slice_ns;
        let Some(entity) = self.entity_mut(member) else { return };
        let ran = entity.virtual_time(used_ns);
        let weighted = i128::from(entity.weight) * ran;
        entity.runtime += ran;
        if entity.runtime >= entity.deadline {
            entity.deadline = entity.runtime + entity.virtual_time(slice_ns);
        }
        self.sum += weighted;
        let moved = self.sum.div_euclid(self.weight);
        self.zero += moved;
        self.sum -= moved * self.weight;
    }

    /// `member` has another weight from now on, with the same lag, as long as it is one that anyone may
    /// have, and the same rest of its slice.
    pub(super) fn reweigh(&mut self, member: Member, weight: u64) {
        let is_delayed = self.entity(member).is_some_and(|entity| entity.is_delayed);
        let Some(mut entity) = self.take(member) else { return };
        entity.reweigh(weight);
        self.place(entity);
        if let Some(entity) = self.entity_mut(member) {
            entity.is_delayed = is_delayed;
        }
    }

    /// The same of who runs or not, as Linux does it before 7.0.
    pub(super) fn reweigh_as(&mut self, member: Member, weight: u64, runs: bool) {
        match runs {
            true => self.reweigh_running(member, weight),
            false => self.reweigh(member, weight),
        }
    }

    /// The same of who runs, as Linux does it before 7.0 (`reweight_entity`, `place_entity`): it stays in the
    /// mean at which it is placed, though with another weight, and among the others for whom its lag is made
    /// larger, so that neither the mean nor its lag stays what it was.
    fn reweigh_running(&mut self, member: Member, weight: u64) {
        let Some(at) = self.entities.iter().position(|entity| entity.member == member) else {
            return;
        };
        let lag = self.clamped(&self.entities[at], self.mean() - self.entities[at].runtime);
        let mut entity = self.entities.remove(at);
        self.discount(&entity);
        let (runtime, others) = (entity.runtime, self.weight);
        (entity.deadline, entity.runtime) = (entity.deadline - runtime, lag);
        entity.reweigh(weight);
        let (slice, lag) = (entity.deadline, entity.runtime);
        entity.runtime = runtime;
        self.count(&entity);
        if others > 0 {
            let moved = self.mean() - lag - lag * i128::from(weight) / self.weight;
            self.discount(&entity);
            entity.runtime = moved;
            self.count(&entity);
        }
        entity.deadline = entity.runtime + slice;
        self.entities.insert(at, entity);
    }

    /// Of those that are not ahead of the mean the one whose slice is over first.
    pub(super) fn best(&self) -> Option<Member> {
        let eligible = self.entities.iter().filter(|entity| self.is_eligible(entity));
        eligible.min_by_key(|entity| entity.deadline).map(|entity| entity.member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE_NS: Nanos = 1000;

    fn queue(weights: &[u64]) -> Queue {
        let mut queue = Queue::new(SLICE_NS, SLICE_NS);
        for (id, &weight) in (0..).zip(weights) {
            queue.place(Entity::new(Member::Task(TaskId(id)), weight));
        }
        queue
    }

    /// Runs it for so many slices; what each received.
    fn run(queue: &mut Queue, slices: u64) -> Vec<u64> {
        let mut received = alloc::vec![0; queue.entities.len()];
        for _ in 0..slices {
            let best = queue.best().expect("lags add up to 0");
            queue.advance(best, SLICE_NS);
            let Member::Task(task) = best else { panic!("only tasks") };
            received[task.index()] += 1;
        }
        received
    }

    #[test]
    fn shares_are_by_weight() {
        assert_eq!(run(&mut queue(&[1, 2, 3]), 600), [100, 200, 300]);
        assert_eq!(run(&mut queue(&[1 << 42, 1 << 41]), 600), [400, 200]);
    }

    /// `PLACE_LAG`: leaving and coming back changes what one is owed by nothing but rounding.
    #[test]
    fn a_lag_is_kept() {
        let mut queue = queue(&[1 << 10, 1 << 10, 3 << 10]);
        queue.advance(Member::Task(TaskId(0)), 700);
        let lag = |queue: &Queue, member| queue.mean() - queue.entity(member).unwrap().runtime;
        for id in [0, 2] {
            let member = Member::Task(TaskId(id));
            let before = lag(&queue, member);
            let entity = queue.take(member).expect("it is there");
            queue.place(entity);
            assert!((lag(&queue, member) - before).abs() <= 2, "task {id}");
            assert_ne!(before, 0);
        }
    }

    #[test]
    fn another_weight_keeps_what_is_owed() {
        let mut queue = queue(&[1 << 10, 1 << 10]);
        let member = Member::Task(TaskId(0));
        queue.advance(member, 800);
        queue.reweigh(member, 4 << 10);
        let entity = *queue.entity(member).expect("it is there");
        let lag = queue.mean() - entity.runtime;
        let owed = (lag * i128::from(entity.weight)) >> FRACTION;
        assert!((-401..=-399).contains(&owed), "{owed}");
    }
}

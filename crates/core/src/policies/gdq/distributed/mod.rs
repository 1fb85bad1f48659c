//! GDQ with locks of their own for its queues: what cpus share, they touch seldom.
//!
//! [GDQ](super) as the paper writes it looks at all queues of a group at the end of each round, and at the
//! weights of all tasks whenever one comes or goes. Where all that is in one memory and behind one lock, a
//! decision costs the more the more cpus there are. Here the rules are loosened just so far that a cpu
//! needs its own memory and now and then a line of another's. `crates/scx/src/bpf/policies/gdq_distributed.h`
//! has the same rules with their locks; events one after the other, it decides as this does.
//!
//! # Who touches what
//!
//! | part                          | its lock            | who takes it, and when                             |
//! |-------------------------------|---------------------|----------------------------------------------------|
//! | a cpu: its clock, statistics, the changes that it has noted | none | that cpu                           |
//! | a queue and its tasks         | the queue's         | its cpu at each pick; who wakes or blocks a task of it; a thief, if it is free |
//! | the set of a group's queues   | the group's         | who opens or closes a queue: the *opener*          |
//! | shares: the weights of the runnable tasks, the cap, the accounts of MFQ | the shares' | each cpu at its look around, once in T quanta, and when its group has nothing for it |
//!
//! *Own queue*: a cpu picks from its own under that queue's lock, which nobody else wants most of the time.
//!
//! *Thief*: at the end of a round a cpu looks at **one** other queue of its group, the next in turn, without
//! a lock. If that is more than δ rounds behind, the cpu tries the queue's lock, and takes a task. It stays
//! with that queue: it looks at the same one at the end of its next round, until that is not far behind any
//! more or has nothing to give. A lock that is taken means "not now": nobody ever waits for a second queue.
//!
//! *Opener*: a cpu that comes to a group, since its look around sends it or its own queue is empty, takes a
//! stalled queue, or opens one with a task of the queue that is furthest behind. It has searched all queues
//! of the group for that. So has a cpu before it idles, in all groups: it idles only if no task waits. A cpu
//! whose queue is empty looks in its own group first, and needs no other lock than the queues' for that: for
//! a moment it has two queues, so that there are 3P of them, and two for each group.
//!
//! *Shares* are written at looks only. Who wakes, blocks or weighs another weight is noted by the cpu where
//! that happens (here, where calls do not say where: by the cpu that was heard of last) and told to
//! the shares at its next look; a sleep that is over by then is never told. Until then a newcomer counts for
//! its weight, capped or not. A task that wakes goes back to the queue where it was.
//!
//! # What that costs: the bound
//!
//! *Between groups* nothing changes for a fixed set: a look does what GDQ's does, with the accounts as they
//! are, under one lock. So −T ≤ e ≤ gT for each group (Theorem 3.5).
//!
//! *Inside a group* GDQ has the nv of an active queue at most δ (and the round that it begins) ahead of any
//! queue that can give a task away, since it looks at all at the end of each round. Here it may look at
//! such a queue q only once in as many ends of rounds as the group has queues, at most P: when it looks and
//! q is more than δ behind, its nv stands still while it steals, as often as it takes. Between
//! two looks at q its nv grows by at most P, so **δ + P takes the place of δ**:
//!
//! −2(2(δ+P)+2) − T ≤ e ≤ 2(2(δ+P)+2) + g·T
//!
//! that is 4P quanta more than Theorem 3.6, on either side. A lock that a thief finds taken adds a round
//! each time to the distance; nobody holds one for longer than a pick. In practice P cpus look, each at
//! another queue, so that each queue is looked at about once a round by somebody: `tests/gdq` tells how
//! far errors really were, beside those of `gdq`.
//!
//! *Between changes*: a change is told to the shares at most T quanta late, by a cpu that decides at least
//! that often. Until then groups are served as they were: who comes, goes or changes by φ costs all groups
//! together at most T·P·φ/Φ quanta of the group's time. A change of weight of a waiting task counts as late.
//!
//! # Cost, limits
//!
//! `pick` and `charge` O(1) and O(P + g) every T quanta; `wake`, `block` O(1). At each end of a round the
//! head of one other queue is looked at. A task that wakes in a group that lost its cpus waits, as in GDQ,
//! until the next competing cpu picks; if its waker's cpu has yet to tell the shares of it, for up to T more.

mod queues;
pub mod steps;

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::allocator::{Allocator, GROUPS};
use super::queues::Turn;
use super::{DEFAULT_DELTA, State, class, default_interval_quanta, groups, interval};
use crate::effective::{Effective, Feasible};
use crate::policies::{Bound, Cost, Entry, FixedSet, Ratio};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::Links;
use queues::{Looks, QueueId, Queues, group_of};

pub(in crate::policies) const ENTRY: Entry = Entry {
    name: "gdq-distributed",
    title: "Grouped distributed queues, each with a lock of its own",
    paper: "Caprita, Nieh, Stein, tech. report 2005",
    bound: Bound {
        text: "−2(2(δ+P)+2) − T ≤ e ≤ 2(2(δ+P)+2) + gT",
        lower: Some(|set, _| Ratio::whole(-inside(set) - interval(set))),
        upper: Some(|set, _| Ratio::whole(inside(set) + groups(set) * interval(set))),
        exact_each_cycle: false,
    },
    cost: Cost { pick: "1", insert: "1", remove: "1" },
    options: super::ENTRY.options,
    build: |setup, options| {
        let quanta = options.number("t", 1..=1_000_000, default_interval_quanta(setup.cpus))?;
        let delta = options.number("delta", 0..=1_000_000, DEFAULT_DELTA)?;
        Ok(Box::new(Distributed::new(setup, quanta, delta)))
    },
    ..super::ENTRY
};

/// 2(2(δ+P)+2).
fn inside(set: &FixedSet<'_>) -> i128 {
    2 * (2 * (i128::from(DEFAULT_DELTA) + set.cpus as i128) + 2)
}

#[derive(Clone, Copy, Debug)]
struct Task {
    /// As the caller said last; the shares may know another one.
    weight: Weight,
    state: State,
    /// What it counts for as it was told when the shares were written last.
    told: Effective,
    credit_ns: Nanos,
    /// The shares count it.
    is_shared: bool,
}

/// What only this cpu touches.
#[derive(Clone, Debug, Default)]
struct Cpu {
    queue: Option<QueueId>,
    /// True if it is dedicated to the queue's group.
    dedicated: bool,
    /// Since when it has been with the group, or when it looked around last.
    since_ns: Nanos,
    /// When it looks around next.
    look_ns: Nanos,
    /// Where it looks at the end of its next round.
    looks: Looks,
    /// The first of the tasks of which it is to tell the shares something.
    noted: Option<TaskId>,
}

/// A queue for a cpu, and the one that gave its only task.
type Free = (QueueId, Option<QueueId>);

/// GDQ whose cpus meet seldom. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Distributed {
    quantum_ns: Nanos,
    /// T.
    interval_ns: Nanos,
    tasks: Vec<Task>,
    cpus: Vec<Cpu>,
    queues: Queues,
    /// The tasks that each cpu has noted.
    noted: Links,
    /// The shares: which tasks are runnable and what they weigh, as far as it has been told …
    feasible: Feasible,
    /// … and what that makes the groups worth.
    allocator: Allocator,
    /// True if a task woke in a group without a cpu: the next competing cpu that picks looks around.
    is_wanted: bool,
    /// The cpu that was heard of last.
    acting: CpuId,
    /// Where each running task runs.
    runs_on: Vec<CpuId>,
}

impl Distributed {
    /// Over no tasks, with T = `interval_quanta` and δ = `delta`.
    #[must_use]
    pub fn new(setup: &Setup, interval_quanta: u32, delta: u32) -> Distributed {
        let interval_ns = setup.quantum_ns.saturating_mul(u64::from(interval_quanta));
        let first_look_ns = |cpu: usize| {
            let part = u128::from(interval_ns) * (cpu as u128 + 1) / setup.cpus as u128;
            u64::try_from(part).expect("at most T")
        };
        let cpu = |cpu| Cpu { look_ns: first_look_ns(cpu), ..Cpu::default() };
        Distributed {
            quantum_ns: setup.quantum_ns,
            interval_ns,
            tasks: Vec::new(),
            cpus: (0..setup.cpus).map(cpu).collect(),
            queues: Queues::new(3 * setup.cpus + 2 * GROUPS, delta),
            noted: Links::default(),
            feasible: Feasible::weighing_few(setup.cpus),
            allocator: Allocator::new(interval_ns),
            is_wanted: false,
            acting: 0,
            runs_on: Vec::new(),
        }
    }

    // --- shares -------------------------------------------------------------------------------------

    /// The shares are to be told of `task`.
    fn note(&mut self, task: TaskId) {
        if !self.noted.contains(task) {
            self.noted.push(&mut self.cpus[self.acting].noted, task);
        }
    }

    /// Tells the shares what `cpu` has noted.
    fn tell_shares(&mut self, cpu: CpuId) {
        let mut is_changed = false;
        while let Some(task) = self.cpus[cpu].noted {
            self.noted.remove(&mut self.cpus[cpu].noted, task);
            is_changed |= self.tell_of(task);
        }
        if is_changed {
            self.settle();
        }
    }

    fn settle(&mut self) {
        if self.feasible.has_cpu_for_each() {
            self.allocator.settle_each();
        } else {
            self.allocator.settle(self.feasible.per_cpu());
        }
    }

    /// Tells the shares how `task` is now. True if that is news.
    fn tell_of(&mut self, task: TaskId) -> bool {
        let Task { weight, is_shared, state, .. } = self.tasks[task.index()];
        let is_runnable = state != State::Blocked;
        if is_shared && is_runnable && self.feasible.weight(task) == weight {
            return false;
        }
        if is_shared {
            self.leave_set(task);
            self.tell_changed();
        }
        self.tell(task, Effective::whole(weight));
        if is_runnable {
            self.feasible.set_weight(task, weight);
            self.join_set(task);
            self.tell_changed();
            self.tell(task, self.feasible.effective(task));
        }
        self.tasks[task.index()].is_shared = is_runnable;
        is_shared || is_runnable
    }

    fn join_set(&mut self, task: TaskId) {
        self.feasible.insert(task);
        let (k, weight) = class(self.feasible.effective(task), self.feasible.weight(task));
        self.allocator.join(k, weight);
        self.account_changed();
    }

    fn leave_set(&mut self, task: TaskId) {
        let (k, weight) = class(self.feasible.effective(task), self.feasible.weight(task));
        self.feasible.remove(task);
        self.allocator.leave(k, weight);
        self.account_changed();
    }

    /// The last change of the set has changed what others count for.
    fn account_changed(&mut self) {
        for i in 0..self.feasible.changed().len() {
            let (task, old) = self.feasible.changed()[i];
            let weight = self.feasible.weight(task);
            let (old_k, old_weight) = class(old, weight);
            self.allocator.leave(old_k, old_weight);
            let now = self.feasible.effective(task);
            let (k, weight) = class(now, weight);
            self.allocator.join(k, weight);
        }
    }

    /// They are told.
    fn tell_changed(&mut self) {
        for i in 0..self.feasible.changed().len() {
            let (task, _) = self.feasible.changed()[i];
            self.tell(task, self.feasible.effective(task));
        }
    }

    fn tell(&mut self, task: TaskId, counts: Effective) {
        self.tasks[task.index()].told = counts;
        self.heed(task);
    }

    /// `task` goes where it belongs by what it was told. If it runs, that has to wait.
    fn heed(&mut self, task: TaskId) {
        let Some(queue) = self.queues.queue_of(task) else { return };
        let Task { told, state, .. } = self.tasks[task.index()];
        if self.queues.group(queue) == group_of(told) {
            self.queues.reload(task, told);
        } else if state == State::Waiting {
            let turn = self.queues.turn(task);
            self.unplace(task);
            self.place(task, turn);
        }
    }

    // --- tasks in queues ----------------------------------------------------------------------------

    fn place(&mut self, task: TaskId, turn: Turn) -> QueueId {
        self.queues.set_counts(task, self.tasks[task.index()].told);
        self.queues.place(task, self.cpus[self.acting].queue, turn)
    }

    /// Takes `task`, which waits, out of its queue.
    fn unplace(&mut self, task: TaskId) {
        let queue = self.queues.take(task);
        self.queues.close_if_done(queue);
    }

    /// `task`, queued, used so much less than it was charged with.
    fn give_credit(&mut self, task: TaskId, unused_ns: Nanos) {
        let credit_ns = &mut self.tasks[task.index()].credit_ns;
        *credit_ns += unused_ns;
        if *credit_ns >= self.quantum_ns {
            *credit_ns -= self.quantum_ns;
            self.queues.refund(task);
        }
    }

    // --- cpus ---------------------------------------------------------------------------------------

    /// MFQ: `cpu`, whose time has come, tells what it has noted, and finds out whether another group
    /// needs it more.
    fn look_around(&mut self, cpu: CpuId, now_ns: Nanos) {
        let Cpu { queue, dedicated, .. } = self.cpus[cpu];
        let competes = queue.is_some() && !dedicated;
        if !self.is_time_to_look(cpu, now_ns) && (!self.is_wanted || !competes) {
            return;
        }
        self.is_wanted = false;
        self.tell_shares(cpu);
        let record = &mut self.cpus[cpu];
        let Some(queue) = record.queue else { return };
        let elapsed_ns = now_ns - core::mem::replace(&mut record.since_ns, now_ns);
        let k = self.queues.group(queue);
        let beyond_ns = if record.dedicated { 0 } else { elapsed_ns.into() };
        record.dedicated = self.allocator.pass(k, record.dedicated, beyond_ns);
        if record.dedicated {
            return;
        }
        self.allocator.depart(k, false);
        if let Some((goal, new)) = self.needy_group(Some(k)) {
            self.abandon(queue);
            self.adopt(cpu, new);
            self.cpus[cpu].dedicated = self.allocator.arrive(goal);
        } else {
            self.cpus[cpu].dedicated = self.allocator.arrive(k);
        }
    }

    /// True if it is time for `cpu` to look around; the next time is set.
    fn is_time_to_look(&mut self, cpu: CpuId, now_ns: Nanos) -> bool {
        let Cpu { look_ns, .. } = self.cpus[cpu];
        if now_ns < look_ns {
            return false;
        }
        let missed = (now_ns - look_ns) / self.interval_ns;
        let next_ns = look_ns.saturating_add((missed + 1).saturating_mul(self.interval_ns));
        self.cpus[cpu].look_ns = next_ns;
        true
    }

    /// The group that a free cpu should go to, with a queue for it; `None` if that is `own`, or there is
    /// no task for it.
    fn needy_group(&mut self, own: Option<usize>) -> Option<(usize, Free)> {
        let mut tried = 0u32;
        loop {
            let k = self.allocator.choose(|k, _| tried & 1 << k == 0)?;
            if Some(k) == own {
                return None;
            }
            if let Some(queue) = self.free_queue(k) {
                return Some((k, queue));
            }
            tried |= 1 << k;
        }
    }

    /// A queue of group `k` for one more cpu: a stalled one, or a new one with a task of the queue that is
    /// furthest behind. For tasks that wake, as many queues as there are groups are left.
    fn free_queue(&mut self, k: usize) -> Option<Free> {
        if let Some(stalled) = self.queues.stalled(k) {
            return Some((stalled, None));
        }
        let donor = self.queues.donor(k).filter(|_| self.queues.room() > GROUPS)?;
        let queue = self.queues.open(k, 0);
        self.queues.refill(queue, donor);
        Some((queue, Some(donor)))
    }

    fn adopt(&mut self, cpu: CpuId, (queue, donor): (QueueId, Option<QueueId>)) {
        self.queues.set_active(queue, true);
        // Cpus shall not all look at one queue.
        self.cpus[cpu].looks = Looks { next: queue + 1, victim: donor };
        self.cpus[cpu].queue = Some(queue);
    }

    fn abandon(&mut self, queue: QueueId) {
        self.queues.set_active(queue, false);
        self.queues.close_if_done(queue);
    }

    /// The queue of `cpu`, with a task in it: its own, a stalled one of its group, or its own again with a
    /// task of another.
    fn refill_own(&mut self, cpu: CpuId) -> Option<QueueId> {
        let queue = self.cpus[cpu].queue?;
        let k = self.queues.group(queue);
        if !self.queues.is_empty(queue) {
            return Some(queue);
        }
        if let Some(stalled) = self.queues.stalled(k) {
            self.abandon(queue);
            self.adopt(cpu, (stalled, None));
            return Some(stalled);
        }
        let donor = self.queues.donor(k)?;
        self.queues.refill(queue, donor);
        self.cpus[cpu].looks.victim = Some(donor);
        Some(queue)
    }

    /// The queue of `cpu`, which has none or an empty one, with a task in it; `None` if no task waits.
    fn find_work(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<QueueId> {
        if let Some(queue) = self.refill_own(cpu) {
            return Some(queue);
        }
        self.tell_shares(cpu);
        if let Some(queue) = self.refill_own(cpu) {
            return Some(queue);
        }
        if let Some(queue) = self.cpus[cpu].queue {
            let k = self.queues.group(queue);
            self.abandon(queue);
            let Cpu { dedicated, since_ns, .. } = self.cpus[cpu];
            self.cpus[cpu].queue = None;
            if !dedicated {
                self.allocator.charge(k, (now_ns - since_ns).into());
            }
            self.allocator.depart(k, dedicated);
        }
        let any = |this: &mut Distributed| {
            (0..GROUPS).find_map(|k| this.free_queue(k).map(|queue| (k, queue)))
        };
        let (k, new) = self.needy_group(None).or_else(|| any(self))?;
        self.adopt(cpu, new);
        let record = &mut self.cpus[cpu];
        record.dedicated = self.allocator.arrive(k);
        record.since_ns = now_ns;
        record.queue
    }
}

impl Policy for Distributed {
    fn add(&mut self, task: TaskId, weight: Weight) {
        let told = Effective::whole(weight);
        let new = Task { weight, state: State::Blocked, told, credit_ns: 0, is_shared: false };
        let ids = task.index() + 1;
        if self.tasks.len() < ids {
            self.tasks.resize(ids, new);
            self.runs_on.resize(ids, 0);
            self.feasible.reserve(ids);
            self.queues.reserve(ids);
            self.noted.reserve(ids);
        }
        // The shares may yet have to be told that the task of this id before has gone.
        let Task { is_shared, .. } = self.tasks[task.index()];
        self.tasks[task.index()] = Task { is_shared, ..new };
        self.queues.forget(task);
    }

    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        if self.tasks[task.index()].state == State::Waiting {
            self.block(task, now_ns);
        }
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, _now_ns: Nanos) {
        if self.tasks[task.index()].weight != weight {
            self.tasks[task.index()].weight = weight;
            self.note(task);
        }
    }

    fn wake(&mut self, task: TaskId, _now_ns: Nanos) {
        self.tasks[task.index()].state = State::Waiting;
        let queue = self.place(task, Turn::Had);
        if !self.queues.is_active(queue) {
            self.is_wanted |= self.allocator.cpus(self.queues.group(queue)) == 0;
        }
        self.note(task);
    }

    fn block(&mut self, task: TaskId, _now_ns: Nanos) {
        self.unplace(task);
        self.tasks[task.index()].state = State::Blocked;
        self.note(task);
    }

    fn pick(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        self.acting = cpu;
        self.look_around(cpu, now_ns);
        let own = self.cpus[cpu].queue.filter(|&queue| !self.queues.is_empty(queue));
        let queue = own.or_else(|| self.find_work(cpu, now_ns))?;
        let task = self.queues.next_task(queue, &mut self.cpus[cpu].looks);
        self.tasks[task.index()].state = State::Running;
        self.runs_on[task.index()] = cpu;
        Some(task)
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, _now_ns: Nanos) {
        self.acting = self.runs_on[task.index()];
        self.tasks[task.index()].state = State::Waiting;
        if self.queues.counts(task) != self.tasks[task.index()].told {
            self.heed(task);
        }
        if used_ns < self.quantum_ns {
            self.give_credit(task, self.quantum_ns - used_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two tasks of one weight that wake each other are in one group, whether the shares know one or both.
    #[test]
    fn a_pair_that_wakes_each_other_stays_in_one_queue() {
        const QUANTUM_NS: Nanos = 1000;
        let mut policy = Distributed::new(&Setup::new(1, QUANTUM_NS), 2, DEFAULT_DELTA);
        let (mut runs, mut sleeps) = (TaskId(0), TaskId(1));
        let weight = Weight::new(1024).expect("it is positive");
        [runs, sleeps].into_iter().for_each(|task| policy.add(task, weight));
        policy.wake(runs, 0);
        assert_eq!(policy.pick(0, 0), Some(runs));
        let queue = policy.cpus[0].queue;
        for now_ns in (1..100).map(|turn| turn * QUANTUM_NS / 3) {
            policy.wake(sleeps, now_ns);
            policy.charge(runs, QUANTUM_NS / 3, now_ns);
            policy.block(runs, now_ns);
            assert_eq!(policy.pick(0, now_ns), Some(sleeps));
            assert_eq!(policy.cpus[0].queue, queue);
            core::mem::swap(&mut runs, &mut sleeps);
        }
    }
}

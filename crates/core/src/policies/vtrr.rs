//! Virtual-time round robin (Nieh, Vaill, Zhong, USENIX 2001): round robin over tasks sorted by
//! share that turns back to the front when the next task has had enough.
//!
//! *How.* The queue is sorted by decreasing share φ, ties by id. Every task has a *time counter*,
//! the quanta that are still due to it in the current cycle of Φ quanta, and a virtual time (the
//! paper's VFT, less one quantum); the queue has a virtual time, QVT. A run takes 1 off the counter
//! and moves the task's virtual time by Q/φ and QVT by Q/Φ. Then the scheduler looks at the *next*
//! task n in the queue and runs it if
//!
//! 1. counter(n) > counter(current): the time counter invariant; or else
//! 2. VFT(n) − (QVT + Q/Φ) < Q/φ(n), that is, its virtual time is below what QVT will be after
//!    one more quantum (the paper's equation 6, in which C is the next task);
//!
//! otherwise, and at the end of the queue, it runs the first task. When all counters are 0 they
//! are set to the shares again, and the first task runs. (Here the counter goes down when a quantum
//! begins, so that a task that is inserted next to the running one finds counters in order.)
//!
//! *Why it is right.* Rule 1 keeps counters in the order of the queue, so that all of them reach 0
//! together: after every Φ quanta each task has had exactly φ quanta, whatever rule 2 decided.
//! Rule 2 spreads the runs of a task over the cycle.
//!
//! *Bound.* Fixed set, one cpu: e = 0 for every task after every Φ quanta. Within a cycle no
//! constant bounds it: −2129..10079 quanta in figure 7 of the GR3 paper.
//!
//! *Dynamics* (section 3.2). A task that wakes gets virtual time max(QVT, its old one) and counter
//! ⌊φ·Σcounters/Φ⌋, both sums without it; not more than it had, if it left in this cycle; and
//! clamped between the counters of its neighbours, which keeps them in order. A share change is a
//! removal and an insertion, except that a greater share gives a greater counter at once and the
//! virtual time keeps its distance from QVT as service. If the current task leaves its place, the
//! next one is the one that follows that place.
//!
//! *Arithmetic.* Virtual times are compared exactly. A queued task's is kept as service, φ·VFT, so
//! that a run adds Q; an estimate of QVT to within one unit settles most comparisons with one
//! multiplication, and the exact clock is brought up to date for the others. A task that blocks
//! within its quantum loses a whole count, but its virtual time moves by what it used.
//!
//! *Cost.* O(1) per decision, also at the end of a cycle: a counter carries the number of the cycle
//! it belongs to, and an older one stands for the share. Insertion and removal O(log N): the queue
//! is [`Sorted`] rather than the paper's list, which needs a search in O(N), or one queue per share
//! value. The paper's memory of a task's neighbours is here the memory of the block of neighbours
//! that it left, which saves the search if it still fits.
//!
//! *Deviations and limits.* A counter of 0 excludes a task from rule 2: the paper's rules allow
//! that only for newcomers, whose floor would otherwise be ignored. Hogs whose shares are doubled and
//! halved again within three quanta starve: the walk goes on behind a place in the order, and whoever has
//! become heavier stands before it ([corrected](crate::Corrected) turns mend that; if the walk followed the
//! task that ran there, the one pair of counters that may be out of order would no longer be where it is).
//! One cpu.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::select_unpredictable;

use super::{Bound, Cost, Entry};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::{Hint, Keyed, Place, Sorted};
use crate::turns::Payment;
use crate::virtual_time::{Clock, Estimate, Meter, Tag};

pub(super) const ENTRY: Entry = Entry {
    name: "vtrr",
    title: "Virtual-time round robin",
    paper: "Nieh, Vaill, Zhong 2001, section 3",
    bound: Bound {
        text: "e = 0 after every Φ quanta; no constant in between",
        lower: None,
        upper: None,
        exact_each_cycle: true,
    },
    cost: Cost { pick: "1", insert: "log N", remove: "log N" },
    multiprocessor: false,
    work_conserving: true,
    by_weight: true,
    payment: Payment::turns(3),
    options: &[],
    build: |setup, _| Ok(Box::new(Vtrr::new(setup))),
};

/// A task in the queue: all that a decision reads of it, half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Client {
    /// Virtual time: the paper's VFT less Q/φ.
    time: Meter,
    /// The cycle that `counter` belongs to; if it is over, the counter stands for the share.
    cycle: u64,
    /// Quanta due to the task before the cycle ends; at most its share.
    counter: u32,
    /// φ; 0 where there is no task.
    weight: u32,
    task: TaskId,
}

impl Client {
    #[inline]
    fn counter_in(&self, cycle: u64) -> u32 {
        if self.cycle == cycle { self.counter } else { self.weight }
    }

    #[inline]
    fn enter_cycle(&mut self, cycle: u64) {
        if self.cycle != cycle {
            self.cycle = cycle;
            self.counter = self.weight;
        }
    }
}

impl Default for Client {
    fn default() -> Client {
        Client { time: Meter::default(), cycle: 0, counter: 0, weight: 0, task: TaskId(0) }
    }
}

/// Decreasing share, then id.
type Key = (core::cmp::Reverse<u32>, TaskId);

impl Keyed for Client {
    type Key = Key;

    #[inline]
    fn key(&self) -> Key {
        (core::cmp::Reverse(self.weight), self.task)
    }
}

/// What is kept of a task beside its place in the queue.
#[derive(Clone, Copy, Debug)]
struct Known {
    queued: bool,
    hint: Hint,
    weight: Weight,
    /// What the task left the queue with: its virtual time, and its counter in which cycle.
    tag: Tag,
    counter: u32,
    cycle: u64,
}

impl Known {
    fn key(&self, task: TaskId) -> Key {
        (core::cmp::Reverse(self.weight.get()), task)
    }
}

/// Where the walk along the queue stands.
#[derive(Clone, Copy, Debug)]
enum Walk {
    /// Before the first task.
    Start,
    /// At the task that was picked last, which is at `at`.
    On,
    /// Behind the place in the order that the task picked last has or had, and its counter since
    /// that pick: the queue changed.
    Behind(Key, u32),
}

/// VTRR. See the [module documentation](self).
///
/// A pick charges the whole quantum at once; what is not used is given back by `charge`, and all of
/// it before anything else looks at virtual times.
#[derive(Clone, Debug)]
pub struct Vtrr {
    /// Waiting tasks and the running one; counters never increase along it, except that the
    /// successor of the task picked last may exceed it by one.
    queue: Sorted<Client>,
    /// While the walk is on the queue, where the task picked last is; else no place.
    at: Place,
    /// Σ counters of the queue; at 0, the next pick starts a cycle.
    left_in_cycle: u64,
    cycle: u64,
    quantum_ns: Nanos,
    /// What the running task and the clock were charged in advance; 0 if nothing.
    prepaid_ns: Nanos,
    /// While the walk is on the queue: `soon`, up to date, to within one unit.
    estimate: Estimate,
    walk: Walk,
    /// QVT one quantum from now, which is what decisions need, and Φ: as of the pick when the
    /// counters' sum was `left_then`, since then a quantum a pick has passed.
    soon: Clock,
    left_then: u64,
    tasks: Vec<Known>,
}

impl Vtrr {
    /// VTRR over no tasks.
    #[must_use]
    pub fn new(setup: &Setup) -> Vtrr {
        Vtrr {
            queue: Sorted::default(),
            at: Place::NONE,
            left_in_cycle: 0,
            cycle: 1,
            quantum_ns: setup.quantum_ns,
            prepaid_ns: 0,
            estimate: Estimate::default(),
            walk: Walk::Start,
            soon: Clock::new(setup.quantum_ns),
            left_then: 0,
            tasks: Vec::new(),
        }
    }

    /// Runs the next task if it plainly is due: what most decisions are. Otherwise nothing happens.
    #[inline(always)]
    fn walk_on(&mut self) -> Option<TaskId> {
        let (current, client, next) = self.queue.pair(self.at)?;
        client.enter_cycle(self.cycle);
        // Which of the two rules holds is as good as random: one branch for both.
        let is_behind = self.estimate.has_passed(client.time, client.weight);
        let enough = select_unpredictable(is_behind, 0, current.counter);
        if client.counter <= enough {
            return None;
        }
        client.counter -= 1;
        client.time.advance(self.quantum_ns);
        let task = client.task;
        self.at = next;
        self.count();
        Some(task)
    }

    /// Runs the first task if the next one plainly is not due, which `walk_on` found it is not.
    #[inline]
    fn turn_back(&mut self) -> Option<TaskId> {
        let (_, client, _) = self.queue.pair(self.at)?;
        let is_last = client.weight == 0;
        if is_last || !self.estimate.has_not_reached(client.time, client.weight) {
            return None;
        }
        let first = self.queue.first().filter(|_| self.left_in_cycle > 0)?;
        Some(self.go_to(first))
    }

    #[inline(never)]
    fn pick_carefully(&mut self) -> Option<TaskId> {
        if let Some(task) = self.turn_back() {
            return Some(task);
        }
        if self.left_in_cycle == 0 {
            self.start_cycle();
        }
        let first = self.queue.first()?;
        let place = match self.next() {
            Some(next) if self.is_due(next) => next,
            _ => first,
        };
        if !matches!(self.walk, Walk::On) {
            self.walk = Walk::On;
            self.estimate = self.soon.estimate();
        }
        Some(self.go_to(place))
    }

    /// The task to look at next; `None` past the end of the queue, and at the start of a cycle.
    #[inline]
    fn next(&self) -> Option<Place> {
        match self.walk {
            Walk::On => self.queue.next(self.at),
            Walk::Start => None,
            Walk::Behind(key, _) => self.queue.after(key),
        }
    }

    /// The two rules by which the next task runs rather than the first.
    #[inline]
    fn is_due(&mut self, place: Place) -> bool {
        let client = self.queue[place];
        let counter = client.counter_in(self.cycle);
        let counter_before = match self.walk {
            Walk::On => self.queue[self.at].counter,
            Walk::Start => 0,
            Walk::Behind(_, counter) => counter,
        };
        counter > counter_before || counter > 0 && self.is_behind(&client)
    }

    /// True if the task's virtual time is below `soon`.
    fn is_behind(&mut self, client: &Client) -> bool {
        self.bring_up_to_date();
        let weight = Weight::new(client.weight).expect("a task's weight");
        self.soon.has_passed(self.soon.tag_of(client.time, weight))
    }

    /// The task at `place` runs.
    #[inline]
    fn go_to(&mut self, place: Place) -> TaskId {
        let client = &mut self.queue[place];
        client.enter_cycle(self.cycle);
        debug_assert!(client.counter > 0, "counters are in order, and one of them is not 0");
        client.counter -= 1;
        client.time.advance(self.quantum_ns);
        let task = client.task;
        self.at = place;
        self.count();
        task
    }

    /// A task was picked: a quantum of the cycle and of time.
    #[inline(always)]
    fn count(&mut self) {
        self.left_in_cycle -= 1;
        self.estimate.tick();
        self.prepaid_ns = self.quantum_ns;
    }

    /// All counters are 0: they become the shares.
    fn start_cycle(&mut self) {
        debug_assert_eq!(self.left_in_cycle, 0);
        self.bring_up_to_date();
        self.cycle += 1;
        self.left_in_cycle = self.soon.total_weight();
        self.left_then = self.left_in_cycle;
        self.go_off(Walk::Start);
    }

    /// Lets the quanta pass in `soon` that were picked since.
    fn bring_up_to_date(&mut self) {
        if self.left_then > self.left_in_cycle {
            self.soon.advance_quanta(self.left_then - self.left_in_cycle);
            self.left_then = self.left_in_cycle;
        }
    }

    /// Gives back what was charged in advance; `soon` is up to date then.
    fn give_back(&mut self) {
        self.bring_up_to_date();
        if self.prepaid_ns > 0 {
            let client = &mut self.queue[self.at];
            client.time.take_back(self.prepaid_ns);
            self.soon = self.soon.before(self.prepaid_ns);
            self.prepaid_ns = 0;
        }
    }

    #[cold]
    #[inline(never)]
    fn charge_carefully(&mut self, task: TaskId, used_ns: Nanos) {
        self.give_back();
        self.soon.advance(used_ns);
        let place = match self.walk {
            Walk::On => self.at,
            Walk::Start | Walk::Behind(..) => self.find(task),
        };
        self.estimate = self.soon.estimate();
        let client = &mut self.queue[place];
        debug_assert_eq!(client.task, task);
        client.time.advance(used_ns);
    }

    /// QVT, with everything given back that was charged in advance.
    fn now(&mut self) -> Clock {
        self.give_back();
        if self.queue.is_empty() { self.soon } else { self.soon.before(self.quantum_ns) }
    }

    /// QVT is `now`, with another Φ than before.
    fn set_now(&mut self, now: Clock) {
        self.soon = now;
        if now.total_weight() > 0 {
            self.soon.advance(self.quantum_ns);
        }
    }

    /// Puts `task` in, with the counter that equation 9 gives it; no more than `most`.
    fn enqueue(&mut self, task: TaskId, most: u32) {
        let mut now = self.now();
        let Known { weight, tag, hint, .. } = self.tasks[task.index()];
        let counter = if self.queue.is_empty() {
            self.cycle += 1;
            weight.get()
        } else {
            let share = u128::from(weight.get()) * u128::from(self.left_in_cycle);
            let share = share / u128::from(now.total_weight());
            u32::try_from(share).expect("counters are at most shares").min(most)
        };
        self.leave_place();
        let (time, cycle) = (tag.meter(), self.cycle);
        let client = Client { time, cycle, counter, weight: weight.get(), task };
        let place = self.queue.insert(client, hint);
        let counter = self.between_neighbours(place);
        self.queue[place].counter = counter;
        self.left_in_cycle += u64::from(counter);
        self.left_then = self.left_in_cycle;
        now.join(weight);
        self.set_now(now);
        self.tasks[task.index()].queued = true;
    }

    /// The counter of the task at `place`, clamped between those of its neighbours. They may be out
    /// of order by one where the walk stands; then the task joins the side that it is on, since the
    /// next pick puts the other in order.
    fn between_neighbours(&self, place: Place) -> u32 {
        let counter = |place| self.queue[place].counter_in(self.cycle);
        let most = self.queue.previous(place).map_or(u32::MAX, counter);
        let least = self.queue.next(place).map_or(0, counter);
        if most >= least {
            return counter(place).clamp(least, most);
        }
        match self.walk {
            Walk::Behind(key, _) if self.queue[place].key() > key => least,
            _ => most,
        }
    }

    /// Takes `task` out, if it is in.
    fn dequeue(&mut self, task: TaskId) {
        let known = self.tasks[task.index()];
        if !known.queued {
            return;
        }
        let mut now = self.now();
        self.leave_place();
        let (client, hint) = self.queue.remove(known.key(task)).expect("it is queued");
        let tag = now.tag_of(client.time, known.weight);
        let counter = client.counter_in(self.cycle);
        now.leave(known.weight);
        self.set_now(now);
        self.left_in_cycle -= u64::from(counter);
        self.left_then = self.left_in_cycle;
        self.tasks[task.index()] =
            Known { queued: false, hint, tag, counter, cycle: self.cycle, ..known };
    }

    /// The queue is about to change: places become meaningless.
    fn leave_place(&mut self) {
        if let Walk::On = self.walk {
            let client = &self.queue[self.at];
            self.go_off(Walk::Behind(client.key(), client.counter));
        }
    }

    fn go_off(&mut self, walk: Walk) {
        self.walk = walk;
        self.at = Place::NONE;
    }

    /// The place of a task that is in the queue.
    fn find(&self, task: TaskId) -> Place {
        self.queue.find(self.tasks[task.index()].key(task)).expect("it is queued")
    }
}

impl Policy for Vtrr {
    fn add(&mut self, task: TaskId, weight: Weight) {
        let tag = Tag::zero(weight);
        let known = Known { queued: false, hint: Hint::NONE, weight, tag, counter: 0, cycle: 0 };
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, known);
            self.queue.reserve(self.tasks.len());
        }
        self.tasks[task.index()] = known;
    }

    fn remove(&mut self, task: TaskId, _now_ns: Nanos) {
        self.dequeue(task);
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, _now_ns: Nanos) {
        let was_queued = self.tasks[task.index()].queued;
        self.dequeue(task);
        let tag = self.now().reweigh(self.tasks[task.index()].tag, weight);
        let known = &mut self.tasks[task.index()];
        // What was left of another weight says nothing: of a weight of 1, it may be nothing.
        *known = Known { weight, tag, hint: Hint::NONE, cycle: 0, ..*known };
        if was_queued {
            self.enqueue(task, weight.get());
        }
    }

    fn wake(&mut self, task: TaskId, _now_ns: Nanos) {
        let now = self.now();
        let known = &mut self.tasks[task.index()];
        known.tag = known.tag.max(now.tag(known.weight));
        let is_current = known.cycle == self.cycle;
        let most = if is_current { known.counter } else { known.weight.get() };
        self.enqueue(task, most);
    }

    fn block(&mut self, task: TaskId, _now_ns: Nanos) {
        self.dequeue(task);
    }

    #[inline(always)]
    fn pick(&mut self, _cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        match self.walk_on() {
            Some(task) => Some(task),
            None => self.pick_carefully(),
        }
    }

    #[inline]
    fn charge(&mut self, task: TaskId, used_ns: Nanos, _now_ns: Nanos) {
        if used_ns == self.prepaid_ns {
            self.prepaid_ns = 0;
        } else {
            self.charge_carefully(task, used_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Counters never increase along the queue, except behind the task picked last; sums are sums.
    fn check(policy: &Vtrr) {
        let clients: Vec<&Client> = policy.queue.iter().collect();
        let counter = |client: &Client| client.counter_in(policy.cycle);
        let sum: u64 = clients.iter().map(|client| u64::from(counter(client))).sum();
        assert_eq!(policy.left_in_cycle, sum);
        let total: u64 = clients.iter().map(|client| u64::from(client.weight)).sum();
        assert_eq!(policy.soon.total_weight(), total);
        let current = match policy.walk {
            Walk::On => Some(policy.queue[policy.at].key()),
            Walk::Behind(key, _) => Some(key),
            Walk::Start => None,
        };
        for pair in clients.windows(2) {
            assert!(pair[0].key() < pair[1].key());
            let is_there = |key| pair[0].key() <= key && key < pair[1].key();
            let may_exceed = u32::from(current.is_some_and(is_there));
            assert!(counter(pair[1]) <= counter(pair[0]) + may_exceed, "{pair:?}");
        }
    }

    /// It had all that its weight of 1 was due in the cycle, which lasts for 2,500 quanta.
    #[test]
    fn a_task_whose_weight_was_small_while_it_slept_is_due_by_its_weight_again() {
        let (mut policy, light) = (Vtrr::new(&Setup::new(1, 1000)), TaskId(2));
        let weigh = |weight| Weight::new(weight).expect("not 0");
        let picks = |policy: &mut Vtrr, quanta: u32| {
            let mut pick = || {
                let task = policy.pick(0, 0).expect("two tasks are runnable");
                policy.charge(task, 1000, 0);
                task
            };
            (0..quanta).filter(|_| pick() == light).count()
        };
        for (task, weight) in [(TaskId(0), 1000), (TaskId(1), 1000), (light, 1)] {
            policy.add(task, weigh(weight));
            policy.wake(task, 0);
        }
        assert_eq!(picks(&mut policy, 3), 1);
        policy.block(light, 0);
        policy.set_weight(light, weigh(500), 0);
        policy.wake(light, 0);
        assert_eq!(picks(&mut policy, 100), 20);
    }

    proptest! {
        #[test]
        fn counters_keep_their_order_whatever_happens(
            weights in proptest::collection::vec(1u32..50, 1..20),
            steps in proptest::collection::vec((0u8..10, any::<u8>(), 1u32..50), 1..300),
        ) {
            let mut policy = Vtrr::new(&Setup::new(1, 1000));
            let mut runnable = alloc::vec![false; weights.len()];
            for (id, &weight) in (0..).zip(&weights) {
                policy.add(TaskId(id), Weight::new(weight).expect("not 0"));
            }
            let mut running = None;
            for (verb, noise, weight) in steps {
                let at = usize::from(noise) % weights.len();
                let task = TaskId(u32::try_from(at).expect("small"));
                match verb {
                    0 | 1 if !runnable[at] => policy.wake(task, 0),
                    0 if running != Some(task) => policy.block(task, 0),
                    2 => {
                        policy.set_weight(task, Weight::new(weight).expect("not 0"), 0);
                        check(&policy);
                        continue;
                    }
                    _ => {
                        if let Some(task) = running.take() {
                            policy.charge(task, if verb < 5 { 300 } else { 1000 }, 0);
                            check(&policy);
                        }
                        running = policy.pick(0, 0);
                        prop_assert_eq!(running.is_some(), runnable.contains(&true));
                        continue;
                    }
                }
                runnable[at] ^= true;
                check(&policy);
            }
        }
    }
}

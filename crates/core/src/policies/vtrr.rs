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
//! *Arithmetic.* Virtual times are exact tags, compared exactly. A task that blocks within its
//! quantum loses a whole count, but its virtual time moves by what it used.
//!
//! *Cost.* O(1) per decision, also at the end of a cycle: a counter carries the number of the cycle
//! it belongs to, and an older one stands for the share. Insertion and removal O(log N): the queue
//! is [`Sorted`] rather than the paper's list, which needs a search in O(N), or one queue per share
//! value. The paper's memory of a task's neighbours is here the memory of the block of neighbours
//! that it left, which saves the search if it still fits.
//!
//! *Deviations and limits.* A counter of 0 excludes a task from rule 2: the paper's rules allow
//! that only for newcomers, whose floor would otherwise be ignored. One cpu.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Bound, Cost, Entry};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::{Hint, Keyed, Place, Sorted};
use crate::virtual_time::{Clock, Stride, Tag};

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
    options: &[],
    build: |setup, _| Ok(Box::new(Vtrr::new(setup))),
};

/// A task in the queue.
#[derive(Clone, Copy, Debug)]
struct Client {
    /// Virtual time: the paper's VFT less Q/φ.
    tag: Tag,
    /// Q/φ.
    stride: Stride,
    /// The cycle that `counter` belongs to; if it is over, the counter stands for the share.
    cycle: u64,
    /// Quanta due to the task before the cycle ends; at most its share.
    counter: u32,
    task: TaskId,
}

impl Client {
    fn new(task: TaskId, weight: Weight, quantum_ns: Nanos) -> Client {
        let stride = Stride::new(quantum_ns, weight);
        Client { tag: Tag::zero(weight), stride, cycle: 0, counter: 0, task }
    }

    #[inline]
    fn counter_in(&self, cycle: u64) -> u32 {
        if self.cycle == cycle { self.counter } else { self.tag.weight().get() }
    }
}

impl Default for Client {
    fn default() -> Client {
        Client::new(TaskId(0), Weight::ONE, 0)
    }
}

/// Decreasing share, then id.
type Key = (core::cmp::Reverse<Weight>, TaskId);

impl Keyed for Client {
    type Key = Key;

    #[inline]
    fn key(&self) -> Key {
        (core::cmp::Reverse(self.tag.weight()), self.task)
    }
}

#[derive(Clone, Copy, Debug)]
struct Known {
    /// The task as it is out of the queue; in the queue, its key and the last cycle it began in.
    client: Client,
    queued: bool,
    hint: Hint,
}

/// Where the walk along the queue stands.
#[derive(Clone, Copy, Debug)]
enum Walk {
    /// Before the first task.
    Start,
    /// At the task that was picked last.
    At(Place),
    /// Behind the place in the order that the task picked last has or had: the queue changed.
    Behind(Key),
}

/// VTRR. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Vtrr {
    quantum_ns: Nanos,
    /// Waiting tasks and the running one; counters never increase along it, except that the
    /// successor of the task picked last may exceed it by one.
    queue: Sorted<Client>,
    tasks: Vec<Known>,
    /// QVT one quantum from now, which is what decisions need, and Φ.
    soon: Clock,
    /// Σ counters of the queue; at 0, the next pick starts a cycle.
    left_in_cycle: u64,
    cycle: u64,
    walk: Walk,
    /// The counter of the task picked last, less the quantum that it was picked for.
    counter: u32,
}

impl Vtrr {
    /// VTRR over no tasks.
    #[must_use]
    pub fn new(setup: &Setup) -> Vtrr {
        Vtrr {
            quantum_ns: setup.quantum_ns,
            queue: Sorted::default(),
            tasks: Vec::new(),
            soon: Clock::new(setup.quantum_ns),
            left_in_cycle: 0,
            cycle: 1,
            walk: Walk::Start,
            counter: 0,
        }
    }

    /// The task to look at next; `None` past the end of the queue, and at the start of a cycle.
    #[inline]
    fn next(&self) -> Option<Place> {
        match self.walk {
            Walk::At(place) => self.queue.next(place),
            Walk::Start => None,
            Walk::Behind(key) => self.queue.after(key),
        }
    }

    /// The task that runs next, if that is plain to see: what most decisions are.
    #[inline]
    fn plain_next(&self) -> Option<Place> {
        let Walk::At(place) = self.walk else { return None };
        let next = self.queue.next_beside(place)?;
        let client = &self.queue[next];
        let counter = client.counter_in(self.cycle);
        let is_behind = self.soon.has_plainly_passed(client.tag)?;
        let is_due = counter > self.counter || counter > 0 && is_behind;
        if is_due { Some(next) } else { self.queue.first().filter(|_| self.left_in_cycle > 0) }
    }

    #[cold]
    #[inline(never)]
    fn pick_carefully(&mut self) -> Option<TaskId> {
        if self.left_in_cycle == 0 {
            self.start_cycle();
        }
        let place = match self.next() {
            Some(next) if self.is_due(next) => next,
            _ => self.queue.first()?,
        };
        Some(self.go_to(place))
    }

    /// The task at `place` runs: one of the quanta that are due to it in this cycle.
    #[inline]
    fn go_to(&mut self, place: Place) -> TaskId {
        let client = &mut self.queue[place];
        let due = client.counter_in(self.cycle);
        debug_assert!(due > 0, "counters are in order, and one of them is not 0");
        client.counter = due - 1;
        client.cycle = self.cycle;
        self.counter = client.counter;
        self.left_in_cycle -= 1;
        self.walk = Walk::At(place);
        client.task
    }

    #[cold]
    #[inline(never)]
    fn charge_carefully(&mut self, task: TaskId, used_ns: Nanos) {
        let place = match self.walk {
            Walk::At(place) => place,
            Walk::Start | Walk::Behind(_) => self.find(task),
        };
        self.soon.advance(used_ns);
        let client = &mut self.queue[place];
        client.tag = client.tag.after(used_ns);
    }

    /// The two rules by which the next task runs rather than the first.
    #[inline]
    fn is_due(&self, place: Place) -> bool {
        let client = &self.queue[place];
        let counter = client.counter_in(self.cycle);
        counter > self.counter || counter > 0 && self.soon.has_passed(client.tag)
    }

    /// All counters are 0: they become the shares.
    fn start_cycle(&mut self) {
        debug_assert_eq!(self.left_in_cycle, 0);
        self.cycle += 1;
        self.left_in_cycle = self.soon.total_weight();
        self.walk = Walk::Start;
    }

    /// QVT.
    fn now(&self) -> Clock {
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
        let Known { mut client, hint, .. } = self.tasks[task.index()];
        let weight = client.tag.weight();
        if self.queue.is_empty() {
            self.cycle += 1;
            client.counter = weight.get();
        } else {
            let share = u128::from(weight.get()) * u128::from(self.left_in_cycle);
            let share = share / u128::from(now.total_weight());
            client.counter = u32::try_from(share).expect("counters are at most shares").min(most);
        }
        client.cycle = self.cycle;
        self.leave_place();
        let place = self.queue.insert(client, hint);
        let counter = self.between_neighbours(place);
        self.queue[place].counter = counter;
        self.left_in_cycle += u64::from(counter);
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
            Walk::Behind(key) if self.queue[place].key() > key => least,
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
        let (mut client, hint) = self.queue.remove(known.client.key()).expect("it is queued");
        client.counter = client.counter_in(self.cycle);
        client.cycle = self.cycle;
        now.leave(client.tag.weight());
        self.set_now(now);
        self.left_in_cycle -= u64::from(client.counter);
        self.tasks[task.index()] = Known { client, queued: false, hint };
    }

    /// The queue is about to change: places become meaningless.
    fn leave_place(&mut self) {
        if let Walk::At(place) = self.walk {
            self.walk = Walk::Behind(self.queue[place].key());
        }
    }

    /// The place of a task that is in the queue.
    fn find(&self, task: TaskId) -> Place {
        self.queue.find(self.tasks[task.index()].client.key()).expect("it is queued")
    }
}

impl Policy for Vtrr {
    fn add(&mut self, task: TaskId, weight: Weight) {
        let client = Client::new(task, weight, self.quantum_ns);
        let known = Known { client, queued: false, hint: Hint::NONE };
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
        let tag = self.now().reweigh(self.tasks[task.index()].client.tag, weight);
        let stride = Stride::new(self.quantum_ns, weight);
        let known = &mut self.tasks[task.index()];
        known.client = Client { tag, stride, ..known.client };
        known.hint = Hint::NONE;
        if was_queued {
            self.enqueue(task, weight.get());
        }
    }

    fn wake(&mut self, task: TaskId, _now_ns: Nanos) {
        let now = self.now();
        let known = &mut self.tasks[task.index()];
        let weight = known.client.tag.weight();
        known.client.tag = known.client.tag.max(now.tag(weight));
        let most = known.client.counter_in(self.cycle);
        self.enqueue(task, most);
    }

    fn block(&mut self, task: TaskId, _now_ns: Nanos) {
        self.dequeue(task);
    }

    #[inline]
    fn pick(&mut self, _cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        match self.plain_next() {
            Some(place) => Some(self.go_to(place)),
            None => self.pick_carefully(),
        }
    }

    #[inline]
    fn charge(&mut self, task: TaskId, used_ns: Nanos, _now_ns: Nanos) {
        match self.walk {
            Walk::At(place) if used_ns == self.quantum_ns => {
                self.soon.advance_quantum();
                let client = &mut self.queue[place];
                debug_assert_eq!(client.task, task);
                client.tag = client.tag.later_by(client.stride);
            }
            _ => self.charge_carefully(task, used_ns),
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
        let total: u64 = clients.iter().map(|client| u64::from(client.tag.weight().get())).sum();
        assert_eq!(policy.soon.total_weight(), total);
        let current = match policy.walk {
            Walk::At(place) => Some(policy.queue[place].key()),
            Walk::Behind(key) => Some(key),
            Walk::Start => None,
        };
        for pair in clients.windows(2) {
            assert!(pair[0].key() < pair[1].key());
            let is_there = |key| pair[0].key() <= key && key < pair[1].key();
            let may_exceed = u32::from(current.is_some_and(is_there));
            assert!(counter(pair[1]) <= counter(pair[0]) + may_exceed, "{pair:?}");
        }
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

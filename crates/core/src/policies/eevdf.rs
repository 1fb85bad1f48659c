//! Earliest eligible virtual deadline first (Stoica, Abdel-Wahab, Jeffay, Baruah, Gehrke, Plaxton,
//! RTSS 1996), as Linux has it since 6.6: what users have now.
//!
//! *How.* A task's virtual runtime S moves by used/φ. The queue's virtual time V is the mean of the
//! runtimes, weighted by φ; φ·(V − S) is the task's *lag*, the service that it is owed. A task asks for
//! a *slice* at a time, with the virtual deadline D = S + slice/φ, renewed when S reaches it. Of the
//! *eligible* tasks (S ≤ V: lag not negative) the one of least D runs.
//!
//! *Why it is right.* Lags add up to 0, so somebody is eligible; a task that is picked is not ahead,
//! hence e ≤ 1 − φ/Φ. With slices of one quantum the rest is as in WF²Q, with the mean for a clock:
//! −1 ≤ e. A short slice gives an earlier deadline, not more service: the point of EEVDF for latency.
//!
//! *Bound.* Fixed set: e ≤ 1 − φ/Φ, and e = 0 after every Φ quanta. The lower bound, −1, is lost by
//! what Linux does to new tasks: half a slice first (`PLACE_DEADLINE_INITIAL`). When many of them start
//! together, their deadlines all fall due twice as early as they can be met, and whoever is among them
//! waits: a task of weight N/9 among N new ones of weight 1 falls 4.5 quanta behind for N = 90 and 450
//! for N = 9000. `initial=full` keeps the bound; the conformance suite tests both.
//!
//! *Joining and leaving*, where Linux goes its own way. A task that leaves with lag ℓ takes it along,
//! clamped to two slices either way, and comes back with it: S = V − ℓ'/φ where ℓ' = ℓ·(Φ + φ)/Φ, Φ
//! without the task, since adding the task moves V by just as much. A task that blocks while it is ahead
//! (ℓ < 0) is *not* dequeued: it stays, and competes with V like the others, until it would be picked;
//! then it leaves with lag 0. So a debt is worked off in virtual time, not by sleeping in real time
//! (`DELAY_DEQUEUE`, `DELAY_ZERO`). A new task starts with lag 0. A new weight keeps lag and scales
//! D − S (`reweight_entity`).
//!
//! *Deviations.* Exact: V is the fraction Σφ·S/Σφ of whole nanoseconds of service, where Linux
//! divides in fixed point. A decision is made once a quantum and takes the best task then; Linux lets
//! the current task finish its slice unless wake-up preemption says otherwise (`RUN_TO_PARITY`). One
//! queue for one cpu, without load balancing and without the group hierarchy: `linux-6.18` and `linux-7.3`
//! ([`linux_eevdf`](super::linux_eevdf)) have these.
//!
//! *Cost*: O(log N); two heaps (eligible tasks by D, the others by S) instead of an augmented tree. V
//! seldom goes back, only when a task leaves; tasks that it leaves behind are found when they come up.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Bound, Cost, Entry, Ratio};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::Heap;
use crate::turns::Payment;
use crate::virtual_time::{Mean, Tag};

pub(super) const ENTRY: Entry = Entry {
    name: "eevdf",
    title: "Earliest eligible virtual deadline first (EEVDF, as in Linux)",
    paper: "Stoica et al. 1996, sections 3 and 4; kernel/sched/fair.c since Linux 6.6",
    bound: Bound {
        text: "e ≤ 1 − φ/Φ; −1 ≤ e with initial=full",
        lower: None,
        upper: Some(|set, task| Ratio {
            numerator: i128::from(set.total_weight() - set.weight(task)),
            denominator: i128::from(set.total_weight()),
        }),
        exact_each_cycle: true,
    },
    cost: Cost { pick: "log N", insert: "log N", remove: "log N" },
    multiprocessor: false,
    work_conserving: true,
    by_weight: true,
    payment: Payment::USE,
    options: &[
        ("slice", "1", "length of a slice in quanta, 1 to 1000"),
        ("initial", "half", "first slice of a new task: half (Linux) or full"),
    ],
    build: |setup, options| {
        let slice = options.number("slice", 1..=1000u64, 1)?;
        let halves = options.choice("initial", &[("half", true), ("full", false)])?;
        Ok(Box::new(Eevdf::new(setup, slice, halves)))
    },
};

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Absent,
    Runnable,
    /// Blocked, but kept in the queue to work off its debt.
    Delayed,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    /// S.
    runtime: Tag,
    /// D.
    deadline: Tag,
    /// While it is absent: φ·(V − S) when it left, in ns of service.
    lag_ns: i64,
    state: State,
    is_new: bool,
}

/// EEVDF. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Eevdf {
    slice_ns: Nanos,
    /// What a new task asks for first.
    initial_ns: Nanos,
    /// V, over the runnable tasks and the delayed ones.
    mean: Mean,
    /// Tasks in the queue that were eligible when they were put here, by deadline.
    eligible: Heap<Tag>,
    /// The others, by virtual runtime.
    ahead: Heap<Tag>,
    tasks: Vec<Task>,
}

impl Eevdf {
    /// EEVDF over no tasks, with slices of `slice` quanta, the first of a task perhaps halved.
    #[must_use]
    pub fn new(setup: &Setup, slice: u64, halves_first: bool) -> Eevdf {
        let slice_ns = setup.quantum_ns.saturating_mul(slice);
        Eevdf {
            slice_ns,
            initial_ns: if halves_first { slice_ns.div_ceil(2) } else { slice_ns },
            mean: Mean::default(),
            eligible: Heap::default(),
            ahead: Heap::default(),
            tasks: Vec::new(),
        }
    }

    fn dequeue(&mut self, task: TaskId) -> bool {
        self.eligible.remove(task).is_some() || self.ahead.remove(task).is_some()
    }

    /// `task` leaves V with its lag, which is clamped to two slices.
    fn depart(&mut self, task: TaskId) {
        let known = &mut self.tasks[task.index()];
        let most = i128::from(self.slice_ns) * 2;
        let lag_ns = (-self.mean.ahead_ns(known.runtime)).clamp(-most, most);
        // DELAY_ZERO: what stayed behind to work off its debt has worked it off.
        let lag_ns = if known.state == State::Delayed { lag_ns.min(0) } else { lag_ns };
        known.lag_ns = i64::try_from(lag_ns).unwrap_or(i64::MAX);
        known.state = State::Absent;
        self.mean.leave(known.runtime);
        self.dequeue(task);
    }

    /// `task` enters V with the lag that it left with.
    fn place(&mut self, task: TaskId) {
        let known = &mut self.tasks[task.index()];
        let weight = known.runtime.weight();
        let lag_ns = self.mean.inflate(i128::from(known.lag_ns), weight);
        known.runtime = self.mean.tag_ahead(weight, -lag_ns);
        let slice_ns = if known.is_new { self.initial_ns } else { self.slice_ns };
        known.deadline = known.runtime.after(slice_ns);
        known.is_new = false;
        known.state = State::Runnable;
        self.mean.join(known.runtime);
        self.ahead.insert(task, known.runtime);
    }

    /// Moves the tasks that V has reached to the eligible ones.
    fn promote(&mut self) {
        while let Some((task, &runtime)) = self.ahead.peek() {
            if !self.mean.has_reached(runtime) {
                break;
            }
            self.ahead.pop();
            self.eligible.insert(task, self.tasks[task.index()].deadline);
        }
    }

    /// The eligible task of least deadline, in the queue.
    fn best(&mut self) -> Option<TaskId> {
        self.promote();
        while let Some((task, _)) = self.eligible.peek() {
            let runtime = self.tasks[task.index()].runtime;
            if self.mean.has_reached(runtime) {
                return Some(task);
            }
            // V went back since.
            self.eligible.pop();
            self.ahead.insert(task, runtime);
        }
        None
    }
}

impl Policy for Eevdf {
    fn add(&mut self, task: TaskId, weight: Weight) {
        let zero = Tag::zero(weight);
        let new =
            Task { runtime: zero, deadline: zero, lag_ns: 0, state: State::Absent, is_new: true };
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, new);
            self.eligible.reserve(self.tasks.len());
            self.ahead.reserve(self.tasks.len());
        }
        self.tasks[task.index()] = new;
    }

    fn remove(&mut self, task: TaskId, _now_ns: Nanos) {
        if self.tasks[task.index()].state != State::Absent {
            self.depart(task);
        }
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, _now_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        let request_ns = known.deadline.service_since(known.runtime);
        if known.state == State::Absent {
            known.runtime = known.runtime.rounded_up(weight);
            known.deadline = known.runtime;
            return;
        }
        let ahead_ns = self.mean.ahead_ns(known.runtime);
        let moved = self.mean.tag_ahead(weight, ahead_ns);
        self.mean.leave(known.runtime);
        self.mean.join(moved);
        known.runtime = moved;
        known.deadline = moved.after(u64::try_from(request_ns).unwrap_or(0));
        if self.dequeue(task) {
            self.ahead.insert(task, moved);
        }
    }

    fn wake(&mut self, task: TaskId, _now_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        if known.state == State::Delayed {
            if !self.mean.has_reached(known.runtime) {
                known.state = State::Runnable;
                return;
            }
            // Its debt is worked off, and V has passed it since.
            self.depart(task);
        }
        self.place(task);
    }

    fn block(&mut self, task: TaskId, _now_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        if self.mean.has_reached(known.runtime) {
            self.depart(task);
        } else {
            known.state = State::Delayed;
        }
    }

    fn pick(&mut self, _cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        loop {
            let task = self.best()?;
            if self.tasks[task.index()].state == State::Runnable {
                self.dequeue(task);
                return Some(task);
            }
            self.depart(task);
        }
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, _now_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        known.runtime = known.runtime.after(used_ns);
        self.mean.advance(used_ns);
        if known.deadline <= known.runtime {
            known.deadline = known.runtime.after(self.slice_ns);
        }
        self.ahead.insert(task, known.runtime);
    }
}

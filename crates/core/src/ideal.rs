//! The yardstick: what every task would have received from the ideal machine, and how far a
//! policy strays from it.
//!
//! The ideal on one cpu is GPS (Parekh and Gallager): at every instant each runnable task receives
//! φ/Φ of the cpu, Φ the weight of all runnable tasks. On P cpus it is GMS (Chandra et al., SFS):
//! GPS after the weights were made feasible, since a task can use at most one cpu. If f tasks are
//! capped at a whole cpu, each other task receives φ·(P−f)/Φ_rest, Φ_rest the weight of those
//! others; with at most P runnable tasks everybody has a cpu.
//!
//! The *service error* of a task is e = w − (ideal service), in quanta or nanoseconds: positive
//! if it is ahead. It grows while the task runs and falls while it waits, so that its extremes lie
//! just after and just before the task's quanta: sampling there, and once for everybody at the
//! end, finds them exactly at O(1) per decision.
//!
//! * [`FixedErrors`]: tasks that are always runnable, whole quanta, exact integers.
//! * [`ServiceErrors`]: arrivals, departures, blocking, weight changes, any length of quantum.
//! * [`Measured`]: any [`Policy`] with its service errors beside it.

use alloc::vec::Vec;

use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::weights::{self, Cap, Classes, Search};

/// The ideal rates of a fixed set: task i receives `numerator[i] / denominator` of a cpu.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rates {
    /// One numerator a task, at most `denominator`: a task uses at most one cpu.
    pub numerator: Vec<u64>,
    /// The common denominator, at least 1.
    pub denominator: u64,
}

impl Rates {
    /// The rates of `weights` on `cpus` cpus, all of them runnable.
    #[must_use]
    pub fn new(weights: &[Weight], cpus: usize) -> Rates {
        if weights.len() <= cpus {
            return Rates { numerator: weights.iter().map(|_| 1).collect(), denominator: 1 };
        }
        let mut heaviest = weights.to_vec();
        heaviest.sort_unstable_by(|a, b| b.cmp(a));
        let total = weights.iter().map(|w| u64::from(w.get())).sum();
        let shared = Shared::new(weights::sorted(&heaviest, cpus), total, cpus);
        let rate = |w: &Weight| (u64::from(w.get()) * shared.cpus).min(shared.weight);
        Rates { numerator: weights.iter().map(rate).collect(), denominator: shared.weight }
    }
}

/// What the tasks that are not capped share: `cpus` cpus in proportion to their weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shared {
    cpus: u64,
    weight: u64,
}

impl Shared {
    /// Everybody has a cpu of his own.
    const NOTHING: Shared = Shared { cpus: 0, weight: 1 };

    fn new(cap: Cap, total_weight: u64, cpus: usize) -> Shared {
        if cap == Cap::NONE {
            return Shared { cpus: cpus as u64, weight: total_weight };
        }
        let (weight, cpus) = cap.fraction();
        Shared { cpus: u64::from(cpus), weight }
    }
}

/// The least and the greatest service error of a task so far. Every task starts at 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extremes<E> {
    /// The furthest that the task was behind the ideal (negative).
    pub min: E,
    /// The furthest that the task was ahead of the ideal.
    pub max: E,
}

impl<E: Ord + Copy> Extremes<E> {
    /// Takes in one more error.
    pub fn sample(&mut self, error: E) {
        self.min = self.min.min(error);
        self.max = self.max.max(error);
    }

    /// The extremes of both.
    #[must_use]
    pub fn merge(self, other: Extremes<E>) -> Extremes<E> {
        Extremes { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct FixedTask {
    /// Quanta received.
    service: u64,
    /// In quanta × denominator of the rates.
    extremes: Extremes<i128>,
}

/// Service errors of a fixed set that runs whole quanta in step on all cpus, in exact integers:
/// every error is an integer once multiplied by [`FixedErrors::denominator`].
#[derive(Clone, Debug)]
pub struct FixedErrors {
    rates: Rates,
    tasks: Vec<FixedTask>,
    /// Quanta that have passed on every cpu.
    quanta: u64,
}

impl FixedErrors {
    /// Tasks 0, 1, … with `weights` on `cpus` cpus; no quantum has passed.
    #[must_use]
    pub fn new(weights: &[Weight], cpus: usize) -> FixedErrors {
        let tasks = alloc::vec![FixedTask::default(); weights.len()];
        FixedErrors { rates: Rates::new(weights, cpus), tasks, quanta: 0 }
    }

    /// `task` runs during the coming quantum: samples its error before and after it.
    pub fn runs(&mut self, task: TaskId) {
        let before = self.error(task);
        let rate = self.rates.numerator[task.index()];
        let after = before + i128::from(self.rates.denominator) - i128::from(rate);
        let task = &mut self.tasks[task.index()];
        task.service += 1;
        task.extremes.sample(before);
        task.extremes.sample(after);
    }

    /// The quantum has passed on every cpu.
    pub fn end_quantum(&mut self) {
        self.quanta += 1;
    }

    /// Brings the extremes of every task up to date.
    pub fn finish(&mut self) {
        for i in 0..self.tasks.len() {
            let error = self.error_at(i);
            self.tasks[i].extremes.sample(error);
        }
    }

    /// The error of `task` now, in quanta × [`Self::denominator`].
    #[must_use]
    pub fn error(&self, task: TaskId) -> i128 {
        self.error_at(task.index())
    }

    fn error_at(&self, i: usize) -> i128 {
        let received = i128::from(self.tasks[i].service) * i128::from(self.rates.denominator);
        received - i128::from(self.quanta) * i128::from(self.rates.numerator[i])
    }

    /// The extremes of `task`, in quanta × [`Self::denominator`].
    #[must_use]
    pub fn extremes(&self, task: TaskId) -> Extremes<i128> {
        self.tasks[task.index()].extremes
    }

    /// The quanta that `task` has received.
    #[must_use]
    pub fn service(&self, task: TaskId) -> u64 {
        self.tasks[task.index()].service
    }

    /// What errors are multiplied with.
    #[must_use]
    pub fn denominator(&self) -> u64 {
        self.rates.denominator
    }

    /// An error as a number of quanta, for reports.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn in_quanta(&self, error: i128) -> f64 {
        error as f64 / self.rates.denominator as f64
    }
}

/// A service error in units of 2^−64 ns; positive if the task is ahead of the ideal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceError(pub(crate) i128);

impl ServiceError {
    /// An error of `ns` nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: i64) -> ServiceError {
        ServiceError((ns as i128) << 64)
    }

    /// In nanoseconds, rounded down.
    #[allow(clippy::cast_possible_truncation)] // errors are far below 2^63 ns
    pub(crate) const fn floor_ns(self) -> i64 {
        (self.0 >> 64) as i64
    }

    /// An error in units of 2^−64 ns.
    pub(crate) const fn from_raw(error: i128) -> ServiceError {
        ServiceError(error)
    }

    /// In units of 2^−20 ns, rounded: far above what the arithmetic of [`ServiceErrors`] loses.
    const fn rounded(self) -> i128 {
        const DROPPED: u32 = 64 - 20;
        (self.0 + (1 << (DROPPED - 1))) >> DROPPED
    }

    /// To the nearest nanosecond, and up from the middle, of what it is in [`in_ns`](Self::in_ns).
    pub(crate) const fn nearest_ns(self) -> i128 {
        (self.rounded() + (1 << 19)) >> 20
    }

    /// In nanoseconds, rounded to 2^−20 ns, so that what is exactly 0 prints as 0.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn in_ns(self) -> f64 {
        self.rounded() as f64 / f64::from(1u32 << 20)
    }

    /// In quanta of `quantum_ns`.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn in_quanta(self, quantum_ns: Nanos) -> f64 {
        self.in_ns() / quantum_ns as f64
    }
}

/// How the error of a task moves with time; two bits beside its place in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Not runnable: e = line.
    Blocked = 0,
    /// Runnable, weight feasible: e = line − φ·V.
    Shared = 1,
    /// Runnable, capped at one cpu: e = line − now.
    Capped = 2,
}

/// V may fall below 0 when errors are shared; this and V does not.
const BIAS: u128 = 1 << 126;

const MODE_SHIFT: u32 = 30;
const PLACE_MASK: u32 = (1 << MODE_SHIFT) - 1;

/// Exactly a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Task {
    /// In units of 2^−64 ns, modulo 2^128: only e itself, a difference, needs to fit.
    line: i128,
    extremes: Extremes<ServiceError>,
    used_ns: Nanos,
    /// `None`: no such task.
    weight: Option<Weight>,
    /// The mode above [`MODE_SHIFT`], the index in its bucket below.
    mode_and_place: u32,
}

impl Task {
    const NONE: Task = Task {
        line: 0,
        extremes: Extremes { min: ServiceError(0), max: ServiceError(0) },
        used_ns: 0,
        weight: None,
        mode_and_place: 0,
    };

    fn mode(&self) -> Mode {
        match self.mode_and_place >> MODE_SHIFT {
            0 => Mode::Blocked,
            1 => Mode::Shared,
            _ => Mode::Capped,
        }
    }

    fn set_mode(&mut self, mode: Mode) {
        self.mode_and_place = self.place() | (mode as u32) << MODE_SHIFT;
    }

    fn place(&self) -> u32 {
        self.mode_and_place & PLACE_MASK
    }

    fn set_place(&mut self, place: u32) {
        debug_assert!(place <= PLACE_MASK);
        self.mode_and_place = (self.mode_and_place & !PLACE_MASK) | place;
    }

    fn weight(&self) -> Weight {
        self.weight.expect("the task was added")
    }

    fn order(&self) -> usize {
        self.weight().order() as usize
    }

    /// Its error at `now_ns`, when V is `virtual_now`.
    #[inline]
    #[allow(clippy::cast_possible_wrap)]
    fn error(&self, now_ns: Nanos, virtual_now: u128) -> ServiceError {
        let ideal = match self.mode() {
            Mode::Blocked => 0,
            Mode::Shared => virtual_now.wrapping_mul(u128::from(self.weight().get())) as i128,
            Mode::Capped => (u128::from(now_ns) << 64) as i128,
        };
        ServiceError(self.line.wrapping_sub(ideal))
    }
}

/// Service errors against GPS (one cpu) or GMS (several), integrated piecewise over the intervals
/// in which the runnable set and its weights are constant.
///
/// Virtual time V is what a feasible task has received per unit of weight; it is kept in 2^−64 ns
/// and rounded down once per change of the runnable set. Hence an error is too large by at most
/// φ·2^−64 ns for the reading and as much again for every change while the task was runnable: less
/// than 2^−32 ns each. Between changes nothing accumulates.
///
/// *Cost*: O(1) for a sample. O(1) for a change, plus O(P log P) while the heaviest runnable tasks
/// may be capped. 64 bytes a task, and 4 more while it is runnable on several cpus.
#[derive(Clone, Debug)]
pub struct ServiceErrors {
    cpus: usize,
    tasks: Vec<Task>,
    /// The runnable tasks by order of weight.
    classes: Classes,
    /// What feasible tasks share since `since_ns`.
    shared: Shared,
    /// The last change of the runnable set, and V at that time.
    since_ns: Nanos,
    virtual_since: u128,
    /// What errors those who are not capped were to share since.
    shared_ns: i64,
    /// The latest time asked for, and V at that time.
    now_ns: Nanos,
    virtual_now: u128,
    /// The members of the classes; kept only on several cpus.
    members: [Vec<TaskId>; 32],
    /// Every task whose mode is `Capped`.
    capped: Vec<TaskId>,
    /// Tasks whose mode has changed between `Shared` and `Capped`, if anybody asks.
    recapped: Option<Vec<TaskId>>,
    /// Scratch of `readjust`.
    weights: Vec<Weight>,
}

impl ServiceErrors {
    /// No tasks, at time 0.
    #[must_use]
    pub fn new(cpus: usize) -> ServiceErrors {
        ServiceErrors {
            cpus,
            tasks: Vec::new(),
            classes: Classes::default(),
            shared: Shared::NOTHING,
            since_ns: 0,
            virtual_since: 0,
            shared_ns: 0,
            now_ns: 0,
            virtual_now: 0,
            members: [const { Vec::new() }; 32],
            capped: Vec::new(),
            recapped: None,
            weights: Vec::new(),
        }
    }

    /// Makes room for tasks below `tasks`, so that no more than that is taken.
    pub fn reserve(&mut self, tasks: usize) {
        self.tasks.reserve_exact(tasks.saturating_sub(self.tasks.len()));
    }

    /// Makes `task` known, blocked; its error is 0, whatever a task of this id had before.
    pub fn add(&mut self, task: TaskId, weight: Weight) {
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, Task::NONE);
        }
        self.tasks[task.index()] = Task { weight: Some(weight), ..Task::NONE };
    }

    /// `task` leaves for good. Its service and extremes can be read until its id is added again.
    pub fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        if self.tasks[task.index()].mode() != Mode::Blocked {
            self.block(task, now_ns);
        }
    }

    /// `task` is runnable from now on.
    pub fn wake(&mut self, task: TaskId, now_ns: Nanos) {
        debug_assert_eq!(self.tasks[task.index()].mode(), Mode::Blocked, "{task:?} wakes");
        self.settle(now_ns);
        self.switch(task, Mode::Shared);
        self.enter(task);
        self.readjust();
    }

    /// `task` is not runnable any more.
    pub fn block(&mut self, task: TaskId, now_ns: Nanos) {
        debug_assert_ne!(self.tasks[task.index()].mode(), Mode::Blocked, "{task:?} blocks");
        self.settle(now_ns);
        let error = self.error_now(task);
        let known = &mut self.tasks[task.index()];
        known.extremes.min = known.extremes.min.min(error);
        known.line = error.0;
        known.set_mode(Mode::Blocked);
        self.leave(task);
        self.readjust();
    }

    /// How many tasks are runnable.
    pub(crate) fn runnable(&self) -> usize {
        self.classes.count()
    }

    /// How many cpus they keep busy.
    pub(crate) fn busy_cpus(&self) -> usize {
        self.runnable().min(self.cpus)
    }

    /// The runnable tasks that are not capped share an error of `error_ns` in proportion to their weights, if
    /// there are any.
    pub(crate) fn share(&mut self, error_ns: i64) {
        if self.shared.cpus > 0 {
            self.shared_ns += error_ns;
            self.find_virtual();
        }
    }

    /// `task`, which is behind, is not runnable any more, and is behind by no more than `kept_ns`, up to a
    /// nanosecond: it had no use for the rest. Those have it who would have received more without the task
    /// while that lasted: whoever became entitled to a whole cpu has a part, and what is left is for others.
    pub(crate) fn block_behind(&mut self, task: TaskId, kept_ns: Nanos) -> i64 {
        let kept = -ServiceError::from_ns(kept_ns.cast_signed()).0;
        let excess_ns = ServiceError(kept - self.error_now(task).0).floor_ns().max(0);
        let Shared { cpus, weight } = self.shared;
        let part_of = |of: Weight| u64::from(of.get()) * cpus;
        let known = self.tasks[task.index()];
        let lasted_ns = match known.mode() {
            Mode::Capped => excess_ns,
            _ => scaled(excess_ns, weight, part_of(known.weight())),
        };
        self.block(task, self.now_ns);
        self.tasks[task.index()].line += ServiceError::from_ns(excess_ns).0;
        let mut rest_ns = excess_ns;
        for &other in self.recapped.iter().flatten() {
            let known = &mut self.tasks[other.index()];
            let more_ns = lasted_ns - scaled(lasted_ns, part_of(known.weight()), weight);
            known.line = known.line.wrapping_sub(ServiceError::from_ns(more_ns).0);
            rest_ns -= more_ns;
        }
        rest_ns
    }

    /// What `task`, which is runnable, receives in so long a time, as rates are now.
    pub(crate) fn due_within(&self, task: TaskId, time_ns: Nanos) -> Nanos {
        let known = self.tasks[task.index()];
        if known.mode() == Mode::Capped {
            return time_ns;
        }
        let part = u64::from(known.weight().get()) * self.shared.cpus;
        scaled(time_ns.cast_signed(), part, self.shared.weight).cast_unsigned()
    }

    /// The error of `task` is `error_ns` more from now on.
    pub(crate) fn shift(&mut self, task: TaskId, error_ns: i64) {
        let known = &mut self.tasks[task.index()];
        known.line = known.line.wrapping_add(ServiceError::from_ns(error_ns).0);
    }

    /// True if `task` is runnable and entitled to a whole cpu.
    pub(crate) fn is_capped(&self, task: TaskId) -> bool {
        self.tasks[task.index()].mode() == Mode::Capped
    }

    /// The tasks that are entitled to a whole cpu.
    pub(crate) fn capped(&self) -> &[TaskId] {
        &self.capped
    }

    /// From now on [`recapped`](Self::recapped) is asked after every change.
    pub(crate) fn watch_caps(&mut self) {
        self.recapped = Some(Vec::new());
    }

    /// A task that became entitled to a whole cpu or ceased to be so, while it was runnable, and was not
    /// told of yet.
    pub(crate) fn recapped(&mut self) -> Option<TaskId> {
        self.recapped.as_mut()?.pop()
    }

    /// The latest time asked for.
    pub(crate) fn now_ns(&self) -> Nanos {
        self.now_ns
    }

    /// V, and [`BIAS`], when the error of `task`, which is runnable and not capped, is 0 if it receives
    /// nothing; the error is rounded up to a nanosecond. It may be below 0: V may go back to before its end.
    pub(crate) fn virtual_end(&self, task: TaskId) -> u128 {
        let weight = i128::from(self.tasks[task.index()].weight().get());
        let error_ns = ServiceError(self.error_now(task).0 + i128::from(u64::MAX)).floor_ns();
        let ahead = -(-(i128::from(error_ns) << 64)).div_euclid(weight);
        self.virtual_now.wrapping_add_signed(ahead).wrapping_add(BIAS)
    }

    /// True if V and [`BIAS`] are at least `end`.
    pub(crate) fn has_passed(&self, end: u128) -> bool {
        self.virtual_now.wrapping_add(BIAS) >= end
    }

    /// `task` has `weight` from now on.
    pub fn set_weight(&mut self, task: TaskId, weight: Weight, now_ns: Nanos) {
        let mode = self.tasks[task.index()].mode();
        if mode == Mode::Blocked {
            self.tasks[task.index()].weight = Some(weight);
            return;
        }
        self.settle(now_ns);
        self.leave(task);
        self.switch(task, Mode::Blocked);
        self.tasks[task.index()].weight = Some(weight);
        self.switch(task, Mode::Shared);
        self.enter(task);
        self.readjust();
    }

    /// `task` begins a quantum: its error is least now.
    #[inline]
    pub fn start(&mut self, task: TaskId, now_ns: Nanos) {
        self.advance(now_ns);
        let (now_ns, virtual_now) = (self.now_ns, self.virtual_now);
        let known = &mut self.tasks[task.index()];
        known.extremes.min = known.extremes.min.min(known.error(now_ns, virtual_now));
    }

    /// `task` ends a quantum in which it received `used_ns`: its error is greatest now.
    #[inline]
    pub fn charge(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        self.advance(now_ns);
        let (now_ns, virtual_now) = (self.now_ns, self.virtual_now);
        let known = &mut self.tasks[task.index()];
        known.used_ns += used_ns;
        known.line = known.line.wrapping_add(i128::from(used_ns) << 64);
        known.extremes.max = known.extremes.max.max(known.error(now_ns, virtual_now));
    }

    /// Brings the extremes of every task up to date. Running tasks were charged before.
    pub fn finish(&mut self, now_ns: Nanos) {
        self.advance(now_ns);
        for i in 0..self.tasks.len() {
            let error = self.tasks[i].error(self.now_ns, self.virtual_now);
            self.tasks[i].extremes.sample(error);
        }
    }

    /// The error of `task` at `now_ns`, which is not before the last change.
    #[inline]
    #[must_use]
    pub fn error(&mut self, task: TaskId, now_ns: Nanos) -> ServiceError {
        self.advance(now_ns);
        self.error_now(task)
    }

    /// The extremes of `task` as sampled so far.
    #[must_use]
    pub fn extremes(&self, task: TaskId) -> Extremes<ServiceError> {
        self.tasks[task.index()].extremes
    }

    /// What `task` was charged with in all.
    #[must_use]
    pub fn used_ns(&self, task: TaskId) -> Nanos {
        self.tasks[task.index()].used_ns
    }

    /// What the ideal has given `task` by `now_ns`, rounded to a nanosecond.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn ideal_ns(&mut self, task: TaskId, now_ns: Nanos) -> Nanos {
        let error = self.error(task, now_ns).0;
        let ideal = (i128::from(self.tasks[task.index()].used_ns) << 64) - error;
        debug_assert!(ideal >= -(1 << 63), "the ideal never takes away");
        ServiceError(ideal).nearest_ns() as Nanos
    }

    /// Its error at the latest time asked for.
    pub(crate) fn error_now(&self, task: TaskId) -> ServiceError {
        self.tasks[task.index()].error(self.now_ns, self.virtual_now)
    }

    /// Moves `now_ns` and `virtual_now` on.
    #[inline]
    pub(crate) fn advance(&mut self, now_ns: Nanos) {
        if now_ns != self.now_ns {
            self.advance_to(now_ns);
        }
    }

    fn advance_to(&mut self, now_ns: Nanos) {
        assert!(now_ns > self.now_ns, "time goes backwards: {now_ns} after {}", self.now_ns);
        self.now_ns = now_ns;
        self.find_virtual();
    }

    /// What was to be shared is as so much less, or more, time.
    fn find_virtual(&mut self) {
        let elapsed_ns = i128::from(self.now_ns - self.since_ns) * i128::from(self.shared.cpus);
        let passed_ns = elapsed_ns - i128::from(self.shared_ns);
        let passed = ratio(passed_ns.unsigned_abs(), self.shared.weight).cast_signed();
        self.virtual_now = self.virtual_since.wrapping_add_signed(passed_ns.signum() * passed);
    }

    /// The runnable set changes at `now_ns`: what follows has other rates.
    fn settle(&mut self, now_ns: Nanos) {
        self.advance(now_ns);
        self.since_ns = now_ns;
        self.virtual_since = self.virtual_now;
        self.shared_ns = 0;
    }

    /// Changes the mode of `task` without changing its error.
    fn switch(&mut self, task: TaskId, mode: Mode) {
        let error = self.error_now(task);
        let known = &mut self.tasks[task.index()];
        known.line = 0;
        known.set_mode(mode);
        let ideal = self.error_now(task).0;
        self.tasks[task.index()].line = error.0.wrapping_sub(ideal);
    }

    #[allow(clippy::cast_possible_truncation)] // places are below TaskId::LIMIT
    fn enter(&mut self, task: TaskId) {
        let known = &mut self.tasks[task.index()];
        self.classes.insert(known.weight());
        if self.cpus > 1 {
            let members = &mut self.members[known.order()];
            known.set_place(members.len() as u32);
            members.push(task);
        }
    }

    fn leave(&mut self, task: TaskId) {
        let known = self.tasks[task.index()];
        self.classes.remove(known.weight());
        if self.cpus > 1 {
            let members = &mut self.members[known.order()];
            let place = known.place();
            let removed = members.swap_remove(place as usize);
            debug_assert_eq!(removed, task);
            if let Some(moved) = members.get(place as usize) {
                self.tasks[moved.index()].set_place(place);
            }
        }
    }

    /// Finds who is capped after the runnable set changed.
    #[inline]
    fn readjust(&mut self) {
        let total = self.classes.total_weight();
        if self.cpus == 1 {
            self.shared = Shared { cpus: 1, weight: total.max(1) };
            return;
        }
        if self.classes.count() <= self.cpus {
            self.shared = Shared::NOTHING;
            self.recap(|_| true);
            return;
        }
        if self.nobody_capped() {
            self.shared = Shared { cpus: self.cpus as u64, weight: total };
            if !self.capped.is_empty() {
                self.recap(|_| false);
            }
            return;
        }
        let (members, tasks) = (&self.members, &self.tasks);
        let search = Search::fastest(self.cpus);
        let cap = self.classes.cap(self.cpus, search, &mut self.weights, |order, out| {
            let weigh = |task: &TaskId| tasks[task.index()].weight();
            out.extend(members[order as usize].iter().map(weigh));
        });
        self.shared = Shared::new(cap, total, self.cpus);
        self.recap(|weight| cap.exceeded_by(weight));
    }

    /// True if the largest weight that the largest class can hold would be feasible.
    fn nobody_capped(&self) -> bool {
        let largest = 2u64 << self.classes.present().ilog2();
        largest * self.cpus as u64 <= self.classes.total_weight()
    }

    /// Makes exactly the tasks capped whose weight `is_capped`; if some are, all heavier ones are.
    fn recap(&mut self, is_capped: impl Fn(Weight) -> bool) {
        for i in (0..self.capped.len()).rev() {
            let task = self.capped[i];
            let known = &self.tasks[task.index()];
            let stays = known.mode() == Mode::Capped && is_capped(known.weight());
            if !stays {
                self.capped.swap_remove(i);
            }
            if known.mode() == Mode::Capped && !stays {
                self.switch(task, Mode::Shared);
                self.recapped.iter_mut().for_each(|log| log.push(task));
            }
        }
        let mut left = self.classes.present();
        while left != 0 {
            let order = left.ilog2();
            left &= !(1 << order);
            let Some(heaviest) = Weight::new(u32::MAX >> (31 - order)) else { return };
            // No more than P tasks are capped, and none in a class of 2P (GR3 §3.3).
            let members = self.members[order as usize].len();
            if members >= 2 * self.cpus || !is_capped(heaviest) {
                return;
            }
            for i in 0..members {
                let task = self.members[order as usize][i];
                let known = &self.tasks[task.index()];
                if known.mode() == Mode::Shared && is_capped(known.weight()) {
                    self.switch(task, Mode::Capped);
                    self.capped.push(task);
                    self.recapped.iter_mut().for_each(|log| log.push(task));
                }
            }
        }
    }
}

/// `numerator / denominator` in units of 2^−64, rounded down. The quotient is below 2^64 since a
/// feasible task receives at most a cpu per unit of time.
fn ratio(numerator: u128, denominator: u64) -> u128 {
    let (whole, rest) = match u64::try_from(numerator) {
        Ok(small) => (u128::from(small / denominator), small % denominator),
        Err(_) => {
            let rest = numerator % u128::from(denominator);
            #[allow(clippy::cast_possible_truncation)] // a remainder is below the denominator
            (numerator / u128::from(denominator), rest as u64)
        }
    };
    (whole << 64) + (u128::from(rest) << 64) / u128::from(denominator)
}

/// ⌊a·b/c⌋, at most [`LONGEST_NS`]; `a` is at least 0.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most 2^62
fn scaled(a: i64, b: u64, c: u64) -> i64 {
    (a as u128 * u128::from(b) / u128::from(c)).min(LONGEST_NS) as i64
}

/// No time that is reckoned with is longer: a century and a half.
const LONGEST_NS: u128 = 1 << 62;

/// A policy with the service errors of its tasks beside it.
#[derive(Clone, Debug)]
pub struct Measured<P> {
    policy: P,
    errors: ServiceErrors,
}

impl<P: Policy> Measured<P> {
    /// `policy`, which was built with `setup` and knows no task yet.
    #[must_use]
    pub fn new(policy: P, setup: &Setup) -> Measured<P> {
        Measured { policy, errors: ServiceErrors::new(setup.cpus) }
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// The errors.
    #[must_use]
    pub fn errors(&self) -> &ServiceErrors {
        &self.errors
    }

    /// The errors, to be brought up to date.
    #[must_use]
    pub fn errors_mut(&mut self) -> &mut ServiceErrors {
        &mut self.errors
    }
}

impl<P: Policy> Policy for Measured<P> {
    fn add(&mut self, task: TaskId, weight: Weight) {
        self.errors.add(task, weight);
        self.policy.add(task, weight);
    }

    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        self.errors.remove(task, now_ns);
        self.policy.remove(task, now_ns);
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, now_ns: Nanos) {
        self.errors.set_weight(task, weight, now_ns);
        self.policy.set_weight(task, weight, now_ns);
    }

    fn wake(&mut self, task: TaskId, now_ns: Nanos) {
        self.errors.wake(task, now_ns);
        self.policy.wake(task, now_ns);
    }

    fn block(&mut self, task: TaskId, now_ns: Nanos) {
        self.errors.block(task, now_ns);
        self.policy.block(task, now_ns);
    }

    /// To the yardstick it sleeps.
    fn stand_aside(&mut self, task: TaskId, now_ns: Nanos) {
        self.errors.block(task, now_ns);
        self.policy.stand_aside(task, now_ns);
    }

    fn pick(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        let task = self.policy.pick(cpu, now_ns)?;
        self.errors.start(task, now_ns);
        Some(task)
    }

    fn ran(&mut self, task: TaskId, ran_ns: Nanos) {
        self.policy.ran(task, ran_ns);
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        self.errors.charge(task, used_ns, now_ns);
        self.policy.charge(task, used_ns, now_ns);
    }

    fn interrupt(&mut self, now_ns: Nanos) -> Option<CpuId> {
        self.policy.interrupt(now_ns)
    }

    fn endow(&mut self, task: TaskId, advance_ns: Nanos) {
        self.policy.endow(task, advance_ns);
    }

    fn bequeath(&mut self, task: TaskId, heirs: &[TaskId], now_ns: Nanos) {
        self.policy.bequeath(task, heirs, now_ns);
    }

    fn take_credit(&mut self, task: TaskId, most_ns: Nanos) -> Nanos {
        self.policy.take_credit(task, most_ns)
    }

    fn forfeit(&mut self, task: TaskId, now_ns: Nanos) -> Nanos {
        self.policy.forfeit(task, now_ns)
    }

    fn retire(&mut self, task: TaskId, now_ns: Nanos) -> i64 {
        self.policy.retire(task, now_ns)
    }

    fn take_lapsed(&mut self, task: TaskId) -> Nanos {
        self.policy.take_lapsed(task)
    }

    fn keep(&mut self, task: TaskId, kept: bool) {
        self.policy.keep(task, kept);
    }

    fn lengthen(&mut self, task: TaskId, used_ns: Nanos, most_ns: Nanos) -> Option<Nanos> {
        self.policy.lengthen(task, used_ns, most_ns)
    }

    fn pass(&mut self, now_ns: Nanos) {
        self.policy.pass(now_ns);
    }

    fn serves(&self, task: TaskId) -> Option<bool> {
        self.policy.serves(task)
    }

    fn slice_ns(&self, task: TaskId) -> Option<Nanos> {
        self.policy.slice_ns(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn weights(numbers: &[u32]) -> Vec<Weight> {
        numbers.iter().map(|&n| Weight::new(n).expect("not 0")).collect()
    }

    fn task_of(id: usize) -> TaskId {
        TaskId(u32::try_from(id).expect("small"))
    }

    /// A rational n/d of small numbers, for the naive twin.
    #[derive(Clone, Copy, Debug)]
    struct Fraction(i128, i128);

    impl Fraction {
        fn plus(self, n: i128, d: i128) -> Fraction {
            let (n, d) = (self.0 * d + n * self.1, self.1 * d);
            let mut gcd = (n.unsigned_abs(), d.unsigned_abs());
            while gcd.1 != 0 {
                gcd = (gcd.1, gcd.0 % gcd.1);
            }
            let gcd = i128::try_from(gcd.0).expect("small");
            Fraction(n / gcd, d / gcd)
        }

        /// |self − error| in 2^−64 ns, rounded up.
        fn distance(self, error: ServiceError) -> u128 {
            let whole = self.0.div_euclid(self.1);
            let rest = (self.0.rem_euclid(self.1) << 64) / self.1;
            ((whole << 64) + rest).abs_diff(error.0)
        }
    }

    /// The definition, with every rate found anew for every interval.
    struct Naive {
        cpus: usize,
        now_ns: Nanos,
        tasks: Vec<(Weight, bool, Fraction)>,
    }

    impl Naive {
        #[inline]
        fn advance(&mut self, now_ns: Nanos) {
            let runnable: Vec<Weight> =
                self.tasks.iter().filter(|task| task.1).map(|task| task.0).collect();
            let rates = Rates::new(&runnable, self.cpus);
            let elapsed = i128::from(now_ns - self.now_ns);
            let mut numerator = rates.numerator.iter();
            for (_, _, error) in self.tasks.iter_mut().filter(|task| task.1) {
                let numerator = i128::from(*numerator.next().expect("one for each"));
                *error = error.plus(-elapsed * numerator, i128::from(rates.denominator));
            }
            self.now_ns = now_ns;
        }
    }

    #[test]
    fn rates_share_what_capped_tasks_leave() {
        let rates = Rates::new(&weights(&[2, 5, 1]), 2);
        assert_eq!(rates, Rates { numerator: vec![2, 3, 1], denominator: 3 });
        let rates = Rates::new(&weights(&[3, 1]), 2);
        assert_eq!(rates, Rates { numerator: vec![1, 1], denominator: 1 });
        let rates = Rates::new(&weights(&[5, 2, 1]), 1);
        assert_eq!(rates, Rates { numerator: vec![5, 2, 1], denominator: 8 });
    }

    #[test]
    fn errors_of_a_fixed_set_are_exact_fractions() {
        let mut errors = FixedErrors::new(&weights(&[2, 1]), 1);
        for task in [0, 1, 0] {
            errors.runs(TaskId(task));
            errors.end_quantum();
        }
        errors.finish();
        assert_eq!(errors.extremes(TaskId(0)), Extremes { min: -1, max: 1 });
        assert_eq!(errors.extremes(TaskId(1)), Extremes { min: -1, max: 1 });
        assert_eq!(errors.error(TaskId(0)), 0);
        assert!((errors.in_quanta(1) - 1.0 / 3.0).abs() < f64::EPSILON);
    }

    #[test]
    fn an_error_of_zero_prints_as_zero() {
        let mut errors = ServiceErrors::new(1);
        for (id, weight) in weights(&[1, 1, 1]).into_iter().enumerate() {
            errors.add(task_of(id), weight);
            errors.wake(task_of(id), 0);
        }
        errors.charge(TaskId(0), 10, 30);
        assert!(errors.error(TaskId(0), 30).in_ns() == 0.0);
        assert_eq!(errors.ideal_ns(TaskId(1), 30), 10);
    }

    #[test]
    fn a_task_has_the_size_of_a_cache_line() {
        assert_eq!(size_of::<Task>(), 64);
    }

    proptest! {
        /// Every change loses less than 2^−32 ns, against exact fractions.
        #[test]
        fn errors_are_those_of_the_definition(
            cpus in 1usize..5,
            steps in proptest::collection::vec((0u32..7, 0u8..4, 1u32..40, 0u64..50), 1..14),
        ) {
            let mut errors = ServiceErrors::new(cpus);
            let mut naive = Naive { cpus, now_ns: 0, tasks: vec![] };
            for id in 0..7 {
                errors.add(TaskId(id), Weight::ONE);
                naive.tasks.push((Weight::ONE, false, Fraction(0, 1)));
            }
            let mut now_ns = 0;
            for (count, &(id, verb, weight, elapsed)) in steps.iter().enumerate() {
                now_ns += elapsed;
                naive.advance(now_ns);
                let (task, known) = (TaskId(id), &mut naive.tasks[id as usize]);
                match (verb, known.1) {
                    (0, _) => {
                        known.0 = Weight::new(weight).expect("not 0");
                        errors.set_weight(task, known.0, now_ns);
                    }
                    (1, _) => {
                        known.2 = known.2.plus(i128::from(weight), 1);
                        errors.charge(task, u64::from(weight), now_ns);
                    }
                    (_, false) => errors.wake(task, now_ns),
                    (_, true) => errors.block(task, now_ns),
                }
                known.1 ^= verb > 1;
                for (id, task) in naive.tasks.iter().enumerate() {
                    let error = errors.error(task_of(id), now_ns);
                    let allowed = (count as u128 + 2) << 32;
                    prop_assert!(task.2.distance(error) <= allowed, "{:?} {:?}", task, error);
                }
            }
        }

        /// The two yardsticks agree on a fixed set that runs round robin.
        #[test]
        fn a_fixed_set_has_the_same_errors(
            numbers in proptest::collection::vec(1u32..=u32::MAX, 1..12),
            cpus in 1usize..6,
            quanta in 1u64..40,
        ) {
            const QUANTUM_NS: u64 = 1_000_000;
            let weights = weights(&numbers);
            let mut fixed = FixedErrors::new(&weights, cpus);
            let mut errors = ServiceErrors::new(cpus);
            let tasks: Vec<TaskId> = (0..weights.len()).map(task_of).collect();
            for &task in &tasks {
                errors.add(task, weights[task.index()]);
                errors.wake(task, 0);
            }
            for q in 0..quanta {
                let first = usize::try_from(q).expect("small") * cpus;
                let running: Vec<TaskId> = (0..cpus.min(tasks.len()))
                    .map(|cpu| tasks[(first + cpu) % tasks.len()])
                    .collect();
                running.iter().for_each(|&task| {
                    errors.start(task, q * QUANTUM_NS);
                    fixed.runs(task);
                });
                fixed.end_quantum();
                for &task in &running {
                    errors.charge(task, QUANTUM_NS, (q + 1) * QUANTUM_NS);
                }
            }
            fixed.finish();
            errors.finish(quanta * QUANTUM_NS);
            for task in tasks {
                let (exact, measured) = (fixed.extremes(task), errors.extremes(task));
                let close = |exact: i128, measured: ServiceError| {
                    (fixed.in_quanta(exact) - measured.in_quanta(QUANTUM_NS)).abs() < 1e-9
                };
                prop_assert!(close(exact.min, measured.min) && close(exact.max, measured.max));
            }
        }
    }
}

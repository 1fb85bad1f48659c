//! The ideal for tasks that sleep: fluid GMS fed with what each task asks for.
//!
//! A task asks for *jobs*: so much work, asked for at such a time. While it has one it is
//! backlogged, and all backlogged tasks progress at once, each at its rate under GMS (see
//! [`ideal`](crate::ideal)): φ/c of a cpu, φ what its weight counts for among the backlogged tasks
//! and c what a whole cpu counts for ([`Feasible`]). At most one job waits behind the one in
//! service, since a program cannot ask for more before it has got what it asked for; a job that
//! is asked for while one waits is *missed*.
//!
//! The jobs of a program are its *solo arrivals*: those that it would ask for if it ran alone, on a
//! cpu of its own. A task that runs for 5 ms and then sleeps for 20 ms asks for 5 ms every 25 ms,
//! however late it is served. So the ideal depends on the workload alone and not on the schedule
//! that is held against it; it never idles a cpu that a backlogged task could use; a task gets what
//! it asks for if that is no more than its share; and for tasks that never block it is GMS itself.
//! (Were the next sleep to begin when the fluid machine ends a run, a task that needs exactly its
//! share would be due only half of it: each of its jobs takes a whole period there.)
//!
//! The *service error* of a task is what it received minus what the ideal gave it. The ideal never
//! gives a task more than a cpu, so that the error grows while the task runs and falls while it
//! does not: its extremes lie just before and just after the task's runs, whatever happens in the
//! ideal meanwhile. Sampling there, and once for everybody at the end, finds them exactly at O(1)
//! each.
//!
//! # Calls
//!
//! Only [`advance`](Fluid::advance) moves time; every other call is about the time last advanced
//! to.
//!
//! ```
//! use prorata::fluid::Fluid;
//! use prorata::{TaskId, Weight};
//!
//! let mut ideal = Fluid::new(1);
//! let (hog, nap) = (TaskId(0), TaskId(1));
//! ideal.add(hog, Weight::ONE);
//! ideal.add(nap, Weight::ONE);
//! assert!(ideal.arrive(hog, Fluid::FOREVER));
//! ideal.advance(10);
//! assert!(ideal.arrive(nap, 4));
//! ideal.advance(30);
//! assert_eq!((ideal.service_ns(hog), ideal.service_ns(nap)), (26, 4));
//! let job = ideal.completed().expect("one job is done");
//! assert_eq!((job.task, job.response_ns()), (nap, 8));
//! ```
//!
//! # Rounding
//!
//! Time, service and virtual time V (what a task has received per unit of its φ) are kept in
//! 2^−64 ns. V and the time of an event are rounded once for each event at which the rates change,
//! by less than a unit each, and so is the service of a task whose φ changes then: an error is off
//! by less than (2φ + 2)·2^−64 ns for each such event while the task has one job, and nothing
//! accumulates over jobs, since a task that has ended one has received exactly its work. Reading at
//! other times accumulates nothing. What is asked for just when a job ends must not find that job in
//! service because of the rounding: a job of which less than 2^−20 ns is left has ended.
//!
//! *Cost*: O(log N) for a job's arrival and its end, and O(P log N) where that changes the φ of
//! tasks that may use whole cpus; O(1) for the rest. About 210 bytes a task.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::effective::{Effective, Feasible};
use crate::ideal::{Extremes, ServiceError};
use crate::policy::{Nanos, TaskId, Weight};
use crate::queue::Heap;

/// Less than this of a job, in 2^−64 ns, is nothing.
const NOTHING: u128 = 1 << (64 - 20);

/// In 2^−64 ns: the end of a job that has none.
const NEVER: u128 = u128::MAX;

/// A job that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Whose.
    pub task: TaskId,
    /// When it was asked for.
    pub asked_ns: Nanos,
    /// When the ideal was done with it, rounded up to a nanosecond from 2^−20 ns on.
    pub done_ns: Nanos,
}

impl Completion {
    /// From being asked for to being done.
    #[must_use]
    pub const fn response_ns(&self) -> Nanos {
        self.done_ns - self.asked_ns
    }
}

#[derive(Clone, Copy, Debug)]
struct Job {
    work_ns: Nanos,
    asked_ns: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    /// What it counts for while it is backlogged.
    effective: Effective,
    /// Its service when V was `since`. In 2^−64 ns.
    base: u128,
    since: u128,
    /// Its service when the job in service is done. In 2^−64 ns.
    due: u128,
    /// When that job was asked for.
    asked_ns: Nanos,
    waiting: Option<Job>,
    /// Exactly if it is in the set of feasible weights.
    backlogged: bool,
    done: u64,
    missed: u64,
    used_ns: Nanos,
    extremes: Extremes<ServiceError>,
}

impl Task {
    const NEW: Task = Task {
        effective: Effective::ONE,
        base: 0,
        since: 0,
        due: 0,
        asked_ns: 0,
        waiting: None,
        backlogged: false,
        done: 0,
        missed: 0,
        used_ns: 0,
        extremes: Extremes { min: ServiceError(0), max: ServiceError(0) },
    };

    /// Its service when V is `virtual_now`.
    #[inline]
    fn service(&self, virtual_now: u128) -> u128 {
        if !self.backlogged {
            return self.base;
        }
        let (parts, of) = self.effective.fraction();
        let more = scale(virtual_now - self.since, parts, u64::from(of));
        self.due.min(self.base + more)
    }

    /// What is left of the job in service when V is `virtual_now`.
    fn left(&self, virtual_now: u128) -> u128 {
        debug_assert!(self.backlogged);
        self.due - self.service(virtual_now)
    }

    /// It counts for `effective` from now on.
    fn count_for(&mut self, effective: Effective, virtual_now: u128) {
        self.base = self.service(virtual_now);
        self.since = virtual_now;
        self.effective = effective;
    }

    /// V when the job in service is done, unless the task's φ changes; `NEVER` if it has no end.
    fn finish(&self) -> u128 {
        if self.due == NEVER {
            return NEVER;
        }
        let (parts, of) = self.effective.fraction();
        self.since.saturating_add(scale_up(self.due - self.base, u64::from(of), parts))
    }

    #[inline]
    #[allow(clippy::cast_possible_wrap)] // services are far below 2^63 ns
    fn error(&self, virtual_now: u128) -> ServiceError {
        let service = self.service(virtual_now) as i128;
        ServiceError((i128::from(self.used_ns) << 64) - service)
    }
}

/// The ideal machine, and the service errors of tasks against it. See the
/// [module documentation](self).
#[derive(Clone, Debug)]
pub struct Fluid {
    /// The backlogged tasks.
    backlogged: Feasible,
    tasks: Vec<Task>,
    /// The backlogged tasks by V at the end of the job in service.
    finishes: Heap<u128>,
    /// The last change of a rate in 2^−64 ns, and V at that time. No finish is below this V.
    since: u128,
    virtual_since: u128,
    /// The time last advanced to, and V at that time.
    now_ns: Nanos,
    virtual_now: u128,
    completed: VecDeque<Completion>,
}

impl Fluid {
    /// The work of a job that never ends.
    pub const FOREVER: Nanos = Nanos::MAX;

    /// No tasks on `cpus` cpus, at time 0.
    #[must_use]
    pub fn new(cpus: usize) -> Fluid {
        Fluid {
            backlogged: Feasible::new(cpus),
            tasks: Vec::new(),
            finishes: Heap::default(),
            since: 0,
            virtual_since: 0,
            now_ns: 0,
            virtual_now: 0,
            completed: VecDeque::new(),
        }
    }

    /// Makes room for tasks below `tasks`, so that no more than that is taken.
    pub fn reserve(&mut self, tasks: usize) {
        self.tasks.reserve_exact(tasks.saturating_sub(self.tasks.len()));
        self.backlogged.reserve(tasks);
        self.finishes.reserve(tasks);
    }

    /// Makes `task` known; it asks for nothing. Its error and its counts are 0, whatever a task of
    /// this id had before.
    ///
    /// # Panics
    /// When a task of this id is backlogged.
    pub fn add(&mut self, task: TaskId, weight: Weight) {
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, Task::NEW);
            self.backlogged.reserve(task.index() + 1);
            self.finishes.reserve(task.index() + 1);
        }
        assert!(!self.tasks[task.index()].backlogged, "{task:?} is backlogged");
        self.tasks[task.index()] = Task::NEW;
        self.backlogged.set_weight(task, weight);
    }

    /// `task` has `weight` from now on.
    pub fn set_weight(&mut self, task: TaskId, weight: Weight) {
        if self.is_backlogged_still(task) {
            self.leave(task);
            self.backlogged.set_weight(task, weight);
            self.enter(task);
        } else {
            self.backlogged.set_weight(task, weight);
        }
    }

    /// `task` asks for a job of `work_ns`. False if it is missed: another one waits already.
    ///
    /// # Panics
    /// When there is nothing to do.
    pub fn arrive(&mut self, task: TaskId, work_ns: Nanos) -> bool {
        assert!(work_ns > 0, "{task:?} asks for nothing");
        self.end_what_is_done(task);
        let job = Job { work_ns, asked_ns: self.now_ns };
        let known = &mut self.tasks[task.index()];
        if known.backlogged {
            let misses = known.waiting.is_some();
            known.missed += u64::from(misses);
            known.waiting = known.waiting.or(Some(job));
            return !misses;
        }
        known.begin(job);
        self.settle();
        self.enter(task);
        true
    }

    /// `task` asks for `work_ns` more, as a part of the job that it asked for last if that is not
    /// done. For tasks whose solo arrivals are not known, but what they ask for and when: none of it
    /// is missed.
    ///
    /// # Panics
    /// When there is nothing to do.
    pub fn extend(&mut self, task: TaskId, work_ns: Nanos) {
        assert!(work_ns > 0, "{task:?} asks for nothing");
        self.end_what_is_done(task);
        let known = &mut self.tasks[task.index()];
        if let Some(job) = &mut known.waiting {
            job.work_ns = job.work_ns.saturating_add(work_ns);
        } else if known.backlogged {
            known.due = end_of(known.due, work_ns);
            self.finishes.update(task, known.finish());
        } else {
            self.arrive(task, work_ns);
        }
    }

    /// `task` wants nothing any more: its jobs end as they are, neither done nor missed.
    pub fn stop(&mut self, task: TaskId) {
        self.end_what_is_done(task);
        if self.is_backlogged_still(task) {
            self.leave(task);
            self.tasks[task.index()].waiting = None;
        }
    }

    /// Moves time on to `now_ns`, and ends the jobs that are done by then.
    ///
    /// # Panics
    /// When that is before the time last advanced to.
    pub fn advance(&mut self, now_ns: Nanos) {
        if now_ns == self.now_ns {
            return;
        }
        assert!(now_ns > self.now_ns, "time goes backwards: {now_ns} after {}", self.now_ns);
        let now = u128::from(now_ns) << 64;
        while let Some((task, &finish)) = self.finishes.peek()
            && let at = self.time_of(finish)
            && at <= now
        {
            (self.since, self.virtual_since) = (at, finish);
            self.virtual_now = finish;
            self.end_job(task, ceil_ns(at.saturating_sub(NOTHING)));
        }
        let (parts, of) = self.backlogged.per_cpu().fraction();
        self.now_ns = now_ns;
        self.virtual_now = self.virtual_since + scale(now - self.since, u64::from(of), parts);
    }

    /// When the next job ends, rounded up to a nanosecond, unless something arrives or changes
    /// before; `None` if no job has an end.
    #[must_use]
    pub fn next_completion_ns(&self) -> Option<Nanos> {
        let (_, &finish) = self.finishes.peek()?;
        Some(ceil_ns(self.time_of(finish))).filter(|&at_ns| at_ns != Nanos::MAX)
    }

    /// The next job that is done, in the order of their ends; each is told once.
    pub fn completed(&mut self) -> Option<Completion> {
        self.completed.pop_front()
    }

    /// `task` begins to run in the schedule: its error is least now.
    #[inline]
    pub fn start(&mut self, task: TaskId) {
        let known = &mut self.tasks[task.index()];
        known.extremes.min = known.extremes.min.min(known.error(self.virtual_now));
    }

    /// `task` ends a run in which it received `used_ns`: its error is greatest now.
    #[inline]
    pub fn charge(&mut self, task: TaskId, used_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        known.used_ns += used_ns;
        known.extremes.max = known.extremes.max.max(known.error(self.virtual_now));
    }

    /// Brings everything about every task up to date. Running tasks were charged before.
    #[allow(clippy::cast_possible_truncation)] // ids are below TaskId::LIMIT
    pub fn finish(&mut self) {
        for id in 0..self.tasks.len() {
            self.end_what_is_done(TaskId(id as u32));
            let error = self.tasks[id].error(self.virtual_now);
            self.tasks[id].extremes.sample(error);
        }
    }

    /// What `task` received minus what the ideal gave it.
    #[must_use]
    pub fn error(&self, task: TaskId) -> ServiceError {
        self.tasks[task.index()].error(self.virtual_now)
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

    /// What the ideal has given `task`, rounded to a nanosecond.
    #[must_use]
    pub fn service_ns(&self, task: TaskId) -> Nanos {
        let service = self.tasks[task.index()].service(self.virtual_now);
        let nearest_ns = ServiceError(service.cast_signed()).nearest_ns();
        Nanos::try_from(nearest_ns).expect("services are far below 2^63 ns")
    }

    /// Jobs of `task` that the ideal has done.
    #[must_use]
    pub fn jobs_done(&self, task: TaskId) -> u64 {
        self.tasks[task.index()].done
    }

    /// Jobs of `task` that were missed.
    #[must_use]
    pub fn jobs_missed(&self, task: TaskId) -> u64 {
        self.tasks[task.index()].missed
    }

    /// Jobs of `task` in service or waiting: at most two.
    #[must_use]
    pub fn jobs_pending(&self, task: TaskId) -> u64 {
        let task = &self.tasks[task.index()];
        let in_service = task.backlogged && task.left(self.virtual_now) >= NOTHING;
        u64::from(in_service) + u64::from(task.waiting.is_some())
    }

    /// When V reaches `finish` at the present rates, rounded up.
    fn time_of(&self, finish: u128) -> u128 {
        let (parts, of) = self.backlogged.per_cpu().fraction();
        debug_assert!(finish >= self.virtual_since);
        self.since.saturating_add(scale_up(finish - self.virtual_since, parts, u64::from(of)))
    }

    /// Rates change now. A job that should end now, but for rounding, ends before they do: where a heavy task
    /// comes, what rounding left of it would take another nanosecond.
    fn settle(&mut self) {
        self.since = u128::from(self.now_ns) << 64;
        self.virtual_since = self.virtual_now;
        while let Some((task, &finish)) = self.finishes.peek()
            && self.time_of(finish) - self.since < NOTHING
        {
            self.end_job(task, self.now_ns);
        }
    }

    /// True if `task` has a job when rates change now.
    fn is_backlogged_still(&mut self, task: TaskId) -> bool {
        if self.tasks[task.index()].backlogged {
            self.settle();
        }
        self.tasks[task.index()].backlogged
    }

    /// Ends the job of `task` in service if nothing is left of it but what rounding left.
    fn end_what_is_done(&mut self, task: TaskId) {
        if self.is_done(task) {
            self.settle();
            if self.is_done(task) {
                self.end_job(task, self.now_ns);
            }
        }
    }

    fn is_done(&self, task: TaskId) -> bool {
        let known = &self.tasks[task.index()];
        known.backlogged && known.left(self.virtual_now) < NOTHING
    }

    /// The job of `task` in service is done, at the time to which the rates are settled.
    fn end_job(&mut self, task: TaskId, done_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        self.completed.push_back(Completion { task, asked_ns: known.asked_ns, done_ns });
        known.done += 1;
        known.base = known.due;
        known.since = self.virtual_now;
        if let Some(job) = known.waiting.take() {
            known.begin(job);
            self.finishes.update(task, known.finish());
        } else {
            self.leave(task);
        }
    }

    /// `task` is backlogged from now on.
    fn enter(&mut self, task: TaskId) {
        self.backlogged.insert(task);
        self.recount();
        let known = &mut self.tasks[task.index()];
        known.backlogged = true;
        known.since = self.virtual_now;
        known.effective = self.backlogged.effective(task);
        self.finishes.insert(task, known.finish());
    }

    /// `task` is backlogged no longer.
    fn leave(&mut self, task: TaskId) {
        let known = &mut self.tasks[task.index()];
        known.base = known.service(self.virtual_now);
        known.backlogged = false;
        self.finishes.remove(task);
        self.backlogged.remove(task);
        self.recount();
    }

    /// The set has changed, and with it what some of the others count for.
    fn recount(&mut self) {
        for &(other, _) in self.backlogged.changed() {
            let known = &mut self.tasks[other.index()];
            known.count_for(self.backlogged.effective(other), self.virtual_now);
            self.finishes.update(other, known.finish());
        }
    }
}

impl Task {
    /// Puts `job` into service.
    fn begin(&mut self, job: Job) {
        self.asked_ns = job.asked_ns;
        self.due = end_of(self.base, job.work_ns);
    }
}

/// The service at the end of `work_ns` that begin at `service`.
fn end_of(service: u128, work_ns: Nanos) -> u128 {
    match work_ns {
        Fluid::FOREVER => NEVER,
        work_ns => service.saturating_add(u128::from(work_ns) << 64),
    }
}

/// ⌊`value`·`times`/`by`⌋, or the largest number. Both factors are below 2^62: at most a cpu or a
/// weight for each of 2^30 tasks.
#[inline]
fn scale(value: u128, times: u64, by: u64) -> u128 {
    if by == 1 {
        return value.saturating_mul(u128::from(times));
    }
    divided(value, times, by, |above, below| above / below)
}

/// The same, rounded up.
#[inline]
fn scale_up(value: u128, times: u64, by: u64) -> u128 {
    divided(value, times, by, u128::div_ceil)
}

#[inline]
fn divided(value: u128, times: u64, by: u64, divide: impl Fn(u128, u128) -> u128) -> u128 {
    const LOW: u128 = u64::MAX as u128;
    let (times, by) = (u128::from(times), u128::from(by));
    let (high, low) = ((value >> 64) * times, (value & LOW) * times);
    let rest = divide(((high % by) << 64) + low, by);
    match high / by {
        whole if whole > LOW => u128::MAX,
        whole => (whole << 64).saturating_add(rest),
    }
}

fn floor_ns(fine: u128) -> Nanos {
    u64::try_from(fine >> 64).expect("128 bits, of which 64 are left")
}

fn ceil_ns(fine: u128) -> Nanos {
    floor_ns(fine.saturating_add(u128::from(u64::MAX)))
}

const _: () = assert!(size_of::<Task>() == 160);

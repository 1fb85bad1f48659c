//! What a schedule is held against: the ideal of each task, and its jobs.

use prorata::fluid::Fluid;
use prorata::ideal::{Extremes, ServiceError, ServiceErrors};
use prorata::{Nanos, TaskId, Weight};

use super::latency::Detailed;
use super::program::Slots;
use super::solo::Solo;
use crate::calendar::Calendar;
use crate::histogram::Histogram;
use crate::random::Random;
use crate::workload::{Arrivals, Workload};

/// The ideal. Where no task ever blocks, fluid GMS is GMS, which costs less.
#[allow(clippy::large_enum_variant)] // there is one of it, and a pointer would cost every decision
pub(crate) enum Yardstick<'w> {
    Gms(ServiceErrors),
    Fluid(Box<Demand<'w>>),
}

impl<'w> Yardstick<'w> {
    pub(super) fn new(workload: &'w Workload) -> Yardstick<'w> {
        if workload.groups.iter().all(|group| group.program.never_blocks()) {
            let mut errors = ServiceErrors::new(workload.machine.cpus);
            errors.reserve(tasks_of(workload));
            return Yardstick::Gms(errors);
        }
        Yardstick::Fluid(Box::new(Demand::new(workload)))
    }

    /// The next task, of `group`, will begin at `arrival_ns` and draw its lengths from `random`.
    pub(super) fn expect(&mut self, group: u32, random: Random, arrival_ns: Nanos) {
        if let Yardstick::Fluid(demand) = self {
            demand.expect(group, random, arrival_ns);
        }
    }

    pub(super) fn add(&mut self, task: TaskId, weight: Weight) {
        if let Yardstick::Gms(errors) = self {
            errors.add(task, weight);
        }
    }

    pub(super) fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        match self {
            Yardstick::Gms(errors) => errors.remove(task, now_ns),
            Yardstick::Fluid(demand) => demand.end_job(task, now_ns),
        }
    }

    pub(super) fn wake(&mut self, task: TaskId, now_ns: Nanos) {
        match self {
            Yardstick::Gms(errors) => errors.wake(task, now_ns),
            Yardstick::Fluid(demand) => demand.begin_job(task, now_ns),
        }
    }

    pub(super) fn block(&mut self, task: TaskId, now_ns: Nanos) {
        match self {
            Yardstick::Gms(errors) => errors.block(task, now_ns),
            Yardstick::Fluid(demand) => demand.end_job(task, now_ns),
        }
    }

    pub(super) fn set_weight(&mut self, task: TaskId, weight: Weight, now_ns: Nanos) {
        match self {
            Yardstick::Gms(errors) => errors.set_weight(task, weight, now_ns),
            Yardstick::Fluid(demand) => {
                demand.advance(now_ns);
                demand.fluid.set_weight(task, weight);
            }
        }
    }

    /// `task` comes to a run of `length_ns` in its program.
    pub(super) fn asks(&mut self, task: TaskId, length_ns: Nanos, now_ns: Nanos) {
        if let Yardstick::Fluid(demand) = self
            && demand.observed(task)
        {
            demand.advance(now_ns);
            demand.fluid.extend(task, length_ns);
        }
    }

    /// `task` goes on with a job that was due at `asked_ns`, instead of sleeping until then.
    pub(super) fn late(&mut self, task: TaskId, asked_ns: Nanos, now_ns: Nanos) {
        if let Yardstick::Fluid(demand) = self {
            demand.end_job(task, now_ns);
            demand.jobs[task.index()].asked_ns = Some(asked_ns);
        }
    }

    /// A timer of `task` fired in vain.
    pub(super) fn missed(&mut self, task: TaskId, periods: u64) {
        if let Yardstick::Fluid(demand) = self {
            demand.jobs[task.index()].missed += periods;
        }
    }

    #[inline]
    pub(super) fn start(&mut self, task: TaskId, now_ns: Nanos) {
        match self {
            Yardstick::Gms(errors) => errors.start(task, now_ns),
            Yardstick::Fluid(demand) => {
                demand.advance(now_ns);
                demand.fluid.start(task);
            }
        }
    }

    #[inline]
    pub(super) fn charge(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        match self {
            Yardstick::Gms(errors) => errors.charge(task, used_ns, now_ns),
            Yardstick::Fluid(demand) => {
                demand.advance(now_ns);
                demand.fluid.charge(task, used_ns);
            }
        }
    }

    /// The end of it all.
    pub(super) fn finish(&mut self, now_ns: Nanos) {
        match self {
            Yardstick::Gms(errors) => errors.finish(now_ns),
            Yardstick::Fluid(demand) => {
                demand.advance(now_ns);
                demand.fluid.finish();
                demand.record();
            }
        }
    }

    /// The error of `task` at `now_ns`, without what it runs for just now.
    pub(super) fn error(&mut self, task: TaskId, now_ns: Nanos) -> ServiceError {
        match self {
            Yardstick::Gms(errors) => errors.error(task, now_ns),
            Yardstick::Fluid(demand) => {
                demand.advance(now_ns);
                demand.fluid.error(task)
            }
        }
    }

    pub(crate) fn extremes(&self, task: TaskId) -> Extremes<ServiceError> {
        match self {
            Yardstick::Gms(errors) => errors.extremes(task),
            Yardstick::Fluid(demand) => demand.fluid.extremes(task),
        }
    }

    pub(crate) fn used_ns(&self, task: TaskId) -> Nanos {
        match self {
            Yardstick::Gms(errors) => errors.used_ns(task),
            Yardstick::Fluid(demand) => demand.fluid.used_ns(task),
        }
    }

    /// What the ideal gave `task` up to the end, which was `now_ns`.
    pub(crate) fn ideal_ns(&mut self, task: TaskId, now_ns: Nanos) -> Nanos {
        match self {
            Yardstick::Gms(errors) => errors.ideal_ns(task, now_ns),
            Yardstick::Fluid(demand) => demand.fluid.service_ns(task),
        }
    }

    /// The numbers of jobs of `task`.
    pub(crate) fn counts(&self, task: TaskId) -> Counts {
        match self {
            Yardstick::Gms(_) => Counts::default(),
            Yardstick::Fluid(demand) => demand.counts(task),
        }
    }

    /// The response times of `group`.
    pub(crate) fn responses(&self, group: usize) -> Responses {
        match self {
            Yardstick::Gms(_) => Responses::default(),
            Yardstick::Fluid(demand) => demand.responses.group(group).clone(),
        }
    }

    /// Those of `task`, if they are kept.
    pub(crate) fn responses_of(&self, task: TaskId) -> Option<&Responses> {
        match self {
            Yardstick::Gms(_) => None,
            Yardstick::Fluid(demand) => demand.responses.task(task),
        }
    }
}

#[allow(clippy::cast_possible_truncation)] // `Workload::check` bounds the number of tasks
fn tasks_of(workload: &Workload) -> usize {
    workload.tasks() as usize
}

/// Somebody's response times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Responses {
    /// From when a job was due to its end in the schedule.
    pub(crate) schedule: Histogram,
    /// From when it was asked for to its end in the ideal.
    pub(crate) ideal: Histogram,
}

impl Responses {
    pub(crate) fn merge(&mut self, other: &Responses) {
        self.schedule.merge(&other.schedule);
        self.ideal.merge(&other.ideal);
    }
}

/// The jobs of a task in the schedule, and how many it asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Jobs {
    /// Its solo arrivals up to now.
    asked: u64,
    done: u64,
    /// Periods.
    missed: u64,
    /// When the job that it is doing was due, if it is doing one.
    asked_ns: Option<Nanos>,
}

/// Fluid GMS fed with what the tasks ask for.
pub(crate) struct Demand<'w> {
    workload: &'w Workload,
    arrivals: Vec<Arrivals>,
    fluid: Fluid,
    /// Solo arrivals: by task, and when each asks for its next job.
    solos: Vec<Solo>,
    slots: Slots,
    calendar: Calendar,
    due: Vec<u32>,
    jobs: Vec<Jobs>,
    responses: Detailed<Responses>,
}

impl<'w> Demand<'w> {
    fn new(workload: &'w Workload) -> Demand<'w> {
        let tasks = tasks_of(workload);
        let mut fluid = Fluid::new(workload.machine.cpus);
        fluid.reserve(tasks);
        Demand {
            workload,
            arrivals: workload.groups.iter().map(|group| group.program.arrivals()).collect(),
            fluid,
            solos: Vec::with_capacity(tasks),
            slots: Slots::new(workload),
            calendar: Calendar::new(),
            due: Vec::new(),
            jobs: vec![Jobs::default(); tasks],
            responses: Detailed::new(workload),
        }
    }

    #[allow(clippy::cast_possible_truncation)] // `Workload::check` bounds the number of tasks
    fn expect(&mut self, group: u32, random: Random, arrival_ns: Nanos) {
        let task = TaskId(self.solos.len() as u32);
        self.fluid.add(task, self.workload.groups[group as usize].weight);
        self.solos.push(Solo::new(group, random, arrival_ns));
        self.schedule(task);
    }

    /// The next solo arrival of `task`, if it has any, goes into the calendar.
    fn schedule(&mut self, task: TaskId) {
        let solo = &mut self.solos[task.index()];
        let is_solo = self.arrivals[solo.group as usize] == Arrivals::Solo;
        if is_solo && solo.next_job(task, self.workload, &mut self.slots) {
            let at_ns = solo.at_ns();
            self.calendar.insert(&mut self.solos, task.0, at_ns);
        }
    }

    /// Moves the ideal on to `now_ns`.
    #[inline]
    fn advance(&mut self, now_ns: Nanos) {
        while self.calendar.next_ns() <= now_ns {
            self.ask();
        }
        self.fluid.advance(now_ns);
        self.record();
    }

    /// Whoever asks for something next does.
    fn ask(&mut self) {
        let mut due = std::mem::take(&mut self.due);
        if let Some(at_ns) = self.calendar.pop(&mut self.solos, &mut due) {
            self.fluid.advance(at_ns);
            // Tasks may ask millions of times before anybody decides again.
            self.record();
        }
        for &task in &due {
            let task = TaskId(task);
            self.jobs[task.index()].asked += 1;
            self.fluid.arrive(task, self.solos[task.index()].work_ns);
            self.schedule(task);
        }
        self.due = due;
    }

    /// Keeps how long the ideal took for the jobs that it has done.
    #[inline]
    fn record(&mut self) {
        while let Some(job) = self.fluid.completed() {
            // What is observed are runs, of which a job may have several.
            if self.observed(job.task) {
                continue;
            }
            let group = self.solos[job.task.index()].group;
            let response_ns = job.response_ns();
            self.responses.record(job.task, group, |of| of.ideal.record(response_ns));
        }
    }

    fn observed(&self, task: TaskId) -> bool {
        self.arrivals[self.solos[task.index()].group as usize] == Arrivals::Observed
    }

    /// `task` begins a job in the schedule, unless that was due before.
    fn begin_job(&mut self, task: TaskId, now_ns: Nanos) {
        self.jobs[task.index()].asked_ns.get_or_insert(now_ns);
    }

    /// If `task` is doing a job, it has done it.
    fn end_job(&mut self, task: TaskId, now_ns: Nanos) {
        let jobs = &mut self.jobs[task.index()];
        let Some(asked_ns) = jobs.asked_ns.take() else { return };
        jobs.done += 1;
        let group = self.solos[task.index()].group;
        self.responses.record(task, group, |of| of.schedule.record(now_ns - asked_ns));
    }

    fn counts(&self, task: TaskId) -> Counts {
        let jobs = &self.jobs[task.index()];
        let doing = u64::from(jobs.asked_ns.is_some());
        let missed = match self.observed(task) {
            true => jobs.missed,
            false => jobs.asked.saturating_sub(jobs.done + doing),
        };
        let ideal_done = if self.observed(task) { 0 } else { self.fluid.jobs_done(task) };
        Counts {
            asked: jobs.asked.max(jobs.done + missed + doing),
            done: jobs.done,
            missed,
            ideal_done,
            ideal_missed: self.fluid.jobs_missed(task),
        }
    }
}

/// Jobs of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Asked for so far.
    pub(crate) asked: u64,
    /// Done in the schedule.
    pub(crate) done: u64,
    /// Never done by it.
    pub(crate) missed: u64,
    /// Done in the ideal.
    pub(crate) ideal_done: u64,
    /// Missed even there.
    pub(crate) ideal_missed: u64,
}

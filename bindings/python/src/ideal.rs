//! The ideal: what every task would receive from a machine that serves all of them at once.

use std::collections::VecDeque;

use prorata::fluid;
use prorata::ideal::Rates;
use prorata::policies::Ratio;
use prorata::{Nanos, TaskId};
use pyo3::prelude::*;

use crate::arguments::{CpusArg, LengthArg, NanosArg, WeightArg, weights};
use crate::errors::{guarded, refused};
use crate::registry::fraction;
use crate::table::{Builder, Table};

/// The exact rates of tasks that are all runnable, in cpus.
#[pyfunction]
#[pyo3(signature = (weights, cpus = CpusArg(1)), text_signature = "(weights, cpus=1)")]
pub(crate) fn ideal_rates<'py>(
    py: Python<'py>,
    weights: Vec<WeightArg>,
    cpus: CpusArg,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let weights = self::weights(&weights)?;
    let rates = guarded(|| Rates::new(&weights, cpus.0))?;
    let denominator = i128::from(rates.denominator);
    let rate = |&numerator: &u64| Ratio { numerator: numerator.into(), denominator };
    rates.numerator.iter().map(|numerator| fraction(py, rate(numerator))).collect()
}

/// What fluid GMS makes of some jobs.
#[pyclass(frozen, get_all, module = "prorata")]
pub(crate) struct Fluid {
    /// One row a time and task.
    service: Table,
    /// One row a job.
    jobs: Table,
}

/// Most rows of the service.
const MAX_ROWS: usize = 100_000_000;

/// A job: whose, when it is asked for, how much; without end if that is `None`.
type JobArg = (usize, NanosArg, Option<LengthArg>);

/// Serves `jobs` with a fluid, and reads at `times_ns` what every task has received.
#[pyfunction]
#[pyo3(
    name = "fluid",
    signature = (weights, jobs, times_ns, *, cpus = CpusArg(1)),
    text_signature = "(weights, jobs, times_ns, *, cpus=1)"
)]
pub(crate) fn serve(
    weights: Vec<WeightArg>,
    jobs: Vec<JobArg>,
    times_ns: Vec<NanosArg>,
    cpus: CpusArg,
) -> PyResult<Fluid> {
    let weights = self::weights(&weights)?;
    let jobs = jobs.into_iter().map(|job| Job::new(job, weights.len()));
    let mut jobs = jobs.collect::<PyResult<Vec<Job>>>()?;
    jobs.sort_by_key(|job| job.asked_ns);
    let mut times_ns: Vec<Nanos> = times_ns.into_iter().map(|time| time.0).collect();
    times_ns.sort_unstable();
    if times_ns.len().saturating_mul(weights.len()) > MAX_ROWS {
        let (times, tasks) = (times_ns.len(), weights.len());
        return Err(refused(format!(
            "{times} times of {tasks} tasks are more than {MAX_ROWS} rows: ask for fewer times"
        )));
    }
    let mut ideal = fluid::Fluid::new(cpus.0);
    let tasks: Vec<TaskId> = (0..TaskId::LIMIT).map(TaskId).take(weights.len()).collect();
    for (&task, &weight) in tasks.iter().zip(&weights) {
        ideal.add(task, weight);
    }
    let run = || Course::run(ideal, &tasks, &mut jobs, &times_ns);
    let service = guarded(run)?;
    let at = |index: usize| times_ns[index / tasks.len()];
    let service = Builder::default()
        .counts("time_ns", (0..service.len()).map(|index| Some(at(index))))
        .counts("task", (0..service.len()).map(|index| Some((index % tasks.len()) as u64)))
        .counts("service_ns", service.iter().copied().map(Some))
        .table()?;
    let endless = |job: &Job| job.work_ns == fluid::Fluid::FOREVER;
    let jobs = Builder::default()
        .counts("task", jobs.iter().map(|job| Some(job.task.0.into())))
        .counts("asked_ns", jobs.iter().map(|job| Some(job.asked_ns)))
        .counts("work_ns", jobs.iter().map(|job| (!endless(job)).then_some(job.work_ns)))
        .counts("done_ns", jobs.iter().map(|job| job.done_ns))
        .flags("missed", jobs.iter().map(|job| job.missed))
        .table()?;
    Ok(Fluid { service, jobs })
}

struct Job {
    task: TaskId,
    asked_ns: Nanos,
    work_ns: Nanos,
    done_ns: Option<Nanos>,
    /// Another one waited already.
    missed: bool,
}

impl Job {
    fn new((task, asked_ns, work_ns): JobArg, tasks: usize) -> PyResult<Job> {
        let known = u32::try_from(task).ok().filter(|_| task < tasks);
        let id = known.ok_or_else(|| {
            refused(format!(
                "a job of task {task}: there are {tasks} weights, so tasks 0 to {}",
                tasks - 1
            ))
        })?;
        let work_ns = work_ns.map_or(fluid::Fluid::FOREVER, |work| work.0);
        Ok(Job { task: TaskId(id), asked_ns: asked_ns.0, work_ns, done_ns: None, missed: false })
    }
}

/// A fluid machine on its way through jobs.
struct Course<'j> {
    ideal: fluid::Fluid,
    jobs: &'j mut [Job],
    /// By task: the jobs that are asked for and not done, by index.
    open: Vec<VecDeque<usize>>,
}

impl Course<'_> {
    /// The service of every task at each of the times, the tasks of a time side by side.
    fn run(
        ideal: fluid::Fluid,
        tasks: &[TaskId],
        jobs: &mut [Job],
        times_ns: &[Nanos],
    ) -> Vec<Nanos> {
        let open = vec![VecDeque::new(); tasks.len()];
        let mut course = Course { ideal, jobs, open };
        let (mut next, mut service) = (0, Vec::with_capacity(times_ns.len() * tasks.len()));
        for &time_ns in times_ns {
            while let Some(job) = course.jobs.get(next)
                && job.asked_ns <= time_ns
            {
                course.advance(job.asked_ns);
                course.arrive(next);
                next += 1;
            }
            course.advance(time_ns);
            service.extend(tasks.iter().map(|&task| course.ideal.service_ns(task)));
        }
        service
    }

    fn advance(&mut self, now_ns: Nanos) {
        self.ideal.advance(now_ns);
        while let Some(done) = self.ideal.completed() {
            // A task's jobs are served in the order in which they were asked for.
            if let Some(index) = self.open[done.task.index()].pop_front() {
                self.jobs[index].done_ns = Some(done.done_ns);
            }
        }
    }

    fn arrive(&mut self, index: usize) {
        let Job { task, work_ns, .. } = self.jobs[index];
        let accepted = self.ideal.arrive(task, work_ns);
        self.jobs[index].missed = !accepted;
        if accepted {
            self.open[task.index()].push_back(index);
        }
    }
}

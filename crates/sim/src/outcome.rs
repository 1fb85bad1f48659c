//! What a simulation found out.

use prorata::hierarchy::NodeId;
use prorata::ideal::{Extremes, ServiceError};
use prorata::{Nanos, Policy, TaskId};
use serde::Serialize;

use crate::engine::{Counts, Engine, Evidence, Responses, Share, SimulationError, Totals, Waits};
use crate::histogram::Histogram;
use crate::observer::Observer;
use crate::workload::{Arrivals, Cgroup, Workload};

/// The outcome of one simulation. Times in nanoseconds, errors in quanta, shares in cpus.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Number of cpus.
    pub cpus: usize,
    /// Length of a quantum.
    pub quantum_ns: Nanos,
    /// Seed.
    pub seed: u64,
    /// When it ended.
    pub duration_ns: Nanos,
    /// What the machine did.
    #[serde(flatten)]
    pub totals: Totals,
    /// The furthest that any task was behind the ideal and ahead of it.
    #[serde(flatten)]
    pub errors: Errors,
    /// Waits of all tasks.
    #[serde(flatten)]
    pub waits: Percentiles,
    /// Jobs of all tasks.
    #[serde(flatten)]
    pub jobs: Jobs,
    /// By group, in the order of the workload.
    pub groups: Vec<GroupOutcome>,
    /// By task.
    pub tasks: Vec<TaskOutcome>,
    /// By cgroup, in the order of the workload. If there are any, the ideal of tasks is that of the
    /// tree too.
    pub cgroups: Vec<CgroupOutcome>,
}

/// The outcome of a cgroup: of all tasks in it and below it, while they were there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CgroupOutcome {
    /// Its name.
    pub name: String,
    /// The name of the cgroup that it is in; nothing if that is the root.
    pub parent: Option<String>,
    /// Its weight at the end.
    pub weight: u32,
    /// What it received, and the ideal.
    #[serde(flatten)]
    pub service: Service,
    /// Its extremes.
    #[serde(flatten)]
    pub errors: Errors,
}

/// The outcome of a group of identical tasks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupOutcome {
    /// Its name.
    pub name: String,
    /// Number of tasks.
    pub tasks: u32,
    /// Weight of each at its arrival.
    pub weight: u32,
    /// The name of the cgroup that they arrive in; nothing if that is the root.
    pub cgroup: Option<String>,
    /// What all of them received, and the ideal.
    #[serde(flatten)]
    pub service: Service,
    /// The extremes over its tasks.
    #[serde(flatten)]
    pub errors: Errors,
    /// Waits of its tasks.
    #[serde(flatten)]
    pub waits: Percentiles,
    /// Where the jobs of its tasks come from.
    pub arrivals: Arrivals,
    /// Jobs of its tasks.
    #[serde(flatten)]
    pub jobs: Jobs,
}

impl Outcome {
    /// What the group received that got least, in percent of what the ideal gave it.
    #[must_use]
    pub fn least_percent(&self) -> f64 {
        let groups = self.groups.iter().filter_map(GroupOutcome::of_ideal_percent);
        groups.reduce(f64::min).unwrap_or(100.0)
    }
}

impl GroupOutcome {
    /// What it received, in percent of what the ideal gave it, if that is anything.
    #[must_use]
    pub fn of_ideal_percent(&self) -> Option<f64> {
        let any = self.service.ideal_ns > 0;
        any.then(|| 100.0 * self.service.share / self.service.ideal_share)
    }
}

/// The outcome of one task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskOutcome {
    /// Its name.
    pub name: String,
    /// Index of its group.
    pub group: u32,
    /// What it received, and the ideal.
    #[serde(flatten)]
    pub service: Service,
    /// Its extremes.
    #[serde(flatten)]
    pub errors: Errors,
    /// Time that it was runnable without a cpu.
    pub wait_ns: Nanos,
    /// Times that it got a cpu which had run something else.
    pub switches: u64,
    /// Times that it got another cpu than before.
    pub migrations: u32,
    /// Times that it became runnable.
    pub wakeups: u32,
    /// Its waits; nothing if there are too many tasks to keep that of each.
    pub waits: Option<Percentiles>,
    /// Its jobs.
    #[serde(flatten)]
    pub jobs: JobCounts,
    /// Their response times; nothing if there are too many tasks to keep those of each.
    pub responses: Option<ResponseTimes>,
}

/// How many jobs: what a task does between two sleeps is one. All 0 where no task ever blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JobCounts {
    /// Asked for: the jobs that the task would have begun alone, on a cpu of its own.
    pub jobs_asked: u64,
    /// Done.
    pub jobs_done: u64,
    /// Of those, the ones that are neither done nor being done: it came too late to ask for them. If
    /// it waits for other tasks, the periods of its timers that had passed when it came back.
    pub jobs_missed: u64,
    /// What the ideal has done of those; 0 if the task waits for others.
    pub ideal_jobs_done: u64,
    /// What was missed even in the ideal.
    pub ideal_jobs_missed: u64,
}

impl JobCounts {
    /// Jobs missed, in percent of those asked for, if any were.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn missed_percent(&self) -> Option<f64> {
        (self.jobs_asked > 0).then(|| 100.0 * self.jobs_missed as f64 / self.jobs_asked as f64)
    }

    fn new(counts: Counts) -> JobCounts {
        JobCounts {
            jobs_asked: counts.asked,
            jobs_done: counts.done,
            jobs_missed: counts.missed,
            ideal_jobs_done: counts.ideal_done,
            ideal_jobs_missed: counts.ideal_missed,
        }
    }

    fn add(self, other: JobCounts) -> JobCounts {
        JobCounts {
            jobs_asked: self.jobs_asked + other.jobs_asked,
            jobs_done: self.jobs_done + other.jobs_done,
            jobs_missed: self.jobs_missed + other.jobs_missed,
            ideal_jobs_done: self.ideal_jobs_done + other.ideal_jobs_done,
            ideal_jobs_missed: self.ideal_jobs_missed + other.ideal_jobs_missed,
        }
    }
}

/// How long jobs took: from the time at which each was due to its end; in the ideal from the time
/// at which the task would have asked for it alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)] // the names say it
pub struct ResponseTimes {
    pub response_p50_ns: Nanos,
    pub response_p99_ns: Nanos,
    pub response_max_ns: Nanos,
    pub ideal_response_p50_ns: Nanos,
    pub ideal_response_p99_ns: Nanos,
    pub ideal_response_max_ns: Nanos,
}

impl ResponseTimes {
    fn new(of: &Responses) -> ResponseTimes {
        ResponseTimes {
            response_p50_ns: of.schedule.quantile_ns(500),
            response_p99_ns: of.schedule.quantile_ns(990),
            response_max_ns: of.schedule.longest_ns(),
            ideal_response_p50_ns: of.ideal.quantile_ns(500),
            ideal_response_p99_ns: of.ideal.quantile_ns(990),
            ideal_response_max_ns: of.ideal.longest_ns(),
        }
    }
}

/// Jobs and how long they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Jobs {
    /// How many.
    #[serde(flatten)]
    pub counts: JobCounts,
    /// How long.
    #[serde(flatten)]
    pub responses: ResponseTimes,
}

/// Service received, and what the ideal machine gives in the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Service {
    /// Received.
    pub service_ns: Nanos,
    /// Entitled to.
    pub ideal_ns: Nanos,
    /// Received, in cpus: 0.25 is a quarter of one cpu.
    pub share: f64,
    /// Entitled to, in cpus.
    pub ideal_share: f64,
}

impl Service {
    #[allow(clippy::cast_precision_loss)]
    fn new(service_ns: Nanos, ideal_ns: Nanos, duration_ns: Nanos) -> Service {
        let share = |ns: Nanos| if duration_ns == 0 { 0.0 } else { ns as f64 / duration_ns as f64 };
        Service { service_ns, ideal_ns, share: share(service_ns), ideal_share: share(ideal_ns) }
    }
}

/// Extremes of the service error in quanta.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Errors {
    /// At most 0: behind.
    pub error_min: f64,
    /// At least 0: ahead.
    pub error_max: f64,
}

impl Errors {
    fn merge(self, other: Errors) -> Errors {
        Errors {
            error_min: self.error_min.min(other.error_min),
            error_max: self.error_max.max(other.error_max),
        }
    }

    fn new(extremes: Extremes<ServiceError>, quantum_ns: Nanos) -> Errors {
        Errors {
            error_min: extremes.min.in_quanta(quantum_ns),
            error_max: extremes.max.in_quanta(quantum_ns),
        }
    }
}

/// How long tasks waited: while runnable without a cpu, and from waking up to the first cpu.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs)] // the names say it
pub struct Percentiles {
    pub wait_p50_ns: Nanos,
    pub wait_p99_ns: Nanos,
    pub wait_max_ns: Nanos,
    pub wakeup_p50_ns: Nanos,
    pub wakeup_p99_ns: Nanos,
    pub wakeup_max_ns: Nanos,
}

impl Percentiles {
    fn new(wait: &Histogram, wakeup: &Histogram) -> Percentiles {
        Percentiles {
            wait_p50_ns: wait.quantile_ns(500),
            wait_p99_ns: wait.quantile_ns(990),
            wait_max_ns: wait.longest_ns(),
            wakeup_p50_ns: wakeup.quantile_ns(500),
            wakeup_p99_ns: wakeup.quantile_ns(990),
            wakeup_max_ns: wakeup.longest_ns(),
        }
    }
}

impl<P: Policy, O: Observer> Engine<'_, P, O> {
    /// Simulates up to the end and says what came of it.
    ///
    /// # Errors
    /// When a program goes on for ever without taking time.
    pub fn run(mut self) -> Result<(Outcome, O), SimulationError> {
        self.simulate()?;
        Ok(self.outcome())
    }

    /// What came of it, and the observer.
    #[must_use]
    pub fn outcome(mut self) -> (Outcome, O) {
        (self.evidence().outcome(), self.into_observer())
    }
}

impl Evidence<'_, '_> {
    fn outcome(mut self) -> Outcome {
        let workload = self.workload;
        let mut tasks = Vec::with_capacity(self.tasks.len());
        let mut groups = Vec::with_capacity(workload.groups.len());
        let (mut wait, mut wakeup) = (Histogram::default(), Histogram::default());
        let (mut errors, mut jobs) = (Errors::default(), JobCounts::default());
        let mut responses = Responses::default();
        for (index, (group, ids)) in workload.groups.iter().zip(workload.ids()).enumerate() {
            let first = tasks.len();
            for (number, task) in (0..).zip(ids.map(TaskId)) {
                tasks.push(self.task(group.task_name(number), task));
            }
            let waits = self.latencies.group(index);
            wait.merge(&waits.wait);
            wakeup.merge(&waits.wakeup);
            let took = self.yardstick.responses(index);
            responses.merge(&took);
            let group = self.group(index, &tasks[first..], waits, &took);
            errors = errors.merge(group.errors);
            jobs = jobs.add(group.jobs.counts);
            groups.push(group);
        }
        Outcome {
            cpus: workload.machine.cpus,
            quantum_ns: workload.machine.quantum_ns,
            seed: workload.seed,
            duration_ns: self.duration_ns,
            totals: self.totals,
            errors,
            waits: Percentiles::new(&wait, &wakeup),
            jobs: Jobs { counts: jobs, responses: ResponseTimes::new(&responses) },
            groups,
            tasks,
            cgroups: self.cgroups(),
        }
    }

    fn cgroups(&self) -> Vec<CgroupOutcome> {
        let Some(shares) = &self.shares else { return Vec::new() };
        let cgroups = &self.workload.cgroups;
        let outcome = |(node, cgroup): (NodeId, &Cgroup)| {
            let (service, errors) = self.received(shares.of_cgroup(node));
            CgroupOutcome {
                name: cgroup.name.clone(),
                parent: cgroups.get(cgroup.parent).map(|parent| parent.name.clone()),
                weight: shares.weight(node).get(),
                service,
                errors,
            }
        };
        (1..).map(NodeId).zip(&cgroups.nodes).map(outcome).collect()
    }

    fn received(&self, (used_ns, ideal_ns, extremes): Share) -> (Service, Errors) {
        let service = Service::new(used_ns, ideal_ns, self.duration_ns);
        (service, Errors::new(extremes, self.workload.machine.quantum_ns))
    }

    fn task(&mut self, name: String, task: TaskId) -> TaskOutcome {
        let known = &self.tasks[task.index()];
        let share = match &self.shares {
            Some(shares) => shares.of_task(task),
            None => {
                let ideal_ns = self.yardstick.ideal_ns(task, self.duration_ns);
                (self.yardstick.used_ns(task), ideal_ns, self.yardstick.extremes(task))
            }
        };
        let (service, errors) = self.received(share);
        let waits = self.latencies.task(task);
        TaskOutcome {
            name,
            group: known.group,
            service,
            errors,
            wait_ns: known.wait_ns,
            switches: known.switches,
            migrations: known.migrations,
            wakeups: known.wakeups,
            waits: waits.map(|w| Percentiles::new(&w.wait, &w.wakeup)),
            jobs: JobCounts::new(self.yardstick.counts(task)),
            responses: self.yardstick.responses_of(task).map(ResponseTimes::new),
        }
    }

    fn group(
        &self,
        index: usize,
        tasks: &[TaskOutcome],
        waits: &Waits,
        took: &Responses,
    ) -> GroupOutcome {
        let Workload { groups, cgroups, .. } = self.workload;
        let group = &groups[index];
        let sum = |of: fn(&Service) -> Nanos| tasks.iter().map(|task| of(&task.service)).sum();
        let service = sum(|service| service.service_ns);
        let ideal = sum(|service| service.ideal_ns);
        GroupOutcome {
            name: group.name.clone(),
            tasks: group.count,
            weight: group.weight.get(),
            cgroup: cgroups.get(cgroups.home(index)).map(|cgroup| cgroup.name.clone()),
            service: Service::new(service, ideal, self.duration_ns),
            errors: tasks.iter().map(|t| t.errors).fold(Errors::default(), Errors::merge),
            waits: Percentiles::new(&waits.wait, &waits.wakeup),
            arrivals: group.program.arrivals(),
            jobs: Jobs {
                counts: tasks.iter().map(|t| t.jobs).fold(JobCounts::default(), JobCounts::add),
                responses: ResponseTimes::new(took),
            },
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::workload::parse_toml;

    /// Two cpus, a hog and three tasks that sleep.
    pub(crate) fn workload() -> Workload {
        parse_toml(
            r#"
            duration = "1s"
            machine = { cpus = 2, quantum = "10ms", quanta = "asynchronous" }
            [[task]]
            name = "hog"
            [[task]]
            name = "nap"
            count = 3
            weight = 2
            phases = [{ run = { uniform = ["1ms", "25ms"] } }, { sleep = "5ms" }]
            "#,
        )
        .expect("a workload")
    }

    pub(crate) fn outcome() -> Outcome {
        let workload = workload();
        let setup = workload.machine.setup(workload.seed);
        let policy = prorata::policies::build("gr3", &setup).expect("gr3");
        let (outcome, ()) = Engine::new(&workload, policy, ()).expect("fits").run().expect("runs");
        outcome
    }

    #[test]
    fn time_is_neither_lost_nor_made() {
        let outcome = outcome();
        let sum = |of: fn(&Service) -> Nanos| -> Nanos {
            outcome.tasks.iter().map(|task| of(&task.service)).sum()
        };
        let all_ns = outcome.duration_ns * 2;
        assert_eq!(sum(|service| service.service_ns) + outcome.totals.idle_ns, all_ns);
        assert_eq!(outcome.totals.idle_while_waiting_ns, 0);
        // Each task's ideal is rounded to a nanosecond.
        assert!(sum(|service| service.ideal_ns) <= all_ns + 4);
    }
}

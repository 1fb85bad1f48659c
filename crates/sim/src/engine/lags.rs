//! Service errors over time, sampled: what each group was ahead of the ideal, and behind it.

use prorata::{Nanos, TaskId};

use super::{Engine, State};
use crate::observer::Observer;

/// The service errors of a group's tasks at one time, in quanta.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Lag {
    /// When.
    pub time_ns: Nanos,
    /// Index of the group.
    pub group: u32,
    /// Of the task that is furthest behind the ideal …
    pub error_min: f64,
    /// … and of the one that is furthest ahead.
    pub error_max: f64,
}

/// What was sampled so far.
#[derive(Debug, Default)]
pub(super) struct Samples {
    period_ns: Nanos,
    pub(super) lags: Vec<Lag>,
}

impl<P: prorata::Policy, O: Observer> Engine<'_, P, O> {
    /// Samples the service errors of all tasks that are there, at time 0 and then at about `times`
    /// times up to the end. It changes nothing in the outcome.
    ///
    /// # Errors
    /// When the workload has cgroups: the ideal of a tree is only known when something happens.
    pub fn sample_lags(&mut self, times: u32) -> Result<(), String> {
        if !self.workload.cgroups.nodes.is_empty() {
            return Err("service errors over time are not known for workloads with cgroups".into());
        }
        let period_ns = (self.workload.duration_ns / u64::from(times.max(1))).max(1);
        self.samples = Samples { period_ns, lags: Vec::new() };
        self.next_sample_ns = 0;
        Ok(())
    }

    /// What was sampled, in the order of time and groups.
    #[must_use]
    pub fn lags(&self) -> &[Lag] {
        &self.samples.lags
    }

    /// Samples at all times that are due before what happens at `now_ns`: until then nothing changes.
    pub(super) fn sample(&mut self, now_ns: Nanos) {
        while self.next_sample_ns <= now_ns {
            let time_ns = self.next_sample_ns;
            self.sample_at(time_ns);
            self.next_sample_ns += self.samples.period_ns;
        }
    }

    fn sample_at(&mut self, time_ns: Nanos) {
        let mut running_ns = vec![0; self.tasks.len()];
        for cpu in &self.cpus {
            if let Some(running_ns) = running_ns.get_mut(cpu.running.index()) {
                *running_ns = time_ns - cpu.started_ns;
            }
        }
        for (group, ids) in (0..).zip(self.workload.ids()) {
            let mut extremes = None;
            for id in ids {
                let about = &self.tasks[id as usize];
                if matches!(about.state, State::Absent | State::Exited) {
                    continue;
                }
                let error = self.error(TaskId(id), running_ns[id as usize], time_ns);
                let (min, max): (f64, f64) = extremes.unwrap_or((error, error));
                extremes = Some((min.min(error), max.max(error)));
            }
            if let Some((error_min, error_max)) = extremes {
                self.samples.lags.push(Lag { time_ns, group, error_min, error_max });
            }
        }
    }

    /// In quanta, of a task that was charged `running_ns` ago.
    #[allow(clippy::cast_precision_loss)] // a run is at most a few quanta
    fn error(&mut self, task: TaskId, running_ns: Nanos, time_ns: Nanos) -> f64 {
        let quantum_ns = self.machine.quantum_ns;
        let charged = self.errors.error(task, time_ns).in_quanta(quantum_ns);
        charged + running_ns as f64 / quantum_ns as f64
    }
}

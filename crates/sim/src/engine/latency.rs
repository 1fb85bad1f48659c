//! How long tasks waited, per group, and per task when there are few.

use prorata::{Nanos, TaskId};

use crate::histogram::Histogram;
use crate::workload::Workload;

/// With more tasks than this, percentiles are kept per group only.
const TASKS_IN_DETAIL: u64 = 256;

/// Two histograms of somebody's waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// Every time spent runnable without a cpu, if it was not 0, and all wake-ups.
    pub(crate) wait: Histogram,
    /// From a wake-up to the first cpu.
    pub(crate) wakeup: Histogram,
}

impl Waits {
    #[inline]
    fn record(&mut self, waited_ns: Nanos, woken: bool) {
        self.wait.record(waited_ns);
        if woken {
            self.wakeup.record(waited_ns);
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    groups: Vec<Waits>,
    /// Empty if there are many tasks.
    tasks: Vec<Waits>,
}

impl Latencies {
    #[allow(clippy::cast_possible_truncation)]
    pub(super) fn new(workload: &Workload) -> Latencies {
        let tasks = workload.tasks();
        let in_detail = if tasks <= TASKS_IN_DETAIL { tasks as usize } else { 0 };
        Latencies {
            groups: vec![Waits::default(); workload.groups.len()],
            tasks: vec![Waits::default(); in_detail],
        }
    }

    #[inline]
    pub(super) fn record(&mut self, task: TaskId, group: u32, waited_ns: Nanos, woken: bool) {
        self.groups[group as usize].record(waited_ns, woken);
        if let Some(waits) = self.tasks.get_mut(task.index()) {
            waits.record(waited_ns, woken);
        }
    }

    pub(crate) fn group(&self, group: usize) -> &Waits {
        &self.groups[group]
    }

    pub(crate) fn task(&self, task: TaskId) -> Option<&Waits> {
        self.tasks.get(task.index())
    }
}

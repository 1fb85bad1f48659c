//! What is known of each group, and of each task when there are few.

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
    pub(super) fn record(&mut self, waited_ns: Nanos, woken: bool) {
        self.wait.record(waited_ns);
        if woken {
            self.wakeup.record(waited_ns);
        }
    }
}

/// Something of each group, and of each task when there are few.
#[derive(Clone, Debug)]
pub(crate) struct Detailed<T> {
    groups: Vec<T>,
    /// Empty if there are many tasks.
    tasks: Vec<T>,
}

impl<T: Clone + Default> Detailed<T> {
    #[allow(clippy::cast_possible_truncation)]
    pub(super) fn new(workload: &Workload) -> Detailed<T> {
        let tasks = workload.tasks();
        let in_detail = if tasks <= TASKS_IN_DETAIL { tasks as usize } else { 0 };
        Detailed {
            groups: vec![T::default(); workload.groups.len()],
            tasks: vec![T::default(); in_detail],
        }
    }

    /// Records something of `task`, which is in `group`.
    #[inline]
    pub(super) fn record(&mut self, task: TaskId, group: u32, record: impl Fn(&mut T)) {
        record(&mut self.groups[group as usize]);
        if let Some(of) = self.tasks.get_mut(task.index()) {
            record(of);
        }
    }

    pub(crate) fn group(&self, group: usize) -> &T {
        &self.groups[group]
    }

    pub(crate) fn task(&self, task: TaskId) -> Option<&T> {
        self.tasks.get(task.index())
    }
}

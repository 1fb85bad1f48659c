//! Frontlogs of GR3MP: quanta that were granted to a task while it was running, to be run later on
//! the cpu that is the frontlog's *home*, without asking the central queue (USENIX'05 §3).
//!
//! A cpu serves the tasks whose frontlog is at home with it round robin. For a fixed set of tasks
//! there is at most one, the task that the cpu runs.

use alloc::vec::Vec;

use super::{NIL, Shared};
use crate::policy::{CpuId, TaskId};
use crate::queue::Links;

/// A task's frontlog.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frontlog {
    /// F, in quanta.
    quanta: u32,
    /// The cpu that will run it, if there is any.
    home: u32,
}

impl Frontlog {
    pub(super) const NONE: Frontlog = Frontlog { quanta: 0, home: NIL };

    pub(super) fn quanta(self) -> u32 {
        self.quanta
    }
}

/// The frontlogs of all cpus.
#[derive(Clone, Debug)]
pub(super) struct Frontlogs {
    /// Of the tasks at home with each cpu.
    links: Links,
    /// The task that each cpu serves next, and the sum of the frontlogs at home with it.
    cpus: Vec<(Option<TaskId>, u64)>,
    /// Invariant: the sum over all cpus.
    total: u64,
}

impl Frontlogs {
    pub(super) fn new(cpus: usize) -> Frontlogs {
        Frontlogs { links: Links::default(), cpus: alloc::vec![(None, 0); cpus], total: 0 }
    }

    /// Makes room for tasks with ids below `ids`.
    pub(super) fn reserve(&mut self, ids: usize) {
        self.links.reserve(ids);
    }

    /// F_T, the sum of all frontlogs.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The cpu with the smallest sum of frontlogs, ties to the first.
    pub(super) fn shortest(&self) -> CpuId {
        let sums = self.cpus.iter().map(|&(_, sum)| sum).enumerate();
        sums.min_by_key(|&(_, sum)| sum).map_or(0, |(cpu, _)| cpu)
    }

    /// Adds `quanta` to the frontlog of `task`; `cpu` becomes its home if it had none.
    pub(super) fn grant(&mut self, tasks: &mut [Shared], task: TaskId, cpu: CpuId, quanta: u32) {
        let log = &mut tasks[task.index()].frontlog;
        if log.quanta == 0 {
            log.home = u32::try_from(cpu).expect("a cpu is below 2^16");
            self.links.push(&mut self.cpus[cpu].0, task);
        }
        log.quanta += quanta;
        self.cpus[log.home as usize].1 += u64::from(quanta);
        self.total += u64::from(quanta);
    }

    /// The task that `cpu` runs for its frontlog, if there is one that `can_run` now; a quantum
    /// less is left of it.
    #[inline]
    pub(super) fn serve(
        &mut self,
        tasks: &mut [Shared],
        cpu: CpuId,
        can_run: impl Fn(TaskId) -> bool,
    ) -> Option<TaskId> {
        let task = self.links.iter(self.cpus[cpu].0).find(|&task| can_run(task))?;
        self.cpus[cpu].0 = Some(self.links.next(task));
        let log = &mut tasks[task.index()].frontlog;
        log.quanta -= 1;
        self.cpus[cpu].1 -= 1;
        self.total -= 1;
        if log.quanta == 0 {
            self.retire(tasks, task);
        }
        Some(task)
    }

    /// Drops the frontlog of `task`, if it has any, but for so many `quanta`.
    pub(super) fn keep(&mut self, tasks: &mut [Shared], task: TaskId, quanta: u32) {
        let log = &mut tasks[task.index()].frontlog;
        let dropped = log.quanta.saturating_sub(quanta);
        if dropped > 0 {
            log.quanta -= dropped;
            self.cpus[log.home as usize].1 -= u64::from(dropped);
            self.total -= u64::from(dropped);
            if log.quanta == 0 {
                self.retire(tasks, task);
            }
        }
    }

    fn retire(&mut self, tasks: &mut [Shared], task: TaskId) {
        let log = core::mem::replace(&mut tasks[task.index()].frontlog, Frontlog::NONE);
        self.links.remove(&mut self.cpus[log.home as usize].0, task);
    }
}

//! Frontlogs of GR3MP: quanta that were granted to a task while it was running, to be run later on
//! the cpu that is the frontlog's *home*, without asking the central queue (USENIX'05 §3).
//!
//! A cpu serves the tasks whose frontlog is at home with it round robin. For a fixed set of tasks
//! there is at most one, the task that the cpu runs.

use alloc::vec::Vec;

use super::{NIL, Shared};
use crate::policy::{CpuId, TaskId};
use crate::queue::{NodeId, Rings};

/// A task's frontlog.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frontlog {
    /// F, in quanta.
    quanta: u32,
    /// The cpu that will run it, if there is any.
    home: u32,
    /// The task's place among those at home with that cpu.
    node: NodeId,
}

impl Frontlog {
    pub(super) const NONE: Frontlog = Frontlog { quanta: 0, home: NIL, node: NIL };
}

/// The frontlogs of all cpus.
#[derive(Clone, Debug)]
pub(super) struct Frontlogs {
    rings: Rings<TaskId, 1>,
    /// The task that each cpu serves next, and the sum of the frontlogs at home with it.
    cpus: Vec<(Option<NodeId>, u64)>,
    /// Invariant: the sum over all cpus.
    total: u64,
}

impl Frontlogs {
    pub(super) fn new(cpus: usize) -> Frontlogs {
        Frontlogs { rings: Rings::default(), cpus: alloc::vec![(None, 0); cpus], total: 0 }
    }

    /// Makes room for `tasks` tasks.
    pub(super) fn reserve(&mut self, tasks: usize) {
        self.rings.reserve(tasks);
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
            let (head, _) = &mut self.cpus[cpu];
            log.home = u32::try_from(cpu).expect("a cpu is below 2^16");
            log.node = match *head {
                Some(head) => self.rings.insert_before(0, head, task),
                None => *head.insert(self.rings.insert_alone(0, task)),
            };
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
        let head = self.cpus[cpu].0?;
        let node = self.rings.iter_from(head).find(|&node| can_run(*self.rings.get(node)))?;
        let task = *self.rings.get(node);
        self.cpus[cpu].0 = Some(self.rings.next(node));
        let log = &mut tasks[task.index()].frontlog;
        log.quanta -= 1;
        self.cpus[cpu].1 -= 1;
        self.total -= 1;
        if log.quanta == 0 {
            self.retire(log);
        }
        Some(task)
    }

    /// Drops the frontlog of `task`, if it has any.
    pub(super) fn discard(&mut self, tasks: &mut [Shared], task: TaskId) {
        let log = &mut tasks[task.index()].frontlog;
        if log.quanta > 0 {
            self.cpus[log.home as usize].1 -= u64::from(log.quanta);
            self.total -= u64::from(log.quanta);
            self.retire(log);
        }
    }

    fn retire(&mut self, log: &mut Frontlog) {
        let (head, _) = &mut self.cpus[log.home as usize];
        let next = self.rings.remove(0, log.node);
        if *head == Some(log.node) {
            *head = next;
        }
        *log = Frontlog::NONE;
    }
}

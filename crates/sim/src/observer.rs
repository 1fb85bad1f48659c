//! Who wants to see every run.

use prorata::{CpuId, Nanos, TaskId};

/// One task on one cpu without interruption by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The cpu.
    pub cpu: CpuId,
    /// The task.
    pub task: TaskId,
    /// From then …
    pub start_ns: Nanos,
    /// … until then.
    pub end_ns: Nanos,
    /// Why it ended.
    pub end: End,
}

/// Why a task left its cpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It would go on: its quantum ended, it yielded, or the simulation ended.
    Preempted,
    /// It blocked.
    Blocked,
    /// It left for good.
    Exited,
}

/// Sees what happens, in order of time.
pub trait Observer {
    /// `task` became runnable.
    fn woke(&mut self, task: TaskId, now_ns: Nanos);

    /// A run, at its end. At most a quantum long.
    fn ran(&mut self, run: Run);
}

/// Sees nothing and costs nothing.
impl Observer for () {
    fn woke(&mut self, _task: TaskId, _now_ns: Nanos) {}
    fn ran(&mut self, _run: Run) {}
}

//! What the scheduler loop asks of the system that holds the tasks.

use std::io;

use prorata::{CpuId, Nanos, TaskId};

/// What a task is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// So many of its threads want a cpu; at least one.
    Runnable(usize),
    /// All its threads sleep.
    Blocked,
    /// None of its processes is left.
    Gone,
}

/// Why [`Backend::wait`] returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wakeup {
    /// Watched cpus that seem to have nothing to run. A hint: the task may be running after all.
    pub idle: Vec<CpuId>,
    /// The user asked to stop (Ctrl-C, SIGTERM, SIGHUP).
    pub interrupted: bool,
}

/// Holds tasks, one of them a whole process tree, and runs or stops each as a whole.
///
/// Task ids and cpus are indices into what the backend was built with. All times are of one
/// monotonic clock. At first every task is stopped.
///
/// # Errors
/// The methods fail only if the system refuses what it has granted before. That a task is gone is
/// no error: the call does nothing.
pub trait Backend {
    /// What `--backend` calls it.
    fn name(&self) -> &'static str;

    /// The time.
    fn now_ns(&mut self) -> Nanos;

    /// Sleeps until `until_ns` or until there is something to tell.
    fn wait(&mut self, until_ns: Nanos) -> io::Result<Wakeup>;

    /// CPU time that the task has used since it was started or taken over, of all its processes,
    /// those that ended included. Never decreases. While the task runs it may be up to
    /// [a tick](Backend::tick_ns) old; once it is stopped or blocked it is exact.
    fn usage_ns(&mut self, task: TaskId) -> io::Result<Nanos>;

    /// For how long the task's first process has wanted a cpu so far and not had it because another program
    /// did; what it waits for just now is not in it. Decides nothing: it tells when a task woke.
    fn ready_ns(&mut self, task: TaskId) -> io::Result<Nanos>;

    /// The period of the scheduler tick; 0 if there is none. A reading of a running task can be so
    /// old. At the multiples of it, as [`now_ns`](Backend::now_ns) counts, it costs least to wake
    /// up.
    fn tick_ns(&self) -> Nanos;

    /// How many threads of the task want a cpu: those above `most` need not be counted. Not asked
    /// of a stopped task.
    fn activity(&mut self, task: TaskId, most: usize) -> io::Result<Activity>;

    /// Binds every thread of the task to `cpus`, of which there is one at least, and has some go to those
    /// that are not among `before`, where it was bound until now.
    fn place(&mut self, task: TaskId, cpus: &[CpuId], before: &[CpuId]) -> io::Result<()>;

    /// Lets the task run.
    fn cont(&mut self, task: TaskId) -> io::Result<()>;

    /// Keeps every thread of the task from running.
    fn stop(&mut self, task: TaskId) -> io::Result<()>;

    /// Asks to be told once when `cpu` has nothing to run, but not before `after_ns` from now.
    fn watch(&mut self, cpu: CpuId, after_ns: Nanos);

    /// Housekeeping that is due a few times a second: orphans, the guardian.
    fn tend(&mut self) -> io::Result<()>;
}

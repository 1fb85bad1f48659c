//! The backends, one file each.

pub(crate) mod cgroup;
pub mod mock;
pub(crate) mod signal;

use prorata::TaskId;

use crate::report::Exit;

/// What happens to real tasks when a run ends.
pub(crate) trait Ending {
    /// Lets the task run for good, as before.
    fn release(&mut self, task: TaskId);

    /// Asks the task to end (SIGTERM) and lets it run, so that it can.
    fn ask_to_end(&mut self, task: TaskId);

    /// Kills every process of the task.
    fn kill(&mut self, task: TaskId);

    /// How the task's first process ended, if it has.
    fn exit(&mut self, task: TaskId) -> Option<Exit>;

    /// Lets go of everything.
    fn close(self);
}

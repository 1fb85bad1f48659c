//! What a run comes to.

use serde::{Serialize, Serializer};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// The signal of this name ended it.
    Signal(&'static str),
}

impl Exit {
    /// True if it returned 0.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Exit::Code(0)
    }
}

impl Serialize for Exit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Exit::Code(code) => serializer.serialize_i32(*code),
            Exit::Signal(name) => serializer.serialize_str(name),
        }
    }
}

/// One task's part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskReport {
    /// The command as typed, or that of the attached process.
    pub command: String,
    /// Its weight.
    pub weight: u32,
    /// The part of all cpu time that the tasks received together which the ideal would have given it: fluid
    /// GMS fed with what each task would ask for alone. The parts of all tasks add up to 1.
    pub entitled_share: f64,
    /// The part that it received.
    pub received_share: f64,
    /// Cpu time that it used, all its processes together, in seconds.
    pub cpu_s: f64,
    /// Its least service error: what it had received less what the ideal had given it, in quanta.
    pub error_min_quanta: f64,
    /// Its greatest service error, in quanta.
    pub error_max_quanta: f64,
    /// How it ended: the exit code, or the name of the signal. `None` if it had not ended by
    /// itself when the run did.
    pub exit: Option<Exit>,
}

/// A whole run, so far or at its end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The policy as given.
    pub policy: String,
    /// How tasks were held: `cgroup`, `signal` or `kernel`.
    pub backend: &'static str,
    /// The number of cpus shared.
    pub cpus: usize,
    /// The quantum in milliseconds.
    pub quantum_ms: f64,
    /// How long it took, in seconds.
    pub duration_s: f64,
    /// Cpu time that prorata itself used during it, its helper processes included, in seconds.
    pub overhead_cpu_s: f64,
    /// One entry a task, in the order given.
    pub tasks: Vec<TaskReport>,
}

impl Report {
    /// True if a command ended by itself and not well.
    #[must_use]
    pub fn a_command_failed(&self) -> bool {
        self.tasks.iter().any(|task| task.exit.is_some_and(|exit| !exit.is_success()))
    }
}

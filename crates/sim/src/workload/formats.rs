//! Which format a file has, and the machine of those that describe none.

use std::path::Path;

use prorata::Nanos;

use super::{Cgroups, Tasks, Workload, WorkloadError, parse_recording, parse_rt_app, parse_toml};
use crate::machine::{Machine, Quanta};

/// When it ends, if neither the file nor the user says so.
const DURATION_NS: Nanos = 10_000_000_000;
/// Quantum of files that describe no machine.
const QUANTUM_NS: Nanos = 4_000_000;

/// The workload in `text`, the contents of the file at `path`: TOML of our own (`.toml`), rt-app's JSON
/// (`.json`) but for the keys to `ignore`, or a recording by perf sched (anything else).
///
/// # Errors
/// What is wrong, and where; also if there is something to ignore in another format than rt-app's.
pub fn parse(path: &Path, text: &str, ignore: &[String]) -> Result<Workload, WorkloadError> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    if !ignore.is_empty() && extension != Some("json") {
        let message = "only files of rt-app (.json) have keys to ignore: leave --ignore out";
        return Err(WorkloadError::new("", message));
    }
    match extension {
        Some("toml") => parse_toml(text),
        Some("json") => parse_rt_app(text, ignore).map(Tasks::on_a_machine),
        _ => parse_recording(text).map(Tasks::on_a_machine),
    }
}

/// The text that `bytes`, the contents of the file at `path`, are.
///
/// # Errors
/// When they are none, with what to do about it.
pub fn text_of(path: &Path, bytes: Vec<u8>) -> Result<String, WorkloadError> {
    String::from_utf8(bytes).map_err(|_| {
        let is_of_programs =
            path.extension().is_some_and(|ending| ending == "toml" || ending == "json");
        let remedy = match is_of_programs {
            true => "write it in UTF-8",
            false => "export a recording as text with 'perf sched script'",
        };
        WorkloadError::new("", format!("this is no text: {remedy}"))
    })
}

impl Tasks {
    /// On a machine of ours, with one cpu.
    fn on_a_machine(self) -> Workload {
        Workload {
            machine: Machine { quanta: Quanta::Asynchronous, ..Machine::new(1, QUANTUM_NS) },
            duration_ns: self.duration_ns.unwrap_or(DURATION_NS),
            seed: 0,
            groups: self.groups,
            resources: self.resources,
            cgroups: Cgroups::default(),
        }
    }
}

//! `--record`: every event and decision as a line of text, for `prorata verify`.
//!
//! The first line says what was recorded:
//!
//! ```text
//! prorata-record 1 policy gr3 cpus 2 quantum_ns 5000000
//! ```
//!
//! The policy is what `--policy` said, with all its options.
//!
//! Each other line is a time in ns, a verb of the policy contract, and its arguments (tasks are
//! numbers that are used again after `remove`):
//!
//! | line | meaning |
//! |---|---|
//! | `T add TASK WEIGHT PID` | a task is known, blocked |
//! | `T remove TASK` | it is forgotten |
//! | `T weight TASK WEIGHT` | it has another weight |
//! | `T wake TASK`, `T block TASK` | it waits; it does so no longer |
//! | `T pick CPU TASK` | a cpu's decision; `-` for none |
//! | `T charge TASK CHARGED_NS USED_NS` | the end of a quantum: what the policy was told, and really |
//! | `T away TASK rescue`, `T away TASK confined` | the task runs a quantum outside the policy |
//! | `T return TASK BLOCKED USED_NS` | that is over; BLOCKED is 1 if the task blocked |

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::bpf_intf::{
    away_AWAY_RESCUE, event, event_kind_EVENT_ADD, event_kind_EVENT_AWAY, event_kind_EVENT_BLOCK,
    event_kind_EVENT_CHARGE, event_kind_EVENT_PICK, event_kind_EVENT_REMOVE,
    event_kind_EVENT_RETURN, event_kind_EVENT_WAKE, event_kind_EVENT_WEIGHT,
};
use crate::policies::Spec;
use crate::shared::Memory;

/// Writes a recording.
pub(crate) struct Recorder {
    path: PathBuf,
    file: BufWriter<File>,
    /// The next event to write.
    next: u64,
}

impl Recorder {
    pub(crate) fn create(path: &Path, policy: &Spec, cpus: u32, quantum_ns: u128) -> Result<Self> {
        let file = File::create(path)
            .with_context(|| format!("cannot write the recording to {}", path.display()))?;
        let mut recorder =
            Recorder { path: path.to_path_buf(), file: BufWriter::new(file), next: 0 };
        let first = format!("prorata-record 1 policy {policy} cpus {cpus} quantum_ns {quantum_ns}");
        writeln!(recorder.file, "{first}").with_context(|| recorder.complaint())?;
        Ok(recorder)
    }

    /// Writes what was recorded since the last call.
    pub(crate) fn catch_up(&mut self, memory: &Memory<'_>) -> Result<()> {
        let (events, end) = memory.events_since(self.next);
        let lost = end - self.next - events.len() as u64;
        if lost > 0 {
            bail!("the recording fell behind and lost {lost} events: record a smaller load");
        }
        self.next = end;
        for event in &events {
            write_event(&mut self.file, event).with_context(|| self.complaint())?;
        }
        self.file.flush().with_context(|| self.complaint())
    }

    fn complaint(&self) -> String {
        format!("cannot write to {}", self.path.display())
    }
}

#[allow(non_upper_case_globals, reason = "the names are those of intf.h")]
fn write_event(out: &mut impl Write, event: &event) -> std::io::Result<()> {
    let &event { now_ns, value, extra, task, cpu, kind } = event;
    match u32::from(kind) {
        event_kind_EVENT_ADD => writeln!(out, "{now_ns} add {task} {value} {extra}"),
        event_kind_EVENT_REMOVE => writeln!(out, "{now_ns} remove {task}"),
        event_kind_EVENT_WEIGHT => writeln!(out, "{now_ns} weight {task} {value}"),
        event_kind_EVENT_WAKE => writeln!(out, "{now_ns} wake {task}"),
        event_kind_EVENT_BLOCK => writeln!(out, "{now_ns} block {task}"),
        event_kind_EVENT_PICK if task == u32::MAX => writeln!(out, "{now_ns} pick {cpu} -"),
        event_kind_EVENT_PICK => writeln!(out, "{now_ns} pick {cpu} {task}"),
        event_kind_EVENT_CHARGE => writeln!(out, "{now_ns} charge {task} {value} {extra}"),
        event_kind_EVENT_AWAY if value == u64::from(away_AWAY_RESCUE) => {
            writeln!(out, "{now_ns} away {task} rescue")
        }
        event_kind_EVENT_AWAY => writeln!(out, "{now_ns} away {task} confined"),
        event_kind_EVENT_RETURN => writeln!(out, "{now_ns} return {task} {value} {extra}"),
        other => unreachable!("the scheduler records no event of kind {other}"),
    }
}

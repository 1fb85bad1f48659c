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
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, bail};

use crate::bpf_intf::{
    away_AWAY_RESCUE, event, event_kind_EVENT_ADD, event_kind_EVENT_AWAY, event_kind_EVENT_BLOCK,
    event_kind_EVENT_CHARGE, event_kind_EVENT_PICK, event_kind_EVENT_REMOVE,
    event_kind_EVENT_RETURN, event_kind_EVENT_WAKE, event_kind_EVENT_WEIGHT,
};
use crate::policies::Spec;
use crate::shared::Memory;

/// Writes a recording.
///
/// The loader takes events from the memory that it shares with the scheduler, whose room is limited,
/// and leaves writing them to another thread. That takes many times as long, and on a machine with
/// more load than cpus the thread waits for its turn like everybody; events wait for it here.
pub(crate) struct Recorder {
    /// The next event to take.
    next: u64,
    /// None when the recording is over.
    events: Option<Sender<Vec<event>>>,
    writer: Option<JoinHandle<Result<()>>>,
}

impl Recorder {
    pub(crate) fn create(path: &Path, policy: &Spec, cpus: u32, quantum_ns: u128) -> Result<Self> {
        let file = File::create(path)
            .with_context(|| format!("cannot write the recording to {}", path.display()))?;
        let (mut file, path) = (BufWriter::new(file), path.to_path_buf());
        let first = format!("prorata-record 1 policy {policy} cpus {cpus} quantum_ns {quantum_ns}");
        let (events, batches) = mpsc::channel();
        let writer = thread::spawn(move || {
            write_all(&mut file, &first, &batches)
                .with_context(|| format!("cannot write to {}", path.display()))
        });
        Ok(Recorder { next: 0, events: Some(events), writer: Some(writer) })
    }

    /// Takes what was recorded since the last call.
    pub(crate) fn catch_up(&mut self, memory: &Memory<'_>) -> Result<()> {
        let (events, end) = memory.events_since(self.next);
        let lost = end - self.next - events.len() as u64;
        if lost > 0 {
            bail!("the recording fell behind and lost {lost} events: record a smaller load");
        }
        self.next = end;
        if events.is_empty() {
            return Ok(());
        }
        let is_taken = self.events.as_ref().is_some_and(|queue| queue.send(events).is_ok());
        // The writer ends before its time if it cannot write.
        if is_taken { Ok(()) } else { self.finish() }
    }

    /// Waits until everything is written.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.events = None;
        self.writer.take().map_or(Ok(()), |writer| writer.join().expect("writing does not panic"))
    }
}

fn write_all(out: &mut impl Write, first: &str, batches: &Receiver<Vec<event>>) -> io::Result<()> {
    writeln!(out, "{first}")?;
    for batch in batches {
        batch.iter().try_for_each(|event| write_event(out, event))?;
        out.flush()?;
    }
    out.flush()
}

#[allow(non_upper_case_globals, reason = "the names are those of intf.h")]
fn write_event(out: &mut impl Write, event: &event) -> io::Result<()> {
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

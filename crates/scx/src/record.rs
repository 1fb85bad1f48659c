//! `--record`: every event and decision as a line of text, for `prorata verify`.
//!
//! The first line says what was recorded:
//!
//! ```text
//! prorata-record 1 policy gr3:sleepers=turns cpus 2 quantum_ns 5000000
//! ```
//!
//! The policy is what `--policy` said, with all its options. When cpus have come or gone, a line says how
//! many there are now, and the policy begins anew.
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
//! | `T endow TASK NS` | it was just added, and may use so much before the policy serves it |
//! | `T take TASK NS` | so much of its credit was taken from it |
//! | `T retire TASK NS` | it has ended, and leaves so much credit |
//! | `T pick CPU TASK` | a cpu's decision; `-` for none |
//! | `T interrupt CPU` | the cpu is to stop what it runs, for a task that woke; `-` for none |
//! | `T charge TASK CHARGED_NS USED_NS` | the end of a run: what the policy was told, and really |
//! | `T paid TASK USED_NS` | the end of a run for turns that were charged before, on other cpus |
//! | `T away TASK rescue`, `T away TASK confined` | the task runs a quantum outside the policy |
//! | `T away TASK cpus` | it was running when cpus came or went, and goes on outside the policy |
//! | `T cpus CPUS` | cpus came or went; the policy knows no tasks |
//! | `T reload CPUS` | the scheduler was loaded again; the policy knows no tasks |
//! | `T return TASK BLOCKED USED_NS` | that is over; BLOCKED is 1 if the task blocked |

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, bail};

use crate::bpf_intf::{
    away_AWAY_CPUS, away_AWAY_RESCUE, event, event_kind_EVENT_ADD, event_kind_EVENT_AWAY,
    event_kind_EVENT_BLOCK, event_kind_EVENT_CHARGE, event_kind_EVENT_CPUS, event_kind_EVENT_ENDOW,
    event_kind_EVENT_INTERRUPT, event_kind_EVENT_PAID, event_kind_EVENT_PICK,
    event_kind_EVENT_REMOVE, event_kind_EVENT_RETIRE, event_kind_EVENT_RETURN,
    event_kind_EVENT_TAKE, event_kind_EVENT_WAKE, event_kind_EVENT_WEIGHT,
};
use crate::policies::Spec;
use crate::shared::Memory;

/// In place of a cpu.
const NO_CPU: u16 = u16::MAX;

/// Writes a recording.
///
/// The loader takes events from the memory that it shares with the scheduler, whose room is limited,
/// and leaves writing them to another thread. That takes many times as long, and on a machine with
/// more load than cpus the thread waits for its turn like everybody; events wait for it here.
pub(crate) struct Recorder {
    /// The next event to take.
    next: u64,
    /// Something was recorded already.
    has_begun: bool,
    /// None when the recording is over.
    pieces: Option<Sender<Piece>>,
    writer: Option<JoinHandle<Result<()>>>,
}

/// What the writer is given.
enum Piece {
    First(String),
    Reload { cpus: u32 },
    Events(Vec<event>),
}

impl Recorder {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| {
            let path = path.display();
            format!("cannot write the recording to {path}: name a file in a directory that exists")
        })?;
        let (mut file, path) = (BufWriter::new(file), path.to_path_buf());
        let (pieces, received) = mpsc::channel();
        let writer = thread::spawn(move || {
            write_all(&mut file, &received)
                .with_context(|| format!("cannot write to {}", path.display()))
        });
        Ok(Recorder { next: 0, has_begun: false, pieces: Some(pieces), writer: Some(writer) })
    }

    /// The scheduler was loaded, perhaps not for the first time.
    pub(crate) fn begin(&mut self, policy: &Spec, cpus: u32, quantum_ns: u128) {
        let first = format!("prorata-record 1 policy {policy} cpus {cpus} quantum_ns {quantum_ns}");
        let piece = if self.has_begun { Piece::Reload { cpus } } else { Piece::First(first) };
        // If the writer has ended, the next events tell why.
        let _ = self.pieces.as_ref().map(|pieces| pieces.send(piece));
        self.has_begun = true;
        self.next = 0;
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
        let piece = Piece::Events(events);
        let is_taken = self.pieces.as_ref().is_some_and(|pieces| pieces.send(piece).is_ok());
        // The writer ends before its time if it cannot write.
        if is_taken { Ok(()) } else { self.finish() }
    }

    /// Waits until everything is written.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.pieces = None;
        self.writer.take().map_or(Ok(()), |writer| writer.join().expect("writing does not panic"))
    }
}

fn write_all(out: &mut impl Write, pieces: &Receiver<Piece>) -> io::Result<()> {
    let mut last_ns = 0;
    for piece in pieces {
        match piece {
            Piece::First(line) => writeln!(out, "{line}")?,
            Piece::Reload { cpus } => writeln!(out, "{last_ns} reload {cpus}")?,
            Piece::Events(events) => {
                events.iter().try_for_each(|event| write_event(out, event))?;
                last_ns = events.last().map_or(last_ns, |event| event.now_ns);
            }
        }
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
        event_kind_EVENT_INTERRUPT if cpu == NO_CPU => writeln!(out, "{now_ns} interrupt -"),
        event_kind_EVENT_INTERRUPT => writeln!(out, "{now_ns} interrupt {cpu}"),
        event_kind_EVENT_CHARGE => writeln!(out, "{now_ns} charge {task} {value} {extra}"),
        event_kind_EVENT_AWAY if value == u64::from(away_AWAY_RESCUE) => {
            writeln!(out, "{now_ns} away {task} rescue")
        }
        event_kind_EVENT_AWAY if value == u64::from(away_AWAY_CPUS) => {
            writeln!(out, "{now_ns} away {task} cpus")
        }
        event_kind_EVENT_AWAY => writeln!(out, "{now_ns} away {task} confined"),
        event_kind_EVENT_RETURN => writeln!(out, "{now_ns} return {task} {value} {extra}"),
        event_kind_EVENT_ENDOW => writeln!(out, "{now_ns} endow {task} {value}"),
        event_kind_EVENT_TAKE => writeln!(out, "{now_ns} take {task} {value}"),
        event_kind_EVENT_RETIRE => writeln!(out, "{now_ns} retire {task} {value}"),
        event_kind_EVENT_PAID => writeln!(out, "{now_ns} paid {task} {extra}"),
        event_kind_EVENT_CPUS => writeln!(out, "{now_ns} cpus {value}"),
        other => unreachable!("the scheduler records no event of kind {other}"),
    }
}

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
//! | `T aside TASK` | it had turns enough on other cpus, and is not picked until it wakes |
//! | `T endow TASK NS` | it was just added, and may use so much before the policy serves it |
//! | `T take TASK NS` | so much of its credit was taken from it |
//! | `T retire TASK NS` | it has ended, and leaves so much credit, or was so far behind, or, below 0, ahead |
//! | `T leave TASK NS` | its cgroup was late by so much, or who ended left it: others there may use it |
//! | `T forfeit TASK NS` | it waits, loses so much credit, which is all, and waits for its turn |
//! | `T keep TASK KEPT` | KEPT is 1 if it is served on for a while where it sleeps and has no use for it |
//! | `T pass` | it is found out who sleeps and is served no longer |
//! | `T lengthen TASK CHARGED_NS NS` | about to be charged, it goes on for so long that others did not use |
//! | `T pick CPU TASK` | a cpu's decision; `-` for none |
//! | `T interrupt CPU` | the cpu is to stop what it runs, for a task that woke; `-` for none |
//! | `T charge TASK CHARGED_NS USED_NS` | the end of a run: what the policy was told, and really |
//! | `T paid TASK USED_NS` | the end of a run for turns that were charged before, on other cpus |
//! | `T away TASK rescue`, `T away TASK confined` | the task runs a quantum outside the policy |
//! | `T away TASK cpus` | it was running when cpus came or went, and goes on outside the policy |
//! | `T cpus CPUS` | cpus came or went; the policy knows no tasks |
//! | `T return TASK BLOCKED USED_NS` | that is over; BLOCKED is 1 if the task blocked |
//!
//! Where no lock is held by all who decide (`gdq-distributed`) a line is a step of one cpu (`bpf/step.h`),
//! in the order of that cpu only: which step of a task, and of each latch, it is tells `prorata verify` the
//! order of all. The core library's `policies::gdq::distributed::steps` explains these lines.
//!
//! | line | meaning |
//! |---|---|
//! | `T STEP CPU TASK VALUE EXTRA COUNT LATCH:COUNT LATCH:COUNT` | a step; `-` for no task, latches if there are |

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, bail};
use scx_prorata_objects::intf::{
    away_AWAY_CPUS, away_AWAY_RESCUE, event, event_kind_EVENT_ADD, event_kind_EVENT_ASIDE,
    event_kind_EVENT_AWAY, event_kind_EVENT_BLOCK, event_kind_EVENT_CHARGE, event_kind_EVENT_CPUS,
    event_kind_EVENT_ENDOW, event_kind_EVENT_FORFEIT, event_kind_EVENT_FORGO,
    event_kind_EVENT_INTERRUPT, event_kind_EVENT_KEEP, event_kind_EVENT_LEAVE,
    event_kind_EVENT_LENGTHEN, event_kind_EVENT_PAID, event_kind_EVENT_PASS, event_kind_EVENT_PICK,
    event_kind_EVENT_REMOVE, event_kind_EVENT_RETIRE, event_kind_EVENT_RETURN,
    event_kind_EVENT_TAKE, event_kind_EVENT_WAKE, event_kind_EVENT_WEIGHT, limits_MAX_CPUS, step,
    step_latch_LATCH_GROUP, step_latch_LATCH_KIND, step_latch_LATCH_NONE, step_latch_LATCH_QUEUE,
};

use crate::shared::Memory;
use crate::spec::Spec;

/// In place of a cpu.
const NO_CPU: u16 = u16::MAX;

/// The steps of `enum step_kind`.
const STEPS: [&str; 27] = [
    "add", "weight", "wake", "charge", "place", "recount", "take", "block", "refund", "round",
    "pick", "steal", "refill", "claim", "abandon", "open", "close", "look", "tell", "told",
    "settle", "pass", "leave", "seek", "tried", "arrive", "idle",
];

/// Writes a recording.
///
/// The loader takes events from the memory that it shares with the scheduler, whose room is limited,
/// and leaves writing them to another thread. That takes many times as long, and on a machine with
/// more load than cpus the thread waits for its turn like everybody; events wait for it here.
pub(crate) struct Recorder {
    /// The next event to take; or the next step of each cpu.
    next: u64,
    next_steps: Vec<u64>,
    /// With which the policy began.
    cpus: u32,
    /// Something was recorded already.
    has_begun: bool,
    /// None when the recording is over.
    pieces: Option<Sender<Piece>>,
    writer: Option<JoinHandle<Result<()>>>,
}

/// What the writer is given.
enum Piece {
    First(String),
    Cpus(u32),
    Events(Vec<event>),
    Steps(Vec<step>),
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
        Ok(Recorder {
            next: 0,
            next_steps: Vec::new(),
            cpus: 0,
            has_begun: false,
            pieces: Some(pieces),
            writer: Some(writer),
        })
    }

    /// The scheduler was attached; or its policy, whose steps are recorded, has begun anew.
    pub(crate) fn begin(&mut self, policy: &Spec, cpus: u32, quantum_ns: u128) {
        let first = format!("prorata-record 1 policy {policy} cpus {cpus} quantum_ns {quantum_ns}");
        let piece = if self.has_begun { Piece::Cpus(cpus) } else { Piece::First(first) };
        // If the writer has ended, the next events tell why.
        let _ = self.pieces.as_ref().map(|pieces| pieces.send(piece));
        self.has_begun = true;
        (self.next, self.cpus) = (0, cpus);
        self.next_steps = vec![0; limits_MAX_CPUS as usize];
    }

    /// Takes what was recorded since the last call.
    pub(crate) fn catch_up(&mut self, memory: &Memory<'_>) -> Result<()> {
        if memory.has_steps() {
            return self.catch_up_with_steps(memory);
        }
        let (events, end) = memory.events_since(self.next);
        is_none_lost(end - self.next - events.len() as u64)?;
        self.next = end;
        if events.is_empty() { Ok(()) } else { self.write(Piece::Events(events)) }
    }

    fn catch_up_with_steps(&mut self, memory: &Memory<'_>) -> Result<()> {
        let mut all = Vec::new();
        for (cpu, next) in self.next_steps.iter_mut().enumerate() {
            let (mut steps, end) = memory.steps_since(cpu, *next, self.cpus);
            is_none_lost(end - *next - steps.len() as u64)?;
            *next = end;
            all.append(&mut steps);
        }
        // Those of a cpu stay in their order.
        all.sort_by_key(|step| step.now_ns);
        if all.is_empty() { Ok(()) } else { self.write(Piece::Steps(all)) }
    }

    fn write(&mut self, piece: Piece) -> Result<()> {
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

fn is_none_lost(lost: u64) -> Result<()> {
    if lost > 0 {
        bail!("the recording fell behind and lost {lost} events: record a smaller load");
    }
    Ok(())
}

fn write_all(out: &mut impl Write, pieces: &Receiver<Piece>) -> io::Result<()> {
    let mut last_ns = 0;
    for piece in pieces {
        match piece {
            Piece::First(line) => writeln!(out, "{line}")?,
            Piece::Cpus(cpus) => writeln!(out, "{last_ns} cpus {cpus}")?,
            Piece::Events(events) => {
                events.iter().try_for_each(|event| write_event(out, event))?;
                last_ns = events.last().map_or(last_ns, |event| event.now_ns);
            }
            Piece::Steps(steps) => {
                steps.iter().try_for_each(|step| write_step(out, step))?;
                last_ns = steps.last().map_or(last_ns, |step| step.now_ns);
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
        event_kind_EVENT_ASIDE => writeln!(out, "{now_ns} aside {task}"),
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
        event_kind_EVENT_RETIRE => writeln!(out, "{now_ns} retire {task} {}", value.cast_signed()),
        event_kind_EVENT_FORFEIT => writeln!(out, "{now_ns} forfeit {task} {value}"),
        event_kind_EVENT_FORGO => writeln!(out, "{now_ns} forgo {task} {value}"),
        event_kind_EVENT_LEAVE => writeln!(out, "{now_ns} leave {task} {value}"),
        event_kind_EVENT_KEEP => writeln!(out, "{now_ns} keep {task} {value}"),
        event_kind_EVENT_LENGTHEN => writeln!(out, "{now_ns} lengthen {task} {value} {extra}"),
        event_kind_EVENT_PASS => writeln!(out, "{now_ns} pass"),
        event_kind_EVENT_PAID => writeln!(out, "{now_ns} paid {task} {extra}"),
        event_kind_EVENT_CPUS => writeln!(out, "{now_ns} cpus {value}"),
        other => unreachable!("the scheduler records no event of kind {other}"),
    }
}

fn write_step(out: &mut impl Write, step: &step) -> io::Result<()> {
    let &step { now_ns, value, extra, task, count, latch_counts, latches, cpu, kind } = step;
    write!(out, "{now_ns} {} {cpu} ", STEPS[usize::from(kind)])?;
    match task {
        u32::MAX => write!(out, "-")?,
        task => write!(out, "{task}")?,
    }
    write!(out, " {value} {extra} {count}")?;
    for (latch, count) in latches.into_iter().zip(latch_counts) {
        write_latch(out, u32::from(latch), count)?;
    }
    writeln!(out)
}

#[allow(non_upper_case_globals, reason = "the names are those of step.h")]
fn write_latch(out: &mut impl Write, latch: u32, count: u32) -> io::Result<()> {
    let number = latch & !step_latch_LATCH_KIND;
    match latch & step_latch_LATCH_KIND {
        step_latch_LATCH_NONE => Ok(()),
        step_latch_LATCH_QUEUE => write!(out, " q{number}:{count}"),
        step_latch_LATCH_GROUP => write!(out, " g{number}:{count}"),
        _ => write!(out, " s:{count}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prorata::policies::gdq::distributed::steps::Kind;

    #[test]
    fn steps_have_the_names_that_verify_knows() {
        let names: Vec<&str> = Kind::ALL.iter().map(|(_, name)| *name).collect();
        assert_eq!(STEPS.as_slice(), names);
    }
}

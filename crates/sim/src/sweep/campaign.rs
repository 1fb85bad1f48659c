//! A sweep on this machine: in parallel, and resumable.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Row, Sweep, SweepError};
use crate::Progress;
use crate::journal::{self, Foreign, Journal, JournalError};

/// A sweep that is done, and its journal.
pub struct Campaign {
    /// One a run, in order.
    pub rows: Vec<Row>,
    /// How many of them an earlier process had found.
    pub found_before: usize,
    journal: Option<Journal>,
}

impl Campaign {
    /// Removes the journal: the rows are elsewhere now.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn finish(self) -> Result<(), SweepError> {
        Ok(self.journal.map_or(Ok(()), Journal::delete)?)
    }
}

/// What a journal belongs to: all that a row depends on.
#[derive(PartialEq, Serialize, Deserialize)]
struct Header {
    sweep: String,
    version: String,
}

/// Executes `sweep` on `jobs` threads. What goes to the file `output` is first kept in a journal beside
/// it; a sweep that was interrupted goes on from there. Without an output, or without a text of the
/// sweep, it begins anew each time.
///
/// # Errors
/// When there are no threads, or the journal cannot be kept, is in use, or is another sweep's.
pub fn execute_all(
    sweep: &Sweep,
    jobs: usize,
    output: Option<&Path>,
    progress: &dyn Progress,
) -> Result<Campaign, SweepError> {
    if jobs == 0 {
        return Err(SweepError::Threads("give 1 or more".into()));
    }
    let (journal, before) = match (output, sweep.text()) {
        (Some(output), Some(text)) => {
            let version = env!("CARGO_PKG_VERSION").to_string();
            let header = Header { sweep: text.to_string(), version };
            let place = journal::beside(output);
            let (journal, rows) = Journal::open(place, &header, Foreign::Refuse)?;
            (Some(journal), rows)
        }
        _ => (None, Vec::new()),
    };
    let done: BTreeSet<usize> = before.iter().map(|row: &Row| row.run).collect();
    let left: Vec<usize> = (0..sweep.runs()).filter(|run| !done.contains(run)).collect();
    let threads = jobs.min(left.len()).max(1);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| SweepError::Threads(error.to_string()))?;
    progress.start(before.len() as u64, sweep.runs() as u64);
    let journal = Mutex::new(journal);
    let execute = |&run: &usize| -> Result<Row, JournalError> {
        let row = sweep.execute(run);
        if let Some(journal) = &mut *journal.lock().unwrap_or_else(PoisonError::into_inner) {
            journal.append(&row)?;
        }
        progress.advance(1);
        Ok(row)
    };
    let found: Vec<Row> =
        pool.install(|| left.par_iter().map(execute).collect::<Result<_, _>>())?;
    let found_before = before.len();
    let rows = sweep.gather(before.into_iter().chain(found))?;
    let journal = journal.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Campaign { rows, found_before, journal })
}

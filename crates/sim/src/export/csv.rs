//! CSV: one line a task, with a header.

use std::io::{self, Write};

use super::columns::{Cell, NAMES, cells};
use crate::outcome::Outcome;

/// Writes the tasks of `outcome` to `out`. An unknown value is empty.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_csv(outcome: &Outcome, out: impl Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(NAMES)?;
    for task in &outcome.tasks {
        writer.write_record(cells(outcome, task).map(|cell| match cell {
            Cell::Text(text) => text.to_string(),
            Cell::Count(count) => count.to_string(),
            Cell::Maybe(count) => count.map(|count| count.to_string()).unwrap_or_default(),
            Cell::Real(real) => real.to_string(),
        }))?;
    }
    writer.flush()
}

//! CSV: one line a row, with a header.

use std::io::{self, Write};

use super::columns::{Cell, Columns, tasks};
use crate::outcome::Outcome;

/// Writes the tasks of `outcome` to `out`. An unknown value is empty.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_csv(outcome: &Outcome, out: impl Write) -> io::Result<()> {
    tasks(outcome).write_csv(out)
}

impl Columns<'_> {
    /// Writes it as CSV, with a line of names. What is not known is empty.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn write_csv(&self, out: impl Write) -> io::Result<()> {
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(self.columns.iter().map(|column| &column.name))?;
        for row in 0..self.rows {
            writer.write_record(self.columns.iter().map(|column| text((column.cell)(row))))?;
        }
        writer.flush()
    }
}

fn text(cell: Cell<'_>) -> String {
    match cell {
        Cell::Text(text) => text.to_string(),
        Cell::Count(count) => count.to_string(),
        Cell::MaybeCount(count) => count.map(|count| count.to_string()).unwrap_or_default(),
        Cell::Real(real) => real.to_string(),
        Cell::MaybeReal(real) => real.map(|real| real.to_string()).unwrap_or_default(),
        Cell::Integer(integer) => integer.to_string(),
    }
}

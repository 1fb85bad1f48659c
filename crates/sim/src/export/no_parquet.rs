//! In place of Parquet where it was not built.

use std::io::{self, ErrorKind, Write};

use super::columns::{Columns, tasks};
use crate::outcome::Outcome;

/// Refuses, since the feature `parquet` is off.
///
/// # Errors
/// Always.
pub fn write_parquet(outcome: &Outcome, out: impl Write + Send) -> io::Result<()> {
    tasks(outcome).write_parquet(out)
}

impl Columns<'_> {
    /// Refuses, since the feature `parquet` is off.
    ///
    /// # Errors
    /// Always.
    pub fn write_parquet(&self, _out: impl Write + Send) -> io::Result<()> {
        Err(io::Error::new(ErrorKind::Unsupported, "built without the feature 'parquet'"))
    }
}

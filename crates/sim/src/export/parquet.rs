//! Parquet: the same columns as CSV, typed.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

use super::columns::{Cell, Column, Columns, tasks};
use crate::outcome::Outcome;

/// Writes the tasks of `outcome` to `out`. An unknown value is null.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_parquet(outcome: &Outcome, out: impl Write + Send) -> io::Result<()> {
    tasks(outcome).write_parquet(out)
}

impl Columns<'_> {
    /// Writes it as Parquet. What is not known is null.
    ///
    /// # Errors
    /// When `out` cannot be written, or there is no row.
    pub fn write_parquet(&self, out: impl Write + Send) -> io::Result<()> {
        write_table(self, out).map_err(|error| match error {
            ParquetError::External(source) => match source.downcast::<io::Error>() {
                Ok(io) => *io,
                Err(other) => io::Error::other(other),
            },
            other => io::Error::other(other),
        })
    }
}

fn write_table(table: &Columns<'_>, out: impl Write + Send) -> Result<(), ParquetError> {
    if table.rows == 0 {
        return Err(ParquetError::General(format!("there is no {} to write", table.row)));
    }
    let properties = Arc::new(WriterProperties::builder().build());
    let mut file = SerializedFileWriter::new(out, schema(table)?, properties)?;
    let mut group = file.next_row_group()?;
    for column in &table.columns {
        let Some(mut writer) = group.next_column()? else { break };
        write_column(writer.untyped(), (0..table.rows).map(&column.cell))?;
        writer.close()?;
    }
    group.close()?;
    file.close()?;
    Ok(())
}

fn schema(table: &Columns<'_>) -> Result<TypePtr, ParquetError> {
    let field = |column: &Column<'_>| {
        let (physical, repetition) = match (column.cell)(0) {
            Cell::Text(_) => (Physical::BYTE_ARRAY, Repetition::REQUIRED),
            Cell::Count(_) | Cell::Integer(_) => (Physical::INT64, Repetition::REQUIRED),
            Cell::MaybeCount(_) => (Physical::INT64, Repetition::OPTIONAL),
            Cell::Real(_) => (Physical::DOUBLE, Repetition::REQUIRED),
            Cell::MaybeReal(_) => (Physical::DOUBLE, Repetition::OPTIONAL),
        };
        let logical = (physical == Physical::BYTE_ARRAY).then_some(LogicalType::String);
        let field = Type::primitive_type_builder(&column.name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .build()?;
        Ok(Arc::new(field))
    };
    let fields = table.columns.iter().map(field).collect::<Result<_, ParquetError>>()?;
    Ok(Arc::new(Type::group_type_builder(&format!("{}s", table.row)).with_fields(fields).build()?))
}

#[allow(clippy::cast_possible_wrap)] // lengths of time and counts are far below 2^63
fn write_column<'t>(
    writer: &mut ColumnWriter<'_>,
    cells: impl Iterator<Item = Cell<'t>>,
) -> Result<(), ParquetError> {
    match writer {
        ColumnWriter::ByteArrayColumnWriter(writer) => {
            let text = |cell| match cell {
                Cell::Text(text) => ByteArray::from(text),
                _ => ByteArray::new(),
            };
            writer.write_batch(&cells.map(text).collect::<Vec<_>>(), None, None)?;
        }
        ColumnWriter::DoubleColumnWriter(writer) => {
            let known = |cell| match cell {
                Cell::Real(real) | Cell::MaybeReal(Some(real)) => Some(real),
                _ => None,
            };
            let (levels, values) = split(cells.map(known));
            writer.write_batch(&values, Some(&levels), None)?;
        }
        ColumnWriter::Int64ColumnWriter(writer) => {
            let known = |cell| match cell {
                Cell::Count(count) | Cell::MaybeCount(Some(count)) => Some(count as i64),
                Cell::Integer(integer) => Some(integer),
                _ => None,
            };
            let (levels, values) = split(cells.map(known));
            writer.write_batch(&values, Some(&levels), None)?;
        }
        _ => unreachable!("the schema has no such column"),
    }
    Ok(())
}

/// For each cell whether it is known (its definition level), and the known values.
fn split<T>(cells: impl Iterator<Item = Option<T>>) -> (Vec<i16>, Vec<T>) {
    let mut values = Vec::new();
    let level = |cell: Option<T>| {
        let known = i16::from(cell.is_some());
        values.extend(cell);
        known
    };
    (cells.map(level).collect(), values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    #[test]
    fn what_was_written_can_be_read() {
        let outcome = crate::outcome::tests::outcome();
        let mut file = tempfile::tempfile().expect("a file");
        write_parquet(&outcome, &mut file).expect("written");
        let reader = SerializedFileReader::new(file).expect("a Parquet file");
        let rows: Vec<_> =
            reader.get_row_iter(None).expect("rows").collect::<Result<_, _>>().expect("rows");
        assert_eq!(rows.len(), outcome.tasks.len());
        for (row, task) in rows.iter().zip(&outcome.tasks) {
            assert_eq!(row.get_string(0).expect("task"), &task.name);
            let service_ns = u64::try_from(row.get_long(3).expect("service")).expect("positive");
            assert_eq!(service_ns, task.service.service_ns);
            assert!(row.get_double(7).expect("error_min") <= 0.0);
        }
    }
}

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

use super::columns::{Cell, NAMES, cells};
use crate::outcome::Outcome;

/// Writes the tasks of `outcome` to `out`. An unknown value is null.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_parquet(outcome: &Outcome, out: impl Write + Send) -> io::Result<()> {
    write(outcome, out).map_err(|error| match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(io) => *io,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    })
}

fn write(outcome: &Outcome, out: impl Write + Send) -> Result<(), ParquetError> {
    let rows: Vec<_> = outcome.tasks.iter().map(|task| cells(outcome, task)).collect();
    let Some(first) = rows.first() else {
        return Err(ParquetError::General("there is no task to write".into()));
    };
    let properties = Arc::new(WriterProperties::builder().build());
    let mut file = SerializedFileWriter::new(out, schema(first)?, properties)?;
    let mut group = file.next_row_group()?;
    for column in 0..NAMES.len() {
        let Some(mut writer) = group.next_column()? else { break };
        write_column(writer.untyped(), rows.iter().map(|row| row[column]))?;
        writer.close()?;
    }
    group.close()?;
    file.close()?;
    Ok(())
}

fn schema(row: &[Cell<'_>]) -> Result<TypePtr, ParquetError> {
    let field = |(name, cell): (&&str, &Cell<'_>)| {
        let (physical, repetition) = match cell {
            Cell::Text(_) => (Physical::BYTE_ARRAY, Repetition::REQUIRED),
            Cell::Count(_) => (Physical::INT64, Repetition::REQUIRED),
            Cell::Maybe(_) => (Physical::INT64, Repetition::OPTIONAL),
            Cell::Real(_) => (Physical::DOUBLE, Repetition::REQUIRED),
        };
        let logical = matches!(cell, Cell::Text(_)).then_some(LogicalType::String);
        let field = Type::primitive_type_builder(name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .build()?;
        Ok(Arc::new(field))
    };
    let fields = NAMES.iter().zip(row).map(field).collect::<Result<_, ParquetError>>()?;
    Ok(Arc::new(Type::group_type_builder("tasks").with_fields(fields).build()?))
}

#[allow(clippy::cast_possible_wrap)] // lengths of time and counts are far below 2^63
fn write_column<'o>(
    writer: &mut ColumnWriter<'_>,
    cells: impl Iterator<Item = Cell<'o>> + Clone,
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
            let real = |cell| if let Cell::Real(real) = cell { real } else { 0.0 };
            writer.write_batch(&cells.map(real).collect::<Vec<_>>(), None, None)?;
        }
        ColumnWriter::Int64ColumnWriter(writer) => {
            let known = |cell| match cell {
                Cell::Count(count) | Cell::Maybe(Some(count)) => Some(count as i64),
                _ => None,
            };
            let levels: Vec<i16> =
                cells.clone().map(|cell| i16::from(known(cell).is_some())).collect();
            let values: Vec<i64> = cells.filter_map(known).collect();
            writer.write_batch(&values, Some(&levels), None)?;
        }
        _ => unreachable!("the schema has no such column"),
    }
    Ok(())
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

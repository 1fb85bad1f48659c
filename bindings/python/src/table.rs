//! Tables in Arrow's memory layout, handed over by its C interface: whoever takes one reads the same
//! memory.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator,
    RecordBatchOptions, StringArray,
};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{Field, Schema};
use prorata_sim::export::{Cell, Columns};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use serde::Serialize;
use serde_json::Value;

use crate::errors::broken;

/// Columns of one length.
#[pyclass(frozen, module = "prorata", skip_from_py_object)]
#[derive(Clone)]
pub(crate) struct Table(RecordBatch);

#[pymethods]
impl Table {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.0.schema_ref().as_ref()).map_err(broken)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The table as it is: a schema that is asked for is a wish that the interface need not grant.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// A column as a list.
    fn __getitem__<'py>(&self, py: Python<'py>, column: &str) -> PyResult<Bound<'py, PyList>> {
        let array = self.0.column_by_name(column).ok_or_else(|| {
            let names = self.columns().join(", ");
            PyKeyError::new_err(format!("no column is called '{column}'; there are {names}"))
        })?;
        list(py, array)
    }

    fn to_pydict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for (field, array) in self.0.schema_ref().fields().iter().zip(self.0.columns()) {
            columns.set_item(field.name(), list(py, array)?)?;
        }
        Ok(columns)
    }

    /// The rows, each as a dict.
    fn to_pylist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let columns = self.0.columns().iter().map(|array| list(py, array));
        let columns = columns.collect::<PyResult<Vec<_>>>()?;
        let rows = PyList::empty(py);
        for row in 0..self.0.num_rows() {
            let dict = PyDict::new(py);
            for (field, column) in self.0.schema_ref().fields().iter().zip(&columns) {
                dict.set_item(field.name(), column.get_item(row)?)?;
            }
            rows.append(dict)?;
        }
        Ok(rows)
    }

    fn __repr__(&self) -> String {
        let (rows, columns) = (self.0.num_rows(), self.columns().join(", "));
        format!("<prorata.Table: {rows} rows of {columns}>")
    }
}

fn list<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Bound<'py, PyList>> {
    let any = array.as_any();
    if let Some(texts) = any.downcast_ref::<StringArray>() {
        PyList::new(py, texts.iter().collect::<Vec<_>>())
    } else if let Some(counts) = any.downcast_ref::<Int64Array>() {
        PyList::new(py, counts.iter().collect::<Vec<_>>())
    } else if let Some(reals) = any.downcast_ref::<Float64Array>() {
        PyList::new(py, reals.iter().collect::<Vec<_>>())
    } else if let Some(flags) = any.downcast_ref::<BooleanArray>() {
        PyList::new(py, flags.iter().collect::<Vec<_>>())
    } else {
        Err(broken(format!("a column of {}", array.data_type())))
    }
}

/// A table under construction, column by column.
#[derive(Default)]
pub(crate) struct Builder(Vec<(String, ArrayRef, bool)>);

impl Builder {
    pub(crate) fn texts<T: AsRef<str>>(
        self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = Option<T>>,
    ) -> Builder {
        self.column(name, Arc::new(values.into_iter().collect::<StringArray>()))
    }

    /// Counts and lengths of time, which are far below 2^63.
    pub(crate) fn counts(
        self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = Option<u64>>,
    ) -> Builder {
        let integer = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let values = values.into_iter().map(|value| value.map(integer));
        self.integers(name, values)
    }

    pub(crate) fn integers(
        self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = Option<i64>>,
    ) -> Builder {
        self.column(name, Arc::new(values.into_iter().collect::<Int64Array>()))
    }

    pub(crate) fn reals(
        self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = Option<f64>>,
    ) -> Builder {
        self.column(name, Arc::new(values.into_iter().collect::<Float64Array>()))
    }

    pub(crate) fn flags(
        self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = bool>,
    ) -> Builder {
        let values: Vec<bool> = values.into_iter().collect();
        self.column(name, Arc::new(BooleanArray::from(values)))
    }

    fn column(mut self, name: impl Into<String>, array: ArrayRef) -> Builder {
        let nullable = array.null_count() > 0;
        self.0.push((name.into(), array, nullable));
        self
    }

    pub(crate) fn table(self) -> PyResult<Table> {
        let field = |(name, array, nullable): &(String, ArrayRef, bool)| {
            Field::new(name, array.data_type().clone(), *nullable)
        };
        let schema = Schema::new(self.0.iter().map(field).collect::<Vec<_>>());
        let arrays: Vec<ArrayRef> = self.0.into_iter().map(|(_, array, _)| array).collect();
        // Arrow counts the rows of the first column, if there is one.
        let rows = arrays.first().map_or(0, Array::len);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::new(schema), arrays, &options);
        batch.map(Table).map_err(broken)
    }
}

/// The table that CSV and Parquet files have.
pub(crate) fn of_columns(columns: &Columns<'_>) -> PyResult<Table> {
    let mut builder = Builder::default();
    for column in &columns.columns {
        let (name, cells) = (column.name.as_str(), (0..columns.rows).map(&column.cell));
        builder = match cells.clone().next() {
            None | Some(Cell::Text(_)) => builder.texts(name, cells.map(text)),
            Some(Cell::Count(_) | Cell::MaybeCount(_)) => builder.counts(name, cells.map(count)),
            Some(Cell::Real(_) | Cell::MaybeReal(_)) => builder.reals(name, cells.map(real)),
            Some(Cell::Integer(_)) => builder.integers(name, cells.map(integer)),
        };
    }
    builder.table()
}

fn text(cell: Cell<'_>) -> Option<&str> {
    if let Cell::Text(text) = cell { Some(text) } else { None }
}

fn count(cell: Cell<'_>) -> Option<u64> {
    match cell {
        Cell::Count(count) => Some(count),
        Cell::MaybeCount(count) => count,
        _ => None,
    }
}

fn real(cell: Cell<'_>) -> Option<f64> {
    match cell {
        Cell::Real(real) => Some(real),
        Cell::MaybeReal(real) => real,
        _ => None,
    }
}

fn integer(cell: Cell<'_>) -> Option<i64> {
    if let Cell::Integer(integer) = cell { Some(integer) } else { None }
}

/// A table of structs without nested ones. Without rows there are no columns.
pub(crate) fn of_plain_data(rows: &[impl Serialize]) -> PyResult<Table> {
    let rows = rows.iter().map(serde_json::to_value).collect::<Result<Vec<Value>, _>>();
    let rows = rows.map_err(broken)?;
    let first = rows.first().and_then(Value::as_object);
    let mut builder = Builder::default();
    for name in first.into_iter().flat_map(|row| row.keys()) {
        let cells = || rows.iter().map(|row| &row[name]);
        builder = if cells().any(Value::is_f64) {
            builder.reals(name, cells().map(Value::as_f64))
        } else if cells().any(Value::is_u64) {
            builder.counts(name, cells().map(Value::as_u64))
        } else {
            builder.texts(name, cells().map(Value::as_str))
        };
    }
    builder.table()
}

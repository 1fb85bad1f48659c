//! Sweeps: a workload over keys, policies and seeds.

use std::path::PathBuf;

use prorata_sim::export;
use prorata_sim::sweep::{Row, Summary, Sweep as Checked, SweepError};
use pyo3::exceptions::{PyIndexError, PyOSError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};
use pythonize::Depythonizer;

use crate::errors::{broken, guarded, refused};
use crate::table::{self, Table};

/// What to run, checked.
#[pyclass(frozen, module = "prorata")]
pub(crate) struct Sweep(Checked);

#[pymethods]
impl Sweep {
    /// From what a sweep file would say, with the workload as a dict in it.
    #[new]
    fn new(description: &Bound<'_, PyDict>) -> PyResult<Sweep> {
        let mut source = Depythonizer::from_object(description);
        let table: toml::Table = serde_path_to_error::deserialize(&mut source).map_err(refused)?;
        Sweep::from_toml(&toml::to_string(&table).map_err(refused)?)
    }

    /// From the text of a sweep file that holds its workload.
    #[staticmethod]
    fn from_toml(text: &str) -> PyResult<Sweep> {
        guarded(|| Checked::parse(text))?.map(Sweep).map_err(refused)
    }

    /// From a file, with the workload that it names.
    #[staticmethod]
    fn read(path: PathBuf) -> PyResult<Sweep> {
        guarded(|| Checked::load(&path))?.map(Sweep).map_err(|error| match error {
            SweepError::Read { path, source } => {
                let (number, text) = (source.raw_os_error(), source.to_string());
                PyOSError::new_err((number, text, path.display().to_string()))
            }
            error => refused(format!("{}: {error}", path.display())),
        })
    }

    /// All of it as one text, for `from_toml` on another machine.
    #[getter]
    fn text(&self) -> PyResult<&str> {
        self.0.text().ok_or_else(|| broken("a sweep without a text"))
    }

    /// The number of runs.
    #[getter]
    fn runs(&self) -> usize {
        self.0.runs()
    }

    /// What the runs from `first` up to `end` find, for `report`.
    fn execute<'py>(
        &self,
        py: Python<'py>,
        first: usize,
        end: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let runs = self.0.runs();
        if first > end || end > runs {
            return Err(PyIndexError::new_err(format!(
                "runs {first} to {end}: they are counted from 0, and there are {runs}"
            )));
        }
        let execute = || (first..end).map(|run| self.0.execute(run)).collect::<Vec<Row>>();
        let rows = py.detach(|| guarded(execute))?;
        Ok(PyBytes::new(py, &serde_json::to_vec(&rows).map_err(broken)?))
    }

    /// What came of it, from what all runs found.
    fn report(slf: Py<Sweep>, py: Python<'_>, parts: Vec<PyBackedBytes>) -> PyResult<SweepReport> {
        let parts = parts.iter().map(|part| serde_json::from_slice::<Vec<Row>>(part));
        let rows = parts.collect::<Result<Vec<Vec<Row>>, _>>();
        let rows = rows.map_err(|error| refused(format!("this is no part of a sweep: {error}")))?;
        let sweep = &slf.get().0;
        let gather = || {
            let rows = sweep.gather(rows.into_iter().flatten())?;
            let summary = sweep.summarize(&rows);
            Ok::<_, SweepError>((rows, summary))
        };
        let (rows, summary) = py.detach(|| guarded(gather))?.map_err(refused)?;
        Ok(SweepReport { sweep: slf, rows, summary })
    }

    fn __repr__(&self) -> String {
        let (points, policies) = (self.0.points(), self.0.policies().join(", "));
        let seeds = self.0.seeds().len();
        format!("<prorata.Sweep: {points} points under {policies} with {seeds} seeds>")
    }
}

/// The rows of a sweep, and what they come to.
#[pyclass(frozen, module = "prorata")]
pub(crate) struct SweepReport {
    sweep: Py<Sweep>,
    rows: Vec<Row>,
    summary: Summary,
}

#[pymethods]
impl SweepReport {
    /// One row a run.
    #[getter]
    fn rows(&self) -> PyResult<Table> {
        table::of_columns(&self.sweep.get().0.table_of_runs(&self.rows))
    }

    /// One row a point, measure and policy: the mean over seeds and its interval.
    #[getter]
    fn means(&self) -> PyResult<Table> {
        table::of_columns(&self.sweep.get().0.table_of_means(&self.summary.means))
    }

    /// One row a point, measure and pair of policies.
    #[getter]
    fn differences(&self) -> PyResult<Table> {
        table::of_columns(&self.sweep.get().0.table_of_differences(&self.summary.differences))
    }

    /// Writes the rows, as `prorata sweep` does: .csv or .parquet.
    fn write(&self, path: PathBuf) -> PyResult<()> {
        let table = self.sweep.get().0.table_of_runs(&self.rows);
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("csv") => export::replace(&path, |file| table.write_csv(file))?,
            Some("parquet") => export::replace(&path, |file| table.write_parquet(file))?,
            _ => {
                let path = path.display();
                return Err(refused(format!("{path}: use the ending .csv or .parquet")));
            }
        }
        Ok(())
    }

    fn __str__(&self) -> String {
        export::summary_table(&self.sweep.get().0, &self.summary)
    }

    fn __repr__(&self) -> String {
        format!("<prorata.SweepReport: {} runs>", self.rows.len())
    }
}

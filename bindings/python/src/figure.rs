//! The papers' figures.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use prorata_sim::figures::{
    self, Coordinate, Figure as Known, FigureError, Part, Plan, REGISTRY, Report, Row,
};
use pyo3::exceptions::{PyIndexError, PyOSError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::arguments::SeedArg;
use crate::errors::{broken, guarded, refused};
use crate::table::{Builder, Table};

/// Every figure.
#[pyfunction]
#[pyo3(name = "figures")]
pub(crate) fn registered() -> Vec<Figure> {
    REGISTRY.iter().map(Figure).collect()
}

/// What the registry knows of a figure.
#[pyclass(frozen, module = "prorata", skip_from_py_object)]
#[derive(Clone, Copy)]
pub(crate) struct Figure(&'static Known);

#[pymethods]
impl Figure {
    #[new]
    fn new(name: &str) -> PyResult<Figure> {
        figures::find(name).map(Figure).ok_or_else(|| {
            let names: Vec<&str> = REGISTRY.iter().map(|figure| figure.name).collect();
            refused(format!("no figure is called '{name}'; there are {}", names.join(" ")))
        })
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.name
    }

    #[getter]
    fn title(&self) -> &str {
        self.0.title
    }

    #[getter]
    fn source(&self) -> &str {
        self.0.source
    }

    #[getter]
    fn sets(&self) -> u32 {
        self.0.sets
    }

    #[getter]
    fn remarks(&self) -> &str {
        self.0.remarks
    }

    fn __repr__(&self) -> String {
        format!("<prorata.Figure {}: {}>", self.0.name, self.0.title)
    }
}

/// A figure's work in chunks.
#[pyclass(frozen, module = "prorata")]
pub(crate) struct FigurePlan(Plan, &'static Known);

#[pymethods]
impl FigurePlan {
    #[new]
    #[pyo3(
        signature = (name, policies = Vec::new(), sets = None, seed = SeedArg(1)),
        text_signature = "(name, policies=(), sets=None, seed=1)"
    )]
    fn new(
        name: &str,
        policies: Vec<String>,
        sets: Option<u32>,
        seed: SeedArg,
    ) -> PyResult<FigurePlan> {
        let figure = Figure::new(name)?.0;
        let plan = Plan::new(figure, &policies, sets, seed.0).map_err(|error| {
            refused(error.source().map_or(error.to_string(), |why| format!("{error}: {why}")))
        })?;
        Ok(FigurePlan(plan, figure))
    }

    #[getter]
    fn figure(&self) -> Figure {
        Figure(self.1)
    }

    #[getter]
    fn chunks(&self) -> usize {
        self.0.chunks()
    }

    /// Whether it measures time, so that its results are of the machine that executes it.
    #[getter]
    fn is_measurement(&self) -> bool {
        self.0.is_measurement()
    }

    /// What the chunk of index `chunk` finds, for `report`.
    fn execute<'py>(&self, py: Python<'py>, chunk: usize) -> PyResult<Bound<'py, PyBytes>> {
        if chunk >= self.0.chunks() {
            let most = self.0.chunks() - 1;
            return Err(PyIndexError::new_err(format!("chunk {chunk}: they go from 0 to {most}")));
        }
        let part = py.detach(|| guarded(|| self.0.execute(chunk)))?;
        Ok(PyBytes::new(py, &serde_json::to_vec(&part).map_err(broken)?))
    }

    /// The figure, from what all chunks found.
    fn report(slf: Py<FigurePlan>, parts: Vec<PyBackedBytes>) -> PyResult<FigureReport> {
        let parts = parts.iter().map(|part| serde_json::from_slice::<Part>(part));
        let parts = parts.collect::<Result<Vec<Part>, _>>();
        let parts =
            parts.map_err(|error| refused(format!("this is no part of a figure: {error}")))?;
        let plan = slf.get();
        let report = guarded(|| plan.0.report(parts, Duration::ZERO))?.map_err(refused)?;
        Ok(FigureReport { plan: slf, report })
    }
}

/// A figure's data.
#[pyclass(frozen, module = "prorata")]
pub(crate) struct FigureReport {
    plan: Py<FigurePlan>,
    report: Report,
}

#[pymethods]
impl FigureReport {
    #[getter]
    fn figure(&self) -> Figure {
        Figure(self.plan.get().1)
    }

    #[getter]
    fn sets(&self) -> u32 {
        self.report.sets
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.report.seed
    }

    #[getter]
    fn decisions(&self) -> u64 {
        self.report.decisions
    }

    /// Coordinates, measures, and what the paper prints for them.
    #[getter]
    fn rows(&self) -> PyResult<Table> {
        let rows = &self.report.rows;
        let mut builder = Builder::default();
        let Some(first) = rows.first() else { return builder.table() };
        for (index, (name, coordinate)) in first.coordinates.iter().enumerate() {
            let coordinates = rows.iter().map(|row| &row.coordinates[index].1);
            builder = match coordinate {
                Coordinate::Number(_) => builder.integers(name, coordinates.map(number)),
                Coordinate::Name(_) => {
                    builder.texts(name, coordinates.map(|c| Some(c.to_string())))
                }
            };
        }
        for (index, (name, _)) in first.measures.iter().enumerate() {
            builder = builder.reals(name, rows.iter().map(|row| Some(row.measures[index].1)));
        }
        for (name, _) in &first.measures {
            let printed = |row: &Row| Some(row.printed.iter().find(|(key, _)| key == name)?.1);
            if rows.iter().any(|row| printed(row).is_some()) {
                builder = builder.reals(format!("printed_{name}"), rows.iter().map(printed));
            }
        }
        builder.table()
    }

    /// Writes NAME.csv, NAME.json and NAME.svg.
    fn write(&self, directory: PathBuf) -> PyResult<()> {
        std::fs::create_dir_all(&directory)?;
        guarded(|| self.plan.get().0.write(&self.report, &directory))?.map_err(cannot_write)
    }

    /// The picture.
    fn svg(&self) -> PyResult<String> {
        let directory = tempfile::tempdir()?;
        self.write(directory.path().to_path_buf())?;
        Ok(std::fs::read_to_string(directory.path().join(format!("{}.svg", self.report.figure)))?)
    }

    /// What a notebook shows.
    fn _repr_svg_(&self) -> PyResult<String> {
        self.svg()
    }

    fn __repr__(&self) -> String {
        let Report { figure, sets, seed, rows, .. } = &self.report;
        format!("<prorata.FigureReport {figure}: {} rows of {sets} sets, seed {seed}>", rows.len())
    }
}

fn number(coordinate: &Coordinate) -> Option<i64> {
    if let Coordinate::Number(number) = coordinate { Some(*number) } else { None }
}

fn cannot_write(error: FigureError) -> PyErr {
    match error {
        FigureError::File { path, source, .. } => PyOSError::new_err((
            source.raw_os_error(),
            source.to_string(),
            path.display().to_string(),
        )),
        error => refused(error),
    }
}

//! Workloads: from dicts, from text, from files.

use std::path::PathBuf;
use std::sync::Arc;

use prorata_sim::workload::{self, Workload as Described};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pythonize::Depythonizer;

use crate::arguments::{CpusArg, SeedArg};
use crate::errors::refused;

/// A machine and what runs on it.
#[pyclass(frozen, eq, module = "prorata", skip_from_py_object)]
#[derive(Clone, PartialEq)]
pub(crate) struct Workload(pub(crate) Arc<Described>);

impl Workload {
    /// The workload that `object` is or describes: a `Workload`, a dict, or the path of a file.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Arc<Described>> {
        if let Ok(workload) = object.cast::<Workload>() {
            return Ok(Arc::clone(&workload.get().0));
        }
        if let Ok(description) = object.cast::<PyDict>() {
            return Workload::new(description).map(|workload| workload.0);
        }
        match object.extract::<PathBuf>() {
            Ok(path) => Workload::read(path, Vec::new()).map(|workload| workload.0),
            Err(_) => Err(PyTypeError::new_err(format!(
                "a workload is a Workload, a dict, or the path of a file; not {}",
                object.repr()?
            ))),
        }
    }
}

#[pymethods]
impl Workload {
    /// From what a workload file in TOML would say.
    #[new]
    fn new(description: &Bound<'_, PyDict>) -> PyResult<Workload> {
        let mut source = Depythonizer::from_object(description);
        let table = serde_path_to_error::deserialize(&mut source).map_err(refused)?;
        workload::from_table(table).map(Workload::from).map_err(refused)
    }

    /// From the text of a workload file.
    #[staticmethod]
    fn from_toml(text: &str) -> PyResult<Workload> {
        workload::parse_toml(text).map(Workload::from).map_err(refused)
    }

    /// From a file: TOML, rt-app's JSON, or a recording by perf sched.
    #[staticmethod]
    #[pyo3(signature = (path, *, ignore = Vec::new()), text_signature = "(path, *, ignore=())")]
    fn read(path: PathBuf, ignore: Vec<String>) -> PyResult<Workload> {
        let name = path.display();
        let bytes = std::fs::read(&path)?;
        let text = workload::text_of(&path, bytes);
        let workload = text.and_then(|text| workload::parse(&path, &text, &ignore));
        workload.map(Workload::from).map_err(|error| refused(format!("{name}: {error}")))
    }

    /// The same with other numbers.
    #[pyo3(signature = (*, cpus = None, quantum = None, duration = None, seed = None))]
    fn replace(
        &self,
        cpus: Option<CpusArg>,
        quantum: Option<&str>,
        duration: Option<&str>,
        seed: Option<SeedArg>,
    ) -> PyResult<Workload> {
        let length = |text: Option<&str>| text.map(workload::parse_duration).transpose();
        let mut changed = Described::clone(&self.0);
        let machine = &mut changed.machine;
        machine.cpus = cpus.map_or(machine.cpus, |cpus| cpus.0);
        machine.quantum_ns = length(quantum).map_err(refused)?.unwrap_or(machine.quantum_ns);
        changed.duration_ns = length(duration).map_err(refused)?.unwrap_or(changed.duration_ns);
        changed.seed = seed.map_or(changed.seed, |seed| seed.0);
        changed.check().map_err(PyValueError::new_err)?;
        Ok(changed.into())
    }

    #[getter]
    fn cpus(&self) -> usize {
        self.0.machine.cpus
    }

    #[getter]
    fn quantum_ns(&self) -> u64 {
        self.0.machine.quantum_ns
    }

    #[getter]
    fn duration_ns(&self) -> u64 {
        self.0.duration_ns
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.0.seed
    }

    /// The names of the tasks, by id.
    #[getter]
    fn tasks(&self) -> Vec<String> {
        names(&self.0)
    }

    /// The weights that the tasks arrive with, by id.
    #[getter]
    fn weights(&self) -> Vec<u32> {
        let weights =
            |group: &workload::Group| std::iter::repeat_n(group.weight.get(), group.count as usize);
        self.0.groups.iter().flat_map(weights).collect()
    }

    fn __repr__(&self) -> String {
        let (tasks, cpus) = (self.0.tasks(), self.cpus());
        let duration = workload::format_duration(self.0.duration_ns);
        format!("<prorata.Workload: {tasks} tasks, {cpus} cpus, {duration}>")
    }
}

/// The names of the tasks of `workload`, by id.
pub(crate) fn names(workload: &Described) -> Vec<String> {
    let names = |group: &'_ workload::Group| -> Vec<String> {
        (0..group.count).map(|number| group.task_name(number)).collect()
    };
    workload.groups.iter().flat_map(names).collect()
}

impl From<Described> for Workload {
    fn from(workload: Described) -> Workload {
        Workload(Arc::new(workload))
    }
}

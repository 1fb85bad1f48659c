//! What a simulation found out.

use std::sync::Arc;

use prorata_sim::export::{self, Segment, Timeline};
use prorata_sim::observer::End;
use prorata_sim::outcome::Outcome as Found;
use prorata_sim::workload::Workload as Described;
use pyo3::prelude::*;

use crate::errors::{broken, refused};
use crate::table::{self, Builder, Table};
use crate::workload::names;

/// See the stub file.
#[pyclass(frozen, module = "prorata")]
pub(crate) struct Outcome {
    #[pyo3(get)]
    policy: String,
    workload: Arc<Described>,
    found: Found,
    segments: Option<Vec<Segment>>,
}

impl Outcome {
    pub(crate) fn new(
        policy: &str,
        workload: &Arc<Described>,
        found: Found,
        timeline: Option<Timeline>,
    ) -> PyResult<Outcome> {
        let (segments, truncated) = timeline.map(Timeline::into_segments).unzip();
        if truncated == Some(true) {
            return Err(refused(format!(
                "the timeline has more than {} runs: make the duration shorter, or keep no timeline",
                export::MAX_SEGMENTS
            )));
        }
        let (policy, workload) = (policy.to_string(), Arc::clone(workload));
        Ok(Outcome { policy, workload, found, segments })
    }

    fn segments(&self) -> PyResult<&[Segment]> {
        self.segments
            .as_deref()
            .ok_or_else(|| refused("no timeline was kept: simulate with timeline=True"))
    }
}

#[pymethods]
impl Outcome {
    #[getter]
    fn cpus(&self) -> usize {
        self.found.cpus
    }

    #[getter]
    fn quantum_ns(&self) -> u64 {
        self.found.quantum_ns
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.found.seed
    }

    #[getter]
    fn duration_ns(&self) -> u64 {
        self.found.duration_ns
    }

    #[getter]
    fn decisions(&self) -> u64 {
        self.found.totals.decisions
    }

    #[getter]
    fn error_min(&self) -> f64 {
        self.found.errors.error_min
    }

    #[getter]
    fn error_max(&self) -> f64 {
        self.found.errors.error_max
    }

    /// One row a task.
    #[getter]
    fn tasks(&self) -> PyResult<Table> {
        table::of_columns(&export::tasks(&self.found))
    }

    /// One row a group of identical tasks.
    #[getter]
    fn groups(&self) -> PyResult<Table> {
        table::of_plain_data(&self.found.groups)
    }

    /// One row a cgroup.
    #[getter]
    fn cgroups(&self) -> PyResult<Table> {
        table::of_plain_data(&self.found.cgroups)
    }

    /// One row for each time that a task had a cpu.
    #[getter]
    fn timeline(&self) -> PyResult<Table> {
        let segments = self.segments()?;
        let names = names(&self.workload);
        let count = |of: fn(&Segment) -> u64| segments.iter().map(move |segment| Some(of(segment)));
        Builder::default()
            .texts("task", segments.iter().map(|segment| Some(&names[segment.task.index()])))
            .counts("id", count(|segment| segment.task.0.into()))
            .counts("cpu", count(|segment| segment.cpu as u64))
            .counts("start_ns", count(|segment| segment.start_ns))
            .counts("end_ns", count(|segment| segment.end_ns))
            .counts("off_cpu_ns", count(|segment| segment.off_cpu_ns))
            .counts("delay_ns", count(|segment| segment.delay_ns))
            .texts(
                "end",
                segments.iter().map(|segment| {
                    Some(match segment.end {
                        End::Preempted => "preempted",
                        End::Blocked => "blocked",
                        End::Exited => "exited",
                    })
                }),
            )
            .table()
    }

    /// All of it, as `prorata simulate --format json` prints it.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let dict = pythonize::pythonize(py, &self.found)?;
        dict.set_item("policy", &self.policy)?;
        Ok(dict)
    }

    /// The timeline as a picture.
    fn svg(&self) -> PyResult<String> {
        let mut picture = Vec::new();
        export::write_svg(&self.workload, self.segments()?, &mut picture)?;
        String::from_utf8(picture).map_err(broken)
    }

    fn __str__(&self) -> String {
        export::table(&self.policy, &self.found)
    }

    fn __repr__(&self) -> String {
        let Found { cpus, tasks, errors, .. } = &self.found;
        format!(
            "<prorata.Outcome: {} tasks under {}, {cpus} cpus, errors {:.3}..{:.3} quanta>",
            tasks.len(),
            self.policy,
            errors.error_min,
            errors.error_max
        )
    }
}

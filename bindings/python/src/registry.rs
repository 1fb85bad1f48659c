//! What there is to know of prorata's policies.

use prorata::TaskId;
use prorata::policies::{Entry, FixedSet, Limit, REGISTRY, Ratio};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::{CpusArg, WeightArg, weights};
use crate::errors::{guarded, refused};

/// Every policy.
#[pyfunction]
pub(crate) fn policies() -> Vec<PolicyInfo> {
    REGISTRY.iter().map(PolicyInfo).collect()
}

/// What the registry knows of a policy.
#[pyclass(frozen, module = "prorata", skip_from_py_object)]
#[derive(Clone, Copy)]
pub(crate) struct PolicyInfo(&'static Entry);

/// At least this much, at most that much; `None` where nothing is proven.
type Limits<'py> = (Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

#[pymethods]
impl PolicyInfo {
    #[getter]
    fn name(&self) -> &str {
        self.0.name
    }

    #[getter]
    fn title(&self) -> &str {
        self.0.title
    }

    #[getter]
    fn paper(&self) -> &str {
        self.0.paper
    }

    #[getter]
    fn bound(&self) -> &str {
        self.0.bound.text
    }

    /// What pick, insert and remove cost.
    #[getter]
    fn cost(&self) -> (&str, &str, &str) {
        (self.0.cost.pick, self.0.cost.insert, self.0.cost.remove)
    }

    #[getter]
    fn multiprocessor(&self) -> bool {
        self.0.multiprocessor
    }

    #[getter]
    fn work_conserving(&self) -> bool {
        self.0.work_conserving
    }

    /// Whether it shares by weight and leaves nothing to lot: its turns can be corrected.
    #[getter]
    fn by_weight(&self) -> bool {
        self.0.by_weight
    }

    /// Options by name: default and meaning.
    #[getter]
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let options = PyDict::new(py);
        for (name, default, meaning) in self.0.options {
            options.set_item(name, (default, meaning))?;
        }
        Ok(options)
    }

    /// The proven bound on the service error of each task of a fixed set, in quanta.
    #[pyo3(signature = (weights, cpus = CpusArg(1)), text_signature = "($self, weights, cpus=1)")]
    fn limits<'py>(
        &self,
        py: Python<'py>,
        weights: Vec<WeightArg>,
        cpus: CpusArg,
    ) -> PyResult<Vec<Limits<'py>>> {
        let (weights, cpus) = (self::weights(&weights)?, cpus.0);
        if cpus > 1 && !self.0.multiprocessor {
            let name = self.0.name;
            return Err(refused(format!("{name} schedules one cpu only: use cpus=1")));
        }
        let set = FixedSet { weights: &weights, cpus };
        let limit = |limit: Option<Limit>, task| match limit {
            Some(limit) => fraction(py, guarded(|| limit(&set, task))?).map(Some),
            None => Ok(None),
        };
        let tasks = (0..TaskId::LIMIT).map(TaskId).take(weights.len());
        let bound = &self.0.bound;
        tasks.map(|task| Ok((limit(bound.lower, task)?, limit(bound.upper, task)?))).collect()
    }

    fn __repr__(&self) -> String {
        format!("<prorata.PolicyInfo {}: {}>", self.0.name, self.0.title)
    }
}

/// A `fractions.Fraction`.
pub(crate) fn fraction(py: Python<'_>, ratio: Ratio) -> PyResult<Bound<'_, PyAny>> {
    let class = py.import("fractions")?.getattr("Fraction")?;
    class.call1((ratio.numerator, ratio.denominator))
}

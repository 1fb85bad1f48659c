//! Runs a workload under a policy.

use std::sync::Arc;

use prorata::{Policy, policies};
use prorata_sim::engine::{Engine, SimulationError};
use prorata_sim::export::Timeline;
use prorata_sim::observer::{Observer, Run};
use prorata_sim::outcome::Outcome as Found;
use prorata_sim::workload::Workload as Described;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::{guarded, not_built, refused};
use crate::guest::{Guest, Watch};
use crate::outcome::Outcome;
use crate::policy::Setup;
use crate::workload::Workload;

/// Instants between two looks at whether the user has interrupted the program: some milliseconds.
const INSTANTS: u32 = 1 << 14;

/// Simulates `workload` under `policy`.
#[pyfunction]
#[pyo3(
    signature = (workload, policy = None, *, timeline = false),
    text_signature = "(workload, policy='gr3', *, timeline=False)"
)]
pub(crate) fn simulate(
    py: Python<'_>,
    workload: &Bound<'_, PyAny>,
    policy: Option<&Bound<'_, PyAny>>,
    timeline: bool,
) -> PyResult<Outcome> {
    let workload = Workload::of(workload)?;
    let observer = timeline.then(Timeline::default);
    let Some(policy) = policy else {
        return built(py, &workload, "gr3", observer);
    };
    match policy.cast::<PyString>() {
        Ok(spec) => built(py, &workload, &spec.to_cow()?, observer),
        Err(_) => written(&workload, policy, observer),
    }
}

/// Under a policy of the registry, while other threads of Python run.
fn built(
    py: Python<'_>,
    workload: &Arc<Described>,
    spec: &str,
    observer: Option<Timeline>,
) -> PyResult<Outcome> {
    let policy = guarded(|| policies::build(spec, &workload.setup()))?.map_err(not_built)?;
    let (mut interrupted, mut instants) = (None, 0);
    let goes_on = || {
        instants += 1;
        if instants % INSTANTS == 0 {
            interrupted = Python::attach(|py| py.check_signals()).err();
        }
        interrupted.is_none()
    };
    let run = || guarded(|| run(workload, policy, observer, || {}, goes_on));
    let ended = py.detach(run)?.map_err(refused)?;
    match (ended, interrupted) {
        (Some((found, timeline)), None) => Outcome::new(spec, workload, found, timeline),
        (_, error) => Err(error.unwrap_or_else(|| refused("the simulation was stopped"))),
    }
}

/// Under a policy written in Python, which `build` builds.
fn written(
    workload: &Arc<Described>,
    build: &Bound<'_, PyAny>,
    observer: Option<Timeline>,
) -> PyResult<Outcome> {
    if !build.is_callable() {
        return Err(PyTypeError::new_err(format!(
            "a policy is a name such as \"gr3\", or what makes one from a Setup, as its class does; not \
             {}",
            build.repr()?
        )));
    }
    let setup = workload.machine.setup(workload.seed);
    let object = build.call1((Setup::from(&setup),))?;
    let (guest, watch) = Guest::new(&object, &setup)?;
    let ended = {
        let watch: &Watch = &watch;
        guarded(|| run(workload, guest, observer, || watch.begin(), || !watch.has_failed()))?
    };
    if let Some(failure) = watch.failure() {
        return Err(failure);
    }
    let name = object.get_type().name()?;
    match ended.map_err(refused)? {
        Some((found, timeline)) => Outcome::new(&name.to_cow()?, workload, found, timeline),
        None => Err(refused("the simulation was stopped")),
    }
}

/// `None` if it was stopped. `begin` is called when the machine stands and nothing has happened yet.
fn run(
    workload: &Described,
    policy: impl Policy,
    observer: Option<Timeline>,
    begin: impl FnOnce(),
    goes_on: impl FnMut() -> bool,
) -> Result<Option<(Found, Option<Timeline>)>, SimulationError> {
    let mut engine = Engine::new(workload, policy, Observing(observer))?;
    begin();
    let ended = engine.simulate_while(goes_on)?;
    Ok(ended.then(|| {
        let (found, Observing(timeline)) = engine.outcome();
        (found, timeline)
    }))
}

/// Keeps a timeline if it shall.
struct Observing(Option<Timeline>);

impl Observer for Observing {
    fn woke(&mut self, task: prorata::TaskId, now_ns: prorata::Nanos) {
        if let Some(timeline) = &mut self.0 {
            timeline.woke(task, now_ns);
        }
    }

    fn ran(&mut self, run: Run) {
        if let Some(timeline) = &mut self.0 {
            timeline.ran(run);
        }
    }
}

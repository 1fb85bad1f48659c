//! prorata's policies as objects with the seven verbs.

use std::sync::{Mutex, PoisonError};

use prorata::{Contract, Policy, policies};
use pyo3::prelude::*;

use crate::arguments::{CpuArg, CpusArg, LengthArg, NanosArg, SeedArg, TaskArg, WeightArg};
use crate::errors::{broken, guarded, not_built, refused};

/// What a policy is built with.
#[pyclass(frozen, eq, get_all, module = "prorata", skip_from_py_object)]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Setup {
    cpus: usize,
    quantum_ns: u64,
    seed: u64,
}

impl From<&prorata::Setup> for Setup {
    fn from(setup: &prorata::Setup) -> Setup {
        Setup { cpus: setup.cpus, quantum_ns: setup.quantum_ns, seed: setup.seed }
    }
}

#[pymethods]
impl Setup {
    #[new]
    #[pyo3(
        signature = (cpus = CpusArg(1), quantum_ns = QUANTUM, seed = SeedArg(0)),
        text_signature = "(cpus=1, quantum_ns=10000000, seed=0)"
    )]
    fn new(cpus: CpusArg, quantum_ns: LengthArg, seed: SeedArg) -> Setup {
        Setup { cpus: cpus.0, quantum_ns: quantum_ns.0, seed: seed.0 }
    }

    fn __repr__(&self) -> String {
        let Setup { cpus, quantum_ns, seed } = self;
        format!("Setup(cpus={cpus}, quantum_ns={quantum_ns}, seed={seed})")
    }
}

const QUANTUM: LengthArg = LengthArg(10_000_000);

/// Builds the policy that `spec` names, as in the registry.
#[pyfunction]
#[pyo3(
    signature = (spec, cpus = CpusArg(1), quantum_ns = QUANTUM, seed = SeedArg(0)),
    text_signature = "(spec, cpus=1, quantum_ns=10000000, seed=0)"
)]
pub(crate) fn build(
    spec: &str,
    cpus: CpusArg,
    quantum_ns: LengthArg,
    seed: SeedArg,
) -> PyResult<BuiltPolicy> {
    let setup = prorata::Setup { seed: seed.0, ..prorata::Setup::new(cpus.0, quantum_ns.0) };
    let policy = guarded(|| policies::build(spec, &setup))?.map_err(not_built)?;
    let watched = Watched { policy, contract: Contract::new(&setup), failed: false };
    Ok(BuiltPolicy { spec: spec.to_string(), setup: Setup::from(&setup), watched: watched.into() })
}

/// A policy of prorata's. Built by `prorata.build`.
#[pyclass(module = "prorata")]
pub(crate) struct BuiltPolicy {
    #[pyo3(get)]
    spec: String,
    #[pyo3(get)]
    setup: Setup,
    /// Locked by nobody: a policy can be handed to another thread, but not be used by two at once.
    watched: Mutex<Watched>,
}

impl BuiltPolicy {
    fn watched(&mut self) -> &mut Watched {
        self.watched.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl BuiltPolicy {
    fn add(&mut self, task: TaskArg, weight: WeightArg) -> PyResult<()> {
        let watched = self.watched();
        watched.contract.add(task.0).map_err(refused)?;
        watched.call(|policy| policy.add(task.0, weight.0))
    }

    fn remove(&mut self, task: TaskArg, now_ns: NanosArg) -> PyResult<()> {
        let watched = self.watched();
        watched.contract.remove(task.0, now_ns.0).map_err(refused)?;
        watched.call(|policy| policy.remove(task.0, now_ns.0))
    }

    fn set_weight(&mut self, task: TaskArg, weight: WeightArg, now_ns: NanosArg) -> PyResult<()> {
        let watched = self.watched();
        watched.contract.set_weight(task.0, now_ns.0).map_err(refused)?;
        watched.call(|policy| policy.set_weight(task.0, weight.0, now_ns.0))
    }

    fn wake(&mut self, task: TaskArg, now_ns: NanosArg) -> PyResult<()> {
        let watched = self.watched();
        watched.contract.wake(task.0, now_ns.0).map_err(refused)?;
        watched.call(|policy| policy.wake(task.0, now_ns.0))
    }

    fn block(&mut self, task: TaskArg, now_ns: NanosArg) -> PyResult<()> {
        let watched = self.watched();
        watched.contract.block(task.0, now_ns.0).map_err(refused)?;
        watched.call(|policy| policy.block(task.0, now_ns.0))
    }

    fn pick(&mut self, cpu: CpuArg, now_ns: NanosArg) -> PyResult<Option<u32>> {
        let watched = self.watched();
        watched.contract.ask(cpu.0, now_ns.0).map_err(refused)?;
        let Some(task) = watched.call(|policy| policy.pick(cpu.0, now_ns.0))? else {
            return Ok(None);
        };
        watched.contract.picked(cpu.0, task).map_err(broken)?;
        Ok(Some(task.0))
    }

    fn charge(&mut self, task: TaskArg, used_ns: NanosArg, now_ns: NanosArg) -> PyResult<()> {
        let Watched { policy, contract, .. } = self.watched();
        let slice_ns = || policy.slice_ns(task.0);
        guarded(|| contract.charge(task.0, used_ns.0, now_ns.0, slice_ns))?.map_err(refused)?;
        self.watched().call(|policy| policy.charge(task.0, used_ns.0, now_ns.0))
    }

    fn interrupt(&mut self, now_ns: NanosArg) -> PyResult<Option<usize>> {
        let watched = self.watched();
        watched.contract.ask_interrupt(now_ns.0).map_err(refused)?;
        let cpu = watched.call(|policy| policy.interrupt(now_ns.0))?;
        cpu.map_or(Ok(()), |cpu| watched.contract.interrupted(cpu)).map_err(broken)?;
        Ok(cpu)
    }

    fn slice_ns(&mut self, task: TaskArg) -> PyResult<Option<u64>> {
        let watched = self.watched();
        watched.contract.ask_slice(task.0).map_err(refused)?;
        watched.call(|policy| policy.slice_ns(task.0))
    }

    fn __repr__(&self) -> String {
        let BuiltPolicy { spec, setup: Setup { cpus, quantum_ns, seed }, .. } = self;
        format!("prorata.build({spec:?}, cpus={cpus}, quantum_ns={quantum_ns}, seed={seed})")
    }
}

/// A policy that hears only calls that the contract allows.
struct Watched {
    policy: Box<dyn Policy + Send>,
    contract: Contract,
    /// It panicked: what it would say now means nothing.
    failed: bool,
}

impl Watched {
    fn call<T>(&mut self, verb: impl FnOnce(&mut (dyn Policy + Send)) -> T) -> PyResult<T> {
        if self.failed {
            return Err(broken("this policy has failed before; build another one"));
        }
        let answer = guarded(|| verb(&mut *self.policy));
        self.failed = answer.is_err();
        answer
    }
}

//! A policy written in Python, as the engine sees it.
//!
//! Once it has raised an exception, or given an answer that the contract does not allow, it is asked
//! nothing more and every cpu idles; the simulation stops after the instant.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use prorata::contract::Misuse;
use prorata::{Contract, CpuId, Nanos, Policy, Setup, TaskId, Weight};
use prorata_sim::workload::MAX_TASKS;
use pyo3::call::PyCallArgs;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::arguments::whole;
use crate::errors::{broken, refused};

/// What the simulation and its policy both look at.
pub(crate) struct Watch {
    contract: RefCell<Contract>,
    failure: RefCell<Option<PyErr>>,
    /// False until the simulation begins: what the engine does to make room is not for the policy.
    begun: Cell<bool>,
    /// Interruptions at one instant: when, how many.
    interruptions: Cell<(Nanos, u32)>,
}

impl Watch {
    pub(crate) fn begin(&self) {
        self.begun.set(true);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    pub(crate) fn failure(&self) -> Option<PyErr> {
        self.failure.take()
    }

    /// Holds an answer of the policy to the contract.
    fn check<T>(&self, answer: impl FnOnce(&mut Contract) -> Result<T, Misuse>) -> PyResult<T> {
        answer(&mut self.contract.borrow_mut()).map_err(refused)
    }

    /// Follows a call of the engine.
    fn follow<T>(&self, call: impl FnOnce(&mut Contract) -> Result<T, Misuse>) -> PyResult<T> {
        call(&mut self.contract.borrow_mut()).map_err(broken)
    }
}

/// Interruptions at one instant after which a policy will never stop. Each turns a cpu to another task.
const MAX_INTERRUPTIONS: u32 = 100_000;

/// The methods of the object.
struct Verbs<'py> {
    add: Bound<'py, PyAny>,
    remove: Bound<'py, PyAny>,
    set_weight: Bound<'py, PyAny>,
    wake: Bound<'py, PyAny>,
    block: Bound<'py, PyAny>,
    pick: Bound<'py, PyAny>,
    charge: Bound<'py, PyAny>,
    interrupt: Option<Bound<'py, PyAny>>,
    slice_ns: Option<Bound<'py, PyAny>>,
}

impl<'py> Verbs<'py> {
    fn of(object: &Bound<'py, PyAny>) -> PyResult<Verbs<'py>> {
        let verb = |name: &str| match object.getattr_opt(name)? {
            Some(verb) if verb.is_callable() => Ok(verb),
            _ => Err(PyTypeError::new_err(format!(
                "{} has no method '{name}': a policy has add, remove, set_weight, wake, block, pick and \
                 charge (see prorata.Policy)",
                object.get_type().name()?
            ))),
        };
        Ok(Verbs {
            add: verb("add")?,
            remove: verb("remove")?,
            set_weight: verb("set_weight")?,
            wake: verb("wake")?,
            block: verb("block")?,
            pick: verb("pick")?,
            charge: verb("charge")?,
            interrupt: object.getattr_opt("interrupt")?,
            slice_ns: object.getattr_opt("slice_ns")?,
        })
    }
}

/// See the module documentation.
pub(crate) struct Guest<'py> {
    verbs: Verbs<'py>,
    watch: Rc<Watch>,
}

impl<'py> Guest<'py> {
    /// The policy that `object` is, built for `setup`, and its watch.
    pub(crate) fn new(
        object: &Bound<'py, PyAny>,
        setup: &Setup,
    ) -> PyResult<(Guest<'py>, Rc<Watch>)> {
        let watch = Rc::new(Watch {
            contract: RefCell::new(Contract::new(setup)),
            failure: RefCell::new(None),
            begun: Cell::new(false),
            interruptions: Cell::new((0, 0)),
        });
        Ok((Guest { verbs: Verbs::of(object)?, watch: Rc::clone(&watch) }, watch))
    }

    /// Does what the policy shall hear of, if it still hears anything.
    fn attempt<T>(&self, action: impl FnOnce(&Watch) -> PyResult<T>) -> Option<T> {
        let watch = &*self.watch;
        if !watch.begun.get() || watch.has_failed() {
            return None;
        }
        match action(watch) {
            Ok(done) => Some(done),
            Err(error) => {
                watch.failure.replace(Some(error));
                None
            }
        }
    }

    /// Tells the policy something after the `step` that it stands for.
    fn tell<T>(
        &self,
        step: impl FnOnce(&mut Contract) -> Result<T, Misuse>,
        verb: &Bound<'py, PyAny>,
        arguments: impl PyCallArgs<'py>,
    ) {
        self.attempt(|watch| {
            watch.follow(step)?;
            verb.call1(arguments).map(drop)
        });
    }
}

/// The number in the answer of `call`; `None` for `None`.
fn answer(answer: &Bound<'_, PyAny>, call: &str, least: u64, most: u64) -> PyResult<Option<u64>> {
    if answer.is_none() {
        return Ok(None);
    }
    whole(answer.as_borrowed(), &format!("what {call} returns, unless it is None,"), least..=most)
        .map(Some)
}

impl Policy for Guest<'_> {
    fn add(&mut self, task: TaskId, weight: Weight) {
        self.tell(|contract| contract.add(task), &self.verbs.add, (task.0, weight.get()));
    }

    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        self.tell(|contract| contract.remove(task, now_ns), &self.verbs.remove, (task.0, now_ns));
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, now_ns: Nanos) {
        let arguments = (task.0, weight.get(), now_ns);
        self.tell(|contract| contract.set_weight(task, now_ns), &self.verbs.set_weight, arguments);
    }

    fn wake(&mut self, task: TaskId, now_ns: Nanos) {
        self.tell(|contract| contract.wake(task, now_ns), &self.verbs.wake, (task.0, now_ns));
    }

    fn block(&mut self, task: TaskId, now_ns: Nanos) {
        self.tell(|contract| contract.block(task, now_ns), &self.verbs.block, (task.0, now_ns));
    }

    fn pick(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        let picked = self.attempt(|watch| {
            watch.follow(|contract| contract.ask(cpu, now_ns))?;
            let picked = self.verbs.pick.call1((cpu, now_ns))?;
            let Some(number) = answer(&picked, "pick", 0, MAX_TASKS - 1)? else { return Ok(None) };
            let task = TaskId(u32::try_from(number).expect("below 2^24"));
            watch.check(|contract| contract.picked(cpu, task))?;
            Ok(Some(task))
        });
        picked.flatten()
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        // The engine ends a run when its slice is over: there is nothing to ask.
        let step = |contract: &mut Contract| contract.charge(task, used_ns, now_ns, || None);
        self.tell(step, &self.verbs.charge, (task.0, used_ns, now_ns));
    }

    fn interrupt(&mut self, now_ns: Nanos) -> Option<CpuId> {
        let verb = self.verbs.interrupt.as_ref()?;
        let cpu = self.attempt(|watch| {
            watch.follow(|contract| contract.ask_interrupt(now_ns))?;
            let most = prorata::Setup::MAX_CPUS as u64 - 1;
            let Some(cpu) = answer(&verb.call1((now_ns,))?, "interrupt", 0, most)? else { return Ok(None) };
            let cpu = usize::try_from(cpu).expect("at most the number of cpus");
            watch.check(|contract| contract.interrupted(cpu))?;
            let (last_ns, before) = watch.interruptions.get();
            let count = if last_ns == now_ns { before + 1 } else { 1 };
            watch.interruptions.set((now_ns, count));
            if count > MAX_INTERRUPTIONS {
                return Err(refused(format!(
                    "interrupt at {now_ns} ns has stopped {MAX_INTERRUPTIONS} runs: return None when the \
                     tasks that shall run do"
                )));
            }
            Ok(Some(cpu))
        });
        cpu.flatten()
    }

    fn slice_ns(&self, task: TaskId) -> Option<Nanos> {
        let verb = self.verbs.slice_ns.as_ref()?;
        let slice_ns = self.attempt(|watch| {
            let slice_ns = answer(&verb.call1((task.0,))?, "slice_ns", 1, Nanos::MAX)?;
            let check = |slice_ns| watch.check(|contract| contract.sliced(task, slice_ns));
            slice_ns.map_or(Ok(()), check)?;
            Ok(slice_ns)
        });
        slice_ns.flatten()
    }
}

//! What callers pass, checked: an integer out of range is a `ValueError` that names it and the range.

use std::ops::RangeInclusive;

use prorata::{CpuId, Nanos, TaskId, Weight};
use prorata_sim::workload::{LONGEST_NS, MAX_TASKS};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyInt;

/// The whole number in `object`, which is called `what` in messages.
pub(crate) fn whole(
    object: Borrowed<'_, '_, PyAny>,
    what: &str,
    range: RangeInclusive<u64>,
) -> PyResult<u64> {
    let number = object.extract::<u64>();
    if let Ok(number) = number
        && range.contains(&number)
    {
        return Ok(number);
    }
    let (from, to) = range.into_inner();
    if number.is_err() && !object.is_instance_of::<PyInt>() {
        let kind = object.get_type().name()?;
        return Err(PyTypeError::new_err(format!("{what} is a whole number, not of type {kind}")));
    }
    let given = object.str()?;
    Err(PyValueError::new_err(format!("{what} is a whole number from {from} to {to}, not {given}")))
}

macro_rules! argument {
    ($(#[$about:meta])* $name:ident($of:ty), $what:literal, $range:expr, $make:expr) => {
        $(#[$about])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name(pub(crate) $of);

        impl<'py> FromPyObject<'_, 'py> for $name {
            type Error = PyErr;

            fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<$name> {
                whole(object, $what, $range).map($make)
            }
        }
    };
}

argument!(
    /// An id. Policies keep tables indexed by it.
    TaskArg(TaskId), "a task", 0..=MAX_TASKS - 1,
    |number| TaskArg(TaskId(u32::try_from(number).expect("below 2^24")))
);
argument!(WeightArg(Weight), "a weight", 1..=u64::from(u32::MAX), |number| {
    let weight = u32::try_from(number).ok().and_then(Weight::new);
    WeightArg(weight.expect("in the range of weights"))
});
argument!(
    /// A time or a length of time.
    NanosArg(Nanos), "a time in nanoseconds", 0..=LONGEST_NS, NanosArg
);
argument!(
    /// A length of time that is not 0.
    LengthArg(Nanos), "a length of time in nanoseconds", 1..=LONGEST_NS, LengthArg
);
argument!(CpuArg(CpuId), "a cpu", 0..=MOST_CPUS - 1, |number| CpuArg(size(number)));
argument!(
    /// How many there are.
    CpusArg(usize), "the number of cpus", 1..=MOST_CPUS, |number| CpusArg(size(number))
);
argument!(SeedArg(u64), "a seed", 0..=u64::MAX, SeedArg);

const MOST_CPUS: u64 = prorata::Setup::MAX_CPUS as u64;

fn size(number: u64) -> usize {
    usize::try_from(number).expect("at most the number of cpus")
}

/// Weights as numbers, at least one of them.
pub(crate) fn weights(given: &[WeightArg]) -> PyResult<Vec<Weight>> {
    if given.is_empty() {
        return Err(PyValueError::new_err("there is no weight: give one for each task"));
    }
    Ok(given.iter().map(|weight| weight.0).collect())
}

//! What goes wrong, as exceptions.

use std::any::Any;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use prorata::policies::BuildError;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

pyo3::create_exception!(prorata, InternalError, PyRuntimeError, "A mistake of prorata's own.");

/// A `ValueError`: the message names the input and says what to do instead.
pub(crate) fn refused(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

pub(crate) fn not_built(error: BuildError) -> PyErr {
    match error {
        // Its own text speaks of the command line.
        BuildError::OneCpuOnly(name) => {
            refused(format!("{name} schedules one cpu only: use cpus=1, or a policy for several"))
        }
        error => refused(error),
    }
}

pub(crate) fn broken(what: impl Display) -> PyErr {
    InternalError::new_err(format!("prorata made a mistake, please report it: {what}"))
}

/// Does `work`, of which no panic is expected; one becomes an [`InternalError`].
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| broken(text(&*panic)))
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}

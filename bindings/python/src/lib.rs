//! prorata for Python: see `README.md` and, for the interface, `python/prorata/_native.pyi`.
//!
//! Nothing here panics into Python: what a caller may do wrong is looked for first and raised as an
//! exception, and what is left (a mistake of ours) becomes `InternalError`.

use pyo3::prelude::*;

mod arguments;
mod errors;
mod figure;
mod guest;
mod ideal;
mod outcome;
mod policy;
mod registry;
mod simulate;
mod sweep;
mod table;
mod workload;

/// The native half of the package `prorata`.
#[pymodule(name = "_native")]
mod native {
    #[pymodule_export]
    use super::errors::InternalError;
    #[pymodule_export]
    use super::figure::{Figure, FigurePlan, FigureReport, registered};
    #[pymodule_export]
    use super::ideal::{Fluid, ideal_rates, serve};
    #[pymodule_export]
    use super::outcome::Outcome;
    #[pymodule_export]
    use super::policy::{BuiltPolicy, Setup, build};
    #[pymodule_export]
    use super::registry::{PolicyInfo, policies};
    #[pymodule_export]
    use super::simulate::simulate;
    #[pymodule_export]
    use super::sweep::{Sweep, SweepReport};
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::workload::Workload;
}

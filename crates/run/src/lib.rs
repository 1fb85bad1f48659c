//! Shares cpus among real commands by weight. See the crate's README for who should use it.
//!
//! * [`task`]: what users ask for: commands or processes, with weights.
//! * [`run()`]: runs them to the end and reports.
//! * [`runner`]: the scheduler loop, over any policy and any [`backend`].
//! * [`backends`]: how tasks are held: signals, cgroups, or a mock in logical time.

pub mod backend;
pub mod backends;
mod demand;
mod entitlement;
mod error;
mod guardian;
mod kernel;
mod launch;
pub mod ledger;
mod machine;
mod proc;
pub mod report;
mod run;
pub mod runner;
mod sys;
pub mod task;
mod tree;

pub use error::Error;
pub use report::{Exit, Report, TaskReport};
pub use run::{Choice, Limits, Observer, Options, cpus_allowed, run};
pub use task::Job;

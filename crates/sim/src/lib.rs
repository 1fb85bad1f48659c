//! Deterministic simulation of scheduling policies: no wall clock, no hash order, one seed. The
//! same input gives the same bytes on every run.
//!
//! * [`fixed`]: tasks that never block, in lockstep, with exact errors.
//! * [`engine`]: any [`workload`] on any [`machine`], event by event.
//! * [`sweep`]: a workload over a grid of its keys, policies and seeds, with statistics.
//! * [`figures`]: the figures of the papers.
//!
//! ```
//! use prorata_sim::{machine::Machine, workload::*};
//!
//! let hog = |name: &str, weight| Group {
//!     name: name.into(),
//!     count: 1,
//!     weight: prorata::Weight::new(weight).unwrap(),
//!     arrival: Length::Fixed(0),
//!     program: Program::hog(),
//! };
//! let workload = Workload {
//!     machine: Machine::new(1, 10_000_000),
//!     duration_ns: 1_000_000_000,
//!     seed: 0,
//!     groups: vec![hog("a", 1), hog("b", 1)],
//!     resources: vec![],
//!     cgroups: Cgroups::default(),
//! };
//! let outcome = prorata_sim::simulate(&workload, "round-robin").unwrap();
//! assert_eq!(outcome.tasks[0].service.service_ns, 500_000_000);
//! ```

mod calendar;
pub mod engine;
pub mod export;
pub mod figures;
pub mod fixed;
pub mod histogram;
pub mod journal;
pub mod machine;
pub mod observer;
pub mod outcome;
mod progress;
pub mod random;
pub mod sweep;
pub mod workload;

pub use calendar::Calendar;
pub use progress::Progress;

pub(crate) use prorata_plot as plot;

use engine::{Engine, SimulationError};
use outcome::Outcome;
use prorata::policies::{self, BuildError};
use workload::Workload;

/// Why a policy has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It could not be built.
    #[error(transparent)]
    Policy(#[from] BuildError),
    /// The simulation stopped.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
}

/// Runs `workload` under `policy`, a name from the registry with options as `NAME:KEY=VALUE,…`.
///
/// # Errors
/// When the policy cannot be built for this machine, or the workload cannot be simulated.
pub fn simulate(workload: &Workload, policy: &str) -> Result<Outcome, Failure> {
    let policy = policies::build(policy, &workload.setup())?;
    let (outcome, ()) = Engine::new(workload, policy, ())?.run()?;
    Ok(outcome)
}

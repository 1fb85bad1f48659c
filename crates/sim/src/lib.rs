//! Deterministic simulation of scheduling policies: no wall clock, no hash order, one seed. The
//! same input gives the same bytes on every run.
//!
//! * [`fixed`]: tasks that never block, in lockstep, with exact errors.
//! * [`engine`]: any [`workload`] on any [`machine`], event by event.
//! * [`figures`]: the figures of the papers.
//!
//! ```
//! use prorata_sim::{engine::Engine, machine::Machine, workload::*};
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
//! let policy = prorata::policies::build("round-robin", &workload.machine.setup(0)).unwrap();
//! let (outcome, ()) = Engine::new(&workload, policy, ()).unwrap().run().unwrap();
//! assert_eq!(outcome.tasks[0].service.service_ns, 500_000_000);
//! ```

mod calendar;
pub mod engine;
pub mod export;
pub mod figures;
pub mod fixed;
pub mod histogram;
pub mod machine;
pub mod observer;
pub mod outcome;
pub mod random;
pub mod workload;

pub use calendar::Calendar;

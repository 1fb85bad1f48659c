//! Proportional-share scheduling: every task gets the share of the cpu that its weight gives it,
//! exactly and cheaply, on any number of cpus.
//!
//! A *policy* (one file in [`policies`]) implements the seven verbs of [`Policy`]; whatever runs
//! tasks drives it. There is no clock, no thread and no operating system in this crate.
//!
//! ```
//! use prorata::{Policy, Setup, TaskId, Weight, policies};
//!
//! let quantum_ns = 10_000_000;
//! let mut policy = policies::build("gr3", &Setup::new(1, quantum_ns)).unwrap();
//! for (id, weight) in [5, 2, 1].into_iter().enumerate() {
//!     let task = TaskId(id as u32);
//!     policy.add(task, Weight::new(weight).unwrap());
//!     policy.wake(task, 0);
//! }
//! let mut now_ns = 0;
//! let order: Vec<u32> = (0..8)
//!     .map(|_| {
//!         let task = policy.pick(0, now_ns).expect("three tasks are runnable");
//!         now_ns += quantum_ns; // the task runs
//!         policy.charge(task, quantum_ns, now_ns);
//!         task.0
//!     })
//!     .collect();
//! assert_eq!(order, [0, 0, 1, 0, 0, 0, 1, 2]);
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod central;
pub mod checked;
pub mod contract;
pub mod corrected;
pub mod effective;
pub mod fluid;
pub mod hierarchy;
pub mod ideal;
pub mod masks;
mod online;
pub mod policies;
pub mod policy;
pub mod queue;
pub mod tags;
pub mod turns;
pub mod virtual_time;
pub mod weights;

pub use checked::Checked;
pub use contract::Contract;
pub use corrected::Corrected;
pub use policy::{CpuId, Nanos, Policy, Setup, Sleepers, TaskId, Weight};
pub use turns::Turns;

/// The example of the README compiles and holds.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

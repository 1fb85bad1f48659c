//! Deterministic simulation of scheduling policies: no wall clock, no hash order, one seed. The
//! same input gives the same bytes on every run.

pub mod fixed;

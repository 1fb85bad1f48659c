//! The data structures that policies share. Each has a naive twin in its tests.

mod rings;

pub use rings::{NodeId, Rings};

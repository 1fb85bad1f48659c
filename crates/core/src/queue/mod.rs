//! The data structures that policies share. Each has a naive twin in its tests.

mod heap;
mod rings;

pub use heap::Heap;
pub use rings::{NodeId, Rings};

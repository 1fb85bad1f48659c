//! Hierarchical GMS: its vectors, its naive twin in rationals, and the checker that needs no algorithm.

#[path = "../common/mod.rs"]
mod common;

mod churn;
mod twin;
mod vectors;

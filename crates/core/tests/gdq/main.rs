//! MFQ and GDQ: the paper's examples, Theorems 3.5 and 3.6, smoothness, dynamics.

mod bounds;
#[path = "../common/mod.rs"]
mod common;
mod distributed;
mod mfq;

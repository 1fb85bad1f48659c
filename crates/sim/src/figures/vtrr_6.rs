//! VTRR, figure 6.

use super::{Figure, who_runs};

pub(super) const FIGURE: Figure = Figure {
    name: "vtrr-6",
    title: "Who runs when under VTRR",
    source: "VTRR (USENIX 2001), figure 6",
    sets: 1,
    remarks: "Five tasks that always run, quanta of 20 ms: fifteen quanta, 300 ms, are a cycle.",
    study: || who_runs::study("vtrr", Some(300.0)),
};

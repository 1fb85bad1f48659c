//! VTRR, figure 5.

use super::{Figure, who_runs};

pub(super) const FIGURE: Figure = Figure {
    name: "vtrr-5",
    title: "Who runs when under WFQ",
    source: "VTRR (USENIX 2001), figure 5",
    sets: 1,
    remarks: "Five tasks that always run, quanta of 20 ms: fifteen quanta, 300 ms, are a cycle.",
    study: || who_runs::study("wfq", Some(300.0)),
};

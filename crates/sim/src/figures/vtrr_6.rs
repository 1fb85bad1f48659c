//! VTRR, figure 6.

use super::{Figure, who_runs};

pub(super) const FIGURE: Figure = Figure {
    name: "vtrr-6",
    title: "Who runs when under VTRR",
    source: "VTRR (USENIX 2001), figure 6",
    sets: 1,
    remarks: "",
    study: || who_runs::study("vtrr", Some(300.0)),
};

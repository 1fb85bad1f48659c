//! VTRR, figure 8.

use super::{Figure, encoders};

pub(super) const FIGURE: Figure = Figure {
    name: "vtrr-8",
    title: "Audio frames encoded under WFQ",
    source: "VTRR (USENIX 2001), figure 8",
    sets: 1,
    remarks: "",
    study: || encoders::study("wfq"),
};

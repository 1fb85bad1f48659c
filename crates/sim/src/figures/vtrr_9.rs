//! VTRR, figure 9.

use super::{Figure, encoders};

pub(super) const FIGURE: Figure = Figure {
    name: "vtrr-9",
    title: "Audio frames encoded under VTRR",
    source: "VTRR (USENIX 2001), figure 9",
    sets: 1,
    remarks: "",
    study: || encoders::study("vtrr"),
};

//! VTRR, figure 9.

use super::{Figure, encoders};

pub(super) const FIGURE: Figure = Figure {
    name: "vtrr-9",
    title: "Audio frames encoded under VTRR",
    source: "VTRR (USENIX 2001), figure 9",
    sets: 1,
    remarks: "Five encoders that always run; a frame takes 10 ms of processor time (the paper does \
              not tell). Smooth lines, as printed, a little less even than those of WFQ.",
    study: || encoders::study("vtrr"),
};

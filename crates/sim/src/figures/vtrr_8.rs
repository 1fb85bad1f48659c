//! VTRR, figure 8.

use super::{Figure, encoders};

pub(super) const FIGURE: Figure = Figure {
    name: "vtrr-8",
    title: "Audio frames encoded under WFQ",
    source: "VTRR (USENIX 2001), figure 8",
    sets: 1,
    remarks: "Five encoders that always run; a frame takes 10 ms of processor time (the paper does \
              not tell). Smooth lines, as printed.",
    study: || encoders::study("wfq"),
};

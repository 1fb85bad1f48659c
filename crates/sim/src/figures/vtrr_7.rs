//! VTRR, figure 7.

use super::{Figure, encoders};

pub(super) const FIGURE: Figure = Figure {
    name: "vtrr-7",
    title: "Audio frames encoded under Linux 2.4",
    source: "VTRR (USENIX 2001), figure 7",
    sets: 1,
    remarks: "Five encoders that always run; a frame takes 10 ms of processor time (the paper does \
              not tell). Steps of up to a hundred milliseconds.",
    study: || encoders::study("linux-2.4"),
};

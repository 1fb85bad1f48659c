//! VTRR, figure 4.

use super::{Figure, who_runs};

pub(super) const FIGURE: Figure = Figure {
    name: "vtrr-4",
    title: "Who runs when under Linux 2.4",
    source: "VTRR (USENIX 2001), figure 4",
    sets: 1,
    remarks: "Five tasks that always run. A user priority of the paper is a weight here: slices of \
              20 to 100 ms. The simulation has no interrupts, so that the schedule repeats \
              exactly, which the paper's did not.",
    study: || who_runs::study("linux-2.4", None),
};

//! GR3, figure 16.

use super::{Figure, web_servers};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-16",
    title: "Six web servers under VTRR",
    source: "GR3 (USENIX 2005), figure 16",
    sets: 1,
    remarks: "600 processes that always run, in quanta of 10 ms. The staircase of VTRR is that of \
              WFQ: the light processes come in one stretch.",
    study: || web_servers::study("vtrr", 1),
};

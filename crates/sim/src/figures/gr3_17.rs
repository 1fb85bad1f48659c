//! GR3, figure 17.

use super::{Figure, web_servers};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-17",
    title: "Six web servers under GR3",
    source: "GR3 (USENIX 2005), figure 17",
    sets: 1,
    remarks: "600 processes that always run, in quanta of 10 ms. GR3 mixes the groups of heavy and \
              of light processes all the time, so the heavy process advances steadily: the \
              straightest line of the four. Its remaining steps are the round of its own group.",
    study: || web_servers::study("gr3", 1),
};

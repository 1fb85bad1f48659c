//! GR3, figure 15.

use super::{Figure, web_servers};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-15",
    title: "Six web servers under WFQ",
    source: "GR3 (USENIX 2005), figure 15",
    sets: 1,
    remarks: "600 processes that always run, in quanta of 10 ms. WFQ serves the hundred heavy \
              processes one after the other, and stops serving them while the five hundred light \
              ones catch up: the paper's staircase.",
    study: || web_servers::study("wfq", 1),
};

//! GR3, figure 15.

use super::{Figure, web_servers};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-15",
    title: "Six web servers under WFQ",
    source: "GR3 (USENIX 2005), figure 15",
    sets: 1,
    remarks: "",
    study: || web_servers::study("wfq", 1),
};

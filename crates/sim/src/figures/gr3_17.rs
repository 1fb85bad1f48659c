//! GR3, figure 17.

use super::{Figure, web_servers};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-17",
    title: "Six web servers under GR3",
    source: "GR3 (USENIX 2005), figure 17",
    sets: 1,
    remarks: "",
    study: || web_servers::study("gr3", 1),
};

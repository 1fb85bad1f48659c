//! GR3, figure 16.

use super::{Figure, web_servers};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-16",
    title: "Six web servers under VTRR",
    source: "GR3 (USENIX 2005), figure 16",
    sets: 1,
    remarks: "",
    study: || web_servers::study("vtrr", 1),
};

//! GR3, figure 14.

use super::{Figure, web_servers};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-14",
    title: "Six web servers under Linux 2.4",
    source: "GR3 (USENIX 2005), figure 14",
    sets: 1,
    remarks: "",
    study: || web_servers::study("linux-2.4", 1),
};

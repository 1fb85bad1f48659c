//! GR3, figure 18.

use super::{Figure, web_servers};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-18",
    title: "Six web servers under Linux 2.4 on 2 cpus",
    source: "GR3 (USENIX 2005), figure 18",
    sets: 1,
    remarks: "",
    study: || web_servers::study("linux-2.4", 2),
};

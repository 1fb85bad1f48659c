//! GR3, figure 19.

use super::{Figure, web_servers};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-19",
    title: "Six web servers under GR3MP on 2 cpus",
    source: "GR3 (USENIX 2005), figure 19",
    sets: 1,
    remarks: "600 processes that always run, in quanta of 10 ms, on two cpus. As straight as on \
              one.",
    study: || web_servers::study("gr3", 2),
};

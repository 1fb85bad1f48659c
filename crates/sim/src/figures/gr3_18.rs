//! GR3, figure 18.

use super::{Figure, web_servers};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-18",
    title: "Six web servers under Linux 2.4 on 2 cpus",
    source: "GR3 (USENIX 2005), figure 18",
    sets: 1,
    remarks: "600 processes that always run, in quanta of 10 ms, on two cpus. Linux 2.4 gives a \
              process its whole slice at once.",
    study: || web_servers::study("linux-2.4", 2),
};

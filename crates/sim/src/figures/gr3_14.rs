//! GR3, figure 14.

use super::{Figure, web_servers};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-14",
    title: "Six web servers under Linux 2.4",
    source: "GR3 (USENIX 2005), figure 14",
    sets: 1,
    remarks: "600 processes that always run, in quanta of 10 ms; processes of real web servers \
              also wait. Weights stand for the paper's nice values. One process of each server is \
              shown, and beside it its service error. Linux 2.4 gives a process its whole slice at \
              once: the longest steps of all.",
    study: || web_servers::study("linux-2.4", 1),
};

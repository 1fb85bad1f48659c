//! GR3, figure 5.

use super::Figure;
use super::contenders::{Contender, WFQ};
use super::skewed::{SETS, Skewed};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-5",
    title: "Service error of WFQ",
    source: "GR3 (USENIX 2005), figure 5",
    sets: SETS,
    remarks: "",
    study: || Box::new(Skewed { contenders: CONTENDERS, cpus: 1, part: 10 }),
};

const CONTENDERS: &[Contender] = &[WFQ.prints(-1.0, 819.0)];

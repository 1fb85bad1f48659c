//! GR3, figure 8.

use super::Figure;
use super::contenders::{Contender, SRR};
use super::skewed::{SETS, Skewed};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-8",
    title: "Service error of SRR",
    source: "GR3 (USENIX 2005), figure 8",
    sets: SETS,
    remarks: "",
    study: || Box::new(Skewed { contenders: CONTENDERS, cpus: 1, part: 10 }),
};

const CONTENDERS: &[Contender] = &[SRR.prints(-369.0, 369.0)];

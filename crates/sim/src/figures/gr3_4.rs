//! GR3, figure 4.

use super::Figure;
use super::contenders::{Contender, WRR};
use super::skewed::{SETS, Skewed};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-4",
    title: "Service error of weighted round robin",
    source: "GR3 (USENIX 2005), figure 4",
    sets: SETS,
    remarks: "",
    study: || Box::new(Skewed { contenders: CONTENDERS, cpus: 1, part: 10 }),
};

const CONTENDERS: &[Contender] = &[WRR.prints(-12067.0, 23593.0)];

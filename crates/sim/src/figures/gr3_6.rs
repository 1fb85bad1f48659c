//! GR3, figure 6.

use super::Figure;
use super::contenders::{Contender, SFQ};
use super::skewed::{SETS, Skewed};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-6",
    title: "Service error of SFQ",
    source: "GR3 (USENIX 2005), figure 6",
    sets: SETS,
    remarks: "",
    study: || Box::new(Skewed { contenders: CONTENDERS, cpus: 1, part: 10 }),
};

const CONTENDERS: &[Contender] = &[SFQ.prints(-819.0, 1.0)];

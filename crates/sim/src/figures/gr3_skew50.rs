//! GR3, section 5.1: what becomes of the errors when one task has half of the weight.

use super::Figure;
use super::contenders::{Contender, GR3, SFQ, SRR, VTRR, WFQ, WRR};
use super::skewed::{SETS, Skewed};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-skew50",
    title: "Service errors when one task has half of the weight",
    source: "GR3 (USENIX 2005), section 5.1",
    sets: SETS,
    remarks: "",
    study: || Box::new(Skewed { contenders: CONTENDERS, cpus: 1, part: 2 }),
};

const CONTENDERS: &[Contender] = &[GR3.prints(-2.3, 4.6), WFQ, SFQ, SRR, VTRR, WRR];

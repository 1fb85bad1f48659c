//! GR3, section 5.1: what becomes of the errors when one task has half of the weight.

use super::Figure;
use super::contenders::{Contender, GR3, SFQ, SRR, VTRR, WFQ, WRR};
use super::skewed::{SETS, Skewed};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-skew50",
    title: "Service errors when one task has half of the weight",
    source: "GR3 (USENIX 2005), section 5.1",
    sets: SETS,
    remarks: "As figures 4 to 9, but the first task has exactly half of the total weight. GR3 \
              stays within a few quanta: the paper prints −2.3..4.6, and the technical report \
              −2.8..4.9. Our greatest error belongs to the heavy task itself when it is alone in \
              its group; a task of slightly less than half would be in a group with others and is \
              closer to the paper. WFQ, SFQ and SRR are more than five times worse than at a \
              tenth, as the paper says.",
    study: || Box::new(Skewed { contenders: CONTENDERS, cpus: 1, part: 2 }),
};

const CONTENDERS: &[Contender] = &[GR3.prints(-2.3, 4.6), WFQ, SFQ, SRR, VTRR, WRR];

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
              −2.8..4.9. Why ours is greater is not known; \
              a task of exactly half may be alone in its group where the paper's was not \
              (conjecture). WFQ, SFQ and SRR are more than five times worse than at a \
              tenth, as the paper says.",
    study: || Box::new(Skewed { contenders: CONTENDERS.into(), cpus: 1, part: 2 }),
};

const CONTENDERS: &[Contender] = &[GR3.prints(-2.3, 4.6), WFQ, SFQ, SRR, VTRR, WRR];

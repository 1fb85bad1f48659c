//! VTRR, figure 2.

use super::Figure;
use super::average::{Average, SETS};
use super::contenders::{Contender, VTRR, WFQ};

pub(super) const FIGURE: Figure = Figure {
    name: "vtrr-2",
    title: "Average service errors of VTRR and WFQ",
    source: "VTRR (USENIX 2001), figure 2",
    sets: SETS,
    remarks: "As figure 1. WFQ runs with ties in favour of the largest share.",
    study: || Box::new(Average { contenders: CONTENDERS.into() }),
};

const CONTENDERS: &[Contender] = &[VTRR.prints(-3.8, 10.6), WFQ.prints(-1.0, 2.0)];

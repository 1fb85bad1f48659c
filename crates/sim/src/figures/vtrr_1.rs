//! VTRR, figure 1.

use super::Figure;
use super::average::{Average, SETS};
use super::contenders::{Contender, VTRR, WRR};

pub(super) const FIGURE: Figure = Figure {
    name: "vtrr-1",
    title: "Average service errors of VTRR and weighted round robin",
    source: "VTRR (USENIX 2001), figure 1",
    sets: SETS,
    remarks: "",
    study: || Box::new(Average { contenders: CONTENDERS }),
};

const CONTENDERS: &[Contender] = &[VTRR.prints(-3.8, 10.6), WRR.prints(-398.0, 479.0)];

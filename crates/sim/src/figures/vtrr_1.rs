//! VTRR, figure 1.

use super::Figure;
use super::average::{Average, SETS};
use super::contenders::{Contender, VTRR, WRR};

pub(super) const FIGURE: Figure = Figure {
    name: "vtrr-1",
    title: "Average service errors of VTRR and weighted round robin",
    source: "VTRR (USENIX 2001), figure 1",
    sets: SETS,
    remarks: "Shares are uniform in 1..100, scaled to the total with an exact sum, largest first. \
              The paper's text tells neither the numbers of tasks nor the totals: here 2 to 32 tasks by \
              256 to 2048 shares, forty combinations. Averages of the extremes of single sets. The \
              errors of weighted round robin are in proportion to the total, and greatest for \
              three or four tasks, so the printed extremes depend on which combinations one draws.",
    study: || Box::new(Average { contenders: CONTENDERS.into() }),
};

const CONTENDERS: &[Contender] = &[VTRR.prints(-3.8, 10.6), WRR.prints(-398.0, 479.0)];

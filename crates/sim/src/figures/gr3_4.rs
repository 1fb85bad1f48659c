//! GR3, figure 4.

use super::Figure;
use super::contenders::{Contender, WRR};
use super::skewed::{SETS, Skewed};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-4",
    title: "Service error of weighted round robin",
    source: "GR3 (USENIX 2005), figure 4",
    sets: SETS,
    remarks: "One task has a tenth of the total weight and is first in the list; the others have \
              uniform random weights, scaled to the rest, rounded to whole numbers of at least 1, \
              with the exact sum. Computed in closed form over a cycle of as many quanta as the \
              total weight; a test holds this to be equal to the policy's decisions, for smaller \
              sets. The greatest error is the skewed task's after its turn: φ(1 − φ/Φ), the \
              printed value. The least error depends on where in the list heavy tasks stand and on \
              how uneven their weights are, which the paper's text does not say; ours is the worst \
              of unsorted lists.",
    study: || Box::new(Skewed { contenders: CONTENDERS.into(), cpus: 1, part: 10 }),
};

const CONTENDERS: &[Contender] = &[WRR.prints(-12067.0, 23593.0)];

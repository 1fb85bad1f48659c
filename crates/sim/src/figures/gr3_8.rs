//! GR3, figure 8.

use super::Figure;
use super::contenders::{Contender, SRR};
use super::skewed::{SETS, Skewed};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-8",
    title: "Service error of SRR",
    source: "GR3 (USENIX 2005), figure 8",
    sets: SETS,
    remarks: "One task has a tenth of the total weight and is first in the list; the others have \
              uniform random weights, scaled to the rest, rounded to whole numbers of at least 1, \
              with the exact sum. A schedule repeats after as many decisions as the total weight, \
              which is asserted for every set. The greatest error is 1.7 % above the printed one, \
              in both directions, and we do not know why. It may be the generator of the weights, \
              which the paper's text does not describe (conjecture).",
    study: || Box::new(Skewed { contenders: CONTENDERS.into(), cpus: 1, part: 10 }),
};

const CONTENDERS: &[Contender] = &[SRR.prints(-369.0, 369.0)];

//! GR3, figure 7.

use super::Figure;
use super::contenders::{Contender, VTRR};
use super::skewed::{SETS, Skewed};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-7",
    title: "Service error of VTRR",
    source: "GR3 (USENIX 2005), figure 7",
    sets: SETS,
    remarks: "One task has a tenth of the total weight and is first in the list; the others have \
              uniform random weights, scaled to the rest, rounded to whole numbers of at least 1, \
              with the exact sum. A schedule repeats after as many decisions as the total weight, \
              which is asserted for every set. VTRR's errors come from the order of its queue, by \
              decreasing share. The greatest one may depend on the generator of the weights, which \
              the paper's text does not describe (conjecture). It was not tuned.",
    study: || Box::new(Skewed { contenders: CONTENDERS.into(), cpus: 1, part: 10 }),
};

const CONTENDERS: &[Contender] = &[VTRR.prints(-2129.0, 10079.0)];

//! GR3, figure 6.

use super::Figure;
use super::contenders::{Contender, SFQ};
use super::skewed::{SETS, Skewed};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-6",
    title: "Service error of SFQ",
    source: "GR3 (USENIX 2005), figure 6",
    sets: SETS,
    remarks: "One task has a tenth of the total weight and is first in the list; the others have \
              uniform random weights, scaled to the rest, rounded to whole numbers of at least 1, \
              with the exact sum. The schedule of a cycle is that of figure 5, backwards, which a \
              test holds to be equal to the policy's decisions. Ties go against the skewed task: \
              the mirror image of WFQ.",
    study: || Box::new(Skewed { contenders: CONTENDERS.into(), cpus: 1, part: 10 }),
};

const CONTENDERS: &[Contender] = &[SFQ.prints(-819.0, 1.0)];

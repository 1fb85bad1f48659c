//! GR3, figure 5.

use super::Figure;
use super::contenders::{Contender, WFQ};
use super::skewed::{SETS, Skewed};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-5",
    title: "Service error of WFQ",
    source: "GR3 (USENIX 2005), figure 5",
    sets: SETS,
    remarks: "One task has a tenth of the total weight and is first in the list; the others have \
              uniform random weights, scaled to the rest, rounded to whole numbers of at least 1, \
              with the exact sum. The schedule of a cycle is made by sorting its quanta by virtual \
              finishing time, which a test holds to be equal to the policy's decisions. Ties go to \
              the skewed task, which then gets as far ahead as WFQ allows: (N−1)·φ/Φ, the printed \
              819 at 8192 tasks.",
    study: || Box::new(Skewed { contenders: CONTENDERS.into(), cpus: 1, part: 10 }),
};

const CONTENDERS: &[Contender] = &[WFQ.prints(-1.0, 819.0)];

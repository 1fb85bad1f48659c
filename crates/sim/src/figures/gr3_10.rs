//! GR3, figure 10.

use super::Figure;
use super::contenders::{Contender, GR3};
use super::skewed::{SETS, Skewed};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-10",
    title: "Service error of GR3MP on 8 cpus",
    source: "GR3 (USENIX 2005), figure 10",
    sets: SETS,
    remarks: "One task has a tenth of the total weight and is first in the list; the others have \
              uniform random weights, scaled to the rest, rounded to whole numbers of at least 1, \
              with the exact sum. Eight cpus whose quanta begin together, for as many decisions as \
              the total weight. The extremes lie a little inside the uniprocessor's, as in the \
              paper, and belong to single sets out of 112,500.",
    study: || Box::new(Skewed { contenders: CONTENDERS.into(), cpus: 8, part: 10 }),
};

const CONTENDERS: &[Contender] = &[GR3.prints(-2.5, 2.8)];

//! GR3, figure 9.

use super::Figure;
use super::contenders::{Contender, GR3};
use super::skewed::{SETS, Skewed};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-9",
    title: "Service error of GR3",
    source: "GR3 (USENIX 2005), figure 9",
    sets: SETS,
    remarks: "One task has a tenth of the total weight and is first in the list; the others have \
              uniform random weights, scaled to the rest, rounded to whole numbers of at least 1, \
              with the exact sum. A schedule repeats after as many decisions as the total weight, \
              which is asserted for every set. The extremes belong to single sets out of 112,500, \
              and differ from seed to seed as much as from the printed ones: seeds \
              1 to 6, run in full, give −2.548..3.072, −2.522..3.000, −2.506..3.035, \
              −2.509..3.055, −2.521..3.000 and −2.494..3.113.",
    study: || Box::new(Skewed { contenders: CONTENDERS.into(), cpus: 1, part: 10 }),
};

const CONTENDERS: &[Contender] = &[GR3.prints(-2.5, 3.0)];

//! GR3, figure 10.

use prorata::policies::gr3::Gr3;

use super::Figure;
use super::skewed::{Contender, SETS, Skewed, simulate};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-10",
    title: "Service error of GR3MP on 8 cpus",
    source: "GR3 (USENIX 2005), figure 10",
    sets: SETS,
    remarks: "",
    study: || Box::new(Skewed { contenders: &[CONTENDER], cpus: 8, part: 10 }),
};

const CONTENDER: Contender = Contender {
    policy: "gr3",
    errors: |setup, weights| simulate(&mut Gr3::new(setup), setup, weights),
    printed: Some((-2.5, 2.8)),
};

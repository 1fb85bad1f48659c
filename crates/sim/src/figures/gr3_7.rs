//! GR3, figure 7.

use super::Figure;
use super::contenders::{Contender, VTRR};
use super::skewed::{SETS, Skewed};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-7",
    title: "Service error of VTRR",
    source: "GR3 (USENIX 2005), figure 7",
    sets: SETS,
    remarks: "",
    study: || Box::new(Skewed { contenders: CONTENDERS, cpus: 1, part: 10 }),
};

const CONTENDERS: &[Contender] = &[VTRR.prints(-2129.0, 10079.0)];

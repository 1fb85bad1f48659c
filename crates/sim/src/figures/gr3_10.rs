//! GR3, figure 10.

use super::Figure;
use super::contenders::{Contender, GR3};
use super::skewed::{SETS, Skewed};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-10",
    title: "Service error of GR3MP on 8 cpus",
    source: "GR3 (USENIX 2005), figure 10",
    sets: SETS,
    remarks: "",
    study: || Box::new(Skewed { contenders: CONTENDERS, cpus: 8, part: 10 }),
};

const CONTENDERS: &[Contender] = &[GR3.prints(-2.5, 2.8)];

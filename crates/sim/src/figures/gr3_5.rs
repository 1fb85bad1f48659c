//! GR3, figure 5.

use prorata::policies::Ties;
use prorata::policies::wfq::Wfq;
use prorata::queue::Heap;

use super::Figure;
use super::skewed::{Contender, SETS, Skewed, simulate};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-5",
    title: "Service error of WFQ",
    source: "GR3 (USENIX 2005), figure 5",
    sets: SETS,
    remarks: "",
    study: || Box::new(Skewed { contenders: &[CONTENDER], cpus: 1, part: 10 }),
};

const CONTENDER: Contender = Contender {
    policy: "wfq",
    errors: |setup, weights| simulate(&mut Wfq::<Heap<_>>::new(setup, Ties::First), setup, weights),
    printed: Some((-1.0, 819.0)),
};

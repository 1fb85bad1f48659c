//! VTRR, figure 3.

use super::Figure;
use super::cost::{Costs, Curve, Load, ROUNDS};

pub(super) const FIGURE: Figure = Figure {
    name: "vtrr-3",
    title: "Cost of a decision, measured on this machine",
    source: "VTRR (USENIX 2001), figure 3",
    sets: ROUNDS,
    remarks: "A measurement: it depends on the machine, and no two runs agree in the last digits; \
              all policies take turns, round by round, and the least time of all rounds counts. \
              pick and charge of tasks that always run, of random shares from 1 to 40, the same in \
              every round, through the same indirect calls for all. The paper tells that at 200 \
              clients WFQ with a heap costs more than 6 times as much as VTRR, and Linux 100 \
              times. linux-2.4 searches its list only at the end of a slice, which lasts as many \
              quanta as the task's share, about 20; here its searches are spread over all \
              decisions, while the paper times each run of the scheduler.",
    study: || Box::new(Costs { curves: CURVES.as_slice().into(), tasks: &TASKS, most_weight: 40 }),
};

const TASKS: [u32; 7] = [2, 5, 10, 20, 50, 100, 200];
static CURVES: [Curve; 4] = [
    Curve::new("vtrr", 1, Load::Hogs),
    Curve::new("wfq", 1, Load::Hogs).prints(200, 6.0),
    Curve::new("wfq-list", 1, Load::Hogs),
    Curve::new("linux-2.4", 1, Load::Hogs).prints(200, 100.0),
];

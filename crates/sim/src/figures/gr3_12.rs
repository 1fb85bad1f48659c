//! GR3, figure 12.

use super::Figure;
use super::cost::{Costs, Curve, Load, ROUNDS};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-12",
    title: "Cost of a decision, measured on this machine",
    source: "GR3 (USENIX 2005), figure 12",
    sets: ROUNDS,
    remarks: "A measurement: it depends on the machine, and no two runs agree in the last digits; \
              all policies take turns, round by round, and the least time of all rounds counts. \
              pick and charge of tasks that always run, of random weights from 1 to 40, the same \
              in every round, through the same indirect calls for all. The paper's is the whole \
              path in the kernel, about 300 ns for GR3; it tells that at 400 tasks WFQ with a heap \
              costs 8 times as much, and the two that search lists more than 200 times. What is \
              flat, logarithmic and linear is as there. The ratios are not. GR3's arithmetic takes \
              a few ns here, beside which a heap weighs more. linux-2.4 searches its list only at \
              the end of a slice, which lasts as many quanta as the task's weight, about 20; here \
              its searches are spread over all decisions, while the paper times each run of the \
              scheduler. wfq-list searches an array, in the order of memory, at every decision.",
    study: || Box::new(Costs { curves: CURVES.as_slice().into(), tasks: &TASKS, most_weight: 40 }),
};

const TASKS: [u32; 9] = [2, 5, 10, 20, 50, 100, 200, 300, 400];
static CURVES: [Curve; 7] = [
    Curve::new("gr3", 1, Load::Hogs),
    Curve::new("gr3", 2, Load::Hogs),
    Curve::new("vtrr", 1, Load::Hogs),
    Curve::new("wfq", 1, Load::Hogs).prints(400, 8.0),
    Curve::new("wfq-list", 1, Load::Hogs).prints(400, 200.0),
    Curve::new("linux-2.4", 1, Load::Hogs).prints(400, 200.0),
    Curve::new("linux-2.6", 1, Load::Hogs).prints(400, 1.3),
];

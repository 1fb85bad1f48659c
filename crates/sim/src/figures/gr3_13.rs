//! GR3, figure 13.

use super::Figure;
use super::cost::{Costs, Curve, Load, ROUNDS};

pub(super) const FIGURE: Figure = Figure {
    name: "gr3-13",
    title: "Scheduling cost of hackbench per decision, measured on this machine",
    source: "GR3 (USENIX 2005), figure 13",
    sets: ROUNDS,
    remarks: "A measurement: it depends on the machine, and no two runs agree in the last digits; \
              all policies take turns, round by round, and the least time of all rounds counts. The time \
              of all calls (pick, charge, wake, block) divided by the number of picks. Groups of 20 \
              writers and 20 readers, weights from 1 to 40. In a quantum a writer sends a message to \
              each reader of its group, or sleeps if one has 40; a reader reads all, and sleeps \
              until the next. The paper tells that GR3 costs 3 times what it costs with tasks that \
              always run (the first curve), for any number of tasks, while the others grow. GR3 on \
              one cpu is the flattest here too, but 7 to 15 times the first curve: a pick alone is \
              5 ns here, and how often tasks sleep and wake is our reading.",
    study: || Box::new(Costs { curves: CURVES.as_slice().into(), tasks: &TASKS, most_weight: 40 }),
};

const TASKS: [u32; 8] = [40, 80, 200, 400, 800, 2000, 4000, 8000];
static CURVES: [Curve; 7] = [
    Curve::new("gr3", 1, Load::Hogs),
    Curve::new("gr3", 1, Load::Hackbench).prints(8000, 3.0),
    Curve::new("gr3", 2, Load::Hackbench),
    Curve::new("vtrr", 1, Load::Hackbench),
    Curve::new("wfq", 1, Load::Hackbench),
    Curve::new("wfq-list", 1, Load::Hackbench),
    Curve::new("linux-2.4", 1, Load::Hackbench),
];

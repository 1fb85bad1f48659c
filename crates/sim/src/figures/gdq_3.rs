//! GDQ, figure 3.

use super::cost::{Curve, Load, measured};
use super::{Figure, cost};

pub(super) const FIGURE: Figure = Figure {
    name: "gdq-3",
    title: "Cost of a decision on 2 and 8 cpus, measured on this machine",
    source: "GDQ (Columbia University, 2005), figure 3",
    sets: cost::ROUNDS,
    remarks: concat!(
        measured!(),
        "pick and charge of tasks of one weight that always run, T = 20. The calls for all \
         cpus are made by one thread: nobody waits for a lock or for another cpu's cache \
         lines, which is what GDQ is made for and what makes GR3's one queue slow on 8 cpus \
         in the paper. Linux 2.6 is one of its cpus; the paper has it 10 % faster than GDQ. \
         All are flat, as there, but GDQ on 8 cpus with few tasks: rounds are short, and at \
         the end of each the other queues are looked at."
    ),
    study: || {
        cost::study(
            const {
                &[
                    Curve::new("gdq:t=20", 8, Load::Hogs),
                    Curve::new("gdq:t=20", 2, Load::Hogs),
                    Curve::new("gr3", 8, Load::Hogs),
                    Curve::new("gr3", 2, Load::Hogs),
                    Curve::new("linux-2.6", 1, Load::Hogs).prints(1000, 0.9),
                ]
            },
            &[10, 20, 50, 100, 200, 500, 1000],
            1,
        )
    },
};

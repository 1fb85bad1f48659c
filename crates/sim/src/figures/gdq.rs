//! GDQ (technical report, 2005): figures 3 to 5. Figure 2 is its own module.

use super::cost::{Curve, Load, measured};
use super::gdq_example::{self, View};
use super::{Figure, cost};

pub(super) const FIGURE_3: Figure = Figure {
    name: "gdq-3",
    title: "Cost of a decision on 2 and 8 cpus, measured on this machine",
    source: "GDQ (Columbia University, 2005), figure 3",
    sets: cost::ROUNDS,
    remarks: concat!(
        measured!(),
        "pick and charge of tasks of one weight that always run, T = 20. The calls for all \
         cpus are made by one thread: nobody waits for a lock or for another cpu's cache \
         lines, which is what GDQ is made for and what makes GR3's one queue slow on 8 cpus \
         in the paper. Linux 2.6 is one of its cpus. At 1000 tasks it takes up to a fifth \
         longer than GDQ on 8 cpus, by the processor, where the paper has it 10 % faster: that \
         is not explained. \
         All are flat, as there, but GDQ on 8 cpus with few tasks: rounds are short, and \
         after every few of them the other queues are looked at."
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

pub(super) const FIGURE_4: Figure = Figure {
    name: "gdq-4",
    title: "Which cpus serve which group of GDQ's example",
    source: "GDQ (Columbia University, 2005), figure 4",
    sets: 1,
    remarks: "Ten tasks of three groups on four cpus, T = 20 units of time. Group 2, of 28/44 of the weight, \
              has two cpus of its own, and the three groups take turns of T on the other two, as in the \
              paper. The paper starts in the midst, at some time t whose state it tells in part; here \
              nothing has run before time 0, so that the turns come in another order.",
    study: || gdq_example::study("gdq:t=20,delta=1", View::Groups, 100),
};

pub(super) const FIGURE_5: Figure = Figure {
    name: "gdq-5",
    title: "Which tasks of group 2 of GDQ's example each cpu runs",
    source: "GDQ (Columbia University, 2005), figure 5",
    sets: 1,
    remarks: "The same example with δ = 1: four tasks of weight 4 and two of 6. A cpu serves its queue \
              in rounds, steals from queues that are behind, and takes one of a queue's tasks along when \
              it comes to the group. The paper's eighteen units of time, from the queues that it \
              tells, are a test of the library's queues (`gdq/tests.rs`); these are from time 0 on.",
    study: || gdq_example::study("gdq:t=20,delta=1", View::Tasks, 100),
};

//! VTRR (USENIX 2001): figures 1 to 9. What stands behind them is in the modules of their studies.

use super::contenders::{VTRR, WFQ, WRR};
use super::cost::{Curve, Load, measured};
use super::{Figure, average, cost, encoders, who_runs};

pub(super) const FIGURE_1: Figure = Figure {
    name: "vtrr-1",
    title: "Average service errors of VTRR and weighted round robin",
    source: "VTRR (USENIX 2001), figure 1",
    sets: average::SETS,
    remarks: "Shares are uniform in 1..100, scaled to the total with an exact sum, largest \
              first. The paper's text tells neither the numbers of tasks nor the totals: here 2 \
              to 32 tasks by 256 to 2048 shares, forty combinations. Averages of the extremes \
              of single sets. The errors of weighted round robin are in proportion to the \
              total, and greatest for three or four tasks, so the printed extremes depend on \
              which combinations one draws. VTRR's least error is the printed one, \
              its greatest is 11.8 (32 tasks, 2048 shares), where 10.6 is printed.",
    study: || average::study(const { &[VTRR.prints(-3.8, 10.6), WRR.prints(-398.0, 479.0)] }),
};

pub(super) const FIGURE_2: Figure = Figure {
    name: "vtrr-2",
    title: "Average service errors of VTRR and WFQ",
    source: "VTRR (USENIX 2001), figure 2",
    sets: average::SETS,
    remarks: "As figure 1, with VTRR's greatest error of 11.8, too. WFQ runs with ties in favour of \
              the largest share.",
    study: || average::study(const { &[VTRR.prints(-3.8, 10.6), WFQ.prints(-1.0, 2.0)] }),
};

pub(super) const FIGURE_3: Figure = Figure {
    name: "vtrr-3",
    title: "Cost of a decision, measured on this machine",
    source: "VTRR (USENIX 2001), figure 3",
    sets: cost::ROUNDS,
    remarks: concat!(
        measured!(),
        "pick and charge of tasks that always run, of random shares from 1 to 40, the same \
         in every round, through the same indirect calls for all. The paper tells that at \
         200 clients WFQ with a heap costs more than 6 times as much as VTRR, and Linux 100 \
         times. Here WFQ costs 10 to 15 times as much, by the processor, and why is not known. \
         VTRR's arithmetic takes 4 to 5 ns here, beside which a heap weighs more (conjecture). \
         linux-2.4 searches its list only at the end of a slice, which lasts as many quanta as \
         the task's share, about 20; here its searches are spread over all decisions, while the \
         paper times each run of the scheduler."
    ),
    study: || {
        cost::study(
            const {
                &[
                    Curve::new("vtrr", 1, Load::Hogs),
                    Curve::new("wfq", 1, Load::Hogs).prints(200, 6.0),
                    Curve::new("wfq-list", 1, Load::Hogs),
                    Curve::new("linux-2.4", 1, Load::Hogs).prints(200, 100.0),
                ]
            },
            &[2, 5, 10, 20, 50, 100, 200],
            40,
        )
    },
};

pub(super) const FIGURE_4: Figure = Figure {
    name: "vtrr-4",
    title: "Who runs when under Linux 2.4",
    source: "VTRR (USENIX 2001), figure 4",
    sets: 1,
    remarks: "Five tasks that always run. A user priority of the paper is a weight here: slices \
              of 20 to 100 ms. The simulation has no interrupts, so that the schedule repeats \
              exactly, which the paper's did not.",
    study: || who_runs::study("linux-2.4", None),
};

pub(super) const FIGURE_5: Figure = Figure {
    name: "vtrr-5",
    title: "Who runs when under WFQ",
    source: "VTRR (USENIX 2001), figure 5",
    sets: 1,
    remarks: "Five tasks that always run, quanta of 20 ms: fifteen quanta, 300 ms, are a cycle.",
    study: || who_runs::study("wfq", Some(300.0)),
};

pub(super) const FIGURE_6: Figure = Figure {
    name: "vtrr-6",
    title: "Who runs when under VTRR",
    source: "VTRR (USENIX 2001), figure 6",
    sets: 1,
    remarks: "Five tasks that always run, quanta of 20 ms: fifteen quanta, 300 ms, are a cycle.",
    study: || who_runs::study("vtrr", Some(300.0)),
};

pub(super) const FIGURE_7: Figure = Figure {
    name: "vtrr-7",
    title: "Audio frames encoded under Linux 2.4",
    source: "VTRR (USENIX 2001), figure 7",
    sets: 1,
    remarks: "Five encoders that always run; a frame takes 10 ms of processor time (the \
              paper's text does not tell). Steps of up to a hundred milliseconds.",
    study: || encoders::study("linux-2.4"),
};

pub(super) const FIGURE_8: Figure = Figure {
    name: "vtrr-8",
    title: "Audio frames encoded under WFQ",
    source: "VTRR (USENIX 2001), figure 8",
    sets: 1,
    remarks: "Five encoders that always run; a frame takes 10 ms of processor time (the \
              paper's text does not tell). Smooth lines, as printed.",
    study: || encoders::study("wfq"),
};

pub(super) const FIGURE_9: Figure = Figure {
    name: "vtrr-9",
    title: "Audio frames encoded under VTRR",
    source: "VTRR (USENIX 2001), figure 9",
    sets: 1,
    remarks: "Five encoders that always run; a frame takes 10 ms of processor time (the \
              paper's text does not tell). Smooth lines, as printed, a little less even than those of WFQ.",
    study: || encoders::study("vtrr"),
};

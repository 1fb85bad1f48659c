//! GR3 (USENIX 2005): figures 4 to 19, and the skew of a half. What stands behind them is in the modules of
//! their studies.

use super::contenders::{GR3, SFQ, SRR, VTRR, WFQ, WRR};
use super::cost::{Curve, Load, measured};
use super::searches::Searches;
use super::{Figure, cost, skewed, web_servers};

macro_rules! a_tenth {
    () => {
        "One task has a tenth of the total weight and is first in the list; the others have \
         uniform random weights, scaled to the rest, rounded to whole numbers of at least 1, \
         with the exact sum. "
    };
}
macro_rules! repeats {
    () => {
        "A schedule repeats after as many decisions as the total weight, which is asserted for \
         every set. "
    };
}

pub(super) const FIGURE_4: Figure = Figure {
    name: "gr3-4",
    title: "Service error of weighted round robin",
    source: "GR3 (USENIX 2005), figure 4",
    sets: skewed::SETS,
    remarks: concat!(
        a_tenth!(),
        "Computed in closed form over a cycle of as many quanta as the total weight; a test \
         holds this to be equal to the policy's decisions, for smaller sets. The greatest \
         error is the skewed task's after its turn: φ(1 − φ/Φ), the printed value. The least \
         error depends on where in the list heavy tasks stand and on how uneven their \
         weights are, which the paper's text does not say; ours is the worst of unsorted \
         lists."
    ),
    study: || skewed::study(const { &[WRR.prints(-12067.0, 23593.0)] }, 1, 10),
};

pub(super) const FIGURE_5: Figure = Figure {
    name: "gr3-5",
    title: "Service error of WFQ",
    source: "GR3 (USENIX 2005), figure 5",
    sets: skewed::SETS,
    remarks: concat!(
        a_tenth!(),
        "The schedule of a cycle is made by sorting its quanta by virtual finishing time, \
         which a test holds to be equal to the policy's decisions. Ties go to the skewed \
         task, which then gets as far ahead as WFQ allows: (N−1)·φ/Φ, the printed 819 at \
         8192 tasks."
    ),
    study: || skewed::study(const { &[WFQ.prints(-1.0, 819.0)] }, 1, 10),
};

pub(super) const FIGURE_6: Figure = Figure {
    name: "gr3-6",
    title: "Service error of SFQ",
    source: "GR3 (USENIX 2005), figure 6",
    sets: skewed::SETS,
    remarks: concat!(
        a_tenth!(),
        "The schedule of a cycle is that of figure 5, backwards, which a test holds to be \
         equal to the policy's decisions. Ties go against the skewed task: the mirror image \
         of WFQ."
    ),
    study: || skewed::study(const { &[SFQ.prints(-819.0, 1.0)] }, 1, 10),
};

pub(super) const FIGURE_7: Figure = Figure {
    name: "gr3-7",
    title: "Service error of VTRR",
    source: "GR3 (USENIX 2005), figure 7",
    sets: skewed::SETS,
    remarks: concat!(
        a_tenth!(),
        repeats!(),
        "VTRR's errors come from the order of its queue, by decreasing share. The greatest \
         one may depend on the generator of the weights, which the paper's text does not \
         describe (conjecture). It was not tuned."
    ),
    study: || skewed::study(const { &[VTRR.prints(-2129.0, 10079.0)] }, 1, 10),
};

pub(super) const FIGURE_8: Figure = Figure {
    name: "gr3-8",
    title: "Service error of SRR",
    source: "GR3 (USENIX 2005), figure 8",
    sets: skewed::SETS,
    remarks: concat!(
        a_tenth!(),
        repeats!(),
        "The greatest error is 1.7 % above the printed one, in both directions, and we do \
         not know why. It may be the generator of the weights, which the paper's text does \
         not describe (conjecture)."
    ),
    study: || skewed::study(const { &[SRR.prints(-369.0, 369.0)] }, 1, 10),
};

pub(super) const FIGURE_9: Figure = Figure {
    name: "gr3-9",
    title: "Service error of GR3",
    source: "GR3 (USENIX 2005), figure 9",
    sets: skewed::SETS,
    remarks: concat!(
        a_tenth!(),
        repeats!(),
        "The extremes belong to single sets out of 112,500, and differ from seed to seed as \
         much as from the printed ones: seeds 1 to 6, run in full, give −2.548..3.072, \
         −2.522..3.000, −2.506..3.035, −2.509..3.055, −2.521..3.000 and −2.494..3.113."
    ),
    study: || skewed::study(const { &[GR3.prints(-2.5, 3.0)] }, 1, 10),
};

pub(super) const FIGURE_10: Figure = Figure {
    name: "gr3-10",
    title: "Service error of GR3MP on 8 cpus",
    source: "GR3 (USENIX 2005), figure 10",
    sets: skewed::SETS,
    remarks: concat!(
        a_tenth!(),
        "Eight cpus whose quanta begin together, for as many decisions as the total weight. \
         The extremes lie a little inside the uniprocessor's, as in the paper, and belong to \
         single sets out of 112,500."
    ),
    study: || skewed::study(const { &[GR3.prints(-2.5, 2.8)] }, 8, 10),
};

pub(super) const FIGURE_11: Figure = Figure {
    name: "gr3-11",
    title: "Choices of GR3MP until it finds a task that is not running, on 8 cpus",
    source: "GR3 (USENIX 2005), figure 11",
    sets: skewed::SETS,
    remarks: concat!(
        a_tenth!(),
        "The most choices that one pick took until it found a task that was not running on \
         another cpu. The paper saw at most seven; in ten sets a combination there are six, \
         in 2500 seven."
    ),
    study: || Box::new(Searches),
};

pub(super) const SKEW_50: Figure = Figure {
    name: "gr3-skew50",
    title: "Service errors when one task has half of the weight",
    source: "GR3 (USENIX 2005), section 5.1",
    sets: skewed::SETS,
    remarks: "As figures 4 to 9, but the first task has exactly half of the total weight. GR3 \
              stays within a few quanta: −3.0..6.0 over all 112,500 sets (−2.5..5.5 over the \
              first 4,500), where the paper prints −2.3..4.6, and the technical report \
              −2.8..4.9. Why ours is greater is not known; a task of exactly half may be alone \
              in its group where the paper's was not (conjecture). WFQ, SFQ and SRR are more \
              than five times worse than at a tenth, as the paper says.",
    study: || skewed::study(const { &[GR3.prints(-2.3, 4.6), WFQ, SFQ, SRR, VTRR, WRR] }, 1, 2),
};

pub(super) const FIGURE_12: Figure = Figure {
    name: "gr3-12",
    title: "Cost of a decision, measured on this machine",
    source: "GR3 (USENIX 2005), figure 12",
    sets: cost::ROUNDS,
    remarks: concat!(
        measured!(),
        "pick and charge of tasks that always run, of random weights from 1 to 40, the same \
         in every round, through the same indirect calls for all. The paper's is the whole \
         path in the kernel, about 300 ns for GR3; it tells that at 400 tasks WFQ with a \
         heap costs 8 times as much, and the two that search lists more than 200 times. What \
         is flat, logarithmic and linear is as there. The ratios are not. GR3's arithmetic \
         takes a few ns here, beside which a heap weighs more. linux-2.4 searches its list \
         only at the end of a slice, which lasts as many quanta as the task's weight, about \
         20; here its searches are spread over all decisions, while the paper times each run \
         of the scheduler. wfq-list searches an array, in the order of memory, at every \
         decision."
    ),
    study: || {
        cost::study(
            const {
                &[
                    Curve::new("gr3", 1, Load::Hogs),
                    Curve::new("gr3", 2, Load::Hogs),
                    Curve::new("vtrr", 1, Load::Hogs),
                    Curve::new("wfq", 1, Load::Hogs).prints(400, 8.0),
                    Curve::new("wfq-list", 1, Load::Hogs).prints(400, 200.0),
                    Curve::new("linux-2.4", 1, Load::Hogs).prints(400, 200.0),
                    Curve::new("linux-2.4", 2, Load::Hogs),
                    Curve::new("linux-2.6", 1, Load::Hogs).prints(400, 1.3),
                ]
            },
            &[2, 5, 10, 20, 50, 100, 200, 300, 400],
            40,
        )
    },
};

pub(super) const FIGURE_13: Figure = Figure {
    name: "gr3-13",
    title: "Scheduling cost of hackbench per decision, measured on this machine",
    source: "GR3 (USENIX 2005), figure 13",
    sets: cost::ROUNDS,
    remarks: concat!(
        measured!(),
        "The time of all calls (pick, charge, wake, block) divided by the number of picks. \
         Groups of 20 writers and 20 readers, weights from 1 to 40. In a quantum a writer \
         sends a message to each reader of its group, or sleeps if one has 40; a reader \
         reads all, and sleeps until the next. The paper tells that GR3 costs 3 times what \
         it costs with tasks that always run (the first curve), for any number of tasks, \
         while the others grow. GR3 is the flattest here too (on two processors, with one cpu \
         and with two, the greatest is 1.6 to 1.8 times the least, under vtrr and wfq 1.8 to \
         1.9 times), but with one cpu it is 6 to 13 times the first curve: a pick alone is 4 \
         to 6 ns here, and how often tasks sleep and wake is \
         our reading."
    ),
    study: || {
        cost::study(
            const {
                &[
                    Curve::new("gr3", 1, Load::Hogs),
                    Curve::new("gr3", 1, Load::Hackbench).prints(8000, 3.0),
                    Curve::new("gr3", 2, Load::Hackbench),
                    Curve::new("vtrr", 1, Load::Hackbench),
                    Curve::new("wfq", 1, Load::Hackbench),
                    Curve::new("wfq-list", 1, Load::Hackbench),
                    Curve::new("linux-2.4", 1, Load::Hackbench),
                ]
            },
            &[40, 80, 200, 400, 800, 2000, 4000, 8000],
            40,
        )
    },
};

pub(super) const FIGURE_14: Figure = Figure {
    name: "gr3-14",
    title: "Six web servers under Linux 2.4",
    source: "GR3 (USENIX 2005), figure 14",
    sets: 1,
    remarks: "600 processes that always run, in quanta of 10 ms; processes of real web servers \
              also wait. Weights stand for the paper's nice values. One process of each server \
              is shown, and beside it its service error. Linux 2.4 gives a process its whole \
              slice at once: the longest steps of all.",
    study: || web_servers::study("linux-2.4", 1),
};

pub(super) const FIGURE_15: Figure = Figure {
    name: "gr3-15",
    title: "Six web servers under WFQ",
    source: "GR3 (USENIX 2005), figure 15",
    sets: 1,
    remarks: "600 processes that always run, in quanta of 10 ms. WFQ serves the hundred heavy \
              processes one after the other, and stops serving them while the five hundred \
              light ones catch up: the paper's staircase.",
    study: || web_servers::study("wfq", 1),
};

pub(super) const FIGURE_16: Figure = Figure {
    name: "gr3-16",
    title: "Six web servers under VTRR",
    source: "GR3 (USENIX 2005), figure 16",
    sets: 1,
    remarks: "600 processes that always run, in quanta of 10 ms. The staircase of VTRR is that \
              of WFQ: the light processes come in one stretch.",
    study: || web_servers::study("vtrr", 1),
};

pub(super) const FIGURE_17: Figure = Figure {
    name: "gr3-17",
    title: "Six web servers under GR3",
    source: "GR3 (USENIX 2005), figure 17",
    sets: 1,
    remarks: "600 processes that always run, in quanta of 10 ms. GR3 mixes the groups of heavy \
              and of light processes all the time, so the heavy process advances steadily: the \
              straightest line of the four. Its remaining steps are the round of its own group.",
    study: || web_servers::study("gr3", 1),
};

pub(super) const FIGURE_18: Figure = Figure {
    name: "gr3-18",
    title: "Six web servers under Linux 2.4 on 2 cpus",
    source: "GR3 (USENIX 2005), figure 18",
    sets: 1,
    remarks: "600 processes that always run, in quanta of 10 ms, on two cpus. Linux 2.4 gives a \
              process its whole slice at once.",
    study: || web_servers::study("linux-2.4", 2),
};

pub(super) const FIGURE_19: Figure = Figure {
    name: "gr3-19",
    title: "Six web servers under GR3MP on 2 cpus",
    source: "GR3 (USENIX 2005), figure 19",
    sets: 1,
    remarks: "600 processes that always run, in quanta of 10 ms, on two cpus. As straight as on \
              one.",
    study: || web_servers::study("gr3", 2),
};

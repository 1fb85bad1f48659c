//! DFS, figure 4.

use super::Figure;
use super::idle::{DFS, DFS_PRINTED, Idle, SETS, idle_panel, near_the_cpus, together_panel};
use super::ticks::Scenario;
use crate::plot::Axis;

/// Mean ticks between arrivals, and between departures. The paper's text does not say.
const MEAN_TICKS: u32 = 100;

pub(super) const FIGURE: Figure = Figure {
    name: "dfs-4",
    title: "Idling of DFS when tasks arrive and depart",
    source: "DFS (RTAS 2001), figure 4",
    sets: SETS,
    remarks: "As figure 3 with asynchronous quanta; a task arrives, and one departs, once in 100 \
              ticks on average (the rate is our choice: the paper's text does not say it). \
              Inter-arrival times are geometric: exponential in whole ticks. An arrival makes idle \
              cpus ask at once. The number of tasks wanders, so the coordinate is the number at \
              the start. Here the two disagree: the paper's idling decreases slightly against \
              figure 3, while that of eq. 7 as printed falls from at most 25.4 % to at most 1.3 %. \
              Part of it is our rate: with 34 tasks on 32 cpus it is 24.6 % in figure 3, 1.1 % \
              here, and 7.4 % with 1000 ticks between arrivals (figure 5). We do not know what the \
              rest is.",
    study: || {
        let points = |policy| near_the_cpus(policy, Scenario::Dynamic(MEAN_TICKS));
        Box::new(Idle {
            points: [DFS_PRINTED, DFS].into_iter().flat_map(points).collect(),
            printed: &[],
            panels: Some(|rows| {
                let idle = |policy| {
                    let tasks = Axis { name: "number of tasks at the start", logarithmic: false };
                    idle_panel(rows, (policy, "dynamic"), tasks)
                };
                vec![
                    idle("dfs:parts=printed"),
                    together_panel(rows, ("dfs:parts=printed", "dynamic")),
                    idle("dfs"),
                ]
            }),
        })
    },
};

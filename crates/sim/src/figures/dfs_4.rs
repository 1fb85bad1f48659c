//! DFS, figure 4.

use super::Figure;
use super::idle::{DFS, DFS_PRINTED, Idle, SETS, idle_panel, near_the_cpus, together_panel};
use super::plot::Axis;
use super::ticks::Scenario;

/// Mean ticks between arrivals, and between departures. The paper does not tell.
const MEAN_TICKS: u32 = 100;

pub(super) const FIGURE: Figure = Figure {
    name: "dfs-4",
    title: "Idling of DFS when tasks arrive and depart",
    source: "DFS (RTAS 2001), figure 4",
    sets: SETS,
    remarks: "As figure 3 with asynchronous quanta; a task arrives, and one departs, once in 100 \
              ticks on average (the paper does not tell the rate). Inter-arrival times are \
              geometric: exponential in whole ticks. An arrival makes idle cpus ask at once. The \
              number of tasks wanders, so the coordinate is the number at the start.",
    study: || {
        let points = |policy| near_the_cpus(policy, Scenario::Dynamic(MEAN_TICKS));
        Box::new(Idle {
            points: [DFS_PRINTED, DFS].into_iter().flat_map(points).collect(),
            printed: &[],
            panels: |rows| {
                let idle = |policy| {
                    let tasks = Axis { name: "tasks", logarithmic: false };
                    idle_panel(rows, (policy, "dynamic"), tasks)
                };
                vec![
                    idle("dfs:parts=printed"),
                    together_panel(rows, ("dfs:parts=printed", "dynamic")),
                    idle("dfs"),
                ]
            },
        })
    },
};

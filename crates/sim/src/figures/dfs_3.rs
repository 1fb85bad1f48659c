//! DFS, figure 3.

use super::Figure;
use super::idle::{DFS, DFS_PRINTED, Idle, SETS, idle_panel, near_the_cpus, together_panel};
use super::plot::Axis;
use super::ticks::Scenario;

pub(super) const FIGURE: Figure = Figure {
    name: "dfs-3",
    title: "Idling of DFS with quanta that are not in step",
    source: "DFS (RTAS 2001), figure 3",
    sets: SETS,
    remarks: "",
    study: || {
        let scenarios = [Scenario::Synchronised, Scenario::Asynchronous, Scenario::Variable];
        let both = |scenario| {
            [DFS_PRINTED, DFS].into_iter().flat_map(move |policy| near_the_cpus(policy, scenario))
        };
        Box::new(Idle {
            points: scenarios.into_iter().flat_map(both).collect(),
            printed: &[
                ("dfs:parts=printed", "synchronised", 0.0),
                ("dfs", "synchronised", 0.0),
                ("dfs:parts=printed", "asynchronous", 12.0),
            ],
            panels: |rows| {
                let idle = |policy, scenario| {
                    let tasks = Axis { name: "tasks", logarithmic: false };
                    idle_panel(rows, (policy, scenario), tasks)
                };
                vec![
                    idle("dfs:parts=printed", "asynchronous"),
                    together_panel(rows, ("dfs:parts=printed", "asynchronous")),
                    idle("dfs:parts=printed", "variable"),
                    idle("dfs", "asynchronous"),
                    idle("dfs", "variable"),
                    idle("dfs", "synchronised"),
                ]
            },
        })
    },
};

//! DFS, figure 4.

use prorata::policies::dfs::{Dfs, Ties};

use super::Figure;
use super::idle::{self, Idle, SETS};
use super::plot::Axis;
use super::ticks::{self, Scenario};

pub(super) const FIGURE: Figure = Figure {
    name: "dfs-4",
    title: "Idling of DFS when tasks arrive and depart",
    source: "DFS (RTAS 2001), figure 4",
    sets: SETS,
    remarks: "",
    study: || {
        Box::new(Idle {
            policy: "dfs",
            run: |setup, size, scenario, lots| {
                ticks::run(Dfs::new(setup, Ties::Paper), size, scenario, lots)
            },
            points: idle::near_the_cpus(Scenario::Dynamic(100)).collect(),
            printed: &[],
            panels: |rows| {
                vec![
                    idle::idle_panel(rows, "dynamic", Axis { name: "tasks", logarithmic: false }),
                    idle::together_panel(rows, "dynamic"),
                ]
            },
        })
    },
};

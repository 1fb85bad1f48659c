//! DFS, figure 3.

use prorata::policies::dfs::{Dfs, Ties};

use super::Figure;
use super::idle::{self, Idle, SETS};
use super::plot::Axis;
use super::ticks::{self, Scenario};

pub(super) const FIGURE: Figure = Figure {
    name: "dfs-3",
    title: "Idling of DFS with quanta that are not in step",
    source: "DFS (RTAS 2001), figure 3",
    sets: SETS,
    remarks: "",
    study: || {
        let scenarios = [Scenario::Synchronised, Scenario::Asynchronous, Scenario::Variable];
        Box::new(Idle {
            policy: "dfs",
            run: |setup, size, scenario, lots| {
                ticks::run(Dfs::new(setup, Ties::Paper), size, scenario, lots)
            },
            points: scenarios.into_iter().flat_map(idle::near_the_cpus).collect(),
            printed: &[("synchronised", 0.0), ("asynchronous", 12.0)],
            panels: |rows| {
                let tasks = || Axis { name: "tasks", logarithmic: false };
                vec![
                    idle::idle_panel(rows, "asynchronous", tasks()),
                    idle::together_panel(rows, "asynchronous"),
                    idle::idle_panel(rows, "variable", tasks()),
                    idle::idle_panel(rows, "synchronised", tasks()),
                ]
            },
        })
    },
};

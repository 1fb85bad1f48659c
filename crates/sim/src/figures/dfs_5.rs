//! DFS, figure 5.

use prorata::policies::dfs::{Dfs, Ties};

use super::Figure;
use super::idle::{self, CPUS, Idle, Point, SETS};
use super::plot::Axis;
use super::ticks::{self, Scenario};

/// Mean ticks between arrivals.
const MEANS: [u32; 8] = [5, 10, 20, 50, 100, 200, 500, 1000];

pub(super) const FIGURE: Figure = Figure {
    name: "dfs-5",
    title: "Idling of DFS over the rate of arrivals and departures",
    source: "DFS (RTAS 2001), figure 5",
    sets: SETS,
    remarks: "",
    study: || {
        let points = |cpus| {
            let point = move |mean| Point { scenario: Scenario::Dynamic(mean), cpus, more: 2 };
            MEANS.into_iter().map(point)
        };
        Box::new(Idle {
            policy: "dfs",
            run: |setup, size, scenario, lots| {
                ticks::run(Dfs::new(setup, Ties::Paper), size, scenario, lots)
            },
            points: CPUS.into_iter().flat_map(points).collect(),
            printed: &[],
            panels: |rows| {
                let x = Axis { name: "mean ticks between arrivals", logarithmic: true };
                vec![idle::idle_panel(rows, "dynamic", x)]
            },
        })
    },
};

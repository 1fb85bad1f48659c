//! DFS, figure 5.

use super::Figure;
use super::idle::{CPUS, DFS, DFS_PRINTED, Idle, Point, SETS, idle_panel};
use super::ticks::Scenario;
use crate::plot::Axis;

/// Mean ticks between arrivals, and between departures.
const MEANS: [u32; 8] = [5, 10, 20, 50, 100, 200, 500, 1000];

pub(super) const FIGURE: Figure = Figure {
    name: "dfs-5",
    title: "Idling of DFS over the rate of arrivals",
    source: "DFS (RTAS 2001), figure 5",
    sets: SETS,
    remarks: "As figure 4, with two tasks more than cpus at the start, over the mean time between \
              arrivals.",
    study: || {
        let points = |policy: &'static str| {
            let curve = move |cpus| {
                MEANS.into_iter().map(move |mean_ticks| Point {
                    policy: policy.into(),
                    scenario: Scenario::Dynamic(mean_ticks),
                    cpus,
                    more: 2,
                })
            };
            CPUS.into_iter().flat_map(curve)
        };
        Box::new(Idle {
            points: [DFS_PRINTED, DFS].into_iter().flat_map(points).collect(),
            printed: &[],
            panels: Some(|rows| {
                let idle = |policy| {
                    let x = Axis { name: "mean time between arrivals, ticks", logarithmic: true };
                    idle_panel(rows, (policy, "dynamic"), x)
                };
                vec![idle("dfs:parts=printed"), idle("dfs")]
            }),
        })
    },
};

//! DFS-FA in the scenarios of DFS §4.2: it never idles beside a waiting task.

use super::Figure;
use super::idle::{CPUS, Idle, Point, SETS};
use super::ticks::Scenario;
use crate::plot::{Axis, Lines, Series};

const SCENARIOS: [Scenario; 4] =
    [Scenario::Synchronised, Scenario::Asynchronous, Scenario::Variable, Scenario::Dynamic(100)];

pub(super) const FIGURE: Figure = Figure {
    name: "dfs-fa",
    title: "Idling of DFS-FA: none",
    source: "DFS (RTAS 2001), section 5",
    sets: SETS,
    remarks: "The four scenarios of section 4.2, each seed with another number of tasks, from one \
              more than cpus to four a cpu. The measure is the share of ticks in which a cpu idled \
              while a task waited; the paper's claim is zero.",
    study: || {
        let points =
            |scenario| CPUS.map(|cpus| Point { policy: "dfs-fa".into(), scenario, cpus, more: 0 });
        Box::new(Idle {
            points: SCENARIOS.into_iter().flat_map(points).collect(),
            printed: &[
                ("dfs-fa", "synchronised", 0.0),
                ("dfs-fa", "asynchronous", 0.0),
                ("dfs-fa", "variable", 0.0),
                ("dfs-fa", "dynamic", 0.0),
            ],
            panels: Some(|rows| {
                let curve = |scenario: &Scenario| {
                    let of =
                        |row: &&super::Row| row.place("scenario").to_string() == scenario.name();
                    let points = CPUS.iter().zip(rows.iter().filter(of));
                    let points =
                        points.map(|(&cpus, row)| (f64::from(cpus), row.value("idle_percent")));
                    Series::new(scenario.name(), points.collect()).marked()
                };
                vec![Lines {
                    title: "idle beside a waiting task".to_string(),
                    x: Axis { name: "number of cpus", logarithmic: true },
                    y: Axis {
                        name: "idle beside a waiting task, % of cpu time",
                        logarithmic: false,
                    },
                    series: SCENARIOS.iter().map(curve).collect(),
                    printed: rows
                        .iter()
                        .filter_map(|row| {
                            Some((row.place("cpus").number(), row.printed("idle_percent")?))
                        })
                        .collect(),
                }]
            }),
        })
    },
};

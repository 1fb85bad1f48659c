//! DFS, figure 3.

use super::Figure;
use super::idle::{DFS, DFS_PRINTED, Idle, SETS, idle_panel, near_the_cpus, together_panel};
use super::ticks::Scenario;
use crate::plot::Axis;

pub(super) const FIGURE: Figure = Figure {
    name: "dfs-3",
    title: "Idling of DFS with quanta that are not in step",
    source: "DFS (RTAS 2001), figure 3",
    sets: SETS,
    remarks: "Times are clock ticks; weights are uniform in 1..100. A task is credited at the end \
              of its quantum, and a cpu that is given nothing idles for a quantum before it asks \
              again. How cpus get out of step the paper's text does not say: here the first \
              quantum of each lasts 1 to 10 ticks. Eq. 7 as printed (parts=printed) then idles \
              most where tasks are about as many as cpus, as in the paper, since the fraction of a \
              quantum that is left in S makes tasks wait for their next windows; from 8 cpus on it \
              is more than the printed 12 %, and we do not know why. With quanta of variable \
              length the two disagree: the paper's results are nearly those of fixed quanta, while \
              here eq. 7 as printed idles up to 99 % of the time, since there are always \
              fractions. The paper may have counted whole quanta (conjecture: its text does not \
              say). The rule of the library (a window stays the task's until it had a whole \
              quantum in it) is eq. 7 when quanta are whole, and idles next to nothing.",
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
            panels: Some(|rows| {
                let idle = |policy, scenario| {
                    let tasks = Axis { name: "number of tasks", logarithmic: false };
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
            }),
        })
    },
};

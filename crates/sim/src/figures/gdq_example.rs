//! The study of GDQ's worked example (A.2): which group each cpu serves, and which tasks of the largest
//! group it runs.

use super::timeline::Scene;
use super::{Row, Study, Tally};
use crate::plot::{Picture, Strips, strips};
use prorata::{TaskId, Weight};

/// Of the tasks 1 to 10 in the paper.
const WEIGHTS: [u32; 10] = [2, 2, 3, 4, 4, 4, 4, 6, 6, 9];
/// Orders of weights, each a group, and what the paper calls them.
const GROUPS: [(u32, &str); 3] = [(1, "G1: 2, 2, 3"), (2, "G2: 4, 4, 4, 4, 6, 6"), (3, "G3: 9")];
const LARGEST: u32 = 2;
const CPUS: usize = 4;

/// What is shown of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// A panel a group: which cpus serve it.
    Groups,
    /// A panel a cpu: which tasks of the largest group it runs.
    Tasks,
}

/// The study, for so many units of time.
pub(super) struct Example {
    scene: Scene,
    view: View,
}

pub(super) fn study(policy: &'static str, view: View, units: u32) -> Box<dyn Study> {
    let scene = Scene { policy: policy.into(), cpus: CPUS, quantum_ms: 1, quanta: units };
    Box::new(Example { scene, view })
}

fn order(task: TaskId) -> u32 {
    Weight::new(WEIGHTS[task.index()]).expect("at least 1").order()
}

impl Example {
    /// What of a run is shown as one bar.
    fn shown(&self, task: TaskId) -> Option<i64> {
        match self.view {
            View::Groups => Some(i64::from(order(task))),
            View::Tasks => (order(task) == LARGEST).then_some(i64::from(task.0) + 1),
        }
    }

    fn key(&self) -> &'static str {
        match self.view {
            View::Groups => "group",
            View::Tasks => "task",
        }
    }
}

impl Study for Example {
    fn points(&self) -> usize {
        1
    }

    fn cost(&self, _point: usize) -> u64 {
        self.scene.decisions()
    }

    /// Who ran, by unit of time and cpu.
    fn measure(&self, _point: usize, _set: u32, _seed: u64) -> Tally {
        let mut values = Vec::new();
        self.scene.run(&WEIGHTS, |_, task| values.push(i64::from(task.0)));
        assert_eq!(values.len() as u64, self.scene.decisions(), "no cpu idles");
        Tally { decisions: self.scene.decisions(), values }
    }

    fn merge(&self, _values: &mut [i64], _other: &[i64]) {}

    /// A row a bar.
    fn rows(&self, tallies: &[Tally], _sets: u32) -> Vec<Row> {
        let mut rows = Vec::new();
        for cpu in 0..CPUS {
            let ran = tallies[0].values.iter().skip(cpu).step_by(CPUS);
            let ran: Vec<Option<i64>> =
                ran.map(|&task| self.shown(TaskId(u32::try_from(task).expect("an id")))).collect();
            let mut begin = 0;
            for run in ran.chunk_by(|a, b| a == b) {
                let end = begin + u32::try_from(run.len()).expect("few units");
                if let Some(number) = run[0] {
                    rows.push(
                        Row::default()
                            .at("policy", &*self.scene.policy)
                            .at("cpu", u32::try_from(cpu + 1).expect("few cpus"))
                            .at(self.key(), u32::try_from(number).expect("small"))
                            .with("begin", f64::from(begin))
                            .with("end", f64::from(end)),
                    );
                }
                begin = end;
            }
        }
        rows
    }

    fn draw(&self, title: &str, rows: &[Row]) -> Picture {
        let cpus: Vec<u32> = (1..).take(CPUS).collect();
        let tasks: Vec<u32> = (1..=10).filter(|id| order(TaskId(id - 1)) == LARGEST).collect();
        let panel = |name: String, of: (&str, u32), bars: (&str, &[u32]), label: &str| Strips {
            title: name,
            x: "time, units",
            tasks: bars.1.iter().map(|number| format!("{label} {number}")).collect(),
            runs: rows
                .iter()
                .filter(|row| *row.place(of.0) == of.1.into())
                .map(|row| {
                    let place = bars.1.iter().position(|&n| *row.place(bars.0) == n.into());
                    (place.expect("one of them"), row.value("begin"), row.value("end"))
                })
                .collect(),
        };
        let panels: Vec<Strips> = match self.view {
            View::Groups => GROUPS
                .iter()
                .map(|(order, name)| {
                    panel((*name).to_string(), ("group", *order), ("cpu", &cpus), "cpu")
                })
                .collect(),
            View::Tasks => cpus
                .iter()
                .map(|&cpu| panel(format!("cpu {cpu}"), ("cpu", cpu), ("task", &tasks), "task"))
                .collect(),
        };
        strips(title, &panels)
    }
}

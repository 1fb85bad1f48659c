//! DFS, figure 8: two tasks of weights 1 : 1 … 1 : 8 beside 20 others, on 2 cpus.

use std::borrow::Cow;

use super::timeline::Scene;
use super::{Figure, Row, Study, Tally, Unfit};
use crate::plot::{Axis, Lines, Picture, Series, lines};

pub(super) const FIGURE: Figure = Figure {
    name: "dfs-8",
    title: "Two benchmarks beside 20 others under DFS-FA",
    source: "DFS (RTAS 2001), figure 8",
    sets: 1,
    remarks: "Tasks that always run, for 300 s in quanta of 100 ms in step. The paper's text gives \
              no numbers: it says that the two receive bandwidth in proportion to their weights. \
              So it is here.",
    study: || Box::new(Ratios(SCENE)),
};

const SCENE: Scene =
    Scene { policy: Cow::Borrowed("dfs-fa"), cpus: 2, quantum_ms: 100, quanta: 3000 };
/// The weight of the second task; the first and the others have 1.
const WEIGHTS: [u32; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
const OTHERS: usize = 20;

struct Ratios(Scene);

impl Study for Ratios {
    fn points(&self) -> usize {
        WEIGHTS.len()
    }

    fn cost(&self, _point: usize) -> u64 {
        self.0.decisions()
    }

    fn measure(&self, point: usize, _set: u32, _seed: u64) -> Tally {
        let mut weights = vec![1; 2 + OTHERS];
        weights[1] = WEIGHTS[point];
        let mut received = vec![0; 2];
        self.0.run(&weights, |_, task| {
            if let Some(received) = received.get_mut(task.index()) {
                *received += 1;
            }
        });
        Tally { decisions: self.0.decisions(), values: received }
    }

    fn merge(&self, _values: &mut [i64], _other: &[i64]) {}

    #[allow(clippy::cast_precision_loss)] // few quanta
    fn rows(&self, tallies: &[Tally], _sets: u32) -> Vec<Row> {
        let row = |(&weight, tally): (&u32, &Tally)| {
            let seconds = |quanta: i64| quanta as f64 * f64::from(self.0.quantum_ms) / 1000.0;
            let (first, second) = (tally.values[0], tally.values[1]);
            Row::default()
                .at("policy", &*self.0.policy)
                .at("weight", weight)
                .with("first_s", seconds(first))
                .with("second_s", seconds(second))
                .with("ratio", second as f64 / first as f64)
        };
        WEIGHTS.iter().zip(tallies).map(row).collect()
    }

    fn draw(&self, title: &str, rows: &[Row]) -> Picture {
        let curve = |name: &str, measure: &str| {
            let point = |row: &Row| (row.place("weight").number(), row.value(measure));
            Series::new(name, rows.iter().map(point).collect()).marked()
        };
        let due = WEIGHTS.map(|weight| (f64::from(weight), f64::from(weight)));
        let due = Series::new("ratio of weights", due.to_vec());
        let x = || Axis { name: "weight of the second task", logarithmic: false };
        lines(
            title,
            &[
                Lines {
                    title: "processor time in 300 s".to_string(),
                    x: x(),
                    y: Axis { name: "processor time, s", logarithmic: false },
                    series: vec![
                        curve("first task, weight 1", "first_s"),
                        curve("second task", "second_s"),
                    ],
                    printed: vec![],
                },
                Lines {
                    title: "second : first".to_string(),
                    x: x(),
                    y: Axis { name: "ratio of processor times", logarithmic: false },
                    series: vec![due, curve("measured", "ratio")],
                    printed: vec![],
                },
            ],
        )
    }

    fn with(&self, policies: &[String]) -> Result<Box<dyn Study>, Unfit> {
        Ok(Box::new(Ratios(self.0.with(policies)?)))
    }
}

//! The study of GR3, figure 11: how many tasks GR3MP looks at until it finds one that is not running.

use prorata::Setup;
use prorata::policies::gr3::Gr3;

use super::cycle::{self, QUANTUM_NS};
use super::skewed::{self, COMBINATIONS, worst};
use super::{Row, Study, Tally};
use crate::plot::{Picture, Surfaces, surfaces};

/// The most choices that the paper saw.
const PRINTED: f64 = 7.0;
const CPUS: usize = 8;

/// The study.
pub(super) struct Searches;

impl Study for Searches {
    fn points(&self) -> usize {
        COMBINATIONS
    }

    fn cost(&self, point: usize) -> u64 {
        u64::from(skewed::combination(point).1)
    }

    fn measure(&self, point: usize, set: u32, seed: u64) -> Tally {
        let (tasks, total) = skewed::combination(point);
        let weights = skewed::weights(tasks, total, 10, set, seed);
        let setup = Setup::new(CPUS, QUANTUM_NS).as_in_papers();
        let mut policy = Gr3::new(&setup);
        cycle::run(&mut policy, &setup, &weights);
        Tally {
            decisions: u64::from(total),
            values: vec![i64::try_from(policy.longest_search()).expect("few")],
        }
    }

    fn merge(&self, values: &mut [i64], other: &[i64]) {
        values[0] = values[0].max(other[0]);
    }

    #[allow(clippy::cast_precision_loss)] // a few choices
    fn rows(&self, tallies: &[Tally], _sets: u32) -> Vec<Row> {
        let row = |(index, tally): (usize, &Tally)| {
            let (tasks, total) = skewed::combination(index);
            Row::default()
                .at("policy", "gr3")
                .at("tasks", tasks)
                .at("total_weight", total)
                .with("choices", tally.values[0] as f64)
        };
        let mut rows: Vec<Row> = tallies.iter().enumerate().map(row).collect();
        worst(&mut rows, "choices", |a, b| a > b).print("choices", PRINTED);
        rows
    }

    fn draw(&self, title: &str, rows: &[Row]) -> Picture {
        let choices = rows.iter().map(|row| row.value("choices")).collect();
        let panel = Surfaces {
            surfaces: vec![("most choices", choices)],
            height: "choices in one pick",
            printed: vec![PRINTED],
            ..skewed::panel("gr3 on 8 cpus")
        };
        surfaces(title, &[panel])
    }
}

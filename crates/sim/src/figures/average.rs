//! The study of VTRR §5.1: average service errors over 40 combinations of the number of tasks and
//! the total of their shares.

use std::borrow::Cow;

use prorata::Setup;

use super::contenders::{Contender, Cycle};
use super::cycle::QUANTUM_NS;
use super::skewed::{labels, worst};
use super::{Row, Study, Tally, Unfit, sets};
use crate::plot::{Picture, Surfaces, surfaces};

/// Random sets at every combination, in the paper.
pub(super) const SETS: u32 = 10_000;
/// The numbers of tasks. The paper's text tells neither them nor the totals.
const TASKS: [u32; 5] = [2, 4, 8, 16, 32];
/// The totals of the shares.
const TOTALS: [u32; 8] = [256, 512, 768, 1024, 1280, 1536, 1792, 2048];
const COMBINATIONS: usize = TASKS.len() * TOTALS.len();

/// The study.
struct Average {
    contenders: Cow<'static, [Contender]>,
}

/// The study of `contenders`.
pub(super) fn study(contenders: &'static [Contender]) -> Box<dyn Study> {
    Box::new(Average { contenders: contenders.into() })
}

impl Average {
    /// Policy, number of tasks, total.
    fn point(&self, point: usize) -> (&Contender, u32, u32) {
        let (contender, combination) = (point / COMBINATIONS, point % COMBINATIONS);
        let tasks = TASKS[combination / TOTALS.len()];
        (&self.contenders[contender], tasks, TOTALS[combination % TOTALS.len()])
    }
}

impl Study for Average {
    fn points(&self) -> usize {
        self.contenders.len() * COMBINATIONS
    }

    fn cost(&self, point: usize) -> u64 {
        u64::from(self.point(point).2)
    }

    /// The extremes of a set, times the total: the sums of many are exact.
    fn measure(&self, point: usize, set: u32, seed: u64) -> Tally {
        let (contender, tasks, total) = self.point(point);
        let mut lots = sets::lots(seed, tasks, total, set);
        let shares = sets::shares(&mut lots, tasks as usize, total);
        let seed = seed.wrapping_add(set.into());
        let setup = Setup { seed, ..Setup::new(1, QUANTUM_NS).as_in_papers() };
        let Cycle { extremes, decisions } = contender.errors(&setup, &shares);
        Tally { decisions, values: vec![extremes.min, extremes.max] }
    }

    fn merge(&self, values: &mut [i64], other: &[i64]) {
        values[0] += other[0];
        values[1] += other[1];
    }

    fn rows(&self, tallies: &[Tally], sets: u32) -> Vec<Row> {
        let row = |(index, tally): (usize, &Tally)| {
            let (contender, tasks, total) = self.point(index);
            #[allow(clippy::cast_precision_loss)] // far below 2^53
            let mean = |sum: i64| sum as f64 / f64::from(total) / f64::from(sets);
            Row::default()
                .at("policy", &*contender.policy)
                .at("tasks", tasks)
                .at("shares", total)
                .with("min", mean(tally.values[0]))
                .with("max", mean(tally.values[1]))
        };
        let mut rows: Vec<Row> = tallies.iter().enumerate().map(row).collect();
        for (rows, contender) in rows.chunks_mut(COMBINATIONS).zip(&*self.contenders) {
            if let Some((min, max)) = contender.printed {
                worst(rows, "min", |a, b| a < b).print("min", min);
                worst(rows, "max", |a, b| a > b).print("max", max);
            }
        }
        rows
    }

    fn draw(&self, title: &str, rows: &[Row]) -> Picture {
        let panels = self.contenders.iter().zip(rows.chunks(COMBINATIONS));
        let panels = panels.map(|(contender, rows)| Surfaces {
            title: contender.policy.to_string(),
            depth: ("N, tasks", labels(&TASKS)),
            width: ("S, shares", labels(&TOTALS)),
            height: "average service error, quanta",
            surfaces: vec![
                ("greatest", rows.iter().map(|row| row.value("max")).collect()),
                ("least", rows.iter().map(|row| row.value("min")).collect()),
            ],
            printed: contender.printed.map_or(vec![], |(min, max)| vec![max, min]),
        });
        surfaces(title, &panels.collect::<Vec<_>>())
    }

    fn with(&self, policies: &[String]) -> Result<Box<dyn Study>, Unfit> {
        let contenders = policies.iter().map(|spec| Contender::named(spec, 1));
        let contenders = contenders.collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(Average { contenders: Cow::Owned(contenders) }))
    }
}

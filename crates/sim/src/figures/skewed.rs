//! The study of GR3 §5.1: worst-case service errors when one task has a tenth (or half) of the
//! weight, over 45 combinations of the number of tasks and the total weight.

use std::borrow::Cow;

use prorata::{Setup, Weight};

use super::contenders::{Contender, Cycle};
use super::cycle::QUANTUM_NS;
use super::{Coordinate, Row, Study, Tally, Unfit, sets};
use crate::plot::{Picture, Surfaces, surfaces};

/// Random sets at every combination, in the paper.
pub(super) const SETS: u32 = 2500;
/// The numbers of tasks.
const TASKS: [u32; 9] = [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// The total weights.
const TOTALS: [u32; 5] = [16384, 32768, 65536, 131_072, 262_144];

/// The study.
struct Skewed {
    contenders: Cow<'static, [Contender]>,
    cpus: usize,
    /// The first task has one part in so many of the weight.
    part: u32,
}

/// The study of `contenders`.
pub(super) fn study(contenders: &'static [Contender], cpus: usize, part: u32) -> Box<dyn Study> {
    Box::new(Skewed { contenders: contenders.into(), cpus, part })
}

struct Point<'s> {
    contender: &'s Contender,
    tasks: u32,
    total: u32,
}

impl Skewed {
    fn point(&self, point: usize) -> Point<'_> {
        let (tasks, total) = combination(point % COMBINATIONS);
        Point { contender: &self.contenders[point / COMBINATIONS], tasks, total }
    }
}

/// The points of one policy.
pub(super) const COMBINATIONS: usize = TASKS.len() * TOTALS.len();

/// Number of tasks and total weight.
pub(super) fn combination(index: usize) -> (u32, u32) {
    (TASKS[index / TOTALS.len()], TOTALS[index % TOTALS.len()])
}

/// Set number `set` of a combination; the first task has one part in `part` of the weight.
pub(super) fn weights(tasks: u32, total: u32, part: u32, set: u32, seed: u64) -> Vec<Weight> {
    let mut lots = sets::lots(seed, tasks, total, set);
    sets::skewed(&mut lots, tasks as usize, total, total / part)
}

/// A panel over the combinations, without surfaces.
pub(super) fn panel(title: &str) -> Surfaces {
    Surfaces {
        title: title.to_string(),
        depth: ("N, tasks", labels(&TASKS)),
        width: ("total weight", labels(&TOTALS)),
        height: "service error, quanta",
        surfaces: vec![],
        printed: vec![],
    }
}

impl Study for Skewed {
    fn points(&self) -> usize {
        self.contenders.len() * COMBINATIONS
    }

    fn cost(&self, point: usize) -> u64 {
        u64::from(self.point(point).total)
    }

    fn measure(&self, point: usize, set: u32, seed: u64) -> Tally {
        let Point { contender, tasks, total } = self.point(point);
        let weights = weights(tasks, total, self.part, set, seed);
        let seed = seed.wrapping_add(set.into());
        let setup = Setup { seed, ..Setup::new(self.cpus, QUANTUM_NS).as_in_papers() };
        let Cycle { extremes, decisions } = contender.errors(&setup, &weights);
        Tally { decisions, values: vec![extremes.min, extremes.max] }
    }

    fn merge(&self, values: &mut [i64], other: &[i64]) {
        values[0] = values[0].min(other[0]);
        values[1] = values[1].max(other[1]);
    }

    fn rows(&self, tallies: &[Tally], _sets: u32) -> Vec<Row> {
        let row = |(index, tally): (usize, &Tally)| {
            let Point { contender, tasks, total } = self.point(index);
            let quanta = |error: i64| in_quanta(error, total);
            Row::default()
                .at("policy", &*contender.policy)
                .at("tasks", tasks)
                .at("total_weight", total)
                .with("min", quanta(tally.values[0]))
                .with("max", quanta(tally.values[1]))
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
            surfaces: vec![
                ("greatest", rows.iter().map(|row| row.value("max")).collect()),
                ("least", rows.iter().map(|row| row.value("min")).collect()),
            ],
            printed: contender.printed.map_or(vec![], |(min, max)| vec![max, min]),
            ..panel(&contender.policy)
        });
        surfaces(title, &panels.collect::<Vec<_>>())
    }

    fn with(&self, policies: &[String]) -> Result<Box<dyn Study>, Unfit> {
        let contenders = policies.iter().map(|spec| Contender::named(spec, self.cpus));
        let contenders = contenders.collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(Skewed { contenders: Cow::Owned(contenders), ..*self }))
    }
}

/// The row in which the measure `name` is worst; the first of several.
pub(super) fn worst<'a>(
    rows: &'a mut [Row],
    name: &str,
    worse: fn(f64, f64) -> bool,
) -> &'a mut Row {
    let mut found = 0;
    for index in 1..rows.len() {
        if worse(rows[index].value(name), rows[found].value(name)) {
            found = index;
        }
    }
    &mut rows[found]
}

#[allow(clippy::cast_precision_loss)] // errors are far below 2^53
fn in_quanta(error: i64, total: u32) -> f64 {
    error as f64 / f64::from(total)
}

pub(super) fn labels(numbers: &[u32]) -> Vec<String> {
    numbers.iter().map(|&n| Coordinate::from(n).to_string()).collect()
}

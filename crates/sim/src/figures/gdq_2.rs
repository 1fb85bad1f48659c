//! GDQ, figure 2: worst-case service errors for all P and T, beside WFQ and SFQ on one cpu.

use prorata::policies::gdq::Gdq;
use prorata::{Setup, Weight};

use super::by_finish;
use super::cycle::{self, Extremes};
use super::{Figure, Row, Study, Tally, sets};
use crate::plot::{Axis, Lines, Picture, Series, lines};

pub(super) const FIGURE: Figure = Figure {
    name: "gdq-2",
    title: "Service error of GDQ",
    source: "GDQ (Columbia University, 2005), figure 2",
    sets: 500,
    remarks: "δ = 4. Each row is the worst of 24 combinations of 512 to 16384 tasks and total \
              weights of 32768 to 262144. Each weight is uniform in what its predecessors left \
              over, but at most 1/P of the total: the one reading of the paper's generator in \
              which its upper limit matters. A run is a cycle (Φ/P quanta), or 4·T if that is \
              more. The paper prints curves and no numbers; it says that errors stay far inside \
              Theorem 3.6 and that WFQ and SFQ, here with the mixes of one cpu, are worse. Both \
              hold. The negative error is nearly −T, and better on many cpus, as in the paper; the \
              positive one grows with T as there, but falls with P where the paper's grows a \
              little: with this generator weights are the more alike the more cpus there are.",
    study: || Box::new(Gdq2),
};

const CPUS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// T, in quanta.
const INTERVALS: [u32; 6] = [20, 40, 80, 160, 320, 640];
/// Those that the paper draws.
const DRAWN: [u32; 3] = [40, 160, 640];
const DELTA: u32 = 4;
const TASKS: [u32; 6] = [512, 1024, 2048, 4096, 8192, 16384];
const TOTALS: [u32; 4] = [32768, 65536, 131_072, 262_144];
const COMBINATIONS: usize = TASKS.len() * TOTALS.len();
/// A run is a cycle, or so many T if that is more: so that groups exchange cpus.
const LEAST_INTERVALS: u32 = 4;
/// The intervals of time of a quantum: T/P is a whole number of them for all T and P.
const QUANTUM_NS: u64 = 128;

struct Gdq2;

/// A point of the figure, without N and Φ.
#[derive(Clone, Copy)]
enum Curve {
    Gdq { cpus: u32, interval: u32 },
    Wfq,
    Sfq,
}

const CURVES: usize = CPUS.len() * INTERVALS.len() + 2;

impl Curve {
    fn new(index: usize) -> Curve {
        match index.checked_sub(CPUS.len() * INTERVALS.len()) {
            None => Curve::Gdq {
                cpus: CPUS[index / INTERVALS.len()],
                interval: INTERVALS[index % INTERVALS.len()],
            },
            Some(0) => Curve::Wfq,
            Some(_) => Curve::Sfq,
        }
    }

    fn cpus(self) -> u32 {
        if let Curve::Gdq { cpus, .. } = self { cpus } else { 1 }
    }

    /// Quanta of a run on each cpu.
    fn quanta(self, total: u32) -> u64 {
        u64::from(match self {
            Curve::Gdq { cpus, interval } => (total / cpus).max(LEAST_INTERVALS * interval),
            Curve::Wfq | Curve::Sfq => total,
        })
    }

    /// Decisions of a run; none where the schedule is known in closed form.
    fn decisions(self, total: u32) -> u64 {
        match self {
            Curve::Gdq { cpus, .. } => u64::from(cpus) * self.quanta(total),
            Curve::Wfq | Curve::Sfq => 0,
        }
    }

    fn run(self, weights: &[Weight], total: u32) -> Extremes {
        let setup = Setup::new(self.cpus() as usize, QUANTUM_NS).as_in_papers();
        let quanta = self.quanta(total);
        match self {
            Curve::Gdq { interval, .. } => {
                cycle::span(&mut Gdq::new(&setup, interval, DELTA), &setup, weights, quanta)
            }
            Curve::Wfq => by_finish::wfq(weights),
            Curve::Sfq => by_finish::sfq(weights),
        }
    }
}

/// The curve, N and Φ.
fn point_of(point: usize) -> (Curve, u32, u32) {
    let (curve, combination) = (point / COMBINATIONS, point % COMBINATIONS);
    let (tasks, total) = (combination / TOTALS.len(), combination % TOTALS.len());
    (Curve::new(curve), TASKS[tasks], TOTALS[total])
}

impl Study for Gdq2 {
    fn points(&self) -> usize {
        CURVES * COMBINATIONS
    }

    fn cost(&self, point: usize) -> u64 {
        let (curve, _, total) = point_of(point);
        // GDQ costs several times what GR3 costs.
        (4 * curve.decisions(total)).max(u64::from(total))
    }

    /// The extremes times Φ, and the number of groups.
    fn measure(&self, point: usize, set: u32, seed: u64) -> Tally {
        let (curve, tasks, total) = point_of(point);
        let mut lots = sets::lots(seed, tasks, total + curve.cpus(), set);
        let weights = sets::capped(&mut lots, tasks as usize, total, total / curve.cpus());
        let Extremes { min, max } = curve.run(&weights, total);
        let groups = weights.iter().fold(0u32, |orders, w| orders | (1 << w.order())).count_ones();
        Tally { decisions: curve.decisions(total), values: vec![min, max, i64::from(groups)] }
    }

    fn merge(&self, values: &mut [i64], other: &[i64]) {
        values[0] = values[0].min(other[0]);
        values[1] = values[1].max(other[1]);
        values[2] = values[2].max(other[2]);
    }

    fn rows(&self, tallies: &[Tally], _sets: u32) -> Vec<Row> {
        tallies
            .chunks(COMBINATIONS)
            .enumerate()
            .map(|(index, tallies)| row(index, tallies))
            .collect()
    }

    fn draw(&self, title: &str, rows: &[Row]) -> Picture {
        let panel = |title: &str, measure: &str| Lines {
            title: title.to_string(),
            x: Axis { name: "P, number of cpus", logarithmic: true },
            y: Axis { name: "service error, quanta", logarithmic: true },
            series: curves(rows, measure),
            printed: vec![],
        };
        lines(
            title,
            &[panel("greatest error", "max"), panel("least error, without its sign", "min")],
        )
    }
}

/// The worst of all combinations, and the bounds of Theorem 3.6.
#[allow(clippy::cast_precision_loss)] // far below 2^53
fn row(index: usize, tallies: &[Tally]) -> Row {
    let (mut min, mut max, mut groups) = (0.0f64, 0.0f64, 0);
    for (combination, tally) in tallies.iter().enumerate() {
        let total = f64::from(TOTALS[combination % TOTALS.len()]);
        min = min.min(tally.values[0] as f64 / total);
        max = max.max(tally.values[1] as f64 / total);
        groups = groups.max(tally.values[2]);
    }
    let (policy, cpus, interval) = match Curve::new(index) {
        Curve::Gdq { cpus, interval } => ("gdq", cpus, interval),
        Curve::Wfq => ("wfq", 1, 0),
        Curve::Sfq => ("sfq", 1, 0),
    };
    let inside = f64::from(2 * (2 * DELTA + 2));
    let (lower, upper) = match policy {
        "gdq" => (-inside - f64::from(interval), inside + groups as f64 * f64::from(interval)),
        _ => (0.0, 0.0),
    };
    Row::default()
        .at("policy", policy)
        .at("cpus", cpus)
        .at("interval_quanta", interval)
        .with("min", min)
        .with("max", max)
        .with("lower_bound", lower)
        .with("upper_bound", upper)
}

fn curves(rows: &[Row], measure: &str) -> Vec<Series> {
    let of = |policy: &'static str, interval: u32| {
        let own = rows.iter().filter(move |row| {
            *row.place("policy") == policy.into()
                && *row.place("interval_quanta") == interval.into()
        });
        let point = |row: &Row| (row.place("cpus").number(), row.value(measure).abs().max(0.1));
        own.map(point).collect::<Vec<_>>()
    };
    let gdq = INTERVALS.iter().map(|&interval| Series {
        pale: !DRAWN.contains(&interval),
        ..Series::new(format!("GDQ, T = {interval}"), of("gdq", interval)).marked()
    });
    let one = |name: &str, policy| Series::new(name, of(policy, 0)).marked();
    gdq.chain([one("WFQ", "wfq"), one("SFQ", "sfq")]).collect()
}

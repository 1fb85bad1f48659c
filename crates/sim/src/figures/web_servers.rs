//! The study of GR3 §5.2: six web servers of 100 processes each, the processes of one with weight
//! 10, the others' with weight 1. Processor time of one process of each server, over time.

use super::timeline::Scene;
use super::{Row, Study, Tally, Unfit};
use crate::plot::{Axis, Lines, Picture, Series, lines};

const SERVERS: u32 = 6;
const PROCESSES: u32 = 100;
const FAVOURED: u32 = 10;
const QUANTUM_MS: u32 = 10;
/// A task of weight 1 runs once in so many quanta of one cpu.
const CYCLE: u32 = PROCESSES * (FAVOURED + SERVERS - 1);
/// How long a run is, in cycles of one cpu.
const CYCLES: u32 = 4;
/// Quanta between two points of a curve.
const SAMPLE: u32 = 10;

/// The study, for one policy.
pub(super) struct WebServers(Scene);

/// The study of `policy` on `cpus` cpus.
pub(super) fn study(policy: &'static str, cpus: usize) -> Box<dyn Study> {
    Box::new(WebServers(Scene {
        policy: policy.into(),
        cpus,
        quantum_ms: QUANTUM_MS,
        quanta: CYCLE * CYCLES,
    }))
}

fn weight_of(server: u32) -> u32 {
    if server == 0 { FAVOURED } else { 1 }
}

impl Study for WebServers {
    fn points(&self) -> usize {
        1
    }

    fn cost(&self, _point: usize) -> u64 {
        self.0.decisions()
    }

    /// The quanta that the first process of each server had, at every sample.
    fn measure(&self, _point: usize, _set: u32, _seed: u64) -> Tally {
        let weights: Vec<u32> =
            (0..SERVERS * PROCESSES).map(|process| weight_of(process / PROCESSES)).collect();
        let mut values = Vec::new();
        let mut received = [0; SERVERS as usize];
        let mut next = SAMPLE;
        self.0.run(&weights, |quantum, task| {
            if quantum == next {
                values.extend(received);
                next += SAMPLE;
            }
            if task.0 % PROCESSES == 0 {
                received[(task.0 / PROCESSES) as usize] += 1;
            }
        });
        values.extend(received);
        Tally { decisions: self.0.decisions(), values }
    }

    fn merge(&self, _values: &mut [i64], _other: &[i64]) {}

    #[allow(clippy::cast_precision_loss)] // few quanta
    fn rows(&self, tallies: &[Tally], _sets: u32) -> Vec<Row> {
        let mut rows = Vec::new();
        let samples = tallies[0].values.chunks_exact(SERVERS as usize);
        for (now, received) in (1u32..).zip(samples) {
            let now = now * SAMPLE;
            for (server, &received) in (0..SERVERS).zip(received) {
                let received = received as f64;
                let share = f64::from(weight_of(server)) / f64::from(CYCLE);
                let row = Row::default()
                    .at("policy", &*self.0.policy)
                    .at("cpus", u32::try_from(self.0.cpus).expect("few cpus"))
                    .at("server", server + 1)
                    .at("weight", weight_of(server))
                    .at("time_ms", now * QUANTUM_MS)
                    .with("cpu_ms", received * f64::from(QUANTUM_MS))
                    .with("error", received - f64::from(now) * self.0.cpus as f64 * share);
                rows.push(row);
            }
        }
        rows
    }

    fn draw(&self, title: &str, rows: &[Row]) -> Picture {
        let curves = |measure: &'static str| {
            let curve = |server: u32| {
                let own =
                    rows.iter().filter(move |row| *row.place("server") == (server + 1).into());
                let points =
                    own.map(|row| (row.place("time_ms").number() / 1000.0, row.value(measure)));
                Series::new(
                    format!("server {}, weight {}", server + 1, weight_of(server)),
                    points.collect(),
                )
            };
            (0..SERVERS).map(curve).collect()
        };
        let panel = |title: &str, measure, name| Lines {
            title: title.to_string(),
            x: Axis { name: "time, s", logarithmic: false },
            y: Axis { name, logarithmic: false },
            series: curves(measure),
            printed: vec![],
        };
        lines(
            title,
            &[
                panel(
                    "processor time of one process of each server",
                    "cpu_ms",
                    "processor time, ms",
                ),
                panel("its service error", "error", "service error, quanta"),
            ],
        )
    }

    fn with(&self, policies: &[String]) -> Result<Box<dyn Study>, Unfit> {
        Ok(Box::new(WebServers(self.0.with(policies)?)))
    }
}

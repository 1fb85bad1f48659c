//! The study of VTRR §5.4: frames that five audio encoders have encoded, over time.

use super::timeline::Scene;
use super::{Row, Study, Tally, Unfit};
use crate::plot::{Axis, Lines, Picture, Series, lines};

const SHARES: [u32; 5] = [1, 2, 3, 4, 5];
const QUANTUM_MS: u32 = 20;
/// Processor time of a frame. The paper's text does not say.
const FRAME_MS: u32 = 10;
/// Three seconds.
const QUANTA: u32 = 150;

/// The study, for one policy.
pub(super) struct Encoders(Scene);

/// The study of `policy`.
pub(super) fn study(policy: &'static str) -> Box<dyn Study> {
    Box::new(Encoders(Scene {
        policy: policy.into(),
        cpus: 1,
        quantum_ms: QUANTUM_MS,
        quanta: QUANTA,
    }))
}

impl Study for Encoders {
    fn points(&self) -> usize {
        1
    }

    fn cost(&self, _point: usize) -> u64 {
        u64::from(QUANTA)
    }

    fn measure(&self, _point: usize, _set: u32, _seed: u64) -> Tally {
        let mut values = Vec::new();
        self.0.run(&SHARES, |_, task| values.push(i64::from(task.0)));
        Tally { decisions: self.0.decisions(), values }
    }

    fn merge(&self, _values: &mut [i64], _other: &[i64]) {}

    fn rows(&self, tallies: &[Tally], _sets: u32) -> Vec<Row> {
        let mut received_ms = [0u32; SHARES.len()];
        let mut rows = Vec::new();
        for (now, &task) in (1u32..).zip(&tallies[0].values) {
            received_ms[usize::try_from(task).expect("an id")] += QUANTUM_MS;
            for (share, received_ms) in SHARES.into_iter().zip(received_ms) {
                let row = Row::default()
                    .at("policy", &*self.0.policy)
                    .at("share", share)
                    .at("time_ms", now * QUANTUM_MS)
                    .with("frames", f64::from(received_ms / FRAME_MS));
                rows.push(row);
            }
        }
        rows
    }

    fn draw(&self, title: &str, rows: &[Row]) -> Picture {
        let curve = |share: u32| {
            let own = rows.iter().filter(|row| *row.place("share") == share.into());
            let points =
                own.map(|row| (row.place("time_ms").number() / 1000.0, row.value("frames")));
            Series::new(format!("share {share}"), points.collect())
        };
        lines(
            title,
            &[Lines {
                title: self.0.policy.to_string(),
                x: Axis { name: "time, s", logarithmic: false },
                y: Axis { name: "number of frames encoded", logarithmic: false },
                series: SHARES.into_iter().rev().map(curve).collect(),
                printed: vec![],
            }],
        )
    }

    fn with(&self, policies: &[String]) -> Result<Box<dyn Study>, Unfit> {
        Ok(Box::new(Encoders(self.0.with(policies)?)))
    }
}

//! The study of VTRR §5.3: which of five tasks runs when, over one second.

use prorata::TaskId;

use super::timeline::Scene;
use super::{Row, Study, Tally, Unfit};
use crate::plot::{Picture, Strips, strips};

const SHARES: [u32; 5] = [1, 2, 3, 4, 5];
const QUANTUM_MS: u32 = 20;
/// One second, and the cycle that is under way when it ends.
const QUANTA: u32 = 60;

/// The study, for one policy.
pub(super) struct WhoRuns {
    scene: Scene,
    /// The time after which the schedule repeats, if the paper prints one, in ms.
    printed: Option<f64>,
}

/// The study of `policy`.
pub(super) fn study(policy: &'static str, printed: Option<f64>) -> Box<dyn Study> {
    let scene = Scene { policy: policy.into(), cpus: 1, quantum_ms: QUANTUM_MS, quanta: QUANTA };
    Box::new(WhoRuns { scene, printed })
}

impl Study for WhoRuns {
    fn points(&self) -> usize {
        1
    }

    fn cost(&self, _point: usize) -> u64 {
        u64::from(QUANTA)
    }

    fn measure(&self, _point: usize, _set: u32, _seed: u64) -> Tally {
        let mut values = Vec::new();
        self.scene.run(&SHARES, |_, task| values.push(i64::from(task.0)));
        Tally { decisions: self.scene.decisions(), values }
    }

    fn merge(&self, _values: &mut [i64], _other: &[i64]) {}

    fn rows(&self, tallies: &[Tally], _sets: u32) -> Vec<Row> {
        let schedule = &tallies[0].values;
        let repeats_ms = f64::from(QUANTUM_MS) * period(schedule);
        let mut begin = 0;
        let mut rows = Vec::new();
        for run in schedule.chunk_by(|a, b| a == b) {
            let task = TaskId(u32::try_from(run[0]).expect("an id"));
            let length = u32::try_from(run.len()).expect("few quanta");
            let row = Row::default()
                .at("policy", &*self.scene.policy)
                .at("share", SHARES[task.index()])
                .with("begin_ms", f64::from(begin * QUANTUM_MS))
                .with("end_ms", f64::from((begin + length) * QUANTUM_MS))
                .with("repeats_ms", repeats_ms);
            rows.push(row);
            begin += length;
        }
        if let Some(printed) = self.printed {
            rows[0].print("repeats_ms", printed);
        }
        rows
    }

    fn draw(&self, title: &str, rows: &[Row]) -> Picture {
        let index = |row: &Row| {
            let share = row.place("share");
            SHARES.iter().position(|&s| *share == s.into()).expect("one of the shares")
        };
        let run = |row: &Row| (index(row), row.value("begin_ms"), row.value("end_ms"));
        strips(
            title,
            &[Strips {
                title: self.scene.policy.to_string(),
                x: "time, ms",
                tasks: SHARES.iter().map(|share| format!("share {share}")).collect(),
                runs: rows.iter().map(run).collect(),
            }],
        )
    }

    fn with(&self, policies: &[String]) -> Result<Box<dyn Study>, Unfit> {
        Ok(Box::new(WhoRuns { scene: self.scene.with(policies)?, printed: None }))
    }
}

/// After how many quanta the schedule repeats; 0 if it does not within itself.
fn period(schedule: &[i64]) -> f64 {
    let repeats = |length: &u32| {
        let length = *length as usize;
        schedule[length..] == schedule[..schedule.len() - length]
    };
    (1..=QUANTA / 2).find(repeats).map_or(0.0, f64::from)
}

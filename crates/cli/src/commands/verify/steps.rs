//! Recordings of `gdq-distributed`: each cpu's steps, which are put into an order and told to the policy.

use std::fmt::Write as _;

use anyhow::{Context, Result, anyhow, ensure};
use prorata::Setup;
use prorata::policies::gdq::distributed::steps::{Merge, Replay, Step};

use serde_json::json;

use super::{Difference, Head, Summary};

const NAME: &str = "gdq-distributed";

/// The policy beside the recording.
pub(super) struct Steps {
    head: Head,
    merge: Merge,
    replay: Replay,
    /// Before it began anew.
    picks: u64,
    late: u64,
    cpu_changes: u64,
}

pub(super) fn are_recorded(head: &Head) -> bool {
    head.policy.split(':').next() == Some(NAME)
}

impl Steps {
    pub(super) fn start(head: Head) -> Result<Steps> {
        let replay = build(&head, head.cpus)?;
        let merge = Merge::new(head.cpus);
        Ok(Steps { head, merge, replay, picks: 0, late: 0, cpu_changes: 0 })
    }

    /// Replays a line, and those that have waited for it.
    pub(super) fn line(&mut self, number: u64, line: &str) -> Result<Option<Difference>> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if let [_, "cpus", cpus] = words[..] {
            let difference = self.end();
            self.begin_anew(cpus.parse().context("the number of cpus")?)?;
            return Ok(difference);
        }
        let step = Step::parse(line).map_err(|wrong| anyhow!(wrong))?;
        self.merge.push(number, step).map_err(|wrong| anyhow!(wrong))?;
        while let Some((number, step)) = self.merge.pop() {
            if let Err(wrong) = self.replay.step(&step) {
                let decision = self.picks + self.replay.picks();
                return Ok(Some(Difference(number, format!("decision {decision}: {wrong}"))));
            }
        }
        Ok(None)
    }

    /// What is wrong when no line follows.
    pub(super) fn end(&self) -> Option<Difference> {
        self.merge.stuck().map(|(number, wrong)| Difference(number, wrong))
    }

    fn begin_anew(&mut self, cpus: usize) -> Result<()> {
        self.picks += self.replay.picks();
        self.late += self.replay.late();
        self.cpu_changes += 1;
        self.replay = build(&self.head, cpus)?;
        self.merge = Merge::new(cpus);
        Ok(())
    }

    pub(super) fn report(&self) -> Summary {
        let decisions = self.picks + self.replay.picks();
        let late = self.late + self.replay.late();
        let mut text = format!("{decisions} decisions, all as the policy decides\n");
        if self.cpu_changes > 0 {
            let _ = writeln!(text, "cpus came or went {} times", self.cpu_changes);
        }
        let _ = writeln!(text, "{late} looks without a lock, which others had outrun");
        let values = [
            ("policy", json!(self.head.policy)),
            ("decisions", json!(decisions)),
            ("cpu_changes", json!(self.cpu_changes)),
            ("late_looks", json!(late)),
        ];
        Summary::new(text, values)
    }
}

fn build(head: &Head, cpus: usize) -> Result<Replay> {
    ensure!((1..=Setup::MAX_CPUS).contains(&cpus), "{cpus} cpus");
    let (_, options) = head.policy.split_once(':').unwrap_or_default();
    Ok(Replay::new(options, &Setup::new(cpus, head.quantum_ns).as_in_papers())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task wakes on cpu 1, and cpu 0 comes for it.
    const LINES: [&str; 9] = [
        "0 add 1 69 1024 0 0",
        "0 wake 1 69 0 0 1",
        "9 look 0 - 1 0 0 s:0",
        "9 seek 0 - 0 0 0 s:1",
        "9 claim 0 - 0 0 0 q0:2",
        "9 arrive 0 - 10 0 0 s:2",
        "9 pick 0 69 0 0 3 q0:3",
        "0 open 1 - 0 0 0 q0:0 g10:0",
        "0 place 1 69 67108865 0 2 q0:1",
    ];

    /// The line at which the policy does something else; the decisions that it explains.
    fn verify(lines: &[&str]) -> (Option<u64>, u64) {
        let policy = format!("{NAME}:sleepers=paper,t=3,delta=4");
        let head = Head { policy, cpus: 2, quantum_ns: 5 };
        let mut steps = Steps::start(head).expect("a policy");
        let mut told = (0..).zip(lines).filter_map(|(number, line)| {
            steps.line(number, line).expect("a step").map(|Difference(number, _)| number)
        });
        let first = told.next();
        let last = steps.end().map(|Difference(number, _)| number);
        (first.or(last), steps.picks + steps.replay.picks())
    }

    #[test]
    fn steps_of_two_cpus_are_merged() {
        assert_eq!(verify(&LINES), (None, 1));
        assert_eq!(verify(&[&LINES[..], &["9 cpus 1", "9 idle 0 - 0 0 0"]].concat()), (None, 2));
    }

    #[test]
    fn a_line_that_is_missing_or_another_is_told() {
        // Nothing follows the pick, nor what is last of the other cpu.
        for missing in [0, 1, 2, 3, 4, 5, 7] {
            let mut lines = LINES.to_vec();
            lines.remove(missing);
            assert!(verify(&lines).0.is_some(), "without {}", LINES[missing]);
        }
        let others = [
            (5, "9 arrive 0 - 11 0 0 s:2"),
            (6, "9 pick 0 69 0 0 3 q1:0"),
            (8, "0 place 1 69 67108865 1 2 q0:1"),
        ];
        for (at, other) in others {
            let mut lines = LINES.to_vec();
            lines[at] = other;
            assert!(verify(&lines).0.is_some(), "{other}");
        }
    }
}

//! What threads recorded of `gdq_distributed.h`, each on its own, merged and told to the core's policy.

use std::process::Command;

use prorata::Setup;
use prorata::policies::gdq::distributed::steps::{Kind, Merge, Replay, Step};

mod native;

const QUANTUM_NS: u64 = 5_000_000;
/// As `threads_apart.c` has them.
const CPUS: usize = 4;
const OPTIONS: &str = "t=4,delta=1";

/// The lines that four threads wrote.
fn record(flags: &[&str], events: u64, seed: u64) -> Vec<String> {
    let flags = [&["-DRECORDED", "-pthread"], flags].concat();
    let program = native::compile("threads_apart.c", "gdq_distributed", &flags);
    let output = Command::new(program).args([events.to_string(), seed.to_string()]).output();
    let output = output.expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}:\n{said}", output.status);
    let text = String::from_utf8(output.stdout).expect("text");
    let mut lines: Vec<String> = text.lines().map(named).collect();
    assert_eq!(lines.pop(), Some(events.to_string()));
    lines
}

/// A line with the kind's name for its number.
fn named(line: &str) -> String {
    let mut words: Vec<&str> = line.split(' ').collect();
    if words.len() > 1 {
        let kind: usize = words[1].parse().expect("a number");
        words[1] = Kind::ALL[kind].1;
    }
    words.join(" ")
}

/// Decisions and late looks; or the line at which the policy does something else.
fn replay(lines: &[String]) -> Result<(u64, u64), String> {
    replay_with(OPTIONS, lines)
}

fn replay_with(options: &str, lines: &[String]) -> Result<(u64, u64), String> {
    let line = |number: u64| &lines[usize::try_from(number).expect("lines are few")];
    let mut merge = Merge::new(CPUS);
    let mut replay = Replay::new(options, &Setup::new(CPUS, QUANTUM_NS)).expect("a policy");
    for (line, number) in lines.iter().zip(0..) {
        let step = Step::parse(line).and_then(|step| merge.push(number, step));
        step.map_err(|wrong| format!("{line}: {wrong}"))?;
    }
    let told = |number: u64, wrong| format!("{}: {wrong}", line(number));
    while let Some((number, step)) = merge.pop() {
        replay.step(&step).map_err(|wrong| told(number, wrong))?;
    }
    merge.stuck().map_or(Ok(()), |(number, wrong)| Err(told(number, wrong)))?;
    replay.end()?;
    Ok((replay.picks(), replay.late()))
}

#[test]
fn what_threads_recorded_is_what_the_policy_does() {
    for seed in 1..4 {
        let lines = record(&["-fsanitize=thread"], 100_000, seed);
        let (picks, late) = replay(&lines).unwrap_or_else(|wrong| panic!("seed {seed}, {wrong}"));
        println!("seed {seed}: {} steps, {picks} decisions, {late} late", lines.len());
        assert!(picks > 20_000 && late < picks, "{picks} decisions, {late} late");
    }
}

#[test]
fn nothing_is_late_where_one_event_comes_after_the_other() {
    let lines = record(&["-DIN_TURN"], 200_000, 1);
    let (picks, late) = replay(&lines).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(picks > 40_000 && late == 0, "{picks} decisions, {late} late");
}

fn one_after_the_other() -> Vec<String> {
    record(&["-DIN_TURN"], 20_000, 1)
}

/// Each line of the first half that is such a step, altered one at a time: so many were, and were found.
fn altered(
    lines: &[String],
    step: &str,
    alter: impl Fn(&mut Vec<String>, usize),
) -> (usize, usize) {
    let is_one = |line: &String| line.split(' ').nth(1) == Some(step);
    let places: Vec<usize> = (0..lines.len() / 2).filter(|&at| is_one(&lines[at])).collect();
    let some: Vec<usize> = places.iter().copied().step_by(places.len() / 20 + 1).collect();
    let is_found = |&&at: &&usize| {
        let mut altered = lines.to_vec();
        alter(&mut altered, at);
        // A look without a latch may come late: where one event came after the other none did.
        replay(&altered).map_or(true, |(_, late)| late > 0)
    };
    (some.len(), some.iter().filter(is_found).count())
}

fn replace(lines: &mut [String], at: usize, word: usize, by: impl Fn(u64) -> u64) {
    let mut words: Vec<String> = lines[at].split(' ').map(str::to_owned).collect();
    words[word] = by(words[word].parse().expect("a number")).to_string();
    lines[at] = words.join(" ");
}

#[test]
fn a_line_that_is_missing_is_found() {
    let lines = one_after_the_other();
    for step in ["wake", "pick", "steal", "tell"] {
        let (some, found) = altered(&lines, step, |lines, at| drop(lines.remove(at)));
        assert!(some > 5 && found == some, "{found} of {some} {step}s");
    }
}

#[test]
fn another_task_is_found() {
    let lines = one_after_the_other();
    for step in ["pick", "steal", "refill"] {
        let (some, found) =
            altered(&lines, step, |lines, at| replace(lines, at, 3, |task| task ^ 1));
        assert!(some > 5 && found == some, "{found} of {some} {step}s");
    }
}

#[test]
fn another_value_is_found() {
    let lines = one_after_the_other();
    for (step, another) in [("told", 1 << 16), ("place", 1 << 16), ("arrive", 1), ("pass", 1)] {
        let (some, found) =
            altered(&lines, step, |lines, at| replace(lines, at, 4, |v| v ^ another));
        assert!(some > 5 && found == some, "{found} of {some} {step}s");
    }
}

/// Two decisions of one cpu, with the counts of each other.
#[test]
fn swapped_decisions_are_found() {
    let lines = one_after_the_other();
    let (some, found) = altered(&lines, "pick", |lines, at| {
        let word = |line: &str, at| line.split(' ').nth(at).map(str::to_owned);
        let is_next = |line: &&String| word(line, 1) == word(&lines[at], 1);
        let next = lines[at + 1..].iter().position(|line| is_next(&line)).expect("a pick");
        let tasks = [at, at + 1 + next].map(|at| word(&lines[at], 3).expect("a task"));
        let counts = [at, at + 1 + next].map(|at| word(&lines[at], 6).expect("a count"));
        for (place, from) in [(at, 1), (at + 1 + next, 0)] {
            replace(lines, place, 3, |_| tasks[from].parse().expect("a number"));
            replace(lines, place, 6, |_| counts[from].parse().expect("a number"));
        }
    });
    assert!(some > 5 && found == some, "{found} of {some}");
}

#[test]
fn other_options_are_found() {
    let lines = one_after_the_other();
    let with = |options: &str| replay_with(options, &lines);
    assert!(matches!(with(OPTIONS), Ok((_, 0))));
    for other in ["t=5,delta=1", "t=4,delta=2"] {
        assert!(with(other).is_err(), "{other}");
    }
}

//! What tasks count for that may not run on every cpu, against the ideal found by looking at all sets of
//! cpus.
//!
//! `bound.h` is compiled natively under the address and undefined-behaviour sanitizers (`bound.c`) and told
//! of tasks that come, go and get other masks. A policy of several cpus that is told what it says, and of
//! the cpus that are left idle as tasks of their own, must give each task what is ideal.

use std::fmt::Write as _;

use prorata::masks::{self, Mask};
use prorata::{Weight, weights};

mod native;
mod random;

use random::Random;

const HISTORY: usize = 600;
const LOOK: usize = 6;
const TASKS: usize = 24;
/// What others' rounding may make of a rate; its own weight is a whole number, too.
const ROUNDING: f64 = 0.002;
const SANITIZED: &[&str] = &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

#[derive(Clone, Copy)]
struct Task {
    weight: u32,
    mask: Mask,
    runs: bool,
}

/// Masks of which any two have no cpu in common, or one is within the other.
fn nested(random: &mut Random, cpus: u32) -> Vec<Mask> {
    let mut masks = vec![(1 << cpus) - 1];
    let mut at = 0;
    while at < masks.len() {
        let mask: Mask = masks[at];
        let split = 1 << random.below(cpus as usize);
        let (low, high) = (mask & (split - 1), mask & !(split - 1));
        if low != 0 && high != 0 {
            masks.extend([low, high]);
        }
        at += 1;
    }
    masks
}

/// The changes of a seed, and at each look what the runnable tasks are due.
fn history(seed: u64) -> (u32, String, Vec<Vec<(usize, f64)>>) {
    let mut random = Random(seed);
    let cpus = u32::try_from(1 + random.below(6)).expect("few");
    let masks = nested(&mut random, cpus);
    let (mut changes, mut dues) = (format!("i {cpus}\n"), Vec::new());
    let mut tasks: Vec<Task> = Vec::new();
    for id in 0..TASKS {
        let weight = match random.below(3) {
            0 => 1 + random.below(4),
            1 => 1024,
            _ => 15 + random.below(90_000),
        };
        let weight = u32::try_from(weight).expect("below 10^5");
        writeln!(changes, "a {id} {weight}").expect("a string takes everything");
        tasks.push(Task { weight, mask: masks[0], runs: false });
    }
    for number in 0..HISTORY {
        let (id, mask) = (random.below(TASKS), masks[random.below(masks.len())]);
        let change = if random.below(3) == 0 {
            tasks[id].mask = mask;
            format!("m {id} {mask}")
        } else {
            tasks[id].runs ^= true;
            format!("{} {id}", if tasks[id].runs { 'j' } else { 'p' })
        };
        writeln!(changes, "{change}").expect("a string takes everything");
        if number % LOOK == 0 {
            changes.push_str("q\n");
            dues.push(due(&tasks, cpus));
        }
    }
    (cpus, changes, dues)
}

fn due(tasks: &[Task], cpus: u32) -> Vec<(usize, f64)> {
    let runnable: Vec<usize> = (0..tasks.len()).filter(|&id| tasks[id].runs).collect();
    let known: Vec<(Weight, Mask)> =
        runnable.iter().map(|&id| (weight(tasks[id].weight), tasks[id].mask)).collect();
    let rates = masks::rates(&known, cpus).into_iter().map(masks::Rate::in_cpus);
    runnable.into_iter().zip(rates).collect()
}

fn weight(number: u32) -> Weight {
    Weight::new(number).expect("it is not 0")
}

/// What a policy of so many cpus gives to tasks of these weights, where some cpus are left idle.
fn given(told: &[u32], idle: usize, cpus: u32) -> Vec<f64> {
    let mut sorted: Vec<Weight> = told.iter().map(|&number| weight(number)).collect();
    sorted.extend(std::iter::repeat_n(Weight::MAX, idle));
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let cap = weights::sorted(&sorted, cpus as usize);
    let total: f64 = sorted.iter().map(|&other| cap.effective(other) as f64).sum();
    let share = |&number| cap.effective(weight(number)) as f64 / total;
    told.iter().map(|number| (share(number) * f64::from(cpus)).min(1.0)).collect()
}

/// The first rate that is not what is due, in the histories of these seeds; weights are what
/// `told` makes of them.
fn wrong(seeds: std::ops::Range<u64>, told_as: fn(u32) -> u32) -> Option<String> {
    let program = native::build("bound.c", "bound.h", SANITIZED);
    for seed in seeds {
        let (cpus, changes, dues) = history(seed);
        let answer = native::answer(&program, &changes);
        let mut lines = answer.lines();
        for (look, mut due) in dues.into_iter().enumerate() {
            let mut told = Vec::new();
            let idle = loop {
                let (first, second) = lines.next().and_then(|l| l.split_once(' ')).expect("a look");
                let second: u32 = second.parse().expect("a number");
                if first == "idle" {
                    break second as usize;
                }
                told.push((first.parse::<usize>().expect("a task"), told_as(second)));
            };
            told.sort_unstable();
            due.sort_unstable_by_key(|&(id, _)| id);
            let weights: Vec<u32> = told.iter().map(|&(_, weight)| weight).collect();
            let given = given(&weights, idle, cpus);
            for ((&(id, due), given), told) in due.iter().zip(given).zip(weights) {
                if (given - due).abs() > ROUNDING * due + given / f64::from(told) {
                    return Some(format!(
                        "seed {seed}, {cpus} cpus, look {look}, task {id}: {given}, not {due}"
                    ));
                }
            }
        }
    }
    None
}

#[test]
fn tasks_count_for_what_their_cpus_can_give() {
    assert_eq!(wrong(0..200, |weight| weight), None);
}

#[test]
fn other_weights_are_noticed() {
    assert!(wrong(0..10, |weight| weight + weight / 50 * (weight % 2)).is_some());
}

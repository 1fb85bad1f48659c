//! Looks for weight sets that break the P-fairness of DFS with the paper's two tie rules, in the
//! ideal model (unit quanta in step, fixed set). Seeded, parallel.
//!
//! ```text
//! cargo run --release -p prorata --example dfs_search -- [SETS [SEED [LEAST_P MOST_P [TIES]]]]
//! ```
//!
//! TIES is `paper` (both rules), `raised` (rule 1 only), `none`, or `pd2` (rule 1 and the group
//! deadline of PD², which is proven P-fair: the control).
//!
//! A set is n weights of sum P·d, none above d, so that weight w is worth w/d of a cpu and the
//! schedule repeats after d quanta. n is P + 1 to P + 8 and d up to 60; half of the sets favour
//! tasks worth more than half a cpu, which have the tightest windows.

use std::env;
use std::thread;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((((z ^ (z >> 31)) >> 32) * u64::from(end)) >> 32) as u32
    }

    fn between(&mut self, least: u32, most: u32) -> u32 {
        least + self.below(most - least + 1)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ties {
    Paper,
    Raised,
    None,
    Pd2,
}

/// A task worth `weight`/d of a cpu, before its quantum `done`.
#[derive(Clone, Copy, Default)]
struct Task {
    weight: u32,
    done: u32,
    /// The first slot in which it may run.
    opens: u32,
    /// Its place among the eligible: deadline, rule 1, rule 2, index.
    key: u64,
}

impl Task {
    fn new(weight: u32, index: usize, d: u32, ties: Ties) -> Task {
        let mut task = Task { weight, key: index as u64, ..Task::default() };
        task.restamp(d, ties);
        task
    }

    fn restamp(&mut self, d: u32, ties: Ties) {
        let (w, index) = (self.weight, self.key & 0xff);
        let close = (self.done + 1) * d;
        self.opens = self.done * d / w;
        let deadline = close.div_ceil(w);
        let exact = ties != Ties::None && close.is_multiple_of(w);
        let then = match ties {
            Ties::Paper => (close + d).div_ceil(w),
            Ties::Pd2 if 2 * w < d || exact => u32::MAX >> 8,
            Ties::Pd2 => {
                let idle = (deadline * (d - w)).div_ceil(d);
                (u32::MAX >> 8) - (idle * d).div_ceil(d - w)
            }
            Ties::Raised | Ties::None => 0,
        };
        self.key =
            u64::from(deadline) << 40 | u64::from(exact) << 32 | u64::from(then) << 8 | index;
    }
}

/// How far behind its due the worst task gets at the end of any quantum, in parts of 1/d of a
/// quantum: P-fair is less than d.
fn furthest_behind(weights: &[u32], cpus: usize, d: u32, ties: Ties) -> u32 {
    let mut tasks = [Task::default(); 24];
    let tasks = &mut tasks[..weights.len()];
    for (index, (task, &weight)) in tasks.iter_mut().zip(weights).enumerate() {
        *task = Task::new(weight, index, d, ties);
    }
    let mut keys = [0u64; 24];
    let mut furthest = 0;
    for time in 0..d {
        let mut eligible = 0;
        for task in tasks.iter().filter(|task| task.opens <= time) {
            keys[eligible] = task.key;
            eligible += 1;
        }
        let keys = &mut keys[..eligible];
        if eligible > cpus {
            keys.select_nth_unstable(cpus - 1);
        }
        for key in keys.iter().take(cpus) {
            let task = &mut tasks[(key & 0xff) as usize];
            task.done += 1;
            task.restamp(d, ties);
        }
        let behind = |task: &Task| ((time + 1) * task.weight).saturating_sub(task.done * d);
        furthest = tasks.iter().map(behind).fold(furthest, u32::max);
    }
    furthest
}

/// Weights of sum `cpus`·d, each 1..=d, in random order.
fn random_set(random: &mut Random, cpus: u32, set: &mut Vec<u32>) -> u32 {
    let d = random.between(3, 60);
    let count = (cpus + random.between(1, 8)).min(cpus * d);
    let heavy = random.below(2) == 0;
    set.clear();
    let mut left = cpus * d;
    for rest in (0..count).rev() {
        // The others need 1 to d each.
        let least = left.saturating_sub(rest * d).max(1);
        let most = left.saturating_sub(rest).min(d);
        let wish = if heavy && random.below(4) > 0 {
            random.between(d / 2, d)
        } else {
            random.between(1, d)
        };
        set.push(wish.clamp(least, most));
        left -= set[set.len() - 1];
    }
    for i in (1..set.len()).rev() {
        let other = random.below(u32::try_from(i + 1).unwrap_or(1)) as usize;
        set.swap(i, other);
    }
    d
}

fn search(sets: u64, seed: u64, least: u32, most: u32, ties: Ties) -> Vec<(usize, u32, Vec<u32>)> {
    let mut random = Random(seed);
    let mut set = Vec::new();
    let mut found = Vec::new();
    for _ in 0..sets {
        let cpus = random.between(least, most);
        let d = random_set(&mut random, cpus, &mut set);
        if furthest_behind(&set, cpus as usize, d, ties) >= d {
            found.push((cpus as usize, d, set.clone()));
        }
    }
    found
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = |i: usize, default: u64| {
        arguments.get(i).map_or(default, |text| text.parse().expect("a number"))
    };
    let (sets, seed) = (number(0, 1_000_000), number(1, 1));
    let cpus = |i, default| u32::try_from(number(i, default)).expect("a few cpus");
    let (least, most) = (cpus(2, 3), cpus(3, 8));
    let ties = match arguments.get(4).map_or("paper", String::as_str) {
        "paper" => Ties::Paper,
        "raised" => Ties::Raised,
        "none" => Ties::None,
        "pd2" => Ties::Pd2,
        other => panic!("TIES is paper, raised, none or pd2, not '{other}'"),
    };
    let threads = thread::available_parallelism().map_or(1, usize::from) as u64;
    let mut found: Vec<_> = thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|i| {
                let seed = seed.wrapping_mul(threads).wrapping_add(i).wrapping_mul(0x5851_F42D);
                scope.spawn(move || search(sets / threads, seed, least, most, ties))
            })
            .collect();
        handles.into_iter().flat_map(|handle| handle.join().expect("no panic")).collect()
    });
    found.sort_by_key(|(cpus, d, set)| (cpus * *d as usize, set.len()));
    println!("{} of {} sets break P-fairness", found.len(), sets / threads * threads);
    let behind = |(cpus, d, set): &(usize, u32, Vec<u32>)| furthest_behind(set, *cpus, *d, ties);
    for case @ (cpus, d, set) in found.iter().take(5) {
        println!("  {cpus} cpus, weights {set:?} of {d}: behind by {}/{d}", behind(case));
    }
    let ratio = |case: &(usize, u32, Vec<u32>)| f64::from(behind(case)) / f64::from(case.1);
    if let Some(worst) = found.iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b))) {
        println!(
            "worst: {} cpus, {:?} of {}: {:.3} quanta",
            worst.0,
            worst.2,
            worst.1,
            ratio(worst)
        );
    }
}

//! Campaigns over tasks that sleep, beside the fluid ideal: how far every task's service is from it
//! at most, in quanta, under every policy that schedules by weight.
//!
//! ```text
//! cargo run --release -p prorata --example sleepers -- table [POLICY …]
//! cargo run --release -p prorata --example sleepers -- mixes COUNT SEED [POLICY …]
//! ```

use std::env;

use prorata::policies::{self, Entry, REGISTRY};
use prorata::{Checked, Nanos, Policy, Setup, Sleepers, Turns};

fn weight(n: u32) -> prorata::Weight {
    prorata::Weight::new(n).expect("not 0")
}

#[path = "../tests/common/machine.rs"]
mod machine;

use machine::{Demand, Machine, Result};

const MS: Nanos = 1_000_000;
const QUANTUM_NS: Nanos = 5 * MS;

type Case = (String, usize, Vec<Demand>);

fn hogs(weight: u32, count: usize) -> Vec<Demand> {
    vec![Demand::hog(weight); count]
}

fn sleepers(weight: u32, count: u32, run_us: u64, period_us: u64) -> Vec<Demand> {
    let sleeper = |i: u32| Demand {
        weight,
        period_ns: period_us * 1000,
        run_ns: run_us * 1000,
        first_ns: period_us * 1000 * u64::from(i) / u64::from(count),
    };
    (0..count).map(sleeper).collect()
}

fn table() -> Vec<Case> {
    let case = |name: &str, cpus, parts: Vec<Vec<Demand>>| (name.to_string(), cpus, parts.concat());
    vec![
        case("9 hogs + .5/5", 1, vec![hogs(1, 9), sleepers(1, 1, 500, 5_000)]),
        case(
            "4h300 12h100 8s100 1/16.6 4s50 .1/5, 2 cpus",
            2,
            vec![
                hogs(300, 4),
                hogs(100, 12),
                sleepers(100, 8, 1_000, 16_600),
                sleepers(50, 4, 100, 5_000),
            ],
        ),
        case(
            "16h 2s 4.9/5 4s 5/25, 2 cpus",
            2,
            vec![hogs(1, 16), sleepers(1, 2, 4_900, 5_000), sleepers(1, 4, 5_000, 25_000)],
        ),
        case(
            "16h .2/10 4s 1/20, 2 cpus",
            2,
            vec![hogs(1, 16), sleepers(1, 1, 200, 10_000), sleepers(1, 4, 1_000, 20_000)],
        ),
        case(
            "capped hogs, s101 2.582/23.036, 8 cpus",
            8,
            vec![
                [16, 4, 1, 45, 14, 79, 8, 84, 4, 50].map(Demand::hog).to_vec(),
                sleepers(101, 1, 2_582, 23_036),
            ],
        ),
    ]
}

/// A small generator (`SplitMix64`).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    /// Up to 1000, of any order with equal probability.
    fn weight(&mut self) -> u32 {
        let order = self.below(10);
        u32::try_from(((1 << order) + self.below(1 << order)).min(1000)).expect("small")
    }
}

fn mix(seed: u64) -> Case {
    let mut random = Random(seed.wrapping_mul(0x1234_5678_9abc_def1));
    let cpus = [1, 1, 2, 2, 3, 4, 6, 8][random.below(8) as usize];
    let (hogs, sleepers) = (1 + random.below(12), 1 + random.below(12));
    let mut demands = Vec::new();
    for _ in 0..hogs {
        demands.push(Demand::hog(random.weight()));
    }
    for _ in 0..sleepers {
        let period_ns = MS + random.below(40 * MS);
        let run_ns = match random.below(3) {
            0 => period_ns / 100 * (1 + random.below(5)),
            1 => period_ns / 100 * (1 + random.below(30)),
            _ => period_ns / 100 * (1 + random.below(98)),
        };
        let first_ns = random.below(period_ns);
        demands.push(Demand { weight: random.weight(), period_ns, run_ns, first_ns });
    }
    let cpus = cpus.min(demands.len() - 1);
    (format!("mix {seed}"), cpus, demands)
}

fn built(entry: &Entry, sleepers: Sleepers, setup: &Setup) -> Box<dyn Policy + Send> {
    let inner = (entry.build)(setup, &mut policies::Options::default()).expect("defaults");
    match sleepers {
        Sleepers::Paper => inner,
        Sleepers::Turns => {
            let inner = Checked::new(inner, setup).work_conserving(entry.work_conserving);
            let turns = Turns::new(inner, setup, entry.payment);
            Box::new(Checked::new(turns, setup).work_conserving(entry.work_conserving))
        }
    }
}

fn simulate(
    entry: &Entry,
    sleepers: Sleepers,
    case: &Case,
    end_ns: Nanos,
) -> (Vec<Result>, Vec<Vec<Nanos>>) {
    let setup = Setup::new(case.1, QUANTUM_NS);
    let policy = built(entry, sleepers, &setup);
    let mut machine = Machine::new(policy, case.1, QUANTUM_NS, &case.2);
    let results = machine.run(end_ns);
    (results, machine.waits_ns)
}

fn row(entry: &Entry, sleepers: Sleepers, case: &Case, end_ns: Nanos) {
    let (results, waits_ns) = simulate(entry, sleepers, case, end_ns);
    let behind = results.iter().map(|r| r.behind).fold(0.0, f64::min);
    let ahead = results.iter().map(|r| r.ahead).fold(0.0, f64::max);
    let hog = |r: &&Result| r.asked == 0;
    let hogs_behind = results.iter().filter(hog).map(|r| r.behind).fold(0.0, f64::min);
    let hogs_ahead = results.iter().filter(hog).map(|r| r.ahead).fold(0.0, f64::max);
    let served: f64 = results.iter().filter(|r| r.asked > 0).map(|r| r.served_ns as f64).sum();
    let ideal: f64 = results.iter().filter(|r| r.asked > 0).map(|r| r.ideal_ns).sum();
    let mut waits: Vec<Nanos> = waits_ns
        .iter()
        .zip(&results)
        .filter(|(_, r)| r.asked > 0)
        .flat_map(|(w, _)| w.iter().copied())
        .collect();
    waits.sort_unstable();
    let p99 = waits.get(waits.len() * 99 / 100).copied().unwrap_or(0);
    println!(
        "{:12} {:6} served {:6.2}% p99 {:7.3} ms  all {behind:8.2}..{ahead:<7.2} hogs {hogs_behind:8.2}..{hogs_ahead:<7.2}",
        entry.name,
        format!("{sleepers:?}"),
        100.0 * served / ideal,
        p99 as f64 / 1e6
    );
}

fn chosen(names: &[String]) -> Vec<&'static Entry> {
    let wanted = |entry: &&Entry| names.is_empty() || names.iter().any(|n| n == entry.name);
    REGISTRY.iter().filter(wanted).collect()
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("table") => {
            for case in table() {
                println!("{}", case.0);
                for entry in chosen(&arguments[1..]) {
                    if case.1 == 1 || entry.multiprocessor {
                        row(entry, Sleepers::Paper, &case, 20_000 * MS);
                        row(entry, Sleepers::Turns, &case, 20_000 * MS);
                    }
                }
            }
        }
        Some("show") => {
            let case = mix(arguments[1].parse().expect("a number"));
            let total: u32 = case.2.iter().map(|d| d.weight).sum();
            println!("{} cpus, weight {total}", case.1);
            for entry in chosen(&arguments[2..]) {
                let (results, waits) = simulate(entry, Sleepers::Turns, &case, 5_000 * MS);
                for ((demand, r), waits) in case.2.iter().zip(&results).zip(waits) {
                    println!(
                        "weight {:5} share {:5.2} asks {:5.2} ({:6.3}/{:6.3} ms) served {:5.2} ideal {:5.2}: {:7.2}..{:<7.2} missed {} ({}) mean wait {:.2}",
                        demand.weight,
                        f64::from(demand.weight) * case.1 as f64 / f64::from(total),
                        demand.run_ns as f64 / demand.period_ns as f64,
                        demand.run_ns as f64 / 1e6,
                        demand.period_ns as f64 / 1e6,
                        r.served_ns as f64 / 5e9,
                        r.ideal_ns / 5e9,
                        r.behind,
                        r.ahead,
                        r.missed,
                        r.ideal_missed,
                        waits.iter().sum::<u64>() as f64 / waits.len() as f64 / 1e6,
                    );
                }
            }
        }
        Some("mixes") => {
            let count: u64 = arguments[1].parse().expect("a number");
            let seed: u64 = arguments[2].parse().expect("a number");
            for entry in chosen(&arguments[3..]) {
                let mut all = Vec::new();
                for seed in seed..seed + count {
                    let case = mix(seed);
                    if case.1 > 1 && !entry.multiprocessor {
                        continue;
                    }
                    let (results, _) = simulate(entry, Sleepers::Turns, &case, 5_000 * MS);
                    let worst = results.iter().map(|r| r.ahead.max(-r.behind)).fold(0.0, f64::max);
                    all.push((worst, seed, case.1));
                }
                for many in [false, true] {
                    let mut some: Vec<_> =
                        all.iter().filter(|x| (x.2 > 1) == many).copied().collect();
                    if some.is_empty() {
                        continue;
                    }
                    some.sort_by(|a, b| a.0.total_cmp(&b.0));
                    let at = |part: usize| some[(some.len() - 1) * part / 100].0;
                    println!(
                        "{:12} {} cpus {:4} mixes: median {:6.2} p90 {:6.2} worst {:6.2} {:?}",
                        entry.name,
                        if many { "n" } else { "1" },
                        some.len(),
                        at(50),
                        at(90),
                        at(100),
                        some.iter()
                            .rev()
                            .take(4)
                            .map(|x| (x.1, x.2, (x.0 * 10.0).round() / 10.0))
                            .collect::<Vec<_>>()
                    );
                }
            }
        }
        _ => eprintln!("table or mixes COUNT SEED, and perhaps policies"),
    }
}

//! Campaigns over tasks that sleep, beside the fluid ideal: how far every task's service is from it
//! at most, in quanta, under every policy that schedules by weight.
//!
//! ```text
//! cargo run --release -p prorata --example sleepers -- table [POLICY …]
//! cargo run --release -p prorata --example sleepers -- mixes COUNT SEED [POLICY …]
//! cargo run --release -p prorata --example sleepers -- show SEED [POLICY …]
//! ```

use std::env;

use prorata::policies::{self, Entry, REGISTRY};
use prorata::{Checked, Corrected, Nanos, Policy, Setup, Sleepers, Turns};

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

    fn index(&mut self, limit: u64) -> usize {
        usize::try_from(self.below(limit)).expect("small")
    }

    /// Up to 1000, of any order with equal probability.
    fn weight(&mut self) -> u32 {
        let order = self.below(10);
        u32::try_from(((1 << order) + self.below(1 << order)).min(1000)).expect("small")
    }
}

fn mix(seed: u64) -> Case {
    let mut random = Random(seed.wrapping_mul(0x1234_5678_9abc_def1));
    let cpus = [1, 1, 2, 2, 3, 4, 6, 8][random.index(8)];
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
        Sleepers::Corrected => {
            let inner = Checked::new(inner, setup).work_conserving(entry.work_conserving);
            let corrected = Corrected::new(inner, setup);
            Box::new(Checked::new(corrected, setup).work_conserving(entry.work_conserving))
        }
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

fn extremes<'a>(results: impl Iterator<Item = &'a Result>) -> (f64, f64) {
    results.fold((0.0, 0.0), |(low, high), r| (low.min(r.behind), high.max(r.ahead)))
}

#[allow(clippy::cast_precision_loss)]
fn row(entry: &Entry, sleepers: Sleepers, case: &Case, end_ns: Nanos) {
    let (results, waits_ns) = simulate(entry, sleepers, case, end_ns);
    let (behind, ahead) = extremes(results.iter());
    let (hogs_behind, hogs_ahead) = extremes(results.iter().filter(|r| r.asked == 0));
    let sleepers_of = || results.iter().filter(|r| r.asked > 0);
    let served: f64 = sleepers_of().map(|r| r.served_ns as f64).sum();
    let ideal: f64 = sleepers_of().map(|r| r.ideal_ns).sum();
    let asked = waits_ns.iter().zip(&results).filter(|(_, r)| r.asked > 0);
    let mut waits: Vec<Nanos> = asked.flat_map(|(waits, _)| waits.iter().copied()).collect();
    waits.sort_unstable();
    let p99_ms = waits.get(waits.len() * 99 / 100).map_or(0.0, |&ns| ns as f64 / 1e6);
    println!(
        "{:12} {:9} served {:6.2} % p99 {p99_ms:7.3} ms  all {behind:8.2}..{ahead:<7.2} hogs \
         {hogs_behind:8.2}..{hogs_ahead:<7.2}",
        entry.name,
        format!("{sleepers:?}"),
        100.0 * served / ideal,
    );
}

fn chosen(names: &[String]) -> Vec<&'static Entry> {
    let wanted = |entry: &&Entry| names.is_empty() || names.iter().any(|n| n == entry.name);
    REGISTRY.iter().filter(wanted).collect()
}

/// Who is how far off in one mix.
#[allow(clippy::cast_precision_loss)]
fn show(seed: u64, entry: &Entry) {
    const END_NS: Nanos = 5_000 * MS;
    let case = mix(seed);
    let (results, _) = simulate(entry, Sleepers::default(), &case, END_NS);
    println!("{}, {} cpus, {}", entry.name, case.1, case.0);
    for (demand, r) in case.2.iter().zip(&results) {
        let of_a_cpu = |ns: f64| ns / END_NS as f64;
        println!(
            "weight {:5} runs {:7.3} of {:7.3} ms: received {:.3} cpus, ideal {:.3}: {:7.2}..{:.2} \
             quanta, missed {} ({})",
            demand.weight,
            demand.run_ns as f64 / 1e6,
            demand.period_ns as f64 / 1e6,
            of_a_cpu(r.served_ns as f64),
            of_a_cpu(r.ideal_ns),
            r.behind,
            r.ahead,
            r.missed,
            r.ideal_missed,
        );
    }
}

/// The largest distances in `count` mixes, under one rule.
fn campaign(count: u64, first: u64, entry: &Entry, sleepers: Sleepers) {
    let mut worst: [Vec<(f64, u64)>; 4] = Default::default();
    for seed in first..first + count {
        let case = mix(seed);
        if case.1 > 1 && !entry.multiprocessor {
            continue;
        }
        let (results, _) = simulate(entry, sleepers, &case, 5_000 * MS);
        let (behind, ahead) = extremes(results.iter());
        let serves_all = results.iter().all(|result| result.ideal_missed == 0);
        let kind = usize::from(case.1 > 1) + 2 * usize::from(serves_all);
        worst[kind].push((ahead.max(-behind), seed));
        if (seed - first + 1).is_multiple_of(100) {
            eprintln!("{}: {} of {count} mixes", entry.name, seed - first + 1);
        }
    }
    let all = worst.concat();
    let kinds =
        ["1 cpu, misses", "2-8 cpus, misses", "1 cpu, serves all", "2-8 cpus, serves all", "all"];
    for (mut found, kind) in worst.into_iter().chain([all]).zip(kinds) {
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        let Some(last) = found.len().checked_sub(1) else { continue };
        let at = |part: usize| found[last * part / 100].0;
        println!(
            "{:12} {:9} ideal on {kind:20} {:4} mixes: median {:6.2}, 90 % {:6.2}, 99 % {:6.2}, \
             worst {:6.2} (seed {})",
            entry.name,
            format!("{sleepers:?}"),
            found.len(),
            at(50),
            at(90),
            at(99),
            at(100),
            found[last].1,
        );
    }
}

fn number(arguments: &[String], at: usize) -> u64 {
    arguments.get(at).and_then(|word| word.parse().ok()).unwrap_or_else(|| {
        eprintln!("argument {} is to be a number", at + 1);
        std::process::exit(2)
    })
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("table") => {
            for case in table() {
                println!("{}", case.0);
                let fits = |entry: &&&Entry| case.1 == 1 || entry.multiprocessor;
                for entry in chosen(&arguments[1..]).iter().filter(fits) {
                    for sleepers in [Sleepers::Paper, Sleepers::Turns, Sleepers::Corrected] {
                        row(entry, sleepers, &case, 20_000 * MS);
                    }
                }
            }
        }
        Some("mixes") => {
            let (count, seed) = (number(&arguments, 1), number(&arguments, 2));
            for entry in chosen(&arguments[3..]) {
                campaign(count, seed, entry, Sleepers::Turns);
                campaign(count, seed, entry, Sleepers::Corrected);
            }
        }
        Some("show") => {
            let seed = number(&arguments, 1);
            chosen(&arguments[2..]).iter().for_each(|entry| show(seed, entry));
        }
        _ => {
            eprintln!("table [POLICY …], mixes COUNT SEED [POLICY …] or show SEED [POLICY …]");
            std::process::exit(2);
        }
    }
}

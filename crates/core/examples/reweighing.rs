//! Campaigns over tasks whose weights change, beside the exact ideal: the largest distance of any task
//! from it, in quanta, for every policy that shares by weight, as its paper has it and with
//! corrected turns.
//!
//! ```text
//! cargo run --release -p prorata --example reweighing -- COUNT TASKS QUANTA [POLICY …]
//! ```

use std::env;

use prorata::policies::{self, Entry, REGISTRY};
use prorata::{Checked, Policy, Setup, Sleepers};

#[path = "../tests/common/mod.rs"]
mod common;

use common::QUANTUM_NS;
use common::reweighed::{Case, Pattern};

fn built(entry: &Entry, cpus: usize, sleepers: Sleepers) -> impl Policy + use<> {
    let setup = Setup { sleepers, ..Setup::new(cpus, QUANTUM_NS) };
    let policy = policies::build(entry.name, &setup).expect("it is registered");
    Checked::new(policy, &setup).work_conserving(entry.work_conserving)
}

struct Campaign {
    count: u64,
    tasks: u32,
    quanta: u64,
}

impl Campaign {
    /// Of all cases of one pattern.
    fn worst(&self, entry: &Entry, pattern: Pattern, cpus: usize, how: Sleepers) -> (f64, f64) {
        (0..self.count).fold((0.0, 0.0), |all, seed| {
            let case = Case::new(pattern, cpus, self.tasks, seed);
            let one = case.worst(built(entry, cpus, how), self.quanta);
            (f64::min(all.0, one.0), f64::max(all.1, one.1))
        })
    }

    fn row(&self, entry: &Entry, cpus: usize) {
        for how in [Sleepers::Paper, Sleepers::Corrected] {
            let worst = Pattern::ALL.map(|pattern| self.worst(entry, pattern, cpus, how));
            let all =
                worst.iter().fold((0.0, 0.0), |a, b| (f64::min(a.0, b.0), f64::max(a.1, b.1)));
            let cells = worst.map(|(low, high)| format!("{low:6.1}..{high:<5.1}")).concat();
            let how = format!("{how:?}");
            println!("{:12} {cpus} {how:9} {:7.1}..{:<7.1} {cells}", entry.name, all.0, all.1);
        }
    }
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let numbers: Vec<u64> = arguments.iter().map_while(|word| word.parse().ok()).collect();
    let [count, tasks, quanta] = numbers[..] else {
        eprintln!("COUNT TASKS QUANTA [POLICY …]");
        std::process::exit(2);
    };
    let tasks = u32::try_from(tasks).expect("few tasks");
    let campaign = Campaign { count, tasks, quanta };
    let names = &arguments[3..];
    let is_chosen = |entry: &&Entry| names.is_empty() || names.iter().any(|n| n == entry.name);
    println!("policy, cpus, how; then {:?}", Pattern::ALL);
    for entry in REGISTRY.iter().filter(|entry| entry.by_weight).filter(is_chosen) {
        for cpus in [1, 2, 4, 8].into_iter().filter(|&cpus| cpus == 1 || entry.multiprocessor) {
            campaign.row(entry, cpus);
        }
    }
}

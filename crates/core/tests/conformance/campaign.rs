//! Random sets and random turmoil without end, each from a seed of its own: `cargo xtask decisions` runs
//! them by the billion, the tests some of them.

use std::fmt::Write as _;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use prorata::policies::{Entry, REGISTRY};
use prorata::{Checked, Corrected, Policy, Setup, Turns};

use crate::common::QUANTUM_NS;
use crate::fixed::hold_claims;
use crate::turmoil::{Mix, stir_as_patient};
use crate::{Random, Watched, watched};

/// Decisions of a round, about.
const ROUND: u32 = 4000;

/// What `seed` makes: a policy of the registry, cpus, and either a fixed set, in which its bound must hold,
/// or tasks in turmoil, bare or with turns that are kept or corrected. Returns its name, and the decisions.
fn round(seed: u64) -> (&'static str, u64) {
    let mut random = Random(seed);
    let entry = &REGISTRY[random.index(REGISTRY.len())];
    let cpus = if entry.multiprocessor { 1 + random.index(8) } else { 1 };
    let decisions = match random.below(4) {
        0 => fixed_set(entry, cpus, &mut random),
        kind => turmoil(entry, cpus, kind, &mut random),
    };
    (entry.name, decisions)
}

/// Everybody is always runnable.
fn fixed_set(entry: &Entry, cpus: usize, random: &mut Random) -> u64 {
    let count = 1 + random.index(60);
    let bits = [2, 4, 7, 10, 32][random.index(5)];
    let numbers = random.weights(count, bits);
    let quanta = u64::from(ROUND) / cpus as u64;
    let policy = watched(entry, &Setup::new(cpus, QUANTUM_NS));
    hold_claims(entry, policy, cpus, &numbers, quanta);
    quanta * cpus as u64
}

/// What [`Checked`] holds every policy and wrapper to.
fn turmoil(entry: &Entry, cpus: usize, kind: u32, random: &mut Random) -> u64 {
    let setup = Setup::new(cpus, QUANTUM_NS);
    let bare = watched(entry, &setup);
    let policy = match kind {
        1 => bare,
        2 => rewatched(entry, &setup, Box::new(Turns::new(bare, &setup, entry.payment))),
        _ if !entry.by_weight => bare,
        _ => rewatched(entry, &setup, Box::new(Corrected::new(bare, &setup))),
    };
    let (mix, seed) = (Mix::draw(random), random.next());
    let steps = ROUND as usize / cpus;
    stir_as_patient(policy, cpus, mix, steps, seed).len() as u64
}

fn rewatched(entry: &Entry, setup: &Setup, policy: Box<dyn Policy + Send>) -> Watched {
    Checked::new(policy, setup).work_conserving(entry.work_conserving)
}

/// How far a campaign has come, in a file: seeds that are done, decisions taken, and seeds that failed.
#[derive(Default)]
struct Progress {
    place: PathBuf,
    next_seed: u64,
    decisions: u64,
    failed: Vec<u64>,
}

impl Progress {
    fn read(place: &Path) -> Progress {
        let mut progress = Progress { place: place.to_path_buf(), ..Progress::default() };
        let Ok(text) = fs::read_to_string(place) else { return progress };
        for line in text.lines() {
            match line.split_once(' ').map(|(key, value)| (key, value.parse().ok())) {
                Some(("next_seed", Some(seed))) => progress.next_seed = seed,
                Some(("decisions", Some(decisions))) => progress.decisions = decisions,
                Some(("failed", Some(seed))) => progress.failed.push(seed),
                _ => panic!("{}: '{line}' is no line of a campaign: remove it", place.display()),
            }
        }
        progress
    }

    /// Wholly or not at all, so that a campaign which is killed goes on.
    fn write(&self) {
        let Progress { next_seed, decisions, .. } = self;
        let mut text = format!("next_seed {next_seed}\ndecisions {decisions}\n");
        for seed in &self.failed {
            writeln!(text, "failed {seed}").expect("in memory");
        }
        let new = self.place.with_extension("new");
        fs::write(&new, text).and_then(|()| fs::rename(&new, &self.place)).expect("writable");
    }
}

pub(crate) fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is a number, not '{value}'")))
}

#[test]
fn rounds_of_a_campaign() {
    for seed in 0..400 {
        let _context = crate::Context(format!("seed {seed} of a campaign"));
        assert!(round(seed).1 > 0);
    }
}

/// One seed again: `PRORATA_SEED`.
#[test]
#[ignore = "needs PRORATA_SEED; `cargo xtask decisions --seed` sets it"]
fn one_round() {
    let seed = number("PRORATA_SEED").expect("PRORATA_SEED");
    println!("{:?}", round(seed));
}

/// Until so many decisions or seconds.
#[test]
#[ignore = "needs PRORATA_CAMPAIGN, a file; `cargo xtask decisions` sets it"]
fn without_end() {
    let place = std::env::var_os("PRORATA_CAMPAIGN").expect("PRORATA_CAMPAIGN");
    let until = number("PRORATA_DECISIONS").unwrap_or(u64::MAX);
    let length = number("PRORATA_SECONDS").map_or(Duration::MAX, Duration::from_secs);
    let mut progress = Progress::read(Path::new(&place));
    let (begin, mut written) = (Instant::now(), Instant::now());
    while progress.decisions < until && begin.elapsed() < length {
        let seed = progress.next_seed;
        match catch_unwind(AssertUnwindSafe(|| round(seed))) {
            Ok((_, decisions)) => progress.decisions += decisions,
            Err(_) => {
                eprintln!("seed {seed} fails: cargo xtask decisions --seed {seed}");
                progress.failed.push(seed);
            }
        }
        progress.next_seed += 1;
        if written.elapsed() > Duration::from_secs(5) {
            progress.write();
            written = Instant::now();
            println!("{} decisions of {} seeds", progress.decisions, progress.next_seed);
        }
    }
    progress.write();
    println!("{} decisions of {} seeds", progress.decisions, progress.next_seed);
    assert!(progress.failed.is_empty(), "these seeds failed: {:?}", progress.failed);
}

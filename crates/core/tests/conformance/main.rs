//! Every policy of the registry through one set of cases under [`Checked`], each held to the bound
//! that its own entry claims, in exact integers: on every decision for the 13 that have such a bound (for
//! the first [`LIMITED`] tasks of a set), after every Φ quanta for 7. The other 6 claim none.

#[path = "../common/mod.rs"]
mod common;

mod campaign;
mod cheats;
mod control;
mod departures;
mod families;
mod fixed;
mod late;
mod lingering;
mod newcomers;
mod reweighing;
mod sleepers;
mod turmoil;
mod twins;
mod vectors;

use prorata::policies::{Entry, FixedSet, Options, REGISTRY, Ratio};
use prorata::{Checked, Policy, Setup, TaskId, Weight};

use common::random::Random;

/// A policy under test.
type Watched = Checked<Box<dyn Policy + Send>>;

/// Says what was being tested when a test fails.
struct Context(String);

impl Drop for Context {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("while testing {}", self.0);
        }
    }
}

/// The policy of `entry` with default options, watched.
fn watched(entry: &Entry, setup: &Setup) -> Watched {
    let policy = (entry.build)(setup, &mut Options::default()).expect("default options are valid");
    Checked::new(policy, setup).work_conserving(entry.work_conserving)
}

/// Calls `case` for every policy on every number of cpus that it schedules.
fn on_all_cpus(entries: &[Entry], cpus: &[usize], mut case: impl FnMut(&Entry, usize)) {
    for entry in entries {
        for &cpus in cpus.iter().filter(|&&cpus| cpus == 1 || entry.multiprocessor) {
            let _context = Context(format!("{} on {cpus} cpus", entry.name));
            case(entry, cpus);
        }
    }
}

/// True if a decision costs time in proportion to the number of tasks.
fn is_linear(entry: &Entry) -> bool {
    entry.cost.pick.contains('N') && !entry.cost.pick.contains("log")
}

/// Tasks of a set whose limits are evaluated: that takes a look at the whole set for each.
const LIMITED: usize = 100;

/// The limits that `entry` claims for the first tasks, as (lower, upper).
fn limits(entry: &Entry, weights: &[Weight], cpus: usize) -> Vec<(Option<Ratio>, Option<Ratio>)> {
    let set = FixedSet { weights, cpus };
    (0..)
        .map(TaskId)
        .take(weights.len().min(LIMITED))
        .map(|task| {
            let limit = |limit: Option<prorata::policies::Limit>| limit.map(|of| of(&set, task));
            (limit(entry.bound.lower), limit(entry.bound.upper))
        })
        .collect()
}

#[test]
fn names_are_unique_and_everything_is_said() {
    let mut names: Vec<&str> = REGISTRY.iter().map(|entry| entry.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    for entry in REGISTRY {
        let Entry { title, paper, bound, cost, .. } = entry;
        let texts = [title, paper, bound.text, cost.pick, cost.insert, cost.remove];
        assert!(texts.iter().all(|text| !text.is_empty()), "{}", entry.name);
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        assert!(entry.name.chars().all(is_name), "{}", entry.name);
    }
}

/// The first choice that an option's text offers is accepted, and so is its default.
#[test]
fn defaults_of_options_are_accepted() {
    for entry in REGISTRY {
        for (option, default, _) in entry.options {
            let spec = format!("{}:{option}={default}", entry.name);
            assert!(prorata::policies::build(&spec, &Setup::new(1, 1000)).is_ok(), "{spec}");
        }
    }
}

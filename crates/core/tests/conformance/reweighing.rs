//! Tasks whose weights change while they run and wait: every task against the exact ideal, piecewise
//! over the weights that it had.

use std::panic::{AssertUnwindSafe, catch_unwind};

use prorata::policies::{self, Entry, REGISTRY, find};
use prorata::{Checked, Corrected, CpuId, Nanos, Policy, Setup, TaskId, Weight};

use crate::common::QUANTUM_NS;
use crate::common::reweighed::{Case, Pattern};
use crate::turmoil::{INTERACTIVE, LIMITS, REWEIGHING, stir_policy};
use crate::{Context, on_all_cpus, watched};

/// A policy with a rule for changes of weight.
type Rule = fn(&Entry, &Setup) -> Box<dyn Policy>;

fn by_the_door(entry: &Entry, setup: &Setup) -> Box<dyn Policy> {
    let policy = policies::build(entry.name, setup).expect("it is registered");
    Box::new(Checked::new(policy, setup).work_conserving(entry.work_conserving))
}

fn as_papers(entry: &Entry, setup: &Setup) -> Box<dyn Policy> {
    by_the_door(entry, &setup.as_in_papers())
}

/// How far any task may be from the ideal, in quanta, on one cpu and on several, in the few cases here.
/// (`examples/reweighing.rs` has 240 for each number of cpus, with up to 15.6.) DFS lets cpus idle.
fn room(entry: &Entry, cpus: usize) -> f64 {
    match (cpus, entry.name) {
        (1, "gdq") => 8.0,
        (1, _) => 6.0,
        (_, "dfs") => 38.0,
        _ => 8.0,
    }
}

fn keeps_to_the_ideal(entries: &[Entry], cpus: &[usize], rule: Rule) {
    on_all_cpus(entries, cpus, |entry, cpus| {
        for pattern in Pattern::ALL {
            for seed in 0..3 {
                let _context = Context(format!("{pattern:?}, seed {seed}"));
                let case = Case::new(pattern, cpus, 12, seed);
                let policy = rule(entry, &Setup::new(cpus, QUANTUM_NS));
                let (behind, ahead) = case.worst(policy, 500);
                let room = room(entry, cpus);
                assert!(-behind <= room && ahead <= room, "{behind:.1}..{ahead:.1} quanta");
            }
        }
    });
}

fn by_weight() -> Vec<Entry> {
    REGISTRY.iter().filter(|entry| entry.by_weight).copied().collect()
}

#[test]
fn every_policy_keeps_to_the_ideal() {
    keeps_to_the_ideal(&by_weight(), &[1, 2, 4, 8], by_the_door);
}

/// Ten tasks of weight 100, of which one is set to 100, 101, 100, … after every quantum.
#[test]
fn a_task_whose_weight_changes_every_quantum_is_served() {
    for entry in by_weight() {
        let _context = Context(entry.name.to_string());
        let mut policy = by_the_door(&entry, &Setup::new(1, QUANTUM_NS));
        for id in (0..10).map(TaskId) {
            policy.add(id, crate::common::weight(100));
            policy.wake(id, 0);
        }
        let mut served = [0; 10];
        for quantum in 0..2000 {
            let now_ns = quantum * QUANTUM_NS;
            let weight = 100 + u32::from(quantum % 2 == 1);
            policy.set_weight(TaskId(0), crate::common::weight(weight), now_ns);
            let task = policy.pick(0, now_ns).expect("all are runnable");
            served[task.index()] += 1;
            policy.charge(task, QUANTUM_NS, now_ns + QUANTUM_NS);
        }
        assert!(served.iter().all(|quanta| (195..=206).contains(quanta)), "{served:?}");
    }
}

/// Tasks that come, go and change weight on cpus that are not in step: the contract holds on both sides.
#[test]
fn corrected_turns_keep_the_contract() {
    on_all_cpus(&by_weight(), &[1, 2, 3, 7], |entry, cpus| {
        for (mix, seed) in [(REWEIGHING, 1), (REWEIGHING, 2), (INTERACTIVE, 3), (LIMITS, 4)] {
            let setup = Setup::new(cpus, QUANTUM_NS);
            let _context = Context(format!("seed {seed} on {setup:?}"));
            let corrected = Corrected::new(watched(entry, &setup), &setup);
            let policy: Box<dyn Policy + Send> = Box::new(corrected);
            let policy = Checked::new(policy, &setup).work_conserving(entry.work_conserving);
            stir_policy(policy, cpus, mix, 1000, seed);
        }
    });
}

/// A policy to which weights are what they were.
struct Deaf(Box<dyn Policy>);

impl Policy for Deaf {
    fn add(&mut self, task: TaskId, weight: Weight) {
        self.0.add(task, weight);
    }
    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        self.0.remove(task, now_ns);
    }
    fn set_weight(&mut self, _task: TaskId, _weight: Weight, _now_ns: Nanos) {}
    fn wake(&mut self, task: TaskId, now_ns: Nanos) {
        self.0.wake(task, now_ns);
    }
    fn block(&mut self, task: TaskId, now_ns: Nanos) {
        self.0.block(task, now_ns);
    }
    fn pick(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        self.0.pick(cpu, now_ns)
    }
    fn charge(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        self.0.charge(task, used_ns, now_ns);
    }
}

fn is_rejected(name: &str, cpus: usize, rule: Rule) -> bool {
    let entry = *find(name).expect("it is registered");
    catch_unwind(AssertUnwindSafe(|| keeps_to_the_ideal(&[entry], &[cpus], rule))).is_err()
}

#[test]
fn a_policy_that_puts_a_reweighed_task_last() {
    for (name, cpus) in [("mfq", 4), ("qfq", 1), ("vtrr", 1), ("gdq", 1)] {
        assert!(is_rejected(name, cpus, as_papers), "{name} as its paper has it, on {cpus} cpus");
        assert!(!is_rejected(name, cpus, by_the_door), "{name} on {cpus} cpus");
    }
}

/// GR3 counts the turns of a task whose weight has changed. (On 8 cpus, too: `gr3/reweighing.rs`.)
#[test]
fn gr3_keeps_to_the_ideal_without_corrected_turns() {
    keeps_to_the_ideal(&[*find("gr3").expect("it is registered")], &[1, 2, 4], as_papers);
}

#[test]
fn a_policy_that_does_not_listen() {
    let rule: Rule = |entry, setup| Box::new(Deaf(by_the_door(entry, setup)));
    for (name, cpus) in [("gr3", 1), ("wfq", 1), ("mfq", 2)] {
        assert!(is_rejected(name, cpus, rule), "{name} on {cpus} cpus");
    }
}

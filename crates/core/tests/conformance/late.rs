//! A backend whose runs end late: it charges whole quanta and settles the rest with later runs, as kernels
//! do. One task is due a whole cpu now and then, so that others share what that leaves. Everybody is held to
//! the ideal of what he really received.

use prorata::ideal::ServiceErrors;
use prorata::policies::{Entry, REGISTRY, build, find};
use prorata::{Checked, Nanos, Policy, Setup, TaskId};

use crate::common::random::Random;
use crate::common::{QUANTUM_NS, start, weight};
use crate::{Context, on_all_cpus};

const QUANTA: u64 = 4000;
/// What the first task weighs in turn; the others weigh 1.
const WEIGHTS: [u32; 2] = [1, 40];
const CHANGES_NS: Nanos = 7 * QUANTUM_NS;

/// What the policy is told of what tasks ran.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tells {
    Nothing,
    What,
    /// As if what goes beyond what is charged were lost.
    NoMoreThanIsCharged,
}

#[derive(Clone, Copy)]
struct Run {
    task: TaskId,
    slice_ns: Nanos,
    since_ns: Nanos,
    ends_ns: Nanos,
}

struct Scene<P> {
    policy: P,
    errors: ServiceErrors,
    tells: Tells,
    /// By task: what it was granted less what it ran.
    owed_ns: Vec<i64>,
    random: Random,
}

impl<P: Policy> Scene<P> {
    fn charge(&mut self, task: TaskId, slice_ns: Nanos, ran_ns: Nanos, now_ns: Nanos) {
        match self.tells {
            Tells::Nothing => {}
            Tells::What => self.policy.ran(task, ran_ns),
            Tells::NoMoreThanIsCharged => self.policy.ran(task, ran_ns.min(slice_ns)),
        }
        self.policy.charge(task, slice_ns, now_ns);
    }

    fn end(&mut self, run: Run) {
        let ran_ns = run.ends_ns - run.since_ns;
        self.owed_ns[run.task.index()] -= ran_ns.cast_signed();
        self.errors.charge(run.task, ran_ns, run.ends_ns);
        self.charge(run.task, run.slice_ns, ran_ns, run.ends_ns);
    }

    /// Who owes a whole run is charged for it and runs nothing.
    fn begin(&mut self, cpu: usize, now_ns: Nanos) -> Run {
        loop {
            let task = self.policy.pick(cpu, now_ns).expect("all are runnable");
            let slice_ns = self.policy.slice_ns(task).unwrap_or(QUANTUM_NS);
            self.owed_ns[task.index()] += slice_ns.cast_signed();
            let Ok(owed_ns @ 1..) = Nanos::try_from(self.owed_ns[task.index()]) else {
                self.charge(task, slice_ns, 0, now_ns);
                continue;
            };
            let late_ns =
                if self.random.below(4) == 0 { self.random.next() % (2 * QUANTUM_NS) } else { 0 };
            let ends_ns = now_ns + owed_ns + late_ns;
            return Run { task, slice_ns, since_ns: now_ns, ends_ns };
        }
    }

    fn reweigh(&mut self, number: u32, now_ns: Nanos) {
        self.policy.set_weight(TaskId(0), weight(number), now_ns);
        self.errors.set_weight(TaskId(0), weight(number), now_ns);
    }

    /// The furthest that anybody is from the ideal at the end, in quanta.
    fn play(mut self, cpus: usize) -> f64 {
        let mut runs: Vec<Run> = (0..cpus).map(|cpu| self.begin(cpu, 0)).collect();
        let mut changes = (1..).map(|count| count * CHANGES_NS).zip(WEIGHTS.into_iter().cycle());
        let mut change = changes.next().expect("they are endless");
        loop {
            let (cpu, run) =
                runs.iter().copied().enumerate().min_by_key(|(_, run)| run.ends_ns).expect("some");
            if run.ends_ns > QUANTA * QUANTUM_NS {
                return self.furthest(QUANTA * QUANTUM_NS, &runs);
            }
            while change.0 <= run.ends_ns {
                self.reweigh(change.1, change.0);
                change = changes.next().expect("they are endless");
            }
            self.end(run);
            runs[cpu] = self.begin(cpu, run.ends_ns);
        }
    }

    fn furthest(mut self, now_ns: Nanos, runs: &[Run]) -> f64 {
        for run in runs {
            self.errors.charge(run.task, now_ns - run.since_ns, now_ns);
        }
        let tasks = (0..).map(TaskId).take(self.owed_ns.len());
        let errors = tasks.map(|task| self.errors.error(task, now_ns).in_quanta(QUANTUM_NS).abs());
        errors.fold(0.0, f64::max)
    }
}

fn furthest(entry: &Entry, cpus: usize, tells: Tells, seed: u64) -> f64 {
    let setup = Setup::new(cpus, QUANTUM_NS);
    let weights = vec![1; 3 * cpus];
    let policy = build(entry.name, &setup).expect("it is registered");
    let mut errors = ServiceErrors::new(cpus);
    for task in (0..).map(TaskId).take(weights.len()) {
        errors.add(task, weight(1));
        errors.wake(task, 0);
    }
    let owed_ns = vec![0; weights.len()];
    let policy = start(Checked::new(policy, &setup), &weights);
    Scene { policy, errors, tells, owed_ns, random: Random(seed) }.play(cpus)
}

fn several() -> Vec<Entry> {
    let several = |entry: &&Entry| entry.by_weight && entry.multiprocessor && entry.name != "dfs";
    REGISTRY.iter().filter(several).copied().collect()
}

#[test]
fn everybody_keeps_to_the_ideal_of_what_he_ran() {
    on_all_cpus(&several(), &[2, 4], |entry, cpus| {
        for seed in 0..3 {
            let _context = Context(format!("seed {seed}"));
            for tells in [Tells::Nothing, Tells::What] {
                let furthest = furthest(entry, cpus, tells, seed);
                assert!(furthest <= 6.0, "{furthest:.1} quanta from the ideal");
            }
        }
    });
}

/// The control.
#[test]
fn what_is_beyond_a_quantum_was_received() {
    let gr3 = find("gr3").expect("it is registered");
    let furthest = furthest(gr3, 2, Tells::NoMoreThanIsCharged, 0);
    assert!(furthest > 100.0, "only {furthest:.1} quanta from the ideal");
}

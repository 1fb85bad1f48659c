//! SFS against its naive twin, and its shares.

#[path = "../common/mod.rs"]
mod common;
mod twin;

use common::ticks::{Disorder, QUANTUM_NS, Random, Ticks};
use common::{Lockstep, start};
use prorata::policies::sfs::Sfs;
use prorata::{Checked, Setup, TaskId};
use twin::Twin;

/// The same tasks on the same cpus as by scanning all surpluses.
#[test]
fn follows_its_naive_twin() {
    for seed in 0..150 {
        let mut random = Random(seed);
        let cpus = 1 + random.index(6);
        let count = 1 + random.index(3 * cpus + 3);
        let most = [3, 100, u32::MAX][random.index(3)];
        let weights = random.weights(count, most);
        let disorder = Disorder {
            asynchronous: random.below(2) == 0,
            variable: random.below(2) == 0,
            blocks: [0, 50][random.index(2)],
            reweighs: [0, 100][random.index(2)],
        };
        let setup = Setup::new(cpus, QUANTUM_NS);
        let policy = Checked::new(Sfs::new(&setup), &setup);
        let mut run = Ticks::new(policy, cpus, &weights, disorder, seed);
        let mut twin = Ticks::new(Twin::new(cpus), cpus, &weights, disorder, seed);
        for _ in 0..1000 {
            run.tick();
            twin.tick();
            assert_eq!(run.trace, twin.trace, "{seed}: {disorder:?} on {cpus} cpus: {weights:?}");
            run.trace.clear();
            twin.trace.clear();
        }
        assert_eq!(run.idle_ticks, 0);
    }
}

/// Shares come out right in the long run, also of a task that is worth more than a cpu.
#[test]
fn serves_by_feasible_weight() {
    let setup = Setup::new(2, common::QUANTUM_NS);
    let mut run = Lockstep::new(start(Sfs::new(&setup), &[100, 2, 1, 1]), 2);
    let mut quanta = [0i32; 4];
    for _ in 0..4000 {
        run.quantum().iter().flatten().for_each(|task: &TaskId| quanta[task.index()] += 1);
    }
    let errors = [4000, 2000, 1000, 1000].iter().zip(quanta).map(|(due, got)| got - due);
    assert!(errors.clone().all(|e| e.abs() <= 1), "{:?}", errors.collect::<Vec<_>>());
}

/// On one cpu: the least start tag, ties to the lowest id.
#[test]
fn on_one_cpu_it_is_start_time_fair_queueing() {
    let setup = Setup::new(1, common::QUANTUM_NS);
    let rows = Lockstep::new(start(Sfs::new(&setup), &[3, 2, 1]), 1).rows(12);
    assert_eq!(rows.concat(), [1, 2, 3, 1, 2, 1, 1, 2, 3, 1, 2, 1]);
}

//! MFQ as a policy for tasks: Theorem 3.5.

use crate::common::ticks::{Disorder, QUANTUM_NS, Random, Ticks};
use crate::common::{self, Lockstep, start, weight};
use proptest::prelude::*;
use prorata::ideal::{FixedErrors, Measured};
use prorata::policies::mfq::Mfq;
use prorata::{Checked, Policy, Setup, TaskId, Weight};

/// Each cpu reschedules at its own time, as in the paper's model: once a quantum, and no two cpus
/// at once. (The first quantum of cpu j is (j+1)/P of one, so that all start together.)
fn staggered(cpus: usize, weights: &[u32], rounds: u64) -> Result<(), TestCaseError> {
    const STEP_NS: u64 = 1 << 20;
    let quantum_ns = STEP_NS * cpus as u64;
    let setup = Setup::new(cpus, quantum_ns);
    let policy = Checked::new(Measured::new(Mfq::new(&setup), &setup), &setup);
    let mut policy = start(policy, weights);
    let mut running: Vec<_> = (0..cpus).map(|cpu| (policy.pick(cpu, 0), 0)).collect();
    let mut now_ns = 0;
    for _ in 0..rounds {
        for (cpu, (task, since_ns)) in running.iter_mut().enumerate() {
            now_ns += STEP_NS;
            if let Some(task) = *task {
                policy.charge(task, now_ns - *since_ns, now_ns);
            }
            (*task, *since_ns) = (policy.pick(cpu, now_ns), now_ns);
        }
    }
    let policy = policy.into_inner();
    for id in (0..).map(TaskId).take(weights.len()) {
        let extremes = policy.errors().extremes(id);
        let (min, max) = (extremes.min.in_quanta(quantum_ns), extremes.max.in_quanta(quantum_ns));
        prop_assert!(min > -1.000_01, "{id:?} behind by {min}");
        prop_assert!(max < weights.len() as f64, "{id:?} ahead by {max}");
    }
    Ok(())
}

fn in_step(cpus: usize, numbers: &[u32], quanta: usize) -> Result<(), TestCaseError> {
    let weights: Vec<Weight> = numbers.iter().map(|&n| weight(n)).collect();
    let setup = Setup::new(cpus, common::QUANTUM_NS);
    let policy = start(Checked::new(Mfq::new(&setup), &setup), numbers);
    let mut run = Lockstep::new(policy, cpus);
    let mut errors = FixedErrors::new(&weights, cpus);
    let one = i128::from(errors.denominator());
    for _ in 0..quanta {
        run.quantum().iter().flatten().for_each(|&task| errors.runs(task));
        errors.end_quantum();
    }
    errors.finish();
    for id in (0..).map(TaskId).take(numbers.len()) {
        let extremes = errors.extremes(id);
        prop_assert!(extremes.min >= -one, "{:?} behind by {}", id, errors.in_quanta(extremes.min));
        prop_assert!(extremes.max <= one * numbers.len() as i128);
    }
    Ok(())
}

/// Cpus and more weights than cpus, from nearly equal to very skewed.
fn sets() -> impl Strategy<Value = (usize, Vec<u32>)> {
    (1usize..=16).prop_flat_map(|cpus| {
        let small = proptest::collection::vec(1u32..12, cpus + 1..cpus + 20);
        let any = (0u32..32, any::<u32>()).prop_map(|(shift, w)| (w >> shift).max(1));
        let skewed = proptest::collection::vec(any, cpus + 1..cpus + 20);
        (Just(cpus), prop_oneof![3 => small, 1 => skewed])
    })
}

/// Tasks that come, go and change weight: some task runs whenever one waits.
#[test]
fn never_idles_while_a_task_waits() {
    let disorder = Disorder { asynchronous: true, variable: true, blocks: 60, reweighs: 100 };
    for seed in 0..60 {
        let mut random = Random(seed);
        let cpus = 1 + random.index(8);
        let weights = random.weights(1 + cpus * 2, 1000);
        let setup = Setup::new(cpus, QUANTUM_NS);
        let policy = Checked::new(Mfq::new(&setup), &setup);
        let mut run = Ticks::new(policy, cpus, &weights, disorder, seed);
        (0..2000).for_each(|_| run.tick());
        assert_eq!(run.idle_ticks, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn keeps_theorem_3_5_in_step((cpus, weights) in sets()) {
        in_step(cpus, &weights, 300)?;
    }

    #[test]
    fn keeps_theorem_3_5_staggered((cpus, weights) in sets()) {
        staggered(cpus, &weights, 300)?;
    }
}

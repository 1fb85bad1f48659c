//! GDQ: Theorem 3.6 at every decision; never idle; the same seed, the same schedule.

use crate::common::ticks::{Disorder, QUANTUM_NS, Random, Ticks};
use crate::common::{self, Lockstep, start, weight};
use proptest::prelude::*;
use prorata::ideal::FixedErrors;
use prorata::policies::gdq::Gdq;
use prorata::{Checked, Policy, Setup, TaskId, Weight, weights};

/// The least and the greatest error of any task in `quanta` quanta, in quanta.
pub(crate) fn extremes<P: Policy>(
    policy: P,
    cpus: usize,
    numbers: &[u32],
    quanta: usize,
) -> (f64, f64) {
    let weights: Vec<Weight> = numbers.iter().map(|&n| weight(n)).collect();
    let policy = Checked::new(policy, &Setup::new(cpus, common::QUANTUM_NS));
    let mut run = Lockstep::new(start(policy, numbers), cpus);
    let mut errors = FixedErrors::new(&weights, cpus);
    for _ in 0..quanta {
        run.quantum().iter().flatten().for_each(|&task| errors.runs(task));
        errors.end_quantum();
    }
    errors.finish();
    let tasks = || (0..).map(TaskId).take(numbers.len());
    let min = tasks().map(|task| errors.extremes(task).min).min().expect("tasks");
    let max = tasks().map(|task| errors.extremes(task).max).max().expect("tasks");
    (errors.in_quanta(min), errors.in_quanta(max))
}

/// g, the number of groups after readjustment.
pub(crate) fn groups(cpus: usize, numbers: &[u32]) -> u32 {
    let mut sorted: Vec<Weight> = numbers.iter().map(|&n| weight(n)).collect();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let cap = weights::sorted(&sorted, cpus);
    let order = |w: Weight| if cap.exceeded_by(w) { cap.order() } else { w.order() };
    sorted.iter().fold(0u32, |orders, &w| orders | 1 << order(w)).count_ones()
}

/// Theorem 3.6.
fn check(cpus: usize, weights: &[u32], t: u32, delta: u32, quanta: usize) -> Result<(), String> {
    let gdq = Gdq::new(&Setup::new(cpus, common::QUANTUM_NS), t, delta);
    let (min, max) = extremes(gdq, cpus, weights, quanta);
    let inside = f64::from(2 * (2 * delta + 2));
    let (lower, upper) =
        (-inside - f64::from(t), inside + f64::from(groups(cpus, weights)) * f64::from(t));
    if min < lower || max > upper {
        return Err(format!(
            "{weights:?} on {cpus} cpus, T={t} δ={delta}: {min:.3}..{max:.3}, not {lower}..{upper}"
        ));
    }
    Ok(())
}

pub(crate) fn sets() -> impl Strategy<Value = (usize, Vec<u32>)> {
    (1usize..=12).prop_flat_map(|cpus| {
        let count = cpus + 1..6 * cpus + 20;
        let any = (0u32..32, any::<u32>()).prop_map(|(shift, w)| (w >> shift).max(1));
        // Two weights of one group, nearly a factor of 2 apart; one group beside many.
        let extremes = prop_oneof![Just(4u32), Just(7), Just(1), Just(63)];
        let sets = prop_oneof![
            proptest::collection::vec(any, count.clone()),
            proptest::collection::vec(1u32..20, count.clone()),
            proptest::collection::vec(extremes, count),
        ];
        (Just(cpus), sets)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn keeps_theorem_3_6((cpus, weights) in sets(), delta in 0u32..6, t in 0u32..40) {
        let t = t + u32::try_from(cpus).expect("few");
        let quanta = 12 * t as usize;
        check(cpus, &weights, t, delta, quanta).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn with_a_cpu_for_each_tasks_stay_on_cpus_by_order_of_their_groups() {
    for cpus in [3, 4] {
        let setup = Setup::new(cpus, common::QUANTUM_NS);
        let mut run = Lockstep::new(start(Gdq::new(&setup, 20, 4), &[1, 500, 30]), cpus);
        let expected: &[u32] = if cpus == 3 { &[1, 3, 2] } else { &[1, 3, 2, 0] };
        assert!(run.rows(50).iter().all(|row| row == expected));
    }
}

#[test]
fn holds_on_many_cpus() {
    let mut random = Random(7);
    for (cpus, count) in [(64, 70), (64, 1000), (1024, 1300)] {
        let weights = random.weights(count, 1000);
        let t = u32::try_from(cpus).expect("few");
        check(cpus, &weights, t, 4, 3 * cpus).expect("Theorem 3.6");
    }
}

/// Quanta of any length, tasks that block, wake and change weight, from fewer tasks than cpus to many more,
/// under a policy built with T and δ.
pub(crate) fn disordered<P: Policy>(
    seed: u64,
    build: impl FnOnce(&Setup, u32, u32) -> P,
) -> Ticks<Checked<P>> {
    let mut random = Random(seed);
    let cpus = 1 + random.index(8);
    let count = 1 + random.index(4 * cpus + 3);
    let most = [3, 100, 100_000][random.index(3)];
    let weights = random.weights(count, most);
    let disorder = Disorder {
        asynchronous: random.below(2) == 0,
        variable: random.below(2) == 0,
        blocks: [0, 20, 200][random.index(3)],
        reweighs: [0, 100, 500][random.index(3)],
    };
    let setup = Setup::new(cpus, QUANTUM_NS);
    let policy = build(&setup, 1 + random.below(20), random.below(5));
    Ticks::new(Checked::new(policy, &setup), cpus, &weights, disorder, seed)
}

/// The wrapper panics if a task is on two cpus, or a cpu idles beside a waiting task.
pub(crate) fn never_idles<P: Policy>(build: impl Fn(&Setup, u32, u32) -> P) {
    for seed in 0..100 {
        let mut run = disordered(seed, &build);
        for _ in 0..2000 {
            run.tick();
            assert_eq!(run.idle_ticks, 0, "seed {seed} at tick {}", run.tick);
        }
    }
}

#[test]
fn never_idles_while_a_task_waits() {
    never_idles(Gdq::new);
}

/// After any disorder, a fixed set gets its shares again.
#[test]
fn shares_are_right_again_after_a_disorder() {
    for seed in 0..8 {
        let mut random = Random(seed);
        let cpus = 1 + random.index(4);
        let weights = random.weights(3 * cpus + 2, 20);
        let disorder = Disorder { blocks: 100, reweighs: 300, variable: true, asynchronous: true };
        let setup = Setup::new(cpus, QUANTUM_NS);
        let mut run = Ticks::new(Gdq::new(&setup, 20, 4), cpus, &weights, disorder, seed);
        (0..5000).for_each(|_| run.tick());
        run.settle(&weights);
        run.trace.clear();
        const TICKS: usize = 60_000;
        (0..TICKS).for_each(|_| run.tick());
        let sorted_cap = |w: u32| {
            let mut all: Vec<Weight> = weights.iter().map(|&n| weight(n)).collect();
            all.sort_unstable_by(|a, b| b.cmp(a));
            weights::sorted(&all, cpus).effective(weight(w)) as f64
        };
        let total: f64 = weights.iter().map(|&w| sorted_cap(w)).sum();
        for (id, &w) in (0..).zip(&weights) {
            let got = run.trace.iter().filter(|&&task| task == Some(TaskId(id))).count() as f64;
            let due = sorted_cap(w) / total * (TICKS * cpus) as f64;
            assert!((got - due).abs() < 2500.0, "seed {seed}: task {id} got {got} of {due} ticks");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_schedule() {
    let trace = || {
        let disorder = Disorder { blocks: 50, reweighs: 100, variable: true, asynchronous: true };
        let setup = Setup::new(4, QUANTUM_NS);
        let weights = Random(3).weights(20, 100);
        let mut run = Ticks::new(Gdq::new(&setup, 20, 4), 4, &weights, disorder, 5);
        (0..3000).for_each(|_| run.tick());
        run.trace
    };
    assert_eq!(trace(), trace());
}

/// Five tasks of weight 1 to 5 that sleep for an instant after every quantum, so that their groups
/// run empty again and again: what is due to a group is not forgotten. (Two that share a group take
/// turns, so the heavier of them falls short: of weight 5, 83 % of what is due.)
#[test]
fn groups_that_run_empty_are_not_starved() {
    const QUANTA: u32 = 30_000;
    let mut policy = start(Gdq::new(&Setup::new(1, QUANTUM_NS), 20, 4), &[1, 2, 3, 4, 5]);
    let mut received = [0u32; 5];
    let mut asleep = None;
    for quantum in 0..u64::from(QUANTA) {
        let now_ns = quantum * QUANTUM_NS;
        let task = policy.pick(0, now_ns).expect("four tasks are runnable");
        asleep.replace(task).into_iter().for_each(|task| policy.wake(task, now_ns));
        policy.charge(task, QUANTUM_NS, now_ns + QUANTUM_NS);
        policy.block(task, now_ns + QUANTUM_NS);
        received[task.index()] += 1;
    }
    for (weight, received) in (1..).zip(received) {
        let due = QUANTA * weight / 15;
        assert!(received > due * 4 / 5, "weight {weight}: {received} quanta of {due}");
    }
}

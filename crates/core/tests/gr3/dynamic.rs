//! Arrivals, blocking and departures. The theorems are proven for fixed sets; for changes the paper
//! argues (USENIX'05 §4.1, "Dynamic Fairness") that the work ratios of tasks outside the changed
//! group are unaffected, and that the disruption inside it is a constant.
//!
//! Found: the first holds, within 2.5 quanta, with our rule for resuming, and with none of the
//! others (the paper's own starves small groups). The second does not hold for the rule of
//! USENIX'05 §2.3; the older one of CUCS-028-04 disrupts less.

use prorata::ideal::Measured;
use prorata::policies::gr3::{Gr3, Rescale, Resume};
use prorata::{Checked, Policy, Setup, Sleepers, TaskId, Weight, central};

use super::{QUANTUM_NS, start};

/// A deterministic stream of numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        u32::try_from((z ^ (z >> 31)) % u64::from(limit)).expect("below a u32")
    }

    /// A weight of `order`.
    fn weight(&mut self, order: u32) -> u32 {
        (1 << order) + self.below(1 << order)
    }
}

/// Hogs of `weights` on one cpu beside tasks that come and go.
struct Scene {
    weights: Vec<u32>,
    /// The last tasks come and go; the others always run.
    churners: usize,
    /// A churner changes at a quantum with a chance of one in `calm`.
    calm: u32,
    seed: u64,
}

/// What came of a [`Scene`].
struct Outcome {
    service: Vec<i128>,
    changes: u32,
    /// The largest service error of a hog against the piecewise ideal, in quanta.
    worst_error: f64,
}

impl Scene {
    /// Hogs of random weights; churners of one order, in which there are hogs or not.
    fn random(seed: u64, hogs_in_changed_group: bool) -> Scene {
        let mut random = Random(seed);
        let changed = random.below(10);
        let mut weights = Vec::new();
        let hogs = 2 + random.below(8) as usize;
        while weights.len() < hogs {
            let order = random.below(10);
            if hogs_in_changed_group || order != changed {
                weights.push(random.weight(order));
            }
        }
        let churners = 1 + random.below(4) as usize;
        weights.extend((0..churners).map(|_| random.weight(changed)));
        Scene { weights, churners, calm: 1 + random.below(20), seed }
    }

    fn hogs(&self) -> usize {
        self.weights.len() - self.churners
    }

    fn play(&self, resume: Resume, quanta: u64) -> Outcome {
        self.play_with(resume, Rescale::Neighbour, quanta)
    }

    fn play_with(&self, resume: Resume, rescale: Rescale, quanta: u64) -> Outcome {
        let setup = Setup::new(1, QUANTUM_NS);
        let policy = Gr3::with_rules(&setup, resume, rescale);
        let mut policy = start(Measured::new(Checked::new(policy, &setup), &setup), &self.weights);
        let mut random = Random(self.seed);
        let mut runnable = vec![true; self.weights.len()];
        let mut outcome =
            Outcome { service: vec![0; self.weights.len()], changes: 0, worst_error: 0.0 };
        for quantum in 0..quanta {
            let now_ns = quantum * QUANTUM_NS;
            for (index, runnable) in runnable.iter_mut().enumerate().skip(self.hogs()) {
                if random.below(self.calm) == 0 {
                    outcome.changes += 1;
                    let weight = self.weights[index];
                    flip(&mut policy, index, weight, runnable, &mut random, now_ns);
                }
            }
            let task = policy.pick(0, now_ns).expect("the hogs are runnable");
            outcome.service[task.index()] += 1;
            policy.charge(task, QUANTUM_NS, now_ns + QUANTUM_NS);
        }
        for hog in (0..).take(self.hogs()).map(TaskId) {
            let extremes = policy.errors().extremes(hog);
            let (low, high) =
                (extremes.min.in_quanta(QUANTUM_NS), extremes.max.in_quanta(QUANTUM_NS));
            outcome.worst_error = outcome.worst_error.max(high).max(-low);
        }
        outcome
    }
}

/// A task that is there blocks or leaves; one that is not comes.
fn flip(
    policy: &mut impl Policy,
    index: usize,
    weight: u32,
    runnable: &mut bool,
    random: &mut Random,
    now_ns: u64,
) {
    let task = TaskId(u32::try_from(index).expect("a few tasks"));
    if !*runnable {
        policy.wake(task, now_ns);
    } else if random.below(2) == 0 {
        policy.block(task, now_ns);
    } else {
        policy.remove(task, now_ns);
        policy.add(task, Weight::new(weight).expect("a weight is positive"));
    }
    *runnable = !*runnable;
}

/// How far the service of two tasks is from the ratio of their weights, in quanta of the lighter.
fn apart(scene: &Scene, outcome: &Outcome, a: usize, b: usize) -> f64 {
    let (wa, wb) = (i128::from(scene.weights[a]), i128::from(scene.weights[b]));
    (outcome.service[a] * wb - outcome.service[b] * wa).abs() as f64 / wa.max(wb) as f64
}

/// The largest [`apart`] of two hogs.
fn most_apart(scene: &Scene, outcome: &Outcome) -> f64 {
    let pairs = (0..scene.hogs()).flat_map(|a| (0..a).map(move |b| (a, b)));
    pairs.map(|(a, b)| apart(scene, outcome, a, b)).fold(0.0, f64::max)
}

/// Outside the changed group nothing is lost or gained: found 2.48 quanta in 1,500 scenes of 10,000
/// quanta with up to 9,000 changes each. The bound does not grow with either.
#[test]
fn tasks_outside_the_changed_group_keep_their_ratio() {
    for seed in 0..300 {
        let scene = Scene::random(seed, false);
        let apart = most_apart(&scene, &scene.play(Resume::UntilOrdered, 10_000));
        assert!(apart < 3.0, "seed {seed}: {apart} quanta apart");
    }
}

/// The negative control: with the rule that stops at the first violated pair, and with the paper's,
/// the same tasks drift apart, by 17 and by 1,759 quanta.
#[test]
fn other_rules_let_them_drift() {
    for (resume, least) in [(Resume::Violated, 10.0), (Resume::Largest, 1000.0)] {
        let scenes = (0..300).map(|seed| Scene::random(seed, false));
        let apart = scenes.map(|scene| most_apart(&scene, &scene.play(resume, 10_000)));
        assert!(apart.fold(0.0, f64::max) > least, "{resume:?} kept the ratios");
    }
}

/// What a change does to its own group, and to the share of the group, adds up. Found at worst, in
/// quanta a change: 1.52 with the neighbour's work (see the counterexample below: it has no
/// limit), 0.30 with the group's own.
#[test]
fn changes_disrupt_their_own_group() {
    for (rescale, most) in [(Rescale::Neighbour, 2.5), (Rescale::Own, 0.5)] {
        for seed in 0..300 {
            let scene = Scene::random(seed, seed % 2 == 0);
            let outcome = scene.play_with(Resume::UntilOrdered, rescale, 5_000);
            let fixed_set = 14.0; // g + 3 of Theorem 1, with all the groups that a scene has
            let limit = fixed_set + most * f64::from(outcome.changes);
            let error = outcome.worst_error;
            assert!(error < limit, "{rescale:?}, seed {seed}: {error} quanta");
        }
    }
}

/// Hogs of weight 8, 1 and 2 beside a task of weight 4 that joins or leaves at every quantum.
#[test]
fn small_groups_do_not_starve() {
    let scene = Scene { weights: vec![8, 1, 2, 4], churners: 1, calm: 1, seed: 1 };
    let service = |resume| scene.play(resume, 12_000).service;
    assert_eq!(service(Resume::UntilOrdered), [8000, 1000, 2000, 1000]);
    assert_eq!(service(Resume::Largest), [12_000, 0, 0, 0]);
    assert_eq!(service(Resume::LargestOnRemoval), [8272, 1030, 2067, 631]);
    assert_eq!(service(Resume::Current), [7916, 989, 1978, 1117]);
}

/// Tasks of one order come and go, one at a time, beside a hog of that order; each is there before
/// the hog's turn comes. The hog runs all the same.
#[test]
fn a_lone_hog_does_not_starve_beside_newcomers() {
    let setup = Setup::new(1, QUANTUM_NS);
    let mut policy = start(Checked::new(Gr3::new(&setup), &setup), &[1, 2, 1]);
    let mut service = [0; 3];
    for now_ns in (0..3000).map(|quantum| quantum * QUANTUM_NS) {
        let task = policy.pick(0, now_ns).expect("the hogs are runnable");
        service[task.index()] += 1;
        policy.charge(task, QUANTUM_NS, now_ns);
        if task == TaskId(2) {
            policy.remove(task, now_ns);
            policy.add(task, Weight::ONE);
            policy.wake(task, now_ns);
        }
    }
    assert!(service[0] > 600, "{service:?}");
}

/// How long a newcomer of weight 248 waits beside hogs of weight 306 and 5, at worst, in quanta.
fn longest_wait(rescale: Rescale) -> u32 {
    let setup = Setup::new(1, QUANTUM_NS);
    let wait = |arrival: u32| {
        let mut policy = start(Gr3::with_rules(&setup, Resume::UntilOrdered, rescale), &[306, 5]);
        (0..arrival).for_each(|_| _ = policy.pick(0, 0));
        policy.add(TaskId(2), Weight::new(248).expect("a weight is positive"));
        policy.wake(TaskId(2), 0);
        (0..).find(|_| policy.pick(0, 0) == Some(TaskId(2))).expect("it runs in the end")
    };
    (1..=311).map(wait).max().expect("there are arrivals")
}

/// Smallest counterexample found to the paper's claim that an arrival disrupts its own group by a
/// constant: its work is set by that of the next lighter group, of which a quantum is 1/5 of
/// virtual time here, and so it may wait 62 quanta. With the report's rule it waits for one.
#[test]
fn an_arrival_may_wait_long_for_the_lighter_group() {
    assert_eq!(longest_wait(Rescale::Neighbour), 62);
    assert_eq!(longest_wait(Rescale::Own), 1);
}

const CHANGERS: u32 = 12;
const HOG: u32 = 1 << 19;
/// Between these the changers' weights go to and fro.
const LIGHT: [u32; 2] = [20_000, 40_000];

/// What hogs receive of their due on 4 cpus, beside tasks that are worth a cpu each, and tasks whose weights
/// change, one after the other, every `period` picks.
fn hogs_beside_changers(hogs: u32, worth_a_cpu: u32, period: usize) -> f64 {
    let heavies = vec![2 * HOG; worth_a_cpu as usize];
    let hogs_at = heavies.len()..heavies.len() + hogs as usize;
    let weights = [heavies, vec![HOG; hogs as usize], vec![LIGHT[0]; CHANGERS as usize]].concat();
    let setup = Setup::new(4, QUANTUM_NS);
    let mut policy = start(Checked::new(Gr3::new(&setup), &setup), &weights);
    let (mut running, mut service) = ([None; 4], 0);
    let picks = 40_000;
    for pick in 0..picks {
        let (cpu, now_ns) = (pick % 4, pick as u64 * QUANTUM_NS / 4);
        if let Some(task) = running[cpu] {
            policy.charge(task, QUANTUM_NS, now_ns);
        }
        let (round, at) = (pick / period, pick % period);
        if at < CHANGERS as usize {
            let task = TaskId(u32::try_from(hogs_at.end + at).expect("tasks are few"));
            let weight = Weight::new(LIGHT[round % 2]).expect("a weight is positive");
            policy.set_weight(task, weight, now_ns);
        }
        running[cpu] = policy.pick(cpu, now_ns);
        service += u32::from(running[cpu].is_some_and(|task| hogs_at.contains(&task.index())));
    }
    let hogs_weigh = f64::from(hogs * HOG);
    let share = |light: u32| hogs_weigh / (hogs_weigh + f64::from(CHANGERS * light));
    let due = f64::from(4 - worth_a_cpu) / 4.0 * LIGHT.map(share).iter().sum::<f64>() / 2.0;
    f64::from(service) / (due * picks as f64)
}

/// They are not paid twice for a quantum, nor anew in each group, whether weights are capped or not. (They
/// were: the hogs had .33 to .88 of their due.)
#[test]
fn who_changes_weight_again_and_again_gains_nothing() {
    for (hogs, worth_a_cpu) in [(8, 0), (2, 2)] {
        for period in [16, 64, 400] {
            let part = hogs_beside_changers(hogs, worth_a_cpu, period);
            assert!((part - 1.0).abs() < 0.04, "{hogs}, {worth_a_cpu}, {period}: {part:.3}");
        }
    }
}

/// The most turns that a hog has while a newcomer of its order waits for its first one, on one cpu: all tasks
/// of the order change their weights within it as one blocks, ends or comes anew, as those of a cgroup do.
fn most_turns_before_a_newcomer(seed: u64) -> u32 {
    const TASKS: u32 = 3;
    let mut random = Random(seed);
    let mut gr3 = super::gr3(&[vec![1 << 10; TASKS as usize], vec![1 << 12]].concat(), 1);
    let (mut awake, mut worst) = ([true; TASKS as usize], 0);
    let mut turns_before = [None; TASKS as usize];
    for now_ns in (0..4000).map(|quantum| quantum * QUANTUM_NS) {
        if random.below(4) == 0 {
            let task = TaskId(1 + random.below(TASKS - 1));
            let is_awake = &mut awake[task.index()];
            *is_awake = !*is_awake;
            if *is_awake {
                gr3.remove(task, now_ns);
                gr3.add(task, Weight::new(1 << 10).expect("at least 1"));
                gr3.wake(task, now_ns);
            } else {
                gr3.block(task, now_ns);
            }
            turns_before[task.index()] = is_awake.then_some(0);
            let awake = awake.iter().filter(|&&awake| awake).count();
            let weight = Weight::new([2000, 1500, 1100][awake - 1]).expect("at least 1");
            (0..TASKS).for_each(|task| gr3.set_weight(TaskId(task), weight, now_ns));
        }
        let picked = gr3.pick(0, now_ns).expect("the hogs are runnable");
        gr3.charge(picked, QUANTUM_NS, now_ns);
        turns_before.get_mut(picked.index()).map(Option::take);
        if picked == TaskId(0) {
            for turns in turns_before.iter_mut().flatten() {
                *turns += 1;
                worst = worst.max(*turns);
            }
        }
    }
    worst
}

/// Found: 3 and 4. Where who was far behind had as many turns in a row as he lacked, it was 7 to 18: his
/// group, which counted nobody else yet, was as far ahead of him after each.
#[test]
fn who_is_far_behind_does_not_keep_newcomers_waiting() {
    for seed in 0..200 {
        let turns = most_turns_before_a_newcomer(seed);
        assert!(turns <= 4, "seed {seed}: {turns} turns");
    }
}

/// The most choices of a `pick` for one of `cpus` cpus while tasks of any weights come, go and change, two of
/// them far heavier than all others.
fn longest_search(cpus: usize, seed: u64) -> usize {
    let mut random = Random(seed);
    let tasks = u32::try_from(cpus).expect("few") + 1 + random.below(8);
    let (orders, calm) =
        ([2, 3, 8, 24][random.below(4) as usize], [1, 3, 10, 50, 400][random.below(5) as usize]);
    let changers = 1 + random.below(tasks);
    let weight = |random: &mut Random| {
        let order = random.below(orders);
        Weight::new(random.weight(order)).expect("at least 1")
    };
    let weights: Vec<u32> = (0..tasks).map(|_| weight(&mut random).get()).collect();
    let mut gr3 = super::gr3(&weights, cpus);
    let mut running = vec![None; cpus];
    let mut awake = vec![true; weights.len()];
    for now_ns in 1..1500 {
        if random.below(calm) == 0 {
            for _ in 0..=random.below(3) {
                let task = TaskId(random.below(changers));
                gr3.set_weight(task, weight(&mut random), now_ns);
            }
        }
        for _ in 0..random.below(5) {
            let task = TaskId(random.below(tasks));
            let is_awake = &mut awake[task.index()];
            *is_awake = !*is_awake;
            if *is_awake {
                gr3.wake(task, now_ns);
            } else {
                running.iter_mut().filter(|on| **on == Some(task)).for_each(|on| *on = None);
                gr3.block(task, now_ns);
                if random.below(2) == 0 {
                    let heavy = Weight::new(1 << 27).expect("at least 1");
                    gr3.remove(task, now_ns);
                    gr3.add(task, if task.0 < 2 { heavy } else { weight(&mut random) });
                }
            }
        }
        let cpu = random.below(u32::try_from(cpus).expect("few")) as usize;
        if let Some(task) = running[cpu].take() {
            gr3.charge(task, QUANTUM_NS, now_ns);
        }
        running[cpu] = gr3.pick(cpu, now_ns);
    }
    gr3.longest_search()
}

/// Found: 26, 33, 26 and 22.
#[test]
fn searches_are_short_whatever_comes_and_goes() {
    for cpus in [2, 3, 4, 8] {
        for seed in 0..1000 {
            let choices = longest_search(cpus, seed);
            assert!(choices <= 32 * cpus, "{cpus} cpus, seed {seed}: {choices} choices");
        }
    }
}

/// The heaviest task but one sleeps before anything is chosen: then it limits nobody any longer.
#[test]
fn who_leaves_before_the_first_choice_is_not_counted_by_the_cap() {
    let mut gr3 = super::gr3(&[1, 26, 1 << 20, 22, 133, 1 << 21], 2);
    gr3.block(TaskId(2), 0);
    for now_ns in 0..100 {
        gr3.pick(usize::from(now_ns > 0), now_ns);
    }
    assert!(gr3.longest_search() < 10, "{} choices", gr3.longest_search());
}

/// What the first of three equal tasks receives of two cpus in 600 quanta, where the other two have given up
/// their quanta at once for 100, with 99 in a hundred of each left: each had 50 times as many turns.
fn hog_beside_who_gave_up_quanta(sleepers: Sleepers) -> u64 {
    const LATER_NS: u64 = 100 * QUANTUM_NS;
    let setup = Setup { sleepers, ..Setup::new(2, QUANTUM_NS) };
    let policy = central::build("gr3", &setup).expect("a policy");
    let mut policy = start(policy, &[1, 1, 1]);
    let mut runs = [(0, 0, None); 2];
    let mut received_ns = 0;
    while let Some(cpu) = (0..2).min_by_key(|&cpu| runs[cpu].1)
        && runs[cpu].1 < LATER_NS + 600 * QUANTUM_NS
    {
        let (since_ns, now_ns, task) = runs[cpu];
        if let Some(task) = task {
            policy.charge(task, now_ns - since_ns, now_ns);
            received_ns += if task.0 == 0 && now_ns > LATER_NS { now_ns - since_ns } else { 0 };
        }
        let next = policy.pick(cpu, now_ns);
        let most_ns = next.and_then(|task| policy.slice_ns(task)).unwrap_or(QUANTUM_NS);
        let gives_up = now_ns < LATER_NS && next.is_some_and(|task| task.0 > 0);
        let run_ns = if gives_up { most_ns.min(QUANTUM_NS / 100) } else { most_ns };
        runs[cpu] = (now_ns, now_ns + run_ns, next);
    }
    received_ns / QUANTUM_NS
}

/// GR3MP counts turns: the hog was chosen as often as the others, and has its frontlog for as long; it is due
/// 400. Nobody sleeps, so that nothing is corrected either. (So in the kernel who yields has the rest of his
/// turn later.)
#[test]
fn who_gives_up_his_quanta_makes_frontlogs_grow() {
    for sleepers in [Sleepers::Paper, Sleepers::Turns, Sleepers::Corrected] {
        assert_eq!(hog_beside_who_gave_up_quanta(sleepers), 599, "{sleepers:?}");
    }
}

//! Tasks that sleep, under both rules for them ([`Turns`], [`Corrected`]): service against payments, the
//! distance from the fluid ideal, and cheats, which must gain nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};

use prorata::policies::{Entry, REGISTRY, find};
use prorata::{Checked, Corrected, CpuId, Nanos, Policy, Setup, TaskId, Turns, Weight};

use crate::common::machine::{Demand, Machine, Result};
use crate::{Context, Random, on_all_cpus, watched};

const MS: Nanos = 1_000_000;
pub(crate) const QUANTUM_NS: Nanos = 5 * MS;

/// A policy, what it charged each task for, and how many sleeps it was told of.
pub(crate) struct Paid<P> {
    policy: P,
    pub(crate) paid_ns: Vec<Nanos>,
    pub(crate) sleeps: u32,
}

impl<P: Policy> Policy for Paid<P> {
    fn add(&mut self, task: TaskId, weight: Weight) {
        self.paid_ns.resize(self.paid_ns.len().max(task.index() + 1), 0);
        self.policy.add(task, weight);
    }
    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        self.policy.remove(task, now_ns);
    }
    fn set_weight(&mut self, task: TaskId, weight: Weight, now_ns: Nanos) {
        self.policy.set_weight(task, weight, now_ns);
    }
    fn wake(&mut self, task: TaskId, now_ns: Nanos) {
        self.policy.wake(task, now_ns);
    }
    fn block(&mut self, task: TaskId, now_ns: Nanos) {
        self.sleeps += 1;
        self.policy.block(task, now_ns);
    }
    fn pick(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        self.policy.pick(cpu, now_ns)
    }
    fn charge(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        self.paid_ns[task.index()] += used_ns;
        self.policy.charge(task, used_ns, now_ns);
    }
}

pub(crate) type Inner = Paid<crate::Watched>;

/// As in its paper.
pub(crate) fn paid(entry: &Entry, setup: &Setup) -> Inner {
    Paid { policy: watched(entry, setup), paid_ns: Vec::new(), sleeps: 0 }
}

pub(crate) fn turns(entry: &Entry, setup: &Setup) -> Turns<Inner> {
    Turns::new(paid(entry, setup), setup, entry.payment)
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

fn simulate(policy: impl Policy, cpus: usize, demands: &[Demand], end_ns: Nanos) -> Vec<Result> {
    Machine::new(policy, cpus, QUANTUM_NS, demands).run(end_ns)
}

/// A policy of the registry with a rule for sleepers.
pub(crate) type Rule = fn(&Entry, &Setup) -> Box<dyn Policy>;

/// `entry`'s policy with the rule for sleepers, held to the contract on both sides.
fn with_turns(entry: &Entry, setup: &Setup) -> Box<dyn Policy> {
    let policy = Checked::new(turns(entry, setup), setup);
    Box::new(policy.work_conserving(entry.work_conserving))
}

/// The same, corrected.
fn corrected(entry: &Entry, setup: &Setup) -> Box<dyn Policy> {
    let policy = Checked::new(Corrected::new(watched(entry, setup), setup), setup);
    Box::new(policy.work_conserving(entry.work_conserving))
}

pub(crate) const RULES: [Rule; 2] = [with_turns, corrected];

/// Hogs and sleepers of any demand.
fn mix(random: &mut Random, most_weight_bits: u32) -> Vec<Demand> {
    let (hogs, count) = (1 + random.below(8), 1 + random.below(8));
    let hogs = (0..hogs).map(|_| Demand::hog(random.weight(most_weight_bits)));
    let mut demands: Vec<Demand> = hogs.collect();
    for _ in 0..count {
        let period_ns = MS + u64::from(random.below(40_000_000));
        let run_ns = period_ns / 100 * (1 + u64::from(random.below(98)));
        let weight = random.weight(most_weight_bits);
        let first_ns = u64::from(random.below(40_000_000));
        demands.push(Demand { weight, period_ns, run_ns, first_ns });
    }
    demands
}

/// Service never leads payments, and what was received between turns, by more than the turn in progress, and
/// over any time a task receives at most that plus the cap and a quantum.
fn payments(entries: &[Entry]) {
    on_all_cpus(entries, &[1, 2, 5], |entry, cpus| {
        for seed in 0..6 {
            let _context = Context(format!("payments, seed {seed}"));
            let demands = mix(&mut Random(seed), 6);
            let setup = Setup::new(cpus, QUANTUM_NS);
            let policy = turns(entry, &setup);
            let mut machine = Machine::new(policy, cpus, QUANTUM_NS, &demands);
            let cap_ns = i128::from(entry.payment.cap_quanta * QUANTUM_NS);
            let quantum_ns = i128::from(QUANTUM_NS);
            let mut least = vec![0; demands.len()];
            for step in 1..400 {
                machine.run(step * MS);
                for (id, least) in (0u32..).zip(&mut least) {
                    let paid_ns = machine.policy.inner().paid_ns[id as usize];
                    let unpaid_ns = machine.policy.unpaid_ns(TaskId(id));
                    let due_ns = i128::from(paid_ns) + i128::from(unpaid_ns);
                    let lead = i128::from(machine.served_ns(id)) - due_ns;
                    assert!(lead <= quantum_ns, "task {id} at {step} ms leads by {lead} ns");
                    assert!(entry.payment.whole || lead >= -cap_ns, "task {id}: {lead} ns");
                    *least = lead.min(*least);
                    assert!(lead - *least <= cap_ns + quantum_ns, "task {id} gains at {step} ms");
                }
            }
        }
    });
}

/// What a case is held to.
struct Limits {
    /// The least part of the ideal service of the sleepers that they receive, in percent.
    served: f64,
    /// How far everybody's service may be from the ideal, in quanta.
    distance: f64,
}

fn hold(name: &str, results: &[Result], limits: &Limits) {
    for (id, result) in results.iter().enumerate() {
        if result.asked > 0 {
            let percent = result.served_ns as f64 * 100.0 / result.ideal_ns;
            assert!(percent >= limits.served, "{name}: task {id} received {percent:.1} %");
        }
        let distance = result.ahead.max(-result.behind);
        assert!(distance <= limits.distance, "{name}: task {id} is {distance:.1} quanta off");
    }
}

/// Sleepers that need at most 97 % of their share get it, beside hogs of their weight.
fn feasible(entries: &[Entry], rule: Rule) {
    on_all_cpus(entries, &[1, 2], |entry, cpus| {
        let hogs = |count| vec![Demand::hog(1); count];
        let cases = [
            (1, vec![hogs(9), sleepers(1, 1, 485, 5_000)]),
            (1, vec![hogs(4), sleepers(1, 4, 1_000, 20_000)]),
            (2, vec![hogs(16), sleepers(1, 1, 200, 10_000), sleepers(1, 4, 1_000, 20_000)]),
        ];
        for (on, parts) in cases.into_iter().filter(|case| case.0 == cpus) {
            let setup = Setup::new(on, QUANTUM_NS);
            let policy = rule(entry, &setup);
            let results = simulate(policy, on, &parts.concat(), 4_000 * MS);
            // Its queues may be further apart, by a round for each cpu.
            let apart = if entry.name == "gdq-distributed" { on as f64 } else { 0.0 };
            hold(entry.name, &results, &Limits { served: 97.0, distance: 6.0 + apart });
        }
    });
}

/// A hog that is worth a whole cpu of several, beside many that sleep: where these have credit the policy's
/// time stands still, and with it the hog's next turn.
#[test]
fn who_is_worth_a_whole_cpu_has_it() {
    on_all_cpus(&by_weight(), &[4], |entry, cpus| {
        let bursts = (0..24).map(|i: u32| Demand {
            weight: 4,
            period_ns: (40 + u64::from(i)) * MS,
            run_ns: 6 * MS,
            first_ns: 0,
        });
        let demands: Vec<_> = [Demand::hog(64)].into_iter().chain(bursts).collect();
        let setup = Setup::new(cpus, QUANTUM_NS);
        let results = simulate(with_turns(entry, &setup), cpus, &demands, 4_000 * MS);
        // Its surplus rises between its turns, which come later for that.
        let most = if entry.name == "sfs" { 40.0 } else { 4.0 };
        assert!(results[0].behind >= -most, "{}: {:.1} quanta", entry.name, results[0].behind);
    });
}

/// Nobody is charged for what is run between turns: a cpu that has no use for it is asked for somebody else,
/// and not for the same one again and again.
#[test]
fn who_runs_nothing_between_turns_waits_for_the_next() {
    let mut policy = turns(find("vtrr").unwrap(), &Setup::new(2, QUANTUM_NS));
    let [worth_a_cpu, sleeper] = [0, 3].map(TaskId);
    [5, 1, 1, 1]
        .into_iter()
        .zip(0..)
        .for_each(|(of, id)| policy.add(TaskId(id), Weight::new(of).unwrap()));
    policy.endow(sleeper, MS);
    (0..3).for_each(|id| policy.wake(TaskId(id), 0));
    assert_eq!(policy.pick(0, 0), Some(worth_a_cpu));
    policy.charge(worth_a_cpu, QUANTUM_NS, QUANTUM_NS);
    policy.wake(sleeper, QUANTUM_NS);
    assert_eq!(policy.pick(0, QUANTUM_NS), Some(worth_a_cpu));
    policy.charge(worth_a_cpu, 0, QUANTUM_NS);
    assert_eq!(policy.pick(0, QUANTUM_NS), Some(sleeper));
    assert_eq!(policy.unpaid_ns(worth_a_cpu), 0);
}

/// A new task that has credit in advance is in no queue: as many hogs as there are cpus, none of whom is to
/// be interrupted, would let it wait for ever.
#[test]
fn who_begins_with_credit_runs_soon() {
    on_all_cpus(&by_weight(), &[3, 4, 8], |entry, cpus| {
        let setup = Setup::new(cpus, QUANTUM_NS);
        let mut policy = with_turns(entry, &setup);
        let id = |index: usize| TaskId(u32::try_from(index).expect("few"));
        for hog in 0..cpus {
            policy.add(id(hog), Weight::ONE);
            policy.wake(id(hog), 0);
        }
        let mut runs: Vec<_> = (0..cpus).map(|cpu| policy.pick(cpu, 0)).collect();
        let newcomer = id(cpus);
        policy.add(newcomer, Weight::ONE);
        policy.endow(newcomer, QUANTUM_NS / 2);
        policy.wake(newcomer, 0);
        for quantum in 1..10 {
            let now_ns = quantum * QUANTUM_NS;
            for task in runs.drain(..).flatten() {
                let used_ns = policy.slice_ns(task).unwrap_or(QUANTUM_NS);
                policy.charge(task, used_ns, now_ns);
            }
            runs.extend((0..cpus).map(|cpu| policy.pick(cpu, now_ns)));
            if runs.contains(&Some(newcomer)) {
                return;
            }
        }
        panic!("{} on {cpus} cpus: it waits", entry.name);
    });
}

/// The policies that share by weight, deterministically. (On several cpus round robin pays sleepers
/// too much: a consumed turn takes no time, so they queue again before those who run.)
pub(crate) fn by_weight() -> Vec<Entry> {
    REGISTRY.iter().filter(|entry| entry.by_weight).copied().collect()
}

#[test]
fn service_keeps_to_payments() {
    payments(REGISTRY);
}

#[test]
fn sleepers_get_their_share() {
    for rule in RULES {
        feasible(&by_weight(), rule);
    }
}

/// How far anybody may be from the ideal, in quanta, in the mixes below: rounded up from the largest that
/// was found in 1,000 others of them (`examples/sleepers.rs`), where the ideal serves every job.
fn room(cpus: usize) -> f64 {
    if cpus == 1 { 6.0 } else { 16.0 }
}

/// Hogs and sleepers of any weight and demand, on any number of cpus, where the ideal serves all jobs.
fn keeps_to_the_ideal(entries: &[Entry], rule: Rule) {
    on_all_cpus(entries, &[1, 2, 4, 8], |entry, cpus| {
        let mut random = Random(cpus as u64);
        let (mut tried, mut held) = (0, 0);
        while held < 6 {
            tried += 1;
            let mut demands = mix(&mut random, 8);
            demands.extend((0..cpus).map(|_| Demand::hog(random.weight(8))));
            let _context = Context(format!("mix {tried}"));
            let setup = Setup::new(cpus, QUANTUM_NS);
            let results = simulate(rule(entry, &setup), cpus, &demands, 1_000 * MS);
            if results.iter().all(|result| result.ideal_missed == 0) {
                held += 1;
                hold(entry.name, &results, &Limits { served: 0.0, distance: room(cpus) });
            }
        }
    });
}

#[test]
fn corrected_turns_keep_to_the_ideal() {
    keeps_to_the_ideal(&by_weight(), corrected);
}

/// A task that computes and sleeps so as to gain: just before a tick or the end of the quantum, for
/// exactly a round, now and then. Nobody receives three quanta more than a hog of its weight.
fn cheats(entries: &[Entry], rule: Rule) {
    on_all_cpus(entries, &[1, 2, 4], |entry, cpus| {
        let mut random = Random(5);
        let directed =
            [(900, 1_000), (3_990, 4_000), (4_990, 5_000), (4_900, 54_900), (40_000, 100_000)];
        let any = |random: &mut Random| {
            let period_us = 100 + u64::from(random.below(60_000));
            (period_us * (1 + u64::from(random.below(99))) / 100 + 1, period_us + 1)
        };
        let random: Vec<_> = (0..5).map(|_| any(&mut random)).collect();
        for (run_us, period_us) in directed.into_iter().chain(random) {
            let _context = Context(format!("a cheat that runs {run_us} of {period_us} us"));
            let mut demands = vec![Demand::hog(1); 5 * cpus];
            demands.extend(sleepers(1, u32::try_from(cpus).expect("few"), run_us, period_us));
            let setup = Setup::new(cpus, QUANTUM_NS);
            let results = simulate(rule(entry, &setup), cpus, &demands, 2_000 * MS);
            let hog_ns = results[..5 * cpus].iter().map(|r| r.served_ns).max().expect("hogs");
            for cheat in &results[5 * cpus..] {
                assert!(
                    cheat.served_ns <= hog_ns + 3 * QUANTUM_NS,
                    "{}: {} ns, a hog {hog_ns} ns",
                    entry.name,
                    cheat.served_ns
                );
            }
        }
    });
}

#[test]
fn cheats_gain_nothing() {
    for rule in RULES {
        cheats(&by_weight(), rule);
    }
}

/// Four hogs beside a task that runs for `run_ns` and then goes away, and leaves a new one behind, who may
/// inherit. What the chain of them received in a thousand quanta, and the most that a hog did.
fn chain(mut policy: Box<dyn Policy>, run_ns: Nanos, inherits: bool) -> (Nanos, Nanos) {
    const LINK: TaskId = TaskId(4);
    for id in (0..5).map(TaskId) {
        policy.add(id, Weight::ONE);
        policy.wake(id, 0);
    }
    let (mut now_ns, mut left_ns, mut served_ns, mut estate_ns) = (0, run_ns, [0; 5], 0);
    while now_ns < 1000 * QUANTUM_NS {
        let task = policy.pick(0, now_ns).expect("five are runnable");
        let slice_ns = policy.slice_ns(task).unwrap_or(QUANTUM_NS);
        let used_ns = if task == LINK { slice_ns.min(left_ns) } else { slice_ns };
        now_ns += used_ns;
        served_ns[task.index()] += used_ns;
        policy.charge(task, used_ns, now_ns);
        if task == LINK {
            left_ns -= used_ns;
            if left_ns == 0 {
                if inherits {
                    policy.block(LINK, now_ns);
                    estate_ns += policy.retire(LINK, now_ns);
                }
                policy.remove(LINK, now_ns);
                policy.add(LINK, Weight::ONE);
                if estate_ns > 0 {
                    let advance_ns = estate_ns.min(QUANTUM_NS.cast_signed());
                    policy.endow(LINK, advance_ns.cast_unsigned());
                    estate_ns -= advance_ns;
                }
                policy.wake(LINK, now_ns);
                left_ns = run_ns;
            }
        }
    }
    (served_ns[4], served_ns[..4].iter().copied().max().expect("four"))
}

#[test]
fn a_chain_of_new_tasks_gains_nothing_and_its_heirs_lose_nothing() {
    for entry in by_weight() {
        for run_us in [50, 1_000, 1_250, 4_990, 5_000, 7_000, 30_000] {
            let setup = Setup::new(1, QUANTUM_NS);
            for inherits in [false, true] {
                let _context =
                    Context(format!("{}, {run_us} us, inherits: {inherits}", entry.name));
                let policy = corrected(&entry, &setup);
                let (chain_ns, hog_ns) = chain(policy, run_us * 1000, inherits);
                // Once, from each hog the quantum by which turns are not exchanged, and the runs at the end.
                assert!(chain_ns <= hog_ns + 6 * QUANTUM_NS, "{chain_ns} ns, a hog {hog_ns} ns");
                // 200 quanta are due. (If nobody inherits, it has next to none of them under some policies.)
                assert!(
                    !inherits || chain_ns + 3 * QUANTUM_NS >= hog_ns,
                    "{chain_ns} ns, a hog {hog_ns} ns"
                );
            }
        }
    }
}

/// The only cpu runs until `end_ns`. What `task` receives.
fn run_until(policy: &mut impl Policy, now_ns: &mut Nanos, end_ns: Nanos, task: TaskId) -> Nanos {
    let mut received_ns = 0;
    while *now_ns < end_ns {
        let picked = policy.pick(0, *now_ns).expect("one is runnable");
        let used_ns = policy.slice_ns(picked).unwrap_or(QUANTUM_NS);
        *now_ns += used_ns;
        policy.charge(picked, used_ns, *now_ns);
        received_ns += if picked == task { used_ns } else { 0 };
    }
    received_ns
}

/// Two hogs of one weight on a cpu, of which one is `away` from the policy for so many quanta. How many
/// it has of the next eighty.
fn quanta_after(mut policy: Box<dyn Policy>, away: fn(&mut dyn Policy, Nanos), quanta: u64) -> u64 {
    for id in [TaskId(0), TaskId(1)] {
        policy.add(id, Weight::ONE);
        policy.wake(id, 0);
    }
    let run = |policy: &mut Box<dyn Policy>, from: u64, count: u64| {
        let end_ns = (from + count) * QUANTUM_NS;
        run_until(policy, &mut (from * QUANTUM_NS), end_ns, TaskId(1)) / QUANTUM_NS
    };
    run(&mut policy, 0, 10);
    away(&mut policy, 10 * QUANTUM_NS);
    assert_eq!(run(&mut policy, 10, quanta), 0, "it was picked");
    policy.wake(TaskId(1), (10 + quanta) * QUANTUM_NS);
    run(&mut policy, 10 + quanta, 80)
}

/// Half of what it stood aside for comes after that, and of 64 quanta at most; who slept has what everybody
/// has who did, two.
#[test]
fn who_stands_aside_is_not_asleep() {
    for entry in by_weight() {
        let policy = || corrected(&entry, &Setup::new(1, QUANTUM_NS));
        for quanta in [1, 8, 20, 33, 200] {
            let _context = Context(format!("{}, {quanta} quanta", entry.name));
            let aside = |policy: &mut dyn Policy, now_ns| policy.stand_aside(TaskId(1), now_ns);
            let asleep = |policy: &mut dyn Policy, now_ns| policy.block(TaskId(1), now_ns);
            let (aside, asleep) =
                (quanta_after(policy(), aside, quanta), quanta_after(policy(), asleep, quanta));
            let due = 40 + quanta.min(64) / 2;
            assert!(aside.abs_diff(due) <= 2, "{aside} of eighty, due {due}");
            assert!(asleep <= 42, "{asleep} of eighty after a sleep");
        }
    }
}

/// A task of `weight` beside one with which it weighs `total` stands aside for so many quanta. How many it
/// has of so many next ones.
fn quanta_after_aside(entry: &Entry, weight: u32, total: u32, quanta: u64, next: u64) -> u64 {
    let (away, other) = (TaskId(0), TaskId(1));
    let mut policy = corrected(entry, &Setup::new(1, QUANTUM_NS));
    for (task, weight) in [(away, weight), (other, total - weight)] {
        policy.add(task, Weight::new(weight).expect("it is in range"));
        policy.wake(task, 0);
    }
    let mut now_ns = 0;
    run_until(&mut policy, &mut now_ns, QUANTUM_NS, away);
    policy.stand_aside(away, now_ns);
    run_until(&mut policy, &mut now_ns, (1 + quanta) * QUANTUM_NS, away);
    policy.wake(away, now_ns);
    run_until(&mut policy, &mut now_ns, (1 + quanta + next) * QUANTUM_NS, away) / QUANTUM_NS
}

/// Of what somebody misses so much counts as his weight gives him in 64 quanta: a light task has a quarter of
/// what a heavy one has that stands aside for as long, if it weighs a quarter.
#[test]
fn who_stands_aside_misses_by_his_weight() {
    for entry in by_weight() {
        for weight in [4, 1] {
            let quanta = quanta_after_aside(&entry, weight, 10, 400, 200);
            let due = (200 + 64) * u64::from(weight) / 10;
            assert!(quanta.abs_diff(due) <= 3, "{}: {quanta} of 200, due {due}", entry.name);
        }
    }
}

/// However little that is, two quanta count, as of who sleeps: in 64 quanta this one is due a third of one.
#[test]
fn who_stands_aside_misses_two_quanta_however_light() {
    for entry in by_weight() {
        let quanta = quanta_after_aside(&entry, 1, 200, 1000, 40);
        assert!((2..=3).contains(&quanta), "{}: {quanta} of 40", entry.name);
    }
}

/// Two that were paid turns in advance run them while they stand aside, and the policy's cpu has
/// nobody: nobody is behind then, and a newcomer has its third at once. (Under gr3 it has none of
/// twelve quanta if the time is not taken for wasted.)
#[test]
fn who_stands_aside_runs_what_he_was_paid() {
    const PAID: u64 = 24;
    for entry in by_weight() {
        let _context = Context(entry.name.to_string());
        let mut policy = corrected(&entry, &Setup::new(1, QUANTUM_NS));
        let [one, other, newcomer] = [0, 1, 2].map(TaskId);
        for task in [one, other] {
            policy.add(task, Weight::ONE);
            policy.wake(task, 0);
        }
        // Errors are kept from here on.
        policy.block(other, 0);
        policy.wake(other, 0);
        let mut paid_ns = 0;
        while paid_ns < PAID * QUANTUM_NS {
            let task = policy.pick(0, 0).expect("two are runnable");
            let run_ns = policy.slice_ns(task).unwrap_or(QUANTUM_NS);
            policy.charge(task, run_ns, 0);
            paid_ns += run_ns;
        }
        [one, other].into_iter().for_each(|task| policy.stand_aside(task, 0));
        let mut now_ns = paid_ns;
        [one, other].into_iter().for_each(|task| policy.wake(task, now_ns));
        policy.add(newcomer, Weight::ONE);
        policy.wake(newcomer, now_ns);
        let received_ns = run_until(&mut policy, &mut now_ns, paid_ns + 12 * QUANTUM_NS, newcomer);
        let quanta = received_ns / QUANTUM_NS;
        assert!((2..=6).contains(&quanta), "{quanta} of twelve");
    }
}

/// A change of weight while tasks sleep and run: afterwards everybody has the new share.
fn reweighting(entries: &[Entry], rule: Rule) {
    on_all_cpus(entries, &[1, 2], |entry, cpus| {
        let mut demands = vec![Demand::hog(1); 4 * cpus];
        demands.extend(sleepers(1, 1, 300, 7_000));
        let setup = Setup::new(cpus, QUANTUM_NS);
        let mut machine = Machine::new(rule(entry, &setup), cpus, QUANTUM_NS, &demands);
        machine.run(500 * MS);
        for id in 0..2 {
            machine.set_weight(id, 3);
        }
        let before = [0, 3].map(|id| machine.served_ns(id));
        machine.run(30_000 * MS);
        let [heavy, light] = [0, 1].map(|i| machine.served_ns([0, 3][i]) - before[i]);
        let percent = heavy * 100 / light;
        assert!((280..320).contains(&percent), "{}: {percent} % of a light one", entry.name);
    });
}

#[test]
fn a_changed_weight_counts() {
    reweighting(&by_weight(), corrected);
    // GDQ's groups, of T = 20 quanta, are off beside a sleeper with and without turns.
    let is_gdq = |entry: &Entry| entry.name.starts_with("gdq");
    let entries: Vec<Entry> = by_weight().into_iter().filter(|entry| !is_gdq(entry)).collect();
    reweighting(&entries, with_turns);
}

/// The vices of [`Vicious`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vice {
    /// Pays half for those who have slept.
    Favours,
    /// A weight stays what it was.
    KeepsWeights,
    /// On several cpus the first task pays half.
    OnSeveralCpus,
}

/// A policy of sleepers with a vice.
pub(crate) struct Vicious {
    honest: Box<dyn Policy>,
    vice: Vice,
    cpus: usize,
    slept: Vec<bool>,
}

impl Vicious {
    pub(crate) fn rule(vice: Vice, entry: &Entry, setup: &Setup) -> Box<dyn Policy> {
        let honest = Box::new(turns(entry, setup));
        Box::new(Vicious { honest, vice, cpus: setup.cpus, slept: Vec::new() })
    }
}

impl Policy for Vicious {
    fn add(&mut self, task: TaskId, weight: Weight) {
        self.slept.resize(self.slept.len().max(task.index() + 1), false);
        self.honest.add(task, weight);
    }
    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        self.honest.remove(task, now_ns);
    }
    fn set_weight(&mut self, task: TaskId, weight: Weight, now_ns: Nanos) {
        if self.vice != Vice::KeepsWeights {
            self.honest.set_weight(task, weight, now_ns);
        }
    }
    fn wake(&mut self, task: TaskId, now_ns: Nanos) {
        self.honest.wake(task, now_ns);
    }
    fn block(&mut self, task: TaskId, now_ns: Nanos) {
        self.slept[task.index()] = true;
        self.honest.block(task, now_ns);
    }
    fn pick(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        self.honest.pick(cpu, now_ns)
    }
    fn charge(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        let cheap = match self.vice {
            Vice::Favours => self.slept[task.index()],
            Vice::KeepsWeights => false,
            Vice::OnSeveralCpus => self.cpus > 1 && task.0 == 0,
        };
        self.honest.charge(task, if cheap { used_ns / 2 } else { used_ns }, now_ns);
    }
    fn interrupt(&mut self, now_ns: Nanos) -> Option<CpuId> {
        self.honest.interrupt(now_ns)
    }
    fn slice_ns(&self, task: TaskId) -> Option<Nanos> {
        self.honest.slice_ns(task)
    }
}

fn is_rejected(by: fn(&[Entry], Rule), names: &[&str], rule: Rule) -> bool {
    let entries: Vec<Entry> =
        names.iter().map(|name| *find(name).expect("it is registered")).collect();
    catch_unwind(AssertUnwindSafe(|| by(&entries, rule))).is_err()
}

/// Policies of both kinds of payment, on one cpu and on several.
const HONEST: [&str; 3] = ["wfq", "gr3", "mfq"];

#[test]
fn the_honest_ones_pass() {
    for by in [feasible, cheats, reweighting] {
        for rule in RULES {
            assert!(!is_rejected(by, &HONEST, rule));
        }
    }
    assert!(!is_rejected(keeps_to_the_ideal, &HONEST, corrected));
}

#[test]
fn a_rule_that_starves_sleepers() {
    for name in HONEST {
        let plain: Rule = |entry, setup| Box::new(watched(entry, setup));
        assert!(name == "wfq" || is_rejected(feasible, &[name], plain), "{name}");
    }
}

#[test]
fn a_rule_that_favours_who_wakes() {
    for name in HONEST {
        let rule: Rule = |entry, setup| Vicious::rule(Vice::Favours, entry, setup);
        assert!(is_rejected(cheats, &[name], rule), "{name}");
    }
}

#[test]
fn a_rule_that_drops_a_change_of_weight() {
    for name in HONEST {
        let rule: Rule = |entry, setup| Vicious::rule(Vice::KeepsWeights, entry, setup);
        assert!(is_rejected(reweighting, &[name], rule), "{name}");
    }
}

#[test]
fn a_rule_that_cheats_on_several_cpus_only() {
    for name in ["gr3", "mfq"] {
        let rule: Rule = |entry, setup| Vicious::rule(Vice::OnSeveralCpus, entry, setup);
        assert!(is_rejected(feasible, &[name], rule), "{name}");
    }
}

//! The theorems, asserted in exact integers on every decision, for fixed sets (which is what they
//! are proven for). Lemma and theorem numbers are those of USENIX'05.

use proptest::prelude::*;
use prorata::policies::{self, FixedSet};
use prorata::{CpuId, Nanos, Policy, Setup, TaskId, Weight};

use super::differential::weight;
use super::{QUANTUM_NS, gr3, start};

/// A fraction: numerator and positive denominator.
type Fraction = (i128, i128);

/// Decisions of one cpu, and what every task and group received.
struct Tally {
    weights: Vec<i128>,
    service: Vec<i128>,
    /// The group of each task, an index into `groups`.
    group: Vec<usize>,
    /// In list order: weight and work.
    groups: Vec<(i128, i128)>,
    quanta: i128,
    total: i128,
}

impl Tally {
    fn new(weights: &[u32]) -> Tally {
        let mut sums: Vec<(i128, u32)> = Vec::new();
        for order in 0..32 {
            let members = weights.iter().filter(|w| w.ilog2() == order);
            let sum: i128 = members.map(|&w| i128::from(w)).sum();
            if sum > 0 {
                sums.push((sum, order));
            }
        }
        sums.sort_by_key(|&(sum, order)| (-sum, order));
        let place = |w: &u32| sums.iter().position(|&(_, order)| order == w.ilog2()).unwrap();
        Tally {
            weights: weights.iter().map(|&w| i128::from(w)).collect(),
            service: vec![0; weights.len()],
            group: weights.iter().map(place).collect(),
            groups: sums.iter().map(|&(sum, _)| (sum, 0)).collect(),
            quanta: 0,
            total: weights.iter().map(|&w| i128::from(w)).sum(),
        }
    }

    fn run(&mut self, task: usize) {
        self.service[task] += 1;
        self.groups[self.group[task]].1 += 1;
        self.quanta += 1;
    }

    /// e_C = w_C − W_T·φ/Φ_T
    fn error(&self, task: usize) -> Fraction {
        (self.service[task] * self.total - self.quanta * self.weights[task], self.total)
    }

    /// e_{C,G} = w_C − W_G·φ/Φ_G
    fn error_in_group(&self, task: usize) -> Fraction {
        let (weight, work) = self.groups[self.group[task]];
        (self.service[task] * weight - work * self.weights[task], weight)
    }

    /// E_G = W_G − W_T·Φ_G/Φ_T
    fn group_error(&self, group: usize) -> Fraction {
        let (weight, work) = self.groups[group];
        (work * self.total - self.quanta * weight, self.total)
    }
}

/// Checks the lemmas and Theorem 1 for `task`, which has just run or is about to.
fn check(tally: &Tally, task: usize) -> Result<(), String> {
    let within = |what: &str, (n, d): Fraction, low: Fraction, high: Fraction| {
        let ok = low.0 * d < n * low.1 && n * high.1 < high.0 * d;
        if ok { Ok(()) } else { Err(format!("{what} of task {task} is {n}/{d}")) }
    };
    let g = tally.groups.len() as i128;
    let group = tally.group[task];
    let k = group as i128 + 1;
    let pairs = |n: i128| n * (n - 1) / 2;
    within("e_{C,G}", tally.error_in_group(task), (-3, 1), (4, 1))?;
    let lower = -pairs(g - 1) * tally.weights[task] - 4 * tally.total;
    within("e_C", tally.error(task), (lower, tally.total), (g + 3, 1))?;
    let error = tally.group_error(group);
    let lower = -pairs(g - k) * tally.groups[group].0 - tally.total;
    // With a single group E is 0, which is not below g − 1: Lemma 4 needs g ≥ 2.
    let upper = if g == 1 { 1 } else { g - 1 };
    within("E_G", error, (lower, tally.total), (upper, 1))?;
    let integer_ratios = tally.groups.windows(2).all(|pair| pair[0].0 % pair[1].0 == 0);
    if integer_ratios {
        within("e_C", tally.error(task), (-4, 1), (g + 3, 1))?;
        let lemma3 = ((g - k) * tally.groups[group].0, tally.total);
        if error.0 > lemma3.0 || error.0 <= -tally.total {
            return Err(format!("Lemma 3: E_G is {}/{} for k = {k} of {g}", error.0, error.1));
        }
    }
    Ok(())
}

/// Runs `policy` on one cpu and checks every decision.
fn check_run(mut policy: impl Policy, weights: &[u32], quanta: usize) -> Result<(), String> {
    let mut tally = Tally::new(weights);
    for _ in 0..quanta {
        let now_ns = 0;
        let task = policy.pick(0, now_ns).ok_or("idle")?;
        check(&tally, task.index())?;
        tally.run(task.index());
        check(&tally, task.index())?;
        policy.charge(task, QUANTUM_NS, now_ns);
    }
    (0..weights.len()).try_for_each(|task| check(&tally, task))
}

fn adversarial() -> impl Strategy<Value = Vec<u32>> {
    prop_oneof![
        3 => proptest::collection::vec(weight(), 1..40),
        // A group of every order, so that g is large.
        1 => Just((0..32).map(|order| 1u32 << order).collect::<Vec<_>>()),
        1 => proptest::collection::vec(0u32..3, 20).prop_map(|extra| {
            (0..20u32).zip(extra).map(|(order, extra)| ((2u32 << order) - 1 - extra.min(1)).max(1)).collect()
        }),
        // One task with half of everything, the others alike.
        1 => (1u32..1000, 2usize..60).prop_map(|(w, n)| {
            let rest = vec![w; n];
            [vec![w * u32::try_from(n).unwrap()], rest].concat()
        }),
        // Groups of nearly equal weight.
        1 => (1u32..7).prop_map(|n| {
            (0..n).flat_map(|order| vec![1u32 << order; 1 << (n - order)]).collect()
        }),
    ]
}

/// Group weights that are powers of two, so that all their ratios are integers.
fn integer_ratios() -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::vec((0u32..20, 0u32..5), 1..6).prop_map(|groups| {
        let mut counts = [None; 20];
        groups.into_iter().for_each(|(order, count)| counts[order as usize] = Some(count));
        let members = |order: u32| {
            counts[order as usize].map_or(vec![], |count| vec![1u32 << order; 1 << count])
        };
        (0..20).flat_map(members).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Theorem 1, Lemmas 4 and 5.
    #[test]
    fn one_cpu(weights in adversarial()) {
        check_run(gr3(&weights, 1), &weights, 3000).map_err(TestCaseError::fail)?;
    }

    /// Lemma 3, and the case of Theorem 1 that builds on it.
    #[test]
    fn one_cpu_with_integer_ratios(weights in integer_ratios()) {
        check_run(gr3(&weights, 1), &weights, 3000).map_err(TestCaseError::fail)?;
    }

    /// Theorems 2 and 3.
    #[test]
    fn several_cpus(weights in adversarial(), cpus in 2usize..17) {
        check_shared(&weights, cpus).map_err(TestCaseError::fail)?;
    }
}

fn check_shared(weights: &[u32], cpus: usize) -> Result<(), String> {
    let weights: Vec<Weight> = weights.iter().map(|&w| Weight::new(w).unwrap()).collect();
    let set = FixedSet { weights: &weights, cpus };
    let bound = policies::find("gr3").expect("gr3 is registered").bound;
    let numbers: Vec<u32> = weights.iter().map(|w| w.get()).collect();
    let mut policy = gr3(&numbers, cpus);
    let mut errors = prorata::ideal::FixedErrors::new(&weights, cpus);
    let mut longest = 0;
    for _ in 0..500 {
        for cpu in 0..cpus {
            let work = policy.work();
            let Some(task) = policy.pick(cpu, 0) else { continue };
            longest = longest.max(policy.work() - work);
            errors.runs(task);
        }
        errors.end_quantum();
    }
    errors.finish();
    if longest > most_choices(&weights, cpus) {
        return Err(format!("{longest} choices in one pick"));
    }
    // What figure 11 shows is what the picks took.
    if policy.longest_search() as u64 != longest {
        return Err(format!("{} choices told, {longest} taken", policy.longest_search()));
    }
    for task in (0..).take(weights.len()).map(TaskId) {
        let (lower, upper) = (bound.lower.unwrap()(&set, task), bound.upper.unwrap()(&set, task));
        let extremes = errors.extremes(task);
        let denominator = i128::from(errors.denominator());
        let above = extremes.max * upper.denominator < upper.numerator * denominator;
        let below = extremes.min * lower.denominator > lower.numerator * denominator;
        if !above || !below {
            return Err(format!("{task:?}: errors {extremes:?}/{denominator} on {cpus} cpus"));
        }
    }
    Ok(())
}

/// Theorem 3 at its weakest: the largest value over k, for the groups that there are and one more
/// that readjusted weights may make.
fn most_choices(weights: &[Weight], cpus: usize) -> u64 {
    let orders = weights.iter().fold(0u32, |orders, w| orders | 1 << w.order());
    let g = u64::from(orders.count_ones()) + 1;
    let bound = |k: u64| (g - k) * (g - k + 1) / 2 + (k + 1) * (g - k + 1) * cpus as u64 + 1;
    (1..=g).map(bound).max().expect("there is a group")
}

/// A policy that now and then runs the task that ran last once more.
struct Cheat<P> {
    honest: P,
    last: Option<TaskId>,
    picks: u32,
}

impl<P: Policy> Policy for Cheat<P> {
    fn add(&mut self, task: TaskId, weight: Weight) {
        self.honest.add(task, weight);
    }
    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        self.honest.remove(task, now_ns);
    }
    fn set_weight(&mut self, task: TaskId, weight: Weight, now_ns: Nanos) {
        self.honest.set_weight(task, weight, now_ns);
    }
    fn wake(&mut self, task: TaskId, now_ns: Nanos) {
        self.honest.wake(task, now_ns);
    }
    fn block(&mut self, task: TaskId, now_ns: Nanos) {
        self.honest.block(task, now_ns);
    }
    fn pick(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        self.picks += 1;
        if !self.picks.is_multiple_of(7) {
            self.last = self.honest.pick(cpu, now_ns);
        }
        self.last.or_else(|| self.honest.pick(cpu, now_ns))
    }
    fn charge(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        self.honest.charge(task, used_ns, now_ns);
    }
}

/// The suite that accepts GR3 rejects a policy that favours somebody by one quantum in seven.
#[test]
fn a_cheat_is_caught() {
    let weights = [5, 2, 1, 9, 3];
    let honest = start(super::Gr3::new(&Setup::new(1, QUANTUM_NS)), &weights);
    check_run(honest.clone(), &weights, 3000).expect("GR3 keeps its bounds");
    let cheat = Cheat { honest, last: None, picks: 0 };
    let verdict = check_run(cheat, &weights, 3000);
    assert!(verdict.is_err(), "the cheat went unnoticed");
}

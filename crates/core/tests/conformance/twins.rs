//! Naive twins: the definitions in fractions, searched in O(N), against the fast policies.

use prorata::{Setup, policies};

use crate::Random;
use crate::common::{Lockstep, QUANTUM_NS, start};

/// A set in the course of its schedule: weights, quanta received, and when each task ran last.
struct State {
    weights: Vec<u128>,
    received: Vec<u128>,
    last_run: Vec<u128>,
    quanta: u128,
}

impl State {
    fn total(&self) -> u128 {
        self.weights.iter().sum()
    }

    /// The task of least `numerator`/φ among those that qualify; ties to the least recently run.
    fn least(&self, numerator: impl Fn(usize) -> u128, qualifies: impl Fn(usize) -> bool) -> usize {
        let before = |a: usize, b: usize| {
            let cross = (numerator(a) * self.weights[b]).cmp(&(numerator(b) * self.weights[a]));
            cross.then(self.last_run[a].cmp(&self.last_run[b])).then(a.cmp(&b))
        };
        (0..self.weights.len())
            .filter(|&i| qualifies(i))
            .min_by(|&a, &b| before(a, b))
            .expect("somebody qualifies")
    }

    fn run(&mut self, task: usize) {
        self.quanta += 1;
        self.received[task] += 1;
        self.last_run[task] = self.quanta;
    }
}

/// Whom the definition runs next.
type Definition = fn(&State) -> usize;

fn compare(policy: &str, definition: Definition) {
    let mut random = Random(17);
    for round in 0..300 {
        let count = 1 + random.below(40) as usize;
        let weights = random.weights(count, [4, 8, 16, 32][round % 4]);
        let setup = Setup::new(1, QUANTUM_NS);
        let built = policies::build(policy, &setup).expect("a valid policy");
        let mut fast = Lockstep::new(start(built, &weights), 1);
        let mut state = State {
            weights: weights.iter().map(|&w| u128::from(w)).collect(),
            received: vec![0; count],
            last_run: vec![0; count],
            quanta: 0,
        };
        for quantum in 0..600 {
            let expected = definition(&state);
            let picked = fast.quantum()[0].map(|task| task.index());
            assert_eq!(picked, Some(expected), "{policy}, quantum {quantum} of {weights:?}");
            state.run(expected);
        }
    }
}

#[test]
fn wfq_runs_the_least_finishing_time() {
    compare("wfq", |state| state.least(|i| state.received[i] + 1, |_| true));
    compare("wfq-list", |state| state.least(|i| state.received[i] + 1, |_| true));
}

#[test]
fn sfq_runs_the_least_start_tag() {
    compare("sfq", |state| state.least(|i| state.received[i], |_| true));
}

/// S ≤ v: m/φ ≤ t/Φ.
#[test]
fn wf2q_runs_the_least_finishing_time_of_the_eligible() {
    compare("wf2q", |state| {
        let total = state.total();
        let eligible = |i| state.received[i] * total <= state.quanta * state.weights[i];
        state.least(|i| state.received[i] + 1, eligible)
    });
}

/// Spec section 4, word by word, for a fixed set: counters, VFT and QVT in quanta.
struct NaiveVtrr {
    /// (share, id), by decreasing share and id.
    queue: Vec<(u128, usize)>,
    counters: Vec<u128>,
    /// Runs of each, in the order of the queue: VFT = (runs + 1)/share.
    runs: Vec<u128>,
    quanta: u128,
    total: u128,
    current: Option<usize>,
}

impl NaiveVtrr {
    fn new(weights: &[u32]) -> NaiveVtrr {
        let mut queue: Vec<(u128, usize)> =
            weights.iter().enumerate().map(|(id, &w)| (u128::from(w), id)).collect();
        queue.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        NaiveVtrr {
            counters: queue.iter().map(|&(share, _)| share).collect(),
            runs: vec![0; weights.len()],
            total: queue.iter().map(|&(share, _)| share).sum(),
            queue,
            quanta: 0,
            current: None,
        }
    }

    fn next(&mut self) -> usize {
        if self.counters.iter().all(|&counter| counter == 0) {
            self.counters = self.queue.iter().map(|&(share, _)| share).collect();
            self.current = None;
        }
        let next = self.current.map_or(self.queue.len(), |current| current + 1);
        let runs_next = next < self.queue.len() && {
            let share = self.queue[next].0;
            let invariant = self.counters[next] > self.counters[next - 1];
            // VFT − (QVT + 1/Φ) < 1/S, where VFT = (runs + 1)/S and QVT = quanta/Φ.
            invariant || self.runs[next] * self.total < (self.quanta + 1) * share
        };
        let at = if runs_next { next } else { 0 };
        self.current = Some(at);
        self.counters[at] -= 1;
        self.runs[at] += 1;
        self.quanta += 1;
        self.queue[at].1
    }
}

#[test]
fn vtrr_is_the_papers_algorithm() {
    let mut random = Random(23);
    for round in 0..1000 {
        let count = 1 + random.below(40) as usize;
        let weights = random.weights(count, [2, 4, 8, 32][round % 4]);
        let setup = Setup::new(1, QUANTUM_NS);
        let built = policies::build("vtrr", &setup).expect("a valid policy");
        let mut fast = Lockstep::new(start(built, &weights), 1);
        let mut naive = NaiveVtrr::new(&weights);
        for quantum in 0..800 {
            let expected = naive.next();
            let picked = fast.quantum()[0].map(|task| task.index());
            assert_eq!(picked, Some(expected), "quantum {quantum} of {weights:?}");
        }
    }
}

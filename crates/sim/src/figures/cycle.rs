//! The service errors of a fixed set over one cycle of its schedule, exactly and fast.
//!
//! A task that received w of t quanta has the error e = w − t·P·φ/Φ; times Φ that is an integer.
//! It is greatest just after a quantum of the task and least just before one, so that two samples
//! a decision find the extremes of all tasks. After Φ/P quanta on P cpus every task has received
//! exactly φ, and the schedule begins anew.

use prorata::{Nanos, Policy, Setup, TaskId, Weight};

use crate::fixed::lockstep;

/// Quanta only count; this one makes virtual times small numbers.
pub(super) const QUANTUM_NS: u64 = 1;

/// The least and the greatest error, in quanta times Φ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extremes {
    pub(super) min: i64,
    pub(super) max: i64,
}

impl Extremes {
    #[inline]
    pub(super) fn sample(&mut self, before: i64, after: i64) {
        self.min = self.min.min(before);
        self.max = self.max.max(after);
    }
}

/// A task's account: 8 bytes, since all of them are walked through at random.
#[derive(Clone, Copy, Debug)]
struct Account {
    received: u32,
    weight: u32,
}

/// Runs tasks 0, 1, … of `weights` under `policy`, which was built with `setup` and knows no task,
/// for one cycle of Φ decisions.
///
/// # Panics
/// When Φ is not a multiple of the cpus, when a cpu idles, and when on one cpu some task did not
/// receive exactly its weight: then the schedule does not repeat after Φ decisions.
pub(super) fn run<P: Policy + ?Sized>(
    policy: &mut P,
    setup: &Setup,
    weights: &[Weight],
) -> Extremes {
    let mut accounts = admit(policy, weights);
    let total: u64 = weights.iter().map(|w| u64::from(w.get())).sum();
    let cpus = setup.cpus as u64;
    assert_eq!(total % cpus, 0, "a cycle is a whole number of quanta on {cpus} cpus");
    let cycle = Cycle { total: signed(total), cpus: signed(cpus), quantum_ns: setup.quantum_ns };
    if cpus > 1 {
        return cycle.shared(policy, &mut accounts, setup, total / cpus);
    }
    let extremes = cycle.alone(policy, &mut accounts);
    let repeats = accounts.iter().all(|account| account.received == account.weight);
    assert!(repeats, "after {total} decisions the schedule does not begin anew");
    extremes
}

/// Runs tasks 0, 1, … of `weights` under `policy` for `quanta` quanta on each cpu, however long a
/// cycle is.
///
/// # Panics
/// When a cpu idles.
pub(super) fn span<P: Policy + ?Sized>(
    policy: &mut P,
    setup: &Setup,
    weights: &[Weight],
    quanta: u64,
) -> Extremes {
    let mut accounts = admit(policy, weights);
    let total: u64 = weights.iter().map(|w| u64::from(w.get())).sum();
    let cpus = signed(setup.cpus as u64);
    let cycle = Cycle { total: signed(total), cpus, quantum_ns: setup.quantum_ns };
    cycle.shared(policy, &mut accounts, setup, quanta)
}

fn admit<P: Policy + ?Sized>(policy: &mut P, weights: &[Weight]) -> Vec<Account> {
    for (task, &weight) in ids().zip(weights) {
        policy.add(task, weight);
    }
    for (task, _) in ids().zip(weights) {
        policy.wake(task, 0);
    }
    weights.iter().map(|weight| Account { received: 0, weight: weight.get() }).collect()
}

/// Tasks 0, 1, …
pub(super) fn ids() -> impl Iterator<Item = TaskId> {
    (0..TaskId::LIMIT).map(TaskId)
}

#[allow(clippy::cast_possible_wrap)] // Φ and everything below it fit in 33 bits
pub(super) fn signed(number: u64) -> i64 {
    number as i64
}

struct Cycle {
    total: i64,
    cpus: i64,
    quantum_ns: Nanos,
}

impl Cycle {
    /// On one cpu: the loop that the sweeps of GR3 §5.1 spend their time in.
    fn alone<P: Policy + ?Sized>(&self, policy: &mut P, accounts: &mut [Account]) -> Extremes {
        let mut extremes = Extremes::default();
        for now in 0..self.total {
            let now_ns = now.unsigned_abs() * self.quantum_ns;
            let task = policy.pick(0, now_ns).expect("no task ever blocks");
            let account = &mut accounts[task.index()];
            let weight = i64::from(account.weight);
            let before = i64::from(account.received) * self.total - now * weight;
            account.received += 1;
            extremes.sample(before, before + self.total - weight);
            policy.charge(task, self.quantum_ns, now_ns + self.quantum_ns);
        }
        extremes
    }

    /// On several cpus whose quanta begin together.
    fn shared<P: Policy + ?Sized>(
        &self,
        policy: &mut P,
        accounts: &mut [Account],
        setup: &Setup,
        quanta: u64,
    ) -> Extremes {
        let mut extremes = Extremes::default();
        lockstep(policy, setup, quanta, |now, _, task| {
            let account = &mut accounts[task.expect("more tasks than cpus").index()];
            let rate = i64::from(account.weight) * self.cpus;
            let before = i64::from(account.received) * self.total - signed(now) * rate;
            account.received += 1;
            extremes.sample(before, before + self.total - rate);
        });
        for account in accounts {
            let (received, weight) = (i64::from(account.received), i64::from(account.weight));
            let error = received * self.total - signed(quanta) * self.cpus * weight;
            extremes.sample(error, error);
        }
        extremes
    }
}

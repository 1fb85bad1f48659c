//! Lottery scheduling (Waldspurger and Weihl, OSDI 1994): every quantum a ticket is drawn, and its
//! holder runs. A task holds as many tickets as its weight says.
//!
//! *Why it is right.* Each draw is won with probability φ/Φ, whatever happened before. Nothing has to
//! be kept when tasks come, go or change weight, and nobody starves.
//!
//! *Bound.* None that always holds: after n quanta the error of a task has standard deviation
//! √(n·p·(1−p)) with p = φ/Φ, which grows without limit while its share converges.
//!
//! *Compensation tickets* (section 3.4). A task that uses only a part f of its quantum would fall
//! below its share, since it wins as often as the others. Until it next wins, its tickets count 1/f
//! times as much. Here that factor is at most 1024, so that the sum of all tickets fits in 64 bits.
//!
//! *Several cpus.* Each cpu draws among the tasks that wait. On P cpus that is a draw of P tasks
//! without replacement, in which the chances of light tasks are better than their share.
//!
//! *Chance* comes from SplitMix64 (Steele, Lea, Flood 2014), seeded by the set-up: the same seed gives
//! the same schedule. Draws are uniform without bias, by rejection. *Cost*: O(log N) with a tree of
//! partial sums.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Bound, Cost, Entry};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::Fenwick;
use crate::turns::Payment;

pub(super) const ENTRY: Entry = Entry {
    name: "lottery",
    title: "Lottery scheduling",
    paper: "Waldspurger, Weihl 1994, sections 2 and 3",
    bound: Bound::none("none; standard deviation √(n·p·(1−p)) after n quanta, p = φ/Φ"),
    cost: Cost { pick: "log N", insert: "log N", remove: "log N" },
    multiprocessor: true,
    work_conserving: true,
    by_weight: false,
    payment: Payment::USE,
    options: &[("compensation", "on", "compensation tickets for partial quanta: on or off")],
    build: |setup, options| {
        let compensation = options.choice("compensation", &[("on", true), ("off", false)])?;
        Ok(Box::new(Lottery::new(setup, compensation)))
    },
};

/// The most that compensation multiplies tickets by.
const COMPENSATION_MAX: u64 = 1024;

/// SplitMix64.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, each with the same probability.
    fn below(&mut self, limit: u64) -> u64 {
        // The numbers from here up are a partial set of remainders.
        let whole = u64::MAX - u64::MAX % limit;
        loop {
            let drawn = self.next();
            if drawn < whole {
                return drawn % limit;
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Task {
    weight: Weight,
    /// Quantum over what the task used of its last one, as a fraction of u64s.
    factor: (u64, u64),
}

impl Task {
    fn tickets(&self) -> u64 {
        let weight = u64::from(self.weight.get());
        let (quantum_ns, used_ns) = self.factor;
        let most = weight * COMPENSATION_MAX;
        let compensated = u128::from(weight) * u128::from(quantum_ns) / u128::from(used_ns.max(1));
        u64::try_from(compensated).map_or(most, |tickets| tickets.min(most))
    }
}

/// Lottery scheduling. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Lottery {
    quantum_ns: Nanos,
    compensation: bool,
    random: Random,
    /// The tickets of waiting tasks.
    pot: Fenwick,
    tasks: Vec<Task>,
}

impl Lottery {
    /// A lottery over no tasks.
    #[must_use]
    pub fn new(setup: &Setup, compensation: bool) -> Lottery {
        Lottery {
            quantum_ns: setup.quantum_ns,
            compensation,
            random: Random(setup.seed),
            pot: Fenwick::default(),
            tasks: Vec::new(),
        }
    }

    fn enter(&mut self, task: TaskId) {
        self.pot.set(task, self.tasks[task.index()].tickets());
    }
}

impl Policy for Lottery {
    fn add(&mut self, task: TaskId, weight: Weight) {
        let new = Task { weight, factor: (1, 1) };
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, new);
            self.pot.reserve(self.tasks.len());
        }
        self.tasks[task.index()] = new;
    }

    fn remove(&mut self, task: TaskId, _now_ns: Nanos) {
        self.pot.set(task, 0);
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, _now_ns: Nanos) {
        self.tasks[task.index()].weight = weight;
        if self.pot.get(task) > 0 {
            self.enter(task);
        }
    }

    fn wake(&mut self, task: TaskId, _now_ns: Nanos) {
        self.enter(task);
    }

    fn block(&mut self, task: TaskId, _now_ns: Nanos) {
        self.pot.set(task, 0);
    }

    fn pick(&mut self, _cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        let total = self.pot.total();
        if total == 0 {
            return None;
        }
        let winner = self.pot.find(self.random.below(total))?;
        self.pot.set(winner, 0);
        self.tasks[winner.index()].factor = (1, 1);
        Some(winner)
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, _now_ns: Nanos) {
        if self.compensation {
            self.tasks[task.index()].factor = (self.quantum_ns, used_ns);
        }
        self.enter(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Weight 3 against 1, for 100,000 quanta: within five standard deviations, which a fair lottery
    /// misses once in 1.7 million seeds.
    #[test]
    fn shares_are_those_of_chance() {
        for seed in 0..8 {
            let setup = Setup { seed, ..Setup::new(1, 100) };
            let wins = wins(Lottery::new(&setup, true), &[3, 1], |_| 100);
            assert!((75_000 - 685..75_000 + 685).contains(&wins[0]), "seed {seed}: {wins:?}");
        }
    }

    /// Two tasks of equal weight, one of which uses a fifth of its quanta: the paper's example. With
    /// compensation it wins five times as often.
    #[test]
    fn compensation_makes_up_for_partial_quanta() {
        let setup = Setup::new(1, 100);
        let used_ns = |id| if id == 0 { 20 } else { 100 };
        let on = wins(Lottery::new(&setup, true), &[1, 1], used_ns);
        assert!((83_333 - 600..83_333 + 600).contains(&on[0]), "{on:?}");
        let off = wins(Lottery::new(&setup, false), &[1, 1], used_ns);
        assert!((50_000 - 800..50_000 + 800).contains(&off[0]), "{off:?}");
    }

    fn wins(mut policy: Lottery, weights: &[u32], used_ns: fn(u32) -> u64) -> Vec<u64> {
        for (id, &weight) in (0..).zip(weights) {
            policy.add(TaskId(id), Weight::new(weight).expect("not 0"));
            policy.wake(TaskId(id), 0);
        }
        let mut wins = alloc::vec![0; weights.len()];
        for _ in 0..100_000 {
            let task = policy.pick(0, 0).expect("all wait");
            wins[task.index()] += 1;
            policy.charge(task, used_ns(task.0), 0);
        }
        wins
    }
}

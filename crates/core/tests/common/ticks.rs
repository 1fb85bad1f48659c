//! Cpus whose quanta are not in step, in clock ticks (DFS §4.2): quanta that begin anywhere, end
//! early, tasks that block, wake and change weight. Seeded.

use prorata::{Policy, TaskId};

use super::weight;

pub(crate) const TICK_NS: u64 = 1000;
pub(crate) const QUANTUM_TICKS: u64 = 10;
pub(crate) const QUANTUM_NS: u64 = QUANTUM_TICKS * TICK_NS;

/// A small generator of pseudo-random numbers (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From 0 to `end` − 1.
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        (((self.next() >> 32) * u64::from(end)) >> 32) as u32
    }

    /// From 0 to `end` − 1.
    pub(crate) fn index(&mut self, end: usize) -> usize {
        self.below(u32::try_from(end).expect("a small index")) as usize
    }

    pub(crate) fn weights(&mut self, count: usize, most: u32) -> Vec<u32> {
        (0..count).map(|_| 1 + self.below(most)).collect()
    }
}

fn id_of(index: usize) -> TaskId {
    TaskId(u32::try_from(index).expect("a small index"))
}

/// What is not as in the ideal model.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Disorder {
    /// The first quantum of each cpu has any length.
    pub(crate) asynchronous: bool,
    /// Quanta end after 1 to 10 ticks, not 10.
    pub(crate) variable: bool,
    /// How often in a thousand a task blocks at the end of its quantum, or wakes at a tick.
    pub(crate) blocks: u32,
    /// How often in a thousand ticks a task changes its weight.
    pub(crate) reweighs: u32,
}

pub(crate) struct Ticks<P> {
    pub(crate) policy: P,
    pub(crate) random: Random,
    disorder: Disorder,
    blocked: Vec<bool>,
    /// The task on each cpu, when it began and when it ends.
    running: Vec<Option<(TaskId, u64, u64)>>,
    pub(crate) tick: u64,
    /// Ticks of cpus that idled while a task waited.
    pub(crate) idle_ticks: u64,
    /// What was on the cpus at each tick, for comparisons.
    pub(crate) trace: Vec<Option<TaskId>>,
}

impl<P: Policy> Ticks<P> {
    /// Tasks of `weights`, all woken.
    pub(crate) fn new(
        policy: P,
        cpus: usize,
        weights: &[u32],
        disorder: Disorder,
        seed: u64,
    ) -> Ticks<P> {
        Ticks {
            policy: super::start(policy, weights),
            random: Random(seed),
            disorder,
            blocked: vec![false; weights.len()],
            running: vec![None; cpus],
            tick: 0,
            idle_ticks: 0,
            trace: Vec::new(),
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.tick * TICK_NS
    }

    /// One tick on all cpus.
    pub(crate) fn tick(&mut self) {
        (0..self.running.len()).for_each(|cpu| self.end_quantum(cpu));
        self.wake_some();
        if self.random.below(1000) < self.disorder.reweighs {
            let task = id_of(self.random.index(self.blocked.len()));
            let bits = self.random.below(12);
            let new = weight(1 + self.random.below(1 << bits));
            self.policy.set_weight(task, new, self.now_ns());
        }
        (0..self.running.len()).for_each(|cpu| self.pick(cpu));
        let idle = self.running.iter().filter(|r| r.is_none()).count();
        let runnable = self.blocked.iter().filter(|&&b| !b).count();
        let waiting = runnable - (self.running.len() - idle);
        self.idle_ticks += idle.min(waiting) as u64;
        self.trace.extend(self.running.iter().map(|r| r.map(|(task, ..)| task)));
        self.tick += 1;
    }

    fn end_quantum(&mut self, cpu: usize) {
        let Some((task, begin, end)) = self.running[cpu] else { return };
        if end > self.tick {
            return;
        }
        self.running[cpu] = None;
        self.policy.charge(task, (end - begin) * TICK_NS, self.now_ns());
        if self.random.below(1000) < self.disorder.blocks {
            self.policy.block(task, self.now_ns());
            self.blocked[task.index()] = true;
        }
    }

    fn wake_some(&mut self) {
        for id in 0..self.blocked.len() {
            if self.blocked[id] && self.random.below(1000) < self.disorder.blocks {
                self.blocked[id] = false;
                self.policy.wake(id_of(id), self.now_ns());
            }
        }
    }

    fn pick(&mut self, cpu: usize) {
        if self.running[cpu].is_some() {
            return;
        }
        let Some(task) = self.policy.pick(cpu, self.now_ns()) else { return };
        let any = self.disorder.variable || self.disorder.asynchronous && self.tick == 0;
        let ticks = if any { 1 + u64::from(self.random.below(10)) } else { QUANTUM_TICKS };
        self.running[cpu] = Some((task, self.tick, self.tick + ticks));
    }

    /// From now on nothing blocks or changes: all tasks are awake and have `weights`.
    pub(crate) fn settle(&mut self, weights: &[u32]) {
        let now_ns = self.now_ns();
        for (id, &w) in weights.iter().enumerate() {
            self.policy.set_weight(id_of(id), weight(w), now_ns);
            if core::mem::take(&mut self.blocked[id]) {
                self.policy.wake(id_of(id), now_ns);
            }
        }
        self.disorder = Disorder { blocks: 0, reweighs: 0, variable: false, asynchronous: false };
    }

    /// Ends what runs, without blocking anything.
    pub(crate) fn stop(&mut self) {
        for running in &mut self.running {
            if let Some((task, begin, _)) = running.take() {
                let now_ns = self.tick * TICK_NS;
                self.policy.charge(task, (self.tick - begin) * TICK_NS, now_ns);
            }
        }
    }
}

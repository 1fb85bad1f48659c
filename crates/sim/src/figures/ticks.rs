//! The machine of DFS §4.2, in clock ticks: cpus that ask for work each on its own, quanta that end
//! early, tasks that come and go. It counts the ticks in which cpus idle though tasks wait.
//!
//! A task is credited with its quantum at the end. A cpu that is given nothing idles for a quantum
//! and then asks again, but asks at once when a task arrives.

use prorata::{Policy, TaskId, Weight};

use crate::random::Random;

/// A clock tick; only ratios matter.
pub(super) const TICK_NS: u64 = 1000;
/// The longest quantum.
pub(super) const QUANTUM_TICKS: u64 = 10;
/// How long a run is.
const RUN_TICKS: u64 = 10_000;
/// Weights are uniform in 1..=this.
const HEAVIEST: u64 = 100;

/// What differs from the ideal model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scenario {
    /// Nothing: all quanta begin together, and last 10 ticks.
    Synchronised,
    /// The first quantum of each cpu lasts 1 to 10 ticks.
    Asynchronous,
    /// Every quantum lasts 1 to 10 ticks.
    Variable,
    /// As asynchronous; and a task arrives, and one departs, each once in so many ticks on average.
    Dynamic(u32),
}

impl Scenario {
    pub(super) fn name(self) -> &'static str {
        match self {
            Scenario::Synchronised => "synchronised",
            Scenario::Asynchronous => "asynchronous",
            Scenario::Variable => "variable",
            Scenario::Dynamic(_) => "dynamic",
        }
    }

    /// Distinguishes scenarios among streams of random numbers.
    pub(super) fn stream(self) -> u32 {
        match self {
            Scenario::Synchronised => 0,
            Scenario::Asynchronous => 1,
            Scenario::Variable => 2,
            Scenario::Dynamic(mean_ticks) => 2 + mean_ticks,
        }
    }
}

/// What a run gave.
#[derive(Clone, Debug, Default)]
pub(super) struct Idling {
    /// Ticks of cpus that idled while a task waited that could have used them.
    pub(super) cpu_ticks: u64,
    /// Ticks in which 0, 1, 2, … cpus idled while a task waited.
    pub(super) by_cpus: Vec<u64>,
    pub(super) decisions: u64,
}

/// Runs `tasks` tasks of random weights under `policy` on `cpus` cpus for 10,000 ticks.
pub(super) fn run<P: Policy>(
    policy: P,
    (cpus, tasks): (usize, u32),
    scenario: Scenario,
    lots: Random,
) -> Idling {
    let mut machine = Machine {
        policy,
        lots,
        scenario,
        cpus: vec![Cpu::default(); cpus],
        tasks: Vec::new(),
        free: Vec::new(),
        tick: 0,
        idling: Idling { by_cpus: vec![0; cpus + 1], ..Idling::default() },
    };
    (0..tasks).for_each(|_| machine.arrive());
    while machine.tick < RUN_TICKS {
        machine.turn();
        machine.tick += 1;
    }
    machine.idling
}

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    task: Option<TaskId>,
    /// The quantum, or the idling, lasts from … to …
    begin: u64,
    end: u64,
}

struct Machine<P> {
    policy: P,
    lots: Random,
    scenario: Scenario,
    cpus: Vec<Cpu>,
    /// The tasks that are there, in no order.
    tasks: Vec<TaskId>,
    /// Ids of departed tasks.
    free: Vec<TaskId>,
    tick: u64,
    idling: Idling,
}

impl<P: Policy> Machine<P> {
    fn now_ns(&self) -> u64 {
        self.tick * TICK_NS
    }

    /// One tick: quanta end, tasks come and go, cpus ask for work.
    fn turn(&mut self) {
        let now = self.tick;
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].end == now {
                self.charge(cpu);
            }
        }
        let arrived = match self.scenario {
            Scenario::Dynamic(mean_ticks) => self.come_and_go(mean_ticks),
            _ => false,
        };
        for cpu in 0..self.cpus.len() {
            let Cpu { task, end, .. } = self.cpus[cpu];
            if end == now || arrived && task.is_none() {
                self.pick(cpu);
            }
        }
        let idle = self.cpus.iter().filter(|cpu| cpu.task.is_none()).count();
        let waiting = self.tasks.len() - (self.cpus.len() - idle);
        self.idling.cpu_ticks += idle.min(waiting) as u64;
        if idle > 0 && waiting > 0 {
            self.idling.by_cpus[idle] += 1;
        }
    }

    fn charge(&mut self, cpu: usize) {
        let Cpu { task, begin, .. } = self.cpus[cpu];
        if let Some(task) = task {
            self.policy.charge(task, (self.tick - begin) * TICK_NS, self.now_ns());
            self.cpus[cpu].task = None;
        }
    }

    fn pick(&mut self, cpu: usize) {
        let any = match self.scenario {
            Scenario::Synchronised => false,
            Scenario::Asynchronous | Scenario::Dynamic(_) => self.tick == 0,
            Scenario::Variable => true,
        };
        let ticks = if any { 1 + self.lots.below(QUANTUM_TICKS) } else { QUANTUM_TICKS };
        let task = self.policy.pick(cpu, self.now_ns());
        self.cpus[cpu] = Cpu { task, begin: self.tick, end: self.tick + ticks };
        self.idling.decisions += 1;
    }

    /// Whether a task arrived. Times between arrivals, and between departures, are geometric: the
    /// exponential distribution in whole ticks.
    fn come_and_go(&mut self, mean_ticks: u32) -> bool {
        if self.lots.below(u64::from(mean_ticks)) == 0 && !self.tasks.is_empty() {
            self.depart();
        }
        let arrives = self.lots.below(u64::from(mean_ticks)) == 0;
        if arrives {
            self.arrive();
        }
        arrives
    }

    fn arrive(&mut self) {
        let next = u32::try_from(self.tasks.len()).expect("few tasks");
        let task = self.free.pop().unwrap_or(TaskId(next));
        let weight = u32::try_from(1 + self.lots.below(HEAVIEST)).expect("a small number");
        let weight = Weight::new(weight).expect("at least 1");
        self.policy.add(task, weight);
        self.policy.wake(task, self.now_ns());
        self.tasks.push(task);
    }

    fn depart(&mut self) {
        let place = self.lots.below(self.tasks.len() as u64);
        let task = self.tasks.swap_remove(usize::try_from(place).expect("few tasks"));
        if let Some(cpu) = self.cpus.iter().position(|cpu| cpu.task == Some(task)) {
            self.charge(cpu);
            self.cpus[cpu].end = self.tick;
        }
        self.policy.remove(task, self.now_ns());
        self.free.push(task);
    }
}

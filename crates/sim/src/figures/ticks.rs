//! The machine of DFS §4.2, in clock ticks: cpus that ask for work each on its own, quanta that end
//! early, tasks that come and go. It counts the ticks in which cpus idle though tasks wait.
//!
//! A task is credited with its quantum at the end. A cpu that is given nothing idles for a quantum
//! and then asks again, but asks at once when a task arrives.

use prorata::policies::{self, BuildError};
use prorata::{Nanos, Policy, Setup, TaskId, Weight};

use crate::engine::Engine;
use crate::machine::{Machine, Quanta};
use crate::observer::{Observer, Run};
use crate::random::Random;
use crate::workload::{Cgroups, Group, Length, Program, Workload};

/// A clock tick; only ratios matter.
const TICK_NS: Nanos = 1000;
/// The longest quantum.
const QUANTUM_TICKS: u64 = 10;
/// How long a run is.
pub(super) const RUN_TICKS: u32 = 10_000;
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

    fn quanta(self) -> Quanta {
        match self {
            Scenario::Synchronised => Quanta::Synchronised,
            Scenario::Asynchronous | Scenario::Dynamic(_) => Quanta::Asynchronous,
            Scenario::Variable => Quanta::Variable { shortest_ns: TICK_NS },
        }
    }
}

/// What a run gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Idling {
    /// Ticks of cpus that idled while a task waited that could have used them.
    pub(super) cpu_ticks: u64,
    /// Ticks in which 0, 1, 2, … cpus idled while a task waited.
    pub(super) by_cpus: Vec<u64>,
    pub(super) decisions: u64,
}

/// What `policy` is built with on `cpus` cpus: as its paper says.
fn setup(cpus: usize) -> Setup {
    Setup::new(cpus, QUANTUM_TICKS * TICK_NS).as_in_papers()
}

/// The policy that users call `spec`.
pub(super) fn build(spec: &str, cpus: usize) -> Result<Box<dyn Policy + Send>, BuildError> {
    policies::build(spec, &setup(cpus))
}

/// Runs `tasks` tasks of random weights under `policy` on `cpus` cpus for 10,000 ticks.
pub(super) fn run(
    policy: &str,
    (cpus, tasks): (usize, u32),
    scenario: Scenario,
    lots: Random,
) -> Idling {
    let plan = Plan::new(tasks, scenario, lots);
    let machine = Machine {
        quanta: scenario.quanta(),
        tick_ns: TICK_NS,
        ..Machine::new(cpus, QUANTUM_TICKS * TICK_NS)
    };
    let workload = Workload {
        machine,
        duration_ns: Nanos::from(RUN_TICKS) * TICK_NS,
        seed: plan.seed,
        groups: plan.groups(),
        resources: vec![],
        cgroups: Cgroups::default(),
    };
    let policy = build(policy, cpus).expect("a policy of the figure");
    let mut engine = Engine::new(&workload, policy, Busy::default()).expect("it fits");
    engine.end_tasks(plan.departures()).expect("no task blocks");
    engine.simulate().expect("every program takes time");
    let totals = engine.totals();
    let (_, busy) = engine.outcome();
    let idling = plan.idling(cpus, totals.decisions, &busy);
    let waste_ns = totals.idle_while_waiting_ns;
    assert_eq!(idling.cpu_ticks * TICK_NS, waste_ns, "both count what cpus idled");
    idling
}

/// A task of the plan. Times are in ticks.
#[derive(Clone, Copy, Debug)]
struct Life {
    /// Where it is in the order of tasks: the place of one that has departed, if there is one.
    place: usize,
    weight: Weight,
    arrival: u32,
    /// After the end for those who stay.
    departure: u32,
}

/// Who comes and goes when; no schedule changes it.
struct Plan {
    /// In the order of their ids.
    lives: Vec<Life>,
    /// Of the lengths of quanta.
    seed: u64,
}

impl Plan {
    fn new(tasks: u32, scenario: Scenario, mut lots: Random) -> Plan {
        let mut lives: Vec<Life> =
            (0..tasks as usize).map(|place| Life::new(place, 0, &mut lots)).collect();
        if let Scenario::Dynamic(mean_ticks) = scenario {
            come_and_go(&mut lives, mean_ticks, &mut lots);
        }
        lives.sort_by_key(|life| (life.place, life.arrival));
        Plan { lives, seed: lots.bits() }
    }

    fn groups(&self) -> Vec<Group> {
        let group = |life: &Life| Group {
            name: String::new(),
            count: 1,
            weight: life.weight,
            arrival: Length::Fixed(Nanos::from(life.arrival) * TICK_NS),
            program: Program::hog(),
        };
        self.lives.iter().map(group).collect()
    }

    fn departures(&self) -> impl Iterator<Item = (Nanos, TaskId)> {
        let departing = self.lives.iter().zip((0..).map(TaskId));
        let departing = departing.filter(|(life, _)| life.departure < RUN_TICKS);
        departing.map(|(life, task)| (Nanos::from(life.departure) * TICK_NS, task))
    }

    /// In each tick, how many tasks are there.
    fn there(&self) -> Vec<i64> {
        let mut changes = Changes::default();
        self.lives.iter().for_each(|life| changes.add(life.arrival, life.departure));
        changes.sums()
    }

    fn idling(&self, cpus: usize, decisions: u64, busy: &Busy) -> Idling {
        let mut idling = Idling { cpu_ticks: 0, by_cpus: vec![0; cpus + 1], decisions };
        for (there, busy) in self.there().into_iter().zip(busy.0.sums()) {
            let count = |number: i64| usize::try_from(number).expect("not below 0");
            let (idle, waiting) = (cpus - count(busy), count(there - busy));
            idling.cpu_ticks += idle.min(waiting) as u64;
            if idle > 0 && waiting > 0 {
                idling.by_cpus[idle] += 1;
            }
        }
        idling
    }
}

impl Life {
    fn new(place: usize, arrival: u32, lots: &mut Random) -> Life {
        let weight = u32::try_from(1 + lots.below(HEAVIEST)).expect("a small number");
        let weight = Weight::new(weight).expect("at least 1");
        Life { place, weight, arrival, departure: RUN_TICKS }
    }
}

/// Times between arrivals, and between departures, are geometric: the exponential distribution in whole
/// ticks.
fn come_and_go(lives: &mut Vec<Life>, mean_ticks: u32, lots: &mut Random) {
    let mut there: Vec<usize> = (0..lives.len()).collect();
    let mut free = Vec::new();
    for tick in 0..RUN_TICKS {
        if lots.below(u64::from(mean_ticks)) == 0 && !there.is_empty() {
            let index = lots.below(there.len() as u64);
            let task = there.swap_remove(usize::try_from(index).expect("few tasks"));
            lives[task].departure = tick;
            free.push(lives[task].place);
        }
        if lots.below(u64::from(mean_ticks)) == 0 {
            let place = free.pop().unwrap_or(there.len());
            there.push(lives.len());
            lives.push(Life::new(place, tick, lots));
        }
    }
}

/// How many cpus run something, tick by tick.
#[derive(Default)]
struct Busy(Changes);

impl Observer for Busy {
    fn woke(&mut self, _task: TaskId, _now_ns: Nanos) {}

    fn ran(&mut self, run: Run) {
        let tick = |at_ns: Nanos| {
            assert_eq!(at_ns % TICK_NS, 0, "all happens at ticks");
            u32::try_from(at_ns / TICK_NS).expect("within the run")
        };
        self.0.add(tick(run.start_ns), tick(run.end_ns));
    }
}

/// A number that changes from tick to tick, by its changes.
struct Changes(Vec<i64>);

impl Default for Changes {
    fn default() -> Changes {
        Changes(vec![0; RUN_TICKS as usize + 1])
    }
}

impl Changes {
    /// One more from tick `begin` to before tick `end`.
    fn add(&mut self, begin: u32, end: u32) {
        self.0[begin as usize] += 1;
        self.0[end as usize] -= 1;
    }

    /// The number in each tick of the run.
    fn sums(&self) -> Vec<i64> {
        let mut sum = 0;
        let next = |change: &i64| {
            sum += change;
            sum
        };
        self.0[..RUN_TICKS as usize].iter().map(next).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lots() -> Random {
        Random::new(1, 2)
    }

    #[test]
    fn who_conserves_work_never_idles() {
        let scenarios = [Scenario::Synchronised, Scenario::Variable, Scenario::Dynamic(20)];
        for scenario in scenarios {
            for policy in ["gr3", "dfs-fa", "sfs"] {
                let idling = run(policy, (4, 9), scenario, lots());
                assert_eq!(idling.cpu_ticks, 0, "{policy}, {}", scenario.name());
                assert!(idling.by_cpus.iter().all(|&ticks| ticks == 0), "{policy}");
            }
        }
    }

    #[test]
    fn who_does_not_is_seen_to() {
        let idling = run("dfs:parts=printed", (2, 5), Scenario::Variable, lots());
        assert!(idling.cpu_ticks > 1000, "{idling:?}");
        let wasted: u64 = (0..).zip(&idling.by_cpus).map(|(cpus, ticks)| cpus * ticks).sum();
        assert!(wasted >= idling.cpu_ticks && idling.by_cpus[0] == 0, "{idling:?}");
    }

    /// The tasks of the plan, counted anew in each tick.
    #[test]
    fn tasks_come_and_go_as_often() {
        let plan = Plan::new(30, Scenario::Dynamic(10), lots());
        let came = plan.lives.len() - 30;
        let went = plan.departures().count();
        // 1,000 of each, give or take √(10,000 · 0.1 · 0.9) = 30: four times that.
        assert!((880..=1120).contains(&came) && (880..=1120).contains(&went), "{came} {went}");
        for (tick, there) in (0..RUN_TICKS).zip(plan.there()).step_by(97) {
            let here = |life: &&Life| life.arrival <= tick && tick < life.departure;
            let count = plan.lives.iter().filter(here).count();
            assert_eq!(usize::try_from(there), Ok(count), "tick {tick}");
        }
    }
}

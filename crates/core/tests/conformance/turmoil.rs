//! Tasks that come and go, block within their quanta, yield, and change weight, on cpus that are
//! not in step. What must hold here for every policy is what [`Checked`](prorata::Checked) checks;
//! and that the same seed gives the same schedule.

use prorata::hierarchy::Flat;
use prorata::policies::{Entry, REGISTRY};
use prorata::{Checked, CpuId, Nanos, Policy, Setup, TaskId, Turns};

use crate::common::{QUANTUM_NS, weight};
use crate::{Context, Random, Watched, on_all_cpus, watched};

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Absent,
    Blocked,
    Runnable,
}

/// What happens to tasks, per mille of the chances.
#[derive(Clone, Copy)]
pub(crate) struct Mix {
    /// Tasks at most.
    tasks: u32,
    /// Weights are below 2 to this.
    weight_bits: u32,
    /// A task that leaves its cpu did so early.
    early: u32,
    /// A task that leaves its cpu blocks or goes away.
    blocks: u32,
    /// Something happens to a task that is off its cpu, at each decision.
    events: u32,
    /// Of these, the changes of weight.
    reweighs: u32,
}

impl Mix {
    pub(crate) fn draw(random: &mut Random) -> Mix {
        Mix {
            tasks: 1 + random.below(60),
            weight_bits: [2, 5, 8, 16, 32][random.index(5)],
            early: random.below(1001),
            blocks: random.below(800),
            events: random.below(800),
            reweighs: random.below(1001),
        }
    }
}

/// One schedule: when, where, who.
type Log = Vec<(Nanos, CpuId, Option<TaskId>)>;

struct World {
    policy: Watched,
    random: Random,
    mix: Mix,
    now_ns: Nanos,
    states: Vec<State>,
    /// Who runs on each cpu, since when, until when.
    cpus: Vec<Option<(TaskId, Nanos, Nanos)>>,
    log: Log,
}

impl World {
    fn chance(&mut self, per_mille: u32) -> bool {
        self.random.below(1000) < per_mille
    }

    fn is_running(&self, task: TaskId) -> bool {
        self.cpus.iter().flatten().any(|&(running, ..)| running == task)
    }

    fn bring(&mut self, task: TaskId) {
        if self.states[task.index()] == State::Absent {
            let number = self.random.weight(self.mix.weight_bits);
            self.policy.add(task, weight(number));
        }
        self.states[task.index()] = State::Runnable;
        self.policy.wake(task, self.now_ns);
    }

    fn stop(&mut self, task: TaskId) {
        if self.chance(300) {
            self.states[task.index()] = State::Absent;
            self.policy.remove(task, self.now_ns);
        } else {
            self.states[task.index()] = State::Blocked;
            self.policy.block(task, self.now_ns);
        }
    }

    /// Something happens to a random task.
    fn event(&mut self) {
        let task = TaskId(self.random.below(self.mix.tasks));
        let state = self.states[task.index()];
        if state != State::Absent && self.chance(self.mix.reweighs) {
            let number = self.random.weight(self.mix.weight_bits);
            self.policy.set_weight(task, weight(number), self.now_ns);
        } else if state == State::Blocked && self.chance(100) {
            self.states[task.index()] = State::Absent;
            self.policy.remove(task, self.now_ns);
        } else if state != State::Runnable {
            self.bring(task);
        } else if !self.is_running(task) {
            self.stop(task);
        }
    }

    /// The next instant at which a cpu becomes free; its task leaves it.
    fn advance(&mut self) {
        let ends = self.cpus.iter().flatten().map(|&(_, _, end_ns)| end_ns);
        self.now_ns = ends.min().unwrap_or(self.now_ns + QUANTUM_NS);
        for cpu in 0..self.cpus.len() {
            let Some((task, start_ns, end_ns)) = self.cpus[cpu] else { continue };
            if end_ns > self.now_ns {
                continue;
            }
            self.policy.charge(task, end_ns - start_ns, self.now_ns);
            self.cpus[cpu] = None;
            if self.chance(self.mix.blocks) {
                self.stop(task);
            }
        }
    }

    fn dispatch(&mut self) {
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].is_none() {
                self.pick(cpu);
            }
        }
        while let Some(cpu) = self.policy.interrupt(self.now_ns) {
            let (task, start_ns, _) = self.cpus[cpu].take().expect("it runs a task");
            self.policy.charge(task, self.now_ns - start_ns, self.now_ns);
            self.pick(cpu);
        }
    }

    fn pick(&mut self, cpu: CpuId) {
        let picked = self.policy.pick(cpu, self.now_ns);
        self.log.push((self.now_ns, cpu, picked));
        let Some(task) = picked else { return };
        let slice_ns = self.policy.slice_ns(task).unwrap_or(QUANTUM_NS);
        let used_ns = match self.chance(self.mix.early) {
            true => u64::from(self.random.below(u32::try_from(slice_ns).expect("small"))),
            false => slice_ns,
        };
        // A run of no length is a yield at once; time must still pass in the end.
        self.cpus[cpu] = Some((task, self.now_ns, self.now_ns + used_ns.max(1)));
    }
}

/// Runs `entry` through `steps` decisions of `mix`; the schedule.
pub(crate) fn stir(entry: &Entry, cpus: usize, mix: Mix, steps: usize, seed: u64) -> Log {
    let policy = watched(entry, &Setup::new(cpus, QUANTUM_NS));
    stir_policy(policy, cpus, mix, steps, seed)
}

pub(crate) fn stir_policy(policy: Watched, cpus: usize, mix: Mix, steps: usize, seed: u64) -> Log {
    stir_as_patient(policy.patience_quanta(PATIENCE_QUANTA), cpus, mix, steps, seed)
}

/// The same, with as much patience as `policy` was given.
pub(crate) fn stir_as_patient(
    policy: Watched,
    cpus: usize,
    mix: Mix,
    steps: usize,
    seed: u64,
) -> Log {
    let mut world = World {
        policy,
        random: Random(seed),
        mix,
        now_ns: 0,
        states: vec![State::Absent; mix.tasks as usize],
        cpus: vec![None; cpus],
        log: Vec::new(),
    };
    (0..mix.tasks).map(TaskId).for_each(|task| world.bring(task));
    for _ in 0..steps {
        world.dispatch();
        world.advance();
        while world.chance(world.mix.events) {
            world.event();
        }
    }
    world.log
}

/// With weights below 64 a whole cycle is at most this long for one task.
const PATIENCE_QUANTA: u32 = 400;

const CALM: Mix =
    Mix { tasks: 12, weight_bits: 5, early: 100, blocks: 50, events: 100, reweighs: 0 };
const ARRIVALS: Mix =
    Mix { tasks: 40, weight_bits: 6, early: 0, blocks: 200, events: 500, reweighs: 0 };
pub(crate) const INTERACTIVE: Mix =
    Mix { tasks: 20, weight_bits: 6, early: 700, blocks: 500, events: 600, reweighs: 0 };
pub(crate) const REWEIGHING: Mix =
    Mix { tasks: 15, weight_bits: 6, early: 200, blocks: 50, events: 400, reweighs: 800 };
pub(crate) const LIMITS: Mix =
    Mix { tasks: 9, weight_bits: 32, early: 300, blocks: 300, events: 500, reweighs: 300 };

pub(crate) fn all_mixes(entries: &[Entry], steps: usize) {
    on_all_cpus(entries, &[1, 2, 3, 7], |entry, cpus| {
        for (name, mix) in [
            ("calm", CALM),
            ("arrivals", ARRIVALS),
            ("interactive", INTERACTIVE),
            ("reweighing", REWEIGHING),
        ] {
            for seed in 1..4 {
                let _context = Context(format!("mix '{name}', seed {seed}"));
                stir(entry, cpus, mix, steps, seed);
            }
        }
    });
}

#[test]
fn contract_and_invariants_hold() {
    all_mixes(REGISTRY, 3000);
}

/// The same with turns that are kept, on both sides of the wrapper.
#[test]
fn kept_turns_keep_the_contract() {
    on_all_cpus(REGISTRY, &[1, 2, 3, 7], |entry, cpus| {
        for (mix, seed) in [(ARRIVALS, 1), (INTERACTIVE, 2), (INTERACTIVE, 3)] {
            let setup = Setup::new(cpus, QUANTUM_NS);
            let _context = Context(format!("seed {seed} on {setup:?}"));
            let turns = Turns::new(watched(entry, &setup), &setup, entry.payment);
            let policy: Box<dyn Policy + Send> = Box::new(turns);
            let policy = Checked::new(policy, &setup).work_conserving(entry.work_conserving);
            stir_policy(policy, cpus, mix, 1000, seed);
        }
    });
}

/// Weights of any order: nobody overflows.
#[test]
fn weights_at_the_limits_that_change() {
    on_all_cpus(REGISTRY, &[1, 2, 4], |entry, cpus| {
        for seed in 1..6 {
            let setup = Setup::new(cpus, QUANTUM_NS);
            let _context = Context(format!("seed {seed} on {setup:?}"));
            stir(entry, cpus, LIMITS, 2000, seed);
        }
    });
}

/// A tree without nodes is the policy itself.
#[test]
fn a_tree_of_depth_one_gives_the_same_schedule() {
    on_all_cpus(REGISTRY, &[1, 3], |entry, cpus| {
        for (mix, seed) in [(INTERACTIVE, 8), (REWEIGHING, 9), (LIMITS, 10)] {
            let setup = Setup::new(cpus, QUANTUM_NS);
            let policy = watched(entry, &setup).into_inner();
            let tree: Box<dyn Policy + Send> = Box::new(Flat::new(policy, &setup));
            let tree = Checked::new(tree, &setup).work_conserving(entry.work_conserving);
            let same =
                stir_policy(tree, cpus, mix, 1000, seed) == stir(entry, cpus, mix, 1000, seed);
            assert!(same, "{} in a tree differs from itself, seed {seed}", entry.name);
        }
    });
}

#[test]
fn the_same_seed_gives_the_same_schedule() {
    on_all_cpus(REGISTRY, &[1, 3], |entry, cpus| {
        let run = || stir(entry, cpus, INTERACTIVE, 1000, 7);
        assert!(run() == run(), "{} differs from itself", entry.name);
    });
}

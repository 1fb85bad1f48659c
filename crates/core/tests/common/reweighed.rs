//! Tasks that are always runnable and whose weights change, beside the exact ideal: GMS, piecewise over
//! the weights that they had.

use prorata::ideal::ServiceErrors;
use prorata::{Nanos, Policy, TaskId};

use super::random::Random;
use super::{QUANTUM_NS, weight};

/// How weights change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// One task, after every quantum, by one.
    ByOne,
    /// One task, to either end of an order (64 and 127).
    WithinAnOrder,
    /// One task, between two neighbouring orders (127 and 128).
    AcrossOrders,
    /// One task, between two weights that may be far apart.
    BetweenTwo,
    /// One task, to anything.
    ToAnything,
    /// Some tasks, to anything.
    Several,
    /// Every task, now and then.
    NowAndThen,
    /// All tasks at once, in waves.
    Waves,
}

impl Pattern {
    pub(crate) const ALL: [Pattern; 8] = [
        Pattern::ByOne,
        Pattern::WithinAnOrder,
        Pattern::AcrossOrders,
        Pattern::BetweenTwo,
        Pattern::ToAnything,
        Pattern::Several,
        Pattern::NowAndThen,
        Pattern::Waves,
    ];

    fn changing(self, tasks: u32, random: &mut Random) -> u32 {
        match self {
            Pattern::Several => 1 + random.below(tasks),
            Pattern::NowAndThen | Pattern::Waves => tasks,
            _ => 1,
        }
    }
}

const MEMORY: usize = 8;

/// What a task does with its weight: it counts quanta, all or those since it last ran, and takes the
/// weight of that number. So it may be heavy whenever it waits, or when it is next.
#[derive(Clone, Debug)]
struct Habit {
    weights: [u32; MEMORY],
    counts_waiting: bool,
    every: u64,
}

impl Habit {
    fn new(pattern: Pattern, bits: u32, random: &mut Random) -> Habit {
        let base = random.weight(bits + 1);
        let (order, two) = (base.ilog2(), [random.weight(bits + 1), random.weight(bits + 1)]);
        let weights = core::array::from_fn(|at| match pattern {
            Pattern::ByOne => base + u32::from(at % 2 == 1),
            Pattern::WithinAnOrder => (1 << order) + random.below(2) * ((1 << order) - 1),
            Pattern::AcrossOrders => (2 << order) - random.below(2),
            Pattern::BetweenTwo => two[random.index(2)],
            Pattern::Waves => two[at * 2 / MEMORY],
            _ => random.weight(bits + 2),
        });
        let counts_waiting = pattern != Pattern::Waves && random.below(3) > 0;
        let every =
            if pattern == Pattern::NowAndThen { 1 + u64::from(random.below(40)) } else { 1 };
        Habit { weights, counts_waiting, every }
    }

    fn weight(&self, quantum: u64, waited: u64) -> u32 {
        let count = if self.counts_waiting {
            waited.min(MEMORY as u64 - 1)
        } else {
            quantum % MEMORY as u64
        };
        self.weights[usize::try_from(count).expect("below 8")]
    }
}

/// Tasks and what they do. The first ones change.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    cpus: usize,
    weights: Vec<u32>,
    habits: Vec<Habit>,
    /// The first quanta end one after the other.
    staggered: bool,
}

#[derive(Clone, Copy)]
struct Run {
    task: TaskId,
    start_ns: Nanos,
    end_ns: Nanos,
}

impl Case {
    /// Up to `most` tasks more than cpus.
    pub(crate) fn new(pattern: Pattern, cpus: usize, most: u32, seed: u64) -> Case {
        let mut random = Random(seed * 1000 + pattern as u64);
        let count = cpus + 1 + random.below(most) as usize;
        let bits = [1, 4, 7, 10][random.index(4)];
        let weights = random.weights(count, bits);
        let tasks = u32::try_from(count).expect("few");
        let changing = pattern.changing(tasks, &mut random);
        let habits = (0..changing).map(|_| Habit::new(pattern, bits, &mut random)).collect();
        Case { cpus, weights, habits, staggered: seed % 2 == 1 }
    }

    /// The furthest that each task is behind and ahead of the ideal in `quanta` quanta on each cpu.
    pub(crate) fn play(&self, policy: impl Policy, quanta: u64) -> Vec<(f64, f64)> {
        let mut game = Game::new(self, policy);
        while game.now_ns < quanta * QUANTUM_NS {
            game.step();
        }
        game.finish()
    }

    /// The largest of them.
    #[allow(dead_code, reason = "not every user needs it")]
    pub(crate) fn worst(&self, policy: impl Policy, quanta: u64) -> (f64, f64) {
        let each = self.play(policy, quanta).into_iter();
        each.fold((0.0, 0.0), |all, one| (f64::min(all.0, one.0), f64::max(all.1, one.1)))
    }
}

struct Game<'a, P> {
    case: &'a Case,
    policy: P,
    errors: ServiceErrors,
    running: Vec<Option<Run>>,
    /// When each task began to run last.
    began_ns: Vec<Nanos>,
    now_ns: Nanos,
    steps: u64,
}

impl<'a, P: Policy> Game<'a, P> {
    fn new(case: &'a Case, policy: P) -> Game<'a, P> {
        let policy = super::start(policy, &case.weights);
        let mut errors = ServiceErrors::new(case.cpus);
        for (id, &number) in (0..).map(TaskId).zip(&case.weights) {
            errors.add(id, weight(number));
            errors.wake(id, 0);
        }
        let (running, began_ns) = (vec![None; case.cpus], vec![0; case.weights.len()]);
        Game { case, policy, errors, running, began_ns, now_ns: 0, steps: 0 }
    }

    /// The next instant at which quanta end.
    fn step(&mut self) {
        self.reweigh();
        for cpu in 0..self.case.cpus {
            if self.running[cpu].is_none() {
                self.dispatch(cpu);
            }
        }
        let ends = self.running.iter().flatten().map(|run| run.end_ns);
        self.now_ns = ends.min().unwrap_or(self.now_ns + QUANTUM_NS);
        for cpu in 0..self.case.cpus {
            if let Some(run) = self.running[cpu].take_if(|run| run.end_ns == self.now_ns) {
                self.charge(run);
            }
        }
    }

    fn reweigh(&mut self) {
        let quantum = self.now_ns / QUANTUM_NS;
        self.steps += 1;
        for (id, habit) in (0..).map(TaskId).zip(&self.case.habits) {
            if self.steps.is_multiple_of(habit.every) {
                let waited = (self.now_ns - self.began_ns[id.index()]) / QUANTUM_NS;
                let new = weight(habit.weight(quantum, waited));
                self.policy.set_weight(id, new, self.now_ns);
                self.errors.set_weight(id, new, self.now_ns);
            }
        }
    }

    fn dispatch(&mut self, cpu: usize) {
        let Some(task) = self.policy.pick(cpu, self.now_ns) else { return };
        self.errors.start(task, self.now_ns);
        self.began_ns[task.index()] = self.now_ns;
        let cpus = self.case.cpus as u64;
        let first = self.case.staggered && self.now_ns == 0;
        let length_ns = if first { QUANTUM_NS * (cpu as u64 + 1) / cpus } else { QUANTUM_NS };
        let end_ns = self.now_ns + length_ns;
        self.running[cpu] = Some(Run { task, start_ns: self.now_ns, end_ns });
    }

    fn charge(&mut self, run: Run) {
        let used_ns = self.now_ns - run.start_ns;
        self.policy.charge(run.task, used_ns, self.now_ns);
        self.errors.charge(run.task, used_ns, self.now_ns);
    }

    fn finish(mut self) -> Vec<(f64, f64)> {
        for cpu in 0..self.case.cpus {
            if let Some(run) = self.running[cpu].take() {
                self.charge(run);
            }
        }
        self.errors.finish(self.now_ns);
        let extremes = (0..).map(TaskId).map(|task| self.errors.extremes(task));
        let each = extremes.take(self.case.weights.len());
        let quanta = |error: prorata::ideal::ServiceError| error.in_quanta(QUANTUM_NS);
        each.map(|extremes| (quanta(extremes.min), quanta(extremes.max))).collect()
    }
}

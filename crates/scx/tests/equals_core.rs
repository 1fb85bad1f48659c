//! The kernel's policies against the core library's, decision by decision.
//!
//! Each policy header is compiled natively under the address and undefined-behaviour sanitizers
//! (`replay.c`) and fed random legal calls; the Rust policy of the same name gets the same calls,
//! and every decision must be the same: as the policy is, with turns that tasks use when they wake, and with
//! turns that are corrected; with cpus that come and go.

use std::fmt::Write as _;
use std::panic::AssertUnwindSafe;

use prorata::{Policy, Setup, Sleepers, TaskId, Weight, central};

mod native;
mod random;

use random::Random;

const QUANTUM_NS: u64 = 5_000_000;
/// Calls per random history; many short ones find more than one long one.
const HISTORY: usize = 4_000;
/// In so many calls cpus come or go once,
const STEADY: usize = 500;
/// and in so many some time passes.
const PAUSE: usize = 50;
/// Calls of a history that is long.
const LONG: usize = 150_000;
/// Weights are below (`POLICY_WEIGHT_ORDER` in `policy.h`).
const WEIGHT_LIMIT: u64 = 1 << 27;

/// From equal weights to weights 10^8 apart, depending on `spread`.
fn weight(random: &mut Random, spread: usize) -> u32 {
    let number = match spread {
        0 => 1024,
        1 => 1 + random.next() % 10,
        2 => 1 + random.next() % 1000,
        3 => (random.next() % 1_000_000) >> random.below(20),
        _ => (random.next() % WEIGHT_LIMIT) >> random.below(27),
    };
    u32::try_from(number).expect("it is below 2^27").max(1)
}

fn some_cpus(random: &mut Random) -> usize {
    [1, 1, 2, 2, 3, 4, 8, 16][random.below(8)]
}

/// What a history is of.
#[derive(Clone, Copy)]
struct Size {
    cpus: usize,
    tasks: usize,
    /// In so many calls cpus come or go once.
    steady: usize,
}

impl Size {
    fn new(cpus: usize, tasks: usize) -> Size {
        Size { cpus, tasks, steady: STEADY }
    }

    fn build(self, name: &str, sleepers: Sleepers) -> Box<dyn Policy + Send> {
        let setup = Setup { sleepers, ..Setup::new(self.cpus, QUANTUM_NS) };
        central::build(name, &setup).expect("a policy")
    }
}

fn task(index: usize) -> TaskId {
    TaskId(u32::try_from(index).expect("a task's number is small"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unknown,
    Blocked,
    Waiting,
    Running,
}

#[derive(Clone, Copy)]
enum Weights {
    /// See [`Random::weight`].
    Spread(usize),
    /// Light tasks and some that weigh as much as a cpu's share of them, one more or one less: capped or
    /// not, as others come and go.
    NearCap,
}

/// Makes random legal calls on the core's policy and writes them down, with what was picked.
struct Recorder {
    /// As the core library names the policy.
    name: String,
    sleepers: Sleepers,
    policy: Box<dyn Policy + Send>,
    random: Random,
    states: Vec<State>,
    /// The task on each cpu.
    cpus: Vec<Option<u32>>,
    weights: Weights,
    /// How often, in 16, a call is a pick.
    picks: usize,
    size: Size,
    now_ns: u64,
    calls: String,
    /// Who was picked and for how long, which cpu was interrupted: as `replay.c` prints it.
    decisions: Vec<String>,
}

impl Recorder {
    fn new(name: &str, sleepers: Sleepers, seed: u64) -> Recorder {
        let mut random = Random(seed);
        let cpus = some_cpus(&mut random);
        let most_tasks = [4, 8, 20, 60][random.below(4)];
        let tasks = 1 + random.below(most_tasks);
        let weights = Weights::Spread(random.below(5));
        Recorder::sized(name, sleepers, Size::new(cpus, tasks), weights, random)
    }

    fn sized(
        name: &str,
        sleepers: Sleepers,
        size: Size,
        weights: Weights,
        mut random: Random,
    ) -> Recorder {
        let sleep = match sleepers {
            Sleepers::Paper => 0,
            Sleepers::Turns => 1,
            Sleepers::Corrected => 2,
        };
        Recorder {
            name: name.to_string(),
            sleepers,
            policy: size.build(name, sleepers),
            states: vec![State::Unknown; size.tasks],
            cpus: vec![None; size.cpus],
            size,
            weights,
            picks: [2, 6, 12, 15][random.below(4)],
            random,
            now_ns: 0,
            calls: format!("u {sleep}\ni {} {QUANTUM_NS}\n", size.cpus),
            decisions: Vec::new(),
        }
    }

    fn call(&mut self, line: std::fmt::Arguments<'_>) {
        self.calls.write_fmt(line).expect("a string takes everything");
        self.calls.push('\n');
    }

    fn weight(&mut self) -> u32 {
        match self.weights {
            Weights::Spread(spread) => weight(&mut self.random, spread),
            Weights::NearCap => {
                let light = self.states.len() / self.cpus.len();
                let near = light.max(1) - 1 + self.random.below(3);
                let heavy = self.random.below(self.cpus.len() + 1) == 0;
                u32::try_from(if heavy { near } else { 1 }).expect("it is small").max(1)
            }
        }
    }

    /// All tasks wait.
    fn populate(&mut self) {
        for index in 0..self.states.len() {
            self.add_again(index);
            self.wake(index);
        }
    }

    fn step(&mut self) {
        let is_long = self.random.below(PAUSE) == 0;
        self.now_ns += self.random.next() % if is_long { 40 * QUANTUM_NS } else { QUANTUM_NS / 5 };
        let now_ns = self.now_ns;
        self.call(format_args!("t {now_ns}"));
        if self.random.below(4) == 0 {
            self.call(format_args!("n 0"));
            self.policy.pass(now_ns);
        }
        if self.random.below(self.size.steady) == 0 {
            self.change_cpus();
        } else if self.random.below(16) < self.picks {
            let cpu = self.random.below(self.cpus.len());
            self.charge(cpu, 1, 1);
            self.pick(cpu);
        } else {
            self.change();
        }
    }

    /// As `hotplug.h` does it: who waits is added and wakes, whoever came first; who runs is added; who
    /// sleeps is not.
    fn change_cpus(&mut self) {
        let is_large = self.cpus.len() > 16;
        let cpus = if is_large { 17 + self.random.below(496) } else { some_cpus(&mut self.random) };
        self.size.cpus = cpus;
        self.policy = self.size.build(&self.name, self.sleepers);
        self.call(format_args!("h {cpus}"));
        self.cpus = vec![None; cpus];
        let states = self.states.clone();
        let running = (0..states.len()).filter(|&index| states[index] == State::Running);
        running.for_each(|index| self.add_again(index));
        let first = self.random.below(states.len());
        for index in (first..states.len()).chain(0..first) {
            match states[index] {
                State::Waiting => {
                    self.add_again(index);
                    self.wake(index);
                }
                State::Blocked => self.states[index] = State::Unknown,
                State::Running | State::Unknown => {}
            }
        }
    }

    fn add_again(&mut self, index: usize) {
        let weight = self.weight();
        self.add(index, weight);
    }

    fn add(&mut self, index: usize, weight: u32) {
        self.call(format_args!("a {index} {weight}"));
        self.policy.add(task(index), Weight::new(weight).expect("it is not 0"));
        self.states[index] = State::Blocked;
    }

    /// The task, which was just added, may have credit in advance.
    fn endow(&mut self, index: usize) {
        if self.sleepers != Sleepers::Paper && self.random.below(2) == 0 {
            let advance_ns = QUANTUM_NS / 64 * (self.random.next() % 128);
            self.call(format_args!("e {index} {advance_ns}"));
            self.policy.endow(task(index), advance_ns);
        }
    }

    /// A task, which is blocked, ends.
    fn retire(&mut self, index: usize) -> i64 {
        self.call(format_args!("q {index}"));
        self.policy.retire(task(index), self.now_ns)
    }

    /// Some of a task's credit is taken, or it ends, if it is blocked.
    fn take_credit(&mut self, index: usize) {
        if self.sleepers == Sleepers::Corrected && self.states[index] == State::Blocked {
            let behind_ns = self.retire(index);
            self.decisions.push(format!("{behind_ns} 0"));
        }
        if self.sleepers != Sleepers::Turns {
            return;
        }
        let most_ns = QUANTUM_NS / 64 * (self.random.next() % 128);
        let taken_ns = if self.random.below(3) == 0 {
            self.call(format_args!("l {index}"));
            self.policy.take_lapsed(task(index))
        } else if self.states[index] == State::Blocked && self.random.below(3) == 0 {
            self.retire(index).cast_unsigned()
        } else if self.states[index] == State::Waiting && self.random.below(3) == 0 {
            self.call(format_args!("f {index}"));
            self.policy.forfeit(task(index), self.now_ns)
        } else {
            self.call(format_args!("d {index} {most_ns}"));
            self.policy.take_credit(task(index), most_ns)
        };
        self.decisions.push(format!("{taken_ns} 0"));
    }

    fn wake(&mut self, index: usize) {
        if self.sleepers == Sleepers::Turns && self.random.below(4) == 0 {
            let kept = self.random.below(2);
            self.call(format_args!("k {index} {kept}"));
            self.policy.keep(task(index), kept == 1);
        }
        self.call(format_args!("w {index}"));
        self.policy.wake(task(index), self.now_ns);
        self.states[index] = State::Waiting;
    }

    /// The task on `cpu`, if there is one, has used this part of its run.
    fn charge(&mut self, cpu: usize, part: u64, of: u64) {
        let Some(task) = self.cpus[cpu].take() else { return };
        let used_ns = self.policy.slice_ns(TaskId(task)).unwrap_or(QUANTUM_NS) / of * part;
        if part == of && self.random.below(2) == 0 {
            self.lengthen(task, used_ns);
        }
        let ran_ns = self.ran_ns(used_ns);
        self.call(format_args!("c {task} {used_ns} {ran_ns}"));
        self.policy.ran(TaskId(task), ran_ns);
        self.policy.charge(TaskId(task), used_ns, self.now_ns);
        self.states[task as usize] = State::Waiting;
    }

    /// How long a task ran that is charged for so much: as a rule as long; not at all; or longer, or shorter.
    fn ran_ns(&mut self, charged_ns: u64) -> u64 {
        match self.random.below(8) {
            0 => 0,
            1 => self.random.next() % (2 * QUANTUM_NS),
            _ => charged_ns,
        }
    }

    /// The task on a cpu, which has used up its run, goes on for more if it uses up a turn.
    fn lengthen(&mut self, task: u32, used_ns: u64) {
        let most_ns = QUANTUM_NS / 64 * (self.random.next() % 256);
        self.call(format_args!("m {task} {most_ns}"));
        let more = self.policy.lengthen(TaskId(task), used_ns, most_ns);
        self.decisions.push(format!("{} 0", more.unwrap_or(0)));
    }

    fn pick(&mut self, cpu: usize) {
        self.call(format_args!("p {cpu}"));
        let picked = self.policy.pick(cpu, self.now_ns);
        let run_ns = picked.map(|task| self.policy.slice_ns(task).unwrap_or(QUANTUM_NS));
        self.decide(picked.map(TaskId::index), run_ns.unwrap_or(0));
        if let Some(task) = picked {
            self.states[task.index()] = State::Running;
            self.cpus[cpu] = Some(task.0);
        }
    }

    fn decide(&mut self, what: Option<usize>, run_ns: u64) {
        let what = what.map_or("-1".to_string(), |number| number.to_string());
        self.decisions.push(format!("{what} {run_ns}"));
    }

    /// Asks which cpu shall stop what it runs, which it does at some time, or not.
    fn interrupt(&mut self) {
        self.call(format_args!("x 0"));
        let cpu = self.policy.interrupt(self.now_ns);
        self.decide(cpu, 0);
        if let Some(cpu) = cpu
            && self.random.below(8) > 0
        {
            let part = self.random.next() % 64;
            self.charge(cpu, part, 64);
            self.pick(cpu);
        }
    }

    /// Anything but a pick, to a random task.
    fn change(&mut self) {
        let index = self.random.below(self.states.len());
        let id = u32::try_from(index).expect("a task's number is small");
        let task = TaskId(id);
        let weight = self.weight();
        let new = Weight::new(weight).expect("it is not 0");
        let choice = self.random.below(8);
        if self.states[index] == State::Running {
            if choice == 0 {
                self.call(format_args!("s {id} {weight}"));
                return self.policy.set_weight(task, new, self.now_ns);
            }
            let cpu = self.cpus.iter().position(|&on| on == Some(id)).expect("it runs somewhere");
            let part = self.random.next() % 64;
            self.charge(cpu, part, 64);
            self.leave(index, choice == 1);
            return self.pick(cpu);
        }
        match (self.states[index], choice) {
            (State::Unknown, _) => {
                self.add(index, weight);
                self.endow(index);
            }
            (_, 7) if self.random.below(3) == 0 => self.take_credit(index),
            (_, 0) => {
                self.call(format_args!("s {id} {weight}"));
                self.policy.set_weight(task, new, self.now_ns);
            }
            (State::Blocked, 1) => self.leave(index, true),
            (State::Blocked, _) => {
                self.wake(index);
                self.interrupt();
            }
            (_, 2) => {
                self.call(format_args!("j {id}"));
                self.policy.stand_aside(task, self.now_ns);
                self.states[index] = State::Blocked;
            }
            (_, choice) => self.leave(index, choice == 1),
        }
    }

    /// The task, which does not run, blocks or goes away.
    fn leave(&mut self, index: usize, away: bool) {
        let id = u32::try_from(index).expect("a task's number is small");
        if away {
            self.call(format_args!("r {id}"));
            self.policy.remove(TaskId(id), self.now_ns);
            self.states[index] = State::Unknown;
        } else {
            self.call(format_args!("b {id}"));
            self.policy.block(TaskId(id), self.now_ns);
            self.states[index] = State::Blocked;
        }
    }
}

/// Feeds `events` random calls, in histories of [`HISTORY`], to the kernel's `policy` and to that of
/// the core library which it implements: as it is, with turns that tasks use when they wake, and corrected.
fn compare(policy: &str, core: &str, events: usize) {
    compare_with_options(policy, &[], core, events);
}

/// The control: the kernel's policy is told of one cpu more than came. Calls that do not fit what it decided
/// then may break its invariants.
#[test]
fn a_change_to_other_cpus_is_noticed() {
    let program = compile("gr3");
    let noticed = (0..12).filter(|&seed| {
        let mut recorder = Recorder::new("gr3", sleepers(seed), seed);
        (0..HISTORY).for_each(|_| recorder.step());
        let told = recorder.calls.lines().map(|call| match call.strip_prefix("h ") {
            Some(cpus) => format!("h {}\n", cpus.parse::<usize>().expect("a number") + 1),
            None => format!("{call}\n"),
        });
        recorder.calls = told.collect();
        let compared =
            std::panic::catch_unwind(AssertUnwindSafe(|| recorder.difference(&program, "")));
        compared.map_or(true, |difference| difference.is_some())
    });
    assert!(noticed.count() > 6);
}

/// The same for a policy with these options, in the order of `src/policies.rs`.
fn compare_with_options(policy: &str, options: &[u32], core: &str, events: usize) {
    let program = compile(policy);
    for seed in 0..(events / HISTORY) as u64 {
        let mut recorder = Recorder::new(core, sleepers(seed), seed);
        (0..HISTORY).for_each(|_| recorder.step());
        recorder.compare(&program, policy, options, seed);
    }
}

fn compile(policy: &str) -> std::path::PathBuf {
    native::compile("replay.c", policy, native::SANITIZERS)
}

fn sleepers(seed: u64) -> Sleepers {
    match seed % 3 {
        0 => Sleepers::Paper,
        1 => Sleepers::Turns,
        _ => Sleepers::Corrected,
    }
}

impl Recorder {
    /// Panics unless the kernel's policy decides the same when it gets the same calls.
    fn compare(&self, program: &std::path::Path, policy: &str, options: &[u32], seed: u64) {
        let mut calls = String::new();
        for (index, value) in options.iter().enumerate() {
            writeln!(calls, "o {index} {value}").expect("a string takes everything");
        }
        if let Some(difference) = self.difference(program, &calls) {
            panic!("{policy}, seed {seed}, {difference}");
        }
    }

    /// The first decision in which the kernel's policy, told its `options` before, differs.
    fn difference(&self, program: &std::path::Path, options: &str) -> Option<String> {
        let answer = native::answer(program, &(options.to_owned() + &self.calls));
        let kernel: Vec<&str> = answer.lines().collect();
        assert_eq!(kernel.len(), self.decisions.len(), "an answer for each question");
        let at = kernel.iter().zip(&self.decisions).position(|(a, b)| a != b)?;
        let mut asked = self.calls.match_indices(['p', 'x', 'd', 'q']).map(|(index, _)| index);
        let end = asked.nth(at).expect("a call for each decision");
        let tail: Vec<&str> = self.calls[..end].lines().rev().take(12).collect();
        Some(format!(
            "decision {at}: the kernel's policy decides {}, the core's {}; before it, newest first:\n{}",
            kernel[at],
            self.decisions[at],
            tail.join("\n")
        ))
    }
}

#[test]
fn gr3_decides_as_the_core_does() {
    compare("gr3", "gr3", 1_000_000);
}

#[test]
fn wfq_decides_as_the_cores_mfq_does() {
    compare("wfq", "mfq", 1_000_000);
}

#[test]
fn dfs_fa_decides_as_the_core_does() {
    compare("dfs_fa", "dfs-fa", 1_000_000);
}

/// On several cpus: as `prorata::central` has it.
#[test]
fn vtrr_decides_as_the_core_does() {
    compare("vtrr", "vtrr", 1_000_000);
}

#[test]
fn gdq_decides_as_the_core_does() {
    compare_with_options("gdq", &[1, 4], "gdq:t=1", 1_000_000);
}

#[test]
fn gdq_decides_as_the_core_does_with_other_options() {
    compare_with_options("gdq", &[20, 4], "gdq", 200_000);
    compare_with_options("gdq", &[2, 1], "gdq:t=2,delta=1", 200_000);
    compare_with_options("gdq", &[50, 0], "gdq:t=50,delta=0", 200_000);
}

#[test]
fn gdq_distributed_decides_as_the_core_does() {
    let core = |options| format!("gdq-distributed{options}");
    compare_with_options("gdq_distributed", &[1, 4], &core(":t=1"), 1_000_000);
    compare_with_options("gdq_distributed", &[20, 4], &core(""), 200_000);
    compare_with_options("gdq_distributed", &[2, 0], &core(":t=2,delta=0"), 200_000);
}

/// As many cpus as there may be, and many more tasks than a run queue has elsewhere.
#[test]
fn policies_decide_as_the_core_does_on_the_largest_machine() {
    at_size(Size::new(512, 5_000), 4_000, &[Weights::Spread(2), Weights::NearCap]);
}

#[test]
fn policies_decide_as_the_core_does_where_tasks_are_capped_and_not() {
    at_size(Size::new(2, 12), 20_000, &[Weights::NearCap]);
    at_size(Size::new(8, 40), 20_000, &[Weights::NearCap]);
}

/// What begins as a part of a nanosecond is another decision some ten thousand calls later. In these it was
/// one, and in some 3 of 100 other histories, where the ideal of corrected turns was not looked at alike when
/// a task goes away.
#[test]
fn vtrr_decides_as_the_core_does_for_long() {
    let program = compile("vtrr");
    let size = Size { steady: LONG, ..Size::new(4, 120) };
    for seed in [6, 24, 113] {
        let weights = Weights::Spread(4);
        let mut recorder =
            Recorder::sized("vtrr", Sleepers::Corrected, size, weights, Random(seed));
        recorder.populate();
        (0..LONG).for_each(|_| recorder.step());
        recorder.compare(&program, "vtrr", &[], seed);
    }
}

fn at_size(size: Size, events: usize, weights: &[Weights]) {
    let policies: [(&str, &str, &[u32]); 6] = [
        ("gr3", "gr3", &[]),
        ("wfq", "mfq", &[]),
        ("dfs_fa", "dfs-fa", &[]),
        ("vtrr", "vtrr", &[]),
        ("gdq", "gdq:t=1", &[1, 4]),
        ("gdq_distributed", "gdq-distributed:t=1", &[1, 4]),
    ];
    for (policy, core, options) in policies {
        let program = compile(policy);
        for (seed, &weights) in (0..).zip(weights.iter().flat_map(|weights| [weights; 3])) {
            let random = Random(seed);
            let mut recorder = Recorder::sized(core, sleepers(seed), size, weights, random);
            recorder.populate();
            (0..events).for_each(|_| recorder.step());
            recorder.compare(&program, policy, options, seed);
        }
    }
}

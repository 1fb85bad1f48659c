//! What scheduling costs: a measurement and no simulation, so that another machine, and even
//! another run, gives other numbers.
//!
//! The calls that a workload makes to a policy are recorded first and then played to a fresh policy
//! with the clock running. A set is a round in which all curves take turns; of many rounds the
//! least time counts. The ratios between curves say something, the nanoseconds do not.

use std::borrow::Cow;
use std::hint::black_box;

use prorata::policies;
use prorata::{CpuId, Nanos, Policy, Setup, TaskId, Weight};

use super::sweep::thread_cpu_time;
use super::{Row, Study, Tally, Unfit, sets};
use crate::plot::{Axis, Lines, Picture, Series, lines};

/// What is said of every figure that measures time.
macro_rules! measured {
    () => {
        "A measurement: it depends on the machine, and no two runs agree in the last digits; all \
         policies take turns, round by round, and the least time of all rounds counts. "
    };
}
pub(super) use measured;

/// Rounds of measurements.
pub(super) const ROUNDS: u32 = 20;
const QUANTUM_NS: Nanos = 1_000_000;
/// At least so many decisions are timed in a row, and so many for each task.
const LEAST_DECISIONS: usize = 20_000;
const DECISIONS_PER_TASK: usize = 4;
/// A hackbench group: so many writers, and as many readers after them.
const HALF_GROUP: usize = 20;
/// Messages that wait for a reader before writers have to wait for it too.
const MOST_MESSAGES: u32 = 40;

/// What the tasks do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// All of them always run.
    Hogs,
    /// Groups of 20 writers and 20 readers. In a quantum a writer sends a message to each reader of
    /// its group, unless one has too many: then it sleeps until a reader has read. In a quantum a
    /// reader reads what there is; then it sleeps until the next message.
    Hackbench,
}

/// One curve of a cost figure; the first one is what the others are compared with.
#[derive(Clone)]
pub(super) struct Curve {
    /// The policy, with options as users type them.
    pub(super) policy: Cow<'static, str>,
    pub(super) cpus: u32,
    pub(super) load: Load,
    /// A number of tasks and the ratio to the first curve that the paper tells for it.
    pub(super) printed: Option<(u32, f64)>,
}

impl Curve {
    pub(super) const fn new(policy: &'static str, cpus: u32, load: Load) -> Curve {
        Curve { policy: Cow::Borrowed(policy), cpus, load, printed: None }
    }

    pub(super) const fn prints(mut self, tasks: u32, ratio: f64) -> Curve {
        self.printed = Some((tasks, ratio));
        self
    }

    fn label(&self) -> String {
        let cpus = if self.cpus > 1 { format!(", {} cpus", self.cpus) } else { String::new() };
        let load = if self.load == Load::Hackbench { ", hackbench" } else { "" };
        format!("{}{cpus}{load}", self.policy)
    }
}

/// A cost figure.
struct Costs {
    curves: Cow<'static, [Curve]>,
    /// Numbers of tasks.
    tasks: &'static [u32],
    /// Weights are random from 1 to this.
    most_weight: u32,
}

/// The study of `curves`.
pub(super) fn study(
    curves: &'static [Curve],
    tasks: &'static [u32],
    most_weight: u32,
) -> Box<dyn Study> {
    Box::new(Costs { curves: curves.into(), tasks, most_weight })
}

/// A call to a policy.
#[derive(Clone, Copy)]
enum Call {
    Wake(TaskId),
    Block(TaskId),
    Charge(TaskId),
    /// Also moves time on, by a quantum when all cpus have picked.
    Pick(CpuId),
}

/// A policy and what time it is there.
struct Player {
    policy: Box<dyn Policy + Send>,
    step_ns: Nanos,
    now_ns: Nanos,
}

impl Player {
    fn new(curve: &Curve, weights: &[Weight]) -> Player {
        let setup = Setup::new(curve.cpus as usize, QUANTUM_NS).as_in_papers();
        let mut policy = policies::build(&curve.policy, &setup).expect("a figure's policy");
        for (id, &weight) in (0..).zip(weights) {
            policy.add(TaskId(id), weight);
        }
        (0..).zip(weights).for_each(|(id, _)| policy.wake(TaskId(id), 0));
        Player { policy, step_ns: QUANTUM_NS / u64::from(curve.cpus), now_ns: 0 }
    }

    #[inline]
    fn play(&mut self, call: Call) -> Option<TaskId> {
        match call {
            Call::Wake(task) => self.policy.wake(task, self.now_ns),
            Call::Block(task) => self.policy.block(task, self.now_ns),
            Call::Charge(task) => self.policy.charge(task, QUANTUM_NS, self.now_ns),
            Call::Pick(cpu) => {
                let task = self.policy.pick(cpu, self.now_ns);
                self.now_ns += self.step_ns;
                return task;
            }
        }
        None
    }

    /// Picoseconds per decision that `calls` take.
    fn time(&mut self, calls: &[Call], decisions: usize) -> i64 {
        let begin = thread_cpu_time();
        for &call in calls {
            black_box(self.play(call));
        }
        let elapsed_ps = (thread_cpu_time() - begin).as_nanos() * 1000;
        i64::try_from(elapsed_ps / decisions as u128).unwrap_or(i64::MAX)
    }
}

/// The tasks of a hackbench.
struct Hackbench {
    /// By task: the messages that wait for a reader.
    messages: Vec<u32>,
    asleep: Vec<bool>,
}

impl Hackbench {
    fn new(tasks: usize) -> Hackbench {
        Hackbench { messages: vec![0; tasks], asleep: vec![false; tasks] }
    }

    /// What `task` has done at the end of a quantum: who wakes, and whether it sleeps.
    fn run(&mut self, task: TaskId) -> (Vec<TaskId>, bool) {
        let task = task.index();
        let first = task - task % (2 * HALF_GROUP);
        let readers = first + HALF_GROUP..first + 2 * HALF_GROUP;
        let is_reader = readers.contains(&task);
        let is_full = self.messages[readers.clone()].iter().any(|&n| n >= MOST_MESSAGES);
        let wakes = if is_reader {
            self.messages[task] = 0;
            first..first + HALF_GROUP
        } else if is_full {
            0..0
        } else {
            self.messages[readers.clone()].iter_mut().for_each(|n| *n += 1);
            readers
        };
        let sleeps = is_reader || is_full;
        self.asleep[task] = sleeps;
        let woken = wakes.filter(|&other| std::mem::take(&mut self.asleep[other]));
        let id = |task: usize| TaskId(u32::try_from(task).expect("few tasks"));
        (woken.map(id).collect(), sleeps)
    }
}

/// The calls of so many decisions.
fn record(curve: &Curve, weights: &[Weight], decisions: usize) -> Vec<Call> {
    let mut player = Player::new(curve, weights);
    let mut tasks = Hackbench::new(weights.len());
    let mut running = vec![None; curve.cpus as usize];
    let mut calls = Vec::new();
    let cpus = (0..running.len()).cycle();
    for cpu in cpus.take(decisions) {
        let first = calls.len();
        if let Some(task) = running[cpu] {
            calls.push(Call::Charge(task));
            if curve.load == Load::Hackbench {
                let (woken, sleeps) = tasks.run(task);
                calls.extend(sleeps.then_some(Call::Block(task)));
                calls.extend(woken.into_iter().map(Call::Wake));
            }
        }
        calls.push(Call::Pick(cpu));
        for &call in &calls[first..] {
            running[cpu] = player.play(call);
        }
        assert!(running.iter().any(Option::is_some), "{}: all cpus idle", curve.policy);
    }
    calls
}

impl Costs {
    /// A curve for each number of cpus and load of the figure.
    fn places(&self) -> Vec<Curve> {
        let mut places: Vec<Curve> = Vec::new();
        for curve in &*self.curves {
            if !places.iter().any(|known| (known.cpus, known.load) == (curve.cpus, curve.load)) {
                places.push(curve.clone());
            }
        }
        places
    }

    fn decisions(&self, point: usize) -> usize {
        LEAST_DECISIONS.max(DECISIONS_PER_TASK * self.tasks[point] as usize)
    }
}

impl Study for Costs {
    fn points(&self) -> usize {
        self.tasks.len()
    }

    fn is_measurement(&self) -> bool {
        true
    }

    /// More than the decisions: a round is a chunk.
    fn cost(&self, _point: usize) -> u64 {
        1 << 24
    }

    fn measure(&self, point: usize, _set: u32, seed: u64) -> Tally {
        let decisions = self.decisions(point);
        let mut lots = sets::lots(seed, self.tasks[point], self.most_weight, 0);
        let weight = |_| {
            let weight = 1 + lots.below(u64::from(self.most_weight));
            u32::try_from(weight).ok().and_then(Weight::new).expect("at least 1")
        };
        let weights: Vec<Weight> = (0..self.tasks[point]).map(weight).collect();
        let time = |curve: &Curve| {
            let calls = record(curve, &weights, decisions);
            Player::new(curve, &weights).time(&calls, decisions)
        };
        let values = self.curves.iter().map(time).collect();
        Tally { decisions: (decisions * self.curves.len()) as u64, values }
    }

    fn merge(&self, values: &mut [i64], other: &[i64]) {
        values.iter_mut().zip(other).for_each(|(least, other)| *least = (*least).min(*other));
    }

    #[allow(clippy::cast_precision_loss)] // picoseconds of a decision
    fn rows(&self, tallies: &[Tally], _sets: u32) -> Vec<Row> {
        let mut rows = Vec::new();
        for (index, curve) in self.curves.iter().enumerate() {
            for (&tasks, tally) in self.tasks.iter().zip(tallies) {
                let (first, own) = (tally.values[0].max(1) as f64, tally.values[index] as f64);
                let mut row = Row::default()
                    .at("policy", curve.label().as_str())
                    .at("tasks", tasks)
                    .with("ns", own / 1000.0)
                    .with("times_the_first", own / first);
                if let Some((_, ratio)) = curve.printed.filter(|&(at, _)| at == tasks) {
                    row.print("times_the_first", ratio);
                }
                rows.push(row);
            }
        }
        rows
    }

    fn draw(&self, title: &str, rows: &[Row]) -> Picture {
        let curves = |measure: &str| {
            let curve = |rows: &[Row]| {
                let point = |row: &Row| (row.place("tasks").number(), row.value(measure));
                let points = rows.iter().map(point).collect();
                Series::new(rows[0].place("policy").to_string(), points).marked()
            };
            rows.chunks(self.tasks.len()).map(curve).collect()
        };
        let panel = |title: &str, name, measure| Lines {
            title: title.to_string(),
            x: Axis { name: "number of tasks", logarithmic: true },
            y: Axis { name, logarithmic: spread(rows, measure) > 10.0 },
            series: curves(measure),
            printed: rows.iter().filter_map(|row| printed(row, measure)).collect(),
        };
        lines(
            title,
            &[
                panel("on the machine that drew this", "time of a decision, ns", "ns"),
                panel(
                    "compared with the first",
                    "time of a decision / the first curve's",
                    "times_the_first",
                ),
            ],
        )
    }

    /// Each on the figure's numbers of cpus, as far as it schedules so many.
    fn with(&self, policies: &[String]) -> Result<Box<dyn Study>, Unfit> {
        let mut curves = Vec::new();
        for policy in policies {
            let mut last = Ok(());
            let before = curves.len();
            for curve in self.places() {
                let curve = Curve { policy: Cow::Owned(policy.clone()), printed: None, ..curve };
                last = policies::build(
                    policy,
                    &Setup::new(curve.cpus as usize, QUANTUM_NS).as_in_papers(),
                )
                .map(drop);
                curves.extend(last.is_ok().then_some(curve));
            }
            if curves.len() == before {
                last?;
            }
        }
        Ok(Box::new(Costs { curves: Cow::Owned(curves), ..*self }))
    }
}

/// Where the paper has `row`.
fn printed(row: &Row, measure: &str) -> Option<(f64, f64)> {
    Some((row.place("tasks").number(), row.printed(measure)?))
}

/// How many times the least value of a measure the greatest is.
fn spread(rows: &[Row], measure: &str) -> f64 {
    let values = || rows.iter().map(|row| row.value(measure));
    values().fold(0.0, f64::max) / values().fold(f64::MAX, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(tasks: usize) -> Vec<Weight> {
        vec![Weight::ONE; tasks]
    }

    fn count(calls: &[Call], is: fn(&Call) -> bool) -> usize {
        calls.iter().filter(|&call| is(call)).count()
    }

    #[test]
    fn hogs_only_run() {
        let curve = Curve::new("gr3", 2, Load::Hogs);
        let calls = record(&curve, &weights(5), 100);
        assert_eq!(calls.len(), 100 + 98, "two runs are not over");
        assert_eq!(count(&calls, |call| matches!(call, Call::Pick(1))), 50);
    }

    #[test]
    fn hackbench_sleeps_and_wakes() {
        for (policy, cpus) in [("gr3", 1), ("gr3", 3), ("vtrr", 1), ("wfq", 1), ("linux-2.6", 1)] {
            let curve = Curve::new(policy, cpus, Load::Hackbench);
            let calls = record(&curve, &weights(80), 5000);
            let blocks = count(&calls, |call| matches!(call, Call::Block(_)));
            let wakes = count(&calls, |call| matches!(call, Call::Wake(_)));
            assert!(blocks > 1000 && wakes + 80 >= blocks, "{policy}: {blocks}, {wakes}");
        }
    }
}

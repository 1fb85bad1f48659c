//! SFS by scanning all tasks at every decision.

use prorata::weights::{self, Cap};
use prorata::{CpuId, Nanos, Policy, TaskId, Weight};

/// A non-negative fraction.
#[derive(Clone, Copy, Debug)]
struct Fraction(i128, i128);

impl Fraction {
    fn exceeds(self, other: Fraction) -> bool {
        self.0 * other.1 > other.0 * self.1
    }

    /// φ·v, rounded down.
    fn times(self, phi: Fraction) -> i128 {
        (self.0 * phi.0).div_euclid(self.1 * phi.1)
    }
}

#[derive(Clone, Copy, Debug)]
struct Task {
    weight: Weight,
    phi: Fraction,
    service: i128,
    runnable: bool,
    waiting: bool,
}

impl Task {
    fn start(&self) -> Fraction {
        Fraction(self.service * self.phi.1, self.phi.0)
    }
}

pub(crate) struct Twin {
    cpus: usize,
    tasks: Vec<Task>,
    now: Fraction,
}

impl Twin {
    pub(crate) fn new(cpus: usize) -> Twin {
        Twin { cpus, tasks: Vec::new(), now: Fraction(0, 1) }
    }

    fn advance(&mut self) {
        let starts = self.tasks.iter().filter(|t| t.runnable).map(Task::start);
        let least = starts.reduce(|a, b| if a.exceeds(b) { b } else { a });
        if let Some(start) = least.filter(|start| start.exceeds(self.now)) {
            self.now = start;
        }
    }

    /// φ of every runnable task, with its surplus kept; but for `new`, whose is set by the caller.
    fn readjust(&mut self, new: Option<TaskId>) {
        let mut sorted: Vec<Weight> =
            self.tasks.iter().filter(|t| t.runnable).map(|t| t.weight).collect();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let cap = weights::sorted(&sorted, self.cpus);
        for (id, task) in (0..).zip(&mut self.tasks) {
            let w = task.weight;
            let (feasible, of) = cap.fraction();
            let phi = if cap != Cap::NONE && cap.exceeded_by(w) {
                Fraction(i128::from(feasible), i128::from(of))
            } else {
                Fraction(i128::from(w.get()), 1)
            };
            if task.runnable && Some(TaskId(id)) != new {
                task.service += self.now.times(phi) - self.now.times(task.phi);
            }
            if task.runnable {
                task.phi = phi;
            }
        }
    }

    fn task(&mut self, task: TaskId) -> &mut Task {
        &mut self.tasks[task.index()]
    }
}

impl Policy for Twin {
    fn add(&mut self, _: TaskId, weight: Weight) {
        let phi = Fraction(i128::from(weight.get()), 1);
        self.tasks.push(Task { weight, phi, service: 0, runnable: false, waiting: false });
    }

    fn remove(&mut self, _: TaskId, _: Nanos) {
        unreachable!("the tests remove nothing")
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, _: Nanos) {
        if !self.task(task).runnable {
            self.task(task).weight = weight;
            return;
        }
        self.advance();
        let old = self.task(task).phi;
        self.task(task).runnable = false;
        self.readjust(None);
        let known = self.task(task);
        (known.runnable, known.weight) = (true, weight);
        self.readjust(Some(task));
        let (now, phi) = (self.now, self.task(task).phi);
        self.task(task).service += now.times(phi) - now.times(old);
    }

    fn wake(&mut self, task: TaskId, _: Nanos) {
        self.advance();
        let old = *self.task(task);
        self.task(task).runnable = true;
        self.readjust(Some(task));
        let now = self.now;
        let known = self.task(task);
        known.waiting = true;
        let arrival = now.times(known.phi);
        known.service = if old.start().exceeds(now) {
            arrival + old.service - now.times(old.phi)
        } else {
            arrival
        };
    }

    fn block(&mut self, task: TaskId, _: Nanos) {
        self.advance();
        let known = self.task(task);
        (known.runnable, known.waiting) = (false, false);
        let start = known.start();
        self.readjust(None);
        if !self.tasks.iter().any(|t| t.runnable) && start.exceeds(self.now) {
            self.now = start;
        }
    }

    fn pick(&mut self, _: CpuId, _: Nanos) -> Option<TaskId> {
        self.advance();
        let Fraction(n, d) = self.now;
        let surplus = |t: &Task| Fraction(t.service * d * t.phi.1 - n * t.phi.0, d * t.phi.1);
        let waiting = (0..).zip(&self.tasks).filter(|(_, t)| t.waiting);
        let least = waiting.reduce(|a, b| if surplus(a.1).exceeds(surplus(b.1)) { b } else { a });
        let task = TaskId(least?.0);
        self.task(task).waiting = false;
        Some(task)
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, _: Nanos) {
        let known = self.task(task);
        known.service += i128::from(used_ns);
        known.waiting = true;
    }
}

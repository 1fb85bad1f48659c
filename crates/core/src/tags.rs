//! Start tags of the tasks of a machine: what SFS, DFS and MFQ keep of every task, exactly.
//!
//! The service of a task is kept as the whole number α = φ·S of nanoseconds, where S is its start
//! tag and φ its [effective weight](crate::effective). While φ stays, running for u ns is α + u,
//! without rounding; S itself is the fraction α/φ, and is compared as one.
//!
//! When φ changes, by a new weight or because others came or went, the task keeps its distance
//! α − φ·v from the virtual time v: that is its service error. This, and the arrival of a task at
//! v > 0, rounds α to a nanosecond of the task's own service. A fixed set that starts together is
//! never rounded. (Keeping S instead, as the papers' formulas do when read literally, multiplies
//! the error by φ'/φ: a task that is half a quantum ahead at weight 1 and then gets weight 1000
//! would wait until 500 quanta have fallen due to it.)
//!
//! The mean of the tags falls when a task leaves that is ahead of it. [`Tags::mean`] does not, and it
//! goes on with all that the machine serves, as the ideal does, while the others make up for what that
//! task had taken. If it stood still for so long, newcomers who follow each other, each of them gone
//! after a quantum, would all come first, and who stays would starve.
//!
//! Which v is meant is the policy's choice and an argument here. DFS and MFQ take the weighted
//! mean of the start tags, [`Tags::mean`]; SFS takes the least.

use alloc::vec::Vec;

use crate::effective::{Effective, Feasible, Start, Virtual};
use crate::policy::{Nanos, TaskId, Weight};

/// Where a task is in the state diagram of [`policy`](crate::policy).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not runnable, or unknown.
    Blocked,
    /// Runnable, not running.
    Waiting,
    /// On a cpu.
    Running,
}

#[derive(Clone, Copy, Debug)]
struct Tagged {
    /// φ; while blocked, what it was.
    effective: Effective,
    /// α.
    service_ns: i128,
    state: State,
}

/// The start tags. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Tags {
    /// What tasks weigh, and which are runnable.
    feasible: Feasible,
    tasks: Vec<Tagged>,
    /// Σ α over the runnable tasks.
    total_ns: i128,
    /// The mean times Σφ is at least this: the mean does not go back, and passes with all that is
    /// served.
    floor_ns: i128,
    /// The mean while nothing is runnable.
    idle: Virtual,
    /// The result of the last change of the set.
    moved: Vec<TaskId>,
}

impl Tags {
    /// No task on `cpus` cpus.
    #[must_use]
    pub fn new(cpus: usize) -> Tags {
        Tags {
            feasible: Feasible::new(cpus),
            tasks: Vec::new(),
            total_ns: 0,
            floor_ns: 0,
            idle: Virtual::ZERO,
            moved: Vec::with_capacity(4 * cpus + 4),
        }
    }

    /// Makes `task` known, blocked, with S = 0; the only call that allocates.
    pub fn add(&mut self, task: TaskId, weight: Weight) {
        let effective = Effective::whole(weight);
        let new = Tagged { effective, service_ns: 0, state: State::Blocked };
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, new);
            self.feasible.reserve(task.index() + 1);
        }
        self.feasible.set_weight(task, weight);
        self.tasks[task.index()] = new;
    }

    /// The runnable tasks and what each counts for.
    #[inline]
    #[must_use]
    pub fn runnable(&self) -> &Feasible {
        &self.feasible
    }

    /// The state of a task that was added.
    #[inline]
    #[must_use]
    pub fn state(&self, task: TaskId) -> State {
        self.tasks[task.index()].state
    }

    /// φ of a task; while it is blocked, what it was.
    #[inline]
    #[must_use]
    pub fn effective(&self, task: TaskId) -> Effective {
        self.tasks[task.index()].effective
    }

    /// α = φ·S of a task.
    #[inline]
    #[must_use]
    pub fn service_ns(&self, task: TaskId) -> i128 {
        self.tasks[task.index()].service_ns
    }

    /// S + `more_ns`/φ of a task.
    #[inline]
    #[must_use]
    pub fn start_after(&self, task: TaskId, more_ns: i128) -> Start {
        let task = &self.tasks[task.index()];
        task.effective.start(task.service_ns + more_ns)
    }

    /// S of a task.
    #[inline]
    #[must_use]
    pub fn start(&self, task: TaskId) -> Start {
        self.start_after(task, 0)
    }

    /// ΣφS/Σφ over the runnable tasks, or what it was before and what was served since, if that is
    /// later. While nothing is
    /// runnable: the start tag of the task that left last.
    #[inline]
    #[must_use]
    pub fn mean(&self) -> Virtual {
        self.mean_after(0)
    }

    /// What [`Tags::mean`] will be when the runnable tasks have received `more_ns` in all.
    #[inline]
    #[must_use]
    pub fn mean_after(&self, more_ns: i128) -> Virtual {
        if self.feasible.count() == 0 {
            return self.idle;
        }
        self.feasible.virtual_time(self.total_ns.max(self.floor_ns) + more_ns)
    }

    /// The tasks whose S the last `wake`, `leave` or `set_weight` changed, at most 4P + 2, some
    /// perhaps twice; not the task that woke or left.
    #[must_use]
    pub fn moved(&self) -> &[TaskId] {
        &self.moved
    }

    /// `task`, blocked, waits from now on, with S = v, or where it was if that is ahead of v.
    pub fn wake(&mut self, task: TaskId, now: Virtual) {
        let (mean, old) = (self.mean(), self.tasks[task.index()]);
        self.moved.clear();
        self.feasible.insert(task);
        self.carry_others(now);
        let effective = self.feasible.effective(task);
        let service_ns = if now.is_after(old.effective.start(old.service_ns)) {
            now.service_ns(effective)
        } else {
            now.carried(old.service_ns, old.effective, effective)
        };
        self.tasks[task.index()] = Tagged { effective, service_ns, state: State::Waiting };
        self.total_ns += service_ns;
        self.hold(mean);
    }

    /// `task`, waiting, is blocked from now on.
    pub fn leave(&mut self, task: TaskId, now: Virtual) {
        let mean = self.mean();
        self.moved.clear();
        let start = self.start(task);
        self.tasks[task.index()].state = State::Blocked;
        self.total_ns -= self.tasks[task.index()].service_ns;
        self.feasible.remove(task);
        self.carry_others(now);
        if self.feasible.count() == 0 {
            self.idle = mean.at_least(start);
            debug_assert_eq!(self.total_ns, 0, "nobody is left");
        }
        self.hold(mean);
    }

    /// `task` has `weight` from now on; a runnable one is among the [moved](Tags::moved).
    pub fn set_weight(&mut self, task: TaskId, weight: Weight, now: Virtual) {
        let mean = self.mean();
        self.moved.clear();
        if self.state(task) == State::Blocked {
            self.feasible.set_weight(task, weight);
            return;
        }
        let old = self.effective(task);
        self.feasible.remove(task);
        self.carry_others(now);
        self.feasible.set_weight(task, weight);
        self.feasible.insert(task);
        self.carry_others(now);
        self.carry(task, old, now);
        self.hold(mean);
    }

    /// `task` runs.
    #[inline]
    pub fn run(&mut self, task: TaskId) {
        debug_assert_eq!(self.state(task), State::Waiting);
        self.tasks[task.index()].state = State::Running;
    }

    /// `task` has run for `used_ns` and waits again.
    #[inline]
    pub fn charge(&mut self, task: TaskId, used_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        debug_assert_eq!(known.state, State::Running);
        known.service_ns += i128::from(used_ns);
        known.state = State::Waiting;
        self.total_ns += i128::from(used_ns);
        self.floor_ns += i128::from(used_ns);
    }

    fn carry_others(&mut self, now: Virtual) {
        for i in 0..self.feasible.changed().len() {
            let (task, old) = self.feasible.changed()[i];
            self.carry(task, old, now);
        }
    }

    /// `task` of the set had φ = `old` until now; it keeps its distance from v = `now`.
    fn carry(&mut self, task: TaskId, old: Effective, now: Virtual) {
        let effective = self.feasible.effective(task);
        let known = &mut self.tasks[task.index()];
        let service_ns = now.carried(known.service_ns, old, effective);
        self.total_ns += service_ns - known.service_ns;
        (known.service_ns, known.effective) = (service_ns, effective);
        self.moved.push(task);
    }

    /// The mean is no earlier than `mean`, but for a nanosecond on each cpu.
    fn hold(&mut self, mean: Virtual) {
        let per_cpu_ns = mean.service_ns(self.feasible.per_cpu());
        self.floor_ns = per_cpu_ns * self.feasible.busy_cpus() as i128;
    }
}

//! Deadline fair scheduling (Chandra, Adler, Shenoy: *Deadline Fair Scheduling*, RTAS 2001):
//! proportionate fairness on P cpus. No task is ever a whole quantum away from its due.
//!
//! # The idea
//!
//! A task of effective weight φ (feasible: see [`effective`](crate::effective)) is entitled to
//! u = φ/c of a cpu, where c = Φ/P is what a whole cpu counts for. Cut its service into quanta:
//! quantum m falls due between m/u and (m+1)/u, its *window*. A task that starts no quantum before
//! its window opens is never more than one quantum ahead; one that ends every quantum before its
//! window closes is never more than one behind. So
//!
//! * a task is **eligible** at time t if m + 1 ≤ ⌈(t+1)·u⌉, m being the quanta it has had, and
//! * its **deadline** is ⌈(m+1)/u⌉, counted in quanta of the machine, *slots*;
//! * the eligible tasks with the earliest deadlines run. Ties: first a task whose deadline was
//!   *raised* by the ceiling (its next window opens before this one closes, so the next quantum has
//!   less room); then the least ⌈(m+2)/u⌉; then the lowest id. With `ties=pd2` the second rule is
//!   that of PD² (Srinivasan and Anderson): among the raised, the later *group deadline*, the end
//!   of the chain of windows that being late here would push.
//!
//! (The paper's line above eq. 4 prints a ceiling where the deadline needs a floor, and prints both
//! sides of rule 1 alike; what is here is what its proof uses.)
//!
//! With two cpus and weights 2, 1, 1: task 0 is entitled to a whole cpu, the others to half of one,
//! and the schedule is (0,1) (0,2) (0,1) (0,2).
//!
//! # Virtual time
//!
//! Tasks that come, go and use parts of quanta have no common t. Each has a start tag S, which
//! grows by used/φ when it runs; v = Σ φS / Σ φ over the runnable tasks, but never less than it
//! was, stands for t·P/Φ. A new task starts at S = v, a woken one at max(S, v). If nothing is
//! runnable, v waits at the start tag of the task that ran last.
//!
//! Everything here is kept as the whole number φ·S of nanoseconds, and as fractions that are
//! compared by cross-multiplication: a fixed set that starts together is scheduled by the exact
//! ideal model above, with exact ceilings, however long it runs.
//!
//! # Parts of quanta
//!
//! Eq. 7 of the paper, `φS/q + 1 ≤ ⌈φ(v/q + P/Φ)⌉`, is meant for whole m = φS/q. With a fraction on
//! its left side it asks for up to one quantum more than is due: right after it blocked with a
//! little of its quantum left, a task must wait until the *next* window opens, and so must
//! everybody, since v moves only if somebody runs: the system stops with all cpus idle. The rule
//! here is
//!
//! > ⌊φS/q⌋ + 1 ≤ ⌈φ(v/q + P/Φ)⌉, and the deadline is that of quantum ⌊φS/q⌋:
//!
//! a window stays the task's until it has had a whole quantum of service in it. It is eq. 7 when
//! quanta are whole. It is also what the paper's finish tag says, F = S + q̄/φ with q̄ the *rest* of
//! an unfinished quantum. Since ⌊φS/q⌋ =: m is whole, m + 1 ≤ ⌈x⌉ is m < x, that is
//!
//! > q·m/φ < v + q/c: the window, whose virtual start is q·m/φ, opens within one slot.
//!
//! So one queue of windows by virtual start finds who becomes eligible (the paper sorts by S for
//! this, which is right only when m = φS/q), and some runnable task always passes: v is at least the
//! weighted mean of the S, so some S ≤ v, and that task's q·m/φ ≤ S ≤ v. If v is held above the mean
//! (a task that was ahead has left) this holds all the more. If all cpus are idle, all runnable
//! tasks are waiting, so one of them runs: no deadlock. Windows are counted from the task's
//! arrival, or from where its φ last changed, so that an arrival is eligible at once.
//!
//! Effect on the service: a task may start a quantum up to one quantum of service earlier than
//! eq. 7 would allow it to, so with parts of quanta it can be up to two quanta ahead and not one;
//! over time it gets exactly its share either way.
//!
//! # When weights change
//!
//! If the φ of a task changes, by [`Policy::set_weight`] or since others came or went, it keeps its
//! distance φ·(S − v) from v, its service error. (The paper keeps S, which multiplies that error by
//! φ'/φ: see [`effective`](crate::effective).) Slots go on counting from where they are. A task keeps
//! the deadline that it was stamped with when it became eligible; recomputing the deadlines of all
//! eligible tasks at every arrival, as the paper does, would cost O(N).
//!
//! # Bound, cost, limits
//!
//! *Bound*: with a fixed set and whole quanta in step, P-fairness: −1 < e < 1, proven for PD² and
//! claimed by the paper for its own tie rules by way of ER-fair scheduling. A search found no
//! set that breaks it: see `examples/dfs_search.rs` and its result in `tests/dfs`.
//! *Cost*: `pick` and `charge` O(log N) amortised: every quantum enters each queue once. `wake`,
//! `block`, `set_weight` O(P log N). *Cpus*: any number.
//! *Not work-conserving*: when the quanta of the cpus are not in step, a cpu may find nobody
//! eligible and idle while tasks wait, above all when there are few more tasks than cpus.
//! [`dfs_fa`](super::dfs_fa) mends that. With no more tasks than cpus every task has a cpu, and
//! keeps it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Bound, Cost, Entry, Ratio};
use crate::effective::{Effective, Feasible, Start, Virtual};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::Heap;

pub(super) const ENTRY: Entry = Entry {
    name: "dfs",
    title: "Deadline fair scheduling",
    paper: "Chandra, Adler, Shenoy, RTAS 2001, §4",
    bound: Bound {
        text: "−1 < e < 1 (P-fair)",
        lower: Some(|_, _| Ratio::whole(-1)),
        upper: Some(|_, _| Ratio::whole(1)),
        exact_each_cycle: true,
    },
    cost: Cost { pick: "log N", insert: "P log N", remove: "P log N" },
    multiprocessor: true,
    work_conserving: false,
    options: &[TIES_OPTION],
    build: |setup, options| {
        let ties = options.choice("ties", &TIES)?;
        Ok(Box::new(Dfs::new(setup, ties)))
    },
};

pub(super) const TIES_OPTION: (&str, &str, &str) =
    ("ties", "paper", "who runs first at equal deadlines: paper (DFS's two rules) or pd2");

pub(super) const TIES: [(&str, Ties); 2] = [("paper", Ties::Paper), ("pd2", Ties::Pd2)];

/// Who runs first among tasks of equal deadline and equally raised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ties {
    /// The one whose next deadline is the earliest (DFS, rule 2).
    #[default]
    Paper,
    /// Among the raised, the one whose group deadline is the latest (PD²).
    Pd2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Blocked,
    Waiting,
    Running,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    weight: Weight,
    /// φ; while blocked, what it was.
    effective: Effective,
    /// φ·(virtual start of the window): a whole number of quanta after the arrival.
    window_ns: i128,
    /// Service received in this window, below a quantum. φ·S = `window_ns` + `used_ns`.
    used_ns: Nanos,
    /// The slot in which it arrived or its φ changed; PD² counts group deadlines from there.
    first_slot: i64,
    state: State,
}

impl Task {
    fn new(weight: Weight) -> Task {
        Task {
            weight,
            effective: Effective::whole(weight),
            window_ns: 0,
            used_ns: 0,
            first_slot: 0,
            state: State::Blocked,
        }
    }

    fn service_ns(&self) -> i128 {
        self.window_ns + i128::from(self.used_ns)
    }
}

/// The order in which eligible tasks run, but for the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Priority {
    /// In slots.
    deadline: i64,
    /// False, which goes first, if the deadline was raised by the ceiling.
    exact: bool,
    /// The next deadline (paper), or minus the group deadline (PD²).
    then: i64,
}

/// Deadline fair scheduling. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Dfs {
    quantum_ns: Nanos,
    cpus: usize,
    ties: Ties,
    /// The runnable tasks.
    feasible: Feasible,
    tasks: Vec<Task>,
    /// Σ φS over the runnable tasks.
    service_ns: i128,
    /// v·Σφ is at least this: v does not go back when the mean does.
    service_floor_ns: i128,
    /// v while nothing is runnable.
    idle: Virtual,
    /// A virtual time x is slot (x·Φ_f + `slot_offset`) / (q·Q), where Φ_f/Q = c.
    slot_offset: i128,
    /// The waiting tasks that may run.
    eligible: Heap<Priority>,
    /// The other waiting tasks, by virtual start of their window.
    ineligible: Heap<Start>,
    /// The task that each cpu ran last.
    last: Vec<Option<TaskId>>,
    /// The tasks whose φ·S moved with v at the last change of the set; at most 4P + 2.
    moved: Vec<TaskId>,
}

impl Dfs {
    /// DFS over no tasks.
    #[must_use]
    pub fn new(setup: &Setup, ties: Ties) -> Dfs {
        Dfs {
            quantum_ns: setup.quantum_ns,
            cpus: setup.cpus,
            ties,
            feasible: Feasible::new(setup.cpus),
            tasks: Vec::new(),
            service_ns: 0,
            service_floor_ns: 0,
            idle: Virtual::ZERO,
            slot_offset: 0,
            eligible: Heap::default(),
            ineligible: Heap::default(),
            last: alloc::vec![None; setup.cpus],
            moved: Vec::with_capacity(4 * setup.cpus + 4),
        }
    }

    /// The start tag S of a task.
    pub(super) fn start_tag(&self, task: TaskId) -> Start {
        let task = &self.tasks[task.index()];
        task.effective.start(task.service_ns())
    }

    /// φ·S of a task, and φ.
    pub(super) fn service(&self, task: TaskId) -> (i128, Effective) {
        let task = &self.tasks[task.index()];
        (task.service_ns(), task.effective)
    }

    /// True if the task waits for a cpu.
    pub(super) fn is_waiting(&self, task: TaskId) -> bool {
        self.tasks[task.index()].state == State::Waiting
    }

    /// The tasks whose start tags the last `wake`, `block`, `remove` or `set_weight` changed
    /// though they did not run, that of the call excepted.
    pub(super) fn moved(&self) -> &[TaskId] {
        &self.moved
    }

    /// The eligible task that runs next on `cpu`; any waiting task if there is a cpu for each.
    pub(super) fn pick_eligible(&mut self, cpu: CpuId) -> Option<TaskId> {
        self.admit();
        let task = if self.feasible.count() <= self.cpus {
            self.own_task(cpu)?
        } else {
            self.eligible.peek()?.0
        };
        self.start_on(cpu, task);
        Some(task)
    }

    /// `task`, which waits, runs on `cpu`.
    pub(super) fn start_on(&mut self, cpu: CpuId, task: TaskId) {
        self.leave_queue(task);
        self.tasks[task.index()].state = State::Running;
        self.last[cpu] = Some(task);
    }

    fn own_task(&self, cpu: CpuId) -> Option<TaskId> {
        let kept = self.last[cpu].filter(|&task| self.is_waiting(task));
        let other = || self.eligible.peek().map(|(task, _)| task);
        kept.or_else(other).or_else(|| self.ineligible.peek().map(|(task, _)| task))
    }

    /// v, the virtual time.
    fn now(&self) -> Virtual {
        if self.feasible.count() == 0 {
            return self.idle;
        }
        self.feasible.virtual_time(self.service_ns.max(self.service_floor_ns))
    }

    /// Stamps the tasks that have become eligible with their deadlines.
    fn admit(&mut self) {
        let slot_ns = i128::from(self.quantum_ns) * self.feasible.busy_cpus() as i128;
        let so_far_ns = self.service_ns.max(self.service_floor_ns);
        // v + q/c
        let horizon = self.feasible.virtual_time(so_far_ns + slot_ns);
        while let Some((task, &window)) = self.ineligible.peek() {
            if !horizon.is_after(window) {
                break;
            }
            self.ineligible.pop();
            self.eligible.insert(task, self.priority(&self.tasks[task.index()]));
        }
    }

    fn priority(&self, task: &Task) -> Priority {
        let quantum_ns = i128::from(self.quantum_ns);
        let finish = task.effective.start(task.window_ns + quantum_ns);
        let (slot, inside) = self.slot_of(finish);
        let deadline = slot + i64::from(inside);
        let then = match self.ties {
            Ties::Paper => {
                let (slot, inside) =
                    self.slot_of(task.effective.start(task.window_ns + 2 * quantum_ns));
                slot + i64::from(inside)
            }
            Ties::Pd2 if inside => -self.group_deadline(task, deadline),
            Ties::Pd2 => 0,
        };
        Priority { deadline, exact: !inside, then }
    }

    /// The slot in which a virtual time lies, and whether it lies inside and not at its start.
    fn slot_of(&self, time: Start) -> (i64, bool) {
        let (per_cpu, of) = self.feasible.per_cpu().fraction();
        let (part, parts) = time.part();
        let part = u128::from(part) * u128::from(per_cpu);
        let (part, rest) = (part / u128::from(parts), part % u128::from(parts));
        let whole = i128::from(time.whole()) * i128::from(per_cpu);
        let place = whole + i128::try_from(part).expect("below c") + self.slot_offset;
        let slot_length = i128::from(self.quantum_ns) * i128::from(of);
        let slot = i64::try_from(place.div_euclid(slot_length)).unwrap_or(i64::MAX);
        (slot, rest != 0 || place.rem_euclid(slot_length) != 0)
    }

    /// The end of the chain of overlapping windows that begins with the one that ends at
    /// `deadline`: for u ≥ 1/2, ⌈⌈d·(1−u)⌉/(1−u)⌉ counted from the task's first slot; for a
    /// lighter task there is no chain.
    fn group_deadline(&self, task: &Task, deadline: i64) -> i64 {
        let (weight, of) = task.effective.fraction();
        let (per_cpu, per_cpu_of) = self.feasible.per_cpu().fraction();
        // u = used/all.
        let used = u128::from(weight) * u128::from(per_cpu_of);
        let all = u128::from(per_cpu) * u128::from(of);
        if 2 * used < all {
            return 0;
        }
        let slots = u128::try_from(deadline - task.first_slot).unwrap_or(0);
        let Some(unused) = all.checked_sub(used).filter(|&unused| unused > 0) else {
            return i64::MAX;
        };
        let idle_slots = (slots * unused).div_ceil(all);
        i64::try_from((idle_slots * all).div_ceil(unused)).unwrap_or(i64::MAX) + task.first_slot
    }

    fn enter_queue(&mut self, task: TaskId) {
        let known = &self.tasks[task.index()];
        self.ineligible.insert(task, known.effective.start(known.window_ns));
    }

    fn leave_queue(&mut self, task: TaskId) {
        if self.eligible.remove(task).is_none() {
            self.ineligible.remove(task);
        }
    }

    /// The set of runnable tasks changes as `change` does, at virtual time `now`: everybody keeps
    /// the distance from v, and slots go on from where they are.
    fn change_set(&mut self, now: Virtual, change: impl FnOnce(&mut Feasible)) {
        let (per_cpu, of) = self.feasible.per_cpu().fraction();
        let place = place_of(now, per_cpu) + self.slot_offset;
        change(&mut self.feasible);
        let (new_per_cpu, new_of) = self.feasible.per_cpu().fraction();
        let place = (place * i128::from(new_of)).div_euclid(i128::from(of));
        self.slot_offset = place - place_of(now, new_per_cpu);
        let busy = self.feasible.busy_cpus() as i128;
        self.service_floor_ns = now.service_ns(self.feasible.per_cpu()) * busy;
        for i in 0..self.feasible.changed().len() {
            let (task, old) = self.feasible.changed()[i];
            self.moved.push(task);
            self.carry(task, now, old);
        }
    }

    /// `task` of the set had φ = `old` until now.
    fn carry(&mut self, task: TaskId, now: Virtual, old: Effective) {
        let new = self.feasible.effective(task);
        let known = &mut self.tasks[task.index()];
        let window_ns = now.carried(known.window_ns, old, new);
        self.service_ns += window_ns - known.window_ns;
        (known.window_ns, known.effective) = (window_ns, new);
        self.tasks[task.index()].first_slot = self.slot_of(new.start(window_ns)).0;
        if self.is_waiting(task) {
            self.leave_queue(task);
            self.enter_queue(task);
        }
    }

    /// Where `task` resumes: at v, or where it was if that is ahead of v.
    fn resume_at(&mut self, task: TaskId, now: Virtual) {
        let new = self.feasible.effective(task);
        let ahead = !now.is_after(self.start_tag(task));
        let known = &mut self.tasks[task.index()];
        if ahead {
            known.window_ns = now.carried(known.window_ns, known.effective, new);
        } else {
            (known.window_ns, known.used_ns) = (now.service_ns(new), 0);
        }
        known.effective = new;
        known.state = State::Waiting;
        self.service_ns += self.tasks[task.index()].service_ns();
        let window = new.start(self.tasks[task.index()].window_ns);
        self.tasks[task.index()].first_slot = self.slot_of(window).0;
        self.enter_queue(task);
    }

    fn leave_set(&mut self, task: TaskId) {
        let now = self.now();
        self.moved.clear();
        self.leave_queue(task);
        self.service_ns -= self.tasks[task.index()].service_ns();
        self.tasks[task.index()].state = State::Blocked;
        self.change_set(now, |feasible| feasible.remove(task));
        if self.feasible.count() == 0 {
            self.idle = now.at_least(self.start_tag(task));
            debug_assert_eq!(self.service_ns, 0, "nobody is left");
        }
    }
}

/// v·Φ_f, rounded down.
fn place_of(now: Virtual, per_cpu: u64) -> i128 {
    now.service_ns(Effective::ratio(per_cpu, 1))
}

impl Policy for Dfs {
    fn add(&mut self, task: TaskId, weight: Weight) {
        if self.tasks.len() <= task.index() {
            let ids = task.index() + 1;
            self.tasks.resize(ids, Task::new(weight));
            self.feasible.reserve(ids);
            self.eligible.reserve(ids);
            self.ineligible.reserve(ids);
        }
        self.tasks[task.index()] = Task::new(weight);
    }

    fn remove(&mut self, task: TaskId, _now_ns: Nanos) {
        self.moved.clear();
        if self.is_waiting(task) {
            self.leave_set(task);
        }
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, _now_ns: Nanos) {
        self.moved.clear();
        self.tasks[task.index()].weight = weight;
        if self.tasks[task.index()].state == State::Blocked {
            return;
        }
        let (now, old) = (self.now(), self.tasks[task.index()].effective);
        self.change_set(now, |feasible| feasible.remove(task));
        self.change_set(now, |feasible| feasible.insert(task, weight));
        self.carry(task, now, old);
    }

    fn wake(&mut self, task: TaskId, _now_ns: Nanos) {
        let now = self.now();
        self.moved.clear();
        let weight = self.tasks[task.index()].weight;
        self.change_set(now, |feasible| feasible.insert(task, weight));
        self.resume_at(task, now);
    }

    fn block(&mut self, task: TaskId, _now_ns: Nanos) {
        self.leave_set(task);
    }

    fn pick(&mut self, cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        self.pick_eligible(cpu)
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, _now_ns: Nanos) {
        self.service_ns += i128::from(used_ns);
        let known = &mut self.tasks[task.index()];
        known.used_ns += used_ns;
        if known.used_ns >= self.quantum_ns {
            known.used_ns -= self.quantum_ns;
            known.window_ns += i128::from(self.quantum_ns);
        }
        known.state = State::Waiting;
        self.enter_queue(task);
    }
}

//! Deadline fair scheduling (Chandra, Adler, Shenoy: *Deadline Fair Scheduling*, RTAS 2001):
//! proportionate fairness on P cpus. No task is to be ever a whole quantum away from its due.
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
//! grows by used/φ when it runs; v = Σ φS / Σ φ over the runnable tasks stands for t·P/Φ. Here it
//! is never less than it was, and passes with all that is served, where it would stand still or go
//! back while others make up for what a task that has left had taken (see [`tags`](crate::tags)). A
//! new task starts at S = v, a woken one at max(S, v). If nothing is runnable, v waits at the start
//! tag of the task that ran last.
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
//! φ'/φ: see [`tags`](crate::tags).) Slots go on counting from where they are. A task keeps
//! the deadline that it was stamped with when it became eligible; recomputing the deadlines of all
//! eligible tasks at every arrival, as the paper does, would cost O(N).
//!
//! # Bound, cost, limits
//!
//! *Bound*: with a fixed set and whole quanta in step, e < 1 always, by eligibility. −1 < e, and so
//! P-fairness, holds with any tie rule on one and two cpus, and with `ties=pd2` on any number (PD² is
//! proven optimal). **With the paper's two rules it does not always hold**, although the paper says
//! that they are the ones that the proof needs: weights 6, 6, 6, 7, 7 on 4 cpus (each worth 6/8 or
//! 7/8 of one) leave task 4 with 6 of its 7 quanta after 8, and a cpu idle in the fourth. In the
//! second slot tasks 0 to 3 tie: deadline 3, raised, next deadline 4. The lowest ids run; it should
//! have been task 3, whose chain of tight windows ends at 8 and not at 4: the group deadline. Of
//! 10,100,000 random sets on 3 to 8 cpus (`examples/dfs_search.rs`, 6,000,000 of seed 1 and
//! 4,100,000 of seed 2) 4,121 break P-fairness, none by more than 1.24 quanta behind; with `ties=pd2`
//! none of 2,000,000 (seed 5) does. The least total is that of
//! weights 4, 4, 4, 4, 4, 5, 5 on 5 cpus, the fewest cpus are 4 (of 1,500,000 sets on 3, none).
//! *Cost*: `pick` and `charge` O(log N) amortised: every quantum enters each queue once. That is 1,170
//! instructions for N = 10 and 2,050 from N = 1000 to 10^5, on one cpu as on four. `wake`, `block`,
//! `set_weight` O(P log N). *Cpus*: any number.
//! *Not work-conserving*: when the quanta of the cpus are not in step, a cpu may find nobody
//! eligible and idle while tasks wait, above all when there are few more tasks than cpus.
//! [`dfs_fa`](super::dfs_fa) mends that. With no more tasks than cpus every task has a cpu, and
//! keeps it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Bound, Cost, Entry, Ratio};
use crate::effective::{Effective, Start, Virtual, divide};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::Heap;
use crate::tags::{State, Tags};
use crate::turns::Payment;

pub(super) const ENTRY: Entry = Entry {
    name: "dfs",
    title: "Deadline fair scheduling",
    paper: "Chandra, Adler, Shenoy, RTAS 2001, §4",
    bound: Bound {
        text: "e < 1; −1 < e (P-fair) on 1 or 2 cpus, or with ties=pd2",
        lower: None,
        upper: Some(|_, _| Ratio::whole(1)),
        exact_each_cycle: true,
    },
    cost: Cost { pick: "log N", insert: "P log N", remove: "P log N" },
    multiprocessor: true,
    work_conserving: false,
    by_weight: true,
    payment: Payment::USE,
    options: &[
        TIES_OPTION,
        (
            "parts",
            "whole",
            "when a window that was used in part opens: whole (at once) or printed (eq. 7)",
        ),
    ],
    build: |setup, options| {
        let ties = options.choice("ties", &TIES)?;
        let parts =
            options.choice("parts", &[("whole", Parts::Whole), ("printed", Parts::Printed)])?;
        Ok(Box::new(Dfs::with_parts(setup, ties, parts)))
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

/// When a task that used a part of its quantum is eligible again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parts {
    /// At once: the window is the task's until it has had a whole quantum in it. Ours.
    #[default]
    Whole,
    /// When the next window opens: eq. 7 as printed, for comparison. It idles cpus.
    Printed,
}

/// What DFS keeps of a task beside its tag.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// Service received in this window, below a quantum.
    used_ns: Nanos,
    /// The slot in which the task arrived or its φ changed; PD² counts group deadlines from there.
    first_slot: i64,
}

/// The order in which eligible tasks run, but for the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Priority {
    /// In slots.
    deadline: i64,
    /// Above all bits: 0, which goes first, if the deadline was raised by the ceiling. Then the next
    /// deadline (paper), or minus the group deadline (PD²), counted from −2^62 to 2^62.
    then: u64,
}

impl Priority {
    fn new(deadline: i64, raised: bool, then: i64) -> Priority {
        const MOST: i64 = 1 << 62;
        let then = then.clamp(-MOST, MOST - 1).wrapping_add(MOST).cast_unsigned();
        Priority { deadline, then: u64::from(!raised) << 63 | then }
    }
}

/// Deadline fair scheduling. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Dfs {
    quantum_ns: Nanos,
    cpus: usize,
    ties: Ties,
    parts: Parts,
    tags: Tags,
    windows: Vec<Window>,
    /// A virtual time x is slot (x·Φ_f + `slot_offset`) / (q·Q), where Φ_f/Q = c.
    slot_offset: i128,
    /// The waiting tasks that may run.
    eligible: Heap<Priority>,
    /// The other waiting tasks, by virtual start of their window.
    ineligible: Heap<Start>,
    /// The task that each cpu ran last.
    last: Vec<Option<TaskId>>,
}

impl Dfs {
    /// DFS over no tasks.
    #[must_use]
    pub fn new(setup: &Setup, ties: Ties) -> Dfs {
        Dfs::with_parts(setup, ties, Parts::Whole)
    }

    /// DFS over no tasks, with another rule for parts of quanta.
    #[must_use]
    pub fn with_parts(setup: &Setup, ties: Ties, parts: Parts) -> Dfs {
        Dfs {
            quantum_ns: setup.quantum_ns,
            cpus: setup.cpus,
            ties,
            parts,
            tags: Tags::new(setup.cpus),
            windows: Vec::new(),
            slot_offset: 0,
            eligible: Heap::default(),
            ineligible: Heap::default(),
            last: alloc::vec![None; setup.cpus],
        }
    }

    /// The start tags of all tasks.
    pub(super) fn tags(&self) -> &Tags {
        &self.tags
    }

    /// The eligible task that runs next on `cpu`; any waiting task if there is a cpu for each.
    pub(super) fn pick_eligible(&mut self, cpu: CpuId) -> Option<TaskId> {
        self.admit();
        let task = if self.tags.runnable().count() <= self.cpus {
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
        self.tags.run(task);
        self.last[cpu] = Some(task);
    }

    fn own_task(&self, cpu: CpuId) -> Option<TaskId> {
        let kept = self.last[cpu].filter(|&task| self.tags.state(task) == State::Waiting);
        let other = || self.eligible.peek().map(|(task, _)| task);
        kept.or_else(other).or_else(|| self.ineligible.peek().map(|(task, _)| task))
    }

    /// Stamps the tasks that have become eligible with their deadlines.
    fn admit(&mut self) {
        let slot_ns = i128::from(self.quantum_ns) * self.tags.runnable().busy_cpus() as i128;
        // v + q/c
        let horizon = self.tags.mean_after(slot_ns);
        while let Some((task, &window)) = self.ineligible.peek() {
            if !horizon.is_after(window) {
                break;
            }
            self.ineligible.pop();
            self.eligible.insert(task, self.priority(task));
        }
    }

    /// The virtual start of the window that is `windows` after the one of `task`.
    fn window(&self, task: TaskId, windows: u32) -> Start {
        let used_ns = self.windows[task.index()].used_ns;
        let next = u32::from(self.parts == Parts::Printed && used_ns > 0);
        let later_ns = i128::from(self.quantum_ns) * i128::from(windows + next);
        self.tags.start_after(task, later_ns - i128::from(used_ns))
    }

    fn priority(&self, task: TaskId) -> Priority {
        let (deadline, raised) = self.first_slot_from(self.window(task, 1));
        let then = match self.ties {
            Ties::Paper => self.first_slot_from(self.window(task, 2)).0,
            Ties::Pd2 if raised => -self.group_deadline(task, deadline),
            Ties::Pd2 => 0,
        };
        Priority::new(deadline, raised, then)
    }

    /// The first slot that begins no earlier than `time`, and whether it begins later.
    fn first_slot_from(&self, time: Start) -> (i64, bool) {
        let (slot, inside) = self.slot_of(time);
        (slot + i64::from(inside), inside)
    }

    /// The slot in which a virtual time lies, and whether it lies inside and not at its start.
    fn slot_of(&self, time: Start) -> (i64, bool) {
        let (per_cpu, of) = self.tags.runnable().per_cpu().fraction();
        let (part, parts) = time.part();
        let part = i128::from(part) * i128::from(per_cpu);
        let (part, below_ns) = divide(part, u128::from(parts));
        let place = i128::from(time.whole()) * i128::from(per_cpu) + part + self.slot_offset;
        let (slot, inside) = divide(place, u128::from(self.quantum_ns) * u128::from(of));
        (i64::try_from(slot).unwrap_or(i64::MAX), below_ns != 0 || inside != 0)
    }

    /// The end of the chain of overlapping windows that begins with the one that ends at
    /// `deadline`: for u ≥ 1/2, ⌈⌈d·(1−u)⌉/(1−u)⌉ counted from the task's first slot; for a
    /// lighter task there is no chain.
    fn group_deadline(&self, task: TaskId, deadline: i64) -> i64 {
        let (weight, of) = self.tags.effective(task).fraction();
        let (per_cpu, per_cpu_of) = self.tags.runnable().per_cpu().fraction();
        // u = used/all.
        let used = u128::from(weight) * u128::from(per_cpu_of);
        let all = u128::from(per_cpu) * u128::from(of);
        if 2 * used < all {
            return 0;
        }
        let first_slot = self.windows[task.index()].first_slot;
        let slots = u128::try_from(deadline - first_slot).unwrap_or(0);
        let Some(unused) = all.checked_sub(used).filter(|&unused| unused > 0) else {
            return i64::MAX;
        };
        let idle_slots = (slots * unused).div_ceil(all);
        i64::try_from((idle_slots * all).div_ceil(unused)).unwrap_or(i64::MAX) + first_slot
    }

    fn enter_queue(&mut self, task: TaskId) {
        self.ineligible.insert(task, self.window(task, 0));
    }

    fn leave_queue(&mut self, task: TaskId) {
        if self.eligible.remove(task).is_none() {
            self.ineligible.remove(task);
        }
    }

    /// The set of runnable tasks changes as `change` does, at virtual time v: slots go on from
    /// where they are, and the tasks whose tags moved are queued anew.
    fn change_set(&mut self, change: impl FnOnce(&mut Tags, Virtual)) {
        let now = self.tags.mean();
        let (per_cpu, of) = self.tags.runnable().per_cpu().fraction();
        let place = now.service_ns(Effective::ratio(per_cpu, 1)) + self.slot_offset;
        change(&mut self.tags, now);
        let (new_per_cpu, new_of) = self.tags.runnable().per_cpu().fraction();
        let place = (place * i128::from(new_of)).div_euclid(i128::from(of));
        self.slot_offset = place - now.service_ns(Effective::ratio(new_per_cpu, 1));
        for i in 0..self.tags.moved().len() {
            let task = self.tags.moved()[i];
            self.windows[task.index()].first_slot = self.slot_of(self.window(task, 0)).0;
            if self.tags.state(task) == State::Waiting {
                self.leave_queue(task);
                self.enter_queue(task);
            }
        }
    }
}

impl Policy for Dfs {
    fn add(&mut self, task: TaskId, weight: Weight) {
        self.tags.add(task, weight);
        let ids = task.index() + 1;
        if self.windows.len() < ids {
            self.windows.resize(ids, Window::default());
            self.eligible.reserve(ids);
            self.ineligible.reserve(ids);
        }
        self.windows[task.index()] = Window::default();
    }

    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        if self.tags.state(task) == State::Waiting {
            self.block(task, now_ns);
        }
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, _now_ns: Nanos) {
        self.change_set(|tags, now| tags.set_weight(task, weight, now));
    }

    fn wake(&mut self, task: TaskId, _now_ns: Nanos) {
        let ahead = !self.tags.mean().is_after(self.tags.start(task));
        self.change_set(|tags, now| tags.wake(task, now));
        if !ahead {
            self.windows[task.index()].used_ns = 0;
        }
        self.windows[task.index()].first_slot = self.slot_of(self.window(task, 0)).0;
        self.enter_queue(task);
    }

    fn block(&mut self, task: TaskId, _now_ns: Nanos) {
        self.leave_queue(task);
        self.change_set(|tags, now| tags.leave(task, now));
    }

    fn pick(&mut self, cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        self.pick_eligible(cpu)
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, _now_ns: Nanos) {
        self.tags.charge(task, used_ns);
        let window = &mut self.windows[task.index()];
        window.used_ns += used_ns;
        if window.used_ns >= self.quantum_ns {
            window.used_ns -= self.quantum_ns;
        }
        self.enter_queue(task);
    }
}

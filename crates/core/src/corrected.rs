//! Corrected turns: tasks may sleep, wake, come, go and change weight, and everybody keeps to the fluid
//! ideal, under any policy, on any number of cpus.
//!
//! The bounds of the papers are for sets of tasks that do not change. Where tasks sleep, a policy as the
//! papers have it charges whole turns for short runs, and puts who wakes at the end of the round; where
//! weights change, who waits loses its place; where tasks are worth a whole cpu now and then, each shift
//! loses what somebody was due. [`Corrected`] wraps any policy and leaves all that as it is. It keeps the
//! *error* of every task, its service less what the fluid ideal gave it, and corrects the policy where
//! that would make a large error larger.
//!
//! # The rule
//!
//! * The ideal is GMS of the tasks that are awake, and of those that sleep but are ahead of it, until it
//!   has caught up with them. (`online.rs`; it follows the run of every task to the nanosecond.)
//! * The policy picks a task; that has the *turn*, a quantum. If one of the [few](CANDIDATES) candidates
//!   that wait is further behind by more than [a quantum](ROOM), the one furthest behind *runs* in the
//!   turn. When it has run, the policy is told that the task did whose turn it was.
//! * Candidates are the tasks furthest behind among those that were looked at: a task when its weight
//!   changes, and at every pick the one that ran there last and [two](PATROL) others in turn, unless only one
//!   waits, or two where a cpu stops for one of them. (On one cpu only who is behind: somebody who waits is,
//!   if anybody is ahead.)
//! * A task that has slept and wakes runs *early*: before others, until it has received
//!   [a quantum](ADVANCE), and as if it were a quantum further behind than it is. It takes an idle cpu, or
//!   else interrupts the cpu whose task is furthest ahead, if that is further ahead than it is itself; or the
//!   cpu where it ran last, where its timer is and its memory, unless the task there is ahead less far by
//!   more than a [quantum](SPARES). A cpu that stops for one runs it, unless a candidate runs in the turn
//!   there. Several such tasks run in turn, a [quarter](RUN_PART) of a quantum each. The policy is not
//!   charged for it.
//! * A task has received what it [ran](Policy::ran), whatever it is charged for: a backend whose runs end
//!   late settles that later, and may charge what is run elsewhere before.
//! * What cpus waste, running nothing while somebody waits or stands aside, all share: it is nobody's
//!   error. But who was charged for more than he ran, on several cpus, runs that first: turns that he
//!   had in advance, and that a caller runs elsewhere.
//! * A task that is entitled to a whole cpu, of several, is left alone once it is behind by a quarter of a
//!   quantum: nobody uses its turn or interrupts it, since it could not make up for that.
//! * The rest of an interrupted turn is used next on that cpu, or on one that would else idle.
//! * A task that sleeps *lingers* in the policy's queue, and keeps a turn that it has: the policy is told
//!   by the first pick that is a [64th](LINGER_PART) of a quantum later, or at which it has the turn and
//!   nobody is ready. For the policy, who wakes before never slept; he goes on with the turn, if he has it;
//!   else he runs early, until he runs in a turn. So tasks that wake each other, and run for moments, cost
//!   the policy nothing, and interrupt each other instead of sleeping in turn.
//! * A task that [stands aside](Policy::stand_aside) is picked no more than one that sleeps, but the ideal
//!   serves it on. When it wakes it is behind by what it receives in [64 quanta](ASIDE) at most, or two,
//!   and does not run early.
//! * Until a task sleeps, wakes late or changes weight nothing is counted and nothing is corrected: then
//!   the decisions are the policy's, and its bound holds.
//!
//! What a task runs early it is ahead by, and it pays by waiting until it is not; if it sleeps, by being
//! no further behind when it wakes. So nobody gains by sleeping, by waking often, or by handing its work
//! to others: a task that is new begins with an error of 0 and waits for its turn, and what one that is gone
//! was ahead stays missing in the errors of the others, who run before the next one therefore. (So a chain
//! of tasks that each leave a new one behind gains at most [`ROOM`] of each other task, once: 5.6 quanta of
//! four hogs were the most that was found.) What one that is gone was behind the others have; the caller may
//! let them give it to another: [`retire`](Policy::retire) tells it, or what one was ahead, which the caller
//! has to take off, and who is [endowed](Policy::endow) with the rest begins behind by as much, and runs
//! early until it has received that. Else who works in short tasks, one after the other, waits for the turn
//! of each, and may have next to nothing of its share.
//!
//! # States
//!
//! ```text
//!             wake                    pick
//!   ASLEEP ─────────► READY ────────────────────► RUNNING, early
//!     ▲ ▲  (ahead by     ▲                             │
//!     │ │   a quantum:   └──── charge, more to come ───┤
//!     │ │   WAITING)                                   │ charge
//!     │ │               pick, in somebody's turn       ▼
//!     │ │    RUNNING ◄────────────────────────────── WAITING
//!     │ │       └──────────── charge ──────────────────▲│
//!     │ └───────────────────── block ───────────────────┘
//!     └──── block, from READY
//! ```
//!
//! # Cpus
//!
//! The policy knows cpus as *slots*, as in [`Turns`](crate::Turns). If the turn falls on a task that runs
//! already, early or for another's turn, the two cpus exchange their slots: that task has its own turn
//! there from now on, and here goes on what stood there. A task whose turn another one uses waits; if it
//! blocks, its turn ends when the policy is told. A cpu has a turn before it runs somebody early, so that
//! no slot keeps a task from the others that it does not run (GR3MP's slots hold their last task until they
//! pick).
//!
//! # What holds
//!
//! 1. *Sum.* While what is charged is the time that passes, and on several cpus no task goes away behind,
//!    the errors of all tasks add up to 0 or less, those of tasks that sleep behind included: the machine
//!    serves at no time more than the ideal, which serves whoever is awake. (On one cpu they are below 0 by
//!    exactly what is *missing*: `online.rs`, and a property test there.)
//! 2. *Nobody is far ahead*, on one cpu, while besides no task sleeps behind: at a decision nobody runs,
//!    so by 1 the errors of those that wait add up to 0 or less (those that sleep in the ideal are
//!    ahead), and one of them is at most 0. If that one is among the candidates, the task that runs in a
//!    turn is ahead by at most [`ROOM`], and a quantum if it woke; early, likewise. So nobody is ahead
//!    by more than `ROOM` + 2 = 3 quanta. Tasks that sleep behind allow the others up to [`KEPT`] each
//!    together.
//! 3. *Picks.* A `pick` asks the policy once, on several cpus once more for each cpu that runs a task
//!    out of turn, and once more for each task that lingers, of which the policy is told then.
//!
//! How far anybody is behind is not proven. The largest distances that were found, in quanta, against the
//! fluid ideal of jobs that are [known](crate::fluid), in 1,000 random mixes of up to 12 hogs and 12 sleepers
//! of any demand, weights over three orders of magnitude, 5 s each (`examples/sleepers.rs`): median, 99 % of
//! the mixes, and the worst. In most mixes the ideal misses jobs, of sleepers that ask for more than their
//! share; in the others it serves all.
//!
//! | policy | 1 cpu, misses | 1 cpu, serves all | 2 to 8 cpus, misses | 2 to 8 cpus, serves all |
//! |---|---|---|---|---|
//! | gr3 | 2.0, 8.2, 22.0 | 1.3, 2.0, 2.1 | 2.0, 8.4, 39.2 | 1.4, 9.0, 14.2 |
//! | gdq | 2.1, 5.6, 7.0 | 1.4, 3.0, 4.0 | 2.2, 8.9, 40.9 | 1.5, 9.7, 16.8 |
//! | mfq | 1.8, 5.2, 8.1 | 1.2, 1.6, 2.1 | 1.9, 9.5, 43.5 | 1.2, 8.6, 15.0 |
//! | dfs-fa | 1.8, 7.2, 9.1 | 1.3, 1.8, 1.8 | 2.1, 8.3, 38.3 | 1.3, 9.2, 11.4 |
//! | vtrr | 2.2, 7.4, 14.7 | 1.9, 2.8, 3.0 | | |
//! | wfq | 1.8, 4.7, 8.2 | 1.2, 1.7, 2.0 | | |
//!
//! (Under [`Turns`](crate::Turns) gr3's are 3.4, 11.2, 13.7, then 1.4, 2.8, 3.3, then 6.4, 120, 292 and
//! 2.6, 123, 163; gdq's are up to 470.)
//! Tasks whose weights change: −4.0..2.9 under gr3, −6.4..3.4 under dfs, on 1 to 8 cpus
//! (`examples/reweighing.rs`; without it gr3 is −6.4..9.8 off, vtrr −386.6..650.5); wrr −15.1..15.6.
//! Deviations of the first round, before errors are kept, stay: wrr and drr serve a task for as many quanta
//! as its weight there.
//!
//! # Limits
//!
//! A sleeper that asks for more than its share has a job waiting nearly always in the fluid ideal, and
//! misses what comes then; here it may sleep in between and be served more of its jobs, or fewer, by some
//! percents: what it has asked for is not known before. Nothing is told of whose child a task is: who leaves
//! new ones behind gained up to 25 quanta, once (`cargo xtask cheats`; who does not, 2.2).
//!
//! *Cost*: until the first change two stores a decision. Then O(1) and `Online`'s for each call, O(P)
//! for `interrupt`, and on several cpus O(P) more for a change, a wake-up or a task that blocks where
//! weights may be infeasible. About 180 bytes a task. Nothing allocates but `add`, the first change, and on
//! several cpus lists that grow.

use alloc::vec::Vec;

use crate::online::Online;
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::Links;

/// Who is behind whose turn it is by more than so many quanta may use the turn.
pub const ROOM: u64 = 1;
/// A task that woke runs before others until it has received so many quanta, and counts as so much
/// further behind.
pub const ADVANCE: u64 = 1;
/// A task that sleeps is behind by at most so many quanta: more it does not want.
pub const KEPT: u64 = 2;
/// A task that [stood aside](Policy::stand_aside), and wakes, is behind by at most what it receives in so
/// many quanta of time, or [`KEPT`]: who could not run for long keeps nobody waiting for longer when he can.
/// By weight, so that errors that are cut off leave what tasks receive in proportion to weights.
pub const ASIDE: u64 = 64;
/// A run of a task that woke lasts at most this part of a quantum.
pub const RUN_PART: Nanos = 4;
/// Less than this part of a quantum is not worth a run.
pub const LEAST_PART: Nanos = 64;
/// A task that woke interrupts the cpu where it ran last unless another's task is further ahead than that
/// one's by more than so many quanta.
pub const SPARES: u64 = 1;
/// A task that sleeps lingers in the policy's queue for this part of a quantum, until somebody picks.
pub const LINGER_PART: Nanos = 64;
/// Tasks that are known to be behind.
pub const CANDIDATES: usize = 2;
/// Tasks that are looked at in a pick.
pub const PATROL: usize = 2;

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asleep,
    /// Asleep for the policy, and awake in the ideal.
    Aside,
    Waiting,
    /// It waits and woke not long ago; it is in `ready`.
    Ready,
    Running,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    weight: u32,
    state: State,
    /// The cpu that runs it, or [`NIL`].
    cpu: u32,
    /// The cpu that ran it last, or [`NIL`].
    home: u32,
    /// The cpu in whose slot the policy runs it, or [`NIL`].
    held_by: u32,
    /// Its index in the list of runnable tasks, or [`NIL`].
    at: u32,
    /// It has never slept since it was added.
    is_new: bool,
    /// What it may still receive before others.
    advance_ns: Nanos,
    /// How long it may run.
    run_ns: Nanos,
    /// It sleeps, and lingers in the policy's queue until then.
    lingers_until_ns: Option<Nanos>,
    /// It did as it woke last.
    lingered: bool,
}

impl Task {
    const UNKNOWN: Task = Task {
        weight: 0,
        state: State::Asleep,
        cpu: NIL,
        home: NIL,
        held_by: NIL,
        at: NIL,
        is_new: true,
        advance_ns: 0,
        run_ns: 0,
        lingers_until_ns: None,
        lingered: false,
    };

    fn waits(&self) -> bool {
        self.at != NIL && self.cpu == NIL
    }
}

#[derive(Clone, Copy, Debug)]
struct Cpu {
    /// What the policy takes it for.
    slot: u32,
    /// The task that the policy runs in this slot, whose *turn* it is; or [`NIL`].
    held: u32,
    /// What is left of the turn.
    turn_ns: Nanos,
    /// The task that runs, or [`NIL`].
    running: u32,
    /// The task that ran last, or [`NIL`].
    last: u32,
    /// Since when, or since when errors are kept.
    since_ns: Nanos,
    /// How long it ran before.
    before_ns: Nanos,
    /// It runs before others, not in the turn.
    early: bool,
    /// It was asked to stop what it runs, and has not picked since.
    stopping: bool,
}

fn short(index: usize) -> u32 {
    u32::try_from(index).expect("tasks and cpus are fewer than 2^32")
}

/// A policy whose turns are corrected. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Corrected<P> {
    policy: P,
    quantum_ns: Nanos,
    tasks: Vec<Task>,
    cpus: Vec<Cpu>,
    runnable: Vec<TaskId>,
    links: Links,
    /// The ready tasks, the first to be so first.
    ready: Option<TaskId>,
    /// How many there are.
    ready_count: usize,
    /// The tasks that linger, the first to go to sleep first.
    lingering: Option<TaskId>,
    /// Cpus that are stopping.
    stopping: usize,
    /// Cpus that run a task.
    running: usize,
    /// Tasks that stand aside.
    aside: usize,
    /// How long the task ran that is charged next, if that is not the time since it was picked.
    ran_ns: Option<Nanos>,
    /// A task was picked.
    started: bool,
    /// `None` as long as nobody slept, woke late or changed weight.
    ideal: Option<Online>,
    /// Tasks that wait. Invariant: at most [`CANDIDATES`], none twice.
    candidates: Vec<TaskId>,
    /// Where the patrol is in the list of runnable tasks.
    patrol: usize,
}

impl<P: Policy> Corrected<P> {
    /// `policy`, which was built for `setup` and knows no task yet.
    #[must_use]
    pub fn new(policy: P, setup: &Setup) -> Corrected<P> {
        let cpu = |slot| Cpu {
            slot: short(slot),
            held: NIL,
            turn_ns: 0,
            running: NIL,
            last: NIL,
            since_ns: 0,
            before_ns: 0,
            early: false,
            stopping: false,
        };
        Corrected {
            policy,
            quantum_ns: setup.quantum_ns,
            tasks: Vec::new(),
            cpus: (0..setup.cpus).map(cpu).collect(),
            runnable: Vec::new(),
            links: Links::default(),
            ready: None,
            ready_count: 0,
            lingering: None,
            stopping: 0,
            running: 0,
            aside: 0,
            ran_ns: None,
            started: false,
            ideal: None,
            candidates: Vec::with_capacity(CANDIDATES),
            patrol: 0,
        }
    }

    /// The policy.
    #[must_use]
    pub fn inner(&self) -> &P {
        &self.policy
    }

    /// The errors of all tasks are kept from now on.
    fn open(&mut self, now_ns: Nanos) {
        let mut ideal = Online::new(self.cpus.len(), KEPT * self.quantum_ns);
        ideal.advance(now_ns, 0);
        for (id, task) in (0..).map(TaskId).zip(&mut self.tasks) {
            if let Some(weight) = Weight::new(task.weight) {
                ideal.add(id, weight);
            }
            task.held_by = task.cpu;
        }
        self.runnable.iter().for_each(|&task| ideal.wake(task));
        for cpu in &mut self.cpus {
            (cpu.held, cpu.turn_ns) = (cpu.running, self.quantum_ns);
            (cpu.before_ns, cpu.since_ns) = (now_ns - cpu.since_ns, now_ns);
        }
        self.ideal = Some(ideal);
    }

    /// The ideal now, if it is known.
    fn ideal_at(&mut self, now_ns: Nanos) -> Option<&mut Online> {
        let wasting = self.wasting();
        let ideal = self.ideal.as_mut()?;
        ideal.advance(now_ns, wasting);
        Some(ideal)
    }

    /// `task`, which is runnable no longer, lingers.
    fn linger(&mut self, task: TaskId, now_ns: Nanos) {
        let until_ns = now_ns + self.quantum_ns / LINGER_PART;
        self.tasks[task.index()].lingers_until_ns = Some(until_ns);
        self.links.push(&mut self.lingering, task);
    }

    fn linger_no_more(&mut self, task: TaskId) {
        self.tasks[task.index()].lingers_until_ns = None;
        self.links.remove(&mut self.lingering, task);
    }

    fn lingers(&self, task: TaskId) -> bool {
        self.tasks[task.index()].lingers_until_ns.is_some()
    }

    /// True if `task` lingers, and has done so for long enough.
    fn has_lingered(&self, task: TaskId, now_ns: Nanos) -> bool {
        self.tasks[task.index()].lingers_until_ns.is_some_and(|until_ns| until_ns <= now_ns)
    }

    /// The policy is told that `task`, which lingers, sleeps.
    fn depart(&mut self, task: TaskId, now_ns: Nanos) {
        self.linger_no_more(task);
        self.give_up_turn(task, now_ns);
        self.policy.block(task, now_ns);
    }

    /// The policy is told of those who have lingered for long enough.
    fn end_lingering(&mut self, now_ns: Nanos) {
        while let Some(task) = self.lingering.filter(|&task| self.has_lingered(task, now_ns)) {
            self.depart(task, now_ns);
        }
    }

    /// Cpus that run nothing though somebody waits, or stands aside, for each.
    fn wasting(&self) -> usize {
        (self.cpus.len() - self.running).min(self.runnable.len() + self.aside - self.running)
    }

    /// The ideal now, which must be known from now on.
    fn ideal_from(&mut self, now_ns: Nanos) -> &mut Online {
        if self.ideal.is_none() {
            self.open(now_ns);
        }
        self.ideal_at(now_ns).expect("it was opened")
    }

    fn list(&mut self, task: TaskId) {
        self.tasks[task.index()].at = short(self.runnable.len());
        self.runnable.push(task);
    }

    fn unlist(&mut self, task: TaskId) {
        let at = core::mem::replace(&mut self.tasks[task.index()].at, NIL);
        self.runnable.swap_remove(at as usize);
        if let Some(moved) = self.runnable.get(at as usize) {
            self.tasks[moved.index()].at = at;
        }
    }

    /// What decides who is further behind: its service less what the ideal gave it, in nanoseconds, and less
    /// if it woke.
    fn key(&self, task: TaskId, now_ns: Nanos) -> i64 {
        let mut key = self.error_ns(task, now_ns);
        if self.tasks[task.index()].advance_ns > 0 {
            key -= (ADVANCE * self.quantum_ns).cast_signed();
        }
        key
    }

    /// Its service until now less what the ideal gave it.
    fn error_ns(&self, task: TaskId, now_ns: Nanos) -> i64 {
        let ideal = self.ideal.as_ref().expect("errors are compared once they are kept");
        let (charged_ns, cpu) = (ideal.error_ns(task), self.tasks[task.index()].cpu);
        if cpu == NIL {
            return charged_ns;
        }
        charged_ns + (now_ns - self.cpus[cpu as usize].since_ns).cast_signed()
    }

    /// `task`, which waits, will run early, after those that do already.
    fn make_ready(&mut self, task: TaskId) {
        self.tasks[task.index()].state = State::Ready;
        self.links.push(&mut self.ready, task);
        self.ready_count += 1;
    }

    fn unready(&mut self, task: TaskId) {
        self.tasks[task.index()].state = State::Waiting;
        self.links.remove(&mut self.ready, task);
        self.ready_count -= 1;
    }

    /// `task`, which waits, is runnable no longer.
    fn withdraw(&mut self, task: TaskId, now_ns: Nanos) {
        self.ideal_from(now_ns);
        if self.tasks[task.index()].state == State::Ready {
            self.unready(task);
        }
        self.tasks[task.index()].state = State::Asleep;
        self.tasks[task.index()].is_new = false;
        self.unlist(task);
        self.forget(task);
    }

    /// The turn of `task`, if it has one, is over.
    fn give_up_turn(&mut self, task: TaskId, now_ns: Nanos) {
        let cpu = self.tasks[task.index()].held_by;
        if cpu != NIL {
            self.end_turn(cpu as usize, now_ns);
        }
    }

    /// The turn of `cpu` is over: the policy is told what was used of it.
    fn end_turn(&mut self, cpu: CpuId, now_ns: Nanos) {
        let held = core::mem::replace(&mut self.cpus[cpu].held, NIL);
        debug_assert_ne!(held, NIL);
        self.tasks[held as usize].held_by = NIL;
        let used_ns = self.quantum_ns - self.cpus[cpu].turn_ns;
        self.policy.charge(TaskId(held), used_ns, now_ns);
    }

    /// `used_ns` of the turn of `cpu`, if there is one still, were used. The rest remains if the cpu was
    /// asked to stop.
    fn use_turn(&mut self, cpu: CpuId, used_ns: Nanos, now_ns: Nanos) {
        let least_ns = self.least_ns();
        let Cpu { held, turn_ns, stopping, .. } = &mut self.cpus[cpu];
        if *held == NIL {
            return;
        }
        *turn_ns = turn_ns.saturating_sub(used_ns);
        if !(*stopping && *turn_ns >= least_ns) {
            self.end_turn(cpu, now_ns);
        }
    }

    fn least_ns(&self) -> Nanos {
        (self.quantum_ns / LEAST_PART).max(1)
    }

    /// Two cpus exchange their slots.
    fn exchange(&mut self, a: CpuId, b: CpuId) {
        let (one, other) = (self.cpus[a], self.cpus[b]);
        (self.cpus[a].slot, self.cpus[a].held, self.cpus[a].turn_ns) =
            (other.slot, other.held, other.turn_ns);
        (self.cpus[b].slot, self.cpus[b].held, self.cpus[b].turn_ns) =
            (one.slot, one.held, one.turn_ns);
        for cpu in [a, b] {
            let held = self.cpus[cpu].held;
            if held != NIL {
                self.tasks[held as usize].held_by = short(cpu);
            }
        }
    }

    /// The task whose turn it is on `cpu`, begun or not; it waits. Or it lingers, if somebody is ready.
    fn awake_turn(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        let mut turn = self.turn(cpu, now_ns);
        while let Some(task) = turn
            && self.ready.is_none()
            && self.lingers(task)
        {
            self.depart(task, now_ns);
            turn = self.turn(cpu, now_ns);
        }
        turn
    }

    /// The task whose turn it is on `cpu`, begun or not; it does not run.
    fn turn(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        loop {
            while self.cpus[cpu].held != NIL {
                let task = TaskId(self.cpus[cpu].held);
                let there = self.tasks[task.index()].cpu;
                if there == NIL {
                    return Some(task);
                }
                self.exchange(cpu, there as usize);
            }
            let picked = self.policy.pick(self.cpus[cpu].slot as usize, now_ns)?;
            self.cpus[cpu].held = picked.0;
            self.cpus[cpu].turn_ns = self.quantum_ns;
            self.tasks[picked.index()].held_by = short(cpu);
        }
    }

    /// A turn that nobody uses goes on on `cpu`, which has none.
    fn adopt(&mut self, cpu: CpuId) -> Option<TaskId> {
        let waits = |other: &Cpu| other.held != NIL && self.tasks[other.held as usize].waits();
        let there = self.cpus.iter().position(waits)?;
        self.exchange(cpu, there);
        Some(TaskId(self.cpus[cpu].held))
    }

    /// The task that `cpu` ran last and some of the runnable tasks are looked at.
    fn patrol(&mut self, cpu: CpuId, now_ns: Nanos) {
        let last = TaskId(self.cpus[cpu].last);
        if self.tasks.get(last.index()).is_some_and(Task::waits) {
            self.consider(last, now_ns);
        }
        for _ in 0..PATROL {
            self.patrol = if self.patrol + 1 < self.runnable.len() { self.patrol + 1 } else { 0 };
            let task = self.runnable[self.patrol];
            if self.tasks[task.index()].waits() {
                self.consider(task, now_ns);
            }
        }
    }

    /// `task`, which waits, may be one of those that are furthest behind.
    fn consider(&mut self, task: TaskId, now_ns: Nanos) {
        let own = self.key(task, now_ns);
        let is_needless = self.cpus.len() == 1 && own >= 0;
        if is_needless || self.candidates.contains(&task) {
            return;
        }
        if self.candidates.len() == CANDIDATES {
            let key = |at: usize| self.key(self.candidates[at], now_ns);
            let at = (0..CANDIDATES).max_by_key(|&at| key(at)).expect("there are some");
            if key(at) <= own {
                return;
            }
            self.candidates.swap_remove(at);
        }
        self.candidates.push(task);
    }

    fn forget(&mut self, task: TaskId) {
        if let Some(at) = self.candidates.iter().position(|&known| known == task) {
            self.candidates.swap_remove(at);
        }
    }

    /// Who runs in the turn of `turn`.
    fn choose(&mut self, turn: TaskId, now_ns: Nanos) -> TaskId {
        if self.needs_cpu(turn, now_ns) {
            return turn;
        }
        let own = self.key(turn, now_ns);
        let room = (ROOM * self.quantum_ns).cast_signed();
        let keys = self.candidates.iter().map(|&task| (self.key(task, now_ns), task));
        keys.min().filter(|&(key, _)| key + room < own).map_or(turn, |(_, task)| task)
    }

    /// True if `task` is entitled to a whole cpu, of several, and behind: it could not make up for what
    /// others take from it.
    fn needs_cpu(&self, task: TaskId, now_ns: Nanos) -> bool {
        let is_capped = |ideal: &Online| ideal.is_capped(task);
        self.cpus.len() > 1
            && self.ideal.as_ref().is_some_and(is_capped)
            && self.key(task, now_ns) <= -self.part_ns().cast_signed()
    }

    /// How far the task is ahead that runs on `cpu`, in a turn that may be interrupted.
    fn ahead_on(&self, cpu: CpuId, now_ns: Nanos) -> Option<i64> {
        let known = self.cpus.get(cpu)?;
        let running = TaskId(known.running);
        let runs_in_turn = !known.stopping && !known.early && known.running != NIL;
        (runs_in_turn && !self.needs_cpu(running, now_ns)).then(|| self.key(running, now_ns))
    }

    /// The longest early run.
    fn part_ns(&self) -> Nanos {
        (self.quantum_ns / RUN_PART).max(1)
    }

    /// `task`, which waits, runs.
    fn start(&mut self, cpu: CpuId, task: TaskId, now_ns: Nanos) -> TaskId {
        self.forget(task);
        if self.tasks[task.index()].state == State::Ready {
            self.unready(task);
        }
        let known = &mut self.tasks[task.index()];
        debug_assert_eq!(known.state, State::Waiting);
        known.state = State::Running;
        known.cpu = short(cpu);
        self.running += 1;
        self.cpus[cpu].running = task.0;
        (self.cpus[cpu].since_ns, self.cpus[cpu].before_ns) = (now_ns, 0);
        task
    }

    fn start_early(&mut self, cpu: CpuId, task: TaskId, now_ns: Nanos) -> TaskId {
        self.cpus[cpu].early = true;
        let part_ns = self.part_ns();
        let known = &mut self.tasks[task.index()];
        known.run_ns = known.advance_ns.min(part_ns);
        self.start(cpu, task, now_ns)
    }

    fn start_turn(&mut self, cpu: CpuId, task: TaskId, now_ns: Nanos) -> TaskId {
        self.cpus[cpu].early = false;
        let known = &mut self.tasks[task.index()];
        known.run_ns = self.cpus[cpu].turn_ns;
        if known.lingered {
            known.advance_ns = 0;
        }
        self.start(cpu, task, now_ns)
    }

    /// `pick` once errors are kept.
    fn pick_corrected(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        self.ideal_at(now_ns);
        self.end_lingering(now_ns);
        let stopped = core::mem::take(&mut self.cpus[cpu].stopping);
        self.stopping -= usize::from(stopped);
        if self.runnable.len() > self.running + 1 + usize::from(stopped) {
            self.patrol(cpu, now_ns);
        }
        let turn = self.awake_turn(cpu, now_ns).or_else(|| self.adopt(cpu));
        let task = turn.map(|turn| self.choose(turn, now_ns)).filter(|&task| !self.lingers(task));
        let gives_way = stopped && task == turn;
        match (self.ready, task) {
            (Some(ready), Some(task))
                if self.needs_cpu(task, now_ns)
                    || (!gives_way && self.key(ready, now_ns) > self.key(task, now_ns)) =>
            {
                Some(self.start_turn(cpu, task, now_ns))
            }
            (Some(ready), _) => Some(self.start_early(cpu, ready, now_ns)),
            (None, task) => Some(self.start_turn(cpu, task?, now_ns)),
        }
    }
}

impl<P: Policy> Policy for Corrected<P> {
    fn add(&mut self, task: TaskId, weight: Weight) {
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, Task::UNKNOWN);
            self.links.reserve(task.index() + 1);
            self.runnable.reserve(self.tasks.len() - self.runnable.len());
        }
        self.tasks[task.index()] = Task { weight: weight.get(), ..Task::UNKNOWN };
        if let Some(ideal) = &mut self.ideal {
            ideal.add(task, weight);
        }
        self.policy.add(task, weight);
    }

    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        // Whom what the task leaves lets the ideal catch up with is seen at the next call, as in the kernel.
        let known = self.tasks[task.index()];
        if known.at != NIL {
            self.withdraw(task, now_ns);
        }
        if self.lingers(task) {
            self.linger_no_more(task);
        }
        self.give_up_turn(task, now_ns);
        if known.at != NIL || known.state == State::Aside {
            self.ideal_from(now_ns).block(task);
            self.aside -= usize::from(known.state == State::Aside);
        } else {
            self.ideal_at(now_ns);
        }
        if let Some(ideal) = &mut self.ideal {
            ideal.remove(task);
        }
        self.tasks[task.index()] = Task::UNKNOWN;
        self.policy.remove(task, now_ns);
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, now_ns: Nanos) {
        let known = self.tasks[task.index()];
        if known.weight == weight.get() {
            return;
        }
        if known.at != NIL {
            self.ideal_from(now_ns);
        }
        self.tasks[task.index()].weight = weight.get();
        if let Some(ideal) = self.ideal_at(now_ns) {
            ideal.set_weight(task, weight);
            if known.waits() {
                self.consider(task, now_ns);
            }
        }
        self.policy.set_weight(task, weight, now_ns);
    }

    fn wake(&mut self, task: TaskId, now_ns: Nanos) {
        if self.started || self.ideal.is_some() {
            self.ideal_from(now_ns);
        }
        let lingered = self.lingers(task);
        if lingered {
            self.linger_no_more(task);
        }
        self.tasks[task.index()].lingered = lingered;
        self.list(task);
        let was = core::mem::replace(&mut self.tasks[task.index()].state, State::Waiting);
        if was == State::Aside {
            self.aside -= 1;
            let within_ns = ASIDE * self.quantum_ns;
            self.ideal_from(now_ns).forgo(task, within_ns);
            self.policy.wake(task, now_ns);
            return;
        }
        let known = &self.tasks[task.index()];
        let goes_on = lingered && known.held_by != NIL;
        let advance_ns = if known.is_new { known.advance_ns } else { ADVANCE * self.quantum_ns };
        if let Some(ideal) = self.ideal_at(now_ns) {
            ideal.wake(task);
            if goes_on {
                return;
            }
            let is_behind = ideal.error_ns(task) < advance_ns.cast_signed();
            self.tasks[task.index()].advance_ns = advance_ns;
            if is_behind {
                self.make_ready(task);
            }
        }
        if !lingered {
            self.policy.wake(task, now_ns);
        }
    }

    fn block(&mut self, task: TaskId, now_ns: Nanos) {
        self.withdraw(task, now_ns);
        self.ideal_from(now_ns).block(task);
        self.linger(task, now_ns);
    }

    fn stand_aside(&mut self, task: TaskId, now_ns: Nanos) {
        self.withdraw(task, now_ns);
        self.give_up_turn(task, now_ns);
        self.tasks[task.index()].state = State::Aside;
        self.aside += 1;
        self.policy.block(task, now_ns);
    }

    #[inline]
    fn pick(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        self.started = true;
        if self.ideal.is_some() {
            return self.pick_corrected(cpu, now_ns);
        }
        let task = self.policy.pick(cpu, now_ns)?;
        let known = &mut self.tasks[task.index()];
        (known.cpu, known.run_ns, known.state) = (short(cpu), self.quantum_ns, State::Running);
        (self.cpus[cpu].running, self.cpus[cpu].since_ns) = (task.0, now_ns);
        self.running += 1;
        Some(task)
    }

    fn ran(&mut self, _task: TaskId, ran_ns: Nanos) {
        self.ran_ns = Some(ran_ns);
    }

    #[inline]
    fn charge(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        let told_ns = self.ran_ns.take();
        let wasting = self.wasting();
        // Who has been caught up with is asleep from the next call on: a charge does not ask for errors.
        if let Some(ideal) = &mut self.ideal {
            ideal.pass(now_ns, wasting);
        }
        let known = &mut self.tasks[task.index()];
        known.home = known.cpu;
        let cpu = core::mem::replace(&mut known.cpu, NIL) as usize;
        known.state = State::Waiting;
        (self.cpus[cpu].running, self.cpus[cpu].last) = (NIL, task.0);
        self.running -= 1;
        let Cpu { since_ns, before_ns, early, .. } = self.cpus[cpu];
        let least_ns = self.least_ns();
        let Some(ideal) = &mut self.ideal else {
            self.policy.charge(task, used_ns, now_ns);
            return;
        };
        let elapsed_ns = now_ns - since_ns;
        let charged_ns = used_ns.saturating_sub(before_ns);
        let ran_ns = told_ns.map_or(elapsed_ns, |ran_ns| ran_ns.saturating_sub(before_ns));
        ideal.charge(task, charged_ns, ran_ns, elapsed_ns);
        let known = &mut self.tasks[task.index()];
        known.advance_ns = known.advance_ns.saturating_sub(used_ns);
        if known.advance_ns < least_ns {
            known.advance_ns = 0;
        }
        if early && known.advance_ns > 0 {
            self.make_ready(task);
        }
        if !early {
            self.use_turn(cpu, used_ns, now_ns);
        }
    }

    fn bequeath(&mut self, task: TaskId, heirs: &[TaskId], now_ns: Nanos) {
        if self.ideal_at(now_ns).is_some() && self.tasks[task.index()].at != NIL {
            let error_ns = self.error_ns(task, now_ns);
            self.ideal_from(now_ns).bequeath(task, heirs, error_ns);
        }
    }

    fn endow(&mut self, task: TaskId, advance_ns: Nanos) {
        if let Some(ideal) = &mut self.ideal {
            ideal.endow(task, advance_ns);
            self.tasks[task.index()].advance_ns = advance_ns;
        }
    }

    fn retire(&mut self, task: TaskId, now_ns: Nanos) -> i64 {
        let sleeps = self.tasks[task.index()].state == State::Asleep;
        self.ideal_at(now_ns).filter(|_| sleeps).map_or(0, |ideal| ideal.retire(task))
    }

    fn interrupt(&mut self, now_ns: Nanos) -> Option<CpuId> {
        let is_early = |cpu: &Cpu| cpu.running == NIL || cpu.early;
        if self.ready_count <= self.stopping || self.cpus.iter().all(is_early) {
            return None;
        }
        self.ideal_at(now_ns);
        let ready = self.ready?;
        let home = self.tasks[ready.index()].home as usize;
        let key = self.key(ready, now_ns);
        let keys = (0..self.cpus.len()).filter_map(|cpu| Some((self.ahead_on(cpu, now_ns)?, cpu)));
        let (most, furthest) = keys.max().filter(|&(most, _)| most > key)?;
        let spares = most - (SPARES * self.quantum_ns).cast_signed();
        let is_near = |&own: &i64| own > key && own >= spares;
        let cpu = self.ahead_on(home, now_ns).filter(is_near).map_or(furthest, |_| home);
        self.cpus[cpu].stopping = true;
        self.stopping += 1;
        Some(cpu)
    }

    fn pass(&mut self, now_ns: Nanos) {
        self.ideal_at(now_ns);
    }

    fn serves(&self, task: TaskId) -> Option<bool> {
        let ideal = self.ideal.as_ref()?;
        let known = &self.tasks[task.index()];
        Some(known.at != NIL || known.state == State::Aside || ideal.is_ahead(task))
    }

    fn slice_ns(&self, task: TaskId) -> Option<Nanos> {
        let run_ns = self.tasks[task.index()].run_ns;
        (run_ns < self.quantum_ns).then_some(run_ns)
    }
}

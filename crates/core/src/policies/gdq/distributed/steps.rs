//! What the cpus of `gdq-distributed` did, step by step, and whether the policy does the same.
//!
//! Cpus that decide at a time take no decisions one after the other: one looks for a task while another
//! steals it. What has an order is a *step*: what a cpu does while it holds a latch, or two. Each latch
//! counts its steps, and so does each task; a cpu writes its own down in a ring of its own:
//!
//! ```text
//! 1250 steal 1 7 0 0 4 q5:12 q3:41    cpu 1 takes task 7 from queue 3 to queue 5; before that task 7
//!                                     had 4 steps, queue 5 had 12, and queue 3 had 41
//! 1250 pick 1 7 0 0 5 q5:13           and picks it
//! 1300 charge 0 9 500 0 8             cpu 0: task 9 has run 500 ns
//! ```
//!
//! [`Merge`] finds an order of all steps in which each latch, each task and each cpu has its own; there is
//! one, since each step was counted with all its latches held. [`Replay`] tells them to the policy's queues
//! and shares in that order. What a latch guards must be as the policy has it: which task a queue gives,
//! what a thief takes, where a round ends, when a queue opens and closes, what tasks count for, and to which
//! group a cpu goes.
//!
//! What a cpu looked at without a latch, others may have changed meanwhile: which queue it chose to steal
//! from, say, or that nothing waited. If that is not as the policy has it, it is counted as *late*. Where
//! one event comes after the other, nothing is.
//!
//! # Lines
//!
//! `NOW STEP CPU TASK VALUE EXTRA COUNT LATCH:COUNT…`, a task of `-` where there is none, and then a count
//! of 0. Latches are `q5` (queue 5), `g3` (the set of group 3's queues) and `s` (the shares). What a task
//! counts for is parts · 2^16 + of.
//!
//! Known limit: a recording that ends before its last steps is not told from a whole one.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::allocator::GROUPS;
use super::super::queues::Turn;
use super::queues::{Looks, QueueId, group_of};
use super::{DEFAULT_DELTA, Distributed, State, default_interval_quanta};
use crate::effective::Effective;
use crate::policies::{BuildError, Options};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};

/// What is wrong, in words.
pub type Wrong = String;

/// Numbers of tasks are below this.
const TASKS: u32 = 1 << 15;

/// What a step takes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Latch {
    /// A queue's.
    Queue(QueueId),
    /// That of the set of a group's queues.
    Group(usize),
    /// The shares'.
    Shares,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident $word:literal)*) => {
        /// What a cpu did. After the name: the latches; what the value is, and what is beside it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind { $($(#[$doc])* $name,)* }

        impl Kind {
            /// All, in the order of `enum step_kind` in `crates/scx/src/bpf/step.h`.
            pub const ALL: &[(Kind, &str)] = &[$((Kind::$name, $word),)*];
        }
    };
}

kinds! {
    /// A task is known. Weight.
    Add "add"
    /// It has another weight. Weight.
    Weight "weight"
    /// It waits.
    Wake "wake"
    /// Its run is over. Used ns; 1 if it blocks next.
    Charge "charge"
    /// It goes into a queue. Queue. What it counts for; 1 if its turn of the round is to come.
    Place "place"
    /// It counts for something else there. Queue. What.
    Recount "recount"
    /// It leaves its queue for that of another group. Queue. What it counts for.
    Take "take"
    /// It blocks. Queue.
    Block "block"
    /// It is given back a quantum. Queue.
    Refund "refund"
    /// A round begins. Queue. The queue at which the cpu looked before, or 2^32 - 1.
    Round "round"
    /// It runs next. Queue.
    Pick "pick"
    /// It comes from another queue to run first. Queue, the other.
    Steal "steal"
    /// It comes from another queue to an empty one. Queue, the other.
    Refill "refill"
    /// The cpu works on a stalled queue from now on. Queue.
    Claim "claim"
    /// It works on it no more. Queue.
    Abandon "abandon"
    /// A queue opens. Queue, group. 1 for a cpu that works on it.
    Open "open"
    /// It closes. Queue, group.
    Close "close"
    /// The cpu looks around. Shares. 1 if it was time.
    Look "look"
    /// It tells the shares of a task. Shares. Weight; 1 if it is runnable.
    Tell "tell"
    /// The task counts for this. Shares. What.
    Told "told"
    /// What groups are worth is found anew. Shares.
    Settle "settle"
    /// The cpu's time with its group is accounted for. Shares. Group; 1 if it is dedicated to it.
    Pass "pass"
    /// It leaves its group. Shares. Group.
    Leave "leave"
    /// It looks for a group. Shares.
    Seek "seek"
    /// A group that needs it most has no task for it. Shares. Group.
    Tried "tried"
    /// It comes to a group. Shares. Group.
    Arrive "arrive"
    /// It has found nothing to run.
    Idle "idle"
}

/// What one cpu did at once.
#[derive(Clone, Debug)]
pub struct Step {
    now_ns: Nanos,
    kind: Kind,
    cpu: CpuId,
    /// With how many steps it had before.
    task: Option<(TaskId, u32)>,
    value: u64,
    extra: u64,
    /// With how many steps each had before.
    latches: [Option<(Latch, u32)>; 2],
}

fn number<T: core::str::FromStr>(word: &str) -> Result<T, Wrong> {
    word.parse().map_err(|_| format!("'{word}' is no number for this"))
}

fn number_or_0<T: core::str::FromStr + Default>(word: &str) -> Result<T, Wrong> {
    if word == "-" { Ok(T::default()) } else { number(word) }
}

fn latch(word: &str) -> Result<(Latch, u32), Wrong> {
    let (name, count) = word.split_once(':').ok_or_else(|| format!("'{word}' is no latch"))?;
    let latch = match name.split_at_checked(1) {
        Some(("q", queue)) => Latch::Queue(number(queue)?),
        Some(("g", group)) => Latch::Group(number(group)?),
        Some(("s", "")) => Latch::Shares,
        _ => return Err(format!("there is no latch '{name}'")),
    };
    Ok((latch, number(count)?))
}

impl Step {
    /// Reads a line.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(line: &str) -> Result<Step, Wrong> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [now_ns, name, cpu, task, value, extra, count, ref latches @ ..] = words[..] else {
            return Err("not a step".into());
        };
        let kind = Kind::ALL.iter().find(|(_, word)| *word == name);
        let &(kind, _) = kind.ok_or_else(|| format!("there is no step '{name}'"))?;
        let task = if task == "-" { None } else { Some((TaskId(number(task)?), number(count)?)) };
        if latches.len() > 2 || task.is_some_and(|(TaskId(id), _)| id >= TASKS) {
            return Err("there is no such step".into());
        }
        let mut held = latches.iter().map(|word| latch(word));
        Ok(Step {
            now_ns: number(now_ns)?,
            kind,
            cpu: number(cpu)?,
            task,
            value: number_or_0(value)?,
            extra: number_or_0(extra)?,
            latches: [held.next().transpose()?, held.next().transpose()?],
        })
    }
}

/// Puts the steps of all cpus into an order in which each latch and each task has its own.
#[derive(Debug, Default)]
pub struct Merge {
    /// Steps that are still to come, by cpu: each with what the caller calls it.
    cpus: Vec<VecDeque<(u64, Step)>>,
    /// The next step of each.
    latches: BTreeMap<Latch, u32>,
    tasks: BTreeMap<TaskId, u32>,
}

impl Merge {
    /// For this many cpus.
    #[must_use]
    pub fn new(cpus: usize) -> Merge {
        Merge { cpus: (0..cpus).map(|_| VecDeque::new()).collect(), ..Merge::default() }
    }

    /// The next step of its cpu, which the caller calls `name`.
    ///
    /// # Errors
    /// When there is no such cpu.
    pub fn push(&mut self, name: u64, step: Step) -> Result<(), Wrong> {
        let cpu = self.cpus.get_mut(step.cpu).ok_or_else(|| format!("no cpu {}", step.cpu))?;
        cpu.push_back((name, step));
        Ok(())
    }

    fn is_next(&self, step: &Step) -> bool {
        let task = |(task, count)| self.tasks.get(&task).copied().unwrap_or(0) == count;
        let latch = |&(latch, count)| self.latches.get(&latch).copied().unwrap_or(0) == count;
        step.task.is_none_or(task) && step.latches.iter().flatten().all(latch)
    }

    /// The next step of all, if it is here. Of those that may be next, the earliest.
    pub fn pop(&mut self) -> Option<(u64, Step)> {
        let firsts = self.cpus.iter().filter_map(VecDeque::front).map(|(_, step)| step);
        let cpu = firsts.filter(|step| self.is_next(step)).min_by_key(|step| step.now_ns)?.cpu;
        let (name, step) = self.cpus[cpu].pop_front()?;
        if let Some((task, count)) = step.task {
            self.tasks.insert(task, count.wrapping_add(1));
        }
        for &(latch, count) in step.latches.iter().flatten() {
            self.latches.insert(latch, count.wrapping_add(1));
        }
        Some((name, step))
    }

    /// A step that waits for one that is not here: what it is called, and for what it waits.
    #[must_use]
    pub fn stuck(&self) -> Option<(u64, Wrong)> {
        let first = self.cpus.iter().filter_map(|cpu| cpu.front()).min_by_key(|(name, _)| *name);
        first.map(|(name, _)| (*name, "a step is missing before this one".into()))
    }
}

/// What is known of a cpu beside what the policy keeps.
#[derive(Clone, Copy, Debug, Default)]
struct OfCpu {
    /// The queue that it works on until it has abandoned it for another.
    old: Option<QueueId>,
    /// Where a round ends: who runs next.
    next: Option<TaskId>,
    /// The group that counts it, and the one that it leaves if another needs it more.
    group: Option<usize>,
    own: Option<usize>,
    /// Groups that had no task for it: bits.
    tried: u32,
    /// It gives this task a quantum back, if that is in a queue still.
    refund: Option<TaskId>,
}

/// What is known of a task.
#[derive(Clone, Copy, Debug, Default)]
struct OfTask {
    /// It goes from a queue to another, with its turn.
    goes: Option<Turn>,
}

/// The policy's queues and shares, told step by step.
#[derive(Debug)]
pub struct Replay {
    it: Box<Distributed>,
    cpus: Vec<OfCpu>,
    tasks: Vec<OfTask>,
    /// What tasks are to be told next, by the cpu that has the shares.
    tells: VecDeque<(TaskId, Effective)>,
    /// The shares were told something, and what groups are worth is not found yet.
    is_changed: bool,
    picks: u64,
    late: u64,
}

/// An error unless it holds.
fn ensure(holds: bool, wrong: impl FnOnce() -> Wrong) -> Result<(), Wrong> {
    if holds { Ok(()) } else { Err(wrong()) }
}

/// As the kernel has it in a word.
fn counts(value: u64) -> Result<Effective, Wrong> {
    let (parts, of) = (value >> 16, value & 0xffff);
    ensure(of > 0 && parts >= of, || "it counts for less than 1".into())?;
    Ok(Effective::ratio(parts, u32::try_from(of).expect("16 bits")))
}

fn weight(value: u64) -> Result<Weight, Wrong> {
    let weight = u32::try_from(value).ok().and_then(Weight::new);
    weight.ok_or_else(|| format!("there is no weight {value}"))
}

impl Step {
    fn task(&self) -> Result<TaskId, Wrong> {
        self.task.map(|(task, _)| task).ok_or_else(|| "no task is named".into())
    }

    fn queue(&self, index: usize) -> Result<QueueId, Wrong> {
        match self.latches[index] {
            Some((Latch::Queue(queue), _)) => Ok(queue),
            _ => Err("no queue is named".into()),
        }
    }

    fn group(&self) -> Result<usize, Wrong> {
        match self.latches[1] {
            Some((Latch::Group(group), _)) if group < GROUPS => Ok(group),
            _ => Err("no group is named".into()),
        }
    }

    /// That of the value.
    fn value_group(&self) -> Result<usize, Wrong> {
        let group = usize::try_from(self.value).ok().filter(|&group| group < GROUPS);
        group.ok_or_else(|| "there is no such group".into())
    }

    fn has_shares(&self) -> bool {
        matches!(self.latches[0], Some((Latch::Shares, _)))
    }
}

impl Replay {
    /// `gdq-distributed` with these options (`KEY=VALUE,…`), over no tasks.
    ///
    /// # Errors
    /// When there is no such option, or a value is not acceptable.
    pub fn new(options: &str, setup: &Setup) -> Result<Replay, BuildError> {
        let mut options = Options::parse(options);
        options.choice("sleepers", &[("paper", ()), ("turns", ())])?;
        let quanta = options.number("t", 1..=1_000_000, default_interval_quanta(setup.cpus))?;
        let delta = options.number("delta", 0..=1_000_000, DEFAULT_DELTA)?;
        options.finish()?;
        Ok(Replay {
            it: Box::new(Distributed::new(setup, quanta, delta)),
            cpus: alloc::vec![OfCpu::default(); setup.cpus],
            tasks: Vec::new(),
            tells: VecDeque::new(),
            is_changed: false,
            picks: 0,
            late: 0,
        })
    }

    /// Decisions so far: tasks that were picked, and cpus that found none.
    #[must_use]
    pub fn picks(&self) -> u64 {
        self.picks
    }

    /// Looks without a latch that others had outrun.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Counts what a cpu saw otherwise than the policy has it now.
    fn see(&mut self, as_it_is: bool) {
        self.late += u64::from(!as_it_is);
    }

    /// The step that follows.
    ///
    /// # Errors
    /// When the policy takes another one.
    pub fn step(&mut self, step: &Step) -> Result<(), Wrong> {
        let is_told = step.kind == Kind::Told;
        ensure(!step.has_shares() || is_told || self.tells.is_empty(), || {
            let (task, _) = self.tells[0];
            format!("task {} is not told what it counts for", task.0)
        })?;
        match step.kind {
            Kind::Add => self.add(step.task()?, weight(step.value)?),
            Kind::Weight => {
                let task = self.known(step)?;
                self.it.tasks[task.index()].weight = weight(step.value)?;
                Ok(())
            }
            Kind::Wake => self.enter(step, State::Blocked, State::Waiting),
            Kind::Charge => self.charge(step),
            Kind::Place => self.place(step),
            Kind::Recount => self.recount(step),
            Kind::Take => self.take(step),
            Kind::Block => self.block(step),
            Kind::Refund => self.refund(step),
            Kind::Round => self.round(step),
            Kind::Pick => self.pick(step),
            Kind::Steal => self.steal(step),
            Kind::Refill => self.refill(step),
            Kind::Claim => self.claim(step),
            Kind::Abandon => self.abandon(step),
            Kind::Open => self.open(step),
            Kind::Close => self.close(step),
            Kind::Idle => self.idle(),
            Kind::Told => self.told(step),
            kind => {
                ensure(step.has_shares(), || "the shares are not latched".into())?;
                match kind {
                    Kind::Look => self.look(step),
                    Kind::Tell => self.tell(step),
                    Kind::Settle => self.settle(),
                    Kind::Pass => self.pass(step),
                    Kind::Leave => self.leave(step),
                    Kind::Tried => self.tried(step),
                    Kind::Arrive => self.arrive(step),
                    _ => self.seek(step),
                }
            }
        }
    }

    // --- tasks --------------------------------------------------------------------------------------

    fn add(&mut self, task: TaskId, weight: Weight) -> Result<(), Wrong> {
        let is_new = self.it.tasks.len() <= task.index();
        ensure(is_new || self.it.queues.queue_of(task).is_none(), || "it is in a queue".into())?;
        self.it.add(task, weight);
        self.tasks.resize(self.it.tasks.len(), OfTask::default());
        self.tasks[task.index()] = OfTask::default();
        Ok(())
    }

    fn known(&self, step: &Step) -> Result<TaskId, Wrong> {
        let task = step.task()?;
        ensure(task.index() < self.tasks.len(), || "there is no such task".into())?;
        Ok(task)
    }

    /// A task goes from a state to another.
    fn enter(&mut self, step: &Step, from: State, to: State) -> Result<(), Wrong> {
        let task = self.known(step)?;
        let state = &mut self.it.tasks[task.index()].state;
        ensure(*state == from, || format!("the task is {state:?} then"))?;
        *state = to;
        Ok(())
    }

    fn charge(&mut self, step: &Step) -> Result<(), Wrong> {
        let is_left = self.cpus[step.cpu].refund.take().is_some();
        self.see(!is_left);
        self.enter(step, State::Running, State::Waiting)?;
        let task = step.task()?;
        let quantum_ns = self.it.quantum_ns;
        let unused_ns = quantum_ns.checked_sub(step.value);
        let unused_ns = unused_ns.ok_or("more than a quantum is charged")?;
        let credit_ns = &mut self.it.tasks[task.index()].credit_ns;
        *credit_ns += unused_ns;
        if *credit_ns >= quantum_ns {
            *credit_ns -= quantum_ns;
            // A task that blocks forgets it.
            self.cpus[step.cpu].refund = (step.extra == 0).then_some(task);
        }
        Ok(())
    }

    fn told(&mut self, step: &Step) -> Result<(), Wrong> {
        let task = self.known(step)?;
        let told = counts(step.value)?;
        ensure(step.has_shares(), || "the shares are not latched".into())?;
        match self.tells.pop_front() {
            Some((other, _)) if other != task => Err(format!("task {} is told next", other.0)),
            Some((_, due)) if due != told => {
                let (parts, of) = due.fraction();
                Err(format!("it counts for {parts}/{of}"))
            }
            Some(_) => {
                self.it.tasks[task.index()].told = told;
                Ok(())
            }
            None => Err("no task is told anything".into()),
        }
    }

    // --- tasks in queues ----------------------------------------------------------------------------

    /// An open queue; its group.
    fn opened(&self, queue: QueueId) -> Result<usize, Wrong> {
        let group = self.it.queues.group_if_open(queue);
        group.ok_or_else(|| format!("queue {queue} is closed"))
    }

    /// The task is in this queue.
    fn queued(&self, step: &Step) -> Result<(TaskId, QueueId), Wrong> {
        let (task, queue) = (self.known(step)?, step.queue(0)?);
        let is_there = self.it.queues.queue_of(task) == Some(queue);
        ensure(is_there, || format!("it is not in queue {queue}"))?;
        Ok((task, queue))
    }

    fn place(&mut self, step: &Step) -> Result<(), Wrong> {
        let (task, queue) = (self.known(step)?, step.queue(0)?);
        let told = counts(step.value)?;
        let state = self.it.tasks[task.index()].state;
        ensure(state == State::Waiting, || format!("the task is {state:?} then"))?;
        ensure(self.it.queues.queue_of(task).is_none(), || "it is in a queue".into())?;
        ensure(self.opened(queue)? == group_of(told), || "it is of another group".into())?;
        let turn = self.tasks[task.index()].goes.take().unwrap_or(Turn::Had);
        ensure((turn == Turn::ToCome) == (step.extra == 1), || "its turn is another".into())?;
        self.it.queues.set_counts(task, told);
        let rule = self.it.queues.find_place(task, self.it.cpus[step.cpu].queue);
        self.see(told == self.it.tasks[task.index()].told && rule == Some(queue));
        self.it.queues.place_in(queue, task, turn);
        Ok(())
    }

    fn recount(&mut self, step: &Step) -> Result<(), Wrong> {
        let (task, queue) = self.queued(step)?;
        let told = counts(step.value)?;
        ensure(self.opened(queue)? == group_of(told), || "it is of another group".into())?;
        self.see(told == self.it.tasks[task.index()].told);
        self.it.queues.reload(task, told);
        Ok(())
    }

    fn take(&mut self, step: &Step) -> Result<(), Wrong> {
        let (task, queue) = self.queued(step)?;
        let Distributed { queues, tasks, .. } = &mut *self.it;
        let told = counts(step.value)?;
        let state = tasks[task.index()].state;
        ensure(state == State::Waiting, || format!("the task is {state:?} then"))?;
        ensure(queues.group_if_open(queue) != Some(group_of(told)), || "it belongs there".into())?;
        let is_current = told == tasks[task.index()].told;
        self.tasks[task.index()].goes = Some(queues.turn(task));
        queues.take(task);
        self.see(is_current);
        Ok(())
    }

    fn block(&mut self, step: &Step) -> Result<(), Wrong> {
        let (task, _) = self.queued(step)?;
        self.enter(step, State::Waiting, State::Blocked)?;
        self.it.queues.take(task);
        Ok(())
    }

    fn refund(&mut self, step: &Step) -> Result<(), Wrong> {
        let (task, _) = self.queued(step)?;
        let is_due = self.cpus[step.cpu].refund.take() == Some(task);
        ensure(is_due, || "it is to be given nothing back".into())?;
        self.it.queues.refund(task);
        Ok(())
    }

    fn pick(&mut self, step: &Step) -> Result<(), Wrong> {
        let (cpu, queue) = (step.cpu, step.queue(0)?);
        let (picked, _) = self.queued(step)?;
        self.picks += 1;
        ensure(self.it.cpus[cpu].queue == Some(queue), || "it works on another queue".into())?;
        let counts = self.cpus[cpu].group == self.it.queues.group_if_open(queue);
        ensure(counts, || "the cpu is counted in another group".into())?;
        let is_late = step.now_ns >= self.it.cpus[cpu].look_ns;
        ensure(!is_late, || "it should have looked around first".into())?;
        let next = self.cpus[cpu].next.take().or_else(|| {
            let next = self.it.queues.next_in_round(queue);
            next.filter(|(_, is_end)| !is_end).map(|(next, _)| next)
        });
        ensure(next == Some(picked), || {
            next.map_or("the round is at its end".into(), |next| {
                format!("the policy picks task {}", next.0)
            })
        })?;
        self.it.queues.run_next(queue, picked);
        self.enter(step, State::Waiting, State::Running)
    }

    /// The cpu's queue is at the end of a round: who would begin the next one.
    fn at_end(&self, step: &Step) -> Result<(QueueId, TaskId), Wrong> {
        let queue = step.queue(0)?;
        let is_own = self.it.cpus[step.cpu].queue == Some(queue);
        ensure(is_own, || "it works on another queue".into())?;
        let next = self.it.queues.next_in_round(queue).filter(|(_, is_end)| *is_end);
        let (next, _) = next.ok_or("the round is not at its end")?;
        Ok((queue, next))
    }

    /// Nothing was stolen.
    fn round(&mut self, step: &Step) -> Result<(), Wrong> {
        let (queue, first) = self.at_end(step)?;
        let looked = (step.value != u64::from(u32::MAX)).then_some(step.value);
        if let Some(donor) = looked {
            let donor = usize::try_from(donor).unwrap_or(usize::MAX);
            let is_queue = self.it.queues.is_closed(donor) || self.opened(donor).is_ok();
            ensure(is_queue, || "there is no such queue".into())?;
            self.note_look(step.cpu, queue, donor);
            let steals = self.it.queues.may_steal(queue, donor);
            self.see(!steals);
        } else {
            self.see(self.it.queues.is_alone(queue));
            self.it.cpus[step.cpu].looks = Looks { next: queue + 1, victim: None };
        }
        self.it.queues.begin_round(queue);
        self.cpus[step.cpu].next = Some(first);
        Ok(())
    }

    /// The cpu has looked at a queue: again, or the next in turn.
    fn note_look(&mut self, cpu: CpuId, queue: QueueId, donor: QueueId) {
        let Looks { next, victim } = self.it.cpus[cpu].looks;
        let rule = victim.or_else(|| self.it.queues.look_next(queue, next));
        self.see(rule == Some(donor));
        let next = if victim.is_none() { donor + 1 } else { next };
        self.it.cpus[cpu].looks = Looks { next, victim: None };
    }

    fn steal(&mut self, step: &Step) -> Result<(), Wrong> {
        let (queue, before) = self.at_end(step)?;
        let (donor, stolen) = (step.queue(1)?, self.known(step)?);
        self.opened(donor)?;
        ensure(self.it.queues.may_steal(queue, donor), || "there is nothing to steal".into())?;
        let due = self.it.queues.spare(donor);
        ensure(stolen == due, || format!("the policy steals task {}", due.0))?;
        self.note_look(step.cpu, queue, donor);
        self.it.cpus[step.cpu].looks.victim = Some(donor);
        self.it.queues.take(stolen);
        self.it.queues.put(queue, stolen, Some(before));
        self.cpus[step.cpu].next = Some(stolen);
        Ok(())
    }

    fn refill(&mut self, step: &Step) -> Result<(), Wrong> {
        let (cpu, queue, donor) = (step.cpu, step.queue(0)?, step.queue(1)?);
        let task = self.known(step)?;
        ensure(self.it.cpus[cpu].queue == Some(queue), || "it works on another queue".into())?;
        let group = self.opened(queue)?;
        ensure(self.it.queues.is_empty(queue), || "the queue is not empty".into())?;
        ensure(self.opened(donor)? == group, || "they are of different groups".into())?;
        ensure(self.it.queues.can_give(donor), || "it has nothing to give".into())?;
        let due = self.it.queues.spare(donor);
        ensure(task == due, || format!("the policy takes task {}", due.0))?;
        self.see(self.it.queues.donor(group) == Some(donor));
        self.it.queues.refill_with(queue, donor);
        self.it.cpus[cpu].looks.victim = Some(donor);
        Ok(())
    }

    // --- queues -------------------------------------------------------------------------------------

    fn adopt(&mut self, cpu: CpuId, queue: QueueId) {
        let of_cpu = &mut self.it.cpus[cpu];
        of_cpu.looks = Looks { next: queue + 1, victim: None };
        self.cpus[cpu].old = of_cpu.queue.replace(queue);
        self.it.queues.set_active(queue, true);
    }

    fn claim(&mut self, step: &Step) -> Result<(), Wrong> {
        let queue = step.queue(0)?;
        let group = self.opened(queue)?;
        let is_stalled = !self.it.queues.is_active(queue) && !self.it.queues.is_empty(queue);
        ensure(is_stalled, || "the queue is not stalled".into())?;
        self.see(self.it.queues.stalled(group) == Some(queue));
        self.adopt(step.cpu, queue);
        Ok(())
    }

    fn abandon(&mut self, step: &Step) -> Result<(), Wrong> {
        let queue = step.queue(0)?;
        self.opened(queue)?;
        ensure(self.it.queues.is_active(queue), || "nobody works on it".into())?;
        let (of_cpu, beside) = (&mut self.it.cpus[step.cpu], &mut self.cpus[step.cpu]);
        if of_cpu.queue == Some(queue) {
            of_cpu.queue = beside.old.take();
        } else {
            ensure(beside.old.take() == Some(queue), || "it works on another queue".into())?;
        }
        self.it.queues.set_active(queue, false);
        Ok(())
    }

    fn open(&mut self, step: &Step) -> Result<(), Wrong> {
        let (queue, group) = (step.queue(0)?, step.group()?);
        let is_closed = self.it.queues.is_closed(queue);
        ensure(is_closed, || format!("queue {queue} is open, or there is none"))?;
        self.it.queues.open_again(queue, group);
        if step.value == 1 {
            self.adopt(step.cpu, queue);
        }
        Ok(())
    }

    fn close(&mut self, step: &Step) -> Result<(), Wrong> {
        let (queue, group) = (step.queue(0)?, step.group()?);
        ensure(self.opened(queue)? == group, || "it is of another group".into())?;
        let is_done = self.it.queues.is_empty(queue) && !self.it.queues.is_active(queue);
        ensure(is_done, || "it is not empty and stalled".into())?;
        self.it.queues.close_if_done(queue);
        Ok(())
    }

    fn idle(&mut self) -> Result<(), Wrong> {
        self.picks += 1;
        self.see((0..GROUPS).all(|k| self.it.queues.donor(k).is_none()));
        Ok(())
    }

    // --- shares -------------------------------------------------------------------------------------

    fn look(&mut self, step: &Step) -> Result<(), Wrong> {
        let is_time = self.it.is_time_to_look(step.cpu, step.now_ns);
        ensure(is_time == (step.value == 1), || "its time is another".into())
    }

    fn tell(&mut self, step: &Step) -> Result<(), Wrong> {
        let task = self.known(step)?;
        let (weight, is_runnable) = (weight(step.value)?, step.extra == 1);
        let known = self.it.tasks[task.index()];
        self.see(weight == known.weight && is_runnable == (known.state != State::Blocked));
        if known.is_shared && is_runnable && self.it.feasible.weight(task) == weight {
            return Ok(());
        }
        if known.is_shared {
            self.it.leave_set(task);
            self.tell_changed();
        }
        self.tells.push_back((task, Effective::whole(weight)));
        if is_runnable {
            self.it.feasible.set_weight(task, weight);
            self.it.join_set(task);
            self.tell_changed();
            self.tells.push_back((task, self.it.feasible.effective(task)));
        }
        self.it.tasks[task.index()].is_shared = is_runnable;
        self.is_changed |= known.is_shared || is_runnable;
        Ok(())
    }

    fn tell_changed(&mut self) {
        let feasible = &self.it.feasible;
        let changed = feasible.changed().iter();
        self.tells.extend(changed.map(|&(task, _)| (task, feasible.effective(task))));
    }

    fn settle(&mut self) -> Result<(), Wrong> {
        let is_changed = core::mem::take(&mut self.is_changed);
        ensure(is_changed, || "nothing has changed".into())?;
        self.it.settle();
        Ok(())
    }

    fn settled(&self) -> Result<(), Wrong> {
        ensure(!self.is_changed, || "what groups are worth is not found anew".into())
    }

    /// The group that counts the cpu, which works there, does so no more.
    fn depart(&mut self, step: &Step, group: usize) -> Result<(), Wrong> {
        let counts = self.cpus[step.cpu].group.take() == Some(group);
        ensure(counts, || "the cpu is counted elsewhere".into())?;
        self.it.allocator.depart(group, self.it.cpus[step.cpu].dedicated);
        Ok(())
    }

    /// The group of the cpu is that of the value.
    fn in_group(&self, step: &Step) -> Result<usize, Wrong> {
        self.settled()?;
        let (group, queue) = (step.value_group()?, self.it.cpus[step.cpu].queue);
        let is_there =
            queue.is_some_and(|queue| self.it.queues.group_if_open(queue) == Some(group));
        ensure(is_there, || "it is in another group".into())?;
        Ok(group)
    }

    fn pass(&mut self, step: &Step) -> Result<(), Wrong> {
        let group = self.in_group(step)?;
        let of_cpu = &mut self.it.cpus[step.cpu];
        let elapsed_ns = step.now_ns.checked_sub(of_cpu.since_ns).ok_or("time goes back")?;
        of_cpu.since_ns = step.now_ns;
        let beyond_ns = if of_cpu.dedicated { 0 } else { elapsed_ns.into() };
        let dedicated = self.it.allocator.pass(group, of_cpu.dedicated, beyond_ns);
        of_cpu.dedicated = dedicated;
        ensure(dedicated == (step.extra == 1), || "it is dedicated otherwise".into())?;
        if !dedicated {
            self.depart(step, group)?;
            (self.cpus[step.cpu].own, self.cpus[step.cpu].tried) = (Some(group), 0);
        }
        Ok(())
    }

    fn leave(&mut self, step: &Step) -> Result<(), Wrong> {
        let group = self.in_group(step)?;
        let super::Cpu { dedicated, since_ns, .. } = self.it.cpus[step.cpu];
        let elapsed_ns = step.now_ns.checked_sub(since_ns).ok_or("time goes back")?;
        if !dedicated {
            self.it.allocator.charge(group, elapsed_ns.into());
        }
        self.depart(step, group)
    }

    fn seek(&mut self, step: &Step) -> Result<(), Wrong> {
        let has_none = self.it.cpus[step.cpu].queue.is_none();
        ensure(has_none, || "it works on a queue".into())?;
        (self.cpus[step.cpu].own, self.cpus[step.cpu].tried) = (None, 0);
        self.settled()
    }

    /// The group that needs the cpu most.
    fn needy(&self, cpu: CpuId) -> Option<usize> {
        let tried = self.cpus[cpu].tried;
        self.it.allocator.choose(|k, _| tried & 1 << k == 0)
    }

    fn tried(&mut self, step: &Step) -> Result<(), Wrong> {
        let group = step.value_group()?;
        let needy = self.needy(step.cpu);
        ensure(needy == Some(group), || format!("the policy tries {needy:?}"))?;
        self.cpus[step.cpu].tried |= 1 << group;
        let has_none = self.it.queues.stalled(group).is_none()
            && (self.it.queues.donor(group).is_none() || self.it.queues.room() <= GROUPS);
        self.see(has_none);
        Ok(())
    }

    fn arrive(&mut self, step: &Step) -> Result<(), Wrong> {
        let group = self.in_group(step)?;
        let counts = self.cpus[step.cpu].group.replace(group);
        ensure(counts.is_none(), || "the cpu is counted already".into())?;
        let (needy, own) = (self.needy(step.cpu), self.cpus[step.cpu].own.take());
        // Where no group that has a task for it needs it, it stays; or goes to any.
        let is_due = match own {
            Some(own) if own == group => needy.is_none_or(|needy| needy == own),
            Some(_) => needy == Some(group),
            None => needy.is_none_or(|needy| needy == group),
        };
        ensure(is_due, || format!("the policy goes to group {needy:?}"))?;
        let of_cpu = &mut self.it.cpus[step.cpu];
        of_cpu.dedicated = self.it.allocator.arrive(group);
        of_cpu.since_ns = step.now_ns;
        Ok(())
    }

    /// What a recording's end tells: nothing is left half done.
    ///
    /// # Errors
    /// When a task was not told what it counts for.
    pub fn end(&self) -> Result<(), Wrong> {
        let told = self.tells.front().map(|(task, _)| task.0.to_string());
        told.map_or(Ok(()), |task| Err(format!("task {task} is not told what it counts for")))
    }
}

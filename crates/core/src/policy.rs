//! The interface between a scheduling policy and whatever runs tasks.
//!
//! A [`Policy`] decides which task runs next on a cpu. It reads no clock, starts no task and
//! allocates nothing on the hot path: the *backend* (the simulator, the user-level runner, or in
//! meaning the kernel) owns the tasks and tells the policy what happened to them.
//!
//! # Call sequences
//!
//! Every call carries the time `now_ns`, which never goes backwards. `[…]` marks what the backend
//! does between the calls.
//!
//! | event                            | calls, in this order                                      |
//! |----------------------------------|-----------------------------------------------------------|
//! | a task appears                   | `add(t, w)`                                               |
//! | it becomes runnable              | `wake(t)` \[offer it to an idle cpu: `pick`\]             |
//! | a cpu asks for work              | `pick(cpu)` → `Some(t)` \[t runs\] or `None` \[cpu idles\]|
//! | its quantum ends                 | `charge(t, used)`, `pick(cpu)`                            |
//! | the same, and its cpu was busy else for a while | `ran(t, ran)`, `charge(t, used)`, `pick(cpu)` |
//! | it blocks within its quantum     | `charge(t, used)`, `block(t)`, `pick(cpu)`                |
//! | it yields                        | `charge(t, used)`, `pick(cpu)`                            |
//! | it stops being runnable while it waits | `block(t)`                                          |
//! | its weight changes, in any state | `set_weight(t, w)`                                        |
//! | it goes away while it runs       | `charge(t, used)`, `remove(t)`, `pick(cpu)`               |
//! | it goes away otherwise           | `remove(t)`                                               |
//! | a task appears, and has some of others' pay | `take_credit(s, most)`, `add(t, w)`, `endow(t, advance)` |
//! | it waits, and may not use what it has | `forfeit(t)`                                         |
//! | it wakes, and others of its group use what it does not | `keep(t, true)`, `wake(t)`            |
//! | its turn is over, and others of its group had no use for theirs | `take_lapsed(s)`, \
//!   `lengthen(t, used, most)`, `charge(t, used)`, `pick(cpu)`                                       |
//! | a tree is to know whom the policy serves | `pass()`, `serves(t)`                                |
//! | it ends, and leaves what it has  | `charge(t, used)`, `block(t)`, `retire(t)`, `remove(t)`   |
//! | it moves to another group       | `bequeath(t, heirs)`, `set_weight(t, w)`                  |
//! | several quanta end at one instant| `charge` for each of them, then `pick` for each cpu       |
//! | the idle cpus have picked after wake-ups | `interrupt()` → `Some(cpu)` \[stop its task s\]: \
//!   `charge(s, used)`, `pick(cpu)`, and again until `None`                                         |
//!
//! A task moves through four states. `Policy` implementations may rely on every arrow;
//! [`Contract`](crate::Contract) refuses any call that is not an arrow, and
//! [`Checked`](crate::Checked) panics then:
//!
//! ```text
//!            add             wake              pick
//!  (unknown) ───► Blocked ──────────► Waiting ───────► Running
//!      ▲             ▲ ▲                 │ ▲              │
//!      │    remove   │ └─────block───────┘ └────charge────┘
//!      └─────────────┴── (from Blocked or Waiting)
//! ```
//!
//! From `pick` until `charge` a task is *running* and occupies its cpu. `charge` ends that: the
//! task is waiting again, and the next `pick` of any cpu may return it. (A policy may still prefer
//! to keep it for the cpu that it just ran on; GR3MP does.) A cpu whose `pick` returned `None` may
//! ask again at any time; a backend asks after every `wake`.
//!
//! # Interruptions, and runs of another length than a quantum
//!
//! A policy may want a task that woke to run before the quantum of another one is over. It says so
//! in [`Policy::interrupt`], which names a cpu that runs a task; the backend stops that one as soon
//! as it can. Until then anything else may happen, also on that cpu: its task may block or use its
//! quantum up, and its next `pick` settles the matter. An interrupted task is not told apart from
//! one whose quantum ended: it is charged for what it used, and waits. Which run of it is short
//! or long is for the policy to say: [`Policy::slice_ns`], asked after `pick`, is how long the
//! picked task may run; the backend ends the run then, as it ends a quantum. Most policies leave
//! both as they are, and nobody is interrupted; [`Corrected`](crate::Corrected) and
//! [`Turns`](crate::Turns) have both.
//!
//! # What `used_ns` means
//!
//! `used_ns` is what the policy shall account: the whole quantum when the quantum ran out, less
//! when the task blocked or yielded earlier. Real backends cannot stop a task to the nanosecond;
//! they keep the difference between what they charged and what the task really used in a ledger
//! of their own and lengthen or shorten its next run, so that policies that count whole quanta
//! (GR3, VTRR) are exact over time. Who keeps account of service, [`Corrected`](crate::Corrected), goes
//! by the time since the task was picked, or by [`Policy::ran`].
//!
//! # Entities, not tasks
//!
//! A [`TaskId`] is a dense small integer that the caller owns. Nothing here says that it names a
//! thread; but an entity runs on one cpu at a time, so on several cpus a group of tasks is none. Groups
//! have weights in a [tree](crate::hierarchy).

use alloc::boxed::Box;
use core::fmt;
use core::num::NonZeroU32;

use crate::hierarchy::TreePolicy;

/// A task (or any schedulable entity): an index that the caller owns, below
/// [`TaskId::LIMIT`]. Policies keep tables indexed by it, so ids should be dense.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

impl TaskId {
    /// Ids are below this number; policies keep flags in the two bits above it.
    pub const LIMIT: u32 = 1 << 30;

    /// The id as an index into a table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.0)
    }
}

/// A cpu, counted from 0.
pub type CpuId = usize;

/// Time or a length of time in nanoseconds.
pub type Nanos = u64;

/// A weight, 1..=2^32−1: a task is entitled to time in proportion to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(NonZeroU32);

impl Weight {
    /// The smallest weight.
    pub const ONE: Weight = Weight(NonZeroU32::MIN);
    /// The largest weight, 2^32−1.
    pub const MAX: Weight = Weight(NonZeroU32::MAX);

    /// A weight, or `None` for 0.
    #[must_use]
    pub const fn new(weight: u32) -> Option<Weight> {
        match NonZeroU32::new(weight) {
            Some(w) => Some(Weight(w)),
            None => None,
        }
    }

    /// The weight as a number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// The order σ of the weight: 2^σ ≤ weight < 2^(σ+1) (GR3 §2.1).
    #[must_use]
    pub const fn order(self) -> u32 {
        self.0.ilog2()
    }
}

impl fmt::Debug for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.get())
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.get(), f)
    }
}

/// A scheduling policy. See the [module documentation](self) for the legal call sequences.
///
/// `add` may allocate; `wake`, `block`, `pick` and `charge` do not, but for what
/// [`Corrected`](crate::Corrected) begins to keep at the first change.
pub trait Policy {
    /// Makes `task` known, blocked, with `weight`.
    fn add(&mut self, task: TaskId, weight: Weight);

    /// Forgets `task`, which is blocked or waiting. Its id may be added again.
    fn remove(&mut self, task: TaskId, now_ns: Nanos);

    /// Changes the weight of `task`, whatever its state. A running task keeps its cpu.
    fn set_weight(&mut self, task: TaskId, weight: Weight, now_ns: Nanos);

    /// `task` was blocked and is now waiting for a cpu.
    fn wake(&mut self, task: TaskId, now_ns: Nanos);

    /// `task` was waiting and is now blocked.
    fn block(&mut self, task: TaskId, now_ns: Nanos);

    /// `task`, which waits, is not picked before it wakes, though it is not asleep: it was picked often
    /// enough, for a backend that runs later what it was picked for; or a cpu could not run it after all, is
    /// free of it so, and it wakes at once. Where errors are kept the ideal serves it on
    /// ([`Corrected`](crate::Corrected)). To most policies it is blocked.
    fn stand_aside(&mut self, task: TaskId, now_ns: Nanos) {
        self.block(task, now_ns);
    }

    /// The task that runs next on `cpu`, for one quantum; `None` if the cpu shall idle. The task
    /// that ran on `cpu` before has been charged.
    fn pick(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId>;

    /// `task`, which runs, is charged next, and ran for `ran_ns` of the time since it was picked: for
    /// backends whose cpus have something else to do now and then. Who keeps account of what tasks receive
    /// ([`Corrected`](crate::Corrected)) else takes it for all of that time, whatever is charged.
    fn ran(&mut self, _task: TaskId, _ran_ns: Nanos) {}

    /// `task` was running and has left its cpu after `used_ns` (at most a quantum); it is waiting.
    fn charge(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos);

    /// A cpu that shall stop what it runs, so that a task that woke can have it. To be asked when
    /// the idle cpus have picked after wake-ups, until it is `None`.
    fn interrupt(&mut self, _now_ns: Nanos) -> Option<CpuId> {
        None
    }

    /// `task`, which was just added, has credit of `advance_ns` that was others', and is not served before it
    /// has used that; or is [behind](crate::Corrected) by as much. Here and where credit is taken: most
    /// policies know of [none](crate::Turns).
    fn endow(&mut self, _task: TaskId, _advance_ns: Nanos) {}

    /// `task`, which may be running, competes with others than `heirs` from now on, who are runnable: what it
    /// is ahead or behind is theirs, and it begins anew. Most policies keep no account of that.
    fn bequeath(&mut self, _task: TaskId, _heirs: &[TaskId], _now_ns: Nanos) {}

    /// Takes up to `most_ns` of the credit of `task`, whatever its state: how much.
    fn take_credit(&mut self, _task: TaskId, _most_ns: Nanos) -> Nanos {
        0
    }

    /// `task`, which waits, loses its credit, and waits for its turn: how much.
    fn forfeit(&mut self, _task: TaskId, _now_ns: Nanos) -> Nanos {
        0
    }

    /// `task`, which is blocked, ends. All of its credit is taken: how many ns; or by how many it was
    /// [behind](crate::Corrected), below 0 if it was ahead.
    fn retire(&mut self, _task: TaskId, _now_ns: Nanos) -> i64 {
        0
    }

    /// What `task` was charged for and had no use for, since it sleeps, and nobody else has: others may.
    fn take_lapsed(&mut self, _task: TaskId) -> Nanos {
        0
    }

    /// Whether `task`, which is about to wake, is to be served on for a while when it sleeps and has no use
    /// for its turns, since others have.
    fn keep(&mut self, _task: TaskId, _kept: bool) {}

    /// `task` is about to be charged for `used_ns`. If it uses up a turn of its own then, that goes on for up
    /// to `most_ns` of what lapsed: for how long; else `None`.
    fn lengthen(&mut self, _task: TaskId, _used_ns: Nanos, _most_ns: Nanos) -> Option<Nanos> {
        None
    }

    /// It is `now_ns`: what [`serves`](Policy::serves) says may have changed since anything else was told.
    fn pass(&mut self, _now_ns: Nanos) {}

    /// Whether the policy serves `task` now, if that is not simply as long as it is runnable: it may go on
    /// when it sleeps, or begin later than it wakes ([`Corrected`](crate::Corrected),
    /// [`Turns`](crate::Turns)); else `None`. In a [tree](crate::hierarchy) those share whom it serves.
    fn serves(&self, _task: TaskId) -> Option<bool> {
        None
    }

    /// How long `task`, which was picked, may run; `None` for a quantum.
    fn slice_ns(&self, _task: TaskId) -> Option<Nanos> {
        None
    }

    /// The policy with the verbs for trees, if it has a way of its own with groups. The others share by
    /// tree within a [`Flat`](crate::hierarchy::Flat), which passes the tree on to a policy that has one.
    fn own_tree(&mut self) -> Option<&mut dyn TreePolicy> {
        None
    }
}

impl<P: Policy + ?Sized> Policy for Box<P> {
    fn add(&mut self, task: TaskId, weight: Weight) {
        (**self).add(task, weight);
    }
    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        (**self).remove(task, now_ns);
    }
    fn set_weight(&mut self, task: TaskId, weight: Weight, now_ns: Nanos) {
        (**self).set_weight(task, weight, now_ns);
    }
    fn wake(&mut self, task: TaskId, now_ns: Nanos) {
        (**self).wake(task, now_ns);
    }
    fn block(&mut self, task: TaskId, now_ns: Nanos) {
        (**self).block(task, now_ns);
    }
    fn pick(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        (**self).pick(cpu, now_ns)
    }
    fn charge(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        (**self).charge(task, used_ns, now_ns);
    }
    fn stand_aside(&mut self, task: TaskId, now_ns: Nanos) {
        (**self).stand_aside(task, now_ns);
    }
    fn ran(&mut self, task: TaskId, ran_ns: Nanos) {
        (**self).ran(task, ran_ns);
    }
    fn interrupt(&mut self, now_ns: Nanos) -> Option<CpuId> {
        (**self).interrupt(now_ns)
    }
    fn endow(&mut self, task: TaskId, advance_ns: Nanos) {
        (**self).endow(task, advance_ns);
    }
    fn bequeath(&mut self, task: TaskId, heirs: &[TaskId], now_ns: Nanos) {
        (**self).bequeath(task, heirs, now_ns);
    }

    fn take_credit(&mut self, task: TaskId, most_ns: Nanos) -> Nanos {
        (**self).take_credit(task, most_ns)
    }
    fn forfeit(&mut self, task: TaskId, now_ns: Nanos) -> Nanos {
        (**self).forfeit(task, now_ns)
    }

    fn retire(&mut self, task: TaskId, now_ns: Nanos) -> i64 {
        (**self).retire(task, now_ns)
    }
    fn take_lapsed(&mut self, task: TaskId) -> Nanos {
        (**self).take_lapsed(task)
    }
    fn keep(&mut self, task: TaskId, kept: bool) {
        (**self).keep(task, kept);
    }
    fn lengthen(&mut self, task: TaskId, used_ns: Nanos, most_ns: Nanos) -> Option<Nanos> {
        (**self).lengthen(task, used_ns, most_ns)
    }
    fn pass(&mut self, now_ns: Nanos) {
        (**self).pass(now_ns);
    }
    fn serves(&self, task: TaskId) -> Option<bool> {
        (**self).serves(task)
    }
    fn slice_ns(&self, task: TaskId) -> Option<Nanos> {
        (**self).slice_ns(task)
    }
    fn own_tree(&mut self) -> Option<&mut dyn TreePolicy> {
        (**self).own_tree()
    }
}

/// What becomes of tasks that sleep, come and go, or change weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sleepers {
    /// What the policy's paper says: in most a task that blocks loses the rest of its quantum, and
    /// waits for its turn whenever it wakes; a change of weight is a departure and an arrival.
    Paper,
    /// A task uses its turns when it wakes: [`Turns`](crate::Turns). So does the kernel.
    Turns,
    /// Everybody is held to the fluid ideal: [`Corrected`](crate::Corrected).
    #[default]
    Corrected,
}

/// What every policy is built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Number of cpus, at least 1 and at most [`Setup::MAX_CPUS`].
    pub cpus: usize,
    /// Length of a quantum, at least 1.
    pub quantum_ns: Nanos,
    /// Seed of policies that draw lots.
    pub seed: u64,
    /// What becomes of tasks that sleep or change weight, unless the policy's options say otherwise.
    pub sleepers: Sleepers,
}

impl Setup {
    /// The largest number of cpus.
    pub const MAX_CPUS: usize = 1 << 16;

    /// A setup for `cpus` cpus and quanta of `quantum_ns`, with seed 0 and corrected turns.
    ///
    /// # Panics
    /// When `cpus` is 0 or above [`Setup::MAX_CPUS`], or `quantum_ns` is 0.
    #[must_use]
    pub fn new(cpus: usize, quantum_ns: Nanos) -> Setup {
        assert!((1..=Setup::MAX_CPUS).contains(&cpus), "1..=65536 cpus, not {cpus}");
        assert!(quantum_ns > 0, "a quantum takes time");
        Setup { cpus, quantum_ns, seed: 0, sleepers: Sleepers::default() }
    }

    /// The same, with sleepers as in the policies' papers.
    #[must_use]
    pub fn as_in_papers(self) -> Setup {
        Setup { sleepers: Sleepers::Paper, ..self }
    }
}

//! What runs: groups of identical tasks, each with a program of running and sleeping.

use prorata::hierarchy::NodeId;
use prorata::{Nanos, Setup, TaskId, Weight};

pub use crate::machine::LONGEST_NS;
use crate::machine::Machine;
use crate::random::Random;

mod cgroups;
mod duration;
mod formats;
mod json;
mod nice;
mod numbers;
mod recording;
mod resources;
mod rt_app;
mod toml;

pub use self::toml::{from_table, parse_toml};
pub use cgroups::{Cgroup, Cgroups};
pub use duration::{format_duration, parse_duration};
pub use formats::{parse, text_of};
pub use nice::weight_of_nice;
pub use recording::parse_recording;
pub use rt_app::parse_rt_app;

/// Why a workload file is none: where, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadError {
    path: String,
    message: String,
}

impl WorkloadError {
    /// `message` about what `path` names; an empty path is the whole file.
    pub(crate) fn new(path: impl Into<String>, message: impl Into<String>) -> WorkloadError {
        WorkloadError { path: path.into(), message: message.into() }
    }
}

impl std::fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

impl std::error::Error for WorkloadError {}

/// [`LONGEST_NS`] in whole hours, for people.
const LONGEST_H: Nanos = LONGEST_NS / 3_600_000_000_000;
/// Most tasks of a workload.
pub const MAX_TASKS: u64 = 1 << 24;

/// A machine and what runs on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// The machine.
    pub machine: Machine,
    /// The simulation ends then, or when no task is left.
    pub duration_ns: Nanos,
    /// Seed of everything random.
    pub seed: u64,
    /// The tasks.
    pub groups: Vec<Group>,
    /// What they wait for.
    pub resources: Vec<Resource>,
    /// The tree that they are in.
    pub cgroups: Cgroups,
}

/// What runs, without a machine: what files of other programs hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Tasks {
    /// When it ends, if the file says so.
    pub duration_ns: Option<Nanos>,
    /// The tasks.
    pub groups: Vec<Group>,
    /// What they wait for.
    pub resources: Vec<Resource>,
}

/// Tasks that are alike: same weight, same program, different random numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name; tasks are called NAME/0, NAME/1, … if there are several.
    pub name: String,
    /// Number of tasks.
    pub count: u32,
    /// Their weight when they arrive.
    pub weight: Weight,
    /// When they arrive, drawn for each task.
    pub arrival: Length,
    /// What they do.
    pub program: Program,
}

/// A length of time, fixed or random.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// Always the same.
    Fixed(Nanos),
    /// Every whole number of nanoseconds in the range alike.
    Uniform(Nanos, Nanos),
    /// With this mean.
    Exponential(Nanos),
    /// With this mean and standard deviation; below 0 counts as 0.
    Normal(Nanos, Nanos),
    /// Never ends.
    Forever,
}

impl Length {
    /// A length drawn from `random`.
    #[inline]
    #[allow(clippy::cast_precision_loss)]
    pub fn draw(self, random: &mut Random) -> Nanos {
        match self {
            Length::Fixed(ns) => ns,
            Length::Uniform(from_ns, to_ns) => from_ns + random.below(to_ns - from_ns + 1),
            Length::Exponential(mean_ns) => nanos(-libm::log(random.unit()) * mean_ns as f64),
            Length::Normal(mean_ns, deviation_ns) => {
                // Box and Muller; the second number is thrown away to keep a task's state small.
                let radius = libm::sqrt(-2.0 * libm::log(random.unit()));
                let angle = std::f64::consts::TAU * random.unit();
                nanos(mean_ns as f64 + deviation_ns as f64 * radius * libm::cos(angle))
            }
            Length::Forever => Nanos::MAX,
        }
    }

    /// True if it can be drawn as 0.
    #[must_use]
    pub const fn may_be_zero(self) -> bool {
        match self {
            Length::Fixed(ns) | Length::Uniform(ns, _) => ns == 0,
            Length::Exponential(_) | Length::Normal(..) => true,
            Length::Forever => false,
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
fn nanos(length_ns: f64) -> Nanos {
    libm::rint(length_ns.clamp(0.0, LONGEST_NS as f64)) as Nanos
}

/// One step of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// Use a cpu.
    Run(Length),
    /// Block.
    Sleep(Length),
    /// Block until a period after this timer fired last, or was first used. If that has passed,
    /// go on.
    Every {
        /// Length of a period.
        period_ns: Nanos,
        /// Where the task keeps the time at which the timer fired last.
        slot: u32,
        /// What a period that has passed does to the next one.
        missed: Missed,
    },
    /// Wait for a [`Resource`], by index.
    Wait(u32),
    /// Let the first task go on that waits for a semaphore or a condition.
    Post(u32),
    /// Let all tasks go on that wait for a condition.
    PostAll(u32),
    /// Go to `to` until it was done `times` times in all.
    Repeat {
        /// Where the task counts.
        slot: u32,
        /// At least 1.
        times: u64,
        /// Index of an earlier op.
        to: u32,
    },
    /// Go to `to`, for ever.
    Goto {
        /// Index of an op.
        to: u32,
    },
    /// Have another weight from now on.
    SetWeight(Weight),
    /// Be in another cgroup from now on.
    Join(NodeId),
    /// Give a cgroup another weight.
    SetCgroupWeight(NodeId, Weight),
    /// Give up the rest of the quantum.
    Yield,
    /// Leave for good. Also what happens after the last op.
    Exit,
}

/// What happens to a timer that should have fired by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// The next period begins now.
    CountFromNow,
    /// The next period began when this one should have ended.
    CatchUp,
}

/// Where the jobs come from that the ideal serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// The task asks for what it would ask for if it ran alone.
    Solo,
    /// It waits for other tasks, so that alone it would ask for nothing: it asks for each of its
    /// runs when it comes to it in the schedule.
    Observed,
}

/// What tasks can wait for other than time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A semaphore; a lock is one with a count of 1.
    Semaphore {
        /// How many may pass at first.
        count: u32,
    },
    /// A condition: whoever waits, waits for the next post. Nothing is remembered.
    Condition,
    /// Everybody waits until `users` tasks have come.
    Barrier {
        /// At least 1.
        users: u32,
    },
}

/// What a task does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// In this order.
    pub ops: Vec<Op>,
    /// Numbers that each task keeps: loop counts and release times.
    pub slots: u32,
}

impl Program {
    /// Runs for ever.
    #[must_use]
    pub fn hog() -> Program {
        Program { ops: vec![Op::Run(Length::Forever)], slots: 0 }
    }

    /// Appends `op`.
    pub fn push(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// False if it would go on for ever at one instant.
    #[must_use]
    pub fn takes_time(&self) -> bool {
        self.ops.iter().any(|op| match op {
            Op::Run(length) | Op::Sleep(length) => *length != Length::Fixed(0),
            Op::Every { .. } | Op::Wait(_) | Op::Exit => true,
            _ => false,
        })
    }

    /// True if it never blocks and never leaves. (Some others do not either.)
    #[must_use]
    pub fn never_blocks(&self) -> bool {
        let goes_on = |op: &Op| match op {
            Op::Sleep(_) | Op::Every { .. } | Op::Wait(_) | Op::Exit => false,
            Op::Run(_) | Op::Post(_) | Op::PostAll(_) | Op::Repeat { .. } | Op::Goto { .. } => true,
            Op::SetWeight(_) | Op::Join(_) | Op::SetCgroupWeight(..) | Op::Yield => true,
        };
        let no_end = |(at, op): (u32, &Op)| match *op {
            Op::Goto { to } => to <= at,
            op => op == Op::Run(Length::Forever),
        };
        self.ops.iter().all(goes_on) && (0..).zip(&self.ops).any(no_end)
    }

    /// Where its jobs come from.
    #[must_use]
    pub fn arrivals(&self) -> Arrivals {
        let waits = self.ops.iter().any(|op| matches!(op, Op::Wait(_)));
        if waits { Arrivals::Observed } else { Arrivals::Solo }
    }

    /// Index of the next op to be pushed.
    ///
    /// # Panics
    /// When there are 2^32 ops.
    #[must_use]
    pub fn here(&self) -> u32 {
        u32::try_from(self.ops.len()).expect("a program has fewer than 2^32 steps")
    }

    /// A slot that nobody has used.
    pub fn new_slot(&mut self) -> u32 {
        self.slots += 1;
        self.slots - 1
    }
}

impl Workload {
    /// What policies for it are built with.
    #[must_use]
    pub fn setup(&self) -> Setup {
        self.machine.setup(self.seed)
    }

    /// The number of tasks.
    #[must_use]
    pub fn tasks(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.count)).sum()
    }

    /// The tasks of each group, by id.
    pub fn ids(&self) -> impl Iterator<Item = std::ops::Range<u32>> {
        let mut first = 0;
        self.groups.iter().map(move |group| {
            let range = first..first + group.count;
            first = range.end;
            range
        })
    }

    /// The name of `task`.
    #[must_use]
    pub fn name(&self, task: TaskId) -> String {
        for (group, ids) in self.groups.iter().zip(self.ids()) {
            if ids.contains(&task.0) {
                return group.task_name(task.0 - ids.start);
            }
        }
        format!("{task:?}")
    }

    /// Checks that it can be simulated.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        self.machine.check()?;
        self.cgroups.check()?;
        if self.duration_ns == 0 || self.duration_ns > LONGEST_NS {
            let given = format_duration(self.duration_ns);
            return Err(format!("a duration of {given} is not possible: give 1ns to {LONGEST_H}h"));
        }
        let tasks = self.tasks();
        if tasks == 0 {
            return Err("there is no task: give at least one, with a count of 1 or more".into());
        }
        if tasks > MAX_TASKS {
            let gigabytes = tasks / 5_000_000;
            return Err(format!(
                "{tasks} tasks would need about {gigabytes} GB: give at most {MAX_TASKS}"
            ));
        }
        let slots: u64 =
            self.groups.iter().map(|g| u64::from(g.count) * u64::from(g.program.slots)).sum();
        if slots > 8 * MAX_TASKS {
            return Err(format!(
                "{slots} loop counts and timers in all: give fewer tasks that have some, at most {}",
                8 * MAX_TASKS
            ));
        }
        Ok(())
    }
}

impl Group {
    /// The name of its task number `index`.
    #[must_use]
    pub fn task_name(&self, index: u32) -> String {
        match self.count {
            1 => self.name.clone(),
            _ => format!("{}/{index}", self.name),
        }
    }
}

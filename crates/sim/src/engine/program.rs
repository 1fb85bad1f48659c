//! Goes through programs, step by step.

use prorata::hierarchy::NodeId;
use prorata::{Nanos, TaskId, Weight};

use crate::machine::Machine;
use crate::random::Random;
use crate::workload::{Missed, Op, Program, Workload};

/// What a step of a program comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Go on with the next step.
    Next,
    /// Use a cpu; `Nanos::MAX`: for ever.
    Run(Nanos),
    SleepUntil(Nanos),
    /// Go on: a timer fired before the program came back to it.
    Late {
        /// When it last did.
        fired_ns: Nanos,
        /// How often it did before that, in vain.
        missed: u64,
    },
    SetWeight(Weight),
    Join(NodeId),
    SetCgroupWeight(NodeId, Weight),
    Wait(u32),
    Post(u32),
    PostAll(u32),
    Yield,
    Exit,
}

/// Takes the step `next_op` of `program` at `now_ns`. `slots` are the task's own.
#[inline]
pub(super) fn step(
    program: &Program,
    next_op: &mut u32,
    random: &mut Random,
    slots: &mut [Nanos],
    now_ns: Nanos,
    machine: &Machine,
) -> Act {
    let op = program.ops.get(*next_op as usize).copied().unwrap_or(Op::Exit);
    *next_op += 1;
    match op {
        Op::Run(length) => match length.draw(random) {
            0 => Act::Next,
            length_ns => Act::Run(length_ns),
        },
        Op::Sleep(length) => match length.draw(random) {
            0 => Act::Next,
            length_ns => {
                let at_ns = now_ns.saturating_add(length_ns).min(Nanos::MAX / 2);
                Act::SleepUntil(machine.tick_from(at_ns))
            }
        },
        Op::Every { period_ns, slot, missed } => {
            timer(&mut slots[slot as usize], period_ns, missed, now_ns, machine)
        }
        Op::Repeat { slot, times, to } => {
            let count = &mut slots[slot as usize];
            *count += 1;
            if *count < times {
                *next_op = to;
            } else {
                *count = 0;
            }
            Act::Next
        }
        Op::Goto { to } => {
            *next_op = to;
            Act::Next
        }
        Op::SetWeight(weight) => Act::SetWeight(weight),
        Op::Join(node) => Act::Join(node),
        Op::SetCgroupWeight(node, weight) => Act::SetCgroupWeight(node, weight),
        Op::Wait(resource) => Act::Wait(resource),
        Op::Post(resource) => Act::Post(resource),
        Op::PostAll(resource) => Act::PostAll(resource),
        Op::Yield => Act::Yield,
        Op::Exit => Act::Exit,
    }
}

/// Waits for the timer that last fired at `release_ns`.
fn timer(
    release_ns: &mut Nanos,
    period_ns: Nanos,
    missed: Missed,
    now_ns: Nanos,
    machine: &Machine,
) -> Act {
    // The first call starts the timer: the period began when the task did.
    if *release_ns == 0 {
        *release_ns = now_ns;
    }
    *release_ns += period_ns;
    if *release_ns > now_ns {
        return Act::SleepUntil(machine.tick_from(*release_ns));
    }
    match missed {
        Missed::CatchUp => Act::Late { fired_ns: *release_ns, missed: 0 },
        Missed::CountFromNow => {
            let missed = (now_ns - *release_ns) / period_ns;
            let fired_ns = *release_ns + missed * period_ns;
            *release_ns = now_ns;
            Act::Late { fired_ns, missed }
        }
    }
}

/// The slots of all programs; those of a group side by side, task by task.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    values: Vec<Nanos>,
    /// By group: its first slot, its first task, and the slots of each.
    groups: Vec<(usize, u32, usize)>,
}

impl Slots {
    /// All 0.
    pub(super) fn new(workload: &Workload) -> Slots {
        let mut slots = Slots::default();
        let mut first = 0;
        for (group, ids) in workload.groups.iter().zip(workload.ids()) {
            let each = group.program.slots as usize;
            slots.groups.push((first, ids.start, each));
            first += ids.len() * each;
        }
        slots.values.resize(first, 0);
        slots
    }

    /// Those of `task` of `group`.
    #[inline]
    pub(super) fn of(&mut self, group: u32, task: TaskId) -> &mut [Nanos] {
        let (first_slot, first_task, each) = self.groups[group as usize];
        let first = first_slot + (task.0 - first_task) as usize * each;
        &mut self.values[first..first + each]
    }
}

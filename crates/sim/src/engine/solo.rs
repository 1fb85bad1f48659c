//! What a task asks for when it runs alone, on a cpu of its own.

use prorata::fluid::Fluid;
use prorata::{Nanos, TaskId};

use super::MAX_STEPS;
use super::program::{Act, Slots, step};
use crate::calendar::Entries;
use crate::random::Random;
use crate::workload::Workload;

/// A task that runs alone, up to the end of its next job.
///
/// A job is what it runs between two sleeps; a timer that has fired before the task came back to it
/// ends a job, too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Solo {
    /// The next job: when it is asked for, and how long it runs.
    at_ns: Nanos,
    pub(super) work_ns: Nanos,
    /// When the task goes on after that job.
    resume_ns: Nanos,
    /// If not 0: how long it then runs first.
    first_ns: Nanos,
    random: Random,
    next_op: u32,
    pub(super) group: u32,
    next_due: u32,
}

/// A task in the calendar is there at the time of its next job.
impl Entries for Vec<Solo> {
    fn get(&self, entry: u32) -> (Nanos, u32) {
        let solo = &self[entry as usize];
        (solo.at_ns, solo.next_due)
    }

    fn set(&mut self, entry: u32, at_ns: Nanos, next: u32) {
        let solo = &mut self[entry as usize];
        (solo.at_ns, solo.next_due) = (at_ns, next);
    }
}

impl Solo {
    /// A task of `group` that begins at `arrival_ns` and draws its lengths from `random`.
    pub(super) fn new(group: u32, random: Random, arrival_ns: Nanos) -> Solo {
        Solo {
            at_ns: arrival_ns,
            work_ns: 0,
            resume_ns: arrival_ns,
            first_ns: 0,
            random,
            next_op: 0,
            group,
            next_due: 0,
        }
    }

    /// When the next job is asked for.
    pub(super) fn at_ns(&self) -> Nanos {
        self.at_ns
    }

    /// Goes on to the next job. False if there is none before the end of `workload`.
    pub(super) fn next_job(
        &mut self,
        task: TaskId,
        workload: &Workload,
        slots: &mut Slots,
    ) -> bool {
        let program = &workload.groups[self.group as usize].program;
        let slots = slots.of(self.group, task);
        self.at_ns = self.resume_ns;
        if program.never_blocks() {
            (self.work_ns, self.resume_ns) = (Fluid::FOREVER, Nanos::MAX);
            return self.at_ns < workload.duration_ns;
        }
        self.work_ns = std::mem::take(&mut self.first_ns);
        let mut now_ns = self.at_ns.saturating_add(self.work_ns);
        let (mut late, mut steps) = (false, 0);
        while now_ns < workload.duration_ns && steps < MAX_STEPS {
            let (next_op, random) = (&mut self.next_op, &mut self.random);
            steps += 1;
            match step(program, next_op, random, slots, now_ns, &workload.machine) {
                Act::Run(length_ns) if late && self.work_ns > 0 => {
                    self.first_ns = length_ns;
                    break;
                }
                Act::Run(length_ns) => {
                    if self.work_ns == 0 {
                        self.at_ns = now_ns;
                    }
                    self.work_ns = self.work_ns.saturating_add(length_ns);
                    now_ns = now_ns.saturating_add(length_ns);
                    (late, steps) = (false, 0);
                }
                Act::SleepUntil(at_ns) => {
                    now_ns = at_ns;
                    (late, steps) = (false, 0);
                    if self.work_ns > 0 {
                        break;
                    }
                }
                Act::Late { .. } => late = true,
                Act::Exit => {
                    now_ns = Nanos::MAX;
                    break;
                }
                _ => {}
            }
        }
        // A program that is stuck is reported if the schedule gets there.
        self.resume_ns = if steps < MAX_STEPS { now_ns } else { Nanos::MAX };
        self.work_ns > 0 && self.at_ns < workload.duration_ns
    }
}

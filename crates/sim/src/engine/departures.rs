//! Tasks that somebody ends, wherever they are in their programs.

use prorata::{Nanos, Policy, TaskId};

use super::{Engine, State};
use crate::observer::{End, Observer};

/// When which task is ended, the next one last.
#[derive(Debug, Default)]
pub(super) struct Departures(Vec<(Nanos, TaskId)>);

impl Departures {
    /// When the next one is; the end of time if there is none.
    pub(super) fn next_ns(&self) -> Nanos {
        self.0.last().map_or(Nanos::MAX, |&(at_ns, _)| at_ns)
    }
}

impl<P: Policy, O: Observer> Engine<'_, P, O> {
    /// Ends each of these tasks at its time, whether it runs or waits; one that has not arrived by then never
    /// does.
    ///
    /// # Errors
    /// When the workload has tasks that block: what they would still ask for has no ideal.
    ///
    /// # Panics
    /// When there is no such task.
    pub fn end_tasks(
        &mut self,
        departures: impl IntoIterator<Item = (Nanos, TaskId)>,
    ) -> Result<(), String> {
        if !self.workload.groups.iter().all(|group| group.program.never_blocks()) {
            return Err("only tasks that never block can be ended from outside".into());
        }
        let mut departures: Vec<_> = departures.into_iter().collect();
        assert!(departures.iter().all(|(_, task)| task.index() < self.tasks.len()), "a task");
        departures.sort_unstable_by(|a, b| b.cmp(a));
        self.departures = Departures(departures);
        Ok(())
    }

    /// All that are due now.
    pub(super) fn depart(&mut self) {
        while self.departures.next_ns() == self.now_ns
            && let Some((_, task)) = self.departures.0.pop()
        {
            match self.tasks[task.index()].state {
                // It is in the calendar, and will find itself gone.
                State::Absent => {
                    let known = &mut self.tasks[task.index()];
                    known.state = State::Exited;
                    self.errors.add(task, self.workload.groups[known.group as usize].weight);
                }
                State::Running => {
                    let running = self.cpus.iter().position(|cpu| cpu.running == task);
                    let cpu = running.expect("it has a cpu");
                    self.advance_work(cpu);
                    self.ends.set(cpu, Nanos::MAX);
                    self.charge(cpu, End::Exited);
                    self.asking.insert(cpu);
                    self.leave(task);
                }
                State::Woken | State::Preempted => {
                    let known = &mut self.tasks[task.index()];
                    known.wait_ns += self.now_ns - known.since_ns;
                    self.leave(task);
                }
                State::Blocked | State::Exited => {}
            }
        }
    }
}

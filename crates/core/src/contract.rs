//! The contract of [`policy`](crate::policy) as a state machine: which calls a caller may make, and which
//! answers a policy may give.
//!
//! A [`Contract`] follows the tasks of one policy through the state diagram. It refuses a step that is no
//! arrow of it with a sentence that names the call and what to do instead, and changes nothing then, so
//! that a caller that cannot be trusted (a program in another language, say) never reaches the policy with
//! a wrong call. [`Checked`](crate::Checked) panics with the same sentences.
//!
//! Every step is O(1).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::policy::{CpuId, Nanos, Setup, TaskId};

/// Where a task is in the state diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Never added, or removed.
    Unknown,
    /// Not runnable.
    Blocked,
    /// Runnable, without a cpu.
    Waiting,
    /// On this cpu.
    Running(CpuId),
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Unknown => f.write_str("unknown"),
            State::Blocked => f.write_str("blocked"),
            State::Waiting => f.write_str("waiting"),
            State::Running(cpu) => write!(f, "running on cpu {cpu}"),
        }
    }
}

/// A step that is no arrow of the diagram: which call, what is wrong, what to do instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misuse(String);

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Misuse {}

macro_rules! misuse {
    ($($message:tt)*) => { Err(Misuse(format!($($message)*))) };
}

/// The state of every task and cpu. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Contract {
    quantum_ns: Nanos,
    now_ns: Nanos,
    tasks: Vec<State>,
    /// By cpu. A task stands here exactly if its state says so.
    running: Vec<Option<TaskId>>,
}

impl Contract {
    /// No task is known, and every cpu idles.
    #[must_use]
    pub fn new(setup: &Setup) -> Contract {
        Contract {
            quantum_ns: setup.quantum_ns,
            now_ns: 0,
            tasks: Vec::new(),
            running: alloc::vec![None; setup.cpus],
        }
    }

    /// The time of the last call.
    #[must_use]
    pub fn now_ns(&self) -> Nanos {
        self.now_ns
    }

    /// Where `task` is.
    #[must_use]
    pub fn state(&self, task: TaskId) -> State {
        self.tasks.get(task.index()).copied().unwrap_or(State::Unknown)
    }

    /// The task that runs on `cpu`; `None` if it idles or does not exist.
    #[must_use]
    pub fn running(&self, cpu: CpuId) -> Option<TaskId> {
        self.running.get(cpu).copied().flatten()
    }

    /// A call to `add`.
    ///
    /// # Errors
    /// When the task is known already, or its id too large.
    pub fn add(&mut self, task: TaskId) -> Result<(), Misuse> {
        if task.0 >= TaskId::LIMIT {
            return misuse!("add({task:?}): ids are indices below {}", TaskId::LIMIT);
        }
        if self.state(task) != State::Unknown {
            return misuse!(
                "add({task:?}): it is known already; remove it first, or take a free id"
            );
        }
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, State::Unknown);
        }
        self.tasks[task.index()] = State::Blocked;
        Ok(())
    }

    /// A call to `remove`; returns where the task was.
    ///
    /// # Errors
    /// When the task is unknown or running, or time goes back.
    pub fn remove(&mut self, task: TaskId, now_ns: Nanos) -> Result<State, Misuse> {
        self.check_time("remove", now_ns)?;
        let state = self.known("remove", task)?;
        if let State::Running(cpu) = state {
            return misuse!("remove({task:?}): it runs on cpu {cpu}; charge it first");
        }
        self.enter(task, State::Unknown, now_ns);
        Ok(state)
    }

    /// A call to `set_weight`; returns where the task is.
    ///
    /// # Errors
    /// When the task is unknown, or time goes back.
    pub fn set_weight(&mut self, task: TaskId, now_ns: Nanos) -> Result<State, Misuse> {
        self.check_time("set_weight", now_ns)?;
        let state = self.known("set_weight", task)?;
        self.now_ns = now_ns;
        Ok(state)
    }

    /// A call to `wake`.
    ///
    /// # Errors
    /// When the task is not blocked, or time goes back.
    pub fn wake(&mut self, task: TaskId, now_ns: Nanos) -> Result<(), Misuse> {
        self.check_time("wake", now_ns)?;
        let state = self.known("wake", task)?;
        if state != State::Blocked {
            return misuse!("wake({task:?}): it is {state}; only a blocked task wakes");
        }
        self.enter(task, State::Waiting, now_ns);
        Ok(())
    }

    /// A call to `block`.
    ///
    /// # Errors
    /// When the task is not waiting, or time goes back.
    pub fn block(&mut self, task: TaskId, now_ns: Nanos) -> Result<(), Misuse> {
        self.check_time("block", now_ns)?;
        let state = self.known("block", task)?;
        if state != State::Waiting {
            return misuse!(
                "block({task:?}): it is {state}; charge a task that runs, then block it"
            );
        }
        self.enter(task, State::Blocked, now_ns);
        Ok(())
    }

    /// A call to `pick`, before the policy answers.
    ///
    /// # Errors
    /// When there is no such cpu, its task was not charged, or time goes back.
    pub fn ask(&mut self, cpu: CpuId, now_ns: Nanos) -> Result<(), Misuse> {
        self.check_time("pick", now_ns)?;
        match self.running.get(cpu) {
            None => misuse!("pick(cpu {cpu}): there are {} cpus, from 0 on", self.running.len()),
            Some(Some(task)) => {
                misuse!("pick(cpu {cpu}): {task:?} runs there, uncharged; charge it first")
            }
            Some(None) => {
                self.now_ns = now_ns;
                Ok(())
            }
        }
    }

    /// The policy's answer to `pick`: `task` runs on `cpu` from now on.
    ///
    /// # Errors
    /// When the task is not waiting.
    pub fn picked(&mut self, cpu: CpuId, task: TaskId) -> Result<(), Misuse> {
        let (state, now_ns) = (self.state(task), self.now_ns);
        if state != State::Waiting {
            return misuse!(
                "pick(cpu {cpu}) at {now_ns} ns returned {task:?}, which is {state}; return a waiting \
                 task, or none"
            );
        }
        self.enter(task, State::Running(cpu), now_ns);
        Ok(())
    }

    /// A call to `charge`; `slice_ns` is asked how long the task was allowed to run, `None` being a
    /// quantum.
    ///
    /// # Errors
    /// When the task does not run or ran for longer than it was allowed to, or time goes back.
    pub fn charge(
        &mut self,
        task: TaskId,
        used_ns: Nanos,
        now_ns: Nanos,
        slice_ns: impl FnOnce() -> Option<Nanos>,
    ) -> Result<(), Misuse> {
        self.check_time("charge", now_ns)?;
        self.check_runs("charge", task)?;
        let slice_ns = slice_ns().unwrap_or(self.quantum_ns);
        if used_ns > slice_ns {
            return misuse!(
                "charge({task:?}): {used_ns} ns is more than its run, {slice_ns} ns; keep the rest for \
                 its next run"
            );
        }
        self.enter(task, State::Waiting, now_ns);
        Ok(())
    }

    /// A call to `interrupt`, before the policy answers.
    ///
    /// # Errors
    /// When time goes back.
    pub fn ask_interrupt(&mut self, now_ns: Nanos) -> Result<(), Misuse> {
        self.check_time("interrupt", now_ns)?;
        self.now_ns = now_ns;
        Ok(())
    }

    /// The policy's answer to `interrupt`.
    ///
    /// # Errors
    /// When the cpu runs nothing.
    pub fn interrupted(&self, cpu: CpuId) -> Result<(), Misuse> {
        match self.running(cpu) {
            Some(_) => Ok(()),
            None => misuse!(
                "interrupt at {} ns returned cpu {cpu}, which runs nothing; return a cpu whose task \
                 shall stop, or none",
                self.now_ns
            ),
        }
    }

    /// A call to `endow` or `retire`.
    ///
    /// # Errors
    /// When the task is not blocked.
    pub fn check_blocked(&self, call: &str, task: TaskId) -> Result<(), Misuse> {
        match self.known(call, task)? {
            State::Blocked => Ok(()),
            state => misuse!("{call}({task:?}): it is {state}; only a blocked task begins or ends"),
        }
    }

    /// A call to `forfeit`.
    ///
    /// # Errors
    /// When the task does not wait.
    pub fn check_waits(&self, call: &str, task: TaskId) -> Result<(), Misuse> {
        match self.known(call, task)? {
            State::Waiting => Ok(()),
            state => misuse!("{call}({task:?}): it is {state}; only who waits has credit to lose"),
        }
    }

    /// A call to `take_credit`.
    ///
    /// # Errors
    /// When the task is unknown.
    pub fn check_known(&self, call: &str, task: TaskId) -> Result<(), Misuse> {
        self.known(call, task).map(drop)
    }

    /// A call to `slice_ns`, before the policy answers.
    ///
    /// # Errors
    /// When the task does not run.
    pub fn ask_slice(&self, task: TaskId) -> Result<(), Misuse> {
        self.check_runs("slice_ns", task)
    }

    /// The policy's answer to `slice_ns`.
    ///
    /// # Errors
    /// When the run would have no length or be longer than a quantum.
    pub fn sliced(&self, task: TaskId, slice_ns: Nanos) -> Result<(), Misuse> {
        let quantum_ns = self.quantum_ns;
        if (1..=quantum_ns).contains(&slice_ns) {
            return Ok(());
        }
        misuse!(
            "{task:?} may run for {slice_ns} ns; allow 1 to {quantum_ns} ns, or none for a quantum"
        )
    }

    fn check_time(&self, call: &str, now_ns: Nanos) -> Result<(), Misuse> {
        let last_ns = self.now_ns;
        if now_ns < last_ns {
            return misuse!(
                "{call} at {now_ns} ns, after a call at {last_ns} ns; time never goes back"
            );
        }
        Ok(())
    }

    fn known(&self, call: &str, task: TaskId) -> Result<State, Misuse> {
        match self.state(task) {
            State::Unknown => {
                misuse!("{call}({task:?}): it was never added, or removed; add it first")
            }
            state => Ok(state),
        }
    }

    /// A call to `lengthen`.
    ///
    /// # Errors
    /// When the task does not run.
    pub fn check_runs(&self, call: &str, task: TaskId) -> Result<(), Misuse> {
        match self.known(call, task)? {
            State::Running(_) => Ok(()),
            state => misuse!("{call}({task:?}): it is {state}; only a task that was picked runs"),
        }
    }

    fn enter(&mut self, task: TaskId, state: State, now_ns: Nanos) {
        if let State::Running(cpu) = self.state(task) {
            self.running[cpu] = None;
        }
        if let State::Running(cpu) = state {
            debug_assert!(self.running[cpu].is_none(), "a cpu runs one task");
            self.running[cpu] = Some(task);
        }
        self.tasks[task.index()] = state;
        self.now_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is refused changes nothing: not the task, not the cpu, not the time.
    #[test]
    fn a_refused_step_leaves_everything_as_it_was() {
        let mut contract = Contract::new(&Setup::new(1, 10));
        let (a, b) = (TaskId(0), TaskId(1));
        contract.add(a).expect("it is new");
        contract.wake(a, 5).expect("it is blocked");
        contract.ask(0, 5).expect("the cpu idles");
        contract.picked(0, a).expect("it waits");
        let refused = [
            contract.add(a),
            contract.add(TaskId(TaskId::LIMIT)),
            contract.remove(a, 20).map(drop),
            contract.set_weight(b, 20).map(drop),
            contract.wake(a, 20),
            contract.block(a, 20),
            contract.ask(0, 20),
            contract.ask(1, 20),
            contract.charge(a, 11, 20, || None),
            contract.charge(a, 4, 20, || Some(3)),
            contract.charge(b, 1, 20, || None),
            contract.charge(a, 1, 4, || None),
            contract.check_blocked("endow", a),
            contract.check_known("take_credit", b),
            contract.ask_interrupt(4),
            contract.interrupted(1),
            contract.ask_slice(b),
            contract.sliced(a, 0),
            contract.sliced(a, 11),
        ];
        for step in refused {
            assert!(step.is_err());
            let seen = (contract.state(a), contract.running(0), contract.now_ns());
            assert_eq!(seen, (State::Running(0), Some(a), 5));
        }
        contract.charge(a, 10, 15, || None).expect("a whole quantum");
        assert_eq!(contract.remove(a, 15), Ok(State::Waiting));
        assert_eq!(contract.state(a), State::Unknown);
    }
}

//! A policy that watches another policy: every call against the contract of [`policy`](crate::policy),
//! every answer against what holds for any policy.
//!
//! It panics, naming the call, when
//!
//! * the *caller* makes a call that is not an arrow of the state diagram, names an unknown task or
//!   cpu, lets time go back, or charges more than the run that the policy allowed;
//! * the *policy* picks a task that is not waiting (so no task is ever on two cpus), interrupts a
//!   cpu that runs nothing, allows a run of no length or of more than a quantum, idles every free cpu
//!   while a task waits although it is registered as work-conserving, or leaves a waiting
//!   task without service longer than [`Checked::patience_quanta`] allows.
//!
//! Every check is O(1), so the wrapper can stay on in long simulations.

use alloc::vec::Vec;
use core::fmt::Display;

use crate::contract::{Contract, State};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};

#[derive(Clone, Copy, Debug, Default)]
struct Record {
    weight: u64,
    /// `Checked::clock` when the task began to wait, or when `owed` was last brought up to date.
    since: u128,
    /// Service that fell due while the task waited, in ns · 2^32.
    owed: u128,
    /// When it came into its state: no more than the time since can fall due on one cpu.
    since_ns: Nanos,
}

/// A policy under watch. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Checked<P> {
    policy: P,
    contract: Contract,
    quantum_ns: Nanos,
    work_conserving: bool,
    /// Most service, in ns · 2^32, that may fall due to a task while it waits.
    patience: Option<u128>,
    tasks: Vec<Record>,
    /// By cpu: `changes` when it last asked in vain while a task waited.
    refusals: Vec<Option<u64>>,
    waiting: usize,
    idle: usize,
    /// Idle cpus that were refused since the last change; at most `idle`.
    refused: usize,
    /// Counts the calls after which a cpu that was refused may get an answer.
    changes: u64,
    /// Sum of the weights of the waiting and running tasks.
    runnable_weight: u64,
    /// Service per unit of weight handed out so far, in ns · 2^32.
    clock: u128,
    /// The task that the next pick looks at for starvation.
    patrol: usize,
}

fn caller<T>(step: Result<T, impl Display>) -> T {
    step.unwrap_or_else(|misuse| panic!("caller: {misuse}"))
}

fn policy<T>(step: Result<T, impl Display>) -> T {
    step.unwrap_or_else(|misuse| panic!("policy: {misuse}"))
}

impl<P: Policy> Checked<P> {
    /// Watches `policy`, built for `setup`: its contract and work conservation.
    #[must_use]
    pub fn new(policy: P, setup: &Setup) -> Checked<P> {
        Checked {
            policy,
            contract: Contract::new(setup),
            quantum_ns: setup.quantum_ns,
            work_conserving: true,
            patience: None,
            tasks: Vec::new(),
            refusals: alloc::vec![None; setup.cpus],
            waiting: 0,
            idle: setup.cpus,
            refused: 0,
            changes: 0,
            runnable_weight: 0,
            clock: 0,
            patrol: 0,
        }
    }

    /// Tells whether a cpu may idle while a task waits; by default it may not.
    #[must_use]
    pub fn work_conserving(self, yes: bool) -> Checked<P> {
        Checked { work_conserving: yes, ..self }
    }

    /// No task may wait while more than `quanta` of service fall due to it (its weight's part of
    /// all that is handed out). By default any finite wait is allowed.
    #[must_use]
    pub fn patience_quanta(self, quanta: u32) -> Checked<P> {
        let patience = Some((u128::from(quanta) * u128::from(self.quantum_ns)) << 32);
        Checked { patience, ..self }
    }

    /// The watched policy.
    #[must_use]
    pub fn into_inner(self) -> P {
        self.policy
    }

    /// The task that runs on `cpu`.
    #[must_use]
    pub fn running(&self, cpu: CpuId) -> Option<TaskId> {
        self.contract.running(cpu)
    }

    /// Time is about to reach `now_ns`; what the policy did at the instant before must be complete.
    fn check_instant(&self, now_ns: Nanos, call: &str) {
        let last_ns = self.contract.now_ns();
        if now_ns > last_ns && self.work_conserving && self.waiting > 0 {
            assert!(
                self.idle == 0 || self.refused < self.idle,
                "policy: every idle cpu ({} of them) asked at {last_ns} ns and got nothing, while \
                 {} tasks wait until {call} at {now_ns} ns",
                self.idle,
                self.waiting,
            );
        }
    }

    /// `task` moves along an arrow; a cpu that was refused before may get an answer from now on.
    fn follow(&mut self, task: TaskId, from: State, to: State) {
        self.settle(task, from);
        let weight = self.tasks[task.index()].weight;
        match from {
            State::Waiting => self.waiting -= 1,
            State::Running(_) => self.idle += 1,
            State::Blocked | State::Unknown => self.runnable_weight += weight,
        }
        match to {
            State::Waiting => self.waiting += 1,
            State::Running(cpu) => {
                let refusal = self.refusals[cpu].take();
                self.refused -= usize::from(refusal == Some(self.changes));
                self.idle -= 1;
            }
            State::Blocked | State::Unknown => self.runnable_weight -= weight,
        }
        if !matches!(to, State::Running(_)) {
            self.note_change();
        }
        let record = &mut self.tasks[task.index()];
        record.owed = 0;
        record.since_ns = self.contract.now_ns();
    }

    fn note_change(&mut self) {
        self.changes += 1;
        self.refused = 0;
    }

    /// Brings what falls due to `task`, which was in `state` until now, up to date.
    fn settle(&mut self, task: TaskId, state: State) {
        let clock = self.clock;
        let record = &mut self.tasks[task.index()];
        if state == State::Waiting {
            record.owed += u128::from(record.weight) * (clock - record.since);
        }
        record.since = clock;
    }

    /// Panics if `task` has waited beyond all patience.
    fn check_patience(&mut self, task: TaskId) {
        let Some(patience) = self.patience else { return };
        let state = self.contract.state(task);
        if state != State::Waiting {
            return;
        }
        self.settle(task, state);
        let (record, now_ns) = (self.tasks[task.index()], self.contract.now_ns());
        let owed = record.owed.min(u128::from(now_ns - record.since_ns) << 32);
        assert!(
            owed <= patience,
            "policy: pick at {now_ns} ns: {task:?} of weight {} waits while {} ns fell due to it",
            record.weight,
            owed >> 32,
        );
    }

    fn take_pick(&mut self, cpu: CpuId, task: TaskId) {
        self.check_patience(task);
        policy(self.contract.picked(cpu, task));
        self.follow(task, State::Waiting, State::Running(cpu));
    }

    fn take_refusal(&mut self, cpu: CpuId) {
        if self.waiting > 0 && self.refusals[cpu] != Some(self.changes) {
            self.refusals[cpu] = Some(self.changes);
            self.refused += 1;
        }
    }
}

impl<P: Policy> Policy for Checked<P> {
    fn add(&mut self, task: TaskId, weight: Weight) {
        caller(self.contract.add(task));
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, Record::default());
        }
        self.tasks[task.index()] = Record { weight: u64::from(weight.get()), ..Record::default() };
        self.policy.add(task, weight);
    }

    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        self.check_instant(now_ns, "remove");
        if caller(self.contract.remove(task, now_ns)) == State::Waiting {
            self.follow(task, State::Waiting, State::Unknown);
        }
        self.policy.remove(task, now_ns);
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, now_ns: Nanos) {
        self.check_instant(now_ns, "set_weight");
        let state = caller(self.contract.set_weight(task, now_ns));
        self.settle(task, state);
        let record = &mut self.tasks[task.index()];
        let old = core::mem::replace(&mut record.weight, u64::from(weight.get()));
        if matches!(state, State::Waiting | State::Running(_)) {
            self.runnable_weight = self.runnable_weight - old + u64::from(weight.get());
        }
        self.note_change();
        self.policy.set_weight(task, weight, now_ns);
    }

    fn wake(&mut self, task: TaskId, now_ns: Nanos) {
        self.check_instant(now_ns, "wake");
        caller(self.contract.wake(task, now_ns));
        self.follow(task, State::Blocked, State::Waiting);
        self.policy.wake(task, now_ns);
    }

    fn block(&mut self, task: TaskId, now_ns: Nanos) {
        self.check_instant(now_ns, "block");
        caller(self.contract.block(task, now_ns));
        self.follow(task, State::Waiting, State::Blocked);
        self.policy.block(task, now_ns);
    }

    fn stand_aside(&mut self, task: TaskId, now_ns: Nanos) {
        self.check_instant(now_ns, "stand_aside");
        caller(self.contract.block(task, now_ns));
        self.follow(task, State::Waiting, State::Blocked);
        self.policy.stand_aside(task, now_ns);
    }

    fn pick(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        self.check_instant(now_ns, "pick");
        caller(self.contract.ask(cpu, now_ns));
        let picked = self.policy.pick(cpu, now_ns);
        match picked {
            Some(task) => self.take_pick(cpu, task),
            None => self.take_refusal(cpu),
        }
        if !self.tasks.is_empty() {
            self.patrol = (self.patrol + 1) % self.tasks.len();
            let patrolled = u32::try_from(self.patrol).expect("ids are below TaskId::LIMIT");
            self.check_patience(TaskId(patrolled));
        }
        picked
    }

    fn ran(&mut self, task: TaskId, ran_ns: Nanos) {
        self.policy.ran(task, ran_ns);
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        self.check_instant(now_ns, "charge");
        let state = self.contract.state(task);
        caller(self.contract.charge(task, used_ns, now_ns, || self.policy.slice_ns(task)));
        self.clock += (u128::from(used_ns) << 32) / u128::from(self.runnable_weight);
        self.follow(task, state, State::Waiting);
        self.policy.charge(task, used_ns, now_ns);
    }

    fn interrupt(&mut self, now_ns: Nanos) -> Option<CpuId> {
        self.check_instant(now_ns, "interrupt");
        caller(self.contract.ask_interrupt(now_ns));
        let cpu = self.policy.interrupt(now_ns)?;
        policy(self.contract.interrupted(cpu));
        Some(cpu)
    }

    fn endow(&mut self, task: TaskId, advance_ns: Nanos) {
        caller(self.contract.check_blocked("endow", task));
        self.policy.endow(task, advance_ns);
    }

    fn bequeath(&mut self, task: TaskId, heirs: &[TaskId], now_ns: Nanos) {
        self.policy.bequeath(task, heirs, now_ns);
    }

    fn take_credit(&mut self, task: TaskId, most_ns: Nanos) -> Nanos {
        caller(self.contract.check_known("take_credit", task));
        self.policy.take_credit(task, most_ns)
    }

    fn forfeit(&mut self, task: TaskId, now_ns: Nanos) -> Nanos {
        self.check_instant(now_ns, "forfeit");
        caller(self.contract.check_waits("forfeit", task));
        self.policy.forfeit(task, now_ns)
    }

    fn retire(&mut self, task: TaskId, now_ns: Nanos) -> i64 {
        self.check_instant(now_ns, "retire");
        caller(self.contract.check_blocked("retire", task));
        self.policy.retire(task, now_ns)
    }

    fn take_lapsed(&mut self, task: TaskId) -> Nanos {
        caller(self.contract.check_known("take_lapsed", task));
        self.policy.take_lapsed(task)
    }

    fn keep(&mut self, task: TaskId, kept: bool) {
        caller(self.contract.check_blocked("keep", task));
        self.policy.keep(task, kept);
    }

    fn lengthen(&mut self, task: TaskId, used_ns: Nanos, most_ns: Nanos) -> Option<Nanos> {
        caller(self.contract.check_runs("lengthen", task));
        self.policy.lengthen(task, used_ns, most_ns)
    }

    fn pass(&mut self, now_ns: Nanos) {
        self.check_instant(now_ns, "pass");
        self.policy.pass(now_ns);
    }

    fn serves(&self, task: TaskId) -> Option<bool> {
        self.policy.serves(task)
    }

    fn slice_ns(&self, task: TaskId) -> Option<Nanos> {
        let slice_ns = self.policy.slice_ns(task)?;
        policy(self.contract.sliced(task, slice_ns));
        Some(slice_ns)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::policies::round_robin::RoundRobin;
    use alloc::vec;

    const Q: Nanos = 10;
    const ONE: Weight = Weight::ONE;

    fn watched(cpus: usize, tasks: u32) -> Checked<RoundRobin> {
        let setup = Setup::new(cpus, Q);
        let mut policy = Checked::new(RoundRobin::new(&setup), &setup);
        for id in 0..tasks {
            policy.add(TaskId(id), ONE);
            policy.wake(TaskId(id), 0);
        }
        policy
    }

    #[test]
    fn lets_a_legal_sequence_through() {
        let mut policy = watched(2, 3).patience_quanta(2);
        for now_ns in (0..200).step_by(10) {
            let running = [policy.pick(0, now_ns), policy.pick(1, now_ns)];
            policy.set_weight(TaskId(1), Weight::MAX, now_ns + 1);
            for task in running.into_iter().flatten() {
                policy.charge(task, Q, now_ns + Q);
            }
        }
        policy.block(TaskId(0), 200);
        policy.remove(TaskId(0), 200);
        policy.remove(TaskId(1), 200);
        policy.add(TaskId(0), ONE);
    }

    #[test]
    #[should_panic = "caller: wake(task 1): it is waiting"]
    fn refuses_to_wake_a_waiting_task() {
        watched(1, 2).wake(TaskId(1), 0);
    }

    #[test]
    #[should_panic = "caller: block(task 0): it is running on cpu 0"]
    fn refuses_to_block_a_running_task() {
        let mut policy = watched(1, 1);
        policy.pick(0, 0);
        policy.block(TaskId(0), 5);
    }

    #[test]
    #[should_panic = "caller: remove(task 0): it runs on cpu 0"]
    fn refuses_to_remove_a_running_task() {
        let mut policy = watched(1, 1);
        policy.pick(0, 0);
        policy.remove(TaskId(0), 5);
    }

    #[test]
    #[should_panic = "caller: charge(task 7): it was never added"]
    fn refuses_an_unknown_task() {
        watched(1, 1).charge(TaskId(7), 1, 1);
    }

    #[test]
    #[should_panic = "caller: add(task 0): it is known already"]
    fn refuses_to_add_twice() {
        watched(1, 1).add(TaskId(0), ONE);
    }

    #[test]
    #[should_panic = "is more than its run"]
    fn refuses_more_than_a_quantum() {
        let mut policy = watched(1, 1);
        policy.pick(0, 0);
        policy.charge(TaskId(0), Q + 1, 11);
    }

    #[test]
    #[should_panic = "caller: pick at 4 ns, after a call at 5 ns"]
    fn refuses_time_that_goes_back() {
        let mut policy = watched(2, 1);
        policy.pick(0, 5);
        policy.pick(1, 4);
    }

    #[test]
    #[should_panic = "uncharged"]
    fn refuses_to_pick_for_a_busy_cpu() {
        let mut policy = watched(1, 2);
        policy.pick(0, 0);
        policy.pick(0, 0);
    }

    /// Answers from a list, whatever it is asked.
    pub(crate) struct Scripted(pub(crate) Vec<Option<TaskId>>);

    impl Policy for Scripted {
        fn add(&mut self, _: TaskId, _: Weight) {}
        fn remove(&mut self, _: TaskId, _: Nanos) {}
        fn set_weight(&mut self, _: TaskId, _: Weight, _: Nanos) {}
        fn wake(&mut self, _: TaskId, _: Nanos) {}
        fn block(&mut self, _: TaskId, _: Nanos) {}
        fn pick(&mut self, _: CpuId, _: Nanos) -> Option<TaskId> {
            self.0.remove(0)
        }
        fn charge(&mut self, _: TaskId, _: Nanos, _: Nanos) {}
    }

    fn scripted(cpus: usize, answers: Vec<Option<TaskId>>) -> Checked<Scripted> {
        let mut policy = Checked::new(Scripted(answers), &Setup::new(cpus, Q));
        for id in 0..2 {
            policy.add(TaskId(id), ONE);
            policy.wake(TaskId(id), 0);
        }
        policy
    }

    #[test]
    #[should_panic = "policy: pick(cpu 1) at 0 ns returned task 1, which is running on cpu 0"]
    fn catches_a_task_on_two_cpus() {
        let mut policy = scripted(2, vec![Some(TaskId(1)), Some(TaskId(1))]);
        policy.pick(0, 0);
        policy.pick(1, 0);
    }

    #[test]
    #[should_panic = "policy: every idle cpu (1 of them) asked at 0 ns and got nothing"]
    fn catches_an_idle_cpu_beside_a_waiting_task() {
        let mut policy = scripted(2, vec![Some(TaskId(0)), None]);
        policy.pick(0, 0);
        policy.pick(1, 0);
        policy.charge(TaskId(0), Q, Q);
    }

    #[test]
    fn a_cpu_that_did_not_ask_again_is_the_callers_business() {
        let mut policy = scripted(2, vec![Some(TaskId(0)), None, Some(TaskId(1))]);
        policy.pick(0, 0);
        policy.pick(1, 0);
        policy.set_weight(TaskId(1), Weight::MAX, 0);
        policy.charge(TaskId(0), Q, Q);
        assert_eq!(policy.pick(1, Q), Some(TaskId(1)));
        assert_eq!(policy.running(1), Some(TaskId(1)));
    }

    #[test]
    #[should_panic = "task 1 of weight 1 waits while 50 ns fell due to it"]
    fn catches_starvation() {
        let mut policy = scripted(1, vec![Some(TaskId(0)); 20]).patience_quanta(4);
        for now_ns in (0..200).step_by(10) {
            let task = policy.pick(0, now_ns).expect("the script picks");
            policy.charge(task, Q, now_ns + Q);
        }
    }
}

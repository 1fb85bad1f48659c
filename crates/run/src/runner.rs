//! The scheduler loop: drives a policy and a backend, and keeps the accounts.
//!
//! One call of [`Runner::step`] sleeps until something is due and then goes through four stages:
//! turns that are over are charged, blocked tasks that want a cpu again are woken, free cpus are
//! given out by the policy, and at last the tasks are really stopped and continued.

use std::io;

use prorata::{CpuId, Nanos, Policy, Setup, TaskId, Weight};

use crate::backend::{Activity, Backend, Wakeup};
use crate::entitlement::Entitlement;
use crate::ledger::Ledger;

/// Turns that end within this part of a quantum end together: one wake-up instead of two.
const SLACK_PART: Nanos = 100;
/// A task that is owed less than this part of a quantum is charged without a run.
const LEAST_RUN_PART: Nanos = 20;
/// However much a task is owed, it runs at most so many quanta at a stretch.
const LONGEST_RUN_QUANTA: Nanos = 4;
/// A turn ends with a scheduler tick up to this part of a quantum earlier or later: the cpu is
/// interrupted then anyway, and a timer of its own costs as much as the rest of the wake-up. The
/// ledger keeps account of the difference.
const TICK_PART: Nanos = 5;
/// Blocked tasks are looked at so many times a quantum, or with the next tick if that is at most
/// a quantum after the last look, or twice as often if the loop is awake.
const LOOKS_PER_QUANTUM: Nanos = 2;
/// A blocked task that used more than this part of a quantum has to queue for more.
const BURST_PART: Nanos = 50;
/// How often the backend does its housekeeping.
const TEND_NS: Nanos = 250_000_000;
/// If it comes so late, prorata was stopped.
const ABSENT_NS: Nanos = 1_000_000_000;
/// After the first false alarm of a turn its cpu is not watched for this part of a quantum, after
/// each further one for twice as long, up to the second part.
const FIRST_PAUSE_PART: Nanos = 64;
const LONGEST_PAUSE_PART: Nanos = 8;
/// A task that did not block for so many turns is taken for a hog, and its cpu is not watched: if
/// it blocks after all, that is seen when its turn would end. On average half a quantum is lost
/// then, after so many quanta; an alarm in every turn would cost as much as the switch itself.
const HOG_TURNS: u32 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It sleeps, and is not stopped.
    Blocked,
    /// It wants a cpu; it is stopped, or will be at the end of this step.
    Waiting,
    /// It has a turn.
    Running,
    Gone,
}

#[derive(Debug)]
struct Task {
    state: State,
    /// The backend was told to stop it, and not since to continue it.
    stopped: bool,
    /// Where the backend was told to place it.
    placed: Option<CpuId>,
    ledger: Ledger,
    /// Turns since it last blocked.
    turns_since_block: u32,
}

/// A task on a cpu.
#[derive(Clone, Copy, Debug)]
struct Turn {
    task: TaskId,
    since_ns: Nanos,
    ends_ns: Nanos,
    /// The ledger's figure at `since_ns`.
    used_before_ns: Nanos,
    false_alarms: u32,
}

/// A task's part of the run so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// CPU time that it received.
    pub used_ns: Nanos,
    /// CPU time that the ideal would have given it.
    pub ideal_ns: Nanos,
    /// Its least service error, in quanta.
    pub error_min_quanta: f64,
    /// Its greatest service error, in quanta.
    pub error_max_quanta: f64,
    /// It has ended.
    pub gone: bool,
}

/// A policy that schedules the tasks of a backend.
pub struct Runner<B> {
    backend: B,
    policy: Box<dyn Policy + Send>,
    quantum_ns: Nanos,
    /// Not 0.
    tick_ns: Nanos,
    /// Indexed by task id.
    tasks: Vec<Task>,
    /// Indexed by cpu.
    turns: Vec<Option<Turn>>,
    entitlement: Entitlement,
    /// Of all ledgers.
    used_total_ns: Nanos,
    blocked_count: usize,
    looked_ns: Nanos,
    /// When to look again if nothing else happens before.
    look_due_ns: Nanos,
    tended_ns: Nanos,
    /// Until then the guardian may still believe that prorata is stopped.
    doubtful_until_ns: Nanos,
    /// The turns that this step began.
    begun: Vec<CpuId>,
}

impl<B: Backend> Runner<B> {
    /// Tasks 0, 1, … of `backend` with `weights`: all of them stopped, and taken for runnable.
    ///
    /// # Panics
    /// When there are more tasks than [`TaskId::LIMIT`].
    pub fn new(
        mut backend: B,
        mut policy: Box<dyn Policy + Send>,
        setup: &Setup,
        weights: &[Weight],
    ) -> Runner<B> {
        let count = u32::try_from(weights.len()).expect("fewer than 2^32 tasks");
        assert!(count < TaskId::LIMIT, "{count} tasks are too many");
        let now_ns = backend.now_ns();
        let mut entitlement = Entitlement::new(setup.cpus, weights);
        for (id, &weight) in (0..count).zip(weights) {
            policy.add(TaskId(id), weight);
            policy.wake(TaskId(id), now_ns);
            entitlement.wake(TaskId(id));
        }
        let task = || Task {
            state: State::Waiting,
            stopped: true,
            placed: None,
            ledger: Ledger::default(),
            turns_since_block: 0,
        };
        Runner {
            tick_ns: backend.tick_ns().max(1),
            backend,
            policy,
            quantum_ns: setup.quantum_ns,
            tasks: weights.iter().map(|_| task()).collect(),
            turns: vec![None; setup.cpus],
            entitlement,
            used_total_ns: 0,
            blocked_count: 0,
            looked_ns: now_ns,
            look_due_ns: now_ns,
            tended_ns: now_ns,
            doubtful_until_ns: 0,
            begun: Vec::with_capacity(setup.cpus),
        }
    }

    /// Gives out the cpus for the first time; to be called before the first [`step`](Self::step).
    ///
    /// # Errors
    /// When the backend fails.
    pub fn start(&mut self) -> io::Result<()> {
        let now_ns = self.backend.now_ns();
        self.give_out_cpus(now_ns)?;
        self.apply()
    }

    /// True when every task has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.tasks.iter().all(|task| task.state == State::Gone)
    }

    /// The backend.
    pub fn backend(&mut self) -> &mut B {
        &mut self.backend
    }

    /// Gives the backend back.
    pub fn into_backend(self) -> B {
        self.backend
    }

    /// Sleeps until something is due, at the latest at `until_ns`, and does it. Returns true if
    /// the user asked to stop.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn step(&mut self, until_ns: Nanos) -> io::Result<bool> {
        let wakeup = self.backend.wait(self.due_ns().min(until_ns))?;
        let now_ns = self.backend.now_ns();
        if now_ns > self.tended_ns + ABSENT_NS {
            self.settle_turns(now_ns)?;
            self.doubtful_until_ns = now_ns + ABSENT_NS;
        }
        self.end_turns(&wakeup, now_ns)?;
        self.look_at_blocked(now_ns)?;
        self.give_out_cpus(now_ns)?;
        self.apply()?;
        if now_ns >= self.tended_ns + TEND_NS {
            self.tended_ns = now_ns;
            self.backend.tend()?;
            if now_ns < self.doubtful_until_ns {
                self.hold_again()?;
            }
        }
        Ok(wakeup.interrupted)
    }

    /// Brings the accounts up to date, every task being charged for what it used.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn finish(&mut self) -> io::Result<()> {
        for task in self.task_ids() {
            let used_ns = self.backend.usage_ns(task)?;
            self.set_used(task, used_ns);
        }
        self.entitlement.advance(self.used_total_ns);
        for task in self.task_ids() {
            self.entitlement.count(task, self.tasks[task.index()].ledger.used_ns());
        }
        self.entitlement.finish();
        Ok(())
    }

    /// What became of `task` so far.
    pub fn progress(&mut self, task: TaskId) -> Progress {
        let error = self.entitlement.error_quanta(task, self.quantum_ns);
        let known = &self.tasks[task.index()];
        Progress {
            used_ns: known.ledger.used_ns(),
            ideal_ns: self.entitlement.ideal_ns(task),
            error_min_quanta: error.min,
            error_max_quanta: error.max,
            gone: known.state == State::Gone,
        }
    }

    /// The ids of all tasks.
    pub fn task_ids(&self) -> impl Iterator<Item = TaskId> + use<B> {
        let count = u32::try_from(self.tasks.len()).expect("checked in new");
        (0..count).map(TaskId)
    }

    /// What running tasks used is read: too much time has passed for an estimate.
    fn settle_turns(&mut self, now_ns: Nanos) -> io::Result<()> {
        for cpu in 0..self.turns.len() {
            if let Some(turn) = self.turns[cpu] {
                let used_ns = self.backend.usage_ns(turn.task)?;
                self.set_used(turn.task, used_ns);
                let turn = Turn { since_ns: now_ns, used_before_ns: used_ns, ..turn };
                self.turns[cpu] = Some(turn);
            }
        }
        Ok(())
    }

    /// Prorata itself was stopped, and its guardian has set everything free meanwhile.
    fn hold_again(&mut self) -> io::Result<()> {
        for task in self.task_ids() {
            if self.tasks[task.index()].stopped {
                self.backend.stop(task)?;
            }
            // The guardian has let it use all its cpus.
            self.tasks[task.index()].placed = None;
        }
        Ok(())
    }

    /// The next time at which something has to be done.
    fn due_ns(&self) -> Nanos {
        let turns = self.turns.iter().flatten().map(|turn| turn.ends_ns).min();
        let look_ns = if self.blocked_count > 0 { self.look_due_ns } else { Nanos::MAX };
        turns.unwrap_or(Nanos::MAX).min(look_ns).min(self.tended_ns + TEND_NS)
    }

    fn end_turns(&mut self, wakeup: &Wakeup, now_ns: Nanos) -> io::Result<()> {
        self.advance_ideal(now_ns);
        for cpu in 0..self.turns.len() {
            let Some(turn) = self.turns[cpu] else { continue };
            if now_ns + self.quantum_ns / SLACK_PART >= turn.ends_ns {
                self.end_at_timer(cpu, turn, now_ns)?;
            } else if wakeup.idle.contains(&cpu) {
                match self.backend.activity(turn.task)? {
                    Activity::Runnable => self.false_alarm(cpu),
                    Activity::Blocked => self.end_by_block(cpu, turn.task, now_ns)?,
                    Activity::Gone => self.end_by_exit(cpu, turn.task, now_ns)?,
                }
            }
        }
        Ok(())
    }

    /// The cpu seemed idle, but the task is runnable.
    fn false_alarm(&mut self, cpu: CpuId) {
        let turn = self.turns[cpu].as_mut().expect("the caller saw it");
        let longest_ns = self.quantum_ns / LONGEST_PAUSE_PART;
        let pause_ns = longest_ns.min((self.quantum_ns / FIRST_PAUSE_PART) << turn.false_alarms);
        // Far fewer than 64: each takes time, and a turn ends.
        turn.false_alarms = (turn.false_alarms + 1).min(8);
        self.watch(cpu, pause_ns);
    }

    fn watch(&mut self, cpu: CpuId, after_ns: Nanos) {
        let turn = self.turns[cpu].expect("a cpu is watched for its task");
        if self.tasks[turn.task.index()].turns_since_block < HOG_TURNS {
            self.backend.watch(cpu, after_ns);
        }
    }

    fn end_at_timer(&mut self, cpu: CpuId, turn: Turn, now_ns: Nanos) -> io::Result<()> {
        let read_ns = self.backend.usage_ns(turn.task)?;
        let expected_ns = turn.used_before_ns + (now_ns - turn.since_ns);
        let fresh_ns = read_ns + self.tick_ns;
        // It had the cpu for less than it could have: because others took it, or it sleeps.
        if fresh_ns + self.quantum_ns / LEAST_RUN_PART < expected_ns {
            match self.backend.activity(turn.task)? {
                Activity::Runnable => {}
                Activity::Blocked => return self.end_by_block(cpu, turn.task, now_ns),
                Activity::Gone => return self.end_by_exit(cpu, turn.task, now_ns),
            }
        }
        self.set_used(turn.task, expected_ns.clamp(read_ns, fresh_ns));
        let task = &mut self.tasks[turn.task.index()];
        task.turns_since_block = task.turns_since_block.saturating_add(1);
        let charge_ns = task.ledger.charge_quantum(self.quantum_ns);
        self.end_turn(cpu, turn.task, charge_ns, now_ns);
        Ok(())
    }

    fn end_by_block(&mut self, cpu: CpuId, task: TaskId, now_ns: Nanos) -> io::Result<()> {
        self.leave_cpu(cpu, task, now_ns)?;
        self.policy.block(task, now_ns);
        self.entitlement.block(task);
        let task = &mut self.tasks[task.index()];
        task.state = State::Blocked;
        task.turns_since_block = 0;
        self.blocked_count += 1;
        Ok(())
    }

    fn end_by_exit(&mut self, cpu: CpuId, task: TaskId, now_ns: Nanos) -> io::Result<()> {
        self.leave_cpu(cpu, task, now_ns)?;
        self.policy.remove(task, now_ns);
        self.entitlement.block(task);
        self.tasks[task.index()].state = State::Gone;
        Ok(())
    }

    /// The task does not run any more, of its own accord: the reading is exact.
    fn leave_cpu(&mut self, cpu: CpuId, task: TaskId, now_ns: Nanos) -> io::Result<()> {
        let used_ns = self.backend.usage_ns(task)?;
        self.set_used(task, used_ns);
        let charge_ns = self.tasks[task.index()].ledger.charge_used(self.quantum_ns);
        self.end_turn(cpu, task, charge_ns, now_ns);
        Ok(())
    }

    fn end_turn(&mut self, cpu: CpuId, task: TaskId, charge_ns: Nanos, now_ns: Nanos) {
        self.policy.charge(task, charge_ns, now_ns);
        self.turns[cpu] = None;
        self.tasks[task.index()].state = State::Waiting;
        self.advance_ideal(now_ns);
        self.entitlement.count(task, self.tasks[task.index()].ledger.used_ns());
    }

    fn look_at_blocked(&mut self, now_ns: Nanos) -> io::Result<()> {
        let spacing_ns = self.quantum_ns / LOOKS_PER_QUANTUM / 2;
        if self.blocked_count == 0 || now_ns < self.looked_ns + spacing_ns {
            return Ok(());
        }
        self.looked_ns = now_ns;
        let due_ns = now_ns + self.quantum_ns / LOOKS_PER_QUANTUM;
        let tick_ns = due_ns.next_multiple_of(self.tick_ns);
        self.look_due_ns = if tick_ns <= now_ns + self.quantum_ns { tick_ns } else { due_ns };
        for task in self.task_ids() {
            if self.tasks[task.index()].state != State::Blocked {
                continue;
            }
            let activity = self.backend.activity(task)?;
            let used_ns = self.backend.usage_ns(task)?;
            let burst_ns = used_ns.saturating_sub(self.tasks[task.index()].ledger.used_ns());
            match activity {
                Activity::Gone => self.forget_blocked(task, used_ns, now_ns),
                Activity::Blocked if burst_ns < self.quantum_ns / BURST_PART => {}
                _ => self.wake(task, used_ns, now_ns),
            }
        }
        Ok(())
    }

    fn wake(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        self.policy.wake(task, now_ns);
        // Runnable first: what it used before it was seen is part of what the runnable share.
        self.entitlement.wake(task);
        self.set_used(task, used_ns);
        self.advance_ideal(now_ns);
        self.entitlement.count(task, used_ns);
        self.tasks[task.index()].state = State::Waiting;
        self.blocked_count -= 1;
    }

    fn forget_blocked(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        self.wake(task, used_ns, now_ns);
        self.policy.remove(task, now_ns);
        self.entitlement.block(task);
        self.tasks[task.index()].state = State::Gone;
    }

    fn give_out_cpus(&mut self, now_ns: Nanos) -> io::Result<()> {
        for cpu in 0..self.turns.len() {
            if self.turns[cpu].is_some() {
                continue;
            }
            if let Some(turn) = self.pick(cpu, now_ns)? {
                self.turns[cpu] = Some(turn);
                self.tasks[turn.task.index()].state = State::Running;
                self.entitlement.start(turn.task);
                self.begun.push(cpu);
            }
        }
        Ok(())
    }

    /// The next turn on `cpu`. A task that has already used up what it is charged for is charged
    /// without a run, and the policy asked again.
    fn pick(&mut self, cpu: CpuId, now_ns: Nanos) -> io::Result<Option<Turn>> {
        loop {
            let Some(task) = self.policy.pick(cpu, now_ns) else { return Ok(None) };
            let known = &self.tasks[task.index()];
            debug_assert_eq!(known.state, State::Waiting, "{task:?}");
            if known.stopped {
                let used_ns = self.backend.usage_ns(task)?;
                self.set_used(task, used_ns);
                self.advance_ideal(now_ns);
                self.entitlement.count(task, used_ns);
            }
            let known = &mut self.tasks[task.index()];
            let allotment_ns = known.ledger.allotment_ns(self.quantum_ns);
            if allotment_ns >= self.quantum_ns / LEAST_RUN_PART {
                let run_ns = allotment_ns.min(self.quantum_ns * LONGEST_RUN_QUANTA);
                let used_before_ns = known.ledger.used_ns();
                return Ok(Some(Turn {
                    task,
                    since_ns: now_ns,
                    ends_ns: self.turn_end_ns(now_ns, run_ns),
                    used_before_ns,
                    false_alarms: 0,
                }));
            }
            let charge_ns = known.ledger.charge_quantum(self.quantum_ns);
            self.policy.charge(task, charge_ns, now_ns);
        }
    }

    /// A turn of `run_ns` ends then.
    fn turn_end_ns(&self, now_ns: Nanos, run_ns: Nanos) -> Nanos {
        let due_ns = now_ns + run_ns;
        let tick_ns = (due_ns + self.tick_ns / 2) / self.tick_ns * self.tick_ns;
        let slack_ns = (self.quantum_ns / TICK_PART).min(run_ns / 2);
        if tick_ns.abs_diff(due_ns) <= slack_ns { tick_ns } else { due_ns }
    }

    /// Makes the system do what was decided: first everybody off, then everybody on.
    fn apply(&mut self) -> io::Result<()> {
        for task in self.task_ids() {
            let known = &mut self.tasks[task.index()];
            if known.state == State::Waiting && !known.stopped {
                known.stopped = true;
                self.backend.stop(task)?;
            }
        }
        while let Some(cpu) = self.begun.pop() {
            let turn = self.turns[cpu].expect("it was begun in this step");
            let known = &mut self.tasks[turn.task.index()];
            if known.placed != Some(cpu) {
                known.placed = Some(cpu);
                self.backend.place(turn.task, cpu)?;
            }
            if known.stopped {
                known.stopped = false;
                self.backend.cont(turn.task)?;
            }
            self.watch(cpu, 0);
        }
        Ok(())
    }

    fn set_used(&mut self, task: TaskId, used_ns: Nanos) {
        let ledger = &mut self.tasks[task.index()].ledger;
        self.used_total_ns = self.used_total_ns - ledger.used_ns() + used_ns;
        ledger.set_used(used_ns);
    }

    /// The ideal up to now, what running tasks use being estimated by the clock.
    fn advance_ideal(&mut self, now_ns: Nanos) {
        let running = self.turns.iter().flatten().map(|turn| now_ns - turn.since_ns);
        let delivered_ns = self.used_total_ns + running.sum::<Nanos>();
        self.entitlement.advance(delivered_ns);
    }
}

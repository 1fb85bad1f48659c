//! The scheduler loop: drives a policy and a backend, and keeps the accounts.
//!
//! A task uses as many cpus as it has runnable threads. To the policy it is a group of *vcpus*, as a
//! virtual machine has them: a vcpu runs on one cpu at a time, and as many of a task's vcpus are
//! runnable as it has runnable threads. A task's threads are bound to the cpus where its vcpus have
//! turns, and stopped while none has; which thread runs on which of them is the kernel's to say.
//!
//! One call of [`Runner::step`] sleeps until something is due and then goes through four stages:
//! turns that are over are charged, blocked tasks that want a cpu again are woken, free cpus are
//! given out by the policy, and at last the tasks are really stopped and continued.

use std::io;

use prorata::hierarchy::{Flat, NodeId, TreePolicy};
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
/// Blocked tasks are looked at so many times a quantum, or twice as often if the loop is awake: a task
/// that wakes runs beside another one until it is seen.
const LOOKS_PER_QUANTUM: Nanos = 4;
/// One that has slept for a foreseen time is looked at this part of a quantum later.
const FORESEEN_PART: Nanos = 64;
/// A blocked task that used more than this part of a quantum since it was charged last is charged for
/// it, as if it were runnable.
const BURST_PART: Nanos = 2;
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

/// What the policy takes a vcpu for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The task has no thread for it.
    Blocked,
    /// It wants a cpu.
    Waiting,
    /// It has a turn.
    Running,
}

#[derive(Clone, Copy, Debug)]
struct Vcpu {
    task: TaskId,
    state: State,
}

#[derive(Debug)]
struct Task {
    /// Its vcpus for the policy: so many ids from this one on.
    first: u32,
    most: usize,
    /// Vcpus that are not blocked. If there are none, it sleeps, and is not stopped.
    runnable: usize,
    /// The cpus where they have turns, increasing.
    held: Vec<CpuId>,
    gone: bool,
    /// The backend was told to stop it, and not since to continue it.
    stopped: bool,
    /// Where the backend was told to place it.
    placed: Vec<CpuId>,
    ledger: Ledger,
    /// The ledger has what it used up to then.
    settled_ns: Nanos,
    /// Turns since it last blocked.
    turns_since_block: u32,
    /// The backend's [`ready_ns`](Backend::ready_ns) then.
    ready_ns: Nanos,
    /// While it is blocked: it was looked at then, what it used was read then, and when to look again: at the
    /// latest, or from when on if the loop is awake.
    looked_ns: Nanos,
    read_ns: Nanos,
    look_due_ns: Nanos,
    look_from_ns: Nanos,
}

impl Task {
    fn new(first: u32, most: usize, now_ns: Nanos) -> Task {
        Task {
            first,
            most,
            runnable: 0,
            held: Vec::with_capacity(most),
            gone: false,
            stopped: true,
            placed: Vec::with_capacity(most),
            ledger: Ledger::default(),
            settled_ns: now_ns,
            turns_since_block: 0,
            ready_ns: 0,
            looked_ns: now_ns,
            read_ns: now_ns,
            look_due_ns: now_ns,
            look_from_ns: now_ns,
        }
    }

    fn vcpus(&self) -> impl Iterator<Item = TaskId> + use<> {
        (self.first..).map(TaskId).take(self.most)
    }

    fn is_blocked(&self) -> bool {
        self.runnable == 0 && !self.gone
    }

    /// What it has used by `now_ns` if it runs on all its cpus.
    fn expected_ns(&self, now_ns: Nanos) -> Nanos {
        self.ledger.used_ns() + (now_ns - self.settled_ns) * self.held.len() as u64
    }
}

/// A vcpu on a cpu.
#[derive(Clone, Copy, Debug)]
struct Turn {
    vcpu: TaskId,
    task: TaskId,
    since_ns: Nanos,
    ends_ns: Nanos,
    /// What the policy takes its whole length for.
    slice_ns: Nanos,
    false_alarms: u32,
}

impl Turn {
    /// What will be charged for the part of it up to `now_ns`.
    fn accrued_ns(&self, now_ns: Nanos) -> Nanos {
        let length_ns = self.ends_ns - self.since_ns;
        let passed_ns = (now_ns - self.since_ns).min(length_ns);
        let product = u128::from(self.slice_ns) * u128::from(passed_ns);
        Nanos::try_from(product / u128::from(length_ns.max(1))).expect("at most a quantum")
    }
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

/// What the loop needs to know of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The weight of all its threads together.
    pub weight: Weight,
    /// Cpus that it uses at once at most; no more than there are in any case.
    pub most_cpus: usize,
}

impl Share {
    /// As many cpus as there are.
    #[must_use]
    pub const fn of(weight: Weight) -> Share {
        Share { weight, most_cpus: usize::MAX }
    }
}

/// A policy that schedules the tasks of a backend.
pub struct Runner<B> {
    backend: B,
    policy: Flat<Box<dyn Policy + Send>>,
    quantum_ns: Nanos,
    /// Not 0.
    tick_ns: Nanos,
    /// Indexed by the policy's ids.
    vcpus: Vec<Vcpu>,
    /// Indexed by task id.
    tasks: Vec<Task>,
    /// Indexed by cpu.
    turns: Vec<Option<Turn>>,
    entitlement: Entitlement,
    /// Of all ledgers.
    used_total_ns: Nanos,
    blocked_count: usize,
    tended_ns: Nanos,
    /// Until then the guardian may still believe that prorata is stopped.
    doubtful_until_ns: Nanos,
    /// The turns that this step began.
    begun: Vec<CpuId>,
}

impl<B: Backend> Runner<B> {
    /// Tasks 0, 1, … of `backend` with `shares`: all of them stopped, and taken for runnable, with
    /// one thread each.
    ///
    /// # Panics
    /// When there are more vcpus than [`TaskId::LIMIT`].
    pub fn new(
        mut backend: B,
        policy: Box<dyn Policy + Send>,
        setup: &Setup,
        shares: &[Share],
    ) -> Runner<B> {
        let now_ns = backend.now_ns();
        let weights: Vec<Weight> = shares.iter().map(|share| share.weight).collect();
        let mut runner = Runner {
            tick_ns: backend.tick_ns().max(1),
            backend,
            policy: Flat::new(policy, setup),
            quantum_ns: setup.quantum_ns,
            vcpus: Vec::new(),
            tasks: Vec::new(),
            turns: vec![None; setup.cpus],
            entitlement: Entitlement::new(setup.cpus, &weights, now_ns),
            used_total_ns: 0,
            blocked_count: 0,
            tended_ns: now_ns,
            doubtful_until_ns: 0,
            begun: Vec::with_capacity(setup.cpus),
        };
        shares.iter().for_each(|share| runner.take(*share, now_ns));
        for task in runner.task_ids() {
            runner.entitlement.wake(task, now_ns);
            runner.fit(task, 1, now_ns);
        }
        runner
    }

    /// Makes the next task known to the policy, with all its vcpus.
    fn take(&mut self, share: Share, now_ns: Nanos) {
        let first = u32::try_from(self.vcpus.len()).expect("checked below");
        let most = share.most_cpus.clamp(1, self.turns.len());
        let task = TaskId(u32::try_from(self.tasks.len()).expect("there are more vcpus"));
        let node = NodeId(task.0 + 1);
        self.tasks.push(Task::new(first, most, now_ns));
        self.vcpus.resize(self.vcpus.len() + most, Vcpu { task, state: State::Blocked });
        assert!(self.vcpus.len() < TaskId::LIMIT as usize, "too many tasks for so many cpus");
        self.blocked_count += 1;
        // With one vcpu it is a group of one: that has the group's weight.
        if most == 1 {
            self.policy.add(TaskId(first), share.weight);
            return;
        }
        self.policy.add_node(node, NodeId::ROOT, share.weight, now_ns);
        for vcpu in self.tasks[task.index()].vcpus() {
            self.policy.add(vcpu, Weight::ONE);
            self.policy.place(vcpu, node, now_ns);
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
        self.tasks.iter().all(|task| task.gone)
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
        let now_ns = self.backend.now_ns();
        for task in self.task_ids() {
            let used_ns = self.backend.usage_ns(task)?;
            self.set_used(task, used_ns, self.tasks[task.index()].settled_ns);
        }
        self.entitlement.advance(now_ns, self.used_total_ns);
        for task in self.task_ids() {
            self.entitlement.sample(task, self.tasks[task.index()].ledger.used_ns());
        }
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
            gone: known.gone,
        }
    }

    /// The ids of all tasks.
    pub fn task_ids(&self) -> impl Iterator<Item = TaskId> + use<B> {
        let count = u32::try_from(self.tasks.len()).expect("checked when they were taken");
        (0..count).map(TaskId)
    }

    /// What running tasks used is read: too much time has passed for an estimate.
    fn settle_turns(&mut self, now_ns: Nanos) -> io::Result<()> {
        for task in self.task_ids() {
            if !self.tasks[task.index()].held.is_empty() {
                let used_ns = self.backend.usage_ns(task)?;
                self.set_used(task, used_ns, now_ns);
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
            self.tasks[task.index()].placed.clear();
        }
        Ok(())
    }

    /// The next time at which something has to be done.
    fn due_ns(&self) -> Nanos {
        let turns = self.turns.iter().flatten().map(|turn| turn.ends_ns).min();
        let blocked = self.tasks.iter().filter(|task| task.is_blocked());
        let looks = blocked.map(|task| task.look_due_ns).min();
        turns.into_iter().chain(looks).fold(self.tended_ns + TEND_NS, Nanos::min)
    }

    fn end_turns(&mut self, wakeup: &Wakeup, now_ns: Nanos) -> io::Result<()> {
        self.advance_ideal(now_ns);
        for cpu in 0..self.turns.len() {
            let Some(turn) = self.turns[cpu] else { continue };
            if now_ns + self.quantum_ns / SLACK_PART >= turn.ends_ns {
                self.end_at_timer(cpu, turn, now_ns)?;
            } else if wakeup.idle.contains(&cpu) {
                self.heed_alarm(cpu, turn, now_ns)?;
            }
        }
        Ok(())
    }

    /// The cpu seemed idle.
    fn heed_alarm(&mut self, cpu: CpuId, turn: Turn, now_ns: Nanos) -> io::Result<()> {
        let most = self.tasks[turn.task.index()].most;
        let threads = match self.backend.activity(turn.task, most)? {
            Activity::Gone => return self.end_by_exit(turn.task, now_ns),
            Activity::Blocked => 0,
            Activity::Runnable(threads) => threads,
        };
        if threads < self.tasks[turn.task.index()].held.len() {
            return self.end_by_block(cpu, turn.task, threads, now_ns);
        }
        self.false_alarm(cpu);
        Ok(())
    }

    /// There is a runnable thread for every cpu of the task after all.
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
        let slept = self.settle(turn.task, now_ns)?;
        let known = &self.tasks[turn.task.index()];
        let mut threads = known.runnable;
        // It may use more cpus than it does, or fewer.
        if slept || known.runnable < known.most {
            threads = match self.backend.activity(turn.task, known.most)? {
                Activity::Gone => return self.end_by_exit(turn.task, now_ns),
                Activity::Blocked => 0,
                Activity::Runnable(threads) => threads,
            };
            if threads < self.tasks[turn.task.index()].held.len() {
                return self.end_by_block(cpu, turn.task, threads, now_ns);
            }
        }
        let task = &mut self.tasks[turn.task.index()];
        task.turns_since_block = task.turns_since_block.saturating_add(1);
        let charge_ns = task.ledger.charge_whole(turn.slice_ns);
        self.end_turn(cpu, charge_ns, now_ns);
        self.fit(turn.task, threads, now_ns);
        Ok(())
    }

    /// What a running task used: by the clock, unless a reading says otherwise. True if it had its
    /// cpus for less than it could have: because others took them, or it sleeps.
    fn settle(&mut self, task: TaskId, now_ns: Nanos) -> io::Result<bool> {
        let read_ns = self.backend.usage_ns(task)?;
        let known = &self.tasks[task.index()];
        let expected_ns = known.expected_ns(now_ns);
        let fresh_ns = read_ns + self.tick_ns * known.held.len() as u64;
        self.set_used(task, expected_ns.clamp(read_ns, fresh_ns), now_ns);
        Ok(fresh_ns + self.quantum_ns / LEAST_RUN_PART < expected_ns)
    }

    /// The task, of which `threads` threads are runnable, has none for `cpu`.
    fn end_by_block(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        threads: usize,
        now_ns: Nanos,
    ) -> io::Result<()> {
        self.leave_cpu(cpu, task, now_ns)?;
        self.tasks[task.index()].ready_ns = self.backend.ready_ns(task)?;
        self.tasks[task.index()].turns_since_block = 0;
        self.fit(task, threads, now_ns);
        Ok(())
    }

    fn end_by_exit(&mut self, task: TaskId, now_ns: Nanos) -> io::Result<()> {
        while let Some(&cpu) = self.tasks[task.index()].held.last() {
            self.leave_cpu(cpu, task, now_ns)?;
        }
        self.forget(task, now_ns);
        Ok(())
    }

    /// The task has ended: the policy forgets its vcpus.
    fn forget(&mut self, task: TaskId, now_ns: Nanos) {
        self.fit(task, 0, now_ns);
        self.entitlement.forget(task);
        self.blocked_count -= 1;
        let known = &mut self.tasks[task.index()];
        known.gone = true;
        known.vcpus().for_each(|vcpu| self.policy.remove(vcpu, now_ns));
    }

    /// The task has no thread for the cpu any more, of its own accord: it is charged what it used.
    fn leave_cpu(&mut self, cpu: CpuId, task: TaskId, now_ns: Nanos) -> io::Result<()> {
        let alone = self.tasks[task.index()].held.len() == 1;
        if alone {
            // Nothing of it runs: the reading is exact.
            let used_ns = self.backend.usage_ns(task)?;
            self.set_used(task, used_ns, now_ns);
        } else {
            self.settle(task, now_ns)?;
        }
        self.end_early(cpu, now_ns);
        Ok(())
    }

    /// The turn on `cpu` ends before its time: its task is charged what it used.
    fn end_early(&mut self, cpu: CpuId, now_ns: Nanos) {
        let Turn { task, slice_ns, .. } = self.turns[cpu].expect("the caller saw it");
        let accrued_ns = self.accrued_ns(task, Some(cpu), now_ns);
        let ledger = &mut self.tasks[task.index()].ledger;
        let charge_ns = ledger.charge_used(slice_ns, accrued_ns);
        self.end_turn(cpu, charge_ns, now_ns);
    }

    /// What the task's turns, but that on `except`, will be charged for their parts up to now.
    fn accrued_ns(&self, task: TaskId, except: Option<CpuId>, now_ns: Nanos) -> Nanos {
        let others = self.tasks[task.index()].held.iter().filter(|&&cpu| Some(cpu) != except);
        let turns = others.filter_map(|&cpu| self.turns[cpu]);
        turns.map(|turn| turn.accrued_ns(now_ns)).sum()
    }

    fn end_turn(&mut self, cpu: CpuId, charge_ns: Nanos, now_ns: Nanos) {
        let Turn { vcpu, task, .. } = self.turns[cpu].take().expect("the caller saw it");
        let accrued_ns = self.accrued_ns(task, None, now_ns);
        self.policy.ran(vcpu, self.tasks[task.index()].ledger.tell_used(accrued_ns));
        self.policy.charge(vcpu, charge_ns, now_ns);
        self.vcpus[vcpu.index()].state = State::Waiting;
        self.tasks[task.index()].held.retain(|&held| held != cpu);
        self.sample(task, now_ns);
    }

    /// As many of the task's vcpus are runnable as it has runnable threads, `threads`: those that
    /// run stay so until their turns end.
    fn fit(&mut self, task: TaskId, threads: usize, now_ns: Nanos) {
        let known = &self.tasks[task.index()];
        let (most, before) = (known.most, known.runnable);
        for vcpu in known.vcpus() {
            let runnable = self.tasks[task.index()].runnable;
            let state = self.vcpus[vcpu.index()].state;
            if state == State::Blocked && runnable < threads.min(most) {
                self.policy.wake(vcpu, now_ns);
                self.vcpus[vcpu.index()].state = State::Waiting;
                self.tasks[task.index()].runnable += 1;
            } else if state == State::Waiting && runnable > threads {
                self.policy.block(vcpu, now_ns);
                self.vcpus[vcpu.index()].state = State::Blocked;
                self.tasks[task.index()].runnable -= 1;
            }
        }
        let runnable = self.tasks[task.index()].runnable;
        if runnable != before {
            match u32::try_from(runnable).expect("at most 65536 cpus") {
                0 => self.go_to_sleep(task, now_ns),
                threads => self.entitlement.set_threads(task, threads),
            }
            self.blocked_count += usize::from(runnable == 0);
            self.blocked_count -= usize::from(before == 0);
        }
    }

    fn go_to_sleep(&mut self, task: TaskId, now_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        (known.looked_ns, known.read_ns) = (now_ns, now_ns);
        self.entitlement.block(task, known.ledger.used_ns());
        self.plan_look(task, now_ns);
    }

    fn look_at_blocked(&mut self, now_ns: Nanos) -> io::Result<()> {
        if self.blocked_count == 0 {
            return Ok(());
        }
        for task in self.task_ids() {
            let known = &self.tasks[task.index()];
            if known.is_blocked() && known.look_from_ns <= now_ns {
                self.look_at(task, now_ns)?;
            }
        }
        Ok(())
    }

    fn look_at(&mut self, task: TaskId, now_ns: Nanos) -> io::Result<()> {
        let known = &mut self.tasks[task.index()];
        let seen_ns = std::mem::replace(&mut known.looked_ns, now_ns);
        let activity = self.backend.activity(task, known.most)?;
        if activity == Activity::Blocked && now_ns < known.read_ns + self.quantum_ns {
            self.see_asleep(task, now_ns);
            return Ok(());
        }
        known.read_ns = now_ns;
        let used_ns = self.backend.usage_ns(task)?;
        let burst_ns = used_ns.saturating_sub(known.ledger.used_ns());
        let threads = match activity {
            Activity::Runnable(threads) => threads,
            Activity::Blocked if burst_ns < self.quantum_ns / BURST_PART => {
                self.see_asleep(task, now_ns);
                return Ok(());
            }
            Activity::Blocked | Activity::Gone => 1,
        };
        // It woke before it was seen, and ran since, or was ready to.
        let ready_ns = self.backend.ready_ns(task)?;
        let awake_ns = burst_ns + ready_ns.saturating_sub(known.ready_ns);
        let woke_ns = seen_ns.max(now_ns.saturating_sub(awake_ns));
        self.entitlement.wake(task, woke_ns);
        self.fit(task, threads, now_ns);
        self.set_used(task, used_ns, now_ns);
        self.sample(task, now_ns);
        if activity == Activity::Gone {
            self.forget(task, now_ns);
        }
        Ok(())
    }

    /// The task, which is blocked, still sleeps.
    fn see_asleep(&mut self, task: TaskId, now_ns: Nanos) {
        let spacing_ns = self.quantum_ns / LOOKS_PER_QUANTUM;
        self.entitlement.sleep(task, spacing_ns);
        self.plan_look(task, now_ns);
    }

    /// When to look whether the task, which sleeps, has woken.
    fn plan_look(&mut self, task: TaskId, now_ns: Nanos) {
        let spacing_ns = self.quantum_ns / LOOKS_PER_QUANTUM;
        let foreseen = self.entitlement.wakes_ns(task, spacing_ns / 2);
        let known = &mut self.tasks[task.index()];
        let later_ns = now_ns + self.quantum_ns;
        (known.look_from_ns, known.look_due_ns) = match foreseen {
            Some(wakes_ns) if wakes_ns > later_ns => (now_ns + self.quantum_ns / 2, later_ns),
            Some(wakes_ns) if wakes_ns > now_ns => {
                let look_ns = wakes_ns + self.quantum_ns / FORESEEN_PART;
                (look_ns, look_ns)
            }
            _ => (now_ns + spacing_ns / 2, now_ns + spacing_ns),
        };
    }

    /// Free cpus pick, and so do those that the policy wants for a task that woke.
    fn give_out_cpus(&mut self, now_ns: Nanos) -> io::Result<()> {
        for cpu in 0..self.turns.len() {
            if self.turns[cpu].is_none() {
                self.begin_turn(cpu, now_ns)?;
            }
        }
        while let Some(cpu) = self.policy.interrupt(now_ns) {
            let turn = self.turns[cpu].expect("the policy interrupts what runs");
            if turn.since_ns < now_ns {
                self.settle(turn.task, now_ns)?;
            }
            self.end_early(cpu, now_ns);
            self.begin_turn(cpu, now_ns)?;
        }
        Ok(())
    }

    fn begin_turn(&mut self, cpu: CpuId, now_ns: Nanos) -> io::Result<()> {
        let Some(turn) = self.pick(cpu, now_ns)? else { return Ok(()) };
        self.turns[cpu] = Some(turn);
        self.vcpus[turn.vcpu.index()].state = State::Running;
        let held = &mut self.tasks[turn.task.index()].held;
        held.insert(held.partition_point(|&other| other < cpu), cpu);
        self.sample(turn.task, now_ns);
        self.begun.push(cpu);
        Ok(())
    }

    /// The next turn on `cpu`. A task that has already used up what it is charged for is charged
    /// without a run, and the policy asked again.
    fn pick(&mut self, cpu: CpuId, now_ns: Nanos) -> io::Result<Option<Turn>> {
        loop {
            let Some(vcpu) = self.policy.pick(cpu, now_ns) else { return Ok(None) };
            let Vcpu { task, state } = self.vcpus[vcpu.index()];
            debug_assert_eq!(state, State::Waiting, "vcpu {} of {task:?}", vcpu.0);
            self.bring_up_to_date(task, now_ns)?;
            let slice_ns = self.policy.slice_ns(vcpu).unwrap_or(self.quantum_ns);
            let accrued_ns = self.accrued_ns(task, None, now_ns);
            let known = &mut self.tasks[task.index()];
            let allotment_ns = known.ledger.allotment_ns(slice_ns, accrued_ns);
            if allotment_ns >= slice_ns.min(self.quantum_ns / LEAST_RUN_PART) {
                let run_ns = allotment_ns.min(self.quantum_ns * LONGEST_RUN_QUANTA);
                let ends_ns = self.turn_end_ns(now_ns, run_ns);
                let (since_ns, false_alarms) = (now_ns, 0);
                return Ok(Some(Turn { vcpu, task, since_ns, ends_ns, slice_ns, false_alarms }));
            }
            let charge_ns = known.ledger.charge_whole(slice_ns);
            self.policy.ran(vcpu, 0);
            self.policy.charge(vcpu, charge_ns, now_ns);
        }
    }

    /// What the task, of which a turn begins, has used by now.
    fn bring_up_to_date(&mut self, task: TaskId, now_ns: Nanos) -> io::Result<()> {
        let known = &self.tasks[task.index()];
        if known.stopped {
            let used_ns = self.backend.usage_ns(task)?;
            self.set_used(task, used_ns, now_ns);
        } else if !known.held.is_empty() && known.settled_ns < now_ns {
            self.settle(task, now_ns)?;
        }
        Ok(())
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
            if known.runnable > 0 && known.held.is_empty() && !known.stopped {
                known.stopped = true;
                self.backend.stop(task)?;
            }
        }
        for task in self.task_ids() {
            let known = &mut self.tasks[task.index()];
            if known.held.is_empty() {
                continue;
            }
            if known.placed != known.held {
                self.backend.place(task, &known.held, &known.placed)?;
                known.placed.clone_from(&known.held);
            }
            if known.stopped {
                known.stopped = false;
                self.backend.cont(task)?;
            }
        }
        while let Some(cpu) = self.begun.pop() {
            if self.turns[cpu].is_some() {
                self.watch(cpu, 0);
            }
        }
        Ok(())
    }

    fn set_used(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        self.used_total_ns = self.used_total_ns - known.ledger.used_ns() + used_ns;
        known.ledger.set_used(used_ns);
        known.settled_ns = now_ns;
    }

    /// The ideal up to now, what running tasks use being estimated by the clock.
    fn advance_ideal(&mut self, now_ns: Nanos) {
        let running = self.turns.iter().flatten();
        let since = running.map(|turn| now_ns - self.tasks[turn.task.index()].settled_ns);
        let delivered_ns = self.used_total_ns + since.sum::<Nanos>();
        self.entitlement.advance(now_ns, delivered_ns);
    }

    /// The service error of `task`, where it turns: a turn of it begins or has ended.
    fn sample(&mut self, task: TaskId, now_ns: Nanos) {
        self.advance_ideal(now_ns);
        let used_ns = self.tasks[task.index()].expected_ns(now_ns);
        self.entitlement.sample(task, used_ns);
    }
}

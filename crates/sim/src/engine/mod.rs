//! The discrete-event engine: drives a [`Policy`] through a [`Workload`].
//!
//! At every instant at which something is due, in this order: the cpus whose run ended, in index
//! order, charge their task, which then goes on with its program (it blocks, leaves, or waits for
//! its next turn); tasks that are ended from outside leave; tasks whose arrival or sleep is due wake,
//! in the order of their ids; then the free cpus pick, in index order, and at last those that the
//! policy interrupts. Nothing else decides anything, so a workload and a seed have one outcome.

use prorata::{CpuId, Nanos, Policy, TaskId, Weight};

use crate::calendar::{Calendar, Entries};
use crate::histogram::Histogram;
use crate::machine::{IdleLook, Machine, Quanta};
use crate::observer::{End, Observer, Run};
use crate::random::Random;
use crate::workload::{Group, Workload};

mod cgroups;
mod cpu_set;
mod departures;
mod ends;
mod lags;
mod latency;
mod program;
mod resources;
mod solo;
mod yardstick;

use cgroups::Scheduler;
pub(crate) use cgroups::{Share, Shares};
use cpu_set::CpuSet;
use departures::Departures;
use ends::Ends;
pub use lags::Lag;
use lags::Samples;
pub(crate) use latency::{Detailed, Waits};
use program::{Act, Slots};
use resources::Resources;
pub(crate) use yardstick::{Counts, Responses, Yardstick};

/// Steps that a program may take without any time passing.
const MAX_STEPS: u32 = 100_000;

/// Why a simulation stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// The workload cannot be simulated.
    #[error("{0}")]
    Workload(String),
    /// A program would go on for ever at one instant.
    #[error(
        "task {task} took {MAX_STEPS} steps of its program at {at_ns} ns without running or \
             sleeping: put something that takes time into its loop"
    )]
    Stuck {
        /// The task's name.
        task: String,
        /// When.
        at_ns: Nanos,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Will arrive.
    Absent,
    Blocked,
    /// Waiting since a wake-up.
    Woken,
    /// Waiting since it ran.
    Preempted,
    Running,
    Exited,
}

/// A cache line: with many tasks, fetching it is most of what a decision costs.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Task {
    /// What is left of the current [`Op::Run`].
    left_ns: Nanos,
    /// While it waits: since when. While it is in the calendar: when it wakes.
    since_ns: Nanos,
    random: Random,
    pub(crate) wait_ns: Nanos,
    /// Times it got a cpu that had run something else.
    pub(crate) switches: u64,
    /// These two stop counting at the largest number.
    pub(crate) migrations: u32,
    pub(crate) wakeups: u32,
    /// The next op of its program.
    next_op: u32,
    pub(crate) group: u32,
    /// While it is in the calendar: the next one in its list.
    next_due: u32,
    /// The cpu it last ran on, if it had any.
    last_cpu: u16,
    state: State,
}

const _: () = assert!(size_of::<Task>() == 64);

impl Entries for Vec<Task> {
    #[inline]
    fn get(&self, entry: u32) -> (Nanos, u32) {
        let task = &self[entry as usize];
        (task.since_ns, task.next_due)
    }

    #[inline]
    fn set(&mut self, entry: u32, at_ns: Nanos, next: u32) {
        let task = &mut self[entry as usize];
        debug_assert!(matches!(task.state, State::Absent | State::Blocked | State::Exited));
        (task.since_ns, task.next_due) = (at_ns, next);
    }
}

const NO_TASK: TaskId = TaskId(u32::MAX);

#[derive(Clone, Copy, Debug)]
struct Cpu {
    /// `NO_TASK` if it idles.
    running: TaskId,
    /// The task that ran last.
    last: TaskId,
    started_ns: Nanos,
    /// The task's work has advanced up to then; later than now while a switch is paid for.
    worked_ns: Nanos,
    quantum_end_ns: Nanos,
    /// True until its first quantum.
    fresh: bool,
    random: Random,
}

/// What a task does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Run,
    /// Run, after the others had a turn.
    Yield,
    SleepUntil(Nanos),
    /// Sleep until another task does something.
    Block,
    Exit,
}

/// A simulation. See the [module documentation](self).
pub struct Engine<'w, P, O> {
    workload: &'w Workload,
    machine: Machine,
    policy: Scheduler<P>,
    observer: O,
    errors: Yardstick<'w>,
    /// When the run on each cpu ends.
    ends: Ends,
    /// When each cpu that idled while something waited looks again.
    looks: Ends,
    /// When each task wakes.
    calendar: Calendar,
    departures: Departures,
    now_ns: Nanos,
    tasks: Vec<Task>,
    cpus: Vec<Cpu>,
    idle: CpuSet,
    /// Cpus that shall pick at this instant.
    asking: CpuSet,
    waiting: usize,
    /// True if a task became runnable at this instant.
    woke: bool,
    slots: Slots,
    resources: Resources,
    latencies: Detailed<Waits>,
    totals: Totals,
    samples: Samples,
    /// The end of time if nothing is sampled.
    next_sample_ns: Nanos,
}

/// What an outcome is made of.
pub(crate) struct Evidence<'e, 'w> {
    pub(crate) workload: &'e Workload,
    pub(crate) duration_ns: Nanos,
    pub(crate) totals: Totals,
    pub(crate) tasks: &'e [Task],
    pub(crate) yardstick: &'e mut Yardstick<'w>,
    /// Of the tree, if there are cgroups.
    pub(crate) shares: Option<Shares<'e>>,
    pub(crate) latencies: &'e Detailed<Waits>,
}

/// Lengths of time of a group, as histograms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// Its name.
    pub group: String,
    /// Every time that a task was runnable without a cpu, if it was not 0, and all wake-ups.
    pub wait: Histogram,
    /// From a wake-up to the first cpu.
    pub wakeup: Histogram,
    /// From when a job was due to its end …
    pub response: Histogram,
    /// … and to its end in the ideal.
    pub ideal_response: Histogram,
}

/// What the machine did in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Totals {
    /// Times a cpu asked the policy.
    pub decisions: u64,
    /// Instants at which something happened.
    pub instants: u64,
    /// Times a cpu turned to another task than the one it ran before.
    pub switches: u64,
    /// Times a task got another cpu than the one it ran on before.
    pub migrations: u64,
    /// Time spent on switches and migrations, on all cpus.
    pub overhead_ns: Nanos,
    /// Time that cpus idled.
    pub idle_ns: Nanos,
    /// Time that cpus idled although a task waited that could have used them.
    pub idle_while_waiting_ns: Nanos,
}

impl<'w, P: Policy, O: Observer> Engine<'w, P, O> {
    /// `policy` was built with the workload's `machine.setup(seed)` and knows no task.
    ///
    /// # Errors
    /// When the workload is not one that can be simulated.
    pub fn new(workload: &'w Workload, policy: P, observer: O) -> Result<Self, SimulationError> {
        workload.check().map_err(SimulationError::Workload)?;
        let machine = workload.machine;
        let mut engine = Engine {
            workload,
            machine,
            policy: Scheduler::new(policy, workload),
            observer,
            errors: Yardstick::new(workload),
            ends: Ends::new(machine.cpus),
            looks: Ends::new(machine.cpus),
            calendar: Calendar::new(),
            departures: Departures::default(),
            now_ns: 0,
            tasks: Vec::new(),
            cpus: cpus(workload),
            idle: CpuSet::all(machine.cpus),
            asking: CpuSet::none(machine.cpus),
            waiting: 0,
            woke: false,
            slots: Slots::new(workload),
            resources: Resources::new(&workload.resources),
            latencies: Detailed::new(workload),
            totals: Totals::default(),
            samples: Samples::default(),
            next_sample_ns: Nanos::MAX,
        };
        engine.populate();
        Ok(engine)
    }

    /// Makes all tasks, each to arrive at its time.
    #[allow(clippy::cast_possible_truncation)] // `Workload::check` bounds the number of tasks
    fn populate(&mut self) {
        let tasks = self.workload.tasks() as usize;
        self.tasks.reserve_exact(tasks);
        // The last task makes the policy's tables as long as they will be: no growing, no slack.
        if let Some(last) = (tasks as u32).checked_sub(1) {
            self.policy.add(TaskId(last), Weight::ONE);
            self.policy.remove(TaskId(last), 0);
        }
        for (group, about) in (0..).zip(&self.workload.groups) {
            for _ in 0..about.count {
                let task = TaskId(self.tasks.len() as u32);
                let mut random = Random::new(self.workload.seed, u64::from(task.0));
                let arrival_ns = self.machine.tick_from(about.arrival.draw(&mut random));
                self.errors.expect(group, random, arrival_ns);
                self.tasks.push(Task::new(group, random));
                self.calendar.insert(&mut self.tasks, task.0, arrival_ns);
            }
        }
    }

    /// Simulates up to the end.
    ///
    /// # Errors
    /// When a program goes on for ever without taking time.
    pub fn simulate(&mut self) -> Result<(), SimulationError> {
        self.simulate_while(|| true).map(drop)
    }

    /// Simulates up to the end, or until `goes_on`, which is asked before every instant, says no.
    /// Returns whether the end was reached; only then is there an outcome.
    ///
    /// # Errors
    /// When a program goes on for ever without taking time.
    pub fn simulate_while(
        &mut self,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<bool, SimulationError> {
        let mut due = Vec::new();
        loop {
            let next_look_ns = self.looks.first().0;
            let next_event_ns = self.calendar.next_ns().min(self.departures.next_ns());
            let now_ns = self.ends.first().0.min(next_event_ns).min(next_look_ns);
            if now_ns >= self.workload.duration_ns {
                break;
            }
            if !goes_on() {
                return Ok(false);
            }
            if self.next_sample_ns <= now_ns {
                self.sample(now_ns);
            }
            self.account_idle(now_ns);
            self.now_ns = now_ns;
            while let (at_ns, cpu) = self.ends.first()
                && at_ns == now_ns
            {
                self.ends.set(cpu, Nanos::MAX);
                self.cpu_due(cpu)?;
                self.release()?;
            }
            if next_look_ns == now_ns {
                self.look(now_ns);
            }
            if self.departures.next_ns() == now_ns {
                self.depart();
            }
            if self.calendar.next_ns() == now_ns {
                self.calendar.pop(&mut self.tasks, &mut due);
                for &task in &due {
                    self.task_due(TaskId(task))?;
                    self.release()?;
                }
            }
            self.pick_all();
            while let Some(cpu) = self.policy.interrupt(now_ns) {
                self.interrupt(cpu);
            }
            self.totals.instants += 1;
        }
        self.stop();
        Ok(true)
    }

    /// How long the tasks of each group waited, and how long their jobs took: all that was counted.
    #[must_use]
    pub fn latencies(&self) -> Vec<Latencies> {
        let of = |(index, group): (usize, &Group)| {
            let (waits, took) = (self.latencies.group(index).clone(), self.errors.responses(index));
            Latencies {
                group: group.name.clone(),
                wait: waits.wait,
                wakeup: waits.wakeup,
                response: took.schedule,
                ideal_response: took.ideal,
            }
        };
        self.workload.groups.iter().enumerate().map(of).collect()
    }

    /// What the machine did so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// What an outcome is made of.
    pub(crate) fn evidence(&mut self) -> Evidence<'_, 'w> {
        Evidence {
            workload: self.workload,
            duration_ns: self.now_ns,
            totals: self.totals,
            tasks: &self.tasks,
            yardstick: &mut self.errors,
            shares: self.policy.finish(self.now_ns),
            latencies: &self.latencies,
        }
    }

    pub(crate) fn into_observer(self) -> O {
        self.observer
    }

    /// The cpus whose time to look has come do so, unless they have found something to run.
    fn look(&mut self, now_ns: Nanos) {
        while let (at_ns, cpu) = self.looks.first()
            && at_ns == now_ns
        {
            self.looks.set(cpu, Nanos::MAX);
            if self.cpus[cpu].running == NO_TASK {
                self.asking.insert(cpu);
            }
        }
    }

    /// Who waits no longer goes on.
    #[inline]
    fn release(&mut self) -> Result<(), SimulationError> {
        while let Some(task) = self.resources.released() {
            self.task_due(task)?;
        }
        Ok(())
    }

    /// Idle time since the last instant. What waits could have used as many idle cpus.
    fn account_idle(&mut self, now_ns: Nanos) {
        let idle = self.idle.len();
        if idle > 0 {
            let elapsed_ns = now_ns - self.now_ns;
            self.totals.idle_ns += elapsed_ns * idle as u64;
            self.totals.idle_while_waiting_ns += elapsed_ns * idle.min(self.waiting) as u64;
        }
    }

    /// The run on `cpu` ends: its quantum is over, or its task has done what it had to.
    fn cpu_due(&mut self, cpu: CpuId) -> Result<(), SimulationError> {
        let Cpu { running: task, quantum_end_ns, .. } = self.cpus[cpu];
        let mut next = Next::Run;
        if self.advance_work(cpu) == 0 {
            next = self.step(task)?;
            if next == Next::Run && self.now_ns < quantum_end_ns {
                let done_ns = self.now_ns.saturating_add(self.tasks[task.index()].left_ns);
                self.ends.set(cpu, done_ns.min(quantum_end_ns));
                return Ok(());
            }
        }
        let end = match next {
            Next::Run | Next::Yield => End::Preempted,
            Next::SleepUntil(_) | Next::Block => End::Blocked,
            Next::Exit => End::Exited,
        };
        self.charge(cpu, end);
        self.asking.insert(cpu);
        match next {
            Next::Run | Next::Yield => {}
            Next::SleepUntil(at_ns) => {
                self.block(task);
                self.calendar.insert(&mut self.tasks, task.0, at_ns);
            }
            Next::Block => self.block(task),
            Next::Exit => self.leave(task),
        }
        Ok(())
    }

    /// A waiting task is gone for good.
    fn leave(&mut self, task: TaskId) {
        self.policy.remove(task, self.now_ns);
        self.errors.remove(task, self.now_ns);
        self.rest(task, State::Exited);
    }

    /// The policy wants `cpu` for another task than the one that runs there.
    fn interrupt(&mut self, cpu: CpuId) {
        self.advance_work(cpu);
        self.ends.set(cpu, Nanos::MAX);
        self.charge(cpu, End::Preempted);
        self.pick(cpu);
    }

    /// Takes what the task of `cpu` has worked from what it has left, and returns what is left now.
    fn advance_work(&mut self, cpu: CpuId) -> Nanos {
        let cpu = &mut self.cpus[cpu];
        let task = &mut self.tasks[cpu.running.index()];
        if task.left_ns != Nanos::MAX {
            task.left_ns -= self.now_ns.saturating_sub(cpu.worked_ns);
        }
        cpu.worked_ns = cpu.worked_ns.max(self.now_ns);
        task.left_ns
    }

    /// Takes `cpu` from its task, which waits from now on.
    fn charge(&mut self, cpu: CpuId, end: End) {
        let about = &mut self.cpus[cpu];
        let (task, start_ns, end_ns) = (about.running, about.started_ns, self.now_ns);
        about.running = NO_TASK;
        let known = &mut self.tasks[task.index()];
        known.state = State::Preempted;
        known.since_ns = end_ns;
        self.waiting += 1;
        self.errors.charge(task, end_ns - start_ns, end_ns);
        self.policy.charge(task, end_ns - start_ns, end_ns);
        self.observer.ran(Run { cpu, task, start_ns, end_ns, end });
    }

    fn block(&mut self, task: TaskId) {
        self.policy.block(task, self.now_ns);
        self.errors.block(task, self.now_ns);
        self.rest(task, State::Blocked);
    }

    /// A waiting task waits no longer and is not running either.
    fn rest(&mut self, task: TaskId, state: State) {
        self.waiting -= 1;
        self.tasks[task.index()].state = state;
    }

    /// An arrival, the end of a sleep, or what the task was blocked on.
    fn task_due(&mut self, task: TaskId) -> Result<(), SimulationError> {
        let group = &self.workload.groups[self.tasks[task.index()].group as usize];
        if self.tasks[task.index()].state == State::Exited {
            return Ok(());
        }
        if self.tasks[task.index()].state == State::Absent {
            self.policy.arrive(task, group.weight, self.now_ns);
            self.errors.add(task, group.weight);
            self.tasks[task.index()].state = State::Blocked;
        }
        match self.step(task)? {
            Next::Run | Next::Yield => self.wake(task),
            Next::SleepUntil(at_ns) => self.calendar.insert(&mut self.tasks, task.0, at_ns),
            Next::Block => {}
            Next::Exit => {
                self.policy.remove(task, self.now_ns);
                self.tasks[task.index()].state = State::Exited;
            }
        }
        Ok(())
    }

    fn wake(&mut self, task: TaskId) {
        self.policy.wake(task, self.now_ns);
        self.errors.wake(task, self.now_ns);
        self.observer.woke(task, self.now_ns);
        let known = &mut self.tasks[task.index()];
        known.state = State::Woken;
        known.since_ns = self.now_ns;
        known.wakeups = known.wakeups.saturating_add(1);
        self.waiting += 1;
        self.woke = true;
    }

    /// Goes on with the program of `task` up to something that takes time.
    fn step(&mut self, task: TaskId) -> Result<Next, SimulationError> {
        let (mut go_on, mut due_ns) = (Next::Run, None);
        for _ in 0..MAX_STEPS {
            match self.act(task) {
                Act::Next => {}
                Act::Run(length_ns) => {
                    if let Some(due_ns) = due_ns {
                        self.errors.late(task, due_ns, self.now_ns);
                    }
                    self.errors.asks(task, length_ns, self.now_ns);
                    self.tasks[task.index()].left_ns = length_ns;
                    return Ok(go_on);
                }
                Act::SleepUntil(at_ns) => return Ok(Next::SleepUntil(at_ns)),
                Act::Late { fired_ns, missed } => {
                    due_ns = Some(fired_ns);
                    self.errors.missed(task, missed);
                }
                Act::SetWeight(weight) => {
                    self.errors.set_weight(task, weight, self.now_ns);
                    self.policy.set_weight(task, weight, self.now_ns);
                }
                Act::Join(node) => self.policy.join(task, node, self.now_ns),
                Act::SetCgroupWeight(node, weight) => {
                    self.policy.set_cgroup_weight(node, weight, self.now_ns);
                }
                Act::Wait(resource) => {
                    if !self.resources.wait(resource, task) {
                        return Ok(Next::Block);
                    }
                }
                Act::Post(resource) => self.resources.post(resource),
                Act::PostAll(resource) => self.resources.post_all(resource),
                Act::Yield => go_on = Next::Yield,
                Act::Exit => return Ok(Next::Exit),
            }
        }
        Err(SimulationError::Stuck { task: self.workload.name(task), at_ns: self.now_ns })
    }

    /// The next step of the program of `task`.
    #[inline]
    fn act(&mut self, task: TaskId) -> Act {
        let known = &mut self.tasks[task.index()];
        let program = &self.workload.groups[known.group as usize].program;
        let slots = self.slots.of(known.group, task);
        let (next_op, random) = (&mut known.next_op, &mut known.random);
        program::step(program, next_op, random, slots, self.now_ns, &self.machine)
    }

    /// Every cpu that shall pick does.
    fn pick_all(&mut self) {
        if self.woke {
            self.asking.insert_all(&self.idle);
            self.woke = false;
        }
        let mut from = 0;
        while let Some(cpu) = self.asking.next_from(from) {
            from = cpu + 1;
            self.asking.remove(cpu);
            // An idle cpu has nothing to ask for when nothing waits.
            if self.waiting > 0 || !self.idle.contains(cpu) {
                self.pick(cpu);
            } else {
                self.stay_idle(cpu);
            }
        }
        if self.waiting > 0 && self.idle.len() > 0 {
            self.look_again();
        }
    }

    fn pick(&mut self, cpu: CpuId) {
        self.totals.decisions += 1;
        match self.policy.pick(cpu, self.now_ns) {
            Some(task) => {
                self.idle.remove(cpu);
                self.start(cpu, task);
            }
            None => {
                self.idle.insert(cpu);
                self.stay_idle(cpu);
            }
        }
    }

    /// `cpu` was given nothing: the quantum that it could have run begins now.
    fn stay_idle(&mut self, cpu: CpuId) {
        self.cpus[cpu].started_ns = self.now_ns;
        self.looks.set(cpu, Nanos::MAX);
    }

    /// The policy left cpus idle although tasks wait: they ask again later.
    fn look_again(&mut self) {
        let mut from = 0;
        while let Some(cpu) = self.idle.next_from(from) {
            from = cpu + 1;
            if self.looks.of(cpu) == Nanos::MAX {
                let at_ns = match self.machine.idle_look {
                    IdleLook::Quantum => self.idle_quantum(cpu),
                    IdleLook::Tick => self.machine.tick_from(self.now_ns + 1),
                };
                self.looks.set(cpu, at_ns);
            }
        }
    }

    /// When the quantum that `cpu` could run now would end: they follow each other since it idles.
    fn idle_quantum(&mut self, cpu: CpuId) -> Nanos {
        let about = &mut self.cpus[cpu];
        let fresh = std::mem::replace(&mut about.fresh, false);
        let begin_ns = match self.machine.quanta {
            Quanta::Asynchronous if !fresh => {
                self.now_ns - (self.now_ns - about.started_ns) % self.machine.quantum_ns
            }
            // Those end at times of their own, or are drawn.
            _ => self.now_ns,
        };
        self.machine.quantum_end_ns(cpu, begin_ns, fresh, &mut about.random)
    }

    /// `task` has `cpu` from now on.
    fn start(&mut self, cpu: CpuId, task: TaskId) {
        let now_ns = self.now_ns;
        // The task's own line first: with many tasks both are far away, and are fetched together.
        let known = &mut self.tasks[task.index()];
        let (group, woken) = (known.group, known.state == State::Woken);
        let waited_ns = now_ns - known.since_ns;
        known.wait_ns += waited_ns;
        known.state = State::Running;
        self.waiting -= 1;
        self.errors.start(task, now_ns);
        let about = &mut self.cpus[cpu];
        let mut cost_ns = 0;
        if about.last != task {
            about.last = task;
            cost_ns = self.totals.switch(&self.machine, known.switch_to(cpu));
        }
        about.quantum_end_ns = match self.policy.slice_ns(task) {
            Some(slice_ns) => self.machine.slice_end_ns(now_ns, slice_ns),
            None => {
                let fresh = std::mem::replace(&mut about.fresh, false);
                self.machine.quantum_end_ns(cpu, now_ns, fresh, &mut about.random)
            }
        };
        about.running = task;
        about.started_ns = now_ns;
        about.worked_ns = now_ns + cost_ns;
        let done_ns = about.worked_ns.saturating_add(known.left_ns);
        self.ends.set(cpu, done_ns.min(about.quantum_end_ns));
        if woken || waited_ns > 0 {
            self.latencies.record(task, group, |waits| waits.record(waited_ns, woken));
        }
    }

    /// The end: whoever runs is charged for what he has.
    fn stop(&mut self) {
        if self.waiting > 0 || self.idle.len() < self.machine.cpus || self.any_sleeps() {
            self.account_idle(self.workload.duration_ns);
            self.now_ns = self.workload.duration_ns;
        }
        if self.next_sample_ns <= self.now_ns {
            self.sample(self.now_ns);
        }
        for cpu in 0..self.machine.cpus {
            if self.cpus[cpu].running != NO_TASK {
                self.charge(cpu, End::Preempted);
            }
        }
        for (id, task) in (0..).map(TaskId).zip(&mut self.tasks) {
            match task.state {
                State::Woken | State::Preempted => task.wait_ns += self.now_ns - task.since_ns,
                // It was to arrive after the end.
                State::Absent => {
                    self.errors.add(id, self.workload.groups[task.group as usize].weight);
                }
                _ => {}
            }
        }
        self.errors.finish(self.now_ns);
    }

    /// True if a task blocks or has yet to come.
    fn any_sleeps(&self) -> bool {
        self.tasks.iter().any(|task| matches!(task.state, State::Absent | State::Blocked))
    }
}

impl Totals {
    /// A cpu turns to another task, which `migrates` or not. Returns what that costs.
    #[inline]
    fn switch(&mut self, machine: &Machine, migrates: bool) -> Nanos {
        let migration_ns = if migrates { machine.migration_cost_ns } else { 0 };
        let cost_ns = machine.switch_cost_ns + migration_ns;
        self.switches += 1;
        self.migrations += u64::from(migrates);
        self.overhead_ns += cost_ns;
        cost_ns
    }
}

impl Task {
    /// It gets `cpu`, which ran something else. Returns true if it ran on another cpu before.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // at most 2^16 cpus
    fn switch_to(&mut self, cpu: CpuId) -> bool {
        let last_cpu = std::mem::replace(&mut self.last_cpu, cpu as u16);
        let migrates = last_cpu != cpu as u16 && self.switches > 0;
        self.switches += 1;
        self.migrations = self.migrations.saturating_add(u32::from(migrates));
        migrates
    }

    fn new(group: u32, random: Random) -> Task {
        Task {
            left_ns: 0,
            since_ns: 0,
            random,
            wait_ns: 0,
            switches: 0,
            migrations: 0,
            wakeups: 0,
            next_op: 0,
            group,
            next_due: 0,
            last_cpu: 0,
            state: State::Absent,
        }
    }
}

fn cpus(workload: &Workload) -> Vec<Cpu> {
    // Streams of cpus are counted from the other end than those of tasks.
    let cpu = |number: usize| Cpu {
        running: NO_TASK,
        last: NO_TASK,
        started_ns: 0,
        worked_ns: 0,
        quantum_end_ns: 0,
        fresh: true,
        random: Random::new(workload.seed, u64::MAX - number as u64),
    };
    (0..workload.machine.cpus).map(cpu).collect()
}

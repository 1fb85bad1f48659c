//! Scripted tasks in logical time: the scheduler loop can be tested exactly, without waiting.

use std::io;

use prorata::{CpuId, Nanos, TaskId};

use crate::backend::{Activity, Backend, Wakeup};

/// What a scripted task does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Computes for so many ns of cpu time.
    Run(Nanos),
    /// Sleeps for so many ns.
    Sleep(Nanos),
    /// Ends.
    Exit,
}

/// A task that goes through `phases`, and then through them again.
#[derive(Clone, Debug)]
struct MockTask {
    phases: Vec<Phase>,
    phase: usize,
    /// Cpu time to the end of a `Run` phase.
    left_ns: Nanos,
    /// The end of a `Sleep` phase.
    asleep_until_ns: Nanos,
    stopped: bool,
    cpu: CpuId,
    used_ns: Nanos,
    /// `used_ns` when it last got its cpu: what a stale reading still shows.
    used_at_cont_ns: Nanos,
}

impl MockTask {
    fn new(phases: Vec<Phase>, cpu: CpuId) -> MockTask {
        assert!(!phases.is_empty(), "a task does something");
        let mut task = MockTask {
            phases,
            phase: 0,
            left_ns: 0,
            asleep_until_ns: 0,
            stopped: true,
            cpu,
            used_ns: 0,
            used_at_cont_ns: 0,
        };
        task.enter(0, 0);
        task
    }

    fn enter(&mut self, phase: usize, now_ns: Nanos) {
        self.phase = phase % self.phases.len();
        match self.phases[self.phase] {
            Phase::Run(ns) => self.left_ns = ns,
            Phase::Sleep(ns) => self.asleep_until_ns = now_ns + ns,
            Phase::Exit => {}
        }
    }

    fn wants_cpu(&self) -> bool {
        matches!(self.phases[self.phase], Phase::Run(_))
    }

    fn runs(&self) -> bool {
        self.wants_cpu() && !self.stopped
    }

    fn sleeps(&self) -> bool {
        matches!(self.phases[self.phase], Phase::Sleep(_))
    }
}

/// How far the mock is from an ideal machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Wake-ups come up to so late, by a fixed pseudo-random sequence.
    pub late_ns: Nanos,
    /// Readings of running tasks are as of the last multiple of this; 0 for exact ones.
    pub tick_ns: Nanos,
}

/// A machine of `cpus` cpus on which tasks that share a cpu share it equally.
#[derive(Clone, Debug)]
pub struct Mock {
    now_ns: Nanos,
    cpus: usize,
    tasks: Vec<MockTask>,
    /// Indexed by cpu: watched from that time on.
    watched_from_ns: Vec<Option<Nanos>>,
    faults: Faults,
    random: u64,
    /// Cpu time during which a cpu idled although a task wanted one.
    wasted_ns: Nanos,
}

impl Mock {
    /// A machine with one task for each list of phases, stopped before the first.
    ///
    /// # Panics
    /// When a list is empty or `cpus` is 0.
    #[must_use]
    pub fn new(cpus: usize, scripts: Vec<Vec<Phase>>, faults: Faults) -> Mock {
        assert!(cpus > 0, "a machine has a cpu");
        let tasks = scripts.into_iter().enumerate();
        Mock {
            now_ns: 0,
            cpus,
            tasks: tasks.map(|(i, phases)| MockTask::new(phases, i % cpus)).collect(),
            watched_from_ns: vec![None; cpus],
            faults,
            random: 1,
            wasted_ns: 0,
        }
    }

    /// Cpu time lost so far: a cpu idled although a task wanted one.
    #[must_use]
    pub fn wasted_ns(&self) -> Nanos {
        self.wasted_ns
    }

    /// True if the task is stopped.
    #[must_use]
    pub fn is_stopped(&self, task: TaskId) -> bool {
        self.tasks[task.index()].stopped
    }

    fn running_on(&self, cpu: CpuId) -> u64 {
        self.tasks.iter().filter(|task| task.cpu == cpu && task.runs()).count() as u64
    }

    /// Lets time pass until `until_ns`, or until a watched cpu is idle if `alert`.
    fn advance(&mut self, until_ns: Nanos, alert: bool) -> Vec<CpuId> {
        loop {
            let idle = self.idle_watched();
            if self.now_ns >= until_ns || (alert && !idle.is_empty()) {
                return idle;
            }
            let share: Vec<u64> = (0..self.cpus).map(|cpu| self.running_on(cpu)).collect();
            let next = self.tasks.iter().filter_map(|task| match task {
                task if task.runs() => Some(self.now_ns + task.left_ns * share[task.cpu]),
                task if task.sleeps() => Some(task.asleep_until_ns),
                _ => None,
            });
            let watches = self.watched_from_ns.iter().flatten().copied();
            let next = next.chain(watches.filter(|&from_ns| from_ns > self.now_ns));
            let next_ns = next.min().unwrap_or(until_ns).clamp(self.now_ns, until_ns);
            self.pass(next_ns - self.now_ns, &share);
        }
    }

    /// Lets `ns` pass, in which no task changes what it does.
    fn pass(&mut self, ns: Nanos, share: &[u64]) {
        let wanting = self.tasks.iter().filter(|task| task.wants_cpu()).count();
        let busy = share.iter().filter(|&&k| k > 0).count();
        self.wasted_ns += ns * (wanting.min(self.cpus) - busy) as u64;
        self.now_ns += ns;
        for task in &mut self.tasks {
            if task.runs() {
                // Rounded up, so that the end of a phase is reached.
                let ran_ns = ns.div_ceil(share[task.cpu]).min(task.left_ns);
                task.used_ns += ran_ns;
                task.left_ns -= ran_ns;
            }
            let over = match task.phases[task.phase] {
                Phase::Run(_) => task.left_ns == 0,
                Phase::Sleep(_) => task.asleep_until_ns <= self.now_ns,
                Phase::Exit => false,
            };
            if over {
                task.enter(task.phase + 1, self.now_ns);
            }
        }
    }

    fn idle_watched(&self) -> Vec<CpuId> {
        let watched = |cpu: &CpuId| self.watched_from_ns[*cpu].is_some_and(|ns| ns <= self.now_ns);
        (0..self.cpus).filter(watched).filter(|&cpu| self.running_on(cpu) == 0).collect()
    }

    fn lateness_ns(&mut self) -> Nanos {
        // The multiplier of Knuth's MMIX generator.
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % (self.faults.late_ns + 1)
    }
}

impl Backend for Mock {
    fn name(&self) -> &'static str {
        "mock"
    }

    fn now_ns(&mut self) -> Nanos {
        self.now_ns
    }

    fn wait(&mut self, until_ns: Nanos) -> io::Result<Wakeup> {
        self.advance(until_ns, true);
        let late_ns = self.lateness_ns();
        let idle = self.advance(self.now_ns + late_ns, false);
        idle.iter().for_each(|&cpu| self.watched_from_ns[cpu] = None);
        Ok(Wakeup { idle, interrupted: false })
    }

    fn usage_ns(&mut self, task: TaskId) -> io::Result<Nanos> {
        let known = &self.tasks[task.index()];
        if self.faults.tick_ns == 0 || !known.runs() {
            return Ok(known.used_ns);
        }
        let stale_ns = self.now_ns % self.faults.tick_ns;
        Ok(known.used_ns.saturating_sub(stale_ns).max(known.used_at_cont_ns))
    }

    fn tick_ns(&self) -> Nanos {
        self.faults.tick_ns
    }

    fn activity(&mut self, task: TaskId) -> io::Result<Activity> {
        let known = &self.tasks[task.index()];
        Ok(match known.phases[known.phase] {
            Phase::Run(_) => Activity::Runnable,
            Phase::Sleep(_) => Activity::Blocked,
            Phase::Exit => Activity::Gone,
        })
    }

    fn place(&mut self, task: TaskId, cpu: CpuId) -> io::Result<()> {
        assert!(cpu < self.cpus, "there is no cpu {cpu}");
        self.tasks[task.index()].cpu = cpu;
        Ok(())
    }

    fn cont(&mut self, task: TaskId) -> io::Result<()> {
        let known = &mut self.tasks[task.index()];
        assert!(known.stopped, "{task:?} is continued, but it was not stopped");
        known.stopped = false;
        known.used_at_cont_ns = known.used_ns;
        Ok(())
    }

    fn stop(&mut self, task: TaskId) -> io::Result<()> {
        let known = &mut self.tasks[task.index()];
        known.stopped = true;
        Ok(())
    }

    fn watch(&mut self, cpu: CpuId, after_ns: Nanos) {
        let from_ns = self.now_ns + after_ns;
        self.watched_from_ns[cpu].get_or_insert(from_ns);
    }

    fn tend(&mut self) -> io::Result<()> {
        Ok(())
    }
}

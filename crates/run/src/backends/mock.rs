//! Scripted tasks in logical time: the scheduler loop can be tested exactly, without waiting.

use std::io;

use prorata::{CpuId, Nanos, TaskId};

use crate::backend::{Activity, Backend, Wakeup};

/// What a scripted thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Computes for so many ns of cpu time.
    Run(Nanos),
    /// Sleeps for so many ns.
    Sleep(Nanos),
    /// Ends.
    Exit,
}

/// Goes through `phases`, and then through them again.
#[derive(Clone, Debug)]
struct Thread {
    phases: Vec<Phase>,
    phase: usize,
    /// Cpu time to the end of a `Run` phase.
    left_ns: Nanos,
    /// The end of a `Sleep` phase.
    asleep_until_ns: Nanos,
}

impl Thread {
    fn new(phases: Vec<Phase>) -> Thread {
        assert!(!phases.is_empty(), "a thread does something");
        let mut thread = Thread { phases, phase: 0, left_ns: 0, asleep_until_ns: 0 };
        thread.enter(0, 0);
        thread
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

    /// Lets `ns` pass, of which it runs `ran_ns`, up to `now_ns`.
    fn pass(&mut self, ran_ns: Nanos, now_ns: Nanos) {
        let over = match self.phases[self.phase] {
            Phase::Run(_) => {
                self.left_ns -= ran_ns;
                self.left_ns == 0
            }
            Phase::Sleep(_) => self.asleep_until_ns <= now_ns,
            Phase::Exit => false,
        };
        if over {
            self.enter(self.phase + 1, now_ns);
        }
    }
}

#[derive(Clone, Debug)]
struct MockTask {
    threads: Vec<Thread>,
    stopped: bool,
    cpus: Vec<CpuId>,
    used_ns: Nanos,
    ready_ns: Nanos,
    /// `used_ns` when it last got a cpu: what a stale reading still shows.
    used_at_cont_ns: Nanos,
}

impl MockTask {
    fn new(threads: Vec<Vec<Phase>>, cpu: CpuId) -> MockTask {
        let threads = threads.into_iter().map(Thread::new).collect();
        let (stopped, cpus) = (true, vec![cpu]);
        MockTask { threads, stopped, cpus, used_ns: 0, ready_ns: 0, used_at_cont_ns: 0 }
    }

    fn wanting(&self) -> usize {
        self.threads.iter().filter(|thread| thread.wants_cpu()).count()
    }

    fn runs(&self) -> bool {
        !self.stopped && self.wanting() > 0
    }

    /// The cpu of every thread that runs: they take the task's cpus in turn.
    fn running(&self) -> impl Iterator<Item = (&Thread, CpuId)> {
        let threads = self.threads.iter().filter(|thread| thread.wants_cpu() && !self.stopped);
        threads.zip(self.cpus.iter().copied().cycle())
    }

    /// Lets `ns` pass up to `now_ns`, in which no thread changes what it does; `share` threads run
    /// on each cpu.
    fn pass(&mut self, ns: Nanos, now_ns: Nanos, share: &[u64]) {
        let mut cpus = self.cpus.iter().cycle();
        for thread in &mut self.threads {
            let mut ran_ns = 0;
            if thread.wants_cpu() && !self.stopped {
                let cpu = *cpus.next().expect("a task has a cpu");
                // Rounded up, so that the end of a phase is reached.
                ran_ns = ns.div_ceil(share[cpu]).min(thread.left_ns);
                self.used_ns += ran_ns;
                self.ready_ns += ns - ran_ns;
            } else if thread.wants_cpu() {
                continue;
            }
            thread.pass(ran_ns, now_ns);
        }
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

/// A machine of `cpus` cpus on which threads that share a cpu share it equally.
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
    /// A machine with one task of one thread for each list of phases, stopped before the first.
    ///
    /// # Panics
    /// When a list is empty or `cpus` is 0.
    #[must_use]
    pub fn new(cpus: usize, scripts: Vec<Vec<Phase>>, faults: Faults) -> Mock {
        let threads = scripts.into_iter().map(|phases| vec![phases]).collect();
        Mock::with_threads(cpus, threads, faults)
    }

    /// The same with a list of phases for each thread of each task.
    ///
    /// # Panics
    /// When a list is empty or `cpus` is 0.
    #[must_use]
    pub fn with_threads(cpus: usize, tasks: Vec<Vec<Vec<Phase>>>, faults: Faults) -> Mock {
        assert!(cpus > 0, "a machine has a cpu");
        let tasks = tasks.into_iter().enumerate();
        Mock {
            now_ns: 0,
            cpus,
            tasks: tasks.map(|(i, threads)| MockTask::new(threads, i % cpus)).collect(),
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

    /// How many threads run on each cpu.
    fn share(&self) -> Vec<u64> {
        let mut share = vec![0; self.cpus];
        for (_, cpu) in self.tasks.iter().flat_map(MockTask::running) {
            share[cpu] += 1;
        }
        share
    }

    /// Lets time pass until `until_ns`, or until a watched cpu is idle if `alert`.
    fn advance(&mut self, until_ns: Nanos, alert: bool) -> Vec<CpuId> {
        loop {
            let idle = self.idle_watched();
            if self.now_ns >= until_ns || (alert && !idle.is_empty()) {
                return idle;
            }
            let share = self.share();
            let running = self.tasks.iter().flat_map(MockTask::running);
            let ends = running.map(|(thread, cpu)| self.now_ns + thread.left_ns * share[cpu]);
            let threads = self.tasks.iter().flat_map(|task| &task.threads);
            let asleep = threads.filter(|t| matches!(t.phases[t.phase], Phase::Sleep(_)));
            let wakes = asleep.map(|thread| thread.asleep_until_ns);
            let watches = self.watched_from_ns.iter().flatten().copied();
            let watches = watches.filter(|&from_ns| from_ns > self.now_ns);
            let next = ends.chain(wakes).chain(watches);
            let next_ns = next.min().unwrap_or(until_ns).clamp(self.now_ns, until_ns);
            self.pass(next_ns - self.now_ns, &share);
        }
    }

    /// Lets `ns` pass, in which no task changes what it does.
    fn pass(&mut self, ns: Nanos, share: &[u64]) {
        let wanting: usize = self.tasks.iter().map(MockTask::wanting).sum();
        let busy = share.iter().filter(|&&k| k > 0).count();
        self.wasted_ns += ns * (wanting.min(self.cpus) - busy) as u64;
        self.now_ns += ns;
        for task in &mut self.tasks {
            task.pass(ns, self.now_ns, share);
        }
    }

    fn idle_watched(&self) -> Vec<CpuId> {
        let watched = |cpu: &CpuId| self.watched_from_ns[*cpu].is_some_and(|ns| ns <= self.now_ns);
        let share = self.share();
        (0..self.cpus).filter(watched).filter(|&cpu| share[cpu] == 0).collect()
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
        let cpus = known.wanting().min(known.cpus.len()) as u64;
        let stale_ns = self.now_ns % self.faults.tick_ns * cpus;
        Ok(known.used_ns.saturating_sub(stale_ns).max(known.used_at_cont_ns))
    }

    fn ready_ns(&mut self, task: TaskId) -> io::Result<Nanos> {
        Ok(self.tasks[task.index()].ready_ns)
    }

    fn tick_ns(&self) -> Nanos {
        self.faults.tick_ns
    }

    fn activity(&mut self, task: TaskId, most: usize) -> io::Result<Activity> {
        let known = &self.tasks[task.index()];
        let over = |thread: &Thread| thread.phases[thread.phase] == Phase::Exit;
        Ok(match known.wanting() {
            0 if known.threads.iter().all(over) => Activity::Gone,
            0 => Activity::Blocked,
            wanting => Activity::Runnable(wanting.min(most)),
        })
    }

    fn place(&mut self, task: TaskId, cpus: &[CpuId], _: &[CpuId]) -> io::Result<()> {
        assert!(!cpus.is_empty() && cpus.iter().all(|&cpu| cpu < self.cpus), "cpus {cpus:?}");
        self.tasks[task.index()].cpus = cpus.to_vec();
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

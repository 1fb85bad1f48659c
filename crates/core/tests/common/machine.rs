//! A machine with tasks that sleep, beside the fluid ideal: GMS fed with what each task asks for. A
//! task asks for a run of `run_ns` every `period_ns`, whether it was served or not, but at most one
//! job waits behind the one in service; what comes then is missed. Hogs ask for everything.
//!
//! The machine is exact; the ideal is a plain transcription of its definition in floating point,
//! whose error is below a nanosecond.

use prorata::{CpuId, Nanos, Policy, TaskId};

use super::weight;

/// What a task is and asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    pub(crate) weight: u32,
    /// 0 for a hog.
    pub(crate) period_ns: Nanos,
    pub(crate) run_ns: Nanos,
    /// When it first asks.
    pub(crate) first_ns: Nanos,
}

impl Demand {
    pub(crate) fn hog(weight: u32) -> Demand {
        Demand { weight, period_ns: 0, run_ns: 0, first_ns: 0 }
    }

    pub(crate) fn is_hog(&self) -> bool {
        self.period_ns == 0
    }
}

/// A task on either machine: jobs in service and waiting.
#[derive(Clone, Copy, Debug, Default)]
struct Jobs<T> {
    left: T,
    queued: bool,
    missed: u32,
    served: T,
}

/// The most quanta that a task was behind and ahead, and what else came of it.
#[derive(Clone, Copy, Debug, Default)]
#[allow(dead_code, reason = "not every test needs all of it")]
pub(crate) struct Result {
    pub(crate) behind: f64,
    pub(crate) ahead: f64,
    pub(crate) served_ns: Nanos,
    pub(crate) ideal_ns: f64,
    pub(crate) asked: u32,
    pub(crate) missed: u32,
    pub(crate) ideal_missed: u32,
}

struct Run {
    task: usize,
    since_ns: Nanos,
    slice_end_ns: Nanos,
}

#[allow(dead_code, reason = "not every test needs all of it")]
pub(crate) struct Machine<P> {
    pub(crate) policy: P,
    quantum_ns: Nanos,
    demands: Vec<Demand>,
    next_ns: Vec<Nanos>,
    real: Vec<Jobs<Nanos>>,
    fluid: Vec<Jobs<f64>>,
    rates: Vec<f64>,
    /// Since when each task waits for its first run after it woke.
    woke_ns: Vec<Option<Nanos>>,
    pub(crate) waits_ns: Vec<Vec<Nanos>>,
    runs: Vec<Option<Run>>,
    now_ns: Nanos,
    results: Vec<Result>,
    idle: bool,
    /// By decreasing weight.
    order: Vec<usize>,
    pub(crate) decisions: u64,
}

#[allow(dead_code, reason = "not every test needs all of it")]
impl<P: Policy> Machine<P> {
    /// All tasks are known and none is awake.
    pub(crate) fn new(mut policy: P, cpus: usize, quantum_ns: Nanos, demands: &[Demand]) -> Self {
        for (id, demand) in (0..).zip(demands) {
            policy.add(TaskId(id), weight(demand.weight));
        }
        let count = demands.len();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|&i| core::cmp::Reverse(demands[i].weight));
        Machine {
            policy,
            quantum_ns,
            demands: demands.to_vec(),
            next_ns: demands.iter().map(|demand| demand.first_ns).collect(),
            real: vec![Jobs::default(); count],
            fluid: vec![Jobs::default(); count],
            rates: vec![0.0; count],
            woke_ns: vec![None; count],
            waits_ns: vec![Vec::new(); count],
            runs: (0..cpus).map(|_| None).collect(),
            now_ns: 0,
            results: vec![Result::default(); count],
            idle: true,
            order,
            decisions: 0,
        }
    }

    /// Runs until `end_ns`.
    pub(crate) fn run(&mut self, end_ns: Nanos) -> Vec<Result> {
        while self.now_ns < end_ns {
            let at_ns = self.next_event().min(end_ns);
            self.advance_fluid(at_ns);
            self.end_runs(at_ns);
            self.sample();
            self.arrivals();
            self.fair_rates();
            self.pick_all();
        }
        for (i, result) in self.results.iter_mut().enumerate() {
            result.served_ns = self.real[i].served;
            result.ideal_ns = self.fluid[i].served;
            result.missed = self.real[i].missed;
            result.ideal_missed = self.fluid[i].missed;
        }
        self.results.clone()
    }

    /// What a task has received by now.
    pub(crate) fn served_ns(&self, id: u32) -> Nanos {
        let index = id as usize;
        let mut runs = self.runs.iter().flatten().filter(|run| run.task == index);
        self.real[index].served + runs.next().map_or(0, |run| self.now_ns - run.since_ns)
    }

    /// A task has another weight from now on.
    pub(crate) fn set_weight(&mut self, id: u32, new: u32) {
        self.demands[id as usize].weight = new;
        self.order.sort_by_key(|&i| core::cmp::Reverse(self.demands[i].weight));
        self.fair_rates();
        self.policy.set_weight(TaskId(id), weight(new), self.now_ns);
    }

    fn job_end_ns(&self, run: &Run) -> Nanos {
        let left =
            if self.demands[run.task].is_hog() { Nanos::MAX } else { self.real[run.task].left };
        run.slice_end_ns.min(run.since_ns.saturating_add(left))
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn next_event(&self) -> Nanos {
        let ends = self.runs.iter().flatten().map(|run| self.job_end_ns(run));
        let next = ends.chain(self.next_ns.iter().copied()).min().unwrap_or(Nanos::MAX);
        let fluid = (0..self.demands.len())
            .filter(|&i| !self.demands[i].is_hog() && self.fluid[i].left > 0.0)
            .map(|i| self.now_ns + (self.fluid[i].left / self.rates[i]).ceil() as Nanos);
        next.min(fluid.min().unwrap_or(Nanos::MAX)).max(self.now_ns)
    }

    #[allow(clippy::cast_precision_loss)]
    fn advance_fluid(&mut self, at_ns: Nanos) {
        let elapsed = (at_ns - self.now_ns) as f64;
        for i in 0..self.demands.len() {
            let mut work = elapsed * self.rates[i];
            let jobs = &mut self.fluid[i];
            if self.demands[i].is_hog() {
                jobs.served += work;
                continue;
            }
            while work > 0.0 && jobs.left > 0.0 {
                let done = work.min(jobs.left);
                jobs.served += done;
                jobs.left -= done;
                work -= done;
                if jobs.left < 1e-6 {
                    jobs.left = if jobs.queued { self.demands[i].run_ns as f64 } else { 0.0 };
                    jobs.queued = false;
                }
            }
        }
    }

    /// Brings what runs up to date; runs that are over leave their cpus.
    fn end_runs(&mut self, at_ns: Nanos) {
        self.now_ns = at_ns;
        for cpu in 0..self.runs.len() {
            let Some(run) = &self.runs[cpu] else { continue };
            let is_over = self.job_end_ns(run) <= at_ns;
            if is_over {
                self.stop(cpu);
            }
        }
    }

    /// The task of `cpu` leaves it; if its job is done and no other one waits it sleeps.
    fn stop(&mut self, cpu: CpuId) {
        let run = self.runs[cpu].take().expect("it runs");
        let used_ns = self.now_ns - run.since_ns;
        let jobs = &mut self.real[run.task];
        jobs.served += used_ns;
        let task = TaskId(u32::try_from(run.task).expect("small"));
        if !self.demands[run.task].is_hog() {
            jobs.left -= used_ns;
            if jobs.left == 0 && jobs.queued {
                jobs.left = self.demands[run.task].run_ns;
                jobs.queued = false;
                if self.now_ns < run.slice_end_ns {
                    // It goes on without leaving; what it used so far stays part of the run.
                    jobs.left += used_ns;
                    jobs.served -= used_ns;
                    self.runs[cpu] = Some(run);
                    return;
                }
            }
        }
        self.policy.charge(task, used_ns, self.now_ns);
        if !self.demands[run.task].is_hog() && self.real[run.task].left == 0 {
            self.policy.block(task, self.now_ns);
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn sample(&mut self) {
        let mut running = vec![0; self.demands.len()];
        for run in self.runs.iter().flatten() {
            running[run.task] = self.now_ns - run.since_ns;
        }
        for (i, result) in self.results.iter_mut().enumerate() {
            let served = (self.real[i].served + running[i]) as f64;
            let error = (served - self.fluid[i].served) / self.quantum_ns as f64;
            result.behind = result.behind.min(error);
            result.ahead = result.ahead.max(error);
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn arrivals(&mut self) {
        for i in 0..self.demands.len() {
            if self.next_ns[i] > self.now_ns {
                continue;
            }
            let demand = self.demands[i];
            let task = TaskId(u32::try_from(i).expect("small"));
            if demand.is_hog() {
                self.next_ns[i] = Nanos::MAX;
                self.fluid[i].left = f64::INFINITY;
                self.wake(task);
                continue;
            }
            self.next_ns[i] += demand.period_ns;
            self.results[i].asked += 1;
            let real = &mut self.real[i];
            if real.left == 0 {
                real.left = demand.run_ns;
                self.wake(task);
            } else if real.queued {
                real.missed += 1;
            } else {
                real.queued = true;
            }
            let fluid = &mut self.fluid[i];
            if fluid.left <= 0.0 {
                fluid.left = demand.run_ns as f64;
            } else if fluid.queued {
                fluid.missed += 1;
            } else {
                fluid.queued = true;
            }
        }
    }

    fn wake(&mut self, task: TaskId) {
        self.policy.wake(task, self.now_ns);
        self.woke_ns[task.index()] = Some(self.now_ns);
        self.idle = true;
    }

    /// The rates of the ideal: weighted max-min, nobody above a cpu.
    #[allow(clippy::cast_precision_loss)]
    fn fair_rates(&mut self) {
        let mut cpus = self.runs.len() as f64;
        let is_active = |i: usize| self.fluid[i].left > 0.0;
        let mut weight: f64 = (0..self.demands.len())
            .filter(|&i| is_active(i))
            .map(|i| f64::from(self.demands[i].weight))
            .sum();
        for &i in &self.order {
            self.rates[i] = 0.0;
            if is_active(i) && weight > 0.0 {
                let own = f64::from(self.demands[i].weight);
                self.rates[i] = (own * cpus / weight).min(1.0);
                if self.rates[i] >= 1.0 {
                    cpus -= 1.0;
                    weight -= own;
                }
            }
        }
    }

    fn pick_all(&mut self) {
        for cpu in 0..self.runs.len() {
            if self.runs[cpu].is_none() {
                self.pick(cpu);
            }
        }
        while let Some(cpu) = self.policy.interrupt(self.now_ns) {
            self.stop(cpu);
            self.pick(cpu);
        }
    }

    fn pick(&mut self, cpu: CpuId) {
        self.decisions += 1;
        let Some(task) = self.policy.pick(cpu, self.now_ns) else { return };
        let slice_ns = self.policy.slice_ns(task).unwrap_or(self.quantum_ns);
        let index = task.index();
        if let Some(woke_ns) = self.woke_ns[index].take() {
            self.waits_ns[index].push(self.now_ns - woke_ns);
        }
        self.runs[cpu] =
            Some(Run { task: index, since_ns: self.now_ns, slice_end_ns: self.now_ns + slice_ns });
    }
}

//! A run from beginning to end: helpers, backend, loop, report.

use std::collections::HashMap;
use std::io;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::prctl;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeValLike;
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;
use prorata::{Nanos, Policy, Setup, Sleepers, policies};

use crate::Error;
use crate::backend::Backend;
use crate::backends::Ending;
use crate::backends::cgroup::{self, CgroupBackend};
use crate::backends::signal::SignalBackend;
use crate::guardian::Guardian;
use crate::kernel::{self, Scheduler, Watch};
use crate::machine::Machine;
use crate::report::{Exit, Report, TaskReport};
use crate::runner::{Progress, Runner, Share};
use crate::sys;
use crate::task::{Job, Source, ancestors};

/// How often an observer is told.
const OBSERVE_NS: Nanos = 250_000_000;
/// A command that was asked to end is killed after so long.
const GRACE_NS: Nanos = 2_000_000_000;
const GRACE_STEP_NS: Nanos = 5_000_000;

/// How tasks are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// By cgroups if they can be used, else by signals.
    Auto,
    /// By the cgroup v2 freezer.
    Cgroup,
    /// By SIGSTOP and SIGCONT.
    Signal,
    /// Not at all: the kernel schedules them, by `scx_prorata`.
    Kernel,
}

/// The quanta that this machine can keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The shortest quantum in ns.
    pub quantum_min_ns: Nanos,
    /// The longest.
    pub quantum_max_ns: Nanos,
}

impl Limits {
    /// For a run on `cpus` cpus. One loop serves them all, and a switch takes it up to 50 µs: it
    /// shall not spend more than half of its time with that.
    #[must_use]
    pub fn new(cpus: usize) -> Limits {
        let quantum_min_ns = (100_000 * cpus as u64).max(1_000_000);
        Limits { quantum_min_ns, quantum_max_ns: 60_000_000_000 }
    }
}

/// How to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The policy: `NAME` or `NAME:OPTION=VALUE,…`.
    pub policy: String,
    /// The system's numbers of the cpus to share.
    pub cpus: Vec<usize>,
    /// Length of a quantum.
    pub quantum_ns: Nanos,
    /// When to end, if not with the last command.
    pub duration_ns: Option<Nanos>,
    /// How to hold the tasks.
    pub backend: Choice,
}

/// The cpus that prorata may use: the system's numbers, increasing.
///
/// # Errors
/// When the system does not tell.
pub fn cpus_allowed() -> io::Result<Vec<usize>> {
    let mask = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count()).filter(|&cpu| mask.is_set(cpu).unwrap_or(false)).collect())
}

/// What a run tells while it goes on.
pub trait Observer {
    /// The run begins, with the backend `name`, chosen because of `why`.
    fn begins(&mut self, name: &'static str, why: &str);

    /// How far it has come, four times a second.
    fn progress(&mut self, report: Report);
}

/// Runs `jobs` until all have ended, the time is up or the user interrupts, and reports.
///
/// The calling process has a single thread and no other children: the run forks helpers, buries
/// orphans of its commands, and takes SIGINT, SIGTERM and SIGHUP.
///
/// # Errors
/// When the options or jobs are not acceptable (then nothing was started), or the system fails
/// (then nothing is left stopped).
pub fn run(jobs: &[Job], options: &Options, observer: &mut dyn Observer) -> Result<Report, Error> {
    let setup = check(jobs, options)?;
    let attached = jobs.iter().any(|job| matches!(job.source, Source::Attached(_)));
    if attached && options.backend == Choice::Cgroup {
        return Err(Error::AttachByCgroup);
    }
    if options.backend == Choice::Kernel {
        return run_in_kernel(jobs, options, setup, observer);
    }
    let policy = policies::build(&options.policy, &setup)?;
    let (machine, guardian) = start_helpers(options)?;
    let (directory, why) = match options.backend {
        Choice::Signal | Choice::Kernel => (None, "as asked".to_owned()),
        Choice::Auto if attached => (None, "attached processes stay in their cgroups".to_owned()),
        Choice::Cgroup => {
            let directory = cgroup::prepare(guardian.pid).map_err(Error::NoCgroup)?;
            (Some(directory), "as asked".to_owned())
        }
        Choice::Auto => match cgroup::prepare(guardian.pid) {
            Ok(directory) => (Some(directory), "cgroups can be made here".to_owned()),
            Err(reason) => (None, format!("cgroups cannot be used: {reason}")),
        },
    };
    let run = Run::new(jobs, options, setup, &[machine.sentries, guardian.pid]);
    if let Some(directory) = directory {
        let backend = CgroupBackend::new(machine, guardian, directory, jobs)?;
        observer.begins(backend.name(), &why);
        run.drive(backend, policy, observer)
    } else {
        let backend = SignalBackend::new(machine, guardian, jobs, &mut |_| Ok(()))?;
        observer.begins(backend.name(), &why);
        run.drive(backend, policy, observer)
    }
}

/// The processes that help with a run.
fn start_helpers(options: &Options) -> Result<(Machine, Guardian), Error> {
    raise_file_limit();
    let machine = Machine::new(&options.cpus)?;
    let guardian = Guardian::new()?;
    prctl::set_child_subreaper(true).map_err(io::Error::from)?;
    Ok((machine, guardian))
}

/// The kernel schedules; prorata looks.
fn run_in_kernel(
    jobs: &[Job],
    options: &Options,
    setup: Setup,
    observer: &mut dyn Observer,
) -> Result<Report, Error> {
    kernel::check(jobs, &options.cpus)?;
    let (machine, guardian) = start_helpers(options)?;
    let scheduler = match Scheduler::load(&options.policy, options.quantum_ns) {
        Ok(scheduler) => scheduler,
        Err(error) => {
            guardian.dismiss();
            machine.close();
            return Err(error);
        }
    };
    let run = Run::new(jobs, options, setup, &[machine.sentries, guardian.pid]);
    let quantum_ns = options.quantum_ns;
    let watch = Watch::start(scheduler, jobs, options.cpus.len(), quantum_ns, |before| {
        SignalBackend::new(machine, guardian, jobs, before)
    })?;
    observer.begins("kernel", &format!("as asked; scx_prorata --policy {}", options.policy));
    run.watch(watch, observer)
}

fn check(jobs: &[Job], options: &Options) -> Result<Setup, Error> {
    let allowed = cpus_allowed()?;
    if let Some(cpu) = options.cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        return Err(Error::Cpus(format!("cpu {cpu} is not there, or not for prorata")));
    }
    if options.cpus.is_empty() || options.cpus.len() > Setup::MAX_CPUS {
        return Err(Error::Cpus("share at least one cpu and at most 65536".to_owned()));
    }
    let limits = Limits::new(options.cpus.len());
    let quantum_ms = |ns: Nanos| ns as f64 / 1e6;
    if !(limits.quantum_min_ns..=limits.quantum_max_ns).contains(&options.quantum_ns) {
        return Err(Error::Quantum(format!(
            "a quantum of {} ms cannot be kept on {} cpus: use {} ms to {} ms",
            quantum_ms(options.quantum_ns),
            options.cpus.len(),
            quantum_ms(limits.quantum_min_ns),
            quantum_ms(limits.quantum_max_ns),
        )));
    }
    check_overlap(jobs)?;
    // What a command used is known at looks, not when it blocks: too late to follow the ideal by.
    let sleepers = Sleepers::Turns;
    Ok(Setup { sleepers, ..Setup::new(options.cpus.len(), options.quantum_ns) })
}

/// No attached process is another one or a descendant of another one.
fn check_overlap(jobs: &[Job]) -> Result<(), Error> {
    let pids = jobs.iter().enumerate().filter_map(|(index, job)| match &job.source {
        Source::Attached(attached) => Some((attached.pid, index)),
        Source::Command(_) => None,
    });
    let pids: Vec<(i32, usize)> = pids.collect();
    let first: HashMap<i32, usize> = pids.iter().rev().copied().collect();
    for &(pid, index) in &pids {
        let other =
            ancestors(pid).find(|ancestor| first.get(ancestor).is_some_and(|&i| i != index));
        if let Some(other) = other {
            return Err(Error::Overlap { pid, other });
        }
    }
    Ok(())
}

/// A tree needs up to three open files a process.
fn raise_file_limit() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // A failure shows later, when a file cannot be opened.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// Prorata's own use of the cpus.
struct Helpers {
    clocks: Vec<nix::time::ClockId>,
    /// Used before the run began.
    own_ns: Nanos,
}

impl Helpers {
    fn new(pids: &[Pid]) -> Helpers {
        let clocks = pids.iter().filter_map(|&pid| clock_getcpuclockid(pid).ok()).collect();
        Helpers { clocks, own_ns: 0 }
    }

    fn used_ns(&self) -> Nanos {
        let own = getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| {
            (usage.user_time() + usage.system_time()).num_nanoseconds().unsigned_abs()
        });
        let clocks = self.clocks.iter().filter_map(|clock| clock.now().ok());
        own + clocks.map(|time| time.num_nanoseconds().unsigned_abs()).sum::<Nanos>()
    }
}

/// Whoever shares out the cpus: our loop, or the kernel under our eyes.
trait Sharing {
    /// Of the backend.
    fn name(&mut self) -> &'static str;

    fn now_ns(&mut self) -> Nanos;

    fn is_done(&self) -> bool;

    /// Goes on to the next event, at the latest to `until_ns`. True if the user interrupts.
    fn step(&mut self, until_ns: Nanos) -> Result<bool, Error>;

    /// What became of every task so far.
    fn parts(&mut self) -> Vec<(Progress, Option<Exit>)>;
}

impl<B: Backend + Ending> Sharing for Runner<B> {
    fn name(&mut self) -> &'static str {
        self.backend().name()
    }

    fn now_ns(&mut self) -> Nanos {
        self.backend().now_ns()
    }

    fn is_done(&self) -> bool {
        Runner::is_done(self)
    }

    fn step(&mut self, until_ns: Nanos) -> Result<bool, Error> {
        Ok(Runner::step(self, until_ns)?)
    }

    fn parts(&mut self) -> Vec<(Progress, Option<Exit>)> {
        let tasks = self.task_ids();
        tasks.map(|task| (self.progress(task), self.backend().exit(task))).collect()
    }
}

impl Sharing for Watch {
    fn name(&mut self) -> &'static str {
        "kernel"
    }

    fn now_ns(&mut self) -> Nanos {
        self.backend().now_ns()
    }

    fn is_done(&self) -> bool {
        Watch::is_done(self)
    }

    fn step(&mut self, until_ns: Nanos) -> Result<bool, Error> {
        Watch::step(self, until_ns)
    }

    fn parts(&mut self) -> Vec<(Progress, Option<Exit>)> {
        let tasks = self.task_ids();
        tasks.map(|task| (self.progress(task), self.backend().exit(task))).collect()
    }
}

struct Run<'a> {
    jobs: &'a [Job],
    options: &'a Options,
    setup: Setup,
    helpers: Helpers,
}

impl<'a> Run<'a> {
    fn new(jobs: &'a [Job], options: &'a Options, setup: Setup, helpers: &[Pid]) -> Run<'a> {
        let mut helpers = Helpers::new(helpers);
        helpers.own_ns = helpers.used_ns();
        sys::be_prompt();
        Run { jobs, options, setup, helpers }
    }

    /// A run that the kernel schedules.
    fn watch(&self, mut watch: Watch, observer: &mut dyn Observer) -> Result<Report, Error> {
        let start_ns = watch.backend().now_ns();
        let result = self.follow(&mut watch, start_ns, observer);
        let report = watch.finish().map(|()| self.report(&mut watch, start_ns));
        self.end(watch.backend(), result.is_ok());
        drop(watch.close());
        result?;
        Ok(report?)
    }

    fn drive<B: Backend + Ending>(
        &self,
        backend: B,
        policy: Box<dyn Policy + Send>,
        observer: &mut dyn Observer,
    ) -> Result<Report, Error> {
        let shares: Vec<Share> = self.jobs.iter().map(|job| job.share).collect();
        let mut runner = Runner::new(backend, policy, &self.setup, &shares);
        let start_ns = runner.backend().now_ns();
        let started = runner.start().map_err(Error::from);
        let result = started.and_then(|()| self.follow(&mut runner, start_ns, observer));
        let report = runner.finish().map(|()| self.report(&mut runner, start_ns));
        let mut backend = runner.into_backend();
        self.end(&mut backend, result.is_ok());
        backend.close();
        result?;
        Ok(report?)
    }

    /// Goes on until everything has ended, the time is up or the user interrupts.
    fn follow(
        &self,
        sharing: &mut impl Sharing,
        start_ns: Nanos,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let end_ns = self.options.duration_ns.map_or(Nanos::MAX, |ns| start_ns.saturating_add(ns));
        let mut observe_ns = start_ns + OBSERVE_NS;
        while !sharing.is_done() {
            let interrupted = sharing.step(end_ns)?;
            let now_ns = sharing.now_ns();
            if interrupted || now_ns >= end_ns {
                break;
            }
            if now_ns >= observe_ns {
                observe_ns = now_ns + OBSERVE_NS;
                observer.progress(self.report(sharing, start_ns));
            }
        }
        Ok(())
    }

    /// Ends the commands; attached processes go on. After a failure commands go on too: better
    /// unscheduled than lost.
    fn end<B: Backend + Ending>(&self, backend: &mut B, orderly: bool) {
        let mut ending = Vec::new();
        for (task, job) in (0..).map(prorata::TaskId).zip(self.jobs) {
            match job.source {
                Source::Command(_) if orderly => {
                    backend.ask_to_end(task);
                    ending.push(task);
                }
                _ => backend.release(task),
            }
        }
        let deadline_ns = backend.now_ns() + GRACE_NS;
        let gone = crate::backend::Activity::Gone;
        loop {
            ending.retain(|&task| backend.activity(task, 1).is_ok_and(|activity| activity != gone));
            let now_ns = backend.now_ns();
            if ending.is_empty() || now_ns >= deadline_ns {
                break;
            }
            let wakeup = backend.wait(now_ns + GRACE_STEP_NS);
            if wakeup.is_ok_and(|wakeup| wakeup.interrupted) {
                break;
            }
        }
        for &task in &ending {
            backend.kill(task);
        }
        for &task in &ending {
            while backend.activity(task, 1).is_ok_and(|activity| activity != gone) {
                let now_ns = backend.now_ns();
                let _ = backend.wait(now_ns + GRACE_STEP_NS);
            }
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn report(&self, sharing: &mut impl Sharing, start_ns: Nanos) -> Report {
        let elapsed_ns = sharing.now_ns() - start_ns;
        let parts = sharing.parts();
        let seconds = |ns: Nanos| ns as f64 / 1e9;
        let used_ns: Nanos = parts.iter().map(|(task, _)| task.used_ns).sum();
        let ideal_ns: Nanos = parts.iter().map(|(task, _)| task.ideal_ns).sum();
        let share = |part: Nanos, all: Nanos| if all == 0 { 0.0 } else { part as f64 / all as f64 };
        let tasks = parts.into_iter().zip(self.jobs).map(|((part, exit), job)| TaskReport {
            command: job.text().to_owned(),
            weight: job.share.weight.get(),
            entitled_share: share(part.ideal_ns, ideal_ns),
            received_share: share(part.used_ns, used_ns),
            cpu_s: seconds(part.used_ns),
            error_min_quanta: part.error_min_quanta,
            error_max_quanta: part.error_max_quanta,
            exit,
        });
        Report {
            policy: self.options.policy.clone(),
            backend: sharing.name(),
            cpus: self.options.cpus.len(),
            quantum_ms: self.options.quantum_ns as f64 / 1e6,
            duration_s: seconds(elapsed_ns),
            overhead_cpu_s: seconds(self.helpers.used_ns() - self.helpers.own_ns),
            tasks: tasks.collect(),
        }
    }
}

//! Commands under `scx_prorata`: the kernel's scheduler is the policy (crates/scx). prorata loads
//! it, starts the commands with their weights, watches and reports.
//!
//! Nothing is stopped and nothing is charged here: what the commands used is read ten times a second,
//! so that errors in the report are those at these moments. (prorata goes before them when it looks: once a
//! quantum, it took 6 % from a command that was due a whole cpu, which can never make up for that.) The
//! weight is each thread's, inherited by what it starts: a command of two busy threads counts twice. (With
//! the other backends it is the whole command's.) The scheduler serves the whole machine, prorata included.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use prorata::{Nanos, TaskId, Weight};

use crate::Error;
use crate::backend::{Activity, Backend};
use crate::backends::Ending;
use crate::backends::signal::SignalBackend;
use crate::entitlement::Entitlement;
use crate::runner::Progress;
use crate::task::{Job, Source};

const PROGRAM: &str = "scx_prorata";
const STATE: &str = "/sys/kernel/sched_ext/state";
const NAME: &str = "/sys/kernel/sched_ext/root/ops";
/// Where the loader takes root's requests for weights (crates/scx/src/weight.rs).
const SOCKET: &str = "/run/scx_prorata-root.sock";
/// The greatest weight of the kernel's policies.
const WEIGHT_MAX: u32 = 1_000_000;
/// Loading makes the kernel verify the program, which takes an emulated cpu its time.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(10);
/// How often the commands are looked at.
const LOOK_NS: Nanos = 100_000_000;

/// The scheduler, loaded by us for this run.
pub(crate) struct Scheduler(Child);

impl Scheduler {
    /// Loads the scheduler and waits until it takes requests.
    pub(crate) fn load(policy: &str, quantum_ns: Nanos) -> Result<Scheduler, Error> {
        if is_enabled() {
            let name = fs::read_to_string(NAME).unwrap_or_default();
            let why = format!("the scheduler '{}' is loaded: stop it first", name.trim());
            return Err(Error::NoKernel(why));
        }
        let mut command = Command::new(program()?);
        command.args(["--policy", policy, "--quantum", &format!("{quantum_ns}ns")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        crate::sys::before_exec(&mut command, || {
            // Not ended by the Ctrl-C that ends the run, but by the end of prorata.
            nix::unistd::setsid()?;
            Ok(prctl::set_pdeathsig(Signal::SIGINT)?)
        });
        let child = command.spawn().map_err(|e| Error::NoKernel(format!("{PROGRAM}: {e}")))?;
        let mut scheduler = Scheduler(child);
        let deadline = Instant::now() + PATIENCE;
        while !is_enabled() || UnixStream::connect(SOCKET).is_err() {
            if scheduler.0.try_wait()?.is_some() {
                return Err(scheduler.complaint());
            }
            if Instant::now() > deadline {
                return Err(Error::NoKernel(format!("{PROGRAM} does not get the machine")));
            }
            thread::sleep(LOOK);
        }
        Ok(scheduler)
    }

    /// What the loader said before it ended.
    fn complaint(&mut self) -> Error {
        let mut said = String::new();
        if let Some(stderr) = &mut self.0.stderr {
            // What cannot be read is not told.
            let _ = stderr.read_to_string(&mut said);
        }
        let mut lines = said.lines().rev();
        let why = lines.find_map(|line| {
            line.strip_prefix("scx_prorata: ").or_else(|| line.strip_prefix("error: "))
        });
        Error::NoKernel(why.unwrap_or("scx_prorata ended without a word").to_owned())
    }
}

impl Drop for Scheduler {
    /// The machine goes back to the kernel's own scheduler.
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGINT);
        let _ = self.0.wait();
    }
}

/// The program, beside prorata or in PATH.
fn program() -> Result<PathBuf, Error> {
    let own = env::current_exe().ok().and_then(|path| Some(path.parent()?.to_owned()));
    let path = env::var_os("PATH").unwrap_or_default();
    let mut directories = own.into_iter().chain(env::split_paths(&path));
    directories
        .find_map(|directory| Some(directory.join(PROGRAM)).filter(|p| p.is_file()))
        .ok_or_else(|| {
            let why = "there is no scx_prorata beside prorata or in PATH: install it";
            Error::NoKernel(format!("{why} (cargo build --release -p scx_prorata)"))
        })
}

fn is_enabled() -> bool {
    fs::read_to_string(Path::new(STATE)).is_ok_and(|state| state.trim() == "enabled")
}

/// Gives the calling process this weight (0: that of its nice value), which what it starts then
/// inherits.
fn take_weight(weight: u32) -> Result<(), Error> {
    let refused = |why: String| Error::NoKernel(format!("{PROGRAM} refuses a weight: {why}"));
    let ask = || -> io::Result<String> {
        let mut stream = UnixStream::connect(SOCKET)?;
        writeln!(stream, "pid {} {weight}", std::process::id())?;
        let lines: io::Result<Vec<String>> = BufReader::new(stream).lines().collect();
        Ok(lines?.pop().unwrap_or_default())
    };
    match ask() {
        Ok(verdict) if verdict == "ok" => Ok(()),
        Ok(verdict) => Err(refused(verdict)),
        Err(error) => Err(refused(error.to_string())),
    }
}

/// Refuses what the kernel's scheduler cannot do.
pub(crate) fn check(jobs: &[Job], cpus: &[usize]) -> Result<(), Error> {
    if jobs.iter().any(|job| matches!(job.source, Source::Attached(_))) {
        let why = "what runs already is given its weight by `scx_prorata weight set --pid`";
        return Err(Error::NoKernel(why.to_owned()));
    }
    if let Some(job) = jobs.iter().find(|job| job.share.weight.get() > WEIGHT_MAX) {
        let why = format!("its weights end at {WEIGHT_MAX}: lower that of '{}'", job.text());
        return Err(Error::NoKernel(why));
    }
    let online = thread::available_parallelism()?.get();
    let all = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN);
    let all = all.ok().flatten().and_then(|n| usize::try_from(n).ok()).unwrap_or(online);
    if cpus.len() != all {
        let why = format!("it schedules all {all} cpus: leave --cpus out");
        return Err(Error::NoKernel(why));
    }
    Ok(())
}

/// Called before each command is started.
type BeforeEach<'a> = &'a mut dyn FnMut(&Job) -> Result<(), Error>;

/// The commands of a run, scheduled by the kernel.
pub(crate) struct Watch {
    backend: SignalBackend,
    entitlement: Entitlement,
    quantum_ns: Nanos,
    tasks: Vec<Watched>,
    scheduler: Scheduler,
}

#[derive(Clone, Copy)]
struct Watched {
    /// What it had used when all were let go: on a slow machine the guardian has let it run before.
    before_ns: Nanos,
    used_ns: Nanos,
    activity: Activity,
}

impl Watch {
    /// Starts `jobs` by means of `start`, each with its weight, and lets them run.
    pub(crate) fn start(
        scheduler: Scheduler,
        jobs: &[Job],
        cpus: usize,
        quantum_ns: Nanos,
        start: impl FnOnce(BeforeEach<'_>) -> Result<SignalBackend, Error>,
    ) -> Result<Watch, Error> {
        let mut backend = start(&mut |job| take_weight(job.share.weight.get()))?;
        if let Err(error) = take_weight(0) {
            backend.abandon(jobs);
            return Err(error);
        }
        let weights: Vec<Weight> = jobs.iter().map(|job| job.share.weight).collect();
        let tasks =
            vec![Watched { before_ns: 0, used_ns: 0, activity: Activity::Blocked }; jobs.len()];
        let entitlement = Entitlement::new(cpus, &weights, backend.now_ns());
        let mut watch = Watch { backend, entitlement, quantum_ns, tasks, scheduler };
        for task in watch.task_ids() {
            watch.tasks[task.index()].before_ns = watch.backend.usage_ns(task)?;
            watch.backend.release(task);
            watch.entitlement.observe(task, 0, true);
        }
        Ok(watch)
    }

    pub(crate) fn backend(&mut self) -> &mut SignalBackend {
        &mut self.backend
    }

    pub(crate) fn task_ids(&self) -> impl Iterator<Item = TaskId> + use<> {
        (0..u32::try_from(self.tasks.len()).expect("a command line is shorter")).map(TaskId)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.tasks.iter().all(|task| task.activity == Activity::Gone)
    }

    /// Waits and looks what became of the tasks. True if the user interrupts.
    pub(crate) fn step(&mut self, end_ns: Nanos) -> Result<bool, Error> {
        let look_ns = self.backend.now_ns() + LOOK_NS;
        let interrupted = self.backend.wait(end_ns.min(look_ns))?.interrupted;
        self.backend.tend()?;
        if !is_enabled() {
            let why = "the kernel has unloaded the scheduler; dmesg says why".to_owned();
            return Err(Error::NoKernel(why));
        }
        self.look()?;
        Ok(interrupted)
    }

    fn look(&mut self) -> io::Result<()> {
        for task in self.task_ids() {
            let usage_ns = self.backend.usage_ns(task)?;
            let known = &mut self.tasks[task.index()];
            known.used_ns = usage_ns - known.before_ns;
        }
        let now_ns = self.backend.now_ns();
        self.entitlement.advance(now_ns, self.tasks.iter().map(|task| task.used_ns).sum());
        for task in self.task_ids() {
            let used_ns = self.tasks[task.index()].used_ns;
            let activity = self.backend.activity(task, 1)?;
            self.entitlement.observe(task, used_ns, matches!(activity, Activity::Runnable(_)));
            self.entitlement.sample(task, used_ns);
            self.tasks[task.index()].activity = activity;
        }
        Ok(())
    }

    /// Nothing more is counted.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.look()
    }

    pub(crate) fn progress(&mut self, task: TaskId) -> Progress {
        let error = self.entitlement.error_quanta(task, self.quantum_ns);
        let Watched { used_ns, activity, .. } = self.tasks[task.index()];
        Progress {
            used_ns,
            ideal_ns: self.entitlement.ideal_ns(task),
            error_min_quanta: error.min,
            error_max_quanta: error.max,
            gone: activity == Activity::Gone,
        }
    }

    /// Lets go of everything but the scheduler, which the caller unloads by dropping it.
    pub(crate) fn close(self) -> Scheduler {
        self.backend.close();
        self.scheduler
    }
}

//! Everything at once, at random: what a scheduler must survive, and decide as the core does.
//!
//! Workers compute, sleep and fork, while their nice values, affinities, scheduling classes, cgroups
//! and weights change and real-time threads take cpus away. Then the scheduler's recording is
//! verified, cpus go away and come back, and every worker must have gone on.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::random::Random;
use super::scheduler::{self, Scheduler};
use super::system;
use crate::{ours, shell};

/// A recording of a phase fits into the machine's memory. Loading the scheduler, three times a
/// phase, takes nearly as long.
const PHASE: Duration = Duration::from_secs(120);
const RECORDING: &str = "/tmp/recording";
const CGROUPS: &str = "/sys/fs/cgroup";
/// Time in which every worker must have run, whatever its weight: the rescue time and some.
const PATIENCE: Duration = Duration::from_secs(25);

#[derive(clap::Args)]
pub(crate) struct StressArgs {
    #[arg(long)]
    policy: String,
    /// Virtual seconds.
    #[arg(long)]
    seconds: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl StressArgs {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        system::become_real_time()?;
        let cpus = thread::available_parallelism()?.get();
        let mut random = Random::new(self.seed);
        let mut left = Duration::from_secs(self.seconds);
        let mut phase = 0;
        while !left.is_zero() {
            let length = left.min(PHASE);
            left -= length;
            phase += 1;
            let seed = random.next();
            self.phase(length, cpus, &mut random)
                .with_context(|| format!("phase {phase}, policy {}", self.policy))?;
            println!("{} on {cpus} cpus: phase {phase} (seed {seed}) is over", self.policy);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn phase(&self, length: Duration, cpus: usize, random: &mut Random) -> Result<()> {
        self.disturb(length, cpus, random)?;
        shell::run(Command::new("prorata").args(["verify", RECORDING]))?;
        if cpus > 1 { self.change_cpus(cpus, random) } else { Ok(()) }
    }

    /// The recording of the time is in its file then.
    fn disturb(&self, length: Duration, cpus: usize, random: &mut Random) -> Result<()> {
        let mut scheduler = Scheduler::start(&ours::recorded(&self.policy, RECORDING))?;
        let mut workers = Workers::new(cpus, random)?;
        let intruder = Intruder::start(cpus, random.next());
        let end = Instant::now() + length;
        while Instant::now() < end {
            thread::sleep(Duration::from_millis(random.below(40)));
            scheduler.goes_on()?;
            workers.disturb(cpus, random)?;
        }
        intruder.stop();
        workers.all_go_on().context("after the disturbances")?;
        scheduler.stop()
    }

    fn change_cpus(&self, cpus: usize, random: &mut Random) -> Result<()> {
        let scheduler = Scheduler::start(&ours::command_line(&self.policy))?;
        let mut workers = Workers::new(cpus, random)?;
        let before = scheduler::loads()?;
        hotplug(cpus, random)?;
        ensure!(
            scheduler::loads()? == before,
            "the scheduler was unloaded for cpus that went and came"
        );
        workers.all_go_on().context("after hotplug")?;
        scheduler.stop()
    }
}

/// Kinds of workers.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    Hog,
    Sleeper,
    Forker,
}

#[derive(clap::Args)]
pub(crate) struct WorkerArgs {
    kind: Kind,
    seed: u64,
}

impl WorkerArgs {
    /// Works until it is killed.
    pub(crate) fn execute(self) -> Result<ExitCode> {
        let mut random = Random::new(self.seed);
        loop {
            compute(Duration::from_micros(random.below(3000)));
            match self.kind {
                Kind::Hog => {}
                Kind::Sleeper => thread::sleep(Duration::from_micros(random.below(10_000))),
                Kind::Forker => {
                    let child = Command::new("true").stdin(Stdio::null()).status();
                    child.context("cannot start a child")?;
                    thread::sleep(Duration::from_millis(random.below(50)));
                }
            }
        }
    }
}

pub(super) fn compute(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Processes that work; killed when dropped.
struct Workers(Vec<Child>);

impl Workers {
    fn new(cpus: usize, random: &mut Random) -> Result<Workers> {
        let this = std::env::current_exe()?;
        let mut workers = Workers(Vec::new());
        for group in ["a", "b"] {
            fs::create_dir_all(format!("{CGROUPS}/{group}"))?;
        }
        let kinds = [("hog", 2 * cpus + 1), ("sleeper", 2 * cpus + 2), ("forker", 2)];
        for (kind, count) in kinds {
            for _ in 0..count {
                let mut command = Command::new(&this);
                command.args(["guest", "worker", kind, &random.next().to_string()]);
                let worker = command.stdin(Stdio::null()).spawn();
                workers.0.push(worker.context("cannot start a worker")?);
            }
        }
        Ok(workers)
    }

    /// Does something to one of them.
    fn disturb(&mut self, cpus: usize, random: &mut Random) -> Result<()> {
        let pid = self.0[random.index(self.0.len())].id();
        match random.below(12) {
            0..3 => {
                let nice = i32::try_from(random.below(40))? - 20;
                system::set_nice(pid, nice)?;
            }
            3..6 => system::bind(pid, |cpu| cpu < cpus && random.below(2) == 0, cpus)?,
            6..8 => {
                let real_time = random.below(4) == 0;
                system::set_real_time(pid, real_time)?;
                if real_time {
                    // Hogs would keep the cpu until the kernel's limit for real-time tasks.
                    thread::sleep(Duration::from_millis(random.below(10)));
                    system::set_real_time(pid, false)?;
                }
            }
            8..10 => {
                let group = ["a/", "b/", ""][random.index(3)];
                fs::write(format!("{CGROUPS}/{group}cgroup.procs"), pid.to_string())?;
            }
            10 => {
                let weight = (1 + random.below(1_000_000)).to_string();
                set_weight(pid, &weight)?;
            }
            _ => thread::sleep(Duration::from_millis(random.below(30))),
        }
        Ok(())
    }

    /// Every worker is there, and runs in time.
    fn all_go_on(&mut self) -> Result<()> {
        let before = self.run_times_ns()?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            thread::sleep(Duration::from_millis(200));
            let now = self.run_times_ns()?;
            let stuck = before.iter().zip(&now).position(|(before, now)| now == before);
            let Some(stuck) = stuck else { return Ok(()) };
            if Instant::now() > deadline {
                bail!("worker {} did not run for {PATIENCE:?}", self.0[stuck].id());
            }
        }
    }

    /// Of each worker together with its child, for which it may be waiting.
    fn run_times_ns(&mut self) -> Result<Vec<u64>> {
        let mut times_ns = Vec::new();
        for worker in &mut self.0 {
            let pid = worker.id();
            ensure!(worker.try_wait()?.is_none(), "worker {pid} is gone");
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
            let mut time_ns = system::run_time_ns(pid)?;
            for child in children.split_whitespace() {
                // It may be gone by now.
                time_ns += system::run_time_ns(child.parse()?).unwrap_or(0);
            }
            times_ns.push(time_ns);
        }
        Ok(times_ns)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &mut self.0 {
            // One that has gone already is gone.
            let _ = worker.kill();
            let _ = worker.wait();
        }
    }
}

/// By the command, which must not wait for its turn among workers of a thousand times its weight.
fn set_weight(pid: u32, weight: &str) -> Result<()> {
    let command = Command::new("scx_prorata")
        .args(["weight", "set", "--pid", &pid.to_string(), weight])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start scx_prorata")?;
    system::set_nice(command.id(), -20)?;
    let output = command.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`scx_prorata weight set` failed: {}", said.trim_end());
    Ok(())
}

/// Threads of real time, one for each cpu, that take it away for milliseconds now and then.
struct Intruder {
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Intruder {
    fn start(cpus: usize, seed: u64) -> Intruder {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let intrude = |cpu: usize| {
            let stop = stop.clone();
            let mut random = Random::new(seed ^ cpu as u64);
            thread::spawn(move || {
                // Threads of a real-time process that resets on fork begin as ordinary ones.
                let ready = system::become_real_time().and_then(|()| system::bind_to(cpu));
                ready.expect("this process is root's");
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    compute(Duration::from_micros(random.below(8000)));
                    thread::sleep(Duration::from_millis(20 + random.below(200)));
                }
            })
        };
        let threads = (0..cpus).map(intrude).collect();
        Intruder { stop, threads }
    }

    fn stop(self) {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("an intruder does not panic");
        }
    }
}

/// Takes a cpu away and gives it back.
fn hotplug(cpus: usize, random: &mut Random) -> Result<()> {
    let cpu = 1 + random.index(cpus - 1);
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    for online in ["0", "1"] {
        fs::write(&file, online).with_context(|| format!("{file} takes no {online}"))?;
        thread::sleep(Duration::from_millis(500 + random.below(1000)));
    }
    Ok(())
}

#[derive(clap::Args)]
pub(crate) struct KillArgs {
    #[arg(long)]
    policy: String,
    #[arg(long)]
    times: u32,
}

impl KillArgs {
    /// The loader is killed under load: every time the kernel's own scheduler is back, everybody
    /// goes on, and the scheduler can be loaded again.
    pub(crate) fn execute(self) -> Result<ExitCode> {
        system::become_real_time()?;
        ensure!(Path::new(CGROUPS).is_dir(), "there are no cgroups here");
        let cpus = thread::available_parallelism()?.get();
        let mut random = Random::new(u64::from(self.times));
        let mut workers = Workers::new(cpus, &mut random)?;
        for time in 1..=self.times {
            let scheduler = Scheduler::start(&ours::command_line(&self.policy))
                .with_context(|| format!("load {time}"))?;
            thread::sleep(Duration::from_millis(random.below(100)));
            scheduler.kill()?;
            workers.all_go_on().with_context(|| format!("kill {time}"))?;
            if time % 10 == 0 || time == self.times {
                println!("{} on {cpus} cpus: killed {time} times", self.policy);
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

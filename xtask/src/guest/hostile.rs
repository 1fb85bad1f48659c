//! A user against everybody: what an ordinary user can do, at random, while cpus come and go.
//!
//! Two hogs of root are in a cgroup of weight 100, the user's processes in one of 200, whose tree is
//! theirs. Whatever they do, the hogs are due a third of what is not root's other processes' or the kernel's;
//! the scheduler stays; the core explains every decision. A policy that knows no cgroups owes hogs what two
//! of all tasks are due, which nobody counts here: they must go on.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::hogs::Hogs;
use super::miscreant::{BREACHES, DELEGATED, LEAVES};
use super::open_metrics;
use super::random::Random;
use super::scheduler::{self, Scheduler};
use super::system;
use super::user::UsersProcess;
use crate::vm::LARGE_OUTPUT;
use crate::{ours, shell};

const RECORDING: &str = "/tmp/recording";
const HOGS: &str = "/sys/fs/cgroup/hogs";
const CGROUPS: &str = "/sys/fs/cgroup";
const WEIGHTS: [(&str, u32); 2] = [(HOGS, 100), (DELEGATED, 200)];
/// What hogs are due of what they, the user and nobody have.
const DUE: f64 = 1.0 / 3.0;
/// And the least of it that they must receive in a window.
const LEAST: f64 = 0.95;
const WINDOW: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_secs(1);
/// A recording of a phase fits into the machine's memory.
const PHASE: Duration = Duration::from_secs(120);
/// Hogs have used what they slept through, and cgroups are known, when they are measured.
const SETTLING: Duration = Duration::from_secs(2);
const MISCREANTS: usize = 6;
/// All of them end so often, and others come.
const WAVE: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_secs(300);
/// Decisions of the policy's inner algorithm in one pick: others wait for it, who hold a cpu. VTRR makes
/// 1,040 at most among 130 tasks on 4 cpus, and may be asked more than once; in half an hour GR3's had 425.
const MOST_CHOICES: f64 = 4_000.0;
/// Of /proc/stat.
const USER_TICKS_PER_S: f64 = 100.0;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    policy: String,
    #[arg(long)]
    seconds: u64,
    /// Of the first phase; the next has the next one, so that a phase can be repeated alone.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// So many cpus go offline and come back.
    #[arg(long, default_value_t = 2)]
    offline: usize,
    /// The user does only these: `bind`, `processes`, `yield`, … (see miscreant.rs).
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    acts: Vec<String>,
    /// Give the host the recordings of all phases in which hogs receive too little, or that fail, one after
    /// the other.
    #[arg(long)]
    keep: bool,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        system::become_real_time()?;
        let cpus = thread::available_parallelism()?.get();
        ensure!(self.offline < cpus, "a cpu must stay: --offline must be below {cpus}");
        delegate()?;
        let mut left = Duration::from_secs(self.seconds);
        let mut worst = f64::INFINITY;
        for phase in 0.. {
            let seed = self.seed.wrapping_add(phase);
            let length = left.min(PHASE);
            left -= length;
            // That of the phase before, if there was one.
            let _ = fs::remove_file(RECORDING);
            let least = self.phase(length, cpus, &mut Random::new(seed));
            let is_right = matches!(least, Ok(least) if least.is_none_or(|least| least >= LEAST));
            // A scheduler that has not loaded has recorded nothing.
            if self.keep && !is_right && Path::new(RECORDING).exists() {
                hand_over_recording()?;
            }
            let least =
                least.with_context(|| format!("phase of seed {seed}, policy {}", self.policy))?;
            worst = worst.min(least.unwrap_or(worst));
            let told = match least {
                Some(least) => format!("received at least {least:.3} of their due in {WINDOW:?}"),
                None => format!("ran in every {WINDOW:?}"),
            };
            println!(
                "{} on {cpus} cpus: the phase of seed {seed} is over, hogs {told}",
                self.policy
            );
            if left.is_zero() {
                break;
            }
        }
        ensure!(worst >= LEAST, "the user takes from root's hogs: they received {worst:.3}");
        Ok(ExitCode::SUCCESS)
    }

    /// The least part of their due that hogs received in a window, where that is told.
    fn phase(&self, length: Duration, cpus: usize, random: &mut Random) -> Result<Option<f64>> {
        println!("loading {}", self.policy);
        let scheduler = Scheduler::start(&ours::recorded(&self.policy, RECORDING))?;
        let mut hogs = Hogs::new(&[0, 0])?;
        for pid in hogs.pids() {
            fs::write(format!("{HOGS}/cgroup.procs"), pid.to_string())?;
        }
        hogs.start();
        let mut siege = Siege {
            policy: self.policy.clone(),
            scheduler,
            miscreants: Vec::new(),
            steps: Vec::new(),
            meter: Meter::new(hogs.pids()),
            loads: 0,
            acts: self.acts.join(","),
            _releaser: Releaser::start(),
        };
        siege.next_wave(random)?;
        thread::sleep(SETTLING);
        siege.loads = scheduler::loads()?;
        siege.meter.step()?;
        // All cpus for a quarter of the time, then fewer, then all again.
        let mut gone: Vec<usize> = Vec::new();
        siege.hold(if self.offline > 0 { length / 4 } else { length }, random)?;
        while gone.len() < self.offline {
            let cpu = 1 + random.index(cpus - 1);
            if !gone.contains(&cpu) {
                siege.set_online(cpu, false)?;
                gone.push(cpu);
                siege.hold(length / 4 / u32::try_from(self.offline)?, random)?;
            }
        }
        for cpu in gone {
            siege.set_online(cpu, true)?;
            siege.hold(length / 2 / u32::try_from(self.offline)?, random)?;
        }
        siege.end(hogs)
    }
}

fn hand_over_recording() -> Result<()> {
    let script = format!("stty -F {LARGE_OUTPUT} raw && gzip -c {RECORDING} >{LARGE_OUTPUT}");
    shell::run(Command::new("sh").args(["-c", &script]))
}

/// The cgroups of root's hogs and of the user.
fn delegate() -> Result<()> {
    fs::write(format!("{CGROUPS}/cgroup.subtree_control"), "+cpu +cpuset")?;
    for (group, weight) in WEIGHTS {
        fs::create_dir_all(group)?;
        fs::write(format!("{group}/cpu.weight"), weight.to_string())?;
    }
    fs::write(format!("{DELEGATED}/cgroup.subtree_control"), "+cpu +cpuset")?;
    fs::create_dir_all(format!("{DELEGATED}/{}", LEAVES[0]))?;
    let user = Some(UsersProcess::USER);
    for group in [DELEGATED.to_string(), format!("{DELEGATED}/{}", LEAVES[0])] {
        chown(&group, user, user)?;
        for file in ["cgroup.procs", "cgroup.threads", "cgroup.subtree_control", "cgroup.freeze"] {
            chown(format!("{group}/{file}"), user, user)?;
        }
    }
    Ok(fs::set_permissions("/tmp", fs::Permissions::from_mode(0o1777))?)
}

/// Lets the user's processes go on, which may all have stopped each other, until it is dropped. In a
/// thread of its own: one of them may hold what guards all cgroups, and wait for its cpu for long.
struct Releaser {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Releaser {
    fn start() -> Releaser {
        let over = Arc::new(AtomicBool::new(false));
        let theirs = over.clone();
        let release = move || {
            while !theirs.load(Ordering::Relaxed) {
                for leaf in LEAVES {
                    // They may have removed it.
                    let _ = fs::write(format!("{DELEGATED}/{leaf}/cgroup.freeze"), "0");
                }
                thread::sleep(STEP);
            }
        };
        Releaser { over, thread: Some(thread::spawn(release)) }
    }
}

impl Drop for Releaser {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is joined once");
        thread.join().expect("it does not panic");
    }
}

/// Lets the user's processes that were stopped go on.
fn continue_users() {
    let leaves = LEAVES.map(|leaf| format!("{DELEGATED}/{leaf}"));
    // They may have removed it.
    let lists =
        leaves.iter().filter_map(|leaf| fs::read_to_string(format!("{leaf}/cgroup.procs")).ok());
    for pid in lists.flat_map(|list| pids(&list)) {
        // It may have gone.
        let _ = system::signal(pid, libc::SIGCONT);
    }
}

fn pids(list: &str) -> Vec<u32> {
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Kills all of the user's processes. True if there were any.
fn kill_users() -> Result<bool> {
    fs::write(format!("{DELEGATED}/cgroup.kill"), "1")?;
    let events = fs::read_to_string(format!("{DELEGATED}/cgroup.events"))?;
    Ok(!events.lines().any(|line| line == "populated 0"))
}

/// The machine while the user is at it.
struct Siege {
    policy: String,
    scheduler: Scheduler,
    miscreants: Vec<Child>,
    steps: Vec<Step>,
    meter: Meter,
    /// How often a scheduler was loaded when all began.
    loads: u64,
    acts: String,
    _releaser: Releaser,
}

impl Siege {
    /// For so long, in steps.
    fn hold(&mut self, length: Duration, random: &mut Random) -> Result<()> {
        let (end, mut wave) = (Instant::now() + length, Instant::now() + WAVE);
        while Instant::now() < end {
            thread::sleep(STEP);
            self.step()?;
            if Instant::now() > wave {
                self.next_wave(random)?;
                wave += WAVE;
            }
        }
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        self.scheduler.goes_on()?;
        ensure!(scheduler::loads()? == self.loads, "the kernel has unloaded the scheduler");
        let breaches = fs::read_to_string(BREACHES).unwrap_or_default();
        ensure!(breaches.is_empty(), "the user got what is not for users:\n{breaches}");
        continue_users();
        let step = self.meter.step()?;
        println!("{}", step.tell(!ours::is_apart(&self.policy)));
        self.steps.push(step);
        Ok(())
    }

    fn set_online(&mut self, cpu: usize, online: bool) -> Result<()> {
        self.step()?;
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/online");
        fs::write(&file, if online { "1" } else { "0" })
            .with_context(|| format!("{file}: cannot set it to {online}"))?;
        self.step()
    }

    /// Ends all of the user's processes and starts others.
    fn next_wave(&mut self, random: &mut Random) -> Result<()> {
        self.end_miscreants()?;
        for _ in 0..MISCREANTS {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["guest", "miscreant", &random.next().to_string()]).stdin(Stdio::null());
            if !self.acts.is_empty() {
                command.args(["--acts", &self.acts]);
            }
            self.miscreants.push(command.spawn().context("cannot start a miscreant")?);
        }
        Ok(())
    }

    fn end_miscreants(&mut self) -> Result<()> {
        // One that has just begun is not the user's yet.
        for miscreant in &mut self.miscreants {
            miscreant.kill()?;
        }
        let deadline = Instant::now() + PATIENCE;
        while kill_users()? {
            ensure!(Instant::now() < deadline, "processes of the user do not end in {PATIENCE:?}");
            thread::sleep(Duration::from_millis(20));
        }
        for mut miscreant in self.miscreants.drain(..) {
            miscreant.wait()?;
        }
        fs::create_dir_all(format!("{DELEGATED}/{}", LEAVES[0]))?;
        Ok(())
    }

    /// The least part of their due that hogs received in a window, where that is told.
    fn end(mut self, hogs: Hogs) -> Result<Option<f64>> {
        self.end_miscreants()?;
        drop(hogs);
        // Who has no list of debtors makes no choices.
        if !ours::is_apart(&self.policy) {
            check_picks()?;
        }
        self.scheduler.stop()?;
        let said = fs::read_to_string(scheduler::LOG)?;
        said.lines()
            .filter(|line| line.contains("the policy was closed"))
            .for_each(|line| println!("{line}"));
        shell::run(Command::new("prorata").args(["verify", RECORDING]))?;
        let worst = worst_window(&self.steps).context("the phase is shorter than a window")?;
        ensure!(worst > 0.0, "a hog did not run for {WINDOW:?}");
        Ok((!ours::is_apart(&self.policy)).then_some(worst))
    }
}

/// No pick took long.
fn check_picks() -> Result<()> {
    let most = "scx_prorata_most_choices";
    let samples = open_metrics::ask(&[])?;
    let most = samples.get(most).with_context(|| format!("there is no {most}"))?;
    println!("a pick took {most} choices at most");
    ensure!(*most <= MOST_CHOICES, "a pick took {most} choices, {MOST_CHOICES} are enough");
    Ok(())
}

/// What was received in a second or so.
struct Step {
    seconds: f64,
    online: usize,
    /// Run times in s.
    hogs: [f64; 2],
    user: f64,
    /// Nobody's.
    idle: f64,
}

impl Step {
    /// What a hog is due, in s. By what was received, not by the clock: cpus come and go, and root's other
    /// processes and the kernel take time that no run time tells.
    fn due(&self) -> f64 {
        DUE / 2.0 * (self.hogs.iter().sum::<f64>() + self.user + self.idle)
    }

    /// In cpus; with what a hog is due, if cgroups count.
    fn tell(&self, has_due: bool) -> String {
        let part = |time: f64| time / self.seconds;
        let due = if has_due { format!(", due {:.3}", part(self.due())) } else { String::new() };
        format!(
            "{:.2} s, {} cpus: hogs {:.3} {:.3}{due}; user {:.3}, idle {:.3}",
            self.seconds,
            self.online,
            part(self.hogs[0]),
            part(self.hogs[1]),
            part(self.user),
            part(self.idle),
        )
    }
}

struct Meter {
    hogs: Vec<u32>,
    at: Instant,
    last: Times,
}

/// Run times in s: of each hog and the user; and for how long each cpu that is online idled.
#[derive(Default)]
struct Times {
    hogs: [f64; 2],
    user: f64,
    idle: BTreeMap<String, f64>,
}

impl Meter {
    fn new(hogs: Vec<u32>) -> Meter {
        Meter { hogs, at: Instant::now(), last: Times::default() }
    }

    /// What was received since the last step, or the beginning of all.
    fn step(&mut self) -> Result<Step> {
        let hog = |index: usize| {
            Ok::<_, anyhow::Error>(system::run_time_ns(self.hogs[index])? as f64 / 1e9)
        };
        let now = Times { hogs: [hog(0)?, hog(1)?], user: user_s()?, idle: idle_s()? };
        let at = Instant::now();
        // A cpu that has come or gone counts from when it is there at both ends.
        let idle = now.idle.iter().filter_map(|(cpu, idle)| Some(idle - self.last.idle.get(cpu)?));
        let step = Step {
            seconds: (at - self.at).as_secs_f64(),
            online: now.idle.len(),
            hogs: [0, 1].map(|hog| now.hogs[hog] - self.last.hogs[hog]),
            user: now.user - self.last.user,
            idle: idle.sum(),
        };
        (self.last, self.at) = (now, at);
        Ok(step)
    }
}

fn user_s() -> Result<f64> {
    let stat = fs::read_to_string(format!("{DELEGATED}/cpu.stat"))?;
    let usage = stat.lines().find_map(|line| line.strip_prefix("usage_usec "));
    Ok(usage.context("cpu.stat has no usage_usec")?.parse::<u64>()? as f64 / 1e6)
}

fn idle_s() -> Result<BTreeMap<String, f64>> {
    let stat = fs::read_to_string("/proc/stat")?;
    // The first line is the sum of all, also of those that are offline.
    stat.lines().skip(1).take_while(|line| line.starts_with("cpu")).map(idle_of).collect()
}

/// Of a cpu, by its line of /proc/stat.
fn idle_of(line: &str) -> Result<(String, f64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ticks = words.get(4).context("/proc/stat has no idle time")?.parse::<u64>()?;
    Ok((words[0].to_string(), ticks as f64 / USER_TICKS_PER_S))
}

/// The least part of its due that a hog received in a window; none if there is no window.
fn worst_window(steps: &[Step]) -> Option<f64> {
    let window = |begin: usize| {
        let mut seconds = 0.0;
        let length = steps[begin..].iter().position(|step| {
            seconds += step.seconds;
            seconds >= WINDOW.as_secs_f64()
        })?;
        Some(&steps[begin..=begin + length])
    };
    let least = |window: &[Step]| {
        let due: f64 = window.iter().map(|step| step.due()).sum();
        let received = |hog: usize| window.iter().map(|step| step.hogs[hog]).sum::<f64>();
        received(0).min(received(1)) / due
    };
    (0..steps.len()).filter_map(window).map(least).reduce(f64::min)
}

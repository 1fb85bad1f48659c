//! Hogs while cpus go and come: the scheduler stays, and they share the cpus that are left as they are due.

use std::fs;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use prorata::Weight;
use prorata::masks::{self, Mask};

use super::hogs::Hogs;
use super::mixes::SETTLING;
use super::scheduler::{self, Scheduler};
use super::system;
use crate::{ours, shell};

const RECORDING: &str = "/tmp/recording";
const WEIGHTS: [u32; 7] = [3000, 2000, 2000, 1000, 1000, 1000, 1000];
/// What a quantum is, in s.
const QUANTUM_S: f64 = 0.005;
const SLACK_QUANTA: f64 = 3.0;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    policy: String,
    /// Seconds of each measurement; there is one after each change.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Fail if a hog is further than this from its share, in per mille, and more than three quanta.
    #[arg(long, default_value_t = 1000)]
    error: u32,
    /// Fail if a cpu takes longer than this to come, in ms.
    #[arg(long, default_value_t = 60_000)]
    coming_ms: u64,
}

impl Args {
    /// Half of the cpus go, one after the other, and come back.
    pub(crate) fn execute(self) -> Result<ExitCode> {
        system::become_real_time()?;
        let cpus = thread::available_parallelism()?.get();
        ensure!(cpus > 1, "there is one cpu, which cannot go");
        let scheduler = Scheduler::start(&ours::recorded(&self.policy, RECORDING))?;
        let loads = scheduler::loads()?;
        let mut hogs = Hogs::new(&WEIGHTS.map(|_| 0))?;
        for (pid, weight) in hogs.pids().into_iter().zip(WEIGHTS) {
            weigh("set", pid, &[&weight.to_string()])?;
        }
        hogs.start();
        self.measure(&hogs, cpus)?;
        // The last goes first, and comes last.
        for left in (cpus - cpus / 2..cpus).rev() {
            set_online(left, false)?;
            self.measure(&hogs, left)?;
        }
        for left in cpus - cpus / 2..cpus {
            let took = set_online(left, true)?;
            ensure!(
                took <= Duration::from_millis(self.coming_ms),
                "cpu {left} took too long to come"
            );
            self.measure(&hogs, left + 1)?;
        }
        ensure!(scheduler::loads()? == loads, "the scheduler was attached again");
        for (pid, weight) in hogs.pids().into_iter().zip(WEIGHTS) {
            let said = weigh("get", pid, &[])?;
            ensure!(
                said.trim() == format!("{pid} {weight}"),
                "'{said}' of a hog of weight {weight}"
            );
        }
        drop(hogs);
        scheduler.stop()?;
        let recording = fs::read_to_string(RECORDING)?;
        let is_change = |line: &&str| line.split(' ').nth(1) == Some("cpus");
        let changes = recording.lines().filter(is_change).count();
        // A cpu that is about to go may decide once more: it is in use then, and goes again.
        let is_right = changes >= 2 * (cpus / 2) && changes.is_multiple_of(2);
        ensure!(is_right, "{changes} changes of cpus were recorded");
        shell::run(Command::new("prorata").args(["verify", RECORDING]))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Shares of what all received on so many cpus.
    fn measure(&self, hogs: &Hogs, cpus: usize) -> Result<()> {
        thread::sleep(SETTLING);
        let before = hogs.run_times_ns()?;
        thread::sleep(Duration::from_secs(self.seconds));
        let after = hogs.run_times_ns()?;
        let received: Vec<f64> =
            after.iter().zip(before).map(|(after, before)| (after - before) as f64 / 1e9).collect();
        let all: Mask = (1 << cpus) - 1;
        let weighed = WEIGHTS.map(|weight| (Weight::new(weight).unwrap_or(Weight::ONE), all));
        let rates = masks::rates(&weighed, u32::try_from(cpus)?);
        let total: f64 = received.iter().sum();
        let due = rates.into_iter().map(|rate| rate.in_cpus() / cpus as f64 * total);
        let off: Vec<f64> =
            received.iter().zip(due).map(|(received, due)| received / due - 1.0).collect();
        let worst = off.iter().fold(0.0, |worst, off| f64::max(worst, off.abs()));
        println!("{} on {cpus} cpus: {total:.3} s, {:.2} % off", self.policy, worst * 100.0);
        let allowed = |received: &f64| {
            f64::max(f64::from(self.error) / 1000.0, SLACK_QUANTA * QUANTUM_S / received)
        };
        let is_right =
            off.iter().zip(&received).all(|(off, received)| off.abs() <= allowed(received));
        ensure!(is_right, "hogs received {received:.3?} s, {off:.3?} off");
        Ok(())
    }
}

fn weigh(verb: &str, pid: u32, weight: &[&str]) -> Result<String> {
    let pid = pid.to_string();
    let mut command = Command::new("scx_prorata");
    shell::output(command.args(["weight", verb, "--pid", &pid]).args(weight))
}

/// How long it took.
fn set_online(cpu: usize, online: bool) -> Result<Duration> {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    let begin = Instant::now();
    fs::write(&file, if online { "1" } else { "0" })
        .with_context(|| format!("{file}: cannot set it to {online}"))?;
    let took = begin.elapsed();
    println!("cpu {cpu} {} in {took:.2?}", if online { "came" } else { "went" });
    Ok(took)
}

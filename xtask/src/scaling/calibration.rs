//! What the parts of a decision take on this machine: a hand-over of a cache line, and an instruction.

use std::hint;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Times that a line goes there and back in a round: less than a millisecond, to be seldom interrupted.
const TRIPS: u32 = 5_000;
/// The round that was disturbed least counts.
const ROUNDS: usize = 100;

/// In nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Calibration {
    /// From the store of one cpu until another one has seen it.
    pub(crate) handover_ns: f64,
    pub(crate) instruction_ns: f64,
}

/// A cache line of its own.
#[repr(align(128))]
struct Ball(AtomicU64);

/// Two threads, each on a cpu of its own, hand a line to and fro.
pub(crate) fn handover_ns() -> Result<f64> {
    let [one, other] = two_cpus()?;
    let rounds = (0..ROUNDS).map(|_| round(one, other)).collect::<Result<Vec<f64>>>()?;
    Ok(rounds.into_iter().fold(f64::INFINITY, f64::min))
}

fn round(one: usize, other: usize) -> Result<f64> {
    let ball = Ball(AtomicU64::new(0));
    // Odd numbers are for the other one.
    let play = |cpu: usize, first: u64| -> Result<f64> {
        pin(cpu)?;
        let begin = Instant::now();
        for trip in 0..u64::from(TRIPS) {
            let own = 2 * trip + first;
            while ball.0.load(Ordering::Acquire) != own {
                hint::spin_loop();
            }
            ball.0.store(own + 1, Ordering::Release);
        }
        Ok(begin.elapsed().as_secs_f64() * 1e9)
    };
    thread::scope(|scope| {
        let players = [scope.spawn(|| play(one, 0)), scope.spawn(|| play(other, 1))];
        let ns = players.map(|player| player.join().expect("it does not panic"));
        let [own_ns, other_ns] = ns;
        Ok(own_ns?.max(other_ns?) / f64::from(2 * TRIPS))
    })
}

fn two_cpus() -> Result<[usize; 2]> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).context("cannot ask for our cpus")?;
    let cpus: Vec<usize> =
        (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu) == Ok(true)).collect();
    ensure!(cpus.len() > 1, "a hand-over needs two cpus: give --handover-ns instead");
    Ok([cpus[0], cpus[1]])
}

fn pin(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &set).with_context(|| format!("cannot run on cpu {cpu}"))
}

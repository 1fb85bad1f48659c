//! What schedulers cost, in a machine whose time is executed instructions.
//!
//! An instruction takes 1 ns there, so that every figure is a difference of clock readings.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::scheduler::Scheduler;
use super::system;
use crate::report::CostRow;

const ROUND_TRIPS: u32 = 5_000;
/// How long hogs run to see what taking turns costs them.
const HOG_TIME: Duration = Duration::from_secs(1);
/// hackbench -g10 -f10 -l200: groups, senders and receivers in each, messages from each sender to
/// each receiver, of 100 bytes.
const GROUPS: usize = 10;
const PEERS: usize = 10;
const MESSAGES: usize = 200;
/// The best of so many runs, since what else the machine does only adds.
const HACKBENCH_RUNS: usize = 3;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A scheduler's command line, or `eevdf`; may be repeated.
    #[arg(long = "under", required = true)]
    schedulers: Vec<String>,
}

impl Args {
    /// All measurements, under each scheduler.
    pub(crate) fn execute(self) -> Result<ExitCode> {
        system::become_real_time()?;
        let cpus = thread::available_parallelism()?.get();
        // How fast a hog computes that nobody disturbs but the tick.
        let rate = Hogs::run(1)?.turns_per_ns();
        for scheduler in &self.schedulers {
            let row = measure(scheduler, cpus, rate);
            row.with_context(|| format!("the costs of {scheduler}"))?.print();
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn measure(scheduler: &str, cpus: usize, rate: f64) -> Result<CostRow> {
    let name = scheduler.to_string();
    let scheduler = Scheduler::start(scheduler)?;
    thread::sleep(Duration::from_millis(200));
    let mut hackbench_s = f64::INFINITY;
    for _ in 0..HACKBENCH_RUNS {
        hackbench_s = hackbench_s.min(hackbench()?);
    }
    let mut row = CostRow {
        cpus,
        scheduler: name,
        hackbench_s,
        switch_instructions: None,
        turn_instructions: Vec::new(),
    };
    // On several cpus, clocks also count what the other cpus do.
    if cpus == 1 {
        row.switch_instructions = Some(ping_pong()?);
        for hogs in [2, 10, 100, 1000] {
            row.turn_instructions.push((hogs, Hogs::run(hogs)?.cost_of_a_turn(rate)));
        }
    }
    scheduler.stop()?;
    Ok(row)
}

/// Instructions a switch when two threads of one cpu send a byte to and fro.
fn ping_pong() -> Result<f64> {
    let (mut here, mut there) = UnixStream::pair()?;
    let echo = thread::spawn(move || -> Result<()> {
        system::bind_to(0)?;
        let mut byte = [0];
        while there.read(&mut byte)? == 1 {
            there.write_all(&byte)?;
        }
        Ok(())
    });
    let player = thread::spawn(move || -> Result<Duration> {
        system::bind_to(0)?;
        let mut byte = [0];
        let mut play = |rounds: u32| -> Result<Duration> {
            let begin = Instant::now();
            for _ in 0..rounds {
                here.write_all(&byte)?;
                here.read_exact(&mut byte)?;
            }
            Ok(begin.elapsed())
        };
        // The first rounds are those of cold translation caches and of waking up.
        play(ROUND_TRIPS / 10)?;
        play(ROUND_TRIPS)
    });
    let time = player.join().expect("the thread does not panic")?;
    echo.join().expect("the thread does not panic")?;
    Ok(time.as_secs_f64() * 1e9 / f64::from(2 * ROUND_TRIPS))
}

/// Threads that count turns for [`HOG_TIME`].
struct Hogs {
    turns: u64,
    elapsed_ns: f64,
    switches: u64,
}

impl Hogs {
    fn run(count: usize) -> Result<Hogs> {
        let (start, stop) = (Barrier::new(count + 1), AtomicBool::new(false));
        let turns: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(0)).collect();
        let total = || turns.iter().map(|turns| turns.load(Ordering::Relaxed)).sum::<u64>();
        thread::scope(|scope| {
            for turns in &turns {
                scope.spawn(|| {
                    start.wait();
                    while !stop.load(Ordering::Relaxed) {
                        turns.store(turns.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    }
                });
            }
            start.wait();
            thread::sleep(Duration::from_millis(50));
            let (turns_before, switches_before) = (total(), switches());
            let begin = Instant::now();
            thread::sleep(HOG_TIME);
            let elapsed_ns = begin.elapsed().as_secs_f64() * 1e9;
            let (turns_after, switches_after) = (total(), switches());
            stop.store(true, Ordering::Relaxed);
            let switches = switches_after? - switches_before?;
            Ok(Hogs { turns: turns_after - turns_before, elapsed_ns, switches })
        })
    }

    fn turns_per_ns(&self) -> f64 {
        self.turns as f64 / self.elapsed_ns
    }

    /// What a switch from hog to hog took from the hogs, in instructions.
    fn cost_of_a_turn(&self, rate: f64) -> f64 {
        (self.elapsed_ns - self.turns as f64 / rate) / self.switches as f64
    }
}

/// Switches since boot, on all cpus.
fn switches() -> Result<u64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let line = stat.lines().find_map(|line| line.strip_prefix("ctxt "));
    Ok(line.context("/proc/stat has no ctxt")?.trim().parse()?)
}

/// The run time of hackbench's message passing, in seconds.
fn hackbench() -> Result<f64> {
    let go = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for _ in 0..GROUPS {
            let mut inputs = Vec::new();
            for _ in 0..PEERS {
                let (input, output) = UnixStream::pair()?;
                inputs.push(input);
                threads.push(scope.spawn(move || receive(output)));
            }
            for _ in 0..PEERS {
                let inputs: Vec<UnixStream> =
                    inputs.iter().map(UnixStream::try_clone).collect::<Result<_, _>>()?;
                threads.push(scope.spawn(|| {
                    while !go.load(Ordering::Relaxed) {
                        thread::sleep(Duration::from_millis(1));
                    }
                    send(inputs)
                }));
            }
        }
        thread::sleep(Duration::from_millis(200));
        let begin = Instant::now();
        go.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().expect("the thread does not panic")?;
        }
        Ok(begin.elapsed().as_secs_f64())
    })
}

fn send(mut inputs: Vec<UnixStream>) -> Result<()> {
    for _ in 0..MESSAGES {
        for input in &mut inputs {
            input.write_all(&[0; 100])?;
        }
    }
    Ok(())
}

fn receive(mut output: UnixStream) -> Result<()> {
    let mut message = [0; 100];
    for _ in 0..PEERS * MESSAGES {
        output.read_exact(&mut message)?;
    }
    Ok(())
}

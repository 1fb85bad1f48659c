//! What schedulers cost, in a machine whose time is executed instructions.
//!
//! An instruction takes 1 ns there, so that every figure is a difference of clock readings.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::scheduler::Scheduler;
use super::system;
use crate::report::{CostRow, Failure};

const ROUND_TRIPS: u32 = 5_000;
/// How long hogs take turns: a hundred quanta of 5 ms.
const HOG_TIME: Duration = Duration::from_millis(500);
/// Hogs have nice values from 0 to one less, so that policies of groups have several.
const NICE_VALUES: usize = 10;
/// hackbench -g10 -f10 -l200: groups, senders and receivers in each, messages from each sender to
/// each receiver, of 100 bytes.
const GROUPS: usize = 10;
const PEERS: usize = 10;
const MESSAGES: usize = 200;
/// The best of so many runs, since what else the machine does only adds.
const HACKBENCH_RUNS: usize = 3;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A scheduler's command line, `eevdf`, or `loaded` for one that runs already; may be repeated.
    #[arg(long = "under", required = true)]
    schedulers: Vec<String>,
}

impl Args {
    /// All measurements, under each scheduler.
    pub(crate) fn execute(self) -> Result<ExitCode> {
        system::become_real_time()?;
        let cpus = thread::available_parallelism()?.get();
        for scheduler in &self.schedulers {
            let row = measure(scheduler, cpus);
            match row.with_context(|| format!("the costs of {scheduler}")) {
                Ok(row) => row.print(),
                Err(why) => Failure::of(cpus, &why).print(),
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn measure(scheduler: &str, cpus: usize) -> Result<CostRow> {
    let name = scheduler.to_string();
    let scheduler = Scheduler::start(scheduler)?;
    thread::sleep(Duration::from_millis(200));
    let hackbench_s = best_hackbench()?;
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
            row.turn_instructions.push((hogs, turn(hogs, |_| Ok(()))?));
        }
    }
    scheduler.stop()?;
    Ok(row)
}

/// Instructions a switch when two threads of one cpu send a byte to and fro through pipes.
pub(super) fn ping_pong() -> Result<f64> {
    let (mut heard, mut say) = io::pipe()?;
    let (mut echoed, mut reply) = io::pipe()?;
    let echo = thread::spawn(move || -> Result<()> {
        system::bind_to(0)?;
        let mut byte = [0];
        while heard.read(&mut byte)? == 1 {
            reply.write_all(&byte)?;
        }
        Ok(())
    });
    let player = thread::spawn(move || -> Result<Duration> {
        system::bind_to(0)?;
        let mut byte = [0];
        let mut play = |rounds: u32| -> Result<Duration> {
            let begin = Instant::now();
            for _ in 0..rounds {
                say.write_all(&byte)?;
                echoed.read_exact(&mut byte)?;
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

/// Instructions from hog to hog when a slice is over, among so many on one cpu: the interrupt, the
/// scheduler's decision and the switch. The median, since now and then something else comes between. Each hog
/// prepares itself first.
pub(super) fn turn(hogs: usize, prepare: impl Fn(usize) -> Result<()> + Sync) -> Result<f64> {
    let relay = Relay {
        epoch: Instant::now(),
        holder: AtomicUsize::new(hogs),
        seen_ns: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    };
    let (gate, ready) = (Gate::default(), AtomicUsize::new(0));
    let hog = |me: usize| -> Result<Vec<u64>> {
        let nice = system::set_nice(0, i32::try_from(me % NICE_VALUES)?).and_then(|()| prepare(me));
        gate.wait();
        // Waking up is no turn.
        ready.fetch_add(1, Ordering::Relaxed);
        while ready.load(Ordering::Relaxed) < hogs {
            thread::yield_now();
        }
        nice?;
        Ok(relay.run(me))
    };
    let mut gaps_ns = thread::scope(|scope| -> Result<Vec<u64>> {
        let hog = &hog;
        let threads: Vec<_> = (0..hogs).map(|me| scope.spawn(move || hog(me))).collect();
        gate.open(threads.iter().map(|hog| hog.thread()));
        while ready.load(Ordering::Relaxed) < hogs {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(HOG_TIME);
        relay.is_over.store(true, Ordering::Relaxed);
        let mut gaps_ns = Vec::new();
        for thread in threads {
            gaps_ns.extend(thread.join().expect("the thread does not panic")?);
        }
        Ok(gaps_ns)
    })?;
    gaps_ns.sort_unstable();
    let median = *gaps_ns.get(gaps_ns.len() / 2).context("no hog took over from another")?;
    Ok(median as f64)
}

/// What threads wait at until all of them are there.
#[derive(Default)]
struct Gate(AtomicBool);

impl Gate {
    fn wait(&self) {
        while !self.0.load(Ordering::Relaxed) {
            thread::park();
        }
    }

    fn open<'a>(&self, threads: impl Iterator<Item = &'a Thread>) {
        self.0.store(true, Ordering::Relaxed);
        threads.for_each(Thread::unpark);
    }
}

/// What hogs of one cpu tell each other: who computes, and when it looked at the clock last.
struct Relay {
    epoch: Instant,
    holder: AtomicUsize,
    seen_ns: AtomicU64,
    is_over: AtomicBool,
}

impl Relay {
    /// Computes until it is over: the times for which nobody computed before this hog took over.
    fn run(&self, me: usize) -> Vec<u64> {
        let mut gaps_ns = Vec::new();
        loop {
            let now_ns = u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
            if self.is_over.load(Ordering::Relaxed) {
                return gaps_ns;
            }
            let seen_ns = self.seen_ns.load(Ordering::Relaxed);
            if self.holder.swap(me, Ordering::Relaxed) != me {
                // A hog interrupted right here comes back with an old reading, which is no gap.
                gaps_ns.extend(now_ns.checked_sub(seen_ns));
            }
            self.seen_ns.store(now_ns, Ordering::Relaxed);
        }
    }
}

/// The best of [`HACKBENCH_RUNS`].
pub(super) fn best_hackbench() -> Result<f64> {
    let mut best_s = f64::INFINITY;
    for _ in 0..HACKBENCH_RUNS {
        best_s = best_s.min(hackbench()?);
    }
    Ok(best_s)
}

/// The run time of hackbench's message passing, in seconds.
fn hackbench() -> Result<f64> {
    // Nothing may fail once threads wait for the start. The senders of a group share its sockets:
    // each of them its own would be more files than a process may open.
    let groups: Vec<Vec<(UnixStream, UnixStream)>> = (0..GROUPS)
        .map(|_| (0..PEERS).map(|_| UnixStream::pair()).collect())
        .collect::<Result<_, _>>()?;
    let gate = Gate::default();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for group in &groups {
            for (_, output) in group {
                threads.push(scope.spawn(move || receive(output)));
                threads.push(scope.spawn(|| {
                    gate.wait();
                    send(group)
                }));
            }
        }
        // Until all of them wait.
        thread::sleep(Duration::from_millis(200));
        let begin = Instant::now();
        gate.open(threads.iter().map(|thread| thread.thread()));
        for thread in threads {
            thread.join().expect("the thread does not panic")?;
        }
        Ok(begin.elapsed().as_secs_f64())
    })
}

fn send(group: &[(UnixStream, UnixStream)]) -> Result<()> {
    for _ in 0..MESSAGES {
        for mut input in group.iter().map(|pair| &pair.0) {
            input.write_all(&[0; 100])?;
        }
    }
    Ok(())
}

fn receive(mut output: &UnixStream) -> Result<()> {
    let mut message = [0; 100];
    for _ in 0..PEERS * MESSAGES {
        output.read_exact(&mut message)?;
    }
    Ok(())
}

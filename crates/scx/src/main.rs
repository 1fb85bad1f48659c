//! `scx_prorata`: proportional-share scheduling in the Linux kernel, through sched_ext.
//!
//! The scheduler itself is the BPF program in `src/bpf`; this is its loader. It stays as long as
//! the scheduler runs; when it ends, in whatever way, the kernel goes back to its own scheduler.

use std::mem::MaybeUninit;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use scx_stats::prelude::*;

mod budget;
mod cgroups;
mod cpus;
mod due;
mod durations;
mod host;
mod kernel;
mod libbpf;
mod loaded;
mod options;
mod paths;
mod policies;
mod real_time;
mod record;
mod shared;
mod socket;
mod spec;
mod stats;
mod watch;
mod weight;

use cgroups::Query;
use host::Machine;
use loaded::Loaded;
use options::{Command, Options};
use real_time::RealTime;
use record::Recorder;
use socket::Socket;
use stats::{Answer, Request, Statistics};

/// How often the loader looks whether somebody wants statistics or the kernel has unloaded the
/// scheduler. It runs beside the policy: what it does is lost to some task.
const TURN: Duration = Duration::from_millis(200);
/// And how often while it records, or somebody watches cgroups.
const TURN_OF_RECORDING: Duration = Duration::from_millis(20);
const TURN_OF_WATCHING: Duration = Duration::from_millis(50);
/// How long after the kernel did not take the scheduler again it is tried once more.
const PAUSE: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scx_prorata: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<()> {
    match &options.command {
        Some(Command::Weight(weights)) => return weights.execute(),
        Some(Command::Metrics(query)) => return stats::print_open_metrics(query),
        None => {}
    }
    if options.help_stats {
        return stats::server_data().describe_meta(&mut std::io::stdout(), None);
    }
    start_logging(options.verbose)?;
    let shutdown = Arc::new(AtomicBool::new(false));
    let handler = Arc::clone(&shutdown);
    ctrlc::set_handler(move || handler.store(true, Ordering::Relaxed))
        .context("cannot handle Ctrl-C")?;
    if let Some(interval) = options.monitor {
        return monitor(&options.cgroups, options.json, interval, &shutdown);
    }
    ensure!(
        !options.cgroups.is_asked() || options.stats.is_some(),
        "--cgroups says what --stats and --monitor tell: give one of them, as in --monitor 1 --cgroups"
    );
    options.check()?;
    kernel::check()?;
    if let Some(interval) = options.stats {
        let (query, as_json) = (options.cgroups.clone(), options.json);
        let shutdown = Arc::clone(&shutdown);
        std::thread::spawn(move || {
            if let Err(error) = monitor(&query, as_json, interval, &shutdown) {
                log::warn!("no more statistics: {error:#}");
            }
        });
    }
    let recorder = options.record.as_deref().map(Recorder::create).transpose()?;
    let mut object = MaybeUninit::uninit();
    let mut loaded = policies::load(options, &mut object)?;
    let mut session = Session { options, shutdown, recorder, socket: None, prompt: None };
    while session.schedule(loaded.as_mut())? {
        log::info!("cpus have come or gone: attaching again");
    }
    Ok(())
}

fn monitor(query: &Query, as_json: bool, interval: Duration, shutdown: &AtomicBool) -> Result<()> {
    if query.is_asked() {
        stats::monitor_cgroups(query, as_json, interval, shutdown)
    } else {
        stats::monitor(interval, shutdown)
    }
}

/// What goes on while the scheduler is attached, and attached again.
struct Session<'a> {
    options: &'a Options,
    shutdown: Arc<AtomicBool>,
    recorder: Option<Recorder>,
    /// From the first time on: those who ask in between wait for the next.
    socket: Option<Socket<Machine>>,
    /// While it is not attached, and nobody has the share that was set for him.
    prompt: Option<RealTime>,
}

impl Session<'_> {
    /// Attaches the scheduler and serves it to its end. True if it shall be attached again.
    fn schedule(&mut self, loaded: &mut dyn Loaded) -> Result<bool> {
        let options = self.options;
        let is_back = self.socket.is_some();
        let tries_on =
            || is_back && !self.shutdown.load(Ordering::Relaxed) && kernel::refuse_second().is_ok();
        self.prompt = self.prompt.take().or_else(RealTime::begin_or_warn);
        attach(|| loaded.attach(), tries_on, PAUSE)?;
        self.prompt = None;
        if let Some(recorder) = &mut self.recorder {
            recorder.begin(&options.policy, loaded.cpus(), options.quantum.as_nanos());
        }
        let statistics = StatsServer::new(stats::server_data()).launch()?;
        let quantum = options.quantum;
        log::info!("{} schedules this machine in quanta of {quantum:?}", options.policy);
        let ended = self.serve(loaded, &statistics);
        self.prompt = RealTime::begin_or_warn();
        let exit = loaded.unload();
        if let Some(recorder) = &mut self.recorder {
            recorder.catch_up(&loaded.memory())?;
        }
        let is_asked_to_end = self.shutdown.load(Ordering::Relaxed);
        let goes_on = ended.is_ok() && !is_asked_to_end && matches!(exit, Ok(true));
        if !goes_on && let Some(recorder) = &mut self.recorder {
            recorder.finish()?;
        }
        ended.and(exit)?;
        Ok(goes_on)
    }

    /// Until the scheduler ends, or shall end.
    fn serve(
        &mut self,
        loaded: &mut dyn Loaded,
        server: &StatsServer<Request, Answer>,
    ) -> Result<()> {
        let (answers, requests) = server.channels();
        let mut statistics = Statistics::new(self.options.quantum);
        if self.socket.is_none() {
            self.socket = Some(weight::listen()?);
        }
        let socket = self.socket.as_mut().expect("it was made above");
        while !self.shutdown.load(Ordering::Relaxed) && !loaded.is_over() {
            let turn = match &self.recorder {
                Some(_) => TURN_OF_RECORDING,
                None if statistics.is_watching() => TURN_OF_WATCHING,
                None => TURN,
            };
            socket.serve(turn, |request, caller| weight::answer(request, caller, loaded));
            statistics.go_on(loaded);
            while let Ok(request) = requests.try_recv() {
                answers.send(statistics.answer(request, loaded))?;
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.catch_up(&loaded.memory())?;
            }
        }
        Ok(())
    }
}

/// Attaches the scheduler, and tries until that is done, or a failure is the last.
///
/// Where it was attached before there may be users at it, who can keep the kernel from taking it for a while:
/// it waits for RCU, thus for a process that it runs next to never, and gives up when that lasts too long.
fn attach(
    mut attach: impl FnMut() -> Result<()>,
    tries_on: impl Fn() -> bool,
    pause: Duration,
) -> Result<()> {
    loop {
        match attach() {
            Err(error) if tries_on() => log::warn!("not attached, and tries again: {error:#}"),
            done => return done,
        }
        std::thread::sleep(pause);
    }
}

fn start_logging(verbose: bool) -> Result<()> {
    let level = if verbose { simplelog::LevelFilter::Debug } else { simplelog::LevelFilter::Info };
    let mut config = simplelog::ConfigBuilder::new();
    config
        .set_time_level(simplelog::LevelFilter::Off)
        .set_location_level(simplelog::LevelFilter::Off)
        .set_target_level(simplelog::LevelFilter::Off)
        .set_thread_level(simplelog::LevelFilter::Off);
    let mode = simplelog::TerminalMode::Stderr;
    simplelog::TermLogger::init(level, config.build(), mode, simplelog::ColorChoice::Auto)
        .context("cannot start logging")
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn is_attached_again_when_the_kernel_takes_it() {
        for (failures, tries_on, times) in [(3, true, 4), (3, false, 1), (0, false, 1)] {
            let mut tries = 0;
            let done = attach(
                || {
                    tries += 1;
                    if tries > failures { Ok(()) } else { bail!("try {tries}") }
                },
                || tries_on,
                Duration::ZERO,
            );
            assert_eq!((tries, done.is_ok()), (times, times > failures));
        }
    }
}

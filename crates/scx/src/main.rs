//! `scx_prorata`: proportional-share scheduling in the Linux kernel, through sched_ext.
//!
//! The scheduler itself is the BPF program in `src/bpf`; this is its loader. It stays as long as
//! the scheduler runs; when it ends, in whatever way, the kernel goes back to its own scheduler.

use std::mem::MaybeUninit;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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
    if options.command.is_some() || options.monitor.is_some() || options.help_stats {
        end_with_the_reader();
    }
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
    Session { options, shutdown, recorder }.schedule(loaded.as_mut())
}

/// Whoever reads what is printed may have read enough (`| head`): as with other tools that is the end, and no
/// error. A loader goes on.
fn end_with_the_reader() {
    // SAFETY: no handler is installed, the signal does what it does by default.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

fn monitor(query: &Query, as_json: bool, interval: Duration, shutdown: &AtomicBool) -> Result<()> {
    if query.is_asked() {
        stats::monitor_cgroups(query, as_json, interval, shutdown)
    } else {
        stats::monitor(interval, shutdown)
    }
}

/// What goes on while the scheduler is attached.
struct Session<'a> {
    options: &'a Options,
    shutdown: Arc<AtomicBool>,
    recorder: Option<Recorder>,
}

impl Session<'_> {
    /// Attaches the scheduler and serves it to its end.
    fn schedule(mut self, loaded: &mut dyn Loaded) -> Result<()> {
        {
            let _prompt = RealTime::begin_or_warn();
            loaded.attach()?;
        }
        self.begin_recording(loaded);
        let statistics = StatsServer::new(stats::server_data()).launch()?;
        let (policy, quantum) = (&self.options.policy, self.options.quantum);
        log::info!("{policy} schedules this machine in quanta of {quantum:?}");
        let ended = self.serve(loaded, &statistics);
        let exit = {
            let _prompt = RealTime::begin_or_warn();
            loaded.unload()
        };
        if let Some(recorder) = &mut self.recorder {
            recorder.catch_up(&loaded.memory())?;
            recorder.finish()?;
        }
        ended.and(exit)
    }

    /// Until the scheduler ends, or shall end.
    fn serve(
        &mut self,
        loaded: &mut dyn Loaded,
        server: &StatsServer<Request, Answer>,
    ) -> Result<()> {
        let (answers, requests) = server.channels();
        let mut statistics = Statistics::new(self.options.quantum);
        let mut socket: Socket<Machine> = weight::listen()?;
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
            if loaded.is_outdated() {
                self.change_cpus(loaded)?;
            }
        }
        Ok(())
    }

    /// Cpus have come or gone, and the policy begins anew: at once, since nobody is picked meanwhile.
    fn change_cpus(&mut self, loaded: &mut dyn Loaded) -> Result<()> {
        let _prompt = RealTime::begin_or_warn();
        let begin = Instant::now();
        loaded.close()?;
        if let Some(recorder) = &mut self.recorder {
            recorder.catch_up(&loaded.memory())?;
        }
        loaded.reopen()?;
        let closed = begin.elapsed();
        self.begin_recording(loaded);
        log::info!(
            "cpus have come or gone: the policy was closed for {closed:.2?}, and has begun anew on {}",
            loaded.cpus()
        );
        Ok(())
    }

    fn begin_recording(&mut self, loaded: &dyn Loaded) {
        let Options { policy, quantum, .. } = self.options;
        if let Some(recorder) = &mut self.recorder {
            recorder.begin(policy, loaded.cpus(), quantum.as_nanos());
        }
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

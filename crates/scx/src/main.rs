//! `scx_prorata`: proportional-share scheduling in the Linux kernel, through sched_ext.
//!
//! The scheduler itself is the BPF program in `src/bpf`; this is its loader. It stays as long as
//! the scheduler runs; when it ends, in whatever way, the kernel goes back to its own scheduler.

use std::mem::MaybeUninit;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use scx_stats::prelude::*;

mod bpf_intf;
mod budget;
mod cpus;
mod host;
mod kernel;
mod libbpf;
mod options;
mod policies;
mod record;
mod shared;
mod socket;
mod stats;
mod weight;

use options::{Command, Options};
use record::Recorder;

/// How often the loader looks whether somebody wants statistics or the kernel has unloaded the
/// scheduler. It runs beside the policy: what it does is lost to some task.
const TURN: Duration = Duration::from_millis(200);
/// And how often while it records.
const TURN_OF_RECORDING: Duration = Duration::from_millis(20);

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
        Some(Command::Metrics) => return stats::print_open_metrics(),
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
        return stats::monitor(interval, &shutdown);
    }
    kernel::check()?;
    if let Some(interval) = options.stats {
        let shutdown = Arc::clone(&shutdown);
        std::thread::spawn(move || {
            if let Err(error) = stats::monitor(interval, &shutdown) {
                log::warn!("no more statistics: {error:#}");
            }
        });
    }
    // After cpu hotplug the kernel unloads the scheduler and asks for it to be loaded again.
    while schedule(options, &shutdown)? {
        log::info!("loading again");
    }
    Ok(())
}

/// Loads the scheduler and runs it to its end. True if it shall be loaded again.
fn schedule(options: &Options, shutdown: &AtomicBool) -> Result<bool> {
    let mut object = MaybeUninit::uninit();
    let mut loaded = policies::load(options, &mut object)?;
    let mut socket = weight::listen()?;
    let statistics = StatsServer::new(stats::server_data()).launch()?;
    let mut recorder = match &options.record {
        Some(path) => {
            let quantum_ns = options.quantum.as_nanos();
            Some(Recorder::create(path, &options.policy, loaded.cpus(), quantum_ns)?)
        }
        None => None,
    };
    log::info!("{} schedules this machine in quanta of {:?}", options.policy, options.quantum);
    let (answers, requests) = statistics.channels();
    let turn = if recorder.is_some() { TURN_OF_RECORDING } else { TURN };
    while !shutdown.load(Ordering::Relaxed) && !loaded.exited() {
        socket.serve(turn, |request, caller| weight::answer(request, caller, loaded.as_mut()));
        while requests.try_recv().is_ok() {
            answers.send(stats::Metrics::read(&loaded.memory()))?;
        }
        if let Some(recorder) = &mut recorder {
            recorder.catch_up(&loaded.memory())?;
        }
    }
    let exit = loaded.unload()?;
    if let Some(recorder) = &mut recorder {
        recorder.catch_up(&loaded.memory())?;
        recorder.finish()?;
    }
    Ok(exit.should_restart())
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

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

mod bpf_intf;
mod cpus;
mod kernel;
mod options;
mod policies;
mod shared;

use options::Options;

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
    start_logging(options.verbose)?;
    let shutdown = Arc::new(AtomicBool::new(false));
    let handler = Arc::clone(&shutdown);
    ctrlc::set_handler(move || handler.store(true, Ordering::Relaxed))
        .context("cannot handle Ctrl-C")?;
    kernel::check()?;
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
    log::info!("{} schedules this machine in quanta of {:?}", options.policy, options.quantum);
    while !shutdown.load(Ordering::Relaxed) && !loaded.exited() {
        std::thread::sleep(Duration::from_millis(100));
    }
    log::debug!("{:?} {:?}", loaded.memory().stats(), loaded.memory().counts());
    Ok(loaded.unload()?.should_restart())
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

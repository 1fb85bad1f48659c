//! A task of real time that does not let go of its cpu: how often the scheduler's timer fires there.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::hogs::Hogs;
use super::stress::compute;
use super::{system, trace};

/// The spinner's cpu.
const CPU: usize = 1;
/// Ticks in a second (CONFIG_HZ).
const TICKS: u64 = 250;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[arg(long, default_value_t = 2)]
    seconds: u64,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        system::become_real_time()?;
        trace::prepare_timers()?;
        let mut hogs = Hogs::new(&[0; 4])?;
        hogs.start();
        thread::sleep(Duration::from_millis(100));
        let seconds = self.seconds;
        let spinner = thread::spawn(move || {
            system::become_real_time()?;
            system::bind_to(CPU)?;
            compute(Duration::from_secs(seconds));
            anyhow::Ok(())
        });
        // It has displaced a hog, whose slice's timer may have been set.
        thread::sleep(Duration::from_millis(100));
        trace::start_timers()?;
        spinner.join().expect("a spinner does not panic")?;
        let [there, elsewhere] = trace::stop_timers([CPU, 0])?;
        println!(
            "in {seconds} s the timer fired {there} times on a spinner's cpu, {elsewhere} times on cpu 0"
        );
        ensure!(there <= TICKS * seconds, "that is more often than the tick");
        ensure!(elsewhere > 0, "slices of hogs do not end by the timer");
        Ok(ExitCode::SUCCESS)
    }
}

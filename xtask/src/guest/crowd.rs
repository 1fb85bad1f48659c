//! More hogs than the scheduler has slots: those without are one more task together.

use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::hogs::Hogs;
use super::scheduler::Scheduler;
use super::system;
use crate::shell;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[arg(long, default_value_t = 400)]
    hogs: usize,
    /// Seconds of the measurement.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// A command line of `scx_prorata`, with --max-tasks.
    #[arg(long = "under", required = true)]
    scheduler: String,
    /// Fail if a hog with a slot is further than this from its share, in per mille.
    #[arg(long)]
    share_error: Option<u32>,
}

/// A hog that ran.
struct Hog {
    has_slot: bool,
    ran_ms: f64,
}

impl Args {
    /// Hogs with slots receive their shares, and everybody receives something.
    pub(crate) fn execute(self) -> Result<ExitCode> {
        system::become_real_time()?;
        let mut scheduler = Scheduler::start(&self.scheduler)?;
        let mut hogs = Hogs::new(&vec![0; self.hogs])?;
        let slots: Vec<bool> = hogs.pids().into_iter().map(has_slot).collect();
        hogs.start();
        thread::sleep(Duration::from_secs(1));
        let begin = ran_ms(&hogs)?;
        thread::sleep(Duration::from_secs(self.seconds));
        let end = ran_ms(&hogs)?;
        scheduler.goes_on()?;
        drop(hogs);
        scheduler.stop()?;
        let ran = begin.iter().zip(end).map(|(begin, end)| end - begin);
        let hogs = slots.iter().zip(ran).map(|(&has_slot, ran_ms)| Hog { has_slot, ran_ms });
        self.judge(&hogs.collect::<Vec<_>>())?;
        Ok(ExitCode::SUCCESS)
    }

    fn judge(&self, hogs: &[Hog]) -> Result<()> {
        let of = |has_slot| hogs.iter().filter(move |hog| hog.has_slot == has_slot);
        let all_ms: f64 = hogs.iter().map(|hog| hog.ran_ms).sum();
        let crowd_ms: f64 = of(false).map(|hog| hog.ran_ms).sum();
        let due_ms = all_ms / (of(true).count() + usize::from(of(false).count() > 0)) as f64;
        let error = |ms: f64| ms / due_ms - 1.0;
        let errors = of(true).map(|hog| error(hog.ran_ms).abs());
        let worst = errors.fold(0.0, f64::max);
        let least_ms = of(false).map(|hog| hog.ran_ms).fold(f64::INFINITY, f64::min);
        println!(
            "{} hogs with slots were due {due_ms:.1} ms each and are {:.2} % off; {} without received \
             {crowd_ms:.1} ms together ({:+.2} %), and at least {least_ms:.2} ms each",
            of(true).count(),
            worst * 100.0,
            of(false).count(),
            error(crowd_ms) * 100.0
        );
        ensure!(of(false).count() > 0, "all hogs have slots: take a smaller --max-tasks");
        ensure!(least_ms > 0.0, "a hog without a slot did not run");
        let limit = self.share_error.map_or(f64::INFINITY, |error| f64::from(error) / 1000.0);
        ensure!(worst <= limit, "a share is {:.1} % off", worst * 100.0);
        Ok(())
    }
}

/// The scheduler knows of no weight of a task that has none.
fn has_slot(pid: u32) -> bool {
    let arguments = ["weight", "get", "--pid", &pid.to_string()];
    shell::output(Command::new("scx_prorata").args(arguments)).is_ok()
}

/// How long each has run.
fn ran_ms(hogs: &Hogs) -> Result<Vec<f64>> {
    Ok(hogs.run_times_ns()?.into_iter().map(|ns| ns as f64 / 1e6).collect())
}

//! Mixes of hogs, and what each scheduler makes of them.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::hogs::Hogs;
use super::ideal::{self, Service};
use super::scheduler::Scheduler;
use super::trace;

/// A mix of hogs by nice value.
struct Mix {
    name: &'static str,
    cpus: u32,
    nice_values: &'static [i32],
}

/// The mixes of the report.
const MIXES: &[Mix] = &[
    Mix { name: "3 equal", cpus: 1, nice_values: &[0, 0, 0] },
    Mix { name: "nice 0, 5, 10", cpus: 1, nice_values: &[0, 5, 10] },
    Mix { name: "3 equal", cpus: 2, nice_values: &[0, 0, 0] },
    Mix { name: "nice 0 x4, 5, 5, 10", cpus: 2, nice_values: &[0, 0, 0, 0, 5, 5, 10] },
    Mix { name: "infeasible: nice -10, 0, 0", cpus: 2, nice_values: &[-10, 0, 0] },
    Mix { name: "7 equal", cpus: 4, nice_values: &[0; 7] },
    Mix { name: "infeasible: nice -20, 0 x6", cpus: 4, nice_values: &[-20, 0, 0, 0, 0, 0, 0] },
];

/// Weights of nice −20 … 19 (the kernel's sched_prio_to_weight).
const WEIGHT_OF_NICE: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// A scheduler's command line, or `eevdf`; may be repeated.
    #[arg(long = "under", required = true)]
    schedulers: Vec<String>,
    /// Fail if a share is further than this from the entitled one, in per mille.
    #[arg(long)]
    share_error: Option<u32>,
}

impl Args {
    /// All mixes for this number of cpus, under each scheduler.
    pub(crate) fn execute(self) -> Result<ExitCode> {
        let cpus = thread::available_parallelism()?.get();
        for scheduler in &self.schedulers {
            for mix in MIXES.iter().filter(|mix| mix.cpus as usize == cpus) {
                let service = run(mix, scheduler, Duration::from_secs(self.seconds))
                    .with_context(|| format!("{} under {scheduler}", mix.name))?;
                let error = service.worst_relative_error();
                println!(
                    "{cpus} | {} | {scheduler} | {:.1} ms | {:.2} % | {}",
                    mix.name,
                    service.largest_lag_ms,
                    error * 100.0,
                    shares(&service)
                );
                let limit = self.share_error.map_or(f64::INFINITY, |e| f64::from(e) / 1000.0);
                ensure!(
                    error <= limit,
                    "{} under {scheduler}: a share is {:.1} % off",
                    mix.name,
                    error * 100.0
                );
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn shares(service: &Service) -> String {
    let share = |share: &f64| format!("{share:.3}");
    service.shares.iter().map(share).collect::<Vec<_>>().join(" ")
}

fn run(mix: &Mix, scheduler: &str, length: Duration) -> Result<Service> {
    let cpus = thread::available_parallelism()?.get();
    let scheduler = Scheduler::start(scheduler)?;
    let mut hogs = Hogs::new(mix.nice_values)?;
    thread::sleep(Duration::from_millis(300));
    trace::start()?;
    hogs.start();
    thread::sleep(length);
    let switches = trace::stop()?;
    let weight = |nice: &i32| WEIGHT_OF_NICE[usize::try_from(nice + 20).expect("nice is -20..19")];
    let pids = hogs.pids().into_iter();
    let hogs_of: Vec<(u32, u32)> = pids.zip(mix.nice_values.iter().map(weight)).collect();
    drop(hogs);
    scheduler.stop()?;
    Ok(ideal::measure(&switches, &hogs_of, cpus))
}

//! Mixes of hogs, and what each scheduler makes of them.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::hogs::Hogs;
use super::ideal::{self, Service};
use super::scheduler::Scheduler;
use super::{system, trace};
use crate::report::{Failure, ShareRow};

/// A mix of hogs by nice value.
struct Mix {
    name: &'static str,
    cpus: &'static [usize],
    nice_values: &'static [i32],
    /// That many more hogs of nice 11, which weigh a thousandth of nice -20.
    light: usize,
}

/// Few hogs, whose shares are large beside a quantum.
const MIXES: &[Mix] = &[
    Mix { name: "3 equal", cpus: &[1, 2], nice_values: &[0, 0, 0], light: 0 },
    Mix { name: "nice 0, 5, 10", cpus: &[1], nice_values: &[0, 5, 10], light: 0 },
    Mix {
        name: "nice 0 x4, 5, 5, 10",
        cpus: &[2, 4],
        nice_values: &[0, 0, 0, 0, 5, 5, 10],
        light: 0,
    },
    Mix { name: "infeasible: nice -10, 0, 0", cpus: &[2], nice_values: &[-10, 0, 0], light: 0 },
    Mix { name: "7 equal", cpus: &[4], nice_values: &[0; 7], light: 0 },
    Mix {
        name: "infeasible: nice -20, 0 x6",
        cpus: &[4],
        nice_values: &[-20, 0, 0, 0, 0, 0, 0],
        light: 0,
    },
];

/// Hogs whose shares are below a quantum in the time of the measurement.
const EXTREMES: &[Mix] = &[
    Mix { name: "nice -20, 19", cpus: &[1], nice_values: &[-20, 19], light: 0 },
    Mix { name: "nice -20, 19, 19", cpus: &[2], nice_values: &[-20, 19, 19], light: 0 },
    Mix { name: "1000 : 1 x49", cpus: &[1, 2, 4], nice_values: &[-20], light: 49 },
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
    /// A scheduler's command line, `eevdf`, or `loaded` for one that runs already; may be repeated.
    #[arg(long = "under", required = true)]
    schedulers: Vec<String>,
    /// Also hogs whose shares are below a quantum.
    #[arg(long)]
    extremes: bool,
    /// Report a scheduler that ends, and go on with the next.
    #[arg(long)]
    go_on: bool,
    /// Fail if a share is further than this from the entitled one, in per mille.
    #[arg(long)]
    share_error: Option<u32>,
    /// Fail if a hog is further behind than this at any time, in ms.
    #[arg(long)]
    lag: Option<u32>,
    /// Fail if cpus idle for longer in all, in ms: there are more hogs than cpus in every mix.
    #[arg(long)]
    idle: Option<u32>,
}

impl Args {
    /// All mixes for this number of cpus, under each scheduler.
    pub(crate) fn execute(self) -> Result<ExitCode> {
        system::become_real_time()?;
        let cpus = thread::available_parallelism()?.get();
        let extremes = if self.extremes { EXTREMES } else { &[] };
        let mut loaded = Loaded::default();
        for mix in MIXES.iter().chain(extremes).filter(|mix| mix.cpus.contains(&cpus)) {
            for scheduler in &self.schedulers {
                let row = self.measure(mix, scheduler, cpus, &mut loaded);
                match row.with_context(|| format!("{} under {scheduler}", mix.name)) {
                    Ok(row) => row.print(),
                    // A scheduler that the kernel threw out is a result, and the next one's turn.
                    Err(why) if self.go_on => {
                        loaded = Loaded::default();
                        Failure::of(cpus, &why).print();
                    }
                    Err(why) => return Err(why),
                }
            }
        }
        loaded.stop()?;
        Ok(ExitCode::SUCCESS)
    }

    fn measure(
        &self,
        mix: &Mix,
        scheduler: &str,
        cpus: usize,
        loaded: &mut Loaded,
    ) -> Result<ShareRow> {
        let length = Duration::from_secs(self.seconds);
        let service = run(mix, loaded.load(scheduler)?, cpus, length)?;
        let error = service.worst_relative_error();
        let row = ShareRow {
            cpus,
            mix: mix.name.to_string(),
            scheduler: scheduler.to_string(),
            seconds: self.seconds,
            share_error_percent: error * 100.0,
            quantum_percent: service.part_of_least(5.0) * 100.0,
            largest_lag_ms: service.largest_lag_ms,
            idle_ms: service.idle_ms,
            gr3_bound_ms: service.bound_of_gr3() * 5.0,
            shares: service.shares,
        };
        let limit = self.share_error.map_or(f64::INFINITY, |e| f64::from(e) / 1000.0);
        ensure!(error <= limit, "a share is {:.1} % off", error * 100.0);
        let lag_ms = row.largest_lag_ms;
        ensure!(lag_ms <= self.lag.map_or(f64::INFINITY, f64::from), "a hog lags {lag_ms:.1} ms");
        let idle_ms = row.idle_ms;
        ensure!(
            idle_ms <= self.idle.map_or(f64::INFINITY, f64::from),
            "cpus idle for {idle_ms:.1} ms while hogs wait"
        );
        Ok(row)
    }
}

/// The scheduler that schedules, and its command line. To load one takes longer than many a
/// measurement.
#[derive(Default)]
pub(super) struct Loaded(Option<(String, Scheduler)>);

impl Loaded {
    pub(super) fn load(&mut self, command_line: &str) -> Result<&mut Scheduler> {
        if self.0.as_ref().is_none_or(|(loaded, _)| loaded != command_line) {
            std::mem::take(self).stop()?;
            self.0 = Some((command_line.to_string(), Scheduler::start(command_line)?));
        }
        let (_, scheduler) = self.0.as_mut().expect("it was loaded");
        Ok(scheduler)
    }

    pub(super) fn stop(self) -> Result<()> {
        self.0.map_or(Ok(()), |(command_line, scheduler)| {
            scheduler.stop().with_context(|| format!("at the end of {command_line}"))
        })
    }
}

fn run(mix: &Mix, scheduler: &mut Scheduler, cpus: usize, length: Duration) -> Result<Service> {
    let nice_values = [mix.nice_values, &vec![11; mix.light]].concat();
    share(&nice_values, scheduler, cpus, length)
}

/// A hog has slept before it starts: until then it uses the turns that it slept through, which are the
/// same for light ones and heavy ones.
pub(super) const SETTLING: Duration = Duration::from_millis(500);

/// What hogs of these nice values receive.
pub(super) fn share(
    nice_values: &[i32],
    scheduler: &mut Scheduler,
    cpus: usize,
    length: Duration,
) -> Result<Service> {
    let mut hogs = Hogs::new(nice_values)?;
    thread::sleep(Duration::from_millis(300));
    trace::start()?;
    hogs.start();
    thread::sleep(SETTLING);
    let from_us = system::monotonic_us();
    thread::sleep(length);
    trace::stop()?;
    let weight = |nice: &i32| WEIGHT_OF_NICE[usize::try_from(nice + 20).expect("nice is -20..19")];
    let hogs_of: Vec<(u32, u32)> =
        hogs.pids().into_iter().zip(nice_values.iter().map(weight)).collect();
    // Reading the trace takes its time; a scheduler's own record would count it as lag.
    drop(hogs);
    let switches = trace::read()?;
    scheduler.goes_on()?;
    Ok(ideal::measure(&switches, &hogs_of, cpus, from_us))
}

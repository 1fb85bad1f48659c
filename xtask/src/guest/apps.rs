//! Real programs under schedulers: servers and a compiler beside encoders, at equal and at ten times the
//! weight.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::debian::{self, Encoder, Service};
use super::mixes::Loaded;
use super::system;
use crate::report::{AppRow, Failure};

const ENCODERS: usize = 16;
/// Weight 110, where nice 0 has 1024.
const LIGHT: i32 = 10;

/// What the encoders are beside.
#[derive(Clone, Copy)]
enum Work {
    Serve(Service),
    Compile,
}

const WORK: &[Work] = &[
    Work::Serve(Service::Web),
    Work::Serve(Service::BusyWeb),
    Work::Serve(Service::Cache),
    Work::Compile,
];

/// Encoders, and their nice value; the others have 0.
const BESIDE: &[(usize, i32)] = &[(0, 0), (ENCODERS, LIGHT), (ENCODERS, 0)];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds for which servers are asked.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// A scheduler's command line, or `eevdf`; may be repeated.
    #[arg(long = "under", required = true)]
    schedulers: Vec<String>,
    /// Only what begins so: nginx, redis, gcc; may be repeated.
    #[arg(long = "case")]
    cases: Vec<String>,
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Work::Serve(service) => service.name(),
            Work::Compile => "gcc",
        }
    }
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        debian::prepare()?;
        let cpus = thread::available_parallelism()?.get();
        let mut loaded = Loaded::default();
        let wanted = |work: &&Work| {
            self.cases.is_empty() || self.cases.iter().any(|name| work.name().starts_with(name))
        };
        for scheduler in &self.schedulers {
            for &work in WORK.iter().filter(wanted) {
                for &(encoders, nice) in BESIDE {
                    let place = || format!("{} under {scheduler}", mix(work, encoders, nice));
                    match self.measure(work, encoders, nice, scheduler, &mut loaded) {
                        Ok(row) => AppRow { cpus, ..row }.print(),
                        Err(why) => Failure::of(cpus, &why.context(place())).print(),
                    }
                }
            }
        }
        loaded.stop()?;
        Ok(ExitCode::SUCCESS)
    }

    fn measure(
        &self,
        work: Work,
        encoders: usize,
        nice: i32,
        scheduler: &str,
        loaded: &mut Loaded,
    ) -> Result<AppRow> {
        let mut row = AppRow {
            mix: mix(work, encoders, nice),
            scheduler: scheduler.to_string(),
            ..AppRow::default()
        };
        let scheduler = loaded.load(scheduler)?;
        let server = match work {
            Work::Serve(service) => Some((service, service.start()?)),
            Work::Compile => None,
        };
        let started: Result<Vec<Encoder>> = (0..encoders).map(|_| Encoder::start(nice)).collect();
        let mut encoders = started?;
        // Until all encode.
        thread::sleep(Duration::from_millis(1500));
        let before = Encoded::now(&mut encoders)?;
        let served_before = server.as_ref().map_or(Ok(0), |(_, server)| server.time_ns())?;
        match &server {
            Some((service, _)) => {
                let answers = service.ask(self.seconds)?;
                row.requests_per_s = Some(answers.per_s);
                (row.p50_ms, row.p99_ms) = (Some(answers.p50_ms), Some(answers.p99_ms));
            }
            None => row.compile_s = Some(debian::compile()?.as_secs_f64()),
        }
        let after = Encoded::now(&mut encoders)?;
        let seconds = (after.at_us - before.at_us) as f64 / 1e6;
        if let Some((_, server)) = &server {
            row.server_cpus = Some((server.time_ns()? - served_before) as f64 / 1e9 / seconds);
        }
        let times = after.times_ns.iter().zip(&before.times_ns);
        let cpus: Vec<f64> = times.map(|(a, b)| (a - b) as f64 / 1e9 / seconds).collect();
        row.frames_per_s = (after.frames - before.frames) as f64 / seconds;
        row.encoders_cpus = cpus.iter().sum();
        row.least_encoder = cpus.iter().copied().reduce(f64::min);
        row.most_encoder = cpus.iter().copied().reduce(f64::max);
        scheduler.goes_on().context("meanwhile")?;
        Ok(row)
    }
}

fn mix(work: Work, encoders: usize, nice: i32) -> String {
    match (encoders, nice) {
        (0, _) => format!("{} alone", work.name()),
        (_, 0) => format!("{} + {encoders} encoders", work.name()),
        _ => format!("{} + {encoders} encoders of nice {nice}", work.name()),
    }
}

/// What encoders have done.
struct Encoded {
    at_us: u64,
    frames: u64,
    times_ns: Vec<u64>,
}

impl Encoded {
    fn now(encoders: &mut [Encoder]) -> Result<Encoded> {
        Ok(Encoded {
            at_us: system::monotonic_us(),
            frames: encoders.iter_mut().map(Encoder::frames).sum::<Result<u64>>()?,
            times_ns: encoders.iter().map(Encoder::time_ns).collect::<Result<_>>()?,
        })
    }
}

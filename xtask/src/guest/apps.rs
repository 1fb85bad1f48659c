//! Real programs under schedulers: servers and a compiler beside encoders, at equal and at ten times the
//! weight; programs that keep a rhythm beside `stress-ng`.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::debian::{self, Encoder, Program, Rhythm, Service};
use super::mixes::Loaded;
use super::system;
use crate::report::{AppRow, Failure};

const ENCODERS: usize = 16;
/// Weight 110, where nice 0 has 1024.
const LIGHT: i32 = 10;
const STRESSORS: usize = 8;
/// Until all that is beside the work computes.
const STARTING: Duration = Duration::from_millis(1500);

#[derive(Clone, Copy, PartialEq)]
enum Work {
    Serve(Service),
    Compile,
    Keep(Rhythm),
}

/// What the work, of nice 0, is beside.
#[derive(Clone, Copy, PartialEq)]
enum Beside {
    Nobody,
    Encoders { nice: i32 },
    Stressors,
}

const WORK: &[Work] = &[
    Work::Serve(Service::Web),
    Work::Serve(Service::BusyWeb),
    Work::Serve(Service::Cache),
    Work::Compile,
    Work::Keep(Rhythm::Cyclictest),
    Work::Keep(Rhythm::RtApp),
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds for which servers are asked, and rhythms kept.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// A scheduler's command line, `eevdf`, or `loaded` for one that runs already; may be repeated.
    #[arg(long = "under", required = true)]
    schedulers: Vec<String>,
    /// Only what begins so: nginx, redis, gcc, cyclictest, rt-app; may be repeated.
    #[arg(long = "case")]
    cases: Vec<String>,
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Work::Serve(service) => service.name(),
            Work::Compile => "gcc",
            Work::Keep(rhythm) => rhythm.name(),
        }
    }

    fn beside(self) -> &'static [Beside] {
        match self {
            Work::Keep(_) => &[Beside::Nobody, Beside::Stressors],
            _ => &[Beside::Nobody, Beside::Encoders { nice: LIGHT }, Beside::Encoders { nice: 0 }],
        }
    }
}

impl Beside {
    fn encoders(self) -> Result<Vec<Encoder>> {
        match self {
            Beside::Encoders { nice } => (0..ENCODERS).map(|_| Encoder::start(nice)).collect(),
            Beside::Nobody | Beside::Stressors => Ok(Vec::new()),
        }
    }
}

fn mix(work: Work, beside: Beside) -> String {
    let name = work.name();
    match beside {
        Beside::Nobody => format!("{name} alone"),
        Beside::Encoders { nice: 0 } => format!("{name} + {ENCODERS} encoders"),
        Beside::Encoders { nice } => format!("{name} + {ENCODERS} encoders of nice {nice}"),
        Beside::Stressors => format!("{name} + stress-ng --cpu {STRESSORS}"),
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
                for &beside in work.beside() {
                    let place = || format!("{} under {scheduler}", mix(work, beside));
                    match self.measure(work, beside, scheduler, &mut loaded) {
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
        beside: Beside,
        scheduler: &str,
        loaded: &mut Loaded,
    ) -> Result<AppRow> {
        let mut row = AppRow {
            mix: mix(work, beside),
            scheduler: scheduler.to_string(),
            ..AppRow::default()
        };
        let scheduler = loaded.load(scheduler)?;
        let server = match work {
            Work::Serve(service) => Some(service.start()?),
            Work::Compile | Work::Keep(_) => None,
        };
        let mut encoders = beside.encoders()?;
        let _stressors =
            if beside == Beside::Stressors { Some(debian::stress(STRESSORS)?) } else { None };
        thread::sleep(STARTING);
        let before = Done::now(server.as_ref(), &mut encoders)?;
        self.work(work, &mut row)?;
        let after = Done::now(server.as_ref(), &mut encoders)?;
        after.since(&before, &mut row);
        scheduler.goes_on().context("meanwhile")?;
        Ok(row)
    }

    fn work(&self, work: Work, row: &mut AppRow) -> Result<()> {
        let answers = match work {
            Work::Serve(service) => service.ask(self.seconds)?,
            Work::Keep(rhythm) => rhythm.keep(self.seconds)?,
            Work::Compile => {
                row.compile_s = Some(debian::compile()?.as_secs_f64());
                return Ok(());
            }
        };
        row.requests_per_s = Some(answers.per_s);
        (row.p50_ms, row.p99_ms) = (Some(answers.p50_ms), Some(answers.p99_ms));
        Ok(())
    }
}

/// What programs have done.
struct Done {
    at_us: u64,
    server_ns: Option<u64>,
    frames: u64,
    encoders_ns: Vec<u64>,
}

impl Done {
    fn now(server: Option<&Program>, encoders: &mut [Encoder]) -> Result<Done> {
        Ok(Done {
            at_us: system::monotonic_us(),
            server_ns: server.map(Program::time_ns).transpose()?,
            frames: encoders.iter_mut().map(Encoder::frames).sum::<Result<u64>>()?,
            encoders_ns: encoders.iter().map(Encoder::time_ns).collect::<Result<_>>()?,
        })
    }

    fn since(&self, before: &Done, row: &mut AppRow) {
        let seconds = (self.at_us - before.at_us) as f64 / 1e6;
        let cpus = |after: u64, before: u64| (after - before) as f64 / 1e9 / seconds;
        row.server_cpus = self.server_ns.zip(before.server_ns).map(|(a, b)| cpus(a, b));
        let times = self.encoders_ns.iter().zip(&before.encoders_ns);
        let encoders: Vec<f64> = times.map(|(&a, &b)| cpus(a, b)).collect();
        row.frames_per_s = (self.frames - before.frames) as f64 / seconds;
        row.encoders_cpus = encoders.iter().fold(0.0, |sum, cpus| sum + cpus);
        row.least_encoder = encoders.iter().copied().reduce(f64::min);
        row.most_encoder = encoders.iter().copied().reduce(f64::max);
    }
}

//! Tasks that sleep and wake at told times, among hogs: how late they run, and whether they run at all.

use std::io::Read;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::hogs::Hogs;
use super::scheduler::Scheduler;
use super::system;
use crate::report::{Failure, ResponseRow};

/// Hogs of nice 0, and probes of nice 0 that compute for so long at the beginning of every period.
struct Case {
    cpus: usize,
    hogs: usize,
    probes: usize,
    run_us: u64,
    period_us: u64,
}

const CASES: &[Case] = &[
    Case { cpus: 2, hogs: 4, probes: 1, run_us: 200, period_us: 10_000 },
    Case { cpus: 2, hogs: 4, probes: 4, run_us: 1_000, period_us: 20_000 },
    Case { cpus: 2, hogs: 16, probes: 1, run_us: 200, period_us: 10_000 },
    Case { cpus: 2, hogs: 16, probes: 4, run_us: 1_000, period_us: 20_000 },
    Case { cpus: 2, hogs: 64, probes: 2, run_us: 500, period_us: 16_600 },
    Case { cpus: 2, hogs: 64, probes: 2, run_us: 400, period_us: 16_600 },
    Case { cpus: 4, hogs: 8, probes: 4, run_us: 200, period_us: 10_000 },
    Case { cpus: 4, hogs: 32, probes: 8, run_us: 1_000, period_us: 20_000 },
];

/// What a probe uses besides in a period, to wake and to fall asleep: 45 to 70 µs.
const BESIDES_US: u64 = 70;

impl Case {
    /// What a probe asks for that uses so much in a period, of an equal share of the cpus.
    fn need(&self, used_us: f64) -> f64 {
        used_us / self.period_us as f64 * (self.hogs + self.probes) as f64 / self.cpus as f64
    }

    /// Probes that need nearly all of their share, or more, have to wait for it now and then.
    fn is_easy(&self) -> bool {
        self.need((self.run_us + BESIDES_US) as f64) < 0.9
    }

    fn name(&self) -> String {
        let Case { hogs, probes, run_us, period_us, .. } = self;
        let ms = |us: &u64| *us as f64 / 1000.0;
        format!("{hogs} hogs + {probes} of {}/{} ms", ms(run_us), ms(period_us))
    }
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// A scheduler's command line, `eevdf`, or `loaded` for one that runs already; may be repeated.
    #[arg(long = "under", required = true)]
    schedulers: Vec<String>,
    /// Fail if less of the periods was served than this, in percent, to probes that need clearly less
    /// than their share.
    #[arg(long, default_value_t = 0.0)]
    served: f64,
    /// Fail if a hundredth of their responses took longer than this, in ms.
    #[arg(long, default_value_t = f64::INFINITY)]
    p99: f64,
}

impl Args {
    /// All cases for this number of cpus, under each scheduler.
    pub(crate) fn execute(self) -> Result<ExitCode> {
        system::become_real_time()?;
        let cpus = thread::available_parallelism()?.get();
        for command_line in &self.schedulers {
            let mut scheduler = Scheduler::start(command_line)?;
            for case in CASES.iter().filter(|case| case.cpus == cpus) {
                let place = || format!("{} under {command_line}", case.name());
                match self.measure(case, command_line, &mut scheduler).with_context(place) {
                    Ok(row) => self.judge(case, row)?,
                    Err(why) => Failure::of(cpus, &why).print(),
                }
            }
            scheduler.stop()?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn measure(
        &self,
        case: &Case,
        command_line: &str,
        scheduler: &mut Scheduler,
    ) -> Result<ResponseRow> {
        let mut hogs = Hogs::new(&vec![0; case.hogs])?;
        thread::sleep(Duration::from_millis(200));
        hogs.start();
        // Until everybody has had some turns.
        thread::sleep(Duration::from_millis(500));
        let before = hogs.run_times_ns()?;
        let probes: Vec<Probe> =
            (0..case.probes).map(|_| Probe::start(case, self.seconds)).collect::<Result<_>>()?;
        let responses: Vec<Responses> =
            probes.into_iter().map(Probe::finish).collect::<Result<_>>()?;
        let after = hogs.run_times_ns()?;
        scheduler.goes_on()?;
        let used: Vec<f64> = after.iter().zip(&before).map(|(a, b)| (a - b) as f64).collect();
        let mean = used.iter().sum::<f64>() / used.len() as f64;
        let (part, all) = served(&responses);
        let used_us: u64 = responses.iter().map(|r| r.used_us).sum();
        let mut waits_us: Vec<u64> = responses.into_iter().flat_map(|r| r.waits_us).collect();
        waits_us.sort_unstable();
        ensure!(!waits_us.is_empty(), "no probe ever ran");
        let percentile = |percent: usize| waits_us[(waits_us.len() - 1) * percent / 100] as f64;
        Ok(ResponseRow {
            cpus: case.cpus,
            mix: case.name(),
            scheduler: command_line.to_string(),
            need_percent: case.need(used_us as f64 / part as f64) * 100.0,
            served_percent: part as f64 / all as f64 * 100.0,
            p50_ms: percentile(50) / 1000.0,
            p99_ms: percentile(99) / 1000.0,
            max_ms: percentile(100) / 1000.0,
            least_hog: used.iter().copied().fold(f64::INFINITY, f64::min) / mean,
            most_hog: used.iter().copied().fold(0.0, f64::max) / mean,
        })
    }

    fn judge(&self, case: &Case, row: ResponseRow) -> Result<()> {
        let (served, p99, mix) = (row.served_percent, row.p99_ms, row.mix.clone());
        row.print();
        if !case.is_easy() {
            return Ok(());
        }
        ensure!(served >= self.served, "{mix}: {served:.1} % of the periods were served");
        ensure!(p99 <= self.p99, "{mix}: one response of a hundred took {p99:.1} ms or more");
        Ok(())
    }
}

/// Periods that were served, of all.
fn served(responses: &[Responses]) -> (u64, u64) {
    let part = responses.iter().map(|r| r.waits_us.len() as u64).sum();
    (part, responses.iter().map(|r| r.periods).sum())
}

/// What a probe saw.
struct Responses {
    periods: u64,
    /// Its cpu time, from the first to the last.
    used_us: u64,
    /// From the time that it wanted to run until it did.
    waits_us: Vec<u64>,
}

struct Probe(Child);

impl Probe {
    fn start(case: &Case, seconds: u64) -> Result<Probe> {
        let arguments = [case.run_us, case.period_us, seconds].map(|number| number.to_string());
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["guest", "probe"]).args(arguments).stdout(Stdio::piped());
        Ok(Probe(command.spawn().context("cannot start a probe")?))
    }

    fn finish(mut self) -> Result<Responses> {
        let mut said = String::new();
        let mut out = self.0.stdout.take().expect("it was asked for");
        out.read_to_string(&mut said)?;
        ensure!(self.0.wait()?.success(), "a probe failed");
        let mut numbers = said.split_whitespace().map(str::parse);
        let mut number = || numbers.next().context("a probe said too little");
        let (periods, used_us) = (number()??, number()??);
        Ok(Responses { periods, used_us, waits_us: numbers.collect::<Result<_, _>>()? })
    }
}

#[derive(clap::Args)]
pub(crate) struct ProbeArgs {
    run_us: u64,
    period_us: u64,
    seconds: u64,
}

impl ProbeArgs {
    /// Sleeps to the beginning of each period and computes. Periods that pass while it still computes
    /// are missed. Prints the number of all periods, its cpu time in them, then the waits.
    pub(crate) fn execute(self) -> Result<ExitCode> {
        system::sleep_exactly()?;
        // Each its own phase, or all would always wake at once.
        let phase_us = u64::from(std::process::id()) * 1009 % self.period_us;
        let begin_us = system::monotonic_us() + self.period_us + phase_us;
        let periods = self.seconds * 1_000_000 / self.period_us;
        let mut waits_us = Vec::with_capacity(usize::try_from(periods)?);
        let (mut period, first_us) = (0, system::thread_us());
        while period < periods {
            let due_us = begin_us + period * self.period_us;
            system::sleep_until_us(due_us)?;
            waits_us.push(system::monotonic_us() - due_us);
            let until_us = system::thread_us() + self.run_us;
            while system::thread_us() < until_us {}
            period = (period + 1).max((system::monotonic_us() - begin_us) / self.period_us);
        }
        let waits: Vec<String> = waits_us.iter().map(u64::to_string).collect();
        println!("{periods} {} {}", system::thread_us() - first_us, waits.join(" "));
        Ok(ExitCode::SUCCESS)
    }
}

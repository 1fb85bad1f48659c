//! Statistics, by the conventions of `scx_stats`.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use scx_stats::prelude::*;
use scx_stats_derive::{Stats, stat_doc};
use serde::{Deserialize, Serialize};

use crate::shared::Memory;

/// What the scheduler counts, since it was loaded.
#[stat_doc]
#[derive(Clone, Debug, Default, Serialize, Deserialize, Stats)]
#[stat(top)]
pub(crate) struct Metrics {
    #[stat(desc = "decisions")]
    pub(crate) picks: u64,
    #[stat(desc = "decisions of the policy's inner algorithm, at least one a pick")]
    pub(crate) choices: u64,
    #[stat(desc = "decisions that left a cpu idle")]
    pub(crate) idle_picks: u64,
    #[stat(desc = "decisions after which the cpu went on with the task that it had")]
    pub(crate) keeps: u64,
    #[stat(desc = "picks that were over at once, since the task had run too long before")]
    pub(crate) overdrafts: u64,
    #[stat(desc = "quanta that went on after an interruption")]
    pub(crate) resumed: u64,
    #[stat(desc = "quanta granted to tasks that were running elsewhere (GR3MP)")]
    pub(crate) frontlogs: u64,
    #[stat(desc = "readjustments of infeasible weights")]
    pub(crate) readjustments: u64,
    #[stat(desc = "tasks run out of turn, since they had waited too long")]
    pub(crate) rescues: u64,
    #[stat(desc = "turns of tasks that were bound to other cpus than the one that picked them")]
    pub(crate) confined: u64,
    #[stat(desc = "wake-ups of kernel threads and the loader that ran beside the policy")]
    pub(crate) bypassed: u64,
    #[stat(desc = "microseconds that they ran")]
    pub(crate) beside_us: u64,
    #[stat(desc = "wake-ups of these that queued, since their cpu's budget was used up")]
    pub(crate) over_budget: u64,
    #[stat(desc = "picked tasks that never came and were given back")]
    pub(crate) lost: u64,
    #[stat(desc = "tasks too many for the scheduler's table, which are one more task together")]
    pub(crate) crowded_out: u64,
    #[stat(desc = "longest time in microseconds that a task has waited for a cpu")]
    pub(crate) longest_wait_us: u64,
}

impl Metrics {
    pub(crate) fn read(memory: &Memory<'_>) -> Metrics {
        let (stats, counts) = (memory.stats(), memory.counts());
        Metrics {
            picks: stats.picks,
            choices: counts.choices,
            idle_picks: stats.idle_picks,
            keeps: stats.keeps,
            overdrafts: stats.overdrafts,
            resumed: stats.resumed,
            frontlogs: counts.frontlogs,
            readjustments: counts.readjustments,
            rescues: stats.rescues,
            confined: stats.confined,
            bypassed: stats.bypassed,
            beside_us: stats.beside_ns / 1000,
            over_budget: stats.over_budget,
            lost: stats.lost,
            crowded_out: stats.crowded_out,
            longest_wait_us: stats.longest_wait_ns / 1000,
        }
    }

    /// What was counted since `before`; the longest wait stays that since the start.
    fn since(&self, before: &Metrics) -> Metrics {
        let longest_wait_us = self.longest_wait_us;
        let mut delta = self.clone();
        for (now, before) in delta.counters_mut().into_iter().zip(before.clone().counters_mut()) {
            *now = now.saturating_sub(*before);
        }
        Metrics { longest_wait_us, ..delta }
    }

    fn counters_mut(&mut self) -> [&mut u64; 15] {
        [
            &mut self.picks,
            &mut self.choices,
            &mut self.idle_picks,
            &mut self.keeps,
            &mut self.overdrafts,
            &mut self.resumed,
            &mut self.frontlogs,
            &mut self.readjustments,
            &mut self.rescues,
            &mut self.confined,
            &mut self.bypassed,
            &mut self.beside_us,
            &mut self.over_budget,
            &mut self.lost,
            &mut self.crowded_out,
        ]
    }

    fn print(&self, out: &mut impl Write) -> Result<()> {
        writeln!(
            out,
            "picks {:>7}  choices {:>7}  idle {:>6}  keeps {:>6}  overdrafts {:>5}  frontlogs {:>6}  \
             readjusted {:>4}  confined {:>5}  rescues {:>3}  beside {:.1} ms  longest wait {:.1} ms",
            self.picks,
            self.choices,
            self.idle_picks,
            self.keeps,
            self.overdrafts,
            self.frontlogs,
            self.readjustments,
            self.confined,
            self.rescues,
            Duration::from_micros(self.beside_us).as_secs_f64() * 1e3,
            Duration::from_micros(self.longest_wait_us).as_secs_f64() * 1e3,
        )?;
        Ok(())
    }
}

/// The server's side: each client gets what was counted since it last asked.
pub(crate) fn server_data() -> StatsServerData<(), Metrics> {
    let open: Box<dyn StatsOpener<(), Metrics>> = Box::new(move |(requests, answers)| {
        requests.send(())?;
        let mut before = answers.recv()?;
        let read: Box<dyn StatsReader<(), Metrics>> =
            Box::new(move |_arguments, (requests, answers)| {
                requests.send(())?;
                let now = answers.recv()?;
                let delta = now.since(&before);
                before = now;
                delta.to_json()
            });
        Ok(read)
    });
    StatsServerData::new()
        .add_meta(Metrics::meta())
        .add_ops("top", StatsOps { open, close: None })
        .add_ops("total", StatsOps { open: Box::new(open_total), close: None })
}

/// Totals since the scheduler was loaded.
fn open_total(
    _channels: (&crossbeam::channel::Sender<()>, &crossbeam::channel::Receiver<Metrics>),
) -> Result<Box<dyn StatsReader<(), Metrics>>> {
    Ok(Box::new(move |_arguments, (requests, answers)| {
        requests.send(())?;
        answers.recv()?.to_json()
    }))
}

/// Prints what the running scheduler counts, every `interval`, until `shutdown`.
pub(crate) fn monitor(interval: Duration, shutdown: &AtomicBool) -> Result<()> {
    scx_utils::monitor_stats::<Metrics>(
        &[],
        interval,
        || shutdown.load(Ordering::Relaxed),
        |metrics| metrics.print(&mut std::io::stdout()),
    )
}

/// Prints the totals of the running scheduler as `OpenMetrics` text.
pub(crate) fn print_open_metrics() -> Result<()> {
    let mut client = StatsClient::new()
        .connect(None)
        .context("no scheduler with statistics runs: start scx_prorata first")?;
    let target = vec![("target".to_string(), "total".to_string())];
    let totals: Metrics = client.request("stats", target)?;
    let names = serde_json::to_value(&totals)?;
    let names = names.as_object().context("statistics are an object")?;
    let longest_wait_us = totals.longest_wait_us;
    for (name, value) in names.iter().filter(|(name, _)| *name != "longest_wait_us") {
        println!("# TYPE scx_prorata_{name} counter\nscx_prorata_{name}_total {value}");
    }
    println!("# TYPE scx_prorata_longest_wait_seconds gauge");
    println!(
        "scx_prorata_longest_wait_seconds {}\n# EOF",
        Duration::from_micros(longest_wait_us).as_secs_f64()
    );
    Ok(())
}

//! Statistics, by the conventions of `scx_stats`.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use scx_stats::prelude::*;
use scx_stats_derive::{Stats, stat_doc};
use serde::{Deserialize, Serialize};

use crate::cgroups::{Query, Report};
use crate::loaded::Loaded;
use crate::shared::Memory;
use crate::watch::{self, Watch};

/// What a client wants to know.
pub(crate) enum Request {
    Metrics,
    Cgroups(Query),
}

pub(crate) enum Answer {
    Metrics(Metrics),
    Cgroups(Result<Report>),
}

/// The loader's side: what it knows besides the scheduler's counters.
pub(crate) struct Statistics {
    quantum: Duration,
    watch: Option<Watch>,
}

impl Statistics {
    pub(crate) fn new(quantum: Duration) -> Statistics {
        Statistics { quantum, watch: None }
    }

    /// True while somebody watches cgroups.
    pub(crate) fn is_watching(&self) -> bool {
        self.watch.is_some()
    }

    pub(crate) fn answer(&mut self, request: Request, loaded: &dyn Loaded) -> Answer {
        let memory = loaded.memory();
        match request {
            Request::Metrics => Answer::Metrics(Metrics::read(&memory)),
            Request::Cgroups(_) if !memory.knows_cgroups() => {
                Answer::Cgroups(Err(anyhow!("the policy that runs does not know cgroups")))
            }
            Request::Cgroups(query) => {
                let begin = || Watch::begin(&memory, self.quantum);
                Answer::Cgroups(self.watch.get_or_insert_with(begin).look(&memory, &query))
            }
        }
    }

    /// Follows what changes, until nobody has wanted to know for long.
    pub(crate) fn go_on(&mut self, loaded: &dyn Loaded) {
        let Some(watch) = &mut self.watch else { return };
        if watch.is_over() {
            watch::stop(&loaded.memory());
            self.watch = None;
        } else {
            watch.catch_up(&loaded.memory());
        }
    }
}

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
    #[stat(desc = "tasks that began to run on another cpu than before")]
    pub(crate) moves: u64,
    #[stat(desc = "of these, to a cpu with another last-level cache")]
    pub(crate) far_moves: u64,
    #[stat(desc = "tasks that left a core which they shared for one that idled")]
    pub(crate) core_moves: u64,
    #[stat(desc = "tasks too many for the scheduler's table, which are one more task together")]
    pub(crate) crowded_out: u64,
    #[stat(desc = "longest time in microseconds that a task has waited for a cpu")]
    pub(crate) longest_wait_us: u64,
    #[stat(
        desc = "most decisions of the policy's inner algorithm that one pick took; 0 under gdq-distributed"
    )]
    pub(crate) most_choices: u64,
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
            moves: stats.moves,
            far_moves: stats.far_moves,
            core_moves: memory.core_moves(),
            crowded_out: stats.crowded_out,
            longest_wait_us: stats.longest_wait_ns / 1000,
            most_choices: stats.most_choices,
        }
    }

    /// What was counted since `before`; the longest and the most stay those since the start.
    fn since(&self, before: &Metrics) -> Metrics {
        let mut delta = self.clone();
        for (now, before) in delta.counters_mut().into_iter().zip(before.clone().counters_mut()) {
            *now = now.saturating_sub(*before);
        }
        delta
    }

    fn counters_mut(&mut self) -> [&mut u64; 18] {
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
            &mut self.moves,
            &mut self.far_moves,
            &mut self.core_moves,
            &mut self.crowded_out,
        ]
    }

    fn print(&self, out: &mut impl Write) -> Result<()> {
        writeln!(
            out,
            "picks {:>7}  choices {:>7}  idle {:>6}  keeps {:>6}  overdrafts {:>5}  frontlogs {:>6}  \
             readjusted {:>4}  confined {:>5}  moves {:>6}  far {:>5}  rescues {:>3}  beside {:.1} ms  \
             longest wait {:.1} ms  most choices {}",
            self.picks,
            self.choices,
            self.idle_picks,
            self.keeps,
            self.overdrafts,
            self.frontlogs,
            self.readjustments,
            self.confined,
            self.moves,
            self.far_moves,
            self.rescues,
            Duration::from_micros(self.beside_us).as_secs_f64() * 1e3,
            Duration::from_micros(self.longest_wait_us).as_secs_f64() * 1e3,
            self.most_choices,
        )?;
        Ok(())
    }
}

/// The server's side: each client gets what was counted since it last asked.
pub(crate) fn server_data() -> StatsServerData<Request, Answer> {
    let open: Box<dyn StatsOpener<Request, Answer>> = Box::new(move |channels| {
        let mut before = ask_metrics(channels)?;
        let read: Box<dyn StatsReader<Request, Answer>> = Box::new(move |_arguments, channels| {
            let now = ask_metrics(channels)?;
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
        .add_ops("cgroups", StatsOps { open: Box::new(open_cgroups), close: None })
}

/// To the loader, and from it.
type Channels<'a, 'b> =
    (&'a crossbeam::channel::Sender<Request>, &'b crossbeam::channel::Receiver<Answer>);

fn ask_metrics((requests, answers): Channels<'_, '_>) -> Result<Metrics> {
    requests.send(Request::Metrics)?;
    match answers.recv()? {
        Answer::Metrics(metrics) => Ok(metrics),
        Answer::Cgroups(_) => bail!("an answer to another question"),
    }
}

/// Totals since the scheduler was loaded.
fn open_total(_channels: Channels<'_, '_>) -> Result<Box<dyn StatsReader<Request, Answer>>> {
    Ok(Box::new(move |_arguments, channels| ask_metrics(channels)?.to_json()))
}

/// Totals of cgroups since somebody watches.
fn open_cgroups(_channels: Channels<'_, '_>) -> Result<Box<dyn StatsReader<Request, Answer>>> {
    Ok(Box::new(move |arguments, (requests, answers)| {
        requests.send(Request::Cgroups(Query::parse(arguments)?))?;
        match answers.recv()? {
            Answer::Cgroups(report) => Ok(serde_json::to_value(report?)?),
            Answer::Metrics(_) => bail!("an answer to another question"),
        }
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

/// Prints what cgroups are due and receive, every `interval`, until `shutdown`: a table, or a line of JSON.
pub(crate) fn monitor_cgroups(
    query: &Query,
    as_json: bool,
    interval: Duration,
    shutdown: &AtomicBool,
) -> Result<()> {
    let mut before: Option<Report> = None;
    let arguments = query.arguments(Some(interval));
    let clear = if std::io::stdout().is_terminal() { "\x1b[H\x1b[J" } else { "" };
    scx_utils::monitor_stats::<Report>(
        &arguments,
        interval,
        || shutdown.load(Ordering::Relaxed),
        |report| {
            let mut out = std::io::stdout();
            if as_json {
                writeln!(out, "{}", report.to_json(before.as_ref())?)?;
            } else {
                writeln!(out, "{clear}{}", report.to_table(before.as_ref()))?;
            }
            before = Some(report);
            Ok(())
        },
    )
}

/// Prints the totals of the running scheduler as `OpenMetrics` text, and of the cgroups that are asked for.
pub(crate) fn print_open_metrics(query: &Query) -> Result<()> {
    let mut client = StatsClient::new()
        .connect(None)
        .context("no scheduler with statistics runs: start scx_prorata first")?;
    let target = vec![("target".to_string(), "total".to_string())];
    let totals: Metrics = client.request("stats", target)?;
    let names = serde_json::to_value(&totals)?;
    let names = names.as_object().context("statistics are an object")?;
    let is_counter = |name: &str| !["longest_wait_us", "most_choices"].contains(&name);
    for (name, value) in names.iter().filter(|(name, _)| is_counter(name)) {
        println!("# TYPE scx_prorata_{name} counter\nscx_prorata_{name}_total {value}");
    }
    println!("# TYPE scx_prorata_longest_wait_seconds gauge");
    let longest_wait_s = Duration::from_micros(totals.longest_wait_us).as_secs_f64();
    println!("scx_prorata_longest_wait_seconds {longest_wait_s}");
    println!("# TYPE scx_prorata_most_choices gauge");
    println!("scx_prorata_most_choices {}", totals.most_choices);
    if query.is_asked() {
        let report: Report = client.request("stats", query.arguments(None))?;
        print!("{}", report.to_open_metrics());
    }
    println!("# EOF");
    Ok(())
}

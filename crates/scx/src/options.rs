//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::builder::RangedU64ValueParser;
use scx_prorata_objects::intf::limits_CROWD;

use crate::cgroups::Query;
use crate::durations::{parse_duration, parse_seconds};
use crate::spec::{self, Spec};
use crate::weight::Weights;

const SHORTEST: Duration = Duration::from_micros(100);
const LONGEST_QUANTUM: Duration = Duration::from_secs(1);
const LONGEST_RESCUE: Duration = Duration::from_secs(15);

/// Makes a policy of proportional sharing the scheduler of this machine, until Ctrl-C.
///
/// Every task gets the share of the cpus that its weight gives it: by its nice value (each level is
/// a factor of 1.25, nice 0 weighs 1024), or as `scx_prorata weight set` chose.
#[derive(Debug, clap::Parser)]
#[command(name = "scx_prorata", version, max_term_width = 100)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// The policy, with its options if it has any: gr3, vtrr, wfq, dfs-fa, gdq:t=1,delta=4, or
    /// gdq-distributed, whose cpus seldom meet at a lock (with --groups off).
    #[arg(long, default_value = "gr3", value_parser = spec::parse)]
    pub(crate) policy: Spec,

    /// Length of a quantum. What a task runs too long it makes up for later.
    #[arg(long, default_value = "5ms", value_parser = parse_quantum)]
    pub(crate) quantum: Duration,

    /// A task that has waited for so long is run out of turn.
    #[arg(long, default_value = "10s", value_parser = parse_rescue, value_name = "TIME")]
    pub(crate) rescue: Duration,

    /// Tasks that have a place of their own; those beyond are together as one more task of nice 0.
    #[arg(long, default_value_t = limits_CROWD, value_parser = parse_max_tasks(), value_name = "N")]
    pub(crate) max_tasks: u32,

    /// Whether tasks have their turns on cpus that share a cache with the one where they ran last, where the
    /// machine has several.
    #[arg(long, default_value = "on", value_enum)]
    pub(crate) locality: Locality,

    /// Whether a cgroup's cpu.weight counts: `total` gives it to all its tasks together, `off` looks at
    /// tasks only.
    #[arg(long, default_value = "total", value_enum)]
    pub(crate) groups: Groups,

    /// Schedule only tasks of the class SCHED_EXT, and leave the others to the kernel.
    #[arg(long)]
    pub(crate) partial: bool,

    /// Write every event and decision to a file, for `prorata verify`.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// What is told of cgroups, instead of the rest, by --stats and --monitor.
    #[command(flatten)]
    pub(crate) cgroups: Query,

    /// Tell it as JSON, a line each time.
    #[arg(long, requires = "path")]
    pub(crate) json: bool,

    /// Print statistics every so many seconds.
    #[arg(long, value_parser = parse_seconds, value_name = "SECONDS")]
    pub(crate) stats: Option<Duration>,

    /// Print the statistics of the scheduler that runs already, every so many seconds.
    #[arg(long, value_parser = parse_seconds, value_name = "SECONDS")]
    pub(crate) monitor: Option<Duration>,

    /// Say what the statistics mean.
    #[arg(long)]
    pub(crate) help_stats: bool,

    /// Say more, including what libbpf says.
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// Whether tasks stay near to their caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Locality {
    On,
    Off,
}

/// What cgroups count for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Groups {
    Total,
    Off,
}

impl Options {
    /// Refuses what a policy whose queues have locks of their own cannot do yet.
    ///
    /// # Errors
    /// What to type instead.
    pub(crate) fn check(&self) -> Result<()> {
        let name = self.policy.name;
        if !self.policy.is_apart() {
            return Ok(());
        }
        ensure!(
            self.groups == Groups::Off,
            "{name} does not know cgroups yet: add --groups off, or use --policy gdq"
        );
        ensure!(
            !self.cgroups.is_asked(),
            "{name} does not know cgroups yet: leave --cgroups away, or use --policy gdq"
        );
        Ok(())
    }
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Set or get weights, while the scheduler runs.
    #[command(subcommand)]
    Weight(Weights),
    /// Print the statistics of the scheduler that runs already, as OpenMetrics text.
    Metrics(Query),
}

fn parse_max_tasks() -> RangedU64ValueParser<u32> {
    RangedU64ValueParser::new().range(1..=u64::from(limits_CROWD))
}

fn parse_quantum(text: &str) -> Result<Duration, String> {
    let fits = |quantum: &Duration| (SHORTEST..=LONGEST_QUANTUM).contains(quantum);
    let wrong = || format!("a quantum is from 100us to 1s, not {text}");
    Some(parse_duration(text)?).filter(fits).ok_or_else(wrong)
}

/// The kernel ends a scheduler under which a task has waited for 30 s.
fn parse_rescue(text: &str) -> Result<Duration, String> {
    let fits = |rescue: &Duration| (SHORTEST..=LONGEST_RESCUE).contains(rescue);
    let wrong = || {
        format!("a task is rescued after 100us to 15s, not {text}: one that has waited 30s ends us")
    };
    Some(parse_duration(text)?).filter(fits).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit_and_a_sensible_size() {
        assert_eq!(parse_quantum("5ms"), Ok(Duration::from_millis(5)));
        assert_eq!(parse_quantum("200us"), Ok(Duration::from_micros(200)));
        assert_eq!(parse_rescue("15s"), Ok(Duration::from_secs(15)));
        assert!(parse_rescue("16s").is_err());
        for wrong in ["5", "ms", "0ms", "-5ms", "2s", "99999999999999999999s", "5 ms"] {
            assert!(parse_quantum(wrong).is_err(), "{wrong}");
        }
    }
}

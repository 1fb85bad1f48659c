//! `prorata attach`: processes that run already share cpus by weight.

use std::process::ExitCode;

use prorata_run::Job;

use super::run::Common;

/// Let running processes share cpus by weight.
///
/// Each process gets the share of the cpus that its weight gives it, with all its descendants.
/// When prorata ends, for whatever reason, they go on as before.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// A weight from 1 to 4294967295, and the number of a process: 3:1234.
    #[arg(required = true, value_name = "WEIGHT:PID")]
    processes: Vec<String>,
}

impl Args {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let jobs = self.processes.iter().map(|text| Job::attached(text));
        self.common.execute(&jobs.collect::<Result<Vec<_>, _>>()?)
    }
}

//! `prorata policies`: the registry as a table.

use std::process::ExitCode;

use prorata::policies::REGISTRY;

#[derive(clap::Args)]
pub(crate) struct Args {}

impl Args {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let widest = REGISTRY.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
        for entry in REGISTRY {
            println!("{:widest$}  {} ({})", entry.name, entry.title, entry.paper);
            let (bound, cost) = (entry.bound.text, entry.cost.pick);
            println!("{:widest$}  bound {bound}; a pick costs O({cost})", "");
        }
        Ok(ExitCode::SUCCESS)
    }
}

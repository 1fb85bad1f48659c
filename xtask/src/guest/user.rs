//! What users other than root may do.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The user's number.
    user: u32,
    /// What to run.
    #[arg(trailing_var_arg = true, required = true)]
    command: Vec<String>,
}

impl Args {
    /// The process becomes the command, so that it keeps its number.
    pub(crate) fn execute(self) -> Result<ExitCode> {
        let mut command = Command::new(&self.command[0]);
        let error = command.args(&self.command[1..]).uid(self.user).gid(self.user).exec();
        Err(error).with_context(|| format!("cannot run {}", self.command[0]))
    }
}

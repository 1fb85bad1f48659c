//! What users other than root may do.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode};

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

/// A process of an ordinary user that runs a command of this program; killed when dropped.
pub(crate) struct UsersProcess(Child);

impl UsersProcess {
    pub(crate) const USER: u32 = 1000;

    pub(crate) fn start(arguments: &[&str]) -> Result<UsersProcess> {
        let mut command = Command::new(std::env::current_exe()?);
        let command = command.arg("guest").args(arguments).uid(Self::USER).gid(Self::USER);
        Ok(UsersProcess(command.spawn().context("cannot start a user's process")?))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for UsersProcess {
    fn drop(&mut self) {
        // One that has gone already is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

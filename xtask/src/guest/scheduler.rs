//! Loading one of the schedulers that are compared, and going back to the kernel's own.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::system;

const STATE: &str = "/sys/kernel/sched_ext/state";
const LOADS: &str = "/sys/kernel/sched_ext/enable_seq";
/// What the loader says.
pub(crate) const LOG: &str = "/tmp/loader.log";
const SOCKET: &str = "/run/scx_prorata.sock";
/// Loading verifies the program: two thousand million instructions, of 64 ns each on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// What one is called that schedules already, and goes on.
const LOADED: &str = "loaded";

/// A scheduler of the comparison, while it schedules.
pub(crate) struct Scheduler {
    /// None of the kernel's own, and of one that others have loaded.
    loader: Option<Child>,
    is_loaded: bool,
}

impl Scheduler {
    /// Starts what a command line names; `eevdf` is the kernel's own, `loaded` one that schedules already.
    pub(crate) fn start(command_line: &str) -> Result<Scheduler> {
        if command_line == "eevdf" {
            return Ok(Scheduler { loader: None, is_loaded: false });
        }
        if command_line == LOADED {
            ensure!(is_enabled(), "no scheduler of sched_ext is loaded");
            return Ok(Scheduler { loader: None, is_loaded: true });
        }
        let mut words = command_line.split_whitespace();
        let program = words.next().context("no scheduler is named")?;
        let log = fs::File::create(LOG)?;
        let loader = Command::new(program)
            .args(words)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        // Verifying takes its time; under load it would take many times that.
        system::set_nice(loader.id(), -20)?;
        let mut scheduler = Scheduler { loader: Some(loader), is_loaded: true };
        scheduler.wait_until_enabled(command_line)?;
        Ok(scheduler)
    }

    fn wait_until_enabled(&mut self, command_line: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        // Ours takes commands a moment after the kernel has taken it.
        let takes_commands =
            || !command_line.starts_with("scx_prorata") || Path::new(SOCKET).exists();
        while !(is_enabled() && takes_commands()) {
            let loader = self.loader.as_mut().expect("it was started");
            if loader.try_wait()?.is_some() || Instant::now() > deadline {
                let said = fs::read_to_string(LOG).unwrap_or_default();
                bail!("`{command_line}` does not load:\n{}", said.trim_end());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// An error with its last words if it has ended by itself.
    pub(crate) fn goes_on(&mut self) -> Result<()> {
        let Some(loader) = &mut self.loader else {
            ensure!(!self.is_loaded || is_enabled(), "the scheduler was unloaded");
            return Ok(());
        };
        if let Some(status) = loader.try_wait()? {
            let said = fs::read_to_string(LOG).unwrap_or_default();
            bail!("the scheduler ended by itself ({status}):\n{}", said.trim_end());
        }
        Ok(())
    }

    /// Ends the scheduler as Ctrl-C does. An error if it has ended before.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.goes_on()?;
        let Some(mut loader) = self.loader.take() else { return Ok(()) };
        system::signal(loader.id(), libc::SIGINT)?;
        let status = loader.wait()?;
        if !status.success() || is_enabled() {
            let said = fs::read_to_string(LOG).unwrap_or_default();
            bail!("the scheduler did not end well ({status}):\n{}", said.trim_end());
        }
        Ok(())
    }
}

impl Scheduler {
    /// Kills the loader without a warning, and waits until the kernel's own scheduler is back.
    pub(crate) fn kill(mut self) -> Result<()> {
        if let Some(mut loader) = self.loader.take() {
            loader.kill()?;
            loader.wait()?;
        }
        wait_until_disabled()
    }
}

fn wait_until_disabled() -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while is_enabled() {
        if Instant::now() > deadline {
            let said = fs::read_to_string(LOG).unwrap_or_default();
            bail!("the scheduler stays enabled:\n{}", said.trim_end());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        if let Some(loader) = &mut self.loader {
            // After an error elsewhere; the kernel goes back to its own scheduler.
            let _ = loader.kill();
            let _ = loader.wait();
        }
    }
}

/// How often a scheduler was loaded since the machine started.
pub(super) fn loads() -> Result<u64> {
    let text = fs::read_to_string(LOADS).with_context(|| format!("cannot read {LOADS}"))?;
    text.trim().parse().with_context(|| format!("{LOADS} says '{text}'"))
}

pub(super) fn is_enabled() -> bool {
    fs::read_to_string(STATE).is_ok_and(|state| state.trim() == "enabled")
}

//! Tasks that compute for ever.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::system;
use crate::shell;

/// How long who naps runs each time, of its own time, and how long it sleeps then.
const NAP_AFTER_US: u64 = 1000;
const NAP: Duration = Duration::from_millis(20);

/// Waits for the end of the input, then computes until it is killed.
pub(crate) fn hog() -> ! {
    await_start();
    let mut turns = 0u64;
    loop {
        turns = std::hint::black_box(turns.wrapping_add(1));
    }
}

/// Waits for the end of the input, then runs for [`NAP_AFTER_US`] and sleeps for [`NAP`] until it is killed.
pub(crate) fn napper() -> ! {
    await_start();
    loop {
        let until_us = system::thread_us() + NAP_AFTER_US;
        while system::thread_us() < until_us {}
        thread::sleep(NAP);
    }
}

/// Whatever ends the input is the signal to start.
fn await_start() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// Hogs that wait to be started together; killed when dropped.
#[derive(Default)]
pub(crate) struct Hogs(Vec<Child>);

impl Hogs {
    /// A hog for each nice value.
    pub(crate) fn new(nice_values: &[i32]) -> Result<Hogs> {
        Hogs::of("hog", nice_values)
    }

    /// So many that nap.
    pub(crate) fn napping(count: usize) -> Result<Hogs> {
        Hogs::of("napper", &vec![0; count])
    }

    fn of(what: &str, nice_values: &[i32]) -> Result<Hogs> {
        let this = std::env::current_exe()?;
        let mut hogs = Hogs(Vec::new());
        for nice in nice_values {
            let mut command = Command::new(&this);
            command.args(["guest", what]).stdin(Stdio::piped());
            let hog = command.spawn().context("cannot start a hog")?;
            let pid = hog.id().to_string();
            hogs.0.push(hog);
            shell::run(Command::new("renice").args([&nice.to_string(), &pid]))?;
        }
        Ok(hogs)
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.0.iter().map(Child::id).collect()
    }

    /// How long each has run, by the kernel's account, as users see it.
    ///
    /// What a policy takes to decide is in the time of who comes next there. Times between switches would
    /// give it to who went: some percent, where few hogs' turns end in long decisions.
    pub(crate) fn run_times_ns(&self) -> Result<Vec<u64>> {
        self.pids().into_iter().map(system::run_time_ns).collect()
    }

    pub(crate) fn start(&mut self) {
        self.0.iter_mut().for_each(|hog| drop(hog.stdin.take()));
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            // One that has gone already is gone.
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

//! A user floods the loader's socket: root is answered all the same, and hogs keep their shares.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::attack::{KEEP, ROOTS_SOCKET, SOCKET, ask};
use super::hogs::Hogs;
use super::system;
use super::user::UsersProcess;

/// What flooders do not use is the hogs', but for so much.
const LEAST_SHARE: f64 = 0.95;
/// Root asks so many times a second.
const ASKS: u64 = 5;
const HOGS: [i32; 2] = [0, 0];

#[derive(clap::Args)]
pub(crate) struct FloodArgs {
    #[arg(long)]
    seconds: u64,
    /// The loader's process.
    #[arg(long)]
    loader: u32,
}

/// What a process does to the socket, again and again.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Kind {
    /// Connects and goes.
    Connect,
    /// Asks for what takes the loader long.
    Ask,
    /// Connects and says nothing.
    Hold,
}

#[derive(clap::Args)]
pub(crate) struct FlooderArgs {
    kind: Kind,
}

impl FlooderArgs {
    /// Works until it is killed. It may be turned away at any time.
    pub(crate) fn execute(self) -> ! {
        let mut held = VecDeque::new();
        loop {
            match self.kind {
                Kind::Connect => drop(UnixStream::connect(SOCKET)),
                Kind::Ask => drop(ask(SOCKET, &format!("user {} {KEEP}\n", UsersProcess::USER))),
                Kind::Hold => {
                    held.extend(UnixStream::connect(SOCKET));
                    if held.len() > 500 {
                        held.pop_front();
                    }
                }
            }
        }
    }
}

impl FloodArgs {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        let cpus = thread::available_parallelism()?.get();
        let mut hogs = Hogs::new(&HOGS)?;
        hogs.start();
        let kinds = ["connect", "ask", "hold"].iter();
        let flooders = kinds.map(|kind| UsersProcess::start(&["flooder", kind]));
        let flooders = flooders.collect::<Result<Vec<_>>>()?;
        let flooder_pids: Vec<u32> = flooders.iter().map(UsersProcess::pid).collect();
        thread::sleep(Duration::from_millis(500));
        let used = |pids: &[u32]| -> Result<f64> {
            let times = pids.iter().map(|&pid| Ok(system::run_time_ns(pid)? as f64 / 1e9));
            times.sum()
        };
        let begin = Instant::now();
        let before = [used(&hogs.pids())?, used(&flooder_pids)?, used(&[self.loader])?];
        for _ in 0..self.seconds * ASKS {
            thread::sleep(Duration::from_millis(1000 / ASKS));
            let answer = ask(ROOTS_SOCKET, &format!("pid 1 {KEEP}\n"))?;
            ensure!(answer.ends_with("ok\n"), "root is told: {answer}");
        }
        let after = [used(&hogs.pids())?, used(&flooder_pids)?, used(&[self.loader])?];
        let seconds = begin.elapsed().as_secs_f64();
        let [of_hogs, of_flood, of_loader] = [0, 1, 2].map(|at| after[at] - before[at]);
        let left = (seconds * cpus as f64 - of_flood).min(seconds * HOGS.len() as f64);
        println!(
            "in {seconds:.2} s on {cpus} cpus hogs ran {of_hogs:.3} s of {left:.3}, the flood \
             {of_flood:.3} s, the loader {of_loader:.3} s"
        );
        ensure!(of_hogs >= LEAST_SHARE * left, "the flood takes the hogs' time");
        Ok(ExitCode::SUCCESS)
    }
}

//! What cgroups cost, in a machine of one cpu whose time is executed instructions: a switch at a depth, and
//! among many others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::cost;
use super::groups::CGROUPS;
use super::scheduler::Scheduler;
use super::system;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A scheduler's command line, `eevdf`, or `loaded` for one that runs already; may be repeated.
    #[arg(long = "under", required = true)]
    schedulers: Vec<String>,
    /// Levels of cgroups that a ping-pong is in.
    #[arg(long, value_delimiter = ',', default_value = "0,1,3,5")]
    depths: Vec<usize>,
    /// Numbers of cgroups beside it, and of those that take turns.
    #[arg(long, value_delimiter = ',', default_value = "10,1000")]
    crowds: Vec<usize>,
    /// While somebody watches cgroups (`scx_prorata --monitor 1 --cgroups`).
    #[arg(long)]
    watched: bool,
    /// Also hackbench in a cgroup.
    #[arg(long)]
    hackbench: bool,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        let cpus = thread::available_parallelism()?.get();
        ensure!(cpus == 1, "on {cpus} cpus clocks also count what the others do: give it one");
        system::become_real_time()?;
        for scheduler in &self.schedulers {
            self.measure(scheduler).with_context(|| format!("the costs of {scheduler}"))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn measure(&self, name: &str) -> Result<()> {
        let scheduler = Scheduler::start(name)?;
        let monitor = self.watched.then(watch).transpose()?;
        thread::sleep(Duration::from_millis(200));
        for &depth in &self.depths {
            let chain = Chain::enter(depth)?;
            println!("| {name} | a switch at depth {depth} | {:.0} |", cost::ping_pong()?);
            chain.leave()?;
        }
        for &crowd in &self.crowds {
            let others = Others::new(crowd, false)?;
            let chain = Chain::enter(1)?;
            let switch = cost::ping_pong()?;
            println!("| {name} | a switch at depth 1 beside {crowd} cgroups | {switch:.0} |");
            chain.leave()?;
            others.remove()?;
            let others = Others::new(crowd, true)?;
            let turn = cost::turn(crowd, |hog| others.join(hog))?;
            println!("| {name} | a turn of {crowd} hogs, each in a cgroup | {turn:.0} |");
            others.remove()?;
        }
        if self.hackbench {
            let chain = Chain::enter(1)?;
            println!("| {name} | hackbench at depth 1, s | {:.3} |", cost::best_hackbench()?);
            chain.leave()?;
        }
        if let Some(mut monitor) = monitor {
            monitor.kill()?;
            monitor.wait()?;
        }
        scheduler.stop()
    }
}

fn watch() -> Result<Child> {
    let mut monitor = Command::new("scx_prorata");
    monitor.args(["--monitor", "1", "--cgroups"]).stdout(Stdio::null());
    monitor.spawn().context("cannot start scx_prorata")
}

fn write(path: &Path, file: &str, text: &str) -> Result<()> {
    let path = path.join(file);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn make(path: &Path) -> Result<()> {
    fs::create_dir(path).with_context(|| format!("cannot make {}", path.display()))
}

fn remove(path: &Path) -> Result<()> {
    fs::remove_dir(path).with_context(|| format!("cannot remove {}", path.display()))
}

/// cgroups in each other; this process is in the innermost.
struct Chain(Vec<PathBuf>);

impl Chain {
    fn enter(depth: usize) -> Result<Chain> {
        let mut path = PathBuf::from(CGROUPS);
        let mut chain = Chain(Vec::new());
        for _ in 0..depth {
            write(&path, "cgroup.subtree_control", "+cpu")?;
            path.push("nested");
            make(&path)?;
            chain.0.push(path.clone());
        }
        write(&path, "cgroup.procs", "0")?;
        Ok(chain)
    }

    fn leave(self) -> Result<()> {
        write(CGROUPS.as_ref(), "cgroup.procs", "0")?;
        self.0.iter().rev().try_for_each(|path| remove(path))
    }
}

/// cgroups beside each other; this process's threads may join them if they are threaded.
struct Others(PathBuf, usize);

impl Others {
    fn new(count: usize, threaded: bool) -> Result<Others> {
        let above = Path::new(CGROUPS).join("others");
        make(&above)?;
        let others = Others(above, count);
        if !threaded {
            write(&others.0, "cgroup.subtree_control", "+cpu")?;
        }
        for n in 0..count {
            make(&others.path(n))?;
            if threaded {
                write(&others.path(n), "cgroup.type", "threaded")?;
            }
        }
        if threaded {
            write(&others.0, "cgroup.subtree_control", "+cpu")?;
            write(&others.0, "cgroup.procs", "0")?;
        }
        Ok(others)
    }

    fn path(&self, n: usize) -> PathBuf {
        self.0.join(n.to_string())
    }

    /// The calling thread joins one of them.
    fn join(&self, n: usize) -> Result<()> {
        write(&self.path(n), "cgroup.threads", "0")
    }

    fn remove(self) -> Result<()> {
        write(CGROUPS.as_ref(), "cgroup.procs", "0")?;
        (0..self.1).try_for_each(|n| remove(&self.path(n)))?;
        remove(&self.0)
    }
}

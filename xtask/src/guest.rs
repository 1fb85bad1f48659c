//! What runs inside the virtual machine: loads, and what the kernel's schedulers make of them.
//!
//! `xtask` takes itself along into the machine (`vm.rs`); these subcommands are for there and are
//! hidden on the host.

use std::process::ExitCode;

use anyhow::Result;

mod apps;
mod attack;
mod bound;
mod commands;
mod cost;
mod crowd;
pub(crate) mod debian;
mod depths;
mod flood;
mod groups;
mod hogs;
mod hostile;
mod hotplug;
mod ideal;
mod lmbench;
mod loads;
mod miscreant;
mod mixes;
mod open_metrics;
mod probes;
mod random;
mod scheduler;
pub(crate) mod services;
mod spinner;
mod stress;
mod system;
mod topology;
mod trace;
mod user;
mod watch;

#[derive(clap::Subcommand)]
pub(crate) enum Guest {
    /// Waits for the end of its input, then computes for ever.
    Hog,
    /// Waits for that, then naps again and again.
    Napper,
    /// Becomes a command as another user.
    As(user::Args),
    /// Runs a mix of hogs under schedulers, and prints shares and lags.
    Mix(mixes::Args),
    /// Runs tasks that sleep among hogs, and prints how late they run.
    Probes(probes::Args),
    /// Is one of them.
    Probe(probes::ProbeArgs),
    /// Runs hogs in trees of cgroups under schedulers, and prints what they received and were due.
    Groups(groups::Args),
    /// Runs hogs and sleepers in a tree of cgroups, and compares what the scheduler tells of these.
    Watch(watch::Args),
    /// Runs commands under `prorata run`, and prints what they received and were due.
    Commands(commands::Args),
    /// Is one of them.
    #[command(subcommand)]
    Command(commands::Program),
    /// Runs hogs that may not run on every cpu, and prints what they received and were due.
    Bound(bound::Args),
    /// Runs more hogs than the scheduler has slots, and prints what they received.
    Crowd(crowd::Args),
    /// Runs hogs on many cpus, and prints what they received, and how often they moved.
    Topology(topology::Args),
    /// Runs services and a session of systemd's under schedulers, and prints what they received and were due.
    Services(services::Args),
    /// Runs programs of Debian's under schedulers, and prints what they did and received.
    Apps(apps::Args),
    /// Loads policies, and tells what that takes.
    Loads(loads::Args),
    /// Measures what schedulers cost.
    Cost(cost::Args),
    /// Measures what lmbench measures of schedulers.
    Lmbench(lmbench::Args),
    /// Measures what cgroups cost.
    Depths(depths::Args),
    /// Disturbs workers at random while a policy schedules them.
    Stress(stress::StressArgs),
    /// Works until it is killed.
    Worker(stress::WorkerArgs),
    /// Runs hogs while cpus go and come, and prints how far they are from what they are due.
    Hotplug(hotplug::Args),
    /// A user does at random what users can do, while cpus come and go.
    Hostile(hostile::Args),
    /// Is one of the user's processes.
    Miscreant(miscreant::Args),
    /// Takes a cpu for a task of real time, and counts the scheduler's timers there.
    Spinner(spinner::Args),
    /// Kills the loader again and again.
    Kill(stress::KillArgs),
    /// Tries to change the weight of root's processes.
    #[command(subcommand)]
    Attack(attack::Attack),
    /// Floods the loader's socket, and sees who is kept waiting.
    Flood(flood::FloodArgs),
    /// Floods it until it is killed.
    Flooder(flood::FlooderArgs),
}

impl Guest {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        match self {
            Guest::Hog => hogs::hog(),
            Guest::Napper => hogs::napper(),
            Guest::As(args) => args.execute(),
            Guest::Mix(args) => args.execute(),
            Guest::Probes(args) => args.execute(),
            Guest::Probe(args) => args.execute(),
            Guest::Groups(args) => args.execute(),
            Guest::Watch(args) => args.execute(),
            Guest::Commands(args) => args.execute(),
            Guest::Command(program) => program.execute(),
            Guest::Bound(args) => args.execute(),
            Guest::Crowd(args) => args.execute(),
            Guest::Topology(args) => args.execute(),
            Guest::Services(args) => args.execute(),
            Guest::Apps(args) => args.execute(),
            Guest::Loads(args) => args.execute(),
            Guest::Cost(args) => args.execute(),
            Guest::Lmbench(args) => args.execute(),
            Guest::Depths(args) => args.execute(),
            Guest::Stress(args) => args.execute(),
            Guest::Worker(args) => args.execute(),
            Guest::Hotplug(args) => args.execute(),
            Guest::Hostile(args) => args.execute(),
            Guest::Miscreant(args) => args.execute(),
            Guest::Spinner(args) => args.execute(),
            Guest::Kill(args) => args.execute(),
            Guest::Attack(attack) => attack.execute(),
            Guest::Flood(args) => args.execute(),
            Guest::Flooder(args) => args.execute(),
        }
    }
}

//! `scx_prorata weight`: the weights of processes, process groups and users, while the scheduler
//! runs.
//!
//! The meaning is that of the papers' `setweight(which, who, weight)`, and permissions are those of
//! `setpriority`: one may change one's own processes, and needs `CAP_SYS_NICE` to raise a weight or
//! to change those of others. The loader, which alone can reach the scheduler, listens on a socket
//! and learns from the kernel who asks.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::policies::{KEEP, Loaded};
use crate::socket::{Peer, Socket};

const SOCKET: &str = "/run/scx_prorata.sock";

/// Set or get the weights of tasks.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Weights {
    /// Set the weight of tasks; children that they start from then on inherit it.
    Set {
        #[command(flatten)]
        who: Who,
        /// 1..=1000000, or `nice` for the weight of the nice value again (nice 0 weighs 1024).
        #[arg(value_parser = parse_weight)]
        weight: u32,
    },
    /// Print the weights of tasks: a line with thread and weight for each.
    Get {
        #[command(flatten)]
        who: Who,
    },
}

/// Which tasks.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Who {
    /// All threads of a process.
    #[arg(long, value_name = "ID")]
    pid: Option<u32>,
    /// All processes of a process group.
    #[arg(long, value_name = "ID")]
    pgrp: Option<u32>,
    /// All processes of a user, by number.
    #[arg(long, value_name = "ID")]
    user: Option<u32>,
}

fn parse_weight(text: &str) -> Result<u32, String> {
    if text == "nice" {
        return Ok(0);
    }
    let weight = text.parse().ok().filter(|weight| (1..=1_000_000).contains(weight));
    weight.ok_or_else(|| format!("'{text}' is no weight: 1..=1000000, or `nice`"))
}

impl Weights {
    /// Asks the loader.
    pub(crate) fn execute(&self) -> Result<()> {
        let (who, weight) = match self {
            Weights::Set { who, weight } => (who, *weight),
            Weights::Get { who } => (who, KEEP),
        };
        let (kind, id) = match (who.pid, who.pgrp, who.user) {
            (Some(id), ..) => ("pid", id),
            (_, Some(id), _) => ("pgrp", id),
            (.., Some(id)) => ("user", id),
            _ => unreachable!("clap requires one of them"),
        };
        let mut stream = UnixStream::connect(SOCKET)
            .context("no scx_prorata schedules this machine: start it first, as root")?;
        writeln!(stream, "{kind} {id} {weight}")?;
        let lines = BufReader::new(stream).lines().collect::<Result<Vec<_>, _>>()?;
        let (verdict, weights) = lines.split_last().context("the scheduler has gone")?;
        ensure!(verdict == "ok", "{verdict}");
        if weight == KEEP {
            weights.iter().for_each(|line| println!("{line}"));
        }
        Ok(())
    }
}

/// The loader's end.
pub(crate) fn listen() -> Result<Socket> {
    Socket::listen(Path::new(SOCKET))
}

/// The loader's answer to a request.
pub(crate) fn answer(line: &str, peer: &Peer, loaded: &mut dyn Loaded) -> Result<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[kind, id, weight] = &words[..] else { bail!("'{}' is no request", line.trim()) };
    let (id, weight): (u32, u32) = (id.parse()?, weight.parse()?);
    ensure!(weight <= 1_000_000 || weight == KEEP, "a weight is at most 1000000");
    let processes = processes(kind, id)?;
    ensure!(!processes.is_empty(), "there is no process of {kind} {id}");
    let mut answer = String::new();
    for process in processes {
        for thread in threads(process) {
            if weight != KEEP {
                may_change(peer, process, thread, weight, loaded)?;
            }
            // A thread may end while we look.
            if let Ok(weight) = loaded.weight_call(thread, weight) {
                answer += &format!("{thread} {weight}\n");
            }
        }
    }
    ensure!(!answer.is_empty(), "the tasks of {kind} {id} are not scheduled by scx_prorata");
    Ok(answer + "ok\n")
}

/// As `setpriority` decides.
fn may_change(
    peer: &Peer,
    process: u32,
    thread: u32,
    weight: u32,
    loaded: &mut dyn Loaded,
) -> Result<()> {
    if peer.capable {
        return Ok(());
    }
    ensure!(
        uids(process)?.contains(&peer.uid),
        "process {process} is another user's: changing its weight needs CAP_SYS_NICE (root)"
    );
    let now = loaded.weight_call(thread, KEEP).unwrap_or(0);
    ensure!(
        weight != 0 && weight <= now,
        "raising a weight (of thread {thread}, now {now}) needs CAP_SYS_NICE (root)"
    );
    Ok(())
}

/// Real and effective user.
fn uids(process: u32) -> Result<[u32; 2]> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))
        .with_context(|| format!("process {process} has gone"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).context("no uid")?;
    let mut ids = line.split_whitespace().map_while(|id| id.parse().ok());
    Ok([ids.next().context("no uid")?, ids.next().context("no uid")?])
}

fn processes(kind: &str, id: u32) -> Result<Vec<u32>> {
    let wanted = |process: &u32| match kind {
        "pid" => *process == id,
        "pgrp" => group(*process) == Some(id),
        _ => uids(*process).is_ok_and(|uids| uids[0] == id),
    };
    if kind == "pid" {
        return Ok(fs::metadata(format!("/proc/{id}")).map_or(Vec::new(), |_| vec![id]));
    }
    Ok(numbers("/proc").filter(wanted).collect())
}

/// The process group: the fifth field of /proc/PID/stat, counted behind the command's name.
fn group(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()
}

fn threads(process: u32) -> Vec<u32> {
    let threads: Vec<u32> = numbers(&format!("/proc/{process}/task")).collect();
    // A thread's own number names it too.
    if threads.is_empty() { vec![process] } else { threads }
}

fn numbers(dir: &str) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_numbers_or_nice() {
        assert_eq!(parse_weight("nice"), Ok(0));
        assert_eq!(parse_weight("1000000"), Ok(1_000_000));
        for wrong in ["0", "1000001", "-1", "heavy"] {
            assert!(parse_weight(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn our_own_group_and_threads_are_found() {
        let this = std::process::id();
        assert!(threads(this).contains(&this));
        // SAFETY: the call has no arguments and cannot fail.
        let group_id = unsafe { libc::getpgrp() };
        assert_eq!(group(this), u32::try_from(group_id).ok());
    }
}

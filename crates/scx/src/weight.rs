//! `scx_prorata weight`: the weights of processes, process groups and users, while the scheduler
//! runs.
//!
//! The meaning is that of the papers' `setweight(which, who, weight)`, and permissions are those of
//! `setpriority`: one may change one's own processes, and needs `CAP_SYS_NICE` to raise a weight or
//! to change those of others. The loader, which alone can reach the scheduler, listens on a socket;
//! the scheduler decides who may do what, on the task itself (`bpf/permission.h`).

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use scx_prorata_objects::intf::weight_call;

use crate::host::Machine;
use crate::loaded::{KEEP, Loaded};
use crate::socket::Socket;

const SOCKET: &str = "/run/scx_prorata.sock";
const ROOTS_SOCKET: &str = "/run/scx_prorata-root.sock";

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
        let mut stream = UnixStream::connect(ROOTS_SOCKET)
            .or_else(|_| UnixStream::connect(SOCKET))
            .context("no scx_prorata schedules this machine: start it first, as root")?;
        writeln!(stream, "{kind} {id} {weight}").context(GONE)?;
        let lines = BufReader::new(stream).lines().collect::<Result<Vec<_>, _>>();
        let lines = lines.context(GONE)?;
        let (verdict, others) = lines.split_last().context(GONE)?;
        for line in others {
            match line.strip_prefix(REFUSED) {
                Some(refusal) => eprintln!("scx_prorata: {refusal}"),
                None if weight == KEEP => println!("{line}"),
                None => {}
            }
        }
        ensure!(verdict == "ok", "{verdict}");
        Ok(())
    }
}

const GONE: &str = "scx_prorata has not answered: look whether it still schedules this machine \
     (`scx_prorata metrics`), and ask again";
/// Begins the line of a task whose weight was not changed.
const REFUSED: &str = "refused: ";

/// The loader's end.
pub(crate) fn listen() -> Result<Socket<Machine>> {
    Socket::listen(Path::new(ROOTS_SOCKET), Path::new(SOCKET), Machine::new())
}

/// The loader's answer to a request of whoever connected the socket.
pub(crate) fn answer(
    line: &str,
    caller: BorrowedFd<'_>,
    loaded: &mut dyn Loaded,
) -> Result<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[kind, id, weight] = &words[..] else { bail!("'{}' is no request", line.trim()) };
    let (id, weight): (u32, u32) = (id.parse()?, weight.parse()?);
    ensure!(weight <= 1_000_000 || weight == KEEP, "a weight is at most 1000000");
    ensure!(
        process_of_proc() == Some(std::process::id()),
        "the /proc of scx_prorata's process is that of another pid namespace: mount its own there \
         (as `unshare --mount-proc` does), or start it in the first (a container: with --pid=host)"
    );
    let processes = processes(kind, id);
    ensure!(!processes.is_empty(), "there is no process of {kind} {id}");
    let caller_fd = caller.as_raw_fd().cast_unsigned();
    let mut outcomes = Outcomes::default();
    for process in processes {
        for thread in threads(process) {
            let call = weight_call { caller_fd, process, thread, weight, result: 0 };
            outcomes.add(&loaded.weight_call(call));
        }
    }
    ensure!(outcomes.are_any(), "the tasks of {kind} {id} are not scheduled by scx_prorata");
    outcomes.answer()
}

/// What became of each task.
#[derive(Default)]
struct Outcomes {
    /// A line for each that has the weight.
    told: String,
    refused: usize,
    /// Why; once for all threads of a process.
    refusals: Vec<String>,
}

impl Outcomes {
    fn add(&mut self, call: &weight_call) {
        match outcome(call) {
            Ok(Some(weight)) => self.told += &format!("{} {weight}\n", call.thread),
            Ok(None) => {}
            Err(error) => {
                self.refused += 1;
                let refusal = error.to_string();
                if self.refusals.last() != Some(&refusal) {
                    self.refusals.push(refusal);
                }
            }
        }
    }

    fn are_any(&self) -> bool {
        self.refused > 0 || !self.told.is_empty()
    }

    /// The verdict is the last line: "ok", or what went wrong.
    fn answer(self) -> Result<String> {
        match &self.refusals[..] {
            [] => return Ok(self.told + "ok\n"),
            [only] if self.told.is_empty() => bail!("{only}"),
            _ => {}
        }
        let all = self.refused + self.told.lines().count();
        let mut answer = self.told;
        self.refusals.iter().for_each(|refusal| answer += &format!("{REFUSED}{refusal}\n"));
        Ok(answer + &format!("{} of {all} threads keep the weights that they had\n", self.refused))
    }
}

/// The weight of a thread after the call; none if it has ended.
fn outcome(call: &weight_call) -> Result<Option<u32>> {
    let &weight_call { process, thread, weight, result, .. } = call;
    match -result {
        0 => Ok(Some(weight)),
        libc::EPERM => bail!(
            "process {process} is another user's: changing its weight needs CAP_SYS_NICE (root)"
        ),
        libc::EACCES => {
            bail!("raising a weight (of thread {thread}, now {weight}) needs CAP_SYS_NICE (root)")
        }
        libc::EIO => bail!(
            "the kernel does not run the scheduler's programs (BPF_PROG_RUN), which may be on its way \
             out: look whether it still schedules this machine (`scx_prorata metrics`), and ask again; \
             if it does, start it with --verbose, which says why"
        ),
        _ => Ok(None),
    }
}

/// Ourselves, as /proc has us.
fn process_of_proc() -> Option<u32> {
    fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()
}

/// The real user.
fn user(process: u32) -> Option<u32> {
    field(process, "Uid:")
}

/// The process that a number, which may be that of a thread, belongs to.
fn process_of(number: u32) -> Option<u32> {
    field(number, "Tgid:")
}

/// The first number in a line of /proc/PID/status.
fn field(process: u32, name: &str) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn processes(kind: &str, id: u32) -> Vec<u32> {
    let wanted = |process: &u32| match kind {
        "pgrp" => group(*process) == Some(id),
        _ => user(*process) == Some(id),
    };
    if kind == "pid" {
        return process_of(id).into_iter().collect();
    }
    numbers("/proc").filter(wanted).collect()
}

/// The process group: the fifth field of /proc/PID/stat, counted behind the command's name.
fn group(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()
}

fn threads(process: u32) -> impl Iterator<Item = u32> {
    numbers(&format!("/proc/{process}/task"))
}

fn numbers(dir: &str) -> impl Iterator<Item = u32> + use<> {
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

    fn outcomes(results: &[(u32, u32, i32)]) -> Result<String> {
        let mut outcomes = Outcomes::default();
        for &(process, thread, result) in results {
            let call = weight_call { caller_fd: 0, process, thread, weight: 7, result: -result };
            outcomes.add(&call);
        }
        outcomes.answer()
    }

    #[test]
    fn a_refusal_stops_nobody_elses_weight() {
        let all_done = outcomes(&[(1, 1, 0), (2, 2, libc::ESRCH), (3, 3, 0)]);
        assert_eq!(all_done.expect("all is done"), "1 7\n3 7\nok\n");
        let (own, other) = ((1, 1, 0), libc::EPERM);
        let some = outcomes(&[own, (2, 2, other), (2, 3, other), (4, 4, libc::EACCES), (5, 5, 0)]);
        let some = some.expect("something is done");
        let lines: Vec<&str> = some.lines().collect();
        assert_eq!(lines[..2], ["1 7", "5 7"]);
        assert!(lines[2].starts_with("refused: process 2 is another user's"), "{some}");
        assert!(lines[3].starts_with("refused: raising a weight (of thread 4, now 7)"), "{some}");
        assert_eq!(lines[4..], ["3 of 5 threads keep the weights that they had"]);
    }

    #[test]
    fn a_refusal_of_all_is_the_verdict() {
        let refused = outcomes(&[(2, 2, libc::EPERM), (2, 3, libc::EPERM)]).expect_err("refused");
        assert!(refused.to_string().starts_with("process 2 is another user's"), "{refused}");
        let silent = outcomes(&[(2, 2, libc::EIO), (3, 3, libc::EIO)]).expect_err("no answer");
        assert!(silent.to_string().contains("ask again"), "{silent}");
    }

    #[test]
    fn our_own_group_and_threads_are_found() {
        let this = std::process::id();
        assert!(threads(this).any(|thread| thread == this));
        assert_eq!(threads(this).find_map(process_of), Some(this));
        assert_eq!(process_of_proc(), Some(this));
        // SAFETY: the call has no arguments and cannot fail.
        let group_id = unsafe { libc::getpgrp() };
        assert_eq!(group(this), u32::try_from(group_id).ok());
    }
}

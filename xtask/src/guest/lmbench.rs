//! What lmbench measures of a scheduler, as DFS's table 2 has it: a system call, `fork`, `exec`, and
//! switches in a ring of processes which hand a token on and sum up an array each. These are its measures,
//! not its code. In a machine of one cpu whose time is executed instructions an instruction takes 1 ns.

use std::ffi::CStr;
use std::hint::black_box;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::scheduler::Scheduler;
use super::system;

const CALLS: u32 = 20_000;
const PROCESSES: u32 = 200;
const SWITCHES: u32 = 4_000;
/// Processes of a ring, and what each of them sums up, in KB.
const RINGS: [(usize, usize); 3] = [(2, 0), (8, 16), (16, 64)];
/// The best of so many runs, since what else the machine does only adds.
const RUNS: usize = 3;
/// A program that does nothing, and its arguments.
const NOTHING: (&CStr, [&CStr; 2]) = (c"/bin/busybox", [c"busybox", c"true"]);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A scheduler's command line, `eevdf`, or `loaded` for one that runs already; may be repeated.
    #[arg(long = "under", required = true)]
    schedulers: Vec<String>,
}

impl Args {
    /// A table: a row a measure, a column a scheduler.
    pub(crate) fn execute(self) -> Result<ExitCode> {
        let columns: Vec<Vec<f64>> =
            self.schedulers.iter().map(|name| measure(name)).collect::<Result<_>>()?;
        println!("| ns | {} |", self.schedulers.join(" | "));
        println!("|---{}|", "|---".repeat(columns.len()));
        for (row, name) in names().iter().enumerate() {
            let cells: Vec<String> =
                columns.iter().map(|column| format!("{:.0}", column[row])).collect();
            println!("| {name} | {} |", cells.join(" | "));
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn names() -> Vec<String> {
    let ring = |(processes, kb): (usize, usize)| format!("switch ({processes} proc/ {kb}KB)");
    ["system call", "fork()", "exec()"]
        .map(String::from)
        .into_iter()
        .chain(RINGS.map(ring))
        .collect()
}

fn measure(scheduler: &str) -> Result<Vec<f64>> {
    let loaded = Scheduler::start(scheduler)?;
    let mut row = vec![best(system_call)?, best(|| child(leave))?, best(|| child(execute))?];
    for (processes, kb) in RINGS {
        let alone = best(|| ring(1, kb))?;
        row.push(best(|| ring(processes, kb))? - alone);
    }
    loaded.stop()?;
    Ok(row)
}

fn best(run: impl Fn() -> Result<f64>) -> Result<f64> {
    (0..RUNS).try_fold(f64::INFINITY, |best, _| Ok(best.min(run()?)))
}

fn each_ns(time: Duration, times: u32) -> f64 {
    time.as_secs_f64() * 1e9 / f64::from(times)
}

/// Of a call that does nothing.
fn system_call() -> Result<f64> {
    let begin = Instant::now();
    for _ in 0..CALLS {
        // SAFETY: the call takes nothing.
        black_box(unsafe { libc::syscall(libc::SYS_getppid) });
    }
    Ok(each_ns(begin.elapsed(), CALLS))
}

/// From a process's fork to the end of its child, which is `end`.
fn child(end: fn() -> !) -> Result<f64> {
    let begin = Instant::now();
    for _ in 0..PROCESSES {
        let pid = system::fork_numbered(None)?;
        if pid == 0 {
            end();
        }
        system::wait(pid)?;
    }
    Ok(each_ns(begin.elapsed(), PROCESSES))
}

fn leave() -> ! {
    // SAFETY: the call takes a plain number.
    unsafe { libc::_exit(0) }
}

fn execute() -> ! {
    let (program, [name, argument]) = NOTHING;
    let arguments = [name.as_ptr(), argument.as_ptr(), std::ptr::null()];
    // SAFETY: the pointers are to live strings, and the list ends with none.
    unsafe {
        libc::execv(program.as_ptr(), arguments.as_ptr());
        libc::_exit(1)
    }
}

/// A process of a ring: it hears the token, sums up, and says it to the next one.
struct Station {
    hear: PipeReader,
    say: PipeWriter,
    array: Vec<u64>,
}

impl Station {
    fn pass(&mut self) -> Result<()> {
        self.say.write_all(&[0])?;
        self.hear.read_exact(&mut [0])?;
        black_box(self.array.iter().sum::<u64>());
        Ok(())
    }

    /// Until it is killed.
    fn serve(&mut self) -> ! {
        while self.hear.read_exact(&mut [0]).is_ok() {
            black_box(self.array.iter().sum::<u64>());
            if self.say.write_all(&[0]).is_err() {
                break;
            }
        }
        leave()
    }
}

/// What it takes from station to station. With one, who sends the token to itself and never sleeps, that is
/// no switch.
fn ring(processes: usize, kb: usize) -> Result<f64> {
    let (mut hears, mut says): (Vec<_>, Vec<_>) =
        (0..processes).map(|_| pipe()).collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    says.rotate_left(1 % processes);
    let mut stations = hears.drain(..).zip(says.drain(..)).map(|(hear, say)| Station {
        hear,
        say,
        array: vec![1; kb * 1024 / size_of::<u64>()],
    });
    let mut first = stations.next().context("a ring has a process")?;
    let mut children = Vec::new();
    for mut station in stations {
        let pid = system::fork_numbered(None)?;
        if pid == 0 {
            station.serve();
        }
        children.push(pid);
    }
    let rounds = SWITCHES / u32::try_from(processes)?;
    let time = rounds_of(&mut first, rounds);
    children.into_iter().try_for_each(system::kill_and_wait)?;
    Ok(each_ns(time?, rounds * u32::try_from(processes)?))
}

fn rounds_of(station: &mut Station, rounds: u32) -> Result<Duration> {
    // The first rounds are those of cold translation caches and of waking up.
    (0..rounds / 10).try_for_each(|_| station.pass())?;
    let begin = Instant::now();
    (0..rounds).try_for_each(|_| station.pass())?;
    Ok(begin.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_go_round() {
        for (processes, kb) in [(1, 16), (2, 0), (5, 4)] {
            assert!(ring(processes, kb).expect("a ring") > 0.0, "{processes}");
        }
        assert!(child(leave).expect("children") > 0.0);
        assert_eq!(names().len(), 6);
    }
}

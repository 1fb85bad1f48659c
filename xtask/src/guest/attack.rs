//! Ways in which an ordinary user might get at the weight of root's processes.
//!
//! Each is a race, so that it is tried many times, at moments that differ at random.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::random::Random;
use super::system;
use super::user::UsersProcess;

pub(super) const SOCKET: &str = "/run/scx_prorata.sock";
pub(super) const ROOTS_SOCKET: &str = "/run/scx_prorata-root.sock";
/// What the user asks for; ordinary processes weigh [`NICE_0`].
const LESS: u32 = 5;
const NICE_0: u32 = 1024;
/// Processes that race at a time.
const AT_ONCE: u32 = 16;
/// Attempts until it is said how many there were.
const PROGRESS: u32 = 500;
/// How long the loader's budget may keep those who ask waiting.
const PATIENCE: Duration = Duration::from_secs(30);
/// The request that changes nothing.
pub(super) const KEEP: u32 = u32::MAX;

#[derive(clap::Subcommand)]
pub(crate) enum Attack {
    /// As a user: connects, asks for process 1, and becomes a set-uid program meanwhile.
    Exec {
        /// A copy of this program that is root's and set-uid.
        program: PathBuf,
        #[arg(long)]
        times: u32,
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// What the set-uid program does: says something to its input, and prints what that answers.
    Speak { words: String },
    /// As root: a process of root's gets the number of one whose weight a user keeps changing.
    Reuse {
        #[arg(long)]
        times: u32,
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Demands core scheduling, which must be refused as long as the scheduler is loaded.
    Core,
    /// Asks for less weight of a process, again and again.
    Ask { pid: u32 },
}

impl Attack {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        match self {
            Attack::Exec { program, times, seed } => exec(&program, times, seed)?,
            Attack::Speak { words } => speak(&words)?,
            Attack::Reuse { times, seed } => reuse(times, seed)?,
            Attack::Core => {
                let answer = system::share_core(0).map_err(|error| error.raw_os_error());
                ensure!(answer == Err(Some(libc::EBUSY)), "core scheduling is answered {answer:?}");
            }
            Attack::Ask { pid } => loop {
                // Whether it was changed is seen from outside.
                let _ = ask(SOCKET, &format!("pid {pid} {LESS}\n"));
            },
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn exec(program: &Path, times: u32, seed: u64) -> Result<()> {
    let mut random = Random::new(seed);
    let request = format!("pid 1 {LESS}\n");
    let mut tried = 0;
    while tried < times {
        let batch = (times - tried).min(AT_ONCE);
        let begun: Vec<Child> = (0..batch)
            .map(|_| begin_exec(program, &request, &mut random))
            .collect::<Result<_>>()?;
        for child in begun {
            let output = child.wait_with_output().context("cannot wait for the set-uid program")?;
            let answer = String::from_utf8_lossy(&output.stdout);
            tried += 1;
            ensure!(
                output.status.success() && answer.contains("is another user's"),
                "attempt {tried} (seed {seed}): {answer}"
            );
            tell(tried, times, "set-uid programs were refused");
        }
    }
    Ok(())
}

/// A process that asks with its first words, and becomes a set-uid program, which says the rest.
fn begin_exec(program: &Path, request: &str, random: &mut Random) -> Result<Child> {
    let (now, later) = request.split_at(random.index(request.len() + 1));
    let now = now.to_owned();
    let mut command = Command::new(program);
    command.args(["guest", "attack", "speak", later]).stdout(Stdio::piped());
    // SAFETY: what is called between fork and exec are system calls.
    unsafe { command.pre_exec(move || connect_as_input(now.as_bytes())) };
    command.spawn().context("cannot run the set-uid program")
}

/// Says how far it is, now and then and at the end.
fn tell(done: u32, of: u32, what: &str) {
    if done == of || done.is_multiple_of(PROGRESS) {
        println!("{done} of {of} {what}");
    }
}

fn connect_as_input(words: &[u8]) -> io::Result<()> {
    let mut stream = UnixStream::connect(SOCKET)?;
    stream.write_all(words)?;
    // SAFETY: the call takes plain numbers.
    let result = unsafe { libc::dup2(stream.as_raw_fd(), libc::STDIN_FILENO) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn speak(words: &str) -> Result<()> {
    // SAFETY: the call has no arguments and cannot fail.
    ensure!(unsafe { libc::geteuid() } == 0, "this program is not set-uid");
    // SAFETY: the descriptor is open, and nobody else uses it.
    let mut socket = unsafe { <UnixStream as std::os::fd::FromRawFd>::from_raw_fd(0) };
    socket.write_all(words.as_bytes())?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    print!("{answer}");
    Ok(())
}

fn reuse(times: u32, seed: u64) -> Result<()> {
    let mut random = Random::new(seed);
    let mut pause = || thread::sleep(Duration::from_micros(random.below(1000)));
    let pid = Numbered::start(None, None)?.pid;
    let arguments = ["attack", "ask", &pid.to_string()];
    let _askers = [UsersProcess::start(&arguments)?, UsersProcess::start(&arguments)?];
    let asked = format!("pid {pid} {KEEP}\n");
    let is_changed =
        || Ok::<_, anyhow::Error>(ask(ROOTS_SOCKET, &asked)? == format!("{pid} {LESS}\nok\n"));
    for time in 1..=times {
        let users = Numbered::start(Some(pid), Some(UsersProcess::USER))?;
        pause();
        drop(users);
        let roots = Numbered::start(Some(pid), None)?;
        pause();
        let answer = ask(ROOTS_SOCKET, &asked)?;
        ensure!(
            answer == format!("{pid} {NICE_0}\nok\n"),
            "attempt {time} (seed {seed}): root's process {answer}"
        );
        drop(roots);
        tell(time, times, "processes of root's kept their weights");
    }
    // Those who ask do so, when the loader's budget lets them.
    let _users = Numbered::start(Some(pid), Some(UsersProcess::USER))?;
    let deadline = Instant::now() + PATIENCE;
    while !is_changed()? {
        ensure!(Instant::now() < deadline, "nobody changes the weight of the user's process");
        thread::sleep(Duration::from_millis(10));
    }
    println!("one of the user's did not");
    Ok(())
}

/// The loader's answer.
pub(super) fn ask(socket: &str, request: &str) -> Result<String> {
    let mut stream = UnixStream::connect(socket).context("nobody answers")?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// A process that waits; killed when dropped.
struct Numbered {
    pid: u32,
}

impl Numbered {
    /// With this number if one is given, of this user.
    fn start(pid: Option<u32>, user: Option<u32>) -> Result<Numbered> {
        let pid = system::fork_numbered(pid)?;
        if pid == 0 {
            system::become_user_and_wait(user);
        }
        Ok(Numbered { pid })
    }
}

impl Drop for Numbered {
    fn drop(&mut self) {
        // It cannot have gone: nobody else waits for it.
        let _ = system::kill_and_wait(self.pid);
    }
}

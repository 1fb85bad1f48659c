//! QEMU: starts the machine, passes on what the command prints, and learns how it ended.
//!
//! The machine has two serial lines: the kernel's console, kept in a file and shown when
//! something went wrong, and the command's output, which is ours; and a third if the host is to keep a file.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::archive::{Debian, Emulator, Kernel};
use super::cache_dir;
use super::image::{self, EXIT_MARK};

const MEMORY_MIB: u32 = 1024;
/// With a Debian in memory, archived and unpacked.
const MEMORY_OF_DEBIAN_MIB: u32 = 3072;
/// Without the instructions that fill and copy memory: emulated, they go byte by byte, and the kernel
/// knows other ways.
const FAST_PROCESSOR: &str = "max,erms=off,fsrm=off,fzrm=off,fsrs=off";
/// What figures are comparable on.
const WHOLE_PROCESSOR: &str = "max";
/// QEMU's own vendor has no threads.
const SMT_PROCESSOR: &str = ",vendor=GenuineIntel";
/// Guest time between the ends of the emulated cpus' turns, in µs; see [`short_turns`].
const TURN_US: u32 = 200;
/// A turn has at least so many instructions, in thousands: to end it takes the host some time too.
const TURN_KILO_INSTRUCTIONS: u32 = 50;
/// For what the host is to keep: a third serial line, if it has one.
pub(crate) const LARGE_OUTPUT: &str = "/dev/ttyS2";
/// Lines of the kernel's console that a failure shows: all of an oops, and what was before.
const CONSOLE_LINES: usize = 100;

/// A virtual machine, not yet started.
pub(crate) struct Machine {
    pub(crate) emulator: Emulator,
    pub(crate) kernel: Kernel,
    pub(crate) cpus: u32,
    /// Guest time is executed instructions, each taking 2 to the power of this, in ns.
    pub(crate) icount: Option<u32>,
    /// Two cpus are a core.
    pub(crate) smt: bool,
    /// Each of them is a node, with a cache of its own.
    pub(crate) sockets: u32,
    /// More for the kernel's command line.
    pub(crate) boot: String,
    pub(crate) debian: Option<Debian>,
    pub(crate) timeout: Duration,
    /// It is for measuring costs, not for checking what must hold.
    pub(crate) measures: bool,
    /// Where what it writes to [`LARGE_OUTPUT`] goes.
    pub(crate) keep: Option<PathBuf>,
}

/// How a run ended.
pub(crate) enum Outcome {
    /// The command ended with this code; `warnings` is what the kernel complained of meanwhile.
    Exited { code: u8, warnings: Vec<String> },
    /// It never did: the kernel panicked, or the time was over.
    Failed(String),
}

impl Machine {
    /// Boots, runs `command` in a shell with `programs` in its PATH, gives `show` every line of its
    /// output as it comes, and switches off.
    pub(crate) fn run(
        &self,
        command: &str,
        programs: &[PathBuf],
        show: &mut dyn FnMut(&str),
    ) -> Result<Outcome> {
        if let Some(keep) = &self.keep {
            fs::File::create(keep).with_context(|| {
                format!("cannot write {}: name a file in a directory that exists", keep.display())
            })?;
        }
        let dir = cache_dir()?.join("runs").join(std::process::id().to_string());
        fs::create_dir_all(&dir)?;
        let outcome = self.run_in(&dir, command, programs, show);
        fs::remove_dir_all(&dir)?;
        outcome
    }

    fn run_in(
        &self,
        dir: &Path,
        command: &str,
        programs: &[PathBuf],
        show: &mut dyn FnMut(&str),
    ) -> Result<Outcome> {
        let initrd = dir.join("initrd");
        let console = dir.join("console");
        image::write(&initrd, &self.kernel, command, programs, self.debian.as_ref())?;
        let mut child = self
            .command_line(&initrd, &console)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start QEMU")?;
        let ended = self.listen(&mut child, show);
        // It may still be running after a time-out; killing what has ended is harmless.
        let _ = child.kill();
        child.wait()?;
        let console = fs::read(&console).map(|log| String::from_utf8_lossy(&log).into_owned());
        let console = console.unwrap_or_default();
        Ok(match ended {
            Ok(code) => Outcome::Exited { code, warnings: warnings(&console) },
            Err(why) => Outcome::Failed(format!(
                "{why}; kernel {} said last:\n{}",
                self.kernel.release,
                last_lines(&console)
            )),
        })
    }

    fn command_line(&self, initrd: &Path, console: &Path) -> Command {
        let mut qemu = self.emulator.command();
        // Without a panic timeout of its own the kernel would hang instead of ending the run.
        // And its tests of cryptography would take the first seconds of a measurement.
        let boot = "console=ttyS0 panic=-1 quiet loglevel=5 mitigations=off tsc=reliable \
                    no_timer_check cryptomgr.notests=1 rdinit=/init";
        qemu.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]);
        let processor = if self.measures { WHOLE_PROCESSOR } else { FAST_PROCESSOR };
        let processor = format!("{processor}{}", if self.smt { SMT_PROCESSOR } else { "" });
        let memory_mib = if self.debian.is_some() { MEMORY_OF_DEBIAN_MIB } else { MEMORY_MIB };
        qemu.args(["-cpu", &processor, "-m", &memory_mib.to_string()]);
        let threads = 1 + u32::from(self.smt);
        qemu.args(["-smp", &format!("{},sockets={},threads={threads}", self.cpus, self.sockets)]);
        if self.sockets > 1 {
            let cpus = self.cpus / self.sockets;
            for node in 0..self.sockets {
                let memory =
                    format!("memory-backend-ram,id=node{node},size={}M", memory_mib / self.sockets);
                let (first, last) = (node * cpus, (node + 1) * cpus - 1);
                qemu.args(["-object", &memory]);
                qemu.args([
                    "-numa",
                    &format!("node,nodeid={node},cpus={first}-{last},memdev=node{node}"),
                ]);
            }
        }
        match self.icount {
            Some(shift) => {
                let icount = format!("shift={shift},sleep=off");
                qemu.args(["-accel", "tcg", "-icount", &icount]);
                if self.cpus > 1 {
                    qemu.args(short_turns(shift));
                }
            }
            None => {
                qemu.args(["-accel", "tcg,thread=multi"]);
            }
        }
        qemu.arg("-kernel").arg(&self.kernel.image);
        qemu.arg("-initrd").arg(initrd);
        qemu.args(["-append", &format!("{boot} {}", self.boot)]);
        qemu.arg("-serial").arg(format!("file:{}", console.display()));
        qemu.args(["-chardev", "stdio,id=output,signal=off", "-serial", "chardev:output"]);
        if let Some(keep) = &self.keep {
            qemu.arg("-serial").arg(format!("file:{}", keep.display()));
        }
        qemu
    }

    /// Reads the command's output to its end: its exit code, or why there is none.
    fn listen(&self, child: &mut Child, show: &mut dyn FnMut(&str)) -> Result<u8, String> {
        let stdout = child.stdout.take().expect("it was asked for");
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                if send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
        let deadline = Instant::now() + self.timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = match lines.recv_timeout(left) {
                Ok(line) => line,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let seconds = self.timeout.as_secs();
                    return Err(format!("the virtual machine was not done after {seconds} s"));
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err("the virtual machine ended before the command did".into());
                }
            };
            if let Some((_, code)) = line.split_once(EXIT_MARK) {
                return code.trim().parse().map_err(|_| format!("exit code '{code}'"));
            }
            show(&line);
        }
    }
}

/// When time is instructions, cpus take turns that last until the next timer of any of them, up to
/// 4 ms. A network filter that has nothing to filter sets timers. The guest sees a network card,
/// whose driver it has not got.
fn short_turns(shift: u32) -> [String; 6] {
    let interval_us = TURN_US.max(TURN_KILO_INSTRUCTIONS << shift);
    [
        "-netdev".into(),
        "user,id=turns,restrict=on".into(),
        "-device".into(),
        "virtio-net-pci,netdev=turns,romfile=".into(),
        "-object".into(),
        format!("filter-buffer,id=turn,netdev=turns,interval={interval_us}"),
    ]
}

/// Warnings for which nothing is wrong. Before 7.1 the kernel warns when a task stays in its cgroup whose
/// controller was turned off and on, as systemd does (its commit 02e545c4297a).
const UNFOUNDED: &[&str] = &["scx_cgroup_move_task"];

/// Lines of the kernel's log that no run should have.
fn warnings(console: &str) -> Vec<String> {
    let signs = ["WARNING:", "BUG:", "Oops", "INFO: task", "rcu_sched self-detected", "RCU stall"];
    let has = |line: &str, signs: &[&str]| signs.iter().any(|sign| line.contains(sign));
    let is_warning = |line: &&str| has(line, &signs) && !has(line, UNFOUNDED);
    console.lines().filter(is_warning).map(str::to_string).collect()
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(CONSOLE_LINES)..].join("\n")
}

//! What a run is made of: commands to start, or processes that run already, with weights.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{env, fs};

use nix::unistd::{AccessFlags, access, geteuid};
use prorata::Weight;

use crate::Error;
use crate::proc::{RawPid, Stat};
use crate::runner::Share;

/// Characters that only a shell understands. A command without them is started directly.
const SHELL_CHARACTERS: &[char] =
    &['|', '&', ';', '<', '>', '(', ')', '$', '`', '*', '?', '[', '#', '~', '\n', '!'];

/// A command, as typed, and what is executed for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// As the user typed it.
    pub text: String,
    /// The file to execute.
    pub program: PathBuf,
    /// The arguments, the command's own name first.
    pub arguments: Vec<String>,
}

impl Command {
    /// Takes `text` apart as a shell does, and finds the program. If it holds characters that only
    /// a shell understands, `sh -c` runs it (the rule of GNU make).
    ///
    /// # Errors
    /// When there is nothing to run, a quote does not end, or there is no such program.
    pub fn parse(text: &str) -> Result<Command, Error> {
        let bad = |reason: String| Error::Command { text: text.to_owned(), reason };
        // `NAME=VALUE command` is for a shell too.
        let assigns = text.split_whitespace().next().is_some_and(|word| word.contains('='));
        let words = if text.contains(SHELL_CHARACTERS) || assigns {
            vec!["sh".to_owned(), "-c".to_owned(), text.to_owned()]
        } else {
            shell_words::split(text)
                .map_err(|_| bad("a quote does not end: close it".to_owned()))?
        };
        let name = words.first().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| bad("there is nothing to run after the colon".to_owned()))?;
        let program = find_program(name).map_err(bad)?;
        Ok(Command { text: text.to_owned(), program, arguments: words })
    }
}

/// The file that `name` executes, or why there is none.
fn find_program(name: &str) -> Result<PathBuf, String> {
    if name.contains('/') {
        let path = Path::new(name);
        return match fs::metadata(path) {
            Err(error) => Err(format!("cannot run '{name}': {error}")),
            Ok(_) if is_executable(path) => Ok(path.to_owned()),
            Ok(_) => Err(format!("'{name}' is not an executable file: chmod +x it")),
        };
    }
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|file| is_executable(file))
        .ok_or_else(|| {
            format!("there is no command '{name}' in PATH: check the spelling or give its path")
        })
}

fn is_executable(path: &Path) -> bool {
    let executable = |meta: fs::Metadata| meta.is_file() && meta.permissions().mode() & 0o111 != 0;
    fs::metadata(path).is_ok_and(executable) && access(path, AccessFlags::X_OK).is_ok()
}

/// A process that runs already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Its number.
    pub pid: i32,
    /// Its command line, or its name.
    pub text: String,
}

impl Attached {
    /// Checks that `text` is a process that may be held.
    ///
    /// # Errors
    /// When it is not a number, there is no such process, it belongs to another user, is stopped
    /// already, is part of the kernel, or is prorata itself or one of its ancestors.
    pub fn parse(text: &str) -> Result<Attached, Error> {
        let bad = |reason: &str| Error::Pid { text: text.to_owned(), reason: reason.to_owned() };
        let pid: RawPid = text
            .parse()
            .ok()
            .filter(|&pid| pid > 0)
            .ok_or_else(|| bad("is not a process number: give WEIGHT:PID, as in 3:1234"))?;
        let stat = Stat::of(pid)
            .filter(|stat| !b"ZX".contains(&stat.state))
            .ok_or_else(|| bad("is no running process: see ps -e"))?;
        let owner = owner_of(pid).ok_or_else(|| bad("is no running process: see ps -e"))?;
        if !geteuid().is_root() && owner != geteuid().as_raw() {
            return Err(bad("belongs to another user: attach your own, or run prorata as root"));
        }
        if stat.state == b'T' || stat.state == b't' {
            return Err(bad(&format!("is stopped: continue it first, with kill -CONT {pid}")));
        }
        if is_kernel_thread(pid) {
            return Err(bad("is part of the kernel, which cannot be stopped"));
        }
        if ancestors(own_pid()).any(|ancestor| ancestor == pid) {
            return Err(bad("is prorata itself or one of its ancestors, which it cannot stop"));
        }
        Ok(Attached { pid, text: command_line(pid) })
    }
}

fn own_pid() -> RawPid {
    nix::unistd::getpid().as_raw()
}

/// `pid`, its parent, and so on.
pub(crate) fn ancestors(pid: RawPid) -> impl Iterator<Item = RawPid> {
    std::iter::successors(Some(pid), |&pid| Stat::of(pid).map(|stat| stat.parent))
        .take_while(|&pid| pid > 0)
}

/// The effective user of `pid`.
fn owner_of(pid: RawPid) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Kernel threads have no program.
fn is_kernel_thread(pid: RawPid) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.contains("\nVmSize:")
}

fn command_line(pid: RawPid) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line.split(|&byte| byte == 0).filter(|word| !word.is_empty());
    let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
    if words.is_empty() { format!("process {pid}") } else { words.join(" ") }
}

/// What a task runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A command to start, and to end with the run.
    Command(Command),
    /// A process that ran before and will run on.
    Attached(Attached),
}

/// A task of a run: the source with all its descendants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its weight, and how many cpus it uses at once at most.
    pub share: Share,
    /// What it runs.
    pub source: Source,
}

impl Job {
    /// `WEIGHT:COMMAND`, or `WEIGHT@CPUS:COMMAND`.
    ///
    /// # Errors
    /// When the weight or the number of cpus is not one, or the command cannot be run.
    pub fn command(text: &str) -> Result<Job, Error> {
        let (share, command) = split_share(text, "5:'make -j4'")?;
        Ok(Job { share, source: Source::Command(Command::parse(command)?) })
    }

    /// `WEIGHT:PID`, or `WEIGHT@CPUS:PID`.
    ///
    /// # Errors
    /// When the weight or the number of cpus is not one, or the process cannot be held.
    pub fn attached(text: &str) -> Result<Job, Error> {
        let (share, pid) = split_share(text, "3:1234")?;
        Ok(Job { share, source: Source::Attached(Attached::parse(pid.trim())?) })
    }

    /// What it runs, for people.
    #[must_use]
    pub fn text(&self) -> &str {
        match &self.source {
            Source::Command(command) => &command.text,
            Source::Attached(attached) => &attached.text,
        }
    }
}

fn split_share<'a>(text: &'a str, example: &'static str) -> Result<(Share, &'a str), Error> {
    let (share, rest) =
        text.split_once(':').ok_or_else(|| Error::NoWeight { text: text.to_owned(), example })?;
    let (weight, cpus) = share.split_once('@').map_or((share, None), |(w, cpus)| (w, Some(cpus)));
    let number = weight.trim().parse().ok().and_then(Weight::new);
    let weight =
        number.ok_or_else(|| Error::Weight { text: text.to_owned(), weight: weight.to_owned() })?;
    let Some(cpus) = cpus else { return Ok((Share::of(weight), rest)) };
    let number = cpus.trim().parse().ok().filter(|&cpus| cpus > 0);
    let most_cpus =
        number.ok_or_else(|| Error::MostCpus { text: text.to_owned(), cpus: cpus.to_owned() })?;
    Ok((Share { weight, most_cpus }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_command_is_started_directly() {
        let command = Command::parse("sh -x 'a b'").expect("there is a shell");
        assert!(command.program.ends_with("sh"));
        assert_eq!(command.arguments, ["sh", "-x", "a b"]);
    }

    #[test]
    fn a_pipeline_is_started_by_a_shell() {
        let command = Command::parse("yes | head").expect("there is a shell");
        assert_eq!(command.arguments, ["sh", "-c", "yes | head"]);
    }

    #[test]
    fn bad_jobs_are_refused_with_a_reason() {
        for (text, reason) in [
            ("0:true", "weight"),
            ("-1:true", "weight"),
            ("x:true", "weight"),
            ("4294967296:true", "weight"),
            ("true", "WEIGHT:"),
            ("1@0:true", "'0'"),
            ("1@:true", "number of cpus"),
            ("@1:true", "weight"),
            ("1:", "nothing to run"),
            ("1:  ", "nothing to run"),
            ("1:'true", "quote"),
            ("1:no-such-command-here", "no-such-command-here"),
            ("1:/no/such/file", "/no/such/file"),
            ("1:/etc/passwd", "executable"),
        ] {
            let error = Job::command(text).expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn bad_pids_are_refused_with_a_reason() {
        let own = std::process::id();
        for (text, reason) in [
            ("1:x".to_owned(), "not a process number"),
            ("1:-1".to_owned(), "not a process number"),
            ("1:4194305".to_owned(), "no running process"),
            (format!("1:{own}"), "prorata itself"),
            ("1:2".to_owned(), "process 2"),
        ] {
            let error = Job::attached(&text).expect_err(&text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}

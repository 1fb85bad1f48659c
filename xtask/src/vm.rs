//! `cargo xtask vm`: a command in a virtual machine whose kernel has sched_ext.
//!
//! The machine is a stock Debian kernel under QEMU without KVM, with a file system in memory that
//! holds busybox, this workspace's programs and what `--with` names; it boots in seconds.
//! Nothing of the host changes: kernel and busybox are fetched with apt's state in the cache
//! directory, and the command sees no disk and no network.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::{setup, shell};

mod archive;
mod image;
mod machine;
mod sources;

pub(crate) use archive::{Debian, debian, newest, releases as kernel_releases};
pub(crate) use machine::LARGE_OUTPUT;
use machine::{Machine, Outcome};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The kernel: the beginning of a version that Debian's archive has, 6.16 or above. Without it,
    /// the first that there is of 6.18, 6.17, 6.16, the newest.
    #[arg(long, value_name = "VERSION")]
    kernel: Option<String>,
    /// Virtual cpus.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: u32,
    /// Guest time is executed instructions, each taking 2 to the power of SHIFT, in ns: slow, but a
    /// busy host changes nothing, and costs repeat to a few in a thousand.
    #[arg(long, value_name = "SHIFT", num_args = 0..=1, default_missing_value = "0")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=10))]
    icount: Option<u32>,
    /// Two cpus are a core.
    #[arg(long)]
    smt: bool,
    /// The cpus are in so many sockets, each a node with a cache of its own.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8))]
    sockets: u32,
    /// More for the kernel's command line: maxcpus=2, isolcpus=1.
    #[arg(long, default_value = "", value_name = "OPTIONS")]
    boot: String,
    /// Seconds after which the machine is switched off and the command has failed.
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    timeout: u64,
    /// Take programs along as the tests have them, which build in seconds, not as users do.
    #[arg(long)]
    dev: bool,
    /// A file for what the command writes to /dev/ttyS2.
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// A program to take along, with the libraries that it needs; may be repeated.
    #[arg(long = "with", value_name = "FILE")]
    programs: Vec<PathBuf>,
    /// Debian packages to take along, with all that they need: `chroot /debian` runs their programs. With
    /// systemd among them the machine boots that, and the command is a unit.
    #[arg(long, value_delimiter = ',', value_name = "PACKAGES")]
    debian: Vec<String>,
    /// What the shell in the machine runs. `scx_prorata`, `prorata` and `xtask` are in its PATH.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        let per_socket = 1 + u32::from(self.smt);
        ensure!(
            self.cpus.is_multiple_of(self.sockets * per_socket),
            "{} cpus are not for {} sockets alike: say --cpus {}",
            self.cpus,
            self.sockets,
            self.cpus.next_multiple_of(self.sockets * per_socket)
        );
        let mut programs = build_programs(!self.dev)?;
        programs.extend(self.programs);
        let packages: Vec<&str> = self.debian.iter().map(String::as_str).collect();
        let machine = Machine {
            emulator: archive::emulator()?,
            kernel: archive::kernel(self.kernel.as_deref())?,
            cpus: self.cpus,
            icount: self.icount,
            smt: self.smt,
            sockets: self.sockets,
            boot: self.boot,
            debian: if packages.is_empty() { None } else { Some(debian(&packages)?) },
            timeout: Duration::from_secs(self.timeout),
            measures: !self.dev,
            keep: self.keep,
        };
        match machine.run(&self.command.join(" "), &programs, &mut print)? {
            Outcome::Exited { code, warnings } => {
                warnings.iter().for_each(|line| eprintln!("xtask: the kernel said: {line}"));
                Ok(ExitCode::from(code))
            }
            Outcome::Failed(why) => bail!("{why}"),
        }
    }
}

/// The archive has no such kernel.
#[derive(Debug)]
pub(crate) struct NoSuchKernel(String);

impl std::fmt::Display for NoSuchKernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoSuchKernel {}

/// What a run of [`check`] needs to know.
#[derive(Default)]
pub(crate) struct Check<'a> {
    /// The beginning of its version; if not given, as for `cargo xtask vm`.
    pub(crate) kernel: Option<&'a str>,
    pub(crate) cpus: u32,
    /// Time is executed instructions, each taking 2 to the power of this, in ns; if not given, the
    /// host's, and cpus run at once.
    pub(crate) icount: Option<u32>,
    /// Two cpus are a core.
    pub(crate) smt: bool,
    /// Nodes, with a cache each; none is one.
    pub(crate) sockets: u32,
    /// More for the kernel's command line.
    pub(crate) boot: &'a str,
    /// Taken along.
    pub(crate) debian: Option<&'a Debian>,
    /// Of the host's time.
    pub(crate) timeout: Duration,
    /// Programs to take along beside this workspace's.
    pub(crate) programs: &'a [PathBuf],
    /// Measures costs: with programs as users build them.
    pub(crate) measures: bool,
    /// A file for what a program writes to [`LARGE_OUTPUT`].
    pub(crate) keep: Option<&'a Path>,
}

/// Runs a shell script in a machine of its own, and gives `show` every line that it prints. An error if it
/// ends with another code than 0, or if the kernel warned.
pub(crate) fn check(what: &Check<'_>, script: &str, show: &mut dyn FnMut(&str)) -> Result<()> {
    let machine = Machine {
        emulator: archive::emulator()?,
        kernel: archive::kernel(what.kernel)?,
        cpus: what.cpus,
        icount: what.icount,
        smt: what.smt,
        sockets: what.sockets.max(1),
        boot: what.boot.to_string(),
        debian: what.debian.cloned(),
        timeout: what.timeout,
        measures: what.measures,
        keep: what.keep.map(Path::to_path_buf),
    };
    let mut programs = build_programs(what.measures)?;
    programs.extend_from_slice(what.programs);
    match machine.run(script, &programs, show)? {
        Outcome::Exited { code: 0, warnings } if warnings.is_empty() => Ok(()),
        Outcome::Exited { code: 0, warnings } => bail!("the kernel said: {}", warnings.join("\n")),
        Outcome::Exited { code, .. } => bail!("the checks ended with code {code}"),
        Outcome::Failed(why) => bail!("{why}"),
    }
}

pub(crate) fn print(line: &str) {
    // The reader may have gone away: the command's exit code still counts.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Builds what the machine takes along, and returns the paths. If not `optimised` it is as the tests
/// have it, with the features that the workspace's crates and their tests need together: compiled once for
/// both, and asserting what it asserts.
fn build_programs(optimised: bool) -> Result<Vec<PathBuf>> {
    setup::ensure()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let profile = if optimised { "release" } else { "dev" };
    let mut build = Command::new(cargo);
    build.current_dir(shell::workspace()).args(["build", "--quiet", "--profile", profile]);
    build.args(["--workspace", "--bin", "prorata", "--bin", "scx_prorata"]);
    if !optimised {
        // With any test cargo chooses the tests' features.
        build.args(["--test", "verify"]);
    }
    shell::run(&mut build).context("the programs for the virtual machine do not build")?;
    let built = shell::target_dir().join(if optimised { "release" } else { "debug" });
    let this = std::env::current_exe().context("this program has no path")?;
    // Cargo may just have linked it again, to the same path.
    let again = this.to_str().and_then(|path| path.strip_suffix(" (deleted)")).map(PathBuf::from);
    Ok(vec![built.join("scx_prorata"), built.join("prorata"), again.unwrap_or(this)])
}

/// Where kernels are kept: `$PRORATA_CACHE`, or `prorata` under the user's cache directory.
pub(crate) fn cache_dir() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os("PRORATA_CACHE") {
        return Ok(PathBuf::from(dir));
    }
    let home = std::env::var_os("HOME").context("HOME is not set: set PRORATA_CACHE")?;
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map_or_else(|| Path::new(&home).join(".cache"), PathBuf::from);
    Ok(base.join("prorata"))
}

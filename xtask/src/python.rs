//! `cargo xtask python`: the wheel of `bindings/python`, and its tests in fresh environments.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use anyhow::{Context, Result, bail};

use crate::{setup, shell};

/// The oldest minor version of Python 3 that the wheel is for.
const OLDEST: u32 = 10;

/// What builds wheels and environments.
const TOOLS: &[&str] = &["maturin>=1.9,<2", "uv"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Build the wheel as it is published: optimised.
    #[arg(long)]
    release: bool,
    /// Build the wheel, and test nothing.
    #[arg(long)]
    wheel: bool,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        let pythons = Python::find()?;
        let wheel = Workshop::open(&pythons.newest)?.build(&pythons.newest, self.release)?;
        println!("{}", wheel.display());
        if !self.wheel {
            let mut cli = Command::new("cargo");
            cli.current_dir(shell::workspace()).args(["build", "--package", "prorata-cli"]);
            shell::run(&mut cli)?;
            test_wheel(&pythons, &wheel)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Builds the wheel from the profile of the tests, and tests it, beside the command that `cargo test` has
/// built (by itself it would have other features, as would half of its dependencies).
pub(crate) fn check() -> Result<()> {
    let pythons = Python::find()?;
    let wheel = Workshop::open(&pythons.newest)?.build(&pythons.newest, false)?;
    test_wheel(&pythons, &wheel)
}

/// Beside the command `prorata` as it was last built.
fn test_wheel(pythons: &Pythons, wheel: &Path) -> Result<()> {
    let Pythons { oldest, newest } = pythons;
    if oldest.minor == newest.minor {
        eprintln!(
            "xtask: skipped: a second version of Python (3.{} is the only one)",
            newest.minor
        );
    } else {
        // Notebooks take long, and say nothing about a version.
        Environment::new(oldest, wheel)?.test(&["--ignore", "tests/test_notebooks.py"])?;
    }
    Environment::new(newest, wheel)?.test(&[])
}

fn bindings() -> PathBuf {
    shell::workspace().join("bindings/python")
}

fn directory() -> PathBuf {
    shell::target_dir().join("python")
}

/// An interpreter.
#[derive(Clone)]
struct Python {
    minor: u32,
    program: PathBuf,
}

struct Pythons {
    oldest: Python,
    newest: Python,
}

impl Python {
    /// The oldest and the newest of those in `PATH` and of pyenv's that the wheel is for.
    fn find() -> Result<Pythons> {
        let look = || candidates().into_iter().filter_map(Python::ask).collect::<Vec<_>>();
        let mut found = look();
        if found.is_empty() {
            setup::ensure_python()?;
            found = look();
        }
        found.sort_by_key(|python| python.minor);
        match (found.first(), found.last()) {
            (Some(oldest), Some(newest)) => {
                Ok(Pythons { oldest: oldest.clone(), newest: newest.clone() })
            }
            _ => {
                bail!("please install Python 3.{OLDEST} or newer, with its module venv")
            }
        }
    }

    /// `None` if it is no Python that can make environments, or too old.
    fn ask(program: PathBuf) -> Option<Python> {
        let script = "import sys, ensurepip; print(sys.version_info.minor)";
        let minor = shell::output(Command::new(&program).args(["-c", script])).ok()?;
        let minor = minor.trim().parse().ok()?;
        (minor >= OLDEST).then_some(Python { minor, program })
    }
}

fn candidates() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = env::split_paths(&path).collect();
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".pyenv"));
    let pyenv = env::var_os("PYENV_ROOT").map(PathBuf::from).or_else(home);
    let versions = pyenv.and_then(|root| fs::read_dir(root.join("versions")).ok());
    directories.extend(versions.into_iter().flatten().flatten().map(|v| v.path().join("bin")));
    let names: Vec<String> = (OLDEST..40).map(|minor| format!("python3.{minor}")).collect();
    let files = directories.iter().flat_map(|d| names.iter().map(|name| d.join(name)));
    files.filter(|file| file.is_file()).collect()
}

/// The environment with the tools.
struct Workshop(PathBuf);

impl Workshop {
    fn open(python: &Python) -> Result<Workshop> {
        let workshop = Workshop(directory().join("tools"));
        if TOOLS.iter().all(|tool| workshop.tool(tool).is_file()) {
            return Ok(workshop);
        }
        shell::run(Command::new(&python.program).args(["-m", "venv", "--clear"]).arg(&workshop.0))?;
        let mut pip = Command::new(workshop.tool("pip"));
        shell::run(pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(TOOLS))?;
        Ok(workshop)
    }

    /// The program of what is required.
    fn tool(&self, requirement: &str) -> PathBuf {
        let name = requirement.split(['>', '=']).next().unwrap_or(requirement);
        self.0.join("bin").join(name)
    }

    /// The wheel, for this Python and all from the oldest on.
    fn build(&self, python: &Python, release: bool) -> Result<PathBuf> {
        let wheels = directory().join("wheels");
        if wheels.exists() {
            fs::remove_dir_all(&wheels).context("cannot remove the wheels of before")?;
        }
        let mut maturin = Command::new(self.tool("maturin"));
        maturin.current_dir(bindings()).args(["build", "--quiet", "--profile"]);
        maturin.arg(if release { "dist" } else { "dev" });
        maturin.arg("--interpreter").arg(&python.program).arg("--out").arg(&wheels);
        shell::run(&mut maturin)?;
        let built = fs::read_dir(&wheels).context("maturin left no wheel")?;
        let paths = built.map(|file| Ok(file?.path())).collect::<std::io::Result<Vec<_>>>()?;
        match paths.as_slice() {
            [wheel] => Ok(wheel.clone()),
            other => bail!("maturin left {} wheels in {}", other.len(), wheels.display()),
        }
    }
}

/// A fresh environment with the wheel and what its tests need.
struct Environment(PathBuf);

impl Environment {
    fn new(python: &Python, wheel: &Path) -> Result<Environment> {
        let environment = Environment(directory().join(format!("3.{}", python.minor)));
        let uv = || Command::new(directory().join("tools/bin/uv"));
        let mut make = uv();
        make.args(["venv", "--quiet", "--clear", "--no-project", "--python"]).arg(&python.program);
        shell::run(make.arg(&environment.0))?;
        let mut install = uv();
        install.args(["pip", "install", "--quiet", "--python"]).arg(&environment.0);
        install.arg("--requirement").arg(bindings().join("requirements-test.txt"));
        shell::run(install.arg(wheel))?;
        Ok(environment)
    }

    fn test(&self, pytest: &[&str]) -> Result<()> {
        let cache = directory().join("mypy");
        let mypy =
            |paths: &str| shell::run(self.python("mypy").arg("--cache-dir").arg(&cache).arg(paths));
        // What is in the tree, with its own types; then the tests, with those in the wheel.
        mypy("python/prorata")?;
        mypy("tests")?;
        // Elsewhere, so that it looks at the wheel too.
        shell::run(self.python("mypy.stubtest").current_dir(&self.0).arg("prorata"))?;
        let cli = shell::target_dir().join("debug/prorata");
        let mut tests = self.python("pytest");
        tests.args(["--quiet", "-p", "no:cacheprovider"]).args(pytest).env("PRORATA_CLI", cli);
        shell::run(&mut tests)
    }

    fn python(&self, module: &str) -> Command {
        let mut python = Command::new(self.0.join("bin/python"));
        python.current_dir(bindings()).args(["-m", module]);
        python
    }
}

//! Kernels, busybox and QEMU from Debian's archive, unpacked into the cache.
//!
//! Old versions leave the archive, so that a kernel is asked for by the beginning of its version
//! and there is a list of beginnings to try. What a package is called and where it has its files
//! has changed over time:
//!
//! ```text
//!              image                                config
//! .. 6.18      linux-image-R   boot/vmlinuz-R       linux-image-R  boot/config-R
//! 6.19 .. 7.1  linux-binary-R  boot/vmlinuz-R       in no package that the archive lists
//! 7.2 ..       linux-binary-R  usr/lib/modules/R/   linux-base-R   usr/lib/modules/R/
//! ```

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::sources::Mirror;
use super::{NoSuchKernel, cache_dir};
use crate::shell;

/// Beginnings of versions, the best first. Backports' 7.2.12 has broken BTF, on which no scheduler
/// loads.
const CANDIDATES: &[&str] = &["6.18", "6.17", "6.16", "7.1", "7", "6"];

/// Where busybox, QEMU and what it needs come from: one release, whatever newer ones there are.
const RELEASE: &str = "trixie";
/// What every program there expects: links, users, a shell.
const BASE: &[&str] = &["base-files", "base-passwd", "dash"];
/// And where kernels come from, as far as the mirror has them.
const KERNEL_SUITES: &[&str] = &["trixie-backports", "sid", "experimental"];
const FLAVOUR: &str = "-cloud-amd64";

/// A kernel in the cache.
pub(crate) struct Kernel {
    /// As `uname -r` says it.
    pub(crate) release: String,
    /// The compressed image that QEMU boots.
    pub(crate) image: PathBuf,
    /// The kernel's configuration, which libbpf reads; of a kernel whose own is not in the archive
    /// that of another version. What schedulers ask it for is the same in both.
    pub(crate) config: PathBuf,
}

/// The kernel whose version begins with `wanted`, or the first candidate that there is: from the
/// cache, else from the archive.
pub(crate) fn kernel(wanted: Option<&str>) -> Result<Kernel> {
    let beginnings: Vec<&str> = wanted.map_or_else(|| CANDIDATES.to_vec(), |w| vec![w]);
    let kernels = cache_dir()?.join("kernels");
    for beginning in &beginnings {
        if let Some(release) = newest(&cached(&kernels), beginning) {
            return open(&kernels, release);
        }
    }
    let apt = Apt::prepare()?;
    let packages = apt.packages()?;
    let releases = releases_of(&packages);
    for beginning in &beginnings {
        if let Some(release) = newest(&releases, beginning) {
            return fetch(&apt, &packages, release, &kernels);
        }
    }
    let why = format!(
        "no kernel {} in {}; there are {}",
        beginnings[0],
        apt.suites.join(", "),
        releases.join(", ")
    );
    Err(NoSuchKernel(why).into())
}

/// The releases of all kernels that the archive has, by rising version; if it cannot be read, of
/// those in the cache.
pub(crate) fn releases() -> Result<Vec<String>> {
    match Apt::prepare().and_then(|apt| apt.packages()) {
        Ok(packages) => Ok(releases_of(&packages)),
        Err(error) => {
            let releases = cached(&cache_dir()?.join("kernels"));
            if releases.is_empty() {
                return Err(error);
            }
            eprintln!("xtask: only kernels that were fetched before: {error:#}");
            Ok(releases)
        }
    }
}

/// Of `releases`, which rise, the last that begins with `wanted`: 6.1 is no beginning of 6.19.
pub(crate) fn newest<'a>(releases: &'a [String], wanted: &str) -> Option<&'a str> {
    let ends_in_digit = wanted.ends_with(|c: char| c.is_ascii_digit());
    let begins = |release: &&String| {
        let rest = release.strip_prefix(wanted);
        rest.is_some_and(|rest| !(ends_in_digit && rest.starts_with(|c: char| c.is_ascii_digit())))
    };
    releases.iter().rfind(begins).map(String::as_str)
}

/// A static busybox.
pub(crate) fn busybox() -> Result<PathBuf> {
    let dir = cache_dir()?.join("busybox");
    let places = ["usr/bin/busybox", "bin/busybox"].map(|place| dir.join(place));
    let found = || places.iter().find(|place| place.is_file()).cloned();
    if found().is_none() {
        Apt::prepare()?.unpack("busybox-static", &dir)?;
    }
    found().context("the package busybox-static holds no busybox")
}

/// QEMU, with the libraries and the firmware of its own release.
pub(crate) struct Emulator {
    root: PathBuf,
}

impl Emulator {
    /// The command that runs it, whatever libraries the host has.
    pub(crate) fn command(&self) -> Command {
        let libraries = self.root.join("usr/lib/x86_64-linux-gnu");
        let mut command = Command::new(libraries.join("ld-linux-x86-64.so.2"));
        command.arg("--library-path").arg(&libraries).arg(self.program());
        for firmware in ["usr/share/seabios", "usr/share/qemu"] {
            command.arg("-L").arg(self.root.join(firmware));
        }
        command
    }

    fn program(&self) -> PathBuf {
        self.root.join("usr/bin/qemu-system-x86_64")
    }
}

/// Always the same release of QEMU, so that instruction counts are comparable; and no older one:
/// before 8.0 the first of several cpus keeps the others from running when time is instructions.
pub(crate) fn emulator() -> Result<Emulator> {
    let emulator = Emulator { root: cache_dir()?.join("qemu") };
    if !emulator.program().is_file() {
        eprintln!("xtask: fetching qemu-system-x86");
        // A half-unpacked emulator must not look like one.
        let partial = cache_dir()?.join(".partial-qemu");
        Apt::prepare()?.unpack_with_libraries(&["qemu-system-x86"], &partial)?;
        fs::rename(&partial, &emulator.root)?;
    }
    Ok(emulator)
}

/// A Debian to take along.
#[derive(Clone)]
pub(crate) struct Debian {
    pub(crate) root: PathBuf,
    /// It is booted, with systemd; else it is `/debian`.
    pub(crate) boots: bool,
}

/// A Debian of `packages` and all that they depend on, unpacked and not configured. It `boots` if they
/// hold systemd.
pub(crate) fn debian(packages: &[&str]) -> Result<Debian> {
    let packages = [BASE, packages].concat();
    let trees = cache_dir()?.join("debian");
    let name = packages.join("+");
    let root = trees.join(&name);
    if !root.is_dir() {
        eprintln!("xtask: fetching {}", packages.join(", "));
        let partial = trees.join(format!(".partial-{}-{name}", std::process::id()));
        Apt::prepare()?.unpack_with_libraries(&packages, &partial)?;
        fs::rename(&partial, &root)?;
    }
    Ok(Debian { root, boots: packages.contains(&"systemd") })
}

/// The releases of the kernels in the cache, by rising version.
fn cached(kernels: &Path) -> Vec<String> {
    let entries = fs::read_dir(kernels).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    rising(names.filter(|name| !name.starts_with('.')).collect())
}

fn rising(mut releases: Vec<String>) -> Vec<String> {
    releases.sort_by_key(|release| numbers(release));
    releases
}

/// Unpacks a kernel into the cache.
fn fetch(apt: &Apt, packages: &[String], release: &str, kernels: &Path) -> Result<Kernel> {
    let image = image_package(packages, release).context("the release has no image")?;
    eprintln!("xtask: fetching {image}");
    let this = std::process::id();
    let unpacked = apt.root.join(format!("unpacked-{release}-{this}"));
    apt.unpack(image, &unpacked)?;
    let (config_package, config_release) = config_package(packages, release, image)?;
    if config_package != image {
        apt.unpack(config_package, &unpacked)?;
    }
    // A half-written kernel must not look like one: the directory appears whole or not at all.
    let partial = kernels.join(format!(".partial-{release}-{this}"));
    fs::create_dir_all(&partial)?;
    let places = |name: &str, release: &str| {
        let modules = unpacked.join("usr/lib/modules").join(release);
        [unpacked.join(format!("boot/{name}-{release}")), modules.join(name)]
    };
    copy_first(&places("vmlinuz", release), &partial.join("vmlinuz"))?;
    copy_first(&places("config", config_release), &partial.join("config"))?;
    fs::remove_dir_all(&unpacked)?;
    let renamed = fs::rename(&partial, kernels.join(release));
    if !kernels.join(release).is_dir() {
        renamed?;
    }
    open(kernels, release)
}

fn open(kernels: &Path, release: &str) -> Result<Kernel> {
    let dir = kernels.join(release);
    let config = dir.join("config");
    let text = fs::read_to_string(&config).with_context(|| format!("{}", config.display()))?;
    ensure!(
        text.lines().any(|line| line == "CONFIG_SCHED_CLASS_EXT=y"),
        "kernel {release} is built without CONFIG_SCHED_CLASS_EXT; those from 6.16 on have it"
    );
    Ok(Kernel { release: release.to_string(), image: dir.join("vmlinuz"), config })
}

fn copy_first(from: &[PathBuf], to: &Path) -> Result<()> {
    let file = from.iter().find(|file| file.is_file());
    let file = file.with_context(|| format!("the package holds no {}", from[0].display()))?;
    fs::copy(file, to).with_context(|| format!("cannot copy {}", file.display()))?;
    Ok(())
}

/// `linux-image-6.18.15+deb13-cloud-amd64` → `6.18.15+deb13-cloud-amd64`.
fn release_of<'a>(package: &'a str, kind: &str) -> Option<&'a str> {
    let release = package.strip_prefix("linux-")?.strip_prefix(kind)?.strip_prefix('-')?;
    let is_release = release.starts_with(|c: char| c.is_ascii_digit());
    (is_release && release.ends_with(FLAVOUR)).then_some(release)
}

/// The releases that have an image, by rising version.
fn releases_of(packages: &[String]) -> Vec<String> {
    let release = |package: &String| release_of(package, "image").map(str::to_string);
    rising(packages.iter().filter_map(release).collect())
}

/// The package that holds a release's image. Where there is a `linux-binary-R`, `linux-image-R` is
/// empty.
fn image_package<'a>(packages: &'a [String], release: &str) -> Option<&'a str> {
    let of_kind = |kind: &str| packages.iter().find(|p| release_of(p, kind) == Some(release));
    of_kind("binary").or_else(|| of_kind("image")).map(String::as_str)
}

/// The package that holds a release's configuration, and whose that is: that of the next newer
/// release if there is none of its own.
fn config_package<'a>(
    packages: &'a [String],
    release: &'a str,
    image: &'a str,
) -> Result<(&'a str, &'a str)> {
    if image.starts_with("linux-image-") {
        return Ok((image, release));
    }
    let bases = packages.iter().filter_map(|p| Some((p.as_str(), release_of(p, "base")?)));
    let newer = bases.filter(|(_, of)| numbers(of) >= numbers(release));
    let next = newer.min_by_key(|(_, of)| numbers(of));
    next.with_context(|| format!("no package holds the configuration of kernel {release}"))
}

/// The numbers of a version, for sorting: `6.18.15+deb13-cloud-amd64` → `[6, 18, 15, 13]`.
fn numbers(release: &str) -> Vec<u32> {
    let version = release.strip_suffix(FLAVOUR).unwrap_or(release);
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// apt with all its state in the cache directory: the host's apt neither knows nor changes.
struct Apt {
    root: PathBuf,
    /// Those that the mirror has, [`RELEASE`] included.
    suites: Vec<&'static str>,
    /// Others of this workspace's programs wait for as long as it is open.
    _lock: fs::File,
}

impl Apt {
    fn prepare() -> Result<Apt> {
        for program in ["apt-get", "dpkg-deb"] {
            ensure!(
                shell::which(program).is_some(),
                "fetching a kernel needs {program}: use Debian, or put vmlinuz and config into {}",
                cache_dir()?.join("kernels/RELEASE/").display()
            );
        }
        let root = cache_dir()?.join("apt");
        for dir in ["lists/partial", "cache/archives/partial", "packages", "sources"] {
            fs::create_dir_all(root.join(dir))?;
        }
        let lock = fs::File::create(root.join("lock"))?;
        // SAFETY: the file is open.
        let locked = unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX) } == 0;
        ensure!(locked, "{} cannot be locked", root.display());
        let mut apt = Apt { root, suites: Vec::new(), _lock: lock };
        apt.update()?;
        Ok(apt)
    }

    /// Reads what packages each suite has. A mirror need not have all of them.
    fn update(&mut self) -> Result<()> {
        let mirror = Mirror::configured(Path::new("/etc/apt"))?;
        fs::write(self.root.join("apt.conf"), self.configuration())?;
        let sources = self.root.join("sources");
        for entry in fs::read_dir(&sources)? {
            fs::remove_file(entry?.path())?;
        }
        for suite in [RELEASE].iter().chain(KERNEL_SUITES) {
            let file = sources.join(format!("{suite}.sources"));
            fs::write(&file, mirror.entry(suite))?;
            let mut update = self.command("apt-get");
            update.args(["-qq", "update", "-o", "APT::Get::List-Cleanup=0"]);
            update.arg("-o").arg("Dir::Etc::sourceparts=-");
            update.arg("-o").arg(format!("Dir::Etc::sourcelist={}", file.display()));
            match shell::output(&mut update) {
                Ok(_) => self.suites.push(suite),
                Err(error) if *suite == RELEASE => {
                    return Err(error.context("Debian's archive cannot be read"));
                }
                Err(error) => {
                    eprintln!("xtask: no kernels from {suite}: {error:#}");
                    fs::remove_file(&file)?;
                }
            }
        }
        Ok(())
    }

    fn configuration(&self) -> String {
        let root = self.root.display();
        format!(
            "Dir::Etc::sourcelist \"/dev/null\";\n\
             Dir::Etc::sourceparts \"{root}/sources\";\n\
             Dir::Etc::preferences \"/dev/null\";\n\
             Dir::Etc::preferencesparts \"/dev/null\";\n\
             Dir::State::lists \"{root}/lists\";\n\
             Dir::State::status \"/dev/null\";\n\
             Dir::Cache \"{root}/cache\";\n\
             Acquire::Languages \"none\";\n\
             APT::Architecture \"amd64\";\n\
             APT::Sandbox::User \"root\";\n"
        )
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", self.root.join("apt.conf"));
        command.current_dir(self.root.join("packages"));
        command
    }

    /// The names of all packages that kernels come in.
    fn packages(&self) -> Result<Vec<String>> {
        let names = shell::output(self.command("apt-cache").args(["pkgnames", "linux-"]))?;
        Ok(names.lines().map(str::to_string).collect())
    }

    /// Fetches `packages` and all that they depend on, and unpacks them into `dir`.
    fn unpack_with_libraries(&self, packages: &[&str], dir: &Path) -> Result<()> {
        let archives = self.root.join("closure");
        fs::create_dir_all(archives.join("partial"))?;
        let mut fetch = self.command("apt-get");
        fetch.args(["-qq", "--yes", "--no-install-recommends", "--download-only"]);
        fetch.args(["--target-release", RELEASE]);
        fetch.arg("-o").arg(format!("Dir::Cache::archives={}", archives.display()));
        shell::output(fetch.arg("install").args(packages))?;
        fs::create_dir_all(dir)?;
        for file in fs::read_dir(&archives)? {
            let file = file?.path();
            if file.extension().is_some_and(|extension| extension == "deb") {
                shell::output(Command::new("dpkg-deb").arg("--extract").arg(&file).arg(dir))?;
            }
        }
        Ok(fs::remove_dir_all(&archives)?)
    }

    /// Fetches `package` and unpacks it into `dir`.
    fn unpack(&self, package: &str, dir: &Path) -> Result<()> {
        let mut fetch = self.command("apt-get");
        // What other suites have, and this one has not, comes from there.
        shell::output(fetch.args(["-qq", "--target-release", RELEASE, "download", package]))?;
        let packages = self.root.join("packages");
        let file = fs::read_dir(&packages)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                name.starts_with(&format!("{package}_"))
            })
            .with_context(|| format!("apt-get download left no {package}_*.deb"))?;
        fs::create_dir_all(dir)?;
        shell::output(Command::new("dpkg-deb").arg("--extract").arg(&file).arg(dir))?;
        fs::remove_file(&file)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_string).collect()
    }

    #[test]
    fn a_release_is_what_follows_the_kind_of_package() {
        let release = "6.18.15+deb13-cloud-amd64";
        assert_eq!(release_of(&format!("linux-image-{release}"), "image"), Some(release));
        assert_eq!(release_of("linux-binary-7.3-cloud-amd64", "binary"), Some("7.3-cloud-amd64"));
        for other in ["linux-image-cloud-amd64", "linux-image-6.18.15+deb13-cloud-amd64-dbg"] {
            assert_eq!(release_of(other, "image"), None);
        }
    }

    #[test]
    fn versions_sort_by_number_not_by_letter() {
        let releases =
            rising(names("7.3.4+deb13-cloud-amd64 6.9+deb13-cloud-amd64 7.3-cloud-amd64"));
        let rising = "6.9+deb13-cloud-amd64 7.3-cloud-amd64 7.3.4+deb13-cloud-amd64";
        assert_eq!(releases, names(rising));
    }

    #[test]
    fn the_newest_of_a_series_is_of_that_series() {
        let releases = names("6.1.9-cloud-amd64 6.19.6-cloud-amd64 6.19.14-cloud-amd64");
        assert_eq!(newest(&releases, "6.1"), Some("6.1.9-cloud-amd64"));
        assert_eq!(newest(&releases, "6.19."), Some("6.19.14-cloud-amd64"));
        assert_eq!(newest(&releases, "6.19"), Some("6.19.14-cloud-amd64"));
        assert_eq!(newest(&releases, "6.19.1"), None);
    }

    #[test]
    fn every_layout_of_the_archive_is_known() {
        let packages = names(
            "linux-image-6.18.15+deb13-cloud-amd64
             linux-image-7.1.13+deb13-cloud-amd64 linux-binary-7.1.13+deb13-cloud-amd64
             linux-image-7.3-cloud-amd64 linux-binary-7.3-cloud-amd64 linux-base-7.3-cloud-amd64
             linux-base-7.2.13+deb14-cloud-amd64 linux-image-rt-amd64",
        );
        let places = |series: &str| {
            let releases = releases_of(&packages);
            let release = newest(&releases, series).unwrap().to_string();
            let image = image_package(&packages, &release).unwrap();
            let config = config_package(&packages, &release, image).unwrap();
            [image, config.0, config.1].map(|name| name.trim_end_matches(FLAVOUR).to_string())
        };
        let image = "linux-image-6.18.15+deb13";
        assert_eq!(places("6.18"), [image, image, "6.18.15+deb13"]);
        let next = ["linux-base-7.2.13+deb14", "7.2.13+deb14"];
        assert_eq!(places("7.1"), ["linux-binary-7.1.13+deb13", next[0], next[1]]);
        assert_eq!(places("7.3"), ["linux-binary-7.3", "linux-base-7.3", "7.3"]);
    }
}

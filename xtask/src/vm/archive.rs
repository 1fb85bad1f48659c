//! Kernels and busybox from Debian's archive, unpacked into the cache.
//!
//! Old versions leave the archive, so that a kernel is asked for by the beginning of its version
//! and there is a list of beginnings to try.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{NoSuchKernel, cache_dir};
use crate::shell;

/// Beginnings of versions, the best first. From 6.19 on a package carries the image under another
/// name; backports' 7.2.12 has broken BTF, on which no scheduler loads.
const CANDIDATES: &[&str] = &["6.18.", "6.17.", "6.16.", "7.1.", "6."];

const MIRROR: &str = "http://deb.debian.org/debian";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A kernel in the cache.
pub(crate) struct Kernel {
    /// As `uname -r` says it.
    pub(crate) release: String,
    /// The compressed image that QEMU boots.
    pub(crate) image: PathBuf,
    /// The kernel's configuration, which libbpf reads.
    pub(crate) config: PathBuf,
}

/// The kernel whose version begins with `wanted`, or the first candidate that there is: from the
/// cache, else from the archive.
pub(crate) fn kernel(wanted: Option<&str>) -> Result<Kernel> {
    let beginnings: Vec<&str> = wanted.map_or_else(|| CANDIDATES.to_vec(), |w| vec![w]);
    let kernels = cache_dir()?.join("kernels");
    for beginning in &beginnings {
        if let Some(kernel) = cached(&kernels, beginning)? {
            return Ok(kernel);
        }
    }
    let apt = Apt::prepare()?;
    let packages = apt.kernel_packages()?;
    for beginning in &beginnings {
        let newest = packages.iter().rev().find(|p| release_of(p).starts_with(beginning));
        if let Some(package) = newest {
            return fetch(&apt, package, &kernels);
        }
    }
    let releases: Vec<&str> = packages.iter().map(|p| release_of(p)).collect();
    let why = format!(
        "no kernel {} in trixie-backports; there are {}",
        beginnings[0],
        releases.join(", ")
    );
    Err(NoSuchKernel(why).into())
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
        Apt::prepare()?.unpack_with_libraries("qemu-system-x86", &partial)?;
        fs::rename(&partial, &emulator.root)?;
    }
    Ok(emulator)
}

fn cached(kernels: &Path, beginning: &str) -> Result<Option<Kernel>> {
    let Ok(entries) = fs::read_dir(kernels) else { return Ok(None) };
    let mut releases: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|release| release.starts_with(beginning))
        .collect();
    releases.sort_by_key(|release| numbers(release));
    releases.pop().map(|release| open(kernels, &release)).transpose()
}

fn fetch(apt: &Apt, package: &str, kernels: &Path) -> Result<Kernel> {
    let release = release_of(package);
    eprintln!("xtask: fetching {package}");
    let unpacked = apt.root.join(format!("unpacked-{release}"));
    apt.unpack(package, &unpacked)?;
    // A half-written kernel must not look like one: the directory appears whole or not at all.
    let partial = kernels.join(format!(".partial-{release}"));
    fs::create_dir_all(&partial)?;
    let modules = format!("usr/lib/modules/{release}");
    copy_first(
        &[
            unpacked.join(format!("boot/vmlinuz-{release}")),
            unpacked.join(&modules).join("vmlinuz"),
        ],
        &partial.join("vmlinuz"),
    )?;
    copy_first(
        &[unpacked.join(format!("boot/config-{release}")), unpacked.join(&modules).join("config")],
        &partial.join("config"),
    )?;
    fs::rename(&partial, kernels.join(release))?;
    fs::remove_dir_all(&unpacked)?;
    open(kernels, release)
}

fn open(kernels: &Path, release: &str) -> Result<Kernel> {
    let dir = kernels.join(release);
    let config = dir.join("config");
    let text = fs::read_to_string(&config).with_context(|| format!("{}", config.display()))?;
    ensure!(
        text.lines().any(|line| line == "CONFIG_SCHED_CLASS_EXT=y"),
        "kernel {release} is built without CONFIG_SCHED_CLASS_EXT; 6.16 to 6.18 have it"
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
fn release_of(package: &str) -> &str {
    package.trim_start_matches("linux-image-").trim_start_matches("linux-binary-")
}

/// The numbers of a version, for sorting: `6.18.15+deb13` → `[6, 18, 15, 13, …]`.
fn numbers(release: &str) -> Vec<u32> {
    release.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// apt with all its state in the cache directory: the host's apt neither knows nor changes.
struct Apt {
    root: PathBuf,
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
        ensure!(
            Path::new(KEYRING).is_file(),
            "{KEYRING} is missing: install debian-archive-keyring"
        );
        let apt = Apt { root: cache_dir()?.join("apt") };
        for dir in ["lists/partial", "cache/archives/partial", "packages"] {
            fs::create_dir_all(apt.root.join(dir))?;
        }
        fs::write(apt.root.join("apt.conf"), apt.configuration())?;
        let suites = ["trixie-backports", "trixie"];
        let lines =
            suites.map(|suite| format!("deb [signed-by={KEYRING}] {MIRROR} {suite} main\n"));
        fs::write(apt.root.join("sources.list"), lines.concat())?;
        shell::output(apt.command("apt-get").args(["-qq", "update"]))
            .context("Debian's archive cannot be read")?;
        Ok(apt)
    }

    fn configuration(&self) -> String {
        let root = self.root.display();
        format!(
            "Dir::Etc::sourcelist \"{root}/sources.list\";\n\
             Dir::Etc::sourceparts \"-\";\n\
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

    /// Kernel packages of the cloud flavour that hold an image, by rising version.
    fn kernel_packages(&self) -> Result<Vec<String>> {
        let names = shell::output(self.command("apt-cache").args(["pkgnames", "linux-"]))?;
        let mut packages: Vec<String> = names
            .lines()
            .filter(|name| name.ends_with("-cloud-amd64") && name.contains("+deb"))
            .filter(|name| match numbers(release_of(name)).get(..2) {
                Some(&[major, minor]) if (major, minor) >= (6, 19) => {
                    name.starts_with("linux-binary-")
                }
                _ => name.starts_with("linux-image-"),
            })
            .map(str::to_string)
            .collect();
        packages.sort_by_key(|package| numbers(release_of(package)));
        Ok(packages)
    }

    /// Fetches `package` and all that it depends on, and unpacks them into `dir`.
    fn unpack_with_libraries(&self, package: &str, dir: &Path) -> Result<()> {
        let archives = self.root.join("closure");
        fs::create_dir_all(archives.join("partial"))?;
        let mut fetch = self.command("apt-get");
        fetch.args(["-qq", "--yes", "--no-install-recommends", "--download-only"]);
        fetch.arg("-o").arg(format!("Dir::Cache::archives={}", archives.display()));
        shell::output(fetch.args(["install", package]))?;
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
        shell::output(self.command("apt-get").args(["-qq", "download", package]))?;
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

    #[test]
    fn a_release_is_what_follows_the_kind_of_package() {
        assert_eq!(
            release_of("linux-image-6.18.15+deb13-cloud-amd64"),
            "6.18.15+deb13-cloud-amd64"
        );
        assert_eq!(release_of("linux-binary-7.1.3+deb13-cloud-amd64"), "7.1.3+deb13-cloud-amd64");
    }

    #[test]
    fn versions_sort_by_number_not_by_letter() {
        assert!(numbers("6.18.9+deb13") < numbers("6.18.15+deb13"));
    }
}

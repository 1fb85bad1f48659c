//! The machine's file system: a cpio archive in memory (format "newc", as the kernel unpacks it).

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::archive::{self, Debian, Kernel};
use crate::shell;

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CONSOLE: u32 = 0o020_600;

/// The line that the machine prints last, before the command's exit code.
pub(crate) const EXIT_MARK: &str = "prorata-vm-exit:";

/// Mounts what programs expect, runs `/command`, tells its exit code, switches off.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin:/usr/sbin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /tmp /run /root /sys/fs/cgroup
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t tmpfs shm /dev/shm
mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf
mount -t tracefs trace /sys/kernel/tracing
mount -t debugfs debug /sys/kernel/debug
echo +cpu > /sys/fs/cgroup/cgroup.subtree_control
hostname vm
ip link set lo up
if [ -d /debian ]; then
    for DIR in proc sys dev run tmp; do mkdir -p /debian/$DIR; mount -o rbind /$DIR /debian/$DIR; done
    for FILE in passwd group; do cp /debian/usr/share/base-passwd/$FILE.master /debian/etc/$FILE; done
fi
stty -F /dev/ttyS1 raw
exec </dev/null >/dev/ttyS1 2>&1
cd /tmp
sh /command
echo "EXIT_MARK$?"
sync
poweroff -f
"#;

/// The same for a Debian with systemd.
const INIT_OF_SYSTEMD: &str = include_str!("init-systemd.sh");

/// The archive as a file that QEMU takes as `-initrd`.
pub(crate) fn write(
    file: &Path,
    kernel: &Kernel,
    command: &str,
    programs: &[PathBuf],
    debian: Option<&Debian>,
) -> Result<()> {
    let mut tree = Tree::default();
    if let Some(debian) = debian {
        tree.add_all("debian", &debian.root)?;
    }
    let init = if debian.is_some_and(|debian| debian.boots) { INIT_OF_SYSTEMD } else { INIT };
    tree.add("bin/busybox", PROGRAM, read(&archive::busybox()?)?);
    tree.add("init", PROGRAM, init.replace("EXIT_MARK", EXIT_MARK).into_bytes());
    tree.add("command", PROGRAM, format!("{command}\n").into_bytes());
    tree.add(&format!("boot/config-{}", kernel.release), 0o100_644, read(&kernel.config)?);
    for dir in ["proc", "sys", "dev"] {
        tree.add(dir, DIRECTORY, Vec::new());
    }
    for program in programs {
        let name = program.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("{} names no file", program.display()))?;
        tree.add(&format!("bin/{name}"), PROGRAM, read(program)?);
        for library in libraries(program)? {
            let inside = library.to_string_lossy();
            tree.add(inside.trim_start_matches('/'), PROGRAM, read(&library)?);
        }
    }
    let mut out = io::BufWriter::new(fs::File::create(file)?);
    tree.write(&mut out).with_context(|| format!("cannot write {}", file.display()))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The shared libraries that `program` loads, as `ldd` names them; none for a static program.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let Ok(listing) = shell::output(Command::new("ldd").arg(program)) else {
        return Ok(Vec::new());
    };
    let paths = listing.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(paths.map(|path| PathBuf::from(path.trim_end_matches(':'))).collect())
}

/// Files by path; directories come before what they hold, as sorting has it.
#[derive(Default)]
struct Tree(BTreeMap<String, (u32, Vec<u8>)>);

impl Tree {
    fn add(&mut self, path: &str, mode: u32, content: Vec<u8>) {
        let mut parent = Path::new(path).parent();
        while let Some(dir) = parent.filter(|dir| !dir.as_os_str().is_empty()) {
            let name = dir.to_string_lossy().into_owned();
            self.0.entry(name).or_insert((DIRECTORY, Vec::new()));
            parent = dir.parent();
        }
        self.0.insert(path.to_string(), (mode, content));
    }

    /// All files, directories and symbolic links below `dir`, which is called `name` inside.
    fn add_all(&mut self, name: &str, dir: &Path) -> Result<()> {
        let complain = || format!("cannot read {}", dir.display());
        for file in fs::read_dir(dir).with_context(complain)? {
            let file = file.with_context(complain)?;
            let (path, inside) = (file.path(), file.file_name());
            let inside = format!("{name}/{}", inside.to_string_lossy());
            let known = file.metadata().with_context(complain)?;
            if known.is_dir() {
                self.add(&inside, known.mode(), Vec::new());
                self.add_all(&inside, &path)?;
            } else if known.is_symlink() {
                let target = fs::read_link(&path).with_context(complain)?;
                self.add(&inside, known.mode(), target.as_os_str().as_bytes().to_vec());
            } else if known.is_file() {
                self.add(&inside, known.mode(), read(&path)?);
            }
        }
        Ok(())
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for (inode, (path, (mode, content))) in (1..).zip(&self.0) {
            entry(out, inode, path, *mode, content, (0, 0))?;
        }
        // The kernel opens it for init before devtmpfs is there.
        entry(out, 1 << 20, "dev/console", CONSOLE, &[], (5, 1))?;
        entry(out, 0, "TRAILER!!!", 0, &[], (0, 0))?;
        out.flush()
    }
}

fn entry(
    out: &mut impl Write,
    inode: u32,
    path: &str,
    mode: u32,
    content: &[u8],
    device: (u32, u32),
) -> io::Result<()> {
    let fields = [
        inode,
        mode,
        0, // owner and group: root
        0,
        1, // links
        0, // time of change: the archive is the same bytes for the same content
        u32::try_from(content.len()).map_err(io::Error::other)?,
        0, // device of the archive
        0,
        device.0,
        device.1,
        u32::try_from(path.len() + 1).map_err(io::Error::other)?,
        0, // checksum, unused in "newc"
    ];
    write!(out, "070701")?;
    for field in fields {
        write!(out, "{field:08x}")?;
    }
    write!(out, "{path}\0")?;
    pad(out, 110 + path.len() + 1)?;
    out.write_all(content)?;
    pad(out, content.len())
}

/// Header and content are padded to 4 bytes each.
fn pad(out: &mut impl Write, written: usize) -> io::Result<()> {
    out.write_all(&[0; 3][..written.next_multiple_of(4) - written])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_lists_directories_before_their_files_and_ends_with_the_trailer() {
        let mut tree = Tree::default();
        tree.add("a/b/c", PROGRAM, b"hello".to_vec());
        let mut bytes = Vec::new();
        tree.write(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let at = |needle: &str| text.find(needle).unwrap();
        assert!(at("a\0") < at("a/b\0") && at("a/b\0") < at("a/b/c\0"));
        assert!(at("a/b/c\0") < at("hello") && at("hello") < at("TRAILER!!!\0"));
        assert_eq!(bytes.len() % 4, 0);
    }
}

//! The paths of cgroups, by the kernel's numbers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

const MOUNT: &str = "/sys/fs/cgroup";
/// The type of a handle that is a number of a file in kernfs (linux/exportfs.h).
const FILEID_KERNFS: i32 = 0xfe;

/// `struct file_handle` of fcntl.h with eight bytes.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    number: u64,
}

/// Looks each path up once: a cgroup keeps its own for as long as it lives.
pub(crate) struct Paths {
    mount: Option<File>,
    known: HashMap<u64, String>,
}

impl Paths {
    pub(crate) fn new() -> Paths {
        // Without it all cgroups are told by numbers.
        Paths { mount: File::open(MOUNT).ok(), known: HashMap::new() }
    }

    /// The path of a cgroup below the root; `None` if it has gone.
    pub(crate) fn find(&mut self, cgroup: u64) -> Option<&str> {
        let directory = self.mount.as_ref().map(|mount| open(mount, cgroup)).transpose().ok()?;
        let path = || match directory {
            Some(directory) => path_of(&directory).ok(),
            None => Some(format!("/#{cgroup}")),
        };
        match self.known.entry(cgroup) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(unknown) => Some(unknown.insert(path()?)),
        }
    }

    /// Forgets all others.
    pub(crate) fn keep(&mut self, is_used: impl Fn(u64) -> bool) {
        self.known.retain(|&cgroup, _| is_used(cgroup));
    }
}

fn open(mount: &File, cgroup: u64) -> io::Result<OwnedFd> {
    let mut handle = Handle { bytes: 8, kind: FILEID_KERNFS, number: cgroup };
    // SAFETY: the pointer is to a live struct of the form that the call takes.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_raw_fd(),
            &raw mut handle,
            libc::O_PATH | libc::O_CLOEXEC,
        )
    };
    let fd = libc::c_int::try_from(fd).expect("a file descriptor");
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn path_of(directory: &OwnedFd) -> io::Result<String> {
    let path = fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd()))?;
    let below = path.strip_prefix(MOUNT).map_err(io::Error::other)?;
    Ok(Path::new("/").join(below).to_string_lossy().into_owned())
}

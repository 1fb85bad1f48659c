//! What the socket asks the machine: the time, and who is at the other end.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The machine, or a test's.
pub(crate) trait Host {
    /// The time since some moment.
    fn now(&self) -> Duration;

    /// The processor time that the calling thread has used.
    fn used(&self) -> Duration;

    /// The effective user of whoever connected, as the first user namespace numbers it.
    fn user_of(&self, stream: &UnixStream) -> io::Result<u32>;
}

pub(crate) struct Machine {
    begin: Instant,
}

impl Machine {
    pub(crate) fn new() -> Machine {
        Machine { begin: Instant::now() }
    }
}

impl Host for Machine {
    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    fn used(&self) -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is to a live struct, which the call fills.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        let seconds = Duration::from_secs(time.tv_sec.unsigned_abs());
        seconds + Duration::from_nanos(time.tv_nsec.unsigned_abs())
    }

    fn user_of(&self, stream: &UnixStream) -> io::Result<u32> {
        let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let length = size_of_val(&credentials);
        let mut length = libc::socklen_t::try_from(length).expect("a ucred is small");
        // SAFETY: the kernel fills in a struct of the length that it is told.
        let result = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut credentials).cast(),
                &raw mut length,
            )
        };
        if result == 0 { Ok(credentials.uid) } else { Err(io::Error::last_os_error()) }
    }
}

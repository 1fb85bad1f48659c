//! Real-time priority for the moments of attaching, of unloading, and while the policy is closed.
//!
//! The kernel hands tasks to a scheduler one by one, and those that it handed over already run only
//! where its own class leaves a cpu idle. Before 7.0 (and stable releases that took its mend) the thread
//! that loads does that work, and is itself handed over on the way: where others want all cpus it may not
//! go on for minutes, and the tasks that were handed over wait with it. A thread of real time is not
//! handed over.

use std::io;

/// The calling thread has real-time priority, the least unless it had some, for as long as this lives.
pub(crate) struct RealTime {
    /// What it has to go back to.
    before: Option<(i32, libc::sched_param)>,
}

impl RealTime {
    /// Without it all goes on, later.
    pub(crate) fn begin_or_warn() -> Option<RealTime> {
        RealTime::begin()
            .inspect_err(|error| log::warn!("goes on without real-time priority: {error}"))
            .ok()
    }

    /// Fails where the thread's cgroup has no real-time budget (`CONFIG_RT_GROUP_SCHED`).
    fn begin() -> io::Result<RealTime> {
        let mut parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: 0 is the calling thread, and the kernel fills in the struct.
        let (policy, result) =
            unsafe { (libc::sched_getscheduler(0), libc::sched_getparam(0, &raw mut parameters)) };
        if policy < 0 || result < 0 {
            return Err(io::Error::last_os_error());
        }
        if [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_DEADLINE]
            .contains(&(policy & !libc::SCHED_RESET_ON_FORK))
        {
            return Ok(RealTime { before: None });
        }
        set(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, libc::sched_param { sched_priority: 1 })?;
        Ok(RealTime { before: Some((policy, parameters)) })
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        if let Some((policy, parameters)) = self.before {
            set(policy, parameters).expect("who may have real time may go back to what it had");
        }
    }
}

fn set(policy: i32, parameters: libc::sched_param) -> io::Result<()> {
    // SAFETY: 0 is the calling thread, and the kernel only reads the struct.
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

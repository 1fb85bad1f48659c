//! The best nice value while a scheduler is loaded again.
//!
//! Cpus that came or went have ended the one before, and until the next is there nobody has the share that
//! was set for it. To have a scheduler verified takes long beside whoever else wants the cpus. (Real time,
//! as for the moment of attaching, would keep all others from a cpu meanwhile.)

use std::io;

use rustix::process::{getpriority_process, setpriority_process};

const BEST: i32 = -20;

/// The calling thread has the best nice value for as long as this lives.
pub(crate) struct Nicest {
    /// What it has to go back to.
    before: i32,
}

impl Nicest {
    /// Fails without `CAP_SYS_NICE`.
    pub(crate) fn begin() -> io::Result<Nicest> {
        let before = getpriority_process(None)?;
        setpriority_process(None, BEST)?;
        Ok(Nicest { before })
    }
}

impl Drop for Nicest {
    fn drop(&mut self) {
        setpriority_process(None, self.before).expect("everybody may be nicer");
    }
}

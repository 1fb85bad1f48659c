//! What the loader asks of a scheduler that is loaded, whatever its policy.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use anyhow::Result;
use scx_prorata_objects::intf::weight_call;
use scx_utils::UserExitInfo;

use crate::shared::Memory;

/// Instead of a weight: leave it as it is.
pub(crate) const KEEP: u32 = u32::MAX;

/// A scheduler that is loaded.
pub(crate) trait Loaded {
    /// True if the kernel has unloaded it.
    fn exited(&self) -> bool;

    /// The memory that it shares with us.
    fn memory(&self) -> Memory<'_>;

    /// The cpus that it began with.
    fn cpus(&self) -> u32;

    /// Sets the weight of a task or, if it is [`KEEP`], only reads it, for whoever connected the
    /// socket; `result` says how that went.
    fn weight_call(&mut self, call: weight_call) -> weight_call;

    /// Unloads it and tells why it ended.
    ///
    /// # Errors
    /// When it ended because of an error: the kernel's words.
    fn unload(&mut self) -> Result<UserExitInfo>;

    /// What the next load needs to know, once this one is over.
    fn heritage(&self) -> Result<Heritage>;
}

/// What one load leaves to the next.
pub(crate) struct Heritage {
    /// Tasks' chosen weights.
    pub(crate) task_memories: OwnedFd,
    /// When it ended: tasks that came since inherit their parents' weights.
    pub(crate) unloaded_ns: u64,
    /// What refuses core scheduling: in between too, or the next load would find it in use.
    pub(crate) core_guard: Option<Rc<libbpf_rs::Link>>,
}

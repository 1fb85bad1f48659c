//! What the loader asks of a scheduler that is loaded, whatever its policy.

use anyhow::Result;
use scx_prorata_objects::intf::weight_call;

use crate::shared::Memory;

/// Instead of a weight: leave it as it is.
pub(crate) const KEEP: u32 = u32::MAX;

/// A scheduler that is loaded: its programs are verified.
///
/// | the kernel | we | |
/// |---|---|---|
/// | | `attach()` | it schedules the machine |
/// | a cpu comes | `is_outdated()` → true | where no lock keeps others out of the policy meanwhile |
/// | | `close()` | nobody is in the policy; what was recorded is all of it |
/// | | `reopen()` | the policy begins anew on the cpus that there are |
/// | ends it | `is_over()` → true | |
/// | | `unload()` | why |
pub(crate) trait Loaded {
    /// Has it schedule the machine from here on, with the cpus that are online.
    fn attach(&mut self) -> Result<()>;

    /// True if the kernel has ended it.
    fn is_over(&self) -> bool;

    /// True if cpus have come or gone, for which the policy is to begin anew.
    fn is_outdated(&self) -> bool;

    /// Nobody is in the policy from here on; tasks that run, run outside it.
    fn close(&mut self) -> Result<()>;

    /// The policy begins anew, after [`close`](Loaded::close). It may be outdated again.
    fn reopen(&mut self) -> Result<()>;

    /// The memory that it shares with us.
    fn memory(&self) -> Memory<'_>;

    /// The cpus that the policy began with.
    fn cpus(&self) -> u32;

    /// Sets the weight of a task or, if it is [`KEEP`], only reads it, for whoever connected the
    /// socket; `result` says how that went.
    fn weight_call(&mut self, call: weight_call) -> weight_call;

    /// Ends it.
    ///
    /// # Errors
    /// When it ended because of an error: the kernel's words.
    fn unload(&mut self) -> Result<()>;
}

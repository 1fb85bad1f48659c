//! What the loader asks of a scheduler that is loaded, whatever its policy.

use anyhow::Result;
use scx_prorata_objects::intf::weight_call;

use crate::shared::Memory;

/// Instead of a weight: leave it as it is.
pub(crate) const KEEP: u32 = u32::MAX;

/// A scheduler that is loaded: its programs are verified, and kept.
///
/// | the kernel | we | |
/// |---|---|---|
/// | | `attach()` | it schedules the machine |
/// | a cpu comes | `is_over()` → true | of which the policy cannot be told |
/// | unloads it | `unload()` → true | |
/// | | `attach()` | it begins anew; weights that were chosen are as before |
pub(crate) trait Loaded {
    /// Has it schedule the machine from here on, with the cpus that are online.
    fn attach(&mut self) -> Result<()>;

    /// True if the kernel has unloaded it, or it is to be unloaded and attached again.
    fn is_over(&self) -> bool;

    /// The memory that it shares with us.
    fn memory(&self) -> Memory<'_>;

    /// The cpus that it began with.
    fn cpus(&self) -> u32;

    /// Sets the weight of a task or, if it is [`KEEP`], only reads it, for whoever connected the
    /// socket; `result` says how that went.
    fn weight_call(&mut self, call: weight_call) -> weight_call;

    /// Unloads it. True if it is to be attached again.
    ///
    /// # Errors
    /// When it ended because of an error: the kernel's words.
    fn unload(&mut self) -> Result<bool>;
}

//! The policies that there are, each a BPF object of its own, behind one interface.
//!
//! The types that libbpf generates differ from object to object, so that `scheduler.rs` is included
//! once for each. A new policy is a line below and one in `build.rs`.

use std::mem::MaybeUninit;

use anyhow::Result;
use libbpf_rs::OpenObject;
use scx_utils::UserExitInfo;

use crate::options::Options;
use crate::shared::Memory;

/// Instead of a weight: leave it as it is.
pub(crate) const KEEP: u32 = u32::MAX;

/// A scheduler that is loaded.
pub(crate) trait Loaded {
    /// True if the kernel has unloaded it.
    fn exited(&self) -> bool;

    /// The memory that it shares with us.
    fn memory(&self) -> Memory<'_>;

    /// The cpus that it schedules.
    fn cpus(&self) -> u32;

    /// Sets the weight of a task, and returns it: 0 for that of its nice value, [`KEEP`] to leave
    /// it as it is.
    ///
    /// # Errors
    /// An errno: `ESRCH` when there is no such task.
    fn weight_call(&mut self, pid: u32, weight: u32) -> Result<u32, i32>;

    /// Unloads it and tells why it ended.
    ///
    /// # Errors
    /// When it ended because of an error: the kernel's words.
    fn unload(&mut self) -> Result<UserExitInfo>;
}

macro_rules! policies {
    ($($name:ident $text:literal $skel:ident $builder:ident),* $(,)?) => {
        $(mod $name {
            #[allow(clippy::all, clippy::pedantic, missing_docs, unreachable_pub)]
            #[allow(dead_code, unused_imports)]
            mod skel {
                pub(super) use {$skel as BpfSkel, $builder as BpfSkelBuilder};
                include!(concat!(env!("OUT_DIR"), "/", stringify!($name), "_skel.rs"));
            }
            pub(super) mod scheduler {
                include!("scheduler.rs");
            }
        })*

        const NAMES: &[&str] = &[$($text),*];

        /// Loads the policy that the options name and makes it the machine's scheduler.
        pub(crate) fn load<'a>(
            options: &Options,
            object: &'a mut MaybeUninit<OpenObject>,
        ) -> Result<Box<dyn Loaded + 'a>> {
            match options.policy.as_str() {
                $($text => Ok(Box::new($name::scheduler::Scheduler::load(options, object)?)),)*
                other => unreachable!("{other} was checked when the options were parsed"),
            }
        }
    };
}

policies! {
    gr3 "gr3" Gr3Skel Gr3SkelBuilder,
    vtrr "vtrr" VtrrSkel VtrrSkelBuilder,
    gdq "gdq" GdqSkel GdqSkelBuilder,
    wfq "wfq" WfqSkel WfqSkelBuilder,
    dfs_fa "dfs-fa" DfsFaSkel DfsFaSkelBuilder,
}

/// Checks the name of a policy.
pub(crate) fn parse(name: &str) -> Result<String, String> {
    match NAMES.contains(&name) {
        true => Ok(name.to_string()),
        false => Err(format!("no policy is called '{name}'; there are {}", NAMES.join(", "))),
    }
}

//! The policies that there are, each a BPF object of its own, or two, behind one interface.
//!
//! The types that libbpf generates differ from object to object, so that `scheduler.rs` is included
//! once for each. A new policy is two lines below, one of them for corrected turns, its name
//! in `spec.rs`, and in the package of the objects (`objects`) in `build.rs` and `lib.rs`.

use std::mem::MaybeUninit;

use anyhow::Result;
use libbpf_rs::OpenObject;

use crate::loaded::Loaded;
use crate::options::Options;
use crate::spec::Sleepers;

macro_rules! policies {
    ($($name:ident $text:literal $sleepers:pat, $skel:ident $builder:ident);* $(;)?) => {
        $(mod $name {
            mod skel {
                pub(super) use scx_prorata_objects::$name::{$skel as BpfSkel, $builder as BpfSkelBuilder};
            }
            pub(super) mod scheduler {
                include!("scheduler.rs");
            }
        })*

        /// Loads the policy that the options name.
        pub(crate) fn load<'a>(
            options: &Options,
            object: &'a mut MaybeUninit<OpenObject>,
        ) -> Result<Box<dyn Loaded + 'a>> {
            match (options.policy.name, options.policy.sleepers) {
                $(($text, $sleepers) => {
                    Ok(Box::new($name::scheduler::Scheduler::load(options, object)?))
                })*
                other => unreachable!("{other:?} was checked when the options were parsed"),
            }
        }
    };
}

policies! {
    gr3 "gr3" Sleepers::Paper | Sleepers::Turns, Gr3Skel Gr3SkelBuilder;
    gr3_corrected "gr3" Sleepers::Corrected, Gr3CorrectedSkel Gr3CorrectedSkelBuilder;
    vtrr "vtrr" Sleepers::Paper | Sleepers::Turns, VtrrSkel VtrrSkelBuilder;
    vtrr_corrected "vtrr" Sleepers::Corrected, VtrrCorrectedSkel VtrrCorrectedSkelBuilder;
    gdq "gdq" Sleepers::Paper | Sleepers::Turns, GdqSkel GdqSkelBuilder;
    gdq_corrected "gdq" Sleepers::Corrected, GdqCorrectedSkel GdqCorrectedSkelBuilder;
    wfq "wfq" Sleepers::Paper | Sleepers::Turns, WfqSkel WfqSkelBuilder;
    wfq_corrected "wfq" Sleepers::Corrected, WfqCorrectedSkel WfqCorrectedSkelBuilder;
    dfs_fa "dfs-fa" Sleepers::Paper | Sleepers::Turns, DfsFaSkel DfsFaSkelBuilder;
    dfs_fa_corrected "dfs-fa" Sleepers::Corrected, DfsFaCorrectedSkel DfsFaCorrectedSkelBuilder;
    gdq_distributed "gdq-distributed" Sleepers::Paper | Sleepers::Turns,
        GdqDistributedSkel GdqDistributedSkelBuilder;
}

//! The BPF objects that `build.rs` compiles of `../src/bpf`, as libbpf's skeletons, and `intf.h` in Rust.
//!
//! A package of its own, and no member of the workspace: clippy compiles members, and runs their `build.rs`,
//! apart from all other builds, and this one takes a minute and a half.
#![allow(dead_code, missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals)]

macro_rules! objects {
    ($($name:ident)*) => {
        $(pub mod $name {
            include!(concat!(env!("OUT_DIR"), "/", stringify!($name), "_skel.rs"));
        })*
    };
}

objects! {
    gr3 gr3_corrected
    vtrr vtrr_corrected
    gdq gdq_corrected
    wfq wfq_corrected
    dfs_fa dfs_fa_corrected
    gdq_distributed
    empty
}

/// What the loader knows, too.
pub mod intf {
    include!(concat!(env!("OUT_DIR"), "/bpf_intf.rs"));
}

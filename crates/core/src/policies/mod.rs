//! The policies, one file each, and the registry that names them.
//!
//! A new policy is one file here, with an [`Entry`] in it, and one line in [`REGISTRY`].

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::corrected::Corrected;
use crate::policy::{Policy, Setup, Sleepers};
use crate::turns::{Payment, Turns};

mod claims;
pub mod dfs;
pub mod dfs_fa;
pub mod drr;
pub mod eevdf;
pub mod gdq;
pub mod gr3;
pub mod linux_24;
pub mod linux_26;
pub mod linux_eevdf;
pub mod lottery;
pub mod mfq;
pub mod msfq;
mod options;
pub mod qfq;
pub mod round_robin;
pub mod sfq;
pub mod sfs;
pub mod srr;
pub mod stratified;
pub mod stride;
mod ties;
pub mod vtrr;
pub mod wf2q;
pub mod wfq;
pub mod wrr;

pub use claims::{Bound, Cost, FixedSet, Limit, Ratio};
pub use options::Options;
pub use ties::Ties;

/// What the registry knows of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name that users type.
    pub name: &'static str,
    /// Its name in full.
    pub title: &'static str,
    /// The paper, with the section that describes it.
    pub paper: &'static str,
    /// The proven bound on the service error.
    pub bound: Bound,
    /// What its verbs cost.
    pub cost: Cost,
    /// True if it schedules several cpus.
    pub multiprocessor: bool,
    /// True if no cpu idles while a task waits.
    pub work_conserving: bool,
    /// True if it shares by weight and leaves nothing to lot: its turns may be corrected.
    pub by_weight: bool,
    /// How its turns are paid where tasks that sleep may use them later.
    pub payment: Payment,
    /// Options that it takes, each with its default and meaning.
    pub options: &'static [(&'static str, &'static str, &'static str)],
    /// Builds it.
    pub build: Builder,
}

/// A policy that can be handed to another thread, or why it could not be built.
pub type Built = Result<Box<dyn Policy + Send>, BuildError>;

/// Builds a policy from what the user asked for.
pub type Builder = fn(&Setup, &mut Options<'_>) -> Built;

/// Every policy, in the order in which they are listed to users.
#[rustfmt::skip] // one line each
pub const REGISTRY: &[Entry] = &[
    gr3::ENTRY,
    dfs::ENTRY,
    dfs_fa::ENTRY,
    sfs::ENTRY,
    mfq::ENTRY,
    gdq::ENTRY,
    round_robin::ENTRY,
    vtrr::ENTRY,
    wfq::HEAP,
    wfq::LIST,
    stride::ENTRY,
    sfq::ENTRY,
    wf2q::ENTRY,
    wrr::ENTRY,
    drr::ENTRY,
    srr::ENTRY,
    stratified::ENTRY,
    lottery::ENTRY,
    eevdf::ENTRY,
    qfq::ENTRY,
    msfq::ENTRY,
    linux_24::ENTRY,
    linux_26::ENTRY,
    linux_eevdf::LINUX_6_18,
    linux_eevdf::LINUX_7_3,
    gdq::distributed::ENTRY,
];

/// Why a policy could not be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// No policy has this name.
    UnknownPolicy(String),
    /// The policy has no such option.
    UnknownOption(String),
    /// An option's value is not what it should be: option, value, what it takes.
    BadValue(String, String, String),
    /// The policy schedules one cpu only.
    OneCpuOnly(String),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::UnknownPolicy(name) => {
                write!(f, "no policy is called '{name}'; there are")?;
                REGISTRY.iter().try_for_each(|entry| write!(f, " {}", entry.name))
            }
            BuildError::UnknownOption(option) => write!(f, "the policy has no option '{option}'"),
            BuildError::BadValue(option, value, takes) => {
                write!(f, "option '{option}' takes {takes}, not '{value}'")
            }
            BuildError::OneCpuOnly(name) => {
                write!(f, "{name} schedules one cpu only: use --cpus 1, or a policy for several")
            }
        }
    }
}

impl core::error::Error for BuildError {}

/// The registry's entry for `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    REGISTRY.iter().find(|entry| entry.name == name)
}

/// Builds the policy that `spec` names: `NAME` or `NAME:OPTION=VALUE,…`. Every policy has, beside
/// its own options, `sleepers=turns` and `sleepers=paper`, and those that share by weight have
/// `sleepers=corrected` ([`Sleepers`]); by default it is what `setup` says, and the paper's where
/// that is corrected turns and the policy has none.
///
/// # Errors
/// When there is no such policy or option, a value is not acceptable, or the policy cannot
/// schedule that many cpus.
pub fn build(spec: &str, setup: &Setup) -> Built {
    let (name, _) = spec.split_once(':').unwrap_or((spec, ""));
    build_with(spec, setup, |_| Err(BuildError::OneCpuOnly(name.to_string())))
}

/// The same, where `on_several` makes of a policy for one cpu one for several.
pub(crate) fn build_with(
    spec: &str,
    setup: &Setup,
    on_several: impl FnOnce(Box<dyn Policy + Send>) -> Built,
) -> Built {
    let (name, options) = spec.split_once(':').unwrap_or((spec, ""));
    let entry = find(name).ok_or_else(|| BuildError::UnknownPolicy(name.to_string()))?;
    let mut options = Options::parse(options);
    let sleepers = options.choice("sleepers", &sleepers(entry, setup))?;
    let policy = if setup.cpus > 1 && !entry.multiprocessor {
        on_several((entry.build)(&Setup { cpus: 1, ..*setup }, &mut options)?)?
    } else {
        (entry.build)(setup, &mut options)?
    };
    options.finish()?;
    Ok(match sleepers {
        Sleepers::Corrected => Box::new(Corrected::new(policy, setup)),
        Sleepers::Turns => Box::new(Turns::new(policy, setup, entry.payment)),
        Sleepers::Paper => policy,
    })
}

/// What the policy may do with tasks that sleep, by name; the first is what it does by default.
fn sleepers(entry: &Entry, setup: &Setup) -> Vec<(&'static str, Sleepers)> {
    let all = [
        ("corrected", Sleepers::Corrected),
        ("paper", Sleepers::Paper),
        ("turns", Sleepers::Turns),
    ];
    let has = |choice| entry.by_weight || choice != Sleepers::Corrected;
    let mut sleepers: Vec<_> = all.into_iter().filter(|&(_, choice)| has(choice)).collect();
    sleepers.sort_by_key(|&(_, choice)| choice != setup.sleepers);
    sleepers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_shares_by_weight_has_corrected_turns() {
        let setup = Setup::new(1, 1_000_000);
        for entry in REGISTRY {
            let spec = alloc::format!("{}:sleepers=corrected", entry.name);
            match build(&spec, &setup) {
                Ok(_) => assert!(entry.by_weight, "{spec}"),
                Err(BuildError::BadValue(option, value, takes)) => {
                    assert!(!entry.by_weight, "{spec}");
                    assert_eq!(
                        (&*option, &*value, &*takes),
                        ("sleepers", "corrected", "paper or turns")
                    );
                }
                Err(error) => panic!("{spec}: {error}"),
            }
            build(entry.name, &setup).expect("corrected turns are not asked of it by default");
        }
    }
}

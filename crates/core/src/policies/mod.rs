//! The policies, one file each, and the registry that names them.
//!
//! A new policy is one file here, with an [`Entry`] in it, and one line in [`REGISTRY`].

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec;
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
    /// The policy has no such option: policy, option.
    UnknownOption(String, String),
    /// An option is given more than once.
    OptionTwice(String),
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
            BuildError::UnknownOption(policy, option) => {
                write!(f, "{policy} has no option '{option}'; it has {SLEEPERS}")?;
                let options = find(policy).map_or(&[][..], |entry| entry.options);
                options.iter().try_for_each(|(name, ..)| write!(f, " {name}"))
            }
            BuildError::OptionTwice(option) => {
                write!(f, "option '{option}' is given twice: give it once")
            }
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

/// The option that every policy has.
const SLEEPERS: &str = "sleepers";

impl Entry {
    /// What it can do with tasks that sleep (`sleepers=NAME`), what it does by default with `setup` first.
    /// Only what shares by weight is corrected.
    #[must_use]
    pub fn sleepers(&self, setup: &Setup) -> Vec<(&'static str, Sleepers)> {
        let default = match setup.sleepers {
            Sleepers::Corrected if !self.by_weight => Sleepers::Paper,
            sleepers => sleepers,
        };
        let mut choices = vec![
            ("corrected", Sleepers::Corrected),
            ("turns", Sleepers::Turns),
            ("paper", Sleepers::Paper),
        ];
        choices.retain(|&(_, choice)| self.by_weight || choice != Sleepers::Corrected);
        choices.sort_by_key(|&(_, choice)| choice != default);
        choices
    }
}

/// Builds the policy that `spec` names: `NAME` or `NAME:OPTION=VALUE,…`. Every policy has, beside
/// its own options, `sleepers=turns` and `sleepers=paper`, and `sleepers=corrected` if it shares by
/// weight ([`Sleepers`]); by default it is what `setup` says, or the paper's where it cannot be that.
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
    let sleepers = options.choice(SLEEPERS, &entry.sleepers(setup))?;
    let policy = if setup.cpus > 1 && !entry.multiprocessor {
        on_several((entry.build)(&Setup { cpus: 1, ..*setup }, &mut options)?)?
    } else {
        (entry.build)(setup, &mut options)?
    };
    options.finish(name)?;
    Ok(match sleepers {
        Sleepers::Corrected => Box::new(Corrected::new(policy, setup)),
        Sleepers::Paper => policy,
        Sleepers::Turns => Box::new(Turns::new(policy, setup, entry.payment)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(spec: &str) -> String {
        build(spec, &Setup::new(1, 10)).err().expect(spec).to_string()
    }

    #[test]
    fn options_that_mean_nothing_are_refused() {
        for entry in REGISTRY.iter().filter(|entry| !entry.by_weight) {
            let corrected = error(&alloc::format!("{}:sleepers=corrected", entry.name));
            assert!(corrected.ends_with("takes paper or turns, not 'corrected'"), "{corrected}");
            assert!(build(entry.name, &Setup::new(1, 10)).is_ok(), "{}", entry.name);
        }
        assert_eq!(error("wfq:foo=1"), "wfq has no option 'foo'; it has sleepers ties");
        assert_eq!(error("qfq:foo"), "qfq has no option 'foo'; it has sleepers");
        let twice = "option 'arrival' is given twice: give it once";
        assert_eq!(error("gr3:arrival=frontlog,arrival=frontlog"), twice);
        assert!(
            error("gr3:sleepers=paper,sleepers=turns").starts_with("option 'sleepers' is given")
        );
    }
}

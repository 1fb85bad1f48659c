//! The policies that there are, each a BPF object of its own, or two, behind one interface.
//!
//! The types that libbpf generates differ from object to object, so that `scheduler.rs` is included
//! once for each. A new policy is two lines below, one of them for corrected turns, and one in `build.rs`.

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use anyhow::{Result, ensure};
use libbpf_rs::OpenObject;
use scx_utils::UserExitInfo;

use crate::bpf_intf::{
    policy_limits_POLICY_OPTIONS, sleepers_SLEEPERS_CORRECTED, sleepers_SLEEPERS_PAPER,
    sleepers_SLEEPERS_TURNS, weight_call,
};
use crate::options::{Groups, Options};
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
    task_memories: OwnedFd,
    /// When it ended: tasks that came since inherit their parents' weights.
    unloaded_ns: u64,
    /// What refuses core scheduling: in between too, or the next load would find it in use.
    core_guard: Option<Rc<libbpf_rs::Link>>,
}

macro_rules! policies {
    ($($name:ident $text:literal $sleepers:pat, $skel:ident $builder:ident);* $(;)?) => {
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

        /// Loads the policy that the options name and makes it the machine's scheduler.
        pub(crate) fn load<'a>(
            options: &Options,
            heritage: Option<&Heritage>,
            object: &'a mut MaybeUninit<OpenObject>,
        ) -> Result<Box<dyn Loaded + 'a>> {
            match (options.policy.name, options.policy.sleepers) {
                $(($text, $sleepers) => {
                    Ok(Box::new($name::scheduler::Scheduler::load(options, heritage, object)?))
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
    gdq_distributed "gdq-distributed" Sleepers::Paper, GdqDistributedSkel GdqDistributedSkelBuilder;
}

const NAMES: &[&str] = &["gr3", "vtrr", "gdq", "wfq", "dfs-fa", "gdq-distributed"];

/// Policies whose queues have locks of their own: the scheduler around them is `bpf/apart.bpf.c`.
const APART: &[&str] = &["gdq-distributed"];

/// A policy's options, which are the core library's of the same names: what each takes, and what it
/// is here if it is not given. At most [`OPTIONS`].
const WITH_OPTIONS: &[(&str, &[Choice])] = &[
    // The paper lets T grow with the cpus, so that they seldom meet at a lock; under gdq all of them meet
    // at one anyway, and the error is the smaller the shorter T is.
    (
        "gdq",
        &[
            Choice { key: "t", takes: 1..=1_000_000, default: Preset::Is(1) },
            Choice { key: "delta", takes: 0..=1_000_000, default: Preset::Is(4) },
        ],
    ),
    (
        "gdq-distributed",
        &[
            Choice { key: "t", takes: 1..=1_000_000, default: Preset::MoreThanCpus },
            Choice { key: "delta", takes: 0..=1_000_000, default: Preset::Is(4) },
        ],
    ),
];

/// The options that a policy can have.
const OPTIONS: usize = policy_limits_POLICY_OPTIONS as usize;

struct Choice {
    key: &'static str,
    takes: RangeInclusive<u32>,
    default: Preset,
}

enum Preset {
    Is(u32),
    /// One more than the machine may ever have.
    MoreThanCpus,
}

impl Preset {
    fn value(&self) -> u32 {
        match *self {
            Preset::Is(value) => value,
            Preset::MoreThanCpus => {
                let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1);
                u32::try_from(cpus).unwrap_or(u32::MAX).saturating_add(1)
            }
        }
    }
}

/// A policy and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    name: &'static str,
    /// What becomes of tasks that sleep.
    pub(crate) sleepers: Sleepers,
    /// By their places in [`WITH_OPTIONS`].
    pub(crate) options: [u32; OPTIONS],
}

/// As `--policy` takes it, with every option, since defaults differ from the core library's.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{SLEEPERS}={}", self.name, self.sleepers.name())?;
        choices(self.name)
            .iter()
            .zip(self.options)
            .try_for_each(|(choice, value)| write!(f, ",{}={value}", choice.key))
    }
}

/// An option of every policy.
const SLEEPERS: &str = "sleepers";

/// What becomes of tasks that sleep, as the core library has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleepers {
    Paper,
    Turns,
    Corrected,
}

impl Sleepers {
    const ALL: [Sleepers; 3] = [Sleepers::Corrected, Sleepers::Turns, Sleepers::Paper];

    fn name(self) -> &'static str {
        match self {
            Sleepers::Paper => "paper",
            Sleepers::Turns => "turns",
            Sleepers::Corrected => "corrected",
        }
    }

    /// What `value` names, if it names any.
    fn parse(value: &str) -> Result<Sleepers, String> {
        Sleepers::ALL.into_iter().find(|sleepers| sleepers.name() == value).ok_or_else(|| {
            let names = Sleepers::ALL.map(Sleepers::name).join(", ");
            format!("option '{SLEEPERS}' takes one of {names}, not '{value}'")
        })
    }

    /// As the scheduler's constants have it.
    pub(crate) fn constant(self) -> u32 {
        match self {
            Sleepers::Paper => sleepers_SLEEPERS_PAPER,
            Sleepers::Turns => sleepers_SLEEPERS_TURNS,
            Sleepers::Corrected => sleepers_SLEEPERS_CORRECTED,
        }
    }
}

/// The options of a policy.
fn choices(name: &str) -> &'static [Choice] {
    WITH_OPTIONS.iter().find(|(with, _)| *with == name).map_or(&[], |with| with.1)
}

/// Policies whose shares under turns that are kept are far off where tasks that sleep come together with
/// weights far apart (gdq), or where weights change again and again (vtrr).
const CORRECTED: [&str; 2] = ["gdq", "vtrr"];

/// What becomes of tasks that sleep unless the user says otherwise.
fn default_sleepers(name: &str) -> Sleepers {
    match name {
        name if APART.contains(&name) => Sleepers::Paper,
        name if CORRECTED.contains(&name) => Sleepers::Corrected,
        _ => Sleepers::Turns,
    }
}

/// Reads `NAME` or `NAME:KEY=VALUE,…`.
pub(crate) fn parse(text: &str) -> Result<Spec, String> {
    let (name, settings) = text.split_once(':').unwrap_or((text, ""));
    let Some(name) = NAMES.iter().find(|known| **known == name) else {
        return Err(format!("no policy is called '{name}'; there are {}", NAMES.join(", ")));
    };
    let choices = choices(name);
    let mut options = [0; OPTIONS];
    options.iter_mut().zip(choices).for_each(|(option, choice)| *option = choice.default.value());
    let mut sleepers = default_sleepers(name);
    for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        if key == SLEEPERS {
            sleepers = Sleepers::parse(value)?;
            continue;
        }
        let Some(at) = choices.iter().position(|choice| choice.key == key) else {
            let keys = choices.iter().map(|choice| choice.key);
            let has = keys.chain([SLEEPERS]).collect::<Vec<_>>().join(", ");
            return Err(format!("{name} has no option '{key}' in the kernel; it has {has}"));
        };
        let takes = &choices[at].takes;
        options[at] =
            value.parse().ok().filter(|value| takes.contains(value)).ok_or_else(|| {
                let (least, most) = (takes.start(), takes.end());
                format!("option '{key}' takes a number from {least} to {most}, not '{value}'")
            })?;
    }
    if APART.contains(name) && sleepers != Sleepers::Paper {
        return Err(format!(
            "{name} has no turns for tasks that sleep yet: write {name}:{SLEEPERS}=paper, or use gdq"
        ));
    }
    Ok(Spec { name, sleepers, options })
}

impl Spec {
    /// Refuses what a policy whose queues have locks of their own cannot do yet.
    ///
    /// # Errors
    /// What to type instead.
    pub(crate) fn check(&self, options: &Options) -> Result<()> {
        let name = self.name;
        if !APART.contains(&name) {
            return Ok(());
        }
        ensure!(
            options.groups == Groups::Off,
            "{name} does not know cgroups yet: add --groups off, or use --policy gdq"
        );
        ensure!(
            !options.cgroups.is_asked(),
            "{name} does not know cgroups yet: leave --cgroups away, or use --policy gdq"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_the_policys_own() {
        assert_eq!(parse("gdq").unwrap().options, [1, 4]);
        assert_eq!(parse("gdq:delta=0,t=7").unwrap().options, [7, 0]);
        assert_eq!(parse("gdq:t=7").unwrap().to_string(), "gdq:sleepers=corrected,t=7,delta=4");
        assert_eq!(parse("gr3").unwrap().to_string(), "gr3:sleepers=turns");
        let apart = parse("gdq-distributed:t=7").unwrap().to_string();
        assert_eq!(apart, "gdq-distributed:sleepers=paper,t=7,delta=4");
        for spec in ["gr3:sleepers=paper", "vtrr:sleepers=turns"] {
            assert_eq!(parse(spec).unwrap().to_string(), spec);
        }
        for wrong in [
            "gdqq",
            "gr3:sleepers=",
            "gr3:sleepers=yes",
            "gdq:t=0",
            "gdq:t",
            "gdq:x=1",
            "gdq:t=-1",
            "gr3:t=1",
            "gdq-distributed:sleepers=turns",
            "",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}

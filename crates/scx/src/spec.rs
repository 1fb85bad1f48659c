//! What `--policy` takes: the name of a policy, and its options.

use std::fmt;
use std::ops::RangeInclusive;

use scx_prorata_objects::intf::{
    policy_limits_POLICY_OPTIONS, sleepers_SLEEPERS_CORRECTED, sleepers_SLEEPERS_PAPER,
    sleepers_SLEEPERS_TURNS,
};

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
    pub(crate) name: &'static str,
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
    if APART.contains(name) && sleepers == Sleepers::Corrected {
        return Err(format!(
            "{name} has no corrected turns yet: write {name}:{SLEEPERS}=turns, or use gdq"
        ));
    }
    Ok(Spec { name, sleepers, options })
}

impl Spec {
    /// True if its queues have locks of their own.
    pub(crate) fn is_apart(&self) -> bool {
        APART.contains(&self.name)
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
        assert_eq!(apart, "gdq-distributed:sleepers=turns,t=7,delta=4");
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
            "gdq-distributed:sleepers=corrected",
            "",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}

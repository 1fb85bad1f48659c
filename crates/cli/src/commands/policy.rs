//! Policies as users name them: NAME or NAME:OPTION=VALUE,…

use anyhow::bail;
use prorata::policies::{BuildError, Entry, find};
#[cfg(feature = "simulate")]
use prorata::{Policy, Setup, policies};

/// The option that every policy has.
const SLEEPERS: &str = "sleepers";

/// Refuses in `spec` what names no policy, and options that its policy does not have, that mean nothing for
/// it or that are given twice, and says what it has. Values are looked at when it is built.
pub(crate) fn check(spec: &str) -> anyhow::Result<()> {
    let (name, options) = spec.split_once(':').unwrap_or((spec, ""));
    let Some(entry) = find(name) else { return Err(BuildError::UnknownPolicy(name.into()).into()) };
    let mut seen = Vec::new();
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let has = told(entry);
        if key != SLEEPERS && !entry.options.iter().any(|(known, ..)| *known == key) {
            bail!("{name} has no option '{key}': {has}");
        }
        if key == SLEEPERS && !sleepers(entry).contains(&value) {
            bail!("{name} has no '{SLEEPERS}={value}': {has}");
        }
        if seen.contains(&key) {
            bail!("{name} is given option '{key}' twice: give it once ({has})");
        }
        seen.push(key);
    }
    Ok(())
}

/// The policy that `spec` names.
#[cfg(feature = "simulate")]
pub(crate) fn build(spec: &str, setup: &Setup) -> anyhow::Result<Box<dyn Policy + Send>> {
    check(spec)?;
    policies::build(spec, setup).map_err(|error| match error {
        BuildError::BadValue(..) => anyhow::anyhow!("{spec}: {error}"),
        error => error.into(),
    })
}

/// What can be done about tasks that sleep, what is done by default first. Only what shares by weight, and
/// leaves nothing to lot, can be held to the ideal.
fn sleepers(entry: &Entry) -> &'static [&'static str] {
    if entry.by_weight { &["corrected", "turns", "paper"] } else { &["paper", "turns"] }
}

/// All options of a policy, each with its default in simulation and its meaning.
pub(crate) fn options(entry: &Entry) -> Vec<(&'static str, &'static str, &'static str)> {
    let meaning = match entry.by_weight {
        true => {
            "tasks that sleep: corrected (held to the ideal), turns (used later, as in prorata run), paper"
        }
        false => "tasks that sleep: paper (as it says), turns (used later, as in prorata run)",
    };
    let of_all = (SLEEPERS, sleepers(entry)[0], meaning);
    entry.options.iter().copied().chain([of_all]).collect()
}

/// The options of a policy in a sentence.
fn told(entry: &Entry) -> String {
    let own: String = entry.options.iter().map(|(name, ..)| format!("{name}, ")).collect();
    format!("it has {own}{SLEEPERS} ({}); see 'prorata policies'", sleepers(entry).join(", "))
}

#[cfg(test)]
mod tests {
    use prorata::Setup;
    use prorata::policies::{self, REGISTRY};

    use super::*;

    fn refusal(spec: &str) -> String {
        check(spec).expect_err(spec).to_string()
    }

    /// What is said to be an option is one for the library, too; and nothing else is.
    #[test]
    fn every_policy_takes_its_options() {
        for entry in REGISTRY {
            let setup = Setup::new(1, 1_000_000);
            for (key, default, _) in options(entry) {
                let spec = format!("{}:{key}={default}", entry.name);
                assert!(check(&spec).is_ok() && policies::build(&spec, &setup).is_ok(), "{spec}");
            }
            for sleepers in sleepers(entry) {
                let spec = format!("{}:{SLEEPERS}={sleepers}", entry.name);
                assert!(check(&spec).is_ok() && policies::build(&spec, &setup).is_ok(), "{spec}");
            }
            assert!(check(entry.name).is_ok(), "{}", entry.name);
            assert!(check(&format!("{}:none=1", entry.name)).is_err(), "{}", entry.name);
        }
    }

    #[test]
    fn what_means_nothing_is_refused_by_name() {
        let has = "it has sleepers (paper, turns); see 'prorata policies'";
        let corrected = refusal("round-robin:sleepers=corrected");
        assert_eq!(corrected, format!("round-robin has no 'sleepers=corrected': {has}"));
        assert_eq!(refusal("round-robin:t=3"), format!("round-robin has no option 't': {has}"));
        let foo = refusal("gdq:foo");
        assert!(
            foo.starts_with("gdq has no option 'foo': it has t, delta, sleepers (corrected,"),
            "{foo}"
        );
        let twice = refusal("gdq:t=3,t=4");
        assert!(twice.starts_with("gdq is given option 't' twice: give it once"), "{twice}");
        assert!(refusal("foo:t=3").starts_with("no policy is called 'foo'; there are gr3"));
    }
}

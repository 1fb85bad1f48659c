//! Options of a policy: the `KEY=VALUE,…` after its name.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::str::FromStr;

use super::BuildError;

/// Options as the user typed them, by default none; a policy takes what it knows.
#[derive(Clone, Debug, Default)]
pub struct Options<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Options<'a> {
    /// The options in `text`, as `KEY=VALUE` separated by commas. A key alone has an empty value.
    pub(super) fn parse(text: &'a str) -> Options<'a> {
        let pairs = text.split(',').filter(|s| !s.is_empty());
        Options(pairs.map(|s| s.split_once('=').unwrap_or((s, ""))).collect())
    }

    fn take(&mut self, key: &str) -> Option<&'a str> {
        let at = self.0.iter().position(|(k, _)| *k == key)?;
        Some(self.0.remove(at).1)
    }

    /// The number under `key` if it is within `range`, or `default` if the key is absent.
    ///
    /// # Errors
    /// When the value is no number in the range.
    pub fn number<T>(
        &mut self,
        key: &str,
        range: core::ops::RangeInclusive<T>,
        default: T,
    ) -> Result<T, BuildError>
    where
        T: FromStr + PartialOrd + core::fmt::Display,
    {
        let Some(value) = self.take(key) else { return Ok(default) };
        value.parse().ok().filter(|n| range.contains(n)).ok_or_else(|| {
            let takes = format!("a number from {} to {}", range.start(), range.end());
            BuildError::BadValue(key.to_string(), value.to_string(), takes)
        })
    }

    /// The choice under `key` out of `choices`, or the first one if the key is absent.
    ///
    /// # Errors
    /// When the value is none of the choices.
    pub fn choice<T: Copy>(&mut self, key: &str, choices: &[(&str, T)]) -> Result<T, BuildError> {
        let Some(value) = self.take(key) else { return Ok(choices[0].1) };
        choices.iter().find(|(name, _)| *name == value).map(|&(_, choice)| choice).ok_or_else(
            || {
                let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                BuildError::BadValue(key.to_string(), value.to_string(), names.join(" or "))
            },
        )
    }

    /// # Errors
    /// When an option was not taken.
    pub(super) fn finish(self) -> Result<(), BuildError> {
        match self.0.first() {
            None => Ok(()),
            Some((key, _)) => Err(BuildError::UnknownOption((*key).to_string())),
        }
    }
}

//! Numbers of workloads in TOML, with messages that say which are possible.

use std::fmt;
use std::marker::PhantomData;

use prorata::Weight;
use serde::de::{self, Deserialize, Deserializer, Visitor};

use super::WorkloadError;

/// A whole number, called so in messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Whole<N>(pub(super) N);

impl<'de, N: TryFrom<i64>> Deserialize<'de> for Whole<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Whole<N>, D::Error> {
        struct WholeVisitor<N>(PhantomData<N>);
        impl<N: TryFrom<i64>> Visitor<'_> for WholeVisitor<N> {
            type Value = Whole<N>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let is_possible = |number: i64| N::try_from(number).is_ok();
                match (is_possible(-1), is_possible(i64::MAX)) {
                    (true, _) => f.write_str("a whole number without quotes"),
                    (_, true) => f.write_str("a whole number of 0 or more"),
                    _ => write!(f, "a whole number from 0 to {}", u32::MAX),
                }
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Whole<N>, E> {
                let wrong = |_| E::invalid_value(de::Unexpected::Signed(number), &self);
                N::try_from(number).map(Whole).map_err(wrong)
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Whole<N>, E> {
                match i64::try_from(number) {
                    Ok(number) => self.visit_i64(number),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Unsigned(number), &self)),
                }
            }
        }
        deserializer.deserialize_any(WholeVisitor(PhantomData))
    }
}

/// # Errors
/// What is wrong at `path`.
pub(super) fn weight_of(number: i64, path: &str) -> Result<Weight, WorkloadError> {
    u32::try_from(number).ok().and_then(Weight::new).ok_or_else(|| {
        let message = format!("{number} is no weight: weights go from 1 to {}", Weight::MAX);
        WorkloadError::new(path, message)
    })
}

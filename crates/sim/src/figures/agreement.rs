//! Measured beside printed.

use std::fmt::Write as _;

use super::Row;

/// A value that a paper prints, and ours.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Comparison {
    /// Of which policy, or at which point.
    pub(super) subject: String,
    pub(super) measure: String,
    pub(super) measured: f64,
    pub(super) printed: f64,
}

/// Everything in `rows` that the paper prints.
pub(super) fn comparisons(rows: &[Row]) -> Vec<Comparison> {
    let of = |row: &Row| {
        let place = |(name, value): &(String, super::Coordinate)| match name.as_str() {
            "policy" => value.to_string(),
            name => format!("{} {value}", name.replace('_', " ")),
        };
        let subject = row.coordinates.iter().map(place).collect::<Vec<_>>().join(", ");
        let compare = |(measure, printed): &(String, f64)| Comparison {
            subject: subject.clone(),
            measure: measure.clone(),
            measured: row.value(measure),
            printed: *printed,
        };
        row.printed.iter().map(compare).collect::<Vec<_>>()
    };
    rows.iter().flat_map(of).collect()
}

/// Measured beside printed, a line each; empty if the paper prints no number.
#[must_use]
pub fn agreement(rows: &[Row]) -> String {
    comparisons(rows).iter().fold(String::new(), |mut out, comparison| {
        let Comparison { subject, measure, measured, printed } = comparison;
        let measure = measure.replace('_', " ");
        let _ = writeln!(out, "{measure} {measured:.3}, printed {printed} ({subject})");
        out
    })
}

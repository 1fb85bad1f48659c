//! Lengths of time as the command line has them.

use std::time::Duration;

/// `1`, `0.5`.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.01..=86_400.0).contains(seconds));
    let wrong = || format!("'{text}' is no number of seconds from 0.01 to 86400");
    seconds.map(Duration::from_secs_f64).ok_or_else(wrong)
}

/// `5ms`, `200us`, `1s`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no length of time: write it as 5ms, 200us or 1s");
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let unit_ns: u64 = match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    let ns = number.checked_mul(unit_ns).ok_or_else(wrong)?;
    Ok(Duration::from_nanos(ns))
}

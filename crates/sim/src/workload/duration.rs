//! Lengths of time as people write them: `5ms`, `1.5s`, `250us`.

use prorata::Nanos;

use super::{LONGEST_H, LONGEST_NS};

const UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The nanoseconds in `text`, a decimal number with a unit; exact down to the nanosecond.
///
/// # Errors
/// A sentence that names the text and says what is accepted.
pub fn parse_duration(text: &str) -> Result<Nanos, String> {
    exact(text.trim()).ok_or_else(|| {
        format!(
            "'{text}' is no length of time: write a number with a unit, as 5ms, 1.5s or 250us \
             (ns, us, ms, s, min, h; at most {LONGEST_H}h)"
        )
    })
}

fn exact(text: &str) -> Option<Nanos> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(end);
    let unit_ns = UNITS.iter().find(|(name, _)| *name == unit.trim())?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let whole_ns = whole.parse::<u64>().ok()?.checked_mul(unit_ns)?;
    let digits = u32::try_from(fraction.len()).ok().filter(|&digits| digits <= 18)?;
    let fraction = u128::from(fraction.parse::<u64>().ok()?);
    let scaled = fraction * u128::from(unit_ns);
    let denominator = 10u128.pow(digits);
    let fraction_ns = u64::try_from(scaled / denominator).ok()?;
    let total_ns = whole_ns.checked_add(fraction_ns)?;
    (scaled % denominator == 0 && total_ns <= LONGEST_NS).then_some(total_ns)
}

/// `length_ns` as people write it, to three digits.
#[must_use]
#[allow(clippy::cast_precision_loss)]
pub fn format_duration(length_ns: Nanos) -> String {
    let (unit, unit_ns) = match length_ns {
        0 => return "0".into(),
        1..1_000 => ("ns", 1.0),
        1_000..1_000_000 => ("us", 1e3),
        1_000_000..1_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    let value = length_ns as f64 / unit_ns;
    let decimals = if value >= 100.0 || unit_ns == 1.0 { 0 } else { 1 + usize::from(value < 10.0) };
    format!("{value:.decimals$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_exact() {
        assert_eq!(parse_duration("5ms"), Ok(5_000_000));
        assert_eq!(parse_duration(" 1.5 s"), Ok(1_500_000_000));
        assert_eq!(parse_duration("0.25us"), Ok(250));
        assert_eq!(parse_duration("2min"), Ok(120_000_000_000));
        assert_eq!(parse_duration("0s"), Ok(0));
    }

    #[test]
    fn anything_else_is_an_error_that_names_it() {
        for text in ["", "5", "ms", "-1s", "1.5ns", "1e9s", "5 parsecs", "99999999999h", "1..2s"] {
            let error = parse_duration(text).expect_err(text);
            assert!(error.contains(&format!("'{text}'")), "{error}");
        }
    }

    #[test]
    fn lengths_read_well() {
        let all = [0, 999, 1_500, 20_000_000, 123_456_789, 9_990_000_000].map(format_duration);
        assert_eq!(all, ["0", "999ns", "1.50us", "20.0ms", "123ms", "9.99s"]);
    }
}

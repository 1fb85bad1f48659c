//! `--cpus N|LIST`.

use anyhow::{Context as _, bail, ensure};

/// The cpus that `text` means: the first N of `allowed`, or those of a list such as `0,2-3`.
pub(crate) fn parse(text: &str, allowed: &[usize]) -> anyhow::Result<Vec<usize>> {
    if let Ok(count) = text.parse::<usize>() {
        ensure!(count > 0, "--cpus 0 is not possible: share at least one cpu");
        ensure!(
            count <= allowed.len(),
            "--cpus {count}: prorata may use {} here ({}): ask for at most so many",
            allowed.len(),
            show(allowed)
        );
        return Ok(allowed[..count].to_vec());
    }
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let number = |digits: &str| {
            let bad = || format!("--cpus {text}: '{part}' is no cpu or range: as in 2, 0-3 or 0,2");
            digits.trim().parse::<usize>().with_context(bad)
        };
        let (from, to) = (number(from)?, number(to)?);
        ensure!(from <= to, "--cpus {text}: write the range '{part}' the other way round");
        for cpu in from..=to {
            if !allowed.contains(&cpu) {
                bail!("--cpus {text}: cpu {cpu} is not among those here ({})", show(allowed));
            }
            ensure!(!cpus.contains(&cpu), "--cpus {text} names cpu {cpu} twice");
            cpus.push(cpu);
        }
    }
    Ok(cpus)
}

/// As a list with ranges: `0-3,8`.
fn show(cpus: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let show = |&(from, to): &(usize, usize)| {
        if from == to { from.to_string() } else { format!("{from}-{to}") }
    };
    format!("cpus {}", ranges.iter().map(show).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_number_counts_and_a_list_names() {
        let allowed = [0, 1, 2, 3, 8];
        assert_eq!(parse("2", &allowed).unwrap(), [0, 1]);
        assert_eq!(parse("1-2", &allowed).unwrap(), [1, 2]);
        assert_eq!(parse("8-8", &allowed).unwrap(), [8]);
        assert_eq!(parse("8,0", &allowed).unwrap(), [8, 0]);
    }

    #[test]
    fn what_is_not_there_is_refused_with_what_is() {
        let allowed = [0, 1, 2, 3, 8];
        for (text, reason) in [
            ("0", "at least one"),
            ("6", "0-3,8"),
            ("4-4", "cpu 4"),
            ("2-1", "other way round"),
            ("1,0-2", "twice"),
            ("x", "'x'"),
            ("0-18446744073709551616", "no cpu or range"),
            ("0-18446744073709551615", "cpu 4"),
            ("", "''"),
        ] {
            let error = format!("{:#}", parse(text, &allowed).unwrap_err());
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}

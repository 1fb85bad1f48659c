//! `OpenMetrics` text, read strictly: what is no such text is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::shell;

/// Samples by name and labels, as `name{label="value"}`.
pub(super) type Samples = BTreeMap<String, f64>;

/// A family of metrics, as its metadata say.
struct Family {
    name: String,
    kind: String,
    /// Kinds of metadata that it has had.
    metadata: BTreeSet<String>,
    has_samples: bool,
}

/// What the scheduler that runs tells.
pub(super) fn ask(arguments: &[&str]) -> Result<Samples> {
    read(&shell::output(Command::new("scx_prorata").arg("metrics").args(arguments))?)
}

/// Reads text of counters and gauges.
fn read(text: &str) -> Result<Samples> {
    let body = text.strip_suffix("# EOF\n").context("it does not end with '# EOF'")?;
    let (mut samples, mut names) = (Samples::new(), BTreeSet::new());
    let mut family: Option<Family> = None;
    for line in body.lines() {
        let result = match line.strip_prefix("# ") {
            Some(metadata) => read_metadata(metadata, &mut family, &mut names),
            None => read_sample(line, family.as_mut(), &mut samples),
        };
        result.with_context(|| format!("'{line}'"))?;
    }
    Ok(samples)
}

fn read_metadata(
    line: &str,
    family: &mut Option<Family>,
    names: &mut BTreeSet<String>,
) -> Result<()> {
    let mut words = line.splitn(3, ' ');
    let (Some(what), Some(name), Some(rest)) = (words.next(), words.next(), words.next()) else {
        bail!("metadata are of three words");
    };
    ensure!(["TYPE", "UNIT", "HELP"].contains(&what), "no metadata are called {what}");
    if family.as_ref().is_none_or(|family| family.name != name) {
        ensure!(names.insert(name.to_string()), "a family's lines stand together");
        ensure!(what == "TYPE", "the type comes first");
        ensure!(["counter", "gauge"].contains(&rest), "no type is called {rest}");
        let metadata = BTreeSet::new();
        let (name, kind) = (name.to_string(), rest.to_string());
        *family = Some(Family { name, kind, metadata, has_samples: false });
    }
    let family = family.as_mut().context("it was made above")?;
    ensure!(!family.has_samples, "metadata come before samples");
    ensure!(family.metadata.insert(what.to_string()), "it is told twice");
    ensure!(what != "UNIT" || name.ends_with(&format!("_{rest}")), "names end with units");
    Ok(())
}

fn read_sample(line: &str, family: Option<&mut Family>, samples: &mut Samples) -> Result<()> {
    let family = family.context("a sample of no family")?;
    family.has_samples = true;
    let (series, value) = line.rsplit_once(' ').context("a sample without a value")?;
    let (name, labels) = series.split_at(series.find('{').unwrap_or(series.len()));
    let suffix = name.strip_prefix(&family.name).context("a sample of another family")?;
    let suffixes: &[&str] = if family.kind == "counter" { &["_total", "_created"] } else { &[""] };
    ensure!(suffixes.contains(&suffix), "no {} ends with '{suffix}'", family.kind);
    ensure!(labels.is_empty() || is_label(labels), "labels are written {{name=\"value\"}}");
    let value: f64 = value.parse().context("a value is a number")?;
    ensure!(value.is_finite() && (family.kind == "gauge" || value >= 0.0), "no such number");
    ensure!(samples.insert(series.to_string(), value).is_none(), "a series is told once");
    Ok(())
}

/// One label, whose value may be anything but for what is escaped.
fn is_label(text: &str) -> bool {
    let inside = text.strip_prefix('{').and_then(|text| text.strip_suffix("\"}"));
    let Some((name, value)) = inside.and_then(|inside| inside.split_once("=\"")) else {
        return false;
    };
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        let is_right = match letter {
            '\\' => letters.next().is_some_and(|next| "\\\"n".contains(next)),
            other => other != '"',
        };
        if !is_right {
            return false;
        }
    }
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::read;

    const TEXT: &str = "# TYPE a_seconds counter\n# UNIT a_seconds seconds\n# HELP a_seconds All.\n\
                        a_seconds_total{p=\"/\\\"x\"} 1.5\na_seconds_created{p=\"/\\\"x\"} 7\n\
                        # TYPE b gauge\nb -1\n# EOF\n";

    #[test]
    fn samples_are_read() {
        let samples = read(TEXT).unwrap();
        assert_eq!(samples["a_seconds_total{p=\"/\\\"x\"}"], 1.5);
        assert_eq!(samples["b"], -1.0);
    }

    #[test]
    fn what_is_no_such_text_is_refused() {
        for (right, wrong) in [
            ("# EOF\n", ""),
            ("# EOF\n", "\n# EOF\n"),
            ("counter", "count"),
            ("UNIT a_seconds seconds", "UNIT a_seconds bytes"),
            ("_total", ""),
            ("1.5", "-1.5"),
            ("1.5", "x"),
            ("\\\"x\"} 1.5", "\"x\"} 1.5"),
            ("b -1", "c -1"),
            ("b -1", "b -1\nb 2"),
            ("# TYPE b gauge", "# TYPE a_seconds gauge"),
            ("# TYPE b gauge", "# TYPE b gauge\n# TYPE b gauge"),
            ("# HELP a_seconds All.", "# HELP b All."),
            ("# HELP a_seconds All.", "# HELP a_seconds"),
        ] {
            let text = TEXT.replacen(right, wrong, 1);
            assert_ne!(text, TEXT);
            assert!(read(&text).is_err(), "{text}");
        }
    }
}

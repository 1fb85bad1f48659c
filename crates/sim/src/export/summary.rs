//! The summary of a sweep, for people.

use std::fmt::Write as _;

use super::table::left_out;
use crate::sweep::statistics::Estimate;
use crate::sweep::{Difference, Mean, Summary, Sweep};
use crate::workload::format_duration;

/// Points of the grid that are shown.
const MAX_POINTS: usize = 12;
/// Width of the first column, at least; more if a policy's name is longer.
const NAME: usize = 30;

/// What the numbers say.
const LEGEND: &str = "
Mean over the seeds and its interval (Student). A policy differs from another where a paired t-test over
the seeds says so, adjusted for all pairs of policies that were compared there (Holm).
";

/// A table a point of the grid and measure: each policy's mean, interval, and whom it differs from.
#[must_use]
pub fn summary_table(sweep: &Sweep, summary: &Summary) -> String {
    let seeds = sweep.seeds().len();
    let mut out = format!(
        "{} runs: points of the grid {}, policies {}, seeds {seeds}\n",
        sweep.runs(),
        sweep.points(),
        sweep.policies().len(),
    );
    for point in 0..sweep.points().min(MAX_POINTS) {
        let settings = sweep.settings(point).iter().map(|(key, value)| format!("{key} = {value}"));
        let settings = settings.collect::<Vec<_>>().join(", ");
        if !settings.is_empty() {
            let _ = writeln!(out, "\n{settings}");
        }
        for measure in sweep.chosen() {
            let here = |at: usize, of: &str| at == point && of == measure;
            let means: Vec<&Mean> =
                summary.means.iter().filter(|mean| here(mean.point, &mean.measure)).collect();
            let differences: Vec<&Difference> = summary
                .differences
                .iter()
                .filter(|difference| here(difference.point, &difference.measure))
                .collect();
            if !means.is_empty() {
                block(&mut out, measure, summary.confidence, &means, &differences);
            }
        }
    }
    if let Some(more) = sweep.points().checked_sub(MAX_POINTS).filter(|&more| more > 0) {
        let _ =
            writeln!(out, "\n… and {more} more points of the grid (--format json has them all)");
    }
    let failed = summary.failures.iter();
    left_out(&mut out, failed.map(|failure| (failure.policy.clone(), failure.error.clone())));
    if seeds > 1 {
        out += LEGEND;
    }
    out
}

fn block(
    out: &mut String,
    measure: &str,
    confidence: f64,
    means: &[&Mean],
    differences: &[&Difference],
) {
    let interval = format!("{} % interval", confidence * 100.0);
    let width = means.iter().map(|mean| mean.policy.chars().count()).fold(NAME, usize::max);
    let _ = writeln!(out, "\n{measure:width$} {:>10} {interval:>24}  differs from", "mean");
    for mean in means {
        let Estimate { mean: value, low, high, .. } = mean.estimate;
        let interval = match (low, high) {
            (Some(low), Some(high)) => {
                format!("{}..{}", number(measure, low), number(measure, high))
            }
            _ => String::new(),
        };
        let other = |difference: &&&Difference| match &mean.policy {
            policy if *policy == difference.policy => Some(difference.minus.clone()),
            policy if *policy == difference.minus => Some(difference.policy.clone()),
            _ => None,
        };
        let significant = differences.iter().filter(|difference| difference.significant);
        let others: Vec<String> = significant.filter_map(|d| other(&d)).collect();
        let others = match others.len() + 1 {
            1 => String::new(),
            all if all == means.len() => "all".to_string(),
            _ => others.join(", "),
        };
        let value = number(measure, value);
        let policy = &mean.policy;
        let line = format!("{policy:width$} {value:>10} {interval:>24}  {others}");
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

/// A value of `measure`; lengths of time with a unit.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // for people
fn number(measure: &str, value: f64) -> String {
    if !measure.ends_with("_ns") {
        return format!("{value:.3}");
    }
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", format_duration(value.abs().round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_differs_from_whom_is_told() {
        let sweep = Sweep::parse(
            r#"
            policies = ["gr3", "lottery", "wfq"]
            seeds = 5
            measures = ["error_max", "wakeup_p99_ns"]
            [workload]
            duration = "1s"
            [[workload.task]]
            count = 3
            "#,
        )
        .expect("a sweep");
        let rows: Vec<_> = (0..sweep.runs()).map(|run| sweep.execute(run)).collect();
        let text = summary_table(&sweep, &sweep.summarize(&rows));
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).expect(start);
        assert!(line("lottery").ends_with("  all"), "{text}");
        assert!(
            line("gr3 ").ends_with("  lottery") && line("wfq ").ends_with("  lottery"),
            "{text}"
        );
        assert!(line("error_max").contains("95 % interval"), "{text}");
    }
}

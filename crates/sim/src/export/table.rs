//! Tables for people.

use std::fmt::Write as _;

use crate::outcome::{GroupOutcome, Outcome};
use crate::workload::format_duration;

/// Groups that a table shows.
const MAX_GROUPS: usize = 40;
const NAME: usize = 20;

/// What `policy` made of a workload: a line a group, and what the machine did.
#[must_use]
pub fn table(policy: &str, outcome: &Outcome) -> String {
    let mut out = heading(policy, outcome);
    let _ = writeln!(
        out,
        "{:NAME$} {:>6} {:>10} {:^19} {:^17} {:^26}",
        "", "", "", "cpus", "error, quanta", "waking up to running"
    );
    let _ = writeln!(
        out,
        "{:NAME$} {:>6} {:>10} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "group",
        "tasks",
        "weight",
        "ideal",
        "received",
        "behind",
        "ahead",
        "median",
        "99 %",
        "longest"
    );
    for group in outcome.groups.iter().take(MAX_GROUPS) {
        let _ = writeln!(
            out,
            "{} {:>6} {:>10} {:>9.4} {:>9.4} {:>8.2} {:>8.2} {:>8} {:>8} {:>8}",
            fit(&group.name),
            group.tasks,
            group.weight,
            group.service.ideal_share,
            group.service.share,
            group.errors.error_min,
            group.errors.error_max,
            format_duration(group.waits.wakeup_p50_ns),
            format_duration(group.waits.wakeup_p99_ns),
            format_duration(group.waits.wakeup_max_ns),
        );
    }
    more(&mut out, outcome.groups.len(), MAX_GROUPS, "groups");
    let _ = writeln!(out, "\n{}", machine(outcome));
    out
}

fn heading(policy: &str, outcome: &Outcome) -> String {
    let plural = if outcome.cpus == 1 { "" } else { "s" };
    format!(
        "{policy} on {} cpu{plural} for {}, quantum {}, seed {}\n\n",
        outcome.cpus,
        format_duration(outcome.duration_ns),
        format_duration(outcome.quantum_ns),
        outcome.seed
    )
}

fn machine(outcome: &Outcome) -> String {
    let totals = &outcome.totals;
    format!(
        "{:.0} switches and {:.0} migrations a second ({:.2} % of the time), cpus idle {:.1} % \
         ({:.2} % although a task waited)",
        per_second(totals.switches, outcome),
        per_second(totals.migrations, outcome),
        percent(totals.overhead_ns, outcome),
        percent(totals.idle_ns, outcome),
        percent(totals.idle_while_waiting_ns, outcome),
    )
}

#[allow(clippy::cast_precision_loss)]
fn per_second(count: u64, outcome: &Outcome) -> f64 {
    count as f64 * 1e9 / outcome.duration_ns.max(1) as f64
}

/// Of the time of all cpus.
#[allow(clippy::cast_precision_loss)]
fn percent(time_ns: u64, outcome: &Outcome) -> f64 {
    100.0 * time_ns as f64 / (outcome.duration_ns.max(1) as f64 * outcome.cpus as f64)
}

fn more(out: &mut String, all: usize, shown: usize, what: &str) {
    if let Some(more) = all.checked_sub(shown).filter(|&more| more > 0) {
        let _ = writeln!(out, "… and {more} more {what} (--format json has them all)");
    }
}

fn fit(name: &str) -> String {
    if name.chars().count() <= NAME {
        return format!("{name:NAME$}");
    }
    name.chars().take(NAME - 1).chain(['…']).collect()
}

/// What the numbers of a comparison say.
const LEGEND: &str = "
behind, ahead: furthest that any task was from the ideal machine's service; nearer to 0 is better
least: what the group that got least received, in percent of its due; 100 is fair
wasted: cpus idled although a task waited that could have used them
";

/// The outcome of each policy, or why it has none.
pub type Compared = (String, Result<Outcome, String>);

/// Policies side by side: fairness and cost, then what each group got and how long it waited.
#[must_use]
pub fn comparison(compared: &[Compared]) -> String {
    let mut out = String::new();
    let done: Vec<(&str, &Outcome)> = compared
        .iter()
        .filter_map(|(policy, outcome)| Some((policy.as_str(), outcome.as_ref().ok()?)))
        .collect();
    if let Some((_, first)) = done.first() {
        out += &heading("Compared", first);
        policies(&mut out, &done);
        out += LEGEND;
        let groups = "Received, in percent of the group's due";
        matrix(&mut out, groups, &done, |group| match of_due(group) {
            None => "–".into(),
            Some(percent) => format!("{percent:.1}"),
        });
        let latency = "From waking up to running, 99 % of the times at most";
        matrix(&mut out, latency, &done, |group| format_duration(group.waits.wakeup_p99_ns));
    }
    left_out(&mut out, compared);
    out
}

/// Who could not take part, a line for each reason.
fn left_out(out: &mut String, compared: &[Compared]) {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for (policy, outcome) in compared {
        let Err(reason) = outcome else { continue };
        // The same reason, but for the name that it begins with.
        let reason = match reason.strip_prefix(policy.as_str()) {
            Some(rest) => format!("each{rest}"),
            None => reason.clone(),
        };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, policies)) => policies.push(policy),
            None => reasons.push((reason, vec![policy])),
        }
    }
    for (reason, policies) in reasons {
        let _ = writeln!(out, "\nNot compared: {} ({reason})", policies.join(", "));
    }
}

fn policies(out: &mut String, done: &[(&str, &Outcome)]) {
    let _ = writeln!(
        out,
        "{:NAME$} {:^17} {:^6} {:^26} {:^21} {:^14}",
        "", "error, quanta", "due, %", "waking up to running", "a second", "cpus idle, %"
    );
    let _ = writeln!(
        out,
        "{:NAME$} {:>8} {:>8} {:>6} {:>8} {:>8} {:>8} {:>9} {:>11} {:>6} {:>7}",
        "policy",
        "behind",
        "ahead",
        "least",
        "median",
        "99 %",
        "longest",
        "switches",
        "migrations",
        "all",
        "wasted"
    );
    for (policy, outcome) in done {
        let _ = writeln!(
            out,
            "{} {:>8.2} {:>8.2} {:>6.1} {:>8} {:>8} {:>8} {:>9.0} {:>11.0} {:>6.1} {:>7.2}",
            fit(policy),
            outcome.errors.error_min,
            outcome.errors.error_max,
            least(outcome),
            format_duration(outcome.waits.wakeup_p50_ns),
            format_duration(outcome.waits.wakeup_p99_ns),
            format_duration(outcome.waits.wakeup_max_ns),
            per_second(outcome.totals.switches, outcome),
            per_second(outcome.totals.migrations, outcome),
            percent(outcome.totals.idle_ns, outcome),
            percent(outcome.totals.idle_while_waiting_ns, outcome),
        );
    }
}

/// What a group received, in percent of what it was entitled to, if that is anything.
fn of_due(group: &GroupOutcome) -> Option<f64> {
    let due = group.service.ideal_ns > 0;
    due.then(|| 100.0 * group.service.share / group.service.ideal_share)
}

/// What the group received that got least.
fn least(outcome: &Outcome) -> f64 {
    let least = outcome.groups.iter().filter_map(of_due).fold(f64::INFINITY, f64::min);
    if least.is_finite() { least } else { 100.0 }
}

/// One line a group, one column a policy.
fn matrix(
    out: &mut String,
    title: &str,
    done: &[(&str, &Outcome)],
    cell: impl Fn(&GroupOutcome) -> String,
) {
    let _ = write!(out, "\n{title}\n{:NAME$} {:>6} {:>10}", "group", "tasks", "weight");
    for (policy, _) in done {
        let _ = write!(out, " {:>9}", policy.chars().take(9).collect::<String>());
    }
    let groups = done.first().map_or(0, |(_, outcome)| outcome.groups.len());
    for index in 0..groups.min(MAX_GROUPS) {
        let group = &done[0].1.groups[index];
        let _ = write!(out, "\n{} {:>6} {:>10}", fit(&group.name), group.tasks, group.weight);
        for (_, outcome) in done {
            let _ = write!(out, " {:>9}", cell(&outcome.groups[index]));
        }
    }
    out.push('\n');
    more(out, groups, MAX_GROUPS, "groups");
}

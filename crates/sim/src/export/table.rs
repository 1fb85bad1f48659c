//! Tables for people.

use std::fmt::Write as _;

use crate::outcome::{GroupOutcome, Outcome};
use crate::workload::{Arrivals, format_duration};

mod tree;

/// Groups that a table shows.
const MAX_GROUPS: usize = 40;
const NAME: usize = 20;
/// Of a policy, at least; more if its name is longer.
const COLUMN: usize = 11;

/// What stands below the tables if a group is marked in them.
const MARK: &str = "* waits for other tasks: it asks for work when it does so in the \
    schedule; alone it never would";

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
    let listed = tree::lines(outcome);
    for line in listed.iter().take(MAX_GROUPS) {
        let group = match line.what {
            tree::What::Cgroup(cgroup) => {
                out += &tree::cgroup(line.depth, cgroup);
                continue;
            }
            tree::What::Group(group) => group,
        };
        let _ = writeln!(
            out,
            "{} {:>6} {:>10} {:>9.4} {:>9.4} {:>8.2} {:>8.2} {:>8} {:>8} {:>8}",
            fit(&tree::indented(line.depth, &label(group))),
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
    more(&mut out, listed.len(), MAX_GROUPS, "groups");
    jobs(&mut out, outcome);
    mark(&mut out, outcome);
    let _ = writeln!(out, "\n{}", machine(outcome));
    out
}

/// True if it does something between two sleeps.
fn has_jobs(group: &GroupOutcome) -> bool {
    let counts = group.jobs.counts;
    counts.jobs_done + counts.jobs_missed + counts.ideal_jobs_done > 0
}

/// The jobs of the groups that have some, beside those in the ideal.
fn jobs(out: &mut String, outcome: &Outcome) {
    // The ideal of jobs knows no cgroups.
    if !outcome.cgroups.is_empty() || !outcome.groups.iter().any(has_jobs) {
        return;
    }
    let _ = writeln!(
        out,
        "\n{:NAME$} {:^26} {:^26} {:^35}\n{:NAME$} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} \
         {:>8} {:>8}",
        "",
        "jobs",
        "response",
        "in the ideal",
        "group",
        "asked",
        "done",
        "missed",
        "median",
        "99 %",
        "longest",
        "missed",
        "median",
        "99 %",
        "longest"
    );
    for group in outcome.groups.iter().filter(|group| has_jobs(group)).take(MAX_GROUPS) {
        let (counts, took) = (&group.jobs.counts, &group.jobs.responses);
        let _ = writeln!(
            out,
            "{} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
            fit(&label(group)),
            counts.jobs_asked,
            counts.jobs_done,
            counts.jobs_missed,
            format_duration(took.response_p50_ns),
            format_duration(took.response_p99_ns),
            format_duration(took.response_max_ns),
            counts.ideal_jobs_missed,
            format_duration(took.ideal_response_p50_ns),
            format_duration(took.ideal_response_p99_ns),
            format_duration(took.ideal_response_max_ns),
        );
    }
    let groups = outcome.groups.iter().filter(|group| has_jobs(group)).count();
    more(out, groups, MAX_GROUPS, "groups");
}

fn mark(out: &mut String, outcome: &Outcome) {
    if has_observed(outcome) {
        let _ = writeln!(out, "{MARK}");
    }
}

fn has_observed(outcome: &Outcome) -> bool {
    outcome.groups.iter().any(|group| group.arrivals == Arrivals::Observed)
}

/// The name of a group, and a mark if it asks as in the schedule.
fn label(group: &GroupOutcome) -> String {
    match group.arrivals {
        Arrivals::Solo => group.name.clone(),
        Arrivals::Observed => format!("{}*", group.name),
    }
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

/// `name` padded, or cut, to its column.
fn fit(name: &str) -> String {
    if name.chars().count() <= NAME {
        return format!("{name:NAME$}");
    }
    name.chars().take(NAME - 1).chain(['…']).collect()
}

/// What the ideal of a comparison is, unless it follows the schedule.
const SAME_IDEAL: &str = "
The ideal is the same for all: fluid GMS fed with what each task would ask for alone, on a cpu of its own
";
const IDEAL_OF_CGROUPS: &str = "
The ideal is of each policy's own schedule: hierarchical GMS of the tasks that are runnable in it
";
const IDEAL_OF_WAITS: &str = "
The ideal is of each policy's own schedule: fluid GMS fed with what each task would ask for alone, and those
marked * as they ask in it
";

/// What the numbers of a comparison say.
const LEGEND: &str = "\
behind, ahead: furthest that any task was from the ideal's service; nearer to 0 is better
least: what the group that got least received, in percent of the ideal's service; 100 is fair
missed: jobs neither done nor being done, in percent of those asked for
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
        out += ideal(first);
        out += LEGEND;
        mark(&mut out, first);
        matrices(&mut out, &done);
    }
    let failed =
        |(policy, outcome): &'_ Compared| Some((policy.clone(), outcome.as_ref().err()?.clone()));
    left_out(&mut out, compared.iter().filter_map(failed));
    out
}

/// Which ideal policies are held against in a workload that had this outcome.
fn ideal(outcome: &Outcome) -> &'static str {
    match has_observed(outcome) {
        _ if !outcome.cgroups.is_empty() => IDEAL_OF_CGROUPS,
        true => IDEAL_OF_WAITS,
        false => SAME_IDEAL,
    }
}

/// By group and policy.
fn matrices(out: &mut String, done: &[(&str, &Outcome)]) {
    let title = "Received, in percent of the ideal's service";
    matrix(out, title, done, None, |group| match group.of_ideal_percent() {
        None => "–".into(),
        Some(percent) => format!("{percent:.1}"),
    });
    if done.iter().any(|(_, outcome)| outcome.groups.iter().any(has_jobs)) {
        let part = |part: u64, group: &GroupOutcome| match has_jobs(group) {
            false => "–".into(),
            true => format!("{:.1}", part_of(part, group.jobs.counts.jobs_asked)),
        };
        let ideal = |group: &GroupOutcome| part(group.jobs.counts.ideal_jobs_missed, group);
        let title = "Jobs missed, in percent of those asked for";
        matrix(out, title, done, Some(&ideal), |group| part(group.jobs.counts.jobs_missed, group));
        let time = |ns: u64, group: &GroupOutcome| match has_jobs(group) {
            false => "–".into(),
            true => format_duration(ns),
        };
        let ideal = |group: &GroupOutcome| time(group.jobs.responses.ideal_response_p99_ns, group);
        let title = "Response times of jobs, 99 % at most";
        matrix(out, title, done, Some(&ideal), |group| {
            time(group.jobs.responses.response_p99_ns, group)
        });
    }
    let title = "From waking up to running, 99 % of the times at most";
    matrix(out, title, done, None, |group| format_duration(group.waits.wakeup_p99_ns));
}

#[allow(clippy::cast_precision_loss)]
fn part_of(part: u64, all: u64) -> f64 {
    100.0 * part as f64 / all.max(1) as f64
}

/// Policies that could not take part and why, a line for each reason.
pub(super) fn left_out(out: &mut String, failed: impl Iterator<Item = (String, String)>) {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for (policy, reason) in failed {
        // The same reason, but for the name that it begins with.
        let reason = match reason.strip_prefix(policy.as_str()) {
            Some(rest) => format!("each{rest}"),
            None => reason,
        };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, policies)) if policies.contains(&policy) => {}
            Some((_, policies)) => policies.push(policy),
            None => reasons.push((reason, vec![policy])),
        }
    }
    for (reason, policies) in reasons {
        let _ = writeln!(out, "\nNot compared: {} ({reason})", policies.join(", "));
    }
}

fn policies(out: &mut String, done: &[(&str, &Outcome)]) {
    let name = done.iter().map(|(policy, _)| policy.chars().count()).fold(NAME, usize::max);
    let _ = writeln!(
        out,
        "{:name$} {:^17} {:^6} {:^6} {:^26} {:^21} {:^14}",
        "", "error, quanta", "%", "%", "waking up to running", "a second", "cpus idle, %"
    );
    let _ = writeln!(
        out,
        "{:name$} {:>8} {:>8} {:>6} {:>6} {:>8} {:>8} {:>8} {:>9} {:>11} {:>6} {:>7}",
        "policy",
        "behind",
        "ahead",
        "least",
        "missed",
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
            "{policy:name$} {:>8.2} {:>8.2} {:>6.1} {:>6.1} {:>8} {:>8} {:>8} {:>9.0} {:>11.0} {:>6.1} \
             {:>7.2}",
            outcome.errors.error_min,
            outcome.errors.error_max,
            outcome.least_percent(),
            outcome.jobs.counts.missed_percent().unwrap_or(0.0),
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

/// One line a group, one column a policy, and before them one for the ideal if `ideal` says what
/// stands there.
fn matrix(
    out: &mut String,
    title: &str,
    done: &[(&str, &Outcome)],
    ideal: Option<&dyn Fn(&GroupOutcome) -> String>,
    cell: impl Fn(&GroupOutcome) -> String,
) {
    let _ = write!(out, "\n{title}\n{:NAME$} {:>6} {:>10}", "group", "tasks", "weight");
    if ideal.is_some() {
        let _ = write!(out, " {:>COLUMN$}", "ideal");
    }
    for (policy, _) in done {
        let _ = write!(out, " {policy:>COLUMN$}");
    }
    let groups = done.first().map_or(0, |(_, outcome)| outcome.groups.len());
    for index in 0..groups.min(MAX_GROUPS) {
        let group = &done[0].1.groups[index];
        let _ = write!(out, "\n{} {:>6} {:>10}", fit(&label(group)), group.tasks, group.weight);
        if let Some(ideal) = ideal {
            let _ = write!(out, " {:>COLUMN$}", ideal(group));
        }
        for (policy, outcome) in done {
            let width = policy.chars().count().max(COLUMN);
            let _ = write!(out, " {:>width$}", cell(&outcome.groups[index]));
        }
    }
    out.push('\n');
    more(out, groups, MAX_GROUPS, "groups");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::parse_toml;

    const WORKLOAD: &str = "duration = '1s'
        [[task]]
        name = 'a'
        phases = [{ run = '2ms' }, { sleep = '9ms' }]
        [[task]]
        name = 'a longer name than fits'
        phases = [{ run = '1ms' }, { sleep = '4ms' }]";

    fn outcome(text: &str, policy: &str) -> Outcome {
        crate::simulate(&parse_toml(text).expect("a workload"), policy).expect("it runs")
    }

    #[test]
    fn columns_end_alike() {
        let text = table("gr3", &outcome(WORKLOAD, "gr3"));
        let (mut tables, mut widths) = (text.split("\n\n"), Vec::new());
        while let Some(part) = tables.find(|part| part.contains("\ngroup ")) {
            let lines = part.lines().skip_while(|line| !line.starts_with("group "));
            widths.push(lines.map(|line| line.chars().count()).collect::<Vec<_>>());
        }
        assert_eq!(widths.len(), 2, "{text}");
        for width in widths {
            assert!(width.len() == 3 && width.iter().all(|&w| w == width[0]), "{text}");
        }
    }

    fn compared(text: &str, policies: &[&str]) -> String {
        let one = |policy: &&str| (policy.to_string(), Ok(outcome(text, policy)));
        comparison(&policies.iter().map(one).collect::<Vec<Compared>>())
    }

    #[test]
    fn no_two_policies_have_the_same_heading() {
        let policies =
            ["gr3", "gr3:sleepers=turns", "gr3:sleepers=paper", "gr3:sleepers=corrected"];
        let text = compared(WORKLOAD, &policies);
        for policy in policies {
            assert!(text.lines().any(|line| line.starts_with(&format!("{policy} "))), "{text}");
        }
        let headings = text.lines().filter(|line| line.starts_with("group "));
        for heading in headings {
            assert!(
                policies.iter().all(|policy| heading.contains(&format!(" {policy}"))),
                "{text}"
            );
        }
        let matrix =
            text.split("\n\n").find(|part| part.starts_with("Received")).expect("it is there");
        let widths: Vec<usize> = matrix.lines().skip(1).map(|line| line.chars().count()).collect();
        assert!(widths.len() == 3 && widths.iter().all(|&width| width == widths[0]), "{matrix}");
    }

    #[test]
    fn whose_ideal_it_is_is_told() {
        let own = "The ideal is of each policy's own schedule";
        let alone = compared(WORKLOAD, &["gr3"]);
        assert!(alone.contains("The ideal is the same for all") && !alone.contains(own), "{alone}");
        let waits = WORKLOAD
            .replace("{ run = '2ms' }", "{ lock = 'l' }, { run = '2ms' }, { unlock = 'l' }");
        let waits = compared(&waits, &["gr3"]);
        assert!(waits.contains(own) && !waits.contains("the same for all"), "{waits}");
        let tree = WORKLOAD.replace("phases", "cgroup = 'c'\nphases") + "\n[[cgroup]]\nname = 'c'";
        let tree = compared(&tree, &["gr3"]);
        assert!(tree.contains(own) && !tree.contains("the same for all"), "{tree}");
    }
}

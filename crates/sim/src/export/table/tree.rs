//! Cgroups above their tasks.

use crate::outcome::{CgroupOutcome, GroupOutcome, Outcome};

pub(super) enum What<'o> {
    Cgroup(&'o CgroupOutcome),
    Group(&'o GroupOutcome),
}

/// A line of the table, so many levels below the root.
pub(super) struct Line<'o> {
    pub(super) depth: usize,
    pub(super) what: What<'o>,
}

/// The groups of tasks, below the cgroups that they arrived in.
pub(super) fn lines(outcome: &Outcome) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    below(outcome, None, 0, &mut lines);
    lines
}

fn below<'o>(outcome: &'o Outcome, node: Option<&str>, depth: usize, lines: &mut Vec<Line<'o>>) {
    let groups = outcome.groups.iter().filter(|group| group.cgroup.as_deref() == node);
    lines.extend(groups.map(|group| Line { depth, what: What::Group(group) }));
    for cgroup in outcome.cgroups.iter().filter(|cgroup| cgroup.parent.as_deref() == node) {
        lines.push(Line { depth, what: What::Cgroup(cgroup) });
        below(outcome, Some(&cgroup.name), depth + 1, lines);
    }
}

pub(super) fn indented(depth: usize, name: &str) -> String {
    format!("{:width$}{name}", "", width = 2 * depth)
}

pub(super) fn cgroup(depth: usize, cgroup: &CgroupOutcome) -> String {
    format!(
        "{} {:>6} {:>10} {:>9.4} {:>9.4} {:>8.2} {:>8.2}\n",
        super::fit(&indented(depth, &format!("{}/", cgroup.name))),
        "",
        cgroup.weight,
        cgroup.service.ideal_share,
        cgroup.service.share,
        cgroup.errors.error_min,
        cgroup.errors.error_max,
    )
}

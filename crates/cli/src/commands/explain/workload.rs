//! A workload file, as if all of its tasks ran at once.

use prorata::hierarchy::{Hierarchy, NodeId, Place};
use prorata_sim::workload::Workload;

use super::tree::{Explained, Line, Tree};

/// What each cgroup and group of tasks of `workload` is due, each below the one that it is in.
pub(super) fn explain(workload: &Workload) -> Vec<Line> {
    let cgroups = &workload.cgroups;
    let mut tree = Tree::new();
    let mut nodes = vec![Hierarchy::ROOT; cgroups.nodes.len() + 1];
    for node in cgroups.from_the_root() {
        let cgroup = cgroups.get(node).expect("it is not the root");
        nodes[node.index()] = tree.add_cgroup(nodes[cgroup.parent.index()], cgroup.weight);
    }
    let mut groups = Vec::new();
    let mut members = vec![Vec::new(); nodes.len()];
    for (index, group) in workload.groups.iter().enumerate() {
        let home = cgroups.home(index).index();
        if group.count > 0 {
            members[home].push(index);
        }
        let home = nodes[home];
        let tasks = (0..group.count).map(|_| tree.add_task(home, group.weight));
        // They are all alike: the first stands for them.
        groups.push(tasks.fold(None, |first, task| first.or(Some(task))));
    }
    let explained = tree.explain(workload.machine.cpus);
    Lines { workload, explained, nodes, members, groups }.all()
}

struct Lines<'w> {
    workload: &'w Workload,
    explained: Explained,
    /// By node.
    nodes: Vec<Place>,
    /// By node, the groups that have tasks in it.
    members: Vec<Vec<usize>>,
    /// By group, its first task, if it has any.
    groups: Vec<Option<Place>>,
}

impl Lines<'_> {
    fn all(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        self.tasks_of(NodeId::ROOT, 1, &mut lines);
        for (depth, node) in self.workload.cgroups.below(NodeId::ROOT) {
            let name = format!("{}/", self.workload.cgroups.name(node));
            lines.push(self.explained.line(name, depth, true, self.nodes[node.index()]));
            self.tasks_of(node, depth + 1, &mut lines);
        }
        lines
    }

    fn tasks_of(&self, node: NodeId, depth: usize, lines: &mut Vec<Line>) {
        for &index in &self.members[node.index()] {
            let Some(place) = self.groups[index] else { continue };
            let group = &self.workload.groups[index];
            let line = self.explained.line(group.name.clone(), depth, false, place);
            lines.push(Line { tasks: group.count, ..line });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use prorata_sim::workload::parse_toml;

    use super::*;

    /// So many tasks, each with a table of its own, in `cgroups` cgroups.
    fn lines(tasks: usize, cgroups: usize) -> Vec<Line> {
        let mut text = String::from("[machine]\ncpus = 64\n");
        for cgroup in 0..cgroups {
            let _ = writeln!(text, "[[cgroup]]\nname = 'c{cgroup}'\nweight = {}", 1 + cgroup % 999);
        }
        for task in 0..tasks {
            let _ = writeln!(text, "[[task]]\nweight = {}", 1 + task % 999);
            if cgroups > 0 {
                let _ = writeln!(text, "cgroup = 'c{}'", task % cgroups);
            }
        }
        explain(&parse_toml(&text).expect("a workload"))
    }

    /// Takes minutes where each line looks at all others.
    #[test]
    fn many_tasks_and_cgroups_take_a_moment() {
        for cgroups in [0, 30_000] {
            let lines = lines(60_000, cgroups);
            assert_eq!(lines.len(), 60_000 + cgroups);
            let due: f64 = lines.iter().filter(|l| !l.is_cgroup).map(|l| l.due_cpus).sum();
            assert!((due - 64.0).abs() < 1e-6, "{due}");
        }
    }

    #[test]
    fn lines_say_why() {
        let whys = |lines: Vec<Line>| lines.into_iter().map(|line| line.why).collect::<Vec<_>>();
        let text = "[machine]\ncpus = 2\n[[task]]\nweight = 9\n[[task]]\nweight = 2\n[[task]]";
        let why = whys(explain(&parse_toml(text).expect("a workload")));
        let shared = "of 3 of 1 cpus, what its siblings cannot use";
        let capped = "all that it can use; its weight would give it 3".to_owned();
        assert_eq!(why, [capped, format!("2 {shared}"), format!("1 {shared}")]);
    }
}

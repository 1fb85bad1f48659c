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
    for (index, group) in workload.groups.iter().enumerate() {
        let home = nodes[cgroups.home(index).index()];
        let tasks = (0..group.count).map(|_| tree.add_task(home, group.weight));
        // They are all alike: the first stands for them.
        groups.push(tasks.fold(None, |first, task| first.or(Some(task))));
    }
    Lines { workload, explained: tree.explain(workload.machine.cpus), nodes, groups }.all()
}

struct Lines<'w> {
    workload: &'w Workload,
    explained: Explained,
    /// By node.
    nodes: Vec<Place>,
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
        for (index, group) in self.workload.groups.iter().enumerate() {
            let first = self.groups[index].filter(|_| self.workload.cgroups.home(index) == node);
            if let Some(place) = first {
                let line = self.explained.line(group.name.clone(), depth, false, place);
                lines.push(Line { tasks: group.count, ..line });
            }
        }
    }
}

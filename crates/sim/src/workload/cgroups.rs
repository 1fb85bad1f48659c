//! Cgroups: a tree of weights above the tasks.

use std::collections::BTreeMap;

use prorata::Weight;
use prorata::hierarchy::NodeId;

use super::WorkloadError;
use super::numbers::{Whole, weight_of};
use super::resources::check_name;

/// The tree of a workload; without cgroups, all tasks compete with each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cgroups {
    /// Node i + 1 of the tree is the cgroup of index i.
    pub nodes: Vec<Cgroup>,
    /// Where the tasks of each group are when they arrive, by index of the group; the root if there
    /// is no entry.
    pub homes: Vec<NodeId>,
}

/// A cgroup when the simulation begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Cgroup {
    /// Its name.
    pub name: String,
    /// Its weight beside its siblings.
    pub weight: Weight,
    /// What it is in.
    pub parent: NodeId,
}

impl Cgroups {
    /// What users call the root.
    pub const ROOT: &'static str = "/";

    /// Most levels below the root.
    pub const MAX_DEPTH: usize = 64;

    /// Where the tasks of the group of index `group` are when they arrive.
    #[must_use]
    pub fn home(&self, group: usize) -> NodeId {
        self.homes.get(group).copied().unwrap_or(NodeId::ROOT)
    }

    /// The cgroup of a node that is not the root.
    #[must_use]
    pub fn get(&self, node: NodeId) -> Option<&Cgroup> {
        self.nodes.get(node.index().checked_sub(1)?)
    }

    /// The name of a node.
    #[must_use]
    pub fn name(&self, node: NodeId) -> &str {
        self.get(node).map_or(Cgroups::ROOT, |cgroup| &cgroup.name)
    }

    /// The nodes other than the root, each after its parent.
    ///
    /// # Panics
    /// When it is no tree: see [`Workload::check`](super::Workload::check).
    pub fn from_the_root(&self) -> impl Iterator<Item = NodeId> {
        let mut order = self.below(NodeId::ROOT);
        order.sort_by_key(|&(depth, _)| depth);
        assert_eq!(order.len(), self.nodes.len(), "every cgroup is below the root");
        order.into_iter().map(|(_, node)| node)
    }

    /// The nodes below `node` in the order of a directory listing, each with its depth below it.
    #[must_use]
    pub fn below(&self, node: NodeId) -> Vec<(usize, NodeId)> {
        let mut children = vec![Vec::new(); self.nodes.len() + 1];
        for (child, cgroup) in (1..).map(NodeId).zip(&self.nodes) {
            if let Some(children) = children.get_mut(cgroup.parent.index()) {
                children.push(child);
            }
        }
        let mut listed = Vec::new();
        let mut stack = vec![(0, node)];
        while let Some((depth, node)) = stack.pop() {
            if depth > 0 {
                listed.push((depth, node));
            }
            // Nobody is in two: each list is needed once.
            let below = std::mem::take(&mut children[node.index()]);
            stack.extend(below.into_iter().rev().map(|child| (depth + 1, child)));
        }
        listed
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let exists = |node: &NodeId| node.index() <= self.nodes.len();
        let parents = self.nodes.iter().map(|cgroup| cgroup.parent);
        if let Some(node) = self.homes.iter().copied().chain(parents).find(|node| !exists(node)) {
            return Err(format!("there is no cgroup of index {}", node.0 - 1));
        }
        let listed = self.below(NodeId::ROOT);
        if let Some((_, node)) = listed.iter().find(|(depth, _)| *depth > Cgroups::MAX_DEPTH) {
            let (name, most) = (self.name(*node), Cgroups::MAX_DEPTH);
            return Err(format!(
                "cgroup '{name}' is more than {most} levels below the root: give it a parent nearer to that"
            ));
        }
        let mut is_listed = vec![false; self.nodes.len() + 1];
        listed.iter().for_each(|(_, node)| is_listed[node.index()] = true);
        let lost = |node: &NodeId| !is_listed[node.index()];
        if let Some(node) = (1..).map(NodeId).take(self.nodes.len()).find(lost) {
            return Err(format!(
                "cgroup '{}' is in itself: give it, or a parent of it, another parent",
                self.name(node)
            ));
        }
        Ok(())
    }
}

/// A cgroup as it was written.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CgroupTable {
    name: Option<String>,
    #[serde(default = "default_weight")]
    weight: Whole<i64>,
    parent: Option<String>,
}

/// What Linux gives a cgroup that nobody gave a weight.
fn default_weight() -> Whole<i64> {
    Whole(100)
}

/// The cgroups of a file, by name.
#[derive(Default)]
pub(super) struct CgroupNames(BTreeMap<String, NodeId>);

impl CgroupNames {
    /// The node called `name`.
    pub(super) fn find(&self, name: &str) -> Result<NodeId, String> {
        if name == Cgroups::ROOT {
            return Ok(NodeId::ROOT);
        }
        match self.0.get(name) {
            Some(&node) => Ok(node),
            None => Err(format!(
                "no cgroup is called '{name}': write a [[cgroup]] of this name, or '{}' for the root",
                Cgroups::ROOT
            )),
        }
    }
}

pub(super) fn cgroups(tables: &[CgroupTable]) -> Result<(Cgroups, CgroupNames), WorkloadError> {
    let mut names = CgroupNames::default();
    for ((index, table), node) in tables.iter().enumerate().zip((1..).map(NodeId)) {
        let wrong = |message: String| WorkloadError::new(format!("cgroup[{index}].name"), message);
        let none = || wrong("a cgroup needs a name: write name = \"…\"".into());
        let name = table.name.as_ref().ok_or_else(none)?;
        check_name(name).map_err(wrong)?;
        if name == Cgroups::ROOT {
            return Err(wrong(format!("'{name}' is the root: choose another name")));
        }
        if names.find(name).is_ok() {
            let message = "already: give each a name of its own";
            return Err(wrong(format!("another cgroup is called '{name}' {message}")));
        }
        names.0.insert(name.clone(), node);
    }
    let mut cgroups = Cgroups::default();
    for (index, table) in tables.iter().enumerate() {
        let at = |key: &str| format!("cgroup[{index}].{key}");
        let parent = names.find(table.parent.as_deref().unwrap_or(Cgroups::ROOT));
        let parent = parent.map_err(|message| WorkloadError::new(at("parent"), message))?;
        let weight = weight_of(table.weight.0, &at("weight"))?;
        let name = table.name.clone().unwrap_or_default();
        cgroups.nodes.push(Cgroup { name, weight, parent });
    }
    cgroups.check().map_err(|message| WorkloadError::new("cgroup", message))?;
    Ok((cgroups, names))
}

#[cfg(test)]
mod tests {
    use super::super::parse_toml;

    fn error(text: &str) -> String {
        parse_toml(text).expect_err(text).to_string()
    }

    #[test]
    fn errors_say_where_and_what() {
        let hog = "[[task]]\nname = 'hog'\n";
        let with = |cgroups: &str| error(&format!("{hog}{cgroups}"));
        assert!(with("cgroup = 'x'").starts_with("task[0].cgroup: no cgroup is called 'x'"));
        let own = with("[[cgroup]]\nname = 'a'\nparent = 'a'");
        assert!(own.starts_with("cgroup: cgroup 'a' is in itself"), "{own}");
        let circle = "[[cgroup]]\nname='a'\nparent='b'\n[[cgroup]]\nname='b'\nparent='a'";
        assert!(with(circle).contains("'a' is in itself"));
        let twice = with("[[cgroup]]\nname = 'a'\n[[cgroup]]\nname = 'a'");
        assert!(twice.starts_with("cgroup[1].name: another cgroup is called 'a'"), "{twice}");
        assert!(with("[[cgroup]]\nname = '/'").contains("cgroup[0].name"));
        assert!(with("[[cgroup]]\nname = 'a'\nparent = 'b'").starts_with("cgroup[0].parent"));
        assert!(with("[[cgroup]]\nname = 'a'\nweight = 0").starts_with("cgroup[0].weight"));
        let phases = |phase: &str| with(&format!("phases = [{phase}, {{ run = '1ms' }}]"));
        assert!(phases("{ cgroup = 'x' }").starts_with("task[0].phases[0]: no cgroup"));
        assert!(phases("{ weight = 3, of = 'x' }").starts_with("task[0].phases[0]: no cgroup"));
        assert!(phases("{ weight = 3, of = '/' }").contains("the root has no weight"));
        assert!(phases("{ of = 'x' }").starts_with("task[0].phases[0]: a phase has"));
    }
}

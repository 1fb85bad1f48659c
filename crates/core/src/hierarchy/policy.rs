//! The verbs of a policy for trees, beside the seven of [`Policy`].

use crate::policy::{Nanos, Policy, TaskId, Weight};

/// A node of a tree: an index that the caller owns, as [`TaskId`] is. 0 is the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The root: always there, and where a task is that was placed nowhere else.
    pub const ROOT: NodeId = NodeId(0);

    /// The id as an index into a table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A policy that shares cpus among the nodes of a tree, and what each receives among the tasks and
/// nodes in it.
///
/// The seven verbs are those of [`Policy`]; [`add`](Policy::add) puts a task into the root. Nodes
/// come, go, move and change weight at any time, whatever the tasks in them do:
///
/// | event                      | calls                                   |
/// |----------------------------|-----------------------------------------|
/// | a cgroup is made           | `add_node(n, parent, w)`                |
/// | a task appears in it       | `add(t, w)`, `place(t, n)`              |
/// | a task moves, in any state | `place(t, m)`                           |
/// | its weight changes         | `set_node_weight(n, w)`                 |
/// | it moves with all in it    | `move_node(n, parent)`                  |
/// | it goes away, empty        | `remove_node(n)`                        |
pub trait TreePolicy: Policy {
    /// Makes `node` known, a child of `parent` with `weight`. May allocate.
    fn add_node(&mut self, node: NodeId, parent: NodeId, weight: Weight, now_ns: Nanos);

    /// Forgets `node`, in which there is neither a task nor a node. Its id may be added again.
    fn remove_node(&mut self, node: NodeId);

    /// Changes the weight of `node`.
    fn set_node_weight(&mut self, node: NodeId, weight: Weight, now_ns: Nanos);

    /// `node` is a child of `parent` from now on, which is not in it, with all that is in it.
    fn move_node(&mut self, node: NodeId, parent: NodeId, now_ns: Nanos);

    /// `task` is in `node` from now on, whatever its state. A running task keeps its cpu.
    fn place(&mut self, task: TaskId, node: NodeId, now_ns: Nanos);
}

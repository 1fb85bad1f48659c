//! The policy as the engine sees it: a policy for all tasks, or one for the tree that they are in, with
//! the errors of its tasks and cgroups.

use prorata::hierarchy::{Flat, Hierarchy, HierarchyErrors, NodeId, Place, TreePolicy};
use prorata::ideal::{Extremes, ServiceError};
use prorata::{CpuId, Nanos, Policy, TaskId, Weight};

use crate::workload::{Cgroups, Workload};

/// A policy with or without a tree.
pub(super) enum Scheduler<P> {
    /// No cgroups.
    Plain(P),
    Tree(Box<Tree<P>>),
}

impl<P: Policy> Scheduler<P> {
    pub(super) fn new(policy: P, workload: &Workload) -> Scheduler<P> {
        match workload.cgroups.nodes.is_empty() {
            true => Scheduler::Plain(policy),
            false => Scheduler::Tree(Box::new(Tree::new(policy, workload))),
        }
    }

    /// `task` comes, into its cgroup.
    pub(super) fn arrive(&mut self, task: TaskId, weight: Weight, now_ns: Nanos) {
        match self {
            Scheduler::Plain(policy) => policy.add(task, weight),
            Scheduler::Tree(tree) => tree.arrive(task, weight, now_ns),
        }
    }

    /// `task` is in the cgroup `node` from now on. Without a tree there is none to move to.
    pub(super) fn join(&mut self, task: TaskId, node: NodeId, now_ns: Nanos) {
        if let Scheduler::Tree(tree) = self {
            tree.policy.place(task, node, now_ns);
            tree.errors.move_to(tree.tasks[task.index()], tree.nodes[node.index()], now_ns);
        }
    }

    /// The cgroup `node` has `weight` from now on.
    pub(super) fn set_cgroup_weight(&mut self, node: NodeId, weight: Weight, now_ns: Nanos) {
        if let Scheduler::Tree(tree) = self {
            tree.policy.set_node_weight(node, weight, now_ns);
            let place = tree.nodes[node.index()];
            tree.errors.change(now_ns, |hierarchy| hierarchy.set_weight(place, weight));
        }
    }

    /// The simulation is over: what the tree gave to whom.
    pub(super) fn finish(&mut self, now_ns: Nanos) -> Option<Shares<'_>> {
        let Scheduler::Tree(tree) = self else { return None };
        let Tree { errors, nodes, tasks, .. } = &mut **tree;
        errors.finish(now_ns);
        Some(Shares { errors, nodes, tasks })
    }
}

/// A policy for a tree.
pub(super) struct Tree<P> {
    policy: Flat<P>,
    errors: HierarchyErrors,
    /// By node, the root first.
    nodes: Vec<Place>,
    /// By task; the root for those that have not come yet.
    tasks: Vec<Place>,
    /// By task: the cgroup that it is in when it arrives.
    homes: Vec<NodeId>,
}

impl<P: Policy> Tree<P> {
    fn new(policy: P, workload: &Workload) -> Tree<P> {
        let setup = workload.machine.setup(workload.seed);
        let cgroups = &workload.cgroups;
        let ids = workload.ids().enumerate();
        let homes = ids.flat_map(|(group, ids)| ids.map(move |_| cgroups.home(group)));
        let homes: Vec<NodeId> = homes.collect();
        let mut tree = Tree {
            policy: Flat::new(policy, &setup),
            errors: HierarchyErrors::new(setup.cpus),
            nodes: vec![Hierarchy::ROOT; cgroups.nodes.len() + 1],
            tasks: vec![Hierarchy::ROOT; homes.len()],
            homes,
        };
        tree.plant(cgroups);
        tree
    }

    fn arrive(&mut self, task: TaskId, weight: Weight, now_ns: Nanos) {
        self.policy.add(task, weight);
        let home = self.homes[task.index()];
        self.policy.place(task, home, now_ns);
        self.tasks[task.index()] = self.errors.add(self.nodes[home.index()], weight);
    }

    fn plant(&mut self, cgroups: &Cgroups) {
        for node in cgroups.from_the_root() {
            let cgroup = cgroups.get(node).expect("it is not the root");
            self.policy.add_node(node, cgroup.parent, cgroup.weight, 0);
            let parent = self.nodes[cgroup.parent.index()];
            self.nodes[node.index()] = self.errors.add(parent, cgroup.weight);
        }
    }
}

impl<P: Policy> Policy for Tree<P> {
    /// Before time begins.
    fn add(&mut self, task: TaskId, weight: Weight) {
        self.arrive(task, weight, 0);
    }

    /// What it received is kept, and the place for it.
    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        self.policy.remove(task, now_ns);
        self.errors.leave(self.tasks[task.index()], now_ns);
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, now_ns: Nanos) {
        self.policy.set_weight(task, weight, now_ns);
        let place = self.tasks[task.index()];
        self.errors.change(now_ns, |tree| tree.set_weight(place, weight));
    }

    fn wake(&mut self, task: TaskId, now_ns: Nanos) {
        self.policy.wake(task, now_ns);
        self.errors.wake(self.tasks[task.index()], now_ns);
    }

    fn block(&mut self, task: TaskId, now_ns: Nanos) {
        self.policy.block(task, now_ns);
        self.errors.block(self.tasks[task.index()], now_ns);
    }

    fn pick(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        let task = self.policy.pick(cpu, now_ns)?;
        self.errors.start(self.tasks[task.index()], now_ns);
        Some(task)
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        self.policy.charge(task, used_ns, now_ns);
        self.errors.stop(self.tasks[task.index()], now_ns);
    }

    fn interrupt(&mut self, now_ns: Nanos) -> Option<CpuId> {
        self.policy.interrupt(now_ns)
    }

    fn slice_ns(&self, task: TaskId) -> Option<Nanos> {
        self.policy.slice_ns(task)
    }
}

impl<P: Policy> Policy for Scheduler<P> {
    fn add(&mut self, task: TaskId, weight: Weight) {
        match self {
            Scheduler::Plain(policy) => policy.add(task, weight),
            Scheduler::Tree(tree) => tree.add(task, weight),
        }
    }

    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        match self {
            Scheduler::Plain(policy) => policy.remove(task, now_ns),
            Scheduler::Tree(tree) => tree.remove(task, now_ns),
        }
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, now_ns: Nanos) {
        match self {
            Scheduler::Plain(policy) => policy.set_weight(task, weight, now_ns),
            Scheduler::Tree(tree) => tree.set_weight(task, weight, now_ns),
        }
    }

    fn wake(&mut self, task: TaskId, now_ns: Nanos) {
        match self {
            Scheduler::Plain(policy) => policy.wake(task, now_ns),
            Scheduler::Tree(tree) => tree.wake(task, now_ns),
        }
    }

    fn block(&mut self, task: TaskId, now_ns: Nanos) {
        match self {
            Scheduler::Plain(policy) => policy.block(task, now_ns),
            Scheduler::Tree(tree) => tree.block(task, now_ns),
        }
    }

    #[inline]
    fn pick(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        match self {
            Scheduler::Plain(policy) => policy.pick(cpu, now_ns),
            Scheduler::Tree(tree) => tree.pick(cpu, now_ns),
        }
    }

    #[inline]
    fn charge(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        match self {
            Scheduler::Plain(policy) => policy.charge(task, used_ns, now_ns),
            Scheduler::Tree(tree) => tree.charge(task, used_ns, now_ns),
        }
    }

    #[inline]
    fn interrupt(&mut self, now_ns: Nanos) -> Option<CpuId> {
        match self {
            Scheduler::Plain(policy) => policy.interrupt(now_ns),
            Scheduler::Tree(tree) => tree.interrupt(now_ns),
        }
    }

    #[inline]
    fn slice_ns(&self, task: TaskId) -> Option<Nanos> {
        match self {
            Scheduler::Plain(policy) => policy.slice_ns(task),
            Scheduler::Tree(tree) => tree.slice_ns(task),
        }
    }
}

/// What a tree gave to its tasks and cgroups, and the ideal.
pub(crate) struct Shares<'t> {
    errors: &'t HierarchyErrors,
    nodes: &'t [Place],
    tasks: &'t [Place],
}

/// Received, the ideal, and the extremes of the error.
pub(crate) type Share = (Nanos, Nanos, Extremes<ServiceError>);

impl Shares<'_> {
    pub(crate) fn of_task(&self, task: TaskId) -> Share {
        match self.tasks[task.index()] {
            // It never came.
            Hierarchy::ROOT => (0, 0, Extremes::default()),
            place => self.of(place),
        }
    }

    pub(crate) fn of_cgroup(&self, node: NodeId) -> Share {
        self.of(self.nodes[node.index()])
    }

    /// The weight at the end.
    pub(crate) fn weight(&self, node: NodeId) -> Weight {
        self.errors.tree().weight(self.nodes[node.index()])
    }

    fn of(&self, place: Place) -> Share {
        (self.errors.used_ns(place), self.errors.ideal_ns(place), self.errors.extremes(place))
    }
}

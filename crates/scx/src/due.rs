//! What each cgroup is due: the ideal (hierarchical GMS, `prorata::hierarchy`) of the tasks that were
//! runnable, integrated over the changes of the tree as the scheduler tells of them (`bpf/group.h`).
//!
//! Between changes rates are constant. They are found anew when time passes after a change: from the
//! root down, siblings share what their parent has by weight, none more than a cpu for each runnable
//! task of its own. That looks at all cgroups that have any, so it is done only so often that it costs
//! about a hundredth of a cpu; of changes that come faster, the last in each [`LOOK_NS`] times the
//! members that were looked at counts for the whole time. Otherwise nothing is approximate but the
//! last digits of a floating-point number.
//!
//! Worked example, one cpu: cgroups a and b of weight 100, a task in each; b's sleeps from 4 to 10 ms.
//!
//! ```text
//!     4 ms   a and b are due 2 ms each
//!    10 ms   a 8 ms, b 2 ms
//! ```
//!
//! What a cgroup received and how long its tasks waited is counted by task, and belongs to the cgroup
//! in which the task was at that time; a cgroup that goes leaves it to its parent.

/// No member.
pub(crate) const NOWHERE: u32 = u32::MAX;
/// Levels of nodes below the root.
const DEPTH: usize = 16;
/// The number of the root as a node.
pub(crate) const ROOT: u32 = 0;
/// Rates count for at least so long, for each member that was looked at to find them.
pub(crate) const LOOK_NS: u64 = 1_000;

/// What a task is from a change on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    /// Its node, or [`NOWHERE`].
    pub(crate) node: u32,
    pub(crate) weight: u32,
    pub(crate) runnable: bool,
}

/// How long a task ran, and waited, in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) received_ns: u64,
    pub(crate) waited_ns: u64,
}

impl Spent {
    pub(crate) fn plus(self, more: Spent) -> Spent {
        Spent {
            received_ns: self.received_ns.wrapping_add(more.received_ns),
            waited_ns: self.waited_ns.wrapping_add(more.waited_ns),
        }
    }

    fn minus(self, less: Spent) -> Spent {
        Spent {
            received_ns: self.received_ns.wrapping_sub(less.received_ns),
            waited_ns: self.waited_ns.wrapping_sub(less.waited_ns),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Leaf {
    task: Task,
    /// Its place among the runnable tasks of its node.
    at: usize,
    /// What is counted already.
    counted: Spent,
}

/// A cgroup, with all below it unless it says otherwise.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The kernel's number of the cgroup.
    pub(crate) cgroup: u64,
    pub(crate) parent: u32,
    pub(crate) weight: u32,
    /// Runnable tasks.
    pub(crate) leaves: u32,
    pub(crate) due_ns: f64,
    /// By tasks in the cgroup itself, and in those below it that are gone.
    pub(crate) spent: Spent,
    /// Counted from then on.
    pub(crate) since_ns: u64,
    /// The weight of the members that have leaves, and which they are.
    competing: u64,
    nodes: Vec<u32>,
    tasks: Vec<u32>,
    /// Its place in its parent's `nodes`.
    at: usize,
    /// In cpus.
    rate: f64,
}

/// A copy of the scheduler's tree, and what its nodes are due.
#[derive(Clone, Debug)]
pub(crate) struct Due {
    cpus: u32,
    look_ns: u64,
    leaves: Vec<Leaf>,
    nodes: Vec<Option<Node>>,
    /// Those that were found to have a rate, parents first.
    rated: Vec<u32>,
    /// Members that were looked at for that.
    looks: u64,
    /// The tree has changed since.
    stale: bool,
    /// What is due is known until then.
    until_ns: u64,
}

impl Due {
    /// The root alone, from `now_ns` on; see [`LOOK_NS`] for `look_ns`.
    pub(crate) fn new(cpus: u32, tasks: usize, nodes: usize, look_ns: u64, now_ns: u64) -> Due {
        let nowhere = Task { node: NOWHERE, weight: 1, runnable: false };
        let mut due = Due {
            cpus,
            look_ns,
            leaves: vec![Leaf { task: nowhere, at: 0, counted: Spent::default() }; tasks],
            nodes: vec![None; nodes],
            rated: Vec::new(),
            looks: 0,
            stale: true,
            until_ns: now_ns,
        };
        due.nodes[ROOT as usize] = Some(due.new_node(1, NOWHERE, 1));
        due
    }

    fn new_node(&self, cgroup: u64, parent: u32, weight: u32) -> Node {
        Node {
            cgroup,
            parent,
            weight,
            leaves: 0,
            due_ns: 0.0,
            spent: Spent::default(),
            since_ns: self.until_ns,
            competing: 0,
            nodes: Vec::new(),
            tasks: Vec::new(),
            at: 0,
            rate: 0.0,
        }
    }

    pub(crate) fn node(&self, node: u32) -> Option<&Node> {
        self.nodes.get(node as usize)?.as_ref()
    }

    /// The nodes that there are, by number.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (u32, &Node)> {
        (0..).zip(&self.nodes).filter_map(|(number, node)| Some((number, node.as_ref()?)))
    }

    /// The tasks that are somewhere.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = (u32, Task)> {
        let all = (0..).zip(&self.leaves).map(|(id, leaf)| (id, leaf.task));
        all.filter(|(_, task)| task.node != NOWHERE)
    }

    /// Adds what is told of each node to all above it.
    pub(crate) fn add_up(&self, of_node: &mut [u64]) {
        let own = of_node.to_vec();
        for (number, node) in self.nodes() {
            let mut above = node.parent;
            while let Some(node) = self.node(above) {
                let sum = &mut of_node[above as usize];
                *sum = sum.wrapping_add(own[number as usize]);
                above = node.parent;
            }
        }
    }

    pub(crate) fn until_ns(&self) -> u64 {
        self.until_ns
    }

    fn there(&mut self, node: u32) -> &mut Node {
        self.nodes[node as usize].as_mut().expect("members are in nodes that there are")
    }

    // --- time ----------------------------------------------------------------------------------

    /// The tree has been as it is since the last change.
    pub(crate) fn pass(&mut self, now_ns: u64) {
        let Some(elapsed_ns) = now_ns.checked_sub(self.until_ns).filter(|elapsed| *elapsed > 0)
        else {
            return;
        };
        if self.stale {
            self.find_rates();
        }
        self.until_ns = now_ns;
        for &node in &self.rated {
            if let Some(node) = &mut self.nodes[node as usize] {
                node.due_ns += node.rate * elapsed_ns as f64;
            }
        }
    }

    /// A change comes now.
    fn begin_change(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.until_ns) >= self.looks * self.look_ns {
            self.pass(now_ns);
        }
        self.stale = true;
    }

    pub(crate) fn set_cpus(&mut self, cpus: u32, now_ns: u64) {
        if cpus != self.cpus {
            self.begin_change(now_ns);
            self.cpus = cpus;
        }
    }

    fn find_rates(&mut self) {
        self.stale = false;
        for node in std::mem::take(&mut self.rated) {
            if let Some(node) = &mut self.nodes[node as usize] {
                node.rate = 0.0;
            }
        }
        let cpus = self.cpus;
        let root = self.there(ROOT);
        root.rate = f64::from(root.leaves.min(cpus));
        self.rated.push(ROOT);
        self.looks = 0;
        let mut next = 0;
        while let Some(&node) = self.rated.get(next) {
            self.share(node);
            next += 1;
        }
    }

    /// The members of a node share what it has.
    fn share(&mut self, number: u32) {
        let node = self.nodes[number as usize].take().expect("it has a rate");
        let per_weight = self.per_weight(&node);
        for &child in &node.nodes {
            let child = self.there(child);
            child.rate = (f64::from(child.weight) * per_weight).min(f64::from(child.leaves));
        }
        self.rated.extend(&node.nodes);
        self.looks += 1 + node.nodes.len() as u64;
        self.nodes[number as usize] = Some(node);
    }

    /// What members receive for a unit of weight who could use more.
    fn per_weight(&mut self, node: &Node) -> f64 {
        if node.rate >= f64::from(node.leaves) {
            return f64::INFINITY;
        }
        let mut found = node.rate / node.competing as f64;
        // Nobody can have too much of less than a cpu.
        if node.rate <= 1.0 {
            return found;
        }
        loop {
            let (mut rate, mut weight) = (node.rate, node.competing);
            let nodes = node.nodes.iter().map(|&child| self.there_is(child));
            let tasks = node.tasks.iter().map(|&id| (self.leaves[id as usize].task.weight, 1));
            for (own, leaves) in nodes.chain(tasks) {
                if f64::from(own) * found > f64::from(leaves) {
                    rate -= f64::from(leaves);
                    weight -= u64::from(own);
                }
            }
            self.looks += (node.nodes.len() + node.tasks.len()) as u64;
            let more = rate / weight as f64;
            // It grows as long as one more has enough.
            if weight == 0 || more <= found {
                return found;
            }
            found = more;
        }
    }

    /// Weight and leaves of a node.
    fn there_is(&self, node: u32) -> (u32, u32) {
        let node = self.node(node).expect("members are nodes that there are");
        (node.weight, node.leaves)
    }

    // --- changes -------------------------------------------------------------------------------

    /// A node comes, or has another weight; if it is there already, as another cgroup, that is gone.
    pub(crate) fn set_node(
        &mut self,
        number: u32,
        cgroup: u64,
        parent: u32,
        weight: u32,
        now_ns: u64,
    ) {
        self.begin_change(now_ns);
        if number == ROOT || self.node(parent).is_none() {
            return;
        }
        match self.node(number) {
            Some(node) if node.cgroup == cgroup && node.parent == parent => {
                let (before, competes) = (node.weight, node.leaves > 0);
                self.there(number).weight = weight;
                if competes {
                    let above = self.there(parent);
                    above.competing = above.competing + u64::from(weight) - u64::from(before);
                }
                return;
            }
            Some(_) => self.remove_node(number, now_ns),
            None => {}
        }
        self.nodes[number as usize] = Some(self.new_node(cgroup, parent, weight));
    }

    /// A node goes. What its tasks received is its parent's; tasks and nodes that are in it still are
    /// nowhere until they are told of.
    pub(crate) fn remove_node(&mut self, number: u32, now_ns: u64) {
        self.begin_change(now_ns);
        if number == ROOT || self.node(number).is_none() {
            return;
        }
        let within: Vec<u32> =
            self.nodes().filter(|it| it.1.parent == number).map(|it| it.0).collect();
        for below in within {
            self.remove_node(below, now_ns);
        }
        let within: Vec<u32> =
            self.tasks().filter(|it| it.1.node == number).map(|it| it.0).collect();
        for id in within {
            self.put(id, Task { node: NOWHERE, ..self.leaves[id as usize].task });
        }
        let node = self.nodes[number as usize].take().expect("it was seen above");
        debug_assert!(node.leaves == 0 && node.nodes.is_empty() && node.tasks.is_empty());
        let above = self.there(node.parent);
        above.spent = above.spent.plus(node.spent);
    }

    /// A task is this from now on, and had spent that until then.
    pub(crate) fn set_task(&mut self, id: u32, task: Task, spent: Spent, now_ns: u64) {
        self.begin_change(now_ns);
        self.count(id, spent);
        let is_known = self.node(task.node).is_some();
        self.put(id, if is_known { task } else { Task { node: NOWHERE, ..task } });
    }

    /// Counts what a task has spent since the last time.
    pub(crate) fn count(&mut self, id: u32, spent: Spent) {
        let leaf = &mut self.leaves[id as usize];
        let more = spent.minus(std::mem::replace(&mut leaf.counted, spent));
        let node = leaf.task.node;
        if node != NOWHERE {
            let node = self.there(node);
            node.spent = node.spent.plus(more);
        }
    }

    fn put(&mut self, id: u32, task: Task) {
        self.compete(id, false);
        self.leaves[id as usize].task = task;
        self.compete(id, true);
    }

    /// If a task is runnable, it counts from now on, or no longer.
    fn compete(&mut self, id: u32, counts: bool) {
        let Leaf { task, at, .. } = self.leaves[id as usize];
        if task.node == NOWHERE || !task.runnable {
            return;
        }
        let node = self.there(task.node);
        if counts {
            node.competing += u64::from(task.weight);
            node.tasks.push(id);
            let last = node.tasks.len() - 1;
            self.leaves[id as usize].at = last;
        } else {
            node.competing -= u64::from(task.weight);
            node.tasks.swap_remove(at);
            if let Some(&moved) = node.tasks.get(at) {
                self.leaves[moved as usize].at = at;
            }
        }
        self.add_leaf(task.node, counts);
    }

    /// A node and all above it have one leaf more, or less.
    fn add_leaf(&mut self, mut number: u32, more: bool) {
        while number != NOWHERE {
            let node = self.there(number);
            let before = node.leaves;
            node.leaves = if more { before + 1 } else { before - 1 };
            let parent = node.parent;
            if parent != NOWHERE && before + u32::from(more) == 1 {
                self.enlist(number, parent, more);
            }
            number = parent;
        }
    }

    /// A node competes from now on, or no longer.
    fn enlist(&mut self, number: u32, parent: u32, competes: bool) {
        let (weight, at) = (u64::from(self.there(number).weight), self.there(number).at);
        let above = self.there(parent);
        if competes {
            above.competing += weight;
            above.nodes.push(number);
            let last = above.nodes.len() - 1;
            self.there(number).at = last;
        } else {
            above.competing -= weight;
            above.nodes.swap_remove(at);
            if let Some(&moved) = above.nodes.get(at) {
                self.there(moved).at = at;
            }
        }
    }

    // --- beginning -----------------------------------------------------------------------------

    /// Becomes a copy of a tree: nodes as (number, cgroup, parent, weight), and tasks. What is not yet in a
    /// node that there is will be told of.
    pub(crate) fn copy(&mut self, nodes: &[(u32, u64, u32, u32)], tasks: &[(u32, Task)]) {
        for _ in 0..DEPTH {
            for &(number, cgroup, parent, weight) in nodes {
                self.set_node(number, cgroup, parent, weight, self.until_ns);
            }
        }
        for &(id, task) in tasks {
            self.set_task(id, task, Spent::default(), self.until_ns);
        }
    }

    /// Everything is counted from now on; `spent` says what tasks have spent before.
    pub(crate) fn begin(&mut self, now_ns: u64, spent: impl Fn(u32) -> Spent) {
        self.until_ns = now_ns;
        for (id, leaf) in (0..).zip(&mut self.leaves) {
            leaf.counted = spent(id);
        }
        for node in self.nodes.iter_mut().flatten() {
            (node.due_ns, node.spent, node.since_ns) = (0.0, Spent::default(), now_ns);
        }
    }

    /// Goes on with what `before`, a copy of the same tree of which changes were missed, has counted. What
    /// tasks have spent since counts where they are now, or were if they are gone.
    pub(crate) fn go_on_from(&mut self, mut before: Due) {
        before.pass(self.until_ns);
        for (id, leaf) in (0..).zip(&mut self.leaves) {
            if leaf.task.node == NOWHERE {
                before.count(id, leaf.counted);
            } else {
                leaf.counted = before.leaves[id as usize].counted;
            }
        }
        for (number, old) in before.nodes() {
            let heir = self.heir(number, &before);
            let node = self.there(heir);
            node.spent = node.spent.plus(old.spent);
            if heir == number {
                (node.due_ns, node.since_ns) = (old.due_ns, old.since_ns);
            }
        }
    }

    /// The node that was a node `before`, or was the nearest above it, of those that there are still.
    fn heir(&self, mut number: u32, before: &Due) -> u32 {
        let cgroup = |tree: &Due, number| tree.node(number).map(|node| node.cgroup);
        while number != ROOT && cgroup(self, number) != cgroup(before, number) {
            number = before.node(number).map_or(ROOT, |node| node.parent);
        }
        number
    }
}

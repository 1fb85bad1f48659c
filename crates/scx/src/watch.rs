//! Watching the scheduler's tree of cgroups: what each is due and receives (`due.rs`).
//!
//! The scheduler writes each change of the tree to a ring while somebody watches. A copy of the tree is made
//! once, while it changes; whatever was copied too early or too late is put right by the changes since,
//! each of which says all about its member. If the loader falls behind by more than the ring holds, the
//! tree is copied again, and what changed meanwhile counts as if it had only then.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use scx_prorata_objects::intf::{
    group_limits_GROUP_CHANGES, task_state_TASK_OUT, task_state_TASK_RUNNING,
    task_state_TASK_WAITING,
};

use crate::cgroups::{Cgroup, Query, Report};
use crate::due::{Due, LOOK_NS, NOWHERE, ROOT, Spent, Task};
use crate::paths::Paths;
use crate::shared::{Memory, NODES, Slot, TASKS};

/// In the scheduler's tree a weight of 1024 is a cpu.weight of 100, and a cgroup of cpu.idle has 3.
const TREE_WEIGHT: u64 = 1024;
const CPU_WEIGHT: u64 = 100;
const IDLE_WEIGHT: u32 = 3;
/// Somebody watches for so long after a look, at least.
const LINGER: Duration = Duration::from_secs(60);

pub(crate) struct Watch {
    due: Due,
    /// Changes that are known.
    read: u64,
    /// And those that never will be.
    missed: u64,
    quantum: Duration,
    paths: Paths,
    /// What was told of cgroups: what they are told to have received never goes back.
    told: HashMap<u64, Spent>,
    /// It began then, by the clocks of the scheduler and of the day.
    began_ns: u64,
    began: Duration,
    ends: Instant,
}

impl Watch {
    /// Begins to watch; somebody has to [`stop`] it.
    pub(crate) fn begin(memory: &Memory<'_>, quantum: Duration) -> Watch {
        memory.watch(true);
        let (mut due, read) = copy(memory);
        let began_ns = memory.now_ns();
        due.begin(began_ns, |id| spent(&memory.slot(id)));
        Watch {
            due,
            read,
            missed: 0,
            quantum,
            paths: Paths::new(),
            told: HashMap::new(),
            began_ns,
            began: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            ends: Instant::now() + LINGER,
        }
    }

    /// True if nobody has looked for long.
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.ends
    }

    /// Follows the changes of the tree.
    pub(crate) fn catch_up(&mut self, memory: &Memory<'_>) {
        self.due.set_cpus(cpus(memory), memory.now_ns());
        let (written, _) = memory.tree_counts();
        if follow(&mut self.due, memory, &mut self.read, written) {
            return;
        }
        self.missed += written - self.read;
        let (mut anew, read) = copy(memory);
        anew.begin(memory.now_ns(), |id| spent(&memory.slot(id)));
        anew.go_on_from(std::mem::replace(&mut self.due, Due::new(1, 0, 1, LOOK_NS, 0)));
        (self.due, self.read) = (anew, read);
    }

    /// What is known now of the cgroups that are asked for.
    pub(crate) fn look(&mut self, memory: &Memory<'_>, query: &Query) -> Result<Report> {
        self.ends = Instant::now() + LINGER.max(3 * query.interval);
        self.catch_up(memory);
        let now_ns = memory.now_ns().max(self.due.until_ns());
        self.due.pass(now_ns);
        let sums = self.sums(memory, now_ns);
        let cgroups = (0..NODES).filter_map(|node| self.tell(node, &sums, now_ns)).collect();
        self.forget_gone();
        let (cgroups, left_out) = query.choose(cgroups)?;
        Ok(Report {
            now_ns,
            quantum_ns: u64::try_from(self.quantum.as_nanos())?,
            cpus: cpus(memory),
            missed: self.missed,
            left_out,
            cgroups,
        })
    }

    /// By node, of all tasks in it and below.
    fn sums(&mut self, memory: &Memory<'_>, now_ns: u64) -> Sums {
        let quantum_ns = u64::try_from(self.quantum.as_nanos()).unwrap_or(u64::MAX);
        let mut sums = Sums::default();
        let tasks: Vec<(u32, Task)> = self.due.tasks().collect();
        for (id, task) in tasks {
            let (slot, node) = (memory.slot(id), task.node as usize);
            self.due.count(id, spent(&slot));
            sums.tasks[node] += u64::from(slot.state != task_state_TASK_OUT);
            let since_ns = now_ns.saturating_sub(slot.since_ns);
            if slot.state == task_state_TASK_WAITING {
                sums.waiting[node] += 1;
                sums.waited_ns[node] += since_ns;
            } else if slot.state == task_state_TASK_RUNNING {
                sums.received_ns[node] += since_ns.saturating_sub(slot.used_ns).min(quantum_ns);
            }
        }
        for (number, node) in self.due.nodes() {
            sums.received_ns[number as usize] += node.spent.received_ns;
            sums.waited_ns[number as usize] += node.spent.waited_ns;
        }
        let Sums { tasks, waiting, received_ns, waited_ns } = &mut sums;
        for of_node in [tasks, waiting, received_ns, waited_ns] {
            self.due.add_up(of_node);
        }
        sums
    }

    /// What is told of a node; nothing if its cgroup has gone.
    fn tell(&mut self, number: u32, sums: &Sums, now_ns: u64) -> Option<Cgroup> {
        let (at, node) = (number as usize, self.due.node(number)?);
        let path = if number == ROOT { "/" } else { self.paths.find(node.cgroup)? };
        let told = self.told.entry(node.cgroup).or_default();
        told.received_ns = told.received_ns.max(sums.received_ns[at]);
        told.waited_ns = told.waited_ns.max(sums.waited_ns[at]);
        let since_start = Duration::from_nanos(node.since_ns.saturating_sub(self.began_ns));
        Some(Cgroup {
            path: path.to_string(),
            number: node.cgroup,
            weight: (number != ROOT).then(|| cpu_weight(node.weight)),
            tasks: sums.tasks[at],
            runnable: u64::from(node.leaves),
            waiting: sums.waiting[at],
            due_ns: whole_ns(node.due_ns),
            received_ns: told.received_ns,
            waited_ns: told.waited_ns,
            counted_ns: now_ns.saturating_sub(node.since_ns),
            counted_since_s: (self.began + since_start).as_secs_f64(),
        })
    }

    fn forget_gone(&mut self) {
        let known: std::collections::HashSet<u64> =
            self.due.nodes().map(|(_, node)| node.cgroup).collect();
        self.told.retain(|cgroup, _| known.contains(cgroup));
        self.paths.keep(|cgroup| known.contains(&cgroup));
    }
}

/// Nobody watches any more.
pub(crate) fn stop(memory: &Memory<'_>) {
    memory.watch(false);
}

struct Sums {
    tasks: Vec<u64>,
    waiting: Vec<u64>,
    received_ns: Vec<u64>,
    waited_ns: Vec<u64>,
}

impl Default for Sums {
    fn default() -> Sums {
        let zero = || vec![0; NODES as usize];
        Sums { tasks: zero(), waiting: zero(), received_ns: zero(), waited_ns: zero() }
    }
}

fn cpus(memory: &Memory<'_>) -> u32 {
    u32::try_from(memory.cpus()).expect("there are at most 512")
}

fn spent(slot: &Slot) -> Spent {
    Spent { received_ns: slot.received_ns, waited_ns: slot.waited_ns }
}

/// As the kernel tells it: 0 for cpu.idle.
fn cpu_weight(weight: u32) -> u32 {
    if weight == IDLE_WEIGHT {
        return 0;
    }
    let weight = (u64::from(weight) * CPU_WEIGHT + TREE_WEIGHT / 2) / TREE_WEIGHT;
    u32::try_from(weight).expect("it is less than before")
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it is the time of all cpus
fn whole_ns(ns: f64) -> u64 {
    ns.round() as u64
}

/// The tree as it is, and the number of changes that it knows.
fn copy(memory: &Memory<'_>) -> (Due, u64) {
    let mut due = Due::new(cpus(memory), TASKS as usize, NODES as usize, LOOK_NS, memory.now_ns());
    let (mut read, used) = memory.tree_counts();
    let node = |number: u32| {
        let (member, (cgroup, is_used)) = (memory.member(TASKS + number), memory.node(number));
        is_used.then_some((number, cgroup, member.parent, member.weight))
    };
    let nodes: Vec<_> = (1..used).filter_map(node).collect();
    let task = |id: u32| {
        let member = memory.member(id);
        let task = Task { node: member.parent, weight: member.weight, runnable: member.at != 0 };
        // Of those that never came all is 0.
        (member.weight > 0 && task.node != NOWHERE).then_some((id, task))
    };
    let tasks: Vec<_> = (0..TASKS).filter_map(task).collect();
    due.copy(&nodes, &tasks);
    let (written, _) = memory.tree_counts();
    // If they are too many, the next time finds that out.
    follow(&mut due, memory, &mut read, written);
    (due, read)
}

/// Makes the changes that were `written` and not `read`; false if some are lost.
fn follow(due: &mut Due, memory: &Memory<'_>, read: &mut u64, written: u64) -> bool {
    while *read < written {
        let change = memory.change(*read);
        // The next one to be written takes the place of the oldest.
        if memory.tree_counts().0 - *read >= u64::from(group_limits_GROUP_CHANGES) {
            return false;
        }
        *read += 1;
        match change.id.checked_sub(TASKS) {
            None => {
                let (node, runnable) = (change.parent, change.runnable != 0);
                let task = Task { node, weight: change.weight, runnable };
                let spent = Spent { received_ns: change.received_ns, waited_ns: change.waited_ns };
                due.set_task(change.id, task, spent, change.now_ns);
            }
            Some(node) if change.parent == NOWHERE => due.remove_node(node, change.now_ns),
            Some(node) => {
                let (cgroup, _) = memory.node(node);
                due.set_node(node, cgroup, change.parent, change.weight, change.now_ns);
            }
        }
    }
    true
}

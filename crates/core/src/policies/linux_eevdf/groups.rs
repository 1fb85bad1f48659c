//! Cgroups: what each has on each cpu, and which part of its weight it has there.

use alloc::vec::Vec;

use super::average::Average;
use super::queue::{Entity, Member, Queue};
use super::{CAPACITY, Cgroups, Linux};
use crate::policy::{CpuId, Nanos, TaskId};

/// The root's index.
pub(super) const ROOT: usize = 0;
/// `MIN_SHARES`.
const MIN_SHARES: u64 = 2;
/// A cpu tells the others of its load at most so often.
const TELLING_NS: Nanos = 1_000_000;

/// A cgroup.
#[derive(Clone, Debug)]
pub(super) struct Group {
    parent: Option<usize>,
    weight: u64,
    /// By cpu.
    on: Vec<Local>,
    /// The sums of what the cpus told.
    load: u64,
    runnable: u64,
}

/// A cgroup on a cpu.
#[derive(Clone, Debug)]
struct Local {
    queue: Queue,
    /// What stands here, or would if it were not in the root's queue: how many, and their weights together.
    members: usize,
    weight: u64,
    /// The tasks among it, and their average load, with that of those which sleep.
    tasks: usize,
    task_weight: u64,
    load: Average,
    /// The runnable tasks here and below, on average.
    below: usize,
    runnable: Average,
    /// What the group weighs in its parent's queue.
    shares: u64,
    /// While it does not stand there.
    entity: Entity,
    /// What the others were told, and when.
    told_load: u64,
    told_runnable: u64,
    told_at_ns: Nanos,
    /// What it added to the load of the cpu at this tick.
    known_load: (u64, u64),
}

impl Linux {
    /// The group that will have this `index`.
    pub(super) fn new_group(&self, index: usize, parent: Option<usize>, weight: u64) -> Group {
        let local = Local {
            queue: Queue::new(self.slice_ns, self.tick_ns),
            members: 0,
            weight: 0,
            tasks: 0,
            task_weight: 0,
            load: Average::default(),
            below: 0,
            runnable: Average::default(),
            shares: weight,
            entity: Entity::new(Member::Group(index), weight),
            told_load: 0,
            told_runnable: 0,
            told_at_ns: 0,
            known_load: (u64::MAX, 0),
        };
        Group { parent, weight, on: alloc::vec![local; self.cpus.len()], load: 0, runnable: 0 }
    }

    fn group(&self, group: usize) -> &Group {
        self.groups[group].as_ref().expect("the node was added")
    }

    fn group_mut(&mut self, group: usize) -> &mut Group {
        self.groups[group].as_mut().expect("the node was added")
    }

    fn local(&self, group: usize, cpu: CpuId) -> &Local {
        &self.group(group).on[cpu]
    }

    fn local_mut(&mut self, group: usize, cpu: CpuId) -> &mut Local {
        &mut self.group_mut(group).on[cpu]
    }

    pub(super) fn is_within(&self, group: usize, above: usize) -> bool {
        group == above
            || self.group(group).parent.is_some_and(|parent| self.is_within(parent, above))
    }

    /// `group`, in which nothing is queued, is in `parent` from now on.
    pub(super) fn set_parent(&mut self, group: usize, parent: usize) {
        self.group_mut(group).parent = Some(parent);
    }

    /// Where `task` stands.
    fn home(&self, task: TaskId) -> usize {
        match self.cgroups {
            Cgroups::Nested => self.task(task).group,
            Cgroups::Flat => ROOT,
        }
    }

    pub(super) fn queue_of(&self, task: TaskId) -> &Queue {
        &self.local(self.home(task), self.task(task).cpu).queue
    }

    /// Somebody stands where `task` would on `cpu` (`task_is_ineligible_on_dst_cpu`).
    pub(super) fn competes_on(&self, task: TaskId, cpu: CpuId) -> bool {
        self.local(self.home(task), cpu).queue.len() > 0
    }

    pub(super) fn is_eligible(&self, task: TaskId) -> bool {
        !self.queue_of(task).is_ahead(Member::Task(task))
    }

    /// A task that is delayed stands in its queue, and counts for nothing else.
    pub(super) fn set_delayed(&mut self, task: TaskId, is_delayed: bool) {
        let (home, cpu) = (self.home(task), self.task(task).cpu);
        let queue = &mut self.local_mut(home, cpu).queue;
        if let Some(entity) = queue.entity_mut(Member::Task(task)) {
            entity.is_delayed = is_delayed;
        }
    }

    /// The task of `cpu` that EEVDF picks, perhaps a delayed one.
    pub(super) fn best(&self, cpu: CpuId) -> Option<TaskId> {
        let mut group = ROOT;
        loop {
            match self.local(group, cpu).queue.best()? {
                Member::Task(task) => return Some(task),
                Member::Group(below) => group = below,
            }
        }
    }

    /// `task` and the groups above it have run for `used_ns`.
    pub(super) fn advance(&mut self, task: TaskId, used_ns: Nanos) {
        let (cpu, mut at, mut member) =
            (self.task(task).cpu, Some(self.home(task)), Member::Task(task));
        while let Some(group) = at {
            self.local_mut(group, cpu).queue.advance(member, used_ns);
            (at, member) = (self.group(group).parent, Member::Group(group));
        }
    }

    /// `task` stands in its queue from now on, and its groups in theirs.
    pub(super) fn join_groups(&mut self, task: TaskId, now_ns: Nanos) {
        let (cpu, leaf, weight) =
            (self.task(task).cpu, self.task(task).group, self.task(task).weight);
        self.observe_task(task, false, now_ns);
        self.observe_group(leaf, cpu, now_ns);
        let local = self.local_mut(leaf, cpu);
        local.tasks += 1;
        local.task_weight += weight;
        self.count_below(leaf, cpu, 1, now_ns);
        if self.cgroups == Cgroups::Nested {
            let entity = self.task(task).entity;
            self.local_mut(leaf, cpu).queue.place(entity);
        }
        self.add_member(leaf, cpu, weight);
        self.update_shares(leaf, cpu, now_ns);
        if self.cgroups == Cgroups::Flat {
            let weight = self.weight_on_path(task);
            let mut entity = self.task(task).entity;
            entity.reweigh(weight);
            self.local_mut(ROOT, cpu).queue.place(entity);
        }
    }

    /// `task` stands in no queue from now on.
    pub(super) fn leave_groups(&mut self, task: TaskId, now_ns: Nanos) {
        let (cpu, leaf, weight) =
            (self.task(task).cpu, self.task(task).group, self.task(task).weight);
        self.observe_task(task, true, now_ns);
        self.observe_group(leaf, cpu, now_ns);
        let home = self.home(task);
        let entity = self.local_mut(home, cpu).queue.take(Member::Task(task));
        self.task_mut(task).entity = entity.expect("it is queued");
        let local = self.local_mut(leaf, cpu);
        local.tasks -= 1;
        local.task_weight -= weight;
        self.count_below(leaf, cpu, -1, now_ns);
        self.remove_member(leaf, cpu, weight);
        self.update_shares(leaf, cpu, now_ns);
    }

    /// A member of that weight is in `group` on `cpu`; the first makes the group one of its parent's.
    fn add_member(&mut self, group: usize, cpu: CpuId, weight: u64) {
        let local = self.local_mut(group, cpu);
        local.members += 1;
        local.weight += weight;
        let (is_first, shares, entity) = (local.members == 1, local.shares, local.entity);
        let Some(parent) = self.group(group).parent.filter(|_| is_first) else { return };
        if self.cgroups == Cgroups::Nested {
            self.local_mut(parent, cpu).queue.place(entity);
        }
        self.add_member(parent, cpu, shares);
    }

    fn remove_member(&mut self, group: usize, cpu: CpuId, weight: u64) {
        let local = self.local_mut(group, cpu);
        local.members -= 1;
        local.weight -= weight;
        let (is_empty, shares) = (local.members == 0, local.shares);
        let Some(parent) = self.group(group).parent.filter(|_| is_empty) else { return };
        if self.cgroups == Cgroups::Nested {
            let entity = self.local_mut(parent, cpu).queue.take(Member::Group(group));
            self.local_mut(group, cpu).entity = entity.expect("it had members");
        }
        self.remove_member(parent, cpu, shares);
    }

    fn count_below(&mut self, group: usize, cpu: CpuId, change: isize, now_ns: Nanos) {
        let mut at = Some(group);
        while let Some(group) = at {
            let local = self.local_mut(group, cpu);
            local.runnable.advance(local.below as u64 * CAPACITY, now_ns);
            local.below = local.below.checked_add_signed(change).expect("one for each task");
            at = self.group(group).parent;
        }
    }

    /// The average load of `task` up to now, during which it was `queued` or not.
    fn observe_task(&mut self, task: TaskId, queued: bool, now_ns: Nanos) {
        let known = self.task_mut(task);
        known.load.advance(u64::from(queued), now_ns);
        known.runnable_average.advance(if queued { CAPACITY } else { 0 }, now_ns);
    }

    /// The average load of the tasks of `group` on `cpu` up to now.
    fn observe_group(&mut self, group: usize, cpu: CpuId, now_ns: Nanos) {
        let local = self.local_mut(group, cpu);
        local.load.advance(local.task_weight, now_ns);
        local.runnable.advance(local.below as u64 * CAPACITY, now_ns);
    }

    /// The load of `task` is part of that of its cpu from now on.
    pub(super) fn attach_load(&mut self, task: TaskId, now_ns: Nanos) {
        debug_assert!(!self.task(task).attached);
        self.observe_path(task, now_ns);
        let known = self.task_mut(task);
        known.load.settle();
        known.runnable_average.settle();
        known.busy.settle();
        let super::Task { cpu, group, load, runnable_average, busy, .. } = *self.task(task);
        self.cpus[cpu].busy.add(busy.get());
        self.cpus[cpu].runnable.add(runnable_average.get());
        self.local_mut(group, cpu).load.add(load.get());
        let mut at = Some(group);
        while let Some(group) = at {
            self.local_mut(group, cpu).runnable.add(runnable_average.get());
            at = self.group(group).parent;
        }
        self.task_mut(task).attached = true;
    }

    /// It is no longer, if it was.
    pub(super) fn detach_load(&mut self, task: TaskId, now_ns: Nanos) {
        if !core::mem::replace(&mut self.task_mut(task).attached, false) {
            return;
        }
        self.observe_path(task, now_ns);
        let super::Task { cpu, group, load, runnable_average, busy, .. } = *self.task(task);
        self.cpus[cpu].busy.subtract(busy.get());
        self.cpus[cpu].runnable.subtract(runnable_average.get());
        self.local_mut(group, cpu).load.subtract(load.get());
        let mut at = Some(group);
        while let Some(group) = at {
            self.local_mut(group, cpu).runnable.subtract(runnable_average.get());
            at = self.group(group).parent;
        }
        self.tell_path(group, cpu, now_ns);
    }

    /// Another cpu's balancing takes it: its groups' shares there are known at once (`dequeue_entity`).
    pub(super) fn leave_load(&mut self, task: TaskId, now_ns: Nanos) {
        self.detach_load(task, now_ns);
        let super::Task { cpu, group, .. } = *self.task(task);
        self.update_shares(group, cpu, now_ns);
    }

    /// The averages of `task`, which stands in no queue, and of its groups, up to now.
    fn observe_path(&mut self, task: TaskId, now_ns: Nanos) {
        let (cpu, mut at) = (self.task(task).cpu, Some(self.task(task).group));
        self.observe_task(task, false, now_ns);
        self.observe(cpu, now_ns);
        self.task_mut(task).busy.advance(0, now_ns);
        while let Some(group) = at {
            self.observe_group(group, cpu, now_ns);
            at = self.group(group).parent;
        }
    }

    /// The load of `task`, which stands in no queue, goes with it to `cpu`.
    pub(super) fn move_load(&mut self, task: TaskId, cpu: CpuId, now_ns: Nanos) {
        self.detach_load(task, now_ns);
        self.task_mut(task).cpu = cpu;
        self.attach_load(task, now_ns);
    }

    fn tell_path(&mut self, group: usize, cpu: CpuId, now_ns: Nanos) {
        let mut at = group;
        while let Some(parent) = self.group(at).parent {
            self.tell_load(at, cpu, now_ns);
            at = parent;
        }
    }

    /// The averages of all that is on `cpu`, up to now, also of what sleeps
    /// (`sched_balance_update_blocked_averages`).
    pub(super) fn observe_groups(&mut self, cpu: CpuId, now_ns: Nanos) {
        for group in 0..self.groups.len() {
            if self.groups[group].is_some() {
                self.observe_group(group, cpu, now_ns);
                self.tell_load(group, cpu, now_ns);
            }
        }
    }

    /// The average load of `group` on `cpu`, of all that stands in it.
    pub(super) fn load_of(&self, group: usize, cpu: CpuId) -> u64 {
        let below = |child: &usize| self.group(*child).parent == Some(group);
        let children = (0..self.groups.len()).filter(|&child| self.groups[child].is_some());
        let loads = children.filter(below).map(|child| self.load_in_parent(child, cpu));
        self.local(group, cpu).load.get() + loads.sum::<u64>()
    }

    /// What `group` on `cpu` adds to the load of its parent.
    fn load_in_parent(&self, group: usize, cpu: CpuId) -> u64 {
        let Local { shares, weight, .. } = *self.local(group, cpu);
        let load = self.load_of(group, cpu);
        match weight {
            0 => load.min(shares),
            weight => mul_div(shares, load.min(weight), weight),
        }
    }

    /// What `task` adds to the load of its cpu (`task_h_load`).
    pub(super) fn load_on_cpu(&mut self, task: TaskId, now_ns: Nanos) -> u64 {
        let super::Task { load, group, cpu, .. } = *self.task(task);
        let all = self.known_load(group, cpu, now_ns / self.tick_ns);
        mul_div(load.get(), all, self.load_of(group, cpu) + 1)
    }

    /// What `group` adds to the load of `cpu`, as it was when that was first asked since the last `tick`
    /// (`update_cfs_rq_h_load`): of tasks that leave together each counts for more than the one before.
    fn known_load(&mut self, group: usize, cpu: CpuId, tick: u64) -> u64 {
        if let (at, load) = self.local(group, cpu).known_load
            && at == tick
        {
            return load;
        }
        let load = match self.group(group).parent {
            None => self.load_of(group, cpu),
            Some(parent) => {
                let above = self.known_load(parent, cpu, tick);
                mul_div(above, self.load_in_parent(group, cpu), self.load_of(parent, cpu) + 1)
            }
        };
        self.local_mut(group, cpu).known_load = (tick, load);
        load
    }

    /// The weight of `task` as one of the root's: its own, times what each group on its path has of its
    /// parent (`__calc_prop_weight`).
    fn weight_on_path(&self, task: TaskId) -> u64 {
        let known = self.task(task);
        let (mut weight, mut at) = (known.weight, known.group);
        while let Some(parent) = self.group(at).parent {
            let local = self.local(at, known.cpu);
            weight = mul_div(weight, local.shares, local.weight.max(1)).max(MIN_SHARES);
            at = parent;
        }
        weight
    }

    /// When it gets a cpu: the load of the groups above `task`, and its own weight (`set_next_task_fair`).
    pub(super) fn refresh_load(&mut self, task: TaskId, now_ns: Nanos) {
        let (cpu, group) = (self.task(task).cpu, self.task(task).group);
        self.observe_task(task, true, now_ns);
        let mut at = Some(group);
        while let Some(group) = at {
            self.observe_group(group, cpu, now_ns);
            at = self.group(group).parent;
        }
        self.tell_path(group, cpu, now_ns);
        self.refresh_weight(task);
    }

    /// At a tick: the shares of the groups above `task`, and its own weight there (`task_tick_fair`).
    pub(super) fn refresh(&mut self, task: TaskId, now_ns: Nanos) {
        let (cpu, group) = (self.task(task).cpu, self.task(task).group);
        self.observe_task(task, true, now_ns);
        self.observe_group(group, cpu, now_ns);
        self.update_shares(group, cpu, now_ns);
        self.refresh_weight(task);
    }

    fn refresh_weight(&mut self, task: TaskId) {
        if self.cgroups == Cgroups::Nested || !self.task(task).queued {
            return;
        }
        let (cpu, weight) = (self.task(task).cpu, self.weight_on_path(task));
        let queue = &mut self.local_mut(ROOT, cpu).queue;
        if queue.entity(Member::Task(task)).is_some_and(|entity| entity.weight != weight) {
            queue.reweigh(Member::Task(task), weight);
        }
    }

    /// The shares of `group` on `cpu`, and of those above it (`update_cfs_group`).
    fn update_shares(&mut self, group: usize, cpu: CpuId, now_ns: Nanos) {
        let mut at = group;
        while let Some(parent) = self.group(at).parent {
            self.observe_group(at, cpu, now_ns);
            self.tell_load(at, cpu, now_ns);
            let shares = self.shares(at, cpu);
            self.set_shares(at, parent, cpu, shares);
            at = parent;
        }
    }

    /// `update_tg_load_avg`.
    fn tell_load(&mut self, group: usize, cpu: CpuId, now_ns: Nanos) {
        let load = self.load_of(group, cpu);
        let local = self.local_mut(group, cpu);
        let runnable = local.runnable.get();
        let is_other = |value: u64, told: u64| value.abs_diff(told) > told / 64;
        let has_changed =
            is_other(load, local.told_load) || is_other(runnable, local.told_runnable);
        let is_late = local.told_at_ns == 0 || now_ns - local.told_at_ns >= TELLING_NS;
        if !has_changed || !is_late {
            return;
        }
        let old_load = core::mem::replace(&mut local.told_load, load);
        let old_runnable = core::mem::replace(&mut local.told_runnable, runnable);
        local.told_at_ns = now_ns;
        let about = self.group_mut(group);
        about.load = about.load - old_load + load;
        about.runnable = about.runnable - old_runnable + runnable;
    }

    /// `calc_group_shares`.
    fn shares(&self, group: usize, cpu: CpuId) -> u64 {
        let about = self.group(group);
        let local = self.local(group, cpu);
        if local.members == 0 {
            return local.shares;
        }
        let cpus = match self.cgroups {
            Cgroups::Nested => 1,
            Cgroups::Flat => (about.runnable / CAPACITY).clamp(1, self.cpus.len() as u64),
        };
        let weight = about.weight * cpus;
        let load = local.weight.max(self.load_of(group, cpu));
        let all = about.load - local.told_load + load;
        mul_div(weight, load, all.max(1)).clamp(MIN_SHARES, weight)
    }

    fn set_shares(&mut self, group: usize, parent: usize, cpu: CpuId, shares: u64) {
        let local = self.local_mut(group, cpu);
        let is_queued = local.members > 0;
        let old = core::mem::replace(&mut local.shares, shares);
        if old == shares {
            return;
        }
        if !is_queued {
            local.entity.reweigh(shares);
            return;
        }
        let runs = self.runs_within(group, cpu);
        let above = self.local_mut(parent, cpu);
        above.weight = above.weight - old + shares;
        above.queue.reweigh_as(Member::Group(group), shares, runs);
    }

    /// The task that has `cpu` is in `group`, or below.
    fn runs_within(&self, group: usize, cpu: CpuId) -> bool {
        let current = self.cpus[cpu].current.filter(|&task| self.task(task).cpu == cpu);
        current.is_some_and(|task| self.is_within(self.task(task).group, group))
    }

    /// `group` has another weight, on all cpus at once.
    pub(super) fn reweigh_group(&mut self, group: usize, weight: u64, now_ns: Nanos) {
        self.group_mut(group).weight = weight;
        for cpu in 0..self.cpus.len() {
            self.update_shares(group, cpu, now_ns);
        }
    }

    /// `task` has another weight, in whatever state it is.
    pub(super) fn reweigh_task(&mut self, task: TaskId, weight: u64, now_ns: Nanos) {
        let super::Task { weight: old, queued, cpu, group, attached, .. } = *self.task(task);
        self.observe_task(task, queued, now_ns);
        self.observe_group(group, cpu, now_ns);
        let before = self.task(task).load.get();
        let known = self.task_mut(task);
        known.weight = weight;
        known.load.reweigh(weight);
        let after = known.load.get();
        if attached {
            let load = &mut self.local_mut(group, cpu).load;
            load.subtract(before);
            load.add(after);
        }
        if !queued {
            self.task_mut(task).entity.reweigh(weight);
            return;
        }
        let nested = self.cgroups == Cgroups::Nested;
        let runs = self.cpus[cpu].current == Some(task);
        let local = self.local_mut(group, cpu);
        local.weight = local.weight - old + weight;
        local.task_weight = local.task_weight - old + weight;
        if nested {
            local.queue.reweigh_as(Member::Task(task), weight, runs);
        }
        self.update_shares(group, cpu, now_ns);
        self.refresh_weight(task);
    }
}

#[cfg(test)]
impl Linux {
    /// What is counted is what is there.
    pub(super) fn assert_consistent(&self) {
        for cpu in 0..self.cpus.len() {
            for group in (0..self.groups.len()).filter(|&group| self.groups[group].is_some()) {
                let here = |&(task, _): &&(super::Task, TaskId)| {
                    task.queued && task.cpu == cpu && task.group == group
                };
                let all: Vec<_> = self.tasks.iter().copied().zip((0..).map(TaskId)).collect();
                let tasks: Vec<_> = all.iter().filter(here).collect();
                let below = |child: &usize| {
                    self.groups[*child].is_some()
                        && self.group(*child).parent == Some(group)
                        && self.local(*child, cpu).members > 0
                };
                let children: Vec<_> = (0..self.groups.len()).filter(below).collect();
                let task_weight: u64 = tasks.iter().map(|(task, _)| task.weight).sum();
                let shares: u64 = children.iter().map(|&child| self.local(child, cpu).shares).sum();
                let local = self.local(group, cpu);
                assert_eq!((local.tasks, local.task_weight), (tasks.len(), task_weight));
                assert_eq!(local.members, tasks.len() + children.len());
                assert_eq!(local.weight, task_weight + shares);
                assert!(tasks.iter().all(|&&(_, task)| {
                    self.queue_of(task).entity(Member::Task(task)).is_some()
                }));
            }
        }
    }
}

fn mul_div(value: u64, numerator: u64, denominator: u64) -> u64 {
    let exact = u128::from(value) * u128::from(numerator) / u128::from(denominator);
    u64::try_from(exact).unwrap_or(u64::MAX)
}

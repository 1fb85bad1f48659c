//! Linux's scheduler on several cpus: EEVDF with a run queue for each cpu, load balancing, and cgroups, as
//! Linux 6.18 and Linux 7.3 have them (kernel/sched/fair.c).
//!
//! *How.* Every cpu has a run queue, and picks from it by EEVDF (`queue.rs`). A cgroup has a run queue on
//! every cpu too, and what its tasks there weigh together decides which part of the cgroup's weight it has
//! on that cpu (`calc_group_shares`, `groups.rs`). In 6.18 (`linux-6.18`) a group stands in its parent's
//! queue with that weight, and a pick goes down from queue to queue. In 7.3 (`linux-7.3`) all tasks of a
//! cpu stand in one queue, each with the product of the parts on its path for a weight, and a cgroup's
//! weight is multiplied by the cpus that its tasks can use (`cgroup_mode` "concur").
//!
//! Tasks change cpus when they wake (to an idle cpu, if there is one), when a cpu runs out of tasks, and
//! when a cpu finds at a tick, every so often, that another one has more load (`balance.rs`). Load is
//! weight times the part of the last time in which a task was runnable (`average.rs`).
//!
//! *Bound*: none. With 7 equal hogs on 4 cpus one cpu has one of them and three have two; who is alone
//! changes whenever the balancing fails often enough to take a task that is larger than the imbalance.
//!
//! *What is modelled* (names are those of fair.c). Eligibility, virtual deadlines, lag kept in sleep
//! (`PLACE_LAG`), the first slice halved (`PLACE_DEADLINE_INITIAL`), the slice kept over a migration
//! (`PLACE_REL_DEADLINE`), delayed dequeue of tasks (`DELAY_DEQUEUE`, `DELAY_ZERO`), slices that are not
//! interrupted (`RUN_TO_PARITY`, `set_protect_slice`) but by who wakes when they are over; base slices of
//! 0.7 ms · (1 + log₂ min(cpus, 8)) that end at a tick, or between ticks (`HRTICK`, which 7.3 has on
//! x86-64: the option `hrtick=on`); the lag of a running group whose weight changes, which 6.18 distorts
//! (`reweight_entity`); PELT of load, of runnable tasks and of use, with its roundings, and what of it
//! moves with a task: a cpu that loses one of two seems to have spare capacity for a while, and takes none;
//! shares of cgroups from averages that are told once a millisecond, renewed at ticks and as tasks come and
//! go (`update_cfs_group`); the classes of `sched_group` (`group_classify`), imbalance of load and of
//! tasks, what is ineligible, too large or too hot to be moved until balancing has failed
//! (`can_migrate_task`), what a task adds to the load of its cpu as it was at the tick (`task_h_load`),
//! intervals of balancing. At a tick each cpu balances and picks before the next one does.
//!
//! *What is not.* One domain for all cpus, which share a cache: no SMT, no NUMA, no capacities, no
//! affinity, no energy model. A quantum is a tick: HZ=250 is one of 4 ms, with `quanta = "synchronised"`. A
//! slice that would end between ticks does not if its task was alone when it began. Who wakes somebody is
//! not known, so that nobody is pulled to the waker's cpu. Newidle balancing is never left out for its cost
//! (`max_newidle_lb_cost`, `NI_RANDOM`). Groups are not delayed at dequeue, and the averages of a group are
//! those of its tasks, without the lag of their propagation. Who slept before is placed as if its use were
//! not estimated (`UTIL_EST`). No `cpu.max`, `cpu.idle`, autogroup, core scheduling, utilization clamping,
//! custom slices (`PREEMPT_SHORT`), or other classes. Loads are counted in 1,024ths of a task of nice 0,
//! and of a cgroup of 100: of those of weight 1, or with the option `nice-0=1024` of those of weight 1,024,
//! as `nice =` in a workload has them. Weights are 1 to 2^32 − 1, in 10 more bits if they are of the first
//! kind; virtual time has 40 bits below the nanosecond and does not wrap.
//!
//! *Cost*: O(N) to pick among the N tasks of a cpu (a scan, where Linux has a tree), O(groups) for the load
//! of a cpu.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Bound, Cost, Entry};
use crate::hierarchy::{NodeId, TreePolicy};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::turns::Payment;

mod average;
mod balance;
mod groups;
mod queue;

use average::Average;
use balance::Balancer;
use groups::{Group, ROOT};
use queue::{Entity, Member};

/// `sysctl_sched_base_slice` of one cpu.
const BASE_SLICE_NS: Nanos = 700_000;
/// `sysctl_sched_migration_cost`: who ran so recently is hot in its cpu's cache.
const MIGRATION_COST_NS: Nanos = 500_000;
/// A whole cpu, and a runnable task, in averages.
const CAPACITY: u64 = 1 << 10;

const BOUND: Bound = Bound::none("none: a run queue for each cpu");
const COST: Cost = Cost { pick: "N", insert: "N", remove: "N" };

/// Loads are counted in 1,024ths of a task of nice 0, and rounded.
const NICE_0: (&str, &str, &str) = (
    "nice-0",
    "1",
    "1024: what a task of nice 0 weighs, and a cgroup of 100, if weights are by nice",
);
const UNITS: [(&str, u64); 2] = [("1", CAPACITY), ("1024", 1)];

pub(super) const LINUX_6_18: Entry = Entry {
    name: "linux-6.18",
    title: "Linux 6.18 on several cpus (EEVDF, load balancing, cgroups)",
    paper: "kernel/sched/fair.c of Linux 6.18",
    bound: BOUND,
    cost: COST,
    multiprocessor: true,
    work_conserving: false,
    by_weight: false,
    payment: Payment::USE,
    options: &[NICE_0],
    build: |setup, options| {
        let unit = options.choice(NICE_0.0, &UNITS)?;
        Ok(Box::new(Linux::new(setup, Cgroups::Nested).with_unit(unit)))
    },
};

pub(super) const LINUX_7_3: Entry = Entry {
    name: "linux-7.3",
    title: "Linux 7.3 on several cpus (EEVDF in one queue a cpu, load balancing, cgroups)",
    paper: "kernel/sched/fair.c of Linux 7.3",
    options: &[NICE_0, ("hrtick", "off", "on: a slice ends between ticks, as on x86-64")],
    build: |setup, options| {
        let unit = options.choice(NICE_0.0, &UNITS)?;
        let hrtick = options.choice("hrtick", &[("off", false), ("on", true)])?;
        Ok(Box::new(Linux::new(setup, Cgroups::Flat).with_unit(unit).with_hrtick(hrtick)))
    },
    ..LINUX_6_18
};

/// Where the tasks of cgroups stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cgroups {
    /// In their group's queue, and the group in its parent's.
    Nested,
    /// In the root's queue.
    Flat,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    weight: u64,
    group: usize,
    /// Where it is, or was when it left.
    cpu: CpuId,
    /// Its weight times the part of the past in which it was runnable.
    load: Average,
    /// That part of the past, of [`CAPACITY`]; and that in which it ran (`util_avg`).
    runnable_average: Average,
    busy: Average,
    /// While it is in no queue.
    entity: Entity,
    /// It is in a queue, perhaps delayed.
    queued: bool,
    /// The policy's caller takes it for runnable.
    runnable: bool,
    /// Its load is part of that of its cpu.
    attached: bool,
    /// It had a cpu at some time.
    has_run: bool,
    /// When it last stopped running.
    ran_until_ns: Nanos,
}

#[derive(Clone, Debug)]
struct Cpu {
    /// Who has it, or had it until now and has neither blocked nor been followed.
    current: Option<TaskId>,
    /// `current` runs, since then …
    running_since_ns: Option<Nanos>,
    /// … and that much of it is accounted.
    accounted_ns: Nanos,
    /// What is left of the slice that nobody interrupts.
    protected_ns: Nanos,
    /// `current` runs for less than a tick.
    run_ns: Option<Nanos>,
    /// Somebody woke here, and may run before `current` goes on.
    woken: Option<TaskId>,
    /// Runnable tasks, who ran last at the end.
    tasks: Vec<TaskId>,
    /// Averages of being used and of runnable tasks, which change cpus with their part of them.
    busy: Average,
    runnable: Average,
    balancer: Balancer,
}

/// The scheduler. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Linux {
    cgroups: Cgroups,
    hrtick: bool,
    /// What weights are multiplied by.
    unit: u64,
    tick_ns: Nanos,
    slice_ns: Nanos,
    cpus: Vec<Cpu>,
    /// By node, the root first.
    groups: Vec<Option<Group>>,
    tasks: Vec<Task>,
}

impl Linux {
    /// The scheduler over no tasks; a quantum is a tick.
    #[must_use]
    pub fn new(setup: &Setup, cgroups: Cgroups) -> Linux {
        let factor = 1 + u64::from(setup.cpus.min(8).ilog2());
        let slice_ns = BASE_SLICE_NS * factor;
        let cpu = Cpu {
            current: None,
            running_since_ns: None,
            accounted_ns: 0,
            protected_ns: 0,
            run_ns: None,
            woken: None,
            tasks: Vec::new(),
            busy: Average::default(),
            runnable: Average::default(),
            balancer: Balancer::new(setup.cpus),
        };
        let mut linux = Linux {
            cgroups,
            hrtick: false,
            unit: CAPACITY,
            tick_ns: setup.quantum_ns,
            slice_ns,
            cpus: alloc::vec![cpu; setup.cpus],
            groups: Vec::new(),
            tasks: Vec::new(),
        };
        linux.groups.push(Some(linux.new_group(ROOT, None, CAPACITY)));
        linux
    }

    /// With `HRTICK`, which ends slices between ticks: who drives it asks [`Policy::slice_ns`].
    #[must_use]
    pub fn with_hrtick(self, hrtick: bool) -> Linux {
        Linux { hrtick, ..self }
    }

    fn with_unit(self, unit: u64) -> Linux {
        Linux { unit, ..self }
    }

    fn scaled(&self, weight: Weight) -> u64 {
        u64::from(weight.get()) * self.unit
    }

    fn task(&self, task: TaskId) -> &Task {
        &self.tasks[task.index()]
    }

    fn task_mut(&mut self, task: TaskId) -> &mut Task {
        &mut self.tasks[task.index()]
    }

    /// The averages of `cpu` up to now; before what they are averages of changes.
    fn observe(&mut self, cpu: CpuId, now_ns: Nanos) {
        let cpu = &mut self.cpus[cpu];
        let used = if cpu.current.is_some() { CAPACITY } else { 0 };
        if let Some(current) = cpu.current {
            self.tasks[current.index()].busy.advance(CAPACITY, now_ns);
        }
        cpu.busy.advance(used, now_ns);
        cpu.runnable.advance(cpu.tasks.len() as u64 * CAPACITY, now_ns);
    }

    /// What the running task of `cpu` has used up to now moves virtual times.
    fn account_current(&mut self, cpu: CpuId, now_ns: Nanos) {
        let about = &self.cpus[cpu];
        if let (Some(task), Some(since_ns)) = (about.current, about.running_since_ns) {
            let used_ns = now_ns.saturating_sub(since_ns);
            self.account(task, used_ns);
        }
    }

    /// `task` has run for `used_ns` in all since it was picked.
    fn account(&mut self, task: TaskId, used_ns: Nanos) {
        let cpu = self.task(task).cpu;
        let new_ns = used_ns.saturating_sub(self.cpus[cpu].accounted_ns);
        self.cpus[cpu].accounted_ns += new_ns;
        self.advance(task, new_ns);
    }

    /// Puts `task` on `cpu`.
    fn enqueue(&mut self, task: TaskId, cpu: CpuId, now_ns: Nanos) {
        self.account_current(cpu, now_ns);
        self.observe(cpu, now_ns);
        let known = self.task_mut(task);
        (known.cpu, known.queued) = (cpu, true);
        self.cpus[cpu].tasks.push(task);
        self.join_groups(task, now_ns);
    }

    /// Takes `task` from its cpu, for whatever reason.
    fn dequeue(&mut self, task: TaskId, now_ns: Nanos) {
        let cpu = self.task(task).cpu;
        self.account_current(cpu, now_ns);
        self.observe(cpu, now_ns);
        self.cpus[cpu].tasks.retain(|&other| other != task);
        self.leave_groups(task, now_ns);
        self.task_mut(task).queued = false;
    }

    /// `task` is runnable no longer. If it is ahead it stays in its queue until it would be picked.
    fn sleep(&mut self, task: TaskId, now_ns: Nanos) {
        let cpu = self.task(task).cpu;
        self.account_current(cpu, now_ns);
        let (queue, member) = (self.queue_of(task), Member::Task(task));
        if queue.is_ahead(member) {
            self.observe(cpu, now_ns);
            self.cpus[cpu].tasks.retain(|&other| other != task);
            self.set_delayed(task, true);
        } else {
            self.dequeue(task, now_ns);
            self.task_mut(task).entity.forget_slice();
        }
    }

    /// A delayed task would be picked: it has worked off what it was ahead.
    fn end_delay(&mut self, task: TaskId, now_ns: Nanos) {
        self.dequeue(task, now_ns);
        let entity = &mut self.task_mut(task).entity;
        entity.forgive();
        entity.forget_slice();
    }

    /// A delayed task is runnable again, where it is.
    fn requeue(&mut self, task: TaskId, now_ns: Nanos) {
        let cpu = self.task(task).cpu;
        self.account_current(cpu, now_ns);
        if self.queue_of(task).is_ahead(Member::Task(task)) {
            self.observe(cpu, now_ns);
            self.cpus[cpu].tasks.push(task);
            self.set_delayed(task, false);
        } else {
            self.end_delay(task, now_ns);
            self.enqueue(task, cpu, now_ns);
        }
    }

    /// The task that `cpu` runs next, from its own queue.
    fn pick_own(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        loop {
            let task = self.best(cpu)?;
            if self.task(task).runnable {
                return Some(task);
            }
            self.end_delay(task, now_ns);
        }
    }

    /// The task that had `cpu` goes on, since its slice is not over.
    fn goes_on(&self, cpu: CpuId) -> Option<TaskId> {
        let Cpu { current, protected_ns, woken, .. } = self.cpus[cpu];
        let stays = |task: &TaskId| self.task(*task).runnable && self.task(*task).cpu == cpu;
        current.filter(|task| protected_ns > 0 && woken.is_none() && stays(task))
    }

    fn start(&mut self, cpu: CpuId, task: TaskId, now_ns: Nanos) {
        self.observe(cpu, now_ns);
        let rest_ns = self.queue_of(task).rest_ns(Member::Task(task));
        let about = &mut self.cpus[cpu];
        // `set_protect_slice`: not of who is picked again.
        if about.current != Some(task) {
            about.protected_ns = rest_ns;
        }
        // `hrtick_start_fair`: the slice ends between ticks, if somebody waits.
        let to_tick_ns = self.tick_ns - now_ns % self.tick_ns;
        let ends_first = self.hrtick && (1..to_tick_ns).contains(&about.protected_ns);
        about.run_ns = (ends_first && about.tasks.len() > 1).then_some(about.protected_ns);
        (about.current, about.running_since_ns) = (Some(task), Some(now_ns));
        (about.accounted_ns, about.woken) = (0, None);
        about.tasks.retain(|&other| other != task);
        about.tasks.push(task);
        let known = self.task_mut(task);
        known.has_run = true;
        known.busy.advance(0, now_ns);
        self.refresh_load(task, now_ns);
    }

    /// `task`, which was charged, does not go on.
    fn give_up_cpu(&mut self, task: TaskId, now_ns: Nanos) {
        let cpu = self.task(task).cpu;
        if self.cpus[cpu].current == Some(task) {
            self.observe(cpu, now_ns);
            self.cpus[cpu].current = None;
        }
    }

    /// True if who woke on `cpu` shall have it now.
    fn is_preempted(&mut self, cpu: CpuId, now_ns: Nanos) -> bool {
        let Cpu { woken: Some(woken), running_since_ns: Some(since_ns), protected_ns, .. } =
            self.cpus[cpu]
        else {
            return false;
        };
        let known = self.task(woken);
        if !known.runnable || known.cpu != cpu || now_ns.saturating_sub(since_ns) < protected_ns {
            return false;
        }
        self.account_current(cpu, now_ns);
        self.best(cpu) == Some(woken)
    }
}

impl Policy for Linux {
    fn add(&mut self, task: TaskId, weight: Weight) {
        let weight = self.scaled(weight);
        let new = Task {
            weight,
            group: ROOT,
            cpu: 0,
            load: Average::default(),
            runnable_average: Average::default(),
            busy: Average::default(),
            entity: Entity::new(Member::Task(task), weight),
            queued: false,
            runnable: false,
            attached: false,
            has_run: false,
            ran_until_ns: 0,
        };
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, new);
        }
        self.tasks[task.index()] = new;
    }

    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        if self.task(task).queued {
            self.give_up_cpu(task, now_ns);
            self.dequeue(task, now_ns);
        }
        self.detach_load(task, now_ns);
        self.task_mut(task).runnable = false;
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, now_ns: Nanos) {
        let weight = self.scaled(weight);
        self.account_current(self.task(task).cpu, now_ns);
        self.reweigh_task(task, weight, now_ns);
    }

    fn wake(&mut self, task: TaskId, now_ns: Nanos) {
        self.task_mut(task).runnable = true;
        if self.task(task).queued {
            self.requeue(task, now_ns);
        } else {
            let cpu = self.place_woken(task, now_ns);
            if !self.task(task).attached {
                // A new task counts in full at once.
                let known = self.task_mut(task);
                known.load = Average::weighted(known.weight, now_ns);
                known.runnable_average = Average::new(CAPACITY / 2, now_ns);
                known.busy = known.runnable_average;
            }
            self.move_load(task, cpu, now_ns);
            self.enqueue(task, cpu, now_ns);
        }
        let cpu = self.task(task).cpu;
        self.cpus[cpu].woken = Some(task);
    }

    fn block(&mut self, task: TaskId, now_ns: Nanos) {
        self.task_mut(task).runnable = false;
        self.sleep(task, now_ns);
        self.give_up_cpu(task, now_ns);
    }

    fn pick(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        if self.cpus[cpu].current.is_some() {
            self.balance_busy(cpu, now_ns);
        }
        let next = self.goes_on(cpu).or_else(|| self.pick_own(cpu, now_ns));
        if self.cpus[cpu].current != next {
            self.observe(cpu, now_ns);
            self.cpus[cpu].current = None;
        }
        let task = next.or_else(|| {
            self.balance_idle(cpu, now_ns);
            self.pick_own(cpu, now_ns)
        })?;
        self.start(cpu, task, now_ns);
        Some(task)
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        let cpu = self.task(task).cpu;
        self.observe(cpu, now_ns);
        self.account(task, used_ns);
        let about = &mut self.cpus[cpu];
        about.running_since_ns = None;
        about.protected_ns = about.protected_ns.saturating_sub(used_ns);
        self.task_mut(task).ran_until_ns = now_ns;
        self.refresh(task, now_ns);
    }

    fn slice_ns(&self, task: TaskId) -> Option<Nanos> {
        self.cpus[self.task(task).cpu].run_ns
    }

    fn interrupt(&mut self, now_ns: Nanos) -> Option<CpuId> {
        for cpu in 0..self.cpus.len() {
            let is_preempted = self.is_preempted(cpu, now_ns);
            self.cpus[cpu].woken = None;
            if is_preempted {
                self.cpus[cpu].protected_ns = 0;
                return Some(cpu);
            }
        }
        None
    }

    fn own_tree(&mut self) -> Option<&mut dyn TreePolicy> {
        Some(self)
    }
}

impl TreePolicy for Linux {
    fn add_node(&mut self, node: NodeId, parent: NodeId, weight: Weight, _now_ns: Nanos) {
        let weight = self.scaled(weight);
        let group = self.new_group(node.index(), Some(parent.index()), weight);
        if self.groups.len() <= node.index() {
            self.groups.resize(node.index() + 1, None);
        }
        assert!(self.groups[node.index()].replace(group).is_none(), "{node:?} is known already");
    }

    fn remove_node(&mut self, node: NodeId) {
        self.groups[node.index()] = None;
    }

    fn set_node_weight(&mut self, node: NodeId, weight: Weight, now_ns: Nanos) {
        let weight = self.scaled(weight);
        for cpu in 0..self.cpus.len() {
            self.account_current(cpu, now_ns);
        }
        self.reweigh_group(node.index(), weight, now_ns);
    }

    /// Linux has no such move: all tasks below leave, and enter again.
    fn move_node(&mut self, node: NodeId, parent: NodeId, now_ns: Nanos) {
        let queued: Vec<TaskId> = (0..)
            .map(TaskId)
            .take(self.tasks.len())
            .filter(|&task| self.task(task).queued)
            .filter(|&task| self.is_within(self.task(task).group, node.index()))
            .collect();
        let was_delayed: Vec<bool> = queued.iter().map(|&task| !self.task(task).runnable).collect();
        queued.iter().for_each(|&task| self.dequeue(task, now_ns));
        self.set_parent(node.index(), parent.index());
        for (&task, delayed) in queued.iter().zip(was_delayed) {
            if !delayed {
                self.enqueue(task, self.task(task).cpu, now_ns);
            }
        }
    }

    fn place(&mut self, task: TaskId, node: NodeId, now_ns: Nanos) {
        let Task { queued, runnable, cpu, group, .. } = *self.task(task);
        if group == node.index() {
            return;
        }
        if queued {
            self.dequeue(task, now_ns);
        }
        let was_attached = self.task(task).attached;
        self.detach_load(task, now_ns);
        self.task_mut(task).group = node.index();
        if was_attached {
            self.attach_load(task, now_ns);
        }
        if queued && runnable {
            self.enqueue(task, cpu, now_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hierarchy::Flat;

    const TICK_NS: Nanos = 4_000_000;

    fn weight(number: u32) -> Weight {
        Weight::new(number).expect("not 0")
    }

    /// Hogs of these weights on these cpus for so many ticks; in ticks, what each received.
    fn received(mut policy: impl Policy, cpus: usize, weights: &[u32], ticks: u64) -> Vec<u64> {
        let mut received = alloc::vec![0; weights.len()];
        for (id, &number) in (0..).zip(weights) {
            policy.add(TaskId(id), weight(number));
            policy.wake(TaskId(id), 0);
        }
        for tick in 0..ticks {
            let (now_ns, end_ns) = (tick * TICK_NS, (tick + 1) * TICK_NS);
            let picked: Vec<_> = (0..cpus).filter_map(|cpu| policy.pick(cpu, now_ns)).collect();
            for task in picked {
                received[task.index()] += 1;
                policy.charge(task, TICK_NS, end_ns);
            }
        }
        received
    }

    fn linux(cgroups: Cgroups, cpus: usize) -> Linux {
        Linux::new(&Setup::new(cpus, TICK_NS), cgroups)
    }

    #[test]
    fn one_cpu_is_shared_by_weight() {
        for cgroups in [Cgroups::Nested, Cgroups::Flat] {
            let received = received(linux(cgroups, 1), 1, &[1, 2, 3, 1000], 10_060);
            for (received, due) in received.into_iter().zip([10_u64, 20, 30, 10_000]) {
                assert!(received.abs_diff(due) <= 1, "{received} of {due}");
            }
        }
    }

    /// Three hogs on two cpus take turns in being alone, since balancing fails, and then does not.
    #[test]
    fn who_is_alone_changes() {
        let received = received(linux(Cgroups::Nested, 2), 2, &[1; 3], 3000);
        assert_eq!(received.iter().sum::<u64>(), 6000, "no cpu idles");
        assert!(received.iter().all(|&ticks| (1800..2200).contains(&ticks)), "{received:?}");
    }

    /// What a task that leaves takes with it of its cpu's use makes that cpu one with spare capacity for a
    /// while, which takes no load: so none of seven hogs is moved back at once.
    #[test]
    fn who_lost_a_task_takes_none_at_first() {
        let mut linux = linux(Cgroups::Nested, 4);
        for id in 0..7 {
            linux.add(TaskId(id), Weight::ONE);
            linux.wake(TaskId(id), 0);
        }
        let (mut before, mut moves) = (alloc::vec![0; 7], Vec::new());
        for tick in 0..2500 {
            let (now_ns, end_ns) = (tick * TICK_NS, (tick + 1) * TICK_NS);
            let picked: Vec<_> = (0..4).filter_map(|cpu| linux.pick(cpu, now_ns)).collect();
            picked.into_iter().for_each(|task| linux.charge(task, TICK_NS, end_ns));
            let cpus: Vec<CpuId> = linux.tasks.iter().map(|task| task.cpu).collect();
            if cpus != before {
                moves.push(tick);
            }
            before = cpus;
        }
        // After it has settled: 57 ms of spare capacity, and three times until it fits.
        let apart = moves[3..].windows(2).map(|pair| pair[1] - pair[0]);
        assert!(apart.clone().all(|ticks| (44..=96).contains(&ticks)), "{moves:?}");
        assert!(apart.count() > 30, "{moves:?}");
    }

    /// A cgroup of many is worth its weight in 6.18, and twice that in 7.3 where it can use two cpus.
    #[test]
    fn what_a_cgroup_is_worth() {
        for (cgroups, due) in [(Cgroups::Nested, 2000), (Cgroups::Flat, 1333)] {
            let mut tree = Flat::new(linux(cgroups, 2), &Setup::new(2, TICK_NS));
            tree.add_node(NodeId(1), NodeId::ROOT, weight(100), 0);
            tree.add_node(NodeId(2), NodeId::ROOT, weight(100), 0);
            for id in 0..5 {
                tree.add(TaskId(id), Weight::ONE);
                tree.place(TaskId(id), NodeId(if id == 0 { 1 } else { 2 }), 0);
                tree.wake(TaskId(id), 0);
            }
            let mut alone = 0;
            for tick in 0..2000 {
                let (now_ns, end_ns) = (tick * TICK_NS, (tick + 1) * TICK_NS);
                let picked: Vec<_> = (0..2).filter_map(|cpu| tree.pick(cpu, now_ns)).collect();
                alone += picked.iter().filter(|task| task.0 == 0).count();
                picked.into_iter().for_each(|task| tree.charge(task, TICK_NS, end_ns));
            }
            assert!(alone.abs_diff(due) < 40, "{alone} of {due} under {cgroups:?}");
        }
    }

    /// Trees that change in every way, on several cpus: weights and members stay what they are together.
    #[test]
    fn nothing_is_lost_in_changes() {
        for cgroups in [Cgroups::Nested, Cgroups::Flat] {
            let mut linux = linux(cgroups, 3);
            for node in 1..5 {
                let parent = if node == 4 { NodeId(3) } else { NodeId::ROOT };
                linux.add_node(NodeId(node), parent, weight(node * 50), 0);
            }
            (0..12).map(TaskId).for_each(|task| linux.add(task, weight(1 + task.0)));
            let mut awake = [false; 12];
            let mut state = 7_u64;
            for step in 0..20_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (random, now_ns) = ((state >> 33) as u32, step * 700_000);
                let task = TaskId(random % 12);
                match random / 12 % 8 {
                    0..4 if !awake[task.index()] => {
                        linux.wake(task, now_ns);
                        awake[task.index()] = true;
                    }
                    0 => {
                        linux.block(task, now_ns);
                        awake[task.index()] = false;
                    }
                    1 => linux.place(task, NodeId(random / 96 % 5), now_ns),
                    2 => linux.set_weight(task, weight(1 + random / 96 % 50), now_ns),
                    3 => linux.set_node_weight(NodeId(1 + random / 96 % 4), weight(70), now_ns),
                    4 => {
                        let parent = if random / 96 % 2 == 0 { NodeId::ROOT } else { NodeId(3) };
                        linux.move_node(NodeId(4), parent, now_ns);
                    }
                    _ => {}
                }
                let picked: Vec<_> = (0..3).filter_map(|cpu| linux.pick(cpu, now_ns)).collect();
                for task in picked {
                    assert!(awake[task.index()], "{task:?} sleeps");
                    linux.charge(task, 600_000, now_ns + 600_000);
                }
                linux.assert_consistent();
            }
        }
    }
}

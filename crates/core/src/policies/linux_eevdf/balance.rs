//! Who moves to another cpu: when it wakes, and when the cpus' loads differ.

use super::groups::ROOT;
use super::{CAPACITY, Linux, MIGRATION_COST_NS};
use crate::policy::{CpuId, Nanos, TaskId};

/// `imbalance_pct` of cpus that share a cache.
const IMBALANCE_PERCENT: u64 = 117;
/// A busy cpu balances so much less often than an idle one.
const BUSY_FACTOR: u64 = 16;
/// `cache_nice_tries`.
const NICE_TRIES: u32 = 1;
/// `sysctl_sched_nr_migrate`.
const LOOKED_AT: usize = 32;
const MILLISECOND_NS: Nanos = 1_000_000;

/// What a cpu remembers of its balancing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Balancer {
    shortest_ns: Nanos,
    interval_ns: Nanos,
    last_ns: Nanos,
    /// The tick at which a busy cpu looked last whether it is time.
    tick: u64,
    /// How often it found an imbalance and no task that it could take.
    failures: u32,
}

impl Balancer {
    pub(super) const fn new(cpus: usize) -> Balancer {
        let shortest_ns = cpus as Nanos * MILLISECOND_NS;
        Balancer { shortest_ns, interval_ns: shortest_ns, last_ns: 0, tick: 0, failures: 0 }
    }

    fn is_due(&self, tick_ns: Nanos, is_busy: bool, now_ns: Nanos) -> bool {
        let interval_ns = match is_busy {
            // A tick less, so that cpus which are busy do not fall into step.
            true => (self.interval_ns * BUSY_FACTOR).saturating_sub(tick_ns),
            false => self.interval_ns,
        };
        let longest_ns = self.shortest_ns * 100;
        now_ns >= self.last_ns.saturating_add(interval_ns.min(longest_ns).max(tick_ns))
    }
}

/// `enum group_type`, of a cpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    HasSpare,
    FullyBusy,
    Overloaded,
}

#[derive(Clone, Copy, Debug)]
struct Statistics {
    cpu: CpuId,
    class: Class,
    tasks: u64,
    load: u64,
}

/// What a cpu should take from another one.
#[derive(Clone, Copy, Debug)]
enum Imbalance {
    Load(u64),
    Tasks(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Balancing {
    NewlyIdle,
    Idle,
    Busy,
}

impl Linux {
    /// The cpu for a task that wakes: the one that it had, if that is idle, else the next idle one, else the
    /// one that it had. For a new one the first idle one, or the one of least load.
    pub(super) fn place_woken(&mut self, task: TaskId, now_ns: Nanos) -> CpuId {
        let cpus = self.cpus.len();
        let known = self.task(task);
        let (first, is_new) = (if known.attached { known.cpu } else { 0 }, !known.attached);
        let mut from_first = (0..cpus).map(|offset| (first + offset) % cpus);
        if let Some(idle) = from_first.find(|&cpu| self.is_idle(cpu)) {
            return idle;
        }
        if !is_new {
            return first;
        }
        let least = (0..cpus).min_by_key(|&cpu| self.observed_load(cpu, now_ns));
        least.expect("there is a cpu")
    }

    fn is_idle(&self, cpu: CpuId) -> bool {
        self.cpus[cpu].tasks.is_empty() && self.cpus[cpu].running_since_ns.is_none()
    }

    fn observed_load(&mut self, cpu: CpuId, now_ns: Nanos) -> u64 {
        self.observe_groups(cpu, now_ns);
        self.load_of(ROOT, cpu)
    }

    /// A busy cpu looks at a tick whether it has too little.
    pub(super) fn balance_busy(&mut self, cpu: CpuId, now_ns: Nanos) {
        let tick = now_ns / self.tick_ns;
        if core::mem::replace(&mut self.cpus[cpu].balancer.tick, tick) == tick {
            return;
        }
        if self.cpus[cpu].balancer.is_due(self.tick_ns, true, now_ns) {
            self.balance(cpu, Balancing::Busy, now_ns);
            self.cpus[cpu].balancer.last_ns = now_ns;
        }
    }

    /// A cpu has nothing to run.
    pub(super) fn balance_idle(&mut self, cpu: CpuId, now_ns: Nanos) {
        self.balance(cpu, Balancing::NewlyIdle, now_ns);
        let about = &self.cpus[cpu];
        if about.tasks.is_empty() && about.balancer.is_due(self.tick_ns, false, now_ns) {
            self.balance(cpu, Balancing::Idle, now_ns);
            self.cpus[cpu].balancer.last_ns = now_ns;
        }
    }

    /// `sched_balance_rq`.
    fn balance(&mut self, cpu: CpuId, kind: Balancing, now_ns: Nanos) {
        if self.cpus.len() == 1 {
            return;
        }
        let Some((busiest, imbalance)) = self.find_busiest(cpu, kind, now_ns) else {
            let balancer = &mut self.cpus[cpu].balancer;
            balancer.failures = 0;
            if kind != Balancing::NewlyIdle {
                let longest_ns = balancer.shortest_ns * 2;
                balancer.interval_ns = (balancer.interval_ns * 2).min(longest_ns);
            }
            return;
        };
        let has_moved = self.take(cpu, busiest, imbalance, kind, now_ns);
        let balancer = &mut self.cpus[cpu].balancer;
        balancer.interval_ns = balancer.shortest_ns;
        if has_moved {
            balancer.failures = 0;
        } else if kind != Balancing::NewlyIdle {
            balancer.failures = balancer.failures.saturating_add(1);
        }
    }

    fn statistics(&mut self, cpu: CpuId, now_ns: Nanos) -> Statistics {
        self.observe(cpu, now_ns);
        let load = self.observed_load(cpu, now_ns);
        let about = &self.cpus[cpu];
        let (tasks, busy, runnable) =
            (about.tasks.len() as u64, about.busy.get(), about.runnable.get());
        Statistics { cpu, class: class(tasks, busy, runnable), tasks, load }
    }

    /// `sched_balance_find_src_group`, `calculate_imbalance` and `sched_balance_find_src_rq`, where every
    /// group is a cpu.
    fn find_busiest(
        &mut self,
        cpu: CpuId,
        kind: Balancing,
        now_ns: Nanos,
    ) -> Option<(CpuId, Imbalance)> {
        let cpus = self.cpus.len();
        let local = self.statistics(cpu, now_ns);
        let (mut all_load, mut busiest) = (local.load, None::<Statistics>);
        for offset in 1..cpus {
            let other = self.statistics((cpu + offset) % cpus, now_ns);
            all_load += other.load;
            if other.tasks > 0 && busiest.is_none_or(|busiest| other.is_busier_than(&busiest)) {
                busiest = Some(other);
            }
        }
        let busiest = busiest?;
        let imbalance = imbalance(&local, &busiest, all_load / cpus as u64, kind)?;
        busiest.can_give(imbalance).then_some((busiest.cpu, imbalance))
    }

    /// `detach_tasks`: takes from `busiest` who waits there, longest first. Returns true if somebody came.
    fn take(
        &mut self,
        cpu: CpuId,
        busiest: CpuId,
        imbalance: Imbalance,
        kind: Balancing,
        now_ns: Nanos,
    ) -> bool {
        let failures = self.cpus[cpu].balancer.failures;
        let mut left = imbalance;
        let mut has_moved = false;
        for _ in 0..LOOKED_AT.min(self.cpus[busiest].tasks.len()) {
            if kind != Balancing::Busy && self.cpus[busiest].tasks.len() <= 1 {
                break;
            }
            let task = self.cpus[busiest].tasks[0];
            let rest = match self.can_migrate(task, cpu, failures, now_ns) {
                true => self.after(task, left, failures, now_ns),
                false => None,
            };
            let Some(rest) = rest else {
                self.cpus[busiest].tasks.rotate_left(1);
                continue;
            };
            self.migrate(task, cpu, now_ns);
            (has_moved, left) = (true, rest);
            let is_enough = matches!(left, Imbalance::Load(0) | Imbalance::Tasks(0));
            if kind == Balancing::NewlyIdle || is_enough {
                break;
            }
        }
        has_moved
    }

    /// What is left of an imbalance when `task` moves, if it may.
    fn after(
        &mut self,
        task: TaskId,
        left: Imbalance,
        failures: u32,
        now_ns: Nanos,
    ) -> Option<Imbalance> {
        match left {
            Imbalance::Tasks(tasks) => Some(Imbalance::Tasks(tasks - 1)),
            Imbalance::Load(left) => {
                let load = self.load_on_cpu(task, now_ns).max(1);
                let is_small = load >> failures.min(63) <= left;
                is_small.then(|| Imbalance::Load(left.saturating_sub(load)))
            }
        }
    }

    /// `can_migrate_task`: at first only who is eligible, unless nobody stands where it would.
    fn can_migrate(&self, task: TaskId, cpu: CpuId, failures: u32, now_ns: Nanos) -> bool {
        let known = self.task(task);
        if failures == 0 && self.competes_on(task, cpu) && !self.is_eligible(task) {
            return false;
        }
        let is_hot = known.has_run && now_ns - known.ran_until_ns < MIGRATION_COST_NS;
        self.cpus[known.cpu].current != Some(task) && (!is_hot || failures > NICE_TRIES)
    }

    fn migrate(&mut self, task: TaskId, cpu: CpuId, now_ns: Nanos) {
        self.dequeue(task, now_ns);
        self.leave_load(task, now_ns);
        self.move_load(task, cpu, now_ns);
        self.enqueue(task, cpu, now_ns);
    }
}

/// `group_classify`, of averages.
fn class(tasks: u64, busy: u64, runnable: u64) -> Class {
    let is_busy = busy * IMBALANCE_PERCENT > CAPACITY * 100;
    let is_crowded = runnable * 100 > CAPACITY * IMBALANCE_PERCENT;
    if tasks > 1 && (is_busy || is_crowded) {
        Class::Overloaded
    } else if tasks == 0 || !(is_busy || is_crowded) {
        Class::HasSpare
    } else {
        Class::FullyBusy
    }
}

impl Statistics {
    /// `update_sd_pick_busiest`.
    fn is_busier_than(&self, other: &Statistics) -> bool {
        match self.class.cmp(&other.class) {
            core::cmp::Ordering::Equal => match self.class {
                Class::Overloaded => self.load > other.load,
                Class::FullyBusy => false,
                Class::HasSpare => self.tasks > other.tasks,
            },
            unequal => unequal.is_gt(),
        }
    }

    /// `sched_balance_find_src_rq`: a load that is too large stays where it is alone.
    fn can_give(&self, imbalance: Imbalance) -> bool {
        !matches!(imbalance, Imbalance::Load(load) if self.tasks == 1 && self.load > load)
    }
}

fn imbalance(
    local: &Statistics,
    busiest: &Statistics,
    mean: u64,
    kind: Balancing,
) -> Option<Imbalance> {
    let is_idle = kind != Balancing::Busy;
    if local.class > busiest.class {
        return None;
    }
    let is_even = local.load >= busiest.load
        || local.load >= mean
        || busiest.load * 100 <= local.load * IMBALANCE_PERCENT;
    if local.class == Class::Overloaded && is_even {
        return None;
    }
    if busiest.class != Class::Overloaded && (!is_idle || busiest.tasks == 1) {
        return None;
    }
    if local.class == Class::HasSpare {
        let tasks = if is_idle { busiest.tasks.saturating_sub(local.tasks) / 2 } else { 0 };
        return (tasks > 0).then_some(Imbalance::Tasks(tasks));
    }
    // That of others than overloaded ones is not counted.
    let busiest_load = if busiest.class == Class::Overloaded { busiest.load } else { 0 };
    if local.load >= busiest_load || local.load >= mean {
        return None;
    }
    // Where the busiest, which has most tasks, has less load than the mean, Linux's difference wraps around.
    let above = busiest_load.checked_sub(mean).unwrap_or(u64::MAX);
    let load = above.min(mean - local.load);
    (load > 0).then_some(Imbalance::Load(load))
}

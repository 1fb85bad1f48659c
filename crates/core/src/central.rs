//! Policies of one cpu on several: one sequence of decisions, which all cpus execute together.
//!
//! What a uniprocessor policy promises, it promises for its sequence of decisions: VTRR chooses
//! each task φ times in Φ decisions. Several instances, one a cpu, would lose that promise. So
//! there is one, each decision is charged as it is taken, and cpus execute the decisions as GR3MP's
//! do: one that falls on a task which another cpu runs becomes a quantum that the task runs there
//! later, without asking (a *frontlog*), and the next decision is taken. Weights are made feasible
//! first, or frontlogs would grow for ever; a cap is rounded down to a whole number.
//!
//! This is how `scx_prorata` runs VTRR on several cpus; `prorata verify` compares with it.
//!
//! *Bound*: that of the policy, for decisions; frontlogs that are still to be run come on top.
//! *Cost*: a decision a quantum in the mean, but as many for one pick as the policy chooses one
//! task in a row: P·N for VTRR, and at most twice that, or 64 a cpu. `wake` and `block` O(N): made to
//! compare with, not to be fast.
//! *Limits*: a task that blocks within its quantum is charged all of it, and loses its frontlog.
//! A cap below 100 is rounded by more than 1 %. Where weights change all the time a policy can choose one
//! task thousands of times in a row, since others are ahead of it: beyond 32 quanta to come, or as many as
//! there are runnable tasks, such decisions are lost. (It would keep its cpu for as long, and alone once
//! others, who have as many, sleep.) While all others have a turn each it needs that many: a task that is due
//! one of four cpus beside 110 others had .78 with 32. And where all that is left of a cycle of millions
//! of quanta is due to tasks that run elsewhere, 3 million decisions were taken for one pick: now the
//! heaviest task that no cpu has runs then, for a quantum that is not counted.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::policies::{self, BuildError};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::weights::{self, Cap};

/// Builds the policy that `spec` names, as [`policies::build`] does; one that schedules one cpu
/// only serves several as [`Central`].
///
/// # Errors
/// When there is no such policy or option, or a value is not acceptable.
pub fn build(spec: &str, setup: &Setup) -> Result<Box<dyn Policy + Send>, BuildError> {
    policies::build_with(spec, setup, |one_cpu| Ok(Box::new(Central::new(one_cpu, setup))))
}

/// The most quanta that a task may have to come, if no more tasks are runnable.
const FRONTLOG: u32 = 32;
/// For each quantum that tasks may have to come, a pick takes so many decisions for each cpu at most.
const CHOICES: usize = 2;
/// And so many in all: a loop in the kernel has an end.
const CHOICES_MAX: usize = 1 << 20;

#[derive(Clone, Copy)]
struct Known {
    weight: Weight,
    /// What it counts for.
    share: Weight,
    queued: bool,
    /// The cpu that has it: from the pick that returned it until that cpu's next pick.
    held_by: Option<CpuId>,
    frontlog: u32,
}

/// A policy of one cpu on several. See the [module documentation](self).
pub struct Central {
    one_cpu: Box<dyn Policy + Send>,
    quantum_ns: Nanos,
    cpus: usize,
    tasks: Vec<Option<Known>>,
    /// The runnable tasks by decreasing weight, the latest first among equals.
    runnable: Vec<TaskId>,
    /// Their weights, in the same order.
    weights: Vec<Weight>,
    cap: Cap,
    holds: Vec<Option<TaskId>>,
}

impl Central {
    /// `one_cpu`, a policy for one cpu that knows no task yet, on the cpus of `setup`.
    #[must_use]
    pub fn new(one_cpu: Box<dyn Policy + Send>, setup: &Setup) -> Central {
        Central {
            one_cpu,
            quantum_ns: setup.quantum_ns,
            cpus: setup.cpus,
            tasks: Vec::new(),
            runnable: Vec::new(),
            weights: Vec::new(),
            cap: Cap::EQUAL,
            holds: alloc::vec![None; setup.cpus],
        }
    }

    fn known(&mut self, task: TaskId) -> &mut Known {
        self.tasks[task.index()].as_mut().expect("it was added")
    }

    fn insert(&mut self, task: TaskId) {
        let weight = self.known(task).weight;
        let at = self.weights.partition_point(|&other| other > weight);
        self.runnable.insert(at, task);
        self.weights.insert(at, weight);
    }

    fn take_out(&mut self, task: TaskId) {
        if let Some(at) = self.runnable.iter().position(|&other| other == task) {
            self.runnable.remove(at);
            self.weights.remove(at);
        }
    }

    /// Tells the policy what `task` counts for now.
    fn settle_share(&mut self, task: TaskId, now_ns: Nanos) {
        let cap = self.cap;
        let known = self.known(task);
        let mut share = known.weight;
        if cap.exceeded_by(share) {
            let (feasible, cpus) = cap.fraction();
            let whole = u32::try_from(feasible / u64::from(cpus)).expect("below the weight");
            share = Weight::new(whole).unwrap_or(Weight::ONE);
        }
        if share != known.share {
            known.share = share;
            self.one_cpu.set_weight(task, share, now_ns);
        }
    }

    /// The runnable set has changed.
    fn readjust(&mut self, now_ns: Nanos) {
        let cap = weights::sorted(&self.weights, self.cpus);
        if cap == self.cap {
            return;
        }
        self.cap = cap;
        for i in 0..self.runnable.len() {
            let task = self.runnable[i];
            if self.known(task).queued {
                self.settle_share(task, now_ns);
            }
        }
    }

    fn hold(&mut self, cpu: CpuId, task: TaskId) -> TaskId {
        self.known(task).held_by = Some(cpu);
        self.holds[cpu] = Some(task);
        task
    }

    fn release(&mut self, cpu: CpuId) -> Option<TaskId> {
        let task = self.holds[cpu].take()?;
        self.known(task).held_by = None;
        Some(task)
    }

    fn heaviest_free(&self) -> TaskId {
        let is_free =
            |task: TaskId| self.tasks[task.index()].is_some_and(|known| known.held_by.is_none());
        self.runnable.iter().copied().find(|&task| is_free(task)).expect("a task is free")
    }

    fn withdraw(&mut self, task: TaskId) {
        if let Some(cpu) = self.known(task).held_by {
            self.release(cpu);
        }
        (self.known(task).frontlog, self.known(task).queued) = (0, false);
        self.take_out(task);
    }
}

impl Policy for Central {
    fn add(&mut self, task: TaskId, weight: Weight) {
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, None);
            self.runnable.reserve(self.tasks.len() - self.runnable.len());
            self.weights.reserve(self.tasks.len() - self.weights.len());
        }
        let new = Known { weight, share: weight, queued: false, held_by: None, frontlog: 0 };
        self.tasks[task.index()] = Some(new);
        self.one_cpu.add(task, weight);
    }

    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        let was_queued = self.known(task).queued;
        if was_queued {
            self.withdraw(task);
        }
        self.one_cpu.remove(task, now_ns);
        if was_queued {
            self.readjust(now_ns);
        }
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, now_ns: Nanos) {
        let queued = self.known(task).queued;
        self.take_out(task);
        self.known(task).weight = weight;
        if queued {
            self.insert(task);
            self.readjust(now_ns);
            self.settle_share(task, now_ns);
        }
    }

    fn wake(&mut self, task: TaskId, now_ns: Nanos) {
        self.insert(task);
        self.readjust(now_ns);
        self.settle_share(task, now_ns);
        self.one_cpu.wake(task, now_ns);
        self.known(task).queued = true;
    }

    fn block(&mut self, task: TaskId, now_ns: Nanos) {
        self.withdraw(task);
        self.one_cpu.block(task, now_ns);
        self.readjust(now_ns);
    }

    fn pick(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        let crowded = self.runnable.len() > self.cpus;
        if let Some(task) = self.release(cpu) {
            if self.known(task).frontlog > 0 {
                self.known(task).frontlog -= 1;
                return Some(self.hold(cpu, task));
            }
            if !crowded {
                return Some(self.hold(cpu, task));
            }
        }
        if self.runnable.len() == self.holds.iter().flatten().count() {
            return None;
        }
        let most = FRONTLOG.max(u32::try_from(self.runnable.len()).unwrap_or(u32::MAX));
        for _ in 0..(CHOICES * self.cpus).saturating_mul(most as usize).min(CHOICES_MAX) {
            let task = self.one_cpu.pick(0, now_ns).expect("a task is runnable");
            self.one_cpu.charge(task, self.quantum_ns, now_ns);
            if self.known(task).held_by.is_none() {
                return Some(self.hold(cpu, task));
            }
            let known = self.known(task);
            known.frontlog += u32::from(crowded && known.frontlog < most);
        }
        let task = self.heaviest_free();
        Some(self.hold(cpu, task))
    }

    fn charge(&mut self, _task: TaskId, _used_ns: Nanos, _now_ns: Nanos) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Checked;
    use crate::checked::tests::Scripted;

    const QUANTUM_NS: Nanos = 1000;

    /// Quanta that tasks of these weights receive in `rounds` rounds of two cpus.
    fn quanta(weights: &[u32], rounds: u64) -> Vec<u64> {
        quanta_on(2, weights, rounds)
    }

    fn quanta_on(cpus: usize, weights: &[u32], rounds: u64) -> Vec<u64> {
        let setup = Setup::new(cpus, QUANTUM_NS);
        let mut policy = Checked::new(build("vtrr", &setup).expect("a policy"), &setup);
        for (id, &weight) in (0..).zip(weights) {
            policy.add(TaskId(id), Weight::new(weight).expect("not 0"));
            policy.wake(TaskId(id), 0);
        }
        let mut received = alloc::vec![0; weights.len()];
        let mut running = alloc::vec![None; cpus];
        for round in 0..rounds {
            let now_ns = round * QUANTUM_NS;
            for (cpu, task) in running.iter_mut().enumerate() {
                if let Some(task) = task.take() {
                    policy.charge(task, QUANTUM_NS, now_ns);
                }
                *task = policy.pick(cpu, now_ns);
                received[task.expect("two tasks are runnable").index()] += 1;
            }
        }
        received
    }

    #[test]
    fn two_cpus_share_by_weight() {
        let received = quanta(&[3, 2, 1], 600);
        for (received, due) in received.iter().zip([600, 400, 200]) {
            assert!(received.abs_diff(due) <= 2, "{received} of {due}");
        }
    }

    #[test]
    fn an_infeasible_weight_is_worth_one_cpu() {
        let received = quanta(&[1000, 1, 1], 600);
        for (received, due) in received.iter().zip([600, 300, 300]) {
            assert!(received.abs_diff(due) <= 2, "{received} of {due}");
        }
    }

    /// Tasks of weights so unlike that a pass through all takes longer than the heavy one's quanta to come.
    #[test]
    fn a_heavy_task_has_its_cpu_while_many_light_ones_have_their_turns() {
        let weights = [&[100_000][..], &[5000; 10], &[500; 100]].concat();
        let received = quanta_on(4, &weights, 6000);
        assert!(received[0] > 5940, "{} of 6000", received[0]);
        let light: u64 = received[11..].iter().sum();
        assert!(light.abs_diff(9000) < 90, "{light} of 9000");
    }

    /// None of them runs for quanta that are not counted: a pick takes as many decisions as a set needs.
    #[test]
    fn thousands_of_tasks_beside_a_heavy_one_have_equal_turns() {
        let received = quanta_on(4, &[&[30_000][..], &[50; 2000]].concat(), 6000);
        let light = &received[1..];
        let (least, most) = (light.iter().min().expect("2000"), light.iter().max().expect("2000"));
        assert!(most - least <= 1, "{least} to {most}");
    }

    #[test]
    fn a_pick_ends_though_only_what_runs_elsewhere_is_chosen() {
        // Once for the first pick, and as often as a second one may ask: the list has no more.
        let stuck = Scripted(alloc::vec![Some(TaskId(0)); 1 + 2 * 2 * 32]);
        let mut policy = Central::new(Box::new(stuck), &Setup::new(2, QUANTUM_NS));
        for (id, weight) in (0..).zip([9, 1, 3, 2]) {
            policy.add(TaskId(id), Weight::new(weight).expect("not 0"));
            policy.wake(TaskId(id), 0);
        }
        assert_eq!(policy.pick(0, 0), Some(TaskId(0)));
        assert_eq!(policy.pick(1, 0), Some(TaskId(2)), "the heaviest of those that wait");
    }

    #[test]
    fn a_policy_for_several_cpus_is_itself() {
        let wrong = build("gr3:x=1", &Setup::new(2, QUANTUM_NS));
        assert!(matches!(wrong, Err(BuildError::UnknownOption(_))));
    }
}

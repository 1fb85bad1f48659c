//! Fixed sets in lockstep: tasks that never block, on cpus whose quanta begin and end together.
//! The model of the papers' proofs and of most of their figures.

use prorata::ideal::FixedErrors;
use prorata::{CpuId, Nanos, Policy, Setup, TaskId, Weight};

/// Tasks 0, 1, … were added and woken in index order; then, quantum by quantum, every running task
/// was charged a whole quantum in the order of its cpu and the cpus picked in index order.
#[derive(Clone, Debug)]
pub struct FixedRun {
    cpus: usize,
    /// One entry a quantum and cpu, the cpus of a quantum side by side.
    schedule: Vec<Option<TaskId>>,
    errors: FixedErrors,
}

impl FixedRun {
    /// Runs `weights` under `policy`, which was built with `setup`, for `quanta` quanta.
    pub fn new(
        policy: &mut (impl Policy + ?Sized),
        setup: &Setup,
        weights: &[Weight],
        quanta: usize,
    ) -> FixedRun {
        let mut schedule = Vec::with_capacity(quanta * setup.cpus);
        let errors = drive(policy, setup, weights, quanta, |_, task| schedule.push(task));
        FixedRun { cpus: setup.cpus, schedule, errors }
    }

    /// Who ran on each cpu, quantum by quantum.
    pub fn schedule(&self) -> impl ExactSizeIterator<Item = &[Option<TaskId>]> {
        self.schedule.chunks_exact(self.cpus)
    }

    /// Service, and the exact errors, with the extremes up to date.
    #[must_use]
    pub fn errors(&self) -> &FixedErrors {
        &self.errors
    }
}

/// Runs `weights` under `policy` for `quanta` quanta, tells `ran` what each cpu ran in each
/// quantum, and returns the errors with the extremes up to date. With a cpu for everybody, task i
/// has cpu i and the policy is not asked: there is nothing to decide.
pub fn drive(
    policy: &mut (impl Policy + ?Sized),
    setup: &Setup,
    weights: &[Weight],
    quanta: usize,
    mut ran: impl FnMut(CpuId, Option<TaskId>),
) -> FixedErrors {
    for (task, &weight) in ids().zip(weights) {
        policy.add(task, weight);
    }
    for (task, _) in ids().zip(weights) {
        policy.wake(task, 0);
    }
    let mut errors = FixedErrors::new(weights, setup.cpus);
    let mut ran = |cpu: CpuId, task: Option<TaskId>| {
        ran(cpu, task);
        if let Some(task) = task {
            errors.runs(task);
        }
        if cpu + 1 == setup.cpus {
            errors.end_quantum();
        }
    };
    if weights.len() <= setup.cpus {
        for _ in 0..quanta {
            for cpu in 0..setup.cpus {
                ran(cpu, ids().nth(cpu).filter(|task| task.index() < weights.len()));
            }
        }
    } else {
        lockstep(policy, setup, quanta as u64, |_, cpu, task| ran(cpu, task));
    }
    errors.finish();
    errors
}

/// Quantum by quantum, every running task is charged a whole one in the order of its cpu, and the cpus pick
/// in the order of their index. `ran` is told of the quantum, counted from 0, the cpu and its task.
pub(crate) fn lockstep<P: Policy + ?Sized>(
    policy: &mut P,
    setup: &Setup,
    quanta: u64,
    mut ran: impl FnMut(u64, CpuId, Option<TaskId>),
) {
    let mut running = vec![None; setup.cpus];
    for quantum in 0..quanta {
        let now_ns: Nanos = quantum * setup.quantum_ns;
        for task in running.iter().copied().flatten() {
            policy.charge(task, setup.quantum_ns, now_ns);
        }
        for (cpu, running) in running.iter_mut().enumerate() {
            *running = policy.pick(cpu, now_ns);
            ran(quantum, cpu, *running);
        }
    }
}

fn ids() -> impl Iterator<Item = TaskId> {
    (0..TaskId::LIMIT).map(TaskId)
}

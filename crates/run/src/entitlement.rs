//! What every task was entitled to: the ideal of [`prorata::ideal`], fed with real readings.

use std::num::NonZeroU64;

use prorata::ideal::{Extremes, ServiceErrors};
use prorata::{Nanos, TaskId, Weight};

/// The ideal beside the run.
///
/// Its clock is not the wall's: it advances with the cpu time that the tasks received together,
/// at the speed of the cpus that they could use. So e = w − W·φ/Φ as the papers define it (GR3
/// §2), and what prorata and the rest of the machine take is no task's service error.
#[derive(Debug)]
pub(crate) struct Entitlement {
    errors: ServiceErrors,
    cpus: usize,
    runnable: usize,
    clock_ns: Nanos,
    /// Delivered to all tasks, as far as the clock has advanced for it.
    delivered_ns: Nanos,
    /// Of the last advance, what did not make a whole ns of the clock on each usable cpu.
    rest_ns: Nanos,
    /// Charged to `errors`, by task.
    counted_ns: Vec<Nanos>,
}

impl Entitlement {
    pub(crate) fn new(cpus: usize, weights: &[Weight]) -> Entitlement {
        let mut errors = ServiceErrors::new(cpus);
        for (index, &weight) in weights.iter().enumerate() {
            errors.add(TaskId(u32::try_from(index).expect("checked by Runner::new")), weight);
        }
        Entitlement {
            errors,
            cpus,
            runnable: 0,
            clock_ns: 0,
            delivered_ns: 0,
            rest_ns: 0,
            counted_ns: vec![0; weights.len()],
        }
    }

    /// All tasks together have received `delivered_ns` so far. Estimates may be taken back: the
    /// clock then waits.
    pub(crate) fn advance(&mut self, delivered_ns: Nanos) {
        let Some(more_ns) = delivered_ns.checked_sub(self.delivered_ns) else { return };
        self.delivered_ns = delivered_ns;
        // Nobody is runnable: what was used is nobody's right, and the clock stands.
        let Some(usable) = NonZeroU64::new(self.cpus.min(self.runnable) as u64) else { return };
        let shared_ns = self.rest_ns + more_ns;
        self.clock_ns += shared_ns / usable;
        self.rest_ns = shared_ns % usable;
    }

    pub(crate) fn wake(&mut self, task: TaskId) {
        self.errors.wake(task, self.clock_ns);
        self.runnable += 1;
    }

    pub(crate) fn block(&mut self, task: TaskId) {
        self.errors.block(task, self.clock_ns);
        self.runnable -= 1;
    }

    /// A turn of `task` begins: its error is least.
    pub(crate) fn start(&mut self, task: TaskId) {
        self.errors.start(task, self.clock_ns);
    }

    /// `task` has received `used_ns` in all: its error is greatest.
    pub(crate) fn count(&mut self, task: TaskId, used_ns: Nanos) {
        let more_ns = used_ns.saturating_sub(self.counted_ns[task.index()]);
        self.counted_ns[task.index()] += more_ns;
        self.errors.charge(task, more_ns, self.clock_ns);
    }

    pub(crate) fn finish(&mut self) {
        self.errors.finish(self.clock_ns);
    }

    /// What the ideal has given `task`.
    pub(crate) fn ideal_ns(&mut self, task: TaskId) -> Nanos {
        self.errors.ideal_ns(task, self.clock_ns)
    }

    /// The least and the greatest service error of `task`, in quanta.
    pub(crate) fn error_quanta(&self, task: TaskId, quantum_ns: Nanos) -> Extremes<f64> {
        let Extremes { min, max } = self.errors.extremes(task);
        Extremes { min: min.in_quanta(quantum_ns), max: max.in_quanta(quantum_ns) }
    }
}

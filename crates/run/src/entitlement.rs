//! What every task was entitled to: the ideal of [`prorata::hierarchy`], fed with real readings.

use std::num::NonZeroU64;

use prorata::hierarchy::{Hierarchy, HierarchyErrors, Place};
use prorata::ideal::Extremes;
use prorata::{Nanos, TaskId, Weight};

/// The ideal beside the run: a task is a group that can use as many cpus as it has runnable threads.
///
/// Its clock is not the wall's: it advances with the cpu time that the tasks received together,
/// at the speed of the cpus that they could use. So e = w − W·φ/Φ as the papers define it (GR3
/// §2), and what prorata and the rest of the machine take is no task's service error.
#[derive(Debug)]
pub(crate) struct Entitlement {
    errors: HierarchyErrors,
    /// By task.
    places: Vec<Place>,
    cpus: usize,
    clock_ns: Nanos,
    /// Delivered to all tasks, as far as the clock has advanced for it.
    delivered_ns: Nanos,
    /// Of the last advance, what did not make a whole ns of the clock on each usable cpu.
    rest_ns: Nanos,
}

impl Entitlement {
    pub(crate) fn new(cpus: usize, weights: &[Weight]) -> Entitlement {
        let mut errors = HierarchyErrors::new(cpus);
        let places = weights.iter().map(|&weight| errors.add(Hierarchy::ROOT, weight)).collect();
        Entitlement { errors, places, cpus, clock_ns: 0, delivered_ns: 0, rest_ns: 0 }
    }

    /// All tasks together have received `delivered_ns` so far. Estimates may be taken back: the
    /// clock then waits.
    pub(crate) fn advance(&mut self, delivered_ns: Nanos) {
        let Some(more_ns) = delivered_ns.checked_sub(self.delivered_ns) else { return };
        self.delivered_ns = delivered_ns;
        let wanted = u64::from(self.errors.tree().leaves(Hierarchy::ROOT));
        // Nobody is runnable: what was used is nobody's right, and the clock stands.
        let Some(usable) = NonZeroU64::new(wanted.min(self.cpus as u64)) else { return };
        let shared_ns = self.rest_ns + more_ns;
        self.clock_ns += shared_ns / usable;
        self.rest_ns = shared_ns % usable;
    }

    /// `task` can use `cpus` cpus from now on.
    pub(crate) fn set_width(&mut self, task: TaskId, cpus: u32) {
        let place = self.places[task.index()];
        self.errors.change(self.clock_ns, |tree| tree.set_width(place, cpus));
    }

    /// `task` begins to run on one cpu more.
    pub(crate) fn start(&mut self, task: TaskId) {
        self.errors.start(self.places[task.index()], self.clock_ns);
    }

    /// `task` ends to run on one of its cpus.
    pub(crate) fn stop(&mut self, task: TaskId) {
        self.errors.stop(self.places[task.index()], self.clock_ns);
    }

    /// `task` has received `used_ns` in all, whatever was taken for granted while it ran.
    pub(crate) fn count(&mut self, task: TaskId, used_ns: Nanos) {
        self.errors.set_used(self.places[task.index()], used_ns, self.clock_ns);
    }

    pub(crate) fn finish(&mut self) {
        self.errors.finish(self.clock_ns);
    }

    /// What the ideal has given `task`.
    pub(crate) fn ideal_ns(&mut self, task: TaskId) -> Nanos {
        self.errors.finish(self.clock_ns);
        self.errors.ideal_ns(self.places[task.index()])
    }

    /// The least and the greatest service error of `task`, in quanta.
    pub(crate) fn error_quanta(&self, task: TaskId, quantum_ns: Nanos) -> Extremes<f64> {
        let Extremes { min, max } = self.errors.extremes(self.places[task.index()]);
        Extremes { min: min.in_quanta(quantum_ns), max: max.in_quanta(quantum_ns) }
    }
}

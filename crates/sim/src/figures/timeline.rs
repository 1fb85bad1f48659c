//! Fixed sets over time: who ran on which cpu, quantum by quantum.

use std::borrow::Cow;

use prorata::{Nanos, Setup, TaskId, Weight, policies};

use super::Unfit;
use crate::fixed;

/// A run of tasks that never block.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    /// The policy, as users write it.
    pub(super) policy: Cow<'static, str>,
    pub(super) cpus: usize,
    pub(super) quantum_ms: u32,
    pub(super) quanta: u32,
}

impl Scene {
    /// The same under the only one of `policies`.
    pub(super) fn with(&self, policies: &[String]) -> Result<Scene, Unfit> {
        let [policy] = policies else { return Err(Unfit::OneOnly) };
        policies::build(policy, &self.setup())?;
        Ok(Scene { policy: Cow::Owned(policy.clone()), ..*self })
    }

    fn setup(&self) -> Setup {
        Setup::new(self.cpus, Nanos::from(self.quantum_ms) * 1_000_000).as_in_papers()
    }

    /// Runs tasks 0, 1, … of `weights`. Tells `ran` in which quantum which task ran.
    pub(super) fn run(&self, weights: &[u32], mut ran: impl FnMut(u32, TaskId)) {
        let setup = self.setup();
        let mut policy = policies::build(&self.policy, &setup).expect("a policy of the registry");
        let weights: Vec<Weight> =
            weights.iter().map(|&w| Weight::new(w).expect("at least 1")).collect();
        let mut quantum = 0;
        fixed::drive(&mut *policy, &setup, &weights, self.quanta as usize, |cpu, task| {
            if let Some(task) = task {
                ran(quantum, task);
            }
            quantum += u32::from(cpu + 1 == self.cpus);
        });
    }

    /// Scheduling decisions of the run.
    pub(super) fn decisions(&self) -> u64 {
        self.cpus as u64 * u64::from(self.quanta)
    }
}

//! The library against its naive twin: the same decisions, whatever happens.

use proptest::prelude::*;
use prorata::policies::gr3::{Gr3, Rescale, Resume};
use prorata::{Checked, Policy, Setup, TaskId, Weight};

use super::twin::Twin;
use super::{QUANTUM_NS, gr3, schedule, start};

/// Weights of all sizes; nearly equal ones; powers of two and their neighbours.
pub(crate) fn weight() -> impl Strategy<Value = u32> {
    prop_oneof![
        (0u32..32, any::<u32>()).prop_map(|(shift, w)| (w >> shift).max(1)),
        1u32..8,
        (0u32..32, 0u32..3).prop_map(|(shift, d)| (1u32 << shift).saturating_add(d).max(2) - 1),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn fixed_sets(
        weights in proptest::collection::vec(weight(), 1..=40),
        cpus in proptest::sample::select(vec![1usize, 2, 3, 4, 8]),
    ) {
        let fast = schedule(&mut gr3(&weights, cpus), cpus, 100);
        let slow = schedule(&mut start(Twin::new(cpus, Rescale::Own, false), &weights), cpus, 100);
        prop_assert_eq!(fast, slow, "{:?} on {} cpus", weights, cpus);
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn changing_sets(
        weights in proptest::collection::vec(weight(), 1..=12),
        cpus in 1usize..=5,
        events in proptest::collection::vec((0u8..12, any::<u16>(), weight()), 1..200),
        rescale in proptest::sample::select(vec![Rescale::Own, Rescale::Neighbour]),
        frontlogs in any::<bool>(),
    ) {
        let setup = Setup::new(cpus, QUANTUM_NS);
        let fast = Gr3::with_rules(&setup, Resume::UntilOrdered, rescale).arrival_frontlogs(frontlogs);
        let fast = Checked::new(fast, &setup);
        let twin = Checked::new(Twin::new(cpus, rescale, frontlogs), &setup);
        // With the neighbour's work an arrival may wait for as many choices as weights differ by.
        let most = if rescale == Rescale::Neighbour { 1000 } else { u32::MAX };
        let weights: Vec<u32> = weights.iter().map(|&weight| weight.min(most)).collect();
        let events: Vec<_> = events.iter().map(|&(v, c, weight)| (v, c, weight.min(most))).collect();
        drive(fast, twin, cpus, &weights, &events)?;
    }
}

/// In a queue that nothing was chosen from, the first task blocks, which leaves it one quantum of its
/// allotment, another one arrives, and the first wakes.
#[test]
fn blocked_before_the_first_choice() {
    let setup = Setup::new(1, QUANTUM_NS);
    let (fast, twin) = (Gr3::new(&setup), Twin::new(1, Rescale::Own, false));
    let events =
        [(0, 0, 1), (2, 0, 1), (0, 1, 1), (0, 0, 1), (6, 0, 1), (6, 0, 1), (6, 0, 1), (6, 0, 1)];
    drive(fast, twin, 1, &[1023, 512], &events).unwrap();
}

/// A task leaves whose successor, of the same weight, counts from then on: what its group has beside whole
/// quanta since a weight changed is kept.
#[test]
fn a_group_whose_weight_stays_keeps_its_work() {
    let setup = Setup::new(1, QUANTUM_NS);
    let (fast, twin) = (Gr3::new(&setup), Twin::new(1, Rescale::Own, false));
    let weights = [1, 15, 1, 1, 1, 1, 1, 662, 1, 1];
    #[rustfmt::skip]
    let events = [
        (0, 1, 1), (2, 2, 1), (6, 0, 1), (3, 5, 5), (0, 7, 1), (3, 4, 4), (0, 5, 1), (5, 0, 1),
        (5, 0, 1), (0, 3, 1), (0, 5, 1), (0, 6, 1), (3, 3, 17), (4, 6, 1), (6, 0, 1), (6, 0, 1),
        (0, 8, 1), (3, 5, 4), (0, 8, 1), (6, 0, 1), (2, 4, 1), (6, 0, 1), (6, 0, 1), (0, 4, 1),
        (4, 5, 1), (6, 0, 1), (6, 0, 1), (0, 1, 1), (0, 0, 1), (5, 0, 1),
    ];
    drive(fast, twin, 1, &weights, &events).unwrap();
}

/// Feeds both policies the same legal calls and compares what they pick.
fn drive(
    mut fast: impl Policy,
    mut twin: impl Policy,
    cpus: usize,
    weights: &[u32],
    events: &[(u8, u16, u32)],
) -> Result<(), TestCaseError> {
    let mut both = Both { fast: &mut fast, twin: &mut twin, now_ns: 0 };
    let mut runnable = vec![false; weights.len()];
    let mut running: Vec<Option<TaskId>> = vec![None; cpus];
    for (id, &weight) in (0..).zip(weights) {
        both.call(|p, _| p.add(TaskId(id), Weight::new(weight).unwrap()));
    }
    for (step, &(verb, choice, weight)) in events.iter().enumerate() {
        both.now_ns += QUANTUM_NS;
        let index = usize::from(choice) % weights.len();
        let task = TaskId(u32::try_from(index).unwrap());
        let cpu = usize::from(choice) % cpus;
        let is_running = running.contains(&Some(task));
        let weight = Weight::new(weight).unwrap();
        match verb {
            0 | 1 if !runnable[index] => {
                runnable[index] = true;
                both.call(|p, now| p.wake(task, now));
            }
            2 if runnable[index] && !is_running => {
                runnable[index] = false;
                both.call(|p, now| p.block(task, now));
            }
            3 => both.call(|p, now| p.set_weight(task, weight, now)),
            4 if !is_running => {
                runnable[index] = false;
                both.call(|p, now| {
                    p.remove(task, now);
                    p.add(task, weight);
                });
            }
            5 | 6 => {
                if let Some(task) = running[cpu].take() {
                    both.call(|p, now| p.charge(task, QUANTUM_NS / 3, now));
                    if verb == 5 {
                        runnable[task.index()] = false;
                        both.call(|p, now| p.block(task, now));
                    }
                }
                running[cpu] = both.pick(cpu, step)?;
            }
            7..=9 => {
                let charged: Vec<TaskId> = running.iter_mut().filter_map(Option::take).collect();
                for task in charged {
                    both.call(|p, now| p.charge(task, QUANTUM_NS, now));
                }
                for (cpu, running) in running.iter_mut().enumerate() {
                    *running = both.pick(cpu, step)?;
                }
            }
            _ => {
                if let Some(task) = running[cpu].take() {
                    both.call(|p, now| p.charge(task, QUANTUM_NS, now));
                }
                running[cpu] = both.pick(cpu, step)?;
            }
        }
    }
    Ok(())
}

struct Both<'a, F, T> {
    fast: &'a mut F,
    twin: &'a mut T,
    now_ns: u64,
}

impl<F: Policy, T: Policy> Both<'_, F, T> {
    fn call(&mut self, mut call: impl FnMut(&mut dyn Policy, u64)) {
        call(self.fast, self.now_ns);
        call(self.twin, self.now_ns);
    }

    fn pick(&mut self, cpu: usize, step: usize) -> Result<Option<TaskId>, TestCaseError> {
        let picked = self.fast.pick(cpu, self.now_ns);
        prop_assert_eq!(picked, self.twin.pick(cpu, self.now_ns), "step {}, cpu {}", step, cpu);
        Ok(picked)
    }
}

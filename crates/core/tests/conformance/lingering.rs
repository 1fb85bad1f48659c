//! With corrected turns the policy hears only of sleeps that are longer than a moment.

use prorata::policies::build;
use prorata::{Corrected, CpuId, Nanos, Policy, Setup, TaskId, Weight};

use crate::common::QUANTUM_NS;

/// Counts the sleeps that the policy is told of.
struct Told<P> {
    policy: P,
    sleeps: u32,
}

impl<P: Policy> Policy for Told<P> {
    fn add(&mut self, task: TaskId, weight: Weight) {
        self.policy.add(task, weight);
    }
    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        self.policy.remove(task, now_ns);
    }
    fn set_weight(&mut self, task: TaskId, weight: Weight, now_ns: Nanos) {
        self.policy.set_weight(task, weight, now_ns);
    }
    fn wake(&mut self, task: TaskId, now_ns: Nanos) {
        self.policy.wake(task, now_ns);
    }
    fn block(&mut self, task: TaskId, now_ns: Nanos) {
        self.sleeps += 1;
        self.policy.block(task, now_ns);
    }
    fn pick(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        self.policy.pick(cpu, now_ns)
    }
    fn charge(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        self.policy.charge(task, used_ns, now_ns);
    }
}

/// How often the policy is told of a sleep if a task runs for a moment and sleeps for `sleep_ns`, again and
/// again, a hundred times, while a hog runs. Who sleeps is not picked.
fn told(policy: &str, sleep_ns: Nanos) -> u32 {
    let setup = Setup::new(1, QUANTUM_NS).as_in_papers();
    let policy = build(policy, &setup).expect("it is registered");
    let mut policy = Corrected::new(Told { policy, sleeps: 0 }, &setup);
    let (hog, napper, moment_ns) = (TaskId(0), TaskId(1), QUANTUM_NS / 1000);
    let mut now_ns = 0;
    for task in [hog, napper] {
        policy.add(task, Weight::ONE);
        policy.wake(task, now_ns);
    }
    let mut running = policy.pick(0, now_ns);
    for _ in 0..100 {
        while running != Some(napper) {
            now_ns += QUANTUM_NS;
            policy.charge(hog, QUANTUM_NS, now_ns);
            running = policy.pick(0, now_ns);
        }
        now_ns += moment_ns;
        policy.charge(napper, moment_ns, now_ns);
        policy.block(napper, now_ns);
        assert_eq!(policy.pick(0, now_ns), Some(hog));
        for _ in 0..sleep_ns / QUANTUM_NS {
            now_ns += QUANTUM_NS;
            policy.charge(hog, QUANTUM_NS, now_ns);
            assert_eq!(policy.pick(0, now_ns), Some(hog));
        }
        now_ns += sleep_ns % QUANTUM_NS;
        policy.wake(napper, now_ns);
        assert_eq!(policy.interrupt(now_ns), Some(0));
        policy.charge(hog, sleep_ns % QUANTUM_NS, now_ns);
        running = policy.pick(0, now_ns);
    }
    policy.inner().sleeps
}

#[test]
fn the_policy_hears_of_long_sleeps_only() {
    for policy in ["gr3", "gdq", "mfq", "dfs-fa", "vtrr", "wfq"] {
        let (brief, long) = (told(policy, QUANTUM_NS / 100), told(policy, 5 * QUANTUM_NS / 2));
        assert!(brief <= 10, "{policy} is told of {brief} of 100 sleeps");
        assert_eq!(long, 100, "{policy} is to be told of 100 sleeps");
    }
}

//! With corrected turns the policy hears only of sleeps that are longer than a moment.

use prorata::policies::find;
use prorata::{Corrected, Nanos, Policy, Setup, TaskId, Weight};

use crate::sleepers::{QUANTUM_NS, paid};

/// How often the policy is told of a sleep if a task runs for a moment and sleeps for `sleep_ns`, again and
/// again, a hundred times, while a hog runs. Who sleeps is not picked.
fn told(policy: &str, sleep_ns: Nanos) -> u32 {
    let setup = Setup::new(1, QUANTUM_NS);
    let mut policy = Corrected::new(paid(find(policy).expect("a policy"), &setup), &setup);
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

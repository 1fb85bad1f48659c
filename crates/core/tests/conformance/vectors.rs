//! The schedules that the papers print.

use prorata::{Setup, policies};

use crate::common::{Lockstep, QUANTUM_NS, start};

/// Who runs in each quantum on one cpu, counted from 1.
fn order(policy: &str, weights: &[u32], quanta: usize) -> Vec<u32> {
    let policy = policies::build(policy, &Setup::new(1, QUANTUM_NS)).expect("a valid policy");
    Lockstep::new(start(policy, weights), 1).rows(quanta).concat()
}

/// VTRR paper, section 3.1.
#[test]
fn vtrr() {
    assert_eq!(order("vtrr", &[3, 2, 1], 12), [1, 2, 3, 1, 2, 1, 1, 2, 3, 1, 2, 1]);
}

/// The VTRR paper, section 2.4, prints `1 2 1 2 3 1`: after three quanta all finishing times tie.
#[test]
fn wfq() {
    for policy in ["wfq", "wfq-list"] {
        assert_eq!(order(policy, &[3, 2, 1], 6), [1, 2, 1, 3, 2, 1]);
    }
    assert_eq!(order("wfq:ties=first", &[3, 2, 1], 6), [1, 2, 1, 1, 2, 3]);
    assert_eq!(order("wfq:ties=last", &[3, 2, 1], 6), [1, 2, 1, 3, 2, 1]);
}

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

/// Spec section 7; DRR with whole quanta is the same.
#[test]
fn weighted_round_robin() {
    assert_eq!(order("wrr", &[3, 2, 1], 7), [1, 1, 1, 2, 2, 3, 1]);
    assert_eq!(order("drr", &[3, 2, 1], 7), [1, 1, 1, 2, 2, 3, 1]);
}

/// On a fixed set stride scheduling is WFQ.
#[test]
fn stride() {
    let weights = [12, 3, 3, 2, 2, 2];
    assert_eq!(order("stride", &weights, 48), order("wfq", &weights, 48));
}

/// Least start tag: all tie at first.
#[test]
fn start_time_fair_queueing() {
    assert_eq!(order("sfq", &[3, 2, 1], 6), [1, 2, 3, 1, 2, 1]);
}

/// Eligible tasks only: the heavy task runs every other time, where WFQ runs it ten times on end.
#[test]
fn worst_case_fair() {
    let mut weights = vec![1; 11];
    weights[0] = 10;
    assert_eq!(order("wfq:ties=first", &weights, 12), [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3]);
    let spread = order("wf2q:ties=first", &weights, 20);
    assert!(spread.chunks(2).all(|pair| pair[0] == 1 && pair[1] != 1), "{spread:?}");
}

/// The columns of K = 2: S_2 = 1 2 1 visits the twos, the ones, the twos.
#[test]
fn smoothed_round_robin() {
    assert_eq!(order("srr", &[3, 2, 1], 12), [1, 2, 1, 3, 1, 2, 1, 2, 1, 3, 1, 2]);
}

/// One task of half the capacity and 2^5 of a 128th each (GR3, section 6): after 2^6 slots the heavy
/// one is N/3 behind, and then runs by itself.
#[test]
fn stratified_round_robin_lets_a_heavy_task_fall_behind() {
    let mut weights = vec![1; 33];
    weights[0] = 64;
    let order = order("stratified", &weights, 96);
    let heavy = |quanta: &[u32]| quanta.iter().filter(|&&task| task == 1).count();
    // e = 32 − 64·64/96.
    assert_eq!(heavy(&order[..64]), 32);
    assert_eq!(heavy(&order[64..]), 32);
}

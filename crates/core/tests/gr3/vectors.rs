//! The worked examples of the papers (spec sections 2 and 3).

use super::{gr3, schedule};

/// The tasks that run on one cpu, counted from 1 as in the papers.
fn one_cpu(weights: &[u32], quanta: usize) -> Vec<u32> {
    let rows = schedule(&mut gr3(weights, 1), 1, quanta);
    rows.into_iter().map(|row| row[0].expect("a task is runnable") + 1).collect()
}

#[test]
fn three_groups_of_one() {
    let round = [1, 1, 2, 1, 1, 1, 2, 3];
    assert_eq!(one_cpu(&[5, 2, 1], 24), [round, round, round].concat());
}

#[test]
fn two_groups_with_deficits() {
    let round = [2, 1, 3, 1, 4, 1, 5, 1, 6, 1, 2, 1, 2, 1, 3, 1, 3, 1, 4, 1, 5, 1, 6, 1];
    assert_eq!(one_cpu(&[12, 3, 3, 2, 2, 2], 48), [round, round].concat());
}

#[test]
fn a_frontlog_keeps_a_task_on_its_cpu() {
    let pair = |a: u32, b: u32| vec![Some(a - 1), Some(b - 1)];
    let round = [pair(1, 2), pair(1, 2), pair(3, 2)];
    assert_eq!(schedule(&mut gr3(&[2, 3, 1], 2), 2, 6), [round.clone(), round].concat());
}

#[test]
fn with_a_cpu_for_each_task_i_runs_on_cpu_i() {
    let rows = schedule(&mut gr3(&[1, 500, 30], 4), 4, 5);
    assert!(rows.iter().all(|row| *row == [Some(0), Some(1), Some(2), None]));
}

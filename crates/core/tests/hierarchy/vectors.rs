//! Small trees whose rates can be worked out by hand.

use prorata::hierarchy::{Hierarchy, Place, Rate, Violation};

use crate::common::weight;

/// A node of `weight` below the root, and tasks of these weights in it.
fn node(tree: &mut Hierarchy, number: u32, tasks: &[u32]) -> (Place, Vec<Place>) {
    let node = tree.add(Hierarchy::ROOT, weight(number));
    let leaf = |&number: &u32| {
        let leaf = tree.add(node, weight(number));
        tree.set_width(leaf, 1);
        leaf
    };
    (node, tasks.iter().map(leaf).collect())
}

/// Nodes and their tasks on `cpus` cpus: the rates of all tasks, as they are printed.
fn rates(cpus: usize, nodes: &[(u32, &[u32])]) -> Vec<String> {
    let mut tree = Hierarchy::new();
    let tasks: Vec<Place> =
        nodes.iter().flat_map(|&(number, tasks)| node(&mut tree, number, tasks).1).collect();
    let rates = tree.rates(cpus);
    tree.certify(cpus, &rates).expect("the ideal");
    tasks.iter().map(|&task| rates.of(task).to_string()).collect()
}

#[test]
fn a_task_beside_four() {
    let quarter = "1/4";
    assert_eq!(rates(2, &[(1, &[1]), (1, &[1; 4])]), ["1", quarter, quarter, quarter, quarter]);
}

#[test]
fn what_a_node_cannot_use_goes_to_its_siblings() {
    let third = "1/3";
    let expected = ["1", "1", third, third, third, third, third, third];
    assert_eq!(rates(4, &[(3, &[1; 2]), (1, &[1; 6])]), expected);
}

/// Flattening the weights first and capping afterwards would give b .69.
#[test]
fn what_a_task_cannot_use_goes_to_its_siblings() {
    assert_eq!(rates(4, &[(3, &[9, 1]), (1, &[1; 4])]), ["1", "1", "1/2", "1/2", "1/2", "1/2"]);
}

#[test]
fn one_cpu_is_shared_by_weight_at_every_level() {
    assert_eq!(rates(1, &[(3, &[9, 1]), (1, &[1])]), ["27/40", "3/40", "1/4"]);
}

#[test]
fn a_task_is_capped_beside_a_node() {
    let mut tree = Hierarchy::new();
    let (a, x) = node(&mut tree, 1, &[9]);
    let y = tree.add(a, weight(1));
    tree.set_width(y, 3);
    let (_, b) = node(&mut tree, 1, &[1; 8]);
    let rates = tree.rates(4);
    assert_eq!(rates.of(x[0]), Rate::whole(1));
    assert_eq!(rates.of(y), Rate::whole(1), "three tasks, a third each");
    assert!(b.iter().all(|&task| rates.of(task) == Rate::ratio(1, 4)));
}

#[test]
fn nothing_to_run() {
    let mut tree = Hierarchy::new();
    let (node, _) = node(&mut tree, 5, &[]);
    let rates = tree.rates(3);
    assert_eq!(rates.of(node), Rate::whole(0));
    assert_eq!(tree.certify(3, &rates), Ok(()));
}

/// Negative controls: rates that are wrong in each of the ways.
#[test]
fn wrong_rates_are_not_certified() {
    let mut tree = Hierarchy::new();
    let (a, tasks) = node(&mut tree, 1, &[1, 1, 1, 1]);
    let (b, _) = node(&mut tree, 1, &[1]);
    let right = tree.rates(2);
    let claim = |place, numerator, denominator| {
        right.clone().with(place, Rate::ratio(numerator, denominator))
    };
    assert_eq!(tree.certify(2, &claim(Hierarchy::ROOT, 1, 1)), Err(Violation::Idle));
    assert_eq!(tree.certify(2, &claim(b, 3, 2)), Err(Violation::TooMuch(b)));
    assert_eq!(tree.certify(2, &claim(a, 1, 2)), Err(Violation::Sum(Hierarchy::ROOT)));
    let unfair = claim(tasks[0], 1, 2).with(tasks[1], Rate::whole(0));
    assert_eq!(tree.certify(2, &unfair), Err(Violation::Unfair(tasks[1], tasks[0])));
    let flat = claim(a, 8, 5).with(b, Rate::ratio(2, 5));
    assert_eq!(tree.certify(2, &flat), Err(Violation::Unfair(b, a)));
}

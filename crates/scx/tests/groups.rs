//! What tasks count for in the kernel's tree of cgroups, against the core library's exact rates.
//!
//! `group.h` is compiled natively under the address and undefined-behaviour sanitizers (`groups.c`) and
//! told of random trees that change; the core library's tree is told the same. What the kernel's tells
//! the policy must make every task's rate the exact one, up to the rounding of weights.

use std::fmt::Write as _;
use std::path::Path;

use prorata::hierarchy::{Hierarchy, Place};
use prorata::{Weight, weights};

mod native;
mod random;

use random::Random;

/// Changes in a history; after every [`LOOK`]th, what tasks were told is compared.
const HISTORY: usize = 1_000;
const LOOK: usize = 8;
const DEPTH: usize = 16;

/// Equal weights, those of nice values, or up to 10^6.
fn some_weight(random: &mut Random) -> u32 {
    let number = match random.below(3) {
        0 => 1024,
        1 => 15 + random.next() % 90_000,
        _ => 1 + ((random.next() % 1_000_000) >> random.below(20)),
    };
    u32::try_from(number).expect("it is at most 10^6")
}

fn weight(number: u32) -> Weight {
    Weight::new(number).expect("it is not 0")
}

#[derive(Clone, Copy)]
struct Node {
    place: Place,
    depth: usize,
    /// Tasks and nodes in it.
    members: usize,
    parent: usize,
}

#[derive(Clone, Copy)]
struct Task {
    place: Place,
    node: usize,
    runnable: bool,
}

/// Makes random changes to the core's tree and writes them down, with the rates that are right.
struct World {
    tree: Hierarchy,
    random: Random,
    cpus: usize,
    /// So many more the kernel's tree is told of.
    more: usize,
    /// By number; the root is always there.
    nodes: Vec<Option<Node>>,
    tasks: Vec<Option<Task>>,
    changes: String,
    /// At every look: how many cpus there are, and the runnable tasks' rates, in cpus.
    looks: Vec<(usize, Vec<(usize, f64)>)>,
}

fn some_cpus(random: &mut Random) -> usize {
    [1, 2, 3, 4, 8, 64][random.below(6)]
}

impl World {
    fn new(seed: u64, more: usize) -> World {
        let mut random = Random(seed);
        let cpus = some_cpus(&mut random);
        let root = Node { place: Hierarchy::ROOT, depth: 0, members: 1, parent: 0 };
        let (nodes, tasks) = (2 + random.below(40), 1 + random.below(80));
        World {
            tree: Hierarchy::new(),
            random,
            cpus,
            more,
            nodes: std::iter::once(Some(root)).chain((1..nodes).map(|_| None)).collect(),
            tasks: vec![None; tasks],
            changes: format!("i {}\n", cpus + more),
            looks: Vec::new(),
        }
    }

    fn write(&mut self, line: std::fmt::Arguments<'_>) {
        self.changes.write_fmt(line).expect("a string takes everything");
        self.changes.push('\n');
    }

    fn step(&mut self) {
        match self.random.below(64) {
            0 => self.change_cpus(),
            1..16 => self.change_node(),
            _ => self.change_task(),
        }
    }

    fn change_cpus(&mut self) {
        self.cpus = some_cpus(&mut self.random);
        self.write(format_args!("c {}", self.cpus + self.more));
    }

    fn some_node(&mut self) -> usize {
        loop {
            let number = self.random.below(self.nodes.len());
            if self.nodes[number].is_some() {
                return number;
            }
        }
    }

    fn change_node(&mut self) {
        let number = 1 + self.random.below(self.nodes.len() - 1);
        let new = some_weight(&mut self.random);
        let Some(node) = self.nodes[number] else {
            let parent = self.some_node();
            return self.add_node(number, parent, new);
        };
        if node.members == 0 && self.random.below(2) == 0 {
            self.write(format_args!("x {number}"));
            self.tree.remove(node.place);
            self.nodes[number] = None;
            self.members(node.parent, |members| members - 1);
        } else {
            self.write(format_args!("u {number} {new}"));
            self.tree.set_weight(node.place, weight(new));
        }
    }

    fn add_node(&mut self, number: usize, parent: usize, new: u32) {
        let above = self.nodes[parent].expect("it is there");
        if above.depth < DEPTH {
            self.write(format_args!("n {number} {parent} {new}"));
            let place = self.tree.add(above.place, weight(new));
            self.nodes[number] = Some(Node { place, depth: above.depth + 1, members: 0, parent });
            self.members(parent, |members| members + 1);
        }
    }

    fn members(&mut self, node: usize, change: impl Fn(usize) -> usize) {
        let node = self.nodes[node].as_mut().expect("it is there");
        node.members = change(node.members);
    }

    fn change_task(&mut self) {
        let number = self.random.below(self.tasks.len());
        let (node, new) = (self.some_node(), some_weight(&mut self.random));
        let place_of_node = self.nodes[node].expect("it is there").place;
        let Some(task) = self.tasks[number] else {
            self.write(format_args!("a {number} {node} {new}"));
            let place = self.tree.add(place_of_node, weight(new));
            self.tasks[number] = Some(Task { place, node, runnable: false });
            return self.members(node, |members| members + 1);
        };
        match self.random.below(16) {
            0 if !task.runnable => {
                self.write(format_args!("r {number}"));
                self.tree.remove(task.place);
                self.tasks[number] = None;
                self.members(task.node, |members| members - 1);
            }
            1 => {
                self.write(format_args!("s {number} {new}"));
                self.tree.set_weight(task.place, weight(new));
            }
            2 | 3 => {
                self.write(format_args!("m {number} {node}"));
                self.tree.move_to(task.place, place_of_node);
                self.tasks[number] = Some(Task { node, ..task });
                self.members(task.node, |members| members - 1);
                self.members(node, |members| members + 1);
            }
            choice => self.set_runnable(number, choice % 4 != 0),
        }
    }

    fn set_runnable(&mut self, number: usize, runnable: bool) {
        let task = self.tasks[number].as_mut().expect("it is there");
        if task.runnable != runnable {
            task.runnable = runnable;
            let place = task.place;
            self.tree.set_width(place, u32::from(runnable));
            self.write(format_args!("{} {number}", if runnable { 'j' } else { 'p' }));
        }
    }

    fn look(&mut self) {
        self.write(format_args!("q"));
        let rates = self.tree.rates(self.cpus);
        let known =
            self.tasks.iter().enumerate().filter_map(|(number, task)| Some((number, (*task)?)));
        let runnable = known.filter(|(_, task)| task.runnable);
        let rates = runnable.map(|(n, task)| (n, rates.of(task.place).in_cpus())).collect();
        self.looks.push((self.cpus, rates));
    }
}

/// What every runnable task was told, at every look.
fn told(program: &Path, changes: &str) -> Vec<Vec<(usize, u32)>> {
    let lines = native::answer(program, changes);
    let looks = lines.split("end\n").map(|look| {
        let pair = |line: &str| {
            let (task, weight) = line.split_once(' ').expect("two numbers");
            (task.parse().expect("a number"), weight.parse().expect("a number"))
        };
        look.lines().map(pair).collect()
    });
    looks.collect()
}

/// The first task whose rate under the weights that were told differs from the exact one by more than
/// the rounding of weights explains.
fn wrong_rate(told: &[(usize, u32)], rates: &[(usize, f64)], cpus: usize) -> Option<String> {
    let mut sorted: Vec<Weight> = told.iter().map(|&(_, told)| weight(told)).collect();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let cap = weights::sorted(&sorted, cpus);
    // In parts of the cap's denominator.
    let counts = |told: u32| cap.effective(weight(told)) as f64;
    let total: f64 = told.iter().map(|&(_, told)| counts(told)).sum();
    let per_cpu = total / cpus.min(told.len()) as f64;
    let unit = counts(1).min(per_cpu);
    rates.iter().find_map(|&(task, exact)| {
        let &(_, told_of_it) = told.iter().find(|(other, _)| *other == task)?;
        let rate = counts(told_of_it) / per_cpu;
        // Each weight is rounded to a whole one, and is at least 1.
        let rounding = unit * (1.0 + told.len() as f64 * exact) / per_cpu;
        let wrong = (rate - exact).abs() > rounding + 1e-6;
        wrong.then(|| format!("task {task} was told {told_of_it}: {rate} cpus, but is due {exact}"))
    })
}

const SANITIZED: &[&str] = &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

/// The histories of these seeds; an error names the first difference. The kernel's tree has `more` cpus.
fn compare(seeds: std::ops::Range<u64>, more: usize) -> Result<(), String> {
    let program = native::build("groups.c", "group.h", SANITIZED);
    for seed in seeds {
        let mut world = World::new(seed, more);
        for number in 0..HISTORY {
            world.step();
            if number % LOOK == 0 {
                world.look();
            }
        }
        let told = told(&program, &world.changes);
        for (look, (told, (cpus, rates))) in told.iter().zip(&world.looks).enumerate() {
            assert_eq!(told.len(), rates.len(), "seed {seed}, look {look}");
            if let Some(wrong) = wrong_rate(told, rates, *cpus) {
                return Err(format!("seed {seed}, {cpus} cpus, look {look}: {wrong}"));
            }
        }
    }
    Ok(())
}

#[test]
fn tasks_count_for_their_parts_of_the_tree() {
    compare(0..100, 0).unwrap();
}

#[test]
fn a_tree_of_another_machine_is_noticed() {
    assert!(compare(0..20, 1).is_err());
}

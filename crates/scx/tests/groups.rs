//! What tasks count for in the kernel's tree of cgroups, against the core library's exact rates.
//!
//! `group.h` is compiled natively under the address and undefined-behaviour sanitizers (`groups.c`) and
//! told of random trees that change; the core library's tree is told the same. What the kernel's tells
//! the policy must make every task's rate the exact one, up to the rounding of weights.

use std::fmt::Write as _;
use std::path::Path;

use prorata::hierarchy::{Hierarchy, Place};
use prorata::{Weight, weights};

#[path = "../src/due.rs"]
#[allow(dead_code)] // the loader uses more of it
mod due;
mod native;
mod random;

use due::{Due, LOOK_NS, NOWHERE, Spent, Task as Told};
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
    /// Cpus come and go.
    cpus_change: bool,
    watched: Watched,
}

fn some_cpus(random: &mut Random) -> usize {
    [1, 2, 3, 4, 8, 64][random.below(6)]
}

/// What each node was due and received since somebody watches, and what each task spent in all.
#[derive(Clone, Default)]
struct Watched {
    now_ns: u64,
    due_ns: Vec<f64>,
    spent: Vec<Spent>,
    of_tasks: Vec<Spent>,
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
            cpus_change: true,
            watched: Watched {
                now_ns: 0,
                due_ns: vec![0.0; nodes],
                spent: vec![Spent::default(); nodes],
                of_tasks: vec![Spent::default(); tasks],
            },
        }
    }

    fn write(&mut self, line: std::fmt::Arguments<'_>) {
        self.changes.write_fmt(line).expect("a string takes everything");
        self.changes.push('\n');
    }

    fn step(&mut self) {
        match self.random.below(64) {
            0 if self.cpus_change => self.change_cpus(),
            ..16 => self.change_node(),
            _ => self.change_task(),
        }
    }

    fn change_cpus(&mut self) {
        self.cpus = some_cpus(&mut self.random);
        self.write(format_args!("k {}", self.cpus + self.more));
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
            (self.watched.due_ns[number], self.watched.spent[number]) = (0.0, Spent::default());
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

    /// Nothing changes for a time, in which a task runs and waits.
    fn elapse(&mut self, longest_ns: usize) {
        let elapsed_ns = self.random.below(longest_ns) as u64;
        self.write(format_args!("t {elapsed_ns}"));
        self.watched.now_ns += elapsed_ns;
        let rates = self.tree.rates(self.cpus);
        for (due_ns, node) in self.watched.due_ns.iter_mut().zip(&self.nodes) {
            let rate = node.map_or(0.0, |node| rates.of(node.place).in_cpus());
            *due_ns += rate * elapsed_ns as f64;
        }
        let number = self.random.below(self.tasks.len());
        if let Some(task) = self.tasks[number] {
            self.spend(number, task.node, elapsed_ns);
        }
    }

    fn spend(&mut self, task: usize, mut node: usize, received_ns: u64) {
        let spent = Spent { received_ns, waited_ns: received_ns / 3 };
        let all = self.watched.of_tasks[task].plus(spent);
        self.watched.of_tasks[task] = all;
        self.write(format_args!("v {task} {} {}", all.received_ns, all.waited_ns));
        loop {
            self.watched.spent[node] = self.watched.spent[node].plus(spent);
            if node == 0 {
                return;
            }
            node = self.nodes[node].expect("the task is in it").parent;
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

/// The histories of these seeds; an error names the first difference. The kernel's tree has `more` cpus.
fn compare(seeds: std::ops::Range<u64>, more: usize) -> Result<(), String> {
    let program = native::build("groups.c", "group.h", native::SANITIZERS);
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

/// After each `c`: what each node was due and received, by the number that it has here.
type Look = Vec<(usize, f64, Spent)>;

/// The numbers of a line, behind its first word.
fn numbers(line: &str) -> Vec<u64> {
    line.split(' ').skip(1).map(|number| number.parse().expect("a number")).collect()
}

fn small(number: u64) -> u32 {
    u32::try_from(number).expect("it has 32 bits")
}

/// The tree that the program printed when somebody began to watch.
fn copy(lines: &str, cpus: usize, look_ns: u64, now_ns: u64) -> Due {
    let mut due = Due::new(small(cpus as u64), TASKS, NODES, look_ns, now_ns);
    let all =
        |kind: &'static str| lines.lines().filter(move |line| line.starts_with(kind)).map(numbers);
    let nodes: Vec<_> =
        all("node").map(|it| (small(it[0]), it[1], small(it[2]), small(it[3]))).collect();
    let task = |it: &[u64]| Told { node: small(it[1]), weight: small(it[2]), runnable: it[3] != 0 };
    let tasks: Vec<_> = all("task").map(|it| (small(it[0]), task(&it))).collect();
    due.copy(&nodes, &tasks);
    due
}

/// As `enum limits` and `enum group_limits` have them.
const TASKS: usize = 32768;
const NODES: usize = 16384;

/// Tells of a change that the program printed.
fn tell(due: &mut Due, line: &str) {
    let it = numbers(line);
    let (now_ns, parent, weight) = (it[0], small(it[3]), small(it[4]));
    match it[1].checked_sub(TASKS as u64).map(small) {
        None => {
            let task = Told { node: parent, weight, runnable: it[5] != 0 };
            let spent = Spent { received_ns: it[6], waited_ns: it[7] };
            due.set_task(small(it[1]), task, spent, now_ns);
        }
        Some(node) if parent == NOWHERE => due.remove_node(node, now_ns),
        Some(node) => due.set_node(node, it[2], parent, weight, now_ns),
    }
}

fn look_at(due: &mut Due, watched: &Watched) -> Look {
    due.pass(watched.now_ns);
    (0..).zip(&watched.of_tasks).for_each(|(id, &spent)| due.count(id, spent));
    let sums = [|spent: Spent| spent.received_ns, |spent: Spent| spent.waited_ns].map(|of| {
        let mut sums = vec![0; NODES];
        due.nodes().for_each(|(number, node)| sums[number as usize] = of(node.spent));
        due.add_up(&mut sums);
        sums
    });
    let row = |(number, node): (u32, &due::Node)| {
        let [received_ns, waited_ns] = [0, 1].map(|sum: usize| sums[sum][number as usize]);
        let here = if number == 0 { 0 } else { usize::try_from(node.cgroup).expect("it is small") };
        (here, node.due_ns, Spent { received_ns, waited_ns })
    };
    due.nodes().map(row).collect()
}

/// Watches a history of `seed` from its middle on: the furthest that what a node is due was from the exact
/// integral of its rate, as a part of the time. Events are `longest_ns` apart at most. Of `lost` looks in
/// `lost + 1` nothing is seen but the tree as it is then.
fn watch(program: &Path, seed: u64, longest_ns: usize, look_ns: u64, lost: usize) -> f64 {
    let mut world = World { cpus_change: false, ..World::new(seed, 0) };
    let cpus = world.cpus;
    (0..HISTORY / 2).for_each(|_| world.step());
    let begun = world.watched.clone();
    world.watched.spent.fill(Spent::default());
    let mut looks = Vec::new();
    world.write(format_args!("w"));
    for number in 0..HISTORY {
        world.elapse(longest_ns);
        world.step();
        if number % LOOK == 0 {
            world.write(format_args!("{}", if lost > 0 { "c\nw" } else { "c" }));
            looks.push((world.watched.clone(), world.nodes.clone()));
        }
    }
    let answer = native::answer(program, &world.changes);
    let mut blocks = answer.split("end\n");
    let mut due = copy(blocks.next().expect("it is printed"), cpus, look_ns, 0);
    due.begin(0, |id| begun.of_tasks.get(id as usize).copied().unwrap_or_default());
    let mut most_ns = 0.0_f64;
    for (number, (watched, nodes)) in looks.iter().enumerate() {
        let changes = blocks.next().expect("it is printed");
        let tree = if lost > 0 { blocks.next().expect("it is printed") } else { "" };
        if lost > 0 && number % (lost + 1) != 0 {
            let mut anew = copy(tree, cpus, look_ns, watched.now_ns);
            let of_task = |id: u32| watched.of_tasks.get(id as usize).copied();
            anew.begin(watched.now_ns, |id| of_task(id).unwrap_or_default());
            anew.go_on_from(due);
            due = anew;
        } else {
            changes.lines().for_each(|line| tell(&mut due, line));
        }
        let look = look_at(&mut due, watched);
        assert_eq!(look.len(), nodes.iter().flatten().count(), "seed {seed}, look {number}");
        for (node, due_ns, spent) in look {
            most_ns = most_ns.max((due_ns - watched.due_ns[node]).abs());
            if lost == 0 || node == 0 {
                assert_eq!(spent, watched.spent[node], "seed {seed}, look {number}, node {node}");
            }
        }
    }
    most_ns / world.watched.now_ns as f64
}

fn program() -> std::path::PathBuf {
    native::build("groups.c", "due", native::SANITIZERS)
}

#[test]
fn nodes_are_due_what_their_rates_add_up_to() {
    let program = program();
    for seed in 0..30 {
        let off = watch(&program, seed, 2_000_000, 0, 0);
        assert!(off < 1e-9, "seed {seed}: {off} of the time off");
    }
}

/// Where changes are ten times as frequent as on a busy machine.
#[test]
fn rates_that_are_not_found_at_every_change_cost_a_hundredth() {
    let program = program();
    for seed in 0..10 {
        let off = watch(&program, seed, 200_000, LOOK_NS, 0);
        assert!(off < 0.01, "seed {seed}: {off} of the time off");
    }
}

#[test]
fn what_tasks_received_is_counted_where_changes_were_missed() {
    let program = program();
    for seed in 0..10 {
        let off = watch(&program, seed, 2_000_000, 0, 3);
        assert!(off > 0.0, "seed {seed}: nothing was missed");
    }
}

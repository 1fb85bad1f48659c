//! What tasks count for that may not run on every cpu, against the ideal found by looking at all sets of
//! cpus.
//!
//! `bound.h` is compiled natively under the address and undefined-behaviour sanitizers (`bound.c`) and told
//! of tasks that come, go and get other masks. A policy of several cpus that is told what it says, and of
//! the cpus that are left idle as tasks of their own, must give each task what is ideal.

use std::fmt::Write as _;

use prorata::masks::{self, Mask};
use prorata::{Weight, weights};

mod native;
mod random;

use random::Random;

const HISTORY: usize = 600;
const LOOK: usize = 6;
const TASKS: usize = 24;
const NODES: usize = 12;
/// What others' rounding may make of a rate, where they count for much; its own weight is a whole number.
const ROUNDING: f64 = 0.002;
/// In a tree, what tasks have of cpus that are short is in parts, which are whole numbers.
const PARTS_ROUNDING: f64 = TASKS as f64 / 65536.0;

#[derive(Clone, Copy)]
struct Task {
    weight: u32,
    mask: Mask,
    node: usize,
    runs: bool,
}

#[derive(Clone, Copy)]
struct Node {
    weight: u32,
    above: usize,
}

const ROOT: usize = 0;

/// A task or a node in a tree, by its number.
#[derive(Clone, Copy)]
enum Member {
    Task(usize),
    Node(usize),
}

/// Tasks in a tree, on so many cpus.
struct World {
    cpus: u32,
    /// The root is the first, and others come after those that they are in.
    nodes: Vec<Node>,
    tasks: Vec<Task>,
}

/// Masks of which any two have no cpu in common, or one is within the other.
fn nested(random: &mut Random, cpus: u32) -> Vec<Mask> {
    let mut masks = vec![(1 << cpus) - 1];
    let mut at = 0;
    while at < masks.len() {
        let mask: Mask = masks[at];
        let split = 1 << random.below(cpus as usize);
        let (low, high) = (mask & (split - 1), mask & !(split - 1));
        if low != 0 && high != 0 {
            masks.extend([low, high]);
        }
        at += 1;
    }
    masks
}

/// What each task is due, in cpus.
type Dues = Vec<(usize, f64)>;

/// The changes of a seed, and at each look what the runnable tasks are due, if that can be.
fn history(seed: u64) -> (u32, String, Vec<Option<Dues>>) {
    let mut random = Random(seed);
    let cpus = u32::try_from(1 + random.below(6)).expect("few");
    let masks = nested(&mut random, cpus);
    let (mut changes, mut dues) = (format!("i {cpus}\n"), Vec::new());
    let mut world = World { cpus, nodes: vec![Node { weight: 0, above: ROOT }], tasks: Vec::new() };
    let nodes = random.below(2) * random.below(NODES);
    let some_weight = if nodes == 0 { some_weight } else { some_like_weight };
    for number in 1..=nodes {
        let node = Node { weight: some_weight(&mut random), above: random.below(number) };
        writeln!(changes, "n {number} {} {}", node.above, node.weight)
            .expect("a string takes everything");
        world.nodes.push(node);
    }
    for id in 0..TASKS {
        let (weight, node) = (some_weight(&mut random), random.below(world.nodes.len()));
        writeln!(changes, "a {id} {weight} {node}").expect("a string takes everything");
        world.tasks.push(Task { weight, mask: masks[0], node, runs: false });
    }
    for number in 0..HISTORY {
        let (id, mask) = (random.below(TASKS), masks[random.below(masks.len())]);
        let task = &mut world.tasks[id];
        let change = if random.below(3) == 0 {
            task.mask = mask;
            format!("m {id} {mask}")
        } else {
            task.runs ^= true;
            format!("{} {id}", if task.runs { 'j' } else { 'p' })
        };
        writeln!(changes, "{change}").expect("a string takes everything");
        if number % LOOK == 0 {
            changes.push_str("q\n");
            dues.push(world.due());
        }
    }
    (cpus, changes, dues)
}

fn some_weight(random: &mut Random) -> u32 {
    let weight = match random.below(3) {
        0 => 1 + random.below(4),
        1 => 1024,
        _ => 15 + random.below(90_000),
    };
    u32::try_from(weight).expect("below 10^5")
}

/// In a tree, a part of a part of others could be less than a unit.
fn some_like_weight(random: &mut Random) -> u32 {
    u32::try_from(100 + random.below(5_000)).expect("below 10^4")
}

impl World {
    /// What each runnable task is due: of cpus that are short by weights, of others by the tree. `None` where
    /// that cannot be, since a node would have more than its part by tasks that are bound.
    fn due(&self) -> Option<Dues> {
        let runnable: Vec<usize> = (0..TASKS).filter(|&id| self.tasks[id].runs).collect();
        let plain: Vec<(Weight, Mask)> = runnable
            .iter()
            .map(|&id| (weight(self.plain_weight(id)), self.tasks[id].mask))
            .collect();
        let short = masks::short_cpus(&plain, self.cpus);
        let mut rates = vec![None; TASKS];
        for ((&id, (_, mask)), rate) in
            runnable.iter().zip(&plain).zip(masks::rates(&plain, self.cpus))
        {
            if mask & !short == 0 {
                rates[id] = Some(rate.in_cpus());
            }
        }
        self.share(ROOT, f64::from(self.cpus), &mut rates);
        let rates = runnable.into_iter().map(|id| (id, rates[id].expect("everybody has a share")));
        let due: Dues = rates.collect();
        let total: f64 = due.iter().map(|(_, rate)| rate).sum();
        (total < f64::from(self.cpus) + 0.001).then_some(due)
    }

    /// What a task would count for if all could use any number of cpus, where 1 is 1024.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 1 to 2^27
    fn plain_weight(&self, id: usize) -> u32 {
        let task = self.tasks[id];
        let (mut counts, mut node) = (f64::from(task.weight), task.node);
        while node != ROOT {
            counts *= f64::from(self.nodes[node].weight) / self.competing(node);
            node = self.nodes[node].above;
        }
        (counts * 1024.0).round().max(1.0) as u32
    }

    /// Those in a node that are runnable, or in which somebody is.
    fn members(&self, node: usize) -> Vec<Member> {
        let nodes = (1..self.nodes.len()).filter(|&other| self.nodes[other].above == node);
        let tasks = (0..TASKS).filter(|&id| self.tasks[id].runs && self.tasks[id].node == node);
        let busy = |&node: &usize| !self.members(node).is_empty();
        nodes.filter(busy).map(Member::Node).chain(tasks.map(Member::Task)).collect()
    }

    fn weight(&self, member: Member) -> f64 {
        match member {
            Member::Task(id) => f64::from(self.tasks[id].weight),
            Member::Node(node) => f64::from(self.nodes[node].weight),
        }
    }

    fn competing(&self, node: usize) -> f64 {
        self.members(node).into_iter().map(|member| self.weight(member)).sum()
    }

    /// The most cpus that a member can use, where some tasks' are known.
    fn usable(&self, member: Member, known: &[Option<f64>]) -> f64 {
        match member {
            Member::Task(id) => known[id].unwrap_or(1.0),
            Member::Node(node) => {
                self.members(node).into_iter().map(|member| self.usable(member, known)).sum()
            }
        }
    }

    /// The members of a node share cpus by weight, but for what they cannot use.
    fn share(&self, node: usize, mut cpus: f64, known: &mut [Option<f64>]) {
        let is_known = |member: &Member| matches!(member, Member::Task(id) if known[*id].is_some());
        let (taken, mut open): (Vec<Member>, Vec<Member>) =
            self.members(node).into_iter().partition(is_known);
        cpus -= taken.into_iter().map(|member| self.usable(member, known)).sum::<f64>();
        let mut parts = Vec::new();
        loop {
            let weights: f64 = open.iter().map(|&member| self.weight(member)).sum();
            let part = |member| cpus.max(0.0) * self.weight(member) / weights;
            let (capped, rest): (Vec<Member>, Vec<Member>) =
                open.iter().partition(|&&member| part(member) > self.usable(member, known));
            if capped.is_empty() {
                parts.extend(open.iter().map(|&member| (member, part(member))));
                break;
            }
            parts.extend(capped.iter().map(|&member| (member, self.usable(member, known))));
            cpus -= capped.into_iter().map(|member| self.usable(member, known)).sum::<f64>();
            open = rest;
        }
        for (member, cpus) in parts {
            match member {
                Member::Task(id) => known[id] = Some(cpus),
                Member::Node(node) => self.share(node, cpus, known),
            }
        }
    }
}

fn weight(number: u32) -> Weight {
    Weight::new(number).expect("it is not 0")
}

/// What a policy of so many cpus gives to tasks of these weights, where some cpus are left idle.
fn given(told: &[u32], idle: usize, cpus: u32) -> Vec<f64> {
    let mut sorted: Vec<Weight> = told.iter().map(|&number| weight(number)).collect();
    sorted.extend(std::iter::repeat_n(Weight::MAX, idle));
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let cap = weights::sorted(&sorted, cpus as usize);
    let total: f64 = sorted.iter().map(|&other| cap.effective(other) as f64).sum();
    let share = |&number| cap.effective(weight(number)) as f64 / total;
    told.iter().map(|number| (share(number) * f64::from(cpus)).min(1.0)).collect()
}

/// The first rate that is not what is due, in the histories of these seeds; weights are what
/// `told` makes of them.
fn wrong(seeds: std::ops::Range<u64>, told_as: fn(u32) -> u32) -> Option<String> {
    let program = native::build("bound.c", "bound.h", native::SANITIZERS);
    for seed in seeds {
        let (cpus, changes, dues) = history(seed);
        let answer = native::answer(&program, &changes);
        let mut lines = answer.lines();
        for (look, due) in dues.into_iter().enumerate() {
            let mut told = Vec::new();
            let idle = loop {
                let (first, second) = lines.next().and_then(|l| l.split_once(' ')).expect("a look");
                let second: u32 = second.parse().expect("a number");
                if first == "idle" {
                    break second as usize;
                }
                told.push((first.parse::<usize>().expect("a task"), told_as(second)));
            };
            told.sort_unstable();
            let Some(mut due) = due else { continue };
            due.sort_unstable_by_key(|&(id, _)| id);
            let weights: Vec<u32> = told.iter().map(|&(_, weight)| weight).collect();
            let given = given(&weights, idle, cpus);
            let unit = given.iter().zip(&weights).map(|(given, &told)| given / f64::from(told));
            let others = weights.len() as f64 * unit.fold(0.0, f64::max);
            let in_tree = changes.contains('n');
            let (others, parts) = if in_tree { (others, PARTS_ROUNDING) } else { (0.0, 0.0) };
            for ((&(id, due), given), told) in due.iter().zip(given).zip(&weights) {
                let rounding = (ROUNDING + others) * due + given / f64::from(*told) + parts;
                if (given - due).abs() > rounding {
                    return Some(format!(
                        "seed {seed}, {cpus} cpus, look {look}, task {id}: {given}, not {due}"
                    ));
                }
            }
        }
    }
    None
}

#[test]
fn tasks_count_for_what_their_cpus_can_give() {
    assert_eq!(wrong(0..400, |weight| weight), None);
}

#[test]
fn other_weights_are_noticed() {
    assert!(wrong(0..10, |weight| weight + weight / 50 * (weight % 2)).is_some());
}

/// What three tasks that are bound to a cpu of eight, and nine others, are told, where each other mask has a
/// task, too, to which `then` happens.
fn told_beside_all_masks(then: &str) -> String {
    let mut changes = "i 8\n".to_owned();
    let mut add = |id: u32, mask: u32, then: &str| {
        write!(changes, "a {id} 1024 0\nm {id} {mask}\nj {id}\n{then}")
            .expect("a string takes all");
    };
    (2..255).for_each(|mask| add(mask, mask, &then.replace("ID", &mask.to_string())));
    (300..303).for_each(|id| add(id, 1, ""));
    (303..312).for_each(|id| add(id, 255, ""));
    native::answer(&native::build("bound.c", "bound.h", native::SANITIZERS), &(changes + "q\n"))
}

#[test]
fn tasks_that_sleep_keep_no_mask_from_others() {
    let told = |answer: &str, id: &str| -> f64 {
        let line = answer.lines().find_map(|line| line.strip_prefix(id)).expect("it is runnable");
        line.trim().parse().expect("a number")
    };
    let answer = told_beside_all_masks("p ID\n");
    // A third of a cpu, and 7/9 of one.
    assert!((told(&answer, "303 ") / told(&answer, "300 ") - 7.0 / 3.0).abs() < 0.001, "{answer}");
    // The control: nobody sleeps.
    let answer = told_beside_all_masks("");
    assert!(told(&answer, "303 ") <= told(&answer, "300 "), "{answer}");
}

//! `prorata explain`: what each task and cgroup is due, and why.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::ensure;
use prorata::Weight;
use prorata::hierarchy::{Hierarchy, NodeId, Place, Rate, Rates};
use prorata_sim::workload::{Cgroups, Workload};
use serde::Serialize;
use serde_json::json;

use super::print;
use super::workload::Overrides;

/// Most tasks that are explained.
const MAX_TASKS: u64 = 100_000;
const NAME: usize = 24;

/// Explains a workload as if all of its tasks ran at once, with the weights that they begin with.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The workload: TOML of our own (.toml), rt-app's JSON (.json), or a recording by perf sched.
    workload: PathBuf,
    #[command(flatten)]
    overrides: Overrides,
    /// What to print.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// A table, for people.
    Table,
    /// One JSON object, for programs.
    Json,
}

impl Args {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let workload = self.overrides.load(&self.workload)?;
        let tasks = workload.tasks();
        ensure!(tasks <= MAX_TASKS, "{tasks} tasks are too many to explain: at most {MAX_TASKS}");
        let lines = Tree::new(&workload).explain();
        let cpus = workload.machine.cpus;
        print(&match self.format {
            Format::Json => json!({ "cpus": cpus, "lines": lines }).to_string() + "\n",
            Format::Table => table(cpus, tasks, &lines),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What a cgroup, or each task of a group, is due.
#[derive(Serialize)]
struct Line {
    name: String,
    /// Levels below the root.
    depth: usize,
    is_cgroup: bool,
    /// Tasks of the group, or below the cgroup.
    tasks: u32,
    weight: u32,
    /// Exactly, as a fraction if that is short.
    due: String,
    due_cpus: f64,
    /// It is due all that it can use, and its weight would give it more.
    capped: bool,
    why: String,
    /// What it would be due if only the weights of tasks counted.
    flat_cpus: f64,
}

/// The workload as a tree, all tasks runnable.
struct Tree<'w> {
    workload: &'w Workload,
    hierarchy: Hierarchy,
    rates: Rates,
    /// By node.
    nodes: Vec<Place>,
    /// By group: its first task; they are all alike.
    groups: Vec<Place>,
    /// By place.
    flat_cpus: Vec<f64>,
}

impl<'w> Tree<'w> {
    fn new(workload: &'w Workload) -> Tree<'w> {
        let mut hierarchy = Hierarchy::new();
        let cgroups = &workload.cgroups;
        let mut nodes = vec![Hierarchy::ROOT; cgroups.nodes.len() + 1];
        for node in cgroups.from_the_root() {
            let cgroup = cgroups.get(node).expect("it is not the root");
            nodes[node.index()] = hierarchy.add(nodes[cgroup.parent.index()], cgroup.weight);
        }
        let (mut tasks, mut groups) = (Vec::new(), Vec::new());
        for (index, group) in workload.groups.iter().enumerate() {
            groups.push(Hierarchy::ROOT);
            for number in 0..group.count {
                let task = hierarchy.add(nodes[cgroups.home(index).index()], group.weight);
                hierarchy.set_width(task, 1);
                tasks.push((task, group.weight));
                if number == 0 {
                    groups[index] = task;
                }
            }
        }
        let flat_cpus = flat(&hierarchy, &tasks, workload.machine.cpus);
        let rates = hierarchy.rates(workload.machine.cpus);
        Tree { workload, hierarchy, rates, nodes, groups, flat_cpus }
    }

    fn explain(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        self.tasks_of(NodeId::ROOT, 1, &mut lines);
        for (depth, node) in self.workload.cgroups.below(NodeId::ROOT) {
            let name = format!("{}/", self.workload.cgroups.name(node));
            lines.push(self.line(name, depth, true, self.nodes[node.index()]));
            self.tasks_of(node, depth + 1, &mut lines);
        }
        lines
    }

    fn tasks_of(&self, node: NodeId, depth: usize, lines: &mut Vec<Line>) {
        for (index, group) in self.workload.groups.iter().enumerate() {
            if self.workload.cgroups.home(index) == node && group.count > 0 {
                let line = self.line(group.name.clone(), depth, false, self.groups[index]);
                lines.push(Line { tasks: group.count, ..line });
            }
        }
    }

    fn line(&self, name: String, depth: usize, is_cgroup: bool, place: Place) -> Line {
        let due = self.rates.of(place);
        let (capped, why) = self.why(place);
        Line {
            name,
            depth,
            is_cgroup,
            tasks: self.hierarchy.leaves(place),
            weight: self.hierarchy.weight(place).get(),
            due: due.to_string(),
            due_cpus: due.in_cpus(),
            capped,
            why,
            flat_cpus: self.flat_cpus[place.index()],
        }
    }

    /// Whether `place` is due less than its weight gives it, and the reason for what it is due.
    fn why(&self, place: Place) -> (bool, String) {
        let tree = &self.hierarchy;
        let parent = tree.parent(place).expect("it is not the root");
        if tree.leaves(place) == 0 {
            return (false, "it has no tasks".into());
        }
        let usable = |place: Place| Rate::whole(tree.leaves(place).into());
        let weight = |place: Place| u64::from(tree.weight(place).get());
        let hungry = |place: &Place| self.rates.of(*place) < usable(*place);
        let own = weight(place);
        if !hungry(&place) {
            let pace = tree.competitors(parent).find(hungry);
            let by_weight = pace.map(|other| self.rates.of(other).part(own, weight(other)));
            return match by_weight.filter(|by_weight| *by_weight > usable(place)) {
                Some(more) => {
                    (true, format!("all that it can use; its weight would give it {more}"))
                }
                None => (false, "all that it can use".into()),
            };
        }
        let sharing = tree.competitors(parent).filter(hungry);
        let (of, left) = sharing.fold((0, Rate::whole(0)), |(of, left), sibling| {
            (of + weight(sibling), left.plus(&self.rates.of(sibling)))
        });
        let others =
            if of == tree.competing_weight(parent) { "" } else { ", what its siblings cannot use" };
        (false, format!("{own} of {of} of {left} cpus{others}"))
    }
}

/// What each place would be due if all tasks competed with each other by their own weights.
fn flat(hierarchy: &Hierarchy, tasks: &[(Place, Weight)], cpus: usize) -> Vec<f64> {
    let weights: Vec<Weight> = tasks.iter().map(|task| task.1).collect();
    let rates = prorata::ideal::Rates::new(&weights, cpus);
    let mut flat = vec![0.0; hierarchy.places()];
    for (&(task, _), &numerator) in tasks.iter().zip(&rates.numerator) {
        #[allow(clippy::cast_precision_loss)]
        let rate = numerator as f64 / rates.denominator as f64;
        flat[task.index()] += rate;
        hierarchy.ancestors(task).for_each(|above| flat[above.index()] += rate);
    }
    flat
}

fn table(cpus: usize, tasks: u64, lines: &[Line]) -> String {
    let mut out = format!("{cpus} cpus, {tasks} tasks, as if all ran at once\n\n");
    let _ = writeln!(
        out,
        "{:NAME$} {:>6} {:>8} {:>12} {:>9} {:>9}  why",
        "", "tasks", "weight", "due", "cpus", "flat"
    );
    for line in lines {
        let name = format!("{:indent$}{}", "", line.name, indent = 2 * (line.depth - 1));
        let each = if !line.is_cgroup && line.tasks > 1 { "each: " } else { "" };
        let _ = writeln!(
            out,
            "{name:NAME$} {:>6} {:>8} {:>12} {:>9.4} {:>9.4}  {each}{}",
            line.tasks, line.weight, line.due, line.due_cpus, line.flat_cpus, line.why
        );
    }
    out += "\nflat: what it would be due if only the weights of tasks counted, without cgroups\n";
    let root = Cgroups::ROOT;
    let _ =
        writeln!(out, "A cgroup shares what it is due among what is in it; '{root}' has all cpus.");
    out
}

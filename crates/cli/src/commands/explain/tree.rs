//! A tree of weights, what each place of it is due, and why.

use std::collections::BTreeMap;

use prorata::Weight;
use prorata::hierarchy::{Hierarchy, Place, Rate, Rates};
use serde::Serialize;

/// What a cgroup, or each of some tasks that are alike, is due.
#[derive(Serialize)]
pub(super) struct Line {
    pub(super) name: String,
    /// Levels below the root.
    pub(super) depth: usize,
    pub(super) is_cgroup: bool,
    /// It is what the user asked about.
    pub(super) is_asked: bool,
    /// Tasks that are alike, or those below the cgroup.
    pub(super) tasks: u32,
    pub(super) weight: u32,
    /// Exactly, as a fraction if that is short.
    pub(super) due: String,
    pub(super) due_cpus: f64,
    /// It is due all that it can use, and its weight would give it more.
    pub(super) capped: bool,
    pub(super) why: String,
    /// What it would be due if a cgroup's weight counted for each cpu that it can use, as Linux means it from
    /// 7.3 on; none where such weights are beyond 32 bits.
    pub(super) per_cpu_cpus: Option<f64>,
    /// What it would be due if only the weights of tasks counted.
    pub(super) flat_cpus: f64,
}

impl Line {
    /// How many times what is due to it is due to those that it stands for.
    fn times(&self) -> u32 {
        if self.is_cgroup { 1 } else { self.tasks }
    }
}

/// A tree that is being built: cgroups, and the tasks that want a cpu.
pub(super) struct Tree {
    hierarchy: Hierarchy,
    cgroups: Vec<Place>,
    tasks: Vec<(Place, Weight)>,
}

impl Tree {
    pub(super) fn new() -> Tree {
        Tree { hierarchy: Hierarchy::new(), cgroups: Vec::new(), tasks: Vec::new() }
    }

    pub(super) fn add_cgroup(&mut self, parent: Place, weight: Weight) -> Place {
        let place = self.hierarchy.add(parent, weight);
        self.cgroups.push(place);
        place
    }

    pub(super) fn add_task(&mut self, parent: Place, weight: Weight) -> Place {
        let place = self.hierarchy.add(parent, weight);
        self.hierarchy.set_width(place, 1);
        self.tasks.push((place, weight));
        place
    }

    /// What all are due on `cpus` cpus.
    pub(super) fn explain(self, cpus: usize) -> Explained {
        let rates = self.hierarchy.rates(cpus);
        let per_cpu = self.per_cpu(cpus).map(|tree| tree.rates(cpus));
        let flat_cpus = self.flat(cpus);
        let parents = self.cgroups.iter().copied().chain([Hierarchy::ROOT]);
        let sharing =
            parents.map(|place| (place, Sharing::among(&self.hierarchy, &rates, place))).collect();
        Explained { hierarchy: self.hierarchy, rates, sharing, per_cpu, flat_cpus }
    }

    /// The tree whose cgroups weigh that much for each cpu that they can use.
    fn per_cpu(&self, cpus: usize) -> Option<Hierarchy> {
        let mut tree = self.hierarchy.clone();
        let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
        for &place in &self.cgroups {
            let used = tree.leaves(place).clamp(1, cpus);
            let weight = tree.weight(place).get().checked_mul(used)?;
            tree.set_weight(place, Weight::new(weight)?);
        }
        Some(tree)
    }

    /// What each place would be due if all tasks competed with each other by their own weights.
    fn flat(&self, cpus: usize) -> Vec<f64> {
        let weights: Vec<Weight> = self.tasks.iter().map(|task| task.1).collect();
        let rates = prorata::ideal::Rates::new(&weights, cpus);
        let mut flat = vec![0.0; self.hierarchy.places()];
        for (&(task, _), &numerator) in self.tasks.iter().zip(&rates.numerator) {
            #[allow(clippy::cast_precision_loss)]
            let rate = numerator as f64 / rates.denominator as f64;
            flat[task.index()] += rate;
            self.hierarchy.ancestors(task).for_each(|above| flat[above.index()] += rate);
        }
        flat
    }
}

/// The children of a place that can use more than they are due, and so share by weight.
struct Sharing {
    weight: u64,
    due: Rate,
    /// One of them.
    pace: Option<Place>,
}

impl Sharing {
    fn among(tree: &Hierarchy, rates: &Rates, parent: Place) -> Sharing {
        let mut all = Sharing { weight: 0, due: Rate::whole(0), pace: None };
        for place in tree.competitors(parent) {
            let due = rates.of(place);
            if due < Rate::whole(tree.leaves(place).into()) {
                all.weight += u64::from(tree.weight(place).get());
                all.due = if all.pace.is_none() { due } else { all.due.plus(&due) };
                all.pace = Some(place);
            }
        }
        all
    }
}

/// A tree of which it is known what all are due.
pub(super) struct Explained {
    hierarchy: Hierarchy,
    rates: Rates,
    /// By parent, so that a line costs the same however many siblings there are.
    sharing: BTreeMap<Place, Sharing>,
    per_cpu: Option<Rates>,
    /// By place.
    flat_cpus: Vec<f64>,
}

impl Explained {
    pub(super) fn line(&self, name: String, depth: usize, is_cgroup: bool, place: Place) -> Line {
        let due = self.rates.of(place);
        let (capped, why) = self.why(place);
        Line {
            name,
            depth,
            is_cgroup,
            is_asked: false,
            tasks: self.hierarchy.leaves(place),
            weight: self.hierarchy.weight(place).get(),
            due: due.to_string(),
            due_cpus: due.in_cpus(),
            capped,
            why,
            per_cpu_cpus: self.per_cpu.as_ref().map(|rates| rates.of(place).in_cpus()),
            flat_cpus: self.flat_cpus[place.index()],
        }
    }

    /// One line for what is due together to siblings, each with a place that it stands for.
    pub(super) fn together(&self, siblings: &[(Line, Place)]) -> Option<Line> {
        let depth = siblings.first()?.0.depth;
        let due = siblings.iter().fold(Rate::whole(0), |sum, (line, place)| {
            sum.plus(&self.rates.of(*place).part(line.times().into(), 1))
        });
        let sum = |of: &dyn Fn(&Line) -> f64| {
            siblings.iter().map(|(line, _)| of(line) * f64::from(line.times())).sum()
        };
        let per_cpu = |line: &Line| line.per_cpu_cpus.unwrap_or(0.0);
        Some(Line {
            name: format!("… {} more", siblings.len()),
            depth,
            is_cgroup: true,
            is_asked: false,
            tasks: siblings.iter().map(|(line, _)| line.tasks).sum(),
            weight: siblings.iter().fold(0, |sum: u32, (line, _)| {
                sum.saturating_add(line.weight.saturating_mul(line.times()))
            }),
            due: due.to_string(),
            due_cpus: due.in_cpus(),
            capped: false,
            why: "together".into(),
            per_cpu_cpus: self.per_cpu.is_some().then(|| sum(&per_cpu)),
            flat_cpus: sum(&|line| line.flat_cpus),
        })
    }

    /// Whether `place` is due less than its weight gives it, and the reason for what it is due.
    fn why(&self, place: Place) -> (bool, String) {
        let tree = &self.hierarchy;
        let parent = tree.parent(place).expect("it is not the root");
        if tree.leaves(place) == 0 {
            return (false, "it has no tasks".into());
        }
        let Sharing { weight: of, due: left, pace } = &self.sharing[&parent];
        let weight = |place: Place| u64::from(tree.weight(place).get());
        let (own, usable) = (weight(place), Rate::whole(tree.leaves(place).into()));
        if self.rates.of(place) >= usable {
            let by_weight = pace.map(|other| self.rates.of(other).part(own, weight(other)));
            return match by_weight.filter(|by_weight| *by_weight > usable) {
                Some(more) => {
                    (true, format!("all that it can use; its weight would give it {more}"))
                }
                None => (false, "all that it can use".into()),
            };
        }
        let others = if *of == tree.competing_weight(parent) {
            ""
        } else {
            ", what its siblings cannot use"
        };
        (false, format!("{own} of {of} of {left} cpus{others}"))
    }
}

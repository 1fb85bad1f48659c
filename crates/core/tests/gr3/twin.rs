//! GR3MP once more, as plainly as it can be said: vectors instead of rings, rational numbers
//! instead of scaled integers, everything recomputed for every decision. The library must take
//! the same decisions.

use std::collections::{BTreeMap, VecDeque};

use num_rational::BigRational;
use num_traits::{One, ToPrimitive, Zero};
use prorata::policies::gr3::Rescale;
use prorata::{CpuId, Nanos, Policy, TaskId, Weight};

type Number = BigRational;

fn number(n: impl Into<u128>) -> Number {
    Number::from_integer(n.into().into())
}

#[derive(Clone, Debug)]
struct Task {
    weight: u32,
    queued: bool,
    blocked: bool,
    /// Queued, and no part of its group before its turn.
    pending: bool,
    /// It has been counted from its first turn on only.
    late: bool,
    /// It has come from another group with a new weight, and its last turn was due at `since`, in parts of a
    /// round.
    moved: bool,
    since: i64,
    /// Its last turn was one more than its ring gave it, if it has moved.
    ran_twice: bool,
    holder: Option<CpuId>,
    /// In quanta.
    deficit: Number,
    frontlog: u32,
    home: CpuId,
    arrival: usize,
}

impl Task {
    /// Its turns are counted from now on; the last one was due at `since`.
    fn count_turns(&mut self, since: i64) {
        (self.moved, self.since, self.ran_twice, self.late) = (true, since, false, false);
    }
}

#[derive(Clone, Debug)]
struct Group {
    order: u32,
    /// In round-robin order, the current one somewhere among them.
    ring: Vec<usize>,
    current: usize,
    /// W + 1, and parts of a quantum, with which nothing is decided.
    work: Number,
}

/// The naive twin of `Gr3`.
#[derive(Clone, Debug)]
pub(crate) struct Twin {
    tasks: Vec<Task>,
    /// In list order.
    groups: Vec<Group>,
    at: usize,
    fresh: bool,
    /// A weight changes: no task comes or goes.
    reweighs: bool,
    /// Work is rescaled to parts of a quantum.
    keeps_parts: bool,
    /// A group received what no choice gave it: the one that is furthest behind is next.
    uneven: bool,
    /// All groups received something in advance, so that a task may be short of more than they did.
    has_room: bool,
    cpus: Vec<Option<usize>>,
    /// The tasks that each cpu serves for their frontlogs, the next one first.
    frontlogs: Vec<VecDeque<usize>>,
    /// The cap Φ_f/Q and Q.
    cap: Option<(Number, usize)>,
    capped: Vec<usize>,
    /// Orders of the groups that all tasks have left since the cap began to change.
    left: Vec<u32>,
    arrivals: usize,
    rescale: Rescale,
    arrival_frontlogs: bool,
}

/// Parts of a round or a quantum.
const PARTS: i64 = 1 << 16;
/// Quanta that a task may be short of when its weight changes.
const MOST_LAG: i64 = 16;

/// What a task is short of when it leaves its group, in parts of a quantum, and what all had run.
struct Lag {
    of_all: i64,
    of_group: i64,
    served: (Number, Number),
}

/// What all had received before the cap changed, and what groups receive since tasks move.
struct Moves {
    cap: Option<(Number, usize)>,
    total: (Number, Number),
    served: (Number, Number),
    /// The time of each group, by order.
    times: BTreeMap<u32, i64>,
    received: BTreeMap<u32, i64>,
}

impl Moves {
    fn now(&self, order: u32) -> i64 {
        time(&self.served.0, &self.served.1, order)
    }

    fn time_of(&self, order: u32) -> i64 {
        let of_all = || time(&self.total.0, &self.total.1, order);
        self.times.get(&order).copied().unwrap_or_else(of_all)
    }
}

fn parts(number: &Number) -> i64 {
    (number * self::number(1u32 << 16)).to_integer().to_i64().unwrap()
}

/// Towards 0.
fn times(count: i64, factor: &Number) -> i64 {
    (Number::from_integer(count.into()) * factor).to_integer().to_i64().unwrap()
}

/// The time at which `work` is due to tasks of `weight`, in parts of a round of `order`.
fn time(work: &Number, weight: &Number, order: u32) -> i64 {
    let one = number(1u128 << order);
    (work * one * number(1u32 << 16) / weight).to_integer().to_i64().unwrap()
}

/// ⌊log₂⌋ of a number that is at least 1.
fn order_of(number: &Number) -> u32 {
    (number.to_integer().bits() - 1).to_u32().unwrap()
}

impl Twin {
    pub(crate) fn new(cpus: usize, rescale: Rescale, arrival_frontlogs: bool) -> Twin {
        Twin {
            rescale,
            reweighs: false,
            keeps_parts: false,
            uneven: false,
            has_room: false,
            arrival_frontlogs,
            tasks: vec![],
            groups: vec![],
            at: 0,
            fresh: true,
            cpus: vec![None; cpus],
            frontlogs: vec![VecDeque::new(); cpus],
            cap: None,
            capped: vec![],
            left: vec![],
            arrivals: 0,
        }
    }

    fn exceeds(&self, task: usize) -> bool {
        self.cap.as_ref().is_some_and(|(cap, _)| number(self.tasks[task].weight) > *cap)
    }

    fn effective(&self, task: usize) -> Number {
        match &self.cap {
            Some((cap, _)) if self.exceeds(task) => cap.clone(),
            _ => number(self.tasks[task].weight),
        }
    }

    fn allotment(&self, task: usize) -> Number {
        let effective = self.effective(task);
        let order = order_of(&effective);
        effective / number(1u128 << order)
    }

    fn weight(&self, group: &Group) -> Number {
        let counted = group.ring.iter().filter(|&&task| !self.tasks[task].pending);
        counted.map(|&task| self.effective(task)).sum()
    }

    /// Whether the pair i, i+1 of the list is not well ordered.
    fn violated(&self, i: usize) -> bool {
        let (a, b) = (&self.groups[i], &self.groups[i + 1]);
        a.work.floor() * self.weight(b) > b.work.floor() * self.weight(a)
    }

    /// The group after the last violated pair, or the first one.
    fn owed(&self) -> usize {
        (1..self.groups.len()).rev().find(|&i| self.violated(i - 1)).unwrap_or(0)
    }

    /// The group of least V/Φ.
    fn furthest_behind(&self) -> usize {
        let tag = |g: &Group| g.work.floor() / self.weight(g);
        (0..self.groups.len()).min_by_key(|&i| (tag(&self.groups[i]), i)).unwrap_or(0)
    }

    /// Where to go on after a change.
    fn resumed(&self) -> usize {
        if self.uneven { self.furthest_behind() } else { self.owed() }
    }

    fn time_of(&self, group: &Group) -> i64 {
        time(&(&group.work - Number::one()), &self.weight(group), group.order)
    }

    /// How long the last turn of `task` was due, in parts of a round.
    fn waited(&self, task: usize) -> i64 {
        let group = self.groups.iter().find(|g| g.ring.contains(&task)).unwrap();
        self.time_of(group) - self.tasks[task].since
    }

    fn choose(&mut self) -> usize {
        let mut passed = None;
        loop {
            let group = &self.groups[self.at];
            let current = group.ring[group.current];
            let stays = self.tasks[current].deficit >= Number::one();
            let counts = self.tasks[current].moved && !self.tasks[current].blocked;
            let waits = counts && self.waited(current) >= PARTS;
            let again = !stays && waits && !self.tasks[current].ran_twice;
            let place = if stays || again { 0 } else { 1 };
            let place = (group.current + place) % group.ring.len();
            let chosen = group.ring[place];
            if self.tasks[chosen].blocked || self.tasks[chosen].pending {
                self.make_ready(chosen);
                passed = None;
                continue;
            }
            if self.tasks[chosen].moved && !stays {
                if !again && passed != Some(chosen) && self.waited(chosen) < -(PARTS / 2) {
                    self.groups[self.at].current = place;
                    passed = passed.or(Some(chosen));
                    continue;
                }
                let known = &mut self.tasks[chosen];
                known.since += PARTS;
                known.ran_twice = again;
            } else if !stays && passed.is_some() {
                let own = self.time_of(&self.groups[self.at]);
                self.tasks[chosen].count_turns(own + PARTS);
            }
            self.groups[self.at].current = place;
            if !stays {
                let allotment = self.allotment(chosen);
                self.tasks[chosen].deficit += allotment;
            }
            self.tasks[chosen].deficit -= Number::one();
            self.groups[self.at].work += Number::one();
            self.fresh = false;
            let goes_on = self.at + 1 < self.groups.len() && self.violated(self.at);
            self.at = match (self.uneven, goes_on) {
                (true, _) => self.furthest_behind(),
                (false, true) => self.at + 1,
                (false, false) => self.owed(),
            };
            self.uneven &= self.owed() > 0;
            return chosen;
        }
    }

    /// Into its group's ring, just before the current task, or after it if it is `due`; while fresh, in order
    /// of arrival.
    fn enter_ring(&mut self, task: usize, due: bool) {
        let order = order_of(&self.effective(task));
        self.tasks[task].deficit = Number::zero();
        let fresh = self.fresh;
        let Some(group) = self.groups.iter().position(|g| g.order == order) else {
            self.tasks[task].deficit = self.allotment(task);
            let work = Number::one();
            self.groups.push(Group { order, ring: vec![task], current: 0, work });
            return;
        };
        let tasks = &self.tasks;
        let group = &mut self.groups[group];
        if group.ring.is_empty() {
            (group.ring, group.current) = (vec![task], 0);
            self.tasks[task].deficit = self.allotment(task);
        } else if fresh {
            let place = group.ring.iter().position(|&t| tasks[t].arrival > tasks[task].arrival);
            group.ring.insert(place.unwrap_or(group.ring.len()), task);
            if place == Some(0) {
                self.restart_ring(order);
            }
        } else if due {
            group.ring.insert(group.current + 1, task);
        } else {
            group.ring.insert(group.current, task);
            group.current += 1;
        }
    }

    /// A ring that nothing was chosen from: its first task is current and has its first allotment.
    fn restart_ring(&mut self, order: u32) {
        let group = self.groups.iter_mut().find(|g| g.order == order).unwrap();
        group.current = 0;
        let ring = group.ring.clone();
        for (place, &task) in ring.iter().enumerate() {
            let allotment = self.allotment(task);
            self.tasks[task].deficit = if place == 0 { allotment } else { Number::zero() };
        }
    }

    fn leave_ring(&mut self, task: usize) {
        let group = self.groups.iter_mut().find(|g| g.ring.contains(&task)).unwrap();
        let place = group.ring.iter().position(|&t| t == task).unwrap();
        group.ring.remove(place);
        if group.ring.is_empty() {
            return;
        }
        if place <= group.current && group.current > 0 {
            group.current -= 1;
        } else if place == 0 && group.current == 0 && !self.fresh {
            group.current = group.ring.len() - 1;
        }
        let (current, order) = (group.ring[group.current], group.order);
        self.count_in(current);
        if self.fresh && place == 0 {
            self.restart_ring(order);
        }
    }

    /// Changes tasks and cap; then takes the groups whose weight is not what it was (relative to
    /// the cap's denominator there is no difference: weights are rational here) out of the list and
    /// puts them back in decreasing order, each with its work rescaled.
    fn change(&mut self, change: impl FnOnce(&mut Twin)) {
        let mut before: Vec<(u32, Number)> =
            self.groups.iter().map(|g| (g.order, self.weight(g))).collect();
        let total = self.total();
        change(self);
        before.retain(|(order, _)| !self.left.contains(order));
        self.left.clear();
        let unchanged = |twin: &Twin, g: &Group| before.contains(&(g.order, twin.weight(g)));
        let groups = std::mem::take(&mut self.groups);
        let (keep, mut touched): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|g| unchanged(self, g));
        self.groups = keep;
        touched.sort_by_key(|g| std::cmp::Reverse(g.order));
        for group in touched.into_iter().filter(|g| !g.ring.is_empty()) {
            let before = before.iter().find(|(order, _)| *order == group.order);
            self.put_back(group, before.map(|(_, weight)| weight.clone()), &total);
        }
        if self.groups.is_empty() {
            (self.fresh, self.cap, self.arrivals) = (true, None, 0);
            (self.uneven, self.has_room) = (false, false);
        }
        self.at = self.resumed();
    }

    /// `total` is the work and the weight of all groups before the change.
    fn put_back(&mut self, mut group: Group, old: Option<Number>, total: &(Number, Number)) {
        let weight = self.weight(&group);
        let key = |w: &Number, order: u32| (std::cmp::Reverse(w.clone()), order);
        let place = self
            .groups
            .iter()
            .position(|g| key(&self.weight(g), g.order) > key(&weight, group.order))
            .unwrap_or(self.groups.len());
        let neighbour = if place < self.groups.len() { Some(place) } else { place.checked_sub(1) };
        if self.rescale == Rescale::Own && !self.fresh {
            let falls = old.as_ref().is_some_and(|old| weight < *old);
            let own = old.map(|old| (&group.work - Number::one(), old));
            let (work, base) = own.unwrap_or_else(|| total.clone());
            // The library scales whole quanta and the rest each for itself.
            let parts = number(1u32 << 16);
            let scaled = |work: Number| (work * &weight * &parts / &base).floor() / &parts;
            let exact = scaled(work.floor()) + scaled(work.fract());
            let rounded = match (self.keeps_parts, falls) {
                (true, _) => exact,
                (false, true) => exact.ceil(),
                (false, false) => exact.floor(),
            };
            group.work = rounded + Number::one();
        } else if let Some(neighbour) = neighbour.filter(|_| !self.fresh) {
            let neighbour = &self.groups[neighbour];
            group.work = (&neighbour.work * &weight / self.weight(neighbour)).floor();
        }
        self.groups.insert(place, group);
    }

    /// The work and the weight of all groups.
    fn total(&self) -> (Number, Number) {
        let work = self.groups.iter().map(|g| &g.work - Number::one()).sum();
        (work, self.groups.iter().map(|g| self.weight(g)).sum())
    }

    /// The same without what tasks were granted and have not run yet.
    fn served(&self) -> (Number, Number) {
        let (work, weight) = self.total();
        let granted: u32 = self.tasks.iter().map(|task| task.frontlog).sum();
        let served = work.floor() - number(granted);
        (served.max(Number::zero()) + work.fract(), weight)
    }

    fn count_arrival(&mut self, task: usize) {
        self.tasks[task].late = false;
        self.tasks[task].moved = false;
        self.tasks[task].arrival = self.arrivals;
        self.arrivals += 1;
        self.tasks[task].queued = true;
    }

    fn arrive(&mut self, task: usize) {
        self.count_arrival(task);
        let order = order_of(&self.effective(task));
        let group = self.groups.iter().position(|g| g.order == order);
        let later = !self.fresh && self.cap.is_none();
        if let Some(group) = group.filter(|_| later) {
            let group = &mut self.groups[group];
            group.ring.insert(group.current, task);
            group.current += 1;
            self.tasks[task].pending = true;
            self.tasks[task].deficit = Number::zero();
        } else if self.cap.is_some() && self.keeps_time() {
            self.make_room();
            self.keeps_parts = true;
            self.enter_behind(task, &Lag { of_all: 0, of_group: 0, served: self.served() });
            self.keeps_parts = false;
        } else {
            self.enter(task, false);
        }
        if self.cpus.len() > 1 && !self.fresh {
            self.readjust();
            if !self.tasks[task].pending {
                self.grant_arrival(task);
            }
        }
    }

    /// A task is a part of its group from now on, if it was none.
    fn count_in(&mut self, task: usize) {
        self.tasks[task].late |= std::mem::take(&mut self.tasks[task].pending);
    }

    /// The turn of a task has come that is blocked or pending.
    fn make_ready(&mut self, task: usize) {
        if self.tasks[task].pending {
            self.change(|twin| twin.count_in(task));
            self.grant_arrival(task);
        } else {
            self.leave(task);
            if self.fresh && self.cpus.len() > 1 {
                self.set_cap();
            }
        }
    }

    /// A task that leaves right after its turn is not counted for the round that it was charged for, if it
    /// was not counted while it waited for its first turn.
    fn refund(&mut self, task: usize) {
        let held = self.tasks[task].holder.is_some();
        let group = self.groups.iter_mut().find(|g| g.ring.contains(&task));
        let Some(group) = group.filter(|_| !self.fresh && self.tasks[task].late) else {
            return;
        };
        let ran = (held && self.cpus.len() > 1) || group.ring[group.current] == task;
        if ran && group.work.floor() > Number::one() {
            group.work -= Number::one();
        }
    }

    fn leave(&mut self, task: usize) {
        let comes_back = self.reweighs && !self.tasks[task].blocked;
        if !comes_back {
            self.tasks[task].frontlog = 0;
            self.frontlogs.iter_mut().for_each(|queue| queue.retain(|&t| t != task));
        }
        let has_lag = self.tasks[task].moved && !comes_back;
        let lag = if has_lag { self.lag(task).of_group } else { 0 };
        let order = order_of(&self.effective(task));
        self.capped.retain(|&t| t != task);
        self.tasks[task].queued = false;
        self.keeps_parts |= has_lag;
        if std::mem::take(&mut self.tasks[task].pending) {
            self.leave_ring(task);
        } else {
            self.change(|twin| {
                if !twin.reweighs || !twin.keeps_time() {
                    twin.pass_turn(task);
                }
                twin.leave_ring(task);
            });
        }
        if has_lag && self.groups.iter().any(|g| g.order == order) {
            self.receive(order, lag);
        }
        self.keeps_parts &= self.reweighs;
        if self.cpus.len() > 1 && !self.fresh && !comes_back {
            self.readjust();
        }
    }

    /// If the task, which is about to leave, is current in its ring, the next one is from now on.
    fn pass_turn(&mut self, task: usize) {
        let group = self.groups.iter_mut().find(|g| g.ring.contains(&task)).unwrap();
        if group.ring[group.current] == task && group.ring.len() > 1 {
            group.current = (group.current + 1) % group.ring.len();
            let next = group.ring[group.current];
            self.count_in(next);
            if self.tasks[next].moved {
                if self.waited(next) < -(PARTS / 2) {
                    return;
                }
                self.tasks[next].since += PARTS;
                self.tasks[next].ran_twice = false;
            }
            let allotment = self.allotment(next);
            self.tasks[next].deficit += allotment;
        }
    }

    fn stays_in_its_group(&self, task: usize, weight: u32) -> bool {
        let mut changed = self.clone();
        changed.tasks[task].weight = weight;
        let place = |twin: &Twin| (order_of(&twin.effective(task)), twin.exceeds(task));
        place(self) == place(&changed)
    }

    fn keeps_time(&self) -> bool {
        self.rescale == Rescale::Own && !self.fresh
    }

    fn make_room(&mut self) {
        if !std::mem::replace(&mut self.has_room, true) {
            let unit = self.cap.as_ref().map_or(1, |(_, cpus)| *cpus as u128);
            let more = |twin: &Twin, g: &Group| twin.weight(g) * number(unit * 16);
            let more: Vec<Number> = self.groups.iter().map(|g| more(self, g)).collect();
            self.groups.iter_mut().zip(more).for_each(|(g, more)| g.work += more);
        }
    }

    /// The group of `order` has received so many parts of a quantum more.
    fn receive(&mut self, order: u32, more: i64) {
        let group = self.groups.iter_mut().find(|g| g.order == order).unwrap();
        group.work += Number::new(more.into(), PARTS.into());
        group.work = group.work.clone().max(Number::one());
        self.uneven = true;
        self.at = self.resumed();
    }

    fn reweigh_in_place(&mut self, task: usize, weight: u32) {
        if self.exceeds(task) || self.tasks[task].pending {
            self.tasks[task].weight = weight;
        } else {
            let more = if self.keeps_time() { Some(self.keep_lag(task, weight)) } else { None };
            self.change(|twin| twin.tasks[task].weight = weight);
            if let Some(more) = more {
                self.receive(31 - weight.leading_zeros(), more);
            }
        }
        if self.cpus.len() > 1 && !self.fresh {
            self.readjust();
        }
    }

    /// The weight is about to change in its group: the task is as far behind all as it was. What the group
    /// has received more for that.
    fn keep_lag(&mut self, task: usize, weight: u32) -> i64 {
        self.make_room();
        let order = 31 - weight.leading_zeros();
        let (work, all) = self.served();
        let now = time(&work, &all, order);
        let own = self.time_of(self.groups.iter().find(|g| g.order == order).unwrap());
        let known = &mut self.tasks[task];
        if !known.moved {
            known.count_turns(own);
        }
        let (old, new) = (number(self.tasks[task].weight), number(weight));
        let (one, behind) = (number(1u128 << order), now - self.tasks[task].since);
        let short = times(behind, &(&old / &one));
        let dropped = self.drop_granted(task, short) - short;
        let rounds = times(behind, &(&old / &new)) + times(dropped, &(&one / &new));
        self.tasks[task].since = now - rounds;
        times(now - own, &(new / &one)) - times(now - own, &(old / one)) - dropped
    }

    fn lag(&mut self, task: usize) -> Lag {
        self.make_room();
        let served = self.served();
        if self.tasks[task].pending {
            return Lag { of_all: 0, of_group: 0, served };
        }
        let group = self.groups.iter().find(|g| g.ring.contains(&task)).unwrap();
        let own = self.time_of(group);
        let Task { moved, since, ref deficit, .. } = self.tasks[task];
        let (since, kept) = (if moved { since } else { own }, parts(deficit));
        let allotment = self.allotment(task);
        let due = |time: i64| times(time - since, &allotment) + kept;
        let (of_all, of_group) = (due(time(&served.0, &served.1, group.order)), due(own));
        let of_all = self.drop_granted(task, of_all).clamp(-MOST_LAG * PARTS, MOST_LAG * PARTS);
        Lag { of_all, of_group, served }
    }

    fn move_to_group(&mut self, task: usize, weight: u32) {
        let order = order_of(&self.effective(task));
        let lag = if self.keeps_time() { Some(self.lag(task)) } else { None };
        self.refund(task);
        self.leave(task);
        self.tasks[task].weight = weight;
        if self.tasks[task].blocked {
            return;
        }
        if let Some(lag) = lag.as_ref().filter(|_| self.groups.iter().any(|g| g.order == order)) {
            self.receive(order, lag.of_group);
        }
        self.count_arrival(task);
        match lag.filter(|_| self.keeps_time()) {
            Some(lag) => self.enter_behind(task, &lag),
            None => self.enter(task, false),
        }
        if self.cpus.len() > 1 && !self.fresh {
            self.readjust();
        }
    }

    fn enter(&mut self, task: usize, due: bool) {
        self.change(|twin| {
            if twin.exceeds(task) {
                twin.capped.push(task);
            }
            twin.enter_ring(task, due);
        });
    }

    fn enter_behind(&mut self, task: usize, lag: &Lag) {
        let (order, allotment) = (order_of(&self.effective(task)), self.allotment(task));
        let rounds = times(lag.of_all, &(Number::one() / &allotment));
        let since = time(&lag.served.0, &lag.served.1, order) - rounds;
        let group = self.groups.iter().find(|g| g.order == order);
        let is_alone = group.is_none();
        let (work, weight) = self.total();
        let own = group.map_or_else(|| time(&work, &weight, order), |g| self.time_of(g));
        self.enter(task, own - since >= PARTS);
        self.receive(order, -times(own - since, &allotment));
        let has_turn = is_alone && lag.of_all >= 0;
        self.tasks[task].since = since + if has_turn { PARTS } else { 0 };
        (self.tasks[task].moved, self.tasks[task].ran_twice) = (true, false);
        if !has_turn {
            self.tasks[task].deficit = Number::zero();
        }
    }

    fn queued(&self) -> Vec<usize> {
        (0..self.tasks.len()).filter(|&task| self.tasks[task].queued).collect()
    }

    fn runnable(&self) -> usize {
        self.tasks.iter().filter(|task| task.queued && !task.blocked).count()
    }

    fn readjust(&mut self) {
        if self.queued().len() > self.cpus.len() {
            self.set_cap();
        }
    }

    /// Water-filling by its definition: lower the heaviest weights until nobody has more than 1/P.
    fn find_cap(&self) -> Option<(Number, usize)> {
        let cpus = self.cpus.len();
        let mut weights: Vec<u32> = self.queued().iter().map(|&t| self.tasks[t].weight).collect();
        if weights.len() <= cpus {
            return Some((Number::one(), 1));
        }
        weights.sort_unstable_by(|a, b| b.cmp(a));
        for infeasible in 0..cpus {
            let left = cpus - infeasible;
            let rest: u128 = weights[infeasible..].iter().map(|&w| u128::from(w)).sum();
            if u128::from(weights[infeasible]) * left as u128 <= rest {
                return (infeasible > 0).then(|| (number(rest) / number(left as u128), left));
            }
        }
        unreachable!("the lightest of more tasks than cpus is feasible")
    }

    fn set_cap(&mut self) {
        let cap = self.find_cap();
        if cap == self.cap {
            return;
        }
        let mut moves = if self.keeps_time() { Some(self.moves()) } else { None };
        let kept = std::mem::replace(&mut self.keeps_parts, true);
        self.change(|twin| twin.move_tasks(cap, moves.as_mut()));
        self.keeps_parts = kept;
        for (order, more) in moves.into_iter().flat_map(|moves| moves.received) {
            if more != 0 && self.groups.iter().any(|g| g.order == order) {
                self.receive(order, more);
            }
        }
    }

    fn moves(&mut self) -> Moves {
        self.make_room();
        let times = self.groups.iter().map(|g| (g.order, self.time_of(g))).collect();
        let (cap, total, served) = (self.cap.clone(), self.total(), self.served());
        Moves { cap, total, served, times, received: BTreeMap::new() }
    }

    fn move_tasks(&mut self, cap: Option<(Number, usize)>, mut moves: Option<&mut Moves>) {
        let old = std::mem::replace(&mut self.cap, cap);
        let capped = std::mem::take(&mut self.capped);
        let (staying, leaving): (Vec<_>, Vec<_>) =
            capped.into_iter().partition(|&task| self.exceeds(task));
        leaving.iter().for_each(|&task| self.shift(task, moves.as_deref_mut()));
        let mut entering = self.queued();
        entering.retain(|task| self.exceeds(*task) && !staying.contains(task));
        if self.fresh {
            entering.sort_by_key(|&task| self.tasks[task].arrival);
        }
        entering.iter().for_each(|&task| self.shift(task, moves.as_deref_mut()));
        if let Some(old) = old {
            staying.iter().for_each(|&task| self.recap(task, &old, moves.as_deref_mut()));
        }
        self.capped = [staying, entering].concat();
    }

    fn shift(&mut self, task: usize, moves: Option<&mut Moves>) {
        match moves {
            Some(moves) => self.shift_behind(task, moves),
            None => {
                self.leave_ring(task);
                (self.tasks[task].pending, self.tasks[task].moved) = (false, false);
                self.enter_ring(task, false);
            }
        }
    }

    /// The task stays as far behind all as it was.
    fn shift_behind(&mut self, task: usize, moves: &mut Moves) {
        let from = self.groups.iter().find(|g| g.ring.contains(&task)).unwrap().order;
        let lag = self.lag_before(task, from, moves);
        self.leave_ring(task);
        self.tasks[task].pending = false;
        if self.groups.iter().any(|g| g.order == from && g.ring.is_empty()) {
            self.left.push(from);
            moves.times.remove(&from);
            moves.received.remove(&from);
        }
        let (order, allotment) = (order_of(&self.effective(task)), self.allotment(task));
        let since = moves.now(order) - times(lag, &(Number::one() / &allotment));
        let behind = moves.time_of(order) - since;
        *moves.received.entry(order).or_default() -= times(behind, &allotment);
        let is_alone = !self.groups.iter().any(|g| g.order == order && !g.ring.is_empty());
        self.enter_ring(task, behind >= PARTS);
        let has_turn = is_alone && lag >= 0;
        self.tasks[task].count_turns(since + if has_turn { PARTS } else { 0 });
        if !has_turn {
            self.tasks[task].deficit = Number::zero();
        }
    }

    /// What the task was short of in the group of `order` before the cap changed.
    fn lag_before(&mut self, task: usize, order: u32, moves: &mut Moves) -> i64 {
        let Task { moved, since, pending, ref deficit, weight, .. } = self.tasks[task];
        if pending {
            return 0;
        }
        let own = moves.time_of(order);
        let capped = moves.cap.iter().map(|(cap, _)| cap.clone());
        let effective = capped.chain([number(weight)]).min().unwrap();
        let capped_before = effective < number(weight);
        let (since, kept) = (if moved { since } else { own }, parts(deficit));
        let due = |time: i64| times(time - since, &(&effective / number(1u128 << order))) + kept;
        *moves.received.entry(order).or_default() += due(own);
        let short = due(moves.now(order));
        let most = MOST_LAG * PARTS;
        if capped_before && self.exceeds(task) {
            let granted = i64::from(self.tasks[task].frontlog) * PARTS;
            (short + granted).clamp(-most, most) - granted
        } else {
            self.drop_granted(task, short).clamp(-most, most)
        }
    }

    /// The library counts a capped task's deficit in quanta/(2^σ·Q) and rounds down when Q changes.
    fn recap(&mut self, task: usize, (old, old_cpus): &(Number, usize), moves: Option<&mut Moves>) {
        let (cap, cpus) = self.cap.clone().unwrap();
        if moves.is_some() || order_of(old) != order_of(&cap) {
            self.shift(task, moves);
            return;
        }
        let unit = |cpus: usize| number((cpus as u128) << order_of(&cap));
        let deficit = self.tasks[task].deficit.clone() * unit(*old_cpus);
        let scaled = deficit * number(cpus as u128) / number(*old_cpus as u128);
        self.tasks[task].deficit = scaled.floor() / unit(cpus);
    }

    fn sum(&self, cpu: CpuId) -> u32 {
        self.frontlogs[cpu].iter().map(|&task| self.tasks[task].frontlog).sum()
    }

    fn grant(&mut self, task: usize, cpu: CpuId, quanta: u32) {
        if self.tasks[task].frontlog == 0 {
            self.frontlogs[cpu].push_back(task);
            self.tasks[task].home = cpu;
        }
        self.tasks[task].frontlog += quanta;
    }

    /// Who is ahead but for what it was granted is granted as much less. What the task is short of then,
    /// beside what it was granted, in parts of a quantum.
    fn drop_granted(&mut self, task: usize, short: i64) -> i64 {
        let granted = i64::from(self.tasks[task].frontlog);
        let kept = (granted + short.div_euclid(PARTS)).clamp(0, granted);
        self.tasks[task].frontlog = u32::try_from(kept).unwrap();
        if kept == 0 {
            self.frontlogs.iter_mut().for_each(|cpu| cpu.retain(|&other| other != task));
        }
        short + (granted - kept) * PARTS
    }

    fn grant_arrival(&mut self, task: usize) {
        if !self.arrival_frontlogs {
            return;
        }
        let cpus = 0..self.cpus.len();
        let total: u32 = cpus.clone().map(|cpu| self.sum(cpu)).sum();
        let weight: Number = self.groups.iter().map(|g| self.weight(g)).sum();
        let share = (number(total) * self.effective(task) / weight).to_integer();
        let share = share.to_u32().unwrap();
        if share > 0 {
            let home = cpus.min_by_key(|&cpu| self.sum(cpu)).unwrap();
            self.grant(task, home, share);
        }
    }

    fn serve_frontlog(&mut self, cpu: CpuId) -> Option<usize> {
        let free = |task: &Task| !task.blocked && task.holder.is_none();
        let place = self.frontlogs[cpu].iter().position(|&t| free(&self.tasks[t]))?;
        self.frontlogs[cpu].rotate_left(place);
        let task = self.frontlogs[cpu].pop_front()?;
        self.tasks[task].frontlog -= 1;
        if self.tasks[task].frontlog > 0 {
            self.frontlogs[cpu].push_back(task);
        }
        Some(task)
    }

    fn pick_task(&mut self, cpu: CpuId) -> Option<usize> {
        let previous = self.cpus[cpu].take();
        if let Some(task) = previous {
            self.tasks[task].holder = None;
        }
        if self.cpus.len() > 1
            && let Some(task) = self.serve_frontlog(cpu)
        {
            return Some(task);
        }
        if self.runnable() == self.cpus.iter().flatten().count() {
            return None;
        }
        if self.fresh && self.cpus.len() > 1 {
            self.set_cap();
        }
        if self.cpus.len() > 1 && self.runnable() <= self.cpus.len() {
            self.fresh = false;
            return Some(previous.unwrap_or_else(|| self.any_free()));
        }
        for _ in 0..1024 * self.cpus.len() {
            let task = self.choose();
            let Some(holder) = self.tasks[task].holder else { return Some(task) };
            self.grant(task, holder, 1);
        }
        Some(self.any_free())
    }

    /// Nobody competes: the first task without a cpu. Those on the way that are not ready join or leave.
    fn any_free(&mut self) -> usize {
        loop {
            let rings = self.groups.iter().flat_map(|g| {
                let (before, from) = g.ring.split_at(g.current);
                from.iter().chain(before)
            });
            let free = rings.copied().find(|&task| self.tasks[task].holder.is_none()).unwrap();
            if !self.tasks[free].blocked && !self.tasks[free].pending {
                return free;
            }
            self.make_ready(free);
        }
    }

    fn release(&mut self, task: usize) {
        if let Some(cpu) = self.tasks[task].holder.take() {
            self.cpus[cpu] = None;
        }
    }
}

impl Policy for Twin {
    fn add(&mut self, task: TaskId, weight: Weight) {
        let new = Task {
            weight: weight.get(),
            queued: false,
            blocked: true,
            pending: false,
            late: false,
            moved: false,
            since: 0,
            ran_twice: false,
            holder: None,
            deficit: Number::zero(),
            frontlog: 0,
            home: 0,
            arrival: 0,
        };
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, new.clone());
        }
        self.tasks[task.index()] = new;
    }

    fn remove(&mut self, task: TaskId, _now_ns: Nanos) {
        self.refund(task.index());
        self.release(task.index());
        if self.tasks[task.index()].queued {
            self.leave(task.index());
        }
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, _now_ns: Nanos) {
        let index = task.index();
        let queued = self.tasks[index].queued;
        if weight.get() == self.tasks[index].weight {
            return;
        }
        if !queued {
            self.tasks[index].weight = weight.get();
            return;
        }
        (self.reweighs, self.keeps_parts) = (true, true);
        if self.stays_in_its_group(index, weight.get()) {
            self.reweigh_in_place(index, weight.get());
        } else {
            self.move_to_group(index, weight.get());
        }
        (self.reweighs, self.keeps_parts) = (false, false);
    }

    fn wake(&mut self, task: TaskId, _now_ns: Nanos) {
        self.tasks[task.index()].blocked = false;
        if !self.tasks[task.index()].queued {
            self.arrive(task.index());
        }
    }

    fn block(&mut self, task: TaskId, _now_ns: Nanos) {
        self.release(task.index());
        if self.tasks[task.index()].pending {
            self.leave(task.index());
        }
        let lost = &self.tasks[task.index()].deficit - Number::one();
        if self.tasks[task.index()].moved && lost > Number::zero() {
            self.receive(order_of(&self.effective(task.index())), parts(&lost));
        }
        let task = &mut self.tasks[task.index()];
        task.blocked = true;
        task.deficit = task.deficit.clone().min(Number::one());
    }

    fn pick(&mut self, cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        let task = self.pick_task(cpu)?;
        self.tasks[task].holder = Some(cpu);
        self.cpus[cpu] = Some(task);
        Some(TaskId(u32::try_from(task).unwrap()))
    }

    fn charge(&mut self, _task: TaskId, _used_ns: Nanos, _now_ns: Nanos) {}
}

//! GR3 and GR3MP, Group Ratio Round-Robin: constant cost, constant error, any number of cpus.
//!
//! *Paper*: Caprita, Chan, Nieh, Stein, Zheng: "Group Ratio Round-Robin: O(1) Proportional Share
//! Scheduling for Uniprocessor and Multiprocessor Systems", USENIX 2005; longer as Columbia
//! technical report CUCS-028-04.
//!
//! # How it works
//!
//! Tasks are grouped by order σ = ⌊log₂ φ⌋. *Between* groups (`groups.rs`), the list runs from the
//! heaviest to the lightest; after serving group i, go to group i+1 if i is ahead of it, else back
//! to the first: two neighbours are compared, never all. *Within* a group, weights differ by less
//! than a factor of two, so a round robin in which each task gets one or two quanta a round is fair:
//! a *deficit* carries the fraction of a quantum that the weight entitles it to beyond whole ones.
//!
//! Several cpus (GR3MP, `frontlogs.rs`) draw from the same queue. If the choice falls on a task
//! that is running elsewhere, the task is granted a *frontlog*, a quantum that it will run on its
//! own cpu later without asking, and the cpu chooses again.
//!
//! # Worked example
//!
//! Weights 5, 2, 1 make three groups. After one quantum of task 1, (W₁+1)/(W₂+1) = 2 is not above
//! 5/2, so task 1 goes on; after the second it is 3, so task 2 is next:
//! `1 1 2 1 1 1 2 3` and repeat.
//!
//! # Bound
//!
//! With g groups, for a fixed set of tasks (Theorem 1; 1 quantum = 1):
//! −(g−1)(g−2)/2·φ/Φ_T − 4 < error < g + 3. On P cpus (Theorem 2) the same lower bound, and
//! error < 2g + 10 + (g−1)(g−2)/(2P). g ≤ 32.
//!
//! # Cost
//!
//! `pick`: O(1), on P cpus amortised O(1) (worst case: Theorem 3, O(g²P)), while no
//! weight changes; `wake` of a task that left the queue, removal and `set_weight`: O(g), on P cpus
//! O(g + P) when infeasible weights are readjusted. So is a `pick` that meets a blocked task, which
//! leaves then, or an arrival, which is counted from then on: at most one for each `block` or `wake`.
//!
//! # Deviations and choices
//!
//! * After a change of groups the paper restarts at the largest group; that starves small groups
//!   when tasks come and go every quantum. We go on at the group after the last violated pair of
//!   the list, and again, until no pair is violated: only then does the round start over. Tasks
//!   outside the changed group then keep their ratio within three quanta, whatever the others do
//!   (`tests/gr3/dynamic.rs`; [`Resume`] has the other rules, which differ without limit).
//! * A changed group's work is rescaled in proportion to its own, as in CUCS-028-04. USENIX'05 sets
//!   it by the next lighter group's, so that an arrival may wait for Φ_G/Φ_(k+1) quanta, and its
//!   claim that the disruption is a constant does not hold (`tests/gr3/dynamic.rs` has a
//!   counterexample). [`Rescale`] has both. Where a task comes the work is rounded down,
//!   where one goes up, so that a task which comes, has a turn and goes pays for exactly that. Where a weight
//!   changes, what is no whole quantum is kept beside the work: a group which tasks enter one by one, and
//!   leave by emptying, would else gain half a quantum with each.
//! * A blocked task stays queued until its turn (lazy removal, as in the paper). A quantum that was
//!   granted counts as service in the round however little of it was used, and the group pays for all
//!   of it (as in the paper; charging what was used lets the hogs of the group have the rest, and
//!   they then get up to twice their due).
//! * An arrival waits for its turn, which is the last of the round, and its group's weight counts it
//!   only from then on; the paper counts it at once, and pays its hogs for the round that it waits. A
//!   group thus counts a task for as many rounds as the task has turns. (Not while a weight is
//!   capped: then it is counted at once, as the cap counts it, and so are its turns.) In 60 random scenes of
//!   hogs beside sleepers on 1 to 3 cpus (`run/tests/loop.rs`) the hogs' proportions are off by 0.8 %
//!   (median) instead of 2.6 %. The price: where n tasks arrive at once in a light group, each makes
//!   room for the next, and the last has its first turn after 1 + 1/2 + … + 1/n ≈ ln n of the heavier
//!   groups' rounds instead of one.
//! * When the current task leaves, its successor becomes current and has its allotment at once: who
//!   arrives next is still last in the round. (If the predecessor became current, a lone hog would
//!   starve beside tasks of its order that come and go.)
//! * With no more runnable tasks than cpus nobody competes: each keeps its cpu, a free cpu takes any
//!   task that has none, and no group is charged. (By choices it could take 2^32 of them to reach
//!   the lightest task, all others on the heaviest.) Infeasible weights are then not readjusted until
//!   there are more tasks.
//! * The paper gives an arrival a frontlog of F_T·φ/Φ_T, as if the others' were about to be used.
//!   They stand for long, and a task that comes and goes is given quanta again and again: in three
//!   mixes of hogs on 4 cpus in the kernel they lagged 44, 69 and 12 ms with it, 10.5, 8.5 and 10.4
//!   without. It is an option (`arrival=frontlog`, rounded down).
//! * A change of weight is a departure and an arrival in the papers, and who changes oftener than once a
//!   round starves. Here the task keeps its place and its deficit if it stays in its group; and wherever it
//!   goes it stays as far behind or ahead as it was (`reweigh.rs`), also where the cap changes and moves it
//!   (`readjust.rs`). From its first change on, until it leaves the queue, its turns are counted: who enters
//!   a group and has waited for a round is next, who is still behind by a round after his turn has one more
//!   (not as many as he lacks: an arrival that its group does not count yet would wait for all of them), who
//!   is ahead by half a round lets his pass (and who has it instead is counted from then on: he would else
//!   have all that the others let pass), and the groups' work follows, also when he leaves. Until that is in
//!   order again the group of least V/Φ is next. Whatever changes, everybody was within 10 quanta of the
//!   ideal in 240 random sets on each of 1, 2, 4 and 8 cpus (`tests/gr3/reweighing.rs`), within 15 in 1920
//!   (`examples/reweighing.rs`). The price: a decision for such a task takes the slow path, and may look at
//!   the others of its ring that are ahead; after a change decisions cost O(g) until work is in order.
//! * What tasks were granted and have not run does not count as run when it is found how far behind a task is
//!   whose weight changes, or that the cap moves: most is granted to who is worth a whole cpu, while he is,
//!   and he would gain by each change, up to 137 quanta of 3000. And who gets another weight, or is capped
//!   no longer, drops of what he was granted what he is ahead without that (`Gr3::drop_granted`): who always
//!   runs is granted his share of what others are, without being behind, and would have all of it at once
//!   when he is worth less.
//! * A group is not charged for the last turn of a task that leaves right after it, if it has not counted the
//!   task while it waited for its first: else (an arrival that was counted at once) it has had that round.
//! * A `pick` on P cpus that made 1024·P choices takes any task that no cpu runs, as when nobody competes.
//!   Theorem 3 is about queues that do not change; where tasks come, go and change their weights we have
//!   found up to 33 choices on 2 to 8 cpus (`tests/gr3/dynamic.rs`), and a kernel cannot wait for an
//!   exception.
//! * A queue that nothing was chosen from since it was empty is readjusted at its first `pick`, and
//!   every ring is then in order of arrival.
//!
//! # Limits
//!
//! The sum of all weights times the number of cpus stays below 2^56 (10^6 tasks of the largest
//! weight on 16 cpus, or of weight 10^4 on all 65536); at most 2^30 tasks. Both are asserted.
//!
//! On several cpus tasks that give up their quanta again and again, without sleeping, make the frontlogs of
//! those that run elsewhere grow without limit: these are chosen as often, and run later what they were
//! granted, while others wait (`tests/gr3/dynamic.rs`).
//!
//! Newcomers of weight 8 that follow each other, each gone after a quantum, starve hogs of weight 1 on
//! one cpu, but for corrected turns (`tests/conformance/newcomers.rs`).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::select_unpredictable;

use super::{Bound, Built, Cost, Entry, FixedSet, Options, Ratio};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::{NodeId, Rings};
use crate::turns::Payment;
use crate::weights::{self, Cap, Classes};

mod frontlogs;
mod groups;
mod readjust;
mod reweigh;

use frontlogs::{Frontlog, Frontlogs};
use groups::{Cursor, Group, Groups, ORDERS, Rules, Time};
pub use groups::{Rescale, Resume};

pub(super) const ENTRY: Entry = Entry {
    name: "gr3",
    title: "Group Ratio Round-Robin (GR3, GR3MP)",
    paper: "Caprita, Chan, Nieh, Stein, Zheng: USENIX 2005, sections 2 and 3",
    bound: Bound {
        text: "−(g−1)(g−2)/2·φ/Φ − 4 < e < g + 3; on P cpus e < 2g + 10 + (g−1)(g−2)/2P",
        lower: Some(lower_bound),
        upper: Some(upper_bound),
        exact_each_cycle: false,
    },
    cost: Cost { pick: "1", insert: "g", remove: "g" },
    multiprocessor: true,
    work_conserving: true,
    by_weight: true,
    payment: Payment::turns(3),
    options: &[
        (
            "resume",
            "until-ordered",
            "where to go on after a change of groups: until-ordered, violated, largest, \
             largest-on-removal, current",
        ),
        ("rescale", "own", "what a changed group's work is rescaled by: own, neighbour"),
        ("arrival", "plain", "what an arrival is given on several cpus: plain (nothing), frontlog"),
    ],
    build,
};

fn build(setup: &Setup, options: &mut Options<'_>) -> Built {
    let resume = [
        ("until-ordered", Resume::UntilOrdered),
        ("violated", Resume::Violated),
        ("largest", Resume::Largest),
        ("largest-on-removal", Resume::LargestOnRemoval),
        ("current", Resume::Current),
    ];
    let resume = options.choice("resume", &resume)?;
    let rescale = [("own", Rescale::Own), ("neighbour", Rescale::Neighbour)];
    let rescale = options.choice("rescale", &rescale)?;
    let frontlogs = options.choice("arrival", &[("plain", false), ("frontlog", true)])?;
    Ok(Box::new(Gr3::with_rules(setup, resume, rescale).arrival_frontlogs(frontlogs)))
}

/// The weights of a fixed set after readjustment: their cap, and g.
fn feasible(set: &FixedSet<'_>) -> (Cap, i128) {
    let mut weights = set.weights.to_vec();
    weights.sort_unstable_by(|a, b| b.cmp(a));
    let cap = weights::sorted(&weights, set.cpus);
    let cap = if set.cpus == 1 { Cap::NONE } else { cap };
    let order = |w: &Weight| if cap.exceeded_by(*w) { cap.order() } else { w.order() };
    let orders = weights.iter().fold(0u32, |orders, w| orders | 1 << order(w));
    (cap, i128::from(orders.count_ones()))
}

/// Theorems 1 and 2.
fn lower_bound(set: &FixedSet<'_>, task: TaskId) -> Ratio {
    let (cap, g) = feasible(set);
    let total: u64 = set.weights.iter().map(|&w| cap.effective(w)).sum();
    let weight = i128::from(cap.effective(set.weights[task.index()]));
    let pairs = (g - 1) * (g - 2);
    let denominator = 2 * i128::from(total);
    Ratio { numerator: -pairs * weight - 4 * denominator, denominator }
}

/// Theorem 1 on one cpu, Theorem 2 on several.
fn upper_bound(set: &FixedSet<'_>, _task: TaskId) -> Ratio {
    let (_, g) = feasible(set);
    if set.cpus == 1 {
        return Ratio::whole(g + 3);
    }
    let denominator = 2 * set.cpus as i128;
    Ratio { numerator: (2 * g + 10) * denominator + (g - 1) * (g - 2), denominator }
}

/// Choices for each cpu that a `pick` makes at most.
const MOST_CHOICES: usize = 1024;
/// No node, no cpu.
const NIL: u32 = u32::MAX;
/// Flag above a slot's task id: when its turn comes the task needs care, because it is blocked and
/// leaves then, or because it is [pending](Slot::PENDING) and joins, or because it has [moved](Moved).
const UNREADY: u32 = 1 << 30;
/// Flag above a slot's task id: a cpu holds the task.
const HELD: u32 = 1 << 31;

/// A task's place in its group's ring.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Quanta that the task may still run in this round, times 2^σ (times Q if capped); or
    /// [`Slot::PENDING`]. Invariant between choices: below two quanta.
    deficit: u64,
    /// φ, or 0 if the task is capped and its weight is the cap's.
    weight: u32,
    /// Id and flags.
    task: u32,
}

impl Slot {
    /// The deficit of a task that is pending: it has arrived, and its group does not count it before
    /// its turn. Such a task is neither current in its ring, nor above the cap, nor blocked.
    const PENDING: u64 = u64::MAX;

    fn id(self) -> TaskId {
        TaskId(self.task & !(UNREADY | HELD))
    }

    fn is_pending(self) -> bool {
        self.deficit == Slot::PENDING
    }

    /// The task is pending no longer.
    fn count_in(&mut self) {
        self.task &= !UNREADY;
        self.deficit = 0;
    }

    /// A quantum and the allotment of a round, in the units of this slot's deficit.
    fn units(self, order: u8, (feasible, cpus): (u64, u32)) -> (u64, u64) {
        if self.weight == 0 {
            (u64::from(cpus) << order, feasible)
        } else {
            (1 << order, u64::from(self.weight))
        }
    }
}

/// What is kept of a task beside its slot.
#[derive(Clone, Copy, Debug)]
struct Task {
    weight: Weight,
    /// Its slot if it is queued, else [`NIL`].
    node: NodeId,
    /// When its last turn was due, by the time of its group, if it has moved.
    since: Time,
    /// Its last turn was one more than its ring gave it, if it has moved.
    ran_twice: bool,
    /// Its group has counted it from its first turn on only, not while it waited for that.
    late: bool,
    moved: Moved,
}

impl Task {
    fn new(weight: Weight) -> Task {
        Task {
            weight,
            node: NIL,
            since: Time::default(),
            ran_twice: false,
            late: false,
            moved: Moved::No,
        }
    }

    fn is_blocked(self, slot: Slot) -> bool {
        slot.task & UNREADY != 0 && !slot.is_pending() && self.moved != Moved::Awake
    }
}

/// Whether a task has come to its group from another one, with a new weight: then its turns are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    No,
    Awake,
    Blocked,
}

/// What is kept of a task beside that for several cpus.
#[derive(Clone, Copy, Debug)]
struct Shared {
    /// The cpu that holds it: from the `pick` that returned it until that cpu's next `pick`.
    holder: u32,
    /// When it was queued, among the tasks of a fresh queue.
    arrival: u32,
    frontlog: Frontlog,
}

impl Shared {
    const NEW: Shared = Shared { holder: NIL, arrival: 0, frontlog: Frontlog::NONE };
}

/// GR3, and GR3MP when there are several cpus. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Gr3 {
    rings: Rings<Slot, ORDERS>,
    groups: Groups,
    tasks: Vec<Task>,
    /// By task; none with one cpu.
    shared: Vec<Shared>,
    /// Queued tasks that are not blocked, pending ones included.
    runnable: usize,
    /// Runnable tasks that a cpu holds. With one cpu this is not kept: the cpu that asks is the
    /// only one that could hold a task.
    held: usize,
    /// The task that each cpu holds, or [`NIL`].
    cpus: Vec<u32>,
    frontlogs: Frontlogs,
    /// The sum of the queued tasks' weights; it stays below the second.
    load: u64,
    most_load: u64,
    /// Queued tasks by raw weight. With one cpu this is not kept.
    classes: Classes,
    cap: Cap,
    /// Queued tasks above the cap, in the order in which they came to be. At most P.
    capped: Vec<TaskId>,
    scratch: Vec<Weight>,
    arrivals: u32,
    longest_search: usize,
    arrival_frontlogs: bool,
}

impl Gr3 {
    /// GR3 over no tasks.
    #[must_use]
    pub fn new(setup: &Setup) -> Gr3 {
        Gr3::with_rules(setup, Resume::UntilOrdered, Rescale::Own)
    }

    /// GR3 with other rules for changes of groups than ours.
    #[must_use]
    pub fn with_rules(setup: &Setup, resume: Resume, rescale: Rescale) -> Gr3 {
        Gr3 {
            rings: Rings::default(),
            groups: Groups::new(Rules { resume, rescale }),
            tasks: Vec::new(),
            shared: Vec::new(),
            runnable: 0,
            held: 0,
            cpus: alloc::vec![NIL; setup.cpus],
            frontlogs: Frontlogs::new(setup.cpus),
            load: 0,
            most_load: (1 << 56) / setup.cpus as u64,
            classes: Classes::default(),
            cap: Cap::NONE,
            capped: Vec::with_capacity(setup.cpus + 1),
            scratch: Vec::with_capacity(2 * setup.cpus),
            arrivals: 0,
            longest_search: 0,
            arrival_frontlogs: false,
        }
    }

    /// Whether an arrival is given its share of the frontlogs, F_T·φ/Φ_T (USENIX'05 §3.2). Not by
    /// default: see the [module documentation](self).
    #[must_use]
    pub fn arrival_frontlogs(self, given: bool) -> Gr3 {
        Gr3 { arrival_frontlogs: given, ..self }
    }

    /// The most choices that a `pick` for one of several cpus took so far (USENIX'05 figure 11):
    /// all but the last one fell on tasks that were running elsewhere.
    #[must_use]
    pub fn longest_search(&self) -> usize {
        self.longest_search
    }

    /// W_T, the work of all groups: how often a task was chosen, in a queue that has not changed. On
    /// several cpus a `pick` may take several choices; Theorem 3 bounds them.
    #[must_use]
    pub fn work(&self) -> u64 {
        self.groups.work()
    }

    /// One decision of the uniprocessor algorithm: the chosen task's id, and [`HELD`] if a cpu holds
    /// it. `None` if no
    /// task is runnable.
    #[inline(always)]
    fn choose(&mut self) -> Option<u32> {
        match self.choose_fast() {
            Some(task) => Some(task),
            None => self.choose_slowly(),
        }
    }

    /// The decision in the usual case; `None`, with nothing changed, if this is another one.
    #[inline(always)]
    fn choose_fast(&mut self) -> Option<u32> {
        let turn = self.groups.turn()?;
        let (one, cursor) = (turn.group.one, turn.group.cursor);
        let (ahead, after) = self.rings.visit(cursor.next)?;
        let allotted = ahead.deficit.wrapping_add(u64::from(ahead.weight));
        // Whether a task has a second quantum is as good as random: no branch.
        let stays = cursor.deficit >= one;
        let current = select_unpredictable(stays, cursor.current, cursor.next);
        let (slot, _) = self.rings.visit(current)?;
        let task = slot.task;
        if task & UNREADY != 0 {
            return None;
        }
        let deficit = select_unpredictable(stays, cursor.deficit, allotted).checked_sub(one)?;
        let next = select_unpredictable(stays, cursor.next, after);
        slot.deficit = deficit;
        turn.group.cursor = Cursor { deficit, current, next };
        debug_assert!(deficit < 2 * one);
        debug_assert_eq!(next, self.rings.next(current));
        turn.take();
        Some(task)
    }

    /// A decision after a change of groups; or one that begins with a task that is not ready; or
    /// with a group of capped tasks, whose deficits have other units; or with nobody runnable.
    #[cold]
    fn choose_slowly(&mut self) -> Option<u32> {
        let mut passed = NIL;
        while self.runnable > 0 {
            self.groups.catch_up();
            let cap = self.cap.fraction();
            let turn = self.groups.turn_with_care();
            let (order, current) = (turn.group.order, turn.group.cursor.current);
            let (slot, next) = self.rings.visit(current).expect("a group has a current task");
            let stays = slot.deficit >= slot.units(order, cap).0;
            let slot = *slot;
            let moved =
                slot.task & UNREADY != 0 && self.tasks[slot.id().index()].moved == Moved::Awake;
            let again = !stays && moved && self.has_another_turn(slot.id(), order.into());
            let current = if stays || again { current } else { next };
            let slot = *self.rings.get(current);
            if slot.task & UNREADY != 0 {
                if self.tasks[slot.id().index()].moved != Moved::Awake {
                    self.make_ready(slot.id());
                    passed = NIL;
                    continue;
                }
                if !stays && !again && !self.take_turn(slot.id(), order.into(), current == passed) {
                    passed = if passed == NIL { current } else { passed };
                    self.group(order.into()).set_current(current);
                    continue;
                }
            } else if passed != NIL && !stays {
                self.take_passed_turn(slot.id(), order.into());
            }
            let cares = self.rings.get(current).task & UNREADY != 0;
            let turn = self.groups.turn_with_care();
            let (slot, next) = self.rings.visit(current).expect("a ring goes on");
            let (one, allotment) = slot.units(order, cap);
            slot.deficit = slot.deficit + if stays { 0 } else { allotment } - one;
            debug_assert!(slot.deficit < 2 * one);
            turn.group.go_on_from(Cursor { deficit: slot.deficit, current, next });
            if cares {
                turn.group.take_care();
            }
            let task = slot.task & !UNREADY;
            turn.take();
            self.groups.settle();
            return Some(task);
        }
        None
    }

    /// Makes room for tasks with ids below `tasks`.
    #[cold]
    fn reserve(&mut self, tasks: usize) {
        self.tasks.resize(tasks, Task::new(Weight::ONE));
        self.rings.reserve(tasks);
        if self.has_several_cpus() {
            self.shared.resize(tasks, Shared::NEW);
            self.frontlogs.reserve(tasks);
        }
    }

    fn has_several_cpus(&self) -> bool {
        self.cpus.len() > 1
    }

    /// The order of the group that a queued task is in.
    fn order_of(&self, weight: Weight) -> u32 {
        if self.cap.exceeded_by(weight) { self.cap.order() } else { weight.order() }
    }

    /// The group of a queued task, which is of `order`.
    fn group(&mut self, order: u32) -> &mut Group {
        self.groups.get(order).expect("a queued task has a group")
    }

    /// Puts `task` into the ring of its group, before node `at` or else before the current task.
    /// Returns false if there is no such group yet: then [`Gr3::new_group`] is to be put into the list.
    fn enter_ring(&mut self, task: TaskId, flags: u32, at: Option<NodeId>) -> bool {
        let weight = self.tasks[task.index()].weight;
        let order = self.order_of(weight);
        let weight = if self.cap.exceeded_by(weight) { 0 } else { weight.get() };
        let mut slot = Slot { deficit: 0, weight, task: task.0 | flags };
        let group = self.groups.get(order);
        let exists = group.is_some();
        self.tasks[task.index()].node = match group {
            Some(group) if !group.is_empty() => {
                let at = at.unwrap_or(group.cursor.current);
                group.count(weight);
                self.rings.insert_before(order as usize, at, slot)
            }
            _ => {
                let short = u8::try_from(order).expect("an order is below 32");
                slot.deficit = slot.units(short, self.cap.fraction()).1;
                let node = self.rings.insert_alone(order as usize, slot);
                if let Some(group) = group {
                    group.set_current(node);
                    group.count(weight);
                }
                node
            }
        };
        exists
    }

    /// The group of `task`, which is the first of its order.
    #[inline(always)]
    fn new_group(&self, task: TaskId) -> Group {
        let Task { weight, node, .. } = self.tasks[task.index()];
        let order = u8::try_from(self.order_of(weight)).expect("an order is below 32");
        Group::of(order, node, self.rings.get(node).weight)
    }

    /// Takes `task` out of the ring of the group of `order`. Returns false if that is empty now.
    fn leave_ring(&mut self, task: TaskId, order: u32) -> bool {
        let node = core::mem::replace(&mut self.tasks[task.index()].node, NIL);
        let slot = *self.rings.get(node);
        let before = self.rings.previous(node);
        let after = self.rings.remove(order as usize, node);
        let group = self.group(order);
        if !slot.is_pending() {
            group.uncount(slot.weight);
        }
        let Some(after) = after else { return false };
        group.relink(node, after);
        if group.cursor.current == node {
            self.make_current(order, before);
            if self.groups.fresh {
                self.start_ring(order, after);
            }
        }
        true
    }

    /// Makes the task in `first` the first one of a ring that nothing was chosen from.
    fn start_ring(&mut self, order: u32, first: NodeId) {
        let group = self.groups.get(order).expect("a queued task has a group");
        group.set_current(first);
        let slot = self.rings.get_mut(first);
        slot.deficit = slot.units(group.order, self.cap.fraction()).1;
    }

    /// `task` becomes queued. Its group counts it from its turn on.
    #[inline(always)]
    fn arrive(&mut self, task: TaskId) {
        let known = &mut self.tasks[task.index()];
        (known.late, known.moved) = (false, Moved::No);
        let weight = known.weight;
        self.count_load(weight);
        if self.has_several_cpus() {
            self.arrive_shared(task);
        } else if self.groups.fresh || !self.enter_later(task) {
            self.enter(task, 0);
        }
    }

    /// `task` becomes queued, for several cpus.
    fn arrive_shared(&mut self, task: TaskId) {
        self.count_shared(task);
        // Under a cap the weights that it is made of and those of the groups must be the same.
        if self.cap != Cap::NONE && self.groups.keep_time() {
            self.enter_level(task);
        } else if self.groups.fresh || self.cap != Cap::NONE || !self.enter_later(task) {
            self.enter(task, 0);
        }
        if !self.groups.fresh {
            self.readjust();
            if !self.rings.get(self.tasks[task.index()].node).is_pending() {
                self.grant_arrival(task);
            }
        }
    }

    /// `task`, which becomes queued, is among those that several cpus share.
    fn count_shared(&mut self, task: TaskId) {
        let weight = self.tasks[task.index()].weight;
        self.classes.insert(weight);
        self.shared[task.index()].arrival = self.arrivals;
        self.arrivals = self.arrivals.wrapping_add(1);
        if self.cap.exceeded_by(weight) {
            self.capped.push(task);
        }
    }

    /// `task`, which becomes queued, is a part of its group at once.
    fn enter(&mut self, task: TaskId, flags: u32) {
        self.enter_at(task, flags, None);
    }

    /// The same, and its place in the ring is before node `at`, or else before the current task.
    fn enter_at(&mut self, task: TaskId, flags: u32, at: Option<NodeId>) {
        let cap = self.cap.fraction();
        let order = self.order_of(self.tasks[task.index()].weight);
        if self.enter_ring(task, flags, at) {
            self.groups.update(order, cap);
        } else {
            self.groups.insert(self.new_group(task), cap);
        }
    }

    /// `task`, which becomes queued, will be a part of its group from its turn on. Returns false if
    /// there is no such group yet.
    #[inline(always)]
    fn enter_later(&mut self, task: TaskId) -> bool {
        let known = &mut self.tasks[task.index()];
        let order = known.weight.order();
        let Some(group) = self.groups.get(order) else { return false };
        let task = task.0 | UNREADY;
        let slot = Slot { deficit: Slot::PENDING, weight: known.weight.get(), task };
        let current = group.cursor.current;
        known.node = self.rings.insert_before(order as usize, current, slot);
        group.relink(current, known.node);
        true
    }

    /// The turn of `task` has come, and it is blocked or pending.
    fn make_ready(&mut self, task: TaskId) {
        let Task { weight, node, .. } = self.tasks[task.index()];
        if self.rings.get(node).is_pending() {
            self.count_in(weight.order(), node);
            self.groups.update(weight.order(), self.cap.fraction());
            self.grant_arrival(task);
        } else {
            self.leave(task, false);
            // The cap of a queue that nothing was chosen from counted the task.
            if self.groups.fresh && self.has_several_cpus() {
                self.start();
            }
        }
    }

    /// The group of `order` counts the task in `node`, which is pending, from now on.
    fn count_in(&mut self, order: u32, node: NodeId) {
        let slot = self.rings.get_mut(node);
        slot.count_in();
        self.tasks[slot.id().index()].late = true;
        self.groups.get(order).expect("a pending task has a group").count(slot.weight);
    }

    fn count_load(&mut self, weight: Weight) {
        self.load += u64::from(weight.get());
        assert!(self.load < self.most_load, "the weights times the cpus reach 2^56");
    }

    /// `task` is queued no longer. If a cpu holds it, it still does. With `refund` its group is no
    /// longer charged for the round that it was charged for if the task came late, and has just run, or runs.
    /// Returns whether it was blocked, and [`HELD`] if it is held.
    fn leave(&mut self, task: TaskId, refund: bool) -> (bool, u32) {
        let known = self.tasks[task.index()];
        let Task { weight, node, late, .. } = known;
        self.tasks[task.index()].node = NIL;
        self.load -= u64::from(weight.get());
        let slot = *self.rings.get(node);
        let is_blocked = known.is_blocked(slot);
        let comes_back = self.groups.reweighs && !is_blocked;
        let has_lag = known.moved != Moved::No && !comes_back;
        let lag = if has_lag { self.lag_in_group(known) } else { 0 };
        if self.has_several_cpus() {
            self.leave_shared(task, weight, comes_back);
        }
        let order = self.order_of(weight);
        self.groups.keeps_parts |= has_lag;
        match self.rings.remove(order as usize, node) {
            Some(next) if slot.is_pending() => self.group(order).relink(node, next),
            Some(next) => self.discount(order, node, slot, next, refund && late),
            None => self.groups.delete(order),
        }
        if has_lag && self.groups.get(order).is_some() {
            self.groups.receive(order, lag);
        }
        self.groups.keeps_parts &= self.groups.reweighs;
        if self.load == 0 {
            self.cap = Cap::NONE;
            self.arrivals = 0;
        } else if self.has_several_cpus() && !self.groups.fresh && !comes_back {
            self.readjust();
        }
        (is_blocked, slot.task & HELD)
    }

    /// `task`, of `weight`, is queued for several cpus no longer.
    fn leave_shared(&mut self, task: TaskId, weight: Weight, comes_back: bool) {
        self.classes.remove(weight);
        if !comes_back {
            self.frontlogs.keep(&mut self.shared, task, 0);
        }
        if self.cap.exceeded_by(weight) {
            self.capped.retain(|&capped| capped != task);
        }
    }

    /// The group of `order` no longer counts the task of `slot`, which has left its ring, where it
    /// stood in `node` before `next`. If it was current, the next one is.
    fn discount(&mut self, order: u32, node: NodeId, slot: Slot, next: NodeId, refund: bool) {
        let refund = refund && !self.groups.fresh;
        let group = self.group(order);
        let was_current = group.cursor.current == node;
        group.uncount(slot.weight);
        if refund && (was_current || slot.task & HELD != 0) {
            group.refund();
        }
        if was_current && self.groups.reweighs && self.groups.keep_time() {
            self.make_current(order, self.rings.previous(next));
        } else if was_current {
            self.group(order).set_current(next);
            self.inherit(order, next);
        }
        self.groups.update(order, self.cap.fraction());
    }

    /// The task in `node` has become current in the ring of `order`, since the one before it has left: it has
    /// its turn, unless it has moved and is ahead.
    fn inherit(&mut self, order: u32, node: NodeId) {
        let slot = self.rings.get_mut(node);
        let task = slot.id();
        if slot.is_pending() {
            slot.count_in();
            self.tasks[task.index()].late = true;
            let weight = slot.weight;
            self.group(order).count(weight);
        } else if slot.task & UNREADY != 0
            && self.tasks[task.index()].moved != Moved::No
            && !self.take_turn(task, order, false)
        {
            return;
        }
        let short = u8::try_from(order).expect("an order is below 32");
        let slot = self.rings.get_mut(node);
        slot.deficit += slot.units(short, self.cap.fraction()).1;
    }

    /// The task in `node` becomes current in the ring of `order`, and a part of the group.
    fn make_current(&mut self, order: u32, node: NodeId) {
        if self.rings.get(node).is_pending() {
            self.count_in(order, node);
        }
        self.group(order).set_current(node);
    }

    /// `task` is blocked now: it stays queued until its turn, with at most one quantum of credit. If
    /// it is pending, it leaves at once.
    fn flag_blocked(&mut self, task: TaskId) {
        self.runnable -= 1;
        let Task { weight, node, .. } = self.tasks[task.index()];
        if self.rings.get(node).is_pending() {
            self.leave(task, false);
            return;
        }
        let order = u8::try_from(self.order_of(weight)).expect("an order is below 32");
        let slot = self.rings.get_mut(node);
        if slot.task & UNREADY != 0 {
            debug_assert_eq!(self.tasks[task.index()].moved, Moved::Awake);
            self.tasks[task.index()].moved = Moved::Blocked;
        }
        slot.task |= UNREADY;
        let one = slot.units(order, self.cap.fraction()).0;
        if slot.deficit > one {
            let lost = groups::scaled(slot.deficit - one, 1 << 16, one).0.cast_signed();
            slot.deficit = one;
            self.group(u32::from(order)).take_care();
            if self.tasks[task.index()].moved != Moved::No {
                self.groups.receive(u32::from(order), lost);
            }
        }
    }

    /// `pick` unless it is a decision of the usual kind for the only cpu.
    #[inline(never)]
    fn pick_slowly(&mut self, cpu: CpuId) -> Option<TaskId> {
        if self.has_several_cpus() {
            self.pick_shared(cpu)
        } else {
            self.choose_slowly().map(TaskId)
        }
    }

    /// `pick` for one of several cpus (MP-SCHEDULE, USENIX'05 §3.1).
    fn pick_shared(&mut self, cpu: CpuId) -> Option<TaskId> {
        let previous = self.release_cpu(cpu);
        if let Some(task) = self.serve_frontlog(cpu) {
            return Some(self.hold(cpu, task));
        }
        if self.runnable == self.held {
            return None;
        }
        if self.groups.fresh {
            self.start();
        }
        if self.runnable <= self.cpus.len() {
            self.groups.fresh = false;
            let task = previous.unwrap_or_else(|| self.any_free());
            return Some(self.hold(cpu, task));
        }
        for choices in 1..=MOST_CHOICES * self.cpus.len() {
            let chosen = self.choose()?;
            let task = TaskId(chosen & !HELD);
            self.longest_search = self.longest_search.max(choices);
            if chosen & HELD == 0 {
                return Some(self.hold(cpu, task));
            }
            let home = self.shared[task.index()].holder as usize;
            self.frontlogs.grant(&mut self.shared, task, home, 1);
        }
        let task = self.any_free();
        Some(self.hold(cpu, task))
    }

    /// The task that `cpu` runs for its frontlog, if there is one that could run now.
    fn serve_frontlog(&mut self, cpu: CpuId) -> Option<TaskId> {
        let Gr3 { frontlogs, shared, tasks, rings, .. } = self;
        let can_run = |task: TaskId| {
            let known = tasks[task.index()];
            let slot = rings.get(known.node);
            slot.task & HELD == 0 && !known.is_blocked(*slot)
        };
        frontlogs.serve(shared, cpu, can_run)
    }

    /// The first queued task that no cpu holds; it may be blocked.
    fn first_free(&self) -> Slot {
        let nodes = self.groups.currents().flat_map(|current| self.rings.iter_from(current));
        let mut slots = nodes.map(|node| *self.rings.get(node));
        slots.find(|slot| slot.task & HELD == 0).expect("a runnable task is not held")
    }

    /// A runnable task that no cpu holds, if nobody competes with it: none is chosen, for it might
    /// be the lightest by far. Those on the way that are not ready join or leave.
    fn any_free(&mut self) -> TaskId {
        loop {
            let slot = self.first_free();
            let task = slot.id();
            if slot.task & UNREADY == 0 || self.tasks[task.index()].moved == Moved::Awake {
                return task;
            }
            self.make_ready(task);
        }
    }

    fn hold(&mut self, cpu: CpuId, task: TaskId) -> TaskId {
        self.shared[task.index()].holder = u32::try_from(cpu).expect("a cpu is below 2^16");
        self.rings.get_mut(self.tasks[task.index()].node).task |= HELD;
        self.cpus[cpu] = task.0;
        self.held += 1;
        task
    }

    /// The task that `cpu` held, which it holds no longer.
    fn release_cpu(&mut self, cpu: CpuId) -> Option<TaskId> {
        let task = core::mem::replace(&mut self.cpus[cpu], NIL);
        if task == NIL {
            return None;
        }
        let node = self.tasks[task as usize].node;
        self.rings.get_mut(node).task &= !HELD;
        self.held -= 1;
        Some(TaskId(task))
    }

    /// Gives an arrival its share of the frontlogs (USENIX'05 §3.2).
    fn grant_arrival(&mut self, task: TaskId) {
        let total = self.frontlogs.total();
        if total == 0 || !self.arrival_frontlogs {
            return;
        }
        let weight = self.cap.effective(self.tasks[task.index()].weight);
        let share = u128::from(total) * u128::from(weight) / u128::from(self.groups.weight());
        if share > 0 {
            let home = self.frontlogs.shortest();
            let share = u32::try_from(share).unwrap_or(u32::MAX);
            self.frontlogs.grant(&mut self.shared, task, home, share);
        }
    }
}

impl Policy for Gr3 {
    fn add(&mut self, task: TaskId, weight: Weight) {
        assert!(task.0 < TaskId::LIMIT, "{task:?} is above the limit of ids");
        if self.tasks.len() <= task.index() {
            self.reserve(task.index() + 1);
        }
        let known = &mut self.tasks[task.index()];
        debug_assert_eq!(known.node, NIL);
        *known = Task::new(weight);
        if self.has_several_cpus() {
            self.shared[task.index()] = Shared::NEW;
        }
    }

    fn remove(&mut self, task: TaskId, _now_ns: Nanos) {
        if self.tasks[task.index()].node == NIL {
            return;
        }
        let (is_blocked, flags) = self.leave(task, true);
        self.runnable -= usize::from(!is_blocked);
        if flags & HELD != 0 {
            self.cpus[self.shared[task.index()].holder as usize] = NIL;
            self.held -= 1;
        }
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, _now_ns: Nanos) {
        let Task { weight: old, node, .. } = self.tasks[task.index()];
        if weight == old {
            return;
        }
        if node == NIL {
            self.tasks[task.index()].weight = weight;
            return;
        }
        self.reweigh(task, weight);
    }

    fn wake(&mut self, task: TaskId, _now_ns: Nanos) {
        let node = self.tasks[task.index()].node;
        if node == NIL {
            self.arrive(task);
        } else if self.tasks[task.index()].moved == Moved::Blocked {
            self.tasks[task.index()].moved = Moved::Awake;
        } else {
            self.rings.get_mut(node).task &= !UNREADY;
        }
        self.runnable += 1;
    }

    fn block(&mut self, task: TaskId, _now_ns: Nanos) {
        if self.rings.get(self.tasks[task.index()].node).task & HELD != 0 {
            self.release_cpu(self.shared[task.index()].holder as usize);
        }
        self.flag_blocked(task);
    }

    #[inline(always)]
    fn pick(&mut self, cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        if !self.has_several_cpus()
            && let Some(task) = self.choose_fast()
        {
            return Some(TaskId(task));
        }
        self.pick_slowly(cpu)
    }

    /// A quantum that was granted is used up, however long the task ran: the group was charged when
    /// the task was chosen.
    #[inline]
    fn charge(&mut self, _task: TaskId, _used_ns: Nanos, _now_ns: Nanos) {}
}

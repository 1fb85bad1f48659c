//! The ideal that can be known while tasks run: fluid GMS of what they have asked for so far.
//!
//! A task that is awake asks for all it can get. A task that sleeps has asked for what it received, no
//! more: if it is *ahead* of the ideal, the ideal goes on to serve it until it has caught up, and others
//! have the less meanwhile, as they had the more before. (That it has is found out at the next change; it
//! is behind by what it was given since.) If it is *behind*, it does not want what the
//! ideal gave it: beyond a limit that goes to the others; up to the limit the task keeps it, and is
//! behind when it wakes, since it may only be late.
//!
//! With [jobs](crate::fluid) that are known this is the fluid ideal itself as long as no task is more
//! behind when it sleeps than it may keep. It differs from it for a task that asks for more than its
//! share: such a task has slept, where the ideal's has a job waiting.
//!
//! ```text
//!              wake                    block, behind: what is too much is shared
//!   (asleep) ───────► AWAKE ──────────────────────────────────────────────► (asleep)
//!      ▲                │ ▲
//!      │ caught up      │ │ wake
//!      └────── AHEAD ◄──┘ │     block, ahead
//!                └────────┘
//! ```
//!
//! The errors of all tasks, of those that sleep behind too, add up to what the machine served less what
//! the ideal gave: to 0 as long as both keep as many cpus busy and no task goes away ahead, or begins behind.
//! What they are below 0 for that is *missing* (on one cpu exactly; on several, cpus that only some leave
//! idle are not counted, since who runs may have lost what is missing). What a task had no use for makes up
//! for it first, and is shared if it is more: else tasks that are behind, and sleep in turn, would pass on to
//! each other for ever what nobody wants. So nobody who stays is ahead for what one who is gone was behind.
//!
//! What a task ran counts when it did, whenever it is charged for it. What it is charged for before, it is
//! ahead by; nobody is behind for that, since then a cpu is idle for the ideal's caller.
//!
//! *Cost*: that of [`ServiceErrors`], and O(log N) for a task that blocks ahead and one that the ideal
//! catches up with. Nothing allocates but `add`, and on several cpus lists that grow.

use alloc::vec::Vec;

use crate::ideal::{ServiceError, ServiceErrors};
use crate::policy::{Nanos, TaskId, Weight};
use crate::queue::Heap;

/// Service less ideal service of tasks that sleep and wake. See the [module documentation](self).
#[derive(Clone, Debug)]
pub(crate) struct Online {
    errors: ServiceErrors,
    kept_ns: Nanos,
    /// Tasks that are ahead, and not entitled to a whole cpu, by the V of their end.
    ends: Heap<u128>,
    /// By task: ahead.
    ahead: Vec<bool>,
    /// How many are.
    asleep_ahead: usize,
    /// By task: what it was credited with beyond what it ran, at most [`MOST_DEBT`] times `kept_ns`.
    credited_ns: Vec<Nanos>,
    /// By task: what it has run on beyond what it was charged for, and will be charged for later; at most as
    /// much.
    ran_on_ns: Vec<Nanos>,
    /// What tasks were charged for that they are to run later, outside what is charged. Invariant: at most
    /// `most_prepaid_ns`.
    prepaid_ns: Nanos,
    /// [`MOST_PREPAID`] times `kept_ns`; 0 on one cpu.
    most_prepaid_ns: Nanos,
    /// By task: since when it is entitled to a whole cpu, if it is.
    capped_since_ns: Vec<Nanos>,
    /// What all are behind together for tasks that went away ahead, or began behind, and for what the ideal
    /// gave to tasks that are ahead while nobody was awake.
    missing_ns: Nanos,
}

/// A caller's debts are no longer than so many times what a task may keep: the kernel's end at 8 quanta.
const MOST_DEBT: u64 = 4;
/// What is charged before it is run counts so for so many times that: the kernel's for 64 quanta.
const MOST_PREPAID: u64 = 32;

impl Online {
    /// Of no tasks on `cpus` cpus. A task that sleeps is behind by at most `kept_ns`.
    pub(crate) fn new(cpus: usize, kept_ns: Nanos) -> Online {
        let mut errors = ServiceErrors::new(cpus);
        errors.watch_caps();
        Online {
            errors,
            kept_ns,
            ends: Heap::default(),
            ahead: Vec::new(),
            asleep_ahead: 0,
            credited_ns: Vec::new(),
            ran_on_ns: Vec::new(),
            prepaid_ns: 0,
            // One cpu runs nobody elsewhere.
            most_prepaid_ns: if cpus == 1 { 0 } else { MOST_PREPAID * kept_ns },
            capped_since_ns: Vec::new(),
            missing_ns: 0,
        }
    }

    /// Makes `task` known, asleep.
    pub(crate) fn add(&mut self, task: TaskId, weight: Weight) {
        if self.ahead.len() <= task.index() {
            self.ahead.resize(task.index() + 1, false);
            self.credited_ns.resize(task.index() + 1, 0);
            self.ran_on_ns.resize(task.index() + 1, 0);
            self.capped_since_ns.resize(task.index() + 1, 0);
            self.ends.reserve(task.index() + 1);
        }
        debug_assert!(!self.ahead[task.index()]);
        self.credited_ns[task.index()] = 0;
        self.ran_on_ns[task.index()] = 0;
        self.errors.add(task, weight);
    }

    /// `task`, which is asleep, goes away. What it is ahead is missing in the errors of the others.
    pub(crate) fn remove(&mut self, task: TaskId) {
        if self.ahead[task.index()] {
            self.leave(task);
        }
        let error_ns = self.error_ns(task);
        if error_ns > 0 {
            self.missing_ns += error_ns.unsigned_abs();
        } else {
            self.give_up(-error_ns);
        }
    }

    /// What a task is behind and has no use for makes up for what is missing, and is shared if it is more.
    fn give_up(&mut self, behind_ns: i64) {
        let made_up_ns = self.missing_ns.min(behind_ns.max(0).unsigned_abs());
        self.missing_ns -= made_up_ns;
        self.share(made_up_ns.cast_signed() - behind_ns);
    }

    /// Moves time on, in which so many cpus were `wasting` it, running nothing though tasks wanted to
    /// run: there runs what was charged before, and what is left all share. Tasks that the ideal has
    /// caught up with are asleep then.
    pub(crate) fn advance(&mut self, now_ns: Nanos, wasting: usize) {
        self.pass(now_ns, wasting);
        while let Some(task) = self.next_end() {
            self.leave(task);
        }
    }

    /// The same, but nobody is asleep for it before the next call.
    pub(crate) fn pass(&mut self, now_ns: Nanos, wasting: usize) {
        let elapsed_ns = now_ns - self.errors.now_ns();
        self.errors.advance(now_ns);
        // The machine idles, and the ideal does not.
        if self.asleep_ahead == self.errors.runnable() {
            self.missing_ns += elapsed_ns * self.errors.busy_cpus() as u64;
        }
        let wasted_ns = elapsed_ns * wasting as u64;
        let run_ns = wasted_ns.min(self.prepaid_ns);
        self.prepaid_ns -= run_ns;
        self.share((wasted_ns - run_ns).cast_signed());
    }

    fn share(&mut self, error_ns: i64) {
        if error_ns != 0 {
            self.errors.share(error_ns);
        }
    }

    /// A task that is ahead no longer, though it was when it went to sleep.
    fn next_end(&self) -> Option<TaskId> {
        let first = self.ends.peek().filter(|&(_, &end)| self.errors.has_passed(end));
        let capped = self.errors.capped().iter().filter(|task| self.ahead[task.index()]);
        let ended = |&task: &TaskId| self.errors.error_now(task) <= ServiceError::from_ns(0);
        first.map(|(task, _)| task).or_else(|| capped.copied().filter(ended).min())
    }

    /// `task`, which was ahead, is asleep, and behind by what the ideal gave it since it caught up.
    fn leave(&mut self, task: TaskId) {
        self.ahead[task.index()] = false;
        self.asleep_ahead -= 1;
        self.ends.remove(task);
        self.withdraw(task, self.kept_ns);
    }

    /// `task` is served no longer, and is behind by no more than `kept_ns`.
    fn withdraw(&mut self, task: TaskId, kept_ns: Nanos) {
        let rest_ns = self.errors.block_behind(task, kept_ns);
        self.give_up(rest_ns);
        self.follow_caps();
    }

    /// Tasks that are ahead are in the heap exactly if they are not entitled to a whole cpu.
    fn follow_caps(&mut self) {
        while let Some(task) = self.errors.recapped() {
            self.ends.remove(task);
            if self.errors.is_capped(task) {
                self.capped_since_ns[task.index()] = self.errors.now_ns();
            } else if self.ahead[task.index()] {
                self.ends.insert(task, self.errors.virtual_end(task));
            }
        }
    }

    /// `task` wants to run from now on.
    pub(crate) fn wake(&mut self, task: TaskId) {
        if core::mem::take(&mut self.ahead[task.index()]) {
            self.asleep_ahead -= 1;
            self.ends.remove(task);
        } else {
            self.errors.wake(task, self.errors.now_ns());
            self.follow_caps();
        }
    }

    /// `task` sleeps from now on.
    pub(crate) fn block(&mut self, task: TaskId) {
        if self.errors.error_now(task) > ServiceError::from_ns(0) {
            self.ahead[task.index()] = true;
            self.asleep_ahead += 1;
            if !self.errors.is_capped(task) {
                self.ends.insert(task, self.errors.virtual_end(task));
            }
            return;
        }
        self.withdraw(task, self.kept_ns);
    }

    /// `task`, which is awake, is behind by no more than it receives in `within_ns`, or may keep when it
    /// sleeps: it had no use for the rest.
    pub(crate) fn forgo(&mut self, task: TaskId, within_ns: Nanos) {
        let most_ns = self.errors.due_within(task, within_ns).max(self.kept_ns);
        if self.errors.error_now(task) < ServiceError::from_ns(-most_ns.cast_signed()) {
            self.withdraw(task, most_ns);
            // Whom that lets the ideal catch up with is asleep before rates change again, as in the kernel.
            self.advance(self.errors.now_ns(), 0);
            self.wake(task);
        }
    }

    /// `error_ns` of the error of `task`, which is awake, are from now on `heirs`', who are, too.
    pub(crate) fn bequeath(&mut self, task: TaskId, heirs: &[TaskId], error_ns: i64) {
        let mut left_ns = error_ns;
        for (&heir, heirs_left) in heirs.iter().zip((1..=heirs.len()).rev()) {
            let part_ns = left_ns / i64::try_from(heirs_left).expect("tasks are below 2^30");
            self.errors.shift(heir, part_ns);
            left_ns -= part_ns;
        }
        self.errors.shift(task, left_ns - error_ns);
    }

    /// `task`, which sleeps, ends: by how much it is behind, or, below 0, ahead. It is neither from now on.
    pub(crate) fn retire(&mut self, task: TaskId) -> i64 {
        self.remove(task);
        let behind_ns = -self.error_ns(task);
        self.errors.shift(task, behind_ns);
        behind_ns
    }

    /// `task`, which is asleep, is behind by so much more from now on.
    pub(crate) fn endow(&mut self, task: TaskId, behind_ns: Nanos) {
        self.missing_ns += behind_ns;
        self.errors.shift(task, -behind_ns.cast_signed());
    }

    /// `task` has `weight` from now on.
    pub(crate) fn set_weight(&mut self, task: TaskId, weight: Weight) {
        let is_ahead = self.ahead[task.index()];
        self.ends.remove(task);
        self.errors.set_weight(task, weight, self.errors.now_ns());
        self.follow_caps();
        if is_ahead && !self.errors.is_capped(task) {
            self.ends.remove(task);
            self.ends.insert(task, self.errors.virtual_end(task));
        }
    }

    /// `task` ran for `ran_ns` of `elapsed_ns`, and is charged for `charged_ns`: a caller that ends runs late
    /// or early settles that with later ones. What it is charged for and did not run, now or before, it is
    /// to run later, where nothing is charged.
    pub(crate) fn charge(
        &mut self,
        task: TaskId,
        charged_ns: Nanos,
        ran_ns: Nanos,
        elapsed_ns: Nanos,
    ) {
        let prepaid_ns = self.settle(task, charged_ns, ran_ns);
        let (credited_ns, lost_ns) = self.credit(task, ran_ns, elapsed_ns);
        let received_ns = (ran_ns + prepaid_ns).checked_add_signed(credited_ns);
        let now_ns = self.errors.now_ns();
        self.errors.charge(task, received_ns.expect("it takes back of what it ran"), now_ns);
        self.share(lost_ns);
        if prepaid_ns > 0 {
            self.prepay(prepaid_ns);
        }
    }

    /// Brings what `task` ran on up to date; what else it is charged for.
    fn settle(&mut self, task: TaskId, charged_ns: Nanos, ran_ns: Nanos) -> Nanos {
        let owed_ns = self.ran_on_ns[task.index()] + ran_ns;
        self.ran_on_ns[task.index()] =
            owed_ns.saturating_sub(charged_ns).min(MOST_DEBT * self.kept_ns);
        charged_ns.saturating_sub(owed_ns)
    }

    /// What `task` is credited with, and what is left of what it lost, for all: what a task lost since it is
    /// entitled to a whole cpu nobody can give it. What it ran beyond the time that passed seemed to be lost
    /// before, by itself or by who ran there before it.
    fn credit(&mut self, task: TaskId, ran_ns: Nanos, elapsed_ns: Nanos) -> (i64, i64) {
        let capped_ns = self.errors.now_ns() - self.capped_since_ns[task.index()];
        let most_ns = if self.errors.is_capped(task) { capped_ns } else { 0 };
        let credited_ns = &mut self.credited_ns[task.index()];
        let lost_ns = elapsed_ns.cast_signed() - ran_ns.cast_signed();
        let by_ns = lost_ns.clamp(-credited_ns.cast_signed(), most_ns.cast_signed());
        *credited_ns = credited_ns.saturating_add_signed(by_ns).min(MOST_DEBT * self.kept_ns);
        (by_ns, lost_ns - by_ns)
    }

    /// A task was charged for `more_ns` that it is to run later.
    fn prepay(&mut self, more_ns: Nanos) {
        let prepaid_ns = more_ns.min(self.most_prepaid_ns - self.prepaid_ns);
        self.prepaid_ns += prepaid_ns;
        debug_assert!(self.prepaid_ns <= self.most_prepaid_ns);
        self.share(-(more_ns - prepaid_ns).cast_signed());
    }

    /// True if `task` sleeps, and is served still.
    pub(crate) fn is_ahead(&self, task: TaskId) -> bool {
        self.ahead[task.index()]
    }

    /// True if `task` is served and entitled to a whole cpu.
    pub(crate) fn is_capped(&self, task: TaskId) -> bool {
        self.errors.is_capped(task)
    }

    /// Service less ideal service, in nanoseconds rounded down. What the task received since it was
    /// charged last is not in it.
    pub(crate) fn error_ns(&self, task: TaskId) -> i64 {
        self.errors.error_now(task).floor_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEPT_NS: Nanos = 50;
    const TASKS: usize = 6;

    /// The definition: every rate is found anew for every interval.
    struct Naive {
        cpus: usize,
        weights: [f64; TASKS],
        awake: [bool; TASKS],
        ahead: [bool; TASKS],
        errors: [f64; TASKS],
        ran_on: [f64; TASKS],
        prepaid: f64,
        missing: f64,
        /// How often a task left: what it had no use for is rounded to a nanosecond each time.
        left: u32,
    }

    impl Naive {
        fn is_served(&self, task: usize) -> bool {
            self.awake[task] || self.ahead[task]
        }

        /// Weighted max-min, nobody above a cpu.
        fn rates(&self) -> [f64; TASKS] {
            let mut rates = [0.0; TASKS];
            let mut left: Vec<usize> = (0..TASKS).filter(|&task| self.is_served(task)).collect();
            left.sort_by(|&a, &b| self.weights[b].total_cmp(&self.weights[a]));
            let mut cpus = f64::from(u32::try_from(self.cpus).expect("few"));
            for at in 0..left.len() {
                let weight: f64 = left[at..].iter().map(|&task| self.weights[task]).sum();
                rates[left[at]] = (self.weights[left[at]] * cpus / weight).min(1.0);
                cpus -= rates[left[at]];
            }
            rates
        }

        /// How far the errors may be off, that the ends are rounded to a nanosecond included.
        fn off(&self) -> f64 {
            f64::from(1 + self.left)
        }

        /// Those that `share` an error are due less than a cpu, or just one.
        fn share(&mut self, error: f64, share: [bool; TASKS]) {
            let shared = || (0..TASKS).filter(|&task| share[task]);
            let all: f64 = shared().map(|task| self.weights[task]).sum();
            shared().for_each(|task| self.errors[task] += error * self.weights[task] / all);
        }

        /// A task is charged for one time, and ran for another.
        fn run_on(&mut self, task: usize, charged: f64, ran: f64, share: [bool; TASKS]) {
            let (most, owes) =
                (MOST_DEBT as f64 * KEPT_NS as f64, self.ran_on[task] + ran - charged);
            self.errors[task] += ran;
            if owes < 0.0 {
                self.prepay(task, -owes, share);
            }
            self.ran_on[task] = owes.clamp(0.0, most);
        }

        /// A task is charged for what it is to run later.
        fn prepay(&mut self, task: usize, used: f64, share: [bool; TASKS]) {
            let most = if self.cpus == 1 { 0.0 } else { MOST_PREPAID as f64 * KEPT_NS as f64 };
            let prepaid = used.min(most - self.prepaid);
            self.prepaid += prepaid;
            self.errors[task] += used;
            self.share(prepaid - used, share);
        }

        /// False if somebody is caught up with who may not be yet.
        fn advance(&mut self, elapsed: f64, wasted: f64, share: [bool; TASKS]) -> bool {
            let rates = self.rates();
            if self.awake == [false; TASKS] {
                self.missing += elapsed * rates.iter().sum::<f64>();
            }
            for (error, rate) in self.errors.iter_mut().zip(rates) {
                *error -= elapsed * rate;
            }
            let run = wasted.min(self.prepaid);
            self.prepaid -= run;
            self.share(wasted - run, share);
            let mut is_clear = self.is_clear();
            while let Some(task) = self.ended() {
                self.leave(task);
                is_clear &= self.is_clear();
            }
            is_clear
        }

        /// A task, which is asleep, goes away.
        fn remove(&mut self, task: usize, share: [bool; TASKS]) {
            self.left += 1;
            if self.ahead[task] {
                self.leave(task);
            }
            let error = core::mem::take(&mut self.errors[task]);
            self.ran_on[task] = 0.0;
            if error > 0.0 {
                self.missing += error;
            } else {
                let made_up = self.missing.min(-error);
                self.missing -= made_up;
                self.share(error + made_up, share);
            }
        }

        fn is_clear(&self) -> bool {
            let clear =
                |task: usize| !self.ahead[task] || self.errors[task].abs() > 1.0 + self.off();
            (0..TASKS).all(clear) && self.order_is_clear()
        }

        /// False if two that share cpus were caught up with at nearly the same time.
        fn order_is_clear(&self) -> bool {
            let others = |task| (0..task).filter(|&other| self.shares_and_ended(other));
            let apart = |a: usize, b: usize| (self.since(a) - self.since(b)).abs();
            let rounded =
                |a: usize, b: usize| self.off() * (1.0 / self.weights[a] + 1.0 / self.weights[b]);
            let mut ended = (0..TASKS).filter(|&task| self.shares_and_ended(task));
            ended.all(|a| others(a).all(|b| apart(a, b) > rounded(a, b)))
        }

        fn shares_and_ended(&self, task: usize) -> bool {
            self.ahead[task] && self.errors[task] <= 0.0 && self.rates()[task] <= 1.0 - 1e-9
        }

        /// What it was given since it was caught up with, less than 0, for a unit of weight.
        fn since(&self, task: usize) -> f64 {
            self.errors[task] / self.weights[task]
        }

        /// Those that share cpus come before those that have one, the first that was caught up with before
        /// the others; of those that have one the first by number.
        fn ended(&self) -> Option<usize> {
            let first = (0..TASKS)
                .filter(|&task| self.shares_and_ended(task))
                .min_by(|&a, &b| self.since(a).total_cmp(&self.since(b)));
            first.or_else(|| (0..TASKS).find(|&task| self.ahead[task] && self.errors[task] <= 0.0))
        }

        fn block(&mut self, task: usize) {
            if self.errors[task] > 0.0 {
                (self.awake[task], self.ahead[task]) = (false, true);
            } else {
                self.leave(task);
            }
        }

        /// What `task` has no use for was not given to it.
        fn leave(&mut self, task: usize) {
            let (error, with) = (self.errors[task], self.rates());
            let kept = error.max(-50.0);
            self.left += 1;
            (self.awake[task], self.ahead[task], self.errors[task]) = (false, false, kept);
            let (lasted, without) = ((kept - error) / with[task], self.rates());
            let has_cpu = |&other: &usize| without[other] > 1.0 - 1e-9;
            let others = || (0..TASKS).filter(|&other| other != task);
            let more = |other: usize| lasted * (without[other] - with[other]);
            let rest = kept - error - others().filter(has_cpu).map(more).sum::<f64>();
            let made_up = self.missing.min(rest.max(0.0));
            self.missing -= made_up;
            let shared = if rest > 0.0 { 1.0 - made_up / rest } else { 1.0 };
            for other in others() {
                self.errors[other] -= more(other) * if has_cpu(&other) { 1.0 } else { shared };
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Event {
        /// So long, in which so many of the cpus run nothing.
        Pass(u64, usize),
        Toggle(usize),
        Charge(usize, u64),
        /// Charged for one time, it ran for another; the time that passed is that.
        RunOn(usize, u64, u64),
        Weigh(usize, u32),
        /// Another task of its weight comes for it, and it may tell what it leaves before.
        Replace(usize, bool),
        /// It begins so much further behind.
        Endow(usize, u64),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            (1..200u64, 0..3usize)
                .prop_map(|(elapsed_ns, wasting)| Event::Pass(elapsed_ns, wasting)),
            (0..TASKS).prop_map(Event::Toggle),
            (0..TASKS, 1..100u64).prop_map(|(task, used_ns)| Event::Charge(task, used_ns)),
            (0..TASKS, 1..400u64, 0..200u64)
                .prop_map(|(task, charged_ns, ran_ns)| Event::RunOn(task, charged_ns, ran_ns)),
            (0..TASKS, 1..1000u32).prop_map(|(task, weight)| Event::Weigh(task, weight)),
            (0..TASKS, any::<bool>()).prop_map(|(task, retires)| Event::Replace(task, retires)),
            (0..TASKS, 1..50u64).prop_map(|(task, behind_ns)| Event::Endow(task, behind_ns)),
        ]
    }

    #[test]
    fn what_ran_on_is_credited_once() {
        let mut online = Online::new(2, KEPT_NS);
        let (heavy, light) = (TaskId(0), [TaskId(1), TaskId(2)]);
        online.add(heavy, Weight::new(9).expect("not 0"));
        light.into_iter().for_each(|task| online.add(task, Weight::ONE));
        [heavy, light[0], light[1]].into_iter().for_each(|task| online.wake(task));
        assert!(online.is_capped(heavy));
        // Granted 50 each time, it runs for 120; the 20 that remain go off the third.
        let mut now_ns = 0;
        for elapsed_ns in [120, 0, 30] {
            now_ns += elapsed_ns;
            online.advance(now_ns, 0);
            online.charge(heavy, 50, elapsed_ns, elapsed_ns);
            assert_eq!(online.error_ns(heavy), 0);
        }
    }

    #[test]
    fn what_seemed_lost_is_credited_once() {
        let mut online = Online::new(2, KEPT_NS);
        let heavy = TaskId(0);
        online.add(heavy, Weight::ONE);
        online.wake(heavy);
        // A decision comes 20 late: they are in the time of the next run.
        online.advance(70, 0);
        online.charge(heavy, 50, 50, 70);
        assert_eq!(online.error_ns(heavy), 0);
        online.advance(100, 0);
        online.charge(heavy, 50, 50, 30);
        assert_eq!(online.error_ns(heavy), 0);
    }

    #[test]
    fn what_ran_on_is_taken_back_before_it_is_prepaid() {
        let mut online = three_on_two_cpus();
        // It runs on for 30; of the 50 that it is charged for then it runs 20 later, on a cpu that seems to
        // be idle.
        online.advance(60, 0);
        online.charge(TaskId(0), 30, 60, 60);
        assert_eq!([0, 1, 2].map(|id| online.error_ns(TaskId(id))), [20, -40, -40]);
        online.charge(TaskId(0), 50, 0, 0);
        assert_eq!([0, 1, 2].map(|id| online.error_ns(TaskId(id))), [40, -40, -40]);
        online.advance(80, 1);
        assert_eq!([0, 1, 2].map(|id| online.error_ns(TaskId(id))), [26, -54, -54]);
        // What else is wasted, all share.
        online.advance(110, 2);
        assert_eq!([0, 1, 2].map(|id| online.error_ns(TaskId(id))), [26, -54, -54]);
    }

    #[test]
    fn who_stays_is_not_ahead_for_who_goes() {
        let mut online = Online::new(1, KEPT_NS);
        for id in [0, 1, 2].map(TaskId) {
            online.add(id, Weight::ONE);
            online.wake(id);
        }
        let mut go = |task: u32, ran_ns: Nanos, stay: [u32; 2]| {
            online.advance(online.errors.now_ns() + ran_ns, 0);
            online.charge(TaskId(stay[0]), ran_ns, ran_ns, ran_ns);
            online.block(TaskId(task));
            online.remove(TaskId(task));
            let errors = stay.map(|id| online.error_ns(TaskId(id)));
            online.add(TaskId(task), Weight::ONE);
            online.wake(TaskId(task));
            errors
        };
        // What one is behind the others have received.
        assert_eq!(go(2, 30, [0, 1]), [15, -15]);
        // What one is ahead is missing.
        assert_eq!(go(0, 0, [1, 2]), [-15, 0]);
        // One is behind by 10: that makes up for a part of it.
        assert_eq!(go(2, 30, [1, 0]), [5, -10]);
    }

    fn three_on_two_cpus() -> Online {
        let mut online = Online::new(2, KEPT_NS);
        for id in [0, 1, 2].map(TaskId) {
            online.add(id, Weight::ONE);
            online.wake(id);
        }
        online
    }

    #[test]
    fn what_a_task_lost_before_it_was_due_a_cpu_all_share() {
        let mut online = three_on_two_cpus();
        online.advance(100, 0);
        online.set_weight(TaskId(0), Weight::new(9).expect("not 0"));
        online.advance(110, 0);
        online.charge(TaskId(0), 50, 50, 110);
        // It was due 66 2/3 and 10, and is credited with 10 beside the 50; two share what is left of 60.
        assert_eq!([0, 1, 2].map(|id| online.error_ns(TaskId(id))), [-17, -47, -47]);
    }

    #[test]
    fn what_ran_on_before_it_was_due_a_cpu_is_charged_when_it_is() {
        let mut online = three_on_two_cpus();
        // It runs on for 30. It has run for 80 when it is charged with them, and was due 60.
        online.advance(60, 0);
        online.charge(TaskId(0), 30, 60, 60);
        online.set_weight(TaskId(0), Weight::new(9).expect("not 0"));
        online.advance(80, 0);
        online.charge(TaskId(0), 50, 20, 20);
        assert_eq!([0, 1, 2].map(|id| online.error_ns(TaskId(id))), [20, -50, -50]);
    }

    #[test]
    fn a_turn_that_is_run_on_another_cpu_is_counted_once() {
        let mut online = Online::new(2, KEPT_NS);
        let tasks = [9, 1, 1].map(|weight| Weight::new(weight).expect("not 0"));
        for (id, weight) in (0..).map(TaskId).zip(tasks) {
            online.add(id, weight);
            online.wake(id);
        }
        // One cpu runs a light task, the other the heavy one, whose turn was another cpu's.
        online.charge(TaskId(0), 50, 0, 0);
        online.advance(50, 1);
        online.charge(TaskId(1), 50, 50, 50);
        assert_eq!([0, 1, 2].map(|id| online.error_ns(TaskId(id))), [0, 25, -25]);
    }

    /// What becomes of a task, after somebody who is awake has run on the only cpu.
    #[derive(Clone, Debug)]
    enum Change {
        Toggle,
        Replace,
        Endow(u64),
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            4 => Just(Change::Toggle),
            1 => Just(Change::Replace),
            1 => (1..50u64).prop_map(Change::Endow),
        ]
    }

    proptest! {
        /// On one cpu, where what is charged is the time that passes.
        #[test]
        fn the_errors_of_all_add_up_to_what_is_missing(
            weights in prop::array::uniform6(1..1000u32),
            events in prop::collection::vec((0..TASKS, 1..200u64, change()), 1..200),
        ) {
            let ids = || (0..).map(TaskId).take(TASKS);
            let mut online = Online::new(1, KEPT_NS);
            let weights = weights.map(|number| Weight::new(number).expect("not 0"));
            ids().for_each(|id| online.add(id, weights[id.index()]));
            let mut awake = [false; TASKS];
            for (at, (task, elapsed_ns, change)) in (1..).zip(events) {
                let runs = (0..TASKS).map(|i| (task + i) % TASKS).find(|&i| awake[i]);
                online.advance(online.errors.now_ns() + elapsed_ns, 0);
                if let Some(runs) = runs.and_then(|i| ids().nth(i)) {
                    online.charge(runs, elapsed_ns, elapsed_ns, elapsed_ns);
                }
                let id = ids().nth(task).expect("below TASKS");
                match change {
                    Change::Toggle => {
                        if awake[task] { online.block(id) } else { online.wake(id) }
                        awake[task] = !awake[task];
                    }
                    Change::Replace if !awake[task] => {
                        online.remove(id);
                        online.add(id, weights[task]);
                    }
                    Change::Endow(behind_ns) if !awake[task] && !online.is_ahead(id) => {
                        online.endow(id, behind_ns);
                    }
                    Change::Replace | Change::Endow(_) => {}
                }
                let sum_ns: i64 = ids().map(|id| online.error_ns(id)).sum();
                let off_ns = (sum_ns + online.missing_ns.cast_signed()).abs();
                // Each is rounded down, and so is what is given up.
                prop_assert!(off_ns <= at + 6, "{sum_ns}, {} missing", online.missing_ns);
            }
        }
    }

    proptest! {
        #[test]
        fn equals_its_definition(
            cpus in 1..5usize,
            weights in prop::array::uniform6(1..1000u32),
            events in prop::collection::vec(event(), 1..100),
        ) {
            let mut online = Online::new(cpus, KEPT_NS);
            let weight = |number| Weight::new(number).expect("not 0");
            let id = |task: usize| TaskId(u32::try_from(task).expect("few"));
            (0..TASKS).for_each(|task| online.add(id(task), weight(weights[task])));
            let mut naive = Naive {
                cpus,
                weights: weights.map(f64::from),
                awake: [false; TASKS],
                ahead: [false; TASKS],
                errors: [0.0; TASKS],
                ran_on: [0.0; TASKS],
                prepaid: 0.0,
                missing: 0.0,
                left: 0,
            };
            let (mut now_ns, mut numbers) = (0, weights);
            for event in events {
                let had_missing = naive.missing > 0.0;
                let off = naive.off();
                let share = core::array::from_fn(|task| {
                    naive.is_served(task) && !online.is_capped(id(task))
                });
                match event {
                    Event::Pass(elapsed_ns, wasting) => {
                        now_ns += elapsed_ns;
                        let wasting = wasting.min(cpus);
                        let rates = naive.rates();
                        let served = (0..TASKS).filter(|&task| naive.is_served(task));
                        for task in served {
                            assert!(share[task] || rates[task] > 1.0 - 1e-9);
                        }
                        online.advance(now_ns, wasting);
                        let elapsed = f64::from(u32::try_from(elapsed_ns).expect("short"));
                        let wasted = elapsed * f64::from(u32::try_from(wasting).expect("few"));
                        // From there on the two may differ by more.
                        if !naive.advance(elapsed, wasted, share) {
                            break;
                        }
                    }
                    Event::Toggle(task) if naive.awake[task] => {
                        // What is just caught up with may be on either side.
                        if naive.errors[task].abs() <= off {
                            break;
                        }
                        online.block(id(task));
                        naive.block(task);
                    }
                    Event::Toggle(task) => {
                        if naive.ahead[task] && naive.errors[task] <= off {
                            break;
                        }
                        online.wake(id(task));
                        (naive.awake[task], naive.ahead[task]) = (true, false);
                    }
                    Event::Charge(task, used_ns) => {
                        if naive.awake[task] {
                            online.charge(id(task), used_ns, used_ns, used_ns);
                            naive.errors[task] += f64::from(u32::try_from(used_ns).expect("short"));
                        }
                    }
                    Event::RunOn(task, charged_ns, ran_ns) => {
                        if naive.awake[task] && !online.is_capped(id(task)) {
                            online.charge(id(task), charged_ns, ran_ns, ran_ns);
                            let [charged, ran] = [charged_ns, ran_ns]
                                .map(|ns| f64::from(u32::try_from(ns).expect("short")));
                            naive.run_on(task, charged, ran, share);
                        }
                    }
                    Event::Weigh(task, number) => {
                        online.set_weight(id(task), weight(number));
                        naive.weights[task] = f64::from(number);
                        numbers[task] = number;
                    }
                    Event::Replace(task, retires) => {
                        if !naive.awake[task] {
                            if naive.ahead[task] && naive.errors[task] <= off {
                                break;
                            }
                            if retires {
                                let behind = -online.errors.error_now(id(task)).floor_ns();
                                prop_assert_eq!(online.retire(id(task)), behind);
                            }
                            online.remove(id(task));
                            online.add(id(task), weight(numbers[task]));
                            naive.remove(task, share);
                        }
                    }
                    Event::Endow(task, behind_ns) => {
                        if naive.is_served(task) {
                            continue;
                        }
                        online.endow(id(task), behind_ns);
                        let behind = f64::from(u32::try_from(behind_ns).expect("short"));
                        naive.errors[task] -= behind;
                        naive.missing += behind;
                    }
                }
                // Who is due just a cpu may share what was given up, or not.
                let rates = naive.rates();
                let is_tied =
                    |task: usize| rates[task] > 1.0 - 1e-9 && !online.is_capped(id(task));
                if had_missing && (0..TASKS).any(is_tied) {
                    break;
                }
                for task in 0..TASKS {
                    let error = online.errors.error_now(id(task)).in_ns();
                    let expected = naive.errors[task];
                    prop_assert!(
                        (error - expected).abs() < naive.off(),
                        "task {task}: {error}, not {expected}"
                    );
                }
            }
        }
    }
}

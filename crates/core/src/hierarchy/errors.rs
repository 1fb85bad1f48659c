//! How far tasks and nodes stray from hierarchical GMS, integrated piecewise.

use alloc::vec::Vec;

use super::{Hierarchy, Place};
use crate::ideal::{Extremes, ServiceError};
use crate::policy::{Nanos, Weight};

#[derive(Clone, Copy, Debug)]
struct Account {
    /// Received, less the time since `HierarchyErrors::since_ns` for each that runs now.
    used_ns: i128,
    /// How many of the tasks below it run.
    running: u32,
    /// In 2^−64 ns, up to `HierarchyErrors::since_ns`.
    ideal: u128,
    /// In 2^−64 cpus, from then on.
    rate: u128,
    extremes: Extremes<ServiceError>,
}

impl Account {
    const NEW: Account = Account {
        used_ns: 0,
        running: 0,
        ideal: 0,
        rate: 0,
        extremes: Extremes { min: ServiceError::from_ns(0), max: ServiceError::from_ns(0) },
    };

    fn pass(&mut self, elapsed_ns: Nanos) {
        self.used_ns += i128::from(self.running) * i128::from(elapsed_ns);
        self.ideal += self.rate * u128::from(elapsed_ns);
        self.sample();
    }

    #[allow(clippy::cast_possible_wrap)] // below the time of all cpus: 2^80 · 2^16
    fn error(&self) -> ServiceError {
        ServiceError::from_raw((self.used_ns << 64) - self.ideal as i128)
    }

    fn sample(&mut self) {
        self.extremes.sample(self.error());
    }
}

/// The service errors of all places of a [`Hierarchy`]: what a task, or all tasks below a node, have
/// received, minus the ideal. A run counts as it goes on, and extremes are taken wherever an error
/// can turn: where a run begins or ends, and where a rate changes.
///
/// A task that blocks while it is ahead goes on to share until the ideal has caught up with it, as in
/// [`Fluid`](crate::fluid::Fluid): it has asked for what it received. What one that blocks behind was given
/// too much it stays behind.
///
/// Rates are rounded down to 2^−64 cpus, so an error is too large by less than 2^−64 of the time.
///
/// *Cost*: O(depth) for a run's start and stop, and O(n log n) for what changes rates, n being the places
/// that have leaves; O(1) more for each task that sleeps ahead.
#[derive(Clone, Debug)]
pub struct HierarchyErrors {
    cpus: usize,
    tree: Hierarchy,
    accounts: Vec<Account>,
    /// Rates are constant since then.
    since_ns: Nanos,
    /// False after a change: the rates are to be found.
    settled: bool,
    /// Tasks that sleep and are ahead.
    ahead: Vec<Place>,
}

impl HierarchyErrors {
    /// The root alone, at time 0, on `cpus` cpus.
    #[must_use]
    pub fn new(cpus: usize) -> HierarchyErrors {
        HierarchyErrors {
            cpus,
            tree: Hierarchy::new(),
            accounts: alloc::vec![Account::NEW],
            since_ns: 0,
            settled: true,
            ahead: Vec::new(),
        }
    }

    /// The tree as it is.
    #[must_use]
    pub fn tree(&self) -> &Hierarchy {
        &self.tree
    }

    /// A new node, or a task that is not runnable, below `parent`; its error is 0.
    pub fn add(&mut self, parent: Place, weight: Weight) -> Place {
        let place = self.tree.add(parent, weight);
        self.accounts.resize(self.tree.places().max(self.accounts.len()), Account::NEW);
        self.accounts[place.index()] = Account::NEW;
        place
    }

    /// The task at `place` shares from now on.
    pub fn wake(&mut self, place: Place, now_ns: Nanos) {
        self.settle(now_ns);
        self.forget(place);
        self.set_width(place, 1);
    }

    /// The task at `place`, which does not run, sleeps from now on.
    pub fn block(&mut self, place: Place, now_ns: Nanos) {
        self.settle(now_ns);
        if self.accounts[place.index()].error() > ServiceError::from_ns(0) {
            self.ahead.push(place);
        } else {
            self.set_width(place, 0);
        }
    }

    /// The task at `place`, which does not run, shares no longer, whether it is ahead or not.
    pub fn leave(&mut self, place: Place, now_ns: Nanos) {
        self.settle(now_ns);
        self.forget(place);
        self.set_width(place, 0);
    }

    fn forget(&mut self, place: Place) {
        self.ahead.retain(|&ahead| ahead != place);
    }

    fn set_width(&mut self, place: Place, cpus: u32) {
        self.tree.set_width(place, cpus);
        self.settled = false;
    }

    /// Changes the tree at `now_ns`: a weight, or the width of a place that is neither woken nor blocked.
    pub fn change(&mut self, now_ns: Nanos, change: impl FnOnce(&mut Hierarchy)) {
        self.settle(now_ns);
        change(&mut self.tree);
        self.settled = false;
    }

    /// `place` is below `parent` from now on, with all below it, whether they run or not. What it
    /// received remains received, and due, where it was.
    pub fn move_to(&mut self, place: Place, parent: Place, now_ns: Nanos) {
        self.settle(now_ns);
        let running = self.accounts[place.index()].running;
        for above in self.tree.ancestors(place) {
            self.accounts[above.index()].running -= running;
        }
        self.tree.move_to(place, parent);
        for above in self.tree.ancestors(place) {
            self.accounts[above.index()].running += running;
        }
        self.settled = false;
    }

    /// The task at `place` begins a run.
    pub fn start(&mut self, place: Place, now_ns: Nanos) {
        self.on_path(place, now_ns, |account, since_ns| {
            account.running += 1;
            account.used_ns -= since_ns;
        });
    }

    /// The task at `place` ends its run.
    pub fn stop(&mut self, place: Place, now_ns: Nanos) {
        self.on_path(place, now_ns, |account, since_ns| {
            account.running -= 1;
            account.used_ns += since_ns;
        });
    }

    /// Brings the extremes of all places up to date.
    pub fn finish(&mut self, now_ns: Nanos) {
        self.settle(now_ns);
    }

    /// What `place` had received at the last change or [finish](HierarchyErrors::finish).
    ///
    /// # Panics
    /// When it is 2^64 ns or more.
    #[must_use]
    pub fn used_ns(&self, place: Place) -> Nanos {
        Nanos::try_from(self.accounts[place.index()].used_ns).expect("below 2^64")
    }

    /// What the ideal has given `place` up to the last change or [finish](HierarchyErrors::finish),
    /// rounded to a nanosecond.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // the ideal is below the time of all cpus
    pub fn ideal_ns(&self, place: Place) -> Nanos {
        ((self.accounts[place.index()].ideal + (1 << 63)) >> 64) as Nanos
    }

    /// When the ideal will have given `place` `service_ns` in all, if nothing changes before; `None` if it
    /// gives it nothing.
    pub fn time_of(&mut self, place: Place, service_ns: Nanos) -> Option<Nanos> {
        self.find_rates();
        let Account { ideal, rate, .. } = self.accounts[place.index()];
        match (u128::from(service_ns) << 64).saturating_sub(ideal) {
            0 => Some(self.since_ns),
            _ if rate == 0 => None,
            left => Some(Nanos::try_from(left.div_ceil(rate)).ok()?.saturating_add(self.since_ns)),
        }
    }

    /// The least and the greatest error of `place` so far.
    #[must_use]
    pub fn extremes(&self, place: Place) -> Extremes<ServiceError> {
        self.accounts[place.index()].extremes
    }

    /// Samples `place` and all above it, and lets `update` change each, given the time since
    /// `since_ns`.
    fn on_path(&mut self, place: Place, now_ns: Nanos, update: impl Fn(&mut Account, i128)) {
        self.end_until(now_ns);
        self.find_rates();
        let elapsed_ns = now_ns - self.since_ns;
        let mut at = Some(place);
        while let Some(place) = at {
            let account = &mut self.accounts[place.index()];
            let mut now = *account;
            now.pass(elapsed_ns);
            account.extremes = now.extremes;
            update(account, i128::from(elapsed_ns));
            at = self.tree.parent(place);
        }
    }

    fn find_rates(&mut self) {
        if core::mem::replace(&mut self.settled, true) {
            return;
        }
        let rates = self.tree.rates(self.cpus);
        for (account, rate) in self.accounts.iter_mut().zip(rates.iter()) {
            account.rate = rate.fixed_point();
        }
    }

    /// Integrates up to `now_ns`.
    fn settle(&mut self, now_ns: Nanos) {
        self.end_until(now_ns);
        self.integrate(now_ns);
    }

    /// Tasks with which the ideal has caught up by `now_ns` share no longer from then on.
    fn end_until(&mut self, now_ns: Nanos) {
        while let Some((end_ns, at)) = self.next_end().filter(|&(end_ns, _)| end_ns <= now_ns) {
            self.integrate(end_ns);
            let place = self.ahead.swap_remove(at);
            self.set_width(place, 0);
        }
    }

    /// When the ideal catches up with a task that sleeps, and its index among those.
    fn next_end(&mut self) -> Option<(Nanos, usize)> {
        let ends = (0..self.ahead.len()).filter_map(|at| {
            let place = self.ahead[at];
            Some((self.time_of(place, self.used_ns(place))?, at))
        });
        ends.min()
    }

    fn integrate(&mut self, now_ns: Nanos) {
        if now_ns == self.since_ns {
            return;
        }
        self.find_rates();
        let elapsed_ns = now_ns - self.since_ns;
        self.accounts.iter_mut().for_each(|account| account.pass(elapsed_ns));
        self.since_ns = now_ns;
    }
}

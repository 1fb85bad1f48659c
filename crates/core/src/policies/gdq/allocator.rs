//! Inter-group allocation: MFQ with groups for clients (paper, section 2.2.1).
//!
//! A group of effective weight Φ_k is worth Φ_k·P/Φ_T = Φ_k/c cpus, c being what a whole cpu counts
//! for. With c = Φ_f/Q (see [`Feasible`](crate::effective::Feasible)), W_k the weight of its feasible
//! tasks and n_k the number of its capped ones, that is n_k + Q·W_k/Φ_f: the whole part is dedicated,
//! and the rest, ρ_k/Φ_f with ρ_k = Q·W_k mod Φ_f, competes. So Φ̂_k = ρ_k/Q, exactly.

use crate::effective::{Effective, Virtual, divide};
use crate::policy::{Nanos, Weight};

/// Number of orders of weight, and so of groups.
pub(super) const GROUPS: usize = 32;

/// One group's account. All cpus share it, but each touches it only when it moves.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// W_k, the weight of the feasible tasks.
    weight: u64,
    /// How many they are.
    feasible: usize,
    /// n_k, the number of capped tasks.
    capped: usize,
    /// Cpus that the group is always worth.
    floor: usize,
    /// ρ_k; the group is worth one cpu more for this part of the time. Below Φ_f.
    rest: u64,
    /// What the group had of competing cpus since the last change of the weights, and beyond the time of
    /// dedicated ones, plus the error that it had then: w in units of ns.
    service_ns: i128,
    /// Cpus that are the group's.
    cpus: usize,
    /// How many of them are dedicated to it.
    dedicated: usize,
}

/// What each group is worth and which it has.
#[derive(Clone, Debug)]
pub(super) struct Allocator {
    accounts: [Account; GROUPS],
    /// Bit k is set if group k has tasks.
    present: u32,
    /// c = Φ_f/Q.
    per_cpu: Effective,
    /// T.
    interval_ns: Nanos,
    /// Time of competing cpus since the last change of the weights.
    served_ns: i128,
}

impl Allocator {
    pub(super) fn new(interval_ns: Nanos) -> Allocator {
        let accounts = [Account::default(); GROUPS];
        Allocator { accounts, present: 0, per_cpu: Effective::ONE, interval_ns, served_ns: 0 }
    }

    /// A task of group `k` joins: of this weight, or capped. [`Allocator::settle`] must follow.
    pub(super) fn join(&mut self, k: usize, weight: Option<Weight>) {
        let account = &mut self.accounts[k];
        match weight {
            Some(weight) => {
                account.weight += u64::from(weight.get());
                account.feasible += 1;
            }
            None => account.capped += 1,
        }
        self.present |= 1 << k;
    }

    /// A task of group `k` leaves: of this weight, or capped. [`Allocator::settle`] must follow.
    pub(super) fn leave(&mut self, k: usize, weight: Option<Weight>) {
        let account = &mut self.accounts[k];
        match weight {
            Some(weight) => {
                account.weight -= u64::from(weight.get());
                account.feasible -= 1;
            }
            None => account.capped -= 1,
        }
        if account.feasible == 0 && account.capped == 0 {
            self.present &= !(1 << k);
        }
    }

    /// Forgets who ran; the tasks stay.
    pub(super) fn restart(&mut self) {
        self.served_ns = 0;
        for account in &mut self.accounts {
            let Account { weight, feasible, capped, .. } = *account;
            *account = Account { weight, feasible, capped, ..Account::default() };
        }
    }

    /// Recomputes what every group is worth when a whole cpu counts for `per_cpu`. No cpu moves;
    /// every group keeps its error, and virtual time starts from 0 again. O(g).
    pub(super) fn settle(&mut self, per_cpu: Effective) {
        let (whole_cpu, of) = per_cpu.fraction();
        let worth = |account: &Account| {
            let worth = i128::from(account.weight) * i128::from(of);
            let (floor, rest) = divide(worth, u128::from(whole_cpu));
            (usize::try_from(floor).expect("at most P"), u64::try_from(rest).expect("below Φ_f"))
        };
        self.settle_as(per_cpu, worth);
    }

    /// The same when there is a cpu for each task, and none counts for too much.
    pub(super) fn settle_each(&mut self) {
        self.settle_as(Effective::ONE, |account| (account.feasible, 0));
    }

    /// With what the feasible tasks of each group are worth: a floor and a rest.
    fn settle_as(&mut self, per_cpu: Effective, worth: impl Fn(&Account) -> (usize, u64)) {
        let now = self.now();
        let old_of = self.per_cpu.fraction().1;
        for (k, account) in self.accounts.iter_mut().enumerate() {
            let is_present = self.present & 1 << k != 0;
            let error_ns = account.service_ns - due_ns(now, account.rest, old_of);
            let limit_ns = i128::from(self.interval_ns);
            let most_ns = limit_ns * GROUPS as i128;
            account.service_ns =
                if is_present { error_ns } else { error_ns.clamp(-limit_ns, most_ns) };
            let (floor, rest) = worth(account);
            account.floor = account.capped + floor;
            account.rest = rest;
        }
        self.per_cpu = per_cpu;
        self.served_ns = 0;
    }

    /// The virtual time of the competition: Σw/ΣΦ̂ since the last change of the weights. (With the
    /// errors of that time in the sum, a group that is behind would take its claim along when its
    /// tasks block, and bring back less of it.)
    fn now(&self) -> Virtual {
        let rest: u128 = self.accounts.iter().map(|account| u128::from(account.rest)).sum();
        if rest == 0 {
            return Virtual::ZERO;
        }
        Virtual::reached(self.served_ns, rest, self.per_cpu.fraction().1)
    }

    /// Cpus that group `k` is worth at least, and at most: its floor and its ceiling.
    pub(super) fn worth(&self, k: usize) -> (usize, usize) {
        let account = &self.accounts[k];
        (account.floor, account.floor + usize::from(account.rest > 0))
    }

    /// Cpus that group `k` has.
    pub(super) fn cpus(&self, k: usize) -> usize {
        self.accounts[k].cpus
    }

    /// A cpu comes to group `k`. True if it is dedicated to it.
    pub(super) fn arrive(&mut self, k: usize) -> bool {
        self.accounts[k].cpus += 1;
        self.dedicate(k)
    }

    /// A cpu of group `k`, which competes, becomes dedicated if the group is worth it.
    pub(super) fn dedicate(&mut self, k: usize) -> bool {
        let account = &mut self.accounts[k];
        let yes = account.dedicated < account.floor;
        account.dedicated += usize::from(yes);
        yes
    }

    /// A cpu dedicated to group `k` must compete from now on, if the group is worth fewer.
    pub(super) fn undedicate(&mut self, k: usize) -> bool {
        let account = &mut self.accounts[k];
        let yes = account.dedicated > account.floor;
        account.dedicated -= usize::from(yes);
        yes
    }

    /// A cpu leaves group `k`, to which it was `dedicated` or not.
    pub(super) fn depart(&mut self, k: usize, dedicated: bool) {
        let account = &mut self.accounts[k];
        account.cpus -= 1;
        account.dedicated -= usize::from(dedicated);
    }

    /// Group `k` had so much of what groups compete for; of a dedicated cpu less than nothing if its tasks
    /// were charged with less than its time. (The virtual finishing time grows by 1/Φ̂ for an interval of T.)
    pub(super) fn charge(&mut self, k: usize, beyond_ns: i128) {
        self.accounts[k].service_ns += beyond_ns;
        self.served_ns += beyond_ns;
    }

    /// A cpu, `dedicated` to group `k` or not, was charged for so much. True if it is dedicated from now on.
    pub(super) fn pass(&mut self, k: usize, dedicated: bool, beyond_ns: i128) -> bool {
        self.charge(k, beyond_ns);
        if dedicated { !self.undedicate(k) } else { self.dedicate(k) }
    }

    /// The virtual finishing time (w + T)/Φ̂ of group `k`, times 1/Q, as a fraction.
    fn finish(&self, k: usize) -> (i128, i128) {
        let account = &self.accounts[k];
        (account.service_ns + i128::from(self.interval_ns), i128::from(account.rest))
    }

    /// The group that a free cpu should go to, among those that `may` have it: one that lacks a
    /// dedicated cpu, else the one of least virtual finishing time among those that have only
    /// their floor; ties to the lower order. O(g).
    pub(super) fn choose(&self, may: impl Fn(usize, usize) -> bool) -> Option<usize> {
        let mut best: Option<((i128, i128), usize)> = None;
        let mut left = self.present;
        while left != 0 {
            let k = left.trailing_zeros() as usize;
            left &= left - 1;
            let account = &self.accounts[k];
            if account.cpus > account.floor || !may(k, account.cpus) {
                continue;
            }
            if account.cpus < account.floor {
                return Some(k);
            }
            if account.rest > 0 {
                let finish = self.finish(k);
                if best.is_none_or(|((n, d), _)| finish.0 * d < n * finish.1) {
                    best = Some((finish, k));
                }
            }
        }
        best.map(|(_, k)| k)
    }

    /// Any group that `may` have a cpu, however many it has: the one of least order.
    pub(super) fn any(&self, may: impl Fn(usize, usize) -> bool) -> Option<usize> {
        (0..GROUPS).filter(|k| self.present & 1 << k != 0).find(|&k| may(k, self.accounts[k].cpus))
    }
}

/// φ̂·v, with φ̂ = `rest`/`of`.
fn due_ns(now: Virtual, rest: u64, of: u32) -> i128 {
    if rest == 0 { 0 } else { now.service_ns(Effective::ratio(rest, of)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's A.2.2, with T = 20: groups of weight 7, 28 and 9 on 4 cpus.
    #[test]
    fn the_papers_example() {
        let mut groups = Allocator::new(20);
        for (k, weight) in [(1, 7), (2, 28), (3, 9)] {
            groups.join(k, Weight::new(weight));
        }
        groups.settle(Effective::ratio(44, 4));
        assert_eq!([1, 2, 3].map(|k| groups.worth(k)), [(0, 1), (2, 3), (0, 1)]);
        // Φ̂ = 7, 6, 9, in quarters.
        assert_eq!([1, 2, 3].map(|k| groups.accounts[k].rest), [28, 24, 36]);

        // Cpus 1, 2 are dedicated to group 2, which has cpu 3 as well; cpu 4 is with group 3.
        assert_eq!([2, 2, 2, 3].map(|k| groups.arrive(k)), [true, true, false, false]);
        groups.charge(1, 20);
        groups.charge(3, 20);
        // F = intervals/weight, as the paper writes it.
        let equals = |groups: &Allocator, k, intervals: i128, weight: i128| {
            let (above, below) = groups.finish(k);
            above * 4 * weight == 20 * intervals * below
        };
        assert!(equals(&groups, 1, 2, 7) && equals(&groups, 2, 1, 6) && equals(&groups, 3, 2, 9));

        // t + 5: cpu 3 leaves group 2 and finds group 1, since group 3 has a cpu.
        groups.charge(2, 20);
        groups.depart(2, false);
        assert!(equals(&groups, 2, 2, 6));
        assert_eq!(groups.choose(|_, _| true), Some(1));
        assert!(!groups.arrive(1));
        // t + 15: cpu 4 leaves group 3 at 3/9 and goes to group 2 at 2/6: the lower order.
        groups.charge(3, 20);
        groups.depart(3, false);
        assert!(equals(&groups, 3, 3, 9));
        assert_eq!(groups.choose(|_, _| true), Some(2));
        assert!(!groups.arrive(2));
        // t + 25: cpu 3 leaves group 1 at 3/7; group 3 at 3/9 is next.
        groups.charge(1, 20);
        groups.depart(1, false);
        assert!(equals(&groups, 1, 3, 7));
        assert_eq!(groups.choose(|_, _| true), Some(3));
    }

    #[test]
    fn a_change_of_weights_keeps_errors_and_moves_no_cpu() {
        let mut groups = Allocator::new(100);
        groups.join(0, Weight::new(3));
        groups.join(1, Weight::new(5));
        groups.settle(Effective::ratio(8, 2));
        assert_eq!([0, 1].map(|k| groups.arrive(k)), [false, true]);
        groups.charge(1, 100);
        groups.charge(0, 60);
        let before = error(&groups, 0);
        groups.join(1, Weight::new(1));
        groups.settle(Effective::ratio(9, 2));
        assert!((error(&groups, 0) - before).abs() <= 1);
        assert_eq!([0, 1].map(|k| groups.cpus(k)), [1, 1]);
        assert_eq!([0, 1].map(|k| groups.worth(k)), [(0, 1), (1, 2)]);
    }

    fn error(groups: &Allocator, k: usize) -> i128 {
        let account = groups.accounts[k];
        account.service_ns - due_ns(groups.now(), account.rest, groups.per_cpu.fraction().1)
    }

    #[test]
    fn a_group_that_comes_and_goes_takes_its_error_along() {
        let mut groups = Allocator::new(100);
        for (k, weight) in [(0, 1), (1, 3), (2, 4)] {
            groups.join(k, Weight::new(weight));
        }
        groups.settle(Effective::ratio(8, 1));
        groups.charge(2, 56);
        let errors = |groups: &Allocator| [0, 1, 2].map(|k| error(groups, k));
        assert_eq!(errors(&groups), [-7, -21, 28]);
        for _ in 0..9 {
            groups.leave(0, Weight::new(1));
            groups.settle(Effective::ratio(7, 1));
            groups.charge(1, 15);
            groups.charge(2, 20);
            assert_eq!(errors(&groups), [-7, -21, 28]);
            groups.join(0, Weight::new(1));
            groups.settle(Effective::ratio(8, 1));
            assert_eq!(errors(&groups), [-7, -21, 28]);
        }
    }
}

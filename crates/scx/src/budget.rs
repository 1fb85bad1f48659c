//! How much of the loader's time the requests of ordinary users may take.
//!
//! The loader runs beside the policy, so that its time is lost to some task. Whatever it does for a
//! user, it rests for a hundred times as long before it does anything for users again, and for two
//! hundred times as long before it does anything for that one:
//!
//! ```text
//!     0 ms   user 1000 asks; 1 ms of work
//!   100 ms   another user is served
//!   200 ms   user 1000 is served, unless somebody is whose turn comes sooner
//! ```
//!
//! So users take 1 % of a cpu together, and one of them half of it. Root is not limited.

use std::collections::HashMap;
use std::time::Duration;

/// The rest after work for users, in lengths of the work.
const REST: u32 = 100;
const REST_OF_ONE: u32 = 200;
/// A turn counts as so much work at least: waking up takes time that no clock of ours sees. And a
/// turn ends when so much is done.
pub(crate) const LEAST: Duration = Duration::from_micros(100);

/// For so long it is known who has waited longest.
const MEMORY: Duration = Duration::from_secs(1);

/// When users may be served next.
#[derive(Default)]
pub(crate) struct Budget {
    all: Duration,
    /// Users whose time came a while ago are missing.
    users: HashMap<u32, Duration>,
}

impl Budget {
    /// When something may be done for users.
    pub(crate) fn free_at(&self) -> Duration {
        self.all
    }

    /// When something may be done for this user.
    pub(crate) fn user_free_at(&self, user: u32) -> Duration {
        self.all.max(self.own_free_at(user))
    }

    /// Whose is the least has waited longest.
    pub(crate) fn own_free_at(&self, user: u32) -> Duration {
        self.users.get(&user).copied().unwrap_or_default()
    }

    /// Work of this length was done for a user.
    pub(crate) fn charge(&mut self, user: u32, work: Duration, now: Duration) {
        self.users.retain(|_, free_at| *free_at + MEMORY > now);
        let free_at = self.users.entry(user).or_default();
        *free_at = (*free_at).max(now) + work * REST_OF_ONE;
    }

    /// A turn of users' is over, which took so much work.
    pub(crate) fn end_turn(&mut self, work: Duration, now: Duration) {
        self.all = now + work.max(LEAST) * REST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn users_take_a_hundredth_and_one_of_them_half_of_it() {
        for users in [1, 2, 5] {
            let mut budget = Budget::default();
            let mut now = Duration::ZERO;
            let mut works = vec![Duration::ZERO; users];
            while now < Duration::from_secs(100) {
                let (user, done) = (0..)
                    .zip(&mut works)
                    .min_by_key(|(user, _)| budget.own_free_at(*user))
                    .expect("there are users");
                now = now.max(budget.user_free_at(user));
                // Requests of one user cost more than another's.
                let work = MS * (1 + user);
                *done += work;
                budget.charge(user, work, now);
                budget.end_turn(work, now);
            }
            let all: Duration = works.iter().sum();
            let part = if users == 1 { 200 } else { 100 };
            // Users wait for each other's rests as well as for their own.
            assert!(all <= now / (part - 1) && all >= now / part * 2 / 3, "of {now:?}: {works:?}");
            // Nobody is left out, whatever the others' requests cost.
            let costs: u32 = (1..).zip(&works).map(|(cost, _)| cost).sum();
            for (cost, done) in (1..).zip(&works) {
                assert!(*done >= now / REST * cost / costs / 3, "{works:?}");
            }
        }
    }

    #[test]
    fn small_work_counts_as_more_for_all_but_not_for_one() {
        let mut budget = Budget::default();
        budget.charge(1000, LEAST / 10, MS);
        budget.end_turn(LEAST / 10, MS);
        assert_eq!(budget.free_at(), MS + LEAST * REST);
        assert_eq!(budget.own_free_at(1000), MS + LEAST / 10 * REST_OF_ONE);
    }

    #[test]
    fn who_has_rested_is_forgotten() {
        let mut budget = Budget::default();
        (0..1000).for_each(|user| budget.charge(user, MS, MS * 2000 * user));
        assert_eq!(budget.users.len(), 1);
        assert_eq!(budget.user_free_at(0), budget.free_at());
    }
}

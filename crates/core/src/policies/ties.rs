//! Which of two tasks with equal tags goes first.

use super::{BuildError, Options};
use crate::policy::TaskId;

/// A rule for ties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// The one that ran least recently (or never).
    LeastRecent,
    /// The one of lower id.
    First,
    /// The one of higher id.
    Last,
}

/// As a policy's option: name, default, meaning.
pub(super) const TIES: (&str, &str, &str) = (
    "ties",
    "least-recent",
    "who goes first on a tie: least-recent, first or last (in order of id)",
);

impl Ties {
    pub(super) fn from(options: &mut Options<'_>) -> Result<Ties, BuildError> {
        let choices =
            [("least-recent", Ties::LeastRecent), ("first", Ties::First), ("last", Ties::Last)];
        options.choice("ties", &choices)
    }

    /// The rank of `task`, whose last run was the `last_run`-th of all (0: never): of equal tags,
    /// the least rank goes first.
    #[inline]
    pub(super) fn rank(self, task: TaskId, last_run: u64) -> u64 {
        match self {
            Ties::LeastRecent => last_run,
            Ties::First => 0,
            Ties::Last => u64::from(!task.0),
        }
    }
}

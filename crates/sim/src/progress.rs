//! Who wants to see how far a long computation is.

/// Hears how far it is, in units of work: decisions, about, of a figure; runs of a sweep. Called from
/// all threads.
pub trait Progress: Sync {
    /// It begins: `done` of `total` were done by an earlier one that was interrupted.
    fn start(&self, done: u64, total: u64);
    /// So many more are done.
    fn advance(&self, work: u64);
}

/// Does not want to know.
impl Progress for () {
    fn start(&self, _done: u64, _total: u64) {}
    fn advance(&self, _work: u64) {}
}

//! Stride scheduling (Waldspurger and Weihl, MIT/LCS/TM-528, 1995): a task's *stride* is what one
//! quantum costs it, in inverse proportion to its tickets; its *pass* is what it will have paid
//! after its next quantum; the least pass runs.
//!
//! *How it relates to WFQ.* With stride = Q/φ and pass = F, the virtual finishing time, it is the
//! same rule, and on a fixed set the same schedule: the mechanism is [`Wfq`]'s. The difference is
//! what happens to those who leave. WFQ forgets what a sleeper was owed; a stride client keeps its
//! `remain`, the distance of its pass from the global pass (our clock), and gets it back when it
//! joins again (section 3.2 there). So nobody loses a fraction of a quantum by blocking, and nobody
//! sheds a debt by sleeping it off: a client that blocks just after each run is held to its share.
//! When tickets change, `remain` is scaled so that it stays the same service (section 3.3).
//!
//! *Bound* as WFQ: −1 ≤ e ≤ (N−1)·φ/Φ; the paper's own statement is that the relative error of a
//! *pair* of clients never exceeds one quantum, and the absolute error is O(N).
//!
//! *Deviations.* Passes are exact fractions where the paper divides a large integer `stride1` by the
//! tickets. A partial quantum advances the pass by what was used, as the paper says. *Cost*:
//! O(log N). *Cpus*: one.

use alloc::boxed::Box;

use super::Entry;
use super::ties::{TIES, Ties};
use super::wfq::{self, Finish, Sleepers, Wfq};
use crate::queue::Heap;

pub(super) const ENTRY: Entry = Entry {
    name: "stride",
    title: "Stride scheduling",
    paper: "Waldspurger, Weihl 1995, sections 2 and 3",
    options: &[TIES],
    build: |setup, options| {
        let policy = Wfq::<Heap<Finish>>::new(setup, Ties::from(options)?);
        Ok(Box::new(policy.with_sleepers(Sleepers::Remember)))
    },
    ..wfq::HEAP
};

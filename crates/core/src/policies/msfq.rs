//! MSFQ: weighted fair queueing for several servers (Blanquer and Özden, *Fair Queuing for
//! Aggregated Multiple Links*, SIGCOMM 2001).
//!
//! *How.* A cpu that becomes free takes, of the waiting tasks, the one whose next quantum the ideal
//! machine (P cpus shared by weight) would finish first: the least virtual finishing time S + Q/φ.
//! On one cpu it is WFQ.
//!
//! *How it relates to MFQ.* MSFQ was made for links, where a flow may be sent on several at once; a
//! task cannot run beside itself. MFQ is the repair of that for groups of tasks, by dedicated cpus. For
//! single tasks of feasible weight, worth at most one cpu each, nothing is left to dedicate but the
//! cpus of the tasks that are worth exactly one, and the two are the same rule: the mechanism here is
//! [`Mfq`]'s.
//!
//! *Why it is right.* It keeps WFQ's order of finishing times, so that only the P quanta that run
//! beside each other can be out of it.
//!
//! *Bound.* Fixed set: those of WFQ, −1 ≤ e ≤ N (GDQ, section 5), in the model where cpus decide one
//! after the other; on one cpu e = 0 after every Φ quanta. When tasks come and go, an unlucky overlap
//! of busy periods costs up to P more on either side. *Cost*: a decision O(log N). *Cpus*: any number.

use alloc::boxed::Box;

use super::Entry;
use super::mfq::{self, Mfq};

pub(super) const ENTRY: Entry = Entry {
    name: "msfq",
    title: "Multi-server fair queueing (MSFQ)",
    paper: "Blanquer, Özden 2001, section 3; GDQ section 5",
    build: |setup, _| Ok(Box::new(Mfq::new(setup))),
    ..mfq::ENTRY
};

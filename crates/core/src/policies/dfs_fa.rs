//! DFS-FA (Chandra, Adler, Shenoy: *Deadline Fair Scheduling*, RTAS 2001, section 5): deadline
//! fair scheduling that never idles.
//!
//! # The idea
//!
//! [`Dfs`] lets no task start a quantum before its window opens. When the quanta of the cpus are
//! not in step, or tasks come and go, all waiting tasks can be early at once, and a cpu idles
//! beside them: for up to one cycle in eight when there are few more tasks than cpus. *Fair airport*
//! scheduling (Goyal and Vin 1997) adds a second queue for such moments. Every waiting task
//! stands in both:
//!
//! * the **guaranteed** queue: the eligible tasks by deadline, as in DFS. It goes first.
//! * the **auxiliary** queue: if nobody is eligible, the cpu goes to the waiting task of least
//!   surplus φ·(S − v_min), where v_min is the least start tag of the runnable tasks: [SFS](super::sfs).
//!
//! Service of either kind moves the same start tag, so a task that was helped out early becomes
//! eligible later, and the shares stay right.
//!
//! # Bound, cost, limits
//!
//! *Bound*: with a fixed set and whole quanta in step, and `ties=pd2`, there are always P eligible
//! tasks, so the schedule is that of DFS and P-fair, −1 < e < 1. With the paper's tie rules that holds
//! for all but the few sets where these fail (see [`dfs`]). Otherwise it is not P-fair,
//! as the paper says.
//! *Never idle*: the auxiliary queue holds every waiting task, so `pick` returns `None` only if none
//! waits. *Cost*: `pick` and `charge` O(log N) amortised: those of DFS and, when nobody is eligible,
//! those of the auxiliary queue ([`Surplus`]), which until then only notes what has changed. In step
//! that is 1,400 instructions for N = 10 and 2,300 from N = 1000 to 10^5. The first such `pick` after a
//! long time without one may take O(N). `wake`, `block`, `set_weight` O(P log N). *Cpus*: any number.
//!
//! v_min as used for the order never goes back: if a change of weights takes a task that is behind
//! further back in virtual time, that task simply has a negative surplus and goes first.

use alloc::boxed::Box;

use super::dfs::{self, Dfs, Ties};
use super::{Bound, Cost, Entry};
use crate::effective::Start;
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::{Heap, Surplus};
use crate::tags::State;
use crate::turns::Payment;

pub(super) const ENTRY: Entry = Entry {
    name: "dfs-fa",
    title: "Deadline fair scheduling with fair airport",
    paper: "Chandra, Adler, Shenoy, RTAS 2001, §5",
    bound: Bound::none("none; in step with ties=pd2: −1 < e < 1 (P-fair)"),
    cost: Cost { pick: "log N", insert: "P log N", remove: "P log N" },
    multiprocessor: true,
    work_conserving: true,
    by_weight: true,
    payment: Payment::USE,
    options: &[dfs::TIES_OPTION],
    build: |setup, options| {
        let ties = options.choice("ties", &dfs::TIES)?;
        Ok(Box::new(DfsFa::new(setup, ties)))
    },
};

/// DFS-FA. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct DfsFa {
    /// The guaranteed queue, and all tags.
    dfs: Dfs,
    /// The runnable tasks by start tag.
    starts: Heap<Start>,
    /// The auxiliary queue: the waiting tasks by surplus.
    auxiliary: Surplus,
}

impl DfsFa {
    /// DFS-FA over no tasks.
    #[must_use]
    pub fn new(setup: &Setup, ties: Ties) -> DfsFa {
        DfsFa { dfs: Dfs::new(setup, ties), starts: Heap::default(), auxiliary: Surplus::default() }
    }

    /// The waiting task of least surplus.
    fn least_surplus(&mut self) -> Option<TaskId> {
        if let Some((task, &start)) = self.starts.peek() {
            self.auxiliary.advance(start);
            let is_waiting = self.dfs.tags().state(task) == State::Waiting;
            if is_waiting && start >= self.auxiliary.now() {
                return Some(task);
            }
        }
        self.auxiliary.least()
    }

    /// `task` of the set has another start tag, or another state, than before.
    fn refresh(&mut self, task: TaskId) {
        let tags = self.dfs.tags();
        self.starts.update(task, tags.start(task));
        if tags.state(task) == State::Waiting {
            self.auxiliary.insert(task, tags.service_ns(task), tags.effective(task));
        }
    }

    fn refresh_moved(&mut self) {
        for i in 0..self.dfs.tags().moved().len() {
            self.refresh(self.dfs.tags().moved()[i]);
        }
    }
}

impl Policy for DfsFa {
    fn add(&mut self, task: TaskId, weight: Weight) {
        self.dfs.add(task, weight);
        self.starts.reserve(task.index() + 1);
        self.auxiliary.reserve(task.index() + 1);
    }

    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        if self.dfs.tags().state(task) == State::Waiting {
            self.block(task, now_ns);
        }
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, now_ns: Nanos) {
        self.dfs.set_weight(task, weight, now_ns);
        self.refresh_moved();
    }

    fn wake(&mut self, task: TaskId, now_ns: Nanos) {
        self.dfs.wake(task, now_ns);
        self.starts.insert(task, self.dfs.tags().start(task));
        self.refresh(task);
        self.refresh_moved();
    }

    fn block(&mut self, task: TaskId, now_ns: Nanos) {
        self.dfs.block(task, now_ns);
        self.starts.remove(task);
        self.auxiliary.remove(task);
        self.refresh_moved();
    }

    fn pick(&mut self, cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        let task = match self.dfs.pick_eligible(cpu) {
            Some(task) => task,
            None => {
                let task = self.least_surplus()?;
                self.dfs.start_on(cpu, task);
                task
            }
        };
        self.auxiliary.remove(task);
        Some(task)
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        self.dfs.charge(task, used_ns, now_ns);
        self.refresh(task);
    }
}

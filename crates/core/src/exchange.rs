//! Exchanged turns: whoever changes weight, however often, everybody keeps to the ideal, under any
//! policy.
//!
//! Most policies take a change of weight for a departure and an arrival. A task that waits loses its
//! place by it, and starves if its weight changes oftener than its turn comes; one that is capped now
//! and then loses what it was due at every shift. [`Exchange`] wraps any policy and leaves all that as
//! it is. It keeps the *lag* of every task, ideal service less service, and corrects the policy's
//! choice where that would make a large lag larger: the turn of a task that is far ahead goes to one
//! that is far behind.
//!
//! # The rule
//!
//! * Until the weight of a runnable task changes nothing is counted, and nobody exchanges anything.
//!   From then on the lag of every runnable task is kept, exactly, beginning with 0.
//! * The policy picks a task; that has the *turn*. If one of the [few](CANDIDATES) candidates waits
//!   whose lag is larger by more than [two quanta](ROOM), the one with the largest lag *runs* in this
//!   turn. When it is charged, the policy is told that the task was whose turn it was.
//! * Candidates are the tasks of the largest lag among those that were looked at: a task when its
//!   weight changes, when it is charged, and [two](PATROL) in turn at every pick.
//! * The ideal is that of the queue's: GMS over the time that the policy charges for. A task that
//!   leaves takes no lag with it; the others share it in proportion to their weights, and the task is
//!   at 0 when it comes back. With no more tasks than cpus nobody competes, and nothing is counted.
//! * A task that is entitled to a whole cpu can never make up for a lag. What is beyond
//!   [eight quanta](FORGIVEN) of it is shared by the others likewise.
//!
//! The policy sees nothing unusual: each of its turns is used by one task. So what it promises holds
//! for turns, and for service as long as nobody is more than two quanta off.
//!
//! # Cpus
//!
//! The policy knows cpus as *slots*, as in [`Turns`](crate::Turns). If the turn falls on a task that
//! runs already, for another's turn, the two cpus exchange their slots: that task is on its own turn
//! there from now on, and here goes on what stood there. A task whose turn another one uses waits;
//! if it blocks, its turn ends.
//!
//! # Error
//!
//! Nothing is proven. The largest that was found, in quanta, in 30 random sets of up to 20 tasks for
//! each of eight patterns of changes (`examples/reweighing.rs`, 2,000 quanta on each cpu), with the
//! plain policy's in front:
//!
//! | policy | 1 cpu | 2 cpus | 4 cpus | 8 cpus |
//! |---|---|---|---|---|
//! | gr3 | −1548.7..1548.7 → −3.9..3.3 | −1190.3..1922.9 → −4.0..3.6 | −1731.7..1025.6 → −5.2..4.0 | −1899.0..1185.2 → −4.6..4.8 |
//! | mfq | −1.8..6.8 → −3.3..3.0 | −750.2..500.3 → −3.4..3.2 | −969.0..1490.9 → −3.1..3.2 | −958.4..1620.1 → −2.8..3.5 |
//! | gdq | −1521.0..1521.0 → −6.5..7.2 | | | |
//! | vtrr | −386.6..650.5 → −4.5..3.1 | | | |
//! | qfq | −333.9..377.1 → −3.5..3.4 | | | |
//!
//! DFS stays as far off on 4 cpus (−36.1..37.2 → −30.8..37.2): it idles cpus, and an idle cpu has no turn
//! to exchange. GR3 among 200 tasks: −7.1..3.6 on 1 to 8 cpus; VTRR, which has no constant bound for sets
//! that do not change either, −9.1..25.5 there.
//!
//! *Cost*: until the first change two stores a decision. Then O(1) on one cpu, and on several O(P) more
//! for a change, a wake-up or a task that blocks, where weights may be infeasible. 84 bytes a task.
//! Nothing allocates but `add`, the first change, and on several cpus lists that grow.

use alloc::vec::Vec;

use crate::ideal::{ServiceError, ServiceErrors};
use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::turns::Payment;

/// A turn is exchanged where lags differ by more than so many quanta.
pub const ROOM: u64 = 2;
/// Tasks that are known to be behind.
pub const CANDIDATES: usize = 4;
/// Tasks that are looked at in a pick.
pub const PATROL: usize = 2;
/// A task that is entitled to a whole cpu has at most this lag, in quanta.
pub const FORGIVEN: u64 = 8;

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Task {
    weight: u32,
    /// The cpu that runs it, or [`NIL`].
    cpu: u32,
    /// The cpu in whose slot the policy runs it, or [`NIL`]. Kept from the first change on.
    held_by: u32,
    /// Its index in the list of runnable tasks, or [`NIL`].
    at: u32,
}

impl Task {
    const UNKNOWN: Task = Task { weight: 0, cpu: NIL, held_by: NIL, at: NIL };

    fn waits(&self) -> bool {
        self.at != NIL && self.cpu == NIL
    }
}

#[derive(Clone, Copy, Debug)]
struct Cpu {
    /// What the policy takes it for.
    slot: u32,
    /// The task that the policy runs in this slot, or [`NIL`]. Kept from the first change on.
    held: u32,
}

/// A policy whose tasks exchange turns. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Exchange<P> {
    policy: P,
    quantum_ns: Nanos,
    /// A turn is charged as a whole quantum.
    whole: bool,
    tasks: Vec<Task>,
    cpus: Vec<Cpu>,
    runnable: Vec<TaskId>,
    /// `None` until the first change.
    account: Option<Account>,
}

/// What every task is due and has received.
#[derive(Clone, Debug)]
struct Account {
    errors: ServiceErrors,
    /// What was charged while tasks competed, for each cpu; and what was left of that division.
    clock_ns: Nanos,
    rest_ns: Nanos,
    /// Tasks that wait. Invariant: at most [`CANDIDATES`], none twice.
    candidates: Vec<TaskId>,
    /// Where the patrol is in the list of runnable tasks.
    next: usize,
}

impl Account {
    /// Service less ideal service.
    fn error(&mut self, task: TaskId) -> ServiceError {
        self.errors.error(task, self.clock_ns)
    }

    fn wake(&mut self, task: TaskId) {
        self.errors.wake(task, self.clock_ns);
    }

    /// `task` is not runnable any more; the others share its error.
    fn block(&mut self, task: TaskId) {
        self.forget(task);
        self.errors.block(task, self.clock_ns);
        self.forgive(task, 0);
    }

    /// Of the error of `task` no more than `kept_ns` is left to it; the others share the rest.
    fn forgive(&mut self, task: TaskId, kept_ns: Nanos) {
        let most = ServiceError::from_ns(kept_ns.cast_signed());
        let error = self.error(task);
        let kept = error.clamp(ServiceError::from_ns(-kept_ns.cast_signed()), most);
        if kept != error {
            self.errors.share_out(task, kept);
        }
    }

    /// `task` was charged for `used_ns`, on one of `cpus` cpus, while others waited.
    fn charge(&mut self, task: TaskId, used_ns: Nanos, cpus: u64) {
        let sum_ns = self.rest_ns + used_ns;
        self.clock_ns += sum_ns / cpus;
        self.rest_ns = sum_ns % cpus;
        self.errors.charge(task, used_ns, self.clock_ns);
    }

    /// `task`, which waits, may be one of those that are furthest behind.
    fn consider(&mut self, task: TaskId) {
        if self.candidates.contains(&task) {
            return;
        }
        if self.candidates.len() == CANDIDATES {
            let error = self.error(task);
            let errors = &self.errors;
            let at = (0..CANDIDATES).max_by_key(|&at| errors.error_now(self.candidates[at]));
            let at = at.expect("there are some");
            if errors.error_now(self.candidates[at]) <= error {
                return;
            }
            self.candidates.swap_remove(at);
        }
        self.candidates.push(task);
    }

    fn forget(&mut self, task: TaskId) {
        if let Some(at) = self.candidates.iter().position(|&known| known == task) {
            self.candidates.swap_remove(at);
        }
    }

    /// Who runs in the turn of `turn`.
    fn choose(&mut self, turn: TaskId, room_ns: Nanos) -> TaskId {
        let own = self.error(turn);
        let errors = &self.errors;
        let least = self.candidates.iter().min_by_key(|&&task| errors.error_now(task));
        let room = ServiceError::from_ns(room_ns.cast_signed());
        match least {
            Some(&task) if errors.error_now(task).plus(room) < own => task,
            _ => turn,
        }
    }
}

fn short(index: usize) -> u32 {
    u32::try_from(index).expect("tasks and cpus are fewer than 2^32")
}

impl<P: Policy> Exchange<P> {
    /// `policy`, which was built for `setup` and knows no task yet.
    #[must_use]
    pub fn new(policy: P, setup: &Setup, payment: Payment) -> Exchange<P> {
        Exchange {
            policy,
            quantum_ns: setup.quantum_ns,
            whole: payment.whole,
            tasks: Vec::new(),
            cpus: (0..setup.cpus).map(|slot| Cpu { slot: short(slot), held: NIL }).collect(),
            runnable: Vec::new(),
            account: None,
        }
    }

    /// The policy.
    #[must_use]
    pub fn inner(&self) -> &P {
        &self.policy
    }

    /// The lag of every task is kept from now on.
    fn open_account(&mut self) {
        let mut errors = ServiceErrors::new(self.cpus.len());
        for (id, task) in (0..).map(TaskId).zip(&mut self.tasks) {
            if let Some(weight) = Weight::new(task.weight) {
                errors.add(id, weight);
            }
            task.held_by = task.cpu;
            if task.cpu != NIL {
                self.cpus[task.cpu as usize].held = id.0;
            }
        }
        self.runnable.iter().for_each(|&task| errors.wake(task, 0));
        let candidates = Vec::with_capacity(CANDIDATES);
        self.account = Some(Account { errors, clock_ns: 0, rest_ns: 0, candidates, next: 0 });
    }

    fn list(&mut self, task: TaskId) {
        self.tasks[task.index()].at = short(self.runnable.len());
        self.runnable.push(task);
    }

    fn unlist(&mut self, task: TaskId) {
        let at = core::mem::replace(&mut self.tasks[task.index()].at, NIL);
        self.runnable.swap_remove(at as usize);
        if let Some(moved) = self.runnable.get(at as usize) {
            self.tasks[moved.index()].at = at;
        }
    }

    /// `task`, which waits, is runnable no longer.
    fn withdraw(&mut self, task: TaskId, now_ns: Nanos) {
        self.unlist(task);
        let Some(account) = &mut self.account else { return };
        account.block(task);
        let cpu = core::mem::replace(&mut self.tasks[task.index()].held_by, NIL);
        if cpu != NIL {
            self.cpus[cpu as usize].held = NIL;
            self.policy.charge(task, self.quantum_ns, now_ns);
        }
    }

    /// Two cpus exchange their slots.
    fn exchange(&mut self, a: CpuId, b: CpuId) {
        self.cpus.swap(a, b);
        for cpu in [a, b] {
            let held = self.cpus[cpu].held;
            if held != NIL {
                self.tasks[held as usize].held_by = short(cpu);
            }
        }
    }

    /// The task whose turn it is on `cpu`; it waits.
    fn next_turn(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        debug_assert_eq!(self.cpus[cpu].held, NIL);
        loop {
            let picked = self.policy.pick(self.cpus[cpu].slot as usize, now_ns)?;
            self.cpus[cpu].held = picked.0;
            self.tasks[picked.index()].held_by = short(cpu);
            while self.cpus[cpu].held != NIL {
                let task = TaskId(self.cpus[cpu].held);
                let there = self.tasks[task.index()].cpu;
                if there == NIL {
                    return Some(task);
                }
                self.exchange(cpu, there as usize);
            }
        }
    }

    /// Two of the runnable tasks are looked at.
    fn patrol(&mut self) {
        let Some(account) = &mut self.account else { return };
        for _ in 0..PATROL.min(self.runnable.len()) {
            account.next =
                if account.next + 1 < self.runnable.len() { account.next + 1 } else { 0 };
            let task = self.runnable[account.next];
            if self.tasks[task.index()].waits() {
                account.consider(task);
            }
        }
    }

    /// A policy that counts turns charges a whole one, however little of it was used.
    fn charged_ns(&self, used_ns: Nanos) -> Nanos {
        if self.whole { self.quantum_ns } else { used_ns }
    }
}

impl<P: Policy> Policy for Exchange<P> {
    fn add(&mut self, task: TaskId, weight: Weight) {
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, Task::UNKNOWN);
            self.runnable.reserve(self.tasks.len() - self.runnable.len());
        }
        self.tasks[task.index()] = Task { weight: weight.get(), ..Task::UNKNOWN };
        if let Some(account) = &mut self.account {
            account.errors.add(task, weight);
        }
        self.policy.add(task, weight);
    }

    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        if self.tasks[task.index()].at != NIL {
            self.withdraw(task, now_ns);
        }
        self.tasks[task.index()] = Task::UNKNOWN;
        self.policy.remove(task, now_ns);
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, now_ns: Nanos) {
        let known = self.tasks[task.index()];
        if known.weight == weight.get() {
            return;
        }
        if known.at != NIL && self.account.is_none() {
            self.open_account();
        }
        self.tasks[task.index()].weight = weight.get();
        if let Some(account) = &mut self.account {
            account.errors.set_weight(task, weight, account.clock_ns);
            if known.waits() {
                account.consider(task);
            }
        }
        self.policy.set_weight(task, weight, now_ns);
    }

    fn wake(&mut self, task: TaskId, now_ns: Nanos) {
        self.list(task);
        if let Some(account) = &mut self.account {
            account.wake(task);
        }
        self.policy.wake(task, now_ns);
    }

    fn block(&mut self, task: TaskId, now_ns: Nanos) {
        self.withdraw(task, now_ns);
        self.policy.block(task, now_ns);
    }

    #[inline]
    fn pick(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        let mut task = if self.account.is_none() {
            self.policy.pick(cpu, now_ns)?
        } else {
            self.next_turn(cpu, now_ns)?
        };
        self.patrol();
        if let Some(account) = &mut self.account {
            task = account.choose(task, ROOM * self.quantum_ns);
            account.forget(task);
        }
        self.tasks[task.index()].cpu = short(cpu);
        Some(task)
    }

    #[inline]
    fn charge(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        let cpu = core::mem::replace(&mut self.tasks[task.index()].cpu, NIL) as usize;
        let charged_ns = self.charged_ns(used_ns);
        let Some(account) = &mut self.account else {
            self.policy.charge(task, used_ns, now_ns);
            return;
        };
        let cpus = self.cpus.len();
        if self.runnable.len() > cpus {
            account.charge(task, charged_ns, cpus as u64);
            if account.errors.is_capped(task) {
                account.forgive(task, FORGIVEN * self.quantum_ns);
            }
        }
        account.consider(task);
        let held = core::mem::replace(&mut self.cpus[cpu].held, NIL);
        if held != NIL {
            self.tasks[held as usize].held_by = NIL;
            self.policy.charge(TaskId(held), used_ns, now_ns);
        }
    }

    fn interrupt(&mut self, now_ns: Nanos) -> Option<CpuId> {
        self.policy.interrupt(now_ns)
    }

    fn slice_ns(&self, task: TaskId) -> Option<Nanos> {
        self.policy.slice_ns(task)
    }
}

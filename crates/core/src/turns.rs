//! Deferrable turns: tasks that sleep get their whole share, and at once, under any policy.
//!
//! A policy as the papers have it charges a task for its turn however little it uses of it, and
//! puts a task that wakes at the end of the round: whoever sleeps often gets a part of its share,
//! late. [`Turns`] wraps any policy and separates the two things that a turn is: the policy decides
//! *when a task is paid*; a task that sleeps may *use its pay when it wakes*.
//!
//! # The rule
//!
//! * A task has a **credit** of time that was paid and not used. It is never above the **cap**, a
//!   few quanta ([`Payment`]); what would go beyond it lapses.
//! * When the policy picks a task that waits, the task has its **turn**: one quantum on the cpu. A
//!   task that blocks within its turn keeps as credit what it was charged for and did not use.
//! * A task that wakes with credit is **ready**: it runs *on credit*, at once. It takes an idle cpu,
//!   or else interrupts one. Several such tasks run in turn, a [quarter](RUN_PART) of a quantum each;
//!   on credit nobody is interrupted.
//! * Under a policy that counts turns, a task whose turn was **interrupted** goes on with the rest of
//!   it on the same cpu as soon as no ready task wants that cpu, or on the next cpu that would turn to
//!   a new turn. Under one that goes by virtual time, its turn ends: it is charged for what it used,
//!   and waits.
//! * On several cpus, a task that is worth nearly a whole cpu is not interrupted, and keeps its cpu
//!   between its turns: it could never make up for it. Where others run on credit, the policy's time nearly
//!   stands still, and the next turn of a task that is *entitled* to a whole cpu may be long in coming: it
//!   runs **between its turns**, unpaid, a quarter of a quantum at a time.
//! * A task is in the policy's queue while it wants a cpu, *and while its credit has room for pay*,
//!   also when it sleeps: for a whole turn where turns are counted on one cpu, else for any. If the
//!   policy picks it while it sleeps, the turn is **consumed**: charged, nobody runs, a quantum is
//!   added to its credit, and the cpu picks again. If the policy picks it while it runs on credit,
//!   this run continues as the turn.
//! * A task that sleeps leaves the policy's queue when its credit has no room. It joins again when it
//!   wakes; where there must be room for a whole turn, when there is: so nothing lapses, and a task that
//!   sleeps and wakes often and runs for moments costs the policy nothing. (On several cpus the weights
//!   of all that are awake must count: they decide who is worth a whole one.)
//! * A task that [stands aside](Policy::stand_aside) does not sleep: it leaves the queue, and is not paid.
//! * A task may begin with credit that others were paid, **in advance** of its own turns
//!   ([`Policy::endow`]): the policy serves it when it has used that, or when it is passed over for a task
//!   that keeps its cpu. Who ends leaves the queue, and its
//!   credit ([`Policy::retire`]); a task may lend of its own ([`Policy::take_credit`]). Whose that is then
//!   is the caller's affair: in the kernel the cgroup's. So a process that is done before its first turn
//!   would have come costs its family nothing.
//! * Who waits may lose his credit ([`Policy::forfeit`]), and waits for his turn then: in the kernel, where
//!   many of a cgroup wake at once.
//! * What lapses may be others' ([`Policy::take_lapsed`]): a turn that a task uses up may be **lengthened**
//!   by it, once ([`Policy::lengthen`]), and goes on as if it had been interrupted. So a group's turns are
//!   its own, also those of who naps. They take no longer than if nobody napped.
//! * Where others use what lapses a task that sleeps may be **kept** in the queue ([`Policy::keep`]) without
//!   room, and is charged whole turns, whatever the policy: it leaves after [some turns](KEPT_TURNS). To such
//!   who nap it is as if they never slept, and to the policy, which follows the comings and goings of who is
//!   a large part of a group late.
//!
//! Nobody in particular gains what a sleeper does not use: consumed turns stretch everybody's round
//! alike. A task that never sleeps never has credit, so among such tasks nothing changes, but for what
//! they have in advance.
//!
//! # States
//!
//! Beside what the backend knows (blocked, waiting, running), a task is *out* of the policy's queue (one
//! that has credit in advance stays out as long as it has), *queued* (waiting, for the policy), or *picked*
//! (running, for the policy).
//!
//! ```text
//!                    wake, no credit             pick                  charge
//!      ┌──────────────────────────────► WAITING ──────► ON TURN ────────────────┐
//!      │                                queued ◄─┐      picked ◄─┐              │
//!      │                                    ▲    │         │     │ pick         │ the policy is
//!      │                   turn used, yield │    └─────────│─────│──────────────┤ charged
//!      │                                    │     charge,  │     │              │
//!   ASLEEP                                  │  interrupted ▼     │              │
//!   queued, or out                          │           INTERRUPTED ◄──┐        │
//!   if there is no room                     │           picked         │ charge, credit used up
//!      │ ▲                                  │                          │ and its turn has come
//!      │ └─── block (from everywhere) ──────┤                          │
//!      │                                    │ charge, credit used up   │
//!      │  wake, credit            pick      │                          │
//!      └───────────────► READY ──────► ON CREDIT ──────────────────────┘
//!                        queued, ▲     queued, or picked
//!                        or out  │     when its turn has come
//!                                └────────┘ charge, credit left
//! ```
//!
//! The verbs, in words:
//!
//! * `wake`: the task joins the policy's queue if it is out (where turns are counted on one cpu, if
//!   there is room). READY, behind those that are, if the credit is at least [`LEAST_PART`] of a
//!   quantum; else WAITING.
//! * `pick(cpu)`, one cpu: the first READY task starts on credit; else the INTERRUPTED task goes on;
//!   else the next turn, below.
//! * `pick(cpu)`, several cpus: (1) if no INTERRUPTED task is this cpu's, the next turn is found, and
//!   its task is INTERRUPTED before it has begun. (2) If this cpu's INTERRUPTED task is worth nearly a
//!   whole cpu, it goes on. (3) Else the task that used up a turn here last runs between its turns, if it is
//!   WAITING and entitled to a whole cpu. (4) Else the first READY task starts on credit. (5) Else this cpu's
//!   INTERRUPTED task goes on if it has begun, else the one that was interrupted first, of all cpus.
//!   (If nobody is READY or INTERRUPTED before, this comes to: the next turn begins.)
//! * The next turn: the policy picks for this cpu, until it names a task that WAITS or is READY: that is
//!   picked, and has a quantum. If the task is ASLEEP, the turn is consumed. If it is ON CREDIT, or between
//!   its turns, on cpu c, it is on its turn there from now on, and what was interrupted on c goes on here,
//!   if anything was.
//! * A run on credit takes its length, at most [`RUN_PART`] of a quantum, out of the credit when it
//!   starts; what it does not use is given back.
//! * `charge`, a run on credit: a task that is out joins the queue if there is room. If it lasted its
//!   length: INTERRUPTED if its turn has come, else READY,
//!   behind the others, with the rest of its credit, or WAITING if there is too little. If it ended
//!   before (the task blocks or yields) WAITING, and a turn that has come is over; READY if it is out
//!   of the queue.
//! * `charge`, a run between turns of which nothing was used: the task is not entitled there until it uses up
//!   another turn. (So a cpu declines one that must not run there: nobody pays for such runs.)
//! * `charge`, a run on a turn: INTERRUPTED if the cpu was asked to stop, or the turn was lengthened and the
//!   task used the run up, at least [`LEAST_PART`] of the turn is left, and the policy counts turns
//!   ([`Payment::whole`]) or it was lengthened. Else the policy is charged: a whole quantum, or what was
//!   used.
//! * `block`: an INTERRUPTED task's turn ends; a task whose credit has no room leaves the queue.
//! * `interrupt`: while more tasks are READY than cpus were asked to stop: the cpu on a turn whose
//!   task has the least weight, unless that task is worth nearly a whole cpu.
//! * Entitled to a whole cpu: as below, but the whole of it. Of several such tasks that used up turns on a
//!   cpu the heaviest that still waits is kept in mind there.
//! * Worth nearly a whole cpu: the k running tasks that are heavier have a cpu each; of the other
//!   P − k, its part by weight of all that are awake is at least [three quarters](NEARLY) of a cpu.
//!
//! # Cpus
//!
//! The policy knows its cpus as *slots*: a cpu has a slot, and the slot has the task that the policy
//! runs there. When a task goes on with its turn on another cpu, the two cpus exchange their slots, so
//! that for the policy nothing happens. A cpu that turns to a ready task between two turns lets its
//! slot pick all the same, so that no slot keeps a task from the others that it does not run (GR3MP's
//! slots hold their last task until they pick).
//!
//! # What holds, and why
//!
//! Let A(t) be what the policy charged a task for up to t, S(t) its service, C(t) ≤ K its credit and
//! what its run on credit may still use, K the cap, L(t) what lapsed, q a quantum, B(t) ≤ q what
//! it has used of a turn that is not charged for yet, and U(t) what it received between its turns. (By how
//! much turns of it were lengthened others' L is less; it counts for it as being charged.)
//!
//! 1. *Service against payments*: S = A − C − L + B + U at every instant, and L = 0 under a policy that
//!    goes by virtual time, but for who is kept. Each event keeps the equation: a run on credit moves its
//!    length from C to S; a turn moves what it uses to B and S; its end moves B to A, and the rest of a
//!    whole quantum to A and C; a consumed turn adds as much to A as to C, but for what would pass K,
//!    which goes to L, or under virtual time is not charged. So over any time a task receives at most
//!    what it is charged for then, plus K + q: *nobody gains by sleeping*. U grows only while the ideal,
//!    by the weights of those who are awake, gives the task a whole cpu, more than which nobody can use.
//!    With credit in advance S = A − C − L + B + U + G, G being what the task was given less what was
//!    taken from it. So tasks among whom credit only moves receive together what they are charged for, and
//!    what each might be ahead without: *nobody gains by coming and going*, but for what the caller gave
//!    and had not taken before, of which it alone knows.
//! 2. *Nothing lapses that was needed*: something lapses only when C = K, and no turn comes unless C was
//!    at most K − q, or below K, or the task is kept. The task can use what it has then at once, and an
//!    ideal that gives nothing for sleeping does not give it more. So S is behind by at most what A is
//!    behind over the time since C had no room last.
//! 3. *A job's lateness*, on one cpu: a job not longer than its task's credit c waits for each other
//!    task that is awake with credit at most a quarter of a quantum each time that it runs itself,
//!    so ⌈4c/q⌉ times, and not at all if there is no such task. On several cpus it waits besides for a
//!    cpu that is not needed, or for its turn.
//! 4. *What others lose*: tasks run on credit over any time at most what they are charged for then,
//!    plus K each. So on one cpu a turn is delayed, against the policy's own order of turns, by at
//!    most K for each sleeper, and its task is behind by its share of that, besides the policy's
//!    own bound (as far as that holds when tasks come and go). On several cpus tasks that share a
//!    cpu with others are delayed more, by those that are not interrupted.
//! 5. *Picks*: each consumed turn adds a quantum to a credit or fills it, and a task whose credit has no
//!    room is not in the queue until it has used some. So a `pick` asks the policy at most ⌈K/q⌉
//!    times for each sleeper whose credit has room, once for each task on credit, and once more;
//!    over any time, besides the turns, once for each quantum used on credit and twice a wake-up.
//!
//! The shares that hogs have of what sleepers leave are the policy's affair. On one cpu they are within
//! its bounds in all that was tried (`examples/sleepers.rs`). On several cpus tasks are entitled to a
//! whole cpu or not from one instant to the next as sleepers come and go, and policies know of it at
//! the ends of turns: hogs that are capped now and then drift from their ideal.
//!
//! What tasks are charged for is the policy's affair too. A search for gangs of up to three that sleep and
//! wake each other (`cargo xtask cheats`, a million quanta for each policy and number of cpus) found none
//! whose members gain three quanta each over a hog in their place, but these. Where one of a gang is worth
//! a whole cpu while another naps it has that, and the first keeps what it is due: in 3000 quanta members
//! gained 190 under gr3 and 80 under dfs on 2 cpus, 13 under gr3 and 12 under mfq on 4. gdq pays sleepers
//! without end on cpus that are dedicated to their group, gdq-distributed on any; stratified gave 149 on one
//! cpu, qfq 4. *New tasks* bring nothing along: a chain of them, each of which ends before it is charged, may
//! gain without end, unless the caller gives and takes credit. (With [corrected](crate::Corrected) turns
//! nobody gained more than 2.2 quanta, with new tasks 25, once.)
//!
//! *Cost*: O(1) beside the policy's for `wake`, `block`, `charge` and each of its picks; `interrupt`, and
//! `pick` while somebody is ready or interrupted, O(P). 64 bytes a task. Nothing allocates but `add`.

use alloc::vec::Vec;

use crate::policy::{CpuId, Nanos, Policy, Setup, TaskId, Weight};
use crate::queue::Links;

/// How a policy's turns are paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payment {
    /// A turn is charged as a whole quantum, however little of it was used; else what was used.
    pub whole: bool,
    /// The most credit, in quanta.
    pub cap_quanta: u64,
}

impl Payment {
    /// For policies that go by virtual time: a task is charged for what it uses, and gets its
    /// credit from consumed turns alone, which are charged for as far as they add to it (whole, if it is
    /// [kept](Policy::keep)).
    pub const USE: Payment = Payment { whole: false, cap_quanta: 2 };

    /// For policies that count turns: a turn is a quantum. On one cpu a task asks for its next turn when
    /// there is room for one; what it has then, the other quanta of the cap, must last until that comes.
    #[must_use]
    pub const fn turns(cap_quanta: u64) -> Payment {
        Payment { whole: true, cap_quanta }
    }
}

/// Less than this part of a quantum is not worth a run: it stays on the account.
pub const LEAST_PART: Nanos = 64;

/// A run on credit lasts at most this part of a quantum, after which it is the next one's turn to run
/// on credit: a job of 9 ms would else make one that comes every millisecond miss most of its own.
pub const RUN_PART: Nanos = 4;

/// A task that is kept leaves the queue after so many turns for which it had no room, since it slept.
pub const KEPT_TURNS: u8 = 4;

/// What is nearly a whole cpu: so many parts of so many.
pub const NEARLY: (u64, u64) = (3, 4);

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asleep,
    Waiting,
    /// It waits with credit; it is in `ready`.
    Ready,
    OnCredit,
    /// It runs between its turns.
    Entitled,
    OnTurn,
    /// It waits for the rest of its turn; it is in `interrupted`, and its cpu's slot has it.
    Interrupted,
}

/// What a task is for the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Blocked. Its credit has no room, or it has never waited.
    Out,
    /// Blocked, as long as what it had in advance is not used up.
    Advanced,
    Queued,
    Picked,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    /// Invariant: at most the cap; what a run on credit may use is not in it.
    credit_ns: Nanos,
    /// How long it may run, or may have run when it was last picked.
    run_ns: Nanos,
    /// What is left of its turn, if it is picked.
    turn_ns: Nanos,
    /// What it received between its turns.
    unpaid_ns: Nanos,
    /// What it had no room for, and nobody has taken.
    lapsed_ns: Nanos,
    weight: u32,
    /// The cpu that runs it, or whose slot has it while it is interrupted.
    cpu: u32,
    state: State,
    place: Place,
    /// Its turn was lengthened.
    lengthened: bool,
    /// It stays in the queue when it sleeps without room.
    kept: bool,
    /// For how many turns it has had no room since it slept.
    kept_turns: u8,
}

impl Task {
    /// It waits for a turn, and nothing else.
    fn waits(&self) -> bool {
        (self.state, self.place) == (State::Waiting, Place::Queued)
    }

    const NEW: Task = Task {
        credit_ns: 0,
        run_ns: 0,
        turn_ns: 0,
        unpaid_ns: 0,
        lapsed_ns: 0,
        weight: 0,
        cpu: NIL,
        state: State::Asleep,
        place: Place::Out,
        lengthened: false,
        kept: false,
        kept_turns: 0,
    };

    /// It has a turn.
    fn begin_turn(&mut self, turn_ns: Nanos) {
        (self.place, self.turn_ns, self.lengthened) = (Place::Picked, turn_ns, false);
    }
}

#[derive(Clone, Copy, Debug)]
struct Cpu {
    /// What the policy takes it for.
    slot: u32,
    /// The task that the policy runs in this slot, or [`NIL`].
    held: u32,
    /// The task that runs, or [`NIL`].
    running: u32,
    /// The task that used up a turn here last, or one before, if that waits and is heavier; or [`NIL`].
    last: u32,
    /// It was asked to stop what it runs, and has not picked since.
    stopping: bool,
}

/// A policy whose tasks may use their turns when they wake. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Turns<P> {
    policy: P,
    quantum_ns: Nanos,
    cap_ns: Nanos,
    /// A task that sleeps with less room than this in its credit is not in the policy's queue.
    room_ns: Nanos,
    least_ns: Nanos,
    /// The longest run on credit.
    share_ns: Nanos,
    whole: bool,
    tasks: Vec<Task>,
    cpus: Vec<Cpu>,
    links: Links,
    /// The ready tasks, the first to wake first.
    ready: Option<TaskId>,
    /// How many there are.
    ready_count: usize,
    /// Cpus that are stopping.
    stopping: usize,
    /// The interrupted tasks, the first to be so first.
    interrupted: Option<TaskId>,
    /// The weight of all tasks that are awake.
    awake_weight: u64,
}

impl<P: Policy> Turns<P> {
    /// `policy`, which was built for `setup` and knows no task yet.
    #[must_use]
    pub fn new(policy: P, setup: &Setup, payment: Payment) -> Turns<P> {
        let cpus = u32::try_from(setup.cpus).expect("at most 2^16 cpus");
        let cpu = |slot| Cpu { slot, held: NIL, running: NIL, last: NIL, stopping: false };
        Turns {
            policy,
            quantum_ns: setup.quantum_ns,
            cap_ns: setup.quantum_ns * payment.cap_quanta,
            room_ns: if cpus == 1 && payment.whole { setup.quantum_ns } else { 1 },
            least_ns: (setup.quantum_ns / LEAST_PART).max(1),
            share_ns: (setup.quantum_ns / RUN_PART).max(1),
            whole: payment.whole,
            tasks: Vec::new(),
            cpus: (0..cpus).map(cpu).collect(),
            links: Links::default(),
            ready: None,
            ready_count: 0,
            stopping: 0,
            interrupted: None,
            awake_weight: 0,
        }
    }

    /// The time that `task` was paid and has not used.
    #[must_use]
    pub fn credit_ns(&self, task: TaskId) -> Nanos {
        self.tasks[task.index()].credit_ns
    }

    /// The time that `task`, which was worth a whole cpu then, received between its turns.
    #[must_use]
    pub fn unpaid_ns(&self, task: TaskId) -> Nanos {
        self.tasks[task.index()].unpaid_ns
    }

    /// The policy that decides when tasks are paid.
    #[must_use]
    pub fn inner(&self) -> &P {
        &self.policy
    }

    /// What there is room for: how much.
    fn give(&mut self, task: TaskId, pay_ns: Nanos) -> Nanos {
        let credit_ns = &mut self.tasks[task.index()].credit_ns;
        let given_ns = pay_ns.min(self.cap_ns - *credit_ns);
        *credit_ns += given_ns;
        given_ns
    }

    /// True if there is room for pay in the credit of `task`.
    fn has_room(&self, task: TaskId) -> bool {
        self.tasks[task.index()].credit_ns + self.room_ns <= self.cap_ns
    }

    /// True if the policy does not serve `task`.
    fn is_out(&self, task: TaskId) -> bool {
        matches!(self.tasks[task.index()].place, Place::Out | Place::Advanced)
    }

    /// True if `task` still uses what it had in advance.
    fn is_ahead(&self, task: TaskId) -> bool {
        let known = &self.tasks[task.index()];
        known.place == Place::Advanced && known.credit_ns >= self.least_ns
    }

    fn join(&mut self, task: TaskId, now_ns: Nanos) {
        debug_assert!(self.is_out(task));
        let known = &mut self.tasks[task.index()];
        known.place = Place::Queued;
        self.policy.wake(task, now_ns);
    }

    fn leave(&mut self, task: TaskId, now_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        debug_assert_eq!(known.place, Place::Queued);
        known.place = Place::Out;
        self.policy.block(task, now_ns);
    }

    fn make_ready(&mut self, task: TaskId) {
        self.tasks[task.index()].state = State::Ready;
        self.links.push(&mut self.ready, task);
        self.ready_count += 1;
    }

    fn unready(&mut self, task: TaskId) {
        self.links.remove(&mut self.ready, task);
        self.ready_count -= 1;
    }

    /// The turn of `task`, which `cpu`'s slot has, is to go on later.
    fn suspend(&mut self, cpu: CpuId, task: TaskId) {
        let known = &mut self.tasks[task.index()];
        debug_assert_eq!((known.place, self.cpus[cpu].held), (Place::Picked, task.0));
        known.state = State::Interrupted;
        self.links.push(&mut self.interrupted, task);
    }

    /// The turn of `task`, which does not run, is over: the policy is charged for it.
    fn end_turn(&mut self, task: TaskId, now_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        debug_assert_eq!(known.place, Place::Picked);
        known.place = Place::Queued;
        let left_ns = core::mem::take(&mut known.turn_ns);
        let lengthened = known.lengthened;
        let cpu = known.cpu as usize;
        debug_assert_eq!(self.cpus[cpu].held, task.0);
        self.cpus[cpu].held = NIL;
        if self.whole || lengthened {
            self.give_turn(task, left_ns);
            self.policy.charge(task, self.quantum_ns, now_ns);
        } else {
            self.policy.charge(task, self.quantum_ns - left_ns, now_ns);
        }
    }

    fn start_on_credit(&mut self, cpu: CpuId, task: TaskId) -> TaskId {
        self.unready(task);
        let known = &mut self.tasks[task.index()];
        known.run_ns = known.credit_ns.min(self.share_ns);
        known.credit_ns -= known.run_ns;
        known.state = State::OnCredit;
        known.cpu = u32::try_from(cpu).expect("below 2^16");
        self.cpus[cpu].running = task.0;
        task
    }

    /// A task that waits for its next turn runs before it.
    fn start_between_turns(&mut self, cpu: CpuId, task: TaskId) -> TaskId {
        let known = &mut self.tasks[task.index()];
        known.run_ns = self.share_ns;
        known.state = State::Entitled;
        known.cpu = u32::try_from(cpu).expect("below 2^16");
        self.cpus[cpu].running = task.0;
        task
    }

    fn start_turn(&mut self, cpu: CpuId, task: TaskId) -> TaskId {
        let known = &mut self.tasks[task.index()];
        debug_assert_eq!((known.place, known.cpu as usize), (Place::Picked, cpu));
        known.run_ns = known.turn_ns.min(self.quantum_ns);
        known.state = State::OnTurn;
        self.cpus[cpu].running = task.0;
        task
    }

    /// `task` has used up a turn on `cpu`.
    fn note_used_up(&mut self, cpu: CpuId, task: TaskId) {
        let weight = self.tasks[task.index()].weight;
        let last = &mut self.cpus[cpu].last;
        let before = self.tasks.get(*last as usize);
        if before.is_none_or(|before| !before.waits() || before.weight <= weight) {
            *last = task.0;
        }
    }

    /// The next task whose turn it is on `cpu`, whose slot has no task: it waits, or was interrupted.
    fn next_turn(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        while let Some(task) = self.policy.pick(self.cpus[cpu].slot as usize, now_ns) {
            let known = &mut self.tasks[task.index()];
            debug_assert_eq!(known.place, Place::Queued);
            match known.state {
                State::Asleep => self.consume(task, now_ns),
                State::OnCredit | State::Entitled => {
                    known.begin_turn(self.quantum_ns);
                    let there = known.cpu as usize;
                    self.cpus[cpu].held = task.0;
                    self.exchange(cpu, there);
                    if there == cpu {
                        return None;
                    }
                    if let Some(task) = self.take_back(cpu) {
                        return Some(task);
                    }
                }
                _ => {
                    if known.state == State::Ready {
                        known.state = State::Waiting;
                        self.unready(task);
                    }
                    let known = &mut self.tasks[task.index()];
                    debug_assert_eq!(known.state, State::Waiting);
                    known.begin_turn(self.quantum_ns);
                    known.cpu = u32::try_from(cpu).expect("below 2^16");
                    self.cpus[cpu].held = task.0;
                    return Some(task);
                }
            }
        }
        None
    }

    /// What there is room for of what is left of a whole turn; the rest lapses.
    fn give_turn(&mut self, task: TaskId, left_ns: Nanos) {
        let given_ns = self.give(task, left_ns);
        self.tasks[task.index()].lapsed_ns += left_ns - given_ns;
    }

    /// The turn of `task`, which sleeps, adds to its credit.
    fn consume(&mut self, task: TaskId, now_ns: Nanos) {
        if self.whole || self.tasks[task.index()].kept {
            self.give_turn(task, self.quantum_ns);
            self.policy.charge(task, self.quantum_ns, now_ns);
        } else {
            let given_ns = self.give(task, self.quantum_ns);
            self.policy.charge(task, given_ns, now_ns);
        }
        if !self.has_room(task) && !self.keeps(task) {
            self.leave(task, now_ns);
        }
    }

    /// `task`, which sleeps and has no room for another turn, stays in the queue.
    fn keeps(&mut self, task: TaskId) -> bool {
        let known = &mut self.tasks[task.index()];
        known.kept_turns += 1;
        known.kept && known.kept_turns < KEPT_TURNS
    }

    /// Two cpus exchange their slots, and the turns that are interrupted there.
    fn exchange(&mut self, a: CpuId, b: CpuId) {
        let (slot, held) = (self.cpus[a].slot, self.cpus[a].held);
        (self.cpus[a].slot, self.cpus[a].held) = (self.cpus[b].slot, self.cpus[b].held);
        (self.cpus[b].slot, self.cpus[b].held) = (slot, held);
        for cpu in [a, b] {
            let held = self.cpus[cpu].held;
            if held != NIL {
                self.tasks[held as usize].cpu = u32::try_from(cpu).expect("below 2^16");
            }
        }
    }

    /// The interrupted task that `cpu`'s slot has goes on.
    fn take_back(&mut self, cpu: CpuId) -> Option<TaskId> {
        let held = self.cpus[cpu].held;
        if held == NIL {
            return None;
        }
        debug_assert_eq!(self.tasks[held as usize].state, State::Interrupted);
        self.links.remove(&mut self.interrupted, TaskId(held));
        Some(TaskId(held))
    }

    /// The task that was interrupted longest goes on on `cpu`.
    fn adopt(&mut self, cpu: CpuId) -> Option<TaskId> {
        let task = self.interrupted?;
        let there = self.tasks[task.index()].cpu as usize;
        if there != cpu {
            self.exchange(cpu, there);
        }
        self.take_back(cpu)
    }

    /// `pick` where tasks are ready or interrupted, on several cpus.
    fn pick_amid_others(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        let begun = self.cpus[cpu].held != NIL;
        if !begun && let Some(task) = self.next_turn(cpu, now_ns) {
            self.suspend(cpu, task);
        }
        let held = self.cpus[cpu].held;
        let stays = held != NIL && self.needs_cpu(TaskId(held));
        // Who is passed over may be for ever: it waits for its turns, whatever it has in advance.
        if stays
            && let Some(ready) = self.ready
            && self.is_out(ready)
        {
            self.join(ready, now_ns);
        }
        if !stays && let Some(task) = self.entitled(cpu) {
            return Some(self.start_between_turns(cpu, task));
        }
        if let Some(task) = self.ready
            && !stays
        {
            return Some(self.start_on_credit(cpu, task));
        }
        let task = if begun || stays { self.take_back(cpu) } else { self.adopt(cpu) }?;
        Some(self.start_turn(cpu, task))
    }

    /// The cpu where an interruption does the least harm: the lightest task on a turn.
    fn victim(&self) -> Option<CpuId> {
        let on_turn = |cpu: &Cpu| {
            !cpu.stopping
                && cpu.running != NIL
                && self.tasks[cpu.running as usize].state == State::OnTurn
        };
        let turns = self.cpus.iter().enumerate().filter(|(_, cpu)| on_turn(cpu));
        let weight = |cpu: &Cpu| self.tasks[cpu.running as usize].weight;
        let (cpu, _) = turns.min_by_key(|(_, cpu)| weight(cpu))?;
        (!self.needs_cpu(TaskId(self.cpus[cpu].running))).then_some(cpu)
    }

    /// The task that used up a turn on `cpu`, if it waits for the next one, and is worth a whole cpu.
    fn entitled(&self, cpu: CpuId) -> Option<TaskId> {
        let last = self.cpus[cpu].last;
        let waits = self.tasks.get(last as usize)?.waits();
        (waits && self.is_worth(TaskId(last), (1, 1))).then_some(TaskId(last))
    }

    /// True if `task` is worth nearly a whole cpu, of several: it could not make up for an interruption.
    fn needs_cpu(&self, task: TaskId) -> bool {
        self.is_worth(task, NEARLY)
    }

    /// True if `task` is worth so many parts of so many of a cpu, of several. (Heavier tasks that run have a
    /// cpu each.)
    fn is_worth(&self, task: TaskId, parts: (u64, u64)) -> bool {
        if self.cpus.len() == 1 {
            return false;
        }
        let own = self.tasks[task.index()].weight;
        let running = self.cpus.iter().filter(|cpu| cpu.running != NIL);
        let weights = running.map(|cpu| self.tasks[cpu.running as usize].weight);
        let heavier = weights.filter(|&weight| weight > own);
        let (count, sum) = heavier.fold((0, 0), |(n, sum), w| (n + 1, sum + u64::from(w)));
        let cpus_left = (self.cpus.len() - count) as u64;
        let others = self.awake_weight.saturating_sub(sum);
        u64::from(own) * cpus_left * parts.1 >= others * parts.0
    }

    /// `task` waits no longer, and is in the policy's queue or out of it.
    fn withdraw(&mut self, task: TaskId, now_ns: Nanos) {
        match self.tasks[task.index()].state {
            State::Ready => self.unready(task),
            State::Interrupted => {
                self.links.remove(&mut self.interrupted, task);
                self.end_turn(task, now_ns);
            }
            State::Waiting => {}
            state => {
                debug_assert_eq!(state, State::Asleep);
                return;
            }
        }
        let known = &mut self.tasks[task.index()];
        known.state = State::Asleep;
        self.awake_weight -= u64::from(known.weight);
    }

    /// A run on credit, or between turns, is over.
    fn charge_credit(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        let left_ns = known.run_ns.saturating_sub(used_ns);
        let (cpu, picked) = (known.cpu as usize, known.place == Place::Picked);
        let was_paid = known.state == State::OnCredit;
        known.state = State::Waiting;
        if was_paid {
            self.give(task, left_ns);
        } else {
            known.unpaid_ns += used_ns;
        }
        if self.is_out(task) && self.has_room(task) && !self.is_ahead(task) {
            self.join(task, now_ns);
        }
        // One that yields and is out of the queue would else wait for nothing.
        let goes_on = left_ns == 0 || self.is_out(task);
        let known = self.tasks[task.index()];
        if picked && left_ns > 0 {
            self.end_turn(task, now_ns);
        } else if picked {
            self.suspend(cpu, task);
        } else if goes_on && known.credit_ns >= self.least_ns {
            self.make_ready(task);
        }
    }
}

impl<P: Policy> Policy for Turns<P> {
    fn add(&mut self, task: TaskId, weight: Weight) {
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, Task::NEW);
            self.links.reserve(task.index() + 1);
        }
        self.tasks[task.index()] = Task { weight: weight.get(), ..Task::NEW };
        self.policy.add(task, weight);
    }

    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        self.withdraw(task, now_ns);
        self.tasks[task.index()].place = Place::Out;
        self.policy.remove(task, now_ns);
    }

    fn set_weight(&mut self, task: TaskId, weight: Weight, now_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        let old = core::mem::replace(&mut known.weight, weight.get());
        if known.state != State::Asleep {
            self.awake_weight = self.awake_weight - u64::from(old) + u64::from(weight.get());
        }
        self.policy.set_weight(task, weight, now_ns);
    }

    fn wake(&mut self, task: TaskId, now_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        debug_assert_eq!(known.state, State::Asleep);
        (known.state, known.kept_turns) = (State::Waiting, 0);
        self.awake_weight += u64::from(known.weight);
        let has_credit = known.credit_ns >= self.least_ns;
        let may_join = known.kept || self.room_ns == 1 || self.has_room(task);
        if self.is_out(task) && may_join && !self.is_ahead(task) {
            self.join(task, now_ns);
        }
        if has_credit {
            self.make_ready(task);
        }
    }

    fn block(&mut self, task: TaskId, now_ns: Nanos) {
        self.withdraw(task, now_ns);
        let known = self.tasks[task.index()];
        debug_assert!(known.credit_ns <= self.cap_ns);
        if known.place == Place::Queued && !known.kept && !self.has_room(task) {
            self.leave(task, now_ns);
        }
    }

    fn stand_aside(&mut self, task: TaskId, now_ns: Nanos) {
        self.withdraw(task, now_ns);
        if self.tasks[task.index()].place == Place::Queued {
            self.leave(task, now_ns);
        }
    }

    fn pick(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        self.stopping -= usize::from(core::mem::take(&mut self.cpus[cpu].stopping));
        if self.cpus.len() == 1 || self.ready.is_none() && self.interrupted.is_none() {
            if let Some(task) = self.ready {
                return Some(self.start_on_credit(cpu, task));
            }
            let task = self.take_back(cpu).or_else(|| self.next_turn(cpu, now_ns))?;
            return Some(self.start_turn(cpu, task));
        }
        self.pick_amid_others(cpu, now_ns)
    }

    fn charge(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        let cpu = known.cpu as usize;
        debug_assert_eq!(self.cpus[cpu].running, task.0);
        self.cpus[cpu].running = NIL;
        if known.state == State::Entitled && used_ns == 0 {
            self.cpus[cpu].last = NIL;
        }
        if matches!(known.state, State::OnCredit | State::Entitled) {
            self.charge_credit(task, used_ns, now_ns);
            return;
        }
        debug_assert_eq!(known.state, State::OnTurn);
        known.turn_ns = known.turn_ns.saturating_sub(used_ns);
        known.state = State::Waiting;
        let was_stopped = self.cpus[cpu].stopping || used_ns >= known.run_ns;
        if was_stopped && (self.whole || known.lengthened) && known.turn_ns >= self.least_ns {
            self.suspend(cpu, task);
            return;
        }
        if known.turn_ns == 0 {
            self.note_used_up(cpu, task);
        }
        self.end_turn(task, now_ns);
    }

    fn interrupt(&mut self, _now_ns: Nanos) -> Option<CpuId> {
        if self.ready_count <= self.stopping {
            return None;
        }
        let cpu = self.victim()?;
        self.cpus[cpu].stopping = true;
        self.stopping += 1;
        Some(cpu)
    }

    fn endow(&mut self, task: TaskId, advance_ns: Nanos) {
        let known = &mut self.tasks[task.index()];
        debug_assert_eq!((known.state, known.place), (State::Asleep, Place::Out));
        known.place = Place::Advanced;
        self.give(task, advance_ns);
    }

    fn take_credit(&mut self, task: TaskId, most_ns: Nanos) -> Nanos {
        let credit_ns = &mut self.tasks[task.index()].credit_ns;
        let taken_ns = most_ns.min(*credit_ns);
        *credit_ns -= taken_ns;
        taken_ns
    }

    fn forfeit(&mut self, task: TaskId, now_ns: Nanos) -> Nanos {
        if self.tasks[task.index()].state == State::Ready {
            self.unready(task);
            self.tasks[task.index()].state = State::Waiting;
        }
        if self.is_out(task) {
            self.join(task, now_ns);
        }
        self.take_credit(task, Nanos::MAX)
    }

    fn retire(&mut self, task: TaskId, now_ns: Nanos) -> i64 {
        debug_assert_eq!(self.tasks[task.index()].state, State::Asleep);
        if self.tasks[task.index()].place == Place::Queued {
            self.leave(task, now_ns);
        }
        self.tasks[task.index()].place = Place::Out;
        self.take_credit(task, Nanos::MAX).cast_signed()
    }

    fn take_lapsed(&mut self, task: TaskId) -> Nanos {
        core::mem::take(&mut self.tasks[task.index()].lapsed_ns)
    }

    fn keep(&mut self, task: TaskId, kept: bool) {
        self.tasks[task.index()].kept = kept;
    }

    fn lengthen(&mut self, task: TaskId, used_ns: Nanos, most_ns: Nanos) -> Option<Nanos> {
        let known = &mut self.tasks[task.index()];
        let ends = known.state == State::OnTurn && !known.lengthened && used_ns >= known.turn_ns;
        if !ends {
            return None;
        }
        if most_ns < self.least_ns {
            return Some(0);
        }
        (known.turn_ns, known.lengthened) = (used_ns + most_ns, true);
        Some(most_ns)
    }

    fn serves(&self, task: TaskId) -> Option<bool> {
        Some(!self.is_out(task))
    }

    fn slice_ns(&self, task: TaskId) -> Option<Nanos> {
        let run_ns = self.tasks[task.index()].run_ns;
        (run_ns < self.quantum_ns).then_some(run_ns)
    }
}

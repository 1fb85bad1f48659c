//! Whose a task is where no lock is held by all who decide (`src/bpf/custody.h`), in all ways in which cpus
//! that pick and the kernel, which has tasks in hand meanwhile, can meet.
//!
//! A step is one access to a task's word, one call of the policy, or what the kernel does under a run queue's
//! lock. Tasks wake, sleep, are requeued (renice does so), end their quanta, and may read then what RCU
//! protects (`src/bpf/reader.h`); as the scheduler loads it finds some that do not sleep. Task 0 may run on
//! cpu 0 only. The policy is what its contract says: it gives a waiting task to who picks, at once, and
//! answers "picked" when it is to block one that it has given away (how it does is in `queue_model.rs`).
//! Where turns are kept for who sleeps (`src/bpf/credit.h`), a task has credit when it wakes or not, and room
//! for more when it sleeps, or is paid, or not, as it may. Once, at any time, the policy may be closed, and
//! begin anew when no callback is in there (`src/bpf/reopen.h`). What is not modelled: rescues, tasks beside
//! the policy, tasks that end, and who runs how long.

use stateright::{Checker, HasDiscoveries, Model, Property};

const CPUS: usize = 2;
const TASKS: usize = 2;
/// Times that a task wakes, is requeued, or reads as it makes room; where none sleeps at first, two less.
const CHANGES: u8 = 4;
/// The same where turns are kept for who sleeps, and where the policy may be closed.
const CHANGES_KEPT: u8 = 3;
const CHANGES_CLOSED: u8 = 3;

type Cpu = usize;
type Id = usize;

/// What a task is for the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Policy {
    Blocked,
    Waiting,
    /// This cpu has picked it.
    Given(Cpu),
}

/// The word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Word {
    Blocked,
    Waiting,
    Running(Cpu),
    Away,
    Claimed,
    /// It waits in the policy, and sleeps; or runs outside it.
    Asleep,
    OnCredit,
    /// Whoever has paid it is about to take it out of the policy. (Whether it runs then is not in the word.)
    Paid(bool),
}

/// Where the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Asleep,
    /// In `ops.enqueue`: what is inserted of it now waits until it is there.
    Queueing,
    /// Where a flawed `ops.enqueue` is that looks before the kernel notes that the task comes.
    Unnoted,
    Custody,
    /// In this cpu's local queue, or about to be put there.
    Local(Cpu),
    Inbound(Cpu),
    On(Cpu),
}

/// What is done with a task in the kernel's hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Hand {
    None,
    /// `ops.enqueue` is about to look.
    Looks,
    /// It has been claimed, and is about to wake in the policy; it has woken there.
    Joins,
    Joined,
    /// `ops.enqueue` has looked, and leaves it in our custody.
    Rests,
    /// The policy was closed when `ops.enqueue` began, or when it fell asleep: its word has been seen to, and
    /// the policy may be open by now.
    LooksOutside,
    SleepsOutside,
    SleptOutside,
    Leaves(Then, Leaving),
}

/// Why a task leaves the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Then {
    Sleep,
    /// A cpu that it was picked for cannot have it.
    Rejoin(Cpu),
}

/// How far that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Leaving {
    Looks,
    /// Its run is to end, and it is claimed: it is charged and blocked at once, or only charged.
    Stops,
    Waits,
    /// Its run is to end, to wait then: it is claimed; it is charged.
    Ends,
    Charged,
    /// It is claimed, and has this word again if it was picked meanwhile; it is to have this word.
    Blocks(Word),
    Writes(Word),
    /// It sleeps, and keeps its place: its run is to end; or it is to wake in the policy.
    Keeps,
    Stays,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Task {
    policy: Policy,
    word: Word,
    place: Place,
    /// The cpu of its run queue.
    home: Cpu,
    hand: Hand,
    /// Its cpu has it in hand, to run another.
    makes_room: bool,
    /// As `slot->in_transit`: its quantum is over, or it reads, and who picks it leaves it to `ops.enqueue`.
    in_transit: bool,
    /// By cpu that has inserted it: where, and if it was in our custody then and has been since.
    inserted: [Option<(Cpu, bool)>; CPUS],
}

/// How far a cpu is in `ops.dispatch`, and in what the kernel does after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Out,
    /// Its current task's run is over; it is charged.
    Charges(Id),
    Charged(Id),
    /// Its current task was outside the policy: it is to wake there; it has.
    Rejoins(Id),
    Rejoined(Id),
    Picks,
    /// The policy has given it a task.
    Says(Id),
    /// That sleeps, or runs on credit, as the word said, and was paid in full: it is to leave the policy; it
    /// was only charged; it is to have this word.
    Pays(Id, Word),
    PaysAndBlocks(Id, Word),
    PaysAndWrites(Id, Word),
    /// It has said so, and looks whether the task is in transit; it is not.
    Looks(Id),
    Inserts(Id),
    Checks(Id),
    /// That must not run here: it is claimed; charged; blocked; away.
    Refuses(Id, Leaving),
    SendsAway(Id),
    /// It found nothing; the policy knows that it idles.
    Idles,
    /// The kernel carries out what it inserted.
    Flushes,
    /// Its current task makes room.
    Switches,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Processor {
    phase: Phase,
    /// It has inserted something since it entered `ops.dispatch`.
    dispatched: bool,
    /// The task that it picked last.
    task: Option<Id>,
    /// For the policy.
    idle: bool,
    kicked: bool,
}

/// Whether callbacks that begin now use the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Gate {
    Open,
    Closed,
    /// The policy knows nobody; this task is the next to be known again, it is claimed, it has woken.
    Readmits(Id),
    Claims(Id),
    Wakes(Id),
    /// It is open again.
    Reopened,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    gate: Gate,
    tasks: [Task; TASKS],
    cpus: [Processor; CPUS],
    changes: u8,
    /// A call that the policy's contract forbids.
    illegal: bool,
    /// As [`Custody::keeps`].
    keeps: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// The code as it is.
    None,
    /// Who takes a task out of the policy does not hear that it was picked meanwhile.
    Deaf,
    /// Who takes a task out of the policy claims nothing.
    Unclaimed,
    /// The cpu for which a task was picked that is taken out is not kicked.
    Silent,
    /// Nor is it if it picked the task, or sent it away, while somebody took it out.
    Misdirected,
    /// `ops.enqueue` looks at the word before the kernel has noted that the task comes.
    LooksEarly,
    /// `ops.enqueue` leaves a task that joins the policy in our custody, though it is marked since it reads.
    LeavesReaders,
    /// A cpu picks while somebody who has claimed its task is about to tell the policy that its run is over.
    PicksEarly,
    /// `ops.enqueue` leaves a task in our custody that is about to be out of the policy, since it was paid.
    LeavesPaid,
    /// The policy begins anew while a callback is in there.
    Unvisited,
    /// Whoever falls asleep while the policy is closed leaves his word as it is.
    SleepsUnsaid,
    /// Whoever fell asleep while the policy was closed does not look whether it is open again.
    MissesOpening,
}

struct Custody {
    flaw: Flaw,
    /// Turns are kept for who sleeps.
    keeps: bool,
    /// The policy may be closed.
    closes: bool,
}

impl Custody {
    fn changes(&self) -> u8 {
        match (self.closes, self.keeps) {
            (true, _) => CHANGES_CLOSED,
            (false, true) => CHANGES_KEPT,
            (false, false) => CHANGES,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Wake(Id, Cpu),
    /// It reads, or not.
    Requeue(Id, bool),
    Sleep(Id),
    /// What comes next with a task in hand, where it can go one way or the other: its run goes on, or not; it
    /// has credit, or not; it keeps its place, or not; it is stopped at once, or not.
    Hand(Id, bool),
    Arrive(Id),
    QuantumEnds(Cpu),
    /// An idle cpu that was kicked, or has a task in its queue.
    Schedule(Cpu),
    Pick(Cpu, Id),
    /// It was given a task that sleeps: it has no more room for pay, or has; it is stopped at once, or not.
    Pay(Cpu, bool),
    /// Its current task, which reads, or not, goes back.
    MakeRoom(Cpu, bool),
    /// What comes next on a cpu, without a choice.
    On(Cpu),
    Close,
    /// What comes next as the policy begins anew.
    Reopen,
}

impl Task {
    fn may_run(id: Id, cpu: Cpu) -> bool {
        id != 0 || cpu == 0
    }

    /// It leaves our custody, and comes anew: earlier insertions count no longer.
    fn renew(&mut self, place: Place) {
        self.place = place;
        self.inserted.iter_mut().flatten().for_each(|insertion| insertion.1 = false);
    }
}

impl State {
    fn current(&self, cpu: Cpu) -> Option<Id> {
        (0..TASKS).find(|&id| self.tasks[id].place == Place::On(cpu))
    }

    fn local(&self, cpu: Cpu) -> Option<Id> {
        (0..TASKS).find(|&id| self.tasks[id].place == Place::Local(cpu))
    }

    /// The policy kicks an idle cpu, if there is one.
    fn offer(&mut self) {
        if let Some(cpu) = self.cpus.iter_mut().find(|cpu| cpu.idle) {
            cpu.idle = false;
            cpu.kicked = true;
        }
    }

    fn wake(&mut self, id: Id) {
        self.illegal |= self.tasks[id].policy != Policy::Blocked;
        self.tasks[id].policy = Policy::Waiting;
        self.offer();
    }

    fn charge(&mut self, id: Id) {
        self.illegal |= !matches!(self.tasks[id].policy, Policy::Given(_));
        self.tasks[id].policy = Policy::Waiting;
    }

    /// True if the task is out of the policy.
    fn block(&mut self, id: Id, flaw: Flaw) -> bool {
        let task = &mut self.tasks[id];
        self.illegal |= task.policy == Policy::Blocked;
        let is_out = task.policy == Policy::Waiting;
        if is_out {
            task.policy = Policy::Blocked;
        }
        is_out || flaw == Flaw::Deaf
    }

    /// Takes a word that is `old` for ours.
    fn claim(&mut self, id: Id, flaw: Flaw) {
        if flaw != Flaw::Unclaimed {
            self.tasks[id].word = Word::Claimed;
        }
    }

    fn enters(&mut self, id: Id, reads: bool, flaw: Flaw) {
        let place = if flaw == Flaw::LooksEarly { Place::Unnoted } else { Place::Queueing };
        self.tasks[id].renew(place);
        self.tasks[id].in_transit = reads;
        self.tasks[id].hand = if self.is_open() { Hand::Looks } else { Hand::LooksOutside };
    }

    fn leaves(&mut self, id: Id, then: Then) {
        self.tasks[id].hand = Hand::Leaves(then, Leaving::Looks);
    }

    fn falls_asleep(&mut self, id: Id) {
        if !self.is_open() {
            self.tasks[id].hand = Hand::SleepsOutside;
        } else if self.tasks[id].word == Word::Blocked {
            self.comes_to_rest(id, Place::Asleep);
        } else {
            self.leaves(id, Then::Sleep);
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.gate, Gate::Open | Gate::Reopened)
    }

    /// Nobody is in a callback.
    fn is_visited(&self) -> bool {
        let is_outside = |phase| matches!(phase, Phase::Out | Phase::Flushes | Phase::Switches);
        self.tasks.iter().all(|task| task.hand == Hand::None)
            && self.cpus.iter().all(|cpu| is_outside(cpu.phase))
    }

    /// While the policy was closed it came to a cpu, without a word.
    fn runs_unsaid(&self, task: &Task) -> bool {
        self.gate == Gate::Reopened
            && matches!(task.word, Word::Blocked | Word::Asleep)
            && matches!(task.place, Place::On(_) | Place::Local(_))
    }

    /// What comes next as the policy begins anew.
    fn reopen(&mut self) {
        let next = |id| if id + 1 < TASKS { Gate::Readmits(id + 1) } else { Gate::Reopened };
        match self.gate {
            Gate::Closed => {
                self.tasks.iter_mut().for_each(|task| task.policy = Policy::Blocked);
                for cpu in &mut self.cpus {
                    (cpu.task, cpu.idle) = (None, false);
                }
                self.gate = Gate::Readmits(0);
            }
            Gate::Readmits(id) if self.tasks[id].word == Word::Waiting => {
                self.tasks[id].word = Word::Claimed;
                self.gate = Gate::Claims(id);
            }
            Gate::Readmits(id) => {
                self.tasks[id].word = Word::Blocked;
                self.gate = next(id);
            }
            Gate::Claims(id) => {
                self.wake(id);
                self.gate = Gate::Wakes(id);
            }
            Gate::Wakes(id) => {
                self.tasks[id].word = Word::Waiting;
                self.gate = next(id);
            }
            Gate::Open | Gate::Reopened => unreachable!("it is open"),
        }
        if self.gate == Gate::Reopened {
            self.cpus.iter_mut().for_each(|cpu| cpu.kicked = true);
        }
    }

    /// What a callback does with a task that found the policy closed.
    fn stay_outside(&mut self, id: Id, flaw: Flaw) {
        let waits = self.tasks[id].word == Word::Waiting;
        if self.tasks[id].hand == Hand::SleepsOutside {
            if waits && flaw != Flaw::SleepsUnsaid {
                self.tasks[id].word = Word::Asleep;
            }
            self.tasks[id].hand = Hand::SleptOutside;
        } else if self.tasks[id].hand == Hand::SleptOutside {
            if self.is_open() && flaw != Flaw::MissesOpening {
                self.falls_asleep(id);
            } else {
                self.comes_to_rest(id, Place::Asleep);
            }
        } else if waits {
            self.tasks[id].hand = Hand::Rests;
        } else {
            self.comes_to_rest(id, Place::Local(self.tasks[id].home));
        }
    }

    fn comes_to_rest(&mut self, id: Id, place: Place) {
        // If that was left out, it is a step later.
        if self.tasks[id].place == Place::Unnoted && place == Place::Custody {
            self.tasks[id].renew(place);
        }
        self.tasks[id].place = place;
        self.tasks[id].hand = Hand::None;
        self.tasks[id].makes_room = false;
    }

    /// `ops.enqueue` of a task, which looks at the word.
    fn enqueue(&mut self, id: Id, owed: bool, flaw: Flaw) {
        let task = self.tasks[id];
        match task.word {
            Word::Blocked if self.keeps && owed => self.run_here(id, Word::Away),
            Word::Blocked => {
                self.tasks[id].word = Word::Claimed;
                self.tasks[id].hand = Hand::Joins;
            }
            Word::Asleep if self.keeps && owed => self.run_here(id, Word::OnCredit),
            Word::Asleep => self.waits_again(id),
            Word::Waiting | Word::Claimed | Word::Paid(_) => self.tasks[id].hand = Hand::Rests,
            Word::Running(cpu) if owed && Task::may_run(id, cpu) => {
                let to = if cpu == task.home { Place::Local(cpu) } else { Place::Inbound(cpu) };
                self.comes_to_rest(id, to);
            }
            Word::Running(cpu) => self.leaves(id, Then::Rejoin(cpu)),
            Word::Away | Word::OnCredit if owed => self.comes_to_rest(id, Place::Local(task.home)),
            Word::OnCredit => {
                self.waits_again(id);
                self.kick(task.home, flaw);
            }
            Word::Away => {
                self.tasks[id].word = Word::Claimed;
                self.tasks[id].hand = Hand::Joins;
                // Its cpu may count on it.
                self.kick(task.home, flaw);
            }
        }
    }

    /// It runs outside the policy on its own cpu.
    fn run_here(&mut self, id: Id, word: Word) {
        self.tasks[id].word = word;
        let home = self.tasks[id].home;
        self.occupy(home);
        self.comes_to_rest(id, Place::Local(home));
    }

    /// Of a task that is in the policy still.
    fn waits_again(&mut self, id: Id) {
        self.tasks[id].word = Word::Waiting;
        self.tasks[id].hand = Hand::Rests;
        self.offer();
    }

    /// A task is out of the policy.
    fn has_left(&mut self, id: Id, then: Then) {
        match then {
            Then::Sleep => self.comes_to_rest(id, Place::Asleep),
            Then::Rejoin(_) => {
                self.tasks[id].word = Word::Claimed;
                self.tasks[id].hand = Hand::Joins;
            }
        }
    }

    fn kick(&mut self, cpu: Cpu, flaw: Flaw) {
        if flaw != Flaw::Silent {
            self.cpus[cpu].kicked = true;
        }
    }

    fn hand(&mut self, id: Id, choice: bool, flaw: Flaw) {
        match self.tasks[id].hand {
            Hand::None => {}
            Hand::Looks => self.enqueue(id, choice, flaw),
            Hand::Joins => {
                self.wake(id);
                self.tasks[id].hand = Hand::Joined;
            }
            Hand::Joined => {
                self.tasks[id].word = Word::Waiting;
                if flaw == Flaw::LeavesReaders {
                    self.comes_to_rest(id, Place::Custody);
                } else {
                    self.tasks[id].hand = Hand::Rests;
                }
            }
            Hand::Rests if self.tasks[id].in_transit => {
                self.comes_to_rest(id, Place::Local(self.tasks[id].home));
            }
            Hand::Rests => self.comes_to_rest(id, Place::Custody),
            Hand::LooksOutside | Hand::SleepsOutside | Hand::SleptOutside => {
                self.stay_outside(id, flaw);
            }
            Hand::Leaves(then, how) => self.leave(id, then, how, choice, flaw),
        }
    }

    fn leave(&mut self, id: Id, then: Then, how: Leaving, at_once: bool, flaw: Flaw) {
        let go = |state: &mut State, how| state.tasks[id].hand = Hand::Leaves(then, how);
        match how {
            Leaving::Looks if self.keeps && then == Then::Sleep && at_once => {
                self.keep(id, flaw);
            }
            Leaving::Looks => match self.tasks[id].word {
                Word::Running(cpu) => {
                    self.claim(id, flaw);
                    let home = self.tasks[id].home;
                    let waits = then == Then::Rejoin(home);
                    let looks_anyway = then == Then::Sleep && cpu == home;
                    let is_missed = flaw == Flaw::Misdirected && then != Then::Rejoin(cpu);
                    // The cpu that has to look for another is kicked when that is over.
                    if !waits && !looks_anyway && (then == Then::Sleep || !is_missed) {
                        self.kick(cpu, flaw);
                    }
                    go(self, if waits { Leaving::Ends } else { Leaving::Stops });
                }
                word @ (Word::Waiting | Word::OnCredit | Word::Asleep) => {
                    self.claim(id, flaw);
                    go(self, Leaving::Blocks(word));
                }
                Word::Away => {
                    self.tasks[id].word = Word::Blocked;
                    // It may count on the task, and idle.
                    if flaw != Flaw::Misdirected {
                        self.kick(self.tasks[id].home, flaw);
                    }
                    self.has_left(id, then);
                }
                // It was paid in full meanwhile.
                Word::Blocked => self.has_left(id, then),
                Word::Claimed | Word::Paid(_) => {}
            },
            Leaving::Keeps => {
                self.charge(id);
                go(self, Leaving::Writes(Word::Asleep));
            }
            Leaving::Stays => {
                self.wake(id);
                go(self, Leaving::Writes(Word::Asleep));
            }
            Leaving::Stops => {
                self.charge(id);
                if at_once {
                    self.tasks[id].policy = Policy::Blocked;
                }
                go(self, if at_once { Leaving::Writes(Word::Blocked) } else { Leaving::Waits });
            }
            Leaving::Waits => {
                self.tasks[id].word = Word::Waiting;
                go(self, Leaving::Looks);
            }
            Leaving::Ends => {
                self.charge(id);
                go(self, Leaving::Charged);
            }
            Leaving::Charged => {
                self.tasks[id].word = Word::Waiting;
                self.tasks[id].hand = Hand::Rests;
                self.offer();
                // Its cpu may wait for it.
                if !self.tasks[id].makes_room {
                    self.kick(self.tasks[id].home, flaw);
                }
            }
            Leaving::Blocks(back) => {
                let is_out = self.block(id, flaw);
                go(self, Leaving::Writes(if is_out { Word::Blocked } else { back }));
            }
            Leaving::Writes(word) => {
                self.tasks[id].word = word;
                match word {
                    Word::Blocked => self.has_left(id, then),
                    Word::Asleep => self.comes_to_rest(id, Place::Asleep),
                    _ => go(self, Leaving::Looks),
                }
            }
        }
    }

    /// A task falls asleep, and keeps its place in the policy, or has one.
    fn keep(&mut self, id: Id, flaw: Flaw) {
        let go = |state: &mut State, how| state.tasks[id].hand = Hand::Leaves(Then::Sleep, how);
        match self.tasks[id].word {
            Word::Running(cpu) => {
                self.claim(id, flaw);
                if cpu != self.tasks[id].home {
                    self.kick(cpu, flaw);
                }
                go(self, Leaving::Keeps);
            }
            Word::Away => {
                self.tasks[id].word = Word::Claimed;
                go(self, Leaving::Stays);
            }
            Word::Waiting | Word::OnCredit => {
                self.tasks[id].word = Word::Asleep;
                self.comes_to_rest(id, Place::Asleep);
            }
            // It woke while the policy was closed, and may have been paid in full since.
            Word::Asleep | Word::Blocked => self.comes_to_rest(id, Place::Asleep),
            Word::Claimed | Word::Paid(_) => {}
        }
    }

    /// A cpu enters `ops.dispatch`, or the kernel finds a task in its queue.
    fn schedules(&mut self, cpu: Cpu) {
        self.cpus[cpu].kicked = false;
        self.cpus[cpu].dispatched = false;
        if self.local(cpu).is_some() || !self.is_open() {
            self.cpus[cpu].phase = Phase::Switches;
            return;
        }
        self.cpus[cpu].phase = Phase::Picks;
        let Some(id) = self.current(cpu) else { return };
        self.tasks[id].in_transit = true;
        if self.tasks[id].word == Word::Running(cpu) {
            self.cpus[cpu].phase = Phase::Charges(id);
        } else if self.tasks[id].word == Word::Away {
            self.tasks[id].word = Word::Claimed;
            self.cpus[cpu].phase = Phase::Rejoins(id);
        } else if self.tasks[id].word == Word::OnCredit {
            self.tasks[id].word = Word::Waiting;
        }
    }

    fn is_awaited(&self, cpu: Cpu) -> bool {
        self.cpus[cpu].task.is_some_and(|id| self.tasks[id].word == Word::Running(cpu))
    }

    /// Somebody is about to take away the task that it picked last, or to put it back.
    fn is_in_doubt(&self, cpu: Cpu) -> bool {
        self.cpus[cpu].task.is_some_and(|id| self.tasks[id].word == Word::Claimed)
    }

    fn pick(&mut self, cpu: Cpu, id: Id) {
        // A cpu has one task at a time.
        self.illegal |= self.tasks.iter().any(|task| task.policy == Policy::Given(cpu));
        self.tasks[id].policy = Policy::Given(cpu);
        self.cpus[cpu].phase = Phase::Says(id);
        self.cpus[cpu].idle = false;
    }

    fn go_on(&mut self, cpu: Cpu, flaw: Flaw) {
        let phase = self.cpus[cpu].phase;
        let go = |state: &mut State, phase| state.cpus[cpu].phase = phase;
        match phase {
            Phase::Out => {}
            Phase::Charges(id) => {
                self.charge(id);
                go(self, Phase::Charged(id));
            }
            Phase::Charged(id) => {
                self.tasks[id].word = Word::Waiting;
                go(self, Phase::Picks);
            }
            Phase::Rejoins(id) => {
                self.wake(id);
                go(self, Phase::Rejoined(id));
            }
            Phase::Rejoined(id) => {
                self.tasks[id].word = Word::Waiting;
                go(self, Phase::Picks);
            }
            Phase::Picks if self.is_awaited(cpu) => go(self, Phase::Flushes),
            Phase::Picks => {
                self.cpus[cpu].idle = true;
                go(self, Phase::Idles);
            }
            Phase::Idles => {
                self.cpus[cpu].task = None;
                let is_sent = |task: &Task| {
                    let is_out =
                        matches!(task.word, Word::Away | Word::OnCredit | Word::Paid(true));
                    is_out && task.home == cpu
                };
                if self.tasks.iter().any(is_sent) {
                    self.occupy(cpu);
                }
                go(self, Phase::Flushes);
            }
            Phase::Says(id) => {
                self.tasks[id].word = Word::Running(cpu);
                self.cpus[cpu].task = Some(id);
                if self.tasks[id].place == Place::On(cpu) {
                    self.tasks[id].in_transit = false;
                    go(self, Phase::Out);
                } else {
                    go(self, Phase::Looks(id));
                }
            }
            Phase::Pays(..) => unreachable!("it is stopped at once, or not"),
            Phase::PaysAndBlocks(id, word) => {
                let word = if self.block(id, flaw) { State::paid_in_full(word) } else { word };
                go(self, Phase::PaysAndWrites(id, word));
            }
            Phase::PaysAndWrites(id, word) => {
                self.tasks[id].word = word;
                go(self, Phase::Picks);
            }
            Phase::Looks(id) if self.tasks[id].in_transit => go(self, Phase::Flushes),
            Phase::Looks(id) => go(self, Phase::Inserts(id)),
            Phase::Inserts(id) => {
                self.insert(cpu, id, cpu);
                go(self, Phase::Checks(id));
            }
            Phase::Checks(id) if Task::may_run(id, cpu) => go(self, Phase::Flushes),
            Phase::Checks(id) => {
                self.tasks[id].inserted[cpu] = None;
                let is_ours = self.tasks[id].word == Word::Running(cpu);
                if is_ours {
                    self.claim(id, flaw);
                }
                go(self, if is_ours { Phase::Refuses(id, Leaving::Ends) } else { Phase::Flushes });
            }
            Phase::Refuses(id, how) => self.refuse(cpu, id, how, flaw),
            Phase::SendsAway(id) => {
                let home = self.tasks[id].home;
                self.insert(cpu, id, home);
                go(self, Phase::Flushes);
            }
            Phase::Flushes => self.flush(cpu),
            Phase::Switches => self.switch(cpu),
        }
    }

    fn paid_in_full(word: Word) -> Word {
        if word == Word::Asleep { Word::Blocked } else { Word::Away }
    }

    fn pay(&mut self, cpu: Cpu, choice: bool) {
        let go = |state: &mut State, phase| state.cpus[cpu].phase = phase;
        match self.cpus[cpu].phase {
            Phase::Says(id) if choice => {
                let word = self.tasks[id].word;
                self.tasks[id].word = Word::Paid(word == Word::OnCredit);
                go(self, Phase::Pays(id, word));
            }
            Phase::Says(id) => {
                self.charge(id);
                go(self, Phase::Picks);
            }
            Phase::Pays(id, word) => {
                self.charge(id);
                if choice {
                    self.tasks[id].policy = Policy::Blocked;
                    go(self, Phase::PaysAndWrites(id, State::paid_in_full(word)));
                } else {
                    go(self, Phase::PaysAndBlocks(id, word));
                }
            }
            _ => unreachable!("it pays nobody"),
        }
    }

    fn refuse(&mut self, cpu: Cpu, id: Id, how: Leaving, flaw: Flaw) {
        let next = match how {
            Leaving::Ends => {
                self.charge(id);
                Phase::Refuses(id, Leaving::Blocks(Word::Waiting))
            }
            Leaving::Looks
            | Leaving::Stops
            | Leaving::Waits
            | Leaving::Charged
            | Leaving::Keeps
            | Leaving::Stays => unreachable!("it is refused in one go"),
            Leaving::Blocks(_) => {
                let is_out = self.block(id, flaw);
                Phase::Refuses(id, Leaving::Writes(if is_out { Word::Away } else { Word::Waiting }))
            }
            Leaving::Writes(word) => {
                self.tasks[id].word = word;
                if word == Word::Away {
                    self.occupy(self.tasks[id].home);
                    Phase::SendsAway(id)
                } else {
                    Phase::Flushes
                }
            }
        };
        // Whatever became of it, the kernel asks again.
        self.cpus[cpu].dispatched = true;
        self.cpus[cpu].phase = next;
    }

    /// A cpu is sent something that is not the policy's.
    fn occupy(&mut self, cpu: Cpu) {
        if self.cpus[cpu].task.is_none() && !std::mem::replace(&mut self.cpus[cpu].idle, false) {
            self.offer();
        }
    }

    fn insert(&mut self, cpu: Cpu, id: Id, to: Cpu) {
        let counts = matches!(self.tasks[id].place, Place::Queueing | Place::Custody);
        self.tasks[id].inserted[cpu] = Some((to, counts));
        self.cpus[cpu].dispatched = true;
    }

    fn flush(&mut self, cpu: Cpu) {
        for id in 0..TASKS {
            if let Some((to, counts)) = self.tasks[id].inserted[cpu].take()
                && counts
                && self.tasks[id].place == Place::Custody
            {
                self.tasks[id].place =
                    if to == cpu { Place::Local(cpu) } else { Place::Inbound(to) };
            }
        }
        let dispatched = std::mem::replace(&mut self.cpus[cpu].dispatched, false);
        let asks_again = self.local(cpu).is_none() && dispatched && self.is_open();
        self.cpus[cpu].phase = if asks_again { Phase::Picks } else { Phase::Switches };
    }

    fn make_room(&mut self, cpu: Cpu, reads: bool, flaw: Flaw) {
        if let Some(id) = self.current(cpu) {
            self.enters(id, reads, flaw);
            self.tasks[id].makes_room = true;
        }
    }

    /// Who is in the local queue runs, if anybody is.
    fn switch(&mut self, cpu: Cpu) {
        if let Some(id) = self.local(cpu) {
            self.tasks[id].place = Place::On(cpu);
            self.tasks[id].home = cpu;
        }
        self.cpus[cpu].phase = Phase::Out;
    }

    /// Nobody is in the middle of anything.
    fn is_quiet(&self) -> bool {
        let rests =
            |task: &Task| task.hand == Hand::None && !matches!(task.place, Place::Inbound(_));
        self.tasks.iter().all(rests)
            && (0..CPUS).all(|cpu| {
                let idles = self.current(cpu).is_none();
                self.cpus[cpu].phase == Phase::Out
                    && !(idles && (self.cpus[cpu].kicked || self.local(cpu).is_some()))
            })
    }

    fn task_steps(&self, id: Id, flaw: Flaw, push: &mut impl FnMut(Step)) {
        let task = &self.tasks[id];
        let either = [false, true].into_iter();
        match (task.hand, task.place) {
            (Hand::None, Place::Asleep) if self.changes > 0 => {
                let cpus = (0..CPUS).filter(|&cpu| Task::may_run(id, cpu));
                cpus.for_each(|cpu| push(Step::Wake(id, cpu)));
            }
            (Hand::None, Place::Custody) if self.changes > 0 => {
                either.for_each(|reads| push(Step::Requeue(id, reads)));
            }
            (Hand::None, Place::Local(cpu))
                if self.changes > 0 && self.cpus[cpu].phase == Phase::Out =>
            {
                either.for_each(|reads| push(Step::Requeue(id, reads)));
            }
            (Hand::None, Place::Inbound(_)) => push(Step::Arrive(id)),
            (Hand::None, Place::On(cpu)) if self.cpus[cpu].phase == Phase::Out => {
                push(Step::Sleep(id))
            }
            // It waits for who takes it out of the policy.
            (Hand::Looks, _) if matches!(task.word, Word::Paid(_)) && flaw != Flaw::LeavesPaid => {}
            (Hand::Looks | Hand::Leaves(_, Leaving::Stops), _) => {
                either.for_each(|choice| push(Step::Hand(id, choice)));
            }
            (Hand::Leaves(_, Leaving::Looks), _)
                if matches!(task.word, Word::Claimed | Word::Paid(_)) => {}
            (Hand::LooksOutside | Hand::SleepsOutside, _) if task.word == Word::Claimed => {}
            (Hand::Leaves(Then::Sleep, Leaving::Looks), _) if self.keeps => {
                either.for_each(|keeps| push(Step::Hand(id, keeps)));
            }
            (
                Hand::Joins
                | Hand::Joined
                | Hand::Rests
                | Hand::LooksOutside
                | Hand::SleepsOutside
                | Hand::SleptOutside
                | Hand::Leaves(..),
                _,
            ) => push(Step::Hand(id, false)),
            (Hand::None, _) => {}
        }
    }

    fn cpu_steps(&self, cpu: Cpu, flaw: Flaw, push: &mut impl FnMut(Step)) {
        let current = self.current(cpu);
        let is_held = (0..TASKS).any(|id| {
            let task = &self.tasks[id];
            task.home == cpu && task.hand != Hand::None && task.place != Place::Custody
        });
        let waiting = || (0..TASKS).filter(|&id| self.tasks[id].policy == Policy::Waiting);
        match self.cpus[cpu].phase {
            // Its current task is about to sleep, or another is handed to it.
            Phase::Out | Phase::Switches if is_held => {}
            Phase::Out
                if current.is_some_and(|id| matches!(self.tasks[id].word, Word::Paid(_))) => {}
            Phase::Out if current.is_some() => push(Step::QuantumEnds(cpu)),
            Phase::Out if self.cpus[cpu].kicked || self.local(cpu).is_some() => {
                push(Step::Schedule(cpu));
            }
            Phase::Out => {}
            Phase::Picks if self.is_in_doubt(cpu) && flaw != Flaw::PicksEarly => {}
            Phase::Switches if current.is_some() => {
                push(Step::MakeRoom(cpu, false));
                if self.changes > 0 {
                    push(Step::MakeRoom(cpu, true));
                }
            }
            Phase::Picks if !self.is_awaited(cpu) && waiting().next().is_some() => {
                waiting().for_each(|id| push(Step::Pick(cpu, id)));
            }
            Phase::Pays(..) => [false, true].into_iter().for_each(|pay| push(Step::Pay(cpu, pay))),
            Phase::Says(id) if matches!(self.tasks[id].word, Word::Asleep | Word::OnCredit) => {
                [false, true].into_iter().for_each(|pay| push(Step::Pay(cpu, pay)));
            }
            // It waits for who has claimed it.
            Phase::Says(id) if self.tasks[id].word != Word::Waiting && flaw != Flaw::Unclaimed => {}
            Phase::Flushes => {
                let comes = |task: &Task| {
                    task.place == Place::Queueing && matches!(task.inserted[cpu], Some((_, true)))
                };
                if !self.tasks.iter().any(comes) {
                    push(Step::On(cpu));
                }
            }
            _ => push(Step::On(cpu)),
        }
    }
}

impl Model for Custody {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let task = Task {
            policy: Policy::Blocked,
            word: Word::Blocked,
            place: Place::Asleep,
            home: 0,
            hand: Hand::None,
            makes_room: false,
            in_transit: false,
            inserted: [None; CPUS],
        };
        let cpu = Processor {
            phase: Phase::Out,
            dispatched: false,
            task: None,
            idle: true,
            kicked: false,
        };
        let asleep = State {
            gate: Gate::Open,
            tasks: [task; TASKS],
            cpus: [cpu; CPUS],
            changes: self.changes(),
            illegal: false,
            keeps: self.keeps,
        };
        let found = |running: Id| {
            let (queued, mut state) = (1 - running, asleep.clone());
            state.changes = state.changes.saturating_sub(2);
            state.tasks[queued].home = queued;
            state.enters(queued, true, self.flaw);
            state.tasks[running].home = running;
            state.tasks[running].place = Place::On(running);
            state.schedules(running);
            state
        };
        vec![found(0), found(1), asleep]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        if state.illegal {
            return;
        }
        (0..TASKS).for_each(|id| state.task_steps(id, self.flaw, &mut |step| actions.push(step)));
        (0..CPUS).for_each(|cpu| state.cpu_steps(cpu, self.flaw, &mut |step| actions.push(step)));
        match state.gate {
            Gate::Open if self.closes => actions.push(Step::Close),
            Gate::Open | Gate::Reopened => {}
            Gate::Closed if !state.is_visited() && self.flaw != Flaw::Unvisited => {}
            _ => actions.push(Step::Reopen),
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Wake(id, cpu) => {
                state.changes -= 1;
                state.tasks[id].home = cpu;
                state.enters(id, false, self.flaw);
            }
            Step::Requeue(id, reads) => {
                state.changes -= 1;
                if let Place::Local(cpu) = state.tasks[id].place {
                    state.cpus[cpu].kicked = true;
                }
                state.enters(id, reads, self.flaw);
            }
            Step::Sleep(id) => {
                state.falls_asleep(id);
                // Its cpu asks for another.
                let home = state.tasks[id].home;
                state.cpus[home].kicked = true;
            }
            Step::Hand(id, owed) => state.hand(id, owed, self.flaw),
            Step::Arrive(id) => {
                if let Place::Inbound(cpu) = state.tasks[id].place {
                    state.tasks[id].place = Place::Local(cpu);
                    state.tasks[id].home = cpu;
                }
            }
            Step::QuantumEnds(cpu) | Step::Schedule(cpu) => state.schedules(cpu),
            Step::Pick(cpu, id) => state.pick(cpu, id),
            Step::Pay(cpu, choice) => state.pay(cpu, choice),
            Step::MakeRoom(cpu, reads) => {
                state.changes -= u8::from(reads);
                state.make_room(cpu, reads, self.flaw);
            }
            Step::On(cpu) => state.go_on(cpu, self.flaw),
            Step::Close => state.gate = Gate::Closed,
            Step::Reopen => state.reopen(),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("the policy's contract is kept", |_, state: &State| !state.illegal),
            Property::always("word, policy and kernel agree in the end", |_, state: &State| {
                let agrees = |task: &Task| match task.word {
                    Word::Blocked => {
                        task.policy == Policy::Blocked
                            && (task.place == Place::Asleep || state.runs_unsaid(task))
                    }
                    Word::Waiting => task.policy == Policy::Waiting && task.place != Place::Asleep,
                    Word::Running(_) => {
                        let is_lost = matches!(task.place, Place::Asleep | Place::Custody);
                        matches!(task.policy, Policy::Given(_)) && !is_lost
                    }
                    Word::Away => {
                        task.policy == Policy::Blocked
                            && matches!(task.place, Place::On(_) | Place::Local(_))
                    }
                    Word::Asleep => {
                        task.policy == Policy::Waiting
                            && (task.place == Place::Asleep || state.runs_unsaid(task))
                    }
                    Word::OnCredit => {
                        task.policy == Policy::Waiting
                            && matches!(task.place, Place::On(_) | Place::Local(_))
                    }
                    Word::Claimed | Word::Paid(_) => false,
                };
                !state.is_quiet() || !state.is_open() || state.tasks.iter().all(agrees)
            }),
            Property::always("nobody idles while a task waits", |_, state: &State| {
                let waits =
                    |task: &Task| task.word == Word::Waiting && task.place == Place::Custody;
                let idles = |cpu: Cpu| state.current(cpu).is_none() && !state.is_awaited(cpu);
                !state.is_quiet()
                    || !state.is_open()
                    // Whoever is kicked runs him first, for a quantum at most.
                    || state.tasks.iter().any(|task| state.runs_unsaid(task))
                    || !state.tasks.iter().any(waits)
                    || !(0..CPUS).any(idles)
            }),
            Property::always("who waits for a word gets it", |model, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                state.is_quiet() || state.illegal || !actions.is_empty()
            }),
            Property::sometimes("a task is picked while it leaves", |_, state: &State| {
                let said_to =
                    |id: Id| (0..CPUS).any(|cpu| state.cpus[cpu].phase == Phase::Says(id));
                (0..TASKS).any(|id| {
                    said_to(id)
                        && state.tasks[id].hand
                            == Hand::Leaves(Then::Sleep, Leaving::Writes(Word::Waiting))
                })
            }),
        ]
    }
}

#[test]
fn pickers_and_the_kernel_get_along() {
    for (keeps, closes) in [(false, false), (true, false), (false, true), (true, true)] {
        let checker = Custody { flaw: Flaw::None, keeps, closes }.checker().spawn_bfs().join();
        let states = checker.unique_state_count();
        println!("whose tasks are, kept {keeps}, closed once {closes}: {states} states");
        checker.assert_properties();
    }
}

fn is_found_out(flaw: Flaw, property: &'static str) {
    let found = HasDiscoveries::AnyOf([property].into());
    let keeps = flaw == Flaw::LeavesPaid;
    let closes = matches!(flaw, Flaw::Unvisited | Flaw::SleepsUnsaid | Flaw::MissesOpening);
    let checker = Custody { flaw, keeps, closes }.checker().finish_when(found).spawn_bfs().join();
    assert!(checker.discovery(property).is_some(), "{flaw:?} goes unnoticed");
}

#[test]
fn a_task_that_was_picked_while_it_left_is_heard_of() {
    is_found_out(Flaw::Deaf, "the policy's contract is kept");
}

#[test]
fn a_task_that_nobody_claims_is_found_out() {
    is_found_out(Flaw::Unclaimed, "the policy's contract is kept");
}

#[test]
fn a_cpu_that_waits_for_nobody_is_kicked() {
    is_found_out(Flaw::Silent, "nobody idles while a task waits");
}

#[test]
fn a_kick_of_whom_it_no_longer_concerns_is_found_out() {
    is_found_out(Flaw::Misdirected, "nobody idles while a task waits");
}

#[test]
fn an_enqueue_that_looks_too_early_is_found_out() {
    is_found_out(Flaw::LooksEarly, "word, policy and kernel agree in the end");
}

#[test]
fn a_reader_that_nobody_inserts_is_found_out() {
    is_found_out(Flaw::LeavesReaders, "word, policy and kernel agree in the end");
}

#[test]
fn a_cpu_that_picks_while_its_task_is_claimed_is_found_out() {
    is_found_out(Flaw::PicksEarly, "the policy's contract is kept");
}

#[test]
fn a_task_that_nobody_takes_who_was_paid_is_found_out() {
    is_found_out(Flaw::LeavesPaid, "word, policy and kernel agree in the end");
}

#[test]
fn a_policy_that_begins_anew_with_somebody_in_there_is_found_out() {
    is_found_out(Flaw::Unvisited, "the policy's contract is kept");
}

#[test]
fn who_sleeps_unsaid_while_it_is_closed_is_found_out() {
    is_found_out(Flaw::SleepsUnsaid, "word, policy and kernel agree in the end");
}

#[test]
fn who_sleeps_while_it_opens_and_does_not_look_is_found_out() {
    is_found_out(Flaw::MissesOpening, "word, policy and kernel agree in the end");
}

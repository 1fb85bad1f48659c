//! The hand-over of tasks between cpus (`src/bpf/dispatch.h`), in all ways in which three cpus, three tasks
//! and a change of a task's cpus can meet.
//!
//! A step is what happens under one lock: the scheduler's, or a run queue's. Tasks wake and block, quanta
//! end, and the policy picks any task that waits; of who blocked it is told later (`src/bpf/news.h`). What a
//! cpu does with a decision, what the kernel does with an insertion, and what a task that makes room sees
//! without the lock, are steps of their own, so that others come between. A task that comes
//! back may read what RCU protects (`src/bpf/reader.h`), and one that wakes may run before who runs there.
//! What is not modelled: rescues, tasks of other classes, readers that sleep before their moment is over, and
//! who runs how long.
//!
//! States that differ in the numbers of cpus or tasks only are one.

use stateright::{Checker, CheckerBuilder, HasDiscoveries, Model, Property};

const CPUS: usize = 3;
const TASKS: usize = 3;
const ALL: u8 = (1 << CPUS) - 1;
/// All orders of three cpus: the number that each gets.
const ORDERS: [[u8; CPUS]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

type Cpu = usize;
type Id = usize;

/// What a task is for the policy (`enum task_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Policy {
    Blocked,
    Waiting,
    /// Picked for a cpu.
    Running(u8),
    Away,
}

/// Where the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Place {
    Asleep,
    /// On the way into our custody: what is inserted of it now waits until it is there.
    Queueing,
    /// In our custody.
    Custody,
    /// In its run queue's local queue.
    Local,
    /// Current on its cpu.
    On,
    /// To be put into this cpu's local queue when the kernel comes to it.
    Inbound(u8),
}

/// Who is to tell the policy that a task has blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Teller {
    /// This cpu, which has noted it.
    Cpu(u8),
    /// Whoever is next, since the cpu has noted another one.
    Anybody,
}

/// What was inserted of a task by a cpu that is in `ops.dispatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Insertion {
    to: u8,
    /// The task was in our custody then, and has been ever since.
    counts: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Task {
    policy: Policy,
    place: Place,
    /// The cpu of its run queue.
    home: u8,
    /// Cpus where it may run, by bit.
    allowed: u8,
    /// As `slot->confined`: it may not run everywhere, when last looked at.
    confined: bool,
    /// As `slot->in_transit`: it waits, but its cpu has not made room yet, or it reads.
    in_transit: bool,
    /// It runs on for a moment, or is about to.
    reads: bool,
    /// Its slice is not over, whatever the policy says.
    renewed: bool,
    /// It sleeps, and the policy does not know.
    untold: Option<Teller>,
    /// Until then: where it went to sleep.
    slept_on: Option<u8>,
    /// By cpu.
    inserted: [Option<Insertion>; CPUS],
    /// By cpu: it is what the cpu's phase is about.
    meant: [bool; CPUS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Phase {
    /// It runs its current task, or idles if it has none.
    Out,
    /// In `ops.dispatch`, about to decide; if told, its current task could go on.
    Deciding { goes_on: bool },
    /// It has picked a task.
    Decided { goes_on: bool },
    /// That must not run here.
    Refused { goes_on: bool },
    /// `ops.dispatch` is over, if the cpu `asked`, and the kernel carries out what was inserted.
    Flushing { goes_on: bool, asked: bool },
    /// The same, but its current task goes on.
    Keeping,
    /// Its current task, whose quantum is over, comes into our custody.
    MakingRoom { asked: bool, waited: bool },
    /// Its current task is being enqueued, and must not run where it was picked for.
    Redirecting { picked_for: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Processor {
    phase: Phase,
    /// The bit in `shared->idle`.
    idle: bool,
    /// It is to schedule, if it idles.
    kicked: bool,
    /// It is to schedule, whatever it runs.
    stops: bool,
    /// The task that ran has left it for a core that idles (`src/bpf/siblings.h`), and is not in our custody.
    left: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct State {
    tasks: [Task; TASKS],
    cpus: [Processor; CPUS],
    /// Changes of a task's cpus that may still come.
    changes: u8,
    /// Times that a cpu may still decide as a task wakes.
    stops: u8,
    /// Times that a task may still be found reading.
    reads: u8,
    /// The kernel has ended the scheduler.
    aborted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// The code as it is.
    None,
    /// A cpu that was woken for one task and runs another does not look after the first.
    LeavesOthers,
    /// A cpu that runs a task outside the policy may count as idle.
    StaysIdle,
    /// Who finds that a task must not run where it was picked for inserts it elsewhere, even if somebody
    /// else has found it too and it has run since.
    InsertsAnyway,
    /// A task that was picked in transit for another cpu goes on where it is.
    StaysHere,
    /// Who makes room looks whether it waits before the kernel knows that it does so.
    LooksEarly,
    /// A task in transit is inserted as any other.
    RenewsSlices,
    /// Who wakes does not say that it slept.
    SleepsOn,
    /// A task that reads comes into our custody, though it is marked.
    LeavesReaders,
    /// A task that is to stop for one that woke is not marked.
    StopsUnmarked,
    /// A task that has slept since it was picked is inserted all the same.
    InsertsSleepers,
    /// A cpu that a task has left for another wakes nobody.
    LeavesAlone,
}

/// How often something may happen. Two of them at a time: all three make 10^8 states or more.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Chances {
    /// Changes of a task's cpus.
    changes: u8,
    /// Times that a cpu decides as a task wakes.
    stops: u8,
    /// Times that a task reads as it comes back.
    reads: u8,
}

struct HandOver {
    chances: Chances,
    flaw: Flaw,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A task wakes on this cpu's run queue.
    Wake(Id, Cpu),
    /// The same, and the cpu, which has another, picks it at once.
    TakeOver(Id, Cpu),
    Block(Cpu),
    QuantumEnds(Cpu),
    /// An idle cpu that was kicked schedules.
    Schedule(Cpu),
    /// It picks this task.
    Decide(Cpu, Option<Id>),
    /// Its task, which alone waits now, leaves it for an idle core.
    Leave(Cpu),
    CarryOut(Cpu),
    Redirect(Cpu),
    Flush(Cpu),
    MakeRoom(Cpu),
    /// The kernel brings a task to another cpu.
    Arrive(Id),
    /// These cpus from now on, with its run queue on this one.
    Bind(Id, u8, Cpu),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Action {
    step: Step,
    /// Of several idle cpus the last is found, else the first.
    last: bool,
    /// The task that comes back reads.
    reads: bool,
}

fn number(index: usize) -> u8 {
    u8::try_from(index).expect("there are three")
}

impl Task {
    fn may_run(&self, cpu: Cpu) -> bool {
        self.allowed & 1 << cpu != 0
    }

    /// It sleeps, which a decision of this cpu tells the policy.
    fn is_told_by(&self, cpu: Cpu) -> bool {
        matches!(self.untold, Some(teller) if teller == Teller::Anybody || teller == Teller::Cpu(number(cpu)))
    }

    /// What was inserted before it comes into our custody anew does not count.
    fn forget_insertions(&mut self) {
        self.inserted.iter_mut().flatten().for_each(|insertion| insertion.counts = false);
    }

    /// What is inserted of it now counts.
    fn is_ours(&self) -> bool {
        matches!(self.place, Place::Custody | Place::Queueing)
    }

    /// An insertion that does not count renews the slice all the same.
    fn insert(&mut self, cpu: Cpu, to: u8) {
        self.inserted[cpu] = Some(Insertion { to, counts: self.is_ours() });
        self.renewed |= self.place == Place::On;
    }

    fn is_picked_for(&self, cpu: Cpu) -> bool {
        self.policy == Policy::Running(number(cpu))
    }

    /// With other numbers of cpus.
    fn renumbered(&self, order: &[u8; CPUS]) -> Task {
        let new = |cpu: u8| order[usize::from(cpu)];
        let mut inserted = [None; CPUS];
        for (cpu, insertion) in self.inserted.iter().enumerate() {
            inserted[usize::from(order[cpu])] =
                insertion.map(|Insertion { to, counts }| Insertion { to: new(to), counts });
        }
        let mut meant = [false; CPUS];
        (0..CPUS).for_each(|cpu| meant[usize::from(order[cpu])] = self.meant[cpu]);
        let allowed = (0..CPUS).filter(|&cpu| self.may_run(cpu));
        Task {
            policy: match self.policy {
                Policy::Running(cpu) => Policy::Running(new(cpu)),
                policy => policy,
            },
            place: match self.place {
                Place::Inbound(cpu) => Place::Inbound(new(cpu)),
                place => place,
            },
            home: new(self.home),
            allowed: allowed.fold(0, |set, cpu| set | 1 << order[cpu]),
            confined: self.confined,
            in_transit: self.in_transit,
            reads: self.reads,
            renewed: self.renewed,
            untold: match self.untold {
                Some(Teller::Cpu(cpu)) => Some(Teller::Cpu(new(cpu))),
                untold => untold,
            },
            slept_on: self.slept_on.map(new),
            inserted,
            meant,
        }
    }
}

impl State {
    /// The least of all states that differ from it in numbers only: by its cpus, which leaves few orders to
    /// try for the tasks.
    fn canonical(&self) -> State {
        let cpus = ORDERS.map(|order| self.renumbered_cpus(&order));
        let least = cpus.iter().min().expect("there are six");
        let orders = ORDERS.iter().zip(&cpus).filter(|(_, cpus)| *cpus == least);
        let renumbered = orders.map(|(order, &cpus)| {
            let mut tasks = self.tasks.map(|task| task.renumbered(order));
            tasks.sort_unstable();
            State { tasks, cpus, ..*self }
        });
        renumbered.min().expect("there is the least")
    }

    fn renumbered_cpus(&self, order: &[u8; CPUS]) -> [Processor; CPUS] {
        let mut cpus = self.cpus;
        for cpu in 0..CPUS {
            let renumbered = &mut cpus[usize::from(order[cpu])];
            *renumbered = self.cpus[cpu];
            if let Phase::Redirecting { picked_for } = &mut renumbered.phase {
                *picked_for = order[usize::from(*picked_for)];
            }
        }
        cpus
    }

    fn current(&self, cpu: Cpu) -> Option<Id> {
        self.at(cpu, Place::On)
    }

    /// Who reads is at the head.
    fn local(&self, cpu: Cpu) -> Option<Id> {
        let is_head = |task: &Task| {
            task.place == Place::Local && task.in_transit && usize::from(task.home) == cpu
        };
        self.tasks.iter().position(is_head).or_else(|| self.at(cpu, Place::Local))
    }

    fn at(&self, cpu: Cpu, place: Place) -> Option<Id> {
        self.tasks.iter().position(|task| task.place == place && usize::from(task.home) == cpu)
    }

    /// The task that the phase is about.
    fn meant(&self, cpu: Cpu) -> Id {
        self.tasks.iter().position(|task| task.meant[cpu]).expect("such a phase is about a task")
    }

    fn idles(&self, cpu: Cpu) -> bool {
        self.cpus[cpu].phase == Phase::Out && self.current(cpu).is_none()
    }

    /// True if others can lock its run queue: it is not at it, or waits for another one.
    fn lockable(&self, cpu: Cpu) -> bool {
        match self.cpus[cpu].phase {
            Phase::Out => true,
            Phase::Flushing { .. } | Phase::Keeping => {
                self.tasks.iter().any(|task| task.inserted[cpu].is_some())
            }
            _ => false,
        }
    }

    fn waiting(&self) -> impl Iterator<Item = Id> + '_ {
        (0..TASKS).filter(|&id| self.tasks[id].policy == Policy::Waiting)
    }

    /// `makes_room`.
    fn waits_in_vain(&self, id: Id) -> bool {
        self.tasks[id].policy == Policy::Waiting && self.idle_bits().next().is_none()
    }

    fn idle_bits(&self) -> impl DoubleEndedIterator<Item = Cpu> + '_ {
        (0..CPUS).filter(|&cpu| self.cpus[cpu].idle)
    }

    /// `find_idle`.
    fn find_idle(&self, home: Cpu, confined: bool, last: bool) -> Option<Cpu> {
        if self.cpus[home].idle {
            return Some(home);
        }
        if confined {
            return None;
        }
        if last { self.idle_bits().next_back() } else { self.idle_bits().next() }
    }

    fn kick(&mut self, cpu: Option<Cpu>) {
        if let Some(cpu) = cpu {
            self.cpus[cpu].idle = false;
            self.cpus[cpu].kicked = true;
        }
    }

    /// Wakes an idle cpu, if somebody waits, and the one that has decided does not idle itself. (That might
    /// ask again, in another seat; seats are not modelled.)
    fn rouse(&mut self, home: Cpu, last: bool) {
        if self.waiting().next().is_some() && !self.cpus[home].idle {
            let other = self.find_idle(home, false, last);
            self.kick(other);
        }
    }

    /// Into the local queue of a cpu.
    fn put_local(&mut self, id: Id, cpu: Cpu) {
        let task = &mut self.tasks[id];
        (task.place, task.home) = (Place::Local, number(cpu));
        self.cpus[cpu].kicked = true;
    }

    /// It looks for work: local tasks first, else the policy is asked.
    fn schedule(&mut self, cpu: Cpu) {
        self.cpus[cpu].stops = false;
        let goes_on = self.current(cpu).is_some();
        self.cpus[cpu].phase = match self.local(cpu) {
            Some(_) => Phase::Flushing { goes_on, asked: false },
            None => Phase::Deciding { goes_on },
        };
    }

    /// The task before is in our custody; one of the local queue runs, if there is one.
    fn switch(&mut self, cpu: Cpu) {
        self.cpus[cpu].phase = Phase::Out;
        if let Some(id) = self.local(cpu) {
            self.tasks[id].place = Place::On;
        }
    }

    /// The cpu has a task outside the policy.
    fn has_away(&self, cpu: Cpu) -> bool {
        self.tasks.iter().any(|task| {
            task.policy == Policy::Away && task.untold.is_none() && usize::from(task.home) == cpu
        })
    }

    /// With the lock held: the policy is told of who blocked, as far as `told` says, or anybody may.
    fn tell(&mut self, told: impl Fn(Id, Teller) -> bool) {
        let away: [bool; CPUS] = std::array::from_fn(|cpu| self.has_away(cpu));
        for (id, task) in self.tasks.iter_mut().enumerate() {
            if !task.untold.is_some_and(|teller| teller == Teller::Anybody || told(id, teller)) {
                continue;
            }
            // It slept elsewhere when it was picked: the cpu that waits for it has to look for another.
            if let Policy::Running(cpu) = task.policy
                && task.slept_on != Some(cpu)
                && !away[usize::from(cpu)]
            {
                self.cpus[usize::from(cpu)].idle = true;
            }
            (task.policy, task.untold, task.slept_on) = (Policy::Blocked, None, None);
        }
    }

    /// The current task blocks; the policy is told later.
    fn block(&mut self, cpu: Cpu) {
        let id = self.current(cpu).expect("it runs one");
        let noted = Some(Teller::Cpu(number(cpu)));
        let is_taken = self.tasks.iter().any(|task| task.untold == noted);
        self.tasks[id].place = Place::Asleep;
        self.tasks[id].slept_on = Some(number(cpu));
        self.tasks[id].untold = if is_taken { Some(Teller::Anybody) } else { noted };
        // Who waits for it has to look for another.
        if let Policy::Running(other) = self.tasks[id].policy {
            self.cpus[usize::from(other)].kicked |= usize::from(other) != cpu;
        }
    }

    /// Nothing is on its way.
    fn is_quiet(&self) -> bool {
        let still = |cpu: Cpu| {
            let idles = self.idles(cpu);
            let Processor { phase, kicked, stops, .. } = self.cpus[cpu];
            phase == Phase::Out && !stops && !(idles && kicked)
        };
        let moves = |task: &Task| match task.place {
            Place::Inbound(_) => true,
            // It reads, for a moment.
            Place::On | Place::Local => task.reads && !task.is_picked_for(task.home.into()),
            _ => false,
        };
        (0..CPUS).all(still) && !self.tasks.iter().any(moves)
    }
}

impl HandOver {
    /// `prorata_enqueue` up to its end or to `redirect`; `owed` if the task's quantum is not over. Where it
    /// was picked for, if it must not run there.
    fn enqueue(&self, state: &mut State, id: Id, home: Cpu, owed: bool, last: bool) -> Option<u8> {
        let wakes = state.tasks[id].place == Place::Asleep;
        let left = !wakes && std::mem::take(&mut state.cpus[home].left);
        state.tell(|other, _| other == id && self.flaw != Flaw::SleepsOn);
        let task = &mut state.tasks[id];
        if task.place != Place::Queueing {
            task.forget_insertions();
        }
        (task.home, task.place) = (number(home), Place::Custody);
        task.confined = task.allowed != ALL;
        let (confined, before) = (task.confined, task.policy);
        let picked_elsewhere = match before {
            Policy::Running(cpu) if usize::from(cpu) != home => Some(usize::from(cpu)),
            _ => None,
        };
        match before {
            Policy::Running(cpu) if owed => {
                if !task.may_run(usize::from(cpu)) {
                    return Some(cpu);
                }
                match picked_elsewhere {
                    Some(_) if self.flaw != Flaw::StaysHere => task.place = Place::Inbound(cpu),
                    _ => state.put_local(id, home),
                }
            }
            Policy::Away if owed => {
                self.begin_away(state, home);
                state.put_local(id, home);
            }
            _ => {
                task.policy = Policy::Waiting;
                let found = || if left { None } else { state.find_idle(home, confined, last) };
                let idle = picked_elsewhere.filter(|_| !left).or_else(found);
                state.kick(idle);
                if state.tasks[id].in_transit && self.flaw != Flaw::LeavesReaders {
                    state.put_local(id, home);
                }
            }
        }
        None
    }

    /// `stop_at_once` and `pick_woken`: a task wakes on a cpu, which stops its own for it.
    fn take_over(&self, state: &mut State, id: Id, cpu: Cpu, last: bool) {
        let current = state.current(cpu).expect("it runs one");
        state.stops -= 1;
        self.enqueue(state, id, cpu, false, last);
        state.tasks[current].policy = Policy::Waiting;
        state.tasks[current].in_transit = self.flaw != Flaw::StopsUnmarked;
        state.tasks[id].policy = Policy::Running(number(cpu));
        state.cpus[cpu].stops = true;
        state.rouse(cpu, last);
        state.put_local(id, cpu);
    }

    /// A cpu gets a task to run outside the policy.
    fn begin_away(&self, state: &mut State, cpu: Cpu) {
        if self.flaw != Flaw::StaysIdle {
            state.cpus[cpu].idle = false;
        }
    }

    /// A lock section: the task, if it is still picked for `cpu`, goes to its own cpu. False if somebody
    /// else has done it.
    fn redirect(&self, state: &mut State, cpu: Cpu, id: Id) -> bool {
        if !state.tasks[id].is_picked_for(cpu) {
            return false;
        }
        state.tasks[id].policy = Policy::Away;
        let home = usize::from(state.tasks[id].home);
        self.begin_away(state, home);
        true
    }

    /// The rest of an enqueue whose task must not run where it was picked for.
    fn send_home(&self, state: &mut State, id: Id, picked_for: Cpu) {
        self.redirect(state, picked_for, id);
        state.put_local(id, usize::from(state.tasks[id].home));
        state.cpus[picked_for].kicked = true;
    }

    /// `leaves_core`: the cpu idles, and one that does already is woken for the task that ran.
    fn leave(&self, state: &mut State, cpu: Cpu, last: bool) {
        let id = state.current(cpu).expect("it ran one");
        let other = state.find_idle(cpu, false, last);
        let task = &mut state.tasks[id];
        (task.policy, task.in_transit, task.reads) = (Policy::Waiting, true, false);
        if self.flaw != Flaw::LeavesAlone {
            state.kick(other);
        }
        (state.cpus[cpu].idle, state.cpus[cpu].left) = (true, true);
        state.cpus[cpu].phase = Phase::Flushing { goes_on: true, asked: true };
    }

    fn decide(&self, state: &mut State, cpu: Cpu, picked: Option<Id>, goes_on: bool) {
        state.cpus[cpu].left = false;
        state.tell(|_, teller| teller == Teller::Cpu(number(cpu)));
        let previous = if goes_on { state.current(cpu) } else { None };
        if let Some(id) = previous {
            let task = &mut state.tasks[id];
            if task.is_picked_for(cpu) || task.policy == Policy::Away {
                task.policy = Policy::Waiting;
            }
            (task.in_transit, task.reads) = (true, false);
        }
        if let Some(task) = state.tasks.iter_mut().find(|task| task.is_picked_for(cpu)) {
            if task.untold.is_some() {
                task.untold = Some(Teller::Anybody);
                state.cpus[cpu].kicked = true;
            }
            state.cpus[cpu].phase = Phase::Flushing { goes_on, asked: true };
            return;
        }
        let has_away = self.flaw != Flaw::StaysIdle && state.has_away(cpu);
        state.cpus[cpu].idle = picked.is_none() && !has_away;
        state.cpus[cpu].phase = match picked {
            None => Phase::Flushing { goes_on, asked: true },
            Some(id) => {
                state.tasks[id].policy = Policy::Running(number(cpu));
                if picked == previous {
                    state.tasks[id].in_transit = false;
                    Phase::Keeping
                } else {
                    state.tasks[id].meant[cpu] = true;
                    Phase::Decided { goes_on }
                }
            }
        };
    }

    /// The insertion, and the look whether the task may run here, and is still to. One in transit is left to
    /// its cpu; one that sleeps is told of, and the cpu asks again.
    fn carry_out(&self, state: &mut State, cpu: Cpu, goes_on: bool) {
        let task = &mut state.tasks[state.meant(cpu)];
        state.cpus[cpu].phase = if task.untold.is_some() {
            (task.meant[cpu], task.untold) = (false, Some(Teller::Anybody));
            state.cpus[cpu].kicked = true;
            Phase::Flushing { goes_on, asked: true }
        } else if task.in_transit && self.flaw != Flaw::RenewsSlices {
            task.meant[cpu] = false;
            Phase::Flushing { goes_on, asked: true }
        } else if !task.is_picked_for(cpu) && self.flaw != Flaw::InsertsSleepers {
            task.meant[cpu] = false;
            state.cpus[cpu].kicked = true;
            Phase::Flushing { goes_on, asked: true }
        } else if task.confined && !task.may_run(cpu) {
            Phase::Refused { goes_on }
        } else {
            task.meant[cpu] = false;
            task.insert(cpu, number(cpu));
            Phase::Flushing { goes_on, asked: true }
        };
    }

    /// The task goes home, and the cpu is asked again: if nothing was inserted, when it idles.
    fn refuse(&self, state: &mut State, cpu: Cpu, goes_on: bool) {
        let id = state.meant(cpu);
        let redirected = self.redirect(state, cpu, id);
        let task = &mut state.tasks[id];
        task.meant[cpu] = false;
        if redirected || self.flaw == Flaw::InsertsAnyway {
            task.insert(cpu, task.home);
        }
        state.cpus[cpu].phase = Phase::Flushing { goes_on, asked: true };
        state.cpus[cpu].kicked = true;
    }

    /// What the kernel does with what was inserted. True if anything was.
    fn move_inserted(state: &mut State, cpu: Cpu) -> bool {
        let mut any = false;
        for id in 0..TASKS {
            let Some(insertion) = state.tasks[id].inserted[cpu].take() else { continue };
            any = true;
            if insertion.counts && state.tasks[id].place == Place::Custody {
                let to = usize::from(insertion.to);
                state.aborted |= !state.tasks[id].may_run(to);
                state.put_local(id, to);
            }
        }
        any
    }

    /// The end of `ops.dispatch`; then the task before comes into our custody.
    fn flush(&self, state: &mut State, cpu: Cpu, (goes_on, asked): (bool, bool), choice: Action) {
        let Action { last, reads, .. } = choice;
        let any = HandOver::move_inserted(state, cpu);
        if let Some(id) = state.current(cpu)
            && std::mem::take(&mut state.tasks[id].renewed)
        {
            state.cpus[cpu].phase = Phase::Out;
            return;
        }
        if any && state.local(cpu).is_none() {
            state.cpus[cpu].phase = Phase::Deciding { goes_on };
            return;
        }
        if let Some(id) = state.current(cpu) {
            let task = &mut state.tasks[id];
            if task.allowed == ALL && self.flaw != Flaw::LooksEarly {
                task.forget_insertions();
                task.place = Place::Queueing;
            }
            (task.in_transit, task.reads) = (reads, reads);
            state.reads -= u8::from(reads);
            let task = &state.tasks[id];
            if task.allowed == ALL {
                let waits = state.waits_in_vain(id);
                state.cpus[cpu].phase = Phase::MakingRoom { asked, waited: waits };
                return;
            }
            self.put_back(state, cpu, id, asked, last);
            return;
        }
        state.switch(cpu);
    }

    /// The rest of `prorata_enqueue` for a cpu's current task that may run everywhere.
    fn make_room(&self, state: &mut State, cpu: Cpu, (asked, waited): (bool, bool), last: bool) {
        let queueing = state.at(cpu, Place::Queueing).or(state.current(cpu));
        let id = queueing.expect("it ran one");
        let early = self.flaw == Flaw::LooksEarly;
        if !(if early { waited } else { state.waits_in_vain(id) }) {
            self.put_back(state, cpu, id, asked, last);
            return;
        }
        state.cpus[cpu].left = false;
        let task = &mut state.tasks[id];
        if early {
            task.forget_insertions();
        }
        task.confined = false;
        task.place = if task.in_transit { Place::Local } else { Place::Custody };
        state.switch(cpu);
    }

    /// The same with the lock held. Who asked has ended the quantum: what the task has now it was given
    /// meanwhile.
    fn put_back(&self, state: &mut State, cpu: Cpu, id: Id, asked: bool, last: bool) {
        let task = &state.tasks[id];
        let owed = asked || task.policy != Policy::Away && !task.is_picked_for(cpu);
        if let Some(picked_for) = self.enqueue(state, id, cpu, owed, last) {
            state.tasks[id].meant[cpu] = true;
            state.cpus[cpu].phase = Phase::Redirecting { picked_for };
            return;
        }
        state.switch(cpu);
    }

    fn bind(&self, state: &mut State, id: Id, allowed: u8, home: Cpu, last: bool) {
        state.changes -= 1;
        let task = &mut state.tasks[id];
        let (place, before) = (task.place, usize::from(task.home));
        task.allowed = allowed;
        if place == Place::Asleep || place == Place::On && task.may_run(before) {
            return;
        }
        (task.in_transit, task.reads) = (false, false);
        if let Some(picked_for) = self.enqueue(state, id, home, true, last) {
            self.send_home(state, id, picked_for.into());
        }
        if place == Place::On {
            state.cpus[before].kicked = true;
        }
    }

    fn task_steps(state: &State, id: Id, push: &mut impl FnMut(Step)) {
        let task = &state.tasks[id];
        let home = usize::from(task.home);
        let cpus = || (0..CPUS).filter(|&cpu| state.lockable(cpu));
        match task.place {
            Place::Asleep => {
                cpus().filter(|&cpu| task.may_run(cpu)).for_each(|cpu| push(Step::Wake(id, cpu)));
                HandOver::take_over_steps(state, id, push);
            }
            Place::Inbound(to) if state.lockable(home) && state.lockable(usize::from(to)) => {
                push(Step::Arrive(id));
            }
            _ => {}
        }
        if state.changes == 0 || !state.lockable(home) {
            return;
        }
        // A task is taken off its cpu by a thread that runs there.
        let stays_on = task.place == Place::On && state.cpus[home].phase != Phase::Out;
        for allowed in 1..ALL {
            if task.place == Place::Asleep || allowed & 1 << home != 0 {
                push(Step::Bind(id, allowed, home));
            } else if !stays_on {
                let allowed_cpus = cpus().filter(|cpu| allowed & 1 << cpu != 0);
                allowed_cpus.for_each(|cpu| push(Step::Bind(id, allowed, cpu)));
            }
        }
    }

    /// Where no cpu idles, and all may run everywhere.
    fn take_over_steps(state: &State, id: Id, push: &mut impl FnMut(Step)) {
        let free = state.tasks.iter().all(|task| task.allowed == ALL);
        if state.stops == 0 || !free || state.idle_bits().next().is_some() {
            return;
        }
        for cpu in (0..CPUS).filter(|&cpu| state.cpus[cpu].phase == Phase::Out) {
            let Some(current) = state.current(cpu) else { continue };
            if !state.tasks[current].is_picked_for(cpu) || state.tasks[current].reads {
                continue;
            }
            push(Step::TakeOver(id, cpu));
        }
    }

    fn cpu_steps(state: &State, cpu: Cpu, push: &mut impl FnMut(Step)) {
        let current = state.current(cpu);
        match state.cpus[cpu].phase {
            Phase::Out if current.is_some() => {
                if !current.is_some_and(|id| state.tasks[id].reads) {
                    push(Step::Block(cpu));
                }
                push(Step::QuantumEnds(cpu));
            }
            Phase::Out if state.cpus[cpu].kicked => push(Step::Schedule(cpu)),
            Phase::Out => {}
            Phase::Deciding { goes_on } => {
                let ended = current.filter(|&id| {
                    let task = &state.tasks[id];
                    goes_on && (task.policy == Policy::Away || task.is_picked_for(cpu))
                });
                // Before it picks it tells.
                let known = state.waiting().filter(|&id| !state.tasks[id].is_told_by(cpu));
                let mut nobody = true;
                for id in known.chain(ended) {
                    push(Step::Decide(cpu, Some(id)));
                    nobody = false;
                }
                if nobody {
                    push(Step::Decide(cpu, None));
                }
                let leaves = |id: Id| {
                    let task = &state.tasks[id];
                    task.is_picked_for(cpu) && task.allowed == ALL && !task.confined
                };
                let told = !(0..TASKS).any(|id| state.tasks[id].is_told_by(cpu));
                if ended.is_some_and(leaves)
                    && told
                    && state.waiting().next().is_none()
                    && !state.has_away(cpu)
                    && state.idle_bits().next().is_some()
                {
                    push(Step::Leave(cpu));
                }
            }
            Phase::Decided { .. } => push(Step::CarryOut(cpu)),
            Phase::MakingRoom { .. } => push(Step::MakeRoom(cpu)),
            Phase::Refused { .. } | Phase::Redirecting { .. } => push(Step::Redirect(cpu)),
            Phase::Flushing { .. } | Phase::Keeping => {
                let free = |other: u8| usize::from(other) == cpu || state.lockable(other.into());
                let can_move = |task: &Task| match task.inserted[cpu] {
                    Some(Insertion { to, counts: true }) => free(to) && free(task.home),
                    _ => true,
                };
                if state.tasks.iter().all(can_move) {
                    push(Step::Flush(cpu));
                }
            }
        }
    }

    fn step(&self, state: &mut State, action: Action) {
        let Action { step, last, .. } = action;
        match step {
            Step::Wake(id, cpu) => {
                self.enqueue(state, id, cpu, false, last);
            }
            Step::TakeOver(id, cpu) => self.take_over(state, id, cpu, last),
            Step::Block(cpu) => {
                state.block(cpu);
                state.schedule(cpu);
            }
            Step::QuantumEnds(cpu) => state.schedule(cpu),
            Step::Schedule(cpu) => {
                state.cpus[cpu].kicked = false;
                state.schedule(cpu);
            }
            Step::Leave(cpu) => self.leave(state, cpu, last),
            Step::Decide(..) | Step::CarryOut(_) | Step::Redirect(_) | Step::Flush(_) => {
                self.dispatch_step(state, action);
            }
            Step::MakeRoom(cpu) => {
                let Phase::MakingRoom { asked, waited } = state.cpus[cpu].phase else {
                    unreachable!("see cpu_steps")
                };
                self.make_room(state, cpu, (asked, waited), last);
            }
            Step::Arrive(id) => {
                let Place::Inbound(to) = state.tasks[id].place else {
                    unreachable!("see task_steps")
                };
                state.aborted |= !state.tasks[id].may_run(to.into());
                state.put_local(id, to.into());
            }
            Step::Bind(id, allowed, home) => self.bind(state, id, allowed, home, last),
        }
    }

    /// A step of a cpu that is in `ops.dispatch`, or behind it.
    fn dispatch_step(&self, state: &mut State, action: Action) {
        let Action { step, last, .. } = action;
        let (Step::Decide(cpu, _) | Step::CarryOut(cpu) | Step::Redirect(cpu) | Step::Flush(cpu)) =
            step
        else {
            unreachable!("see step")
        };
        match (state.cpus[cpu].phase, step) {
            (Phase::Deciding { goes_on }, Step::Decide(_, picked)) => {
                self.decide(state, cpu, picked, goes_on);
                if self.flaw != Flaw::LeavesOthers {
                    state.rouse(cpu, last);
                }
            }
            (Phase::Decided { goes_on }, _) => self.carry_out(state, cpu, goes_on),
            (Phase::Refused { goes_on }, _) => self.refuse(state, cpu, goes_on),
            (Phase::Keeping, _) => {
                HandOver::move_inserted(state, cpu);
                state.cpus[cpu].phase = Phase::Out;
            }
            (Phase::Flushing { goes_on, asked }, _) => {
                self.flush(state, cpu, (goes_on, asked), action);
            }
            (Phase::Redirecting { picked_for }, _) => {
                let id = state.meant(cpu);
                state.tasks[id].meant[cpu] = false;
                self.send_home(state, id, picked_for.into());
                state.switch(cpu);
            }
            _ => unreachable!("see cpu_steps"),
        }
    }
}

impl Model for HandOver {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let task = Task {
            policy: Policy::Blocked,
            place: Place::Asleep,
            home: 0,
            allowed: ALL,
            confined: false,
            in_transit: false,
            reads: false,
            renewed: false,
            untold: None,
            slept_on: None,
            inserted: [None; CPUS],
            meant: [false; CPUS],
        };
        let cpu =
            Processor { phase: Phase::Out, idle: true, kicked: false, stops: false, left: false };
        let state = State {
            tasks: [task; TASKS],
            cpus: [cpu; CPUS],
            changes: self.chances.changes,
            stops: self.chances.stops,
            reads: self.chances.reads,
            aborted: false,
        };
        vec![state.canonical()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let several = state.idle_bits().count() > 1;
        let mut push = |step| {
            let may_read = state.reads > 0 && matches!(step, Step::Flush(_));
            for reads in [false, true] {
                for last in [false, true] {
                    if (last || several) && (!reads || may_read) {
                        actions.push(Action { step, last, reads });
                    }
                }
            }
        };
        (0..TASKS).for_each(|id| HandOver::task_steps(state, id, &mut push));
        (0..CPUS).for_each(|cpu| HandOver::cpu_steps(state, cpu, &mut push));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        self.step(&mut next, action);
        for cpu in 0..CPUS {
            // Before it idles it decides anyway: a kick says nothing new.
            next.cpus[cpu].kicked &=
                next.cpus[cpu].phase != Phase::Out || next.current(cpu).is_none();
        }
        for task in &mut next.tasks {
            // Where it slept says nothing.
            if task.place == Place::Asleep {
                (task.in_transit, task.reads) = (false, false);
                task.home = number(task.allowed.trailing_zeros() as usize);
            }
        }
        Some(next.canonical())
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no task is sent where it must not run", |_, state: &State| {
                !state.aborted
            }),
            Property::always(IDLES, |_, state: &State| {
                let finds_none = |id: Id| {
                    let task = &state.tasks[id];
                    let wanted = |cpu: Cpu| task.allowed == ALL || cpu == usize::from(task.home);
                    !(0..CPUS).any(|cpu| state.idles(cpu) && wanted(cpu))
                };
                !state.is_quiet() || state.waiting().all(finds_none)
            }),
            Property::always(COMES, |_, state: &State| {
                let is_lost = |task: &Task| match task.policy {
                    _ if task.place == Place::Asleep => false,
                    Policy::Running(cpu) => task.place == Place::Custody || task.home != cpu,
                    Policy::Blocked => true,
                    Policy::Waiting | Policy::Away => false,
                };
                !state.is_quiet() || !state.tasks.iter().any(is_lost)
            }),
            Property::always("the policy is told who sleeps", |_, state: &State| {
                let idles = |cpu: u8| state.idles(usize::from(cpu));
                let is_kept = |task: &Task| matches!(task.untold, Some(Teller::Cpu(c)) if idles(c));
                !state.is_quiet() || !state.tasks.iter().any(is_kept)
            }),
            Property::always("each cpu has one task of the policy's", |_, state: &State| {
                let has = |cpu| state.tasks.iter().filter(|task| task.is_picked_for(cpu)).count();
                (0..CPUS).all(|cpu| has(cpu) <= 1)
            }),
        ]
    }
}

const IDLES: &str = "no task waits beside an idle cpu";
const COMES: &str = "a picked task comes";

fn model(flaw: Flaw, chances: Chances) -> CheckerBuilder<HandOver> {
    HandOver { chances, flaw }.checker()
}

fn tasks_come_to_the_cpus_that_want_them(chances: Chances) {
    let checker = model(Flaw::None, chances).spawn_bfs().join();
    println!("the hand-over: {} states", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn tasks_come_where_cpus_change_and_tasks_read() {
    tasks_come_to_the_cpus_that_want_them(Chances { changes: 1, stops: 0, reads: 1 });
}

#[test]
fn tasks_come_where_cpus_change_and_decide_as_a_task_wakes() {
    tasks_come_to_the_cpus_that_want_them(Chances { changes: 1, stops: 1, reads: 0 });
}

#[test]
fn tasks_come_where_tasks_read_and_cpus_decide_as_a_task_wakes() {
    tasks_come_to_the_cpus_that_want_them(Chances { changes: 0, stops: 1, reads: 1 });
}

/// With all that may happen.
fn is_found_out(flaw: Flaw, property: &'static str) {
    is_found_out_of(Chances { changes: 1, stops: 1, reads: 1 }, flaw, property);
}

fn is_found_out_of(chances: Chances, flaw: Flaw, property: &'static str) {
    let found = HasDiscoveries::AnyOf([property].into());
    let checker = model(flaw, chances).finish_when(found).spawn_bfs().join();
    assert!(checker.discovery(property).is_some());
}

#[test]
fn a_kick_that_two_tasks_rely_on_is_found_out() {
    is_found_out(Flaw::LeavesOthers, IDLES);
}

#[test]
fn a_busy_cpu_that_counts_as_idle_is_found_out() {
    is_found_out(Flaw::StaysIdle, IDLES);
}

#[test]
fn a_task_that_is_sent_home_twice_is_found_out() {
    // With all chances at once it takes seven times as long.
    is_found_out_of(Chances { changes: 1, stops: 0, reads: 0 }, Flaw::InsertsAnyway, IDLES);
}

#[test]
fn a_look_before_the_kernel_knows_is_found_out() {
    is_found_out(Flaw::LooksEarly, COMES);
}

#[test]
fn a_slice_that_a_pick_renews_is_found_out() {
    is_found_out(Flaw::RenewsSlices, IDLES);
}

#[test]
fn a_sleeper_that_wakes_untold_is_found_out() {
    is_found_out(Flaw::SleepsOn, COMES);
}

#[test]
fn a_pick_that_is_forgotten_is_found_out() {
    is_found_out(Flaw::StaysHere, COMES);
}

#[test]
fn a_task_that_stops_unmarked_is_found_out() {
    is_found_out(Flaw::StopsUnmarked, IDLES);
}

#[test]
fn a_pick_that_is_over_when_it_is_carried_out_is_found_out() {
    is_found_out(Flaw::InsertsSleepers, IDLES);
}

#[test]
fn a_reader_that_nobody_inserts_is_found_out() {
    is_found_out(Flaw::LeavesReaders, COMES);
}

#[test]
fn a_task_that_leaves_a_core_and_wakes_nobody_is_found_out() {
    is_found_out(Flaw::LeavesAlone, IDLES);
}

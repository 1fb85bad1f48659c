//! Queues with latches of their own (`src/bpf/policies/gdq_distributed.h`), in all ways in which three cpus
//! can meet there as owners, thieves, openers, wakers and blockers.
//!
//! A step is what happens under a queue's latch, or one look at a word without it. A cpu that holds a latch
//! takes further steps, and others come between; looks of a search come one by one. Groups and rounds are
//! left out: there is one group, any waiting task of a queue may be next, a thief may find any queue far
//! behind, and a cpu may be sent away from its queue whenever it picks. Opening and closing a queue, under
//! the group's latch and the queue's, are one step each. A search knows the queues that were open when it
//! began, and looks at them in any order.
//!
//! States that differ in the numbers of cpus, tasks or queues only are one.

use stateright::{Checker, HasDiscoveries, Model, Property};

const CPUS: usize = 3;
const TASKS: usize = 3;
const QUEUES: usize = 6;
/// Times that a task wakes or blocks: in a test of seconds, and where a flaw is to be found.
const FEW_CHANGES: u8 = 4;
const CHANGES: u8 = 5;
/// All tasks, by bit.
const ALL: u8 = (1 << TASKS) - 1;
/// All orders of three: the number that each gets.
const ORDERS: [[u8; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

type Cpu = u8;
type Id = u8;
type QueueId = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Queue {
    open: bool,
    latch: Option<Cpu>,
    /// By bit.
    tasks: u8,
    /// A cpu works on it.
    active: bool,
}

/// Where a cpu is in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum At {
    /// In none: it runs its task, or idles.
    Out,
    /// About to wake a task, in the queue that it has found for it.
    Wakes(Id, Option<QueueId>),
    /// About to block a task that waits in this queue.
    Blocks(Id, QueueId),
    /// Its task's quantum is over.
    Picks,
    /// With the latch of its own queue, and with that of a victim.
    HoldsOwn,
    HoldsBoth(QueueId),
    /// With its own, waiting for another.
    WaitsFor(QueueId),
    /// Its queue is empty, or it has none: it waits for the shares' latch.
    WantsWork,
    /// It has yet to look at these queues, by bit, unless it has found one that can give. First only for its
    /// own queue, which is empty, and without the shares' latch; then with it.
    Searches {
        left: u8,
        found: Option<QueueId>,
        idle: bool,
    },
    /// About to take a stalled queue.
    Adopts {
        queue: QueueId,
        idle: bool,
    },
    /// Its own queue is to have a task of another one: it waits for both latches, in any order.
    Refills {
        from: QueueId,
        idle: bool,
    },
    RefillsWithOne {
        from: QueueId,
        missing: QueueId,
        idle: bool,
    },
    /// Its queue is empty, and its group has no task for it.
    Leaves {
        idle: bool,
    },
    /// It has another queue now, and is to leave this one.
    Abandons(QueueId, Next),
    /// It has left this queue, which is empty, and goes on as told.
    Closes(QueueId, Next),
    /// About to look for an idle cpu.
    Offers,
    OffersTo(Cpu),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Next {
    Done,
    Pick { idle: bool },
    Search { idle: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Processor {
    at: At,
    queue: Option<QueueId>,
    runs: Option<Id>,
    /// It leaves a task to wait.
    offers: bool,
    /// The word.
    idle: bool,
    kicked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct State {
    queues: [Queue; QUEUES],
    cpus: [Processor; CPUS],
    /// By bit: tasks that sleep, and that are being woken.
    blocked: u8,
    waking: u8,
    /// Who has the shares' latch.
    shares: Option<Cpu>,
    /// Changes that may still come.
    changes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// The code as it is.
    None,
    /// A thief trusts what it saw without the latch.
    TrustsLook,
    /// A thief waits for the second latch.
    Waits,
    /// Who wakes trusts that a queue is still open.
    TrustsOpen,
    /// A cpu says that it idles after its last search.
    SearchesEarly,
    /// Who wakes a task kicks nobody.
    WakesSilently,
    /// A cpu whose queue is empty finds it again, since tasks have woken there, and takes both latches.
    RefillsFromItself,
}

struct Queues {
    flaw: Flaw,
    changes: u8,
}

/// A step of a cpu, with what it chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Wake(Id),
    Block(Id, QueueId),
    /// The quantum ends, or its task sleeps.
    End {
        sleeps: bool,
    },
    /// An idle cpu that was kicked.
    Answer,
    SendAway,
    Run(Id),
    Try(QueueId),
    Steal(Id),
    /// What comes next, without a choice.
    On,
    /// The same with this queue.
    With(QueueId),
    Kick(Cpu),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Action(Cpu, Step);

fn bit(id: u8) -> u8 {
    1 << id
}

fn ids(bits: u8) -> impl Iterator<Item = u8> {
    (0..8).filter(move |&id| bits & bit(id) != 0)
}

fn all(count: usize) -> impl Iterator<Item = u8> {
    0..u8::try_from(count).expect("few")
}

impl Queue {
    fn can_give(&self) -> bool {
        self.open && self.tasks.count_ones() > u32::from(self.active)
    }
}

impl State {
    fn queue(&mut self, id: QueueId) -> &mut Queue {
        &mut self.queues[usize::from(id)]
    }

    fn cpu(&mut self, cpu: Cpu) -> &mut Processor {
        &mut self.cpus[usize::from(cpu)]
    }

    fn is_free(&self, queue: QueueId) -> bool {
        self.queues[usize::from(queue)].latch.is_none()
    }

    fn running(&self) -> u8 {
        self.cpus.iter().filter_map(|cpu| cpu.runs).fold(0, |bits, task| bits | bit(task))
    }

    fn waiting(&self, queue: QueueId) -> u8 {
        self.queues[usize::from(queue)].tasks & !self.running()
    }

    fn closed(&self) -> Option<QueueId> {
        all(QUEUES).find(|&id| !self.queues[usize::from(id)].open)
    }

    fn open(&mut self, id: QueueId, active: bool) {
        *self.queue(id) = Queue { open: true, latch: None, tasks: 0, active };
    }

    /// The call is over, but for an offer.
    fn done(&mut self, cpu: Cpu) {
        let processor = self.cpu(cpu);
        let offers = core::mem::take(&mut processor.offers);
        // Who has a task does not idle.
        processor.kicked &= processor.runs.is_none();
        processor.at = if offers { At::Offers } else { At::Out };
    }

    fn go_on(&mut self, cpu: Cpu, next: Next) {
        match next {
            Next::Done => self.done(cpu),
            Next::Pick { idle } => {
                if self.shares == Some(cpu) {
                    self.shares = None;
                }
                self.cpu(cpu).idle &= !idle;
                self.cpu(cpu).at = At::Picks;
            }
            Next::Search { idle } => self.search(cpu, idle),
        }
    }

    /// `cpu` works on this queue no more, whose latch is free or its own.
    fn abandon(&mut self, cpu: Cpu, queue: QueueId, next: Next) {
        let left = self.queue(queue);
        (left.active, left.latch) = (false, None);
        let is_empty = left.tasks == 0;
        if is_empty {
            self.cpu(cpu).at = At::Closes(queue, next);
        } else {
            self.cpu(cpu).offers = true;
            self.go_on(cpu, next);
        }
    }

    fn search(&mut self, cpu: Cpu, idle: bool) {
        let open = all(QUEUES).filter(|&id| self.queues[usize::from(id)].open);
        let left = open.fold(0, |bits, id| bits | bit(id));
        self.cpu(cpu).at = At::Searches { left, found: None, idle };
    }

    fn run(&mut self, cpu: Cpu, task: Id) {
        self.cpu(cpu).runs = Some(task);
    }

    fn is_quiet(&self) -> bool {
        self.cpus.iter().all(|cpu| cpu.at == At::Out)
    }
}

impl Queues {
    fn steps(&self, state: &State, cpu: Cpu) -> Vec<Step> {
        let Processor { at, queue, runs, kicked, .. } = state.cpus[usize::from(cpu)];
        let own = |queue: Option<QueueId>| queue.expect("it has one");
        let when = |is: bool, step: Step| if is { vec![step] } else { Vec::new() };
        match at {
            At::Out => {
                let mut steps = Vec::new();
                if state.changes > 0 {
                    steps.extend(ids(state.blocked & !state.waking).map(Step::Wake));
                    for queue in all(QUEUES) {
                        let waiting = ids(state.waiting(queue));
                        steps.extend(waiting.map(|task| Step::Block(task, queue)));
                    }
                }
                if runs.is_some() {
                    steps.push(Step::End { sleeps: false });
                    steps.extend(when(state.changes > 0, Step::End { sleeps: true }));
                } else if kicked {
                    steps.push(Step::Answer);
                }
                steps
            }
            At::Wakes(_, None) => {
                let open = |&id: &QueueId| state.queues[usize::from(id)].open;
                let found: Vec<Step> = all(QUEUES).filter(open).map(Step::With).collect();
                if found.is_empty() { vec![Step::On] } else { found }
            }
            At::Wakes(_, Some(queue)) | At::Blocks(_, queue) => {
                when(state.is_free(queue), Step::On)
            }
            At::WantsWork => when(state.shares.is_none(), Step::On),
            At::Leaves { .. } => when(state.is_free(own(queue)), Step::On),
            At::Picks if queue.is_none() => vec![Step::On],
            At::Picks => {
                let mut steps = when(state.is_free(own(queue)), Step::On);
                if state.is_free(own(queue)) && state.shares.is_none() {
                    steps.push(Step::SendAway);
                }
                steps
            }
            At::HoldsOwn => {
                let own = own(queue);
                let waiting = state.waiting(own);
                if waiting == 0 {
                    return vec![Step::On];
                }
                let mut steps: Vec<Step> = ids(waiting).map(Step::Run).collect();
                let behind = all(QUEUES).filter(|&id| id != own);
                let gives = |&id: &QueueId| state.queues[usize::from(id)].can_give();
                let may_try = |&id: &QueueId| self.flaw == Flaw::Waits || state.is_free(id);
                steps.extend(behind.filter(gives).filter(may_try).map(Step::Try));
                steps
            }
            At::WaitsFor(other) => when(state.is_free(other), Step::On),
            At::HoldsBoth(victim) => {
                let found = state.queues[usize::from(victim)];
                match self.flaw {
                    Flaw::TrustsLook => ids(found.tasks).map(Step::Steal).collect(),
                    _ if found.can_give() => ids(state.waiting(victim)).map(Step::Steal).collect(),
                    _ => vec![Step::On],
                }
            }
            At::Adopts { queue, .. } => when(state.is_free(queue), Step::On),
            At::Refills { from, .. } => {
                let free = [own(queue), from].into_iter().filter(|&id| state.is_free(id));
                free.map(Step::With).collect()
            }
            At::RefillsWithOne { missing, .. } => when(state.is_free(missing), Step::On),
            At::Abandons(queue, _) | At::Closes(queue, _) => when(state.is_free(queue), Step::On),
            At::Offers => {
                let idle = all(CPUS).filter(|&other| state.cpus[usize::from(other)].idle);
                let idle: Vec<Step> = idle.map(Step::Kick).collect();
                if idle.is_empty() { vec![Step::On] } else { idle }
            }
            At::Searches { left, found: None, .. } if left != 0 => {
                ids(left).map(Step::With).collect()
            }
            At::Searches { .. } | At::OffersTo(_) => vec![Step::On],
        }
    }

    fn step(&self, state: &mut State, cpu: Cpu, step: Step) {
        let Processor { at, queue, runs, .. } = *state.cpu(cpu);
        match (at, step) {
            (At::Out, Step::Wake(task)) => {
                state.waking |= bit(task);
                state.changes -= 1;
                state.cpu(cpu).at = At::Wakes(task, None);
            }
            (At::Out, Step::Block(task, queue)) => {
                state.changes -= 1;
                state.cpu(cpu).at = At::Blocks(task, queue);
            }
            (At::Out, Step::End { sleeps }) => {
                let task = runs.expect("it runs one");
                state.cpu(cpu).runs = None;
                state.changes -= u8::from(sleeps);
                let queue = queue.expect("it runs from one");
                // It blocks the task first, as any other would, and picks then.
                state.cpu(cpu).at = if sleeps { At::Blocks(task, queue) } else { At::Picks };
            }
            (At::Out, _) => state.begin_pick(cpu),
            (At::Wakes(task, None), Step::With(queue)) => {
                state.cpu(cpu).at = At::Wakes(task, Some(queue));
            }
            (At::Wakes(task, None), _) => {
                let queue = state.closed().expect("none is open");
                state.open(queue, false);
                state.cpu(cpu).at = At::Wakes(task, Some(queue));
            }
            (At::Wakes(task, Some(queue)), _) => self.put(state, cpu, task, queue),
            (At::Blocks(task, queue), _) => state.block(cpu, task, queue),
            (At::Picks, Step::SendAway) => {
                let own = queue.expect("it has one");
                state.shares = Some(cpu);
                state.cpu(cpu).queue = None;
                state.abandon(cpu, own, Next::Search { idle: false });
            }
            (At::Picks, _) => match queue {
                Some(own) => {
                    state.queue(own).latch = Some(cpu);
                    state.cpu(cpu).at = At::HoldsOwn;
                }
                None => state.cpu(cpu).at = At::WantsWork,
            },
            (At::WantsWork, _) => {
                state.shares = Some(cpu);
                state.search(cpu, false);
            }
            (At::Leaves { idle }, _) => {
                let own = state.cpu(cpu).queue.take().expect("it has one");
                state.abandon(cpu, own, Next::Search { idle });
            }
            (At::HoldsOwn, Step::Run(task)) => {
                let own = queue.expect("it has one");
                state.run(cpu, task);
                state.finish_pick(cpu, own);
                state.done(cpu);
            }
            (At::HoldsOwn, Step::Try(victim)) => {
                if state.is_free(victim) {
                    state.queue(victim).latch = Some(cpu);
                    state.cpu(cpu).at = At::HoldsBoth(victim);
                } else {
                    state.cpu(cpu).at = At::WaitsFor(victim);
                }
            }
            (At::HoldsOwn, _) => {
                state.queue(queue.expect("it has one")).latch = None;
                state.search(cpu, false);
            }
            (At::WaitsFor(victim), _) => {
                state.queue(victim).latch = Some(cpu);
                state.cpu(cpu).at = At::HoldsBoth(victim);
            }
            (At::HoldsBoth(victim), Step::Steal(task)) => {
                let own = queue.expect("it has one");
                state.queue(victim).tasks &= !bit(task);
                state.queue(victim).latch = None;
                state.queue(own).tasks |= bit(task);
                state.run(cpu, task);
                state.finish_pick(cpu, own);
                let left = state.queue(victim);
                if left.tasks == 0 && !left.active {
                    state.cpu(cpu).at = At::Closes(victim, Next::Done);
                } else {
                    state.done(cpu);
                }
            }
            (At::HoldsBoth(victim), _) => {
                state.queue(victim).latch = None;
                state.cpu(cpu).at = At::HoldsOwn;
            }
            (At::Searches { left, idle, .. }, Step::With(queue)) => {
                let found = Some(queue).filter(|&id| state.queue(id).can_give());
                state.cpu(cpu).at = At::Searches { left: left & !bit(queue), found, idle };
            }
            (At::Searches { found, idle, .. }, _) => self.end_search(state, cpu, found, idle),
            (At::Adopts { queue: new, idle }, _) => {
                let found = state.queue(new);
                if !found.open || found.active || found.tasks == 0 {
                    state.search(cpu, idle);
                    return;
                }
                found.active = true;
                let old = state.cpu(cpu).queue.replace(new);
                let next = Next::Pick { idle };
                match old {
                    Some(old) => state.cpu(cpu).at = At::Abandons(old, next),
                    None => state.go_on(cpu, next),
                }
            }
            (At::Refills { from, idle }, Step::With(first)) => {
                let own = queue.expect("it has one");
                state.queue(first).latch = Some(cpu);
                let missing = if first == own { from } else { own };
                state.cpu(cpu).at = At::RefillsWithOne { from, missing, idle };
            }
            (At::Refills { .. }, _) => unreachable!("it takes one latch or the other"),
            (At::RefillsWithOne { from, missing, idle }, _) => {
                state.refill(cpu, from, missing, idle)
            }
            (At::Abandons(old, next), _) => state.abandon(cpu, old, next),
            (At::Closes(queue, next), _) => {
                let found = state.queue(queue);
                if found.tasks == 0 && !found.active {
                    found.open = false;
                }
                state.go_on(cpu, next);
            }
            (At::Offers, Step::Kick(other)) => state.cpu(cpu).at = At::OffersTo(other),
            (At::Offers, _) => state.cpu(cpu).at = At::Out,
            (At::OffersTo(other), _) => {
                let processor = state.cpu(other);
                // Who comes second looks for another.
                let was_idle = core::mem::take(&mut processor.idle);
                processor.kicked |= was_idle;
                state.cpu(cpu).at = if was_idle { At::Out } else { At::Offers };
            }
        }
    }

    fn put(&self, state: &mut State, cpu: Cpu, task: Id, queue: QueueId) {
        let found = state.queue(queue);
        if !found.open && self.flaw != Flaw::TrustsOpen {
            state.cpu(cpu).at = At::Wakes(task, None);
            return;
        }
        found.tasks |= bit(task);
        state.blocked &= !bit(task);
        state.waking &= !bit(task);
        let is_silent = self.flaw == Flaw::WakesSilently;
        state.cpu(cpu).at = if is_silent { At::Out } else { At::Offers };
    }

    fn end_search(&self, state: &mut State, cpu: Cpu, found: Option<QueueId>, idle: bool) {
        let own = state.cpu(cpu).queue;
        match (found, own) {
            (Some(found), _) if !state.queue(found).active => {
                state.cpu(cpu).at = At::Adopts { queue: found, idle };
            }
            (Some(from), Some(own)) if own != from || self.flaw == Flaw::RefillsFromItself => {
                state.cpu(cpu).at = At::Refills { from, idle };
            }
            // Somebody has woken there.
            (Some(_), Some(_)) => state.go_on(cpu, Next::Pick { idle }),
            (Some(from), None) => {
                let new = state.closed().expect("there are enough");
                state.open(new, true);
                state.cpu(cpu).queue = Some(new);
                state.cpu(cpu).at = At::Refills { from, idle };
            }
            (None, Some(_)) if state.shares != Some(cpu) => state.cpu(cpu).at = At::WantsWork,
            (None, Some(_)) => state.cpu(cpu).at = At::Leaves { idle },
            (None, None) if !idle => {
                state.cpu(cpu).idle = true;
                match self.flaw {
                    Flaw::SearchesEarly => state.idles(cpu),
                    _ => state.search(cpu, true),
                }
            }
            (None, None) => state.idles(cpu),
        }
    }
}

/// Whether these numbers put things in order.
fn sorts<K: Ord>(order: &[u8; 3], keys: &[K; 3]) -> bool {
    let at = |new: u8| order.iter().position(|&number| number == new).map(|old| &keys[old]);
    at(0) <= at(1) && at(1) <= at(2)
}

impl At {
    /// With other numbers of cpus, tasks and queues.
    fn renumbered(
        self,
        cpu: impl Fn(Cpu) -> Cpu,
        task: impl Fn(Id) -> Id,
        queue: impl Fn(QueueId) -> QueueId,
    ) -> At {
        match self {
            At::Wakes(id, target) => At::Wakes(task(id), target.map(queue)),
            At::Blocks(id, at) => At::Blocks(task(id), queue(at)),
            At::HoldsBoth(other) => At::HoldsBoth(queue(other)),
            At::WaitsFor(other) => At::WaitsFor(queue(other)),
            At::Searches { left, found, idle } => {
                let left = ids(left).fold(0, |bits, id| bits | bit(queue(id)));
                At::Searches { left, found: found.map(queue), idle }
            }
            At::Adopts { queue: found, idle } => At::Adopts { queue: queue(found), idle },
            At::Refills { from, idle } => At::Refills { from: queue(from), idle },
            At::RefillsWithOne { from, missing, idle } => {
                At::RefillsWithOne { from: queue(from), missing: queue(missing), idle }
            }
            At::Abandons(left, next) => At::Abandons(queue(left), next),
            At::Closes(left, next) => At::Closes(queue(left), next),
            At::OffersTo(other) => At::OffersTo(cpu(other)),
            At::Out | At::Picks | At::HoldsOwn | At::WantsWork | At::Leaves { .. } | At::Offers => {
                self
            }
        }
    }
}

impl State {
    /// The same for all states that differ in numbers only: the least of those in which cpus and tasks are in
    /// order of what can be said of them without numbers.
    fn canonical(&self) -> State {
        let cpus = self.cpus.map(|cpu| {
            let at = cpu.at.renumbered(|_| 0, |_| 0, |_| 0);
            (at, cpu.queue.is_some(), cpu.runs.is_some(), cpu.offers, cpu.idle, cpu.kicked)
        });
        let running = self.running();
        let tasks = [0, 1, 2].map(|task| {
            let queue = self.queues.iter().find(|queue| queue.tasks & bit(task) != 0);
            let queue =
                queue.map(|queue| (queue.active, queue.tasks.count_ones(), queue.latch.is_some()));
            (queue, self.waking & bit(task) != 0, running & bit(task) != 0)
        });
        let of_tasks: Vec<_> = ORDERS.iter().filter(|order| sorts(order, &tasks)).collect();
        let of_cpus = ORDERS.iter().filter(|order| sorts(order, &cpus));
        let orders = of_cpus.flat_map(|cpus| of_tasks.iter().map(move |tasks| (cpus, tasks)));
        let renumbered = orders.map(|(cpus, tasks)| self.renumbered(cpus, tasks));
        renumbered.min().expect("some order sorts them")
    }

    /// With these numbers of cpus and tasks, and queues in order of what they are and who is at them.
    fn renumbered(&self, cpus: &[u8; CPUS], tasks: &[u8; TASKS]) -> State {
        let cpu = |id: Cpu| cpus[usize::from(id)];
        let task = |id: Id| tasks[usize::from(id)];
        let set = |bits: u8| ids(bits).fold(0, |bits, id| bits | bit(task(id)));
        let mut queues = self.queues.map(|queue| {
            let Queue { latch, tasks, .. } = queue;
            (
                Queue { latch: latch.map(cpu), tasks: set(tasks), ..queue },
                [(false, At::Out); CPUS],
                0,
            )
        });
        for (id, (_, who, old)) in (0..).zip(&mut queues) {
            *old = id;
            for of in all(CPUS) {
                let processor = self.cpus[usize::from(of)];
                // Which queue it is about, as far as it is this one.
                let at = processor.at.renumbered(|_| 0, |_| 0, |other| u8::from(other == id));
                who[usize::from(cpu(of))] = (processor.queue == Some(id), at);
            }
        }
        queues.sort_unstable();
        let mut numbers = [0; QUEUES];
        for (new, &(_, _, old)) in (0..).zip(&queues) {
            numbers[usize::from(old)] = new;
        }
        let queue = |id: QueueId| numbers[usize::from(id)];
        let mut state = self.clone();
        state.queues = queues.map(|(queue, _, _)| queue);
        for old in all(CPUS) {
            let from = self.cpus[usize::from(old)];
            state.cpus[usize::from(cpu(old))] = Processor {
                at: from.at.renumbered(cpu, task, queue),
                queue: from.queue.map(queue),
                runs: from.runs.map(task),
                ..from
            };
        }
        (state.blocked, state.waking) = (set(self.blocked), set(self.waking));
        state.shares = self.shares.map(cpu);
        state
    }

    fn begin_pick(&mut self, cpu: Cpu) {
        let processor = self.cpu(cpu);
        (processor.kicked, processor.idle) = (false, false);
        processor.at = At::Picks;
    }

    fn idles(&mut self, cpu: Cpu) {
        self.shares = None;
        self.done(cpu);
    }

    /// `cpu` has its task, of its own queue, whose latch it lets go.
    fn finish_pick(&mut self, cpu: Cpu, own: QueueId) {
        self.queue(own).latch = None;
        let leaves = self.queue(own).tasks.count_ones() > 1;
        self.cpu(cpu).offers |= leaves;
    }

    fn block(&mut self, cpu: Cpu, task: Id, queue: QueueId) {
        let was_own = self.cpu(cpu).queue == Some(queue) && self.cpu(cpu).runs.is_none();
        let runs = self.running() & bit(task) != 0;
        let found = self.queue(queue);
        if found.tasks & bit(task) != 0 && !runs {
            found.tasks &= !bit(task);
            self.blocked |= bit(task);
        }
        let found = self.queue(queue);
        if was_own {
            self.cpu(cpu).at = At::Picks;
        } else if found.open && found.tasks == 0 && !found.active {
            self.cpu(cpu).at = At::Closes(queue, Next::Done);
        } else {
            self.done(cpu);
        }
    }

    fn refill(&mut self, cpu: Cpu, from: QueueId, missing: QueueId, idle: bool) {
        let own = self.cpu(cpu).queue.expect("it has one");
        let waiting = self.waiting(from);
        let gives = self.queue(from).can_give();
        let task = ids(waiting).next().filter(|_| gives && self.queue(own).tasks == 0);
        if let Some(task) = task {
            self.queue(from).tasks &= !bit(task);
            self.queue(own).tasks |= bit(task);
        }
        self.cpu(cpu).offers |= self.queue(from).can_give();
        self.queue(if missing == own { from } else { own }).latch = None;
        let found = *self.queue(from);
        let next = Next::Pick { idle };
        if self.queue(own).tasks == 0 {
            self.search(cpu, idle);
        } else if task.is_some() && found.tasks == 0 && !found.active {
            self.cpu(cpu).at = At::Closes(from, next);
        } else {
            self.go_on(cpu, next);
        }
    }
}

impl Model for Queues {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let queue = Queue { open: false, latch: None, tasks: 0, active: false };
        let cpu = Processor {
            at: At::Out,
            queue: None,
            runs: None,
            offers: false,
            idle: true,
            kicked: false,
        };
        vec![State {
            queues: [queue; QUEUES],
            cpus: [cpu; CPUS],
            blocked: ALL,
            waking: 0,
            shares: None,
            changes: self.changes,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for cpu in all(CPUS) {
            actions.extend(self.steps(state, cpu).into_iter().map(|step| Action(cpu, step)));
        }
    }

    fn next_state(&self, state: &State, Action(cpu, step): Action) -> Option<State> {
        let mut next = state.clone();
        self.step(&mut next, cpu, step);
        Some(next.canonical())
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a task runs on one cpu", |_, state: &State| {
                let running = state.cpus.iter().filter(|cpu| cpu.runs.is_some()).count();
                state.running().count_ones() as usize == running
            }),
            Property::always("a runnable task is in one open queue", |_, state: &State| {
                let open = state.queues.iter().filter(|queue| queue.open);
                let (mut once, mut twice) = (0, 0);
                for queue in open {
                    twice |= once & queue.tasks;
                    once |= queue.tasks;
                }
                twice == 0 && once == ALL & !state.blocked
            }),
            Property::always("who waits for a latch gets it", |model, state: &State| {
                let can_step = |cpu| !model.steps(state, cpu).is_empty();
                state.is_quiet()
                    || all(CPUS)
                        .any(|cpu| state.cpus[usize::from(cpu)].at != At::Out && can_step(cpu))
            }),
            Property::always("nobody idles while a task waits", |_, state: &State| {
                let waiting: u32 = all(QUEUES).map(|queue| state.waiting(queue).count_ones()).sum();
                let without = || state.cpus.iter().filter(|cpu| cpu.runs.is_none());
                let kicked = without().filter(|cpu| cpu.kicked).count();
                // Who was kicked is about to pick.
                !state.is_quiet() || waiting as usize <= kicked || kicked == without().count()
            }),
        ]
    }
}

fn get_along(changes: u8) {
    let checker = Queues { flaw: Flaw::None, changes }.checker().spawn_bfs().join();
    println!("queues with latches of their own: {} states", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn owners_thieves_and_openers_get_along() {
    get_along(FEW_CHANGES);
}

#[test]
#[ignore = "long: cargo test --release -p scx_prorata --test queue_model -- --ignored --nocapture"]
fn they_get_along_for_longer() {
    get_along(CHANGES);
}

fn is_found_out(flaw: Flaw, property: &'static str) {
    let found = HasDiscoveries::AnyOf([property].into());
    let checker = Queues { flaw, changes: CHANGES }.checker().finish_when(found).spawn_bfs().join();
    assert!(checker.discovery(property).is_some(), "{flaw:?} goes unnoticed");
}

#[test]
fn a_thief_that_trusts_its_look_is_found_out() {
    is_found_out(Flaw::TrustsLook, "a task runs on one cpu");
}

#[test]
fn a_thief_that_waits_is_found_out() {
    is_found_out(Flaw::Waits, "who waits for a latch gets it");
}

#[test]
fn a_waker_that_trusts_its_look_is_found_out() {
    is_found_out(Flaw::TrustsOpen, "a runnable task is in one open queue");
}

#[test]
fn a_cpu_that_idles_after_its_last_search_is_found_out() {
    is_found_out(Flaw::SearchesEarly, "nobody idles while a task waits");
}

#[test]
fn a_cpu_that_wakes_a_task_silently_is_found_out() {
    is_found_out(Flaw::WakesSilently, "nobody idles while a task waits");
}

#[test]
fn a_cpu_that_refills_its_queue_from_itself_is_found_out() {
    is_found_out(Flaw::RefillsFromItself, "who waits for a latch gets it");
}

//! The scheduler's lock (`src/bpf/lock.h`), step by step, in all ways in which three cpus can meet.
//!
//! Each step is one access to a word that another cpu may touch. What is not modelled is the order in
//! which other cpus see a cpu's own stores: every step here that hands something over is a full
//! barrier in the code.

use stateright::{Checker, Model, Property};

const CPUS: usize = 3;
/// Times that each cpu takes the lock.
const ROUNDS: u8 = 3;

/// Where a cpu is in `lock` or `unlock`; numbers are cpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Outside,
    /// It has not got the lock as it came.
    Refused,
    /// Behind another cpu, which does not know yet.
    Behind(usize),
    Waiting,
    /// The first in the queue.
    First,
    /// It has the lock, and still is in the queue.
    Leaving,
    /// Somebody waits behind it, but may not have said who.
    Untold,
    /// It has read who comes next.
    Knows(usize),
    MakesFirst(usize),
    Inside,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    next: Option<usize>,
    granted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    at: [At; CPUS],
    left: [u8; CPUS],
    nodes: [Node; CPUS],
    holder: Option<usize>,
    claimed: bool,
    broken: bool,
    tail: Option<usize>,
    /// Who waits for the lock that it has claimed.
    claimant: Option<usize>,
    /// Somebody has gone before it.
    overtaken: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// The lock as it is.
    None,
    /// Who leaves the queue empties it without looking whether somebody has come.
    NoLook,
    /// Who makes another the first does not forget whom.
    KeepsNext,
    /// Who unlocks takes back what another has claimed.
    ForgetsClaim,
    /// Who has waited for too long goes in.
    EntersUnlocked,
}

struct Lock {
    flaw: Flaw,
    /// Waiting may take too long.
    times_out: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Step(usize),
    /// The first has lost its patience.
    Claim(usize),
    /// It sees that somebody has waited in vain.
    GiveUp(usize),
    TimeOut(usize),
}

impl State {
    /// Out of the lock, or without it for good.
    fn finish(&mut self, cpu: usize) {
        self.left[cpu] -= 1;
        self.at[cpu] = At::Outside;
    }

    fn take(&mut self, cpu: usize) {
        self.overtaken |= self.claimant.is_some_and(|claimant| claimant != cpu);
        if self.claimant == Some(cpu) {
            self.claimant = None;
        }
        self.claimed = false;
        self.holder = Some(cpu);
    }

    fn is_free(&self) -> bool {
        self.holder.is_none() && !self.broken
    }

    fn can_step(&self, cpu: usize) -> bool {
        match self.at[cpu] {
            At::Outside => self.left[cpu] > 0,
            At::Waiting => self.nodes[cpu].granted,
            At::First => self.is_free(),
            At::Untold => self.nodes[cpu].next.is_some(),
            _ => true,
        }
    }

    fn can_claim(&self, cpu: usize) -> bool {
        self.at[cpu] == At::First && !self.broken && self.claimant.is_none()
    }

    fn can_give_up(&self, cpu: usize) -> bool {
        matches!(self.at[cpu], At::Waiting | At::First | At::Untold)
    }
}

impl Lock {
    fn step(&self, state: &mut State, cpu: usize) {
        state.at[cpu] = match state.at[cpu] {
            At::Outside if state.is_free() && !state.claimed => {
                state.take(cpu);
                At::Inside
            }
            At::Outside => At::Refused,
            At::Refused => match state.tail.replace(cpu) {
                None => At::First,
                Some(before) => At::Behind(before),
            },
            At::Behind(before) => {
                state.nodes[before].next = Some(cpu);
                At::Waiting
            }
            At::Waiting => {
                state.nodes[cpu].granted = false;
                At::First
            }
            At::First => {
                state.take(cpu);
                At::Leaving
            }
            At::Leaving if state.tail == Some(cpu) || self.flaw == Flaw::NoLook => {
                state.tail = None;
                At::Inside
            }
            At::Leaving => At::Untold,
            At::Untold => At::Knows(state.nodes[cpu].next.expect("it was waited for")),
            At::Knows(next) => {
                if self.flaw != Flaw::KeepsNext {
                    state.nodes[cpu].next = None;
                }
                At::MakesFirst(next)
            }
            At::MakesFirst(next) => {
                state.nodes[next].granted = true;
                At::Inside
            }
            At::Inside => {
                state.holder = None;
                state.claimed &= self.flaw != Flaw::ForgetsClaim;
                return state.finish(cpu);
            }
        };
    }
}

impl Model for Lock {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let node = Node { next: None, granted: false };
        vec![State {
            at: [At::Outside; CPUS],
            left: [ROUNDS; CPUS],
            nodes: [node; CPUS],
            holder: None,
            claimed: false,
            broken: false,
            tail: None,
            claimant: None,
            overtaken: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend((0..CPUS).filter(|&cpu| state.can_step(cpu)).map(Action::Step));
        actions.extend((0..CPUS).filter(|&cpu| state.can_claim(cpu)).map(Action::Claim));
        let waiting = (0..CPUS).filter(|&cpu| state.can_give_up(cpu));
        if state.broken {
            actions.extend(waiting.map(Action::GiveUp));
        } else if self.times_out {
            actions.extend(waiting.map(Action::TimeOut));
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Step(cpu) => self.step(&mut next, cpu),
            Action::Claim(cpu) => {
                next.claimed = true;
                next.claimant = Some(cpu);
            }
            Action::TimeOut(cpu) if self.flaw == Flaw::EntersUnlocked => next.at[cpu] = At::Inside,
            Action::TimeOut(cpu) | Action::GiveUp(cpu) => {
                next.broken = true;
                next.finish(cpu);
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one at most is inside", |_, state: &State| {
                let inside = |at: &&At| {
                    matches!(
                        at,
                        At::Leaving | At::Untold | At::Knows(_) | At::MakesFirst(_) | At::Inside
                    )
                };
                state.at.iter().filter(inside).count() <= 1
            }),
            Property::always("nobody waits for ever", |_, state: &State| {
                let goes_on = |cpu| state.can_step(cpu) || (state.broken && state.can_give_up(cpu));
                (0..CPUS).any(goes_on) || state.left == [0; CPUS]
            }),
            Property::always("nobody goes before who has claimed it", |_, state: &State| {
                !state.overtaken
            }),
        ]
    }
}

fn check(flaw: Flaw, times_out: bool) -> impl Checker<Lock> {
    Lock { flaw, times_out }.checker().spawn_bfs().join()
}

#[test]
fn one_cpu_at_a_time_and_everybody_gets_in() {
    let checker = check(Flaw::None, false);
    println!("the lock: {} states", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn nobody_enters_after_a_timeout_and_nobody_waits_on() {
    let checker = check(Flaw::None, true);
    println!("the lock with timeouts: {} states", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn a_queue_emptied_without_a_look_is_found_out() {
    let checker = check(Flaw::NoLook, false);
    assert!(checker.discovery("nobody waits for ever").is_some());
}

#[test]
fn a_place_given_to_who_came_before_is_found_out() {
    let checker = check(Flaw::KeepsNext, false);
    assert!(checker.discovery("nobody waits for ever").is_some());
}

#[test]
fn a_claim_that_is_forgotten_is_found_out() {
    let checker = check(Flaw::ForgetsClaim, false);
    assert!(checker.discovery("nobody goes before who has claimed it").is_some());
}

#[test]
fn a_lock_entered_after_a_timeout_is_found_out() {
    let checker = check(Flaw::EntersUnlocked, true);
    assert!(checker.discovery("one at most is inside").is_some());
}

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
    /// Behind another cpu, which does not know yet.
    Behind(usize),
    Waiting,
    Inside,
    /// Somebody has come meanwhile, but may not have said who.
    Untold,
    /// It has read who comes next.
    Knows(usize),
    HandsTo(usize),
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
    tail: Option<usize>,
    broken: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// The lock as it is.
    None,
    /// Who unlocks frees the lock without looking whether somebody has come.
    NoLook,
    /// Who hands the lock over does not forget to whom.
    KeepsNext,
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

    fn can_step(&self, cpu: usize) -> bool {
        match self.at[cpu] {
            At::Outside => self.left[cpu] > 0,
            At::Waiting => self.nodes[cpu].granted,
            At::Untold => self.nodes[cpu].next.is_some(),
            _ => true,
        }
    }

    fn can_give_up(&self, cpu: usize) -> bool {
        matches!(self.at[cpu], At::Waiting | At::Untold)
    }
}

impl Lock {
    fn step(&self, state: &mut State, cpu: usize) {
        state.at[cpu] = match state.at[cpu] {
            At::Outside => match state.tail.replace(cpu) {
                None => At::Inside,
                Some(before) => At::Behind(before),
            },
            At::Behind(before) => {
                state.nodes[before].next = Some(cpu);
                At::Waiting
            }
            At::Waiting if state.nodes[cpu].granted => {
                state.nodes[cpu].granted = false;
                At::Inside
            }
            At::Waiting => unreachable!("nobody has granted it"),
            At::Inside if state.tail == Some(cpu) || self.flaw == Flaw::NoLook => {
                state.tail = None;
                return state.finish(cpu);
            }
            At::Inside => At::Untold,
            At::Untold => At::Knows(state.nodes[cpu].next.expect("it was waited for")),
            At::Knows(next) => {
                if self.flaw != Flaw::KeepsNext {
                    state.nodes[cpu].next = None;
                }
                At::HandsTo(next)
            }
            At::HandsTo(next) => {
                state.nodes[next].granted = true;
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
            tail: None,
            broken: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend((0..CPUS).filter(|&cpu| state.can_step(cpu)).map(Action::Step));
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
                    matches!(at, At::Inside | At::Untold | At::Knows(_) | At::HandsTo(_))
                };
                state.at.iter().filter(inside).count() <= 1
            }),
            Property::always("nobody waits for ever", |_, state: &State| {
                let goes_on = |cpu| state.can_step(cpu) || (state.broken && state.can_give_up(cpu));
                (0..CPUS).any(goes_on) || state.left == [0; CPUS]
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
fn a_lock_freed_without_a_look_is_found_out() {
    let checker = check(Flaw::NoLook, false);
    assert!(checker.discovery("nobody waits for ever").is_some());
}

#[test]
fn a_lock_handed_to_who_came_before_is_found_out() {
    let checker = check(Flaw::KeepsNext, false);
    assert!(checker.discovery("nobody waits for ever").is_some());
}

#[test]
fn a_lock_entered_after_a_timeout_is_found_out() {
    let checker = check(Flaw::EntersUnlocked, true);
    assert!(checker.discovery("one at most is inside").is_some());
}

//! Caches of any size, one for each cpu, kept coherent by the MESI protocol.

/// What an access costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    /// The cpu has the line.
    Hit,
    /// Nobody has it: it comes from memory.
    Memory,
    /// Another cpu has touched it since: it comes from there.
    Fetched,
    /// The cpu has it, and others have to give theirs up before it can store.
    Invalidates,
}

/// The cpus that have a line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Holders {
    Nobody,
    /// Exclusive or modified: it may store without telling anybody.
    Owner(usize),
    Shared(Vec<u64>),
}

/// See the module.
pub(crate) struct Caches {
    cpus: usize,
    lines: Vec<Holders>,
}

impl Caches {
    pub(crate) fn new(cpus: usize) -> Caches {
        Caches { cpus, lines: Vec::new() }
    }

    /// A cpu loads from a line, or stores to it.
    pub(crate) fn access(&mut self, cpu: usize, line: usize, store: bool) -> Cost {
        assert!(cpu < self.cpus, "cpu {cpu} of {}", self.cpus);
        if self.lines.len() <= line {
            self.lines.resize(line + 1, Holders::Nobody);
        }
        let holders = &mut self.lines[line];
        let (word, bit) = (cpu / 64, 1 << (cpu % 64));
        let cost = match holders {
            Holders::Nobody => Cost::Memory,
            Holders::Owner(owner) if *owner == cpu => return Cost::Hit,
            Holders::Owner(_) => Cost::Fetched,
            Holders::Shared(set) if set[word] & bit == 0 => Cost::Fetched,
            Holders::Shared(_) if store => Cost::Invalidates,
            Holders::Shared(_) => return Cost::Hit,
        };
        match holders {
            Holders::Shared(set) if !store => set[word] |= bit,
            Holders::Owner(owner) if !store => {
                let mut set = vec![0; self.cpus.div_ceil(64)];
                set[*owner / 64] |= 1 << (*owner % 64);
                set[word] |= bit;
                *holders = Holders::Shared(set);
            }
            _ => *holders = Holders::Owner(cpu),
        }
        cost
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Caches, Cost};

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum State {
        Modified,
        Exclusive,
        Shared,
        Invalid,
    }

    /// The textbook's: each cache has a state of its own for each line, and sees what others ask for.
    struct Snooping {
        states: Vec<Vec<State>>,
        /// Others keep their copies when a cpu stores: what the model must not do.
        keeps_copies: bool,
    }

    impl Snooping {
        fn access(&mut self, cpu: usize, line: usize, store: bool) -> Cost {
            let of_others = |snooping: &Snooping| {
                let others = (0..snooping.states.len()).filter(|&other| other != cpu);
                others.map(|other| snooping.states[other][line]).collect::<Vec<State>>()
            };
            let others_have_it = of_others(self).iter().any(|&state| state != State::Invalid);
            let own = self.states[cpu][line];
            let cost = match (own, store) {
                (State::Invalid, _) if others_have_it => Cost::Fetched,
                (State::Invalid, _) => Cost::Memory,
                (State::Shared, true) => Cost::Invalidates,
                _ => Cost::Hit,
            };
            for other in (0..self.states.len()).filter(|&other| other != cpu) {
                let state = &mut self.states[other][line];
                if store && !self.keeps_copies {
                    *state = State::Invalid;
                } else if *state != State::Invalid {
                    *state = State::Shared;
                }
            }
            self.states[cpu][line] = match (own, store) {
                (_, true) => State::Modified,
                (State::Invalid, false) if others_have_it => State::Shared,
                (State::Invalid, false) => State::Exclusive,
                (own, false) => own,
            };
            let states: Vec<State> = self.states.iter().map(|states| states[line]).collect();
            let count = |of: State| states.iter().filter(|&&state| state == of).count();
            if !self.keeps_copies {
                let owners = count(State::Modified) + count(State::Exclusive);
                assert!(owners == 0 || (owners == 1 && count(State::Shared) == 0));
            }
            cost
        }
    }

    const CPUS: usize = 70;
    const LINES: usize = 3;

    fn snooping(keeps_copies: bool) -> Snooping {
        Snooping { states: vec![vec![State::Invalid; LINES]; CPUS], keeps_copies }
    }

    /// The first access that costs something else.
    fn differ(accesses: &[(usize, usize, bool)], keeps_copies: bool) -> Option<usize> {
        let (mut caches, mut twin) = (Caches::new(CPUS), snooping(keeps_copies));
        accesses.iter().position(|&(cpu, line, store)| {
            caches.access(cpu, line, store) != twin.access(cpu, line, store)
        })
    }

    fn accesses() -> impl Strategy<Value = Vec<(usize, usize, bool)>> {
        // Few cpus, some of them beyond the first 64.
        let cpu = prop_oneof![0..3usize, 62..66usize, 0..CPUS];
        prop::collection::vec((cpu, 0..LINES, any::<bool>()), 0..300)
    }

    proptest! {
        #[test]
        fn costs_are_the_textbooks(accesses in accesses()) {
            prop_assert_eq!(differ(&accesses, false), None);
        }
    }

    #[test]
    fn a_protocol_that_leaves_old_copies_is_told_apart() {
        assert_eq!(differ(&[(0, 0, false), (1, 0, true), (0, 0, false)], true), Some(2));
    }

    #[test]
    fn costs_by_hand() {
        let mut caches = Caches::new(3);
        let mut access = |cpu, line, store| caches.access(cpu, line, store);
        assert_eq!(access(0, 0, false), Cost::Memory);
        assert_eq!(access(0, 0, true), Cost::Hit, "it had the line for itself");
        assert_eq!(access(1, 0, false), Cost::Fetched);
        assert_eq!(access(0, 0, false), Cost::Hit);
        assert_eq!(access(0, 0, true), Cost::Invalidates);
        assert_eq!(access(1, 0, true), Cost::Fetched);
        assert_eq!(access(2, 1, true), Cost::Memory);
        assert_eq!(access(1, 1, true), Cost::Fetched);
    }
}

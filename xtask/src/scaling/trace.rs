//! What the simulated machine says of its accesses (`crates/scx/tests/accesses.h`), counted.

use std::collections::BTreeMap;
use std::io::Read;

use anyhow::{Result, bail, ensure};

use super::caches::{Caches, Cost};

/// Costs of accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    /// From other cpus.
    pub(crate) fetched: u64,
    /// That others had to give up.
    pub(crate) invalidated: u64,
}

impl Lines {
    fn count(&mut self, cost: Cost) {
        self.fetched += u64::from(cost == Cost::Fetched);
        self.invalidated += u64::from(cost == Cost::Invalidates);
    }

    pub(crate) fn moved(self) -> u64 {
        self.fetched + self.invalidated
    }
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) decisions: u64,
    /// Times that the lock was taken.
    pub(crate) locks: u64,
    pub(crate) all: Lines,
    /// Of them those that are waited for with the lock held.
    pub(crate) held: Lines,
    /// By line.
    by_line: BTreeMap<u32, u64>,
}

const LOAD: u32 = 0;
const STORE: u32 = 1;
const NOTE_CPU: u32 = 0;
const NOTE_LOCK: u32 = 1;
const NOTE_UNLOCK: u32 = 2;
const NOTE_DECISION: u32 = 3;
const NOTE_COUNT: u32 = 4;
/// Numbers read at a time.
const BATCH: usize = 1 << 16;

struct Counter {
    caches: Caches,
    cpu: usize,
    holds: bool,
    traffic: Traffic,
}

impl Traffic {
    /// Reads to the end what a machine of so many cpus wrote.
    pub(crate) fn read(mut from: impl Read, cpus: usize) -> Result<Traffic> {
        let traffic = Traffic::default();
        let mut counter = Counter { caches: Caches::new(cpus), cpu: 0, holds: false, traffic };
        let mut bytes = vec![0; 4 * BATCH];
        loop {
            let read = fill(&mut from, &mut bytes)?;
            let (numbers, rest) = bytes[..read].as_chunks();
            ensure!(rest.is_empty(), "the machine's trace ends within a number");
            for &number in numbers {
                counter.count(u32::from_ne_bytes(number))?;
            }
            if read < bytes.len() {
                ensure!(counter.traffic.decisions > 0, "the machine took no decision");
                return Ok(counter.traffic);
            }
        }
    }

    /// Lines moved by what they belong to: names begin where the table says.
    pub(crate) fn by_name<'a>(&self, names: &'a BTreeMap<u32, String>) -> BTreeMap<&'a str, u64> {
        let mut moved = BTreeMap::new();
        for (&line, &count) in &self.by_line {
            let name = names.range(..=line).next_back().map_or("elsewhere", |(_, name)| name);
            *moved.entry(name).or_default() += count;
        }
        moved
    }
}

impl Counter {
    fn count(&mut self, number: u32) -> Result<()> {
        match number & 3 {
            kind @ (LOAD | STORE) => self.access(number >> 2, kind == STORE),
            2 => self.note(number >> 2 & 63, number >> 8)?,
            _ => bail!("the machine's trace has no such thing as {number:#x}"),
        }
        Ok(())
    }

    fn access(&mut self, line: u32, store: bool) {
        let cost = self.caches.access(self.cpu, line as usize, store);
        self.traffic.all.count(cost);
        if self.holds {
            self.traffic.held.count(cost);
        }
        if matches!(cost, Cost::Fetched | Cost::Invalidates) {
            *self.traffic.by_line.entry(line).or_default() += 1;
        }
    }

    fn note(&mut self, what: u32, number: u32) -> Result<()> {
        match what {
            NOTE_CPU => self.cpu = number as usize,
            NOTE_LOCK => {
                self.holds = true;
                self.traffic.locks += 1;
            }
            NOTE_UNLOCK => self.holds = false,
            NOTE_DECISION => self.traffic.decisions += 1,
            NOTE_COUNT => self.traffic = Traffic::default(),
            _ => bail!("the machine's trace has no note {what}"),
        }
        Ok(())
    }
}

/// Reads until `bytes` is full or nothing more comes.
fn fill(from: &mut impl Read, bytes: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match from.read(&mut bytes[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: &[u32]) -> Result<Traffic> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        Traffic::read(&bytes[..], 2)
    }

    fn load(line: u32) -> u32 {
        line << 2 | LOAD
    }

    fn store(line: u32) -> u32 {
        line << 2 | STORE
    }

    fn note(what: u32, number: u32) -> u32 {
        number << 8 | what << 2 | 2
    }

    #[test]
    fn a_trace_is_counted() {
        let traffic = of(&[
            store(7),
            store(9),
            note(NOTE_COUNT, 0),
            note(NOTE_CPU, 1),
            note(NOTE_DECISION, 0),
            load(7),
            note(NOTE_LOCK, 0),
            store(7),
            store(9),
            load(9),
            note(NOTE_UNLOCK, 0),
            store(5),
        ]);
        let traffic = traffic.expect("it is well formed");
        assert_eq!((traffic.decisions, traffic.locks), (1, 1));
        assert_eq!(traffic.all, Lines { fetched: 2, invalidated: 1 });
        assert_eq!(traffic.held, Lines { fetched: 1, invalidated: 1 });
        let names = [(6, "six".to_string()), (8, "eight".to_string())].into();
        assert_eq!(traffic.by_name(&names), [("six", 2), ("eight", 1)].into());
    }

    #[test]
    fn a_trace_that_is_none_is_refused() {
        assert!(of(&[3]).is_err(), "there is no such kind");
        assert!(of(&[note(63, 0)]).is_err(), "there is no such note");
        assert!(of(&[]).is_err(), "nothing was decided");
        assert!(Traffic::read(&[0_u8; 6][..], 2).is_err(), "half a number");
    }
}

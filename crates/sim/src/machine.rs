//! The simulated machine: cpus, how their quanta begin, and what switching costs.

use prorata::{CpuId, Nanos, Setup};

use crate::random::Random;

/// No length of time is above this (about 2.3 years): sums of a few never overflow.
pub const LONGEST_NS: Nanos = 1 << 56;

/// When quanta begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quanta {
    /// On all cpus together, at multiples of the quantum. A task that gets a cpu in between has it
    /// until the next multiple.
    Synchronised,
    /// As synchronised, but cpu j of P is j/P of a quantum late.
    Staggered,
    /// A quantum begins when a task gets a cpu and lasts a whole quantum. The very first one of
    /// each cpu ends after a random part of a quantum, so that the cpus are out of step.
    Asynchronous,
    /// A quantum begins when a task gets a cpu and lasts a random whole number of ticks, from
    /// `shortest_ns` to a quantum.
    Variable {
        /// Length of the shortest quantum.
        shortest_ns: Nanos,
    },
}

/// When a cpu that the policy left idle although tasks wait asks again. (After every wake-up it
/// asks anyway; a work-conserving policy never leaves it idle.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleLook {
    /// When the quantum that it could have run would have ended.
    Quantum,
    /// At the next tick.
    Tick,
}

/// The machine. Lengths of time are whole nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Number of cpus, 1 to [`Setup::MAX_CPUS`].
    pub cpus: usize,
    /// Length of a quantum; a multiple of `tick_ns`.
    pub quantum_ns: Nanos,
    /// When quanta begin and end.
    pub quanta: Quanta,
    /// Timers expire at multiples of this: quanta end, and sleeping tasks wake, at a tick.
    pub tick_ns: Nanos,
    /// What a cpu spends when it turns from one task to another. It counts as service of the
    /// new task (it is the new task's quantum that passes) but does not advance its work. With
    /// `migration_cost_ns` less than a quantum.
    pub switch_cost_ns: Nanos,
    /// What it spends in addition when the new task last ran on another cpu.
    pub migration_cost_ns: Nanos,
    /// When an idle cpu looks again.
    pub idle_look: IdleLook,
}

impl Machine {
    /// `cpus` cpus with synchronised quanta, ticks of a nanosecond, and no costs.
    #[must_use]
    pub const fn new(cpus: usize, quantum_ns: Nanos) -> Machine {
        Machine {
            cpus,
            quantum_ns,
            quanta: Quanta::Synchronised,
            tick_ns: 1,
            switch_cost_ns: 0,
            migration_cost_ns: 0,
            idle_look: IdleLook::Quantum,
        }
    }

    /// What policies for this machine are built with.
    #[must_use]
    pub fn setup(&self, seed: u64) -> Setup {
        Setup { seed, ..Setup::new(self.cpus, self.quantum_ns) }
    }

    /// Checks the ranges of the fields and what they are to each other.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=Setup::MAX_CPUS).contains(&self.cpus) {
            return Err(format!("{} cpus: give 1 to {}", self.cpus, Setup::MAX_CPUS));
        }
        let lengths = [
            ("quantum", self.quantum_ns),
            ("tick", self.tick_ns),
            ("switch_cost", self.switch_cost_ns),
            ("migration_cost", self.migration_cost_ns),
        ];
        if let Some((key, length)) = lengths.iter().find(|(_, length)| *length > LONGEST_NS) {
            return Err(format!("{key} is {length} ns: give at most {LONGEST_NS} ns"));
        }
        if self.tick_ns == 0 {
            return Err("a tick takes time: make it at least 1ns".into());
        }
        if self.quantum_ns == 0 {
            return Err("a quantum takes time: make it at least 1ns".into());
        }
        if !self.quantum_ns.is_multiple_of(self.tick_ns) {
            return Err(format!(
                "a quantum of {} ns is no multiple of the tick of {} ns: change one of them",
                self.quantum_ns, self.tick_ns
            ));
        }
        self.check_costs()?;
        match self.quanta {
            Quanta::Variable { shortest_ns }
                if !(self.tick_ns..=self.quantum_ns).contains(&shortest_ns) =>
            {
                Err(format!(
                    "the shortest quantum of {shortest_ns} ns is not between a tick ({} ns) and a \
                     quantum ({} ns): choose one that is",
                    self.tick_ns, self.quantum_ns
                ))
            }
            _ => Ok(()),
        }
    }

    /// Who has to switch in each quantum, and comes from another cpu each time, must get on.
    fn check_costs(&self) -> Result<(), String> {
        let (switch_ns, migration_ns) = (self.switch_cost_ns, self.migration_cost_ns);
        if switch_ns + migration_ns < self.quantum_ns {
            return Ok(());
        }
        let (what, remedy) = match migration_ns {
            0 => (format!("a switch costs {switch_ns} ns"), "switch_cost"),
            _ => {
                let both = switch_ns + migration_ns;
                let parts = format!("switch_cost {switch_ns} + migration_cost {migration_ns}");
                (format!("a switch to another cpu costs {both} ns ({parts})"), "these costs")
            }
        };
        Err(format!(
            "{what}, which leaves nothing of a quantum of {} ns: make {remedy} smaller or the quantum \
             longer",
            self.quantum_ns
        ))
    }

    /// The end of a quantum that begins on `cpu` now; `first` if it is the first one of the cpu.
    #[inline]
    pub(crate) fn quantum_end_ns(
        &self,
        cpu: CpuId,
        now_ns: Nanos,
        first: bool,
        random: &mut Random,
    ) -> Nanos {
        let quantum_ns = self.quantum_ns;
        let ticks = |ns: Nanos| ns / self.tick_ns;
        let length_ns = match self.quanta {
            Quanta::Synchronised => quantum_ns - now_ns % quantum_ns,
            Quanta::Staggered => {
                let late_ns = u128::from(quantum_ns) * cpu as u128 / self.cpus as u128;
                #[allow(clippy::cast_possible_truncation)] // below a quantum
                let phase_ns = (now_ns + quantum_ns - late_ns as Nanos) % quantum_ns;
                quantum_ns - phase_ns
            }
            Quanta::Asynchronous if first => (1 + random.below(ticks(quantum_ns))) * self.tick_ns,
            Quanta::Asynchronous => quantum_ns,
            Quanta::Variable { shortest_ns } => {
                let shortest = ticks(shortest_ns);
                (shortest + random.below(ticks(quantum_ns) - shortest + 1)) * self.tick_ns
            }
        };
        self.slice_end_ns(now_ns, length_ns)
    }

    /// The end of a run that begins now and may last `length_ns`.
    #[inline]
    pub(crate) fn slice_end_ns(&self, now_ns: Nanos, length_ns: Nanos) -> Nanos {
        if self.tick_ns == 1 {
            return now_ns + length_ns;
        }
        // Down to a tick, so that no run is longer than it may be.
        let end_ns = (now_ns + length_ns) / self.tick_ns * self.tick_ns;
        if end_ns > now_ns { end_ns } else { now_ns + length_ns }
    }

    /// The first tick that is not before `at_ns`.
    #[inline]
    pub(crate) const fn tick_from(&self, at_ns: Nanos) -> Nanos {
        if self.tick_ns == 1 {
            return at_ns;
        }
        at_ns.div_ceil(self.tick_ns) * self.tick_ns
    }
}

//! What a task was charged for, and what it really used: both as totals, so that nothing that
//! runs between a reading and a stop is ever lost.

use prorata::Nanos;

/// The account of one task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Charged to the policy so far.
    charged_ns: Nanos,
    /// What the policy was told of what was used.
    told_ns: Nanos,
    /// Really used so far, as last read or estimated.
    used_ns: Nanos,
}

impl Ledger {
    /// CPU time used so far, as last read.
    #[must_use]
    pub fn used_ns(&self) -> Nanos {
        self.used_ns
    }

    /// The total that the task has used: read, or estimated until it can be read.
    pub fn set_used(&mut self, used_ns: Nanos) {
        self.used_ns = used_ns;
    }

    /// How long the task may run now on one more cpu, so that at the end it has used exactly what
    /// it will have been charged for: a slice (mostly a quantum), plus what it is owed, less what it
    /// owes. 0 if it has used up the slice already. Its turns on other cpus will be charged `accrued_ns` for
    /// what it has used in them so far.
    #[must_use]
    pub fn allotment_ns(&self, slice_ns: Nanos, accrued_ns: Nanos) -> Nanos {
        (self.charged_ns + accrued_ns + slice_ns).saturating_sub(self.used_ns)
    }

    /// What the task has used and not been charged for, nor will be for its turns on other cpus.
    #[must_use]
    pub fn debt_ns(&self, accrued_ns: Nanos) -> Nanos {
        self.used_ns.saturating_sub(self.charged_ns + accrued_ns)
    }

    /// What the task has used and the policy was not told of, but for what its turns on other cpus will tell,
    /// about `accrued_ns`.
    pub fn tell_used(&mut self, accrued_ns: Nanos) -> Nanos {
        let ran_ns = self.used_ns.saturating_sub(self.told_ns + accrued_ns);
        self.told_ns += ran_ns;
        ran_ns
    }

    /// The slice ran out: charges it whole, and returns it.
    pub fn charge_whole(&mut self, slice_ns: Nanos) -> Nanos {
        self.charged_ns += slice_ns;
        slice_ns
    }

    /// The turn ended before: charges and returns what it used, at most a slice; the rest stays on
    /// the ledger.
    pub fn charge_used(&mut self, slice_ns: Nanos, accrued_ns: Nanos) -> Nanos {
        let charge_ns = self.debt_ns(accrued_ns).min(slice_ns);
        self.charged_ns += charge_ns;
        charge_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_is_told_once() {
        let mut ledger = Ledger::default();
        ledger.set_used(12);
        assert_eq!(ledger.tell_used(3), 9);
        assert_eq!(ledger.tell_used(0), 3);
        // An estimate was too high.
        ledger.set_used(10);
        assert_eq!(ledger.tell_used(0), 0);
    }

    #[test]
    fn an_overrun_shortens_the_next_run() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.allotment_ns(10, 0), 10);
        ledger.charge_whole(10);
        ledger.set_used(13);
        assert_eq!(ledger.allotment_ns(10, 0), 7);
    }

    #[test]
    fn what_a_task_was_denied_lengthens_its_next_run() {
        let mut ledger = Ledger::default();
        ledger.charge_whole(10);
        ledger.set_used(6);
        assert_eq!(ledger.allotment_ns(10, 0), 14);
    }

    #[test]
    fn turns_on_other_cpus_are_no_debt() {
        let mut ledger = Ledger::default();
        ledger.set_used(4);
        assert_eq!(ledger.allotment_ns(10, 4), 10);
        assert_eq!(ledger.allotment_ns(10, 3), 9);
        assert_eq!(ledger.charge_used(10, 3), 1);
    }

    #[test]
    fn a_debt_of_more_than_a_quantum_is_paid_over_several() {
        let mut ledger = Ledger::default();
        ledger.set_used(25);
        assert_eq!(ledger.allotment_ns(10, 0), 0);
        assert_eq!(ledger.charge_used(10, 0), 10);
        assert_eq!(ledger.debt_ns(0), 15);
        assert_eq!(ledger.charge_used(10, 0), 10);
        assert_eq!(ledger.charge_used(10, 0), 5);
        assert_eq!(ledger.charge_used(10, 0), 0);
    }
}

//! A model of cpus that meet at one lock: a closed queueing network, solved by mean value analysis (Reiser
//! and Lavenberg, 1980). Each cpu computes for a while, then queues for the lock, holds it, and computes
//! again. Both times are taken as exponentially distributed: real ones vary less, and wait less.

/// One cycle of a cpu, between two visits to the lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cycle {
    /// Time that the cpu is away from the lock.
    pub(crate) away_ns: f64,
    /// Time that it holds it.
    pub(crate) held_ns: f64,
}

impl Cycle {
    /// How long a visit takes, waiting and holding, where so many cpus go round.
    pub(crate) fn visit_ns(self, cpus: u32) -> f64 {
        let (mut queued, mut visit_ns) = (0.0, 0.0);
        for present in 1..=cpus {
            // Who comes finds what one cpu less would see on average.
            visit_ns = self.held_ns * (1.0 + queued);
            queued = f64::from(present) * visit_ns / (self.away_ns + visit_ns);
        }
        visit_ns
    }

    /// With how many cpus the lock would be held all the time if nobody ever waited.
    pub(crate) fn knee_cpus(self) -> f64 {
        (self.away_ns + self.held_ns) / self.held_ns
    }
}

#[cfg(test)]
mod tests {
    use super::Cycle;

    /// The same from the balance of the birth-death process of the number of cpus at the lock.
    fn by_balance(cycle: Cycle, cpus: u32) -> f64 {
        let mut chances = vec![1.0];
        for at_lock in 0..cpus {
            let away = f64::from(cpus - at_lock);
            chances.push(chances[at_lock as usize] * away * cycle.held_ns / cycle.away_ns);
        }
        let sum: f64 = chances.iter().sum();
        let mean: f64 = (0..).zip(&chances).map(|(n, chance)| f64::from(n) * chance / sum).sum();
        let per_ns = (1.0 - chances[0] / sum) / cycle.held_ns;
        mean / per_ns
    }

    #[test]
    fn visits_are_those_of_the_balanced_process() {
        for (away_ns, held_ns) in [(100.0, 1.0), (10.0, 1.0), (1.0, 1.0), (3.0, 7.0)] {
            let cycle = Cycle { away_ns, held_ns };
            for cpus in 1..=60 {
                let (found, exact) = (cycle.visit_ns(cpus), by_balance(cycle, cpus));
                assert!((found / exact - 1.0).abs() < 1e-9, "{cycle:?}, {cpus}: {found}, {exact}");
            }
        }
    }

    #[test]
    fn nobody_waits_alone_and_everybody_behind_a_lock_that_is_always_held() {
        let cycle = Cycle { away_ns: 99.0, held_ns: 1.0 };
        assert!((cycle.visit_ns(1) - 1.0).abs() < 1e-12);
        assert!((cycle.knee_cpus() - 100.0).abs() < 1e-12);
        // A cycle lasts as long as all visits: 1000 - 99 of it are a visit.
        assert!((cycle.visit_ns(1000) - 901.0).abs() < 1e-6);
    }
}

//! Processes that fork, sleep and end, under kept turns ([`Turns`]), where who ends leaves what he was paid
//! and did not use, and who begins has some in advance, as in the kernel (`estate.h` of `scx_prorata`).

use prorata::policies::Entry;
use prorata::{Nanos, Policy, Setup, TaskId, Turns, Weight};

use crate::sleepers::{Inner, QUANTUM_NS, by_weight, turns};
use crate::{Context, Random, on_all_cpus};

const PROCESSES: usize = 12;
const HOGS: usize = 3;
const MOST_NS: i64 = 8 * QUANTUM_NS as i64;
const DEBT_NS: i64 = 4 * QUANTUM_NS as i64;
const ADVANCE_NS: i64 = QUANTUM_NS as i64 / 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Asleep { until_ns: Nanos },
    Awake,
}

#[derive(Clone, Copy)]
struct Run {
    process: usize,
    since_ns: Nanos,
    end_ns: Nanos,
    lent_ns: Nanos,
}

/// A family of processes beside hogs, which have the numbers behind theirs.
struct Machine {
    policy: Turns<Inner>,
    random: Random,
    now_ns: Nanos,
    estate_ns: i64,
    /// What the estate could not hold.
    lapsed_ns: Nanos,
    /// What was left of each process's job.
    jobs_ns: [Nanos; PROCESSES],
    states: [State; PROCESSES],
    runs: Vec<Option<Run>>,
    served_ns: Nanos,
    /// What those that ended received between their turns.
    unpaid_ns: Nanos,
    /// What new processes have in advance nobody has paid for: the control.
    gives_freely: bool,
}

fn task(process: usize) -> TaskId {
    TaskId(u32::try_from(process).expect("they are few"))
}

impl Machine {
    fn new(entry: &Entry, cpus: usize, seed: u64, gives_freely: bool) -> Machine {
        let setup = Setup::new(cpus, QUANTUM_NS);
        let mut machine = Machine {
            policy: turns(entry, &setup),
            random: Random(seed),
            now_ns: 0,
            estate_ns: 0,
            lapsed_ns: 0,
            jobs_ns: [0; PROCESSES],
            states: [State::Free; PROCESSES],
            runs: vec![None; cpus],
            served_ns: 0,
            unpaid_ns: 0,
            gives_freely,
        };
        for hog in PROCESSES..PROCESSES + HOGS {
            machine.policy.add(task(hog), Weight::ONE);
            machine.policy.wake(task(hog), 0);
        }
        machine.begin(0, 0);
        (0..cpus).for_each(|cpu| machine.pick(cpu));
        machine
    }

    fn job_ns(&mut self) -> Nanos {
        1 + self.random.next()
            % [100_000, 1_000_000, 3_000_000, 20_000_000][self.random.below(4) as usize]
    }

    fn begin(&mut self, process: usize, advance_ns: i64) {
        self.policy.add(task(process), Weight::ONE);
        if advance_ns > 0 {
            self.policy.endow(task(process), advance_ns.cast_unsigned());
        }
        self.policy.wake(task(process), self.now_ns);
        self.states[process] = State::Awake;
        self.jobs_ns[process] = self.job_ns();
    }

    /// The process of a run forks, and lends what the estate is short of.
    fn fork(&mut self, run: &mut Run) {
        let Some(child) = self.states.iter().position(|&state| state == State::Free) else {
            return;
        };
        if self.gives_freely {
            return self.begin(child, ADVANCE_NS);
        }
        let wanted_ns = (ADVANCE_NS - self.estate_ns).max(0).cast_unsigned();
        let taken_ns = self.policy.take_credit(task(run.process), wanted_ns);
        let left_ns = (run.end_ns - self.now_ns).min(wanted_ns - taken_ns);
        run.end_ns -= left_ns;
        run.lent_ns += left_ns;
        self.estate_ns += (taken_ns + left_ns).cast_signed();
        let mut advance_ns = ADVANCE_NS.min(self.estate_ns + DEBT_NS);
        if advance_ns < ADVANCE_NS / 2 {
            advance_ns = 0;
        }
        self.estate_ns -= advance_ns;
        self.begin(child, advance_ns);
    }

    /// A process, which waits, ends; the last one leaves another behind.
    fn end(&mut self, process: usize) {
        self.unpaid_ns += self.policy.unpaid_ns(task(process));
        self.policy.block(task(process), self.now_ns);
        self.estate_ns += self.policy.retire(task(process), self.now_ns);
        self.lapsed_ns += (self.estate_ns - MOST_NS).max(0).cast_unsigned();
        self.estate_ns = self.estate_ns.min(MOST_NS);
        self.policy.remove(task(process), self.now_ns);
        self.states[process] = State::Free;
        if self.states.iter().all(|&state| state == State::Free) {
            self.begin(process, 0);
        }
    }

    /// The run on a cpu is over, or its process's job is.
    fn settle(&mut self, cpu: usize) {
        let Some(mut run) = self.runs[cpu].take() else { return };
        let used_ns = self.now_ns - run.since_ns;
        let process = run.process;
        let is_of_family = process < PROCESSES;
        let is_done = is_of_family && self.jobs_ns[process] == used_ns;
        if is_done && self.random.below(2) == 0 {
            self.jobs_ns[process] = used_ns + self.job_ns();
            self.fork(&mut run);
            if run.end_ns > self.now_ns {
                self.runs[cpu] = Some(run);
                return;
            }
        }
        self.policy.charge(task(process), used_ns + run.lent_ns, self.now_ns);
        if !is_of_family {
            return;
        }
        self.served_ns += used_ns;
        self.jobs_ns[process] -= used_ns;
        if self.jobs_ns[process] > 0 {
            return;
        }
        if self.random.below(2) == 0 {
            self.end(process);
        } else {
            self.policy.block(task(process), self.now_ns);
            self.states[process] = State::Asleep { until_ns: self.now_ns + self.job_ns() };
        }
    }

    fn wake_all(&mut self) {
        for process in 0..PROCESSES {
            let State::Asleep { until_ns } = self.states[process] else { continue };
            if until_ns <= self.now_ns {
                self.policy.wake(task(process), self.now_ns);
                self.states[process] = State::Awake;
                self.jobs_ns[process] = self.job_ns();
            }
        }
    }

    fn pick(&mut self, cpu: usize) {
        let picked = self.policy.pick(cpu, self.now_ns);
        self.runs[cpu] = picked.map(|task| {
            let slice_ns = self.policy.slice_ns(task).unwrap_or(QUANTUM_NS);
            let (since_ns, end_ns) = (self.now_ns, self.now_ns + slice_ns);
            Run { process: task.index(), since_ns, end_ns, lent_ns: 0 }
        });
    }

    fn ends_ns(&self, run: &Run) -> Nanos {
        let job_ns = self.jobs_ns.get(run.process).map_or(Nanos::MAX, |left| run.since_ns + left);
        run.end_ns.min(job_ns)
    }

    fn step(&mut self) {
        let ends = self.runs.iter().flatten().map(|run| self.ends_ns(run));
        let wakes = self.states.iter().filter_map(|&state| match state {
            State::Asleep { until_ns } => Some(until_ns),
            State::Free | State::Awake => None,
        });
        self.now_ns = ends.chain(wakes).min().expect("hogs run").max(self.now_ns);
        for cpu in 0..self.runs.len() {
            if self.runs[cpu].is_some_and(|run| self.ends_ns(&run) == self.now_ns) {
                self.settle(cpu);
            }
        }
        self.wake_all();
        let idle = (0..self.runs.len()).filter(|&cpu| self.runs[cpu].is_none());
        idle.collect::<Vec<_>>().into_iter().for_each(|cpu| self.pick(cpu));
        while let Some(cpu) = self.policy.interrupt(self.now_ns) {
            self.settle(cpu);
            if self.runs[cpu].is_none() {
                self.pick(cpu);
            }
        }
    }

    /// How much more the family received than it was paid for.
    fn lead_ns(&self) -> i64 {
        let paid_ns: Nanos = self.policy.inner().paid_ns.iter().take(PROCESSES).sum();
        let alive = (0..PROCESSES).filter(|&process| self.states[process] != State::Free);
        let unpaid_ns = alive.map(|process| self.policy.unpaid_ns(task(process))).sum::<Nanos>();
        let due_ns = paid_ns + self.unpaid_ns + unpaid_ns;
        self.served_ns.cast_signed() - due_ns.cast_signed()
    }
}

/// The most and the least by which the family led, in quanta, what lapsed taken for received.
fn leads(entry: &Entry, cpus: usize, seed: u64, gives_freely: bool) -> (f64, f64) {
    let mut machine = Machine::new(entry, cpus, seed, gives_freely);
    let (mut most, mut least) = (0, 0);
    while machine.now_ns < 1_000 * QUANTUM_NS {
        machine.step();
        most = most.max(machine.lead_ns());
        least = least.min(machine.lead_ns() + machine.lapsed_ns.cast_signed());
    }
    (most as f64 / QUANTUM_NS as f64, least as f64 / QUANTUM_NS as f64)
}

/// A family receives no more than it is paid for, the debts of its estate and the turns in progress. Where
/// what is used is charged for, so that nothing of a credit lapses, it receives all that it is paid for but
/// what the estate and the credits of those who live hold.
#[test]
fn families_receive_what_they_are_paid_for() {
    on_all_cpus(&by_weight(), &[1, 2], |entry, cpus| {
        for seed in 0..6 {
            let _context = Context(format!("families, seed {seed}"));
            let (most, least) = leads(entry, cpus, seed, false);
            let held = 8.0 + (PROCESSES as u64 * entry.payment.cap_quanta) as f64;
            assert!(most <= 4.0 + cpus as f64, "the family leads by {most:.1} quanta");
            assert!(entry.payment.whole || least >= -held, "it lacks {least:.1} quanta");
        }
    });
}

/// The control: where what new processes have in advance is a gift, who forks and ends gains.
#[test]
fn gifts_would_be_noticed() {
    for entry in by_weight() {
        let (most, _) = leads(&entry, 1, 1, true);
        assert!(most > 6.0, "{}: {most:.1} quanta", entry.name);
    }
}

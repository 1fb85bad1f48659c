//! Newcomers that follow each other: each runs for a quantum and is gone when the next one comes. What is
//! due to who stays is the same as if one task ran in their place.

use prorata::policies::{self, find};
use prorata::{Checked, Nanos, Policy, Setup, TaskId, Weight};

use crate::common::{QUANTUM_NS, start, weight};
use crate::sleepers::by_weight;
use crate::{Context, on_all_cpus};

const QUANTA: u64 = 3000;
/// What newcomers weigh beside hogs of weight 1.
const WEIGHTS: [u32; 3] = [1, 2, 8];

struct Scene<P> {
    policy: P,
    newcomer: TaskId,
    weight: Weight,
}

impl<P: Policy> Scene<P> {
    fn comes(&mut self, now_ns: Nanos) {
        self.policy.add(self.newcomer, self.weight);
        self.policy.wake(self.newcomer, now_ns);
    }

    fn goes(&mut self, now_ns: Nanos) {
        self.policy.block(self.newcomer, now_ns);
        self.policy.remove(self.newcomer, now_ns);
    }

    /// For how many quanta hogs run.
    fn play(&mut self, cpus: usize) -> f64 {
        self.comes(0);
        let mut running = vec![None; cpus];
        let mut served_ns = 0;
        for (quantum, cpu) in
            (0..QUANTA).flat_map(|quantum| (0..cpus).map(move |cpu| (quantum, cpu)))
        {
            let now_ns = (quantum * cpus as u64 + cpu as u64) * QUANTUM_NS / cpus as u64;
            if let Some((task, since_ns)) = running[cpu].take() {
                self.policy.charge(task, now_ns - since_ns, now_ns);
                if task == self.newcomer {
                    self.goes(now_ns);
                    self.comes(now_ns);
                } else {
                    served_ns += now_ns - since_ns;
                }
            }
            running[cpu] = self.policy.pick(cpu, now_ns).map(|task| (task, now_ns));
        }
        served_ns as f64 / QUANTUM_NS as f64
    }
}

/// What two hogs a cpu receive beside newcomers that weigh so much, of what is due to them.
fn received(policy: impl Policy, cpus: usize, newcomers: u32) -> f64 {
    let hogs = 2 * cpus;
    let policy = start(policy, &vec![1; hogs]);
    let newcomer = TaskId(u32::try_from(hogs).expect("few"));
    let mut scene = Scene { policy, newcomer, weight: weight(newcomers) };
    let (cpus_f64, newcomers) = (cpus as f64, f64::from(newcomers));
    let newcomers_due = (cpus_f64 * newcomers / (newcomers + hogs as f64)).min(1.0);
    scene.play(cpus) / (cpus_f64 - newcomers_due) / QUANTA as f64
}

fn least(name: &str, setup: &Setup) -> f64 {
    let of = |newcomers| {
        let policy = policies::build(name, setup).expect("it is registered");
        received(Checked::new(policy, setup), setup.cpus, newcomers)
    };
    WEIGHTS.into_iter().map(of).fold(f64::INFINITY, f64::min)
}

#[test]
fn take_nothing_from_who_stays() {
    on_all_cpus(&by_weight(), &[1, 2, 4], |entry, cpus| {
        let received = least(entry.name, &Setup::new(cpus, QUANTUM_NS));
        assert!(received >= 0.99, "hogs receive {received:.3}");
    });
}

/// Those whose clock is what the machine has served do not need corrected turns for it.
#[test]
fn take_nothing_from_who_stays_by_the_rules_of_the_papers() {
    let entries =
        ["wfq", "mfq", "dfs", "dfs-fa", "msfq", "wf2q", "stride", "gdq", "vtrr", "wrr", "drr"]
            .map(|name| *find(name).expect("it is registered"));
    on_all_cpus(&entries, &[1, 2, 4], |entry, cpus| {
        let received = least(entry.name, &Setup::new(cpus, QUANTUM_NS).as_in_papers());
        assert!(received >= 0.99, "hogs receive {received:.3}");
    });
}

/// By the rules of these alone, each newcomer comes first; it shows that the scene finds such policies.
#[test]
fn starve_who_stays_where_each_comes_first() {
    for name in ["gr3", "sfq", "srr", "stratified", "eevdf"] {
        let _context = Context(name.to_string());
        let received = least(name, &Setup::new(1, QUANTUM_NS).as_in_papers());
        assert!(received < 0.01, "hogs receive {received:.3}");
    }
}

//! Decisions per second of processor time of the event engine, and memory per task, on the
//! workloads of the project's targets. Best on a quiet machine: `cargo bench -p prorata-sim`.

use prorata::policies::gdq::Gdq;
use prorata::policies::gr3::Gr3;
use prorata::policies::round_robin::RoundRobin;
use prorata::{Policy, Setup, Weight};
use prorata_sim::engine::Engine;
use prorata_sim::machine::{Machine, Quanta};
use prorata_sim::random::Random;
use prorata_sim::workload::{Cgroups, Group, Length, Op, Program, Workload, parse_toml};
use rustix::time::{ClockId, clock_gettime};

const QUANTUM_NS: u64 = 1_000_000;

/// Tasks of random weights 1..=1024, one group each sixteen, in step with nobody.
fn workload(cpus: usize, tasks: u32, program: &Program, duration_ns: u64) -> Workload {
    let mut random = Random::new(1, 0);
    let mut group = |number: u32| Group {
        name: format!("group {number}"),
        count: tasks / 16,
        weight: u32::try_from(1 + random.below(1024)).ok().and_then(Weight::new).expect("1..=1024"),
        arrival: Length::Uniform(0, QUANTUM_NS),
        program: program.clone(),
    };
    let groups = (0..16).map(&mut group).collect();
    let machine = Machine { quanta: Quanta::Asynchronous, ..Machine::new(cpus, QUANTUM_NS) };
    Workload {
        machine,
        duration_ns,
        seed: 1,
        groups,
        resources: vec![],
        cgroups: Cgroups::default(),
    }
}

/// Runs for up to `quanta` quanta, sleeps for up to `longest_ns`, again and again.
fn sleepers(quanta: u64, longest_ns: u64) -> Program {
    let ops = vec![
        Op::Run(Length::Uniform(QUANTUM_NS / 10, quanta * QUANTUM_NS)),
        Op::Sleep(Length::Uniform(QUANTUM_NS / 10, longest_ns)),
        Op::Goto { to: 0 },
    ];
    Program { ops, slots: 0 }
}

/// What this thread has used of a processor: other processes cost it caches, but no time.
fn processor_seconds() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Bytes of memory that this process uses now, without what it maps from files.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib =
        status.lines().find_map(|line| line.strip_prefix("RssAnon:")?.split(' ').rev().nth(1));
    kib.and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Measures in a process of its own: one that has freed memory takes that again, and less anew.
fn measure<P: Policy>(name: &str, workload: &Workload, build: impl Fn(&Setup) -> P) {
    match std::env::args().nth(1).filter(|word| !word.starts_with('-')) {
        Some(only) if only == name => measure_here(name, workload, build),
        Some(only) if !name.contains(&only) => {}
        _ => {
            let program = std::env::current_exe().expect("this program");
            let status = std::process::Command::new(program).arg(name).status();
            assert!(status.is_ok_and(|status| status.success()), "{name}");
        }
    }
}

fn measure_here<P: Policy>(name: &str, workload: &Workload, build: impl Fn(&Setup) -> P) {
    let mut best = f64::INFINITY;
    let mut decisions = 0;
    let mut bytes = 0;
    for _ in 0..3 {
        let before = resident_bytes();
        let policy = build(&workload.machine.setup(workload.seed));
        let mut engine = Engine::new(workload, policy, ()).expect("a workload");
        let begin = processor_seconds();
        engine.simulate().expect("a workload");
        best = best.min(processor_seconds() - begin);
        decisions = engine.totals().decisions;
        bytes = bytes.max(resident_bytes().saturating_sub(before));
    }
    // With few tasks, what the process takes is not what they take.
    let memory = match workload.tasks() {
        tasks if tasks < 100_000 => String::new(),
        tasks => format!(" {:>6} bytes/task", bytes / tasks),
    };
    println!(
        "{name:<58} {:>6.2} M decisions/s {:>7.1} ns{memory}",
        decisions as f64 / best / 1e6,
        best * 1e9 / decisions as f64,
    );
}

fn main() {
    let gdq = |setup: &Setup| Gdq::new(setup, 128, 4);
    let napping = workload(4, 1_000, &sleepers(20, 4_000 * QUANTUM_NS), 400_000_000_000);
    measure("gr3, 1,000 tasks, up to 20 quanta and a sleep, 4 cpus", &napping, Gr3::new);
    measure("round robin, the same", &napping, RoundRobin::new);
    let napping = workload(4, 1_000, &sleepers(2, 400 * QUANTUM_NS), 400_000_000_000);
    measure("gr3, 1,000 tasks, up to 2 quanta and a sleep, 4 cpus", &napping, Gr3::new);
    measure("round robin, again", &napping, RoundRobin::new);
    let hogs = workload(128, 250_000, &Program::hog(), 100_000_000_000);
    measure("gdq, 250,000 tasks, 128 cpus", &hogs, gdq);
    measure("gr3, 250,000 tasks, 128 cpus", &hogs, Gr3::new);
    measure("round robin, 250,000 tasks, 128 cpus", &hogs, RoundRobin::new);
    // A thousand times as long as there: two seconds are over before a clock can tell.
    let text = include_str!("../../../bench/simso.toml");
    let mut periodic = parse_toml(text).expect("a workload");
    periodic.duration_ns *= 1000;
    measure("gr3, forty periodic tasks as in bench/simso_rm.py", &periodic, Gr3::new);
}

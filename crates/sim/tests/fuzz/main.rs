//! Every parser of the library, fed with garbage, and what it accepts, simulated for a moment: nothing may
//! panic or hang. `cargo xtask fuzz` does so for minutes.

use std::path::Path;

use prorata::policies::{self, REGISTRY};
use prorata::{Setup, Sleepers};
use prorata_sim::engine::Engine;
use prorata_sim::sweep::Sweep;
use prorata_sim::workload::{self, Workload, parse_duration};

mod mutator;

use mutator::{Target, campaign};

/// Inputs of each target in the tests.
const FEW: u64 = 300;
/// Instants that are simulated of what is accepted.
const INSTANTS: u32 = 500;
/// And no more of its time: a job may be asked for every few milliseconds, and no instant come for years.
const LONGEST_NS: u64 = 100_000_000_000;
/// What is larger is accepted, but not simulated.
const LARGEST: (u64, usize) = (200, 64);

const TOML: &[&str] = &[
    include_str!("../../../../workloads/audio-encoders.toml"),
    include_str!("../../../../workloads/cgroups.toml"),
    include_str!("../../../../workloads/desktop-beside-a-build.toml"),
    include_str!("../../../../workloads/sleeper.toml"),
    include_str!("../../../../workloads/web-servers.toml"),
];
const JSON: &[&str] = &[
    include_str!("../../../../workloads/rt-app/example3.json"),
    include_str!("../../../../workloads/rt-app/mp3-short.json"),
];
const PERF: &[&str] = &[
    include_str!("../../../../workloads/hand-made.perf-sched.txt"),
    include_str!("../../../../workloads/recorded.perf-sched.txt"),
];
const SWEEPS: &[&str] = &[
    "policies = [\"gr3\", \"eevdf:sleepers=paper\"]\nseeds = 3\ngroups = [\"nap\"]\nconfidence = 0.95\n\
     measures = [\"error_max\"]\n[grid]\n\"machine.cpus\" = [1, 2]\n\"task.nap.phases[1].sleep\" = \
     [\"5ms\", { exponential = \"5ms\" }]\n[workload]\nduration = \"20ms\"\nseed = 7\n\
     [[workload.task]]\nname = \"hog\"\n[[workload.task]]\nname = \"nap\"\ncount = 2\nphases = \
     [{ run = \"1ms\" }, { sleep = \"1ms\" }]\n",
    include_str!("../../../../workloads/sleeper-sweep.toml"),
];

fn simulate(workload: &Workload, seed: u64) {
    if workload.check().is_err() {
        return;
    }
    let tasks: u64 = workload.groups.iter().map(|group| u64::from(group.count)).sum();
    if tasks > LARGEST.0 || workload.machine.cpus > LARGEST.1 {
        return;
    }
    let place = usize::try_from(seed % REGISTRY.len() as u64).expect("few policies");
    let setup = workload.machine.setup(workload.seed);
    let name = if setup.cpus > 1 && !REGISTRY[place].multiprocessor {
        "gr3"
    } else {
        REGISTRY[place].name
    };
    let policy = policies::build(name, &setup).expect("it has defaults");
    let moment = Workload { duration_ns: workload.duration_ns.min(LONGEST_NS), ..workload.clone() };
    let mut left = INSTANTS;
    let mut engine = Engine::new(&moment, policy, ()).expect("it was checked");
    let goes_on = || {
        left -= 1;
        left > 0
    };
    // A program that never takes time is refused there.
    let ended = engine.simulate_while(goes_on);
    if matches!(ended, Ok(true)) {
        let _ = engine.outcome();
    }
}

fn read_workload(name: &str, text: &str, seed: u64) {
    if let Ok(workload) = workload::parse(Path::new(name), text, &[]) {
        simulate(&workload, seed);
    }
}

fn read_sweep(text: &str, _seed: u64) {
    if let Ok(sweep) = Sweep::parse(text) {
        let _ = (sweep.runs(), sweep.text().map(Sweep::parse));
    }
}

fn read_policy(text: &str, seed: u64) {
    let sleepers = if seed.is_multiple_of(2) { Sleepers::Paper } else { Sleepers::Corrected };
    let setup = Setup { sleepers, ..Setup::new(1 + usize::from(seed.is_multiple_of(4)), 1000) };
    let _ = policies::build(text, &setup);
}

fn targets() -> Vec<Target<'static>> {
    const TOML_WORDS: &[&str] = &[
        "[[task]]",
        "[machine]",
        "[[cgroup]]",
        "name",
        "weight",
        "nice",
        "count",
        "phases",
        "run",
        "sleep",
        "every",
        "loop",
        "cgroup",
        "parent",
        "wait",
        "post",
        "lock",
        "unlock",
        "\"yield\"",
        "\"exit\"",
        "uniform",
        "exponential",
        "normal",
        "forever",
        "arrival",
        "repeat",
        "quantum",
        "quanta",
        "tick",
        "cpus",
        "\"1ns\"",
        "\"834d\"",
        "\"/\"",
        "[",
        "]",
        "{",
        "}",
        "=",
        "\n",
        "\"",
        "of",
        "semaphore",
        "\"0s\"",
    ];
    const JSON_WORDS: &[&str] = &[
        "tasks",
        "global",
        "phases",
        "run",
        "runtime",
        "sleep",
        "timer",
        "period",
        "loop",
        "instance",
        "lock",
        "unlock",
        "wait",
        "signal",
        "barrier",
        "suspend",
        "resume",
        "duration",
        "ref",
        "mode",
        "relative",
        "nice",
        "priority",
        "policy",
        "delay",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "/*",
        "*/",
        "//",
        "\\u0000",
        "null",
        "resources",
        "yield",
        "\"",
        "calibration",
    ];
    const PERF_WORDS: &[&str] = &[
        "sched:sched_switch:",
        "sched:sched_wakeup:",
        "prev_pid=",
        "next_pid=",
        "prev_state=R",
        "==>",
        "pid=",
        "comm=",
        "prio=",
        "[000]",
        "[4294967296]",
        "<idle>",
        "1.000000:",
        "swapper",
        " ",
        "\n",
        "sched_waking",
        "prev_comm=",
        "next_comm=",
        "next_prio=",
        "target_cpu=",
    ];
    const SWEEP_WORDS: &[&str] = &[
        "policies",
        "seeds",
        "groups",
        "measures",
        "confidence",
        "[grid]",
        "workload",
        "\"task.nap.count\"",
        "\"task[0].weight\"",
        "\"machine.cpus\"",
        "[[workload.task]]",
        "[",
        "]",
        "\"",
        ".",
        "=",
        "error_max",
    ];
    const POLICY_WORDS: &[&str] = &[
        "gr3",
        "gdq",
        "dfs",
        "mfq",
        "eevdf",
        "lottery",
        "linux-6.18",
        ":",
        ",",
        "=",
        "sleepers",
        "paper",
        "turns",
        "corrected",
        "slice",
        "initial",
        "half",
        "ties",
        "pd2",
        "t",
        "delta",
        "arrival",
        "frontlog",
    ];
    vec![
        Target {
            name: "toml",
            corpus: TOML,
            words: TOML_WORDS,
            read: &|text, seed| read_workload("a.toml", text, seed),
        },
        Target {
            name: "json",
            corpus: JSON,
            words: JSON_WORDS,
            read: &|text, seed| read_workload("a.json", text, seed),
        },
        Target {
            name: "perf",
            corpus: PERF,
            words: PERF_WORDS,
            read: &|text, seed| read_workload("a.txt", text, seed),
        },
        Target { name: "sweep", corpus: SWEEPS, words: SWEEP_WORDS, read: &read_sweep },
        Target {
            name: "policy",
            corpus: &[
                "gr3:sleepers=paper",
                "gdq:t=3,delta=2",
                "eevdf:slice=2,initial=full",
                "dfs-fa:ties=pd2",
            ],
            words: POLICY_WORDS,
            read: &read_policy,
        },
        Target {
            name: "duration",
            corpus: &["1s", "1.5ms", "2h 3min", "forever", "834d"],
            words: &["s", "ms", "us", "ns", "min", "h", "d", "y", " ", ".", "e9"],
            read: &|text, _| drop(parse_duration(text)),
        },
    ]
}

#[test]
fn no_garbage_makes_a_parser_panic() {
    for target in targets() {
        target.feed(0, |seed| seed < FEW);
    }
}

/// The mutator finds what panics, and tells the seed.
#[test]
#[should_panic(expected = "panics on what seeds")]
fn a_parser_that_panics_is_found() {
    let read = |text: &str, _| assert!(!text.contains("18446744073709551616"), "it is too large");
    let target = Target { name: "bad", corpus: &["a = 1\nb = 22"], words: &["c"], read: &read };
    target.feed(0, |seed| seed < 2000);
}

#[test]
fn a_seed_makes_the_same_input() {
    for target in targets() {
        let inputs: Vec<String> = (0..50).map(|seed| target.input(seed)).collect();
        assert!((0..50).map(|seed| target.input(seed)).eq(inputs.iter().cloned()));
        assert!(inputs.windows(2).any(|pair| pair[0] != pair[1]));
    }
}

#[test]
#[ignore = "takes as long as one likes: `cargo xtask fuzz`"]
fn for_minutes() {
    campaign(&targets());
}

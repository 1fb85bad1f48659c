//! The engine keeps to the policies' contract, loses no time, and gives the same bytes for the
//! same seed.

use proptest::prelude::*;
use prorata::policies::{self, REGISTRY};
use prorata::{Checked, Nanos, Weight};
use prorata_sim::engine::{Engine, SimulationError};
use prorata_sim::export::{self, Timeline};
use prorata_sim::machine::{IdleLook, Machine, Quanta};
use prorata_sim::outcome::Outcome;
use prorata_sim::workload::{
    Group, Length, Missed, Op, Program, Resource, Workload, parse_recording, parse_rt_app,
    parse_toml,
};

const QUANTUM_NS: Nanos = 1_000;

fn length() -> impl Strategy<Value = Length> {
    prop_oneof![
        (0u64..3_000).prop_map(Length::Fixed),
        (0u64..500, 0u64..3_000).prop_map(|(from, more)| Length::Uniform(from, from + more)),
        (1u64..2_000).prop_map(Length::Exponential),
        (0u64..2_000, 0u64..500).prop_map(|(mean, deviation)| Length::Normal(mean, deviation)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => length().prop_map(Op::Run),
        3 => length().prop_map(Op::Sleep),
        1 => (1u64..5_000).prop_map(|period_ns| Op::Every {
            period_ns,
            slot: 0,
            missed: Missed::CountFromNow,
        }),
        1 => Just(Op::Wait(0)),
        2 => Just(Op::Post(0)),
        1 => Just(Op::Yield),
        1 => (1u32..100).prop_map(|w| Op::SetWeight(Weight::new(w).expect("not 0"))),
    ]
}

/// Runs at least once a round, so that no program is stuck; some leave after a few rounds.
fn program() -> impl Strategy<Value = Program> {
    (proptest::collection::vec(op(), 0..6), proptest::option::of(1u64..20)).prop_map(
        |(mut ops, rounds)| {
            ops.push(Op::Run(Length::Fixed(300)));
            ops.push(match rounds {
                Some(times) => Op::Repeat { slot: 1, times, to: 0 },
                None => Op::Goto { to: 0 },
            });
            Program { ops, slots: 2 }
        },
    )
}

fn group() -> impl Strategy<Value = Group> {
    (1u32..4, 1u32..1_000, length(), program()).prop_map(|(count, weight, arrival, program)| {
        let weight = Weight::new(weight).expect("not 0");
        Group { name: format!("{weight}"), count, weight, arrival, program }
    })
}

fn machine() -> impl Strategy<Value = Machine> {
    let quanta = prop_oneof![
        Just(Quanta::Synchronised),
        Just(Quanta::Staggered),
        Just(Quanta::Asynchronous),
        Just(Quanta::Variable { shortest_ns: 200 }),
    ];
    (1usize..6, quanta, prop_oneof![Just(1u64), Just(100)], 0u64..50, any::<bool>()).prop_map(
        |(cpus, quanta, tick_ns, cost_ns, ticks)| Machine {
            quanta,
            tick_ns,
            switch_cost_ns: cost_ns,
            migration_cost_ns: 2 * cost_ns,
            idle_look: if ticks { IdleLook::Tick } else { IdleLook::Quantum },
            ..Machine::new(cpus, QUANTUM_NS)
        },
    )
}

fn workload() -> impl Strategy<Value = Workload> {
    (machine(), any::<u64>(), proptest::collection::vec(group(), 1..6)).prop_map(
        |(machine, seed, groups)| Workload {
            machine,
            duration_ns: 300 * QUANTUM_NS,
            seed,
            groups,
            resources: vec![Resource::Semaphore { count: 1 }],
        },
    )
}

/// Under a wrapper that panics at any breach of the contract, by the engine or the policy.
fn run(workload: &Workload, name: &str) -> (Outcome, Timeline) {
    let setup = workload.machine.setup(workload.seed);
    let entry = policies::find(name).expect(name);
    let policy = policies::build(name, &setup).expect(name);
    let policy = Checked::new(policy, &setup).work_conserving(entry.work_conserving);
    Engine::new(workload, policy, Timeline::default()).expect("fits").run().expect("runs")
}

/// Everything that a run leaves behind.
fn bytes(workload: &Workload, name: &str) -> Vec<u8> {
    let (outcome, timeline) = run(workload, name);
    let (segments, _) = timeline.into_segments();
    let mut all = serde_json::to_vec(&outcome).expect("plain data");
    export::write_csv(&outcome, &mut all).expect("memory");
    export::write_parquet(&outcome, &mut all).expect("memory");
    export::write_svg(workload, &segments, &mut all).expect("memory");
    export::write_perfetto(workload, &segments, &mut all).expect("memory");
    export::write_timehist(workload, &segments, &mut all).expect("memory");
    all.extend(export::table(name, &outcome).into_bytes());
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn no_time_is_lost_and_no_cpu_shared(workload in workload()) {
        for name in ["gr3", "round-robin"] {
            let (outcome, timeline) = run(&workload, name);
            let service_ns: Nanos = outcome.tasks.iter().map(|t| t.service.service_ns).sum();
            let all_ns = outcome.duration_ns * workload.machine.cpus as u64;
            prop_assert_eq!(service_ns + outcome.totals.idle_ns, all_ns);
            prop_assert_eq!(outcome.totals.idle_while_waiting_ns, 0);
            let (segments, _) = timeline.into_segments();
            let mut free_ns = vec![0; workload.machine.cpus];
            let mut seen_ns = vec![0; outcome.tasks.len()];
            for segment in segments {
                prop_assert!(segment.start_ns >= free_ns[segment.cpu], "one task a cpu");
                prop_assert!(segment.start_ns >= seen_ns[segment.task.index()], "one cpu a task");
                free_ns[segment.cpu] = segment.end_ns;
                seen_ns[segment.task.index()] = segment.end_ns;
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes(workload in workload()) {
        prop_assert!(bytes(&workload, "gr3") == bytes(&workload, "gr3"));
    }
}

#[test]
fn every_policy_runs_the_shipped_workloads() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads");
    for file in ["web-servers", "audio-encoders", "desktop-beside-a-build"] {
        let text = std::fs::read_to_string(format!("{directory}/{file}.toml")).expect(file);
        let mut workload = parse_toml(&text).expect(file);
        workload.duration_ns = 3_000_000_000;
        for entry in REGISTRY {
            if entry.multiprocessor || workload.machine.cpus == 1 {
                let (outcome, _) = run(&workload, entry.name);
                assert_eq!(outcome.duration_ns, workload.duration_ns, "{file} {}", entry.name);
            }
        }
    }
}

#[test]
fn files_of_other_programs_run_unchanged() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads");
    let read = |file: &str| std::fs::read_to_string(format!("{directory}/{file}")).expect(file);
    let simulate = |tasks: prorata_sim::workload::Tasks| {
        let workload = Workload {
            machine: Machine::new(2, 4_000_000),
            duration_ns: tasks.duration_ns.unwrap_or(6_000_000_000),
            seed: 0,
            groups: tasks.groups,
            resources: tasks.resources,
        };
        run(&workload, "gr3").0
    };
    let example = simulate(parse_rt_app(&read("rt-app/example3.json"), &[]).expect("example3"));
    // Twelve threads, ten loops of 3 ms and ten of 27 ms.
    assert_eq!(example.groups[0].service.service_ns, 12 * 300_000_000);
    let ignored = ["cpus".to_string()];
    let player = simulate(parse_rt_app(&read("rt-app/mp3-short.json"), &ignored).expect("mp3"));
    // AudioOut runs 5 ms every 30 ms, for 6 s.
    assert_eq!(player.groups[1].service.service_ns, 200 * 5_000_000);
    let recorded = simulate(parse_recording(&read("hand-made.perf-sched.txt")).expect("recording"));
    assert_eq!(recorded.tasks.len(), 3);
}

#[test]
fn a_program_that_takes_no_time_is_an_error() {
    let text = "[[task]]\nphases = [{ run = { normal = [\"0s\", \"0s\"] } }]";
    let workload = parse_toml(text).expect("a workload");
    let policy = policies::build("gr3", &workload.machine.setup(0)).expect("gr3");
    let result = Engine::new(&workload, policy, ()).expect("fits").run();
    assert!(matches!(result, Err(SimulationError::Stuck { .. })));
}

#[test]
fn a_task_that_never_arrives_receives_nothing() {
    let text = "duration = \"1s\"\n[[task]]\n[[task]]\ncount = 2\narrival = \"2s\"";
    let (outcome, _) = run(&parse_toml(text).expect("a workload"), "gr3");
    let received: Vec<Nanos> = outcome.tasks.iter().map(|t| t.service.service_ns).collect();
    assert_eq!(received, [1_000_000_000, 0, 0]);
    assert_eq!(outcome.tasks[2].service.ideal_ns, 0);
}

/// One cpu, two tasks, by hand: weights 1 and 1, quantum 10; b sleeps after 5.
#[test]
fn a_short_run_by_hand() {
    let text = r#"
        duration = "40ns"
        machine = { quantum = "10ns", quanta = "asynchronous" }
        [[task]]
        name = "a"
        [[task]]
        name = "b"
        arrival = "3ns"
        phases = [{ run = "5ns" }, { sleep = "7ns" }]
    "#;
    let mut workload = parse_toml(text).expect("a workload");
    // A first quantum of random length would spoil the arithmetic.
    workload.machine.quanta = Quanta::Variable { shortest_ns: 10 };
    let (outcome, timeline) = run(&workload, "round-robin");
    let (segments, _) = timeline.into_segments();
    let short: Vec<_> = segments.iter().map(|s| (s.task.0, s.start_ns, s.end_ns)).collect();
    assert_eq!(short, [(0, 0, 10), (1, 10, 15), (0, 15, 25), (1, 25, 30), (0, 30, 40)]);
    let b = &outcome.tasks[1];
    // Runnable from 3 to 15 and from 22 to 30 and from 37 on, each time with half of the cpu.
    assert_eq!(b.service.service_ns, 10);
    assert_eq!(b.service.ideal_ns, 12);
    assert!((b.errors.error_min + 0.35).abs() < 1e-9, "{}", b.errors.error_min);
    assert_eq!((b.wakeups, b.wait_ns), (3, 7 + 3 + 3));
}

//! The engine keeps to the policies' contract, loses no time, and gives the same bytes for the
//! same seed.

use proptest::prelude::*;
use prorata::hierarchy::NodeId;
use prorata::policies::{self, REGISTRY};
use prorata::{Checked, Nanos, TaskId, Weight};
use prorata_sim::engine::{Engine, Lag, SimulationError};
use prorata_sim::export::{self, Timeline};
use prorata_sim::machine::{IdleLook, Machine, Quanta};
use prorata_sim::outcome::Outcome;
use prorata_sim::workload::{
    Arrivals, Cgroup, Cgroups, Group, Length, Missed, Op, Program, Resource, Workload,
    parse_recording, parse_rt_app, parse_toml,
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
            cgroups: Cgroups::default(),
        },
    )
}

/// Tasks in a tree of three cgroups, which come at any time and may move; weights of cgroups change.
fn workload_in_a_tree() -> impl Strategy<Value = Workload> {
    let weight = || (1u32..1_000).prop_map(|weight| Weight::new(weight).expect("not 0"));
    let nodes = || (0u32..4).prop_map(NodeId);
    let ops = prop_oneof![
        nodes().prop_map(Op::Join),
        ((1u32..4).prop_map(NodeId), weight()).prop_map(|(node, to)| Op::SetCgroupWeight(node, to)),
    ];
    let homes = proptest::collection::vec(nodes(), 6);
    let weights = proptest::collection::vec(weight(), 3);
    let more = proptest::collection::vec((any::<prop::sample::Index>(), ops), 0..4);
    (workload(), homes, weights, more).prop_map(|(mut workload, homes, weights, more)| {
        let cgroup = |(weight, parent)| Cgroup {
            name: format!("below {parent}, {weight}"),
            weight,
            parent: NodeId(parent),
        };
        let nodes = weights.into_iter().zip([0, 1, 0]).map(cgroup).collect();
        workload.cgroups = Cgroups { nodes, homes };
        for (at, op) in more {
            let groups = workload.groups.len();
            workload.groups[at.index(groups)].program.ops.insert(0, op);
        }
        workload
    })
}

/// Under a wrapper that panics at any breach of the contract, by the engine or the policy.
fn run(workload: &Workload, name: &str) -> (Outcome, Timeline) {
    let setup = workload.machine.setup(workload.seed);
    let (policy, _) = name.split_once(':').unwrap_or((name, ""));
    let entry = policies::find(policy).expect(name);
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
    if export::HAS_PARQUET {
        export::write_parquet(&outcome, &mut all).expect("memory");
    }
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
    fn no_time_is_lost_in_trees_either(workload in workload_in_a_tree()) {
        let corrected = ["gr3:sleepers=corrected", "gdq:sleepers=corrected", "dfs-fa:sleepers=corrected"];
        for name in ["gr3", "gdq:sleepers=turns", "mfq"].into_iter().chain(corrected) {
            let (outcome, _) = run(&workload, name);
            let service_ns: Nanos = outcome.tasks.iter().map(|t| t.service.service_ns).sum();
            let all_ns = outcome.duration_ns * workload.machine.cpus as u64;
            prop_assert_eq!(service_ns + outcome.totals.idle_ns, all_ns);
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
    for file in ["web-servers", "audio-encoders", "desktop-beside-a-build", "sleeper"] {
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
            cgroups: Cgroups::default(),
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
    assert_eq!(player.groups[1].service.ideal_ns, 200 * 5_000_000);
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
    let (outcome, timeline) = run(&workload, "round-robin:sleepers=paper");
    let (segments, _) = timeline.into_segments();
    let short: Vec<_> = segments.iter().map(|s| (s.task.0, s.start_ns, s.end_ns)).collect();
    assert_eq!(short, [(0, 0, 10), (1, 10, 15), (0, 15, 25), (1, 25, 30), (0, 30, 40)]);
    let b = &outcome.tasks[1];
    // Alone it asks for 5 ns at 3, 15, 27 and 39; with half of the cpu they end at 13, 25 and 37.
    assert_eq!((b.service.service_ns, b.service.ideal_ns), (10, 16));
    assert!((b.errors.error_min + 0.55).abs() < 1e-9, "{}", b.errors.error_min);
    assert_eq!((b.wakeups, b.wait_ns), (3, 7 + 3 + 3));
    let jobs = (b.jobs.jobs_asked, b.jobs.jobs_done, b.jobs.jobs_missed);
    assert_eq!((jobs, b.jobs.ideal_jobs_done, b.jobs.ideal_jobs_missed), ((4, 2, 1), 3, 0));
    let took = b.responses.expect("few tasks");
    assert_eq!((took.response_p50_ns, took.response_max_ns), (8, 12));
    assert_eq!((took.ideal_response_p50_ns, took.ideal_response_max_ns), (10, 10));
}

/// Tasks that wait for nobody and keep their weight: their ideal needs no schedule.
fn independent(mut workload: Workload) -> Workload {
    workload.machine.switch_cost_ns = 0;
    workload.machine.migration_cost_ns = 0;
    for op in workload.groups.iter_mut().flat_map(|group| &mut group.program.ops) {
        if matches!(op, Op::Wait(_) | Op::SetWeight(_)) {
            *op = Op::Yield;
        }
    }
    workload
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_ideal_is_the_same_under_every_policy(workload in workload().prop_map(independent)) {
        let outcomes = ["gr3", "round-robin", "lottery"].map(|name| run(&workload, name).0);
        for (ours, theirs) in outcomes[0].tasks.iter().zip(&outcomes[1].tasks) {
            if outcomes[0].duration_ns == outcomes[1].duration_ns {
                prop_assert_eq!(ours.service.ideal_ns, theirs.service.ideal_ns);
                prop_assert_eq!(ours.jobs.jobs_asked, theirs.jobs.jobs_asked);
                prop_assert_eq!(ours.jobs.ideal_jobs_missed, theirs.jobs.ideal_jobs_missed);
            }
        }
        for task in outcomes.iter().flat_map(|outcome| &outcome.tasks) {
            let jobs = task.jobs;
            let doing = jobs.jobs_asked - jobs.jobs_done - jobs.jobs_missed;
            prop_assert!(doing <= 1, "{:?}", task);
            prop_assert!(jobs.ideal_jobs_done + jobs.ideal_jobs_missed <= jobs.jobs_asked);
        }
    }

    /// A schedule that is the ideal is nowhere off it; so programs ask for the same when they are
    /// executed for the ideal and for the schedule.
    #[test]
    fn who_has_a_cpu_of_its_own_is_never_off_the_ideal(workload in workload().prop_map(independent)) {
        let mut workload = workload;
        workload.machine.cpus = usize::try_from(workload.tasks()).expect("few");
        let (outcome, _) = run(&workload, "gr3");
        prop_assert!(outcome.errors.error_max < 1e-6, "{:?}", outcome.errors);
        prop_assert!(outcome.errors.error_min > -1e-6, "{:?}", outcome.errors);
        for task in &outcome.tasks {
            let jobs = task.jobs;
            prop_assert_eq!((jobs.jobs_missed, jobs.ideal_jobs_missed), (0, 0));
            // The schedule stops just before the end.
            prop_assert!(jobs.ideal_jobs_done - jobs.jobs_done <= 1, "{:?}", jobs);
            if let Some(took) = task.responses.filter(|_| jobs.jobs_done == jobs.ideal_jobs_done) {
                // A timer may have fired before the task came back to it even alone.
                prop_assert!(took.ideal_response_max_ns <= took.response_max_ns, "{:?}", took);
            }
        }
    }

    /// For hogs the two yardsticks are one.
    #[test]
    fn hogs_have_the_same_errors_beside_a_task_that_may_sleep(
        machine in machine(),
        hogs in proptest::collection::vec((1u32..1_000, 1u32..4, 0u64..5_000), 1..6),
    ) {
        let hog = |&(weight, count, arrival_ns): &(u32, u32, Nanos)| Group {
            name: format!("{weight}"),
            count,
            weight: Weight::new(weight).expect("not 0"),
            arrival: Length::Uniform(0, arrival_ns),
            program: Program::hog(),
        };
        let mut workload = Workload {
            cgroups: Cgroups::default(),
            machine,
            duration_ns: 300 * QUANTUM_NS,
            seed: 1,
            groups: hogs.iter().map(hog).collect(),
            resources: vec![],
        };
        let (gms, _) = run(&workload, "gr3");
        let mut late = hog(&(1, 1, 0));
        late.arrival = Length::Fixed(workload.duration_ns);
        late.program = Program { ops: vec![Op::Run(Length::Fixed(1)), Op::Exit], slots: 0 };
        workload.groups.push(late);
        let (fluid, _) = run(&workload, "gr3");
        for (gms, fluid) in gms.tasks.iter().zip(&fluid.tasks) {
            prop_assert_eq!(gms.service.service_ns, fluid.service.service_ns);
            prop_assert_eq!(gms.service.ideal_ns, fluid.service.ideal_ns);
            prop_assert!((gms.errors.error_min - fluid.errors.error_min).abs() < 1e-9);
            prop_assert!((gms.errors.error_max - fluid.errors.error_max).abs() < 1e-9);
        }
    }
}

/// A task that needs exactly its share: the ideal serves all of its jobs, whoever schedules. Its
/// timer is first used at 0.5 ms, so that a tenth of the last job is left at the end.
#[test]
fn the_sleeper_is_due_all_that_it_asks_for() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/sleeper.toml");
    let workload = parse_toml(&std::fs::read_to_string(file).expect(file)).expect(file);
    for name in ["gr3", "wf2q", "lottery"] {
        let (outcome, _) = run(&workload, name);
        let sleeper = &outcome.groups[1];
        assert_eq!(sleeper.service.ideal_ns, 1_999_950_000, "{name}");
        let counts = sleeper.jobs.counts;
        assert_eq!((counts.jobs_asked, counts.ideal_jobs_done), (4_000, 3_999), "{name}");
        assert_eq!(sleeper.jobs.responses.ideal_response_max_ns, 5_000_000, "{name}");
        assert_eq!(sleeper.service.service_ns / 500_000, counts.jobs_done, "{name}");
    }
}

/// A hog and a task of 2 ns every 7 ns, by hand: alone it would run at 0, 9, 16, …, 65, since its
/// timer is first used at 2.
#[test]
fn jobs_that_nobody_came_back_for_are_missed() {
    let text = r#"
        duration = "70ns"
        machine = { quantum = "10ns" }
        [[task]]
        name = "hog"
        [[task]]
        name = "periodic"
        phases = [{ run = "2ns" }, { every = "7ns" }]
    "#;
    let (outcome, _) = run(&parse_toml(text).expect("a workload"), "round-robin:sleepers=paper");
    let periodic = &outcome.tasks[1];
    // Due at 0, 19, 26, 33, 40, 49 and 56; done at 12, 22, 32, 42, 44 (it was late), 52 and 62.
    let jobs = (periodic.jobs.jobs_asked, periodic.jobs.jobs_done, periodic.jobs.jobs_missed);
    assert_eq!(jobs, (10, 7, 2));
    let took = periodic.responses.expect("few tasks");
    assert_eq!((took.response_p50_ns, took.response_max_ns), (6, 12));
}

/// The same for a task whose arrivals are observed: the periods that were over count.
#[test]
fn periods_that_passed_by_are_counted() {
    let text = r#"
        duration = "40ns"
        machine = { quantum = "10ns" }
        [[task]]
        name = "hog"
        [[task]]
        name = "periodic"
        phases = [{ lock = "l" }, { run = "2ns" }, { unlock = "l" }, { every = "3ns" }]
    "#;
    let (outcome, _) = run(&parse_toml(text).expect("a workload"), "round-robin:sleepers=paper");
    // At 22 it comes back to a timer that fired at 18 and at 21, at 32 to one of 28 and 31.
    assert_eq!(outcome.tasks[1].jobs.jobs_missed, 2);
}

/// Two tasks that wake each other: alone each would wait for ever.
#[test]
fn who_waits_for_others_asks_when_it_does_so_in_the_schedule() {
    let text = r#"
        duration = "100ns"
        machine = { quantum = "10ns" }
        [[task]]
        name = "hog"
        [[task]]
        name = "ping"
        phases = [{ run = "3ns" }, { post = "b" }, { wait = "a" }]
        [[task]]
        name = "pong"
        phases = [{ wait = "b" }, { run = "3ns" }, { post = "a" }]
    "#;
    let (outcome, _) = run(&parse_toml(text).expect("a workload"), "round-robin:sleepers=paper");
    let arrivals: Vec<Arrivals> = outcome.groups.iter().map(|group| group.arrivals).collect();
    assert_eq!(arrivals, [Arrivals::Solo, Arrivals::Observed, Arrivals::Observed]);
    // They ask for 3 ns at 0, 13, 23, …, 93, each of which takes 6 ns with half of the cpu.
    let ideal: Vec<Nanos> = outcome.tasks.iter().map(|task| task.service.ideal_ns).collect();
    assert_eq!(ideal, [70, 15, 15]);
    let received: Vec<Nanos> = outcome.tasks.iter().map(|t| t.service.service_ns).collect();
    assert_eq!(received, [73, 15, 12]);
    assert_eq!((outcome.tasks[1].jobs.jobs_done, outcome.tasks[1].jobs.jobs_missed), (5, 0));
}

/// The outcome, with errors sampled so many times, and the samples.
fn sampled(workload: &Workload, policy: &str, times: u32) -> (Outcome, Vec<Lag>) {
    let policy = policies::build(policy, &workload.setup()).expect(policy);
    let mut engine = Engine::new(workload, policy, ()).expect("fits");
    engine.sample_lags(times).expect("no cgroups");
    engine.simulate().expect("runs");
    let lags = engine.lags().to_vec();
    (engine.outcome().0, lags)
}

#[test]
fn looking_at_errors_changes_nothing() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads");
    for file in ["web-servers", "desktop-beside-a-build", "sleeper"] {
        let text = std::fs::read_to_string(format!("{directory}/{file}.toml")).expect(file);
        let mut workload = parse_toml(&text).expect(file);
        workload.duration_ns = 1_000_000_000;
        let (outcome, lags) = sampled(&workload, "gr3", 333);
        assert_eq!(outcome, prorata_sim::simulate(&workload, "gr3").expect("runs"), "{file}");
        let times: std::collections::BTreeSet<u64> = lags.iter().map(|lag| lag.time_ns).collect();
        assert!((300..=334).contains(&times.len()), "{file}: {}", times.len());
        for lag in lags {
            let errors = outcome.groups[lag.group as usize].errors;
            assert!(lag.error_min <= lag.error_max, "{file}: {lag:?}");
            // A sample is not at the end of a run, where the extremes are.
            assert!(lag.error_min >= errors.error_min - 1e-6, "{file}: {lag:?}, {errors:?}");
            assert!(lag.error_max <= errors.error_max + 1e-6, "{file}: {lag:?}, {errors:?}");
        }
    }
}

#[test]
fn errors_of_a_round_robin_by_hand() {
    let text = "duration = \"40ms\"\n[[task]]\nname = 'a'\n[[task]]\nname = 'b'\n";
    let (_, lags) = sampled(&parse_toml(text).expect("a workload"), "round-robin", 8);
    let of_a = lags.iter().filter(|lag| lag.group == 0 && lag.time_ns > 0);
    let of_a: Vec<(u64, f64)> = of_a.map(|lag| (lag.time_ns / 1_000_000, lag.error_min)).collect();
    // It runs in the first quantum of 10 ms and in the third, and is due half of each.
    let errors = [0.25, 0.5, 0.25, 0.0, 0.25, 0.5, 0.25, 0.0];
    assert_eq!(of_a, (1..=8).map(|n| 5 * n).zip(errors).collect::<Vec<_>>());
    let grouped = format!("{text}cgroup = 'g'\n[[cgroup]]\nname = 'g'\n");
    let workload = parse_toml(&grouped).expect("a workload");
    let policy = policies::build("gr3", &workload.setup()).expect("gr3");
    let mut engine = Engine::new(&workload, policy, ()).expect("fits");
    assert!(engine.sample_lags(8).expect_err("a tree").contains("cgroups"));
}

#[test]
fn latencies_add_up() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/sleeper.toml");
    let mut workload = parse_toml(&std::fs::read_to_string(file).expect(file)).expect(file);
    workload.duration_ns = 1_000_000_000;
    let policy = policies::build("gr3:sleepers=paper", &workload.setup()).expect("gr3");
    let mut engine = Engine::new(&workload, policy, ()).expect("fits");
    engine.simulate().expect("runs");
    let latencies = engine.latencies();
    let (outcome, ()) = engine.outcome();
    for (of, group) in latencies.iter().zip(&outcome.groups) {
        let counted: u64 = of.response.buckets().map(|(_, count)| count).sum();
        assert_eq!(counted, group.jobs.counts.jobs_done, "{}", of.group);
        let longest = of.wakeup.buckets().last().expect("it woke");
        assert_eq!(longest.0, group.waits.wakeup_max_ns, "{}", of.group);
    }
    let mut text = Vec::new();
    export::latencies(&latencies).write_csv(&mut text).expect("in memory");
    let text = String::from_utf8(text).expect("text");
    assert!(text.starts_with("group,what,at_most_ns,count,part\n"), "{text}");
    let last = text.lines().rfind(|line| line.starts_with("sleeper,response,")).expect("a line");
    assert!(last.ends_with(",1"), "all of them: {last}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Under every policy, whatever it holds of a task when that is gone.
    #[test]
    fn tasks_are_ended_wherever_they_are(
        seed in any::<u64>(),
        cpus in 1usize..4,
        lives in proptest::collection::vec((0u64..20_000, 0u64..30_000, 1u32..50), 1..12),
    ) {
        let group = |(index, &(arrival_ns, _, weight)): (usize, &(u64, u64, u32))| Group {
            name: format!("{index}"),
            count: 1,
            weight: Weight::new(weight).expect("at least 1"),
            arrival: Length::Fixed(arrival_ns),
            program: Program::hog(),
        };
        let workload = Workload {
            machine: Machine { quanta: Quanta::Asynchronous, ..Machine::new(cpus, QUANTUM_NS) },
            duration_ns: 25_000,
            seed,
            groups: lives.iter().enumerate().map(group).collect(),
            resources: vec![],
            cgroups: prorata_sim::workload::Cgroups::default(),
        };
        for entry in REGISTRY.iter().filter(|entry| cpus == 1 || entry.multiprocessor) {
            let setup = workload.setup();
            let policy = policies::build(entry.name, &setup).expect(entry.name);
            let policy =
                Checked::new(policy, &setup).work_conserving(entry.work_conserving);
            let mut engine = Engine::new(&workload, policy, Timeline::default()).expect("fits");
            let ends = lives.iter().zip((0..).map(TaskId)).map(|(&(_, end_ns, _), id)| (end_ns, id));
            engine.end_tasks(ends).expect("no task blocks");
            engine.simulate().expect("goes on");
            let (outcome, timeline) = engine.outcome();
            let used: u64 = outcome.tasks.iter().map(|task| task.service.service_ns).sum();
            prop_assert_eq!(used + outcome.totals.idle_ns, outcome.duration_ns * cpus as u64);
            for run in timeline.into_segments().0 {
                let (arrival_ns, end_ns, _) = lives[run.task.index()];
                prop_assert!(arrival_ns <= run.start_ns && run.end_ns <= end_ns, "{}", entry.name);
            }
            let waits = |task: usize| outcome.tasks[task].wait_ns;
            for (task, &(arrival_ns, end_ns, _)) in lives.iter().enumerate() {
                let there_ns = end_ns.min(outcome.duration_ns).saturating_sub(arrival_ns);
                let received_ns = outcome.tasks[task].service.service_ns;
                prop_assert_eq!(waits(task) + received_ns, there_ns, "{}", entry.name);
            }
        }
    }
}

#[test]
fn who_blocks_is_not_ended_from_outside() {
    let text = "[[task]]\nphases = [{ run = '1ms' }, { sleep = '1ms' }]\n";
    let workload = parse_toml(text).expect("a workload");
    let policy = policies::build("gr3", &workload.setup()).expect("gr3");
    let mut engine = Engine::new(&workload, policy, ()).expect("fits");
    assert!(engine.end_tasks([(5, TaskId(0))]).expect_err("it sleeps").contains("never block"));
}

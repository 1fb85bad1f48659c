//! Cgroups in workload files, as a user types them: `prorata simulate` and `prorata explain`.

use std::io::Write as _;
use std::process::{Command, Output};

use serde_json::Value;

fn prorata(args: &[&str], workload: &str) -> Output {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a file");
    file.write_all(workload.as_bytes()).expect("written");
    let program = env!("CARGO_BIN_EXE_prorata");
    let path = file.path().to_str().expect("a path");
    Command::new(program).args(args).arg(path).output().expect("prorata runs")
}

fn json(args: &[&str], workload: &str) -> Value {
    let output = prorata(args, workload);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

fn simulate(policy: &str, workload: &str) -> Value {
    json(&["simulate", "--policy", policy, "--format", "json"], workload)
}

/// What `name` of the list `of` received and was due, in cpus.
fn share(outcome: &Value, of: &str, name: &str) -> (f64, f64) {
    let list = outcome[of].as_array().expect("a list");
    let found = list.iter().find(|one| one["name"] == name).expect(name);
    let number = |key: &str| found[key].as_f64().expect(key);
    (number("share"), number("ideal_share"))
}

fn cgroup(name: &str, rest: &str) -> String {
    format!("[[cgroup]]\nname = '{name}'\n{rest}\n")
}

fn task(name: &str, cgroup: &str, rest: &str) -> String {
    format!("[[task]]\nname = '{name}'\ncgroup = '{cgroup}'\n{rest}\n")
}

fn machine(cpus: u32) -> String {
    machine_with("staggered", cpus)
}

fn machine_with(quanta: &str, cpus: u32) -> String {
    format!(
        "duration = '10s'\nmachine = {{ cpus = {cpus}, quanta = '{quanta}', quantum = '5ms' }}\n"
    )
}

/// In a cgroup, so many hogs and four tasks that nap; in another of the same weight, four hogs.
fn nappers_among(hogs: u32) -> String {
    [
        cgroup("a", ""),
        cgroup("b", ""),
        task("hog", "a", &format!("count = {hogs}")),
        task("nap", "a", NAPS),
        task("other", "b", "count = 4"),
    ]
    .concat()
}

const NAPS: &str = "count = 4\nphases = [{ run = '1ms' }, { sleep = '20ms' }]";

const POLICIES: [&str; 3] = ["gr3", "mfq", "dfs-fa"];

/// Who naps in a cgroup takes nothing from others, however long, and leaves what it does not use to its
/// siblings.
#[test]
fn a_cgroup_keeps_its_share_while_some_of_its_tasks_nap() {
    for cpus in [1, 2] {
        let scene = machine(cpus) + &nappers_among(1);
        for policy in POLICIES {
            let outcome = simulate(policy, &scene);
            for node in outcome["cgroups"].as_array().expect("a list") {
                let error = |key: &str| node[key].as_f64().expect(key);
                let (behind, ahead) = (error("error_min"), error("error_max"));
                let case = format!("{policy}, {cpus} cpus: {} is {behind}..{ahead}", node["name"]);
                assert!(behind >= -3.0 && ahead <= 3.0, "{case} quanta off");
            }
            let (received, due) = share(&outcome, "groups", "nap");
            let case = format!("{policy}, {cpus} cpus: who naps received {received} of {due}");
            assert!(received > 0.185 && (received - due).abs() < 0.002, "{case}");
        }
    }
}

/// So it is with turns that are kept: those for which who naps has no use are others' of the cgroup.
#[test]
fn turns_of_who_naps_are_the_cgroups() {
    for cpus in [1, 2] {
        let scene = machine_with("asynchronous", cpus) + &nappers_among(2);
        for policy in POLICIES {
            let outcome = simulate(&format!("{policy}:sleepers=turns"), &scene);
            for name in ["a", "b"] {
                let (received, due) = share(&outcome, "cgroups", name);
                let case = format!("{policy}, {cpus} cpus: {name} received {received} of {due}");
                assert!((received - due).abs() < 0.005 * due.max(1.0), "{case}");
            }
        }
    }
}

/// Of a cgroup in a cgroup, too, where nobody else in it uses up turns.
#[test]
fn turns_of_who_naps_are_those_of_the_cgroup_above() {
    let scene = [
        machine_with("asynchronous", 2),
        cgroup("a", ""),
        cgroup("nappers", "parent = 'a'"),
        cgroup("hogs", "parent = 'a'"),
        cgroup("b", ""),
        task("hog", "hogs", "count = 2"),
        task("nap", "nappers", NAPS),
        task("other", "b", "count = 4"),
    ];
    let outcome = simulate("gr3:sleepers=turns", &scene.concat());
    let (received, due) = share(&outcome, "cgroups", "a");
    assert!((received - due).abs() < 0.01, "the cgroup received {received} of {due}");
}

/// The weight of a cgroup is its own, however many tasks it has; what it cannot use goes to others.
#[test]
fn a_cgroup_has_its_weight_however_many_tasks_it_has() {
    let two = [
        machine(2),
        cgroup("a", ""),
        cgroup("b", ""),
        task("x", "a", ""),
        task("y", "b", "count = 4"),
    ];
    let four = [
        machine(4),
        cgroup("a", "weight = 300"),
        cgroup("b", "weight = 100"),
        task("x", "a", "weight = 9"),
        task("y", "a", "weight = 1"),
        task("z", "b", "count = 4"),
    ];
    for policy in POLICIES {
        let outcome = simulate(policy, &two.concat());
        for (name, due) in [("a", 1.0), ("b", 1.0)] {
            let (received, ideal) = share(&outcome, "cgroups", name);
            assert!((ideal - due).abs() < 1e-9, "{policy}: {name} is due {ideal}");
            assert!((received - due).abs() < 0.01, "{policy}: {name} received {received}");
        }
        let outcome = simulate(policy, &four.concat());
        for (name, due) in [("x", 1.0), ("y", 1.0), ("z", 2.0)] {
            let (received, ideal) = share(&outcome, "groups", name);
            assert!((ideal - due).abs() < 1e-9, "{policy}: {name} is due {ideal}");
            assert!((received - due).abs() < 0.01 * due, "{policy}: {name} received {received}");
        }
    }
}

#[test]
fn weights_and_places_change_in_the_middle() {
    let workload = [
        machine(1),
        cgroup("a", "weight = 100"),
        cgroup("b", "weight = 300"),
        cgroup("c", "parent = 'b'"),
        task("x", "a", ""),
        task("y", "b", ""),
        task(
            "z",
            "c",
            "phases = [{ sleep = '5s' }, { weight = 900, of = 'a' }, { cgroup = '/' }, \
             { weight = 1 }, { run = 'forever' }]",
        ),
    ];
    let outcome = simulate("gr3", &workload.concat());
    // 1/4 of the first half; 900 of 1,201 of the second.
    let (received, ideal) = share(&outcome, "cgroups", "a");
    let due = 0.5 / 4.0 + 0.5 * 900.0 / 1201.0;
    assert!((ideal - due).abs() < 1e-6 && (received - due).abs() < 0.01, "{received} of {ideal}");
    assert_eq!(outcome["cgroups"][0]["weight"], 900);
    assert_eq!(outcome["cgroups"][2]["parent"], "b");
    assert_eq!(outcome["cgroups"][0]["parent"], Value::Null);
    let errors = outcome["cgroups"][0]["error_max"].as_f64().expect("a number");
    assert!(errors < 4.0, "{errors}");
}

/// Nodes stand above their tasks.
#[test]
fn tables_show_the_tree() {
    let workload = [
        machine(2),
        cgroup("outer", ""),
        cgroup("inner", "parent = 'outer'"),
        task("x", "inner", ""),
        task("y", "/", ""),
    ];
    let output = prorata(&["simulate"], &workload.concat());
    let text = String::from_utf8(output.stdout).expect("text");
    let names: Vec<&str> =
        text.lines().map(|line| line.get(..10).unwrap_or("").trim_end()).collect();
    let at = |name: &str| names.iter().position(|line| *line == name).expect(name);
    let places = [at("y"), at("outer/"), at("  inner/"), at("    x")];
    assert!(places.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{text}");
}

#[test]
fn explain_says_what_is_due_and_why() {
    let workload = [
        machine(4),
        cgroup("a", "weight = 300"),
        cgroup("b", "weight = 100"),
        task("x", "a", "weight = 9"),
        task("y", "a", "weight = 1"),
        task("z", "b", "count = 6"),
    ];
    let outcome = json(&["explain", "--format", "json"], &workload.concat());
    let lines = outcome["lines"].as_array().expect("lines");
    let line = |name: &str| lines.iter().find(|line| line["name"] == name).expect(name);
    assert_eq!(line("a/")["due"], "2");
    assert_eq!(line("a/")["capped"], true);
    assert_eq!(line("a/")["why"], "all that it can use; its weight would give it 6");
    assert_eq!(line("b/")["why"], "100 of 100 of 2 cpus, what its siblings cannot use");
    assert_eq!(line("z")["due"], "1/3");
    assert_eq!(line("y")["due_cpus"], 1.0);
    // Flat: x is capped, and seven of weight 1 share three cpus.
    assert!((line("y")["flat_cpus"].as_f64().expect("a number") - 3.0 / 7.0).abs() < 1e-9);
    let text = prorata(&["explain"], &workload.concat());
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(text.contains("each: 1 of 6 of 2 cpus"), "{text}");
}

#[test]
fn bad_trees_are_refused_by_name() {
    let refuses = |parts: &[String], named: &str| {
        let output = prorata(&["simulate"], &parts.concat());
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(named), "{message}");
    };
    let hog = || task("hog", "/", "");
    refuses(&[task("hog", "nowhere", "")], "no cgroup is called 'nowhere'");
    refuses(&[hog(), cgroup("a", ""), cgroup("a", "")], "another cgroup is called 'a'");
    refuses(&[hog(), cgroup("a", "parent = 'b'"), cgroup("b", "parent = 'a'")], "is in itself");
}

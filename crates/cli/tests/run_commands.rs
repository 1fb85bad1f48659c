//! `prorata run` and `attach` with real commands: what they print, how they end, what they leave.

mod run_common;

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use run_common::{
    backends, is_held, processes_of, prorata, ratio, report_of, signal, stat_field, wait_until,
};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(20);

fn run(arguments: &[&str]) -> Output {
    prorata(arguments).output().expect("prorata starts")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn the_report_has_every_field_and_shares_that_add_up() {
    for backend in backends() {
        let options = ["--backend", backend, "--cpus", "1"];
        let report = report_of(&options, &["3:sha256sum /dev/zero", "1:sha256sum /dev/zero"]);
        assert_eq!(report["policy"], "gr3");
        assert_eq!(report["backend"], backend);
        assert_eq!(report["cpus"], 1);
        assert_eq!(report["quantum_ms"], 10.0);
        assert!(report["duration_s"].as_f64().is_some_and(|s| s >= 1.0));
        assert!(report["overhead_cpu_s"].as_f64().is_some_and(|s| s > 0.0));
        let tasks = report["tasks"].as_array().expect("a list");
        assert_eq!(tasks.len(), 2);
        for name in ["entitled_share", "received_share"] {
            let sum: f64 = tasks.iter().map(|task| task[name].as_f64().expect("a number")).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{report}");
        }
        for task in tasks {
            assert_eq!(task["command"], "sha256sum /dev/zero");
            assert!(task["weight"].is_u64() && task["cpu_s"].is_f64());
            assert!(task["error_min_quanta"].is_f64() && task["error_max_quanta"].is_f64());
            assert_eq!(task["exit"], Value::Null);
        }
        assert!((1.5..6.0).contains(&ratio(&report)), "{report}");
    }
}

#[test]
fn a_run_ends_with_its_last_command_and_tells_of_failures() {
    for backend in backends() {
        let output =
            run(&["run", "--backend", backend, "--format", "json", "1:true", "1:exit 3; :"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let report = json(&output);
        assert_eq!(report["tasks"][0]["exit"], 0);
        assert_eq!(report["tasks"][1]["exit"], 3);
        let output = run(&["run", "--backend", backend, "--format", "csv", "1:true", "2:true"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("text");
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.starts_with("policy,backend,cpus,quantum_ms"), "{text}");
    }
}

#[test]
fn a_command_killed_from_outside_is_a_failure() {
    let output = run(&["run", "--format", "json", "1:kill -SEGV $$"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(json(&output)["tasks"][0]["exit"], "SIGSEGV");
}

#[test]
fn the_output_of_commands_stays_out_of_the_report() {
    let output = run(&["run", "--format", "json", "1:echo hello; :"]);
    assert!(json(&output).is_object());
    assert!(String::from_utf8_lossy(&output.stderr).contains("hello"), "{output:?}");
}

#[test]
fn bad_input_is_refused_with_a_remedy_and_nothing_is_started() {
    let witness = std::env::temp_dir().join(format!("prorata-witness-{}", std::process::id()));
    let first = format!("1:touch {}", witness.display());
    for (arguments, reason) in [
        (vec!["0:true"], "'0' in '0:true' is not a weight"),
        (vec!["x:true"], "whole number from 1"),
        (vec!["true"], "has no weight"),
        (vec!["1:no-such-command-here"], "no command 'no-such-command-here'"),
        (vec!["--cpus", "100000", "1:true"], "--cpus 100000"),
        (vec!["--cpus", "0", "1:true"], "at least one cpu"),
        (vec!["--policy", "no-such-policy", "1:true"], "there are"),
        (vec!["--quantum", "1us", "1:true"], "cannot be kept"),
        (vec!["--quantum", "soon", "1:true"], "--quantum"),
        (vec!["--duration", "soon", "1:true"], "--duration"),
        (vec!["--backend", "none", "1:true"], "signal"),
    ] {
        let output = run(&[&["run", &first], &arguments[..]].concat());
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(reason), "{arguments:?}: {message}");
        assert!(!witness.exists(), "{arguments:?} started the first command");
    }
    for (job, reason) in [
        ("1:0", "not a process number"),
        ("1:4194304999", "not a process number"),
        ("1:4194304", "no running process"),
        ("0:1", "not a weight"),
    ] {
        let output = run(&["attach", job]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{job}: {message}");
        assert!(message.contains(reason), "{job}: {message}");
    }
}

#[test]
fn ctrl_c_ends_the_commands_and_prints_the_report() {
    for backend in backends() {
        let job = "1:trap 'exit 0' TERM; while :; do sha256sum /dev/zero & wait; done";
        let run = prorata(&["run", "--backend", backend, "--format", "json", job, job]);
        let mut run = run;
        let child = run.spawn().expect("prorata starts");
        let pid = child.id();
        assert!(wait_until(PATIENCE, || processes_of(pid).len() >= 4), "{backend}");
        signal(pid, "INT");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(json(&output)["tasks"].as_array().map(Vec::len), Some(2));
        assert_eq!(processes_of(pid), Vec::<u32>::new());
    }
}

#[test]
fn a_command_that_forks_workers_counts_as_one_task() {
    let worker = "while :; do :; done";
    let eight = format!("1:for i in 1 2 3 4 5 6 7 8; do ({worker}) & done; wait");
    for backend in backends() {
        let options = ["--backend", backend, "--cpus", "1"];
        let report = report_of(&options, &[&eight, "1:sha256sum /dev/zero"]);
        let share = report["tasks"][0]["received_share"].as_f64().expect("a number");
        assert!((0.35..0.65).contains(&share), "{report}");
    }
}

#[test]
fn short_lived_children_are_charged_to_their_task() {
    // Most of the time is used by processes that no look ever sees.
    let children = "1:while :; do head -c 3000000 /dev/zero | sha256sum >/dev/null; done";
    for backend in backends() {
        let options = ["--backend", backend, "--cpus", "1"];
        let report = report_of(&options, &[children, "1:sha256sum /dev/zero"]);
        let share = report["tasks"][1]["received_share"].as_f64().expect("a number");
        assert!((0.25..0.75).contains(&share), "{report}");
    }
}

#[test]
fn daemons_belong_to_their_task_and_end_with_it() {
    // Its parent ends at once, and it has a session of its own.
    let daemon = "1:(setsid sh -c 'while :; do :; done' &) & while :; do :; done";
    for backend in backends() {
        let child = prorata(&["run", "--backend", backend, "--duration", "1500ms", daemon]);
        let mut child = child;
        let child = child.spawn().expect("prorata starts");
        let pid = child.id();
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(processes_of(pid), Vec::<u32>::new(), "{backend}");
    }
}

/// Ends its process when the test does, also by a panic.
struct Victim(std::process::Child);

impl Victim {
    fn new() -> Victim {
        let mut command = Command::new("sha256sum");
        command.arg("/dev/zero").stdout(Stdio::null());
        Victim(command.spawn().expect("there is sha256sum"))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn cpus_of(pid: u32) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list"));
    line.expect("every status has it").to_owned()
}

#[test]
fn attached_processes_go_on_as_before() {
    let (first, second) = (Victim::new(), Victim::new());
    let cpus = cpus_of(first.0.id());
    let jobs = [format!("3:{}", first.0.id()), format!("1:{}", second.0.id())];
    let output =
        run(&["attach", "--cpus", "1", "--duration", "1s", "--format", "json", &jobs[0], &jobs[1]]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report = json(&output);
    assert_eq!(report["backend"], "signal");
    assert_eq!(report["tasks"][0]["command"], "sha256sum /dev/zero");
    for victim in [&first, &second] {
        assert_eq!(stat_field(victim.0.id(), 0).as_deref(), Some("R"));
        assert_eq!(cpus_of(victim.0.id()), cpus);
    }
    let twice = run(&["attach", &jobs[0], &jobs[0]]);
    assert_eq!(twice.status.code(), Some(2));
    signal(first.0.id(), "STOP");
    assert!(wait_until(PATIENCE, || stat_field(first.0.id(), 0).as_deref() == Some("T")));
    let stopped = run(&["attach", &jobs[0]]);
    assert!(String::from_utf8_lossy(&stopped.stderr).contains("kill -CONT"), "{stopped:?}");
}

#[test]
fn commands_are_set_free_while_prorata_is_stopped() {
    for backend in backends() {
        let hog = "1:sha256sum /dev/zero";
        let mut run = prorata(&["run", "--backend", backend, "--cpus", "1", hog, hog, hog]);
        let child = run.spawn().expect("prorata starts");
        let pid = child.id();
        assert!(wait_until(PATIENCE, || processes_of(pid).len() == 3));
        signal(pid, "STOP");
        let free = || processes_of(pid).into_iter().all(|pid| is_held(pid).is_none());
        assert!(wait_until(PATIENCE, || stat_field(pid, 0).as_deref() == Some("T") && free()));
        signal(pid, "CONT");
        let held = || processes_of(pid).into_iter().filter(|&pid| is_held(pid).is_some()).count();
        assert!(wait_until(PATIENCE, || held() == 2), "{backend}: it schedules again");
        signal(pid, "INT");
        assert_eq!(child.wait_with_output().expect("it ends").status.code(), Some(0));
        assert_eq!(processes_of(pid), Vec::<u32>::new());
    }
}

//! `prorata run` under every policy, with real commands.

mod run_common;

use prorata::policies;
use run_common::prorata;
use serde_json::Value;

/// A run of hogs has told enough when they had so much cpu time together.
const ENOUGH_S: f64 = 0.4;

/// Cpu time of each hog. A busy machine leaves them little, and whoever has had few quanta has no
/// proportions yet: then they run for longer.
fn cpu_seconds(policy: &str, cpus: &str, hogs: &[&str]) -> Vec<f64> {
    let mut used = Vec::new();
    for duration in ["600ms", "2s", "6s"] {
        used = cpu_seconds_in(duration, policy, cpus, hogs);
        if used.iter().sum::<f64>() >= ENOUGH_S {
            break;
        }
    }
    used
}

fn cpu_seconds_in(duration: &str, policy: &str, cpus: &str, hogs: &[&str]) -> Vec<f64> {
    let common =
        ["run", "--policy", policy, "--cpus", cpus, "--duration", duration, "--format", "json"];
    let output = prorata(&[&common[..], hogs].concat()).output().expect("prorata starts");
    assert_eq!(output.status.code(), Some(0), "{policy}: {output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let tasks = report["tasks"].as_array().expect("a list");
    tasks.iter().map(|task| task["cpu_s"].as_f64().expect("a number")).collect()
}

/// A lottery is drawn, and neither Linux 2.4 nor round robin keeps to weights within a second.
fn keeps_proportions(policy: &str) -> bool {
    !["lottery", "linux-2.4", "linux-2.6", "round-robin"].contains(&policy)
}

/// A turn of GDQ's usual T, 20 quanta, would be a third of the time.
fn with_short_turns(policy: &str) -> &str {
    if policy == "gdq" { "gdq:t=1" } else { policy }
}

#[test]
fn every_policy_shares_one_cpu() {
    for entry in policies::REGISTRY {
        let policy = with_short_turns(entry.name);
        let used = cpu_seconds(policy, "1", &["2:sha256sum /dev/zero", "1:sha256sum /dev/zero"]);
        assert!(used.iter().all(|&seconds| seconds > 0.0), "{}: {used:?}", entry.name);
        // Cpu time decides, not the wall clock: this holds on a busy machine too. The last turn may
        // be cut short.
        let ratio = used[0] / used[1];
        let kept = (1.5..2.7).contains(&ratio);
        assert!(kept || !keeps_proportions(entry.name), "{}: {used:?}", entry.name);
    }
}

#[test]
fn every_policy_for_several_cpus_uses_two() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: this machine has one cpu");
        return;
    }
    for entry in policies::REGISTRY.iter().filter(|entry| entry.multiprocessor) {
        let used = cpu_seconds(entry.name, "2", &["1:sha256sum /dev/zero"; 3]);
        assert!(used.iter().all(|&seconds| seconds > 0.0), "{}: {used:?}", entry.name);
    }
}

#[test]
fn a_policy_for_one_cpu_is_refused_on_two() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: this machine has one cpu");
        return;
    }
    for entry in policies::REGISTRY.iter().filter(|entry| !entry.multiprocessor) {
        let command = ["run", "--policy", entry.name, "--cpus", "2", "1:true"];
        let output = prorata(&command).output().expect("prorata starts");
        assert_eq!(output.status.code(), Some(2), "{}: {output:?}", entry.name);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains(entry.name) && message.contains("--cpus 1"), "{message}");
    }
}

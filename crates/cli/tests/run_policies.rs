//! `prorata run` under every policy, with real commands.

mod run_common;

use prorata::policies;
use run_common::{cpu_seconds, prorata, ratio, report_of};

/// A lottery is drawn, and neither Linux 2.4 nor round robin keeps to weights within a second.
fn keeps_proportions(policy: &str) -> bool {
    !["lottery", "linux-2.4", "linux-2.6", "round-robin"].contains(&policy)
}

/// A turn of GDQ's usual T, 20 quanta, would be a third of the time.
fn with_short_turns(policy: &str) -> String {
    if policy.starts_with("gdq") { format!("{policy}:t=1") } else { policy.to_string() }
}

#[test]
fn every_policy_shares_one_cpu() {
    for entry in policies::REGISTRY {
        let policy = with_short_turns(entry.name);
        let options = ["--policy", &policy, "--cpus", "1"];
        let report = report_of(&options, &["2:sha256sum /dev/zero", "1:sha256sum /dev/zero"]);
        assert!(cpu_seconds(&report).iter().all(|&seconds| seconds > 0.0), "{report}");
        // The last turn may be cut short.
        let kept = (1.5..2.7).contains(&ratio(&report));
        assert!(kept || !keeps_proportions(entry.name), "{report}");
    }
}

#[test]
fn every_policy_for_several_cpus_uses_two() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: this machine has one cpu");
        return;
    }
    for entry in policies::REGISTRY.iter().filter(|entry| entry.multiprocessor) {
        let options = ["--policy", entry.name, "--cpus", "2"];
        let report = report_of(&options, &["1:sha256sum /dev/zero"; 3]);
        assert!(cpu_seconds(&report).iter().all(|&seconds| seconds > 0.0), "{report}");
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

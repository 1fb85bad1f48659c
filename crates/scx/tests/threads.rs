//! The kernel's policies under the kernel's lock, in four threads, watched by the thread sanitizer.

use std::process::{Command, Output};

mod native;

const POLICIES: [&str; 5] = ["gr3", "vtrr", "gdq", "dfs_fa", "wfq"];

/// The policy whose queues have latches of their own; its threads are in `threads_apart.c`.
const APART: &str = "gdq_distributed";

/// Random calls from all threads together; the same seed draws the same calls, in another order.
fn drive(policy: &str, flags: &[&str], events: u64) -> Output {
    let flags = [&["-fsanitize=thread", "-pthread"], flags].concat();
    let source = if policy == APART { "threads_apart.c" } else { "threads.c" };
    let program = native::compile(source, policy, &flags);
    let output = Command::new(program).args([&events.to_string(), "1"]).output();
    output.expect("the program starts")
}

fn holds(policy: &str, events: u64) {
    let output = drive(policy, &[], events);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{policy}, {}:\n{said}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), events.to_string());
}

#[test]
fn no_two_threads_touch_anything_at_once() {
    for policy in POLICIES {
        holds(policy, 8_000);
    }
}

#[test]
fn the_sanitizer_sees_threads_without_the_lock() {
    let output = drive("gr3", &["-DUNLOCKED"], 1_000);
    assert!(!output.status.success(), "nobody locked, and nothing was reported");
}

/// Cpus that pick, steal, wake and block at a time; no cpu idles while a task waits.
#[test]
fn queues_with_latches_of_their_own() {
    holds(APART, 400_000);
}

#[test]
fn queues_without_latches_are_seen() {
    let output = drive(APART, &["-DFLAW_UNLATCHED"], 100_000);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("data race"), "{said}");
}

#[test]
fn a_cpu_that_nobody_kicks_is_seen() {
    let output = drive(APART, &["-DFLAW_DEAF"], 100_000);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("a cpu idles"), "{said}");
}

/// A quarter of an hour for each policy that has one lock, or those that `PRORATA_POLICIES` names.
#[test]
#[ignore = "long: cargo test --release -p scx_prorata --test threads -- --ignored --nocapture"]
fn ten_million_events() {
    let wanted =
        std::env::var("PRORATA_POLICIES").unwrap_or_else(|_| POLICIES.join(",") + "," + APART);
    for policy in wanted.split(',') {
        holds(policy, 10_000_000);
        println!("{policy}: 10^7 events, and nobody touched anything at once");
    }
}

//! Whatever happens to prorata, what it holds goes on: it is killed at random moments.

mod run_common;

use std::time::{Duration, Instant};

use run_common::{backends, is_held, processes_of, prorata, signal, wait_until};

const MOMENTS: u64 = 20;
/// So many runs at once.
const BATCH: u64 = 5;

/// Moments between 0 and 400 ms: from before the first command to well within the run.
fn moment(number: u64) -> Duration {
    let mixed = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    Duration::from_micros((mixed.wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 20) % 400_000)
}

/// Guardian, sentries and commands.
fn children_of(prorata: u32) -> Vec<u32> {
    let path = format!("/proc/{prorata}/task/{prorata}/children");
    let children = std::fs::read_to_string(path).unwrap_or_default();
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

#[test]
fn kill_9_leaves_nothing_stopped_or_frozen() {
    // A hog, a tree, a storm of forks, and a daemon in a session of its own.
    let jobs = [
        "1:sha256sum /dev/zero",
        "2:for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; wait",
        "1:while :; do (:); done",
        "1:(setsid sh -c 'while :; do :; done' &) & while :; do sleep 0.01; done",
    ];
    let mut failures = Vec::new();
    for backend in backends() {
        for batch in 0..MOMENTS / BATCH {
            let start = Instant::now();
            let runs: Vec<_> = (0..BATCH)
                .map(|i| {
                    let common = ["run", "--backend", backend];
                    let child = prorata(&[&common[..], &jobs[..]].concat()).spawn();
                    (moment(batch * BATCH + i), child.expect("prorata starts"))
                })
                .collect();
            let mut runs = runs;
            runs.sort_by_key(|run| run.0);
            let mut started = Vec::new();
            for (moment, child) in &mut runs {
                std::thread::sleep(moment.saturating_sub(start.elapsed()));
                started.extend(children_of(child.id()));
                child.kill().expect("it runs");
                child.wait().expect("it was killed");
            }
            let held_by = |run: u32| -> Vec<String> {
                processes_of(run).into_iter().filter_map(is_held).collect()
            };
            // On a busy machine the guardian waits for a cpu, and so does a process that was sent a stop and
            // is not seen as stopped before it has had one: what counts is what stays so.
            std::thread::sleep(Duration::from_secs(1));
            for (moment, child) in &runs {
                let mut held = Vec::new();
                wait_until(Duration::from_secs(60), || {
                    let before = std::mem::replace(&mut held, held_by(child.id()));
                    std::thread::sleep(Duration::from_millis(100));
                    before.is_empty() && held.is_empty()
                });
                while let pids = processes_of(child.id())
                    && !pids.is_empty()
                {
                    pids.into_iter().for_each(|pid| signal(pid, "KILL"));
                }
                if !held.is_empty() {
                    failures.push(format!("{backend}, killed after {moment:?}: {held:?}"));
                }
            }
            // In the middle of an exec, which takes seconds on a busy machine, none carries the mark.
            started.into_iter().for_each(|pid| signal(pid, "KILL"));
        }
    }
    // Only now: nothing of this test goes on running.
    assert!(failures.is_empty(), "{failures:#?}");
}

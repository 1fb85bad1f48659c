//! Whatever happens to prorata, what it holds goes on: it is killed at random moments.

mod run_common;

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use nix::unistd::{ForkResult, fork};
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

/// Processes of a run, whose prorata was killed, that are held for longer than a busy machine takes.
fn held_for_long(prorata: u32) -> Vec<String> {
    let held_now =
        || -> Vec<String> { processes_of(prorata).into_iter().filter_map(is_held).collect() };
    let mut held = Vec::new();
    wait_until(Duration::from_secs(60), || {
        let before = std::mem::replace(&mut held, held_now());
        std::thread::sleep(Duration::from_millis(100));
        before.is_empty() && held.is_empty()
    });
    held
}

fn kill_processes_of(prorata: u32) {
    while let pids = processes_of(prorata)
        && !pids.is_empty()
    {
        pids.into_iter().for_each(|pid| signal(pid, "KILL"));
    }
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
            // On a busy machine the guardian waits for a cpu, and so does a process that was sent a stop and
            // is not seen as stopped before it has had one: what counts is what stays so.
            std::thread::sleep(Duration::from_secs(1));
            for (moment, child) in &runs {
                let held = held_for_long(child.id());
                if !held.is_empty() {
                    failures.push(format!("{backend}, killed after {moment:?}: {held:?}"));
                }
            }
            // In the middle of an exec, which takes seconds on a busy machine, none carries the mark. What
            // these have started by then does.
            started.into_iter().for_each(|pid| signal(pid, "KILL"));
            runs.iter().for_each(|(_, child)| kill_processes_of(child.id()));
        }
    }
    // Only now: nothing of this test goes on running.
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Nearly what the kernel allows a process.
const MAPS: usize = 65_000;

/// A command of the next test. To copy so many maps takes a fork several quanta: when this is stopped, it is
/// nearly always in the middle of one.
#[test]
#[ignore = "forks until it is killed"]
fn forks_all_the_time() {
    let page = NonZeroUsize::new(4096).expect("not 0");
    // Neighbours that differ stay apart.
    let access = [ProtFlags::empty(), ProtFlags::PROT_EXEC];
    for number in 0..MAPS {
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE | access[number % 2];
        // SAFETY: nobody else knows of the memory. What was written to takes longest to copy.
        unsafe {
            let map = mmap_anonymous(None, page, access, MapFlags::MAP_PRIVATE).expect("memory");
            map.cast::<u8>().write(1);
        }
    }
    loop {
        // SAFETY: the child sleeps and ends.
        match unsafe { fork() }.expect("a process") {
            ForkResult::Child => {
                std::thread::sleep(Duration::from_secs(2));
                // SAFETY: always defined.
                unsafe { nix::libc::_exit(0) }
            }
            ForkResult::Parent { .. } => {}
        }
    }
}

/// A stop that comes in the middle of a fork is handed on to the child, even if it has been taken back from
/// its group by then.
#[test]
fn kill_9_leaves_nobody_stopped_who_was_being_forked() {
    let own = std::env::current_exe().expect("a path");
    let forker = format!("1:'{}' --ignored --exact forks_all_the_time", own.display());
    for moment in 0..4 {
        let jobs = [&forker, "1:sha256sum /dev/zero"];
        let common = ["run", "--backend", "signal", "--cpus", "1"];
        let mut child =
            prorata(&[&common[..], &jobs[..]].concat()).spawn().expect("prorata starts");
        // Both commands, and a child.
        let forks = wait_until(Duration::from_secs(60), || processes_of(child.id()).len() > 2);
        std::thread::sleep(Duration::from_millis(23 * moment));
        child.kill().expect("it runs");
        child.wait().expect("it was killed");
        std::thread::sleep(Duration::from_secs(1));
        let held = held_for_long(child.id());
        kill_processes_of(child.id());
        assert!(forks, "it does not fork");
        assert!(held.is_empty(), "killed after {moment}: {held:?}");
    }
}

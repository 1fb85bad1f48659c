//! What the tests of `prorata run` share.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// `prorata` with `arguments`, its output kept.
pub(crate) fn prorata(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prorata"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The report of a run of `jobs`. A busy machine leaves them little cpu time, and whoever has had few
/// quanta has no proportions yet: then they run for longer.
pub(crate) fn report_of(options: &[&str], jobs: &[&str]) -> Value {
    const ENOUGH_S: f64 = 0.5;
    let mut report = Value::Null;
    for duration in ["1s", "4s", "16s"] {
        let common = ["run", "--duration", duration, "--format", "json"];
        let output = prorata(&[&common, options, jobs].concat()).output().expect("prorata starts");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        report = serde_json::from_slice(&output.stdout).expect("a report");
        if cpu_seconds(&report).iter().sum::<f64>() >= ENOUGH_S {
            break;
        }
    }
    report
}

/// What each task used.
pub(crate) fn cpu_seconds(report: &Value) -> Vec<f64> {
    let tasks = report["tasks"].as_array().expect("a list");
    tasks.iter().map(|task| task["cpu_s"].as_f64().expect("a number")).collect()
}

/// How often the second task's cpu time the first one had. It decides, not the wall clock: this holds on
/// a busy machine too.
pub(crate) fn ratio(report: &Value) -> f64 {
    let used = cpu_seconds(report);
    used[0] / used[1]
}

/// The backends that work here: `cgroup` needs a cgroup v2 hierarchy to write to. Root mounts one
/// if there is none.
pub(crate) fn backends() -> Vec<&'static str> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if !mounts.contains(" - cgroup2 ") {
        let place = "/tmp/prorata-test-cgroup2";
        let _ = fs::create_dir_all(place);
        let mount = Command::new("mount").args(["-t", "cgroup2", "none", place]).status();
        println!("no cgroup v2 was mounted; mounting one: {mount:?}");
    }
    let tried = prorata(&["run", "--backend", "cgroup", "1:true"]).output().expect("it runs");
    if tried.status.code() == Some(2) {
        println!("skipped: backend cgroup: {}", String::from_utf8_lossy(&tried.stderr));
        return vec!["signal"];
    }
    vec!["signal", "cgroup"]
}

/// Sends a signal by its name.
pub(crate) fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
}

/// A field of /proc/PID/stat after the name: 0 is the state, 1 the parent.
pub(crate) fn stat_field(pid: u32, index: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(index).map(str::to_owned)
}

/// The live processes that carry the mark of the run of `prorata`.
pub(crate) fn processes_of(prorata: u32) -> Vec<u32> {
    let mark = format!("PRORATA_RUN={prorata}.");
    let entries = fs::read_dir("/proc").expect("there is /proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let marked = |pid: &u32| {
        fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
            environment.split(|&b| b == 0).any(|variable| variable.starts_with(mark.as_bytes()))
        })
    };
    pids.filter(marked).collect()
}

/// Why `pid` does not run: stopped, or in a cgroup that is frozen.
pub(crate) fn is_held(pid: u32) -> Option<String> {
    if stat_field(pid, 0).as_deref() == Some("T") {
        return Some(format!("process {pid} is stopped"));
    }
    let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let own = cgroups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?;
    let events = PathBuf::from(format!("{mount}{own}/cgroup.events"));
    let frozen = fs::read_to_string(events).is_ok_and(|text| text.contains("frozen 1"));
    frozen.then(|| format!("process {pid} is frozen in {own}"))
}

/// Waits until `done`, for at most `patience`.
pub(crate) fn wait_until(patience: Duration, mut done: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < patience {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    done()
}

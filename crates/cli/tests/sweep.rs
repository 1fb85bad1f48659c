//! `prorata sweep` as users meet it, killed in the middle among other things.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn command(args: &[&str], directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prorata"));
    command.arg("sweep").args(args).current_dir(directory);
    command
}

fn sweep(args: &[&str], directory: &Path) -> Output {
    command(args, directory).output().expect("it can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Runs of some milliseconds each, so that there is time to be killed in (with two threads).
const SWEEP: &str = r#"
    workload = "workload.toml"
    policies = ["gr3", "mfq", "eevdf", "lottery"]
    seeds = 8
    measures = ["error_max", "probe.wakeup_p99_ns"]
    groups = ["probe"]
    [grid]
    "task.hog.count" = [2, 4, 6, 8, 10]
"#;
const RUNS: usize = 4 * 8 * 5;
const WORKLOAD: &str = r#"
    duration = "5s"
    machine = { quantum = "1ms" }
    [[task]]
    name = "hog"
    [[task]]
    name = "probe"
    phases = [{ run = { exponential = "200us" } }, { sleep = { exponential = "2ms" } }]
"#;

fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("sweep.toml"), SWEEP).expect("written");
    std::fs::write(directory.path().join("workload.toml"), WORKLOAD).expect("written");
    directory
}

/// The whole lines of the journal, without the one that says what it is of.
fn journal(directory: &Path) -> usize {
    let bytes = std::fs::read(directory.join(".runs.csv.journal")).unwrap_or_default();
    bytes.iter().filter(|&&byte| byte == b'\n').count().saturating_sub(1)
}

/// Kills `child` as the kernel does, once it has done a few more runs than `before`.
fn kill_after_a_few(mut child: Child, directory: &Path, before: usize) {
    while journal(directory) < before + 5 {
        assert!(child.try_wait().expect("a child").is_none(), "it ended before it was killed");
        std::thread::yield_now();
    }
    child.kill().expect("it runs");
    assert!(!child.wait().expect("a child").success());
}

#[test]
fn a_sweep_that_is_killed_goes_on_and_loses_and_doubles_nothing() {
    let (killed, whole) = (directory(), directory());
    let args = ["sweep.toml", "-o", "runs.csv", "-o", "runs.parquet", "--means", "means.csv"];
    let mut before = 0;
    for _ in 0..2 {
        let mut command = command(&args, killed.path());
        let child =
            command.args(["--jobs", "2"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        kill_after_a_few(child.expect("it can be started"), killed.path(), before);
        before = journal(killed.path());
        assert!(!killed.path().join("runs.csv").exists(), "it is written at the end");
    }
    assert!((10..RUNS).contains(&before), "{before}");
    let end = sweep(&args, killed.path());
    assert!(end.status.success(), "{}", text(&end.stderr));
    let told = format!("{RUNS} runs, {before} of them done before");
    assert!(text(&end.stderr).contains(&told), "{}", text(&end.stderr));
    assert_eq!(journal(killed.path()), 0);

    let args = [&args[..], &["--jobs", "1"]].concat();
    assert!(sweep(&args, whole.path()).status.success());
    for file in ["runs.csv", "runs.parquet", "means.csv"] {
        let read = |directory: &Path| std::fs::read(directory.join(file)).expect(file);
        assert!(read(killed.path()) == read(whole.path()), "{file} differs");
    }
    let runs = std::fs::read_to_string(killed.path().join("runs.csv")).expect("text");
    let numbers: Vec<&str> =
        runs.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
    assert_eq!(numbers, (0..RUNS).map(|run| run.to_string()).collect::<Vec<_>>());
}

#[test]
fn another_sweep_does_not_touch_what_was_found() {
    let directory = directory();
    let child = command(&["sweep.toml", "-o", "runs.csv", "--jobs", "2"], directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    kill_after_a_few(child.expect("it can be started"), directory.path(), 0);
    let before = journal(directory.path());
    let changed = WORKLOAD.replace("200us", "300us");
    std::fs::write(directory.path().join("workload.toml"), changed).expect("written");
    let refused = sweep(&["sweep.toml", "-o", "runs.csv"], directory.path());
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains(".runs.csv.journal holds results of something else"));
    assert_eq!(journal(directory.path()), before);
}

#[test]
fn what_is_printed_is_what_was_asked_for() {
    let directory = directory();
    let short = SWEEP.replace("seeds = 8", "seeds = 2").replace("[2, 4, 6, 8, 10]", "[2, 3]");
    std::fs::write(directory.path().join("sweep.toml"), short).expect("written");
    let table = sweep(&["sweep.toml"], directory.path());
    let table = text(&table.stdout);
    assert!(table.contains("task.hog.count = 3") && table.contains("95 % interval"), "{table}");
    assert!(directory.path().join("sweep.csv").exists(), "the default is here");
    let json = sweep(&["sweep.toml", "--format", "json"], directory.path());
    let object: serde_json::Value = serde_json::from_slice(&json.stdout).expect("one object");
    assert_eq!(object["points"][1]["task.hog.count"], 3);
    assert_eq!(object["means"].as_array().expect("a list").len(), 2 * 2 * 4);
    assert_eq!(object["differences"].as_array().expect("a list").len(), 2 * 2 * 6);
    let csv = sweep(&["sweep.toml", "--format", "csv"], directory.path());
    let runs = std::fs::read(directory.path().join("sweep.csv")).expect("the runs");
    assert!(csv.stdout == runs);
}

#[test]
fn where_no_run_has_a_result_the_sweep_fails() {
    let directory = directory();
    let code = |cpus: &str| {
        let short = SWEEP.replace("seeds = 8", "seeds = 2").replace(
            "\"task.hog.count\" = [2, 4, 6, 8, 10]",
            &format!("\"machine.cpus\" = {cpus}"),
        );
        let short = short.replace(r#""gr3", "mfq", "eevdf", "lottery""#, r#""wrr""#);
        std::fs::write(directory.path().join("short.toml"), short).expect("written");
        let output = sweep(&["short.toml"], directory.path());
        let table = text(&output.stdout);
        assert!(table.contains("wrr") && table.contains("cpu"), "it is told: {table}");
        output.status.code()
    };
    assert_eq!(code("[2, 4]"), Some(1));
    assert_eq!(code("[1, 2]"), Some(0));
}

#[test]
fn no_output_takes_the_place_of_another_or_of_an_input() {
    let directory = directory();
    let refused = |args: &[&str]| {
        let output = sweep(args, directory.path());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        text(&output.stderr)
    };
    let twice = refused(&["sweep.toml", "-o", "a.csv", "--means", "./a.csv"]);
    assert!(twice.contains("./a.csv") && twice.contains("give each output a file of its own"));
    for (sweep, workload) in [("in.csv", "workload.toml"), ("sweep.toml", "sweep.csv")] {
        let asked = SWEEP.replace("workload.toml", workload);
        std::fs::write(directory.path().join(sweep), &asked).expect("written");
        let _ = std::fs::write(directory.path().join("sweep.csv"), WORKLOAD);
        let lost = refused(&[sweep]);
        assert!(lost.contains("that is the input") && lost.contains("--output"), "{lost}");
        let left = std::fs::read_to_string(directory.path().join(sweep)).expect("still there");
        assert_eq!(left, asked);
    }
    assert!(refused(&["."]).contains("cannot read ."));
    let short = SWEEP.replace("seeds = 8", "seeds = 2").replace("[2, 4, 6, 8, 10]", "[2]");
    std::fs::write(directory.path().join("short.toml"), short).expect("written");
    let told = sweep(&["short.toml"], directory.path());
    assert!(text(&told.stderr).ends_with("wrote short.csv\n"), "{}", text(&told.stderr));
}

#[test]
fn bad_input_is_named_and_remedied() {
    let directory = directory();
    let refused = |args: &[&str]| {
        let output = sweep(args, directory.path());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        text(&output.stderr)
    };
    assert!(refused(&["missing.toml"]).contains("cannot read missing.toml"));
    assert!(refused(&["workload.toml"]).contains("workload.toml: "));
    assert!(refused(&["sweep.toml", "--jobs", "0"]).contains("--jobs 0"));
    assert!(refused(&["sweep.toml", "-o", "runs.xlsx"]).contains("use .csv or .parquet"));
    let nowhere = refused(&["sweep.toml", "--means", "nowhere/means.csv"]);
    assert!(nowhere.contains("nowhere/means.csv") && nowhere.contains("no such directory"));
    std::fs::write(directory.path().join("workload.toml"), "[[task]]\nweight = 0")
        .expect("written");
    assert!(refused(&["sweep.toml"]).contains("0 is no weight"));
}

//! `prorata simulate` and `prorata compare` as a user types them.

use std::path::Path;
use std::process::{Command, Output};

fn prorata(args: &[&str]) -> Output {
    let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    Command::new(env!("CARGO_BIN_EXE_prorata"))
        .args(args)
        .current_dir(workloads)
        .output()
        .expect("prorata runs")
}

fn json(args: &[&str]) -> serde_json::Value {
    let output = prorata(args);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// Bad input: exit code 2, nothing on standard output, and a message that names the input.
fn refuses(args: &[&str], named: &str) {
    let output = prorata(args);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    assert!(output.stdout.is_empty(), "{args:?}");
    assert!(message.contains(named), "{args:?}: {message}");
    assert!(!message.contains("panicked"), "{args:?}: {message}");
}

#[test]
fn the_vectors_of_the_papers() {
    let schedule = |args: &[&str]| -> Vec<Vec<u64>> {
        let mut all = vec!["simulate", "--policy", "gr3", "--format", "json"];
        all.extend(args);
        serde_json::from_value(json(&all)["schedule"].clone()).expect("no cpu idles")
    };
    let one = |weights, quanta| -> Vec<u64> {
        schedule(&["--weights", weights, "--quanta", quanta]).into_iter().flatten().collect()
    };
    assert_eq!(one("5,2,1", "8"), [0, 0, 1, 0, 0, 0, 1, 2]);
    assert_eq!(
        one("12,3,3,2,2,2", "24"),
        [1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 1, 0, 1, 0, 2, 0, 2, 0, 3, 0, 4, 0, 5, 0]
    );
    let two = schedule(&["--cpus", "2", "--weights", "2,3,1", "--quanta", "6"]);
    assert_eq!(two, [[0, 1], [0, 1], [2, 1], [0, 1], [0, 1], [2, 1]]);
}

#[test]
fn the_object_has_what_it_should() {
    let object = json(&["simulate", "--policy", "gr3", "--weights", "5,2,1", "--format", "json"]);
    for key in ["policy", "cpus", "weights", "quanta", "schedule", "service"] {
        assert!(!object[key].is_null(), "{key}");
    }
    assert_eq!(object["service"], serde_json::json!([10, 4, 2]));
    assert_eq!(object["error_min"], serde_json::json!(-0.875));
    assert_eq!(object["error_max"], serde_json::json!(1.25));
}

#[test]
fn with_a_cpu_for_everybody_task_i_has_cpu_i() {
    let all = prorata::policies::REGISTRY.iter().filter(|entry| entry.multiprocessor);
    for entry in all {
        let args = ["simulate", "--policy", entry.name, "--cpus", "3", "--weights", "1,7"];
        let object = json(&[&args[..], &["--quanta", "5", "--format", "json"]].concat());
        let row = serde_json::json!([0, 1, null]);
        assert!(
            object["schedule"].as_array().expect("rows").iter().all(|r| *r == row),
            "{}: {}",
            entry.name,
            object["schedule"]
        );
    }
}

#[test]
fn bad_input_is_refused_by_name() {
    let fixed = |more: &[&'static str]| -> Vec<&'static str> {
        [&["simulate", "--policy", "gr3"][..], more].concat()
    };
    refuses(&fixed(&["--weights", "5,0"]), "weight 2 of --weights: '0'");
    refuses(&fixed(&["--weights", "five"]), "'five'");
    refuses(&fixed(&["--weights", "4294967296"]), "4294967295");
    refuses(&fixed(&["--weights", "@nowhere"]), "nowhere");
    refuses(&fixed(&["--weights", "1", "--cpus", "0"]), "--cpus 0");
    refuses(&fixed(&["--weights", "1", "--cpus", "1000000"]), "1000000");
    refuses(&fixed(&["--weights", "1", "--quanta", "99999999999"]), "99999999999");
    refuses(&fixed(&["--weights", "1", "--quanta", "-1"]), "-1");
    refuses(&["simulate", "--policy", "best", "--weights", "1"], "round-robin");
    refuses(&["simulate", "--policy", "vtrr", "--weights", "1,1", "--cpus", "2"], "one cpu only");
    refuses(&["simulate"], "--weights");
    refuses(&["simulate", "nowhere.toml"], "nowhere.toml");
    refuses(&["simulate", "rt-app/mp3-short.json"], "tasks.AudioTick.cpus");
    refuses(&["simulate", "README.md"], "no recording");
    refuses(&["simulate", "web-servers.toml", "-o", "x.docx"], "x.docx");
    refuses(&["simulate", "web-servers.toml", "--duration", "5"], "'5' is no length of time");
    refuses(&["simulate", "web-servers.toml", "-o", "/proc/nowhere/x.csv"], "/proc/nowhere/x.csv");
    refuses(&["compare", "web-servers.toml", "--policies", "gr3,best"], "best");
    refuses(&["compare", "web-servers.toml", "--policies", ""], "no policy");
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    // /dev/full cannot be renamed over; a file beside it in /dev needs root, so only the message
    // and the exit code are common to all users.
    refuses(&["simulate", "web-servers.toml", "-o", "/dev/full/x.parquet"], "/dev/full/x.parquet");
}

#[test]
fn policies_stand_side_by_side() {
    let args = ["compare", "--policies", "gr3,round-robin,vtrr", "--duration", "1s"];
    let output = prorata(&[&args[..], &["desktop-beside-a-build.toml"]].concat());
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success() && text.contains("round-robin") && text.contains("compiler"));
    assert!(text.contains("not compared: vtrr schedules one cpu only"), "{text}");
}

#[test]
fn the_same_command_prints_the_same_bytes() {
    let args = ["simulate", "desktop-beside-a-build.toml", "--duration", "2s", "--format", "json"];
    assert_eq!(prorata(&args).stdout, prorata(&args).stdout);
}

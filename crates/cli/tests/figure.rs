//! `prorata figure` as users meet it.

use std::process::{Command, Output};

fn prorata(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_prorata")).args(args).output().expect("it can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Runs `args`, which must fail with exit code 2, and returns what it says.
fn refused(args: &[&str]) -> String {
    let output = prorata(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?} prints nothing");
    text(&output.stderr)
}

#[test]
fn lists_every_figure() {
    let output = prorata(&["figure", "--list"]);
    assert!(output.status.success());
    let list = text(&output.stdout);
    assert!(list.contains("gr3-9 ") && list.contains("dfs-fa ") && list.contains("2500 sets"));
}

#[test]
fn bad_input_is_named_and_remedied() {
    let unknown = refused(&["figure", "gr3-99"]);
    assert!(
        unknown.contains("'gr3-99'") && unknown.contains("gr3-9") && unknown.contains("dfs-fa")
    );
    assert!(refused(&["figure", "gr3-9", "--sets", "0"]).contains("--sets 0"));
    assert!(refused(&["figure", "gr3-9", "--jobs", "0"]).contains("--jobs 0"));
    let nowhere = refused(&["figure", "vtrr-6", "--output", "/proc/nowhere"]);
    assert!(nowhere.contains("/proc/nowhere"), "{nowhere}");
    let policies = refused(&["figure", "gr3-9", "--policies", "qfq,quick"]);
    assert!(policies.contains("--policies qfq,quick: no policy is called 'quick'"), "{policies}");
    refused(&["figure"]);
    refused(&["figure", "gr3-9", "--sets", "many"]);
}

#[test]
fn prints_one_json_object() {
    let directory = std::env::temp_dir().join(format!("prorata-cli-{}", std::process::id()));
    let path = directory.to_str().expect("text");
    let output = prorata(&["figure", "vtrr-6", "--format", "json", "--output", path]);
    assert!(output.status.success());
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(object["figure"], "vtrr-6");
    for key in ["sets", "seed", "seconds", "decisions"] {
        assert!(object[key].is_number(), "{key}");
    }
    assert_eq!(object["rows"][0]["printed"]["repeats_ms"], 300.0);
    assert_eq!(object["rows"][0]["repeats_ms"], 300.0);
    assert!(directory.join("index.html").exists());
    let _ = std::fs::remove_dir_all(directory);
}

//! `prorata verify`, and what any command does where nobody reads what it prints.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const RECORDING: &str = "prorata-record 1 policy gr3 cpus 1 quantum_ns 10
1 add 0 2 100
1 add 1 1 101
2 wake 0
2 wake 1
3 pick 0 0
13 charge 0 10 10
";

fn prorata(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prorata"));
    command.args(args).stdin(Stdio::null());
    command
}

fn output(args: &[&str]) -> Output {
    prorata(args).output().expect("it can be started")
}

fn recording(text: &str) -> tempfile::TempPath {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&file, text).expect("written");
    file.into_temp_path()
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn what_was_found_is_an_object_too() {
    let object = |text: &str, code: i32| -> serde_json::Value {
        let output = output(&["verify", &name(&recording(text)), "--format", "json"]);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        serde_json::from_slice(&output.stdout).expect("one object")
    };
    let same = object(RECORDING, 0);
    assert_eq!((&same["same"], &same["decisions"]), (&true.into(), &1.into()));
    let other = object(&RECORDING.replace("pick 0 0", "pick 0 1"), 1);
    assert_eq!((&other["same"], &other["line"]), (&false.into(), &6.into()));
}

#[test]
fn what_is_no_recording_is_named() {
    let refused = |path: &str| {
        let output = output(&["verify", path]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let told = String::from_utf8(output.stderr).expect("text");
        assert!(told.contains(path) && told.contains("scx_prorata --record FILE"), "{told}");
    };
    refused("/tmp");
    refused(env!("CARGO_BIN_EXE_prorata"));
    refused(&name(&recording("")));
}

/// A closed standard output is the reader's affair, a full one an error; neither is a panic.
#[test]
fn standard_output_may_be_closed_or_full() {
    let recording = recording(RECORDING);
    let recording = name(&recording);
    let commands: [&[&str]; 3] =
        [&["verify", &recording], &["policies"], &["run", "--backend", "signal", "1:true"]];
    for args in commands {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let closed = prorata(args).stdout(writer).output().expect("it can be started");
        assert_eq!(closed.status.code(), Some(0), "{args:?}: {closed:?}");
        let full = File::options().write(true).open("/dev/full").expect("Linux has it");
        let full = prorata(args).stdout(full).output().expect("it can be started");
        let told = String::from_utf8_lossy(&full.stderr);
        assert_eq!(full.status.code(), Some(2), "{args:?}: {told}");
        assert!(told.contains("cannot write to standard output"), "{args:?}: {told}");
    }
}

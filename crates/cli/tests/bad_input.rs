//! Files that are none, or say what cannot be done: exit code 2, and a message that names the file, the
//! place in it, and the way out.

use std::fs;
use std::path::Path;
use std::process::Command;

/// What `prorata` says of `text` in a file called `name`, without the name of the directory.
fn refusal(directory: &Path, command: &str, name: &str, text: impl AsRef<[u8]>) -> String {
    fs::write(directory.join(name), text).expect("written");
    refusal_of(directory, &[command, name])
}

fn refusal_of(directory: &Path, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_prorata"))
        .args(args)
        .current_dir(directory)
        .output()
        .expect("prorata runs");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    assert!(output.stdout.is_empty(), "{args:?}");
    assert!(!message.contains("panicked"), "{args:?}: {message}");
    message
}

/// Each is a file's name, its text, and what a message says: the name, the place, the way out.
fn all_say(command: &str, cases: &[(&str, &str, &[&str])]) {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, text, parts) in cases {
        let message = refusal(directory.path(), command, name, text);
        assert!(message.starts_with(&format!("prorata: {name}")), "{text}: {message}");
        for part in *parts {
            assert!(message.contains(part), "{text}: no '{part}' in {message}");
        }
    }
}

#[test]
fn workloads() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.toml", "", &["there is no task", "give at least one"]),
        ("a.toml", "[[task]]\ncount = -1", &["line 2, column", "from 0 to 4294967295"]),
        ("a.toml", "[[task]]\nweight = -1", &["task[0].weight", "from 1 to 4294967295"]),
        ("a.toml", "[[task]]\nweight = '3'", &["line 2", "a whole number without quotes"]),
        ("a.toml", "[[task]]\nrepeat = 3", &["task[0].repeat", "leave repeat out"]),
        ("a.toml", "[[task]]\nphases = 3", &["line 2", "a list of phases, as [{ run"]),
        ("a.toml", "[[task]]\nphases = ['yield']", &["task[0].phases", "let it run or sleep"]),
        (
            "a.toml",
            "[[task]]\narrival = { uniform = ['1s'] }",
            &["line 2", "as [\"1ms\", \"5ms\"]"],
        ),
        ("a.toml", "[[task]]\nphases = [{ run = '1s' }]\nrepeat = 0", &["repeat", "at least once"]),
        ("a.toml", "[[task]]\nweight = 1\nnice = 1", &["task[0]: ", "leave one out"]),
        ("a.toml", "[task]\nweight = 1", &["line 1", "[[task]]"]),
        ("a.toml", "duration = 5\n[[task]]", &["line 1", "a length of time in quotes, as \"5ms\""]),
        ("a.toml", "[[task]]\n[[cgroup]]\nweight = 3", &["cgroup[0].name", "write name = "]),
        ("a.toml", "[machine]\nquantum = '0s'\n[[task]]", &["machine: ", "make it at least 1ns"]),
        ("a.json", "", &["no JSON", "line 1 column 0"]),
        ("a.json", "[]", &["an object, in { }, belongs here"]),
        ("a.json", r#"{"tasks": {"a": {"run": "x"}}}"#, &["tasks.a.run", "number of microseconds"]),
        ("a.json", r#"{"tasks": {"a": {"run": 1, "loop": 0}}}"#, &["tasks.a.loop", "1 or more"]),
        ("a.json", r#"{"tasks": {"a": {"run": 1, "resume": "b"}}}"#, &["a.resume", "one of those"]),
        ("a.json", r#"{"tasks": {"a": {"run": 1, "fork": "b"}}}"#, &["a.fork", "--ignore fork"]),
        ("a.txt", "hello", &["no recording", "'perf sched script'"]),
        ("a.txt", "a 1 [0] 1.0: sched:sched_switch: x\n", &["line 1: ", "leave the line out"]),
        ("a.txt", "a 1 [0] 1.0: sched_switch: a:0 [120] S ==> b:0 [120]", &["record again"]),
    ];
    for command in ["simulate", "compare", "explain"] {
        all_say(command, cases);
    }
    let directory = tempfile::tempdir().expect("a directory");
    for (name, remedy) in [("a.toml", "UTF-8"), ("a.json", "UTF-8"), ("a.txt", "perf sched script")]
    {
        let message = refusal(directory.path(), "simulate", name, b"\xff\xfe");
        assert!(message.contains(name) && message.contains(remedy), "{message}");
    }
    fs::write(directory.path().join("a.toml"), "[[task]]\ncount = 100001").expect("written");
    let many = refusal_of(directory.path(), &["explain", "a.toml"]);
    assert!(
        many.contains("a.toml: 100001 tasks") && many.contains("make a 'count' smaller"),
        "{many}"
    );
    let cpus = refusal_of(directory.path(), &["simulate", "a.toml", "--cpus", "0"]);
    assert!(cpus.contains("a.toml with --cpus: 0 cpus: give 1 to"), "{cpus}");
}

#[test]
fn sweeps() {
    let with =
        |more: &str| format!("policies = ['gr3']\n{more}\n[workload]\ntask = [{{ name = 'a' }}]");
    let cases: &[(&str, &str, &[&str])] = &[
        ("a.toml", "", &["workload: ", "name a .toml file"]),
        ("a.toml", &with(""), &["seeds: ", "write seeds = 30"]),
        ("a.toml", &with("seeds = -1"), &["seeds: -1", "write seeds = 30"]),
        ("a.toml", &with("seeds = 2\nfoo = 1"), &["line 3", "expected one of"]),
        ("a.toml", &with("seeds = 2\nconfidence = 'x'"), &["confidence: ", "from 0.5"]),
        ("a.toml", &with("seeds = 2\ngroups = ['b']"), &["groups: ", "there are a"]),
        ("a.toml", &with("seeds = 9999999"), &["more than 1000000 runs", "take fewer seeds"]),
        (
            "a.toml",
            "workload = 'none.toml'",
            &["workload: cannot read none.toml", "check its name"],
        ),
        ("a.toml", "workload = 'b.toml'", &["b.toml: ", "line 2", "unknown field `weigth`"]),
        ("a.toml", "workload = 'b.json'", &["b.json: ", "name a .toml file"]),
    ];
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("b.toml"), "[[task]]\nweigth = 3").expect("written");
    fs::write(directory.path().join("b.json"), "{}").expect("written");
    for (name, text, parts) in cases {
        let message = refusal(directory.path(), "sweep", name, text);
        assert!(message.starts_with("prorata: a.toml: "), "{text}: {message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{text}: {message}");
    }
}

#[test]
fn recordings_of_the_kernel() {
    let head = "prorata-record 1 policy gr3 cpus 2 quantum_ns 5000000\n";
    let with = |line: &str| format!("{head}{line}");
    all_say(
        "verify",
        &[
            ("a", "", &["is empty", "scx_prorata --record FILE"]),
            ("a", "hello", &["line 1: 'hello'", "scx_prorata --record FILE"]),
            ("a", &head.replace("cpus 2", "cpus 0"), &["line 1: ", "which is 1 to 65536"]),
            ("a", &head.replace("gr3", "gr4"), &["line 1: ", "no policy is called 'gr4'"]),
            ("a", &with("1 fly 0"), &["line 2: '1 fly 0'", "no such event", "record again"]),
            ("a", &with("x wake 0"), &["line 2: ", "'x' is no time", "record again"]),
            ("a", &with("1 wake 0"), &["line 2: ", "no task 0", "record again"]),
            (
                "a",
                &with("1 add 0 1024 7\n1 forgo 0 5"),
                &["line 3: ", "task 0 was not charged with 5 ns before", "record again"],
            ),
            (
                "a",
                &with("1 add 0 1024 7\n1 leave 0 40000001"),
                &["line 3: ", "there were no 40000001 ns to be left", "record again"],
            ),
        ],
    );
}

/// Also sleepers=corrected where nothing can be corrected.
#[test]
fn options_that_mean_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let sweep = "policies = ['gr3', 'lottery:sleepers=corrected']\nseeds = 1\n\
                 [workload]\ntask = [{ name = 'a' }]";
    fs::write(directory.path().join("s.toml"), sweep).expect("written");
    fs::write(directory.path().join("a.toml"), "[[task]]").expect("written");
    let spec = "lottery:sleepers=corrected";
    let commands: [&[&str]; 5] = [
        &["simulate", "a.toml", "--policy", spec],
        &["simulate", "--weights", "1,2", "--policy", spec],
        &["compare", "a.toml", "--policies", spec],
        &["figure", "gr3-4", "--policies", spec],
        &["run", "1:true", "--policy", spec],
    ];
    for command in commands {
        let message = refusal_of(directory.path(), command);
        let wrong =
            "lottery has no 'sleepers=corrected': it has compensation, sleepers (paper, turns)";
        assert!(message.contains(wrong), "{command:?}: {message}");
    }
    let of_sweep = refusal_of(directory.path(), &["sweep", "s.toml"]);
    let wrong =
        "s.toml: policies: lottery:sleepers=corrected: option 'sleepers' takes paper or turns";
    assert!(of_sweep.contains(wrong), "{of_sweep}");
    let twice = refusal_of(directory.path(), &["simulate", "a.toml", "--policy", "gdq:t=1,t=2"]);
    assert!(twice.contains("gdq is given option 't' twice"), "{twice}");
    let value = refusal_of(directory.path(), &["simulate", "a.toml", "--policy", "gdq:t=x"]);
    assert!(value.contains("gdq:t=x: option 't' takes a number from 1 to"), "{value}");
}

#[test]
fn files_that_are_not_there() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join("d.toml")).expect("made");
    let commands: [&[&str]; 6] = [
        &["simulate"],
        &["compare"],
        &["explain"],
        &["sweep"],
        &["verify"],
        &["simulate", "--weights"],
    ];
    for command in commands {
        let at = if command.len() > 1 { "@" } else { "" };
        let names = [("none.toml", "check its name"), ("d.toml", "name a file in it")];
        for (name, remedy) in names {
            let file = format!("{at}{name}");
            let message = refusal_of(directory.path(), &[command, &[file.as_str()]].concat());
            let all =
                message.contains(&format!("cannot read {name}: ")) && message.contains(remedy);
            assert!(all, "{command:?}: {message}");
        }
    }
}

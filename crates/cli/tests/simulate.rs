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
fn help_tells_the_weights_by_default() {
    for command in ["simulate", "compare", "explain"] {
        let help = prorata(&[command, "--help"]).stdout;
        let help = String::from_utf8_lossy(&help).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("given no weight in TOML has weight 1 and a cgroup 100"), "{help}");
    }
}

#[test]
fn costs_that_eat_a_whole_quantum_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("costs.toml");
    std::fs::write(&file, "[machine]\nswitch_cost = '3us'\n[[task]]").expect("written");
    let file = file.to_str().expect("text");
    let cost = "a switch costs 3000 ns, which leaves nothing of a quantum of 3000 ns: make";
    for command in ["simulate", "compare"] {
        refuses(&[command, file, "--quantum", "3us"], &format!("{file} with --quantum: {cost}"));
    }
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
    refuses(&fixed(&["--weights", "1", "--duration", "1s"]), "--duration");
    refuses(&["simulate"], "--weights");
    refuses(&["simulate", "nowhere.toml"], "nowhere.toml");
    refuses(&["simulate", "rt-app/mp3-short.json"], "tasks.AudioTick.cpus");
    refuses(&["simulate", "rt-app/mp3-short.json"], "--ignore cpus");
    refuses(&["simulate", "web-servers.toml", "--ignore", "cpus"], "leave --ignore out");
    refuses(&["simulate", "README.md"], "no recording");
    refuses(&["simulate", "web-servers.toml", "-o", "x.docx"], "x.docx");
    refuses(&["simulate", "cgroups.toml", "-o", "x.lag.csv"], "workloads with cgroups");
    refuses(&["simulate", "web-servers.toml", "--duration", "5"], "'5' is no length of time");
    refuses(&["simulate", "web-servers.toml", "-o", "/proc/nowhere/x.csv"], "/proc/nowhere/x.csv");
    let crowd = tempfile::Builder::new().suffix(".toml").tempfile().expect("a file");
    std::fs::write(&crowd, "duration = \"1s\"\n[[task]]\ncount = 1000000000\n").expect("written");
    refuses(&["simulate", &crowd.path().display().to_string()], "1000000000 tasks would need");
    refuses(&["compare", "web-servers.toml", "--policies", "gr3,best"], "best");
    refuses(&["compare", "web-servers.toml", "--policies", ""], "no policy");
    refuses(&["compare", "web-servers.toml", "--seeds", "0"], "--seeds 0");
    refuses(&["compare", "web-servers.toml", "-o", "x.csv"], "give --seeds N");
    refuses(&["compare", "web-servers.toml", "--policies", "gr3,wfq,gr3"], "names gr3 twice");
}

#[test]
fn no_output_takes_the_place_of_another_or_of_the_workload() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (own, other) = (path("own.json"), path("other.csv"));
    std::fs::write(&own, r#"{ "tasks": { "a": { "run": 10 } } }"#).expect("written");
    refuses(&["simulate", &own, "-o", &own], "own.json: that is the input");
    refuses(&["simulate", &own, "-o", &other, "-o", &other], "give each output a file of its own");
    let means = ["compare", &own, "--seeds", "2", "-o", &other, "--means", &other];
    refuses(&means, "give each output a file of its own");
    std::fs::create_dir(path("x.csv")).expect("a directory");
    refuses(&["simulate", &own, "-o", &path("x.csv")], "it is a directory");
    assert_eq!(std::fs::read_dir(&directory).expect("a directory").count(), 2);
}

#[test]
fn help_says_all_that_there_is_to_know() {
    let told = |args: &[&str], what: &str| {
        let output = prorata(args);
        let text = String::from_utf8(output.stdout).expect("text");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(output.status.success() && text.contains(what), "{args:?}: {text}");
    };
    told(&["--help"], "run Run commands that share cpus by weight attach");
    told(&["run", "--help"], "The exit status is 1 if a command failed");
    told(&["run", "--help"], "10ms, 2ms, 1s");
    told(&["attach", "--help"], "they go on as before");
    told(&["simulate", "--help"], "with --weights, tasks that are always runnable");
    told(&["sweep", "--help"], "goes on from the journal");
    told(&["explain", "--help"], "as if all of its tasks ran at once");
    told(&["verify", "--help"], "The exit status is 1 if one differs");
}

#[test]
fn what_changes_nothing_is_no_option() {
    for option in ["--quantum=5ms", "--duration=5s", "--seed=5"] {
        refuses(
            &["explain", "web-servers.toml", option],
            option.split('=').next().expect("a name"),
        );
    }
    let explained =
        prorata(&["explain", "rt-app/mp3-short.json", "--ignore", "cpus", "--cpus", "3"]);
    assert!(explained.status.success(), "{explained:?}");
}

#[test]
fn workloads_that_cannot_go_on_are_refused() {
    let refused = |text: &str, named: &str| {
        let file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a file");
        std::fs::write(&file, text).expect("written");
        let path = file.path().display().to_string();
        refuses(&["simulate", &path, "--policy", "gr3"], named);
        refuses(&["compare", &path, "--policies", "gr3,wfq"], named);
    };
    let phases = |phase: &str| format!("[[task]]\nphases = [{{ run = '1ms' }}, {phase}]\n");
    refused(&phases("{ wait = 's' }"), "task[0]: it waits for 's', which no task posts");
    refused(&phases("{ unlock = 'l' }"), "task[0]: it unlocks 'l', which it has not locked");
    refused(&phases("{ lock = '' }"), "task[0].phases[1]: a name is empty");
    refused("[[task]]\nname = ''\n", "task[0].name: a name is empty");
}

/// A shell in a mount namespace of its own, where `full` is a file system of 16 KiB. `None` if this
/// user may not make one.
fn with_a_full_disk(script: &str) -> Option<Output> {
    let disk = tempfile::tempdir().expect("a directory");
    let mount = format!("mount -t tmpfs -o size=16k none {} || exit 99", disk.path().display());
    let script = format!("{mount}\nfull={}\n{script}", disk.path().display());
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", &script])
        .env("PRORATA", env!("CARGO_BIN_EXE_prorata"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads"))
        .output()
        .ok()
        .filter(|output| !matches!(output.status.code(), Some(1 | 99) | None));
    if output.is_none() {
        eprintln!("skipped: no user and mount namespaces here (kernel.unprivileged_userns_clone?)");
    }
    output
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    refuses(&["simulate", "web-servers.toml", "-o", "/dev/full/x.parquet"], "/dev/full/x.parquet");
    let endings =
        ["parquet", "csv", "json", "svg", "pftrace", "timehist", "lag.svg", "latency.csv"];
    for ending in endings {
        // An earlier file of that name stays, and nothing else is there afterwards.
        let script = format!(
            "echo old > $full/x.{ending}\n\
             $PRORATA simulate web-servers.toml --duration 20s -o $full/x.{ending}\n\
             status=$?\n\
             ls -A $full\n\
             cat $full/x.{ending}\n\
             exit $status"
        );
        let Some(output) = with_a_full_disk(&script) else { return };
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{ending}: {message}");
        assert!(message.contains(&format!("x.{ending}")) && message.contains("space"), "{message}");
        assert!(!message.contains("panicked"), "{message}");
        let left = String::from_utf8_lossy(&output.stdout);
        assert_eq!(left, format!("x.{ending}\nold\n"), "{ending}");
    }
}

#[test]
fn a_figure_on_a_full_disk_is_no_figure() {
    let script = "$PRORATA figure vtrr-7 --output $full/figures > /dev/null\n\
                  status=$?\nls $full/figures\nexit $status";
    let Some(output) = with_a_full_disk(script) else { return };
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("vtrr-7") && message.contains("space"), "{message}");
    let left = String::from_utf8_lossy(&output.stdout);
    assert!(left.lines().all(|name| name == "vtrr-7.csv"), "{left}");
}

#[test]
fn files_of_other_programs_run_unchanged() {
    // From rt-app's documentation, and from `perf sched script` on a real machine.
    let example = json(&["simulate", "rt-app/example3.json", "--format", "json"]);
    assert!(example["decisions"].as_u64() > Some(100), "{example}");
    for policy in ["gr3", "eevdf"] {
        let file = "recorded.perf-sched.txt";
        let recorded = json(&["simulate", file, "--policy", policy, "--format", "json"]);
        let names: Vec<&str> = recorded["groups"]
            .as_array()
            .expect("groups")
            .iter()
            .filter_map(|g| g["name"].as_str())
            .collect();
        for name in ["demo-loop", "demo-nice", "demo-player"] {
            assert!(names.iter().any(|n| n.starts_with(name)), "{name} in {names:?}");
        }
        assert_eq!(recorded["idle_while_waiting_ns"].as_u64(), Some(0));
    }
}

#[test]
fn policies_stand_side_by_side() {
    let args = ["compare", "--policies", "gr3,round-robin,vtrr", "--duration", "1s"];
    let output = prorata(&[&args[..], &["desktop-beside-a-build.toml"]].concat());
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success() && text.contains("round-robin") && text.contains("compiler"));
    assert!(text.contains("Not compared: vtrr (each schedules one cpu only"), "{text}");
}

#[test]
fn policies_are_compared_over_seeds() {
    let directory = tempfile::tempdir().expect("a directory");
    let runs = directory.path().join("runs.csv").display().to_string();
    let args = ["compare", "--policies", "gr3,eevdf", "--duration", "1s", "--seeds", "3"];
    let args = [&args[..], &["-o", &runs, "sleeper.toml"]].concat();
    let output = prorata(&args);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success() && text.contains("95 % interval"), "{text}");
    let runs = std::fs::read_to_string(&runs).expect("the runs");
    let starts: Vec<&str> = runs.lines().skip(1).map(|line| &line[..line.len().min(7)]).collect();
    assert_eq!(starts, ["0,gr3,1", "1,gr3,2", "2,gr3,3", "3,eevdf", "4,eevdf", "5,eevdf"]);
    let one =
        json(&["simulate", "sleeper.toml", "--duration", "1s", "--seed", "2", "--format", "json"]);
    let error = runs.lines().nth(2).and_then(|line| line.split(',').nth(11)).expect("a cell");
    assert_eq!(error.parse().ok(), one["error_min"].as_f64());
    let several =
        ["compare", "desktop-beside-a-build.toml", "--policies", "gr3,vtrr", "--seeds", "2"];
    let text = String::from_utf8(prorata(&several).stdout).expect("text");
    assert!(text.contains("Not compared: vtrr (each schedules one cpu only"), "{text}");
}

#[test]
fn the_same_command_prints_the_same_bytes() {
    let args = ["simulate", "desktop-beside-a-build.toml", "--duration", "2s", "--format", "json"];
    assert_eq!(prorata(&args).stdout, prorata(&args).stdout);
}

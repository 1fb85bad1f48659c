//! Directories as the kernel has them, of a few threads and cgroups.

use std::fs;

use tempfile::TempDir;

use super::*;

struct Host {
    directory: TempDir,
    files: Files,
}

impl Host {
    fn new() -> Host {
        let directory = tempfile::tempdir().expect("a directory");
        let (proc, mount) = (directory.path().join("proc"), directory.path().join("cgroup"));
        fs::create_dir_all(&proc).expect("made");
        fs::create_dir_all(&mount).expect("made");
        let cgroups = Some(Cgroups { mount, version: Version::Two });
        Host { directory, files: Files { proc, cgroups, has_autogroups: false } }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.directory.path().join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, text).expect("written");
    }

    /// A thread of process `pid` in a state, of a nice value and a scheduling policy.
    fn thread(&self, (pid, tid): (i32, i32), cgroup: &str, state: char, nice: i32, policy: u32) {
        let stat = format!(
            "{tid} (a) b) {state} 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 {nice} 1 0 5 0 0 0 0 0 0 0 0 0 0 \
             0 0 0 0 0 17 0 0 {policy} 0 0 0 0 0 0 0 0 0 0 0\n"
        );
        for directory in [format!("proc/{pid}"), format!("proc/{pid}/task/{tid}")] {
            self.write(&format!("{directory}/stat"), &stat);
            self.write(&format!("{directory}/cgroup"), &format!("0::{cgroup}\n"));
        }
    }

    fn explain(&self, who: &Who, cpus: usize) -> anyhow::Result<Report> {
        let who = self.files.check(who)?;
        let mut threads = BTreeMap::new();
        for _ in 0..LOOKS {
            self.files.look(cpus, &mut threads)?;
        }
        self.files.report(&who, cpus, threads)
    }
}

/// Process 10 with two threads and 11 in a, which weighs 300; 20 to 22 in b, which weighs 100; 30 sleeps in
/// a's scope, which has no weight; 40 is of real time, 50 of idle's, in the root.
fn host() -> Host {
    let host = Host::new();
    host.write("cgroup/a/cpu.weight", "300\n");
    host.write("cgroup/a/scope/cgroup.procs", "");
    host.write("cgroup/b/cpu.weight", "100\n");
    host.thread((10, 10), "/a", 'R', 0, 0);
    host.thread((10, 12), "/a", 'R', 0, 0);
    host.thread((11, 11), "/a", 'R', 5, 0);
    (20..23).for_each(|pid| host.thread((pid, pid), "/b", 'R', 0, 0));
    host.thread((30, 30), "/a/scope", 'S', 0, 0);
    host.thread((40, 40), "/", 'R', 0, 1);
    host.thread((50, 50), "/", 'R', 0, SCHED_IDLE);
    host
}

fn line<'r>(report: &'r Report, name: &str) -> &'r Line {
    let found = report.lines.iter().find(|line| line.name == name);
    found.unwrap_or_else(|| panic!("no {name} among {:?}", names_of(report)))
}

fn names_of(report: &Report) -> Vec<&str> {
    report.lines.iter().map(|line| line.name.as_str()).collect()
}

#[test]
fn a_process_is_explained_level_by_level() {
    let report = host().explain(&Who::Process(10), 2).expect("explained");
    assert_eq!(names_of(&report), ["a/", "a) b[10]", "a) b[11]", "b/", "a) b[50]"]);
    assert_eq!(report.tasks, 7);
    let own = line(&report, "a) b[10]");
    assert!(own.is_asked && !line(&report, "a/").is_asked);
    assert_eq!((own.tasks, own.weight, own.depth), (2, 1024, 2));
    // 300 of 400.003 of two cpus in a, where 335 share with twice 1024.
    let a = 2.0 * 3072.0 / (3072.0 + 1024.0 + 3.0);
    assert!((line(&report, "a/").due_cpus - a).abs() < 1e-9);
    assert!((own.due_cpus - a * 1024.0 / 2383.0).abs() < 1e-9);
    assert_eq!(line(&report, "a) b[50]").due, "6/4099");
    assert_eq!(report.notes, ["1 of real time run before all of these"]);
    // A weight for each of two cpus changes nothing where all can use both.
    let per_cpu = line(&report, "b/").per_cpu_cpus.expect("it is small");
    assert!((per_cpu - 2.0 * 2048.0 / (8192.0 + 3.0)).abs() < 1e-9);
}

#[test]
fn who_sleeps_is_explained_as_if_it_did_not() {
    let report = host().explain(&Who::Process(30), 2).expect("explained");
    assert!(line(&report, "a) b[30]").is_asked);
    assert_eq!(report.tasks, 8);
    assert!(report.notes[0].starts_with("process 30 sleeps"), "{:?}", report.notes);
}

#[test]
fn a_cgroup_is_explained_with_what_is_in_it() {
    let host = host();
    let mount = host.files.cgroups.as_ref().expect("there are some").mount.clone();
    for path in ["/b".into(), "b".into(), mount.join("b")] {
        let report = host.explain(&Who::Cgroup(path), 2).expect("explained");
        assert_eq!(names_of(&report), ["b/", "a) b[20]", "a) b[21]", "a) b[22]", "a/", "a) b[50]"]);
        assert!(line(&report, "b/").is_asked);
    }
    let report = host.explain(&Who::Cgroup("/a/scope".into()), 2).expect("explained");
    assert!(report.notes[0].ends_with("its tasks are those of /a"), "{:?}", report.notes);
}

#[test]
fn an_empty_cgroup_and_one_that_is_idle() {
    let host = host();
    host.write("cgroup/b/cpu.idle", "1\n");
    host.write("cgroup/c/cpu.weight", "100\n");
    let report = host.explain(&Who::Cgroup("/c".into()), 1).expect("explained");
    assert_eq!(line(&report, "c/").due, "0");
    assert_eq!(line(&report, "b/").due, "1/1026");
    assert!(report.notes.contains(&"nothing in /c wants a cpu now".into()), "{:?}", report.notes);
}

#[test]
fn many_siblings_are_told_together() {
    let host = host();
    (100..150).for_each(|pid| host.thread((pid, pid), "/b", 'R', 0, 0));
    let report = host.explain(&Who::Process(20), 1).expect("explained");
    let more = line(&report, "… 40 more");
    assert_eq!((more.tasks, more.weight), (40, 40 * 1024));
    let due = 1024.0 / 4099.0 * 40.0 / 53.0;
    assert!((more.due_cpus - due).abs() < 1e-9, "{} of {due}", more.due_cpus);
}

/// Of session 5, which has nice 0, processes 10 and 11; of 6, which has nice 5, 12 and 20, which is in b; 13
/// is of none.
fn sessions() -> Host {
    let mut host = Host::new();
    host.files.has_autogroups = true;
    host.write("cgroup/b/cpu.weight", "100\n");
    let processes = [
        (10, "/", 0, "/autogroup-5 nice 0\n"),
        (11, "/", 5, "/autogroup-5 nice 0\n"),
        (12, "/", -10, "/autogroup-6 nice 5\n"),
        (13, "/", 0, ""),
        (20, "/b", 0, "/autogroup-6 nice 5\n"),
    ];
    for (pid, cgroup, nice, autogroup) in processes {
        host.thread((pid, pid), cgroup, 'R', nice, 0);
        host.write(&format!("proc/{pid}/autogroup"), autogroup);
    }
    host
}

#[test]
fn a_session_is_a_group_whose_weight_is_of_its_own_nice() {
    let host = sessions();
    let report = host.explain(&Who::Process(11), 1).expect("explained");
    let names = ["autogroup-5/", "a) b[11]", "a) b[10]", "a) b[13]", "b/", "autogroup-6/"];
    assert_eq!(names_of(&report), names);
    // Of the sessions, process 13 and b.
    let all = 1024.0 + 335.0 + 1024.0 + 1024.0;
    let near = |name: &str, due: f64| {
        let line = line(&report, name);
        assert!((line.due_cpus - due).abs() < 1e-9, "{name}: {} of {due}", line.due_cpus);
    };
    near("autogroup-5/", 1024.0 / all);
    near("a) b[11]", 1024.0 / all * 335.0 / 1359.0);
    near("autogroup-6/", 335.0 / all);
    let note = &report.notes[0];
    assert!(note.starts_with("autogroup-5 is the session of process 11"), "{note}");
    assert!(note.contains("its own nice, 0") && note.contains("> /proc/11/autogroup"), "{note}");
    let of_six = host.explain(&Who::Process(12), 1).expect("explained");
    assert!(of_six.notes[0].contains("its own nice, 5"), "{:?}", of_six.notes);
}

#[test]
fn who_is_in_a_cgroup_or_in_no_session_has_no_autogroup() {
    let host = sessions();
    for pid in [13, 20] {
        let report = host.explain(&Who::Process(pid), 1).expect("explained");
        assert_eq!(report.notes, Vec::<String>::new());
    }
}

/// So it is under sched_ext, too.
#[test]
fn where_autogroups_are_off_sessions_are_nothing() {
    let mut host = sessions();
    host.files.has_autogroups = false;
    let report = host.explain(&Who::Process(11), 1).expect("explained");
    assert_eq!(report.notes, Vec::<String>::new());
    assert!(names_of(&report).iter().all(|name| !name.contains("autogroup")));
    let all = 3.0 * 1024.0 + 335.0 + 9548.0;
    assert!((line(&report, "a) b[11]").due_cpus - 335.0 / all).abs() < 1e-9);
}

#[test]
fn who_is_not_there_or_has_no_share_is_refused() {
    let host = host();
    let refusal = |who: Who| host.explain(&who, 2).err().expect("refused").to_string();
    assert!(refusal(Who::Process(9)).contains("no process 9"));
    assert!(refusal(Who::Process(40)).contains("process 40 has ended, or is of real time"));
    assert!(refusal(Who::Cgroup("/d".into())).contains("no cgroup /d"));
}

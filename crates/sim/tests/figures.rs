//! Figures: the registry, the same bytes on every run, and nothing lost by an interruption.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use prorata_sim::Progress;
use prorata_sim::figures::{
    self, Figure, FigureError, Part, Plan, REGISTRY, Report, Request, Row, find, produce, stored,
};
use prorata_sim::journal::JournalError;

/// A directory of its own, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("prorata-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Scratch(path)
    }

    fn file(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.join(name)).expect("the file is there")
    }

    /// The journals that are there.
    fn journals(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.0).expect("the directory is there");
        let paths = entries.map(|entry| entry.expect("readable").path());
        paths.filter(|path| path.extension().is_some_and(|e| e == "journal")).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn figure(name: &str) -> &'static Figure {
    find(name).expect("a figure of the registry")
}

fn request<'a>(name: &str, sets: u32, seed: u64, jobs: usize, directory: &'a Path) -> Request<'a> {
    Request { figure: figure(name), policies: &[], sets: Some(sets), seed, jobs, directory }
}

#[test]
fn the_registry_has_every_figure_of_the_papers() {
    let names: BTreeSet<&str> = REGISTRY.iter().map(|figure| figure.name).collect();
    assert_eq!(names.len(), REGISTRY.len(), "no name twice");
    let gr3 = (4..=19).map(|n| format!("gr3-{n}"));
    let vtrr = (1..=9).map(|n| format!("vtrr-{n}"));
    let dfs = [3, 4, 5, 8].map(|n| format!("dfs-{n}"));
    let others = ["gr3-skew50", "gdq-2", "gdq-3", "gdq-4", "gdq-5", "dfs-fa"].map(String::from);
    for name in gr3.chain(vtrr).chain(dfs).chain(others) {
        assert!(names.contains(name.as_str()), "{name} is missing");
    }
    for figure in REGISTRY {
        assert!(!figure.title.is_empty() && !figure.source.is_empty(), "{}", figure.name);
        assert!(!figure.remarks.is_empty(), "{} explains itself", figure.name);
        assert!(figure.sets >= 1);
    }
}

#[test]
fn what_scheduling_costs_is_measured() {
    let scratch = Scratch::new("costs");
    for name in ["gr3-12", "vtrr-3", "gdq-3"] {
        let report = produce(&request(name, 1, 1, 1, &scratch.0), &());
        let report = report.expect("it can be written");
        assert!(report.rows.iter().all(|row| row.value("ns") > 0.0), "{name}");
    }
}

#[test]
fn the_bytes_depend_on_seed_and_sets_alone() {
    let (one, many, other) = (Scratch::new("one"), Scratch::new("many"), Scratch::new("other"));
    produce(&request("vtrr-2", 6, 3, 1, &one.0), &()).expect("it can be written");
    produce(&request("vtrr-2", 6, 3, 4, &many.0), &()).expect("it can be written");
    produce(&request("vtrr-2", 6, 4, 4, &other.0), &()).expect("it can be written");
    for file in ["vtrr-2.csv", "vtrr-2.json", "vtrr-2.svg"] {
        assert!(one.file(file) == many.file(file), "{file} depends on the number of threads");
        assert!(one.file(file) != other.file(file), "{file} does not depend on the seed");
    }
}

/// Whoever does the chunks, in whatever order, and however they travel.
#[test]
fn chunks_make_the_same_figure_wherever_they_are_done() {
    let (whole, apart) = (Scratch::new("together"), Scratch::new("apart"));
    let expected = produce(&request("vtrr-2", 6, 3, 1, &whole.0), &()).expect("it can be written");
    let plan = Plan::new(figure("vtrr-2"), &[], Some(6), 3).expect("a plan");
    let parts: Vec<String> = (0..plan.chunks())
        .rev()
        .map(|chunk| serde_json::to_string(&plan.execute(chunk)).expect("plain data"))
        .collect();
    let read = |part: &String| serde_json::from_str::<Part>(part).expect("a part");
    let report = plan.report(parts.iter().map(read), Duration::ZERO).expect("every chunk");
    assert_eq!(report.rows, expected.rows);
    std::fs::create_dir(&apart.0).expect("a directory");
    plan.write(&report, &apart.0).expect("it can be written");
    for file in ["vtrr-2.csv", "vtrr-2.json", "vtrr-2.svg"] {
        assert!(whole.file(file) == apart.file(file), "{file}");
    }
    let fails = |parts: &[String]| {
        let error = plan.report(parts.iter().map(read), Duration::ZERO).expect_err("not these");
        error.to_string()
    };
    assert!(fails(&parts[1..]).ends_with("is missing"));
    assert!(fails(&[parts.as_slice(), &parts[..1]].concat()).ends_with("is there twice"));
}

#[test]
fn every_figure_without_chance_is_drawn_as_it_is_kept() {
    let scratch = Scratch::new("drawn");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../figures");
    for figure in REGISTRY.iter().filter(|figure| figure.sets == 1) {
        let report = produce(&request(figure.name, 9, 1, 2, &scratch.0), &());
        let report = report.expect("it can be written");
        assert_eq!(report.sets, 1, "{}: there is one set", figure.name);
        assert!(!report.rows.is_empty() && report.decisions > 0, "{}", figure.name);
        let picture = scratch.file(&format!("{}.svg", figure.name));
        assert!(picture.starts_with(b"<svg") && picture.ends_with(b"</svg>\n"));
        for ending in ["csv", "json", "svg"] {
            let file = format!("{}.{ending}", figure.name);
            let kept = std::fs::read(golden.join(&file)).expect("it is kept");
            assert!(scratch.file(&file) == kept, "{file} is another one in figures/");
        }
    }
    figures::write_page(&scratch.0).expect("it can be written");
    let page = String::from_utf8(scratch.file("index.html")).expect("text");
    assert!(page.contains("<img src=\"vtrr-6.svg\"") && !page.contains("gr3-9.svg"));
    let summary = page.find("beside ours</h2>").expect("one table of all");
    assert!(page.find("<img").is_some_and(|picture| summary < picture), "it comes first");
    assert!(page.contains("<td><a href=\"#vtrr-6\">vtrr-6</a></td><td>repeats ms</td>"));
}

/// Is interrupted after some chunks; counts what was done before.
struct Interrupted {
    after: u64,
    advances: AtomicU64,
    found_done: AtomicU64,
}

impl Interrupted {
    fn new(after: u64) -> Interrupted {
        Interrupted { after, advances: AtomicU64::new(0), found_done: AtomicU64::new(0) }
    }
}

impl Progress for Interrupted {
    fn start(&self, done: u64, total: u64) {
        assert!(done < total);
        self.found_done.store(done, Ordering::Relaxed);
    }

    fn advance(&self, _decisions: u64) {
        let advances = self.advances.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(advances < self.after, "interrupted");
    }
}

#[test]
fn an_interrupted_run_goes_on_where_it_was() {
    let (whole, pieces) = (Scratch::new("whole"), Scratch::new("pieces"));
    produce(&request("vtrr-2", 5, 3, 2, &whole.0), &()).expect("it can be written");

    let request = request("vtrr-2", 5, 3, 1, &pieces.0);
    let first = Interrupted::new(30);
    assert!(catch_unwind(AssertUnwindSafe(|| produce(&request, &first))).is_err());
    let journals = pieces.journals();
    assert_eq!(journals.len(), 1);
    let mut torn = std::fs::read(&journals[0]).expect("readable");
    torn.extend_from_slice(b"{\"chunk\":79,\"decis");
    std::fs::write(&journals[0], torn).expect("writable");

    let second = Interrupted::new(1000);
    produce(&request, &second).expect("it can be written");
    assert!(second.found_done.load(Ordering::Relaxed) > 0);
    assert_eq!(second.advances.load(Ordering::Relaxed), 80 - 30);
    assert!(pieces.journals().is_empty());
    for file in ["vtrr-2.csv", "vtrr-2.json", "vtrr-2.svg"] {
        assert!(whole.file(file) == pieces.file(file), "{file}");
    }
}

#[test]
fn a_journal_of_something_else_is_not_believed() {
    let scratch = Scratch::new("foreign");
    let request = request("vtrr-2", 2, 3, 1, &scratch.0);
    let first = Interrupted::new(10);
    assert!(catch_unwind(AssertUnwindSafe(|| produce(&request, &first))).is_err());
    let journal = &scratch.journals()[0];
    let text = std::fs::read_to_string(journal).expect("text");
    std::fs::write(journal, text.replacen("\"version\":\"", "\"version\":\"x", 1))
        .expect("writable");
    let second = Interrupted::new(1000);
    produce(&request, &second).expect("it can be written");
    assert_eq!(second.found_done.load(Ordering::Relaxed), 0);
}

#[test]
fn what_is_stored_can_be_read_back() {
    let scratch = Scratch::new("stored");
    let asked = request("vtrr-1", 3, 3, 2, &scratch.0);
    assert_eq!(stored(&asked), None);
    let report = produce(&asked, &()).expect("it can be written");
    let free = Report { seconds: 0.0, cpu_seconds: 0.0, ..report };
    assert_eq!(stored(&asked), Some(free));
    assert_eq!(stored(&request("vtrr-1", 3, 4, 2, &scratch.0)), None);
    assert_eq!(stored(&request("vtrr-1", 4, 3, 2, &scratch.0)), None);
}

/// Starts a second run of the same figure while the first is under way.
struct Rival<'a> {
    request: Request<'a>,
    outcome: Mutex<Option<Result<Report, FigureError>>>,
    calls: AtomicUsize,
}

impl Progress for Rival<'_> {
    fn start(&self, _done: u64, _total: u64) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        *self.outcome.lock().expect("not poisoned") = Some(produce(&self.request, &()));
    }
    fn advance(&self, _decisions: u64) {}
}

#[test]
fn two_runs_do_not_mix() {
    let scratch = Scratch::new("rivals");
    let request = request("vtrr-2", 1, 3, 1, &scratch.0);
    let rival = Rival { request, outcome: Mutex::new(None), calls: AtomicUsize::new(0) };
    produce(&request, &rival).expect("the first one is not disturbed");
    assert_eq!(rival.calls.load(Ordering::Relaxed), 1);
    let outcome = rival.outcome.into_inner().expect("not poisoned");
    assert!(matches!(outcome, Some(Err(FigureError::Journal(JournalError::Busy(_))))));
}

/// Two random sets a point, with other policies.
fn with(name: &str, policies: &[&str]) -> Result<(Report, Scratch), FigureError> {
    let scratch = Scratch::new(&format!("with-{name}-{}", policies.len()));
    let policies: Vec<String> = policies.iter().map(|policy| policy.to_string()).collect();
    let request = Request { policies: &policies, ..request(name, 1, 1, 2, &scratch.0) };
    let report = produce(&request, &())?;
    Ok((report, scratch))
}

#[test]
fn other_policies_take_the_place_of_a_figures_own() {
    let (report, scratch) = with("vtrr-2", &["qfq", "eevdf", "lottery"]).expect("a comparison");
    let name = "vtrr-2-with-qfq+eevdf+lottery";
    assert_eq!(report.figure, name);
    assert!(!scratch.file(&format!("{name}.svg")).is_empty());
    assert!(!scratch.0.join("vtrr-2.csv").exists());
    let worst = |policy: &str| {
        let own = report.rows.iter().filter(|row| *row.place("policy") == policy.into());
        own.map(|row| row.value("max")).fold(0.0, f64::max)
    };
    assert!(worst("qfq") < 3.0 && worst("eevdf") <= 1.0 && worst("lottery") > 3.0);
    assert!(report.rows.iter().all(|row| row.printed.is_empty()));
    assert!(with("gr3-14", &["wf2q"]).is_ok() && with("vtrr-6", &["srr"]).is_ok());
    assert!(with("dfs-8", &["sfs"]).is_ok() && with("vtrr-7", &["drr"]).is_ok());
}

#[test]
fn a_policy_named_is_what_the_figure_has_of_it() {
    let (own, _scratch) = with("vtrr-2", &["vtrr"]).expect("a comparison");
    let scratch = Scratch::new("own");
    let whole = produce(&request("vtrr-2", 1, 1, 2, &scratch.0), &()).expect("figure");
    let errors = |row: &Row| (row.value("min"), row.value("max"));
    let printed = whole.rows.iter().filter(|row| *row.place("policy") == "vtrr".into());
    assert!(printed.map(errors).eq(own.rows.iter().map(errors)));
}

#[test]
fn policies_that_have_no_place_in_a_figure_are_refused() {
    let error = |name: &str, policies: &[&str]| match with(name, policies) {
        Err(error @ FigureError::Policies { .. }) => {
            format!("{error}: {}", std::error::Error::source(&error).expect("a reason"))
        }
        other => panic!("{name} {policies:?}: {:?}", other.map(|(report, _)| report)),
    };
    assert!(error("gr3-11", &["wfq"]).starts_with("gr3-11 with wfq: it compares no policies"));
    assert!(error("gr3-14", &["wfq", "gr3"]).contains("shows one policy"));
    assert!(error("gr3-10", &["wfq"]).contains("one cpu only"));
    assert!(error("gr3-9", &["best"]).contains("no policy is called 'best'"));
    assert!(error("gr3-10", &["dfs"]).contains("dfs leaves cpus idle"));
}

#[test]
fn impossible_requests_are_refused() {
    let scratch = Scratch::new("refused");
    let sets = |sets| produce(&request("vtrr-2", sets, 1, 1, &scratch.0), &());
    assert!(matches!(sets(0), Err(FigureError::Sets(0))));
    assert!(matches!(sets(u32::MAX), Err(FigureError::Sets(u32::MAX))));
    let jobs = produce(&request("vtrr-2", 1, 1, 0, &scratch.0), &());
    assert!(matches!(jobs, Err(FigureError::Jobs)));
    let nowhere = Path::new("/proc/no such directory");
    let nowhere = produce(&request("vtrr-2", 1, 1, 1, nowhere), &());
    assert!(matches!(nowhere, Err(FigureError::Journal(JournalError::File { .. }))));
}

/// A paper may show in a picture what its text leaves out.
#[test]
fn remarks_say_what_the_text_of_a_paper_leaves_out() {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for figure in REGISTRY {
        for verb in ["tell", "say", "describe", "give", "print"] {
            let hasty = format!("paper does not {verb}");
            assert!(!words(figure.remarks).contains(&hasty), "{}: {hasty}", figure.name);
        }
    }
}

/// Means over random sets are stored with their deviations.
#[test]
fn means_are_stored_with_their_spread() {
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../figures");
    for name in ["dfs-3", "dfs-4", "dfs-5", "dfs-fa"] {
        let table = std::fs::read_to_string(stored.join(format!("{name}.csv"))).expect("stored");
        let columns: Vec<&str> = table.lines().next().expect("a head").split(',').collect();
        assert!(columns.contains(&"idle_deviation"), "{name}: {columns:?}");
    }
}

/// How far the idling of eq. 7 as printed falls is told as it is stored.
#[test]
fn dfs_4_tells_how_far_idling_falls() {
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../figures");
    let most = |name: &str, scenario: &str| {
        let table = std::fs::read_to_string(stored.join(format!("{name}.csv"))).expect("stored");
        let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let head = lines.next().expect("a head");
        let at = head.iter().position(|&column| column == "idle_percent").expect("idling");
        let own = lines.filter(|row| row[0] == "dfs:parts=printed" && row[1] == scenario);
        own.map(|row| row[at].parse().expect("a number")).fold(0.0, f64::max)
    };
    let (from, to) = (most("dfs-3", "asynchronous"), most("dfs-4", "dynamic"));
    let remarks = figure("dfs-4").remarks.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = format!("falls from at most {from:.1} % to at most {to:.1} %");
    assert!(remarks.contains(&told), "{told}");
}

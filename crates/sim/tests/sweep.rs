//! Sweeps: the grid, the same bytes however they are executed, and intervals that hold what they say.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use prorata_sim::Progress;
use prorata_sim::journal::JournalError;
use prorata_sim::sweep::statistics::Estimate;
use prorata_sim::sweep::{Found, Number, Row, Run, Setting, Sweep, SweepError, execute_all};

const SMALL: &str = r#"
    policies = ["gr3", "vtrr", "lottery"]
    seeds = 3
    groups = ["nap"]
    [grid]
    "machine.cpus" = [1, 2]
    "task.nap.phases[1].sleep" = ["5ms", { exponential = "5ms" }]
    [workload]
    duration = "200ms"
    seed = 7
    [[workload.task]]
    name = "hog"
    [[workload.task]]
    name = "nap"
    count = 2
    phases = [{ run = { uniform = ["1ms", "5ms"] } }, { sleep = "1ms" }]
"#;

fn small() -> Sweep {
    Sweep::parse(SMALL).expect("a sweep")
}

fn csv(sweep: &Sweep, rows: &[Row]) -> String {
    let mut text = Vec::new();
    sweep.table_of_runs(rows).write_csv(&mut text).expect("in memory");
    String::from_utf8(text).expect("text")
}

fn execute(sweep: &Sweep) -> Vec<Row> {
    (0..sweep.runs()).map(|run| sweep.execute(run)).collect()
}

#[test]
fn every_combination_is_one_run() {
    let sweep = small();
    assert_eq!(sweep.runs(), 2 * 2 * 3 * 3);
    let run = sweep.run(3 * 3 + 4); // the second point, the second policy, the second seed
    let settings = [
        ("machine.cpus".to_string(), Setting::Integer(1)),
        ("task.nap.phases[1].sleep".to_string(), Setting::Text("{ exponential = \"5ms\" }".into())),
    ];
    assert_eq!(run.settings, settings);
    assert_eq!((run.policy.as_str(), run.seed), ("vtrr", 8));
    let text = serde_json::to_string(&run).expect("plain data");
    assert_eq!(serde_json::from_str::<Run>(&text).expect("plain data"), run);
    let runs: Vec<Run> = (0..sweep.runs()).map(|index| sweep.run(index)).collect();
    for (at, run) in runs.iter().enumerate() {
        let same = |other: &&Run| Run { index: at, ..(*other).clone() } == *run;
        assert_eq!(runs.iter().filter(same).count(), 1, "{run:?}");
    }
}

#[test]
fn a_run_is_what_simulate_gives() {
    let sweep = small();
    let workload = prorata_sim::workload::parse_toml(
        r#"
        duration = "200ms"
        seed = 8
        machine = { cpus = 2 }
        [[task]]
        name = "hog"
        [[task]]
        name = "nap"
        count = 2
        phases = [{ run = { uniform = ["1ms", "5ms"] } }, { sleep = "5ms" }]
        "#,
    );
    let outcome = prorata_sim::simulate(&workload.expect("a workload"), "gr3").expect("runs");
    let row = sweep.execute(2 * 3 * 3 + 1);
    let Found::Values(values) = row.found else { panic!("gr3 runs on two cpus") };
    let value = |name: &str| {
        let at = sweep.measures().iter().position(|measure| measure.name == name).expect(name);
        values[at].expect(name)
    };
    assert_eq!(value("error_min"), Number::Real(outcome.errors.error_min));
    assert_eq!(value("decisions"), Number::Count(outcome.totals.decisions));
    assert_eq!(value("nap.share"), Number::Real(outcome.groups[1].service.share));
}

#[test]
fn a_policy_for_one_cpu_says_so_on_two() {
    let sweep = small();
    let rows = execute(&sweep);
    let failed =
        |row: &&Row| matches!(&row.found, Found::Error(e) if e.starts_with("vtrr schedules one"));
    assert_eq!(rows.iter().filter(failed).count(), 2 * 3);
    let summary = sweep.summarize(&rows);
    assert!(summary.means.iter().any(|mean| mean.policy == "vtrr" && mean.point == 0));
    assert!(!summary.means.iter().any(|mean| mean.policy == "vtrr" && mean.point == 2));
}

#[test]
fn a_sweep_survives_being_written_and_read() {
    let sweep = small();
    let again = Sweep::parse(sweep.text().expect("it was parsed")).expect("a sweep");
    assert_eq!(again.text(), sweep.text());
    assert_eq!(csv(&again, &execute(&again)), csv(&sweep, &execute(&sweep)));
}

#[test]
fn rows_are_gathered_in_any_order_but_not_lost_nor_doubled() {
    let sweep = small();
    let rows = execute(&sweep);
    let text: Vec<String> =
        rows.iter().rev().map(|row| serde_json::to_string(row).expect("plain data")).collect();
    let read = || text.iter().map(|row| serde_json::from_str::<Row>(row).expect("plain data"));
    assert_eq!(sweep.gather(read()).expect("all of them"), rows);
    let error = |rows: Vec<Row>| sweep.gather(rows).expect_err("not one a run").to_string();
    assert_eq!(error(read().skip(1).collect()), "run 35 is missing");
    assert_eq!(error(read().chain(read().take(1)).collect()), "run 35 is there twice");
    let foreign = Row { run: 36, ..rows[0].clone() };
    assert_eq!(error(vec![foreign]), "run 36 is none of the 36");
    let short = Row { run: 0, found: Found::Values(vec![]) };
    assert!(error(vec![short]).contains("other measures"));
}

#[test]
fn bytes_do_not_depend_on_the_number_of_threads() {
    let sweep = small();
    let of = |jobs| csv(&sweep, &execute_all(&sweep, jobs, None, &()).expect("done").rows);
    assert_eq!(of(1), of(4));
    assert!(matches!(execute_all(&sweep, 0, None, &()), Err(SweepError::Threads(_))));
}

/// Counts, and panics after a few runs: what rayon has not begun by then it still does in part.
struct Killed {
    runs: AtomicU64,
    after: u64,
}

impl Progress for Killed {
    fn start(&self, _done: u64, _total: u64) {}
    fn advance(&self, work: u64) {
        let runs = self.runs.fetch_add(work, Ordering::Relaxed) + work;
        assert!(runs != self.after, "enough");
    }
}

#[test]
fn an_interrupted_sweep_goes_on_and_a_foreign_journal_is_kept() {
    let sweep = small();
    let directory = tempfile::tempdir().expect("a directory");
    let output = directory.path().join("rows.csv");
    let killed = Killed { runs: AtomicU64::new(0), after: 10 };
    let run = || execute_all(&sweep, 1, Some(&output), &killed);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).err().expect("it was stopped");

    let longer = Sweep::parse(&SMALL.replace("seeds = 3", "seeds = 4")).expect("a sweep");
    let foreign = execute_all(&longer, 1, Some(&output), &()).err();
    assert!(matches!(foreign, Some(SweepError::Journal(JournalError::Foreign(_)))));

    let left = Killed { runs: AtomicU64::new(0), after: u64::MAX };
    let campaign = execute_all(&sweep, 2, Some(&output), &left).expect("done");
    let before = campaign.found_before;
    assert!((10..36).contains(&before), "{before}");
    assert_eq!(left.runs.load(Ordering::Relaxed), 36 - before as u64);
    assert_eq!(csv(&sweep, &campaign.rows), csv(&sweep, &execute(&sweep)));
    campaign.finish().expect("the journal goes");
    assert_eq!(std::fs::read_dir(directory.path()).expect("readable").count(), 0);
}

/// So many could not be started.
#[test]
fn there_are_no_more_threads_than_runs() {
    let sweep = small();
    let rows = execute_all(&sweep, usize::MAX, None, &()).expect("done").rows;
    assert_eq!(csv(&sweep, &rows), csv(&sweep, &execute(&sweep)));
}

#[test]
fn mistakes_are_named() {
    let error = |from: &str, to: &str| {
        assert!(SMALL.contains(from), "{from}");
        Sweep::parse(&SMALL.replace(from, to)).expect_err(to).to_string()
    };
    assert!(error("\"gr3\"", "\"gr4\"").starts_with("policies: no policy is called 'gr4'"));
    assert!(error("\"gr3\"", "\"vtrr\"").contains("policies: vtrr is there twice"));
    assert!(error("seeds = 3", "seeds = 0").contains("seeds: there are none"));
    assert!(error("seeds = 3", "seeds = \"3\"").contains("neither a number of seeds nor a list"));
    assert!(error("seeds = 3", "seeds = 1000000").contains("more than 1000000 runs"));
    assert!(error("seeds = 3", "seeds = 3\nconfidence = 95").contains("95 is no level"));
    assert!(
        error("seeds = 3", "seeds = 3\nmeasures = [\"eror\"]").contains("there are duration_ns")
    );
    assert!(error("seeds = 3", "seed = 3").contains("seed"));
    assert!(error("[\"nap\"]", "[\"nap\", \"nap\"]").contains("groups: nap is there twice"));
    let twice = error("seeds = 3", "seeds = 3\nmeasures = [\"error_max\", \"error_max\"]");
    assert!(twice.contains("measures: error_max is there twice"), "{twice}");
    assert!(error("[\"nap\"]", "[\"nip\"]").contains("no task of the workload is called 'nip'"));
    assert!(error("[1, 2]", "[]").contains("no list of values"));
    assert!(error("[1, 2]", "[1, 1]").contains("1 is there twice"));
    assert!(error("[1, 2]", "[1, 0]").contains("with machine.cpus = 0"));
    assert!(error("machine.cpus", "machine.cpu").contains("unknown field `cpu`"));
    assert!(error("task.nap.phases", "task.nip.phases").contains("there are: hog, nap"));
    assert!(error("machine.cpus", "seed").contains("leave it out of the grid"));
    let without = SMALL.split("[workload]").next().expect("a part").to_string();
    let named = format!("workload = \"x.toml\"\n{without}");
    assert!(Sweep::parse(&named).expect_err("no table").to_string().contains("[workload]"));
    let missing = Sweep::load(Path::new("/nowhere.toml")).expect_err("not there").to_string();
    assert!(missing.contains("/nowhere.toml"));
}

/// A lottery with tickets 3 : 1 has one winner a quantum, drawn anew: what the first task wins in
/// 1,000 quanta is binomial, close to normal, and its mean share is exactly 3/4.
const KNOWN: &str = r#"
    policies = ["lottery"]
    seeds = 4000
    groups = ["three"]
    [workload]
    duration = "1s"
    machine = { quantum = "1ms" }
    [[workload.task]]
    name = "three"
    weight = 3
    [[workload.task]]
    name = "one"
"#;

#[test]
fn intervals_cover_the_truth_as_often_as_they_say() {
    const SEEDS: usize = 4;
    let sweep = Sweep::parse(KNOWN).expect("a sweep");
    let share = sweep.measures().iter().position(|m| m.name == "three.share").expect("there");
    let shares: Vec<f64> = execute_all(&sweep, 2, None, &())
        .expect("done")
        .rows
        .iter()
        .map(|row| match &row.found {
            Found::Values(values) => values[share].expect("a share").real(),
            Found::Error(error) => panic!("{error}"),
        })
        .collect();
    let covered = |half: fn(&Estimate) -> f64| {
        let estimates = shares.chunks(SEEDS).map(|four| Estimate::new(four, 0.95).expect("four"));
        estimates.filter(|of| (of.mean - 0.75).abs() <= half(of)).count()
    };
    // Of 1,000 repetitions 950 on average, give or take √(1000 · 0.95 · 0.05) = 6.9: four times that.
    let students = covered(|of| of.high.expect("an interval") - of.mean);
    println!("{students} of 1000 intervals cover the truth");
    assert!((922..=978).contains(&students), "{students} of 1000");
    // The normal distribution's 1.96 in the place of Student's 3.18 covers 85 % with four seeds.
    let normal = covered(|of| 1.96 * of.deviation.expect("four") / (SEEDS as f64).sqrt());
    assert!((808..=898).contains(&normal), "{normal} of 1000");
}

//! What is measured in the virtual machine: rows that the guest prints and the host collects.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// A line of the guest's output that is a row; other lines are none.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Row {
    Share(ShareRow),
    Group(GroupRow),
    Response(ResponseRow),
    App(AppRow),
    Cost(CostRow),
    Load(LoadRow),
    Failure(Failure),
}

/// How a scheduler shared cpus among hogs.
#[derive(Serialize, Deserialize)]
pub(crate) struct ShareRow {
    pub(crate) cpus: usize,
    pub(crate) mix: String,
    pub(crate) scheduler: String,
    pub(crate) seconds: u64,
    /// The largest |received − entitled| / entitled of a share.
    pub(crate) share_error_percent: f64,
    /// What 5 ms are of the service that the lightest hog is entitled to.
    pub(crate) quantum_percent: f64,
    /// The furthest that a hog was behind its ideal service.
    pub(crate) largest_lag_ms: f64,
    /// For how long cpus idled, although there are more hogs than cpus.
    pub(crate) idle_ms: f64,
    /// What GR3's theorems allow for this mix, with quanta of 5 ms.
    pub(crate) gr3_bound_ms: f64,
    /// Received, in the order of the mix.
    pub(crate) shares: Vec<f64>,
}

/// How a scheduler shared cpus among cgroups.
#[derive(Serialize, Deserialize)]
pub(crate) struct GroupRow {
    pub(crate) cpus: usize,
    pub(crate) tree: String,
    pub(crate) scheduler: String,
    /// Of each span of time: what each cgroup received, and was due.
    pub(crate) spans: Vec<String>,
    /// The largest |received − due| / due of a cgroup, and of a task, in any span.
    pub(crate) group_error_percent: f64,
    pub(crate) task_error_percent: f64,
    /// What 5 ms are of what the lightest task is due in a span.
    pub(crate) quantum_percent: f64,
}

/// How late tasks that sleep ran among hogs.
#[derive(Serialize, Deserialize)]
pub(crate) struct ResponseRow {
    pub(crate) cpus: usize,
    pub(crate) mix: String,
    pub(crate) scheduler: String,
    /// What they ask for, all that they use in a period, of an equal share of the cpus.
    pub(crate) need_percent: f64,
    /// Periods in which they ran.
    pub(crate) served_percent: f64,
    /// From the time that they wanted to run until they did.
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
    /// What a hog received, as part of the mean.
    pub(crate) least_hog: f64,
    pub(crate) most_hog: f64,
}

/// What real programs did and received, beside encoders.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct AppRow {
    pub(crate) cpus: usize,
    pub(crate) mix: String,
    pub(crate) scheduler: String,
    pub(crate) requests_per_s: Option<f64>,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    pub(crate) compile_s: Option<f64>,
    /// What the server received, in cpus.
    pub(crate) server_cpus: Option<f64>,
    /// What all encoders received, and what one of them did.
    pub(crate) encoders_cpus: f64,
    pub(crate) least_encoder: Option<f64>,
    pub(crate) most_encoder: Option<f64>,
    /// Frames that all of them encoded in a second.
    pub(crate) frames_per_s: f64,
}

/// What a scheduler cost.
#[derive(Serialize, Deserialize)]
pub(crate) struct CostRow {
    pub(crate) cpus: usize,
    pub(crate) scheduler: String,
    pub(crate) hackbench_s: f64,
    /// A switch between two threads of one cpu that send each other a byte, all in all.
    pub(crate) switch_instructions: Option<f64>,
    /// Runnable hogs, and what the end of a slice costs: interrupt, decision and switch.
    pub(crate) turn_instructions: Vec<(usize, f64)>,
}

/// What loading a policy took on a kernel, and what it did there.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct LoadRow {
    /// Its release.
    pub(crate) kernel: String,
    pub(crate) policy: String,
    pub(crate) share_error_percent: f64,
    /// What 5 ms are of the service that the lightest hog is entitled to.
    pub(crate) quantum_percent: f64,
    /// The recording is what the core decides.
    pub(crate) verified: bool,
    pub(crate) programs: Vec<Program>,
    /// Of the whole machine, from the loader's start until it takes commands.
    pub(crate) load_instructions: u64,
}

/// A BPF program, as the verifier saw it.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) name: String,
    /// Followed by the verifier, of at most a million.
    pub(crate) instructions: u64,
    /// States kept at a time. Of jumps that wait for their other side, at most 8192, the verifier
    /// tells no number.
    pub(crate) peak_states: u64,
}

/// A scheduler that did not live through a measurement.
#[derive(Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) cpus: usize,
    pub(crate) why: String,
}

impl Failure {
    /// The measurement, and the last thing that the loader said.
    pub(crate) fn of(cpus: usize, error: &anyhow::Error) -> Failure {
        let said = format!("{error:#}");
        let (first, last) = (said.lines().next(), said.lines().last());
        let why = format!("{} … {}", first.unwrap_or_default(), last.unwrap_or_default());
        Failure { cpus, why }
    }

    pub(crate) fn print(self) {
        Row::Failure(self).print();
    }
}

impl Row {
    /// The row that a line of output is, if it is one.
    pub(crate) fn parse(line: &str) -> Option<Row> {
        serde_json::from_str(line).ok()
    }

    fn print(&self) {
        println!("{}", serde_json::to_string(self).expect("rows have no maps"));
    }
}

impl ShareRow {
    pub(crate) fn print(self) {
        Row::Share(self).print();
    }
}

impl GroupRow {
    pub(crate) fn print(self) {
        Row::Group(self).print();
    }
}

impl ResponseRow {
    pub(crate) fn print(self) {
        Row::Response(self).print();
    }
}

impl AppRow {
    pub(crate) fn print(self) {
        Row::App(self).print();
    }
}

impl CostRow {
    pub(crate) fn print(self) {
        Row::Cost(self).print();
    }
}

impl LoadRow {
    pub(crate) fn print(self) {
        Row::Load(self).print();
    }
}

/// The rows as Markdown.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let mut text = String::new();
    let shares: Vec<&ShareRow> = rows
        .iter()
        .filter_map(|row| if let Row::Share(row) = row { Some(row) } else { None })
        .collect();
    if !shares.is_empty() {
        share_table(&mut text, &shares);
    }
    let groups: Vec<&GroupRow> = rows
        .iter()
        .filter_map(|row| if let Row::Group(row) = row { Some(row) } else { None })
        .collect();
    if !groups.is_empty() {
        group_table(&mut text, &groups);
    }
    let responses: Vec<&ResponseRow> = rows
        .iter()
        .filter_map(|row| if let Row::Response(row) = row { Some(row) } else { None })
        .collect();
    if !responses.is_empty() {
        response_table(&mut text, &responses);
    }
    let apps: Vec<&AppRow> = rows
        .iter()
        .filter_map(|row| if let Row::App(row) = row { Some(row) } else { None })
        .collect();
    if !apps.is_empty() {
        app_table(&mut text, &apps);
    }
    let costs: Vec<&CostRow> = rows
        .iter()
        .filter_map(|row| if let Row::Cost(row) = row { Some(row) } else { None })
        .collect();
    if !costs.is_empty() {
        cost_table(&mut text, &costs);
    }
    let loads: Vec<&LoadRow> = rows
        .iter()
        .filter_map(|row| if let Row::Load(row) = row { Some(row) } else { None })
        .collect();
    if !loads.is_empty() {
        load_table(&mut text, &loads);
    }
    for row in rows {
        if let Row::Failure(Failure { cpus, why }) = row {
            writeln!(text, "* {cpus} cpus: {why}").expect("a string takes all");
        }
    }
    text
}

/// What a command line is called in the tables.
fn short(command_line: &str) -> &str {
    command_line.strip_prefix("scx_prorata --policy ").unwrap_or(command_line)
}

fn share_table(text: &mut String, rows: &[&ShareRow]) {
    let mut line = |words: String| text.write_str(&(words + "\n")).expect("a string takes all");
    line(
        "| cpus | mix | scheduler | largest lag, ms | bound of GR3, ms | share error | 5 ms are \
         | idle, ms |"
            .into(),
    );
    line("|---|---|---|---|---|---|---|---|".into());
    for row in rows {
        line(format!(
            "| {} | {} | {} | {:.1} | {:.0} | {:.2} % | {:.2} % | {:.1} |",
            row.cpus,
            row.mix,
            short(&row.scheduler),
            row.largest_lag_ms,
            row.gr3_bound_ms,
            row.share_error_percent,
            row.quantum_percent,
            row.idle_ms,
        ));
    }
    line(String::new());
}

fn group_table(text: &mut String, rows: &[&GroupRow]) {
    let mut line = |words: String| text.write_str(&(words + "\n")).expect("a string takes all");
    line(
        "| cpus | cgroups | scheduler | received (due), in each span | a cgroup's error | a task's \
         | 5 ms are |"
            .into(),
    );
    line("|---|---|---|---|---|---|---|".into());
    for row in rows {
        line(format!(
            "| {} | {} | {} | {} | {:.2} % | {:.2} % | {:.2} % |",
            row.cpus,
            row.tree,
            short(&row.scheduler),
            row.spans.join("; "),
            row.group_error_percent,
            row.task_error_percent,
            row.quantum_percent,
        ));
    }
    line(String::new());
}

fn response_table(text: &mut String, rows: &[&ResponseRow]) {
    let mut line = |words: String| text.write_str(&(words + "\n")).expect("a string takes all");
    line(
        "| cpus | tasks | scheduler | asked for, of the share | periods served | median wait, ms \
         | 99 % | longest | hogs |"
            .into(),
    );
    line("|---|---|---|---|---|---|---|---|---|".into());
    for row in rows {
        line(format!(
            "| {} | {} | {} | {:.0} % | {:.1} % | {:.2} | {:.2} | {:.1} | {:.3} .. {:.3} |",
            row.cpus,
            row.mix,
            short(&row.scheduler),
            row.need_percent,
            row.served_percent,
            row.p50_ms,
            row.p99_ms,
            row.max_ms,
            row.least_hog,
            row.most_hog,
        ));
    }
    line(String::new());
}

fn app_table(text: &mut String, rows: &[&AppRow]) {
    let mut line = |words: String| text.write_str(&(words + "\n")).expect("a string takes all");
    line(
        "| cpus | programs | scheduler | requests/s | median, ms | 99 % | compile, s | server, cpus \
         | encoders, cpus | one encoder | frames/s |"
            .into(),
    );
    line("|---|---|---|---|---|---|---|---|---|---|---|".into());
    let number =
        |number: Option<f64>, digits| number.map_or("–".into(), |n| format!("{n:.digits$}"));
    for row in rows {
        line(format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {:.3} | {} .. {} | {:.0} |",
            row.cpus,
            row.mix,
            short(&row.scheduler),
            number(row.requests_per_s, 0),
            number(row.p50_ms, 2),
            number(row.p99_ms, 2),
            number(row.compile_s, 2),
            number(row.server_cpus, 3),
            row.encoders_cpus,
            number(row.least_encoder, 4),
            number(row.most_encoder, 4),
            row.frames_per_s,
        ));
    }
    line(String::new());
}

fn cost_table(text: &mut String, rows: &[&CostRow]) {
    let mut line = |words: String| text.write_str(&(words + "\n")).expect("a string takes all");
    line(
        "| cpus | scheduler | switch | turn of 2 | of 10 | of 100 | of 1000 | hackbench, s |"
            .into(),
    );
    line("|---|---|---|---|---|---|---|---|".into());
    for row in rows {
        let count = |count: Option<f64>| count.map_or("–".into(), |n| format!("{n:.0}"));
        let turn = |hogs| {
            count(row.turn_instructions.iter().find(|turn| turn.0 == hogs).map(|turn| turn.1))
        };
        line(format!(
            "| {} | {} | {} | {} | {} | {} | {} | {:.3} |",
            row.cpus,
            short(&row.scheduler),
            count(row.switch_instructions),
            turn(2),
            turn(10),
            turn(100),
            turn(1000),
            row.hackbench_s
        ));
    }
    line(String::new());
}

/// The programs that hold much of a policy; the others are told by the largest of them.
const LARGE_PROGRAMS: &[&str] =
    &["enqueue", "dispatch", "quiescent", "set_weight", "disable", "weight_call"];

fn load_table(text: &mut String, rows: &[&LoadRow]) {
    let mut line = |words: String| text.write_str(&(words + "\n")).expect("a string takes all");
    line(format!(
        "| kernel | policy | share error | 5 ms are | recording | 10^6 to load | {} | others |",
        LARGE_PROGRAMS.join(" | ")
    ));
    line(format!("|---|---|---|---|---|---|{}---|", "---|".repeat(LARGE_PROGRAMS.len())));
    for row in rows {
        let large = |program: &&Program| {
            let name = program.name.trim_start_matches("prorata_");
            LARGE_PROGRAMS.iter().position(|large| *large == name)
        };
        let mut columns = vec![(0, 0); LARGE_PROGRAMS.len() + 1];
        for program in &row.programs {
            let column = &mut columns[large(&program).unwrap_or(LARGE_PROGRAMS.len())];
            column.0 = program.instructions.max(column.0);
            column.1 = program.peak_states.max(column.1);
        }
        let columns: Vec<String> = columns
            .iter()
            .map(|(instructions, states)| format!("{instructions} · {states}"))
            .collect();
        line(format!(
            "| {} | {} | {:.2} % | {:.2} % | {} | {:.0} | {} |",
            row.kernel.split(['+', '-']).next().unwrap_or_default(),
            row.policy,
            row.share_error_percent,
            row.quantum_percent,
            if row.verified { "verified" } else { "differs" },
            row.load_instructions as f64 / 1e6,
            columns.join(" | ")
        ));
    }
    line(String::new());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_survives_the_way_to_the_host() {
        let row = CostRow {
            cpus: 1,
            scheduler: "scx_prorata --policy gr3".into(),
            hackbench_s: 1.5,
            switch_instructions: Some(5622.0),
            turn_instructions: vec![(2, 9000.0)],
        };
        let line = serde_json::to_string(&Row::Cost(row)).unwrap();
        let table = markdown(&[Row::parse(&line).unwrap()]);
        assert!(table.contains("| 1 | gr3 | 5622 | 9000 | – | – | – | 1.500 |"), "{table}");
        assert!(Row::parse("loading").is_none());
    }
}

//! A report as a table or CSV.

use std::fmt::Write as _;

use anyhow::Context as _;
use prorata_run::{Exit, Report};

/// What the numbers say.
const LEGEND: &str = "
The ideal: fluid GMS fed with what each command would ask for alone, on as many cpu seconds as all received
due, received: parts of these; error: service minus the ideal's, least and greatest; 0 is exact
";

pub(super) fn table(report: &Report) -> String {
    let mut out = format!(
        "{} on {} by {}, quantum {} ms, {:.3} s; prorata itself used {:.3} s of cpu ({:.2} %)\n",
        report.policy,
        cpus(report.cpus),
        report.backend,
        report.quantum_ms,
        report.duration_s,
        report.overhead_cpu_s,
        report.overhead_cpu_s / report.duration_s * 100.0,
    );
    let heading = ["weight", "due", "received", "cpu s", "error, quanta", "exit", "command"];
    let rows = report.tasks.iter().map(|task| {
        [
            task.weight.to_string(),
            format!("{:.3}%", task.entitled_share * 100.0),
            format!("{:.3}%", task.received_share * 100.0),
            format!("{:.3}", task.cpu_s),
            format!("{:.2}..{:.2}", task.error_min_quanta, task.error_max_quanta),
            exit(task.exit),
            task.command.clone(),
        ]
    });
    let rows: Vec<[String; 7]> = [heading.map(str::to_owned)].into_iter().chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..7).map(|column| width(column).unwrap_or(0)).collect();
    for row in &rows {
        for (cell, width) in row[..6].iter().zip(&widths) {
            let _ = write!(out, "{cell:>width$}  ");
        }
        out += &row[6];
        out.push('\n');
    }
    out + LEGEND
}

pub(super) fn cpus(count: usize) -> String {
    if count == 1 { "1 cpu".to_owned() } else { format!("{count} cpus") }
}

/// An empty cell: it still ran at the end.
fn exit(exit: Option<Exit>) -> String {
    match exit {
        Some(Exit::Code(code)) => code.to_string(),
        Some(Exit::Signal(name)) => name.to_owned(),
        None => String::new(),
    }
}

/// One line a task; the columns are the keys of the JSON form, those of the run first.
pub(super) fn csv(report: &Report) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record([
        "policy",
        "backend",
        "cpus",
        "quantum_ms",
        "duration_s",
        "overhead_cpu_s",
        "command",
        "weight",
        "entitled_share",
        "received_share",
        "cpu_s",
        "error_min_quanta",
        "error_max_quanta",
        "exit",
    ])?;
    for task in &report.tasks {
        writer.write_record([
            report.policy.clone(),
            report.backend.to_owned(),
            report.cpus.to_string(),
            report.quantum_ms.to_string(),
            report.duration_s.to_string(),
            report.overhead_cpu_s.to_string(),
            task.command.clone(),
            task.weight.to_string(),
            task.entitled_share.to_string(),
            task.received_share.to_string(),
            task.cpu_s.to_string(),
            task.error_min_quanta.to_string(),
            task.error_max_quanta.to_string(),
            exit(task.exit),
        ])?;
    }
    String::from_utf8(writer.into_inner()?).context("a command is not UTF-8")
}

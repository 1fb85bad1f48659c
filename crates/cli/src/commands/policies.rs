//! `prorata policies`: the registry as a table.

use std::process::ExitCode;

use clap::ValueEnum;
use prorata::policies::{Entry, REGISTRY};
use serde::Serialize;

use super::policy::options;

/// List the policies: paper, bound, cost, where they run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to print.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// For people: three lines a policy.
    Table,
    /// One JSON array, an object a policy.
    Json,
    /// A table for a README.
    Markdown,
}

impl Args {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        super::print(&match self.format {
            Format::Table => table(),
            Format::Json => json()? + "\n",
            Format::Markdown => markdown(),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn table() -> String {
    let widest = REGISTRY.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for entry in REGISTRY {
        let Entry { name, title, paper, bound, .. } = entry;
        text += &format!("{name:widest$}  {title}\n");
        text += &format!("{:widest$}  {paper}\n", "");
        text +=
            &format!("{:widest$}  error {}; {}; {}\n", "", bound.text, cost(entry), cpus(entry));
        for (option, default, meaning) in options(entry) {
            text += &format!("{:widest$}  {name}:{option}={default}  {meaning}\n", "");
        }
    }
    text
}

/// Pick, insert and remove in one.
fn cost(entry: &Entry) -> String {
    let cost = entry.cost;
    if cost.insert == cost.remove {
        return format!("O({}) pick, O({}) wake and block", cost.pick, cost.insert);
    }
    format!("O({}) pick, O({}) wake, O({}) block", cost.pick, cost.insert, cost.remove)
}

fn cpus(entry: &Entry) -> &'static str {
    match (entry.multiprocessor, entry.work_conserving) {
        (true, true) => "any number of cpus",
        (true, false) => "any number of cpus, may idle beside a waiting task",
        (false, true) => "one cpu",
        (false, false) => "one cpu, may idle beside a waiting task",
    }
}

fn markdown() -> String {
    let mut text = String::from(
        "| policy | what it is | paper | service error e, in quanta | pick | wake, block | cpus |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for entry in REGISTRY {
        let Entry { name, title, paper, bound, cost, .. } = entry;
        let queue = match cost.insert == cost.remove {
            true => format!("O({})", cost.insert),
            false => format!("O({}), O({})", cost.insert, cost.remove),
        };
        let cpus = if entry.multiprocessor { "any" } else { "1" };
        let idles = if entry.work_conserving { "" } else { ", may idle" };
        text += &format!(
            "| `{name}` | {title} | {paper} | {} | O({}) | {queue} | {cpus}{idles} |\n",
            bound.text, cost.pick,
        );
    }
    text
}

/// One policy for programs.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    title: &'static str,
    paper: &'static str,
    bound: Bound,
    cost: Cost,
    multiprocessor: bool,
    work_conserving: bool,
    options: Vec<Choice>,
}

#[derive(Serialize)]
struct Bound {
    text: &'static str,
    /// Whether tests hold the policy to a limit on either side, and to 0 after every cycle.
    lower_checked: bool,
    upper_checked: bool,
    exact_each_cycle: bool,
}

#[derive(Serialize)]
struct Cost {
    pick: &'static str,
    insert: &'static str,
    remove: &'static str,
}

#[derive(Serialize)]
struct Choice {
    name: &'static str,
    default: &'static str,
    meaning: &'static str,
}

fn json() -> anyhow::Result<String> {
    let rows: Vec<Row> = REGISTRY.iter().map(row).collect();
    Ok(serde_json::to_string_pretty(&rows)?)
}

fn row(entry: &Entry) -> Row {
    let (bound, cost) = (entry.bound, entry.cost);
    let choice = |(name, default, meaning)| Choice { name, default, meaning };
    Row {
        name: entry.name,
        title: entry.title,
        paper: entry.paper,
        bound: Bound {
            text: bound.text,
            lower_checked: bound.lower.is_some(),
            upper_checked: bound.upper.is_some(),
            exact_each_cycle: bound.exact_each_cycle,
        },
        cost: Cost { pick: cost.pick, insert: cost.insert, remove: cost.remove },
        multiprocessor: entry.multiprocessor,
        work_conserving: entry.work_conserving,
        options: options(entry).into_iter().map(choice).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_names_every_policy() {
        let (table, markdown) = (table(), markdown());
        let json: serde_json::Value =
            serde_json::from_str(&json().expect("it serializes")).expect("it is JSON");
        assert_eq!(json.as_array().map(Vec::len), Some(REGISTRY.len()));
        for (i, entry) in REGISTRY.iter().enumerate() {
            assert_eq!(json[i]["name"], entry.name);
            assert!(table.contains(entry.title), "{}", entry.name);
            assert!(markdown.contains(&format!("| `{}` |", entry.name)), "{}", entry.name);
            let sleepers = if entry.by_weight { "corrected" } else { "paper" };
            let option = format!("{}:sleepers={sleepers} ", entry.name);
            assert!(table.contains(&option), "{}", entry.name);
        }
    }

    /// A `|` in a text would break the table.
    #[test]
    fn every_line_of_the_markdown_has_seven_columns() {
        assert!(markdown().lines().all(|line| line.matches('|').count() == 8));
    }
}

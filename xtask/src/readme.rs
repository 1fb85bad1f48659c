//! `cargo xtask readme`: the README's table of policies, from the registry.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use prorata::policies::{Entry, REGISTRY};

use crate::shell;

const BEGIN: &str = "<!-- policies: made by `cargo xtask readme` -->\n";
const END: &str = "<!-- end of policies -->";

#[derive(clap::Args)]
pub(crate) struct Args {}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        let (old, new) = old_and_new()?;
        if old != new {
            fs::write(shell::workspace().join("README.md"), new)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The table in the README is the registry's.
pub(crate) fn check() -> Result<()> {
    let (old, new) = old_and_new()?;
    if old != new {
        bail!("the README's table of policies is out of date: run `cargo xtask readme`");
    }
    Ok(())
}

/// The README as it is and as it should be.
fn old_and_new() -> Result<(String, String)> {
    let path = shell::workspace().join("README.md");
    let old = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let (before, rest) = old.split_once(BEGIN).context("README.md has no mark for the table")?;
    let (_, after) = rest.split_once(END).context("README.md has no mark for the table's end")?;
    let build = shell::workspace().join("crates/scx/objects/build.rs");
    let build = fs::read_to_string(&build).with_context(|| build.display().to_string())?;
    let new = format!("{before}{BEGIN}{}{END}{after}", table(&build));
    Ok((old, new))
}

fn table(build: &str) -> String {
    let mut table = String::from(
        "| policy | paper | bound on the service error, quanta | pick · insert · remove | cpus | kernel |\n\
         |---|---|---|---|---|---|\n",
    );
    for entry in REGISTRY {
        let Entry { name, title, paper, bound, cost, multiprocessor, .. } = entry;
        let cost = format!("O({}) · O({}) · O({})", cost.pick, cost.insert, cost.remove);
        let cpus = if *multiprocessor { "any" } else { "1" };
        let kernel = if in_kernel(name, build) { "yes" } else { "" };
        let bound = bound.text.replace('|', "\\|");
        let row =
            format!("| `{name}` {title} | {paper} | {bound} | {cost} | {cpus} | {kernel} |\n");
        table.push_str(&row);
    }
    table
}

/// Whether scx_prorata has the policy: its build makes an object of it.
fn in_kernel(name: &str, build: &str) -> bool {
    build.contains(&format!("\"{}\"", name.replace('-', "_")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: [&str; 10] =
        ["none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];

    /// The README says how many bounds are asserted: the suite holds each entry to its claims.
    #[test]
    fn as_many_bounds_as_the_readme_says() {
        let count = |of: &dyn Fn(&Entry) -> bool| REGISTRY.iter().filter(|entry| of(entry)).count();
        let decision = |entry: &Entry| entry.bound.upper.is_some();
        let cycle = |entry: &Entry| !decision(entry) && entry.bound.exact_each_cycle;
        let none = |entry: &Entry| !decision(entry) && !cycle(entry);
        let halves = REGISTRY.iter().filter(|entry| decision(entry) && entry.bound.lower.is_none());
        let halves: Vec<&str> = halves.map(|entry| entry.name).collect();
        let sentence = format!(
            "on every decision for the {} policies that have such a bound ({} have only the \
             upper one), after every Φ quanta on one cpu for {}. The other {} claim nothing that \
             could be asserted there.",
            count(&decision),
            halves.join(" and "),
            NUMBERS[count(&cycle)],
            NUMBERS[count(&none)],
        );
        let readme = fs::read_to_string(shell::workspace().join("README.md")).expect("a README");
        let words = readme.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&sentence), "{sentence}");
    }
}
